#ifndef OP_KERNEL_SCALE_ALL_H
#define OP_KERNEL_SCALE_ALL_H

#include "kernel_operator.h"
#include "common/arch/rows.h"
#include "scale_all_tiling_data.h"

namespace opforge {

template <typename T>
class ScaleAll {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR factor, GM_ADDR calls, GM_ADDR most, GM_ADDR /*userWorkspace*/,
                                const ScaleAllTilingData& tiling, AscendC::TPipe* pipe)
    {
        tile_ = tiling.tile;
        xs_.Init(reinterpret_cast<__gm__ void*>(x));
        AscendC::GlobalTensor<T> factors;
        factors.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(factor), 1);
        factor_ = factors.GetValue(0);
        calls_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(calls), 1);
        if (most != nullptr) {
            hasMost_ = true;
            most_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(most), 1);
        }
        const uint32_t bytes = static_cast<uint32_t>(tile_) * static_cast<uint32_t>(sizeof(T));
        pipe->InitBuffer(ins_, 2, bytes);
        pipe->InitBuffer(outs_, 2, bytes);
        pipe->InitBuffer(numbers_, 1, 32);
    }

    __aicore__ inline void Process()
    {
        int64_t most = 0;
        for (uint32_t index = 0; index < xs_.GetSize(); ++index) {
            const int64_t elements = ElementsOf(index);
            most = elements > most ? elements : most;
            for (int64_t offset = 0; offset < elements; offset += tile_) {
                ScaleTile(index, offset, elements - offset < tile_ ? elements - offset : tile_);
            }
        }
        Store(calls_, calls_.GetValue(0) + 1);
        if (hasMost_) {
            const int32_t known = most_.GetValue(0);
            Store(most_, known > most ? known : static_cast<int32_t>(most));
        }
    }

private:
    __aicore__ inline int64_t ElementsOf(uint32_t index)
    {
        uint64_t dims[8] = {};
        AscendC::TensorDesc<T> tensor;
        tensor.SetShapeAddr(dims);
        xs_.GetDesc(tensor, index);
        int64_t elements = 1;
        for (uint32_t axis = 0; axis < tensor.GetDim(); ++axis) {
            elements *= static_cast<int64_t>(tensor.GetShape(axis));
        }
        return elements;
    }

    __aicore__ inline void ScaleTile(uint32_t index, int64_t offset, int64_t count)
    {
        AscendC::GlobalTensor<T> tensor;
        tensor.SetGlobalBuffer(xs_.GetDataPtr<T>(index));
        AscendC::LocalTensor<T> in = ins_.template AllocTensor<T>();
        kernel::LoadRows(in, tensor, offset, {1, count});
        ins_.EnQue(in);
        in = ins_.template DeQue<T>();
        AscendC::LocalTensor<T> out = outs_.template AllocTensor<T>();
        AscendC::Muls(out, in, factor_, static_cast<int32_t>(count));
        ins_.FreeTensor(in);
        outs_.EnQue(out);
        out = outs_.template DeQue<T>();
        kernel::StoreRows(tensor, offset, out, {1, count});
        outs_.FreeTensor(out);
    }

    __aicore__ inline void Store(AscendC::GlobalTensor<int32_t>& to, int32_t number)
    {
        AscendC::PipeBarrier<PIPE_ALL>();  // the number was read from the same address
        AscendC::LocalTensor<int32_t> one = numbers_.template AllocTensor<int32_t>();
        AscendC::Duplicate(one, number, 8);
        numbers_.EnQue(one);
        one = numbers_.template DeQue<int32_t>();
        kernel::StoreRows(to, 0, one, {1, 1});
        numbers_.FreeTensor(one);
    }

    int64_t tile_ = 0;
    T factor_ = 0;
    bool hasMost_ = false;
    AscendC::ListTensorDesc xs_;
    AscendC::GlobalTensor<int32_t> calls_;
    AscendC::GlobalTensor<int32_t> most_;
    AscendC::TQue<AscendC::TPosition::VECIN, 2> ins_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 2> outs_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> numbers_;
};

}  // namespace opforge

#endif  // OP_KERNEL_SCALE_ALL_H
