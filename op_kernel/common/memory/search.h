// Search in ordered data in GM with many probes per step. A step costs the latency of one DMA.
#ifndef OPFORGE_OP_KERNEL_COMMON_MEMORY_SEARCH_H
#define OPFORGE_OP_KERNEL_COMMON_MEMORY_SEARCH_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/order.h"

namespace opforge {
namespace kernel {

/// Every `stride`-th 4-byte value of GM, at most `kProbes`, each in a 32-byte block of UB.
class Probes {
public:
    static constexpr int64_t kProbes = 16;
    static constexpr int32_t kBytes = static_cast<int32_t>(kProbes * kUbBlockBytes);

    __aicore__ inline void Init(const AscendC::LocalTensor<int32_t>& buffer) { buffer_ = buffer; }

    /// `stride` is in values.
    __aicore__ inline void Load(const AscendC::GlobalTensor<int32_t>& source, int64_t first, int64_t stride,
                                int64_t count)
    {
        for (int64_t done = 0; done < count;) {
            // If a DMA does not support the distance, one DMA loads each value.
            const int64_t batch = (stride - 1) * kValueBytes > kMaxGap ? 1 : count;
            AscendC::DataCopyExtParams burst;
            burst.blockCount = static_cast<uint16_t>(batch);
            burst.blockLen = kValueBytes;
            burst.srcStride = batch > 1 ? static_cast<uint32_t>((stride - 1) * kValueBytes) : 0;
            AscendC::DataCopyPad(buffer_[static_cast<uint32_t>(done * kValuesPerBlock)],
                                 source[static_cast<uint64_t>(first + done * stride)], burst,
                                 AscendC::DataCopyPadExtParams<int32_t>());
            done += batch;
        }
    }

    __aicore__ inline int32_t At(int64_t probe) const
    {
        return buffer_.GetValue(static_cast<uint32_t>(probe * kValuesPerBlock));
    }

private:
    static constexpr int64_t kValueBytes = 4;
    static constexpr int64_t kValuesPerBlock = kUbBlockBytes / kValueBytes;
    static constexpr int64_t kMaxGap = 4294967295;

    AscendC::LocalTensor<int32_t> buffer_;
};

/// Returns the first position in [low, high) at which `test` is false, or `high`. The test is true at all earlier
/// positions. A test has Load(first, stride, count), which starts to load the data of these positions, and
/// Holds(probe).
template <typename Test>
__aicore__ inline int64_t FirstFailure(Test& test, int64_t low, int64_t high)
{
    while (low < high) {
        const int64_t stride = CeilDiv(high - low, Probes::kProbes);
        const int64_t count = CeilDiv(high - low, stride);
        Order<AscendC::HardEvent::S_MTE2>();
        test.Load(low, stride, count);
        Order<AscendC::HardEvent::MTE2_S>();
        int64_t holding = 0;
        for (int64_t failing = count; holding < failing;) {
            const int64_t middle = (holding + failing) / 2;
            if (test.Holds(middle)) {
                holding = middle + 1;
            } else {
                failing = middle;
            }
        }
        if (holding == 0) {
            return low;
        }
        high = Smaller(high, low + holding * stride);
        low += (holding - 1) * stride + 1;
    }
    return high;
}

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_MEMORY_SEARCH_H
