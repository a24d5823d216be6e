// Starts and ends of groups of rows: from a list in GM, or for groups of equal size.
#ifndef OPFORGE_OP_KERNEL_COMMON_MEMORY_GROUP_ENDS_H
#define OPFORGE_OP_KERNEL_COMMON_MEMORY_GROUP_ENDS_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/order.h"

namespace opforge {
namespace kernel {

/// The groups of an operator: from a list of dtype `I`, or all of equal size.
template <typename I, bool kIsListed>
class Groups;

/// Groups of `rowsPerGroup` rows each.
template <typename I>
class Groups<I, false> {
public:
    __aicore__ inline void Init(int64_t rowsPerGroup) { rowsPerGroup_ = rowsPerGroup; }
    __aicore__ inline bool IsAscending() const { return true; }
    /// Returns the rows of the largest group.
    __aicore__ inline int64_t Longest() const { return rowsPerGroup_; }
    __aicore__ inline int64_t Start(int64_t group) const { return group * rowsPerGroup_; }
    __aicore__ inline int64_t End(int64_t group) const { return (group + 1) * rowsPerGroup_; }
    __aicore__ inline int64_t GroupOf(int64_t unit, int64_t groupUnits) const
    {
        return unit / (groupUnits + rowsPerGroup_);
    }
    __aicore__ inline int64_t NextEmpty(int64_t group, int64_t limit) const
    {
        return rowsPerGroup_ == 0 ? group : limit;
    }

private:
    int64_t rowsPerGroup_ = 0;
};

/// Groups from a list of ends or of lengths. The ends are the running sum of the lengths, clamped to [0, rows]. Group g
/// has the rows from the end of group g - 1 to the end of group g, or none if its end is not larger.
template <typename I>
class Groups<I, true> {
public:
    /// `listBytes`: 32 + 4 n; n is the number of groups rounded up to a power of two, at least 64.
    __aicore__ inline void Init(AscendC::TPipe* pipe, int32_t listBytes)
    {
        pipe->InitBuffer(listBuffer_, static_cast<uint32_t>(listBytes));
        list_ = listBuffer_.Get<int32_t>();
        ends_ = list_[kFront];
        capacity_ = listBytes / static_cast<int32_t>(sizeof(int32_t)) - kFront;
    }

    /// Reads the list. `work`: 5 n integers of scratch.
    __aicore__ inline void Load(const AscendC::GlobalTensor<I>& source, int64_t groups, int64_t rows, bool areLengths,
                                const AscendC::LocalTensor<int32_t>& work)
    {
        groups_ = static_cast<int32_t>(groups);
        rows_ = static_cast<int32_t>(rows);
        raw_ = work;
        sign_ = work[2 * capacity_];
        other_ = work[3 * capacity_];
        mask_ = work[4 * capacity_];

        AscendC::DataCopyExtParams burst;
        burst.blockLen = static_cast<uint32_t>(groups * sizeof(I));
        AscendC::DataCopyPad(raw_.template ReinterpretCast<I>(), source, burst, AscendC::DataCopyPadExtParams<I>());
        AscendC::Duplicate<int32_t>(list_, 0, kFront);
        AscendC::Duplicate<int32_t>(sign_, 0, capacity_);
        Order<AscendC::HardEvent::MTE2_V>();
        AscendC::PipeBarrier<PIPE_V>();

        Clamp();
        if (areLengths) {
            const bool hasNegative = LeastOfSigns() < 0;
            if (hasNegative || rows_ > kMaxSafeRows) {
                SumLengthsExactly();
            } else {
                SumLengths();
            }
        }
        CompareNeighbours();
        FindExtremes();
    }

    __aicore__ inline bool IsAscending() const { return isAscending_; }
    /// Returns the rows of the largest group.
    __aicore__ inline int64_t Longest() const { return longest_; }
    __aicore__ inline int64_t Start(int64_t group) const
    {
        return list_.GetValue(static_cast<uint32_t>(kFront - 1 + group));
    }
    __aicore__ inline int64_t End(int64_t group) const { return ends_.GetValue(static_cast<uint32_t>(group)); }

    /// Returns the group of `unit`, if every group has `groupUnits` units before its rows; the last group for units
    /// after it. Needs ascending ends.
    __aicore__ inline int64_t GroupOf(int64_t unit, int64_t groupUnits) const
    {
        int64_t low = 0;
        int64_t high = groups_ - 1;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (End(middle) + groupUnits * (middle + 1) > unit) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        return low;
    }

