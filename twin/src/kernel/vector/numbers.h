// Element types in computations of the vector unit: half and bfloat16 in float, stored rounded; integers wrap.
#ifndef OPFORGE_TWIN_KERNEL_VECTOR_NUMBERS_H
#define OPFORGE_TWIN_KERNEL_VECTOR_NUMBERS_H

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "opforge_twin/kernel/runtime.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace opforge::twin::kernel {

#ifdef __F16C__
inline float WidenHalf(uint16_t bits)
{
    return _cvtsh_ss(bits);
}

inline uint16_t NarrowToHalf(float value)
{
    return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
}
#else
inline float WidenHalf(uint16_t bits)
{
    return HalfToFloat(bits);
}

inline uint16_t NarrowToHalf(float value)
{
    return FloatToHalf(value);
}
#endif

template <typename T>
using Computed = std::conditional_t<kIsAnyOf<T, half, bfloat16_t>, float, T>;

template <typename T>
inline Computed<T> Load(const uint8_t* from)
{
    T value;
    std::memcpy(static_cast<void*>(&value), from, sizeof(T));
    if constexpr (std::is_same_v<T, half>) {
        return WidenHalf(value.bits);
    } else if constexpr (std::is_same_v<T, bfloat16_t>) {
        return Bfloat16ToFloat(value.bits);
    } else {
        return value;
    }
}

template <typename T>
inline void Store(uint8_t* to, Computed<T> value)
{
    if constexpr (std::is_same_v<T, half>) {
        const uint16_t bits = NarrowToHalf(value);
        std::memcpy(to, &bits, sizeof(bits));
    } else if constexpr (std::is_same_v<T, bfloat16_t>) {
        const uint16_t bits = FloatToBfloat16(value);
        std::memcpy(to, &bits, sizeof(bits));
    } else {
        std::memcpy(to, &value, sizeof(T));
    }
}

/// Replaces infinities by the largest numbers and NaN by 0; T is half or bfloat16_t.
template <typename T>
inline float Finite(float value)
{
    const float most = std::is_same_v<T, half> ? 65504.0F : BitsFloat(0x7F7F0000U);
    return value != value ? 0.0F : std::clamp(value, -most, most);
}

// A scale of a conversion to one byte: a float in 32 bits, an offset, and whether the result is int8_t.
constexpr int kOffsetBit = 37;  // of 9 bits
constexpr int kSignBit = 46;

constexpr int64_t OffsetOfScale(uint64_t bits)
{
    return static_cast<int64_t>((bits >> kOffsetBit & 0x1FFU) ^ 0x100U) - 0x100;
}

template <typename T>
inline Computed<T> ScalarOf(uint64_t bits)
{
    uint8_t bytes[sizeof(bits)];
    std::memcpy(bytes, &bits, sizeof(bits));
    return Load<T>(bytes);
}

/// One rounding to the element type, for results in a register.
template <typename T>
inline Computed<T> Rounded(Computed<T> value)
{
    if constexpr (std::is_same_v<T, half>) {
        return WidenHalf(NarrowToHalf(value));
    } else {
        return value;
    }
}

template <typename W>
inline W Plus(W a, W b)
{
    if constexpr (std::is_integral_v<W>) {
        return static_cast<W>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
        return a + b;
    }
}

template <typename W>
inline W Minus(W a, W b)
{
    if constexpr (std::is_integral_v<W>) {
        return static_cast<W>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
    } else {
        return a - b;
    }
}

template <typename W>
inline W Times(W a, W b)
{
    if constexpr (std::is_integral_v<W>) {
        return static_cast<W>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
        return a * b;
    }
}

template <typename W>
inline W Larger(W a, W b)
{
    return a < b ? b : a;
}

template <typename W>
inline W Smaller(W a, W b)
{
    return b < a ? b : a;
}

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_VECTOR_NUMBERS_H
