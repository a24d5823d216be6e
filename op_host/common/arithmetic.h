// Integer arithmetic and units of plans. All arguments are non-negative, all divisors positive.
#ifndef OPFORGE_OP_HOST_COMMON_ARITHMETIC_H
#define OPFORGE_OP_HOST_COMMON_ARITHMETIC_H

#include <cstdint>
#include <limits>

namespace opforge {

inline constexpr int64_t kUbBlockBytes = 32;  // unit of alignment in UB
inline constexpr int64_t kFloatBytes = 4;

constexpr int64_t CeilDiv(int64_t value, int64_t divisor)
{
    return value / divisor + (value % divisor != 0 ? 1 : 0);
}

constexpr int64_t RoundUp(int64_t value, int64_t multiple)
{
    return CeilDiv(value, multiple) * multiple;
}

constexpr int64_t RoundDown(int64_t value, int64_t multiple)
{
    return value / multiple * multiple;
}

/// Returns the smallest power of two that is at least `value`.
constexpr int64_t RoundUpToPowerOfTwo(int64_t value)
{
    int64_t power = 1;
    while (power < value) {
        power *= 2;
    }
    return power;
}

/// Returns a * b, limited to the largest int64_t, so that very large sizes can be compared.
constexpr int64_t SaturatingMul(int64_t a, int64_t b)
{
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    return b != 0 && a > kMax / b ? kMax : a * b;
}

constexpr int64_t SaturatingAdd(int64_t a, int64_t b)
{
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    return a > kMax - b ? kMax : a + b;
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_ARITHMETIC_H
