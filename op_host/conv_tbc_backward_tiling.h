// Plan of ConvTbcBackward: two matrix products on the cube cores, whose steps are shared out evenly, and the column
// sums of self on the vector cores. Rows are (time, batch) pairs, so that a tap of the kernel is a shift by whole rows.
#ifndef OPFORGE_OP_HOST_CONV_TBC_BACKWARD_TILING_H
#define OPFORGE_OP_HOST_CONV_TBC_BACKWARD_TILING_H

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "common/arithmetic.h"
#include "common/cube.h"
#include "common/plan.h"
#include "common/segmented_rows.h"
#include "common/tile.h"
#include "conv_tbc_backward_problem.h"
#include "conv_tbc_backward_tiling_data.h"

namespace opforge {

namespace conv_tbc_backward {

using cube::kFloatBytes;

// Buffers of a vector core: bursts of rows, the same as floats, their sum, results on their way out, and elements on
// the way to their float16 copies.
inline constexpr int64_t kBurstBytes = 16384;
inline constexpr int64_t kBurstBuffers = 4;
inline constexpr int64_t kWorkBytes = 2 * kBurstBytes;
inline constexpr int64_t kStoreBuffers = 2;
inline constexpr int64_t kCopyBuffers = 2;
inline constexpr int64_t kMaxPackedElements = 2048;
inline constexpr int64_t kFloatsPerBlock = kUbBlockBytes / kFloatBytes;
inline constexpr int64_t kCopyAlignment = 512;
// Less than this does not pay for starting another core.
inline constexpr int64_t kMinCoreCycles = 2048;
// Sums of cycles stay far below 2^63.
inline constexpr int64_t kMaxCycles = int64_t{1} << 58;

/// Sizes of one problem.
struct Shape {
    int64_t batch = 0;
    int64_t inputRows = 0;
    int64_t gradRows = 0;
    int64_t taps = 0;
    int64_t inChannels = 0;
    int64_t outChannels = 0;
    int64_t elementBytes = 0;
    cube::Operand operand = cube::Operand::kHalf;
    bool isHalved = false;  // the cube multiplies float16 copies

    constexpr int64_t OperandBytes() const { return cube::BytesOf(operand); }
    constexpr int64_t SelfElements() const { return SaturatingMul(gradRows, outChannels); }
    constexpr int64_t InputElements() const { return SaturatingMul(inputRows, inChannels); }
    constexpr int64_t WeightElements() const { return SaturatingMul(SaturatingMul(taps, inChannels), outChannels); }
};

constexpr Shape ShapeOf(const ConvTbcBackwardProblem& problem)
{
    const int64_t gradSteps = SaturatingAdd(problem.T, SaturatingMul(problem.pad, 2)) + 1 - problem.K;
    Shape shape;
    shape.batch = problem.B;
    shape.inputRows = SaturatingMul(problem.T, problem.B);
    shape.gradRows = SaturatingMul(gradSteps, problem.B);
    shape.taps = problem.K;
    shape.inChannels = problem.Cin;
    shape.outChannels = problem.Cout;
    shape.elementBytes = SizeOf(problem.selfDtype);
    const bool isFloat = problem.selfDtype == DataType::kFloat32;
    const bool isRounded = problem.cubeMathType == 1 || problem.cubeMathType == 3;
    shape.isHalved = problem.cubeMathType == 2 && problem.selfDtype != DataType::kFloat16;
    shape.operand = !isFloat || shape.isHalved ? cube::Operand::kHalf
                    : isRounded                ? cube::Operand::kHf32
                                               : cube::Operand::kFloat;
    return shape;
}

/// How one product is cut: cells of `cellRows` x `columns`, several to a tile, and the step by which they grow.
/// grad_input: cells are below each other, a step has `taps` taps and `depth` columns of self.
/// grad_weight: cells are of `taps` taps and of row blocks of input channels, a step has `depth` rows of self.
struct Tile {
    int64_t cellRows = 0;
    int64_t cells = 0;  // for grad_weight of each tap
    int64_t columns = 0;
    int64_t taps = 0;
    int64_t depth = 0;
    int64_t panelBytes = 0;  // of the left operand in L1, in front of the right one
    int64_t tiles = 0;
    int64_t tileSteps = 0;
    int64_t stepCycles = 0;
    int64_t tileFloats = 0;
    int64_t cost = -1;  // cycles of the busiest core; -1: does not fit

