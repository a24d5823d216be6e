// Sequences of rows and their windows.
#ifndef OPFORGE_OP_KERNEL_NSA_COMPRESS_GRAD_SEQUENCES_H
#define OPFORGE_OP_KERNEL_NSA_COMPRESS_GRAD_SEQUENCES_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/order.h"

namespace opforge {
namespace kernel {

/// Iterates over consecutive sequences of rows. A sequence has a window of `window` rows every `stride` rows, if the
/// window ends within the sequence. Windows are numbered over all sequences. A list in GM has the ends or the lengths
/// of the sequences. The rows after its last value are also a sequence. Without a list, all sequences have one length.
class Sequences {
public:
    struct Shape {
        int64_t count;  // values in the list
        bool areLengths;
        int64_t length;  // rows of a sequence after the list, but at most the remaining rows
        int64_t rows;
        int64_t window;
        int64_t stride;
    };

    /// `work`: scratch memory of 512 bytes and twice `listBytes`.
    __aicore__ inline void Init(GM_ADDR list, const Shape& shape, AscendC::TPipe* pipe, int32_t listBytes,
                                const AscendC::LocalTensor<float>& work)
    {
        shape_ = shape;
        list_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(list), static_cast<uint64_t>(shape.count));
        pipe->InitBuffer(pieceBuffer_, static_cast<uint32_t>(listBytes));
        piece_ = pieceBuffer_.Get<int64_t>();
        capacity_ = listBytes / static_cast<int32_t>(sizeof(int64_t));
        work_ = work;
    }

    /// Moves to the sequence of `row`.
    __aicore__ inline void GoTo(int64_t row)
    {
        index_ = -1;
        end_ = 0;
        firstWindow_ = 0;
        windows_ = 0;
        Next();
        if (shape_.count == 0) {
            SkipEqual(row / end_);
        } else if (end_ <= row && shape_.rows <= kMaxExactRows) {
            SkipBlocks(row);
        }
        while (end_ <= row) {
            Next();
        }
    }

    __aicore__ inline void Next()
    {
        ++index_;
        begin_ = end_;
        firstWindow_ += windows_;
        if (index_ >= shape_.count) {
            end_ = Smaller(begin_ + shape_.length, shape_.rows);
        } else {
            end_ = shape_.areLengths ? begin_ + Value(index_) : Value(index_);
        }
        const int64_t spare = end_ - begin_ - shape_.window;
        windows_ = spare < 0 ? 0 : spare / shape_.stride + 1;
    }

    /// The rows of the sequence are [Begin(), End()), its windows [FirstWindow(), FirstWindow() + Windows()).
    __aicore__ inline int64_t Begin() const { return begin_; }
    __aicore__ inline int64_t End() const { return end_; }
    __aicore__ inline int64_t FirstWindow() const { return firstWindow_; }
    __aicore__ inline int64_t Windows() const { return windows_; }

    /// Returns the windows of the sequence that overlap `rows`, counted from its first one.
    __aicore__ inline Span WindowsOn(const Span& rows) const
    {
        const int64_t reach = rows.begin - begin_ - shape_.window + shape_.stride;
        const int64_t first = reach < 0 ? 0 : reach / shape_.stride;
        const int64_t last = CeilDiv(rows.end - begin_, shape_.stride);
        return {Smaller(first, windows_), Smaller(last, windows_)};
    }

private:
    // Sequences that one repeat of a vector instruction processes.
    static constexpr int32_t kBlock = 64;
    // Up to this value, row numbers and their quotients by a stride of at least 16 are exact as floats.
    static constexpr int64_t kMaxExactRows = int64_t{1} << 24;
    static constexpr int32_t kStrideUnit = 16;  // a divisor of all strides
    static constexpr int32_t kStrideUnitBits = 4;

    __aicore__ inline int64_t Value(int64_t index)
    {
        if (index < pieceBegin_ || index >= pieceEnd_) {
            LoadPiece(index);
        }
        return piece_.GetValue(static_cast<uint32_t>(index - pieceBegin_));
    }

    __aicore__ inline void LoadPiece(int64_t begin)
    {
        pieceBegin_ = begin;
        pieceEnd_ = Smaller(begin + capacity_, shape_.count);
        Order<AscendC::HardEvent::S_MTE2>();
        Load(piece_, begin);
        Order<AscendC::HardEvent::MTE2_S>();
    }

    /// Copies values of the list, starting at `begin`, up to the size of the piece.
    __aicore__ inline void Load(const AscendC::LocalTensor<int64_t>& destination, int64_t begin)
    {
        AscendC::DataCopyExtParams burst;
        burst.blockLen = static_cast<uint32_t>((pieceEnd_ - pieceBegin_) * sizeof(int64_t));
        AscendC::DataCopyPad(destination, list_[static_cast<uint64_t>(begin)], burst,
                             AscendC::DataCopyPadExtParams<int64_t>());
    }

