// Plan of ScatterSum: the rows of x, and the rows of y to fill with zeros, are split evenly over the cores.
#ifndef OP_HOST_SCATTER_SUM_TILING_H
#define OP_HOST_SCATTER_SUM_TILING_H

#include <algorithm>
#include <cstdint>

#include "common/arithmetic.h"
#include "common/plan.h"
#include "scatter_sum_problem.h"
#include "scatter_sum_tiling_data.h"

namespace opforge {

constexpr Plan<ScatterSumTilingData> PlanScatterSum(const ScatterSumProblem& problem, const Platform& platform)
{
    constexpr int64_t kMaxElements = int64_t{1} << 58;  // byte offsets stay far below 2^63
    constexpr int64_t kElementBytes = 4;
    constexpr int64_t kFloatsPerBlock = kUbBlockBytes / kElementBytes;
    constexpr int64_t kBuffers = 3;              // two buffers of a row, one row of zeros
    constexpr int64_t kMinCoreElements = 2048;   // less work does not justify another core
    constexpr int64_t kMaxTileElements = 16384;  // longer bursts are not faster

    Plan<ScatterSumTilingData> plan;
    plan.blockNum = 1;
    const int64_t rows = std::max(problem.N, problem.count);
    const int64_t elements = SaturatingMul(rows, std::max<int64_t>(problem.D, 1));
    if (elements > kMaxElements || problem.D > kMaxElements) {
        plan.refusal = {"elements", std::max(elements, problem.D), kMaxElements};
        return plan;
    }
    const int64_t fitting = RoundDown(platform.ubBytes / (kBuffers * kElementBytes), kFloatsPerBlock);
    plan.data.rows = problem.N;
    plan.data.columns = problem.D;
    plan.data.count = problem.count;
    plan.data.tile = static_cast<int32_t>(
        std::min({fitting, kMaxTileElements, std::max(RoundUp(problem.D, kFloatsPerBlock), kFloatsPerBlock)}));
    plan.data.plannedUbBytes = static_cast<int32_t>(kBuffers * plan.data.tile * kElementBytes);
    plan.blockNum = std::clamp<int64_t>(CeilDiv(elements, kMinCoreElements), 1, std::min(platform.coreNum, rows + 1));
    plan.tilingKey = SCATTER_SUM_PLAIN;
    return plan;
}

// 3 rows of 5 elements for 2 rows: one core, one block of eight elements at a time.
static_assert(
    [] {
        ScatterSumProblem problem;
        problem.N = 3;
        problem.D = 5;
        problem.count = 2;
        const Plan<ScatterSumTilingData> plan = PlanScatterSum(problem, kDefaultPlatform);
        return plan.blockNum == 1 && plan.data.tile == 8 && plan.refusal.limit == nullptr;
    }(),
    "a small problem needs one core");

}  // namespace opforge

#endif  // OP_HOST_SCATTER_SUM_TILING_H
