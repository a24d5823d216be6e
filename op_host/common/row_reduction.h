// Shared plan of operators that reduce rows independently: `plan: row_reduction`. One core reduces a whole row.
#ifndef OPFORGE_OP_HOST_COMMON_ROW_REDUCTION_H
#define OPFORGE_OP_HOST_COMMON_ROW_REDUCTION_H

#include <algorithm>
#include <cstdint>

#include "common/arithmetic.h"
#include "common/plan.h"
#include "common/tile.h"

namespace opforge {

/// The work to split. The byte counts include all buffers in UB.
struct RowReductionWork {
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t bytesPerElement = 0;
    int64_t bytesPerRow = 0;
    int64_t reservedBytes = 0;
};

/// Splits rows: core `b` has the rows `kernel::PartOf(rows, rowBlocks, b)` in tiles of `tileRows` rows. The rows of a
/// tile may be padded to 32 elements: its buffers have `tileRows * RoundUp(tileColumns, 32)` elements and `tileRows`
/// results.
template <typename Data>
constexpr Plan<Data> PlanRowReduction(const RowReductionWork& work, const Platform& platform)
{
    constexpr int64_t kRowPad = 32;     // elements of the smallest dtype in a 32-byte block
    constexpr int64_t kMaxRows = 4095;  // maximum rows of one DMA
    Plan<Data> plan;
    plan.blockNum = 1;
    const int64_t elements = SaturatingMul(work.rows, std::max<int64_t>(work.columns, 1));
    if (elements > tile::kMaxElements || work.columns > tile::kMaxElements) {
        plan.refusal = {"elements", std::max(elements, work.columns), tile::kMaxElements};
        return plan;
    }
    const int64_t perRow = SaturatingAdd(work.bytesPerRow, work.reservedBytes);
    const int64_t widest = RoundDown(tile::UnitsThatFit(work.bytesPerElement, perRow, platform), tile::kGranule);
    if (widest < tile::kGranule) {
        plan.refusal = tile::TooLarge(tile::kGranule, work.bytesPerElement, perRow, platform);
        return plan;
    }
    const int64_t cores = std::min(CeilDiv(elements, tile::kMinCoreElements), std::min(platform.coreNum, work.rows));
    const int64_t rowBlocks = std::max<int64_t>(cores, 1);
    const int64_t share = std::max<int64_t>(CeilDiv(work.rows, rowBlocks), 1);
    int64_t tileColumns = work.columns;
    int64_t tileRows = 1;
    if (const int64_t pitch = RoundUp(work.columns, kRowPad); pitch <= widest) {
        const int64_t rowBytes = std::max<int64_t>(pitch * work.bytesPerElement + work.bytesPerRow, 1);
        const int64_t fitting = std::min(tile::UnitsThatFit(rowBytes, work.reservedBytes, platform), kMaxRows);
        const int64_t padded = std::max(pitch, kRowPad);
        tileRows = std::min(fitting, CeilDiv(tile::InFlight(SaturatingMul(share, padded), 1), padded));
    } else {
        tileColumns = RoundUp(CeilDiv(work.columns, CeilDiv(work.columns, widest)), tile::kGranule);
    }
    plan.data.rows = work.rows;
    plan.data.columns = work.columns;
    plan.data.rowBlocks = static_cast<int32_t>(rowBlocks);
    plan.data.tileRows = static_cast<int32_t>(tileRows);
    plan.data.tileColumns = static_cast<int32_t>(tileColumns);
    const int64_t paddedRowBytes = RoundUp(tileColumns, kRowPad) * work.bytesPerElement + work.bytesPerRow;
    plan.data.plannedUbBytes = static_cast<int32_t>(tileRows * paddedRowBytes + work.reservedBytes);
    plan.blockNum = rowBlocks;
    return plan;
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_ROW_REDUCTION_H
