// Plan of ConvTbcBackward: two matrix products on the cube cores, whose steps are split evenly, and the column sums of
// self on the vector cores. Rows are (time, batch) pairs, so a tap of the kernel is a shift by whole rows.
#ifndef OPFORGE_OP_HOST_CONV_TBC_BACKWARD_TILING_H
#define OPFORGE_OP_HOST_CONV_TBC_BACKWARD_TILING_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
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

// Buffers of a vector core: bursts of rows, the rows as floats, their sum, results, and elements of the float16 copies.
inline constexpr int64_t kBurstBytes = 16384;
inline constexpr int64_t kBurstBuffers = 4;
inline constexpr int64_t kWorkBytes = 2 * kBurstBytes;
inline constexpr int64_t kStoreBuffers = 2;
inline constexpr int64_t kCopyBuffers = 2;
// One slot of L1 is loaded while the other one is multiplied. With more slots, all steps of a tile can stay in L1.
inline constexpr int64_t kSlots = 2;

/// How L1 is divided: slots of the left operand, slots of the right one, and units (1 / 32 of L1) for the left one.
struct Division {
    int64_t windows = 0;
    int64_t panels = 0;
    int64_t units = 0;
};
inline constexpr int64_t kL1Units = 32;
inline constexpr Division kDivisions[] = {{2, 2, 12}, {2, 2, 16}, {2, 2, 20}, {2, 4, 16}, {3, 3, 12}, {3, 3, 16},
                                          {3, 3, 20}, {4, 2, 10}, {4, 2, 18}, {4, 3, 16}, {4, 4, 16}};
inline constexpr int64_t kStepCycles = 32;     // flags of a step
inline constexpr int64_t kMergeCycles = 3500;  // barrier and merge of partial sums
inline constexpr int64_t kPackedPercent = 97;  // maximum cost with a packed copy, of the cost without it
inline constexpr int64_t kMaxPackedElements = 2048;
inline constexpr int64_t kFloatsPerBlock = kUbBlockBytes / kFloatBytes;
inline constexpr int64_t kCopyAlignment = 512;
inline constexpr int64_t kSlotAlignment = 512;
inline constexpr int64_t kMaxRowBytes = std::numeric_limits<uint32_t>::max();  // stride of a DMA
inline constexpr int64_t kMaxSlotBytes = int64_t{1} << 40;                     // larger than any L1
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
    bool isHalved = false;  // the cube multiplies float16 copies of the operands
    bool isPacked = false;  // grad_weight multiplies a copy of input whose rows are as long as the rows of a tile

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

/// Returns whether the vector cores read weight and input before the cube cores, which then find them in L2. The copies
/// of a halved problem are in L2 anyway.
constexpr bool IsFetched(const Shape& shape, const Platform& platform)
{
    const int64_t larger = std::max(shape.WeightElements(), shape.InputElements());
    const int64_t elements = SaturatingAdd(shape.SelfElements(), SaturatingMul(larger, 2));
    return !shape.isHalved && SaturatingMul(elements, shape.elementBytes) <= platform.l2Bytes / 2;
}

/// Returns whether grad_weight may load a packed copy of input: loads of a part of each row have short requests.
constexpr bool MayPack(const Shape& shape, const Platform& platform)
{
    return IsFetched(shape, platform) && shape.inChannels * shape.elementBytes % cube::kRequestBytes != 0;
}

/// Cycles of the pipes of a cube core, which work at the same time.
struct Pipes {
    int64_t loading = 0;
    int64_t cube = 0;  // load of L0 and multiplication
    int64_t storing = 0;

    constexpr int64_t Busiest() const { return std::max({loading, cube, storing, int64_t{1}}); }
    constexpr int64_t Others() const
    {
        return SaturatingAdd(SaturatingAdd(loading, cube), storing) - std::max({loading, cube, storing});
    }
    /// Returns the cycles of the busiest pipe, including the delay by the other pipes.
    constexpr int64_t Cycles() const { return SaturatingAdd(Busiest(), Others() / kDelay); }
};

/// The tiling of one product: cells of `cellRows` x `columns`, several per tile, and the step that accumulates into
/// them. grad_input: cells along the rows; a step has `taps` taps and `depth` columns of self. grad_weight: cells of
/// `taps` taps and of row blocks of input channels; a step has `depth` rows of self.
struct Tile {
    int64_t cellRows = 0;
    int64_t cells = 0;  // for grad_weight: cells per tap
    int64_t columns = 0;
    int64_t across = 1;  // cells of grad_weight next to each other
    int64_t taps = 0;
    int64_t depth = 0;
    int64_t windows = kSlots;  // slots of the left operand in L1, and bytes of a slot that a step uses
    int64_t windowBytes = 0;
    int64_t panels = kSlots;  // slots of the right operand
    int64_t panelBytes = 0;
    int64_t windowGranule = 1;  // a load of grad_weight covers whole granules of columns
    int64_t panelGranule = 1;
    int64_t windowLimit = 0;  // bytes of a slot
    int64_t panelLimit = 0;
    int64_t tiles = 0;
    int64_t tileSteps = 0;
    int64_t tileFloats = 0;
    Pipes step;           // average cycles of one step
    int64_t waiting = 0;  // cycles of a tile until L0C is free
    int64_t merging = 0;  // cycles of a core for partial sums
    bool fits = false;

