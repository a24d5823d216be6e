// The indices of a list that are in a range of table rows, in the order of the list.
#ifndef OPFORGE_OP_KERNEL_COMMON_VECTOR_RANGE_SCAN_H
#define OPFORGE_OP_KERNEL_COMMON_VECTOR_RANGE_SCAN_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/order.h"

namespace opforge {
namespace kernel {

/// A comparison of integers by the order of floats. The sum of `offset` and an integer of the range has the bits of a
/// float between `threshold` and infinity. A larger integer becomes NaN or, after an overflow, a negative float; a
/// smaller one becomes a lower float.
struct RangeTest {
    static constexpr int32_t kInfinity = 0x7F800000;

    /// `end` is above 0; a range has at most 2^30 integers.
    __aicore__ inline RangeTest(int64_t begin, int64_t end)
        : offset(static_cast<int32_t>(kInfinity + 1 - end)), first(static_cast<int32_t>(kInfinity + 1 - (end - begin)))
    {
    }

    /// shifted = numbers + change, which is the sum of each integer and `offset`. bits = 1 for the integers of the
    /// range. `count`: a multiple of 64.
    __aicore__ inline void Mark(const AscendC::LocalTensor<uint8_t>& bits, const AscendC::LocalTensor<int32_t>& shifted,
                                const AscendC::LocalTensor<int32_t>& numbers, int64_t change, int64_t count) const
    {
        AscendC::Adds<int32_t>(shifted, numbers, static_cast<int32_t>(change), static_cast<int32_t>(count));
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::CompareScalar(bits, shifted.template ReinterpretCast<float>(), FloatOf(first), AscendC::CMPMODE::GE,
                               static_cast<uint32_t>(count));
        AscendC::PipeBarrier<PIPE_V>();
    }

    /// Returns the float with some bits.
    __aicore__ inline static float FloatOf(int64_t bits)
    {
        union {
            int32_t bits;
            float number;
        } both = {static_cast<int32_t>(bits)};
        return both.number;
    }

    int32_t offset;
    int32_t first;  // the bits of the threshold
};

/// Words of 32 bits: a row of the range above the bits of a position. A word below 0 is a filler.
class RowWords {
public:
    static constexpr int32_t kFiller = -1;
    static constexpr int64_t kLanes = 64;

    __aicore__ inline explicit RowWords(int32_t positionBits) : positionBits_(positionBits) {}

    __aicore__ inline int64_t Row(int32_t word) const { return word >> positionBits_; }
    __aicore__ inline int64_t Position(int32_t word) const { return word & ((int64_t{1} << positionBits_) - 1); }
    __aicore__ inline int64_t FirstOf(int64_t row) const { return row << positionBits_; }
    __aicore__ inline RangeTest TestOf(const Span& rows) const { return {FirstOf(rows.begin), FirstOf(rows.end)}; }
    __aicore__ inline int32_t PositionBits() const { return positionBits_; }

private:
    int32_t positionBits_;
};

/// Scans indices. A sink has Reserve(count), which returns the place for `count` words at a multiple of 32 bytes and 64
/// more lanes, Add(count), EndChunk(), which is called after each chunk, and IsFull(), after which no index is checked.
/// They may exclude rows.
template <typename I>
class RangeScan {
public:
    static constexpr int64_t kChunkWords = 8192;  // words of indices that are loaded together
    static constexpr int64_t kChunkBytes = kChunkWords * 4;
    static constexpr int64_t kWordsPerIndex = static_cast<int64_t>(sizeof(I) / sizeof(int32_t));
    static constexpr int64_t kChunkIndices = kChunkWords / kWordsPerIndex;
    static constexpr int64_t kMaxHits = 1024;  // indices that are converted together

    static constexpr int64_t kMaxExcluded = 16;

    /// The queue has buffers of kChunkBytes, `buffer` has kBufferWords.
    static constexpr int64_t kBufferWords = kChunkWords + 3 * kMaxHits + 2 * kChunkWords / 32;

    __aicore__ inline RangeScan(const AscendC::GlobalTensor<int32_t>& indices, const RowWords& words,
                                const AscendC::LocalTensor<int32_t>& buffer)
        : indices_(indices), words_(words)
    {
        places_ = buffer.template ReinterpretCast<int16_t>();
        hits_ = places_[static_cast<uint32_t>(kChunkWords)];
        positions_ = buffer[static_cast<uint32_t>(kChunkWords)];
        rows_ = positions_[static_cast<uint32_t>(kMaxHits)];
        offsets_ = rows_[static_cast<uint32_t>(kMaxHits)];
        bits_ = offsets_[static_cast<uint32_t>(kMaxHits)].template ReinterpretCast<uint8_t>();
        otherBits_ = bits_[static_cast<uint32_t>(kChunkWords / kBitsPerByte)];
    }

