#ifndef OP_HOST_SPLIT_ROWS_TILING_H
#define OP_HOST_SPLIT_ROWS_TILING_H

#include <algorithm>
#include <cstdint>

#include "common/plan.h"
#include "split_rows_problem.h"
#include "split_rows_tiling_data.h"

namespace opforge {

/// Cores take the parts in turn.
inline Plan<SplitRowsTilingData> PlanSplitRows(const SplitRowsProblem& problem, const Platform& platform)
{
    Plan<SplitRowsTilingData> plan;
    plan.tilingKey = SPLIT_ROWS_PLAIN;
    plan.blockNum = std::clamp<int64_t>(static_cast<int64_t>(problem.yShapes.size()), 1, platform.coreNum);
    plan.data.width = problem.M;
    return plan;
}

}  // namespace opforge

#endif  // OP_HOST_SPLIT_ROWS_TILING_H
