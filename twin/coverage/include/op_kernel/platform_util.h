// Sizes of the core that kernels of operator repositories share.
#ifndef OPFORGE_COVERAGE_PLATFORM_UTIL_H
#define OPFORGE_COVERAGE_PLATFORM_UTIL_H

#include "kernel_operator.h"

namespace Ops::Base {

__aicore__ inline constexpr uint32_t GetUbBlockSize()
{
    return 32;
}

}  // namespace Ops::Base

#endif  // OPFORGE_COVERAGE_PLATFORM_UTIL_H
