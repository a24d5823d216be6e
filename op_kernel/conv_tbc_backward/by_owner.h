// ConvTbcBackward for cores with a cube and a vector unit. Each block of a gradient is the work of one core, with all
// its products. No core waits for another one. The bits do not depend on the number of cores.
#ifndef OPFORGE_OP_KERNEL_CONV_TBC_BACKWARD_BY_OWNER_H
#define OPFORGE_OP_KERNEL_CONV_TBC_BACKWARD_BY_OWNER_H

#include "kernel_operator.h"
#include "common/arch/arch.h"
#include "common/arch/row_panel.h"
#include "common/arch/rows.h"
#include "common/arithmetic.h"
#include "common/cube/coupled_cube.h"
#include "conv_tbc_backward_tiling_data.h"

namespace opforge {

/// T: dtype of all tensors. Rows of input and self are (time, batch) pairs, so a tap is a shift by whole rows.
template <typename T>
class ConvTbcByOwner {
    using Cube = kernel::CoupledCube<T>;
    using Matrix = kernel::L1Matrix<half>;
    using Span = kernel::Span;

public:
    __aicore__ inline void Init(GM_ADDR self, GM_ADDR input, GM_ADDR weight, GM_ADDR /*bias*/, GM_ADDR gradInput,
                                GM_ADDR gradWeight, GM_ADDR gradBias, GM_ADDR, const ConvTbcBackwardTilingData& tiling,
                                AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        const int64_t weights = tiling.taps * tiling.inChannels * tiling.outChannels;
        SetBuffer(self_, self, tiling.gradRows * tiling.outChannels);
        SetBuffer(input_, input, tiling.inputRows * tiling.inChannels);
        SetBuffer(weight_, weight, weights);
        SetBuffer(gradInput_, gradInput, tiling.inputRows * tiling.inChannels);
        SetBuffer(gradWeight_, gradWeight, weights);
        SetBuffer(gradBias_, gradBias, tiling.outChannels);
        cube_.Init(pipe, {tiling.burstBytes, tiling.inputWindow, tiling.l1Bytes, tiling.l0Half, tiling.l0cBytes});
        panel_.Init(pipe, kernel::Smaller(tiling.inChannels, tiling.outChannels), tiling.biasMaskBytes);
        pipe->InitBuffer(workBuffer_, static_cast<uint32_t>(tiling.workBytes));
        pipe->InitBuffer(sumBuffer_, static_cast<uint32_t>(Cube::kMaxSide * sizeof(float)));
    }

    __aicore__ inline void Process()
    {
        cube_.Begin();
        const int64_t products = tiling_.inputSteps + tiling_.weightSteps;
        for (int64_t block = AscendC::GetBlockIdx(); block < products + tiling_.biasColumnSlices;
             block += AscendC::GetBlockNum()) {
            if (block < tiling_.inputSteps) {
                ComputeInput(block);
            } else if (block < products) {
                ComputeWeight(block - tiling_.inputSteps);
            } else {
                ComputeBias(block - products);
            }
        }
        cube_.End();
    }

private:
    __aicore__ inline void SetBuffer(AscendC::GlobalTensor<T>& tensor, GM_ADDR address, int64_t elements)
    {
        tensor.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(address), static_cast<uint64_t>(elements));
    }

    /// A tap multiplies row r of input and row r - ShiftOf(tap) of self.
    __aicore__ inline int64_t ShiftOf(int64_t tap) const { return (tap - tiling_.pad) * tiling_.batch; }

    __aicore__ inline static Span Moved(const Span& rows, int64_t first, int64_t last)
    {
        return {rows.begin + first, rows.end + last};
    }

    /// Returns the columns of a block in whole blocks of 32 bytes.
    __aicore__ inline static int64_t Padded(const Span& columns)
    {
        return kernel::RoundUp(kernel::Size(columns), kernel::kBlockElements<T>);
    }

