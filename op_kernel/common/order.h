// Synchronization of two pipes without a queue.
#ifndef OPFORGE_OP_KERNEL_COMMON_ORDER_H
#define OPFORGE_OP_KERNEL_COMMON_ORDER_H

#include "kernel_operator.h"

namespace opforge {
namespace kernel {

/// The second pipe of `event` waits for all earlier instructions of the first pipe.
template <AscendC::HardEvent event>
__aicore__ inline void Order()
{
    const int32_t id = static_cast<int32_t>(GetTPipePtr()->FetchEventID(event));
    AscendC::SetFlag<event>(id);
    AscendC::WaitFlag<event>(id);
}

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_ORDER_H
