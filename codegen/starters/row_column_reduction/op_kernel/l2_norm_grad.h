// L2NormGrad: each core computes its rows of grad_x and sums its terms of grad_gamma. After a barrier, each core adds
// the sums of all cores for some columns.
#ifndef OP_KERNEL_L2_NORM_GRAD_H
#define OP_KERNEL_L2_NORM_GRAD_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/vector/column_sums.h"
#include "common/memory/float_rows.h"
#include "common/order.h"
#include "l2_norm_grad_tiling_data.h"

namespace opforge {

template <typename T, bool kHasGamma>
class L2NormGrad {
public:
    __aicore__ inline void Init(GM_ADDR gradY, GM_ADDR x, GM_ADDR gamma, GM_ADDR gradX, GM_ADDR gradGamma,
                                GM_ADDR userWorkspace, const L2NormGradTilingData& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        if (tiling.columns == 0) {
            return;
        }
        gradGamma_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(gradGamma), static_cast<uint64_t>(tiling.columns));
        pitch_ = kernel::RoundUp(tiling.tileColumns, kPad);
        const int64_t tileElements = tiling.tileRows * pitch_;
        const int64_t elements = tiling.rows * tiling.columns;
        gradYs_.Init(pipe, gradY, elements, tileElements);
        xs_.Init(pipe, x, elements, tileElements);
        gradXs_.Init(pipe, gradX, elements, tileElements);
        sums_.Init(pipe, userWorkspace, tiling.columns, AscendC::GetBlockIdx(), tiling.rowBlocks, tiling.partialPitch);
        pipe->InitBuffer(productBuffer_, Bytes(tileElements));
        pipe->InitBuffer(rowBuffer_, Bytes(2 * tiling.tileRows * kFloats));
        // The result of a reduction, then one element for each of its repeats.
        const int64_t repeats = kernel::CeilDiv(tiling.tileColumns, kRepeat);
        pipe->InitBuffer(workBuffer_, Bytes(kFloats + kernel::RoundUp(repeats, kFloats)));
        if constexpr (kHasGamma) {
            pipe->InitBuffer(scaledBuffer_, Bytes(tileElements));
            pipe->InitBuffer(gammaBuffer_, Bytes(kernel::RoundUp(tiling.columns, kPad)));
            gamma_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(gamma), static_cast<uint64_t>(tiling.columns));
        }
    }

    __aicore__ inline void Process()
    {
        if (tiling_.columns == 0) {
            return;
        }
        if constexpr (kHasGamma) {
            LoadGamma();
        }
        const kernel::Span rows = kernel::PartOf(tiling_.rows, tiling_.rowBlocks, AscendC::GetBlockIdx());
        for (int64_t row = rows.begin; row < rows.end; row += tiling_.tileRows) {
            ComputeRows(row, kernel::Smaller(tiling_.tileRows, rows.end - row));
        }
        sums_.Finish(gradGamma_);
    }

