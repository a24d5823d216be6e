// Buffers between two pipes in memory that other buffers use at other times.
#ifndef OPFORGE_OP_KERNEL_COMMON_MEMORY_BUFFER_RING_H
#define OPFORGE_OP_KERNEL_COMMON_MEMORY_BUFFER_RING_H

#include "kernel_operator.h"

namespace opforge {
namespace kernel {

/// A queue between two pipes, with the events of its filled and of its free buffers. Its memory belongs to the caller.
/// It has event ids between Open and Close only.
template <int32_t kBuffers, AscendC::HardEvent filled, AscendC::HardEvent freed>
class BufferRing {
public:
    /// `memory` has kBuffers buffers of `bytes`. The second pipe ends its earlier instructions before the
    /// first pipe uses the memory.
    __aicore__ inline void Open(const AscendC::LocalTensor<uint8_t>& memory, uint32_t bytes)
    {
        memory_ = memory;
        bytes_ = bytes;
        allocated_ = 0;
        taken_ = 0;
        returned_ = 0;
        for (int32_t index = 0; index < kBuffers; ++index) {
            filled_[index] = static_cast<int32_t>(GetTPipePtr()->template AllocEventID<filled>());
            freed_[index] = static_cast<int32_t>(GetTPipePtr()->template AllocEventID<freed>());
            AscendC::SetFlag<freed>(freed_[index]);
        }
    }

    /// All buffers are free. The first pipe waits for the second one.
    __aicore__ inline void Close()
    {
        for (int32_t index = 0; index < kBuffers; ++index) {
            AscendC::WaitFlag<freed>(freed_[index]);
            GetTPipePtr()->template ReleaseEventID<filled>(static_cast<int8_t>(filled_[index]));
            GetTPipePtr()->template ReleaseEventID<freed>(static_cast<int8_t>(freed_[index]));
        }
    }

    template <typename T>
    __aicore__ inline AscendC::LocalTensor<T> AllocTensor()
    {
        const int32_t index = allocated_ % kBuffers;
        ++allocated_;
        AscendC::WaitFlag<freed>(freed_[index]);
        return memory_[static_cast<uint32_t>(index) * bytes_].template ReinterpretCast<T>();
    }

    /// The first pipe fills the buffer of the last AllocTensor before the second pipe uses it.
    template <typename T>
    __aicore__ inline void EnQue(const AscendC::LocalTensor<T>&)
    {
        AscendC::SetFlag<filled>(filled_[(allocated_ - 1) % kBuffers]);
    }

    template <typename T>
    __aicore__ inline AscendC::LocalTensor<T> DeQue()
    {
        const int32_t index = taken_ % kBuffers;
        ++taken_;
        AscendC::WaitFlag<filled>(filled_[index]);
        return memory_[static_cast<uint32_t>(index) * bytes_].template ReinterpretCast<T>();
    }

    /// Frees the buffers in the order of DeQue.
    template <typename T>
    __aicore__ inline void FreeTensor(const AscendC::LocalTensor<T>&)
    {
        AscendC::SetFlag<freed>(freed_[returned_ % kBuffers]);
        ++returned_;
    }

private:
    AscendC::LocalTensor<uint8_t> memory_;
    uint32_t bytes_ = 0;
    int32_t allocated_ = 0;
    int32_t taken_ = 0;
    int32_t returned_ = 0;
    int32_t filled_[kBuffers] = {};
    int32_t freed_[kBuffers] = {};
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_MEMORY_BUFFER_RING_H
