// ConvTbcBackward for separate cube and vector cores. Rows of input and self are (time, batch) pairs, so a tap of the
// kernel is a shift by whole rows. The cube cores compute grad_input and grad_weight as two products, whose steps are
// split evenly. Only tiles of the first product have steps of several cores. Each core then stores a partial sum as
// float32. The vector cores merge the partial sums in the order of the cores, while the cube cores compute the second
// product. Before, the vector cores sum the columns of self.
#ifndef OPFORGE_OP_KERNEL_CONV_TBC_BACKWARD_BY_UNITS_H
#define OPFORGE_OP_KERNEL_CONV_TBC_BACKWARD_BY_UNITS_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/cube/cube_core.h"
#include "common/vector/row_sum.h"
#include "conv_tbc_backward/tbc_steps.h"
#include "conv_tbc_backward_tiling_data.h"

namespace opforge {

namespace conv_tbc_backward {

/// The factors of the cube: the tensors, or float16 copies of them.
template <typename T, bool isHalved>
struct Operand {
    using Type = T;
    static constexpr bool kIsCopy = false;
};
template <>
struct Operand<float, true> {
    using Type = half;
    static constexpr bool kIsCopy = true;
};
template <>
struct Operand<bfloat16_t, true> {
    using Type = half;
    static constexpr bool kIsCopy = true;
};

}  // namespace conv_tbc_backward

/// T: dtype of all tensors. kIsHalved: cube_math_type selects float16 products.
template <typename T, bool kIsHalved>
class ConvTbcByUnits {
    using Operand = conv_tbc_backward::Operand<T, kIsHalved>;
    using C = typename Operand::Type;
    using Span = kernel::Span;
    using Step = kernel::TbcStep;
    using Tile = kernel::TbcTile;
    using Matrix = kernel::L1Matrix<C>;

public:
    __aicore__ inline void Init(GM_ADDR self, GM_ADDR input, GM_ADDR weight, GM_ADDR /*bias*/, GM_ADDR gradInput,
                                GM_ADDR gradWeight, GM_ADDR gradBias, GM_ADDR userWorkspace,
                                const ConvTbcBackwardTilingData& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        steps_.Init(tiling_, AscendC::GetBlockNum());
        SetBuffer(self_, self, SelfElements());
        SetBuffer(input_, input, InputElements());
        SetBuffer(weight_, weight, WeightElements());
        SetBuffer(gradInput_, gradInput, InputElements());
        SetBuffer(gradWeight_, gradWeight, WeightElements());
        SetBuffer(gradBias_, gradBias, tiling.outChannels);
        SetBuffer(grads_, Operand::kIsCopy ? userWorkspace : self, SelfElements());
        const bool isRowCopy = Operand::kIsCopy || tiling.isPacked != 0;
        SetBuffer(rows_, isRowCopy ? userWorkspace + tiling.inputOffset : input, InputElements());
        SetBuffer(matrices_, Operand::kIsCopy ? userWorkspace + tiling.weightOffset : weight, WeightElements());
        SetBuffer(parts_, userWorkspace + tiling.partOffset, 2 * AscendC::GetBlockNum() * tiling.partFloats);
        SetBuffer(sums_, userWorkspace + tiling.biasOffset, tiling.biasRowBlocks * tiling.biasPitch);
        if ASCEND_IS_AIC {
            core_.Init(pipe, {tiling.l1Bytes, tiling.l0Half, tiling.l0cBytes});
        }
        if ASCEND_IS_AIV {
            pipe->InitBuffer(workBuffer_, static_cast<uint32_t>(tiling.workBytes));
            pipe->InitBuffer(stores_, static_cast<uint8_t>(tiling.storeBuffers),
                             static_cast<uint32_t>(tiling.burstBytes));
            if (tiling.copyBuffers > 0) {
                pipe->InitBuffer(copies_, static_cast<uint8_t>(tiling.copyBuffers),
                                 static_cast<uint32_t>(tiling.burstBytes));
            }
            sum_.Init(pipe, {tiling.burstBuffers, tiling.burstBytes, tiling.burstBytes, tiling.biasMaskBytes},
                      workBuffer_.Get<float>());
        }
    }

    __aicore__ inline void Process()
    {
        if constexpr (Operand::kIsCopy) {
            if ASCEND_IS_AIV {
                CopyAll();
            }
            AscendC::SyncAll<false>();
        }
        if ASCEND_IS_AIC {
            MultiplyShare();
        }
        if ASCEND_IS_AIV {
            if (steps_.IsInputFirst()) {
                FetchOperand(true);
            }
            SumColumns();
            if (tiling_.isPacked != 0) {
                PackInput();
            } else {
                FetchOperand(false);
            }
            if (!steps_.IsInputFirst()) {
                FetchOperand(true);
            }
            AscendC::CrossCoreWaitFlag(kFirstProduct);
            AscendC::SyncAll<true>();
            MergeParts();
            MergeSums();
        }
    }

private:
    template <typename D>
    __aicore__ inline void SetBuffer(AscendC::GlobalTensor<D>& tensor, GM_ADDR address, int64_t elements)
    {
        tensor.SetGlobalBuffer(reinterpret_cast<__gm__ D*>(address), static_cast<uint64_t>(elements));
    }

