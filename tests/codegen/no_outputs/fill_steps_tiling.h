#ifndef OP_HOST_FILL_STEPS_TILING_H
#define OP_HOST_FILL_STEPS_TILING_H

#include <algorithm>
#include <cstdint>

#include "common/plan.h"
#include "fill_steps_problem.h"
#include "fill_steps_tiling_data.h"

namespace opforge {

/// Cores take rows in turn.
inline Plan<FillStepsTilingData> PlanFillSteps(const FillStepsProblem& problem, const Platform& platform)
{
    Plan<FillStepsTilingData> plan;
    plan.tilingKey = FILL_STEPS_PLAIN;
    plan.blockNum = std::max<int64_t>(1, std::min(problem.rows, platform.coreNum));
    plan.data.row = 1;
    for (const int64_t dim : problem.dims) {
        plan.data.row *= dim;
    }
    plan.data.start = problem.start;
    plan.data.step = problem.step;
    return plan;
}

}  // namespace opforge

#endif  // OP_HOST_FILL_STEPS_TILING_H
