// Buffers for loads that the vector unit reads, in memory that other buffers use at other times.
#ifndef OPFORGE_OP_KERNEL_COMMON_MEMORY_LOAD_RING_H
#define OPFORGE_OP_KERNEL_COMMON_MEMORY_LOAD_RING_H

#include "kernel_operator.h"

namespace opforge {
namespace kernel {

/// A queue from MTE2 to V. Its memory belongs to the caller. It has event ids between Open and Close only.
template <int32_t kBuffers>
class LoadRing {
public:
    /// `memory` has kBuffers buffers of `bytes`. All earlier instructions of V end before the first load.
    __aicore__ inline void Open(const AscendC::LocalTensor<uint8_t>& memory, uint32_t bytes)
    {
        memory_ = memory;
        bytes_ = bytes;
        allocated_ = 0;
        taken_ = 0;
        freed_ = 0;
        for (int32_t index = 0; index < kBuffers; ++index) {
            loads_[index] = static_cast<int32_t>(GetTPipePtr()->template AllocEventID<AscendC::HardEvent::MTE2_V>());
            frees_[index] = static_cast<int32_t>(GetTPipePtr()->template AllocEventID<AscendC::HardEvent::V_MTE2>());
            AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(frees_[index]);
        }
    }

    /// All buffers are free. V has read them before the next load into this memory.
    __aicore__ inline void Close()
    {
        for (int32_t index = 0; index < kBuffers; ++index) {
            AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(frees_[index]);
            GetTPipePtr()->template ReleaseEventID<AscendC::HardEvent::MTE2_V>(static_cast<int8_t>(loads_[index]));
            GetTPipePtr()->template ReleaseEventID<AscendC::HardEvent::V_MTE2>(static_cast<int8_t>(frees_[index]));
        }
    }

    template <typename T>
    __aicore__ inline AscendC::LocalTensor<T> AllocTensor()
    {
        const int32_t index = allocated_ % kBuffers;
        ++allocated_;
        AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(frees_[index]);
        return memory_[static_cast<uint32_t>(index) * bytes_].template ReinterpretCast<T>();
    }

    /// The buffer of the last AllocTensor is loaded.
    template <typename T>
    __aicore__ inline void EnQue(const AscendC::LocalTensor<T>&)
    {
        AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(loads_[(allocated_ - 1) % kBuffers]);
    }

    template <typename T>
    __aicore__ inline AscendC::LocalTensor<T> DeQue()
    {
        const int32_t index = taken_ % kBuffers;
        ++taken_;
        AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(loads_[index]);
        return memory_[static_cast<uint32_t>(index) * bytes_].template ReinterpretCast<T>();
    }

    /// Frees the buffers in the order of DeQue.
    template <typename T>
    __aicore__ inline void FreeTensor(const AscendC::LocalTensor<T>&)
    {
        AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(frees_[freed_ % kBuffers]);
        ++freed_;
    }

private:
    AscendC::LocalTensor<uint8_t> memory_;
    uint32_t bytes_ = 0;
    int32_t allocated_ = 0;
    int32_t taken_ = 0;
    int32_t freed_ = 0;
    int32_t loads_[kBuffers] = {};
    int32_t frees_[kBuffers] = {};
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_MEMORY_LOAD_RING_H
