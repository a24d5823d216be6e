#ifndef OP_KERNEL_FILL_STEPS_H
#define OP_KERNEL_FILL_STEPS_H

#include "kernel_operator.h"
#include "common/arch/rows.h"
#include "fill_steps_tiling_data.h"

namespace opforge {

template <typename T>
class FillSteps {
public:
    __aicore__ inline void Init(GM_ADDR y, GM_ADDR /*userWorkspace*/, const FillStepsTilingData& tiling,
                                AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        y_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
        pipe->InitBuffer(outs_, 2, kTile * static_cast<uint32_t>(sizeof(T)));
    }

    __aicore__ inline void Process()
    {
        for (int64_t row = AscendC::GetBlockIdx(); row < tiling_.rows; row += AscendC::GetBlockNum()) {
            const T number = static_cast<T>(tiling_.start + tiling_.step * static_cast<float>(row));
            for (int64_t column = 0; column < tiling_.row; column += kTile) {
                const int64_t count = tiling_.row - column < kTile ? tiling_.row - column : kTile;
                AscendC::LocalTensor<T> out = outs_.template AllocTensor<T>();
                AscendC::Duplicate(out, number, static_cast<int32_t>(count));
                outs_.EnQue(out);
                out = outs_.template DeQue<T>();
                kernel::StoreRows(y_, row * tiling_.row + column, out, {1, count});
                outs_.FreeTensor(out);
            }
        }
    }

private:
    static constexpr int64_t kTile = 2048;
    FillStepsTilingData tiling_;
    AscendC::GlobalTensor<T> y_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 2> outs_;
};

}  // namespace opforge

#endif  // OP_KERNEL_FILL_STEPS_H
