#include "kernel/interrupt.h"

#include <csetjmp>
#include <csignal>
#include <mutex>

#include "kernel/block.h"

namespace opforge::twin::kernel {

namespace {

std::mutex& ScopeLock()
{
    static std::mutex lock;
    return lock;
}

int scopes = 0;
struct sigaction previousFault;
struct sigaction previousInterrupt;

int InterruptSignal()
{
    return SIGRTMIN + 7;
}

void OnFault(int signal, siginfo_t* info, void* context)
{
    Block* block = CurrentBlock();
    const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
    if (block != nullptr && block->inRuntime == 0 && block->launch.memory.Contains(address)) {
        block->strayAddress = address;
        siglongjmp(block->escape, kStrayAccess);
    }
    // Not ours: whoever handled it before does, or the process dies of it as it would have.
    if ((previousFault.sa_flags & SA_SIGINFO) != 0 && previousFault.sa_sigaction != nullptr) {
        previousFault.sa_sigaction(signal, info, context);
    } else if (previousFault.sa_handler != SIG_DFL && previousFault.sa_handler != SIG_IGN) {
        previousFault.sa_handler(signal);
    } else {
        sigaction(signal, &previousFault, nullptr);
    }
}

void OnInterrupt(int /*signal*/)
{
    Block* block = CurrentBlock();
    if (block != nullptr && block->inRuntime == 0 && block->interrupted.load(std::memory_order_relaxed)) {
        siglongjmp(block->escape, kTimeIsUp);
    }
}

}  // namespace

InterruptScope::InterruptScope()
{
    const std::lock_guard<std::mutex> lock(ScopeLock());
    if (scopes++ > 0) {
        return;
    }
    struct sigaction action{};
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = OnFault;
    sigaction(SIGSEGV, &action, &previousFault);
    action.sa_flags = SA_RESTART;
    action.sa_handler = OnInterrupt;
    sigaction(InterruptSignal(), &action, &previousInterrupt);
}

InterruptScope::~InterruptScope()
{
    const std::lock_guard<std::mutex> lock(ScopeLock());
    if (--scopes == 0) {
        sigaction(SIGSEGV, &previousFault, nullptr);
        sigaction(InterruptSignal(), &previousInterrupt, nullptr);
    }
}

void Interrupt(pthread_t thread)
{
    pthread_kill(thread, InterruptSignal());
}

}  // namespace opforge::twin::kernel
