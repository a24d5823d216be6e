// Plan of GroupedBiasAddGrad: a grid of row blocks times column slices over the vector cores, independent of the
// groups.
#ifndef OPFORGE_OP_HOST_GROUPED_BIAS_ADD_GRAD_TILING_H
#define OPFORGE_OP_HOST_GROUPED_BIAS_ADD_GRAD_TILING_H

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>

#include "common/arithmetic.h"
#include "common/plan.h"
#include "common/segmented_rows.h"
#include "common/tile.h"
#include "grouped_bias_add_grad_problem.h"
#include "grouped_bias_add_grad_tiling_data.h"

namespace opforge {

namespace grouped_bias_add_grad {

inline constexpr int64_t kMaxIndexedRows = std::numeric_limits<int32_t>::max();
inline constexpr int64_t kFloatsPerBlock = kUbBlockBytes / kFloatBytes;

// A burst of 16 KiB reaches the full rate of the DMA. Four bursts hide its latency if groups are short.
inline constexpr int64_t kTileBytes = 16384;
inline constexpr int64_t kTileBuffers = 4;
inline constexpr int64_t kStoreBuffers = 2;
using segmented_rows::kMaxTileWidth;
static_assert(kMaxTileWidth * kFloatBytes <= kTileBytes, "a tile holds at least one row");
// Two halves of a tile start in different bank groups.
inline constexpr int64_t kBankBytes = 512;
// Maximum elements of packed rows that fill whole 32-byte blocks; for more, folding costs more than padding.
inline constexpr int64_t kMaxPackedElements = 2048;
// Limits of one vector instruction (repeats, 32-byte blocks from one repeat to the next) and of one DMA (rows).
inline constexpr int64_t kMaxRepeats = 255;
inline constexpr int64_t kMaxGroupElements = 255 * kFloatsPerBlock;
inline constexpr int64_t kMaxBlockCount = 4095;
using segmented_rows::Grid;
using segmented_rows::kSliceBytes;

/// Sizes of one problem, for both cases.
struct Shape {
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t groups = 0;
    int64_t rowsPerGroup = 0;
    int64_t elementBytes = 0;
    int64_t indexBytes = 0;  // 0: no index list

    constexpr bool IsIndexed() const { return indexBytes != 0; }
};

constexpr Shape ShapeOf(const GroupedBiasAddGradProblem& problem)
{
    Shape shape;
    shape.columns = problem.H;
    shape.groups = problem.G;
    shape.elementBytes = SizeOf(problem.gradYDtype);
    if (problem.shapeCase == GroupedBiasAddGradCase::kIndexed) {
        shape.rows = problem.T;
        shape.indexBytes = SizeOf(problem.groupIdxDtype);
    } else {
        shape.rows = SaturatingMul(problem.G, problem.C);
        shape.rowsPerGroup = problem.C;
    }
    return shape;
}

/// Bytes of every buffer in UB; computed only in BudgetOf.
struct Budget {
    int64_t tileWidth = 0;    // columns
    int64_t packedRows = 0;   // 0: rows are padded to a multiple of 32 bytes
    int64_t keptGroups = 1;   // sums that are folded and stored together
    int64_t batchGroups = 0;  // groups in one burst; 0: a burst has rows of one group
    int64_t workBytes = 0;
    int64_t sumBytes = 0;
    int64_t maskBytes = 0;
    int64_t storeBytes = 0;
    int64_t listBytes = 0;

