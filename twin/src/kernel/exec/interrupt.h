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
    uintptr_t address = 0;  ///< of the data; for kTimeIsUp, of the next instruction
    uintptr_t code = 0;     ///< address of the instruction
};

/// Installs handlers: a fault in kernel code, or Interrupt, then ends the block instead of the process. They stay
/// installed, because a signal can be pending when a launch has ended.
void InstallHandlers();

/// While an instance exists, the handlers run on a separate stack: a kernel may have used up the stack of the thread.
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

/// Ends the block that runs on `thread`, unless it is inside the runtime, which checks Execution::IsInterrupted.
void Interrupt(pthread_t thread);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_INTERRUPT_H
