#ifndef OP_KERNEL_SCALED_ADD_H
#define OP_KERNEL_SCALED_ADD_H

#include "kernel_operator.h"
#include "common/arch/rows.h"
#include "scaled_add_tiling_data.h"

namespace opforge {

template <typename T, bool kHasY>
class ScaledAdd {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR /*userWorkspace*/,
                                const ScaledAddTilingData& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        const uint64_t elements = static_cast<uint64_t>(tiling.elements);
        x_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), elements);
        z_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(z), elements);
        const uint32_t tileBytes = static_cast<uint32_t>(tiling.tile) * static_cast<uint32_t>(sizeof(T));
        pipe->InitBuffer(xs_, 2, tileBytes);
        pipe->InitBuffer(zs_, 2, tileBytes);
        if constexpr (kHasY) {
            y_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), elements);
            pipe->InitBuffer(ys_, 2, tileBytes);
        }
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
    __aicore__ inline void AddTile(int64_t offset, int64_t count)
    {
        const AscendC::LocalTensor<T> x = Loaded(xs_, x_, offset, count);
        AscendC::LocalTensor<T> z = zs_.AllocTensor<T>();
        AscendC::Muls(z, x, static_cast<T>(tiling_.alpha), static_cast<int32_t>(count));
        AscendC::PipeBarrier<PIPE_V>();
        if constexpr (kHasY) {
            AscendC::LocalTensor<T> y = Loaded(ys_, y_, offset, count);
            AscendC::Add(z, z, y, static_cast<int32_t>(count));
            AscendC::PipeBarrier<PIPE_V>();
            ys_.FreeTensor(y);
        }
        zs_.EnQue(z);
        z = zs_.DeQue<T>();
        kernel::StoreRows(z_, offset, z, {1, count});
        zs_.FreeTensor(z);
        AscendC::LocalTensor<T> done = x;
        xs_.FreeTensor(done);
    }

    template <typename Queue>
    __aicore__ inline AscendC::LocalTensor<T> Loaded(Queue& queue, const AscendC::GlobalTensor<T>& source,
                                                     int64_t offset, int64_t count)
    {
        AscendC::LocalTensor<T> tile = queue.template AllocTensor<T>();
        kernel::LoadRows(tile, source, offset, {1, count});
        queue.EnQue(tile);
        return queue.template DeQue<T>();
    }

    ScaledAddTilingData tiling_;
    AscendC::GlobalTensor<T> x_;
    AscendC::GlobalTensor<T> y_;
    AscendC::GlobalTensor<T> z_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> xs_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> ys_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> zs_;
};

}  // namespace opforge

#endif  // OP_KERNEL_SCALED_ADD_H
