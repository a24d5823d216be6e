// The launch interface of CANN's CPU debug mode: memory for host code and kernels, task type and tiling key.
#include "acl/acl.h"

#include "host/acl/device_memory.h"
#include "host/aclnn/reports.h"
#include "host/program/program.h"
#include "kernel/exec/text.h"
#include "opforge_twin/program.h"

namespace opforge::twin::host {

LaunchMode& CurrentLaunchMode()
{
    static LaunchMode mode;
    return mode;
}

namespace {

/// Programs of the debug mode do not initialize acl: it is in use while they have memory.
class Runtime {
public:
    void Add()
    {
        if (allocations_++ == 0) {
            isOwn_ = aclInit(nullptr) == ACL_SUCCESS;  // else the program has called it
            if (isOwn_) {
                aclrtSetDevice(0);
            }
        }
    }
    void Remove()
    {
        if (--allocations_ == 0 && isOwn_) {
            aclrtResetDevice(0);
            aclFinalize();
        }
    }

private:
    size_t allocations_ = 0;
    bool isOwn_ = false;
};

Runtime& OwnRuntime()
{
    static Runtime runtime;
    return runtime;
}

/// Opens or closes shared memory for the host code; false if `memory` is no allocation.
bool Share(const void* memory, bool isOpen, std::string& problem)
{
    DeviceSpan span;
    if (!DeviceMemory::Instance().Resolve(memory, 0, span, problem)) {
        return false;
    }
    DeviceMemory::Instance().Open(*span.allocation, isOpen, true);
    span.MarkWritten(span.allocation->bytes);  // host code can write it without a call
    return true;
}

}  // namespace

}  // namespace opforge::twin::host

namespace opforge::twin::program {

using namespace opforge::twin::host;  // NOLINT: the functions are defined for the host side

void* AllocateShared(size_t bytes)
{
    OwnRuntime().Add();
    std::string problem;
    void* const memory = DeviceMemory::Instance().Allocate(bytes);
    if (memory == nullptr || !Share(memory, true, problem)) {
        Refuse("GmAlloc", kernel::Text("GmAlloc: no ", bytes, " bytes left, expected at most ",
                                       DeviceMemory::Instance().FreeBytes(), "; free memory with GmFree"));
        OwnRuntime().Remove();
        return nullptr;
    }
    return memory;
}

void FreeShared(void* memory)
{
    std::string problem;
    if (!Share(memory, false, problem) || !DeviceMemory::Instance().Free(memory, false, problem)) {
        Refuse("GmFree", kernel::Text("GmFree: ", problem, "; pass a pointer of GmAlloc once"));
        return;
    }
    OwnRuntime().Remove();
}

void SetLaunchMode(const char* taskType)
{
    CurrentLaunchMode().taskType = taskType;
}

void SetLaunchKey(uint64_t tilingKey)
{
    CurrentLaunchMode().tilingKey = tilingKey;
}

void WaitForLaunches()
{
    aclrtSynchronizeStream(nullptr);  // a failed launch is a finding
    RecordReadBack();                 // host code reads the memory of the kernel
}

}  // namespace opforge::twin::program
