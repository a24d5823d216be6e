// Conversion of host values to the bytes of an element type.
#ifndef OPFORGE_TWIN_HOST_GERT_HOST_VALUES_H
#define OPFORGE_TWIN_HOST_GERT_HOST_VALUES_H

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "host/ge/visit_type.h"
#include "opdev/data_type_utils.h"

namespace opforge::twin::host {

template <typename To, typename From>
void PutValue(From value, uint8_t* place)
{
    To converted{};
    if constexpr (std::is_same_v<To, bool>) {
        converted = value != From(0);
    } else if constexpr (std::is_integral_v<From> || std::is_same_v<To, double>) {
        converted = static_cast<To>(value);
    } else {
        converted = static_cast<To>(static_cast<float>(value));
    }
    std::memcpy(place, &converted, sizeof(converted));
}

/// Writes one value. Returns false for an element type that host values do not support.
template <typename From>
bool PutHostValue(From value, op::DataType dataType, uint8_t* place)
{
    return VisitType(dataType, [&](auto zero) { PutValue<decltype(zero)>(value, place); });
}

/// Returns all values as bytes; empty for an element type that host values do not support.
template <typename From>
std::vector<uint8_t> HostBytes(const From* value, uint64_t size, op::DataType dataType)
{
    std::vector<uint8_t> bytes(size * op::TypeSize(dataType));
    for (uint64_t i = 0; i < size; ++i) {
        if (!PutHostValue(value[i], dataType, bytes.data() + i * op::TypeSize(dataType))) {
            return {};
        }
    }
    return bytes;
}

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_GERT_HOST_VALUES_H