    constexpr int64_t Steps() const { return SaturatingMul(tiles, tileSteps); }
    constexpr int64_t Cycles() const { return SaturatingMul(Steps(), stepCycles); }
};

/// Columns or rows of a long side that a step has; whole sectors unless it has all of them.
constexpr int64_t DepthOf(int64_t total, int64_t most, int64_t granule)
{
    const int64_t balanced = cube::Balanced(total, most);
    return balanced >= total ? balanced : std::min(RoundUp(balanced, granule), most);
}

/// Rows that `taps` neighbouring taps of `rows` rows need.
constexpr int64_t WindowOf(const Shape& shape, int64_t rows, int64_t taps)
{
    return SaturatingAdd(rows, SaturatingMul(taps - 1, shape.batch));
}

/// One side of a product as it lies in L1: `count` matrices whose rows have `width` elements in global memory.
struct Side {
    int64_t count = 0;
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t width = 0;

    constexpr int64_t Bytes(int64_t elementBytes) const
    {
        return SaturatingMul(count, cube::BytesInL1(rows, columns, elementBytes));
    }
    constexpr int64_t LoadCycles(int64_t elementBytes) const
    {
        return SaturatingMul(count, cube::LoadCycles(rows, std::min(columns, width) * elementBytes));
    }
};

/// Completes a tile of `cells` cells, of which a step adds `products` products to; its cost stays -1 if it does not
/// fit.
constexpr Tile Rated(Tile tile, const Shape& shape, const Platform& platform, const Side& left, const Side& right,
                     int64_t cells, int64_t products)
{
    const int64_t bytes = shape.OperandBytes();
    tile.panelBytes = left.Bytes(bytes);
    tile.tileFloats = cells * tile.cellRows * tile.columns;
    const int64_t fractalBytes = cube::kFractal * bytes;
    if (left.rows > cube::kMaxPitch || right.rows > cube::kMaxPitch || cells > cube::kMaxCells ||
        SaturatingAdd(tile.panelBytes, right.Bytes(bytes)) > platform.l1Bytes / 2 - cube::kSlackBytes ||
        tile.cellRows * fractalBytes > platform.l0aBytes / 2 || tile.columns * fractalBytes > platform.l0bBytes / 2 ||
        tile.tileFloats * kFloatBytes > platform.l0cBytes) {
        return tile;
    }
    const int64_t loading = SaturatingAdd(left.LoadCycles(bytes), right.LoadCycles(bytes));
    const int64_t depthBytes = products * tile.depth * bytes;
    const int64_t feeding = depthBytes * tile.cellRows / cube::kL0aRate + depthBytes * tile.columns / cube::kL0bRate;
    const int64_t multiplying = products * cube::CyclesOf(shape.operand, tile.cellRows, tile.columns, tile.depth);
    tile.stepCycles = std::max({loading, feeding, multiplying, int64_t{1}});
    const int64_t storing = tile.tileFloats * shape.elementBytes / cube::kStoreRate;
    // The next tile begins in other cells of L0C, if there is room, or waits for the first one to be stored.
    const bool isOverlapped = 2 * cells <= cube::kMaxCells && 2 * tile.tileFloats * kFloatBytes <= platform.l0cBytes;
    const int64_t waiting = isOverlapped ? 0 : storing / cells;
    const int64_t tileCycles =
        std::max(SaturatingAdd(SaturatingMul(tile.tileSteps, tile.stepCycles), waiting), storing);
    // The shares of the cores differ by a step; each core parks parts of two tiles.
    const int64_t parking = 2 * tile.tileFloats * kFloatBytes / cube::kStoreRate;
    tile.cost = SaturatingAdd(SaturatingMul(tile.tiles, tileCycles) / platform.cubeCoreNum, tile.stepCycles + parking);
    return tile;
}

constexpr Tile InputTile(const Shape& shape, const Platform& platform, Tile tile)
{
    const int64_t rows = tile.cells * tile.cellRows;
    tile.tiles = SaturatingMul(CeilDiv(shape.inputRows, rows), CeilDiv(shape.inChannels, tile.columns));
    const int64_t tapGroups = CeilDiv(shape.taps, tile.taps);
    tile.tileSteps = SaturatingMul(std::max<int64_t>(tapGroups, 1), CeilDiv(shape.outChannels, tile.depth));
    const Side left{1, WindowOf(shape, rows, tile.taps), tile.depth, shape.outChannels};
    const Side right{tile.taps, tile.columns, tile.depth, shape.outChannels};
    return Rated(tile, shape, platform, left, right, tile.cells, tile.taps * tile.cells);
}

constexpr Tile WeightTile(const Shape& shape, const Platform& platform, Tile tile)
{
    const int64_t rows = tile.cells * tile.cellRows;
    const int64_t cells = tile.taps * tile.cells;
    const int64_t blocks = SaturatingMul(CeilDiv(shape.inChannels, rows), CeilDiv(shape.outChannels, tile.columns));
    tile.tiles = SaturatingMul(CeilDiv(shape.taps, tile.taps), blocks);
    tile.tileSteps = shape.inputRows == 0 ? 1 : CeilDiv(shape.gradRows, tile.depth);
    const Side left{1, WindowOf(shape, tile.depth, tile.taps), rows, shape.inChannels};
    const Side right{1, tile.depth, tile.columns, shape.outChannels};
    return Rated(tile, shape, platform, left, right, cells, cells);
}

inline constexpr int64_t kSides[] = {256, 128, 64, 16};
inline constexpr int64_t kCells[] = {1, 2, 4};
inline constexpr int64_t kTaps[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24, 32};
inline constexpr int64_t kDepths[] = {1024, 512, 384, 320, 256, 192, 128, 64, 16};

/// The cheapest tile of a result of `rows` x `columns`, summed over `depth` in multiples of `granule`; its cost is -1
/// if not even the smallest one fits.
template <typename Rate>
constexpr Tile Cheapest(const Shape& shape, const Platform& platform, int64_t rows, int64_t columns, int64_t depth,
                        int64_t granule, Rate rate)
{
    Tile best;
    for (const int64_t side : kSides) {
        for (const int64_t width : kSides) {
            for (const int64_t cells : kCells) {
                for (const int64_t taps : kTaps) {
                    for (const int64_t most : kDepths) {
                        Tile tile;
                        tile.cells = cells;
                        tile.cellRows = cube::Balanced(CeilDiv(rows, cells), side);
                        tile.columns = cube::Balanced(columns, width);
                        tile.taps = taps;
                        tile.depth = DepthOf(depth, most, granule);
                        tile = rate(shape, platform, tile);
                        const bool isUseful = taps == 1 || taps <= shape.taps;
                        if (isUseful && tile.cost >= 0 && (best.cost < 0 || tile.cost < best.cost)) {
                            best = tile;
                        }
                    }
                }
            }
        }
    }
    return best;
}

/// How a vector core sums columns of self: the buffers of its rows, and whether these stay unpadded.
struct ColumnSums {
    segmented_rows::Grid grid;
    int64_t tileWidth = 0;
    int64_t packedRows = 0;
    int64_t offsetBytes = 0;

