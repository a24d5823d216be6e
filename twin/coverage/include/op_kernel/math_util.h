// Integer functions that kernels of operator repositories share.
#ifndef OPFORGE_COVERAGE_MATH_UTIL_H
#define OPFORGE_COVERAGE_MATH_UTIL_H

#include "kernel_operator.h"

namespace Ops::Base {

/// Quotients by 0 are 0.
template <typename T, typename U>
__aicore__ inline constexpr T CeilDiv(T a, U b)
{
    return b == 0 ? T(0) : static_cast<T>((a + static_cast<T>(b) - 1) / static_cast<T>(b));
}

template <typename T, typename U>
__aicore__ inline constexpr T FloorDiv(T a, U b)
{
    return b == 0 ? T(0) : static_cast<T>(a / static_cast<T>(b));
}

template <typename T, typename U>
__aicore__ inline constexpr T CeilAlign(T a, U b)
{
    return static_cast<T>(CeilDiv(a, b) * static_cast<T>(b));
}

template <typename T, typename U>
__aicore__ inline constexpr T FloorAlign(T a, U b)
{
    return static_cast<T>(FloorDiv(a, b) * static_cast<T>(b));
}

}  // namespace Ops::Base

#endif  // OPFORGE_COVERAGE_MATH_UTIL_H
