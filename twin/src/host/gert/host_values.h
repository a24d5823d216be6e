// Conversion of host values to the bytes of an element type.
#ifndef OPFORGE_TWIN_HOST_GERT_HOST_VALUES_H
#define OPFORGE_TWIN_HOST_GERT_HOST_VALUES_H

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "opdev/bfloat16.h"
#include "opdev/data_type_utils.h"
#include "opdev/fp16_t.h"

namespace opforge::twin::host {

template <typename To, typename From>
void PutValue(From value, uint8_t* place)
{
    To converted{};
    if constexpr (std::is_integral_v<From> || std::is_same_v<To, double>) {
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
    switch (dataType) {
        case ge::DT_FLOAT:
            PutValue<float>(value, place);
            return true;
        case ge::DT_FLOAT16:
            PutValue<op::fp16_t>(value, place);
            return true;
        case ge::DT_BF16:
            PutValue<op::bfloat16>(value, place);
            return true;
        case ge::DT_DOUBLE:
            PutValue<double>(value, place);
            return true;
        case ge::DT_INT8:
            PutValue<int8_t>(value, place);
            return true;
        case ge::DT_INT16:
            PutValue<int16_t>(value, place);
            return true;
        case ge::DT_INT32:
            PutValue<int32_t>(value, place);
            return true;
        case ge::DT_INT64:
            PutValue<int64_t>(value, place);
            return true;
        case ge::DT_UINT8:
            PutValue<uint8_t>(value, place);
            return true;
        case ge::DT_UINT16:
            PutValue<uint16_t>(value, place);
            return true;
        case ge::DT_UINT32:
            PutValue<uint32_t>(value, place);
            return true;
        case ge::DT_UINT64:
            PutValue<uint64_t>(value, place);
            return true;
        case ge::DT_BOOL:
            *place = value != From(0) ? 1 : 0;
            return true;
        default:
            return false;
    }
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
