// `half` and `bfloat16_t`: 16-bit storage, computed in float, rounded to nearest even.
#ifndef OPFORGE_TWIN_KERNEL_HALF_H
#define OPFORGE_TWIN_KERNEL_HALF_H

#include "opforge_twin/kernel/language.h"

namespace opforge::twin::kernel {

constexpr uint32_t FloatBits(float value)
{
    return __builtin_bit_cast(uint32_t, value);
}

constexpr float BitsFloat(uint32_t bits)
{
    return __builtin_bit_cast(float, bits);
}

constexpr float HalfToFloat(uint16_t bits)
{
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1FU;
    const uint32_t mantissa = bits & 0x3FFU;
    if (exponent == 0) {
        const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
        return BitsFloat(FloatBits(magnitude) | sign);
    }
    if (exponent == 0x1F) {
        // A NaN becomes a quiet NaN with the same payload, as in the conversion instruction.
        return BitsFloat(sign | 0x7F800000U | (mantissa << 13) | (mantissa != 0 ? 0x400000U : 0U));
    }
    return BitsFloat(sign | ((exponent + 112U) << 23) | (mantissa << 13));
}

constexpr uint16_t FloatToHalf(float value)
{
    const uint32_t bits = FloatBits(value);
    const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) {
        return static_cast<uint16_t>(sign | 0x7E00U | ((magnitude >> 13) & 0x3FFU));
    }
    if (magnitude >= 0x477FF000U) {
        return static_cast<uint16_t>(sign | 0x7C00U);
    }
    if (magnitude < 0x38800000U) {
        // Adding 0.5 aligns the last bit of a subnormal half with the last bit of the float.
        const uint32_t aligned = FloatBits(BitsFloat(magnitude) + 0.5F) - FloatBits(0.5F);
        return static_cast<uint16_t>(sign | aligned);
    }
    const uint32_t odd = (magnitude >> 13) & 1U;
    return static_cast<uint16_t>(sign | ((magnitude - 0x38000000U + 0xFFFU + odd) >> 13));
}

constexpr float Bfloat16ToFloat(uint16_t bits)
{
    return BitsFloat(static_cast<uint32_t>(bits) << 16);
}

constexpr uint16_t FloatToBfloat16(float value)
{
    const uint32_t bits = FloatBits(value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
        return static_cast<uint16_t>((bits >> 16) | 0x40U);
    }
    return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

template <typename T>
inline constexpr bool kIsNumber = std::is_arithmetic_v<T>;

}  // namespace opforge::twin::kernel

/// IEEE binary16. Each operation of two halves rounds its result to half.
struct half {
    uint16_t bits = 0;

    half() = default;
    template <typename T, typename = std::enable_if_t<opforge::twin::kernel::kIsNumber<T>>>
    constexpr half(T value) : bits(opforge::twin::kernel::FloatToHalf(static_cast<float>(value)))
    {
    }
    constexpr operator float() const { return opforge::twin::kernel::HalfToFloat(bits); }

    constexpr half& operator+=(half other);
    constexpr half& operator-=(half other);
    constexpr half& operator*=(half other);
    constexpr half& operator/=(half other);
};

#define OPFORGE_HALF_OPERATOR(op)                                                                                 \
    constexpr half operator op(half a, half b)                                                                    \
    {                                                                                                             \
        return half(static_cast<float>(a) op static_cast<float>(b));                                              \
    }                                                                                                             \
    template <typename T, typename = std::enable_if_t<opforge::twin::kernel::kIsNumber<T>>>                       \
    constexpr auto operator op(half a, T b)                                                                       \
    {                                                                                                             \
        return static_cast<std::conditional_t<std::is_integral_v<T>, half, float>>(static_cast<float>(a)          \
                                                                                       op static_cast<float>(b)); \
    }                                                                                                             \
    template <typename T, typename = std::enable_if_t<opforge::twin::kernel::kIsNumber<T>>>                       \
    constexpr auto operator op(T a, half b)                                                                       \
    {                                                                                                             \
        return static_cast<std::conditional_t<std::is_integral_v<T>, half, float>>(static_cast<float>(a)          \
                                                                                       op static_cast<float>(b)); \
    }                                                                                                             \
    constexpr half& half::operator op##=(half other)                                                              \
    {                                                                                                             \
        return *this = *this op other;                                                                            \
    }