    /// Returns the number of rows or groups of `width` elements that fill 32 bytes.
    __aicore__ inline static int64_t LeastOf(int64_t width) { return kernel::CeilDiv(kernel::kLeastRun<T>, width); }

    /// Returns the taps whose rows fit into one slot, for `rows` rows.
    __aicore__ inline int64_t TapsOf(int64_t rows) const
    {
        return 1 + kernel::Larger(0, tiling_.inputWindow / Cube::kMaxSide - Cube::kFractal - rows) / tiling_.batch;
    }

    // grad_input[r] = sum over taps of self[r - shift] x weight[tap] transposed.

    __aicore__ inline void ComputeInput(int64_t block)
    {
        const int64_t down = kernel::CeilDiv(tiling_.inputRows, tiling_.inputCellRows);
        const Span rows =
            kernel::ShareOf(tiling_.inputRows, tiling_.inputCellRows, block % down, LeastOf(tiling_.inChannels));
        const Span columns =
            kernel::ShareOf(tiling_.inChannels, tiling_.inputColumns, block / down, kernel::kLeastRun<T>);
        if (kernel::Size(rows) <= 0 || kernel::Size(columns) <= 0) {
            return;
        }
        const Span padded = {rows.begin, rows.begin + kernel::Larger(kernel::Size(rows), 2)};
        cube_.OpenCells(kernel::Size(padded), Padded(columns));
        const int64_t group = TapsOf(kernel::Size(padded));
        for (int64_t column = 0; column < tiling_.outChannels; column += Cube::kMaxSide) {
            const Span depth = {column, kernel::Smaller(column + Cube::kMaxSide, tiling_.outChannels)};
            for (int64_t tap = 0; tap < tiling_.taps; tap += group) {
                AddTaps({tap, kernel::Smaller(tap + group, tiling_.taps)}, padded, columns, depth);
            }
        }
        panel_.Use(gradInput_, tiling_.inChannels);
        panel_.Begin(rows, columns.begin, kernel::Size(columns));
        cube_.FinishCells();
        Write(0, rows, kernel::Size(columns));
        cube_.CloseCells();
        panel_.End();
    }

    /// Adds the products of neighboring taps, whose rows of self are one window with zeros as padding.
    __aicore__ inline void AddTaps(const Span& taps, const Span& rows, const Span& columns, const Span& depth)
    {
        const Span window = Moved(rows, -ShiftOf(taps.end - 1), -ShiftOf(taps.begin));
        const Span found = kernel::Overlap(window, {0, tiling_.gradRows});
        if (kernel::Size(found) == 0) {
            return;
        }
        const int64_t width = kernel::Size(depth);
        const Matrix left = cube_.BeginLoad(kernel::Operand::kLeft, kernel::Size(window));
        cube_.Zero(left, found.begin - window.begin, width);
        cube_.Load(left.From(found.begin - window.begin, 0), self_, found.begin * tiling_.outChannels + depth.begin,
                   kernel::Size(found), width, tiling_.outChannels);
        cube_.Zero(left.From(found.end - window.begin, 0), window.end - found.end, width);
        cube_.EndLoad(kernel::Operand::kLeft);
        for (int64_t tap = taps.begin; tap < taps.end; ++tap) {
            const Span used = Moved(rows, -ShiftOf(tap), -ShiftOf(tap));
            if (kernel::Size(kernel::Overlap(used, {0, tiling_.gradRows})) == 0) {
                continue;
            }
            const Matrix right = cube_.BeginLoad(kernel::Operand::kRight, kernel::Size(columns));
            const int64_t row = tap * tiling_.inChannels + columns.begin;
            cube_.Load(right, weight_, row * tiling_.outChannels + depth.begin, kernel::Size(columns), width,
                       tiling_.outChannels);
            cube_.Zero(right.From(kernel::Size(columns), 0), Padded(columns) - kernel::Size(columns), width);
            cube_.EndLoad(kernel::Operand::kRight);
            cube_.template Multiply<kernel::Operands::kDepthInside>(0, left.From(used.begin - window.begin, 0), right,
                                                                    width);
            cube_.EndUse(kernel::Operand::kRight);
        }
        cube_.EndUse(kernel::Operand::kLeft);
    }

