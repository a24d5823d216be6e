// The thread that runs a block: its progress, its stack, and the ways to leave the kernel. The watchdog and the signal
// handlers read this state.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_EXECUTION_H
#define OPFORGE_TWIN_KERNEL_EXEC_EXECUTION_H

#include <atomic>
#include <csetjmp>
#include <cstdint>

#include "kernel/exec/interrupt.h"
#include "kernel/exec/stack_guard.h"
#include "kernel/memory/access.h"

namespace opforge::twin::kernel {

/// Thrown through the stack frames of the kernel to end its block.
struct Stopped {};

/// The part of the thread's stack that the kernel uses; it grows downwards.
struct KernelStack {
    StackGuard guard;     ///< between the stack frames of the twin and of the kernel
    uintptr_t base = 0;   ///< start of the stack frames of the kernel
    uintptr_t limit = 0;  ///< lowest allowed address of the frames
};

class Execution {
public:
    /// Counts an instruction of the kernel; an instruction without a location keeps the previous one.
    void Issue(const Call& call)
    {
        instructions_.store(Instructions() + 1, std::memory_order_relaxed);  // only this thread writes it
        if (call.at) {
            lastCall_ = call;
        }
    }
    uint64_t Instructions() const { return instructions_.load(std::memory_order_relaxed); }
    /// Number of the running instruction, over all pipes of the core.
    uint32_t Now() const { return static_cast<uint32_t>(Instructions()); }
    /// The last instruction with a source location; no location if there is none.
    const Call& LastCall() const { return lastCall_; }

    /// Marks whether the thread runs code of the kernel; signal handlers see it in this order.
    void SetInKernel(bool isIn)
    {
        isInKernel_.store(isIn, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    /// Whether the thread runs code of the kernel, which a jump may leave.
    bool IsInKernel() const { return isInKernel_.load(std::memory_order_relaxed); }

    /// Marks the code of a high-level API. Queues of the kernel do not record its order, and it uses the system part of
    /// the workspace.
    void EnterLibrary() { ++libraryDepth_; }
    void LeaveLibrary() { --libraryDepth_; }
    bool IsInLibrary() const { return libraryDepth_ > 0; }

    void Stop() { isStopped_ = true; }
    bool IsStopped() const { return isStopped_; }
    /// Requests that the block ends at its next instruction.
    void Interrupt() { isInterrupted_ = true; }
    bool IsInterrupted() const { return isInterrupted_.load(std::memory_order_relaxed); }
    /// Requests the same without a finding: another block is endless, and the results of the launch are lost.
    void Cancel()
    {
        isCancelled_ = true;
        Interrupt();
    }
    bool IsCancelled() const { return isCancelled_; }

    /// The target of Leave, for sigsetjmp.
    sigjmp_buf& Escape() { return escape_; }
    [[noreturn]] void Leave(int reason)
    {
        SetInKernel(false);
        siglongjmp(escape_, reason);
    }
    /// Leaves the kernel after a signal.
    [[noreturn]] void LeaveAfter(const Fault& fault, int reason = kFaulted)
    {
        fault_ = fault;
        Leave(reason);
    }
    const Fault& LastFault() const { return fault_; }

    KernelStack stack;

private:
    std::atomic<uint64_t> instructions_{0};
    std::atomic<bool> isInterrupted_{false};
    std::atomic<bool> isCancelled_{false};
    std::atomic<bool> isInKernel_{false};
    bool isStopped_ = false;
    int libraryDepth_ = 0;
    sigjmp_buf escape_{};
    Fault fault_;
    Call lastCall_{"", {}};
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_EXECUTION_H