    constexpr int64_t Blocks() const { return grid.rowBlocks * grid.columnSlices; }
};

constexpr ColumnSums ColumnSumsOf(const Shape& shape, const Platform& platform)
{
    ColumnSums sums;
    sums.grid = segmented_rows::GridOf({shape.gradRows, shape.outChannels, 1, shape.elementBytes}, platform);
    sums.tileWidth = std::min(sums.grid.sliceWidth, segmented_rows::kMaxTileWidth);
    const int64_t packedRows = kFloatsPerBlock / std::gcd(kFloatsPerBlock, shape.outChannels);
    const int64_t packed = SaturatingMul(packedRows, shape.outChannels);
    if (sums.tileWidth == shape.outChannels && (packedRows == 1 || packed <= kMaxPackedElements)) {
        sums.packedRows = packedRows;
        sums.offsetBytes = RoundUp(packedRows / 2 * shape.outChannels * kFloatBytes, kUbBlockBytes);
    }
    return sums;
}

constexpr int64_t UbBytesOf(const ColumnSums& sums, int64_t copyBuffers)
{
    return (kBurstBuffers + kStoreBuffers + copyBuffers + 1) * kBurstBytes + kWorkBytes + sums.offsetBytes;
}

/// The first limit that the problem exceeds, if any: sums of cycles, offsets and rows of L1 must not overflow.
constexpr Refusal RefusalOf(const Shape& shape, const Tile& input, const Tile& weight, const Platform& platform)
{
    if (input.cost < 0 || weight.cost < 0) {
        const int64_t least =
            2 * (2 * cube::BytesInL1(cube::kFractal, cube::kFractal, shape.OperandBytes()) + cube::kSlackBytes);
        return {"bytes of L1", least, platform.l1Bytes};
    }
    const int64_t cycles = SaturatingAdd(input.Cycles(), weight.Cycles());
    return {cycles > kMaxCycles ? "cycles of the cube" : nullptr, cycles, kMaxCycles};
}

}  // namespace conv_tbc_backward

constexpr Plan<ConvTbcBackwardTilingData> PlanConvTbcBackward(const ConvTbcBackwardProblem& problem,
                                                              const Platform& platform)
{
    namespace self = conv_tbc_backward;
    const self::Shape shape = self::ShapeOf(problem);
    Plan<ConvTbcBackwardTilingData> plan;
    plan.tilingKey = shape.isHalved ? CONV_TBC_BACKWARD_HALVED : CONV_TBC_BACKWARD_PLAIN;
    const int64_t shift = SaturatingMul(problem.B, SaturatingAdd(problem.pad, problem.K));
    const int64_t most =
        std::max({shape.SelfElements(), shape.InputElements(), shape.WeightElements(), shape.inputRows, shift});
    if (most > tile::kMaxElements) {
        plan.refusal = {"elements, or rows between the first tap and the last", most, tile::kMaxElements};
        return plan;
    }
    const int64_t bytes = shape.OperandBytes();
    const int64_t sector = kGmSectorBytes / bytes;
    const self::Tile input =
        self::Cheapest(shape, platform, shape.inputRows, shape.inChannels, shape.outChannels, sector, self::InputTile);
    const self::Tile weight = self::Cheapest(shape, platform, shape.inChannels, shape.outChannels, shape.gradRows,
                                             cube::kFractal, self::WeightTile);
    plan.refusal = self::RefusalOf(shape, input, weight, platform);
    if (plan.refusal.limit != nullptr) {
        return plan;
    }
    const self::ColumnSums sums = self::ColumnSumsOf(shape, platform);
    const int64_t copyBuffers = shape.isHalved ? self::kCopyBuffers : 0;
    const int64_t ubBytes = self::UbBytesOf(sums, copyBuffers);
    if (ubBytes > platform.ubBytes) {
        plan.refusal = {"bytes of the unified buffer", ubBytes, platform.ubBytes};
        return plan;
    }
    const int64_t cycles = input.Cycles() + weight.Cycles();
    const int64_t vectorCores = platform.coreNum / platform.cubeCoreNum;
    plan.blockNum = std::clamp<int64_t>(
        std::max(CeilDiv(cycles, self::kMinCoreCycles), CeilDiv(sums.Blocks(), vectorCores)), 1, platform.cubeCoreNum);

    ConvTbcBackwardTilingData& data = plan.data;
    data.batch = shape.batch;
    data.inputRows = shape.inputRows;
    data.gradRows = shape.gradRows;
    data.taps = shape.taps;
    data.pad = problem.pad;
    data.inChannels = shape.inChannels;
    data.outChannels = shape.outChannels;
    data.inputSteps = input.Steps();
    data.weightSteps = weight.Steps();
    data.inputStepCost = input.stepCycles;
    data.weightStepCost = weight.stepCycles;
    data.partFloats = std::max(input.tileFloats, weight.tileFloats);
    data.inputCellRows = static_cast<int32_t>(input.cellRows);
    data.inputCells = static_cast<int32_t>(input.cells);
    data.inputColumns = static_cast<int32_t>(input.columns);
    data.inputTaps = static_cast<int32_t>(input.taps);
    data.inputDepth = static_cast<int32_t>(input.depth);
    data.inputPanel = static_cast<int32_t>(input.panelBytes / bytes);
    data.weightCellRows = static_cast<int32_t>(weight.cellRows);
    data.weightCells = static_cast<int32_t>(weight.cells);
    data.weightColumns = static_cast<int32_t>(weight.columns);
    data.weightTaps = static_cast<int32_t>(weight.taps);
    data.weightDepth = static_cast<int32_t>(weight.depth);
    data.weightPanel = static_cast<int32_t>(weight.panelBytes / bytes);
    data.biasSliceWidth = sums.grid.sliceWidth;
    data.biasRowBlocks = static_cast<int32_t>(sums.grid.rowBlocks);
    data.biasColumnSlices = static_cast<int32_t>(sums.grid.columnSlices);
    data.biasTileWidth = static_cast<int32_t>(sums.tileWidth);
    data.biasPackedRows = static_cast<int32_t>(sums.packedRows);
    data.biasOffsetBytes = static_cast<int32_t>(sums.offsetBytes);
    data.hf32 = shape.operand == cube::Operand::kHf32 ? 1 : 0;
    data.burstBuffers = self::kBurstBuffers;
    data.burstBytes = self::kBurstBytes;
    data.workBytes = self::kWorkBytes;
    data.storeBuffers = self::kStoreBuffers;
    data.copyBuffers = static_cast<int32_t>(copyBuffers);
    data.l1Half = static_cast<int32_t>(platform.l1Bytes / 2);
    data.l0Half = static_cast<int32_t>(std::min(platform.l0aBytes, platform.l0bBytes) / 2);
    data.l0cBytes = static_cast<int32_t>(platform.l0cBytes);

    if (shape.isHalved) {
        data.inputOffset = RoundUp(shape.SelfElements() * bytes, self::kCopyAlignment);
        data.weightOffset = data.inputOffset + RoundUp(shape.InputElements() * bytes, self::kCopyAlignment);
        data.partOffset = data.weightOffset + RoundUp(shape.WeightElements() * bytes, self::kCopyAlignment);
    }
    // A core parks at most two parts of tiles: of the tile it begins in, and of the one it ends in.
    data.biasOffset = data.partOffset + 2 * plan.blockNum * data.partFloats * self::kFloatBytes;
    data.biasPitch = RoundUp(shape.outChannels, kGmSectorBytes / self::kFloatBytes);
    plan.workspaceBytes = data.biasOffset + sums.grid.rowBlocks * data.biasPitch * self::kFloatBytes;
    return plan;
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_CONV_TBC_BACKWARD_TILING_H
