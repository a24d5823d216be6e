// aclInit, aclFinalize, devices and contexts.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "acl/acl.h"
#include "host/acl/capture.h"
#include "host/acl/device_memory.h"
#include "host/acl/errors.h"
#include "host/acl/pinned_memory.h"
#include "host/acl/handle_table.h"
#include "host/gert/platform.h"
#include "host/acl/process.h"
#include "host/program/program.h"
#include "kernel/exec/text.h"
#include "opdev/common_types.h"
#include "opdev/op_executor.h"

namespace opforge::twin::host {

namespace {

using kernel::Text;

constexpr uint32_t kDeviceCount = 1;

using Contexts = HandleTable<Context>;
using Streams = HandleTable<StreamHandle>;

/// The context of a device, and the calls of aclrtSetDevice without aclrtResetDevice.
struct Device {
    Context* context = nullptr;
    uint32_t uses = 0;
};

struct Process {
    std::mutex lock;
    bool isInitialised = false;
    pid_t id = 0;                       ///< process that called aclInit
    std::map<int32_t, Device> devices;  ///< that aclrtSetDevice has selected
};

Process& TheProcess()
{
    static auto* process = new Process();
    return *process;
}

thread_local Context* current = nullptr;

aclError CheckInitialised(const char* function)
{
    Process& process = TheProcess();
    const std::lock_guard<std::mutex> guard(process.lock);
    return process.isInitialised ? ACL_SUCCESS : Fail(ACL_ERROR_UNINITIALIZE, Text(function, ": call aclInit first"));
}

aclError CheckDevice(const char* function, int32_t deviceId)
{
    if (deviceId >= 0 && deviceId < static_cast<int32_t>(kDeviceCount)) {
        return ACL_SUCCESS;
    }
    return Fail(ACL_ERROR_RT_INVALID_DEVICEID,
                Text(function, ": got device ", deviceId, ", expected 0 to ", kDeviceCount - 1));
}

/// Number of contexts from aclrtCreateContext. Contexts from aclrtSetDevice are destroyed with their device.
size_t OwnContexts()
{
    Process& process = TheProcess();
    const std::lock_guard<std::mutex> guard(process.lock);
    size_t count = Contexts::Instance().Count();
    for (const auto& [id, device] : process.devices) {
        count -= Contexts::Instance().IsLive(device.context) ? 1 : 0;
    }
    return count;
}

template <typename T>
void ReportLeft(const char* function, const char* what, const char* remedy)
{
    if (const size_t count = HandleTable<T>::Instance().Count(); count != 0) {
        std::fprintf(stderr, "%s: %zu %s left; release them with %s\n", function, count, what, remedy);
    }
}

/// As in CANN, a leak is not an error: the calls succeed and stderr lists the leaked objects.
void ReportDeviceLeaks(const char* function)
{
    DeviceMemory& memory = DeviceMemory::Instance();
    if (const size_t count = memory.LiveCount(); count != 0) {
        std::fprintf(stderr, "%s: %zu device allocations (%zu bytes) left; release them with aclrtFree\n", function,
                     count, memory.TotalBytes() - memory.FreeBytes());
    }
    ReportLeft<StreamHandle>(function, "streams", "aclrtDestroyStream");
    ReportLeft<Event>(function, "events", "aclrtDestroyEvent");
}

void ReportObjectLeaks(const char* function)
{
    PinnedMemory& pinned = PinnedMemory::Instance();
    if (const size_t count = pinned.LiveCount(); count != 0) {
        std::fprintf(stderr, "%s: %zu host allocations (%zu bytes) left; release them with aclrtFreeHost\n", function,
                     count, pinned.LiveBytes());
    }
    if (const size_t count = OwnContexts(); count != 0) {
        std::fprintf(stderr, "%s: %zu contexts left; release them with aclrtDestroyContext\n", function, count);
    }
    ReportLeft<Capture>(function, "models", "aclmdlRIDestroy");
    ReportLeft<aclOpExecutor>(function, "executors", "their second phase or aclDestroyAclOpExecutor");
    ReportLeft<aclTensor>(function, "tensors", "aclDestroyTensor");
    ReportLeft<aclTensorList>(function, "tensor lists", "aclDestroyTensorList");
    ReportLeft<aclIntArray>(function, "int arrays", "aclDestroyIntArray");
    ReportLeft<aclFloatArray>(function, "float arrays", "aclDestroyFloatArray");
    ReportLeft<aclBoolArray>(function, "bool arrays", "aclDestroyBoolArray");
    ReportLeft<aclScalar>(function, "scalars", "aclDestroyScalar");
    ReportLeft<aclScalarList>(function, "scalar lists", "aclDestroyScalarList");
}

void AtExit()
{
    Process& process = TheProcess();
    if (getpid() != process.id) {
        return;  // forked child: the stream threads exist only in the parent, and the parent reports the leaks
    }
    FinishStreams();  // the tasks use libraries and objects that are destroyed next
    {
        const std::lock_guard<std::mutex> guard(process.lock);
        if (!process.isInitialised) {
            return;
        }
    }
    std::fprintf(stderr, "exit: aclFinalize was not called; call it before the process ends\n");
    ReportDeviceLeaks("exit");
    ReportObjectLeaks("exit");
}

/// Removes a use of the device, or all uses; the last one releases the streams and the memory.
aclError ResetDevice(const char* function, int32_t deviceId, bool isLast)
{
    const aclError status = CheckDevice(function, deviceId);
    if (status != ACL_SUCCESS) {
        return status;
    }
    Process& process = TheProcess();
    Context* context = nullptr;
    {
        const std::lock_guard<std::mutex> guard(process.lock);
        Device& device = process.devices[deviceId];
        if (device.uses == 0) {
            return Fail(ACL_ERROR_RT_CONTEXT_NULL,
                        Text(function, ": device ", deviceId, " is not in use; aclrtSetDevice comes first"));
        }
        device.uses = isLast ? 0 : device.uses - 1;
        if (device.uses != 0) {
            return ACL_SUCCESS;
        }
        context = std::exchange(device.context, nullptr);
    }
    ReportDeviceLeaks(function);
    for (const std::shared_ptr<StreamHandle>& stream : Streams::Instance().Live()) {
        Streams::Instance().Destroy(stream.get());
    }
    Contexts::Instance().Destroy(context);
    DeviceMemory::Instance().Clear();
    current = nullptr;
    return ACL_SUCCESS;
}

}  // namespace

void FinishStreams()
{
    for (const std::shared_ptr<Context>& context : Contexts::Instance().Live()) {
        context->defaultStream.Wait(std::nullopt);
    }
    for (const std::shared_ptr<StreamHandle>& handle : Streams::Instance().Live()) {
        handle->stream.Wait(std::nullopt);
    }
}

bool AreStreamsIdle()
{
    const auto contexts = Contexts::Instance().Live();
    const auto streams = Streams::Instance().Live();
    return std::all_of(contexts.begin(), contexts.end(), [](const auto& one) { return one->defaultStream.IsIdle(); }) &&
           std::all_of(streams.begin(), streams.end(), [](const auto& one) { return one->stream.IsIdle(); });
}

size_t StreamThreads()
{
    return Contexts::Instance().Count() + Streams::Instance().Count();
}

void AbandonStreams()
{
    Process& process = TheProcess();
    process.isInitialised = false;
    process.devices.clear();
    current = nullptr;
    AbandonCaptures();
    Streams::Instance().Abandon();
    Contexts::Instance().Abandon();
}

std::shared_ptr<Context> RequireContext(const char* function, aclError& status)
{
    status = CheckInitialised(function);
    if (status != ACL_SUCCESS) {
        return nullptr;
    }
    std::shared_ptr<Context> context = Contexts::Instance().Share(current);
    if (context == nullptr) {
        status = Fail(ACL_ERROR_RT_CONTEXT_NULL, Text(function,
                                                      ": this thread has no context; call aclrtSetDevice or "
                                                      "aclrtSetCurrentContext in it first"));
        return nullptr;
    }
    return context;
}

std::shared_ptr<Stream> RequireStream(const char* function, aclrtStream stream, aclError& status)
{
    const std::shared_ptr<Context> context = RequireContext(function, status);
    if (context == nullptr) {
        return nullptr;
    }
    if (stream == nullptr) {
        if (!ActiveCaptures().empty()) {
            status = Fail(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
                          Text(function,
                               ": not allowed with the default stream during a capture; use one of "
                               "aclrtCreateStream"));
            return nullptr;
        }
        return {context, &context->defaultStream};
    }
    const std::shared_ptr<StreamHandle> handle = Streams::Instance().Share(stream);
    if (handle == nullptr) {
        status = Fail(ACL_ERROR_RT_PARAM_INVALID,
                      Text(function, ": the stream is not one that aclrtCreateStream made, or it was destroyed"));
        return nullptr;
    }
    if (handle->context != context.get()) {
        status =
            Fail(ACL_ERROR_RT_STREAM_CONTEXT, Text(function,
                                                   ": the stream belongs to another context than this thread's; call "
                                                   "aclrtSetCurrentContext with the context it was created in"));
        return nullptr;
    }
    return {handle, &handle->stream};
}

}  // namespace opforge::twin::host