    /// Skips the indices of a table row from now on.
    __aicore__ inline void Exclude(int64_t row)
    {
        excluded_[excludedRows_] = row;
        ++excludedRows_;
    }

    /// Returns the position behind the current chunk.
    __aicore__ inline int64_t Scanned() const { return scanned_; }

    /// Loads the first indices of some positions of the list for Run.
    template <typename Queue>
    __aicore__ inline void Start(const Span& positions, Queue& queue)
    {
        Load(queue, positions.begin, positions.end);
        AscendC::PipeBarrier<PIPE_V>();
        Order<AscendC::HardEvent::V_S>();
        AscendC::CreateVecIndex<int16_t>(places_, int16_t{0}, static_cast<uint32_t>(kChunkWords));
        Order<AscendC::HardEvent::S_V>();
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Muls<int16_t>(places_, places_, static_cast<int16_t>(sizeof(int32_t)),
                               static_cast<int32_t>(kChunkWords));
    }

    /// Frees the indices of Start instead of Run.
    template <typename Queue>
    __aicore__ inline void Stop(Queue& queue)
    {
        AscendC::LocalTensor<int32_t> chunk = queue.template DeQue<int32_t>();
        queue.FreeTensor(chunk);
    }

    /// Adds the words of the indices in `rows` at the positions of Start to `sink`. The rows of the words begin with 0.
    template <typename Queue, typename Sink>
    __aicore__ inline void Run(const Span& rows, const Span& positions, Queue& queue, Sink& sink)
    {
        for (int64_t first = positions.begin; first < positions.end; first += kChunkIndices) {
            if (first + kChunkIndices < positions.end) {
                Load(queue, first + kChunkIndices, positions.end);
            }
            AscendC::LocalTensor<int32_t> chunk = queue.template DeQue<int32_t>();
            const int64_t count = Smaller(kChunkIndices, positions.end - first);
            scanned_ = first + count;
            const int64_t hits = sink.IsFull() ? 0 : Mark(chunk, count, rows);
            for (int64_t done = 0; done < hits && !sink.IsFull(); done += kMaxHits) {
                Convert(chunk, done, Smaller(kMaxHits, hits - done), rows, first, sink);
            }
            queue.FreeTensor(chunk);
            sink.EndChunk();
        }
    }

private:
    static constexpr int64_t kBitsPerByte = 8;
    static constexpr int64_t kBlockWords = 8;
    static constexpr int32_t kOffsetBits = sizeof(I) == sizeof(int32_t) ? 2 : 3;  // of the bytes of an index
    static constexpr uint16_t kLowWords = 0x5555;
    static constexpr int64_t kBitsPerShort = 16;

    template <typename Queue>
    __aicore__ inline void Load(Queue& queue, int64_t first, int64_t end)
    {
        AscendC::LocalTensor<int32_t> chunk = queue.template AllocTensor<int32_t>();
        const int64_t words = Smaller(kChunkIndices, end - first) * kWordsPerIndex;
        AscendC::DataCopyExtParams burst;
        burst.blockLen = static_cast<uint32_t>(words * sizeof(int32_t));
        AscendC::DataCopyPadExtParams<int32_t> padding;
        padding.isPad = words % kBlockWords != 0;
        padding.rightPadding = static_cast<uint8_t>(RoundUp(words, kBlockWords) - words);
        padding.paddingValue = RowWords::kFiller;
        AscendC::DataCopyPad(chunk, indices_[static_cast<uint64_t>(first * kWordsPerIndex)], burst, padding);
        queue.EnQue(chunk);
    }

