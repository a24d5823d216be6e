// ScatterSum: all cores fill y with zeros. After a barrier, they add their rows of x in the atomic mode of the DMA.
#ifndef OP_KERNEL_SCATTER_SUM_H
#define OP_KERNEL_SCATTER_SUM_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "scatter_sum_tiling_data.h"

namespace opforge {

/// T: dtype of x. I: dtype of indices.
template <typename T, typename I>
class ScatterSum {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR indices, GM_ADDR y, GM_ADDR /*userWorkspace*/,
                                const ScatterSumTilingData& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        x_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), static_cast<uint64_t>(tiling.rows * tiling.columns));
        indices_.SetGlobalBuffer(reinterpret_cast<__gm__ I*>(indices), static_cast<uint64_t>(tiling.rows));
        y_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), static_cast<uint64_t>(tiling.count * tiling.columns));
        const uint32_t tileBytes = static_cast<uint32_t>(tiling.tile) * static_cast<uint32_t>(sizeof(T));
        pipe->InitBuffer(rows_, 2, tileBytes);
        pipe->InitBuffer(zeros_, 1, tileBytes);
    }

    __aicore__ inline void Process()
    {
        WriteZeros();
        AscendC::SyncAll();
        AscendC::SetAtomicAdd<T>();
        const kernel::Span own = kernel::PartOf(tiling_.rows, AscendC::GetBlockNum(), AscendC::GetBlockIdx());
        for (int64_t row = own.begin; row < own.end; ++row) {
            const int64_t target = indices_.GetValue(static_cast<uint64_t>(row));
            if (target >= 0 && target < tiling_.count) {
                AddRow(row, target);
            }
        }
        AscendC::SetAtomicNone();
    }

private:
    __aicore__ inline void WriteZeros()
    {
        AscendC::LocalTensor<T> zeros = zeros_.template AllocTensor<T>();
        AscendC::Duplicate<T>(zeros, 0, tiling_.tile);
        zeros_.EnQue(zeros);
        zeros = zeros_.template DeQue<T>();
        const kernel::Span own =
            kernel::PartOf(tiling_.count * tiling_.columns, AscendC::GetBlockNum(), AscendC::GetBlockIdx());
        for (int64_t first = own.begin; first < own.end; first += tiling_.tile) {
            AscendC::DataCopyPad(y_[static_cast<uint64_t>(first)], zeros,
                                 Burst(kernel::Smaller(tiling_.tile, own.end - first)));
        }
        zeros_.FreeTensor(zeros);
    }

    __aicore__ inline void AddRow(int64_t row, int64_t target)
    {
        for (int64_t column = 0; column < tiling_.columns; column += tiling_.tile) {
            const AscendC::DataCopyExtParams burst = Burst(kernel::Smaller(tiling_.tile, tiling_.columns - column));
            AscendC::LocalTensor<T> tile = rows_.template AllocTensor<T>();
            AscendC::DataCopyPad(tile, x_[static_cast<uint64_t>(row * tiling_.columns + column)], burst,
                                 AscendC::DataCopyPadExtParams<T>());
            rows_.EnQue(tile);
            tile = rows_.template DeQue<T>();
            AscendC::DataCopyPad(y_[static_cast<uint64_t>(target * tiling_.columns + column)], tile, burst);
            rows_.FreeTensor(tile);
        }
    }

    __aicore__ inline AscendC::DataCopyExtParams Burst(int64_t count) const
    {
        AscendC::DataCopyExtParams burst;
        burst.blockCount = 1;
        burst.blockLen = static_cast<uint32_t>(count) * static_cast<uint32_t>(sizeof(T));
        return burst;
    }

    ScatterSumTilingData tiling_;
    AscendC::GlobalTensor<T> x_;
    AscendC::GlobalTensor<I> indices_;
    AscendC::GlobalTensor<T> y_;
    AscendC::TQueBind<AscendC::TPosition::VECIN, AscendC::TPosition::VECOUT, 1> rows_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> zeros_;
};

}  // namespace opforge

#endif  // OP_KERNEL_SCATTER_SUM_H
