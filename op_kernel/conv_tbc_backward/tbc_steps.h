// The steps of both products of a convolution over time: their tiles, rows and cores. Rows are (time, batch) pairs, so
// a tap of the kernel is a shift by whole rows. The file has only arithmetic, for host and device.
#ifndef OPFORGE_OP_KERNEL_CONV_TBC_BACKWARD_TBC_STEPS_H
#define OPFORGE_OP_KERNEL_CONV_TBC_BACKWARD_TBC_STEPS_H

#include "common/arithmetic.h"
#include "conv_tbc_backward_tiling_data.h"

namespace opforge {
namespace kernel {

/// A block of a result: rows of input for grad_input, input channels of each tap for grad_weight.
struct TbcTile {
    Span taps;  // taps of grad_weight; a single tap for grad_input
    Span rows;
    Span columns;
};

/// The work between two loads of a core.
struct TbcStep {
    TbcTile tile;
    Span taps;
    Span depth;    // columns of self for grad_input, rows of self for grad_weight
    bool isFirst;  // this step is the first one of this core in the tile
    bool isLast;
    bool hasWholeTile;  // this core has all steps of the tile
    bool isHead;        // another core has the first steps of the tile
    bool isInput;
    bool isEmpty;  // the step has no products because all rows are padding
    Span window;   // rows for all taps, including padding: of self for grad_input, of input for grad_weight
    Span rows;     // rows of the window that exist
};

/// Whether two steps of a product multiply the same rows of the window, or the same other operand.
__aicore__ inline bool HaveSameWindow(const TbcStep& a, const TbcStep& b)
{
    return a.isInput == b.isInput && a.tile.rows.begin == b.tile.rows.begin && a.taps.begin == b.taps.begin &&
           a.depth.begin == b.depth.begin;
}
__aicore__ inline bool HaveSamePanel(const TbcStep& a, const TbcStep& b)
{
    return a.isInput == b.isInput && a.tile.columns.begin == b.tile.columns.begin && a.depth.begin == b.depth.begin &&
           (!a.isInput || a.taps.begin == b.taps.begin);
}

/// The numbers of the steps of grad_input precede those of grad_weight. Each core has steps of the first product, and
/// complete tiles of the second one. The tiling data defines which one is first.
class TbcSteps {
public:
    static constexpr int64_t kFractal = 16;

    __aicore__ inline void Init(const ConvTbcBackwardTilingData& tiling, int64_t cores)
    {
        tiling_ = &tiling;
        cores_ = cores;
    }

    __aicore__ inline bool IsInput(int64_t step) const { return step < tiling_->inputSteps; }
    __aicore__ inline bool IsInputFirst() const { return tiling_->isWeightFirst == 0; }

    /// Returns the steps of a product, or those of a core.
    __aicore__ inline Span StepsOf(bool isInput) const
    {
        return isInput ? Span{0, tiling_->inputSteps}
                       : Span{tiling_->inputSteps, tiling_->inputSteps + tiling_->weightSteps};
    }
    __aicore__ inline Span ShareOf(bool isInput, int64_t core) const
    {
        return {FirstOf(isInput, core), FirstOf(isInput, core + 1)};
    }

    /// Returns the steps of the tile of a step.
    __aicore__ inline Span StepsOfTile(int64_t step) const
    {
        const int64_t base = IsInput(step) ? 0 : tiling_->inputSteps;
        const int64_t count = IsInput(step) ? InputTileSteps() : WeightTileSteps();
        const int64_t first = base + (step - base) / count * count;
        return {first, first + count};
    }

    __aicore__ inline TbcTile TileOf(int64_t step) const
    {
        if (IsInput(step)) {
            const int64_t tile = step / InputTileSteps();
            const int64_t down = CeilDiv(tiling_->inputRows, InputTileRows());
            return {{0, 1}, PieceOf(tiling_->inputRows, InputTileRows(), tile % down), Channels(true, tile / down)};
        }
        const int64_t tile = (step - tiling_->inputSteps) / WeightTileSteps();
        const int64_t across = CeilDiv(tiling_->outChannels, tiling_->weightColumns);
        const int64_t down = CeilDiv(tiling_->inChannels, WeightTileRows());
        return {PieceOf(tiling_->taps, tiling_->weightTaps, TapGroup(tile / across / down)),
                Channels(false, tile / across % down),
                PieceOf(tiling_->outChannels, tiling_->weightColumns, tile % across)};
    }

