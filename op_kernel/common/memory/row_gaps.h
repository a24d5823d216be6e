// Gaps between ascending rows of a table, as a list in GM.
#ifndef OPFORGE_OP_KERNEL_COMMON_MEMORY_ROW_GAPS_H
#define OPFORGE_OP_KERNEL_COMMON_MEMORY_ROW_GAPS_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/memory/search.h"
#include "common/vector/word_pairs.h"

namespace opforge {
namespace kernel {

/// Writes the list of gaps between ascending rows. An entry has the first row of a gap and the number of rows in all
/// earlier gaps.
class GapWriter {
public:
    /// Rows before `firstRow` are not part of a gap.
    __aicore__ inline void Init(const AscendC::GlobalTensor<int32_t>& target,
                                const AscendC::LocalTensor<int32_t>& buffer, int64_t firstRow)
    {
        gaps_.Init(target, buffer);
        next_ = firstRow;
    }

    __aicore__ inline int64_t Gaps() const { return gaps_.Count(); }
    /// Returns the number of rows in all gaps.
    __aicore__ inline int64_t Rows() const { return rows_; }

    /// Marks `row` as not in a gap. It may equal the previous row.
    __aicore__ inline void Touch(int64_t row)
    {
        if (row > next_) {
            gaps_.Add({static_cast<int32_t>(next_), static_cast<int32_t>(rows_)});
            rows_ += row - next_;
        }
        next_ = row + 1;
    }

    __aicore__ inline void Store() { gaps_.Store(); }

private:
    PairWriter gaps_;
    int64_t next_ = 0;  // position after the last row that is not in a gap
    int64_t rows_ = 0;
};

/// Iterates over the rows in the gaps of a list.
class GapReader {
public:
    /// Starts at the row with `before` earlier rows in gaps. `gaps`: length of the list.
    __aicore__ inline void Init(const AscendC::GlobalTensor<int32_t>& source, int64_t gaps, int64_t before,
                                const AscendC::LocalTensor<int32_t>& window,
                                const AscendC::LocalTensor<int32_t>& probes)
    {
        InFrontTest test(source, before, probes);
        gap_ = FirstFailure(test, 0, gaps) - 1;
        gaps_ = gaps;
        before_ = before;
        list_.Init(source, gaps, window);
        current_ = list_.At(gap_);
    }

    /// Returns the next `longest` rows, or the remaining rows of the gap.
    __aicore__ inline Span Next(int64_t longest)
    {
        int64_t limit = before_ + longest;
        const int64_t row = current_.first + before_ - current_.second;
        if (gap_ + 1 < gaps_) {
            const WordPair next = list_.At(gap_ + 1);
            if (next.second <= limit) {
                limit = next.second;
                current_ = next;
                ++gap_;
            }
        }
        const int64_t count = limit - before_;
        before_ = limit;
        return {row, row + count};
    }

private:
    /// True for the gaps with at most `before` rows in earlier gaps.
    class InFrontTest {
    public:
        __aicore__ inline InFrontTest(const AscendC::GlobalTensor<int32_t>& gaps, int64_t before,
                                      const AscendC::LocalTensor<int32_t>& probes)
            : gaps_(gaps), before_(before)
        {
            probes_.Init(probes);
        }
        __aicore__ inline void Load(int64_t gap, int64_t stride, int64_t count)
        {
            probes_.Load(gaps_, gap * WordPair::kWords + 1, stride * WordPair::kWords, count);
        }
        __aicore__ inline bool Holds(int64_t probe) const { return probes_.At(probe) <= before_; }

    private:
        AscendC::GlobalTensor<int32_t> gaps_;
        Probes probes_;
        int64_t before_;
    };

    PairReader list_;
    WordPair current_{0, 0};
    int64_t gap_ = 0;  // index of `current_`
    int64_t gaps_ = 0;
    int64_t before_ = 0;
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_MEMORY_ROW_GAPS_H