    __aicore__ inline int64_t SelfElements() const { return tiling_.gradRows * tiling_.outChannels; }
    __aicore__ inline int64_t InputElements() const { return tiling_.inputRows * tiling_.inChannels; }
    __aicore__ inline int64_t WeightElements() const { return tiling_.taps * tiling_.inChannels * tiling_.outChannels; }

    /// Executes the steps of this core: those of the first product, then those of the second one. They are numbered
    /// from 0.
    __aicore__ inline void MultiplyShare()
    {
        AscendC::SetHF32Mode(tiling_.hf32 != 0);
        AscendC::SetHF32TransMode(false);
        firstShare_ = steps_.ShareOf(steps_.IsInputFirst(), AscendC::GetBlockIdx());
        secondShare_ = steps_.ShareOf(!steps_.IsInputFirst(), AscendC::GetBlockIdx());
        const int64_t first = kernel::Size(firstShare_);
        const int64_t all = first + kernel::Size(secondShare_);
        if (first == 0) {
            EndFirstProduct();
        }
        if (tiling_.hasSameSlots != 0) {
            Multiply({0, all});
        } else {
            Multiply({0, first});
            Multiply({first, all});
        }
        AscendC::SetHF32Mode(false);
    }

    /// The vector cores of this core may merge the partial sums of the first product after its stores.
    __aicore__ inline void EndFirstProduct() { AscendC::CrossCoreSetFlag<2, PIPE_FIX>(kFirstProduct); }

    /// Executes steps whose operands use the same slots in L1.
    __aicore__ inline void Multiply(const Span& numbers)
    {
        numbers_ = numbers;
        core_.Begin();
        Load(numbers.begin);
        for (int64_t number = numbers.begin; number < numbers.end; ++number) {
            // A step is loaded before the previous one is multiplied.
            Load(number + 1);
            if (IsUsed(number)) {
                BeginUse(kernel::Operand::kLeft, number);
                BeginUse(kernel::Operand::kRight, number);
            }
            const Step step = StepAt(number);
            if (step.isInput) {
                core_.SetCells(tiling_.inputSlotFloats, tiling_.inputCellRows * tiling_.inputColumns);
                MultiplyInput(step, WindowOf(number), PanelOf(number));
            } else {
                core_.SetCells(tiling_.weightSlotFloats, tiling_.weightCellRows * tiling_.weightCellColumns);
                MultiplyWeight(step, WindowOf(number), PanelOf(number));
            }
            if (IsUsed(number)) {
                EndUse(kernel::Operand::kLeft, number);
                EndUse(kernel::Operand::kRight, number);
            }
            if (number + 1 == kernel::Size(firstShare_)) {
                EndFirstProduct();
            }
        }
        core_.End();
    }

    __aicore__ inline bool IsFirst(int64_t number) const { return number < kernel::Size(firstShare_); }
    __aicore__ inline bool IsInput(int64_t number) const { return IsFirst(number) == steps_.IsInputFirst(); }
    __aicore__ inline Step StepAt(int64_t number) const
    {
        return IsFirst(number) ? steps_.At(firstShare_.begin + number, firstShare_)
                               : steps_.At(secondShare_.begin + number - kernel::Size(firstShare_), secondShare_);
    }

    /// Returns the slots of an operand in L1, and the slot of a step.
    __aicore__ inline int32_t SlotsOf(kernel::Operand operand, int64_t number) const
    {
        if (operand == kernel::Operand::kLeft) {
            return IsInput(number) ? tiling_.inputWindows : tiling_.weightWindows;
        }
        return IsInput(number) ? tiling_.inputPanels : tiling_.weightPanels;
    }
    __aicore__ inline int32_t SlotOf(kernel::Operand operand, int64_t number) const
    {
        return static_cast<int32_t>(number % SlotsOf(operand, number));
    }

    /// Returns whether a step multiplies its operands, and whether the previous step in the same slot loaded an
    /// operand.
    __aicore__ inline bool IsUsed(int64_t number) const
    {
        return numbers_.begin <= number && number < numbers_.end && !StepAt(number).isEmpty;
    }
    __aicore__ inline bool IsKept(kernel::Operand operand, int64_t number) const
    {
        const int64_t last = number - SlotsOf(operand, number);
        if (!IsUsed(number) || !IsUsed(last)) {
            return false;
        }
        const Step step = StepAt(number);
        const Step before = StepAt(last);
        return operand == kernel::Operand::kLeft ? HaveSameWindow(step, before) : HaveSamePanel(step, before);
    }

