// Lists of pairs of 32-bit words in GM for the scalar unit, which reads or writes a pair of words in UB at once.
#ifndef OPFORGE_OP_KERNEL_COMMON_VECTOR_WORD_PAIRS_H
#define OPFORGE_OP_KERNEL_COMMON_VECTOR_WORD_PAIRS_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/order.h"

namespace opforge {
namespace kernel {

struct WordPair {
    static constexpr int64_t kWords = 2;

    int32_t first;
    int32_t second;
};

/// Returns the pairs of `words` starting at number `pair`.
__aicore__ inline AscendC::GlobalTensor<int32_t> PairsFrom(const AscendC::GlobalTensor<int32_t>& words, int64_t pair)
{
    return words[static_cast<uint64_t>(pair * WordPair::kWords)];
}

/// Reads a list through a window in UB; reads in ascending order are fast.
class PairReader {
public:
    /// `length` in pairs; the window has the size of `buffer`.
    __aicore__ inline void Init(const AscendC::GlobalTensor<int32_t>& source, int64_t length,
                                const AscendC::LocalTensor<int32_t>& buffer)
    {
        source_ = source;
        length_ = length;
        buffer_ = buffer;
        window_ = {0, 0};
    }

    __aicore__ inline WordPair At(int64_t pair)
    {
        if (pair < window_.begin || pair >= window_.end) {
            Load(pair);
        }
        const int64_t both =
            buffer_.template ReinterpretCast<int64_t>().GetValue(static_cast<uint32_t>(pair - window_.begin));
        return {static_cast<int32_t>(both), static_cast<int32_t>(both >> kWordBits)};
    }

private:
    static constexpr int32_t kWordBits = 32;

    __aicore__ inline void Load(int64_t first)
    {
        window_ = {first, Smaller(first + buffer_.GetSize() / WordPair::kWords, length_)};
        AscendC::DataCopyExtParams burst;
        burst.blockLen = static_cast<uint32_t>((window_.end - first) * WordPair::kWords * sizeof(int32_t));
        Order<AscendC::HardEvent::S_MTE2>();
        AscendC::DataCopyPad(buffer_, PairsFrom(source_, first), burst, AscendC::DataCopyPadExtParams<int32_t>());
        Order<AscendC::HardEvent::MTE2_S>();
    }

    AscendC::GlobalTensor<int32_t> source_;
    AscendC::LocalTensor<int32_t> buffer_;
    Span window_;
    int64_t length_ = 0;
};

/// Writes a list pair by pair.
class PairWriter {
public:
    __aicore__ inline void Init(const AscendC::GlobalTensor<int32_t>& target,
                                const AscendC::LocalTensor<int32_t>& buffer)
    {
        target_ = target;
        buffer_ = buffer;
    }

    __aicore__ inline int64_t Count() const { return count_; }

    __aicore__ inline void Add(const WordPair& pair)
    {
        if ((count_ - stored_) * WordPair::kWords == buffer_.GetSize()) {
            Store();
        }
        const int64_t low = static_cast<int64_t>(static_cast<uint32_t>(pair.first));
        const int64_t high = static_cast<int64_t>(static_cast<uint32_t>(pair.second)) << kWordBits;
        buffer_.template ReinterpretCast<int64_t>().SetValue(static_cast<uint32_t>(count_ - stored_), high | low);
        ++count_;
    }

    /// Copies the remaining pairs in UB to GM.
    __aicore__ inline void Store()
    {
        if (count_ > stored_) {
            AscendC::DataCopyExtParams burst;
            burst.blockLen = static_cast<uint32_t>((count_ - stored_) * WordPair::kWords * sizeof(int32_t));
            Order<AscendC::HardEvent::S_MTE3>();
            AscendC::DataCopyPad(PairsFrom(target_, stored_), buffer_, burst);
            Order<AscendC::HardEvent::MTE3_S>();
            stored_ = count_;
        }
    }

private:
    static constexpr int32_t kWordBits = 32;

    AscendC::GlobalTensor<int32_t> target_;
    AscendC::LocalTensor<int32_t> buffer_;
    int64_t count_ = 0;
    int64_t stored_ = 0;
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_VECTOR_WORD_PAIRS_H
