// Sizes of tiles in shared plans: units that fit into UB, and tiles of a core.
#ifndef OPFORGE_OP_HOST_COMMON_TILE_H
#define OPFORGE_OP_HOST_COMMON_TILE_H

#include <algorithm>
#include <cstdint>

#include "common/arithmetic.h"
#include "common/plan.h"

namespace opforge {
namespace tile {

inline constexpr int64_t kMaxElements = int64_t{1} << 58;  // byte offsets stay far below 2^63
// Elements that start at a sector of global memory for every dtype.
inline constexpr int64_t kGranule = 128;
// Minimum work per core; less work does not justify another core.
inline constexpr int64_t kMinCoreElements = 2048;
// Minimum number of tiles per core, so that loads, sums and stores overlap. More, smaller tiles reduce the DMA rate.
inline constexpr int64_t kTilesInFlight = 4;
inline constexpr int64_t kMinTileElements = 4096;
// Vector instructions count the elements of a tile in 32 bits.
inline constexpr int64_t kMaxTileElements = int64_t{1} << 20;

/// Returns the number of units of `unitBytes` that fit into UB in addition to the reserved bytes.
constexpr int64_t UnitsThatFit(int64_t unitBytes, int64_t reservedBytes, const Platform& platform)
{
    const int64_t left = std::max<int64_t>(platform.ubBytes - reservedBytes, 0);
    return std::min(left / std::max<int64_t>(unitBytes, 1), kMaxTileElements);
}

/// Returns the rejection of a problem whose smallest tile of `units` units of `unitBytes` does not fit.
constexpr Refusal TooLarge(int64_t units, int64_t unitBytes, int64_t reservedBytes, const Platform& platform)
{
    const int64_t needed = SaturatingAdd(SaturatingMul(units, std::max<int64_t>(unitBytes, 1)), reservedBytes);
    return {"bytes of the unified buffer", needed, platform.ubBytes};
}

/// Returns the minimum elements of a tile, in multiples of `granule`, so that a core has several tiles.
constexpr int64_t InFlight(int64_t elements, int64_t granule)
{
    const int64_t several = RoundUp(CeilDiv(elements, kTilesInFlight), granule);
    return std::min(std::max(several, RoundUp(kMinTileElements, granule)), RoundUp(elements, granule));
}

}  // namespace tile
}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_TILE_H
