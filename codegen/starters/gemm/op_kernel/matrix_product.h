// MatrixProduct: a core computes tiles of y one after the other. While one step, a slice of the depth, is multiplied,
// the next one is loaded into the other slots of L1. While one tile is stored, the next one accumulates in another cell
// of L0C.
#ifndef OP_KERNEL_MATRIX_PRODUCT_H
#define OP_KERNEL_MATRIX_PRODUCT_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/cube/cube_core.h"
#include "matrix_product_tiling_data.h"

namespace opforge {

/// T: dtype of x, weight and y.
template <typename T>
class MatrixProduct {
    using Span = kernel::Span;
    using Matrix = kernel::L1Matrix<T>;

public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR weight, GM_ADDR y, GM_ADDR /*userWorkspace*/,
                                const MatrixProductTilingData& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        x_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), static_cast<uint64_t>(tiling.rows * tiling.depth));
        weight_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weight),
                                static_cast<uint64_t>(tiling.columns * tiling.depth));
        y_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), static_cast<uint64_t>(tiling.rows * tiling.columns));
        core_.Init(pipe, {tiling.l1Bytes, tiling.l0Half, tiling.l0cBytes});
        tilesAcross_ = kernel::CeilDiv(tiling.columns, tiling.tileColumns);
        stepsOfTile_ = kernel::Larger(kernel::CeilDiv(tiling.depth, tiling.stepDepth), 1);
    }

    __aicore__ inline void Process()
    {
        const int64_t tiles = kernel::CeilDiv(tiling_.rows, tiling_.tileRows) * tilesAcross_;
        const Span own = kernel::PartOf(tiles, AscendC::GetBlockNum(), AscendC::GetBlockIdx());
        const Span steps{own.begin * stepsOfTile_, own.end * stepsOfTile_};
        if (kernel::Size(steps) == 0) {
            return;
        }
        core_.Begin();
        const int32_t floats = tiling_.tileRows * tiling_.tileColumns;
        core_.SetCells(floats, floats);
        Load(steps.begin);
        for (int64_t step = steps.begin; step < steps.end; ++step) {
            if (step + 1 < steps.end) {
                Load(step + 1);
            }
            Multiply(step);
        }
        core_.End();
    }

private:
    __aicore__ inline Span RowsOf(int64_t step) const
    {
        return kernel::PieceOf(tiling_.rows, tiling_.tileRows, step / stepsOfTile_ / tilesAcross_);
    }
    __aicore__ inline Span ColumnsOf(int64_t step) const
    {
        return kernel::PieceOf(tiling_.columns, tiling_.tileColumns, step / stepsOfTile_ % tilesAcross_);
    }
    __aicore__ inline Span DepthOf(int64_t step) const
    {
        return kernel::PieceOf(tiling_.depth, tiling_.stepDepth, step % stepsOfTile_);
    }
    __aicore__ inline static int32_t SlotOf(int64_t step) { return static_cast<int32_t>(step % 2); }

    /// Returns the operand of a step in L1, which has `rows` rows. The operands of x are before those of weight.
    __aicore__ inline Matrix InL1(kernel::Operand operand, int64_t step, const Span& rows)
    {
        const bool isLeft = operand == kernel::Operand::kLeft;
        const int64_t first = isLeft ? 0 : 2 * tiling_.tileRows;
        const int64_t slot = SlotOf(step) * (isLeft ? tiling_.tileRows : tiling_.tileColumns);
        return core_.Matrix((first + slot) * tiling_.stepDepth,
                            static_cast<int32_t>(kernel::RoundUp(kernel::Size(rows), kernel::CubeCore<T>::kFractal)));
    }

    __aicore__ inline void Load(int64_t step)
    {
        Load(kernel::Operand::kLeft, step, x_, RowsOf(step));
        Load(kernel::Operand::kRight, step, weight_, ColumnsOf(step));
    }

    __aicore__ inline void Load(kernel::Operand operand, int64_t step, const AscendC::GlobalTensor<T>& source,
                                const Span& rows)
    {
        const Span depth = DepthOf(step);
        core_.BeginLoad(operand, SlotOf(step));
        if (kernel::Size(depth) > 0) {
            core_.LoadRows(InL1(operand, step, rows),
                           source[static_cast<uint64_t>(rows.begin * tiling_.depth + depth.begin)], kernel::Size(rows),
                           kernel::Size(depth), tiling_.depth);
        }
        core_.EndLoad(operand, SlotOf(step));
    }

    __aicore__ inline void Multiply(int64_t step)
    {
        if (step % stepsOfTile_ == 0) {
            core_.OpenCells(1);
        }
        const Span rows = RowsOf(step);
        const Span columns = ColumnsOf(step);
        const int32_t n = static_cast<int32_t>(kernel::Size(columns));
        // A single row would be a vector, which has another layout in L0A.
        const int32_t m = static_cast<int32_t>(kernel::Larger(kernel::Size(rows), 2));
        core_.BeginUse(kernel::Operand::kLeft, SlotOf(step));
        core_.BeginUse(kernel::Operand::kRight, SlotOf(step));
        const int32_t depth = static_cast<int32_t>(kernel::Size(DepthOf(step)));
        core_.template Multiply<kernel::Operands::kDepthInside>(0, InL1(kernel::Operand::kLeft, step, rows),
                                                                InL1(kernel::Operand::kRight, step, columns), m, n,
                                                                depth, 0, depth);
        core_.EndUse(kernel::Operand::kLeft, SlotOf(step));
        core_.EndUse(kernel::Operand::kRight, SlotOf(step));
        if ((step + 1) % stepsOfTile_ == 0) {
            core_.FillUp(0, m, n);
            core_.Store(0, y_[static_cast<uint64_t>(rows.begin * tiling_.columns + columns.begin)], kernel::Size(rows),
                        n, m, tiling_.columns);
        }
    }

    MatrixProductTilingData tiling_;
    AscendC::GlobalTensor<T> x_;
    AscendC::GlobalTensor<T> weight_;
    AscendC::GlobalTensor<T> y_;
    kernel::CubeCore<T> core_;
    int64_t tilesAcross_ = 0;
    int64_t stepsOfTile_ = 0;
};

}  // namespace opforge

#endif  // OP_KERNEL_MATRIX_PRODUCT_H