private:
    using Floats = AscendC::LocalTensor<float>;
    static constexpr int64_t kPad = 32;
    static constexpr int64_t kFloats = 8;  // of 32 bytes
    static constexpr int64_t kRepeat = 64;

    /// Reads long rows twice: for their sums and for the result.
    __aicore__ inline void ComputeRows(int64_t row, int64_t rows)
    {
        const bool isLong = tiling_.tileColumns < tiling_.columns;
        AscendC::Duplicate(RowSquares(), 0.0f, static_cast<int32_t>(2 * tiling_.tileRows * kFloats));
        Barrier();
        for (int64_t column = 0; column < tiling_.columns; column += tiling_.tileColumns) {
            Load(row, rows, column);
            SumRows();
            if (isLong) {
                Free();
            }
        }
        FinishRows(rows);
        for (int64_t column = 0; column < tiling_.columns; column += tiling_.tileColumns) {
            if (isLong) {
                Load(row, rows, column);
            }
            AddTerms();
            StoreGradX();
            Free();
        }
        // The scalar unit reads the sums of these rows before the next rows replace them.
        kernel::Order<AscendC::HardEvent::S_V>();
    }

    /// scaled = gradY * gamma
    __aicore__ inline void Load(int64_t row, int64_t rows, int64_t column)
    {
        const int64_t width = kernel::Smaller(tiling_.tileColumns, tiling_.columns - column);
        tile_ = {row, column, rows, width, tiling_.columns, pitch_};
        gradY_ = gradYs_.Load(tile_);
        x_ = xs_.Load(tile_);
        scaled_ = gradY_;
        if constexpr (kHasGamma) {
            scaled_ = scaledBuffer_.Get<float>();
            for (int64_t index = 0; index < rows; ++index) {
                AscendC::Mul(scaled_[tile_.At(index)], gradY_[tile_.At(index)],
                             gammaBuffer_.Get<float>()[static_cast<uint32_t>(column)], tile_.Width());
            }
            Barrier();
        }
    }

    __aicore__ inline void Free()
    {
        gradYs_.Free();
        xs_.Free();
    }

    /// Adds the sums of x^2 and of scaled * x to those of each row.
    __aicore__ inline void SumRows()
    {
        const Floats product = productBuffer_.Get<float>();
        MultiplyRows(product, x_);
        ReduceRows(RowSquares(), product);
        MultiplyRows(product, scaled_);
        ReduceRows(RowDots(), product);
    }

    /// product = factor * x
    __aicore__ inline void MultiplyRows(const Floats& product, const Floats& factor)
    {
        for (int64_t index = 0; index < tile_.rows; ++index) {
            AscendC::Mul(product[tile_.At(index)], factor[tile_.At(index)], x_[tile_.At(index)], tile_.Width());
        }
        Barrier();
    }

    __aicore__ inline void ReduceRows(const Floats& sums, const Floats& terms)
    {
        const Floats work = workBuffer_.Get<float>();
        for (int64_t index = 0; index < tile_.rows; ++index) {
            const Floats sum = sums[static_cast<uint32_t>(index * kFloats)];
            AscendC::ReduceSum<float>(work, terms[tile_.At(index)], work[kFloats], tile_.Width());
            Barrier();
            AscendC::Add(sum, sum, work, 1);
            Barrier();
        }
    }

    /// Replaces the sum of squares of each row by r = 1 / sqrt(sum + epsilon).
    __aicore__ inline void FinishRows(int64_t rows)
    {
        const int32_t count = static_cast<int32_t>(rows * kFloats);
        const Floats ones = productBuffer_.Get<float>();
        AscendC::Duplicate(ones, 1.0f, count);
        AscendC::Adds(RowSquares(), RowSquares(), tiling_.epsilon, count);
        Barrier();
        AscendC::Sqrt(RowSquares(), RowSquares(), count);
        Barrier();
        AscendC::Div(RowSquares(), ones, RowSquares(), count);
        Barrier();
        kernel::Order<AscendC::HardEvent::V_S>();
    }

    /// Adds gradY * x * r to the sums of the columns.
    __aicore__ inline void AddTerms()
    {
        const Floats product = productBuffer_.Get<float>();
        MultiplyRows(product, gradY_);
        for (int64_t index = 0; index < tile_.rows; ++index) {
            AscendC::Axpy(sums_.At(tile_.column), product[tile_.At(index)], ValueOf(RowSquares(), index),
                          tile_.Width());
            Barrier();
        }
    }

    /// Stores scaled * r - x * dot * r^3.
    __aicore__ inline void StoreGradX()
    {
        const Floats result = gradXs_.Alloc();
        for (int64_t index = 0; index < tile_.rows; ++index) {
            AscendC::Muls(result[tile_.At(index)], scaled_[tile_.At(index)], ValueOf(RowSquares(), index),
                          tile_.Width());
        }
        Barrier();
        for (int64_t index = 0; index < tile_.rows; ++index) {
            const float r = ValueOf(RowSquares(), index);
            AscendC::Axpy(result[tile_.At(index)], x_[tile_.At(index)], -ValueOf(RowDots(), index) * r * r * r,
                          tile_.Width());
        }
        gradXs_.Store(tile_);
    }

    __aicore__ inline void LoadGamma()
    {
        for (int64_t column = 0; column < tiling_.columns; column += tiling_.tileColumns) {
            const int64_t width = kernel::Smaller(tiling_.tileColumns, tiling_.columns - column);
            const Floats loaded = xs_.Load({0, column, 1, width, tiling_.columns, pitch_}, gamma_);
            AscendC::Adds(gammaBuffer_.Get<float>()[static_cast<uint32_t>(column)], loaded, 0.0f,
                          static_cast<int32_t>(width));
            Barrier();
            xs_.Free();
        }
    }

    /// Orders the next vector instruction after the previous ones.
    __aicore__ inline void Barrier() { AscendC::PipeBarrier<PIPE_V>(); }

    __aicore__ inline uint32_t Bytes(int64_t floats) const
    {
        return static_cast<uint32_t>(floats) * static_cast<uint32_t>(sizeof(float));
    }
    /// The numbers of each row are the first of 8 floats.
    __aicore__ inline float ValueOf(const Floats& values, int64_t index) const
    {
        return values.GetValue(static_cast<uint32_t>(index * kFloats));
    }
    __aicore__ inline Floats RowSquares() { return rowBuffer_.Get<float>(); }
    __aicore__ inline Floats RowDots()
    {
        return rowBuffer_.Get<float>()[static_cast<uint32_t>(tiling_.tileRows * kFloats)];
    }

    L2NormGradTilingData tiling_;
    AscendC::GlobalTensor<T> gamma_;
    AscendC::GlobalTensor<T> gradGamma_;
    kernel::RowInput<T> gradYs_;
    kernel::RowInput<T> xs_;
    kernel::RowOutput<T> gradXs_;
    kernel::ColumnSums<T> sums_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> productBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> scaledBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> gammaBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> rowBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuffer_;
    Floats gradY_;
    Floats x_;
    Floats scaled_;
    kernel::RowTile tile_;
    int64_t pitch_ = 0;
};

}  // namespace opforge

#endif  // OP_KERNEL_L2_NORM_GRAD_H