    /// Returns the first group without rows in [group, limit), or `limit`.
    __aicore__ inline int64_t NextEmpty(int64_t group, int64_t limit) const
    {
        while (group < limit && End(group) > Start(group)) {
            ++group;
        }
        return group;
    }

private:
    // One block before the ends; its last element is the start of the first group.
    static constexpr int32_t kFront = 8;
    static constexpr int64_t kBitsPerWord = 32;
    // The sum of two clamped lengths up to this value is an int32_t.
    static constexpr int32_t kMaxSafeRows = (1 << 30) - 1;
    static constexpr int64_t kWord = int64_t{1} << 32;
    static constexpr uint8_t kEvenElements = 1;
    static constexpr uint8_t kOddElements = 2;

    /// ends_ = the values clamped to [0, rows]; sign_ = a negative number for negative values, else 0.
    __aicore__ inline void Clamp()
    {
        if constexpr (sizeof(I) == sizeof(int32_t)) {
            AscendC::Mins<int32_t>(sign_, raw_, 0, groups_);
            AscendC::Maxs<int32_t>(ends_, raw_, 0, groups_);
            AscendC::PipeBarrier<PIPE_V>();
        } else {
            SplitWords();
            ClampWords();
        }
        AscendC::Mins<int32_t>(ends_, ends_, rows_, groups_);
        AscendC::PipeBarrier<PIPE_V>();
    }

    /// ends_ = low words, other_ = high words of the 64-bit values.
    __aicore__ inline void SplitWords()
    {
        AscendC::GatherMaskParams once;
        once.repeatTimes = 1;
        uint64_t kept = 0;
        const uint32_t words = static_cast<uint32_t>(2 * groups_);
        AscendC::GatherMask(ends_, raw_, kEvenElements, true, words, once, kept);
        AscendC::GatherMask(other_, raw_, kOddElements, true, words, once, kept);
        AscendC::PipeBarrier<PIPE_V>();
    }

    /// From the words of SplitWords: ends_ = 0 for negative values, at least `rows` for values from 2^31. There is no
    /// 64-bit arithmetic and no 32-bit comparison, so the code clamps values to flags of 0 and 1.
    __aicore__ inline void ClampWords()
    {
        const AscendC::LocalTensor<int32_t>& high = other_;
        const AscendC::LocalTensor<int32_t>& flag = mask_;
        AscendC::Mins<int32_t>(sign_, high, 0, groups_);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Maxs<int32_t>(high, high, 0, groups_);
        AscendC::Mins<int32_t>(flag, ends_, 0, groups_);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Mins<int32_t>(high, high, 1, groups_);
        AscendC::Maxs<int32_t>(flag, flag, -1, groups_);
        AscendC::Maxs<int32_t>(ends_, ends_, 0, groups_);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Sub(high, high, flag, groups_);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Mins<int32_t>(high, high, 1, groups_);
        AscendC::Maxs<int32_t>(flag, sign_, -1, groups_);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Muls<int32_t>(high, high, rows_, groups_);
        AscendC::Adds<int32_t>(flag, flag, 1, groups_);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Max(ends_, ends_, high, groups_);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Mul(ends_, ends_, flag, groups_);
        AscendC::PipeBarrier<PIPE_V>();
    }

    /// Running sum of non-negative lengths by doubling. After the step of `shift`, element g is the sum of 2 * shift
    /// lengths up to its own, clamped to `rows`.
    __aicore__ inline void SumLengths()
    {
        for (int32_t shift = 1; shift < groups_; shift *= 2) {
            if (shift < kFront) {
                // The offset is not a multiple of 32 bytes, so only GatherMask can read it. The elements before the
                // ends are 0.
                Previous(shift);
                AscendC::Add(ends_, ends_, other_, groups_);
            } else {
                AscendC::Adds<int32_t>(other_, ends_, 0, groups_ - shift);
                AscendC::PipeBarrier<PIPE_V>();
                AscendC::Add(ends_[shift], ends_[shift], other_, groups_ - shift);
            }
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Mins<int32_t>(ends_, ends_, rows_, groups_);
            AscendC::PipeBarrier<PIPE_V>();
        }
    }

