// TopKGating: each row is sorted with the indices of its elements. The sorted row has its maximum first, so that the
// softmax of the first k elements needs one more pass over the row.
#ifndef OP_KERNEL_TOP_K_GATING_H
#define OP_KERNEL_TOP_K_GATING_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/memory/float_rows.h"
#include "common/order.h"
#include "top_k_gating_tiling_data.h"

namespace opforge {

template <typename T>
class TopKGating {
public:
    __aicore__ inline void Init(GM_ADDR logits, GM_ADDR weights, GM_ADDR indices, GM_ADDR /*userWorkspace*/,
                                const TopKGatingTilingData& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        if (tiling.rows == 0) {
            return;
        }
        padded_ = kernel::RoundUp(tiling.columns, kSorted);
        resultPitch_ = kernel::RoundUp(tiling.k, kPad);
        logits_.Init(pipe, logits, tiling.rows * tiling.columns, tiling.tileRows * padded_);
        weights_.Init(pipe, weights, tiling.rows * tiling.k, tiling.tileRows * resultPitch_);
        indices_.Init(pipe, indices, tiling.rows * tiling.k, tiling.tileRows * resultPitch_);
        pipe->InitBuffer(entryBuffer_, Bytes(2 * padded_));
        pipe->InitBuffer(scratchBuffer_, Bytes(2 * padded_));
        pipe->InitBuffer(rowBuffer_, Bytes(padded_));
        pipe->InitBuffer(numberBuffer_, Bytes(padded_));
        pipe->InitBuffer(valueBuffer_, Bytes(tiling.tileRows * padded_));
        pipe->InitBuffer(expertBuffer_, Bytes(padded_));
        pipe->InitBuffer(sumBuffer_, Bytes(tiling.tileRows * kFloats));
    }

    __aicore__ inline void Process()
    {
        if (tiling_.rows == 0) {
            return;
        }
        // The padding stays behind all elements of a row, because the sort keeps the order of equal elements.
        AscendC::Duplicate(rowBuffer_.Get<float>(), -__builtin_huge_valf(), static_cast<int32_t>(padded_));
        AscendC::ArithProgression(numberBuffer_.Get<int32_t>(), 0, 1, static_cast<int32_t>(padded_));
        kernel::Order<AscendC::HardEvent::S_V>();
        Barrier();
        const kernel::Span own = kernel::PartOf(tiling_.rows, tiling_.rowBlocks, AscendC::GetBlockIdx());
        for (int64_t row = own.begin; row < own.end; row += tiling_.tileRows) {
            SelectRows(row, kernel::Smaller(tiling_.tileRows, own.end - row));
        }
    }

private:
    using Floats = AscendC::LocalTensor<float>;
    static constexpr int64_t kSorted = 32;  // elements of one sort
    static constexpr int64_t kPad = 16;
    static constexpr int64_t kFloats = 8;

    __aicore__ inline void SelectRows(int64_t first, int64_t rows)
    {
        const kernel::RowTile tile = {first, 0, rows, tiling_.columns, tiling_.columns, padded_};
        const kernel::RowTile results = {first, 0, rows, tiling_.k, tiling_.k, resultPitch_};
        const Floats logits = logits_.Load(tile);
        const Floats weights = weights_.Alloc();
        const AscendC::LocalTensor<int32_t> indices = indices_.Alloc().template ReinterpretCast<int32_t>();
        for (int64_t row = 0; row < rows; ++row) {
            SortRow(valueBuffer_.Get<float>()[tile.At(row)], logits[tile.At(row)]);
            AscendC::Adds(indices[results.At(row)], expertBuffer_.Get<int32_t>(), 0, results.Width());
            Barrier();
        }
        SumExponentials(logits, tile);
        for (int64_t row = 0; row < rows; ++row) {
            AscendC::Muls(weights[results.At(row)], logits[tile.At(row)], 1.0f / SumOf(row).GetValue(0),
                          results.Width());
        }
        // The scalar unit reads the numbers of these rows before the next rows replace them.
        kernel::Order<AscendC::HardEvent::S_V>();
        Barrier();
        logits_.Free();
        weights_.Store(results);
        indices_.Store(results);
    }

    /// Writes the sorted elements of a row, the largest first, and their indices.
    __aicore__ inline void SortRow(const Floats& values, const Floats& logits)
    {
        const Floats row = rowBuffer_.Get<float>();
        const Floats entries = entryBuffer_.Get<float>();
        Floats scratch = scratchBuffer_.Get<float>();
        AscendC::Adds(row, logits, 0.0f, static_cast<int32_t>(tiling_.columns));
        Barrier();
        const int32_t repeats = static_cast<int32_t>(padded_ / kSorted);
        AscendC::Sort<float, true>(entries, row, numberBuffer_.Get<uint32_t>(), scratch, repeats);
        Barrier();
        AscendC::Extract(values, expertBuffer_.Get<uint32_t>(), entries, repeats);
        Barrier();
    }

    /// Replaces the logits of each row by exp(value - maximum) of its sorted values, and sums them.
    __aicore__ inline void SumExponentials(const Floats& logits, const kernel::RowTile& tile)
    {
        kernel::Order<AscendC::HardEvent::V_S>();
        for (int64_t row = 0; row < tile.rows; ++row) {
            const Floats values = valueBuffer_.Get<float>()[tile.At(row)];
            AscendC::Adds(logits[tile.At(row)], values, -values.GetValue(0), tile.Width());
        }
        Barrier();
        for (int64_t row = 0; row < tile.rows; ++row) {
            AscendC::Exp(logits[tile.At(row)], logits[tile.At(row)], tile.Width());
        }
        Barrier();
        for (int64_t row = 0; row < tile.rows; ++row) {
            AscendC::ReduceSum<float>(SumOf(row), logits[tile.At(row)], scratchBuffer_.Get<float>(), tile.Width());
            Barrier();
        }
        kernel::Order<AscendC::HardEvent::V_S>();
    }

    /// Orders the next vector instruction after the previous ones.
    __aicore__ inline void Barrier() { AscendC::PipeBarrier<PIPE_V>(); }

    __aicore__ inline uint32_t Bytes(int64_t floats) const
    {
        return static_cast<uint32_t>(floats) * static_cast<uint32_t>(sizeof(float));
    }

    __aicore__ inline Floats SumOf(int64_t row)
    {
        return sumBuffer_.Get<float>()[static_cast<uint32_t>(row * kFloats)];
    }

    TopKGatingTilingData tiling_;
    kernel::RowInput<T> logits_;
    kernel::RowOutput<T> weights_;
    kernel::RowOutput<float> indices_;  // int32 in memory
    AscendC::TBuf<AscendC::TPosition::VECCALC> entryBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> scratchBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> rowBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> numberBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> valueBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> expertBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sumBuffer_;
    int64_t padded_ = 0;  // columns
    int64_t resultPitch_ = 0;
};

}  // namespace opforge

#endif  // OP_KERNEL_TOP_K_GATING_H
