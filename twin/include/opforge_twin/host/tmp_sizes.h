// The temporary memory of high-level functions, from the table of the functions.
#ifndef OPFORGE_TWIN_HOST_TMP_SIZES_H
#define OPFORGE_TWIN_HOST_TMP_SIZES_H

#include <algorithm>
#include <cstdint>

#include "graph/tensor.h"
#include "graph/types.h"
#include "opforge_twin/arithmetic.h"
#include "tiling/platform/platform_ascendc.h"

namespace AscendC {

using TensorShape = ge::Shape;
using TensorDataType = ge::DataType;

}  // namespace AscendC

namespace opforge::twin::host {

enum class TmpUnit : uint8_t { kNone, kStep, kRow };

/// Temporary buffers of a function and their unit.
struct TmpRow {
    uint32_t buffers;
    TmpUnit unit;
};

namespace tmp {
#define OPFORGE_HIGH(name, family, fast, slow, buffers, unit, inPlace) \
    inline constexpr TmpRow k##name{buffers, TmpUnit::k##unit};
#include "opforge_twin/kernel/high/operations.inc"
#undef OPFORGE_HIGH
}  // namespace tmp

inline constexpr uint32_t kFloatBytes = 4;

inline uint32_t Elements(const ge::Shape& shape)
{
    return static_cast<uint32_t>(std::max<int64_t>(shape.GetShapeSize(), 0));
}

/// 0 if the shape does not have the axis, or if its size is not known.
inline uint32_t Axis(const ge::Shape& shape, size_t axis)
{
    return axis < shape.GetDimNum() ? static_cast<uint32_t>(std::max<int64_t>(shape.GetDim(axis), 0)) : 0;
}

inline uint32_t LastAxis(const ge::Shape& shape)
{
    const size_t rank = shape.GetDimNum();
    return rank == 0 ? 1 : Axis(shape, rank - 1);
}

/// The part of [B, S, H with padding, H] that is in memory.
inline ge::Shape Stored(const ge::Shape& shape)
{
    return shape.GetDimNum() < 4 ? shape : ge::Shape({shape.GetDim(0), shape.GetDim(1), shape.GetDim(2)});
}

/// The least bytes, as the function checks it.
inline uint32_t LeastBytes(const TmpRow& row, uint32_t lastAxis)
{
    const uint32_t unit =
        row.unit == TmpUnit::kStep ? kRepeatBytes : RoundUp<uint32_t>(lastAxis * kFloatBytes, kBlockBytes);
    return row.unit == TmpUnit::kNone ? 0 : row.buffers * unit;
}

/// The bytes for all elements at once.
inline uint32_t MostBytes(const TmpRow& row, uint32_t elements, uint32_t lastAxis)
{
    const uint32_t whole = row.buffers * RoundUp<uint32_t>(elements * kFloatBytes, kRepeatBytes);
    return row.unit == TmpUnit::kNone ? 0 : std::max(LeastBytes(row, lastAxis), whole);
}

inline void SetSizes(const TmpRow& row, const ge::Shape& shape, uint32_t& most, uint32_t& least)
{
    most = MostBytes(row, Elements(shape), LastAxis(shape));
    least = LeastBytes(row, LastAxis(shape));
}

/// The functions compute in float: a buffer has 4 bytes for each element of `typeSize` bytes.
inline void SetFactors(const TmpRow& row, uint32_t typeSize, uint32_t& liveNodes, uint32_t& extra)
{
    liveNodes = typeSize == 0 ? 0 : row.buffers * RoundUp(kFloatBytes, typeSize) / typeSize;
    extra = 0;
}

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_TMP_SIZES_H