    constexpr int64_t Total() const
    {
        return kTileBuffers * kTileBytes + workBytes + sumBytes + maskBytes + kStoreBuffers * storeBytes + listBytes;
    }
};

/// Returns the buffers that do not depend on the width of a tile.
constexpr Budget FixedBudget(const Shape& shape)
{
    // The 32-byte block before the list contains the start of the first group. Five lists are the scratch buffer for
    // clamping, running sum and order test.
    const int64_t listBytes = shape.IsIndexed() ? std::max<int64_t>(RoundUpToPowerOfTwo(shape.groups), 64) * 4 : 0;
    Budget budget;
    budget.listBytes = shape.IsIndexed() ? listBytes + kUbBlockBytes : 0;
    // Half types are converted to floats in this buffer; floats are copied.
    const int64_t widenedBytes = kTileBytes / shape.elementBytes * kFloatBytes;
    budget.workBytes = std::max(widenedBytes + kBankBytes, 5 * listBytes);
    return budget;
}

/// Returns the number of small groups of equal size in one burst, with at most `widest` columns in total. Returns 0 if
/// the groups are too large, or too few for all cores.
constexpr int64_t BatchOf(const Shape& shape, const Grid& grid, int64_t widest)
{
    if (shape.IsIndexed() || shape.rowsPerGroup == 0 || grid.columnSlices > 1 ||
        shape.groups < kMinBatchGroups * grid.rowBlocks) {
        return 0;
    }
    const int64_t padded = RoundUp(shape.columns, kUbBlockBytes / shape.elementBytes);
    const int64_t pitch = shape.columns % kFloatsPerBlock == 0 ? shape.columns : padded;
    const int64_t groupElements = SaturatingMul(shape.rowsPerGroup, pitch);
    if (groupElements > kMaxGroupElements) {
        return 0;
    }
    const int64_t groups = std::min({kMaxRepeats, kTileBytes / shape.elementBytes / groupElements, widest / padded,
                                     kMaxBlockCount / shape.rowsPerGroup});
    return groups < 2 ? 0 : groups;
}

/// Uses the rest of UB for sums of packed rows that are folded together.
constexpr void KeepGroups(Budget& budget, int64_t columns, int64_t ubBytes)
{
    const int64_t stretch = budget.packedRows * columns;
    const int64_t widest = budget.workBytes / kFloatBytes - kFloatsPerBlock * kFloatsPerBlock;
    const int64_t bytes = (stretch + kStoreBuffers * columns) * kFloatBytes;
    if (stretch == 0 || widest < stretch) {
        return;
    }
    const int64_t fitting = (ubBytes - budget.Total() - kStoreBuffers * kUbBlockBytes) / bytes;
    budget.keptGroups = std::clamp<int64_t>(widest / stretch, 1, std::max<int64_t>(fitting, 1));
    budget.sumBytes = std::max(budget.sumBytes, budget.keptGroups * stretch * kFloatBytes);
    budget.storeBytes =
        std::max(budget.storeBytes, RoundUp(budget.keptGroups * columns, kFloatsPerBlock) * kFloatBytes);
}

/// Returns the budget of the widest tile that fits, at most the slice of the grid. tileWidth 0: the narrowest tile does
/// not fit; the budget is its size.
constexpr Budget BudgetOf(const Shape& shape, const Grid& grid, const Platform& platform)
{
    Budget budget = FixedBudget(shape);
    const int64_t perColumn = kFloatBytes * (1 + kStoreBuffers);
    const int64_t maskBytes = segmented_rows::MaskBytes(kFloatsPerBlock, kMaxPackedElements / kFloatsPerBlock);
    const int64_t left = std::max<int64_t>(platform.ubBytes - budget.Total() - maskBytes, 0);
    const int64_t granule = kSliceBytes / shape.elementBytes;
    const int64_t widest = std::min(kMaxTileWidth, RoundDown(left / perColumn, granule));
    if (widest < kMaxPackedElements) {
        budget.sumBytes = budget.storeBytes = kMaxPackedElements * kFloatBytes;
        budget.maskBytes = maskBytes;
        return budget;
    }
    const int64_t tiles = CeilDiv(grid.sliceWidth, widest);
    budget.tileWidth = tiles == 1 ? grid.sliceWidth : RoundUp(CeilDiv(grid.sliceWidth, tiles), granule);
    const int64_t paddedBytes = RoundUp(budget.tileWidth, kUbBlockBytes / shape.elementBytes) * kFloatBytes;
    budget.storeBytes = paddedBytes;
    budget.sumBytes = paddedBytes;

    const int64_t packedRows = kFloatsPerBlock / std::gcd(kFloatsPerBlock, shape.columns);
    const bool wholeRows = budget.tileWidth == shape.columns;
    if (wholeRows && (packedRows == 1 || packedRows * shape.columns <= kMaxPackedElements)) {
        budget.packedRows = packedRows;
        budget.sumBytes = std::max(paddedBytes, packedRows * shape.columns * kFloatBytes);
        budget.maskBytes = segmented_rows::MaskBytes(packedRows, shape.columns);
    }
    budget.batchGroups = wholeRows ? BatchOf(shape, grid, widest) : 0;
    if (budget.batchGroups > 0) {
        budget.storeBytes = std::max(budget.storeBytes, budget.batchGroups * paddedBytes);
        budget.sumBytes = std::max(budget.sumBytes, budget.batchGroups * paddedBytes);
    }
    KeepGroups(budget, shape.columns, platform.ubBytes);
    return budget;
}

}  // namespace grouped_bias_add_grad

/// Splits rows and columns over the cores and UB over the buffers of a core. The rows of the groups are known on the
/// device only; every core splits them over `rowBlocks` in the same way.
constexpr Plan<GroupedBiasAddGradTilingData> PlanGroupedBiasAddGrad(const GroupedBiasAddGradProblem& problem,
                                                                    const Platform& platform)
{
    namespace self = grouped_bias_add_grad;
    const self::Shape shape = self::ShapeOf(problem);
    Plan<GroupedBiasAddGradTilingData> plan;
    plan.tilingKey = !shape.IsIndexed()      ? GROUPED_BIAS_ADD_GRAD_EQUAL
                     : shape.indexBytes == 4 ? GROUPED_BIAS_ADD_GRAD_INDEX32
                                             : GROUPED_BIAS_ADD_GRAD_INDEX64;
    plan.blockNum = 1;
    if (shape.groups == 0 || shape.columns == 0) {
        return plan;  // nothing to write: the kernel returns immediately
    }
    const int64_t elements = SaturatingMul(SaturatingAdd(shape.rows, shape.groups), shape.columns);
    if (elements > tile::kMaxElements) {
        plan.refusal = {"elements of grad_y and grad_bias", elements, tile::kMaxElements};
        return plan;
    }
    if (shape.IsIndexed() && shape.rows > self::kMaxIndexedRows) {
        plan.refusal = {"rows of grad_y with group_idx", shape.rows, self::kMaxIndexedRows};
        return plan;
    }
    const self::Grid grid =
        segmented_rows::GridOf({shape.rows, shape.columns, shape.groups, shape.elementBytes}, platform);
    const self::Budget budget = self::BudgetOf(shape, grid, platform);
    if (budget.tileWidth == 0) {
        plan.refusal = {"bytes of the unified buffer", budget.Total(), platform.ubBytes};
        return plan;
    }

    GroupedBiasAddGradTilingData& data = plan.data;
    data.rows = shape.rows;
    data.columns = shape.columns;
    data.groups = shape.groups;
    data.rowsPerGroup = shape.rowsPerGroup;
    data.groupRows = shape.IsIndexed() ? CeilDiv(self::kGroupBytes, grid.sliceWidth * shape.elementBytes) : 0;
    data.wholeRows = self::kWholeGroupBytes / (grid.sliceWidth * shape.elementBytes);
    data.sliceWidth = grid.sliceWidth;
    data.columnSlices = static_cast<int32_t>(grid.columnSlices);
    data.rowBlocks = static_cast<int32_t>(grid.rowBlocks);
    data.tileWidth = static_cast<int32_t>(budget.tileWidth);
    data.packedRows = static_cast<int32_t>(budget.packedRows);
    data.keptGroups = static_cast<int32_t>(budget.keptGroups);
    data.batchGroups = static_cast<int32_t>(budget.batchGroups);
    data.lengths = problem.groupIdxType == 1 ? 1 : 0;
    data.tileBuffers = self::kTileBuffers;
    data.tileBytes = self::kTileBytes;
    data.workBytes = static_cast<int32_t>(budget.workBytes);
    data.sumBytes = static_cast<int32_t>(budget.sumBytes);
    data.maskBytes = static_cast<int32_t>(budget.maskBytes);
    data.storeBuffers = self::kStoreBuffers;
    data.storeBytes = static_cast<int32_t>(budget.storeBytes);
    data.listBytes = static_cast<int32_t>(budget.listBytes);
    data.plannedUbBytes = static_cast<int32_t>(budget.Total());

    plan.blockNum = grid.rowBlocks * grid.columnSlices;
    if (grid.rowBlocks > 1 && budget.batchGroups == 0) {
        // A row block stores at most two rows of partial sums: of its first group and of its last group.
        data.partialPitch = RoundUp(shape.columns, kGmSectorBytes / kFloatBytes);
        plan.workspaceBytes = 2 * grid.rowBlocks * data.partialPitch * kFloatBytes;
    }
    return plan;
}

namespace grouped_bias_add_grad {

constexpr Plan<GroupedBiasAddGradTilingData> ExamplePlan(int64_t rows, int64_t columns, int64_t groups)
{
    GroupedBiasAddGradProblem problem;
    problem.T = rows;
    problem.H = columns;
    problem.G = groups;
    problem.gradYDtype = DataType::kFloat16;
    problem.groupIdxDtype = DataType::kInt64;
    return PlanGroupedBiasAddGrad(problem, kDefaultPlatform);
}

static_assert(ExamplePlan(1, 1, 1).blockNum == 1, "a tiny problem stays on one core");
static_assert(ExamplePlan(65536, 1024, 8).data.rowBlocks == 48, "many rows: every core has whole rows");
static_assert(ExamplePlan(65536, 1024, 8).workspaceBytes == int64_t{2} * 48 * 1024 * 4,
              "two partial rows for each row block");
static_assert(ExamplePlan(1, 1000000, 1).data.columnSlices == 48, "one wide row: every core has some columns");
static_assert(ExamplePlan(1, 1000000, 1).workspaceBytes == 0, "one row block: nothing to merge");
static_assert(ExamplePlan(64, 8192, 4).blockNum == 32, "few wide rows: slices of 256 bytes");
static_assert(ExamplePlan(262144, 30, 8).data.packedRows == 4, "four rows of 30 floats end on a 32-byte border");
static_assert(ExamplePlan(int64_t{1} << 31, 1, 1).refusal.allowed == 2147483647, "ends of groups are 32-bit");

}  // namespace grouped_bias_add_grad

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_GROUPED_BIAS_ADD_GRAD_TILING_H
