#include "kernel/exec/stack_guard.h"

#include <sys/mman.h>

#include "opforge_twin/arithmetic.h"

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
    begin_ = RoundUp(begin + kMargin, kMargin);
    end_ = RoundDown(begin + kBytes - kMargin, kMargin);
    mprotect(Pointer(begin_), end_ - begin_, PROT_NONE);
}

void StackGuard::Lift()
{
    mprotect(Pointer(begin_), end_ - begin_, PROT_READ | PROT_WRITE);
}

}  // namespace opforge::twin::kernel
