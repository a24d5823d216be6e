// Integer arithmetic and sizes shared by the sources of the twin. Operators use their own headers,
// op_kernel/common/arithmetic.h and op_host/common/arithmetic.h, which compile without the twin.
#ifndef OPFORGE_TWIN_ARITHMETIC_H
#define OPFORGE_TWIN_ARITHMETIC_H

#include <cstdint>

namespace opforge::twin {

inline constexpr int64_t kBlockBytes = 32;    ///< DataBlock: the unit of on-chip memories
inline constexpr int64_t kRepeatBytes = 256;  ///< one repeat of a vector instruction

template <typename T>
constexpr T CeilDiv(T value, T divisor)
{
    return (value + divisor - 1) / divisor;
}

template <typename T>
constexpr T RoundDown(T value, T multiple)
{
    return value / multiple * multiple;
}

template <typename T>
constexpr T RoundUp(T value, T multiple)
{
    return CeilDiv(value, multiple) * multiple;
}

}  // namespace opforge::twin

#endif  // OPFORGE_TWIN_ARITHMETIC_H
