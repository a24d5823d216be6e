// The sum of floats in UB.
#ifndef OPFORGE_OP_KERNEL_COMMON_ARCH_REDUCE_H
#define OPFORGE_OP_KERNEL_COMMON_ARCH_REDUCE_H

#include "common/arch/arch.h"
#include "common/order.h"

namespace opforge {
namespace kernel {

/// Writes the sum of `count` values to result[0], for the scalar unit after a V_S event. Changes `values`; `scratch` is
/// as long as `values`.
__aicore__ inline void SumTo(const AscendC::LocalTensor<float>& result, const AscendC::LocalTensor<float>& values,
                             const AscendC::LocalTensor<float>& scratch, int32_t count)
{
#if OPFORGE_IS_COUPLED
    constexpr int64_t kFewest = 64;
    constexpr int64_t kFloatsPerBlock = 8;
    (void)scratch;
    while (count > kFewest) {
        const int32_t half = static_cast<int32_t>(RoundUp(CeilDiv(count, 2), kFloatsPerBlock));
        AscendC::Add(values, values, values[static_cast<uint32_t>(half)], count - half);
        AscendC::PipeBarrier<PIPE_V>();
        count = half;
    }
    Order<AscendC::HardEvent::V_S>();
    float sum = 0.0f;
    for (int32_t index = 0; index < count; ++index) {
        sum += values.GetValue(static_cast<uint32_t>(index));
    }
    result.SetValue(0, sum);
    Order<AscendC::HardEvent::S_V>();
#else
    AscendC::ReduceSum(result, values, scratch, count);
#endif
}

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_ARCH_REDUCE_H