    __aicore__ inline void BeginUse(kernel::Operand operand, int64_t number)
    {
        if (!IsKept(operand, number)) {
            core_.BeginUse(operand, SlotOf(operand, number));
        }
    }
    __aicore__ inline void EndUse(kernel::Operand operand, int64_t number)
    {
        if (!IsKept(operand, number + SlotsOf(operand, number))) {
            core_.EndUse(operand, SlotOf(operand, number));
        }
    }

    __aicore__ inline void Load(int64_t number)
    {
        if (tiling_.isPacked != 0 && number == kernel::Size(firstShare_)) {
            AscendC::CrossCoreWaitFlag(kPacked);
        }
        if (!IsUsed(number)) {
            return;
        }
        const Step step = StepAt(number);
        for (const kernel::Operand operand : {kernel::Operand::kLeft, kernel::Operand::kRight}) {
            if (IsKept(operand, number)) {
                continue;
            }
            core_.BeginLoad(operand, SlotOf(operand, number));
            if (operand == kernel::Operand::kLeft) {
                LoadWindow(step, WindowOf(number));
            } else if (step.isInput) {
                LoadMatrices(step, PanelOf(number));
            } else {
                LoadGradRows(step, PanelOf(number));
            }
            core_.EndLoad(operand, SlotOf(operand, number));
        }
    }

    /// Returns the first elements of the operands of a step in L1: the windows of the steps are before the panels, or
    /// after them if grad_weight swaps the slots. Both operands then have the same number of slots: the last step that
    /// used a slot has used both slots with its index, and releases them together.
    __aicore__ inline int64_t WindowOf(int64_t number) const
    {
        const int64_t slot = SlotOf(kernel::Operand::kLeft, number);
        const int64_t before = tiling_.isSwapped != 0 ? tiling_.weightPanels * tiling_.weightPanel : 0;
        return IsInput(number) ? slot * tiling_.inputWindow : before + slot * tiling_.weightWindow;
    }
    __aicore__ inline int64_t PanelOf(int64_t number) const
    {
        const int64_t slot = SlotOf(kernel::Operand::kRight, number);
        const int64_t before = tiling_.isSwapped != 0 ? 0 : tiling_.weightWindows * tiling_.weightWindow;
        return IsInput(number) ? tiling_.inputWindows * tiling_.inputWindow + slot * tiling_.inputPanel
                               : before + slot * tiling_.weightPanel;
    }

    /// Loads the rows that the taps of a step need: rows of self with zeros as padding for grad_input; rows of input
    /// without padding for grad_weight.
    __aicore__ inline void LoadWindow(const Step& step, int64_t slot)
    {
        const Matrix window = core_.Matrix(slot, PitchOf(step.window));
        const int64_t above = step.rows.begin - step.window.begin;
        if (step.isInput) {
            const int64_t depth = kernel::Size(step.depth);
            core_.ZeroRows(window, above, depth);
            core_.LoadRows(window.From(above, 0), grads_[At(step.rows.begin, tiling_.outChannels, step.depth.begin)],
                           kernel::Size(step.rows), depth, tiling_.outChannels);
            core_.ZeroRows(window.From(step.rows.end - step.window.begin, 0), step.window.end - step.rows.end, depth);
        } else {
            const Span columns = WindowColumns(step.tile);
            const bool isPacked = tiling_.isPacked != 0;
            core_.LoadRows(window.From(above, 0),
                           rows_[isPacked ? PackedAt(step.rows.begin, columns)
                                          : At(step.rows.begin, tiling_.inChannels, columns.begin)],
                           kernel::Size(step.rows), kernel::Size(columns),
                           isPacked ? kernel::Size(columns) : tiling_.inChannels);
        }
    }

    /// Returns the element of the packed copy of input: all rows of the columns of a tile, then those of the next ones.
    __aicore__ inline uint64_t PackedAt(int64_t row, const Span& columns) const
    {
        return static_cast<uint64_t>(columns.begin * tiling_.inputRows + row * kernel::Size(columns));
    }

    __aicore__ inline int32_t PitchOf(const Span& rows) const
    {
        return static_cast<int32_t>(kernel::RoundUp(kernel::Size(rows), kFractal));
    }

    /// Returns the element of a matrix in GM.
    __aicore__ inline static uint64_t At(int64_t row, int64_t columns, int64_t column)
    {
        return static_cast<uint64_t>(row * columns + column);
    }

    // grad_input[r] = sum over taps of self[r - shift] x weight[tap] transposed.

