// Sequences of rows and the windows in them.
#ifndef OPFORGE_OP_KERNEL_COMMON_SEQUENCES_H
#define OPFORGE_OP_KERNEL_COMMON_SEQUENCES_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/order.h"

namespace opforge {
namespace kernel {

/// Walks along sequences of rows that follow each other. In each there is a window of `window` rows every `stride`
/// rows, as long as it ends within the sequence; windows are numbered through. A list in GM has the ends of the
/// sequences or their lengths; rows behind its last value, all of them if there is no list, are a sequence too.
class Sequences {
public:
    struct Shape {
        int64_t count;  // values of the list
        bool areLengths;
        int64_t rows;
        int64_t window;
        int64_t stride;
    };

    __aicore__ inline void Init(GM_ADDR list, const Shape& shape, AscendC::TPipe* pipe, int32_t listBytes)
    {
        shape_ = shape;
        list_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(list), static_cast<uint64_t>(shape.count));
        pipe->InitBuffer(pieceBuffer_, static_cast<uint32_t>(listBytes));
        piece_ = pieceBuffer_.Get<int64_t>();
        capacity_ = listBytes / static_cast<int32_t>(sizeof(int64_t));
    }

    /// Goes to the sequence that `row` is in.
    __aicore__ inline void GoTo(int64_t row)
    {
        index_ = -1;
        end_ = 0;
        firstWindow_ = 0;
        windows_ = 0;
        do {
            Next();
        } while (end_ <= row);
    }

    __aicore__ inline void Next()
    {
        ++index_;
        begin_ = end_;
        firstWindow_ += windows_;
        if (index_ >= shape_.count) {
            end_ = shape_.rows;
        } else {
            end_ = shape_.areLengths ? begin_ + Value() : Value();
        }
        const int64_t spare = end_ - begin_ - shape_.window;
        windows_ = spare < 0 ? 0 : spare / shape_.stride + 1;
    }

    /// The rows of the sequence are [Begin(), End()), its windows [FirstWindow(), FirstWindow() + Windows()).
    __aicore__ inline int64_t Begin() const { return begin_; }
    __aicore__ inline int64_t End() const { return end_; }
    __aicore__ inline int64_t FirstWindow() const { return firstWindow_; }
    __aicore__ inline int64_t Windows() const { return windows_; }

    /// The windows of the sequence that have rows in `rows`, counted from its first one.
    __aicore__ inline Span WindowsOn(const Span& rows) const
    {
        const int64_t reach = rows.begin - begin_ - shape_.window + shape_.stride;
        const int64_t first = reach < 0 ? 0 : reach / shape_.stride;
        const int64_t last = CeilDiv(rows.end - begin_, shape_.stride);
        return {Smaller(first, windows_), Smaller(last, windows_)};
    }

private:
    /// The value of the list for the sequence.
    __aicore__ inline int64_t Value()
    {
        if (index_ < pieceBegin_ || index_ >= pieceEnd_) {
            pieceBegin_ = index_;
            pieceEnd_ = Smaller(index_ + capacity_, shape_.count);
            AscendC::DataCopyExtParams burst;
            burst.blockLen = static_cast<uint32_t>((pieceEnd_ - pieceBegin_) * sizeof(int64_t));
            Order<AscendC::HardEvent::S_MTE2>();
            AscendC::DataCopyPad(piece_, list_[static_cast<uint64_t>(pieceBegin_)], burst,
                                 AscendC::DataCopyPadExtParams<int64_t>());
            Order<AscendC::HardEvent::MTE2_S>();
        }
        return piece_.GetValue(static_cast<uint32_t>(index_ - pieceBegin_));
    }

    Shape shape_;
    AscendC::GlobalTensor<int64_t> list_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> pieceBuffer_;
    AscendC::LocalTensor<int64_t> piece_;  // values [pieceBegin_, pieceEnd_) of the list
    int32_t capacity_ = 0;
    int64_t pieceBegin_ = 0;
    int64_t pieceEnd_ = 0;
    int64_t index_ = 0;
    int64_t begin_ = 0;
    int64_t end_ = 0;
    int64_t firstWindow_ = 0;
    int64_t windows_ = 0;
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_SEQUENCES_H
