// Guard pages in the stack of a thread: a kernel that writes beyond its stack frames faults before it reaches those of
// the twin.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_STACK_GUARD_H
#define OPFORGE_TWIN_KERNEL_EXEC_STACK_GUARD_H

#include <cstdint>

namespace opforge::twin::kernel {

class StackGuard {
public:
    /// Stack that the caller reserves: the guard, and margins on both sides.
    static constexpr uint64_t kBytes = 256 << 10;

    /// Protects the middle of the `kBytes` at `lowest` until `Lift`; the caller keeps the memory.
    void Raise(void* lowest);
    void Lift();
    /// Whether a fault at `address` was caused by the guard.
    bool Contains(uintptr_t address) const { return address >= begin_ && address < end_; }

private:
    uintptr_t begin_ = 0;
    uintptr_t end_ = 0;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_STACK_GUARD_H