    /// Returns the matrices of weight of a step, which are one operand: the taps continue its depth.
    __aicore__ inline Matrix MatricesIn(const Step& step, int64_t panel)
    {
        return core_.Matrix(panel, PitchOf(step.tile.columns));
    }
    /// Returns the depth of this operand before a tap.
    __aicore__ inline static int64_t DepthBefore(const Step& step, int64_t tap)
    {
        return (tap - step.taps.begin) * kernel::RoundUp(kernel::Size(step.depth), kFractal);
    }

    __aicore__ inline void LoadMatrices(const Step& step, int64_t panel)
    {
        const Span& columns = step.tile.columns;
        const int64_t depth = kernel::Size(step.depth);
        for (int64_t tap = step.taps.begin; tap < step.taps.end; ++tap) {
            const Matrix matrix = MatricesIn(step, panel).From(0, DepthBefore(step, tap));
            const int64_t row = tap * tiling_.inChannels + columns.begin;
            core_.LoadRows(matrix, matrices_[At(row, tiling_.outChannels, step.depth.begin)], kernel::Size(columns),
                           depth, tiling_.outChannels);
            core_.ZeroRows(matrix.From(kernel::Size(columns), 0), matrix.pitch - kernel::Size(columns), depth);
        }
    }

    __aicore__ inline void MultiplyInput(const Step& step, int64_t slot, int64_t panel)
    {
        if (step.isFirst) {
            core_.OpenCells(tiling_.inputCells);
        }
        const Span& rows = step.tile.rows;
        const Matrix window = core_.Matrix(slot, PitchOf(step.window));
        const int32_t n = PaddedColumns(step.tile);
        for (int32_t cell = 0; cell < tiling_.inputCells; ++cell) {
            const Span inCell = kernel::PieceOf(kernel::Size(rows), tiling_.inputCellRows, cell);
            if (kernel::Size(inCell) == 0) {
                break;
            }
            const int32_t m = PaddedRows(inCell);
            for (int64_t tap = step.taps.begin; tap < step.taps.end; ++tap) {
                if (steps_.HasProducts(rows, tap)) {
                    const int64_t row = rows.begin + inCell.begin - steps_.ShiftOf(tap) - step.window.begin;
                    core_.template Multiply<kernel::Operands::kDepthInside>(
                        cell, window.From(row, 0), MatricesIn(step, panel), m, n,
                        static_cast<int32_t>(kernel::Size(step.depth)), static_cast<int32_t>(DepthBefore(step, tap)),
                        static_cast<int32_t>(DepthBefore(step, step.taps.end)));
                }
            }
            if (step.isLast) {
                core_.FillUp(cell, m, n);
                StoreCell(step, cell, inCell, {0, kernel::Size(step.tile.columns)}, m,
                          gradInput_[At(rows.begin + inCell.begin, tiling_.inChannels, step.tile.columns.begin)],
                          inCell.begin, tiling_.inChannels);
            }
        }
    }

    // grad_weight[tap] = input[r + shift] transposed x self[r], summed over the rows r of self.

    /// Returns the columns of input and of self that a step loads: those of its tile, in whole granules.
    __aicore__ inline Span WindowColumns(const Tile& tile) const
    {
        return Granules(tile.rows, tiling_.weightWindowGranule, tiling_.inChannels);
    }
    __aicore__ inline Span PanelColumns(const Tile& tile) const
    {
        return Granules(tile.columns, tiling_.weightPanelGranule, tiling_.outChannels);
    }
    __aicore__ inline static Span Granules(const Span& columns, int64_t granule, int64_t width)
    {
        return {kernel::RoundDown(columns.begin, granule),
                kernel::Smaller(kernel::RoundUp(columns.end, granule), width)};
    }

    __aicore__ inline void LoadGradRows(const Step& step, int64_t panel)
    {
        const Span columns = PanelColumns(step.tile);
        core_.LoadRows(core_.Matrix(panel, PitchOf(step.depth)),
                       grads_[At(step.depth.begin, tiling_.outChannels, columns.begin)], kernel::Size(step.depth),
                       kernel::Size(columns), tiling_.outChannels);
    }