    constexpr int64_t CellColumns() const { return RoundUp(CeilDiv(columns, across), cube::kFractal); }
    constexpr int64_t Steps() const { return SaturatingMul(tiles, tileSteps); }
    constexpr int64_t Cycles() const
    {
        return SaturatingAdd(SaturatingMul(Steps(), step.Cycles()), SaturatingMul(tiles, waiting));
    }
};

/// Returns the columns or rows of a step along a long side, at most `most`: all of them, or a multiple of `granule`.
constexpr int64_t DepthOf(int64_t total, int64_t most, int64_t granule)
{
    const int64_t balanced = cube::Balanced(total, most);
    const bool isWhole = balanced >= total || balanced % granule == 0 || most < granule;
    return isWhole ? balanced : std::min(RoundUp(balanced, granule), RoundDown(most, granule));
}

/// Returns the rows that `taps` neighboring taps of `rows` rows use.
constexpr int64_t WindowOf(const Shape& shape, int64_t rows, int64_t taps)
{
    return SaturatingAdd(rows, SaturatingMul(taps - 1, shape.batch));
}

/// One operand of a product in L1: `count` matrices whose rows have `width` elements in global memory.
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
        return SaturatingMul(count,
                             cube::LoadCycles(rows, std::min(columns, width) * elementBytes, width * elementBytes));
    }
};

/// The loads, cells and products of a step.
struct StepWork {
    Side left;
    Side right;
    int64_t cells = 0;
    int64_t products = 0;
    int64_t rightDepth = 0;  // depth of the right operand: the taps of grad_input continue it
    int64_t leftUses = 1;    // steps that use the left operand in L1
    int64_t rightUses = 1;
    // Bytes that these steps are the first to load from global memory; the vector cores load self first.
    int64_t firstBytes = 0;
};

/// Returns the bytes of a slot of L1, including the bytes that a read after its end may use.
constexpr int64_t SlotBytes(const Side& side, int64_t elementBytes)
{
    return RoundUp(SaturatingAdd(std::min(side.Bytes(elementBytes), kMaxSlotBytes), cube::kSlackBytes), kSlotAlignment);
}

/// If every step of a tile has a slot, the data stays in L1 for the next tile. Returns the number of neighboring tiles
/// (of `tiles`) that use the same data.
constexpr int64_t UsesOf(const Tile& tile, int64_t slots, int64_t tiles, const Platform& platform)
{
    return slots % tile.tileSteps != 0 ? 1 : std::clamp<int64_t>(tile.tiles / platform.cubeCoreNum, 1, tiles);
}

/// Returns the work of a step of grad_input with `taps` taps.
constexpr StepWork InputWork(const Shape& shape, const Tile& tile, int64_t taps)
{
    const int64_t rows = tile.cells * tile.cellRows;
    return {{1, WindowOf(shape, rows, taps), tile.depth, shape.outChannels},
            {taps, tile.columns, tile.depth, shape.outChannels},
            tile.cells,
            taps * tile.cells,
            taps * RoundUp(tile.depth, cube::kFractal)};
}

/// Returns the granule of the loads of `columns` columns of `width`: with whole requests, fewer cycles may move more
/// bytes.
constexpr int64_t GranuleOf(int64_t columns, int64_t width, int64_t elementBytes)
{
    const int64_t granule = cube::kRequestBytes / elementBytes;
    const auto cycles = [&](int64_t loaded) {
        return cube::LoadCycles(cube::kMaxPitch, std::min(loaded, width) * elementBytes, width * elementBytes);
    };
    return granule % columns == 0 && cycles(granule) < cycles(columns) ? granule : 1;
}

/// Returns the columns of both operands that a step of grad_weight loads.
constexpr int64_t WindowColumns(const Tile& tile)
{
    return RoundUp(tile.cells * tile.cellRows, tile.windowGranule);
}
constexpr int64_t PanelColumns(const Tile& tile)
{
    return RoundUp(tile.columns, tile.panelGranule);
}

/// Returns the work of a step of grad_weight with `taps` taps.
constexpr StepWork WeightWork(const Shape& shape, const Tile& tile, int64_t taps)
{
    const int64_t cells = taps * tile.cells * tile.across;
    return {{1, WindowOf(shape, tile.depth, taps), WindowColumns(tile),
             shape.isPacked ? WindowColumns(tile) : shape.inChannels},
            {1, tile.depth, PanelColumns(tile), shape.outChannels},
            cells,
            cells,
            tile.depth};
}

constexpr bool Fits(const Shape& shape, const Platform& platform, const Tile& tile, const StepWork& work)
{
    const int64_t bytes = shape.OperandBytes();
    const int64_t fractalBytes = cube::kFractal * bytes;
    return work.left.rows <= cube::kMaxPitch && work.right.rows <= cube::kMaxPitch &&
           SlotBytes(work.left, bytes) <= tile.windowLimit && SlotBytes(work.right, bytes) <= tile.panelLimit &&
           tile.cellRows * fractalBytes <= platform.l0aBytes / 2 &&
           tile.CellColumns() * fractalBytes <= platform.l0bBytes / 2;
}

