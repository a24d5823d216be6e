#include "kernel/exec/stack_guard.h"

#include <sys/mman.h>

namespace opforge::twin::kernel {

namespace {

constexpr uintptr_t kMargin = 32 << 10;  // for the calls that install and remove it; a multiple of the page size

void* Pointer(uintptr_t address)
{
    return reinterpret_cast<void*>(address);
}

}  // namespace

void StackGuard::Raise(void* lowest)
{
    const auto begin = reinterpret_cast<uintptr_t>(lowest);
    begin_ = (begin + 2 * kMargin - 1) / kMargin * kMargin;
    end_ = (begin + kBytes - kMargin) / kMargin * kMargin;
    mprotect(Pointer(begin_), end_ - begin_, PROT_NONE);
}

void StackGuard::Lift()
{
    mprotect(Pointer(begin_), end_ - begin_, PROT_READ | PROT_WRITE);
}

}  // namespace opforge::twin::kernel