OPFORGE_HALF_OPERATOR(+)
OPFORGE_HALF_OPERATOR(-)
OPFORGE_HALF_OPERATOR(*)
OPFORGE_HALF_OPERATOR(/)
#undef OPFORGE_HALF_OPERATOR

constexpr half operator-(half value)
{
    return half(-static_cast<float>(value));
}

/// Storage: it converts from numbers (rounded to nearest even) and to float; there are no arithmetic operators.
struct bfloat16_t {
    uint16_t bits = 0;

    bfloat16_t() = default;
    template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T> || std::is_same_v<T, half>>>
    constexpr bfloat16_t(T value) : bits(opforge::twin::kernel::FloatToBfloat16(static_cast<float>(value)))
    {
    }
    constexpr operator float() const { return opforge::twin::kernel::Bfloat16ToFloat(bits); }

    static constexpr bfloat16_t FromBits(uint16_t bits)
    {
        bfloat16_t value{};
        value.bits = bits;
        return value;
    }
};

#define OPFORGE_NO_OPERATOR(op) void operator op(bfloat16_t a, bfloat16_t b) = delete;
OPFORGE_NO_OPERATOR(+)
OPFORGE_NO_OPERATOR(-)
OPFORGE_NO_OPERATOR(*)
OPFORGE_NO_OPERATOR(/)
#undef OPFORGE_NO_OPERATOR

namespace AscendC {

/// Half a byte: elements exist only in tensors, two in each byte, the first one in its low bits.
struct int4b_t {
    uint8_t bits = 0;

    int4b_t() = default;
    constexpr int4b_t(int value) : bits(static_cast<uint8_t>(value & 0xF)) {}
};

}  // namespace AscendC

namespace opforge::twin::kernel {

/// The type of the elements of tensors of T: T, or that of a TensorTrait (layout.h).
template <typename T>
struct ElementOf {
    using Type = T;
};

}  // namespace opforge::twin::kernel

namespace AscendC {

template <typename T>
using PrimT = typename opforge::twin::kernel::ElementOf<T>::Type;

}  // namespace AscendC

namespace opforge::twin::kernel {

using AscendC::PrimT;

template <typename T>
inline constexpr bool kIsTrait = !std::is_same_v<T, PrimT<T>>;

/// Fails for a call with tensors of a TensorTrait and others.
template <typename T, typename... Others>
constexpr void RequireSameKind()
{
    static_assert(((kIsTrait<T> == kIsTrait<Others>) && ...),
                  "TensorTrait: all tensors of a call have a TensorTrait, or none of them");
}

template <typename T>
inline constexpr bool kIsInt4 = std::is_same_v<PrimT<T>, AscendC::int4b_t>;

/// Bytes of `count` elements of a tensor.
template <typename T>
constexpr int64_t BytesOf(int64_t count)
{
    return kIsInt4<T> ? count >> 1 : count * static_cast<int64_t>(sizeof(PrimT<T>));
}

/// Elements in `bytes` bytes of a tensor.
template <typename T>
constexpr int64_t CountOf(int64_t bytes)
{
    return kIsInt4<T> ? bytes * 2 : bytes / static_cast<int64_t>(sizeof(PrimT<T>));
}

/// Fails for types without an element that the scalar unit can access.
template <typename T>
constexpr void RequireScalarAccess()
{
    static_assert(!kIsInt4<T>, "the scalar unit has no int4b_t; reinterpret the tensor as int8_t");
}

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_HALF_H