/// Returns the cycles of a step, without its stores.
constexpr Pipes CyclesOf(const Shape& shape, const Platform& platform, const Tile& tile, const StepWork& work)
{
    const int64_t bytes = shape.OperandBytes();
    const int64_t loading =
        SaturatingAdd(work.left.LoadCycles(bytes) / work.leftUses, work.right.LoadCycles(bytes) / work.rightUses) +
        cube::FirstTouchCycles(work.firstBytes) / std::max<int64_t>(tile.Steps(), 1);
    // A slice of a product fits into a half of L0A. The right operand stays in L0B if it fits into a half.
    const int64_t half = platform.l0aBytes / 2;
    const int64_t columns = tile.CellColumns();
    const bool isHeld = work.rightDepth * columns * bytes <= half;
    const int64_t widest = (isHeld ? tile.cellRows : std::max(tile.cellRows, columns)) * bytes;
    const int64_t slices = work.products * CeilDiv(tile.depth * widest, half);
    const int64_t depthBytes = work.products * tile.depth * bytes;
    const int64_t rightBytes = (isHeld ? work.rightDepth * tile.across * bytes : depthBytes) * columns;
    const int64_t feeding = (isHeld ? slices + 1 : 2 * slices) * cube::kFeedCycles +
                            depthBytes * tile.cellRows / cube::kL0aRate + rightBytes / cube::kL0bRate;
    const int64_t multiplying = slices * cube::kProductCycles +
                                work.products * cube::CyclesOf(shape.operand, tile.cellRows, columns, tile.depth);
    // The halves of L0 alternate: one is loaded while the other one is multiplied, with a flag in between.
    const int64_t alternating = (feeding + multiplying + 2 * cube::kFlagCycles * slices) / 2;
    return {loading, std::max({feeding, multiplying, alternating}) + kStepCycles};
}

/// Returns the cycles of a tile until its cells in L0C are stored. The next tile begins in other cells if they fit.
/// Otherwise each of its cells waits for the store of this cell, while the cube multiplies into the other ones.
constexpr int64_t WaitingOf(const Tile& tile, int64_t cells, int64_t storing, const Platform& platform)
{
    if (2 * cells <= cube::kMaxCells && 2 * tile.tileFloats * kFloatBytes <= platform.l0cBytes) {
        return 0;
    }
    const int64_t others = tile.step.cube / cells * (cells - 1);
    return std::max({storing - others, cells * storing - tile.step.cube - others + tile.step.cube / cells, int64_t{0}});
}

/// Completes the cost of a tile: `full` is a step of all its taps, `last` a step of the remaining taps.
constexpr Tile Rated(Tile tile, const Shape& shape, const Platform& platform, const StepWork& full,
                     const StepWork& last, int64_t resultColumns)
{
    const int64_t bytes = shape.OperandBytes();
    tile.windowBytes = SlotBytes(full.left, bytes);
    tile.panelBytes = SlotBytes(full.right, bytes);
    tile.tileFloats = full.cells * tile.cellRows * tile.CellColumns();
    const int64_t groups = std::max<int64_t>(CeilDiv(shape.taps, tile.taps), 1);
    const int64_t storing = cube::StoreCycles(full.cells * tile.cellRows, tile.CellColumns() * shape.elementBytes,
                                              resultColumns * shape.elementBytes);
    const Pipes most = CyclesOf(shape, platform, tile, full);
    const Pipes rest = CyclesOf(shape, platform, tile, last);
    // A slot of L1 is loaded, then multiplied. Steps may have different lengths: the longest one delays the next load.
    const int64_t slots = std::min(tile.windows, tile.panels);
    const int64_t alternating = SaturatingAdd(SaturatingAdd(most.loading, most.cube), cube::kLatencyCycles) / slots;
    tile.step.loading =
        std::max(alternating, CeilDiv(SaturatingAdd(SaturatingMul(groups - 1, most.loading), rest.loading), groups));
    tile.step.cube = CeilDiv(SaturatingAdd(SaturatingMul(groups - 1, most.cube), rest.cube), groups);
    tile.step.storing = CeilDiv(storing, tile.tileSteps);
    tile.waiting = WaitingOf(tile, full.cells, storing / full.cells, platform);
    // The cube cores store the last partial sums after the last product, unless a tile is one step.
    tile.merging = tile.tileSteps == 1 ? 0 : tile.tileFloats * kFloatBytes / cube::kFirstRate;
    tile.fits = true;
    return tile;
}

/// Returns the taps of the last group, or of a full group if no taps remain.
constexpr int64_t LastTaps(const Shape& shape, int64_t taps)
{
    const int64_t rest = shape.taps % taps;
    return rest == 0 ? taps : rest;
}

/// Returns the elements of an operand that fit into a slot.
constexpr int64_t ElementsIn(int64_t slotBytes, int64_t elementBytes)
{
    return std::max<int64_t>(slotBytes - cube::kSlackBytes, 0) / elementBytes;
}

// Value for `part`: all cores have an equal number of steps of grad_weight, instead of a fraction of the deepest step.
inline constexpr int64_t kEven = 0;

