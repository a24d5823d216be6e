// Plan of BatchNormElemtBackward: slices of channels times batches, split evenly over the vector cores.
#ifndef OPFORGE_OP_HOST_BATCH_NORM_ELEMT_BACKWARD_TILING_H
#define OPFORGE_OP_HOST_BATCH_NORM_ELEMT_BACKWARD_TILING_H

#include <algorithm>
#include <cstdint>

#include "batch_norm_elemt_backward_problem.h"
#include "batch_norm_elemt_backward_tiling_data.h"
#include "common/arithmetic.h"
#include "common/plan.h"

namespace opforge {

namespace batch_norm_elemt_backward {

inline constexpr int64_t kMaxElements = int64_t{1} << 58;  // byte offsets stay far below 2^63
inline constexpr int64_t kFloatsPerBlock = kUbBlockBytes / kFloatBytes;
inline constexpr int64_t kFloatsPerRepeat = 64;
inline constexpr int64_t kFloatsPerBankGroups = 128;  // 16 bank groups of 32 bytes

// Queues of grad_out, input and grad_input, two buffers each.
inline constexpr int64_t kTileBuffers = 6;
// From this size, each channel of a batch is processed by separate vector instructions.
inline constexpr int64_t kWideInner = 256;
// Inputs of a channel: mean, invstd, weight, sum_dy and sum_dy_xmu. The kernel computes four factors from them.
inline constexpr int64_t kGivenPerChannel = 5;
inline constexpr int64_t kFactors = 4;
// Channels whose factors are computed together if a tile has few channels.
inline constexpr int64_t kMaxRowChannels = 512;
inline constexpr int64_t kMaxCounters = 2048;  // maximum number of counters per load
inline constexpr int64_t kMinWorkFloats = 768;
// The search reduces the size by 1 / kTriedPart in each step.
inline constexpr int64_t kTriedPart = 32;
// Numbers of pieces that are tried if the last piece must be long enough for a store of whole blocks.
inline constexpr int64_t kMostTried = 512;

// A piece of a channel of this size fits into UB in every dtype.
inline constexpr int64_t kMaxPieceBytes = 16384;

/// Sizes of one problem. A single channel is one long row over all batches.
struct Shape {
    int64_t batches = 0;
    int64_t channels = 0;
    int64_t inner = 0;
    int64_t counters = 0;
    int64_t elementBytes = 0;

    constexpr int64_t Elements() const { return SaturatingMul(SaturatingMul(batches, channels), inner); }
    constexpr int64_t MaxTileElements() const { return kMaxTileBytes / elementBytes; }
    constexpr int64_t MaxPieceElements() const { return std::min(kMaxTileBytes, kMaxPieceBytes) / elementBytes; }
    constexpr bool IsRowWise() const { return channels == 1 || inner >= kWideInner; }
};

constexpr Shape ShapeOf(const BatchNormElemtBackwardProblem& problem)
{
    const bool isOneChannel = problem.C == 1;
    Shape shape;
    shape.batches = isOneChannel ? std::min<int64_t>(problem.N, 1) : problem.N;
    shape.channels = problem.C;
    shape.inner = isOneChannel ? SaturatingMul(problem.N, problem.S) : problem.S;
    shape.counters = problem.R;
    shape.elementBytes = SizeOf(problem.gradOutDtype);
    return shape;
}

/// A tile: `batches` times `channels` whole channels, or one of `pieces` pieces of one channel.
struct Tile {
    int64_t batches = 1;
    int64_t channels = 1;
    int64_t pieces = 1;
    int64_t width = 0;  // columns of a piece
    bool isWindowed = false;

    constexpr int64_t Slices(const Shape& shape) const { return CeilDiv(shape.channels, channels) * pieces; }
};

/// Bytes of every buffer in UB; computed only in BudgetOf.
struct Budget {
    int64_t tileFloats = 0;
    int64_t tileBytes = 0;
    int64_t rightFloats = 0;  // offset of the second operand in the scratch buffer
    int64_t workBytes = 0;
    int64_t channelCount = 0;
    int64_t loadBytes = 0;
    int64_t spreadFloats = 0;
    int64_t maskBytes = 0;