    __aicore__ inline void MultiplyWeight(const Step& step, int64_t slot, int64_t panel)
    {
        if (step.isFirst) {
            core_.OpenCells(tiling_.weightTaps * CellsPerTap());
        }
        const Matrix window = core_.Matrix(slot, PitchOf(step.window));
        const Matrix gradRows = core_.Matrix(panel, PitchOf(step.depth));
        const int64_t firstRow = step.tile.rows.begin - WindowColumns(step.tile).begin;
        const int64_t firstColumn = step.tile.columns.begin - PanelColumns(step.tile).begin;
        const int32_t across = CellsPerTap() / tiling_.weightCells;
        for (int64_t tap = step.taps.begin; tap < step.taps.end; ++tap) {
            const Span met = steps_.ProductRows(step, tap);
            for (int32_t block = 0; block < CellsPerTap(); ++block) {
                const int64_t rowBlock = block / across;
                const Span inCell = kernel::PieceOf(kernel::Size(step.tile.rows), tiling_.weightCellRows, rowBlock);
                const Span columns =
                    kernel::PieceOf(kernel::Size(step.tile.columns), tiling_.weightCellColumns, block % across);
                if (kernel::Size(inCell) == 0 || kernel::Size(columns) == 0) {
                    continue;
                }
                const int64_t index = tap - step.taps.begin;
                const int32_t cell = static_cast<int32_t>(index) * CellsPerTap() + block;
                const int32_t m = PaddedRows(inCell);
                const int32_t n = static_cast<int32_t>(kernel::RoundUp(kernel::Size(columns), Matrix::kUnit));
                if (kernel::Size(met) > 0) {
                    core_.template Multiply<kernel::Operands::kDepthOutside>(
                        cell, window.From(met.begin + steps_.ShiftOf(tap) - step.window.begin, firstRow + inCell.begin),
                        gradRows.From(0, firstColumn + columns.begin), m, n, static_cast<int32_t>(kernel::Size(met)),
                        static_cast<int32_t>(met.begin - step.depth.begin),
                        static_cast<int32_t>(kernel::Size(step.depth)));
                }
                if (step.isLast) {
                    core_.FillUp(cell, m, n);
                    const int64_t row = tap * tiling_.inChannels + step.tile.rows.begin + inCell.begin;
                    StoreCell(step, cell, inCell, columns, m,
                              gradWeight_[At(row, tiling_.outChannels, step.tile.columns.begin)],
                              (index * tiling_.weightCells + rowBlock) * tiling_.weightCellRows, tiling_.outChannels);
                }
            }
        }
    }

    /// Returns the cells of a tile of grad_weight for each of its taps: blocks of rows and of columns.
    __aicore__ inline int32_t CellsPerTap() const
    {
        return tiling_.weightCells *
               static_cast<int32_t>(kernel::CeilDiv(tiling_.weightColumns, tiling_.weightCellColumns));
    }

    // Results, and partial sums of tiles that are split over several cores.

    /// Returns the columns of a tile in products and partial sums: whole 32-byte blocks.
    __aicore__ inline int32_t PaddedColumns(const Tile& tile) const
    {
        return static_cast<int32_t>(kernel::RoundUp(kernel::Size(tile.columns), Matrix::kUnit));
    }

    /// Returns the rows of a cell in products. A single row would be a vector, which has another layout in L0A.
    __aicore__ inline static int32_t PaddedRows(const Span& rows)
    {
        return static_cast<int32_t>(kernel::Larger(kernel::Size(rows), 2));
    }

    /// Returns the index of a partial sum: first those of the first tile of each core, then those of the last tile.
    __aicore__ inline static int64_t HeadPart(int64_t block) { return block; }
    __aicore__ inline static int64_t TailPart(int64_t block) { return AscendC::GetBlockNum() + block; }

    /// Stores a cell with these rows and columns of the tile in the result, where the columns of the tile begin at
    /// `destination`, or in the partial sum of this core starting at `partRow`.
    __aicore__ inline void StoreCell(const Step& step, int32_t cell, const Span& rows, const Span& columns, int32_t m,
                                     const AscendC::GlobalTensor<T>& destination, int64_t partRow, int64_t stride)
    {
        const int64_t count = kernel::Size(rows);
        if (step.hasWholeTile) {
            core_.Store(cell, destination[static_cast<uint64_t>(columns.begin)], count, kernel::Size(columns), m,
                        stride);
            return;
        }
        const int64_t block = AscendC::GetBlockIdx();
        const int64_t part = step.isHead ? HeadPart(block) : TailPart(block);
        const int64_t pitch = PaddedColumns(step.tile);
        core_.Store(cell, parts_[static_cast<uint64_t>(part * tiling_.partFloats + partRow * pitch + columns.begin)],
                    count, kernel::RoundUp(kernel::Size(columns), Matrix::kUnit), m, pitch);
    }

    // Functions of the vector cores.

    __aicore__ inline int64_t VectorCores() const { return AscendC::GetBlockNum() * AscendC::GetSubBlockNum(); }

    __aicore__ inline void CopyAll()
    {
        if constexpr (Operand::kIsCopy) {
            Copy(grads_, self_, SelfElements());
            Copy(rows_, input_, InputElements());
            Copy(matrices_, weight_, WeightElements());
        }
    }

