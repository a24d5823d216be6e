#ifndef OP_KERNEL_ADD_TO_H
#define OP_KERNEL_ADD_TO_H

#include "kernel_operator.h"
#include "common/arch/rows.h"
#include "add_to_tiling_data.h"

namespace opforge {

template <typename T>
class AddTo {
public:
    __aicore__ inline void Init(GM_ADDR var, GM_ADDR x, GM_ADDR varOut, GM_ADDR delta, GM_ADDR /*userWorkspace*/,
                                const AddToTilingData& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        const uint64_t elements = static_cast<uint64_t>(tiling.elements);
        var_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(var), elements);
        x_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), elements);
        varOut_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(varOut), elements);
        delta_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(delta), elements);
        const uint32_t tileBytes = static_cast<uint32_t>(tiling.tile) * static_cast<uint32_t>(sizeof(T));
        pipe->InitBuffer(vars_, 2, tileBytes);
        pipe->InitBuffer(xs_, 2, tileBytes);
        pipe->InitBuffer(sums_, 2, tileBytes);
        pipe->InitBuffer(deltas_, 2, tileBytes);
    }

    __aicore__ inline void Process()
    {
        const int64_t least = kernel::kLeastRun<T>;
        const kernel::Span share = kernel::ShareOf(tiling_.elements, tiling_.share, AscendC::GetBlockIdx(), least);
        for (int64_t offset = share.begin; offset < share.end;) {
            const int64_t count = kernel::TileOf(share.end - offset, tiling_.tile, least);
            AddTile(offset, count);
            offset += count;
        }
    }

private:
    template <typename Queue>
    __aicore__ inline AscendC::LocalTensor<T> Load(Queue& queue, AscendC::GlobalTensor<T>& from, int64_t offset,
                                                   int64_t count)
    {
        AscendC::LocalTensor<T> tile = queue.template AllocTensor<T>();
        kernel::LoadRows(tile, from, offset, {1, count});
        queue.EnQue(tile);
        return queue.template DeQue<T>();
    }

    template <typename Queue>
    __aicore__ inline void Store(Queue& queue, AscendC::GlobalTensor<T>& to, int64_t offset,
                                 AscendC::LocalTensor<T>& tile, int64_t count)
    {
        queue.EnQue(tile);
        tile = queue.template DeQue<T>();
        kernel::StoreRows(to, offset, tile, {1, count});
        queue.FreeTensor(tile);
    }

    __aicore__ inline void AddTile(int64_t offset, int64_t count)
    {
        AscendC::LocalTensor<T> var = Load(vars_, var_, offset, count);
        AscendC::LocalTensor<T> x = Load(xs_, x_, offset, count);
        AscendC::LocalTensor<T> delta = deltas_.AllocTensor<T>();
        AscendC::LocalTensor<T> sum = sums_.AllocTensor<T>();
        const float factor =
            tiling_.alpha * static_cast<float>(tiling_.times) * (tiling_.isNegated != 0 ? -1.0F : 1.0F);
        AscendC::Muls(delta, x, static_cast<T>(factor), static_cast<int32_t>(count));
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Add(sum, var, delta, static_cast<int32_t>(count));
        xs_.FreeTensor(x);
        vars_.FreeTensor(var);
        Store(deltas_, delta_, offset, delta, count);
        Store(sums_, varOut_, offset, sum, count);
    }

    AddToTilingData tiling_;
    AscendC::GlobalTensor<T> var_;
    AscendC::GlobalTensor<T> x_;
    AscendC::GlobalTensor<T> varOut_;
    AscendC::GlobalTensor<T> delta_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> vars_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> xs_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> sums_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> deltas_;
};

}  // namespace opforge

#endif  // OP_KERNEL_ADD_TO_H
