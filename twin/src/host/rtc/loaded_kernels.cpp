// Kernels from binaries in memory, and their launches by handles.
#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "acl/acl_rt.h"
#include "host/acl/device_memory.h"
#include "host/acl/errors.h"
#include "host/acl/handle_table.h"
#include "host/acl/process.h"
#include "kernel/exec/text.h"
#include "opforge_twin/program.h"

using namespace opforge::twin::host;  // NOLINT: definitions of the C API follow
using opforge::twin::kernel::Text;
using opforge::twin::program::Grid;
using opforge::twin::program::KernelEntry;

namespace {

/// The code stays loaded: queued launches use it, and reports read its source lines through the open file.
struct Binary {
    void* library;
};

struct Function {
    const KernelEntry* entry;
};

/// The values of the parameters of a launch.
struct Arguments {
    const KernelEntry* entry;
    std::deque<std::vector<uint8_t>> values{};
    bool isFinal = false;
};

template <typename T>
std::shared_ptr<T> Require(const char* function, const char* parameter, const void* handle, const char* origin,
                           aclError& status)
{
    std::shared_ptr<T> found = HandleTable<T>::Instance().Share(handle);
    if (found == nullptr) {
        status = Fail(ACL_ERROR_INVALID_PARAM,
                      Text(function, ": ", parameter, " is no live handle; expected a result of ", origin));
    }
    return found;
}

bool WriteAll(int file, const uint8_t* data, size_t bytes)
{
    while (bytes != 0) {
        const ssize_t done = write(file, data, bytes);
        if (done < 0 && errno != EINTR) {
            return false;
        }
        data += done < 0 ? 0 : done;
        bytes -= done < 0 ? 0 : static_cast<size_t>(done);
    }
    return true;
}

aclError Load(const std::string& path, const char* problem, const char* expected, aclrtBinHandle* binHandle)
{
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, Text(problem, dlerror(), "; expected ", expected));
    }
    *binHandle = HandleTable<Binary>::Instance().Create(Binary{library});
    return ACL_SUCCESS;
}

aclError Launch(const char* function, const KernelEntry& entry, uint32_t blocks, aclrtStream stream,
                const aclrtLaunchKernelCfg* cfg, void** values)
{
    aclError status = ACL_SUCCESS;
    if (RequireStream(function, stream, status) == nullptr) {
        return status;
    }
    if (cfg != nullptr && cfg->numAttrs != 0) {
        return Fail(ACL_ERROR_API_NOT_SUPPORT, Text(function, ": cfg has ", cfg->numAttrs,
                                                    " attributes, expected none in the CPU twin; pass null"));
    }
    if (values == nullptr && entry.count != 0) {
        return Fail(ACL_ERROR_INVALID_PARAM,
                    Text(function, ": args is null, expected pointers to ", entry.count, " values"));
    }
    entry.launch(entry, Grid(blocks, nullptr, stream), values);
    return ACL_SUCCESS;
}

}  // namespace

aclError aclrtBinaryLoadFromData(const void* data, size_t length, const aclrtBinaryLoadOptions* options,
                                 aclrtBinHandle* binHandle)
{
    constexpr const char* kFunction = "aclrtBinaryLoadFromData";
    (void)options;  // the twin knows the kind of a kernel
    if (data == nullptr || binHandle == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, Text(kFunction, ": ", data == nullptr ? "data" : "binHandle", " is null"));
    }
    const int file = OpenMemoryFile("kernels");
    if (file < 0 || !WriteAll(file, static_cast<const uint8_t*>(data), length)) {
        return Fail(ACL_ERROR_BAD_ALLOC, Text(kFunction, ": no memory for ", length, " bytes: ", std::strerror(errno)));
    }
    const aclError status =
        Load(Text("/proc/self/fd/", file),
             "aclrtBinaryLoadFromData: data: ", "a result of aclrtcGetBinData of the CPU twin", binHandle);
    if (status != ACL_SUCCESS) {
        close(file);
    }
    return status;
}

aclError aclrtBinaryLoadFromFile(const char* binPath, aclrtBinaryLoadOptions* options, aclrtBinHandle* binHandle)
{
    (void)options;
    if (binPath == nullptr || binHandle == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM,
                    Text("aclrtBinaryLoadFromFile: ", binPath == nullptr ? "binPath" : "binHandle", " is null"));
    }
    if (*binPath != '/') {
        return Fail(ACL_ERROR_INVALID_PARAM,
                    Text("aclrtBinaryLoadFromFile: binPath is '", binPath, "', expected an absolute path"));
    }
    return Load(binPath,
                "aclrtBinaryLoadFromFile: binPath: ", "a file that ascendc_fatbin_library makes with the CPU twin",
                binHandle);
}

aclError aclrtBinaryUnLoad(aclrtBinHandle binHandle)
{
    return HandleTable<Binary>::Instance().Destroy(static_cast<Binary*>(binHandle))
               ? ACL_SUCCESS
               : Fail(ACL_ERROR_INVALID_PARAM,
                      "aclrtBinaryUnLoad: binHandle is no live handle; expected a result of "
                      "aclrtBinaryLoadFromData or aclrtBinaryLoadFromFile");
}