    __aicore__ inline TbcStep At(int64_t step, const Span& share) const
    {
        const Span all = StepsOfTile(step);
        const Span mine = Overlap(all, share);
        const int64_t inner = step - all.begin;
        TbcStep at;
        at.tile = TileOf(step);
        at.isFirst = step == mine.begin;
        at.isLast = step + 1 == mine.end;
        at.hasWholeTile = mine.begin == all.begin && mine.end == all.end;
        at.isHead = mine.begin != all.begin;
        if (IsInput(step)) {
            at.taps = PieceOf(tiling_->taps, tiling_->inputTaps, inner % InputTapGroups());
            at.depth = PieceOf(tiling_->outChannels, tiling_->inputDepth, inner / InputTapGroups());
        } else {
            at.taps = at.tile.taps;
            at.depth = PieceOf(tiling_->gradRows, tiling_->weightDepth, inner);
        }
        at.isInput = IsInput(step);
        at.window = at.isInput ? InputWindow(at) : WeightWindow(at);
        at.rows = Overlap(at.window, {0, at.isInput ? tiling_->gradRows : tiling_->inputRows});
        at.isEmpty = Size(at.taps) == 0 || Size(at.rows) == 0;
        return at;
    }

    /// Returns the input channels of all tiles of a product with this index. If grad_weight loads a packed copy, the
    /// pieces have equal numbers of units, or one less. Otherwise they begin at multiples of the longest one, so that
    /// loads have few requests.
    __aicore__ inline Span Channels(bool isInput, int64_t index) const
    {
        if (tiling_->isPacked == 0) {
            return PieceOf(tiling_->inChannels, LongestPiece(isInput), index);
        }
        const Span units = UnitsOf(isInput, index);
        return {units.begin * kFractal, Smaller(units.end * kFractal, tiling_->inChannels)};
    }

    __aicore__ inline int64_t InputTileRows() const { return tiling_->inputCells * tiling_->inputCellRows; }
    __aicore__ inline int64_t WeightTileRows() const { return tiling_->weightCells * tiling_->weightCellRows; }

    /// A tap multiplies row r of input and row r - ShiftOf(tap) of self.
    __aicore__ inline int64_t ShiftOf(int64_t tap) const { return (tap - tiling_->pad) * tiling_->batch; }

    /// Returns whether a tap multiplies any of these rows of input.
    __aicore__ inline bool HasProducts(const Span& rows, int64_t tap) const
    {
        return Size(Overlap({rows.begin - ShiftOf(tap), rows.end - ShiftOf(tap)}, {0, tiling_->gradRows})) > 0;
    }

    /// Returns the rows of self of a step of grad_weight that a tap multiplies.
    __aicore__ inline Span ProductRows(const TbcStep& step, int64_t tap) const
    {
        return Overlap(step.depth, {-ShiftOf(tap), tiling_->inputRows - ShiftOf(tap)});
    }

private:
    /// Returns the rows of self of a step of grad_input, with padding. A cell of a single row is multiplied as two
    /// rows.
    __aicore__ inline Span InputWindow(const TbcStep& step) const
    {
        const Span& rows = step.tile.rows;
        const int64_t end = Size(rows) % tiling_->inputCellRows == 1 ? rows.end + 1 : rows.end;
        return {rows.begin - ShiftOf(step.taps.end - 1), end - ShiftOf(step.taps.begin)};
    }

    /// Returns the rows of input of a step of grad_weight, with padding.
    __aicore__ inline Span WeightWindow(const TbcStep& step) const
    {
        return {step.depth.begin + ShiftOf(step.taps.begin), step.depth.end + ShiftOf(step.taps.end - 1)};
    }

    /// Returns the first step of a product for a core.
    __aicore__ inline int64_t FirstOf(bool isInput, int64_t core) const
    {
        const Span steps = StepsOf(isInput);
        if (isInput != IsInputFirst()) {
            const int64_t tileSteps = isInput ? InputTileSteps() : WeightTileSteps();
            return steps.begin + PartOf(Size(steps) / tileSteps, cores_, core).begin * tileSteps;
        }
        // Cores with less work in the second product have more steps of the first one.
        const int64_t cost = CostBefore(true, Size(StepsOf(true))) + CostBefore(false, Size(StepsOf(false)));
        const int64_t others = CostBefore(!isInput, FirstOf(!isInput, core) - StepsOf(!isInput).begin);
        const int64_t mine = PartOf(cost, cores_, core).begin - others;
        return steps.begin + Smaller(StepsFor(isInput, Larger(mine, 0)), Size(steps));
    }