    /// Copies the elements of this core as float16.
    __aicore__ inline void Copy(const AscendC::GlobalTensor<C>& destination, const AscendC::GlobalTensor<T>& source,
                                int64_t elements)
    {
        const int64_t burst = tiling_.burstBytes / static_cast<int64_t>(sizeof(float));
        for (int64_t first = AscendC::GetBlockIdx() * burst; first < elements; first += VectorCores() * burst) {
            const int64_t count = kernel::Smaller(burst, elements - first);
            AscendC::LocalTensor<T> tile = copies_.AllocTensor<T>();
            AscendC::DataCopyExtParams load;
            load.blockLen = static_cast<uint32_t>(count * sizeof(T));
            AscendC::DataCopyPad(tile, source[static_cast<uint64_t>(first)], load, AscendC::DataCopyPadExtParams<T>());
            copies_.EnQue(tile);
            tile = copies_.DeQue<T>();
            AscendC::LocalTensor<C> narrow = stores_.AllocTensor<C>();
            if constexpr (sizeof(T) == sizeof(float)) {
                AscendC::Cast(narrow, tile, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(count));
            } else {
                const AscendC::LocalTensor<float> wide = workBuffer_.Get<float>();
                AscendC::Cast(wide, tile, AscendC::RoundMode::CAST_NONE, static_cast<uint32_t>(count));
                AscendC::PipeBarrier<PIPE_V>();
                AscendC::Cast(narrow, wide, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(count));
            }
            AscendC::PipeBarrier<PIPE_V>();
            copies_.FreeTensor(tile);
            stores_.EnQue(narrow);
            narrow = stores_.DeQue<C>();
            CopyOut(destination[static_cast<uint64_t>(first)], narrow, 1, count, count);
            stores_.FreeTensor(narrow);
        }
    }

    __aicore__ inline void FetchOperand(bool isWeight)
    {
        if (tiling_.isFetched != 0) {
            isWeight ? Fetch(weight_, WeightElements()) : Fetch(input_, InputElements());
        }
    }

    /// Reads a tensor, so that the cube cores find it in L2. All vector cores together read faster from global memory.
    __aicore__ inline void Fetch(const AscendC::GlobalTensor<T>& source, int64_t elements)
    {
        const int64_t burst = tiling_.burstBytes / static_cast<int64_t>(sizeof(T));
        for (int64_t first = AscendC::GetBlockIdx() * burst; first < elements; first += VectorCores() * burst) {
            AscendC::LocalTensor<T> tile = copies_.AllocTensor<T>();
            AscendC::DataCopyExtParams load;
            load.blockLen = static_cast<uint32_t>(kernel::Smaller(burst, elements - first) * sizeof(T));
            AscendC::DataCopyPad(tile, source[static_cast<uint64_t>(first)], load, AscendC::DataCopyPadExtParams<T>());
            copies_.EnQue(tile);
            tile = copies_.DeQue<T>();
            copies_.FreeTensor(tile);
        }
    }

    /// Packs input by the tiles of grad_weight, so that the cube cores load rows of a tile without gaps.
    __aicore__ inline void PackInput()
    {
        if constexpr (!Operand::kIsCopy) {
            const int64_t most = tiling_.burstBytes / static_cast<int64_t>(sizeof(T)) / steps_.WeightTileRows();
            const int64_t across = kernel::CeilDiv(tiling_.inChannels, steps_.WeightTileRows());
            const int64_t bursts = kernel::CeilDiv(tiling_.inputRows, most) * across;
            for (int64_t burst = AscendC::GetBlockIdx(); burst < bursts; burst += VectorCores()) {
                const Span rows = kernel::PieceOf(tiling_.inputRows, most, burst / across);
                const Span columns = steps_.Channels(false, burst % across);
                const int64_t width = kernel::Size(columns);
                const int64_t pitch = kernel::RoundUp(width, kernel::kUbBlockBytes / static_cast<int64_t>(sizeof(T)));
                AscendC::LocalTensor<T> tile = copies_.AllocTensor<T>();
                AscendC::DataCopyExtParams load;
                load.blockCount = static_cast<uint16_t>(kernel::Size(rows));
                load.blockLen = static_cast<uint32_t>(width * sizeof(T));
                load.srcStride = static_cast<uint32_t>((tiling_.inChannels - width) * sizeof(T));
                AscendC::DataCopyPadExtParams<T> padding;
                padding.isPad = pitch > width;
                padding.rightPadding = static_cast<uint8_t>(pitch - width);
                AscendC::DataCopyPad(tile, input_[At(rows.begin, tiling_.inChannels, columns.begin)], load, padding);
                copies_.EnQue(tile);
                tile = copies_.DeQue<T>();
                AscendC::LocalTensor<T> packed = stores_.AllocTensor<T>();
                AscendC::DataCopy(packed, tile, static_cast<uint32_t>(kernel::Size(rows) * pitch));
                AscendC::PipeBarrier<PIPE_V>();
                copies_.FreeTensor(tile);
                stores_.EnQue(packed);
                packed = stores_.DeQue<T>();
                CopyOut(rows_[PackedAt(rows.begin, columns)], packed, kernel::Size(rows), width, width, pitch);
                stores_.FreeTensor(packed);
            }
            AscendC::SyncAll<true>();
            AscendC::CrossCoreSetFlag<2, PIPE_MTE3>(kPacked);
        }
    }

