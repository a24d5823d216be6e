// The rows of a list of indices that one core owns, in the order of the table, for vector units without a sort.
#ifndef OPFORGE_OP_KERNEL_COMMON_ARCH_OWNER_SCAN_H
#define OPFORGE_OP_KERNEL_COMMON_ARCH_OWNER_SCAN_H

#include "common/arch/rows.h"
#include "common/arithmetic.h"
#include "common/order.h"

namespace opforge {
namespace kernel {

/// Scans indices for those in a range of table rows. Vector comparisons give one bit for each word of the list. The
/// scalar unit checks the words whose bit is set, and sorts them by counting. The sort is stable.
template <typename I>
class OwnerScan {
public:
    static constexpr int64_t kMaxHits = 4096;   // indices found by one scan
    static constexpr int64_t kMaxRange = 4096;  // table rows of one scan
    static constexpr int64_t kWords = 4096;     // 32-bit words of indices that are loaded together

    __aicore__ inline void Init(AscendC::TPipe* pipe, const AscendC::GlobalTensor<I>& indices, int64_t length,
                                int64_t padding)
    {
        constexpr uint32_t wordBytes = static_cast<uint32_t>(sizeof(int32_t));
        indices_ = indices;
        length_ = length;
        padding_ = padding;
        pipe->InitBuffer(loadBuffer_, kWords * wordBytes);
        pipe->InitBuffer(offsetBuffer_, kWords * wordBytes);
        pipe->InitBuffer(limitBuffer_, kLimits * kLanes * wordBytes);
        pipe->InitBuffer(bitBuffer_, 2 * kWords / kBitsPerByte);
        pipe->InitBuffer(rowBuffer_, kMaxHits * wordBytes);
        pipe->InitBuffer(hitBuffer_, kMaxHits * wordBytes);
        pipe->InitBuffer(sortedBuffer_, kMaxHits * wordBytes);
        pipe->InitBuffer(endBuffer_, (kMaxRange + 1) * wordBytes);
        loaded_ = loadBuffer_.template Get<int32_t>();
        offsets_ = offsetBuffer_.template Get<int32_t>();
        limits_ = limitBuffer_.template Get<int32_t>();
        bits_ = bitBuffer_.template Get<uint16_t>();
        rows_ = rowBuffer_.template Get<int32_t>();
        hits_ = hitBuffer_.template Get<int32_t>();
        sorted_ = sortedBuffer_.template Get<int32_t>();
        ends_ = endBuffer_.template Get<int32_t>();
        AscendC::Duplicate<int32_t>(loaded_, 0, static_cast<int32_t>(kWords));
        Order<AscendC::HardEvent::V_MTE2>();
    }

    /// Scans the list from position `first` on for rows of `range`, until kMaxHits are found. Returns the position
    /// after the last checked one.
    __aicore__ inline int64_t Scan(const Span& range, int64_t first)
    {
        range_ = range;
        found_ = 0;
        SetLimits();
        while (first < length_) {
            const int64_t count = Smaller(kWords / kWordsPerIndex, length_ - first);
            Order<AscendC::HardEvent::S_MTE2>();
            Order<AscendC::HardEvent::V_MTE2>();
            LoadRows(loaded_.template ReinterpretCast<I>(), indices_, first, {1, count});
            Order<AscendC::HardEvent::MTE2_V>();
            Compare(count);
            const int64_t checked = Collect(first, count);
            first += checked;
            if (checked < count) {
                break;
            }
        }
        return first;
    }

    /// Sorts the found indices by row.
    __aicore__ inline void Sort()
    {
        if (found_ == 0) {
            return;
        }
        const int64_t rows = Size(range_);
        for (int64_t row = 0; row <= rows; ++row) {
            SetWord(ends_, row, 0);
        }
        for (int64_t hit = 0; hit < found_; ++hit) {
            const int64_t next = Word(rows_, hit) + 1;
            SetWord(ends_, next, Word(ends_, next) + 1);
        }
        for (int64_t row = 1; row <= rows; ++row) {
            SetWord(ends_, row, Word(ends_, row) + Word(ends_, row - 1));
        }
        // ends_[row] is the first position of the row; after the loop, it is the end of its positions.
        for (int64_t hit = 0; hit < found_; ++hit) {
            const int64_t row = Word(rows_, hit);
            const int64_t place = Word(ends_, row);
            SetWord(sorted_, place, hit);
            SetWord(ends_, row, place + 1);
        }
    }

    __aicore__ inline int64_t Found() const { return found_; }
    /// Returns the table row of the sorted index `rank`.
    __aicore__ inline int64_t RowAt(int64_t rank) const { return range_.begin + Word(rows_, Word(sorted_, rank)); }
    /// Returns its position in the list.
    __aicore__ inline int64_t PositionAt(int64_t rank) const { return Word(hits_, Word(sorted_, rank)); }

private:
    static constexpr int64_t kWordsPerIndex = static_cast<int64_t>(sizeof(I) / sizeof(int32_t));
    static constexpr int64_t kLanes = 64;
    static constexpr int64_t kBitsPerByte = 8;
    static constexpr uint8_t kRepeatBlocks = 8;
    /// Limits of one repeat each: the first row, the smallest offset, the largest offset.
    enum Limit : int32_t { kFirstRow, kLowest, kHighest, kLimits };

