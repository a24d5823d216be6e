#ifndef OP_KERNEL_SCALED_ADD_H
#define OP_KERNEL_SCALED_ADD_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
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
        const int64_t begin = AscendC::GetBlockIdx() * tiling_.share;
        const int64_t end = kernel::Smaller(begin + tiling_.share, tiling_.elements);
        for (int64_t offset = begin; offset < end; offset += tiling_.tile) {
            AddTile(static_cast<uint64_t>(offset), static_cast<uint32_t>(kernel::Smaller(tiling_.tile, end - offset)));
        }
    }

private:
    __aicore__ inline void AddTile(uint64_t offset, uint32_t count)
    {
        const AscendC::LocalTensor<T> x = Loaded(xs_, x_[offset], count);
        AscendC::LocalTensor<T> z = zs_.AllocTensor<T>();
        AscendC::Muls(z, x, static_cast<T>(tiling_.alpha), static_cast<int32_t>(count));
        AscendC::PipeBarrier<PIPE_V>();
        if constexpr (kHasY) {
            AscendC::LocalTensor<T> y = Loaded(ys_, y_[offset], count);
            AscendC::Add(z, z, y, static_cast<int32_t>(count));
            AscendC::PipeBarrier<PIPE_V>();
            ys_.FreeTensor(y);
        }
        zs_.EnQue(z);
        z = zs_.DeQue<T>();
        AscendC::DataCopyPad(z_[offset], z, Burst(count));
        zs_.FreeTensor(z);
        AscendC::LocalTensor<T> done = x;
        xs_.FreeTensor(done);
    }

    template <typename Queue>
    __aicore__ inline AscendC::LocalTensor<T> Loaded(Queue& queue, const AscendC::GlobalTensor<T>& source,
                                                     uint32_t count)
    {
        AscendC::LocalTensor<T> tile = queue.template AllocTensor<T>();
        AscendC::DataCopyPad(tile, source, Burst(count), AscendC::DataCopyPadExtParams<T>());
        queue.EnQue(tile);
        return queue.template DeQue<T>();
    }

    __aicore__ inline AscendC::DataCopyExtParams Burst(uint32_t count) const
    {
        AscendC::DataCopyExtParams burst;
        burst.blockCount = 1;
        burst.blockLen = count * static_cast<uint32_t>(sizeof(T));
        return burst;
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