    /// Sums the rows and columns of self of this core and stores the partial sum.
    __aicore__ inline void SumColumns()
    {
        const int64_t rowBlock = AscendC::GetBlockIdx() / tiling_.biasColumnSlices;
        if (rowBlock >= tiling_.biasRowBlocks) {
            return;
        }
        const Span rows = kernel::PartOf(tiling_.gradRows, tiling_.biasRowBlocks, rowBlock);
        const Span columns = kernel::PieceOf(tiling_.outChannels, tiling_.biasSliceWidth,
                                             AscendC::GetBlockIdx() % tiling_.biasColumnSlices);
        for (int64_t column = columns.begin; column < columns.end; column += tiling_.biasTileWidth) {
            const int64_t width = kernel::Smaller(tiling_.biasTileWidth, columns.end - column);
            sum_.Start<T>(width, tiling_.biasPackedRows);
            sum_.Add(self_[static_cast<uint64_t>(rows.begin * tiling_.outChannels + column)], kernel::Size(rows),
                     tiling_.outChannels);
            StoreSum(sums_[static_cast<uint64_t>(rowBlock * tiling_.biasPitch + column)], 1, width, width, width);
        }
    }

    /// Adds the partial sums of the columns of this core.
    __aicore__ inline void MergeSums()
    {
        const int64_t piece = kernel::RoundUp(kernel::CeilDiv(tiling_.outChannels, VectorCores()), kMergeColumns);
        const Span columns = kernel::PieceOf(tiling_.outChannels, piece, AscendC::GetBlockIdx());
        for (int64_t column = columns.begin; column < columns.end; column += tiling_.biasTileWidth) {
            const int64_t width = kernel::Smaller(tiling_.biasTileWidth, columns.end - column);
            sum_.Start<float>(width, 0);
            sum_.Add(sums_[static_cast<uint64_t>(column)], tiling_.biasRowBlocks, tiling_.biasPitch);
            StoreSum(gradBias_[static_cast<uint64_t>(column)], 1, width, width, width);
        }
    }

    /// Merges the rows of this core in all tiles with partial sums.
    __aicore__ inline void MergeParts()
    {
        const int64_t rows = MergeSplitTiles({0, 0});
        MergeSplitTiles(kernel::PartOf(rows, VectorCores(), AscendC::GetBlockIdx()));
    }

    /// Iterates over the tiles of the first product with partial sums and merges the rows in `wanted`, where the rows
    /// of all these tiles are numbered consecutively. Returns the number of rows.
    __aicore__ inline int64_t MergeSplitTiles(const Span& wanted)
    {
        const bool isInput = steps_.IsInputFirst();
        int64_t rows = 0;
        int64_t merged = -1;
        for (int64_t block = 1; block < AscendC::GetBlockNum(); ++block) {
            const int64_t step = steps_.ShareOf(isInput, block).begin;
            if (step == steps_.StepsOf(isInput).end) {
                break;
            }
            const Span all = steps_.StepsOfTile(step);
            if (step == all.begin || all.begin == merged) {
                continue;
            }
            merged = all.begin;
            const Tile tile = steps_.TileOf(step);
            for (int64_t tap = tile.taps.begin; tap < tile.taps.end; ++tap) {
                const Span mine = kernel::Overlap(wanted, {rows, rows + kernel::Size(tile.rows)});
                if (kernel::Size(mine) > 0) {
                    MergeRows(tile, tap, {mine.begin - rows, mine.end - rows}, block, all.end);
                }
                rows += kernel::Size(tile.rows);
            }
        }
        return rows;
    }

    /// Merges rows of a tile, or of one of its taps. `block` is the first core that begins inside the tile, `end` the
    /// first step after the tile.
    __aicore__ inline void MergeRows(const Tile& tile, int64_t tap, const Span& rows, int64_t block, int64_t end)
    {
        const bool isInput = steps_.IsInputFirst();
        const int64_t columns = PaddedColumns(tile);
        const int64_t partRow = (tap - tile.taps.begin) * steps_.WeightTileRows();
        const int64_t longest = tiling_.burstBytes / static_cast<int64_t>(sizeof(float)) / columns;
        for (int64_t row = rows.begin; row < rows.end; row += longest) {
            const int64_t count = kernel::Smaller(longest, rows.end - row);
            const int64_t offset = (partRow + row) * columns;
            sum_.Start<float>(count * columns, 0);
            sum_.Add(PartAt(TailPart(block - 1), offset), 1, 0);
            for (int64_t next = block; next < AscendC::GetBlockNum() && steps_.ShareOf(isInput, next).begin < end;) {
                const int64_t parts = PartsFrom(next, end);
                sum_.Add(PartAt(HeadPart(next), offset), parts, tiling_.partFloats);
                next += kernel::Larger(parts, 1);
            }
            const int64_t stride = isInput ? tiling_.inChannels : tiling_.outChannels;
            const int64_t resultRow =
                isInput ? tile.rows.begin + row : tap * tiling_.inChannels + tile.rows.begin + row;
            const AscendC::GlobalTensor<T>& result = isInput ? gradInput_ : gradWeight_;
            StoreSum(result[static_cast<uint64_t>(resultRow * stride + tile.columns.begin)], count,
                     kernel::Size(tile.columns), columns, stride);
        }
    }

