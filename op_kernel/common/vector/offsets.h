// Arithmetic progressions.
#ifndef OPFORGE_OP_KERNEL_COMMON_VECTOR_OFFSETS_H
#define OPFORGE_OP_KERNEL_COMMON_VECTOR_OFFSETS_H

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

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_VECTOR_OFFSETS_H