/// Returns the tile with the deepest steps that fit, or with 1 / `part` of their depth.
constexpr Tile InputTile(const Shape& shape, const Platform& platform, Tile tile, int64_t part)
{
    if (part == kEven) {
        return tile;
    }
    const int64_t bytes = shape.OperandBytes();
    const int64_t rows = tile.cells * tile.cellRows;
    const int64_t window = RoundUp(std::min(WindowOf(shape, rows, tile.taps), 2 * cube::kMaxPitch), cube::kFractal);
    const int64_t most = std::min(ElementsIn(tile.windowLimit, bytes) / window,
                                  ElementsIn(tile.panelLimit, bytes) / (tile.taps * tile.columns)) /
                         part;
    tile.depth =
        DepthOf(shape.outChannels, std::max(RoundDown(most, cube::kFractal), cube::kFractal), kGmSectorBytes / bytes);
    StepWork full = InputWork(shape, tile, tile.taps);
    if (!Fits(shape, platform, tile, full)) {
        return tile;
    }
    const int64_t groups = std::max<int64_t>(CeilDiv(shape.taps, tile.taps), 1);
    const int64_t down = CeilDiv(shape.inputRows, rows);
    tile.tiles = SaturatingMul(down, CeilDiv(shape.inChannels, tile.columns));
    tile.tileSteps = SaturatingMul(groups, CeilDiv(shape.outChannels, tile.depth));
    StepWork last = InputWork(shape, tile, LastTaps(shape, tile.taps));
    full.rightUses = last.rightUses = UsesOf(tile, tile.panels, std::max<int64_t>(down, 1), platform);
    full.firstBytes = last.firstBytes = IsFetched(shape, platform) ? 0 : shape.WeightElements() * bytes;
    return Rated(tile, shape, platform, full, last, shape.inChannels);
}

/// Returns the maximum rows of a step so that all cores have an equal number of steps; 0: more tiles than cores.
constexpr int64_t EvenDepth(int64_t total, int64_t tiles, int64_t deepest, const Platform& platform)
{
    if (tiles == 0 || tiles >= platform.cubeCoreNum) {
        return 0;
    }
    const int64_t steps = CeilDiv(total, std::max(RoundDown(deepest, cube::kFractal), cube::kFractal));
    return RoundUp(CeilDiv(total, RoundUp(tiles * steps, platform.cubeCoreNum) / tiles), cube::kFractal);
}

constexpr Tile WeightTile(const Shape& shape, const Platform& platform, Tile tile, int64_t part)
{
    const int64_t bytes = shape.OperandBytes();
    const int64_t rows = tile.cells * tile.cellRows;
    const int64_t between = std::min(WindowOf(shape, 0, tile.taps), 2 * cube::kMaxPitch) + cube::kFractal;
    const auto deepestFor = [&](int64_t windowGranule, int64_t panelGranule) {
        tile.windowGranule = windowGranule;
        tile.panelGranule = panelGranule;
        return std::min(ElementsIn(tile.windowLimit, bytes) / WindowColumns(tile) - between,
                        ElementsIn(tile.panelLimit, bytes) / PanelColumns(tile));
    };
    int64_t deepest =
        deepestFor(GranuleOf(rows, shape.inChannels, bytes), GranuleOf(tile.columns, shape.outChannels, bytes));
    if (deepest < cube::kFractal || shape.isPacked) {
        deepest = deepestFor(1, 1);
    }
    const int64_t across = CeilDiv(shape.outChannels, tile.columns);
    tile.tiles = SaturatingMul(SaturatingMul(CeilDiv(shape.taps, tile.taps), CeilDiv(shape.inChannels, rows)), across);
    const int64_t most = part == kEven ? EvenDepth(shape.gradRows, tile.tiles, deepest, platform) : deepest / part;
    tile.depth = DepthOf(shape.gradRows, std::max(RoundDown(most, cube::kFractal), cube::kFractal), cube::kFractal);
    StepWork full = WeightWork(shape, tile, tile.taps);
    if (!Fits(shape, platform, tile, full)) {
        return tile;
    }
    tile.tileSteps = shape.inputRows == 0 ? 1 : CeilDiv(shape.gradRows, tile.depth);
    StepWork last = WeightWork(shape, tile, LastTaps(shape, tile.taps));
    full.leftUses = last.leftUses = UsesOf(tile, tile.windows, across, platform);
    full.firstBytes = last.firstBytes = IsFetched(shape, platform) ? 0 : shape.InputElements() * bytes;
    return Rated(tile, shape, platform, full, last, shape.outChannels);
}

inline constexpr int64_t kSides[] = {256, 192, 176, 160, 144, 128, 112, 96, 80, 64, 32, 16};
inline constexpr int64_t kCells[] = {1, 2, 4};
inline constexpr int64_t kTaps[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24, 32};
inline constexpr int64_t kMaxAcross = 2;
inline constexpr int64_t kParts[] = {1, 2, 4, kEven};

/// Returns the cycles of an average core for a product, with its first load and the imbalance from whole steps. Half of
/// `merging`: partial sums are stored during products, or as results of half the size.
constexpr int64_t CostOf(const Tile& tile, const Platform& platform)
{
    return SaturatingAdd(tile.Cycles() / platform.cubeCoreNum,
                         SaturatingAdd(tile.step.loading, tile.step.Cycles()) + tile.merging / 2);
}

constexpr Tile Cheaper(const Tile& known, const Tile& tile, const Platform& platform)
{
    const bool isCheaper = tile.fits && (!known.fits || CostOf(tile, platform) < CostOf(known, platform));
    return isCheaper ? tile : known;
}

/// Calls `visit` with each size of equal blocks of `total`.
template <typename Visit>
constexpr void ForSizes(int64_t total, Visit visit)
{
    int64_t last = 0;
    for (const int64_t side : kSides) {
        const int64_t size = cube::Balanced(total, side);
        if (size != last) {
            visit(size);
        }
        last = size;
    }
}

