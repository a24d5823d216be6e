#ifndef OP_HOST_SCALE_ALL_TILING_H
#define OP_HOST_SCALE_ALL_TILING_H

#include "common/plan.h"
#include "scale_all_problem.h"
#include "scale_all_tiling_data.h"

namespace opforge {

/// One core scales all tensors.
inline Plan<ScaleAllTilingData> PlanScaleAll(const ScaleAllProblem& /*problem*/, const Platform& /*platform*/)
{
    Plan<ScaleAllTilingData> plan;
    plan.tilingKey = SCALE_ALL_PLAIN;
    plan.blockNum = 1;
    plan.data.tile = 4096;
    return plan;
}

}  // namespace opforge

#endif  // OP_HOST_SCALE_ALL_TILING_H