    /// Skips `count` sequences with the length of the current one.
    __aicore__ inline void SkipEqual(int64_t count)
    {
        index_ += count;
        begin_ += count * shape_.length;
        end_ += count * shape_.length;
        firstWindow_ += count * windows_;
    }

    /// Skips blocks of sequences that end at `row` or before; the scalar unit alone would be slower.
    __aicore__ inline void SkipBlocks(int64_t row)
    {
        bool isBefore = true;
        while (isBefore && index_ + kBlock < shape_.count) {
            const int64_t blocks = CountWindows();
            for (int64_t block = 0; block < blocks && isBefore; ++block) {
                isBefore = SkipBlock(block, row);
            }
            Order<AscendC::HardEvent::S_V>();
        }
    }

    __aicore__ inline bool SkipBlock(int64_t block, int64_t row)
    {
        const int64_t end = end_ + static_cast<int64_t>(work_.GetValue(static_cast<uint32_t>(block)));
        if (end > row) {
            return false;
        }
        firstWindow_ += windows_;
        windows_ = static_cast<int64_t>(work_.GetValue(static_cast<uint32_t>(kBlock + block)));
        begin_ = end_;
        end_ = end;
        index_ += kBlock;
        return true;
    }

    /// Loads the piece of the list after the sequence. Counts the rows of each of its blocks, from work_[0], and the
    /// windows, from work_[kBlock].
    __aicore__ inline int64_t CountWindows()
    {
        LoadPiece(index_ + 1);
        const int32_t count = static_cast<int32_t>(pieceEnd_ - pieceBegin_);
        const int32_t blocks = count / kBlock;
        const AscendC::LocalTensor<int32_t> lengths = work_[2 * kBlock].template ReinterpretCast<int32_t>();
        const AscendC::LocalTensor<int32_t> starts = lengths[capacity_];
        AscendC::Cast(lengths, piece_, AscendC::RoundMode::CAST_NONE, static_cast<uint32_t>(count));
        if (!shape_.areLengths) {
            const AscendC::LocalTensor<int64_t> before = starts[capacity_].template ReinterpretCast<int64_t>();
            Order<AscendC::HardEvent::V_MTE2>();
            Load(before, index_);
            Order<AscendC::HardEvent::MTE2_V>();
            AscendC::Cast(starts, before, AscendC::RoundMode::CAST_NONE, static_cast<uint32_t>(count));
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Sub(lengths, lengths, starts, count);
        }
        AscendC::PipeBarrier<PIPE_V>();
        const AscendC::LocalTensor<float> quotients = starts.template ReinterpretCast<float>();
        AscendC::Cast(quotients, lengths, AscendC::RoundMode::CAST_NONE, static_cast<uint32_t>(count));
        AscendC::PipeBarrier<PIPE_V>();
        SumBlocks(work_, quotients, blocks);

        // A sequence has (rows - window + stride) / stride windows, rounded down, and at least 0.
        AscendC::Adds(lengths, lengths, static_cast<int32_t>(shape_.stride - shape_.window), count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Maxs(lengths, lengths, 0, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::ShiftRight(lengths, lengths, kStrideUnitBits, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Cast(quotients, lengths, AscendC::RoundMode::CAST_NONE, static_cast<uint32_t>(count));
        AscendC::PipeBarrier<PIPE_V>();
        // After adding a half, no quotient rounds to a different integer.
        AscendC::Adds(quotients, quotients, 0.5f, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Muls(quotients, quotients, static_cast<float>(kStrideUnit) / static_cast<float>(shape_.stride), count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Cast(quotients, quotients, AscendC::RoundMode::CAST_FLOOR, static_cast<uint32_t>(count));
        AscendC::PipeBarrier<PIPE_V>();
        SumBlocks(work_[kBlock], quotients, blocks);
        Order<AscendC::HardEvent::V_S>();
        return blocks;
    }

    __aicore__ inline static void SumBlocks(const AscendC::LocalTensor<float>& sums,
                                            const AscendC::LocalTensor<float>& terms, int32_t blocks)
    {
        AscendC::WholeReduceSum(sums, terms, kBlock, blocks, 1, 1, 8);
        AscendC::PipeBarrier<PIPE_V>();
    }

    Shape shape_;
    AscendC::GlobalTensor<int64_t> list_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> pieceBuffer_;
    AscendC::LocalTensor<int64_t> piece_;  // values [pieceBegin_, pieceEnd_) of the list
    AscendC::LocalTensor<float> work_;
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

#endif  // OPFORGE_OP_KERNEL_NSA_COMPRESS_GRAD_SEQUENCES_H