/// Returns the cheapest tile of a result of `rows` x `columns` that fits according to `rate`.
/// `isWeight`: every tap of a tile has separate cells.
template <typename Rate>
constexpr Tile Cheapest(const Shape& shape, const Platform& platform, const Division& division, int64_t rows,
                        int64_t columns, bool isWeight, Rate rate)
{
    Tile best;
    const int64_t left = platform.l1Bytes / kL1Units * division.units;
    Tile tile;
    tile.windows = division.windows;
    tile.panels = division.panels;
    tile.windowLimit = RoundDown(left / division.windows, kSlotAlignment);
    tile.panelLimit = RoundDown((platform.l1Bytes - left) / division.panels, kSlotAlignment);
    for (const int64_t cells : kCells) {
        for (const int64_t taps : kTaps) {
            const int64_t allCells = isWeight ? taps * cells : cells;
            if ((taps > 1 && taps > shape.taps) || allCells > cube::kMaxCells) {
                continue;
            }
            ForSizes(CeilDiv(rows, cells), [&](int64_t cellRows) {
                ForSizes(columns, [&](int64_t width) {
                    tile.cells = cells;
                    tile.cellRows = cellRows;
                    tile.columns = width;
                    tile.taps = taps;
                    for (tile.across = 1; tile.across <= (shape.isPacked ? kMaxAcross : 1); ++tile.across) {
                        const int64_t count = allCells * tile.across;
                        const int64_t bytes = count * cellRows * tile.CellColumns() * kFloatBytes;
                        for (const int64_t part : kParts) {
                            if (count <= cube::kMaxCells && bytes <= platform.l0cBytes) {
                                best = Cheaper(best, rate(shape, platform, tile, part), platform);
                            }
                        }
                    }
                });
            });
        }
    }
    return best;
}

/// Both products, and the cycles of the busiest core. A core has steps of the first product, then complete tiles of the
/// second one. The partial sums of the first product are merged during the second one.
struct Split {
    Tile input;
    Tile weight;
    bool hasSameSlots = true;
    bool isWeightFirst = false;
    int64_t cost = 0;
    bool isPacked = false;
    bool isSwapped = false;

    constexpr bool Fits() const { return input.fits && weight.fits; }
};

/// Returns the cycles of a core with the most tiles of the second product.
constexpr int64_t MostCycles(const Tile& tile, const Platform& platform)
{
    const int64_t cycles = SaturatingAdd(SaturatingMul(tile.tileSteps, tile.step.Cycles()), tile.waiting);
    return SaturatingMul(CeilDiv(tile.tiles, platform.cubeCoreNum), cycles);
}

constexpr Split SplitOf(const Tile& input, const Tile& weight, const Platform& platform, bool hasSameSlots,
                        bool isWeightFirst)
{
    Split split{input, weight, hasSameSlots, isWeightFirst};
    if (split.Fits()) {
        const Tile& first = isWeightFirst ? weight : input;
        const Tile& second = isWeightFirst ? input : weight;
        const int64_t firstCycles = first.Cycles() / platform.cubeCoreNum;
        const int64_t both =
            SaturatingAdd(SaturatingAdd(firstCycles, second.Cycles() / platform.cubeCoreNum), first.step.Cycles());
        // With other slots, the second product is loaded after the last multiplication of the first one.
        const int64_t restart = hasSameSlots ? 0 : SaturatingAdd(second.step.loading, cube::kLatencyCycles);
        const int64_t storing = SaturatingMul(second.step.storing, second.tileSteps);
        const int64_t products =
            SaturatingAdd(std::max(both, MostCycles(second, platform)), SaturatingAdd(restart, storing));
        const int64_t merges = SaturatingAdd(firstCycles, SaturatingAdd(first.merging, kMergeCycles));
        split.cost = SaturatingAdd(std::max(products, merges), first.step.loading);
    }
    return split;
}

/// Returns the cycles of a vector core until input is packed: it reads weight and self before.
constexpr int64_t PackingCycles(const Shape& shape, const Platform& platform)
{
    const int64_t elements = SaturatingAdd(SaturatingAdd(shape.WeightElements(), shape.SelfElements()),
                                           SaturatingMul(shape.InputElements(), 2));
    return SaturatingMul(elements, shape.elementBytes) / cube::kFirstRate / platform.coreNum + kMergeCycles;
}

constexpr Split Cheaper(const Split& known, const Split& split)
{
    return split.Fits() && (!known.Fits() || split.cost < known.cost) ? split : known;
}

/// Returns the split whose second product is grad_weight with a packed copy of input, which the vector cores write
/// during the first product. `inputs` has the tiles of grad_input of all divisions. A division with other shares of L1
/// fits if both operands swap their slots.
constexpr Split PackedSplit(Shape shape, const Tile* inputs, const Platform& platform)
{
    Split best;
    shape.isPacked = true;
    for (const Division& division : kDivisions) {
        if (division.windows != kSlots || division.panels != kSlots) {
            continue;
        }
        const Tile weight = Cheapest(shape, platform, division, shape.inChannels, shape.outChannels, true, WeightTile);
        const int64_t least = SaturatingAdd(PackingCycles(shape, platform), MostCycles(weight, platform));
        for (size_t index = 0; index < std::size(kDivisions); ++index) {
            const Division& other = kDivisions[index];
            const bool isSwapped = other.units != division.units;
            const bool fits = !isSwapped || other.units == kL1Units - division.units;
            if (fits && other.windows == division.windows && other.panels == division.panels) {
                Split split = SplitOf(inputs[index], weight, platform, true, false);
                split.cost = std::max(split.cost, least);
                split.isPacked = true;
                split.isSwapped = isSwapped;
                best = Cheaper(best, split);
            }
        }
    }
    return best;
}

