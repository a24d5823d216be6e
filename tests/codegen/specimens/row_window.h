#ifndef OP_KERNEL_ROW_WINDOW_H
#define OP_KERNEL_ROW_WINDOW_H

#include "kernel_operator.h"
#include "common/arch/rows.h"
#include "row_window_tiling_data.h"

namespace opforge {

template <typename T>
class RowWindow {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR /*userWorkspace*/, const RowWindowTilingData& tiling,
                                AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        const uint64_t elements = static_cast<uint64_t>(tiling.elements);
        x_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x) + tiling.first, elements);
        y_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), elements);
        const uint32_t tileBytes = static_cast<uint32_t>(tiling.tile) * static_cast<uint32_t>(sizeof(T));
        pipe->InitBuffer(xs_, 2, tileBytes);
        pipe->InitBuffer(ys_, 2, tileBytes);
    }

    __aicore__ inline void Process()
    {
        const int64_t least = kernel::kLeastRun<T>;
        const kernel::Span share = kernel::ShareOf(tiling_.elements, tiling_.share, AscendC::GetBlockIdx(), least);
        for (int64_t offset = share.begin; offset < share.end;) {
            const int64_t count = kernel::TileOf(share.end - offset, tiling_.tile, least);
            CopyTile(offset, count);
            offset += count;
        }
    }

private:
    __aicore__ inline void CopyTile(int64_t offset, int64_t count)
    {
        AscendC::LocalTensor<T> x = xs_.AllocTensor<T>();
        kernel::LoadRows(x, x_, offset, {1, count});
        xs_.EnQue(x);
        x = xs_.DeQue<T>();
        AscendC::LocalTensor<T> y = ys_.AllocTensor<T>();
        const T factor = tiling_.isNegated != 0 ? static_cast<T>(-1.0F) : static_cast<T>(1.0F);
        AscendC::Muls(y, x, factor, static_cast<int32_t>(count));
        ys_.EnQue(y);
        y = ys_.DeQue<T>();
        kernel::StoreRows(y_, offset, y, {1, count});
        ys_.FreeTensor(y);
        xs_.FreeTensor(x);
    }

    RowWindowTilingData tiling_;
    AscendC::GlobalTensor<T> x_;
    AscendC::GlobalTensor<T> y_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> xs_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> ys_;
};

}  // namespace opforge

#endif  // OP_KERNEL_ROW_WINDOW_H
