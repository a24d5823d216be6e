// One buffer for loads that the vector unit reads. On 1001, it does not use the four event ids of queues.
#ifndef OPFORGE_OP_KERNEL_COMMON_ARCH_LOAD_BUFFER_H
#define OPFORGE_OP_KERNEL_COMMON_ARCH_LOAD_BUFFER_H

#include "common/arch/arch.h"
#include "common/order.h"

namespace opforge {
namespace kernel {

class LoadBuffer {
public:
#if OPFORGE_IS_COUPLED
    __aicore__ inline void Init(AscendC::TPipe* pipe, uint32_t bytes) { pipe->InitBuffer(buffer_, bytes); }

    template <typename T>
    __aicore__ inline AscendC::LocalTensor<T> Begin()
    {
        Order<AscendC::HardEvent::V_MTE2>();
        return buffer_.template Get<T>();
    }
    /// Waits for the loads.
    template <typename T>
    __aicore__ inline AscendC::LocalTensor<T> Finish(const AscendC::LocalTensor<T>& loaded)
    {
        Order<AscendC::HardEvent::MTE2_V>();
        return loaded;
    }
    template <typename T>
    __aicore__ inline void Free(AscendC::LocalTensor<T>&)
    {
    }

private:
    AscendC::TBuf<AscendC::TPosition::VECCALC> buffer_;
#else
    __aicore__ inline void Init(AscendC::TPipe* pipe, uint32_t bytes) { pipe->InitBuffer(queue_, 1, bytes); }

    template <typename T>
    __aicore__ inline AscendC::LocalTensor<T> Begin()
    {
        return queue_.template AllocTensor<T>();
    }
    /// Waits for the loads.
    template <typename T>
    __aicore__ inline AscendC::LocalTensor<T> Finish(const AscendC::LocalTensor<T>& loaded)
    {
        queue_.EnQue(loaded);
        return queue_.template DeQue<T>();
    }
    template <typename T>
    __aicore__ inline void Free(AscendC::LocalTensor<T>& loaded)
    {
        queue_.FreeTensor(loaded);
    }

private:
    AscendC::TQue<AscendC::TPosition::VECIN, 1> queue_;
#endif
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_ARCH_LOAD_BUFFER_H
