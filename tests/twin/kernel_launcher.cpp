// Launches a kernel with all options of a launch, for the tests of the kernel side of the twin.
#include <dlfcn.h>

#include <string>

#include "kernel/exec/report_json.h"
#include "opforge_twin/launch.h"

extern "C" __attribute__((visibility("default"))) const char* LaunchKernel(
    const char* library, const char* symbol, const char* taskType, const char* soc, uint32_t blocks, uint64_t tilingKey,
    const uint8_t* tiling, uint64_t tilingBytes, void** buffers, const uint64_t* bytes, const int32_t* roles,
    uint64_t count, uint8_t* workspace, uint64_t workspaceBytes, int strict, uint32_t threads, uint64_t seed,
    uint64_t misalignment)
{
    thread_local std::string answer;
    opforge::twin::LaunchRequest request;
    request.opType = symbol;
    request.function = dlsym(dlopen(library, RTLD_NOW | RTLD_LOCAL), symbol);
    for (uint64_t index = 0; index < count; ++index) {
        request.arguments.push_back({buffers[index], bytes[index], (roles[index] & 2) != 0, (roles[index] & 1) != 0,
                                     std::to_string(index), misalignment});
    }
    request.workspace = workspace;
    request.workspaceBytes = workspaceBytes;
    request.tiling.assign(tiling, tiling + tilingBytes);
    request.tilingKey = tilingKey;
    request.blockNum = blocks;
    request.taskType = taskType;
    request.soc = soc;
    using opforge::twin::Level;
    const Level level = strict == 0 ? Level::kFast : strict == 1 ? Level::kStrict : Level::kDevice;
    answer = ToJson(opforge::twin::Launch(request, {strict != 0, level, threads, seed}));
    return answer.c_str();
}
