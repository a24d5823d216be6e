// Stops kernels that do not return: faults in their code, and endless loops.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_INTERRUPT_H
#define OPFORGE_TWIN_KERNEL_EXEC_INTERRUPT_H

#include <array>
#include <csignal>
#include <cstdint>

#include <pthread.h>

namespace opforge::twin::kernel {

/// Reasons of Execution::Leave.
inline constexpr int kFaulted = 1;
inline constexpr int kTimeIsUp = 2;

/// The operating system's description of a fault.
struct Fault {
    int signal = 0;
    uintptr_t address = 0;
};

/// From here on a fault of a kernel's own code and Interrupt end the block instead of the process. Once for all: a
/// signal may still be on its way when a launch has ended.
void InstallHandlers();

/// While one lives, the handlers run on a stack of their own: a kernel may have used up the thread's.
class SignalStack {
public:
    SignalStack();
    ~SignalStack();
    SignalStack(const SignalStack&) = delete;
    SignalStack& operator=(const SignalStack&) = delete;

private:
    std::array<uint8_t, 64 << 10> memory_;
    stack_t previous_{};
};

/// Ends the block that runs on `thread`, unless it is inside the runtime, which looks at Execution::IsInterrupted
/// itself.
void Interrupt(pthread_t thread);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_INTERRUPT_H
