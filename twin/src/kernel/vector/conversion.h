// The conversion of one element between dtypes, in all rounding modes.
#ifndef OPFORGE_TWIN_KERNEL_VECTOR_CONVERSION_H
#define OPFORGE_TWIN_KERNEL_VECTOR_CONVERSION_H

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/vector/numbers.h"

namespace opforge::twin::kernel {

/// Rounds to an integer value, in double: exact for all values of float and int32 and the quotients below.
inline double RoundWhole(double value, AscendC::RoundMode mode)
{
    switch (mode) {
        case AscendC::RoundMode::CAST_FLOOR:
            return std::floor(value);
        case AscendC::RoundMode::CAST_CEIL:
            return std::ceil(value);
        case AscendC::RoundMode::CAST_ROUND:
            return std::round(value);
        case AscendC::RoundMode::CAST_TRUNC:
            return std::trunc(value);
        case AscendC::RoundMode::CAST_ODD: {
            const double whole = std::trunc(value);
            return whole == value || std::fmod(whole, 2.0) != 0.0 ? whole : whole + std::copysign(1.0, value);
        }
        default:
            return std::nearbyint(value);
    }
}

/// Rounds to a format with `digits` significant bits and the minimum exponent `lowest`.
inline double RoundToDigits(double value, int digits, int lowest, AscendC::RoundMode mode)
{
    if (value == 0.0 || !std::isfinite(value)) {
        return value;
    }
    const int exponent = std::max(std::ilogb(value), lowest) - (digits - 1);
    return std::ldexp(RoundWhole(std::ldexp(value, -exponent), mode), exponent);
}

/// The result above the largest finite number: infinity, or that number if the mode rounds toward it.
inline double Overflow(double rounded, double largest, AscendC::RoundMode mode)
{
    if (std::isnan(rounded) || std::fabs(rounded) <= largest) {
        return rounded;
    }
    const bool staysFinite = mode == AscendC::RoundMode::CAST_TRUNC || mode == AscendC::RoundMode::CAST_ODD ||
                             (mode == AscendC::RoundMode::CAST_FLOOR && rounded > 0) ||
                             (mode == AscendC::RoundMode::CAST_CEIL && rounded < 0);
    return staysFinite && std::isfinite(rounded) ? std::copysign(largest, rounded)
                                                 : std::copysign(std::numeric_limits<double>::infinity(), rounded);
}

template <typename T>
T Saturate(double value)
{
    if (std::isnan(value)) {
        return 0;
    }
    constexpr auto low = static_cast<double>(std::numeric_limits<T>::min());
    constexpr auto high = static_cast<double>(std::numeric_limits<T>::max());
    return value <= low    ? std::numeric_limits<T>::min()
           : value >= high ? std::numeric_limits<T>::max()
                           : static_cast<T>(value);
}

template <typename T>
T SaturateWhole(int64_t value)
{
    constexpr auto low = static_cast<int64_t>(std::numeric_limits<T>::min());
    constexpr auto high = static_cast<int64_t>(std::numeric_limits<T>::max());
    return static_cast<T>(value < low ? low : value > high ? high : value);
}

inline float WholeToFloat(int64_t value, AscendC::RoundMode mode)
{
    // float(int64) rounds to nearest even; the other modes adjust it by integer comparisons.
    auto nearest = static_cast<float>(value);
    if (mode == AscendC::RoundMode::CAST_RINT || mode == AscendC::RoundMode::CAST_NONE) {
        return nearest;
    }
    const auto delta = static_cast<long double>(nearest) - static_cast<long double>(value);
    const float infinity = std::numeric_limits<float>::infinity();
    const bool tooHigh = delta > 0;
    const bool tooLow = delta < 0;
    switch (mode) {
        case AscendC::RoundMode::CAST_FLOOR:
            return tooHigh ? std::nextafter(nearest, -infinity) : nearest;
        case AscendC::RoundMode::CAST_CEIL:
            return tooLow ? std::nextafter(nearest, infinity) : nearest;
        case AscendC::RoundMode::CAST_TRUNC:
            return value > 0 ? (tooHigh ? std::nextafter(nearest, 0.0F) : nearest)
                             : (tooLow ? std::nextafter(nearest, 0.0F) : nearest);
        default: {
            const float away = std::nextafter(nearest, value > 0 ? infinity : -infinity);
            const long double toAway = std::fabs(static_cast<long double>(away) - static_cast<long double>(value));
            return toAway == std::fabs(delta) ? away : nearest;
        }
    }
}

struct Conversion {
    AscendC::RoundMode mode;
    float scale;  ///< int32 to half
};

template <typename T, typename U>
Computed<T> ConvertOne(Computed<U> value, const Conversion& how)
{
    const AscendC::RoundMode mode = how.mode;
    const bool isNearest = mode == AscendC::RoundMode::CAST_NONE || mode == AscendC::RoundMode::CAST_RINT;
    if constexpr (std::is_same_v<U, int32_t> && std::is_same_v<T, half>) {
        return static_cast<float>(value) * how.scale;
    } else if constexpr (std::is_integral_v<U> && std::is_same_v<T, float>) {
        return WholeToFloat(value, mode);
    } else if constexpr (std::is_integral_v<U> && std::is_same_v<T, half>) {
        return isNearest ? static_cast<float>(value)
                         : static_cast<float>(Overflow(RoundToDigits(value, 11, -14, mode), 65504.0, mode));
    } else if constexpr (std::is_integral_v<U>) {
        return SaturateWhole<T>(value);
    } else if constexpr (std::is_same_v<T, half>) {
        return isNearest ? value : static_cast<float>(Overflow(RoundToDigits(value, 11, -14, mode), 65504.0, mode));
    } else if constexpr (std::is_same_v<T, bfloat16_t>) {
        const double largest = 0x1.FEp127;
        return isNearest ? value : static_cast<float>(Overflow(RoundToDigits(value, 8, -126, mode), largest, mode));
    } else if constexpr (std::is_same_v<T, float>) {
        return mode == AscendC::RoundMode::CAST_NONE ? value : static_cast<float>(RoundWhole(value, mode));
    } else {
        return Saturate<T>(RoundWhole(value, mode));
    }
}

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_VECTOR_CONVERSION_H