    // grad_weight[tap] = input[r + shift] transposed x self[r], summed over the rows r of self.

    __aicore__ inline void ComputeWeight(int64_t block)
    {
        const int64_t across = kernel::CeilDiv(tiling_.outChannels, tiling_.weightColumns);
        const int64_t down = kernel::CeilDiv(tiling_.inChannels, tiling_.weightCellRows);
        const Span columns =
            kernel::ShareOf(tiling_.outChannels, tiling_.weightColumns, block % across, kernel::kLeastRun<T>);
        const Span rows = kernel::ShareOf(tiling_.inChannels, tiling_.weightCellRows, block / across % down,
                                          LeastOf(tiling_.outChannels));
        const Span taps = kernel::ShareOf(tiling_.taps, tiling_.weightTaps, block / across / down,
                                          LeastOf(tiling_.inChannels * tiling_.outChannels));
        if (kernel::Size(columns) <= 0 || kernel::Size(rows) <= 0 || kernel::Size(taps) <= 0) {
            return;
        }
        cube_.OpenCells(kernel::Larger(kernel::Size(rows), 2), Padded(columns));
        for (int64_t row = 0; row < tiling_.gradRows; row += tiling_.weightDepth) {
            const Span depth = {row, kernel::Smaller(row + tiling_.weightDepth, tiling_.gradRows)};
            const Span used =
                kernel::Overlap(Moved(depth, ShiftOf(taps.begin), ShiftOf(taps.end - 1)), {0, tiling_.inputRows});
            if (kernel::Size(used) > 0) {
                AddRows(depth, rows, columns, taps);
            }
        }
        panel_.Use(gradWeight_, tiling_.outChannels);
        panel_.Begin({taps.begin * tiling_.inChannels + rows.begin, (taps.end - 1) * tiling_.inChannels + rows.end},
                     columns.begin, kernel::Size(columns));
        cube_.FinishCells();
        for (int64_t tap = taps.begin; tap < taps.end; ++tap) {
            const int64_t first = tap * tiling_.inChannels;
            Write(tap - taps.begin, Moved(rows, first, first), kernel::Size(columns));
        }
        cube_.CloseCells();
        panel_.End();
    }

    /// Adds the products of rows of self for each tap. Neighboring taps use one window of rows of input.
    __aicore__ inline void AddRows(const Span& depth, const Span& rows, const Span& columns, const Span& taps)
    {
        const Matrix right = cube_.BeginLoad(kernel::Operand::kRight, kernel::Size(depth));
        cube_.Load(right, self_, depth.begin * tiling_.outChannels + columns.begin, kernel::Size(depth),
                   kernel::Size(columns), tiling_.outChannels);
        cube_.EndLoad(kernel::Operand::kRight);
        const int64_t group = TapsOf(kernel::Size(depth));
        for (int64_t first = taps.begin; first < taps.end; first += group) {
            const int64_t last = kernel::Smaller(first + group, taps.end);
            const Span window =
                kernel::Overlap(Moved(depth, ShiftOf(first), ShiftOf(last - 1)), {0, tiling_.inputRows});
            if (kernel::Size(window) == 0) {
                continue;
            }
            const Matrix left = cube_.BeginLoad(kernel::Operand::kLeft, kernel::Size(window));
            cube_.Load(left, input_, window.begin * tiling_.inChannels + rows.begin, kernel::Size(window),
                       kernel::Size(rows), tiling_.inChannels);
            cube_.EndLoad(kernel::Operand::kLeft);
            for (int64_t tap = first; tap < last; ++tap) {
                const int64_t shift = ShiftOf(tap);
                const Span used = kernel::Overlap(depth, {-shift, tiling_.inputRows - shift});
                if (kernel::Size(used) > 0) {
                    cube_.template Multiply<kernel::Operands::kDepthOutside>(
                        tap - taps.begin, left.From(used.begin + shift - window.begin, 0),
                        right.From(used.begin - depth.begin, 0), kernel::Size(used));
                }
            }
            cube_.EndUse(kernel::Operand::kLeft);
        }
        cube_.EndUse(kernel::Operand::kRight);
    }

