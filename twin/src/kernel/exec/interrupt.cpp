#include "kernel/exec/interrupt.h"

#include <ucontext.h>

#include <csetjmp>
#include <mutex>

#include "kernel/exec/block.h"

namespace opforge::twin::kernel {

namespace {

constexpr std::array kFaultSignals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};

struct sigaction previousActions[NSIG];

int InterruptSignal()
{
    return SIGRTMIN + 7;
}

bool IsOurs(const Block* block, const siginfo_t& info)
{
    if (block == nullptr || info.si_code == SI_USER) {
        return false;
    }
    // A finding that leaves a noexcept function of the kernel ends in abort(). A finding that leaves overwritten stack
    // frames can end in any signal.
    return block->execution.IsInKernel() || block->execution.IsStopped();
}

/// Calls the previous handler of the signal, or ends the process as the signal does by default.
void PassOn(int signal, siginfo_t* info, void* context)
{
    const struct sigaction& previous = previousActions[signal];
    if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
        previous.sa_sigaction(signal, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(signal);
    } else {
        sigaction(signal, &previous, nullptr);
        if (info->si_code <= 0) {
            raise(signal);  // the signal was sent, not caused by an instruction, so it is not repeated
        }
    }
}

uintptr_t ProgramCounter(const void* context)
{
    const mcontext_t& registers = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return static_cast<uintptr_t>(registers.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return registers.pc;
#else
    return 0;
#endif
}

void OnFault(int signal, siginfo_t* info, void* context)
{
    Block* block = CurrentBlock();
    if (!IsOurs(block, *info)) {
        PassOn(signal, info, context);
        return;
    }
    block->execution.LeaveAfter({signal, reinterpret_cast<uintptr_t>(info->si_addr), ProgramCounter(context)});
}

void OnInterrupt(int signal, siginfo_t* /*info*/, void* context)
{
    Block* block = CurrentBlock();
    if (block != nullptr && block->execution.IsInKernel() && block->execution.IsInterrupted()) {
        block->execution.LeaveAfter({signal, ProgramCounter(context), 0}, kTimeIsUp);
    }
}

}  // namespace

void InstallHandlers()
{
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction action{};
        sigemptyset(&action.sa_mask);
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        action.sa_sigaction = OnFault;
        for (const int signal : kFaultSignals) {
            sigaction(signal, &action, &previousActions[signal]);
        }
        action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
        action.sa_sigaction = OnInterrupt;
        sigaction(InterruptSignal(), &action, nullptr);
    });
}

SignalStack::SignalStack()
{
    const stack_t own{memory_.data(), 0, memory_.size()};
    sigaltstack(&own, &previous_);
}

SignalStack::~SignalStack()
{
    sigaltstack(&previous_, nullptr);
}

void Interrupt(pthread_t thread)
{
    pthread_kill(thread, InterruptSignal());
}

}  // namespace opforge::twin::kernel