using namespace opforge::twin::host;  // NOLINT: definitions of the C API follow
using opforge::twin::kernel::Text;

aclError aclInit(const char* configPath)
{
    if (configPath != nullptr && configPath[0] != '\0') {
        std::FILE* const file = std::fopen(configPath, "r");
        if (file == nullptr) {
            return Fail(ACL_ERROR_INVALID_PARAM, Text("aclInit: cannot read ", configPath));
        }
        std::fclose(file);
    }
    Process& process = TheProcess();
    const std::lock_guard<std::mutex> guard(process.lock);
    if (process.isInitialised) {
        return Fail(ACL_ERROR_REPEAT_INITIALIZE, "aclInit: called before; a process initialises once");
    }
    process.isInitialised = true;
    process.id = getpid();
    static const bool isWatched = std::atexit(AtExit) == 0;
    (void)isWatched;
    return ACL_SUCCESS;
}

aclError aclFinalize()
{
    Process& process = TheProcess();
    {
        const std::lock_guard<std::mutex> guard(process.lock);
        if (!process.isInitialised) {
            return Fail(ACL_ERROR_UNINITIALIZE, "aclFinalize: aclInit was not called");
        }
        process.isInitialised = false;
    }
    ReportDeviceLeaks("aclFinalize");
    ReportObjectLeaks("aclFinalize");
    return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t deviceId)
{
    if (IsProgram() && CheckInitialised("aclrtSetDevice") != ACL_SUCCESS) {
        ClearErrors();
        aclInit(nullptr);  // public programs rely on this; a library of operators must not
    }
    aclError status = CheckInitialised("aclrtSetDevice");
    status = status == ACL_SUCCESS ? CheckDevice("aclrtSetDevice", deviceId) : status;
    if (status != ACL_SUCCESS) {
        return status;
    }
    Process& process = TheProcess();
    const std::lock_guard<std::mutex> guard(process.lock);
    Device& device = process.devices[deviceId];
    if (device.uses++ == 0) {
        device.context = Contexts::Instance().Create();
        device.context->device = deviceId;
    }
    current = device.context;
    return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t deviceId)
{
    return ResetDevice("aclrtResetDevice", deviceId, false);
}

