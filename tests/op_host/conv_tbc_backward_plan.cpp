// Draws random problems and platforms and checks the guarantees of every plan of ConvTbcBackward. Usage: <program>
// COUNT SEED. Prints the first few violations, one per line, and exits with 1 if there is any.
#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "conv_tbc_backward_tiling.h"
#include "plan_check.h"

// The steps of the kernel, so that host and device are compared.
#define __aicore__
#include "../../op_kernel/common/arithmetic.h"  // not the "common/arithmetic.h" of the host
#include "../../op_kernel/conv_tbc_backward/tbc_steps.h"

namespace {

using opforge::ConvTbcBackwardProblem;
using opforge::DataType;
using opforge::Platform;
using opforge::RoundUp;
using opforge::check::Dice;
using opforge::kernel::Overlap;
using opforge::kernel::Size;
using opforge::kernel::Span;
using opforge::kernel::TbcStep;
using opforge::kernel::TbcSteps;

opforge::check::Guarantees g_guarantees;

constexpr int64_t kRealL1Bytes = 524032;
// Up to this number, all steps are checked one by one; of more steps, only some.
constexpr int64_t kAllSteps = 3000;

struct Drawn {
    ConvTbcBackwardProblem problem;
    Platform platform;

    bool IsReal() const { return platform.ubBytes >= opforge::check::kRealUbBytes && platform.l1Bytes >= kRealL1Bytes; }
};

void Expect(bool holds, const char* guarantee, const Drawn& drawn)
{
    if (g_guarantees.Holds(holds, guarantee)) {
        return;
    }
    const ConvTbcBackwardProblem& p = drawn.problem;
    std::printf("T=%lld B=%lld Cin=%lld Cout=%lld K=%lld pad=%lld type=%lld dtype=%d cores=%lld l1=%lld ub=%lld\n",
                static_cast<long long>(p.T), static_cast<long long>(p.B), static_cast<long long>(p.Cin),
                static_cast<long long>(p.Cout), static_cast<long long>(p.K), static_cast<long long>(p.pad),
                static_cast<long long>(p.cubeMathType), static_cast<int>(p.selfDtype),
                static_cast<long long>(drawn.platform.cubeCoreNum), static_cast<long long>(drawn.platform.l1Bytes),
                static_cast<long long>(drawn.platform.ubBytes));
}

Drawn Draw(Dice& dice)
{
    constexpr DataType kDtypes[] = {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32};
    constexpr int64_t kCores[] = {1, 2, 7, 20, 24, 32};
    constexpr int64_t kL1Bytes[] = {kRealL1Bytes, kRealL1Bytes, kRealL1Bytes, 1048576, 65536, 16384};
    Drawn drawn;
    ConvTbcBackwardProblem& p = drawn.problem;
    // Mostly realistic shapes, sometimes hostile ones.
    const bool isAbsurd = dice.Between(0, 19) == 0;
    p.selfDtype = p.inputDtype = p.weightDtype = p.biasDtype = dice.OneOf(kDtypes);
    p.cubeMathType = dice.Between(0, 3);
    p.T = dice.Size(isAbsurd ? 61 : 14);
    p.B = 1 + dice.Size(isAbsurd ? 61 : 12);
    p.Cin = dice.Size(isAbsurd ? 61 : 13);
    p.Cout = 1 + dice.Size(isAbsurd ? 61 : 13);
    p.pad = dice.Size(isAbsurd ? 60 : 8);
    p.K = std::min(dice.Size(isAbsurd ? 61 : 8), p.T + 2 * p.pad);
    drawn.platform = dice.Device();
    drawn.platform.cubeCoreNum = dice.OneOf(kCores);
    drawn.platform.coreNum = 2 * drawn.platform.cubeCoreNum;
    drawn.platform.l1Bytes = dice.OneOf(kL1Bytes);
    drawn.platform.l0aBytes = drawn.platform.l0bBytes = 65536;
    drawn.platform.l0cBytes = 131072;
    return drawn;
}

/// Whether a row in GM is longer than the maximum stride of a DMA.
bool IsWide(const ConvTbcBackwardProblem& p)
{
    return opforge::SaturatingMul(std::max(p.Cin, p.Cout), opforge::SizeOf(p.selfDtype)) > UINT32_MAX;
}

void CheckRefusal(const Drawn& drawn, const opforge::Refusal& refusal)
{
    const ConvTbcBackwardProblem& p = drawn.problem;
    Expect(refusal.got > refusal.allowed, "a refusal names a need above its limit", drawn);
    int64_t product = 1;
    for (const int64_t size : {p.T + 2 * p.pad, p.B, p.Cin, p.Cout, p.K}) {
        product = opforge::SaturatingMul(product, std::max<int64_t>(size, 1));
    }
    const bool isHuge = product > (int64_t{1} << 57);
    Expect(isHuge || IsWide(p) || !drawn.IsReal(), "a real device refuses no real problem", drawn);
}

/// Every step is in the share of exactly one core.
void CheckShares(const Drawn& drawn, const TbcSteps& steps, int64_t cores)
{
    for (const bool isInput : {true, false}) {
        int64_t next = steps.StepsOf(isInput).begin;
        for (int64_t core = 0; core < cores; ++core) {
            const Span share = steps.ShareOf(isInput, core);
            Expect(share.begin == next && share.end >= share.begin, "shares follow each other", drawn);
            next = share.end;
            Expect(isInput == steps.IsInputFirst() || Size(share) == 0 ||
                       steps.StepsOfTile(share.begin).begin == share.begin,
                   "cores have complete tiles of the second product", drawn);
        }
        Expect(next == steps.StepsOf(isInput).end, "shares cover the steps", drawn);
    }
}

/// The steps of every tile cover its sums completely; the tiles cover both results completely.
void CheckCover(const Drawn& drawn, const ConvTbcBackwardTilingData& data, const TbcSteps& steps)
{
    int64_t inputBlock = 0;
    int64_t weightBlock = 0;
    for (int64_t step = 0; step < steps.StepsOf(false).end;) {
        const Span all = steps.StepsOfTile(step);
        const bool isInput = steps.IsInput(step);
        int64_t summed = 0;
        Span last{-1, -1};
        for (int64_t index = all.begin; index < all.end; ++index) {
            const TbcStep at = steps.At(index, {0, steps.StepsOf(false).end});
            Expect(at.isFirst == (index == all.begin) && at.isLast == (index + 1 == all.end), "ends of a tile", drawn);
            Expect(index == all.begin || at.taps.begin != last.begin || !isInput || data.inputTaps >= data.taps,
                   "neighbouring steps differ", drawn);
            summed += isInput ? Size(at.taps) * Size(at.depth) : Size(at.depth);
            last = at.taps;
        }
        const int64_t whole = isInput ? data.taps * data.outChannels : data.gradRows;
        Expect(summed == whole || data.inputRows == 0, "the steps of a tile are the whole sum", drawn);
        const TbcStep at = steps.At(all.begin, {0, steps.StepsOf(false).end});
        const int64_t block = Size(at.tile.rows) * Size(at.tile.columns);
        Expect(block > 0 && Size(at.tile.taps) > 0, "a tile has elements", drawn);
        Expect(Size(at.tile.rows) <= (isInput ? steps.InputTileRows() : steps.WeightTileRows()) &&
                   Size(at.tile.columns) <= (isInput ? data.inputColumns : data.weightColumns),
               "a tile fits into its cells", drawn);
        (isInput ? inputBlock : weightBlock) += block * Size(at.tile.taps);
        step = all.end;
    }
    Expect(inputBlock == data.inputRows * data.inChannels, "tiles cover grad_input", drawn);
    Expect(weightBlock == data.taps * data.inChannels * data.outChannels, "tiles cover grad_weight", drawn);
}

/// The columns of L1 that a load of whole granules fills.
int64_t LoadedColumns(const Span& columns, int64_t granule, int64_t width)
{
    return RoundUp(std::min(RoundUp(columns.end, granule), width) - columns.begin / granule * granule, 16);
}

/// The loads of a step fit into its half of L1, its products into L0.
void CheckStep(const Drawn& drawn, const ConvTbcBackwardTilingData& data, const TbcSteps& steps, int64_t step,
               int64_t bytes)
{
    const TbcStep at = steps.At(step, {0, steps.StepsOf(false).end});
    const int64_t depth = RoundUp(Size(at.depth), 16);
    const bool isInput = steps.IsInput(step);
    if (at.isEmpty) {
        return;
    }
    const Span& window = at.window;
    const int64_t pitch = RoundUp(Size(window), 16);
    const int64_t across = isInput ? depth : LoadedColumns(at.tile.rows, data.weightWindowGranule, data.inChannels);
    const int64_t slot = isInput ? data.inputWindow : data.weightWindow;
    const int64_t panel = isInput ? data.inputPanel : data.weightPanel;
    const int64_t right = isInput ? Size(at.taps) * RoundUp(data.inputColumns, 16) * RoundUp(data.inputDepth, 16)
                                  : depth * LoadedColumns(at.tile.columns, data.weightPanelGranule, data.outChannels);
    // Fractals that begin inside a column are read up to 15 rows beyond it.
    Expect(pitch * across * bytes + 480 <= slot * bytes, "the window fits into its slot of L1", drawn);
    Expect(right * bytes + 480 <= panel * bytes, "the right operand fits into its slot of L1", drawn);
    Expect(pitch <= 16384 && depth <= 16384, "columns of L1 are as high as an instruction can say", drawn);
    Expect(slot * bytes % 512 == 0 && panel * bytes % 512 == 0, "slots are aligned", drawn);
    for (int64_t tap = at.taps.begin; tap < at.taps.end; ++tap) {
        if (isInput) {
            const int64_t first = at.tile.rows.begin - steps.ShiftOf(tap) - window.begin;
            Expect(first >= 0 && first + Size(at.tile.rows) <= Size(window), "a tap is within the window", drawn);
        } else {
            const Span met = steps.ProductRows(at, tap);
            const int64_t first = met.begin + steps.ShiftOf(tap) - window.begin;
            Expect(Size(met) == 0 || (first >= 0 && first + Size(met) <= Size(window)), "a tap is within the window",
                   drawn);
        }
    }
}

void CheckCells(const Drawn& drawn, int64_t rows, int64_t columns, int64_t cells, int64_t bytes,
                const ConvTbcBackwardTilingData& data)
{
    Expect(rows >= 16 && rows % 16 == 0 && columns >= 16 && columns % 16 == 0, "cells are whole fractals", drawn);
    Expect(cells >= 1 && cells <= 8 && cells * rows * columns * 4 <= data.l0cBytes, "the cells of a tile fit into L0C",
           drawn);
    Expect(std::max(rows, columns) * 16 * bytes <= data.l0Half, "a slice fits into half of L0", drawn);
}

/// The vector cores write the packed copy of input before the workspace of the partial sums.
void CheckPacked(const Drawn& drawn, const ConvTbcBackwardTilingData& data, int64_t bytes)
{
    Expect(data.isSwapped == 0 || (data.isPacked != 0 && data.inputWindows == data.inputPanels),
           "only packed plans swap slots, of equal numbers", drawn);
    if (data.isPacked == 0) {
        return;
    }
    Expect(data.hasSameSlots != 0 && data.isWeightFirst == 0 && data.isFetched != 0,
           "input is packed during the first product", drawn);
    Expect(data.inputOffset == 0 && data.partOffset >= data.inputRows * data.inChannels * bytes,
           "the workspace holds the copy", drawn);
    Expect(int64_t{data.weightCells} * data.weightCellRows * bytes <= data.burstBytes, "a burst holds a row to pack",
           drawn);
}

void CheckSlotSize(const Drawn& drawn, int64_t floats, int64_t cellFloats, int64_t cells,
                   const ConvTbcBackwardTilingData& data)
{
    const int64_t slotCells = floats / cellFloats;
    Expect(slotCells >= 1 && (cells + slotCells - 1) / slotCells * floats * 4 <= data.l0cBytes,
           "the slots of L0C can contain the cells of a tile", drawn);
}

void CheckL1(const Drawn& drawn, int64_t windows, int64_t window, int64_t panels, int64_t panel, int64_t bytes)
{
    Expect(windows >= 2 && windows <= 4 && panels >= 2 && panels <= 4, "loads have another slot than products", drawn);
    Expect((windows * window + panels * panel) * bytes <= drawn.platform.l1Bytes, "all slots fit into L1", drawn);
}

void CheckColumnSums(const Drawn& drawn, const ConvTbcBackwardTilingData& data, int64_t cores)
{
    const int64_t size = SizeOf(drawn.problem.selfDtype);
    Expect(data.biasRowBlocks * data.biasColumnSlices <= cores, "column sums have a core each", drawn);
    Expect((data.biasColumnSlices - 1) * data.biasSliceWidth < data.outChannels &&
               data.biasColumnSlices * data.biasSliceWidth >= data.outChannels,
           "slices cover the columns, and none is empty", drawn);
    Expect(RoundUp(data.biasTileWidth, 8) * 4 <= data.burstBytes &&
               RoundUp(data.biasTileWidth, 32 / size) * size <= data.burstBytes,
           "a burst holds a row", drawn);
    Expect(data.burstBytes / size * 4 <= data.workBytes || size == 4, "a burst can be widened", drawn);
    const int64_t total = int64_t{data.burstBuffers + data.storeBuffers + data.copyBuffers + 1} * data.burstBytes +
                          data.workBytes + data.biasMaskBytes;
    Expect(total <= drawn.platform.ubBytes, "buffers fit into UB", drawn);
    if (data.biasPackedRows > 0) {
        const int64_t stretch = data.biasPackedRows * data.outChannels;
        Expect(data.biasTileWidth == data.outChannels && stretch % 8 == 0 && stretch * 4 <= data.burstBytes,
               "packed rows are whole rows and end on a 32-byte border", drawn);
        const int64_t maskBytes = data.biasPackedRows * RoundUp(RoundUp(stretch, 64) / 8, 32);
        Expect(data.biasPackedRows == 1 || maskBytes <= data.biasMaskBytes, "each packed row has a mask", drawn);
    }
}

void CheckPlan(const Drawn& drawn, Dice& dice)
{
    const auto plan = opforge::PlanConvTbcBackward(drawn.problem, drawn.platform);
    if (plan.refusal.limit != nullptr) {
        CheckRefusal(drawn, plan.refusal);
        return;
    }
    const ConvTbcBackwardTilingData& data = plan.data;
    const bool isFloat = drawn.problem.selfDtype == DataType::kFloat32;
    const bool isHalved = drawn.problem.cubeMathType == 2 && drawn.problem.selfDtype != DataType::kFloat16;
    const int64_t bytes = isFloat && !isHalved ? 4 : 2;
    Expect(plan.tilingKey == (isHalved ? 2 : 1), "the key says whether copies are multiplied", drawn);
    Expect(data.hf32 == (isFloat && drawn.problem.cubeMathType % 2 == 1), "float32 is HF32 for 1 and 3", drawn);
    Expect(plan.blockNum >= 1 && plan.blockNum <= drawn.platform.cubeCoreNum, "blocks are cores", drawn);
    Expect(data.partOffset >= 0 && data.biasOffset - data.partOffset == 2 * plan.blockNum * data.partFloats * 4 &&
               plan.workspaceBytes - data.biasOffset == data.biasRowBlocks * data.biasPitch * 4 &&
               data.biasPitch >= data.outChannels,
           "the workspace holds two parts of every core and the column sums", drawn);
    if (isHalved) {
        Expect(data.inputOffset >= data.gradRows * data.outChannels * 2 &&
                   data.weightOffset - data.inputOffset >= data.inputRows * data.inChannels * 2 &&
                   data.partOffset - data.weightOffset >= data.taps * data.inChannels * data.outChannels * 2,
               "the workspace holds the copies", drawn);
    }
    CheckColumnSums(drawn, data, 2 * plan.blockNum);
    const bool isSwapped = data.isSwapped != 0;
    Expect(data.hasSameSlots == 0 || (data.inputWindows == (isSwapped ? data.weightPanels : data.weightWindows) &&
                                      data.inputWindow == (isSwapped ? data.weightPanel : data.weightWindow) &&
                                      data.inputPanels == (isSwapped ? data.weightWindows : data.weightPanels) &&
                                      data.inputPanel == (isSwapped ? data.weightWindow : data.weightPanel)),
           "both products have the same slots", drawn);
    CheckPacked(drawn, data, bytes);
    CheckSlotSize(drawn, data.inputSlotFloats, data.inputCellRows * data.inputColumns, data.inputCells, data);
    const int64_t across = opforge::CeilDiv(data.weightColumns, data.weightCellColumns);
    const int64_t weightCells = data.weightCells * data.weightTaps * across;
    CheckSlotSize(drawn, data.weightSlotFloats, data.weightCellRows * data.weightCellColumns, weightCells, data);
    const int64_t inputFloats = data.inputCells * data.inputCellRows * data.inputColumns;
    const int64_t weightFloats = weightCells * data.weightCellRows * data.weightCellColumns;
    Expect((data.isWeightFirst != 0 ? weightFloats : inputFloats) <= data.partFloats, "a parked part holds a tile",
           drawn);
    CheckCells(drawn, data.inputCellRows, data.inputColumns, data.inputCells, bytes, data);
    CheckCells(drawn, data.weightCellRows, data.weightCellColumns, weightCells, bytes, data);
    Expect(std::max(data.inputColumns, data.weightColumns) * 4 <= data.burstBytes, "a burst holds a row of a tile",
           drawn);
    Expect(data.copyBuffers > 0 || (!isHalved && data.isFetched == 0), "copies and fetches have buffers", drawn);
    CheckL1(drawn, data.inputWindows, data.inputWindow, data.inputPanels, data.inputPanel, bytes);
    CheckL1(drawn, data.weightWindows, data.weightWindow, data.weightPanels, data.weightPanel, bytes);
    TbcSteps steps;
    steps.Init(data, plan.blockNum);
    CheckShares(drawn, steps, plan.blockNum);
    if (steps.StepsOf(false).end <= kAllSteps) {
        CheckCover(drawn, data, steps);
    }
    for (int64_t index = 0; index < 20 && steps.StepsOf(false).end > 0; ++index) {
        CheckStep(drawn, data, steps, dice.Between(0, steps.StepsOf(false).end - 1), bytes);
    }
}

}  // namespace

int main(int argc, char** argv)
{
    return opforge::check::Main(argc, argv, g_guarantees, [](Dice& dice) { CheckPlan(Draw(dice), dice); });
}
