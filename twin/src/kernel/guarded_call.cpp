#include "kernel/guarded_call.h"

#include <csetjmp>
#include <exception>
#include <string>

#include "kernel/interrupt.h"

namespace opforge::twin::kernel {

namespace {

constexpr uintptr_t kStackReserve = 128 << 10;  // for what the twin itself needs below the kernel's frames

uintptr_t LowestStackAddress()
{
    pthread_attr_t attributes;
    void* lowest = nullptr;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &lowest, &bytes);
        pthread_attr_destroy(&attributes);
    }
    return reinterpret_cast<uintptr_t>(lowest);
}

/// The instruction that was last seen, in words that follow what happened.
std::string After(const Block& block)
{
    return block.lastCall.at.line == 0 ? " before the first instruction of the kernel"
                                       : Text(" after ", block.lastCall.name, " at this place");
}

void ReportAddress(Block& block)
{
    const Call call{"kernel code", block.lastCall.at};
    const uintptr_t address = block.fault.address;
    const GlobalMemory& memory = block.launch.memory;
    if (memory.Contains(address)) {
        const Region* region = block.launch.memory.Find(address);
        const std::string name = region == nullptr ? "an absent argument" : Text("'", region->name, "'");
        block.Report("raw_gm_access", Pipe::kScalar, call,
                     Text("a GM pointer into ", name, " was dereferenced", After(block),
                          "; use GlobalTensor::GetValue and SetValue"));
    } else if (address + 2 * kStackReserve >= block.stackLimit && address < block.stackLimit) {
        block.Report("stack_overflow", Pipe::kScalar, call,
                     Text("the stack ran out", After(block), "; the device has ", kDeviceStackBytes,
                          " bytes of it: no recursion, no big local arrays"));
    } else {
        block.Report(
            "wild_pointer", Pipe::kScalar, call,
            Text(address == 0 ? "a null pointer, or what is no address at all,"
                              : Text("a pointer that belongs to no argument (address ", address, ")"),
                 " was dereferenced", After(block), "; kernels reach memory through GlobalTensor and LocalTensor"));
    }
}

void ReportFault(Block& block)
{
    const Call call{"kernel code", block.lastCall.at};
    switch (block.fault.signal) {
        case SIGFPE:
            return block.Report("division_by_zero", Pipe::kScalar, call,
                                Text("an integer was divided by zero", After(block),
                                     "; check what comes from the tiling data before dividing by it"));
        case SIGABRT:
            return block.Report("abort", Pipe::kScalar, call,
                                Text("the kernel aborted", After(block),
                                     ": abort(), or an exception that left a noexcept function; the device has none "
                                     "of them"));
        case SIGILL:
        case SIGTRAP:
            return block.Report("trap", Pipe::kScalar, call,
                                Text("the kernel ran into a trap", After(block),
                                     ": __builtin_trap, or a branch that the compiler knows to be undefined"));
        default:
            return ReportAddress(block);
    }
}

void ReportThrow(Block& block, const char* what)
{
    block.Report("exception", Pipe::kScalar, {"kernel code", block.lastCall.at},
                 Text("an exception left the kernel", After(block), what[0] == '\0' ? "" : ": ", what,
                      "; the device has no exceptions"));
}

/// Calls the kernel; returns 0, or why it had to be left.
int Enter(Block& block, const std::function<void()>& kernel)
{
    const int left = sigsetjmp(block.escape, 1);
    if (left == 0) {
        try {
            block.inKernel = 1;
            kernel();
            block.inKernel = 0;
        } catch (const Stopped&) {
            block.stopped = true;  // its finding is in the block
        } catch (const std::exception& error) {
            block.inKernel = 0;
            block.stopped = true;
            ReportThrow(block, error.what());
        } catch (...) {
            block.inKernel = 0;
            block.stopped = true;
            ReportThrow(block, "");
        }
    }
    return left;
}

}  // namespace

void CallGuarded(Block& block, const std::function<void()>& kernel)
{
    block.stackBase = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    block.stackLimit = LowestStackAddress() + kStackReserve;
    CurrentBlock() = &block;
    const int left = Enter(block, kernel);
    CurrentBlock() = nullptr;
    const bool isNew = !block.stopped;
    block.stopped = block.stopped || left != 0;
    if (left == kTimeIsUp) {
        block.Report("endless_loop", Pipe::kScalar, {"kernel code", block.lastCall.at},
                     Text("nothing was issued for a long time", After(block),
                          ": a loop that does not end (OPFORGE_TWIN_TIMEOUT sets the limit in seconds)"));
    } else if (left == kFaulted && isNew) {
        ReportFault(block);
    }
}

}  // namespace opforge::twin::kernel