aclError aclrtResetDeviceForce(int32_t deviceId)
{
    return ResetDevice("aclrtResetDeviceForce", deviceId, true);
}

aclError aclrtGetDevice(int32_t* deviceId)
{
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Context> context = RequireContext("aclrtGetDevice", status);
    if (context == nullptr) {
        return status;
    }
    if (deviceId == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtGetDevice: deviceId is null");
    }
    *deviceId = context->device;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t* count)
{
    if (count == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtGetDeviceCount: count is null");
    }
    *count = kDeviceCount;
    return ACL_SUCCESS;
}

const char* aclrtGetSocName()
{
    return CurrentSoc().name;
}

aclError aclrtGetRunMode(aclrtRunMode* runMode)
{
    if (runMode == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtGetRunMode: runMode is null");
    }
    *runMode = ACL_HOST;
    return ACL_SUCCESS;
}

aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion)
{
    if (majorVersion == nullptr || minorVersion == nullptr || patchVersion == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtGetVersion: a version is null");
    }
    // Version of the acl interface, not of a toolkit.
    *majorVersion = 1;
    *minorVersion = 14;
    *patchVersion = 0;
    return ACL_SUCCESS;
}

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId)
{
    aclError status = CheckInitialised("aclrtCreateContext");
    status = status == ACL_SUCCESS ? CheckDevice("aclrtCreateContext", deviceId) : status;
    if (status != ACL_SUCCESS) {
        return status;
    }
    if (context == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtCreateContext: context is null");
    }
    current = Contexts::Instance().Create();
    current->device = deviceId;
    *context = current;
    return ACL_SUCCESS;
}

aclError aclrtDestroyContext(aclrtContext context)
{
    Process& process = TheProcess();
    {
        const std::lock_guard<std::mutex> guard(process.lock);
        for (const auto& [id, device] : process.devices) {
            if (device.context == context && context != nullptr) {
                return Fail(ACL_ERROR_RT_PARAM_INVALID,
                            Text("aclrtDestroyContext: this is the default context of device ", id,
                                 "; aclrtResetDevice ends it"));
            }
        }
    }
    if (!Contexts::Instance().Destroy(static_cast<Context*>(context))) {
        return Fail(ACL_ERROR_RT_PARAM_INVALID,
                    "aclrtDestroyContext: not a context of aclrtCreateContext, or destroyed before");
    }
    return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context)
{
    if (!Contexts::Instance().IsLive(context)) {
        return Fail(ACL_ERROR_RT_PARAM_INVALID,
                    "aclrtSetCurrentContext: not a context of aclrtCreateContext, or destroyed before");
    }
    current = static_cast<Context*>(context);
    return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext* context)
{
    aclError status = ACL_SUCCESS;
    const std::shared_ptr<Context> own = RequireContext("aclrtGetCurrentContext", status);
    if (own == nullptr) {
        return status;
    }
    if (context == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "aclrtGetCurrentContext: context is null");
    }
    *context = own.get();
    return ACL_SUCCESS;
}