    /// Returns the number of consecutive cores, starting at `block`, with steps before `end`.
    __aicore__ inline int64_t PartsFrom(int64_t block, int64_t end) const
    {
        const bool isInput = steps_.IsInputFirst();
        int64_t next = block;
        while (next < AscendC::GetBlockNum() && kernel::Size(steps_.ShareOf(isInput, next)) > 0 &&
               steps_.ShareOf(isInput, next).begin < end) {
            ++next;
        }
        return next - block;
    }

    __aicore__ inline AscendC::GlobalTensor<float> PartAt(int64_t part, int64_t offset) const
    {
        return parts_[static_cast<uint64_t>(part * tiling_.partFloats + offset)];
    }

    /// Stores `rows` rows of `width` elements of the sum. Their distance is `pitch` in UB and `stride` in GM.
    template <typename D>
    __aicore__ inline void StoreSum(const AscendC::GlobalTensor<D>& destination, int64_t rows, int64_t width,
                                    int64_t pitch, int64_t stride)
    {
        const AscendC::LocalTensor<float> sum = sum_.Finish();
        AscendC::LocalTensor<D> result = stores_.AllocTensor<D>();
        if constexpr (sizeof(D) == sizeof(float)) {
            AscendC::DataCopy(result, sum, static_cast<uint32_t>(kernel::RoundUp(rows * pitch, kFloatsPerBlock)));
        } else {
            AscendC::Cast(result, sum, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(rows * pitch));
        }
        AscendC::PipeBarrier<PIPE_V>();
        stores_.EnQue(result);
        result = stores_.DeQue<D>();
        CopyOut(destination, result, rows, width, stride, pitch);
        stores_.FreeTensor(result);
    }

    /// The distance of rows is `stride` elements in GM and `pitch` in UB. A single row may have any length in UB.
    template <typename D>
    __aicore__ inline void CopyOut(const AscendC::GlobalTensor<D>& destination, const AscendC::LocalTensor<D>& source,
                                   int64_t rows, int64_t width, int64_t stride, int64_t pitch = 0)
    {
        constexpr int64_t perBlock = kernel::kUbBlockBytes / static_cast<int64_t>(sizeof(D));
        AscendC::DataCopyExtParams store;
        store.blockCount = static_cast<uint16_t>(rows);
        store.blockLen = static_cast<uint32_t>(width * sizeof(D));
        if (rows > 1) {
            store.srcStride = static_cast<uint32_t>(pitch / perBlock - kernel::CeilDiv(width, perBlock));
            store.dstStride = static_cast<uint32_t>((stride - width) * sizeof(D));
        }
        AscendC::DataCopyPad(destination, source, store);
    }

    static constexpr uint16_t kFirstProduct = 0;  // flag of a cube core for its vector cores
    static constexpr uint16_t kPacked = 1;        // flag of the vector cores for their cube core
    static constexpr int64_t kFractal = kernel::TbcSteps::kFractal;
    static constexpr int64_t kFloatsPerBlock = 8;
    static constexpr int64_t kMergeColumns = 64;

    ConvTbcBackwardTilingData tiling_;
    AscendC::GlobalTensor<T> self_;
    AscendC::GlobalTensor<T> input_;
    AscendC::GlobalTensor<T> weight_;
    AscendC::GlobalTensor<T> gradInput_;
    AscendC::GlobalTensor<T> gradWeight_;
    AscendC::GlobalTensor<T> gradBias_;
    AscendC::GlobalTensor<C> grads_;  // self, input and weight, or their float16 copies
    AscendC::GlobalTensor<C> rows_;
    AscendC::GlobalTensor<C> matrices_;
    AscendC::GlobalTensor<float> parts_;
    AscendC::GlobalTensor<float> sums_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuffer_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> copies_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> stores_;
    kernel::RowSum sum_;
    kernel::TbcSteps steps_;
    Span firstShare_;  // the steps of this core in both products
    Span secondShare_;
    Span numbers_;  // those that are executed now
    kernel::CubeCore<C> core_;
};

}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_CONV_TBC_BACKWARD_BY_UNITS_H
