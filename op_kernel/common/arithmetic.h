// Integer arithmetic and even splits for kernels.
#ifndef OPFORGE_OP_KERNEL_COMMON_ARITHMETIC_H
#define OPFORGE_OP_KERNEL_COMMON_ARITHMETIC_H

#include <cstdint>

namespace opforge {
namespace kernel {

constexpr int64_t kUbBlockBytes = 32;

__aicore__ inline constexpr int64_t Smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

__aicore__ inline constexpr int64_t Larger(int64_t a, int64_t b)
{
    return a < b ? b : a;
}

__aicore__ inline constexpr int64_t CeilDiv(int64_t value, int64_t divisor)
{
    return (value + divisor - 1) / divisor;
}

__aicore__ inline constexpr int64_t RoundUp(int64_t value, int64_t multiple)
{
    return CeilDiv(value, multiple) * multiple;
}

__aicore__ inline constexpr int64_t RoundDown(int64_t value, int64_t multiple)
{
    return value / multiple * multiple;
}

/// The half-open range [begin, end).
struct Span {
    int64_t begin = 0;
    int64_t end = 0;
};

__aicore__ inline constexpr int64_t Size(const Span& span)
{
    return span.end - span.begin;
}

/// Returns the intersection of two ranges; empty, not negative, if there is none.
__aicore__ inline constexpr Span Overlap(const Span& a, const Span& b)
{
    const int64_t begin = Larger(a.begin, b.begin);
    return {begin, Larger(begin, Smaller(a.end, b.end))};
}

/// Returns piece `index` of `total` units in pieces of `size`. The last piece may be smaller; pieces after it are
/// empty.
__aicore__ inline constexpr Span PieceOf(int64_t total, int64_t size, int64_t index)
{
    return Overlap({index * size, (index + 1) * size}, {0, total});
}

/// Returns part `index` of `total` units in `parts` parts whose sizes differ by at most one.
__aicore__ inline constexpr Span PartOf(int64_t total, int64_t parts, int64_t index)
{
    const int64_t base = total / parts;
    const int64_t longer = total % parts;
    const int64_t begin = index * base + Smaller(index, longer);
    return {begin, begin + base + (index < longer ? 1 : 0)};
}

/// Returns the index of the part that contains unit `unit`.
__aicore__ inline constexpr int64_t PartIndexOf(int64_t total, int64_t parts, int64_t unit)
{
    const int64_t base = total / parts;
    const int64_t longer = total % parts;
    const int64_t border = longer * (base + 1);
    return unit < border ? unit / (base + 1) : longer + (unit - border) / base;
}

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_ARITHMETIC_H
