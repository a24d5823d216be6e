// Words of GM for the scalar unit, a window of them at a time in UB.
#ifndef OPFORGE_OP_KERNEL_COMMON_GM_WINDOW_H
#define OPFORGE_OP_KERNEL_COMMON_GM_WINDOW_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/order.h"

namespace opforge {
namespace kernel {

/// Cheap as long as words are read in about ascending order.
class GmWindow {
public:
    /// `length` words are there; the window is as large as `buffer`.
    __aicore__ inline void Init(const AscendC::GlobalTensor<int32_t>& source, int64_t length,
                                const AscendC::LocalTensor<int32_t>& buffer)
    {
        source_ = source;
        length_ = length;
        buffer_ = buffer;
        window_ = {0, 0};
    }

    __aicore__ inline int32_t At(int64_t word)
    {
        if (word < window_.begin || word >= window_.end) {
            Load(word);
        }
        return buffer_.GetValue(static_cast<uint32_t>(word - window_.begin));
    }

private:
    __aicore__ inline void Load(int64_t first)
    {
        window_ = {first, Smaller(first + buffer_.GetSize(), length_)};
        AscendC::DataCopyExtParams burst;
        burst.blockLen = static_cast<uint32_t>((window_.end - first) * sizeof(int32_t));
        Order<AscendC::HardEvent::S_MTE2>();
        AscendC::DataCopyPad(buffer_, source_[static_cast<uint64_t>(first)], burst,
                             AscendC::DataCopyPadExtParams<int32_t>());
        Order<AscendC::HardEvent::MTE2_S>();
    }

    AscendC::GlobalTensor<int32_t> source_;
    AscendC::LocalTensor<int32_t> buffer_;
    Span window_;
    int64_t length_ = 0;
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_GM_WINDOW_H
