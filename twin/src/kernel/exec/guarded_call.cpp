#include "kernel/exec/guarded_call.h"

#include <alloca.h>
#include <dlfcn.h>

#include <atomic>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "kernel/exec/interrupt.h"

namespace opforge::twin::kernel {

namespace {

constexpr uintptr_t kStackReserve = 128 << 10;  // used by the twin below the frames of the kernel

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

/// The last instruction, as text after the description of an event.
std::string After(const Block& block)
{
    const Call& last = block.execution.LastCall();
    return !last.at ? " before the first instruction of the kernel" : Text(" after ", last.name, " at this place");
}

void ReportOverrun(Block& block, const char* what)
{
    block.Report("stack_overrun", Pipe::kScalar, {"kernel code", block.execution.LastCall().at},
                 Text("a function of the kernel ", what, After(block),
                      ": a local array is written after its end or before its start; check the index"));
}

void ReportAddress(Block& block)
{
    const Call call{"kernel code", block.execution.LastCall().at};
    const uintptr_t address = block.execution.LastFault().address;
    const KernelStack& stack = block.execution.stack;
    if (block.launch.memory.Contains(address)) {
        const Region* region = block.launch.memory.Find(address);
        const std::string name = region == nullptr ? "an absent argument" : Text("'", region->name, "'");
        block.Report("raw_gm_access", Pipe::kScalar, call,
                     Text("a GM pointer into ", name, " was dereferenced", After(block),
                          "; use GlobalTensor::GetValue and SetValue"));
    } else if (stack.guard.Contains(address)) {
        ReportOverrun(block, "wrote or read beyond its own stack frames");
    } else if (address + 2 * kStackReserve >= stack.limit && address < stack.limit) {
        block.Report("stack_overflow", Pipe::kScalar, call,
                     Text("the stack is full", After(block), "; the device has ", kDeviceStackBytes,
                          " bytes for it; remove recursion and large local arrays"));
    } else {
        block.Report("wild_pointer", Pipe::kScalar, call,
                     Text(address == 0 ? "a null pointer, or a value that is not an address,"
                                       : Text("a pointer that belongs to no argument (address ", address, ")"),
                          " was dereferenced", After(block), "; access memory with GlobalTensor and LocalTensor"));
    }
}

void ReportFault(Block& block)
{
    const Call call{"kernel code", block.execution.LastCall().at};
    switch (block.execution.LastFault().signal) {
        case SIGFPE:
            return block.Report("division_by_zero", Pipe::kScalar, call,
                                Text("an integer was divided by zero, or the smallest integer by -1,", After(block),
                                     "; check the values of the tiling data before the division"));
        case SIGABRT:
            return block.Report("abort", Pipe::kScalar, call,
                                Text("the kernel aborted", After(block),
                                     ": abort(), or an exception that left a noexcept function; the device has none "
                                     "of them"));
        case SIGILL:
        case SIGTRAP:
            return block.Report("trap", Pipe::kScalar, call,
                                Text("the kernel executed a trap", After(block),
                                     ": __builtin_trap, or a branch that the compiler knows to be undefined"));
        default:
            return ReportAddress(block);
    }
}

void ReportThrow(Block& block, const char* what)
{
    block.Report("exception", Pipe::kScalar, {"kernel code", block.execution.LastCall().at},
                 Text("an exception left the kernel", After(block), what[0] == '\0' ? "" : ": ", what,
                      "; the device has no exceptions"));
}

/// Calls the kernel with a guard between its frames and those of the callers.
__attribute__((noinline)) void CallBelowGuard(Block& block, const std::function<void()>& kernel)
{
    struct Lifted {
        StackGuard& guard;
        ~Lifted() { guard.Lift(); }
    };
    KernelStack& stack = block.execution.stack;
    void* memory = alloca(StackGuard::kBytes);
    stack.base = reinterpret_cast<uintptr_t>(memory);
    stack.guard.Raise(memory);
    const Lifted lifted{stack.guard};
    block.execution.SetInKernel(true);
    kernel();
    block.execution.SetInKernel(false);
}

/// Calls the kernel; returns 0, or the reason for leaving it.
int Enter(Block& block, const std::function<void()>& kernel)
{
    const int left = sigsetjmp(block.execution.Escape(), 1);
    if (left != 0) {
        block.execution.stack.guard.Lift();
    } else {
        try {
            CallBelowGuard(block, kernel);
        } catch (const Stopped&) {
            block.execution.Stop();  // the finding is already in the block
        } catch (const std::exception& error) {
            block.execution.SetInKernel(false);
            block.execution.Stop();
            ReportThrow(block, error.what());
        } catch (...) {
            block.execution.SetInKernel(false);
            block.execution.Stop();
            ReportThrow(block, "");
        }
    }
    return left;
}

/// The block whose kernel is left without unwinding; the caller adds the finding.
Block& Left()
{
    Block* block = CurrentBlock();
    if (block == nullptr) {
        std::abort();  // kernel code outside of a launch
    }
    block->execution.SetInKernel(false);
    return *block;
}

[[noreturn]] void Leave(Block& block)
{
    block.execution.Stop();
    block.execution.Leave(kFaulted);
}

std::atomic<LibraryFaultHandler> libraryFaultHandler{nullptr};

/// Whether the last fault was in the C library. abort() holds no lock.
bool IsInLibrary(const Fault& fault)
{
    Dl_info library{};
    Dl_info place{};
    return fault.signal != SIGABRT && dladdr(reinterpret_cast<const void*>(&std::fflush), &library) != 0 &&
           dladdr(reinterpret_cast<const void*>(fault.code), &place) != 0 && place.dli_fbase == library.dli_fbase;
}

}  // namespace

void SetLibraryFaultHandler(LibraryFaultHandler handler)
{
    libraryFaultHandler = handler;
}

void LeaveArray(const Location& at, const char* array, int64_t index)
{
    Block& block = Left();
    block.Report(
        "array_bounds", Pipe::kScalar, {"kernel code", at},
        Text("element ", index, " of an array of type ", array, "; check the index: the device does not check it"));
    Leave(block);
}

void LoseFrame()
{
    Block& block = Left();
    ReportOverrun(block, "has written beyond the end of its stack frame, at the latest");
    Leave(block);
}

void CallGuarded(Block& block, const std::function<void()>& kernel)
{
    block.execution.stack.limit = LowestStackAddress() + kStackReserve;
    CurrentBlock() = &block;
    EndComposedCall();  // a block that was left by a jump may have started one
    const int left = Enter(block, kernel);
    CurrentBlock() = nullptr;
    const bool isNew = !block.execution.IsStopped();
    if (left != 0) {
        block.execution.Stop();
    }
    if (left == kTimeIsUp && !block.execution.IsCancelled()) {
        const Location last = block.execution.LastCall().at;
        const Location here{reinterpret_cast<const void*>(block.execution.LastFault().address + 1)};
        block.Report("endless_loop", Pipe::kScalar, {"kernel code", last ? last : here},
                     Text("no instruction was issued for a long time", After(block),
                          ": a loop that does not end, or a call that blocks (sleep, a lock); remove it "
                          "(OPFORGE_TWIN_TIMEOUT sets the limit in seconds)"));
    } else if (left == kFaulted && isNew) {
        ReportFault(block);
        const LibraryFaultHandler handler = libraryFaultHandler;
        if (handler != nullptr && IsInLibrary(block.execution.LastFault())) {
            handler(block);
        }
    }
}

}  // namespace opforge::twin::kernel