    /// Stores the places of the words in the chunk whose index is in the range. Returns their number. Adds change_ to
    /// all words of the chunk.
    __aicore__ inline int64_t Mark(const AscendC::LocalTensor<int32_t>& chunk, int64_t indices, const Span& rows)
    {
        const int64_t words = indices * kWordsPerIndex;
        const int64_t count = RoundUp(words, RowWords::kLanes);
        const int64_t loaded = RoundUp(words, kBlockWords);
        if (loaded < count) {
            AscendC::Duplicate<int32_t>(chunk[static_cast<uint32_t>(loaded)], RowWords::kFiller,
                                        static_cast<int32_t>(count - loaded));
            AscendC::PipeBarrier<PIPE_V>();
        }
        const AscendC::LocalTensor<uint16_t> bits = bits_.template ReinterpretCast<uint16_t>();
        const AscendC::LocalTensor<uint16_t> others = otherBits_.template ReinterpretCast<uint16_t>();
        const int32_t shorts = static_cast<int32_t>(count / kBitsPerShort);
        change_ = 0;
        Compare(bits_, chunk, rows, count);
        for (int64_t index = 0; index < excludedRows_; ++index) {
            const int64_t row = excluded_[index];
            if (row >= rows.begin && row < rows.end) {
                AscendC::CompareScalar(otherBits_, chunk.template ReinterpretCast<float>(),
                                       RangeTest::FloatOf(row + change_), AscendC::CMPMODE::NE,
                                       static_cast<uint32_t>(count));
                AscendC::PipeBarrier<PIPE_V>();
                AscendC::And(bits, bits, others, shorts);
                AscendC::PipeBarrier<PIPE_V>();
            }
        }
        if constexpr (kWordsPerIndex > 1) {
            // The index of a low word is in the range if the high word, the next one, is 0.
            Compare(otherBits_, chunk, {0, 1}, count);
            AscendC::ShiftRight<uint16_t>(others, others, 1, shorts);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::And(bits, bits, others, shorts);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Duplicate<uint16_t>(others, kLowWords, shorts);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::And(bits, bits, others, shorts);
            AscendC::PipeBarrier<PIPE_V>();
        }
        AscendC::GatherMaskParams once;
        once.repeatTimes = 1;
        uint64_t hits = 0;
        AscendC::GatherMask(hits_, places_, bits, true, static_cast<uint32_t>(words), once, hits);
        AscendC::PipeBarrier<PIPE_V>();
        return static_cast<int64_t>(hits);
    }

    __aicore__ inline void Compare(const AscendC::LocalTensor<uint8_t>& bits,
                                   const AscendC::LocalTensor<int32_t>& chunk, const Span& rows, int64_t count)
    {
        const RangeTest test(rows.begin, rows.end);
        test.Mark(bits, chunk, chunk, test.offset - change_, count);
        change_ = test.offset;
    }

    /// Adds the words of `count` hits, from number `first` on.
    template <typename Sink>
    __aicore__ inline void Convert(const AscendC::LocalTensor<int32_t>& chunk, int64_t first, int64_t count,
                                   const Span& rows, int64_t firstPosition, Sink& sink)
    {
        const AscendC::LocalTensor<int32_t> target = sink.Reserve(count);
        const AscendC::LocalTensor<float> exact = rows_.template ReinterpretCast<float>();
        const int32_t length = static_cast<int32_t>(count);
        AscendC::Cast(exact, hits_[static_cast<uint32_t>(first)], AscendC::RoundMode::CAST_NONE,
                      static_cast<uint32_t>(count));
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Cast(offsets_, exact, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(count));
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::ShiftRight<int32_t>(positions_, offsets_, kOffsetBits, length);
        const bool isOneRow = Size(rows) == 1;
        if (!isOneRow) {
            AscendC::Gather(rows_, chunk, offsets_.template ReinterpretCast<uint32_t>(), 0,
                            static_cast<uint32_t>(count));
        }
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Adds<int32_t>(isOneRow ? target : positions_, positions_, static_cast<int32_t>(firstPosition), length);
        if (!isOneRow) {
            AscendC::Adds<int32_t>(rows_, rows_, static_cast<int32_t>(-change_ - rows.begin), length);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::ShiftLeft<int32_t>(rows_, rows_, words_.PositionBits(), length);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Add(target, rows_, positions_, length);
        }
        AscendC::PipeBarrier<PIPE_V>();
        sink.Add(count);
    }

    AscendC::GlobalTensor<int32_t> indices_;
    RowWords words_;
    AscendC::LocalTensor<int16_t> places_;  // byte offsets of the words of a chunk
    AscendC::LocalTensor<int16_t> hits_;
    AscendC::LocalTensor<int32_t> positions_;
    AscendC::LocalTensor<int32_t> rows_;
    AscendC::LocalTensor<int32_t> offsets_;
    AscendC::LocalTensor<uint8_t> bits_;
    AscendC::LocalTensor<uint8_t> otherBits_;
    int64_t excluded_[kMaxExcluded];
    int64_t excludedRows_ = 0;
    int64_t scanned_ = 0;
    int64_t change_ = 0;  // what was added to the words of the chunk
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_VECTOR_RANGE_SCAN_H
