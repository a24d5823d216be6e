// Arithmetic progressions, for example byte offsets for Gather.
#ifndef OPFORGE_OP_KERNEL_COMMON_OFFSETS_H
#define OPFORGE_OP_KERNEL_COMMON_OFFSETS_H

#include "kernel_operator.h"
#include "common/order.h"

namespace opforge {
namespace kernel {

/// values[i] = first + i * step for `count` elements. The scalar unit writes the first block of a progression. This
/// function waits before and after it, because no CANN version does so for every count.
template <typename T>
__aicore__ inline void FillProgression(const AscendC::LocalTensor<T>& values, T first, T step, int32_t count)
{
    Order<AscendC::HardEvent::V_S>();
    AscendC::ArithProgression<T>(values, first, step, count);
    Order<AscendC::HardEvent::S_V>();
    AscendC::PipeBarrier<PIPE_V>();
}

/// offsets[i] = 4 i for `count` elements.
__aicore__ inline void FillOffsets(const AscendC::LocalTensor<int32_t>& offsets, int32_t count)
{
    FillProgression<int32_t>(offsets, 0, static_cast<int32_t>(sizeof(int32_t)), count);
}

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_OFFSETS_H
