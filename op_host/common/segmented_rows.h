// Shared plan of operators that reduce runs of rows: `plan: segmented_rows`. Rows are split independent of the ends of
// segments, so that one long segment or many short ones keep all cores equally busy.
#ifndef OPFORGE_OP_HOST_COMMON_SEGMENTED_ROWS_H
#define OPFORGE_OP_HOST_COMMON_SEGMENTED_ROWS_H

#include <algorithm>
#include <cstdint>

#include "common/arithmetic.h"
#include "common/plan.h"
#include "common/tile.h"

namespace opforge {

namespace segmented_rows {

// A wider tile has the same burst length, but needs more UB.
inline constexpr int64_t kMaxTileWidth = 4096;
// Slices start at multiples of this; narrower slices reduce the rate of the DMA.
inline constexpr int64_t kSliceBytes = 2 * kGmSectorBytes;
// Minimum work per core; less work does not justify another core.
inline constexpr int64_t kMinCoreBytes = 16384;
// Cost of a barrier and of a row of a strided burst, as an equivalent number of DMA bytes.
inline constexpr int64_t kSyncBytes = 36864;
inline constexpr int64_t kStridedRowBytes = 64;

/// Returns the bytes of the masks in op_kernel/common/vector/row_sum.h: a bit for each float of all rows, for each row.
constexpr int64_t MaskBytes(int64_t packedRows, int64_t columns)
{
    constexpr int64_t floatsPerRepeat = 64;
    const int64_t bits = RoundUp(packedRows * columns, floatsPerRepeat);
    return packedRows > 1 ? packedRows * RoundUp(bits / 8, kUbBlockBytes) : 0;
}

struct Extent {
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t segments = 0;
    int64_t elementBytes = 0;
};

/// The cores as row blocks times column slices.
struct Grid {
    int64_t rowBlocks = 1;
    int64_t columnSlices = 1;
    int64_t sliceWidth = 0;
};

/// Returns the bytes that the busiest core of the grid transfers.
constexpr int64_t CostOf(const Extent& extent, const Grid& grid)
{
    const int64_t lines = CeilDiv(extent.rows, grid.rowBlocks) + CeilDiv(extent.segments, grid.rowBlocks);
    const bool wholeRows = grid.columnSlices == 1 && extent.columns <= kMaxTileWidth;
    const int64_t lineBytes = wholeRows ? extent.columns * extent.elementBytes
                                        : RoundUp(grid.sliceWidth * extent.elementBytes, kGmSectorBytes) +
                                              kStridedRowBytes * CeilDiv(grid.sliceWidth, kMaxTileWidth);
    // Two rows of partial sums are written, and about as many are read.
    const int64_t mergeBytes = grid.rowBlocks > 1 ? kSyncBytes + 4 * grid.sliceWidth * kFloatBytes : 0;
    return SaturatingAdd(SaturatingMul(lines, lineBytes), mergeBytes);
}

/// Returns the cheapest grid. For equal costs, whole rows are preferred because of their bursts.
constexpr Grid GridOf(const Extent& extent, const Platform& platform)
{
    const int64_t elements = SaturatingMul(extent.rows + extent.segments, extent.columns);
    const int64_t bytes = SaturatingMul(elements, extent.elementBytes);
    const int64_t cores = std::clamp<int64_t>(CeilDiv(bytes, kMinCoreBytes), 1, platform.coreNum);
    const int64_t granule = kSliceBytes / extent.elementBytes;
    Grid best;
    int64_t bestCost = -1;
    for (int64_t slices = 1; slices <= std::min(cores, CeilDiv(extent.columns, granule)); ++slices) {
        Grid grid;
        grid.sliceWidth = slices == 1 ? extent.columns : RoundUp(CeilDiv(extent.columns, slices), granule);
        grid.columnSlices = CeilDiv(extent.columns, grid.sliceWidth);
        grid.rowBlocks = std::min(cores / grid.columnSlices, std::max(extent.rows, extent.segments));
        const int64_t cost = CostOf(extent, grid);
        if (bestCost < 0 || cost < bestCost) {
            best = grid;
            bestCost = cost;
        }
    }
    return best;
}

}  // namespace segmented_rows

/// The work to split. `elementBytes` are bytes in global memory, `bytesPerColumn` those of all buffers in UB.
struct SegmentedRowsWork {
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t segments = 0;
    int64_t elementBytes = 0;
    int64_t bytesPerColumn = 0;
    int64_t reservedBytes = 0;
};

/// Splits rows and columns: core `b` has the columns of slice `b % columnSlices` and the rows `kernel::PartOf(used,
/// rowBlocks, b / columnSlices)`, where `used` rows belong to segments. It stores partial sums of the segments that
/// other row blocks also have, as floats in the workspace: `2 * rowBlocks` rows of `partialPitch`. They are merged
/// after a barrier.
template <typename Data>
constexpr Plan<Data> PlanSegmentedRows(const SegmentedRowsWork& work, const Platform& platform)
{
    namespace self = segmented_rows;
    Plan<Data> plan;
    plan.blockNum = 1;
    if (work.segments == 0 || work.columns == 0) {
        return plan;  // no segments and no columns in the tiling data: the kernel has nothing to write
    }
    const int64_t elements = SaturatingMul(SaturatingAdd(work.rows, work.segments), work.columns);
    if (elements > tile::kMaxElements) {
        plan.refusal = {"elements", elements, tile::kMaxElements};
        return plan;
    }
    const int64_t elementBytes = std::max<int64_t>(work.elementBytes, 1);
    const int64_t granule = self::kSliceBytes / elementBytes;
    const self::Grid grid = self::GridOf({work.rows, work.columns, work.segments, elementBytes}, platform);
    const int64_t capacity = tile::UnitsThatFit(work.bytesPerColumn, work.reservedBytes, platform);
    const int64_t widest = RoundDown(std::min(capacity, self::kMaxTileWidth), granule);
    if (widest < granule) {
        plan.refusal = tile::TooLarge(granule, work.bytesPerColumn, work.reservedBytes, platform);
        return plan;
    }
    const int64_t tiles = CeilDiv(grid.sliceWidth, widest);
    plan.data.rows = work.rows;
    plan.data.columns = work.columns;
    plan.data.segments = work.segments;
    plan.data.sliceWidth = grid.sliceWidth;
    plan.data.columnSlices = static_cast<int32_t>(grid.columnSlices);
    plan.data.rowBlocks = static_cast<int32_t>(grid.rowBlocks);
    plan.data.tileWidth = static_cast<int32_t>(RoundUp(CeilDiv(grid.sliceWidth, tiles), granule));
    plan.data.plannedUbBytes = static_cast<int32_t>(plan.data.tileWidth * work.bytesPerColumn + work.reservedBytes);
    plan.blockNum = grid.rowBlocks * grid.columnSlices;
    if (grid.rowBlocks > 1) {
        plan.data.partialPitch = RoundUp(work.columns, kGmSectorBytes / kFloatBytes);
        plan.workspaceBytes = 2 * grid.rowBlocks * plan.data.partialPitch * kFloatBytes;
    }
    return plan;
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_SEGMENTED_ROWS_H
