// Pages of a thread's stack that nobody may touch: a kernel that writes beyond its own frames faults before it reaches
// the twin's.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_STACK_GUARD_H
#define OPFORGE_TWIN_KERNEL_EXEC_STACK_GUARD_H

#include <cstdint>

namespace opforge::twin::kernel {

class StackGuard {
public:
    /// Stack that the caller sets aside, the guard and what keeps it away from the frames on both sides.
    static constexpr uint64_t kBytes = 256 << 10;

    /// Closes the middle of `kBytes` at `lowest`, which stay the caller's until `Lift`.
    void Raise(void* lowest);
    void Lift();
    /// Whether a fault at `address` came from running into it.
    bool Contains(uintptr_t address) const { return address >= begin_ && address < end_; }

private:
    uintptr_t begin_ = 0;
    uintptr_t end_ = 0;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_STACK_GUARD_H