    /// Running sum of any lengths. The halves of 32 bits are summed separately, because the sum may need more than 64
    /// bits.
    __aicore__ inline void SumLengthsExactly()
    {
        const AscendC::LocalTensor<I> lengths = raw_.template ReinterpretCast<I>();
        int64_t high = 0;
        int64_t low = 0;
        Order<AscendC::HardEvent::V_S>();
        for (uint32_t group = 0; group < static_cast<uint32_t>(groups_); ++group) {
            const int64_t length = lengths.GetValue(group);
            const int64_t lowWord = static_cast<int64_t>(static_cast<uint32_t>(length));
            high += (length - lowWord) / kWord + (low + lowWord) / kWord;
            low = (low + lowWord) % kWord;
            const int64_t end = high < 0 ? 0 : high > 0 ? rows_ : Smaller(low, rows_);
            ends_.SetValue(group, static_cast<int32_t>(end));
        }
        Order<AscendC::HardEvent::S_V>();
    }

    /// other_[g] = the element `shift` positions before ends_[g], for a shift below kFront; destroys mask_.
    __aicore__ inline void Previous(int32_t shift)
    {
        const int32_t first = kFront - shift;
        const uint32_t elements = static_cast<uint32_t>(first + groups_);
        // A mask without the elements before the first one.
        AscendC::Duplicate<int32_t>(mask_, -1, static_cast<int32_t>(CeilDiv(elements, kBitsPerWord)));
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Duplicate<int32_t>(mask_, -(1 << first), 1);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::GatherMaskParams once;
        once.repeatTimes = 1;
        uint64_t kept = 0;
        AscendC::GatherMask(other_, list_, mask_.template ReinterpretCast<uint32_t>(), true, elements, once, kept);
        AscendC::PipeBarrier<PIPE_V>();
    }

    /// sign_[g] = end - start of group g.
    __aicore__ inline void CompareNeighbours()
    {
        Previous(1);
        AscendC::Duplicate<int32_t>(sign_, 0, capacity_);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Sub(sign_, ends_, other_, groups_);
        AscendC::PipeBarrier<PIPE_V>();
    }

    /// From the differences in sign_; destroys sign_ and other_.
    __aicore__ inline void FindExtremes()
    {
        AscendC::Muls<int32_t>(other_, sign_, -1, capacity_);
        AscendC::PipeBarrier<PIPE_V>();
        for (int32_t half = capacity_ / 2; half >= kFront; half /= 2) {
            AscendC::Min(sign_, sign_, sign_[half], half);
            AscendC::Min(other_, other_, other_[half], half);
            AscendC::PipeBarrier<PIPE_V>();
        }
        Order<AscendC::HardEvent::V_S>();
        isAscending_ = LeastOfBlock(sign_) >= 0;
        longest_ = -LeastOfBlock(other_);
        Order<AscendC::HardEvent::S_V>();
    }

    /// Returns the smallest element of sign_, or 0; destroys sign_.
    __aicore__ inline int64_t LeastOfSigns()
    {
        for (int32_t half = capacity_ / 2; half >= kFront; half /= 2) {
            AscendC::Min(sign_, sign_, sign_[half], half);
            AscendC::PipeBarrier<PIPE_V>();
        }
        Order<AscendC::HardEvent::V_S>();
        const int64_t least = LeastOfBlock(sign_);
        Order<AscendC::HardEvent::S_V>();
        return least;
    }

    /// Returns the smallest element of the first block, or 0.
    __aicore__ inline static int64_t LeastOfBlock(const AscendC::LocalTensor<int32_t>& values)
    {
        int64_t least = 0;
        for (uint32_t element = 0; element < static_cast<uint32_t>(kFront); ++element) {
            least = Smaller(least, values.GetValue(element));
        }
        return least;
    }

    AscendC::TBuf<AscendC::TPosition::VECCALC> listBuffer_;
    AscendC::LocalTensor<int32_t> list_;
    AscendC::LocalTensor<int32_t> ends_;
    AscendC::LocalTensor<int32_t> raw_;
    AscendC::LocalTensor<int32_t> sign_;
    AscendC::LocalTensor<int32_t> other_;
    AscendC::LocalTensor<int32_t> mask_;
    int32_t capacity_ = 0;
    int32_t groups_ = 0;
    int32_t rows_ = 0;
    bool isAscending_ = true;
    int64_t longest_ = 0;
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_MEMORY_GROUP_ENDS_H
