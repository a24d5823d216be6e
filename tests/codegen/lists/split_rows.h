#ifndef OP_KERNEL_SPLIT_ROWS_H
#define OP_KERNEL_SPLIT_ROWS_H

#include "kernel_operator.h"
#include "common/arch/rows.h"
#include "split_rows_tiling_data.h"

namespace opforge {

template <typename T>
class SplitRows {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR factors, GM_ADDR biases, GM_ADDR y, GM_ADDR copy,
                                GM_ADDR /*userWorkspace*/, const SplitRowsTilingData& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        x_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x));
        factors_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(factors));
        parts_.Init(reinterpret_cast<__gm__ void*>(y));
        if (tiling_.hasBiases != 0) {
            biases_.Init(reinterpret_cast<__gm__ void*>(biases));
        }
        hasCopy_ = copy != nullptr;
        if (hasCopy_) {
            copy_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(copy));
        }
        pipe->InitBuffer(rows_, 2, kBytes);
        pipe->InitBuffer(sums_, 2, kBytes);
        pipe->InitBuffer(summands_, 1, kBytes);
    }

    __aicore__ inline void Process()
    {
        int64_t row = 0;
        for (uint32_t part = 0; part < parts_.GetSize(); ++part) {
            const int64_t count = RowsOf(part);
            if (part % AscendC::GetBlockNum() == AscendC::GetBlockIdx()) {
                ScalePart(part, row, count);
            }
            row += count;
        }
    }

private:
    static constexpr uint32_t kBytes = 4096 * sizeof(T);

    __aicore__ inline int64_t RowsOf(uint32_t part)
    {
        uint64_t dims[2] = {};
        AscendC::TensorDesc<T> tensor;
        tensor.SetShapeAddr(dims);
        parts_.GetDesc(tensor, part);
        return static_cast<int64_t>(tensor.GetShape(0));
    }

    __aicore__ inline void ScalePart(uint32_t part, int64_t row, int64_t count)
    {
        const T factor = static_cast<T>(factors_.GetValue(part));
        AscendC::GlobalTensor<T> to;
        to.SetGlobalBuffer(parts_.GetDataPtr<T>(part));
        AscendC::LocalTensor<T> summand;
        if (tiling_.hasBiases != 0) {
            AscendC::GlobalTensor<T> bias;
            bias.SetGlobalBuffer(biases_.GetDataPtr<T>(part));
            summand = Load(summands_, bias, 0);
        }
        for (int64_t index = 0; index < count; ++index) {
            AscendC::LocalTensor<T> values = Load(rows_, x_, (row + index) * tiling_.width);
            if (hasCopy_) {
                Store(copy_, (row + index) * tiling_.width, values);
            }
            AscendC::LocalTensor<T> sum = sums_.template AllocTensor<T>();
            AscendC::Muls(sum, values, factor, static_cast<int32_t>(tiling_.width));
            if (tiling_.hasBiases != 0) {
                AscendC::PipeBarrier<PIPE_V>();
                AscendC::Add(sum, sum, summand, static_cast<int32_t>(tiling_.width));
            }
            rows_.FreeTensor(values);
            sums_.EnQue(sum);
            sum = sums_.template DeQue<T>();
            kernel::StoreRows(to, index * tiling_.width, sum, {1, tiling_.width});
            sums_.FreeTensor(sum);
        }
        if (tiling_.hasBiases != 0) {
            summands_.FreeTensor(summand);
        }
    }

    template <typename Queue>
    __aicore__ inline AscendC::LocalTensor<T> Load(Queue& queue, AscendC::GlobalTensor<T>& from, int64_t offset)
    {
        AscendC::LocalTensor<T> tile = queue.template AllocTensor<T>();
        kernel::LoadRows(tile, from, offset, {1, tiling_.width});
        queue.EnQue(tile);
        return queue.template DeQue<T>();
    }

    __aicore__ inline void Store(AscendC::GlobalTensor<T>& to, int64_t offset, AscendC::LocalTensor<T>& values)
    {
        // The vector unit passes the rows on, because a queue orders its copy in with the vector unit only.
        AscendC::LocalTensor<T> copy = sums_.template AllocTensor<T>();
        AscendC::Muls(copy, values, static_cast<T>(1.0F), static_cast<int32_t>(tiling_.width));
        sums_.EnQue(copy);
        copy = sums_.template DeQue<T>();
        kernel::StoreRows(to, offset, copy, {1, tiling_.width});
        sums_.FreeTensor(copy);
    }

    SplitRowsTilingData tiling_;
    bool hasCopy_ = false;
    AscendC::GlobalTensor<T> x_;
    AscendC::GlobalTensor<T> copy_;
    AscendC::GlobalTensor<float> factors_;
    AscendC::ListTensorDesc parts_;
    AscendC::ListTensorDesc biases_;
    AscendC::TQue<AscendC::TPosition::VECIN, 2> rows_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> summands_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 2> sums_;
};

}  // namespace opforge

#endif  // OP_KERNEL_SPLIT_ROWS_H
