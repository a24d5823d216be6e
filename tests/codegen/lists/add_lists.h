#ifndef OP_KERNEL_ADD_LISTS_H
#define OP_KERNEL_ADD_LISTS_H

#include "kernel_operator.h"
#include "common/arch/rows.h"
#include "add_lists_tiling_data.h"

namespace opforge {

template <typename T>
class AddLists {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR alpha, GM_ADDR z, GM_ADDR /*userWorkspace*/,
                                const AddListsTilingData& tiling, AscendC::TPipe* pipe)
    {
        tile_ = tiling.tile;
        xs_.Init(reinterpret_cast<__gm__ void*>(x));
        ys_.Init(reinterpret_cast<__gm__ void*>(y));
        zs_.Init(reinterpret_cast<__gm__ void*>(z));
        AscendC::GlobalTensor<T> factor;
        factor.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(alpha), 1);
        alpha_ = factor.GetValue(0);
        const uint32_t bytes = static_cast<uint32_t>(tile_) * static_cast<uint32_t>(sizeof(T));
        pipe->InitBuffer(firsts_, 2, bytes);
        pipe->InitBuffer(seconds_, 2, bytes);
        pipe->InitBuffer(sums_, 2, bytes);
    }

    __aicore__ inline void Process()
    {
        int64_t tile = 0;
        for (uint32_t index = 0; index < xs_.GetSize(); ++index) {
            const int64_t elements = ElementsOf(index);
            for (int64_t offset = 0; offset < elements; offset += tile_, ++tile) {
                if (tile % AscendC::GetBlockNum() == AscendC::GetBlockIdx()) {
                    AddTile(index, offset, elements - offset < tile_ ? elements - offset : tile_);
                }
            }
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

    __aicore__ inline AscendC::GlobalTensor<T> TensorOf(AscendC::ListTensorDesc& list, uint32_t index)
    {
        AscendC::GlobalTensor<T> tensor;
        tensor.SetGlobalBuffer(list.GetDataPtr<T>(index));
        return tensor;
    }

    template <typename Queue>
    __aicore__ inline AscendC::LocalTensor<T> Load(Queue& queue, AscendC::GlobalTensor<T> from, int64_t offset,
                                                   int64_t count)
    {
        AscendC::LocalTensor<T> tile = queue.template AllocTensor<T>();
        kernel::LoadRows(tile, from, offset, {1, count});
        queue.EnQue(tile);
        return queue.template DeQue<T>();
    }

    __aicore__ inline void AddTile(uint32_t index, int64_t offset, int64_t count)
    {
        AscendC::LocalTensor<T> first = Load(firsts_, TensorOf(xs_, index), offset, count);
        AscendC::LocalTensor<T> second = Load(seconds_, TensorOf(ys_, index), offset, count);
        AscendC::LocalTensor<T> sum = sums_.template AllocTensor<T>();
        AscendC::Muls(second, second, alpha_, static_cast<int32_t>(count));
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Add(sum, first, second, static_cast<int32_t>(count));
        firsts_.FreeTensor(first);
        seconds_.FreeTensor(second);
        sums_.EnQue(sum);
        sum = sums_.template DeQue<T>();
        AscendC::GlobalTensor<T> to = TensorOf(zs_, index);
        kernel::StoreRows(to, offset, sum, {1, count});
        sums_.FreeTensor(sum);
    }

    int64_t tile_ = 0;
    T alpha_ = 0;
    AscendC::ListTensorDesc xs_;
    AscendC::ListTensorDesc ys_;
    AscendC::ListTensorDesc zs_;
    AscendC::TQue<AscendC::TPosition::VECIN, 2> firsts_;
    AscendC::TQue<AscendC::TPosition::VECIN, 2> seconds_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 2> sums_;
};

}  // namespace opforge

#endif  // OP_KERNEL_ADD_LISTS_H