/// Returns the cheapest tiles of both products. If they divide L1 in the same way, the second product is loaded while
/// the first one is multiplied.
constexpr Split CheapestSplit(const Shape& shape, const Platform& platform)
{
    Split best;
    Tile inputs[std::size(kDivisions)];
    Tile bestInput;
    Tile bestWeight;
    for (size_t index = 0; index < std::size(kDivisions); ++index) {
        const Division& division = kDivisions[index];
        const Tile input = Cheapest(shape, platform, division, shape.inputRows, shape.inChannels, false, InputTile);
        const Tile weight = Cheapest(shape, platform, division, shape.inChannels, shape.outChannels, true, WeightTile);
        for (const bool isWeightFirst : {false, true}) {
            best = Cheaper(best, SplitOf(input, weight, platform, true, isWeightFirst));
        }
        inputs[index] = input;
        bestInput = Cheaper(bestInput, input, platform);
        bestWeight = Cheaper(bestWeight, weight, platform);
    }
    for (const bool isWeightFirst : {false, true}) {
        best = Cheaper(best, SplitOf(bestInput, bestWeight, platform, false, isWeightFirst));
    }
    const Split packed = MayPack(shape, platform) ? PackedSplit(shape, inputs, platform) : Split();
    return packed.Fits() && packed.cost / kPackedPercent < best.cost / 100 ? packed : best;
}

/// Returns whether the tiles of a product alternate in slots of L0C with `floats` floats.
constexpr bool AlternatesIn(int64_t floats, const Tile& tile, const Platform& platform)
{
    const int64_t cellFloats = tile.cellRows * tile.CellColumns();
    const int64_t fitting = std::min(cube::kMaxCells, platform.l0cBytes / kFloatBytes / floats);
    return fitting >= 2 * CeilDiv(tile.tileFloats / cellFloats, std::max<int64_t>(floats / cellFloats, 1));
}

/// Returns the floats of a slot of L0C for a product: of the larger cell or tile of both products, if the tiles still
/// alternate. The second product then begins while the cells of the first one are stored.
constexpr int64_t SlotFloatsOf(const Tile& tile, const Split& split, const Platform& platform)
{
    const Tile& input = split.input;
    const Tile& weight = split.weight;
    for (const int64_t floats : {std::max(input.cellRows * input.columns, weight.cellRows * weight.CellColumns()),
                                 std::max(input.tileFloats, weight.tileFloats)}) {
        if (AlternatesIn(floats, input, platform) && AlternatesIn(floats, weight, platform)) {
            return floats;
        }
    }
    return tile.cellRows * tile.CellColumns();
}

/// The sums of the columns of self on a vector core: grid, tiles and packed rows.
struct ColumnSums {
    segmented_rows::Grid grid;
    int64_t tileWidth = 0;
    int64_t packedRows = 0;
    int64_t maskBytes = 0;

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
        sums.maskBytes = segmented_rows::MaskBytes(packedRows, shape.outChannels);
    }
    return sums;
}

constexpr int64_t UbBytesOf(const ColumnSums& sums, int64_t copyBuffers)
{
    return (kBurstBuffers + kStoreBuffers + copyBuffers + 1) * kBurstBytes + kWorkBytes + sums.maskBytes;
}

/// Returns the first limit that the problem exceeds. Sums of cycles, offsets and rows of L1 must not overflow.
constexpr Refusal RefusalOf(const Shape& shape, const Split& split, const Platform& platform)
{
    if (!split.Fits()) {
        const int64_t least =
            2 * kSlots * (cube::BytesInL1(cube::kFractal, cube::kFractal, shape.OperandBytes()) + kSlotAlignment);
        return {"bytes of L1", least, platform.l1Bytes};
    }
    const int64_t cycles = SaturatingAdd(split.input.Cycles(), split.weight.Cycles());
    return {cycles > kMaxCycles ? "cycles of the cube" : nullptr, cycles, kMaxCycles};
}

// The kernel for cores with a cube and a vector unit (op_kernel/conv_tbc_backward/by_owner.h, coupled_cube.h): elements
// of a stage in UB; bytes of the rows of a cell, of a panel of rows, and of the sum of a column block.
inline constexpr int64_t kStageElements = 8192;
inline constexpr int64_t kReadBytes = 16384;
inline constexpr int64_t kPanelBytes = 16384;
inline constexpr int64_t kSumBytes = 512;
// Most rows and columns of a cell. A block may have up to 15 more than a share.
inline constexpr int64_t kMaxSide = 128;
inline constexpr int64_t kShares[] = {112, 64, 32, 16};
// Rows of a window in L1, with one fractal of slack; rows of self of a step of grad_weight.
inline constexpr int64_t kWindowRows = 1040;
inline constexpr int64_t kOwnerDepth = 512;

/// Returns the largest share of both sides of a result, with a block for each core if possible.
constexpr int64_t ShareFor(int64_t rows, int64_t columns, int64_t matrices, int64_t cores)
{
    for (const int64_t share : kShares) {
        const int64_t blocks = SaturatingMul(SaturatingMul(CeilDiv(rows, share), CeilDiv(columns, share)), matrices);
        if (blocks >= cores) {
            return share;
        }
    }
    return cube::kFractal;
}

