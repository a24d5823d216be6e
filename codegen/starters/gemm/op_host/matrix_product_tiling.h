// Plan of MatrixProduct: tiles of y are split over the cube cores; a tile accumulates slices of the depth.
#ifndef OP_HOST_MATRIX_PRODUCT_TILING_H
#define OP_HOST_MATRIX_PRODUCT_TILING_H

#include <algorithm>
#include <cstdint>

#include "common/arithmetic.h"
#include "common/cube.h"
#include "common/plan.h"
#include "matrix_product_problem.h"
#include "matrix_product_tiling_data.h"

namespace opforge {

constexpr Plan<MatrixProductTilingData> PlanMatrixProduct(const MatrixProductProblem& problem, const Platform& platform)
{
    constexpr int64_t kMaxElements = int64_t{1} << 58;  // byte offsets stay far below 2^63
    constexpr int64_t kMaxSide = 128;                   // of a tile: two of them fit into L0C
    constexpr int64_t kMaxDepth = 512;                  // longer rows are not faster
    constexpr int64_t kSlots = 4;                       // in L1: two buffers of x and two of weight

    Plan<MatrixProductTilingData> plan;
    plan.blockNum = 1;
    const int64_t elements = std::max({SaturatingMul(problem.M, problem.N), SaturatingMul(problem.M, problem.K),
                                       SaturatingMul(problem.N, problem.K), problem.M, problem.N, problem.K});
    if (elements > kMaxElements) {
        plan.refusal = {"elements", elements, kMaxElements};
        return plan;
    }
    int64_t side = kMaxSide;
    // Smaller tiles load the operands more often, but larger tiles would leave cores without work.
    while (side > cube::kFractal &&
           SaturatingMul(CeilDiv(problem.M, side), CeilDiv(problem.N, side)) < platform.cubeCoreNum) {
        side /= 2;
    }
    const int64_t tileRows = cube::Balanced(problem.M, side);
    const int64_t tileColumns = cube::Balanced(problem.N, side);
    const int64_t fitting = platform.l1Bytes / kSlots / (std::max(tileRows, tileColumns) * SizeOf(problem.xDtype));
    const int64_t tiles = CeilDiv(problem.M, tileRows) * CeilDiv(problem.N, tileColumns);

    MatrixProductTilingData& data = plan.data;
    data.rows = problem.M;
    data.columns = problem.N;
    data.depth = problem.K;
    data.tileRows = static_cast<int32_t>(tileRows);
    data.tileColumns = static_cast<int32_t>(tileColumns);
    data.stepDepth = static_cast<int32_t>(std::min(RoundDown(fitting, cube::kFractal), kMaxDepth));
    data.l1Bytes = static_cast<int32_t>(platform.l1Bytes);
    data.l0Half = static_cast<int32_t>(std::min(platform.l0aBytes, platform.l0bBytes) / 2);
    data.l0cBytes = static_cast<int32_t>(platform.l0cBytes);
    plan.blockNum = std::clamp<int64_t>(tiles, 1, platform.cubeCoreNum);
    plan.tilingKey = MATRIX_PRODUCT_PLAIN;
    return plan;
}

// 100 x 100 elements: tiles of 32 x 32, of which there are 16 for 24 cores, would be too few.
static_assert(
    [] {
        MatrixProductProblem problem;
        problem.M = 100;
        problem.N = 100;
        problem.K = 1000;
        problem.xDtype = DataType::kFloat16;
        const Plan<MatrixProductTilingData> plan = PlanMatrixProduct(problem, kDefaultPlatform);
        return plan.blockNum == 24 && plan.data.tileRows == 16 && plan.data.stepDepth == 512;
    }(),
    "a small problem gets small tiles");

}  // namespace opforge

#endif  // OP_HOST_MATRIX_PRODUCT_TILING_H