    /// Writes a cell as rows of a gradient. Rows without products stay zeros.
    __aicore__ inline void Write(int64_t cell, const Span& rows, int64_t width)
    {
        if (!cube_.IsFilled(cell)) {
            return;
        }
        const int64_t pitch = kernel::RoundUp(width, kernel::kBlockElements<T>);
        for (int64_t row = 0; row < kernel::Size(rows); row += Cube::kReadRows) {
            const int64_t count = kernel::Smaller(Cube::kReadRows, kernel::Size(rows) - row);
            panel_.Write(rows.begin + row, cube_.Read(cell, row, count, pitch), count);
        }
    }

    /// Sums columns of self: the rows of a tile by halves, then tile after tile.
    __aicore__ inline void ComputeBias(int64_t block)
    {
        const Span columns = kernel::ShareOf(tiling_.outChannels, tiling_.biasSliceWidth, block, kernel::kLeastRun<T>);
        const int64_t width = kernel::Size(columns);
        if (width <= 0) {
            return;
        }
        const int32_t pitch = static_cast<int32_t>(kernel::RoundUp(width, kernel::kBlockElements<T>));
        const AscendC::LocalTensor<float> sum = sumBuffer_.Get<float>();
        const AscendC::LocalTensor<float> work = workBuffer_.Get<float>();
        const int64_t most = kernel::Smaller(cube_.StageElements() / pitch, kMaxRows);
        AscendC::Duplicate<float>(sum, 0.0f, pitch);
        AscendC::PipeBarrier<PIPE_V>();
        for (int64_t row = 0; row < tiling_.gradRows; row += most) {
            int64_t count = kernel::Smaller(most, tiling_.gradRows - row);
            const uint32_t elements = static_cast<uint32_t>(count * pitch);
            AscendC::LocalTensor<T> tile = cube_.Stage(self_, row * tiling_.outChannels + columns.begin,
                                                       {count, width, tiling_.outChannels - width});
            if constexpr (sizeof(T) == sizeof(float)) {
                AscendC::DataCopy(work, tile, elements);
            } else {
                AscendC::Cast(work, tile, AscendC::RoundMode::CAST_NONE, elements);
            }
            cube_.FreeStage(tile);
            while (count > 1) {
                const int64_t half = count / 2;
                AscendC::Add(work, work, work[static_cast<uint32_t>((count - half) * pitch)],
                             static_cast<int32_t>(half * pitch));
                AscendC::PipeBarrier<PIPE_V>();
                count -= half;
            }
            AscendC::Add(sum, sum, work, pitch);
            AscendC::PipeBarrier<PIPE_V>();
        }
        panel_.Use(gradBias_, tiling_.outChannels);
        panel_.Begin({0, 1}, columns.begin, width);
        panel_.Write(0, sum);
        panel_.End();
    }

    static constexpr int64_t kMaxRows = 4095;  // of one DMA

    ConvTbcBackwardTilingData tiling_;
    AscendC::GlobalTensor<T> self_;
    AscendC::GlobalTensor<T> input_;
    AscendC::GlobalTensor<T> weight_;
    AscendC::GlobalTensor<T> gradInput_;
    AscendC::GlobalTensor<T> gradWeight_;
    AscendC::GlobalTensor<T> gradBias_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sumBuffer_;
    Cube cube_;
    kernel::RowPanel<T> panel_;
};

}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_CONV_TBC_BACKWARD_BY_OWNER_H