/// Plans blocks of the gradients, which one core computes each. No core stores less than 32 bytes.
constexpr Plan<ConvTbcBackwardTilingData> PlanByOwner(const Shape& shape, int64_t pad, const Platform& platform)
{
    const int64_t least = kUbBlockBytes / shape.elementBytes;
    Plan<ConvTbcBackwardTilingData> plan;
    plan.tilingKey = shape.isHalved ? CONV_TBC_BACKWARD_HALVED : CONV_TBC_BACKWARD_PLAIN;
    ConvTbcBackwardTilingData& data = plan.data;
    data.batch = shape.batch;
    data.inputRows = shape.inputRows;
    data.gradRows = shape.gradRows;
    data.taps = shape.taps;
    data.pad = pad;
    data.inChannels = shape.inChannels;
    data.outChannels = shape.outChannels;
    const int64_t inputShare = ShareFor(shape.inputRows, shape.inChannels, 1, platform.coreNum);
    const int64_t weightShare = ShareFor(shape.inChannels, shape.outChannels, shape.taps, platform.coreNum);
    data.inputCellRows = data.inputColumns = static_cast<int32_t>(inputShare);
    data.weightCellRows = data.weightColumns = static_cast<int32_t>(weightShare);
    data.inputSteps = CeilDiv(shape.inputRows, inputShare) * CeilDiv(shape.inChannels, inputShare);
    const int64_t down = CeilDiv(shape.inChannels, weightShare);
    const int64_t weightBlocks = down * CeilDiv(shape.outChannels, weightShare);
    // Several taps of one block share their rows of self. Taps with few elements are stored together.
    const int64_t leastTaps = CeilDiv(least, std::max<int64_t>(shape.inChannels * shape.outChannels, 1));
    const int64_t side = std::min(RoundUp(weightShare + least - 1, cube::kFractal), kMaxSide);
    const int64_t cells = platform.l0cBytes / (side * side * kFloatBytes) - leastTaps + 1;
    const int64_t shared = down == 1 ? SaturatingMul(shape.taps, weightBlocks) / platform.coreNum : 1;
    data.weightTaps =
        static_cast<int32_t>(std::max(std::clamp<int64_t>(shared, 1, std::max<int64_t>(cells, 1)), leastTaps));
    data.weightSteps = CeilDiv(shape.taps, data.weightTaps) * weightBlocks;
    data.weightDepth = static_cast<int32_t>(kOwnerDepth);
    data.biasSliceWidth =
        std::max(least, RoundUp(std::min(CeilDiv(shape.outChannels, platform.coreNum), kShares[0]), least));
    data.biasColumnSlices = static_cast<int32_t>(CeilDiv(shape.outChannels, data.biasSliceWidth));
    data.inputWindow = static_cast<int32_t>(kWindowRows * kMaxSide);
    data.burstBytes = static_cast<int32_t>(kStageElements * shape.elementBytes);
    data.workBytes = static_cast<int32_t>(kStageElements * kFloatBytes);
    data.biasMaskBytes = static_cast<int32_t>(kPanelBytes);
    data.l1Bytes = static_cast<int32_t>(platform.l1Bytes);
    data.l0Half = static_cast<int32_t>(std::min(platform.l0aBytes, platform.l0bBytes) / 2);
    data.l0cBytes = static_cast<int32_t>(platform.l0cBytes);
    const int64_t panels = std::min(shape.inChannels, shape.outChannels) < least ? 3 : 2;
    const int64_t ubBytes =
        2 * (data.burstBytes + kStageElements * 2) + 2 * kReadBytes + data.workBytes + kSumBytes + panels * kPanelBytes;
    data.plannedUbBytes = static_cast<int32_t>(ubBytes);
    const int64_t l1Bytes = int64_t{4} * (kWindowRows + kOwnerDepth + cube::kFractal) * kMaxSide;
    if (ubBytes > platform.ubBytes || l1Bytes > platform.l1Bytes) {
        plan.refusal = ubBytes > platform.ubBytes ? Refusal{"bytes of the unified buffer", ubBytes, platform.ubBytes}
                                                  : Refusal{"bytes of L1", l1Bytes, platform.l1Bytes};
        return plan;
    }
    const int64_t rows = SaturatingAdd(shape.inputRows, shape.gradRows);
    const int64_t cycles =
        SaturatingAdd(SaturatingMul(CeilDiv(shape.WeightElements(), 4096), rows),
                      SaturatingMul(SaturatingAdd(shape.SelfElements(), shape.InputElements()), shape.elementBytes) /
                          cube::kFirstRate);
    const int64_t blocks = data.inputSteps + data.weightSteps + data.biasColumnSlices;
    plan.blockNum = std::clamp<int64_t>(CeilDiv(cycles, kMinCoreCycles), 1, std::min(blocks, platform.coreNum));
    return plan;
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
    const int64_t rowBytes = SaturatingMul(std::max(shape.inChannels, shape.outChannels), shape.elementBytes);
    if (rowBytes > self::kMaxRowBytes) {
        plan.refusal = {"bytes of a row of self or input", rowBytes, self::kMaxRowBytes};
        return plan;
    }
    if (platform.hasBlockCopyOnly) {
        return self::PlanByOwner(shape, problem.pad, platform);
    }
    const int64_t bytes = shape.OperandBytes();
    const self::Split split = self::CheapestSplit(shape, platform);
    self::Tile input = split.input;
    self::Tile weight = split.weight;
    if (split.hasSameSlots) {
        int64_t& first = split.isSwapped ? weight.panelBytes : weight.windowBytes;
        int64_t& second = split.isSwapped ? weight.windowBytes : weight.panelBytes;
        input.windowBytes = first = std::max(input.windowBytes, first);
        input.panelBytes = second = std::max(input.panelBytes, second);
    }
    plan.refusal = self::RefusalOf(shape, split, platform);
    if (plan.refusal.limit != nullptr) {
        return plan;
    }
    const self::ColumnSums sums = self::ColumnSumsOf(shape, platform);
    const bool isFetched = self::IsFetched(shape, platform);
    const int64_t copyBuffers = shape.isHalved || isFetched ? self::kCopyBuffers : 0;
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
    // With a packed copy, the weight of a step is for each fractal of input channels.
    data.inputStepCost = input.step.Cycles() / (split.isPacked ? input.columns / cube::kFractal : 1);
    data.weightStepCost = weight.step.Cycles() / (split.isPacked ? weight.cells * weight.cellRows / cube::kFractal : 1);
    data.partFloats = split.isWeightFirst ? weight.tileFloats : input.tileFloats;
    data.inputCellRows = static_cast<int32_t>(input.cellRows);
    data.inputCells = static_cast<int32_t>(input.cells);
    data.inputColumns = static_cast<int32_t>(input.columns);
    data.inputTaps = static_cast<int32_t>(input.taps);
    data.inputDepth = static_cast<int32_t>(input.depth);
    data.inputSlotFloats = static_cast<int32_t>(self::SlotFloatsOf(input, split, platform));
    data.weightCellRows = static_cast<int32_t>(weight.cellRows);
    data.weightCells = static_cast<int32_t>(weight.cells);
    data.weightColumns = static_cast<int32_t>(weight.columns);
    data.weightCellColumns = static_cast<int32_t>(weight.CellColumns());
    data.weightTaps = static_cast<int32_t>(weight.taps);
    data.weightDepth = static_cast<int32_t>(weight.depth);
    data.weightSlotFloats = static_cast<int32_t>(self::SlotFloatsOf(weight, split, platform));
    data.hasSameSlots = split.hasSameSlots ? 1 : 0;
    data.inputWindows = static_cast<int32_t>(input.windows);
    data.inputWindow = static_cast<int32_t>(input.windowBytes / bytes);
    data.inputPanels = static_cast<int32_t>(input.panels);
    data.inputPanel = static_cast<int32_t>(input.panelBytes / bytes);
    data.weightWindows = static_cast<int32_t>(weight.windows);
    data.weightWindow = static_cast<int32_t>(weight.windowBytes / bytes);
    data.weightPanels = static_cast<int32_t>(weight.panels);
    data.weightPanel = static_cast<int32_t>(weight.panelBytes / bytes);
    data.weightWindowGranule = static_cast<int32_t>(weight.windowGranule);
    data.weightPanelGranule = static_cast<int32_t>(weight.panelGranule);
    data.isPacked = split.isPacked ? 1 : 0;
    data.isFetched = isFetched ? 1 : 0;
    data.biasSliceWidth = sums.grid.sliceWidth;
    data.biasRowBlocks = static_cast<int32_t>(sums.grid.rowBlocks);
    data.biasColumnSlices = static_cast<int32_t>(sums.grid.columnSlices);
    data.biasTileWidth = static_cast<int32_t>(sums.tileWidth);
    data.biasPackedRows = static_cast<int32_t>(sums.packedRows);
    data.biasMaskBytes = static_cast<int32_t>(sums.maskBytes);
    data.isSwapped = split.isSwapped ? 1 : 0;
    data.isWeightFirst = split.isWeightFirst ? 1 : 0;
    data.hf32 = shape.operand == cube::Operand::kHf32 ? 1 : 0;
    data.burstBuffers = self::kBurstBuffers;
    data.burstBytes = self::kBurstBytes;
    data.workBytes = self::kWorkBytes;
    data.storeBuffers = self::kStoreBuffers;
    data.copyBuffers = static_cast<int32_t>(copyBuffers);
    data.l1Bytes = static_cast<int32_t>(platform.l1Bytes);
    data.l0Half = static_cast<int32_t>(std::min(platform.l0aBytes, platform.l0bBytes) / 2);
    data.l0cBytes = static_cast<int32_t>(platform.l0cBytes);
    data.plannedUbBytes = static_cast<int32_t>(ubBytes);

    if (shape.isHalved) {
        data.inputOffset = RoundUp(shape.SelfElements() * bytes, self::kCopyAlignment);
        data.weightOffset = data.inputOffset + RoundUp(shape.InputElements() * bytes, self::kCopyAlignment);
        data.partOffset = data.weightOffset + RoundUp(shape.WeightElements() * bytes, self::kCopyAlignment);
    }
    if (split.isPacked) {
        data.partOffset = RoundUp(shape.InputElements() * bytes, self::kCopyAlignment);
    }
    // A core stores at most two partial sums of tiles: of its first and of its last tile of the first product.
    data.biasOffset = data.partOffset + 2 * plan.blockNum * data.partFloats * kFloatBytes;
    data.biasPitch = RoundUp(shape.outChannels, kGmSectorBytes / kFloatBytes);
    plan.workspaceBytes = data.biasOffset + sums.grid.rowBlocks * data.biasPitch * kFloatBytes;
    return plan;
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_CONV_TBC_BACKWARD_TILING_H
