// opforgeTwinLaunch: runs any kernel library on any buffers and returns the report as JSON.
#include "opforge_twin/control.h"

#include <dlfcn.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "kernel/exec/report_json.h"
#include "kernel/exec/soc.h"
#include "kernel/exec/text.h"
#include "opforge_twin/options.h"
#include "opforge_twin/launch.h"

namespace opforge::twin {

namespace {

constexpr uint8_t kPoison = 0xFB;

LaunchReport Refused(const char* symbol, const std::string& message, const char* kind = "launch")
{
    LaunchReport report;
    report.opType = symbol;
    report.findings.push_back({kind, -1, "", "", message});
    report.isComplete = false;
    return report;
}

}  // namespace

}  // namespace opforge::twin

const char* opforgeTwinLaunch(const char* libraryPath, const char* symbol, const char* taskType, const char* soc,
                              uint32_t blocks, uint64_t tilingKey, const void* tiling, uint64_t tilingBytes,
                              void** buffers, const uint64_t* bytes, uint64_t bufferCount, uint64_t workspaceBytes,
                              int passWorkspace, int passTiling)
{
    using namespace opforge::twin;
    thread_local std::string answer;
    void* library = dlopen(libraryPath, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        answer = ToJson(Refused(symbol, kernel::Text("cannot load the kernel library: ", dlerror())));
        return answer.c_str();
    }
    LaunchRequest request;
    request.opType = symbol;
    request.function = dlsym(library, symbol);
    if (request.function == nullptr) {
        answer = ToJson(Refused(symbol, kernel::Text(libraryPath, " has no function '", symbol,
                                                     "'; a kernel is extern \"C\" __global__ __aicore__ void")));
        return answer.c_str();
    }
    for (uint64_t index = 0; index < bufferCount; ++index) {
        request.arguments.push_back({buffers[index], bytes[index], true, true, kernel::Text("buffer ", index)});
    }
    std::vector<uint8_t> workspace;
    try {
        workspace.assign(passWorkspace != 0 ? kSystemWorkspaceBytes + workspaceBytes : 0, kPoison);
    } catch (const std::exception&) {
        answer = ToJson(Refused(
            symbol,
            kernel::Text("workspace_bytes: got ", workspaceBytes, ", expected no more than there is memory for"),
            kNoResources));
        return answer.c_str();
    }
    request.workspace = workspace.data();
    request.workspaceBytes = workspace.size();
    request.passWorkspace = passWorkspace != 0;
    request.passTiling = passTiling != 0;
    const auto* blob = static_cast<const uint8_t*>(tiling);
    request.tiling.assign(blob, blob + tilingBytes);
    request.tilingKey = tilingKey;
    request.blockNum = blocks;
    request.taskType = taskType;
    request.soc = soc;
    if (const SocFigures* figures = FindSoc(soc)) {
        request.arch = figures->arch;  // the caller has compiled the library for this SoC
    }
    answer = ToJson(Launch(request, ProcessOptions()));
    return answer.c_str();
}
