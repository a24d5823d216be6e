// Cast between dtypes, with the dtype pairs and rounding modes of Ascend 910B.
#ifndef OPFORGE_TWIN_KERNEL_CAST_H
#define OPFORGE_TWIN_KERNEL_CAST_H

#include "opforge_twin/kernel/vector.h"

namespace opforge::twin::kernel {

constexpr uint32_t Modes(std::initializer_list<AscendC::RoundMode> modes)
{
    uint32_t bits = 0;
    for (const AscendC::RoundMode mode : modes) {
        bits |= 1U << static_cast<uint32_t>(mode);
    }
    return bits;
}

/// The same for cores with both units.
template <typename T, typename U>
constexpr uint32_t CoupledCastModes()
{
    using AscendC::RoundMode;
    constexpr uint32_t none = Modes({RoundMode::CAST_NONE});
    constexpr uint32_t directed = Modes({RoundMode::CAST_RINT, RoundMode::CAST_FLOOR, RoundMode::CAST_CEIL,
                                         RoundMode::CAST_ROUND, RoundMode::CAST_TRUNC});
    if constexpr (std::is_same_v<U, half>) {
        return std::is_same_v<T, float>       ? none
               : std::is_same_v<T, int32_t>   ? directed
               : kIsAnyOf<T, int8_t, uint8_t> ? none | directed
                                              : 0;
    } else if constexpr (std::is_same_v<U, float>) {
        return std::is_same_v<T, half>      ? none | Modes({RoundMode::CAST_ODD})
               : std::is_same_v<T, int32_t> ? directed
                                            : 0;
    } else if constexpr (std::is_same_v<U, int32_t>) {
        return kIsAnyOf<T, float, half> ? none : 0;
    } else {
        return kIsAnyOf<U, int8_t, uint8_t> && std::is_same_v<T, half> ? none : 0;
    }
}

/// One bit per RoundMode that supports the conversion of `U` to `T`; 0 if the pair is not supported.
template <typename T, typename U>
constexpr uint32_t CastModes()
{
    using AscendC::RoundMode;
    if constexpr (kIsCoupled) {
        return CoupledCastModes<T, U>();
    }
    constexpr uint32_t none = Modes({RoundMode::CAST_NONE});
    constexpr uint32_t directed = Modes({RoundMode::CAST_RINT, RoundMode::CAST_FLOOR, RoundMode::CAST_CEIL,
                                         RoundMode::CAST_ROUND, RoundMode::CAST_TRUNC});
    if constexpr (std::is_same_v<U, half>) {
        return std::is_same_v<T, float>                         ? none
               : kIsAnyOf<T, int32_t, int16_t>                  ? directed
               : kIsAnyOf<T, int8_t, uint8_t, AscendC::int4b_t> ? none | directed
                                                                : 0;
    } else if constexpr (std::is_same_v<U, bfloat16_t>) {
        return std::is_same_v<T, float> ? none : std::is_same_v<T, int32_t> ? directed : 0;
    } else if constexpr (std::is_same_v<U, float>) {
        return std::is_same_v<T, half> ? none | directed | Modes({RoundMode::CAST_ODD})
               : kIsAnyOf<T, bfloat16_t, int32_t, int16_t, int64_t, float> ? directed
                                                                           : 0;
    } else if constexpr (std::is_same_v<U, int32_t>) {
        return std::is_same_v<T, float>        ? none | directed
               : kIsAnyOf<T, int16_t, int64_t> ? none
               : std::is_same_v<T, half>       ? none | directed | Modes({RoundMode::CAST_ODD})
                                               : 0;
    } else if constexpr (std::is_same_v<U, int64_t>) {
        return std::is_same_v<T, int32_t> ? none : std::is_same_v<T, float> ? directed : 0;
    } else if constexpr (kIsAnyOf<U, int8_t, uint8_t, AscendC::int4b_t>) {
        return std::is_same_v<T, half> ? none : 0;
    } else if constexpr (std::is_same_v<U, int16_t>) {
        return std::is_same_v<T, float> ? none : std::is_same_v<T, half> ? none | directed : 0;
    } else {
        return 0;
    }
}

template <typename T, typename U>
constexpr uint32_t RequireCast()
{
    RequireSameKind<T, U>();
    constexpr uint32_t modes = CastModes<PrimT<T>, PrimT<U>>();
    static_assert(modes != 0, "Cast: the architecture does not convert between these types; go through float");
    return modes;
}

}  // namespace opforge::twin::kernel

namespace AscendC {

template <typename T, typename U>
OPFORGE_API void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
                      const uint32_t count)
{
    twin::GateCast<T>();
    twin::Convert(dst.View(), src.View(), roundMode, twin::RequireCast<T, U>(), twin::Lanes::Count(count), {}, {},
                  {"Cast", twin::Here()});
}

OPFORGE_REPEATS(Cast, (typename T, typename U, bool isSetMask = true),
                (const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode), const,
                (const UnaryRepeatParams& repeatParams), const twin::UnaryStrides s(repeatParams);
                twin::Convert(dst.View(), src.View(), roundMode, twin::RequireCast<T, U>(), lanes, s.dst, s.src,
                              {"Cast", twin::Here()}))

inline float ToFloat(const bfloat16_t& bVal)
{
    return twin::Bfloat16ToFloat(bVal.bits);
}

inline bfloat16_t ToBfloat16(const float& fVal)
{
    return bfloat16_t::FromBits(twin::FloatToBfloat16(fVal));
}

// The names since 2026.
inline float Cast(const bfloat16_t& bVal)
{
    return ToFloat(bVal);
}

inline bfloat16_t Cast(const float& fVal)
{
    return ToBfloat16(fVal);
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_CAST_H