aclError aclrtBinaryGetFunction(aclrtBinHandle binHandle, const char* kernelName, aclrtFuncHandle* funcHandle)
{
    constexpr const char* kFunction = "aclrtBinaryGetFunction";
    aclError status = ACL_SUCCESS;
    const auto binary = Require<Binary>(kFunction, "binHandle", binHandle,
                                        "aclrtBinaryLoadFromFile or aclrtBinaryLoadFromData", status);
    if (binary == nullptr) {
        return status;
    }
    if (kernelName == nullptr || funcHandle == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, Text(kFunction, ": kernelName or funcHandle is null"));
    }
    const void* const entry = dlsym(binary->library, Text("opforgeKernel_", kernelName).c_str());
    if (entry == nullptr) {
        return Fail(ACL_ERROR_KERNEL_NOT_FOUND,
                    Text(kFunction, ": got '", kernelName,
                         "', expected a kernel that is declared extern \"C\", or a result of aclrtcGetLoweredName"));
    }
    *funcHandle = HandleTable<Function>::Instance().Create(Function{static_cast<const KernelEntry*>(entry)});
    return ACL_SUCCESS;
}

aclError aclrtLaunchKernelWithArgsArray(void* func, uint32_t numBlocks, aclrtStream stream, aclrtLaunchKernelCfg* cfg,
                                        void** args)
{
    constexpr const char* kFunction = "aclrtLaunchKernelWithArgsArray";
    aclError status = ACL_SUCCESS;
    const auto function = Require<Function>(kFunction, "func", func, "aclrtBinaryGetFunction", status);
    return function == nullptr ? status : Launch(kFunction, *function->entry, numBlocks, stream, cfg, args);
}

aclError aclrtKernelArgsInit(aclrtFuncHandle funcHandle, aclrtArgsHandle* argsHandle)
{
    constexpr const char* kFunction = "aclrtKernelArgsInit";
    aclError status = ACL_SUCCESS;
    const auto function = Require<Function>(kFunction, "funcHandle", funcHandle, "aclrtBinaryGetFunction", status);
    if (function == nullptr) {
        return status;
    }
    if (argsHandle == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, Text(kFunction, ": argsHandle is null"));
    }
    *argsHandle = HandleTable<Arguments>::Instance().Create(Arguments{function->entry});
    return ACL_SUCCESS;
}

aclError aclrtKernelArgsAppend(aclrtArgsHandle argsHandle, void* param, size_t paramSize, aclrtParamHandle* paramHandle)
{
    constexpr const char* kFunction = "aclrtKernelArgsAppend";
    aclError status = ACL_SUCCESS;
    const auto arguments = Require<Arguments>(kFunction, "argsHandle", argsHandle, "aclrtKernelArgsInit", status);
    if (arguments == nullptr) {
        return status;
    }
    const size_t number = arguments->values.size();
    const KernelEntry& entry = *arguments->entry;
    if (param == nullptr || paramHandle == nullptr || arguments->isFinal) {
        return Fail(ACL_ERROR_INVALID_PARAM,
                    Text(kFunction, arguments->isFinal ? ": called after aclrtKernelArgsFinalize"
                                                       : ": param or paramHandle is null"));
    }
    if (number >= entry.count || paramSize != entry.sizes[number]) {
        return Fail(ACL_ERROR_INVALID_PARAM,
                    number >= entry.count
                        ? Text(kFunction, ": ", entry.kernel, " has ", entry.count, " parameters, got one more value")
                        : Text(kFunction, ": paramSize of parameter ", number, " of ", entry.kernel, " is ", paramSize,
                               ", expected ", entry.sizes[number]));
    }
    const auto* const bytes = static_cast<const uint8_t*>(param);
    *paramHandle = arguments->values.emplace_back(bytes, bytes + paramSize).data();
    return ACL_SUCCESS;
}

aclError aclrtKernelArgsFinalize(aclrtArgsHandle argsHandle)
{
    aclError status = ACL_SUCCESS;
    const auto arguments =
        Require<Arguments>("aclrtKernelArgsFinalize", "argsHandle", argsHandle, "aclrtKernelArgsInit", status);
    if (arguments != nullptr) {
        arguments->isFinal = true;
    }
    return status;
}

aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle funcHandle, uint32_t numBlocks, aclrtStream stream,
                                     aclrtLaunchKernelCfg* cfg, aclrtArgsHandle argsHandle, void* reserve)
{
    constexpr const char* kFunction = "aclrtLaunchKernelWithConfig";
    (void)reserve;
    aclError status = ACL_SUCCESS;
    const auto function = Require<Function>(kFunction, "funcHandle", funcHandle, "aclrtBinaryGetFunction", status);
    if (function == nullptr) {
        return status;
    }
    const auto arguments = Require<Arguments>(kFunction, "argsHandle", argsHandle, "aclrtKernelArgsInit", status);
    if (arguments == nullptr) {
        return status;
    }
    if (arguments->entry != function->entry || !arguments->isFinal ||
        arguments->values.size() != function->entry->count) {
        return Fail(ACL_ERROR_INVALID_PARAM,
                    Text(kFunction, ": argsHandle has ", arguments->values.size(), " values of ",
                         arguments->entry->kernel, arguments->isFinal ? "" : " without aclrtKernelArgsFinalize",
                         ", expected all ", function->entry->count, " values of ", function->entry->kernel));
    }
    std::vector<void*> pointers;
    for (std::vector<uint8_t>& value : arguments->values) {
        pointers.push_back(value.data());
    }
    return Launch(kFunction, *function->entry, numBlocks, stream, cfg, pointers.data());
}
