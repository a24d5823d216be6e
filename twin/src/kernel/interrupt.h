// Ways out of a kernel that does not come back by itself: stray accesses and endless loops.
#ifndef OPFORGE_TWIN_KERNEL_INTERRUPT_H
#define OPFORGE_TWIN_KERNEL_INTERRUPT_H

#include <pthread.h>

namespace opforge::twin::kernel {

/// Values of siglongjmp to Block::escape.
inline constexpr int kStrayAccess = 1;
inline constexpr int kTimeIsUp = 2;

/// While one lives, a kernel's dereference of a raw GM pointer and Interrupt end the block instead of the process.
class InterruptScope {
public:
    InterruptScope();
    ~InterruptScope();
    InterruptScope(const InterruptScope&) = delete;
    InterruptScope& operator=(const InterruptScope&) = delete;
};

/// Ends the block that runs on `thread`, unless it is inside the runtime, which looks at Block::interrupted itself.
void Interrupt(pthread_t thread);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_INTERRUPT_H
