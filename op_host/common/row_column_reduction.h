// Shared plan of operators that reduce rows, and sum columns over all rows: `plan: row_column_reduction`. One core
// reduces a row. The sums of the cores are added after a barrier.
#ifndef OPFORGE_OP_HOST_COMMON_ROW_COLUMN_REDUCTION_H
#define OPFORGE_OP_HOST_COMMON_ROW_COLUMN_REDUCTION_H

#include <cstdint>

#include "common/arithmetic.h"
#include "common/plan.h"
#include "common/row_reduction.h"
#include "common/tile.h"

namespace opforge {

/// The work to split. Bytes are those of all buffers in UB. `bytesPerColumn` are those of buffers for all columns, for
/// example the running sums. `sums` are the sums of each column.
struct RowColumnReductionWork {
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t bytesPerElement = 0;
    int64_t bytesPerColumn = 0;
    int64_t bytesPerRow = 0;
    int64_t sums = 1;
    int64_t reservedBytes = 0;
};

/// Splits rows as PlanRowReduction. Buffers for all columns have `RoundUp(columns, 32)` elements. If there are several
/// cores, the workspace has `sums * rowBlocks` rows of `partialPitch` floats.
template <typename Data>
constexpr Plan<Data> PlanRowColumnReduction(const RowColumnReductionWork& work, const Platform& platform)
{
    constexpr int64_t kColumnPad = 32;
    const int64_t padded = work.columns > tile::kMaxElements ? work.columns : RoundUp(work.columns, kColumnPad);
    const int64_t reserved = SaturatingAdd(SaturatingMul(padded, work.bytesPerColumn), work.reservedBytes);
    Plan<Data> plan =
        PlanRowReduction<Data>({work.rows, work.columns, work.bytesPerElement, work.bytesPerRow, reserved}, platform);
    if (plan.refusal.limit == nullptr && plan.blockNum > 1) {
        plan.data.partialPitch = RoundUp(work.columns, kGmSectorBytes / kFloatBytes);
        plan.workspaceBytes =
            SaturatingMul(work.sums * plan.blockNum, SaturatingMul(plan.data.partialPitch, kFloatBytes));
    }
    return plan;
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_ROW_COLUMN_REDUCTION_H