    // A product has the same number of steps for each piece of input channels. Tiles with a packed copy have different
    // numbers of input channels, and the costs of their steps are proportional to them.

    __aicore__ inline int64_t LongestPiece(bool isInput) const
    {
        return isInput ? tiling_->inputColumns : WeightTileRows();
    }
    __aicore__ inline int64_t Pieces(bool isInput) const { return CeilDiv(tiling_->inChannels, LongestPiece(isInput)); }
    __aicore__ inline int64_t PieceSteps(bool isInput) const
    {
        return isInput ? CeilDiv(tiling_->inputRows, InputTileRows()) * InputTileSteps()
                       : CeilDiv(tiling_->outChannels, tiling_->weightColumns) * WeightTileSteps();
    }
    /// Returns the units of all pieces, and those of one piece.
    __aicore__ inline int64_t Units(bool isInput) const
    {
        return tiling_->isPacked != 0 ? CeilDiv(tiling_->inChannels, kFractal) : Pieces(isInput);
    }
    __aicore__ inline Span UnitsOf(bool isInput, int64_t piece) const
    {
        return {CeilDiv(piece * Units(isInput), Pieces(isInput)),
                CeilDiv((piece + 1) * Units(isInput), Pieces(isInput))};
    }

    /// Returns the cost of the first `steps` steps of a product. grad_weight has all pieces for each group of taps.
    __aicore__ inline int64_t CostBefore(bool isInput, int64_t steps) const
    {
        const int64_t inPiece = PieceSteps(isInput);
        const int64_t inGroup = Pieces(isInput) * inPiece;
        if (inGroup == 0) {
            return 0;
        }
        const Span units = UnitsOf(isInput, steps % inGroup / inPiece);
        const int64_t before = steps / inGroup * Units(isInput) + units.begin;
        return StepCost(isInput) * (before * inPiece + Size(units) * (steps % inPiece));
    }

    /// Returns the least number of steps of a product that have at least this cost.
    __aicore__ inline int64_t StepsFor(bool isInput, int64_t cost) const
    {
        const int64_t inPiece = PieceSteps(isInput);
        const int64_t inGroup = Units(isInput) * inPiece;
        if (inGroup == 0) {
            return 0;
        }
        const int64_t work = CeilDiv(cost, StepCost(isInput));
        const int64_t piece = work % inGroup / inPiece * Pieces(isInput) / Units(isInput);
        const Span units = UnitsOf(isInput, piece);
        return (work / inGroup * Pieces(isInput) + piece) * inPiece +
               CeilDiv(work % inGroup - units.begin * inPiece, Size(units));
    }

    /// Returns the cost of a step for each unit of its piece.
    __aicore__ inline int64_t StepCost(bool isInput) const
    {
        return isInput ? tiling_->inputStepCost : tiling_->weightStepCost;
    }

    /// Returns the group of taps of tiles. The first and the last taps have the fewest rows that are not padding.
    /// Therefore the groups of both halves alternate, so that each core has a similar number of rows.
    __aicore__ inline int64_t TapGroup(int64_t index) const
    {
        const int64_t groups = CeilDiv(tiling_->taps, tiling_->weightTaps);
        return index % 2 * CeilDiv(groups, 2) + index / 2;
    }

    __aicore__ inline int64_t InputTapGroups() const { return Larger(1, CeilDiv(tiling_->taps, tiling_->inputTaps)); }
    __aicore__ inline int64_t InputTileSteps() const
    {
        return InputTapGroups() * CeilDiv(tiling_->outChannels, tiling_->inputDepth);
    }
    __aicore__ inline int64_t WeightTileSteps() const
    {
        return tiling_->inputRows == 0 ? 1 : CeilDiv(tiling_->gradRows, tiling_->weightDepth);
    }

    const ConvTbcBackwardTilingData* tiling_ = nullptr;
    int64_t cores_ = 0;
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_CONV_TBC_BACKWARD_TBC_STEPS_H