    __aicore__ inline static int64_t Word(const AscendC::LocalTensor<int32_t>& words, int64_t index)
    {
        return words.GetValue(static_cast<uint32_t>(index));
    }
    __aicore__ inline static void SetWord(const AscendC::LocalTensor<int32_t>& words, int64_t index, int64_t value)
    {
        words.SetValue(static_cast<uint32_t>(index), static_cast<int32_t>(value));
    }

    __aicore__ inline AscendC::LocalTensor<int32_t> LimitAt(Limit limit) const
    {
        return limits_[static_cast<uint32_t>(limit * kLanes)];
    }

    __aicore__ inline void SetLimits()
    {
        const int32_t lanes = static_cast<int32_t>(kLanes);
        AscendC::Duplicate<int32_t>(LimitAt(kFirstRow), static_cast<int32_t>(range_.begin), lanes);
        AscendC::Duplicate<float>(LimitAt(kLowest).template ReinterpretCast<float>(), 0.0f, lanes);
        AscendC::Duplicate<float>(LimitAt(kHighest).template ReinterpretCast<float>(),
                                  static_cast<float>(Size(range_) - 1), lanes);
        AscendC::PipeBarrier<PIPE_V>();
    }

    /// Sets one bit for each word whose offset from the first row, as a float, is in the range. Floats of large offsets
    /// are rounded, but not into the range. The other word of a 64-bit index and overflows may set bits, too.
    __aicore__ inline void Compare(int64_t count)
    {
        const uint8_t repeats = static_cast<uint8_t>(CeilDiv(count * kWordsPerIndex, kLanes));
        const uint32_t words = static_cast<uint32_t>(repeats * kLanes);
        const AscendC::BinaryRepeatParams constant(1, 1, 1, kRepeatBlocks, kRepeatBlocks, 0);
        const AscendC::LocalTensor<float> offsets = offsets_.template ReinterpretCast<float>();
        const AscendC::LocalTensor<uint16_t> below = bits_[static_cast<uint32_t>(kWords / kBitsPerWord)];
        AscendC::Sub<int32_t>(offsets_, loaded_, LimitAt(kFirstRow), static_cast<uint64_t>(kLanes), repeats, constant);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Cast(offsets, offsets_, kFromInt32Mode, words);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Compare(bits_.template ReinterpretCast<uint8_t>(), offsets,
                         LimitAt(kLowest).template ReinterpretCast<float>(), AscendC::CMPMODE::GE,
                         static_cast<uint64_t>(kLanes), repeats, constant);
        AscendC::Compare(below.template ReinterpretCast<uint8_t>(), offsets,
                         LimitAt(kHighest).template ReinterpretCast<float>(), AscendC::CMPMODE::LE,
                         static_cast<uint64_t>(kLanes), repeats, constant);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::And(bits_, bits_, below, static_cast<int32_t>(words / kBitsPerWord));
        Order<AscendC::HardEvent::V_S>();
    }

    /// Adds the indices whose bit is set and that are in the range. Returns the number of checked indices.
    __aicore__ inline int64_t Collect(int64_t first, int64_t count)
    {
        const AscendC::LocalTensor<int64_t> bits = bits_.template ReinterpretCast<int64_t>();
        const AscendC::LocalTensor<I> indices = loaded_.template ReinterpretCast<I>();
        const int64_t groups = CeilDiv(count * kWordsPerIndex, kLanes);
        for (int64_t group = 0; group < groups; ++group) {
            uint64_t left = static_cast<uint64_t>(bits.GetValue(static_cast<uint32_t>(group))) & kFirstWords;
            while (left != 0) {
                const int64_t index = (group * kLanes + LowestBit(left)) / kWordsPerIndex;
                left &= left - 1;
                if (index >= count) {
                    break;
                }
                const int64_t row = static_cast<int64_t>(indices.GetValue(static_cast<uint32_t>(index)));
                if (row < range_.begin || row >= range_.end || row == padding_) {
                    continue;
                }
                if (found_ == kMaxHits) {
                    return index;
                }
                SetWord(rows_, found_, row - range_.begin);
                SetWord(hits_, found_, first + index);
                ++found_;
            }
        }
        return count;
    }

    __aicore__ inline static int64_t LowestBit(uint64_t bits)
    {
        int64_t lowest = 0;
        for (int64_t half = kLanes / 2; half > 0; half /= 2) {
            if ((bits & ((uint64_t{1} << half) - 1)) == 0) {
                bits >>= half;
                lowest += half;
            }
        }
        return lowest;
    }

    static constexpr int64_t kBitsPerWord = 16;
    /// The lanes of the low words of indices.
    static constexpr uint64_t kFirstWords = sizeof(I) == sizeof(int32_t) ? ~uint64_t{0} : 0x5555555555555555;

    AscendC::GlobalTensor<I> indices_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> loadBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> offsetBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> limitBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> bitBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> rowBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> hitBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sortedBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> endBuffer_;
    AscendC::LocalTensor<int32_t> loaded_;
    AscendC::LocalTensor<int32_t> offsets_;
    AscendC::LocalTensor<int32_t> limits_;
    AscendC::LocalTensor<uint16_t> bits_;
    AscendC::LocalTensor<int32_t> rows_;
    AscendC::LocalTensor<int32_t> hits_;
    AscendC::LocalTensor<int32_t> sorted_;
    AscendC::LocalTensor<int32_t> ends_;  // by row of the range: the end of its positions in sorted_
    Span range_;
    int64_t length_ = 0;
    int64_t padding_ = -1;
    int64_t found_ = 0;
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_ARCH_OWNER_SCAN_H
