// kernel::Spread with Duplicate and copies, for vector units without Brcb and GatherMask.
#ifndef OPFORGE_OP_KERNEL_COMMON_ARCH_SPREAD_BY_FILL_H
#define OPFORGE_OP_KERNEL_COMMON_ARCH_SPREAD_BY_FILL_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/order.h"

namespace opforge {
namespace kernel {

/// Repeats each of `values` floats `width` times, and the result `copies` times. Copies until the first one that ends
/// at a 32-byte block are filled value by value. Then each DataCopy doubles them.
class Spread {
public:
    __aicore__ inline void Init(AscendC::TPipe*, int32_t, const AscendC::LocalTensor<float>&) {}

    __aicore__ inline void Prepare(int32_t, int32_t width, int32_t copies)
    {
        width_ = width;
        copies_ = copies;
    }

    /// Elements after the last one may be overwritten, up to the end of their block.
    __aicore__ inline void Run(const AscendC::LocalTensor<float>& destination,
                               const AscendC::LocalTensor<float>& source, int32_t values)
    {
        const int64_t length = static_cast<int64_t>(values) * width_;
        int64_t filled = 1;
        while (filled < copies_ && filled * length % kFloatsPerBlock != 0) {
            filled *= 2;
        }
        filled = Smaller(filled, copies_);
        if (width_ == 1 && length % kFloatsPerBlock == 0) {
            AscendC::DataCopy(destination, source, static_cast<uint32_t>(length));
        } else {
            Order<AscendC::HardEvent::V_S>();
            for (int64_t copy = 0; copy < filled; ++copy) {
                for (int32_t value = 0; value < values; ++value) {
                    Fill(destination, copy * length + static_cast<int64_t>(value) * width_,
                         source.GetValue(static_cast<uint32_t>(value)));
                }
            }
            Order<AscendC::HardEvent::S_V>();
        }
        AscendC::PipeBarrier<PIPE_V>();
        while (filled < copies_) {
            const int64_t more = Smaller(filled, copies_ - filled);
            AscendC::DataCopy(destination[static_cast<uint32_t>(filled * length)], destination,
                              static_cast<uint32_t>(RoundUp(more * length, kFloatsPerBlock)));
            AscendC::PipeBarrier<PIPE_V>();
            filled += more;
        }
    }

private:
    static constexpr int64_t kFloatsPerBlock = 8;
    static constexpr int64_t kFloatsPerRepeat = 64;

    /// Fills width_ elements from `begin` on: few with the scalar unit, others in windows of one repeat with a mask.
    __aicore__ inline void Fill(const AscendC::LocalTensor<float>& destination, int64_t begin, float value) const
    {
        const int64_t end = begin + width_;
        if (width_ < kFloatsPerBlock) {
            for (int64_t element = begin; element < end; ++element) {
                destination.SetValue(static_cast<uint32_t>(element), value);
            }
            return;
        }
        for (int64_t window = RoundDown(begin, kFloatsPerBlock); window < end; window += kFloatsPerRepeat) {
            const int64_t low = Larger(begin - window, 0);
            const int64_t lanes = Smaller(end - window, kFloatsPerRepeat) - low;
            uint64_t mask[2] = {~uint64_t{0} >> (kFloatsPerRepeat - lanes) << low, 0};
            AscendC::Duplicate(destination[static_cast<uint32_t>(window)], value, mask, 1, 1, kRepeatBlocks);
        }
    }

    static constexpr uint8_t kRepeatBlocks = 8;

    int32_t width_ = 0;
    int64_t copies_ = 0;
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_ARCH_SPREAD_BY_FILL_H