    constexpr int64_t Total() const
    {
        return kTileBuffers * tileBytes + workBytes + loadBytes +
               kFactors * (channelCount + spreadFloats) * kFloatBytes + maskBytes;
    }
};

/// Layout of the factors of a contiguous tile in op_kernel/common/vector/spread.h.
struct Spreading {
    int64_t lanes = 0;  // one lane per channel and batch of the tile, plus padding
    int64_t pitch = 0;  // elements from one lane to the next
    bool isMasked = false;

    constexpr Spreading(const Shape& shape, const Tile& tile)
        : lanes(tile.batches * RoundUp(tile.channels, kFloatsPerBlock)),
          pitch(tile.isWindowed    ? kFloatsPerBlock
                : shape.inner == 1 ? 1
                                   : RoundUp(shape.inner, kFloatsPerBlock)),
          isMasked(!tile.isWindowed &&
                   (pitch != shape.inner || (tile.batches > 1 && tile.channels % kFloatsPerBlock != 0)))
    {
    }
    constexpr int64_t Elements() const { return lanes * pitch; }
};

/// Returns whether a vector instruction with a mask for each channel costs less than factors for all elements, if
/// `batches` batches use the factors. The unit is the time of one repeat: Brcb needs one, and GatherMask 2.5.
constexpr bool IsWindowBetter(const Shape& shape, const Tile& tile, int64_t batches)
{
    if (shape.IsRowWise() || shape.inner == 1 || tile.batches > 1) {
        return false;
    }
    const Spreading spreading(shape, tile);
    const int64_t windows = CeilDiv(RoundUp(shape.inner, kFloatsPerBlock), kFloatsPerRepeat);
    const int64_t idle = windows * kFloatsPerRepeat - shape.inner;
    return SaturatingMul(2 * batches, idle) < spreading.pitch * (spreading.isMasked ? 7 : 2);
}

constexpr Budget BudgetOf(const Shape& shape, const Tile& tile)
{
    Budget budget;
    const int64_t blockElements = kUbBlockBytes / shape.elementBytes;
    if (shape.IsRowWise()) {
        budget.tileFloats = tile.channels * RoundUp(tile.width, blockElements);
        budget.channelCount =
            RoundUp(std::min(std::max(tile.channels, kMaxRowChannels), shape.channels), kFloatsPerBlock);
    } else {
        budget.tileFloats = RoundUp(tile.batches * tile.channels * shape.inner, blockElements);
        budget.channelCount = RoundUp(tile.channels, kFloatsPerBlock);
    }
    budget.tileBytes = budget.tileFloats * shape.elementBytes;
    // Both operands of an instruction are in different bank groups.
    budget.rightFloats = RoundUp(budget.tileFloats + kFloatsPerRepeat, kFloatsPerBankGroups) - kFloatsPerRepeat;
    int64_t workFloats = std::max({budget.rightFloats + budget.tileFloats, 2 * budget.channelCount, kMinWorkFloats});
    if (!shape.IsRowWise() && (tile.batches > 1 || shape.inner > 1)) {
        const Spreading spreading(shape, tile);
        budget.spreadFloats = spreading.isMasked ? RoundUp(budget.tileFloats, kFloatsPerBlock) : spreading.Elements();
        workFloats = std::max(workFloats, spreading.lanes + spreading.Elements());
        budget.maskBytes =
            spreading.isMasked ? RoundUp(RoundUp(spreading.Elements(), kFloatsPerRepeat) / 8, kUbBlockBytes) : 0;
    }
    budget.workBytes = RoundUp(workFloats, 2 * kFloatsPerBlock) * kFloatBytes;  // the kernel uses it in halves
    const int64_t counterBytes = RoundUp(std::min(shape.counters, kMaxCounters) * kFloatBytes, kUbBlockBytes);
    budget.loadBytes = std::max(kGivenPerChannel * budget.channelCount * kFloatBytes, counterBytes);
    return budget;
}

/// Returns the elements of the shortest contiguous run that a core can store.
constexpr int64_t LeastRun(const Shape& shape, const Platform& platform)
{
    return platform.hasBlockCopyOnly ? kUbBlockBytes / shape.elementBytes : 1;
}

/// Returns the batches of the shortest run, for tiles of whole batches.
constexpr int64_t LeastBatches(const Shape& shape, const Tile& tile, const Platform& platform)
{
    return tile.batches > 1 ? CeilDiv(LeastRun(shape, platform), shape.channels * shape.inner) : 1;
}

/// Returns whether all runs of a tile are long enough. The whole tensor may be shorter.
constexpr bool HasLongRuns(const Shape& shape, const Tile& tile, const Platform& platform)
{
    const int64_t least = LeastRun(shape, platform);
    if (tile.pieces > 1) {
        return shape.inner - (tile.pieces - 1) * tile.width >= least;
    }
    if (tile.batches > 1) {
        return tile.batches >= std::min(shape.batches, 2 * LeastBatches(shape, tile, platform));
    }
    const int64_t rest = shape.channels % tile.channels;
    return (rest == 0 ? tile.channels : rest) * shape.inner >= std::min(least, shape.Elements());
}

/// The best tile found.
struct Choice {
    Tile tile;
    Budget budget;
    int64_t cost = -1;  // bytes of the busiest core; -1: no tile fits
    int64_t blocks = 1;
};

constexpr void Consider(const Shape& shape, Tile tile, const Platform& platform, Choice& best)
{
    const int64_t bytes = SaturatingMul(shape.Elements(), 3 * shape.elementBytes);
    const int64_t units = tile.Slices(shape) * shape.batches;
    const int64_t most = std::max<int64_t>(units / LeastBatches(shape, tile, platform), 1);
    const int64_t cores = std::clamp<int64_t>(CeilDiv(bytes, kMinCoreBytes), 1, std::min(platform.coreNum, most));
    const int64_t unitsOfCore = CeilDiv(units, cores);
    tile.isWindowed = IsWindowBetter(shape, tile, std::min(unitsOfCore, shape.batches));
    const Budget budget = BudgetOf(shape, tile);
    if (budget.Total() > platform.ubBytes || !HasLongRuns(shape, tile, platform)) {
        return;
    }
    const int64_t unitElements = tile.pieces > 1 ? tile.width : tile.channels * shape.inner;
    const int64_t cost = SaturatingAdd(SaturatingMul(unitsOfCore, unitElements * 3 * shape.elementBytes),
                                       SaturatingMul(CeilDiv(unitsOfCore, tile.batches), kTileOverheadBytes));
    if (best.cost < 0 || cost < best.cost) {
        best = {tile, budget, cost, cores};
    }
}

/// Finds the best tile of rows: several whole channels, or one channel in pieces that start at sectors.
constexpr Choice ChooseRows(const Shape& shape, const Platform& platform)
{
    Choice best;
    const int64_t granule = kGmSectorBytes / shape.elementBytes;
    for (int64_t channels = std::min(shape.MaxTileElements() / shape.inner, shape.channels); channels > 0; --channels) {
        Consider(shape, {1, channels, 1, shape.inner}, platform, best);
    }
    const int64_t fewest = std::max<int64_t>(CeilDiv(shape.inner, shape.MaxPieceElements()), 2);
    const int64_t tried = platform.hasBlockCopyOnly ? kMostTried : platform.coreNum;
    for (int64_t wanted = fewest; wanted < fewest + tried; ++wanted) {
        const int64_t width = std::min(RoundUp(CeilDiv(shape.inner, wanted), granule), shape.MaxPieceElements());
        Consider(shape, {1, 1, CeilDiv(shape.inner, width), width}, platform, best);
    }
    return best;
}

/// Finds the best contiguous tile: several whole batches, or a number of channels so that the next slice starts at a
/// multiple of 32 bytes. If there are many possible numbers, only some are tried.
constexpr Choice ChooseContiguous(const Shape& shape, const Platform& platform)
{
    Choice best;
    const int64_t batchElements = SaturatingMul(shape.channels, shape.inner);
    for (int64_t batches = std::min(shape.MaxTileElements() / batchElements, shape.batches); batches > 0;
         batches -= CeilDiv(batches, kTriedPart)) {
        Consider(shape, {batches, shape.channels, 1, shape.inner}, platform, best);
    }
    const int64_t most = std::min(shape.MaxTileElements() / shape.inner, shape.channels - 1);
    for (int64_t channels = RoundDown(most, kFloatsPerBlock); channels > 0;
         channels -= RoundUp(CeilDiv(channels, kTriedPart), kFloatsPerBlock)) {
        Consider(shape, {1, channels, 1, shape.inner}, platform, best);
    }
    return best;
}

}  // namespace batch_norm_elemt_backward

constexpr Plan<BatchNormElemtBackwardTilingData> PlanBatchNormElemtBackward(
    const BatchNormElemtBackwardProblem& problem, const Platform& platform)
{
    namespace self = batch_norm_elemt_backward;
    const self::Shape shape = self::ShapeOf(problem);
    Plan<BatchNormElemtBackwardTilingData> plan;
    plan.tilingKey = problem.shapeCase == BatchNormElemtBackwardCase::kWeighted ? BATCH_NORM_ELEMT_BACKWARD_WEIGHTED
                                                                                : BATCH_NORM_ELEMT_BACKWARD_PLAIN;
    plan.blockNum = 1;
    if (shape.Elements() == 0) {
        return plan;  // nothing to write: the kernel returns immediately
    }
    if (shape.Elements() > self::kMaxElements) {
        plan.refusal = {"elements of grad_input", shape.Elements(), self::kMaxElements};
        return plan;
    }
    const self::Choice choice =
        shape.IsRowWise() ? self::ChooseRows(shape, platform) : self::ChooseContiguous(shape, platform);
    if (choice.cost < 0) {
        const int64_t least = shape.IsRowWise() ? 1 : std::min(self::kFloatsPerBlock, shape.channels);
        const int64_t width = std::min(shape.inner, shape.MaxPieceElements());
        plan.refusal = {"bytes of the unified buffer", self::BudgetOf(shape, {1, least, 1, width}).Total(),
                        platform.ubBytes};
        return plan;
    }

    BatchNormElemtBackwardTilingData& data = plan.data;
    data.batches = shape.batches;
    data.channels = shape.channels;
    data.inner = shape.inner;
    data.counters = shape.counters;
    data.slices = choice.tile.Slices(shape);
    data.pieces = choice.tile.pieces;
    data.sliceChannels = static_cast<int32_t>(choice.tile.channels);
    data.pieceWidth = static_cast<int32_t>(choice.tile.width);
    data.tileBatches = static_cast<int32_t>(choice.tile.batches);
    data.isRowWise = shape.IsRowWise() ? 1 : 0;
    data.tileBytes = static_cast<int32_t>(choice.budget.tileBytes);
    data.isWindowed = choice.tile.isWindowed ? 1 : 0;
    data.tileFloats = static_cast<int32_t>(choice.budget.tileFloats);
    data.rightFloats = static_cast<int32_t>(choice.budget.rightFloats);
    data.workBytes = static_cast<int32_t>(choice.budget.workBytes);
    data.channelCount = static_cast<int32_t>(choice.budget.channelCount);
    data.loadBytes = static_cast<int32_t>(choice.budget.loadBytes);
    data.spreadFloats = static_cast<int32_t>(choice.budget.spreadFloats);
    data.maskBytes = static_cast<int32_t>(choice.budget.maskBytes);
    data.plannedUbBytes = static_cast<int32_t>(choice.budget.Total());
    plan.blockNum = choice.blocks;
    return plan;
}

namespace batch_norm_elemt_backward {

constexpr Plan<BatchNormElemtBackwardTilingData> ExamplePlan(int64_t batches, int64_t channels, int64_t inner)
{
    BatchNormElemtBackwardProblem problem;
    problem.N = batches;
    problem.C = channels;
    problem.S = inner;
    problem.R = 1;
    problem.gradOutDtype = DataType::kFloat16;
    return PlanBatchNormElemtBackward(problem, kDefaultPlatform);
}

static_assert(ExamplePlan(1, 1, 1).blockNum == 1, "a tiny problem stays on one core");
static_assert(ExamplePlan(128, 64, 3136).data.isRowWise == 1, "large planes: a row of one channel at a time");
static_assert(ExamplePlan(1, 3, 8294400).data.pieces >= 500, "huge planes are cut");
static_assert(ExamplePlan(256, 2048, 49).data.isWindowed == 0, "small planes: factors are spread over elements");
static_assert(ExamplePlan(1, 200000, 49).data.isWindowed == 1, "one batch: a window for each channel");
static_assert(ExamplePlan(65536, 512, 1).data.tileBatches > 1, "channels along the row: several rows at a time");
static_assert(ExamplePlan(100, 100000, 1).data.spreadFloats == 0, "a factor an element: nothing to spread");
static_assert(ExamplePlan(4096, 1, 16).data.batches == 1, "one channel is one row");

}  // namespace batch_norm_elemt_backward

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_BATCH_NORM_ELEMT_BACKWARD_TILING_H
