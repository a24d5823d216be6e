// Sums of the rows of a matrix in GM, accumulated as float32 in UB.
#ifndef OPFORGE_OP_KERNEL_COMMON_VECTOR_ROW_SUM_H
#define OPFORGE_OP_KERNEL_COMMON_VECTOR_ROW_SUM_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/vector/offsets.h"

namespace opforge {
namespace kernel {

/// Adds rows, burst by burst, to one running row. The order of the additions depends only on the numbers of rows and
/// columns: pairwise additions inside a burst, then burst after burst.
class RowSum {
public:
    /// Bytes of each buffer. `maskBytes` may be 0 if no packed rows are summed.
    struct Sizes {
        int32_t tileBuffers;
        int32_t tileBytes;
        int32_t sumBytes;
        int32_t maskBytes;
    };

    __aicore__ inline void Init(AscendC::TPipe* pipe, const Sizes& sizes, const AscendC::LocalTensor<float>& work)
    {
        tileBytes_ = sizes.tileBytes;
        work_ = work;
        pipe->InitBuffer(tiles_, static_cast<uint8_t>(sizes.tileBuffers), static_cast<uint32_t>(sizes.tileBytes));
        pipe->InitBuffer(sumBuffer_, static_cast<uint32_t>(sizes.sumBytes));
        sums_ = sumBuffer_.Get<float>();
        sum_ = sums_;
        if (sizes.maskBytes > 0) {
            pipe->InitBuffer(maskBuffer_, static_cast<uint32_t>(sizes.maskBytes));
            masks_ = maskBuffer_.Get<uint8_t>();
        }
    }

    /// Starts a sum of rows of `width` elements of type S. `packedRows` contiguous rows, a multiple of 32 bytes as
    /// floats, form one stretch of the sum; 0: every row starts at a multiple of 32 bytes.
    template <typename S>
    __aicore__ inline void Start(int64_t width, int32_t packedRows)
    {
        LayOut<S>(width, packedRows);
        sum_ = sums_[kept_ * stretch_];
        isEmpty_ = true;
    }

    /// Keeps a sum of packed rows, so that Finish returns it together with the next ones.
    __aicore__ inline void Keep() { ++kept_; }
    __aicore__ inline int32_t Kept() const { return kept_; }

    /// Adds `count` rows; `stride` is the distance of their starts in elements. Packed rows are contiguous.
    template <typename S>
    __aicore__ inline void Add(const AscendC::GlobalTensor<S>& source, int64_t count, int64_t stride)
    {
        const int64_t tileRows = LongestTile(stride, sizeof(S));
        for (int64_t row = 0; row < count; row += tileRows) {
            const int64_t rows = Smaller(tileRows, count - row);
            CopyIn(source[static_cast<uint64_t>(row * stride)], rows, stride);
            AddTile<S>(static_cast<int32_t>(rows) * pitch_);
        }
    }

    /// Sums `groups` groups of `groupRows` contiguous rows of `width` elements each, all in one burst. The sums are
    /// rows of Pitch() elements.
    template <typename S>
    __aicore__ inline void SumGroups(const AscendC::GlobalTensor<S>& source, int32_t groups, int32_t groupRows,
                                     int64_t width)
    {
        LayOut<S>(width, width % kFloatsPerBlock == 0 ? 1 : 0);
        CopyIn(source, groups * groupRows, width);
        const int32_t count = groups * groupRows * pitch_;
        Widen<S>(count, count, count);
        const int32_t groupElements = groupRows * pitch_;
        const uint8_t groupBlocks = static_cast<uint8_t>(groupElements / kFloatsPerBlock);
        const uint8_t rowBlocks = static_cast<uint8_t>(pitch_ / kFloatsPerBlock);
        const uint8_t repeats = static_cast<uint8_t>(groups);
        for (int32_t rows = groupRows; rows > 1; rows -= rows / 2) {
            const int32_t added = rows / 2 * pitch_;
            const int32_t upper = rows * pitch_ - added;
            for (int32_t element = 0; element < added; element += kFloatsPerRepeat) {
                const uint64_t mask = static_cast<uint64_t>(Smaller(kFloatsPerRepeat, added - element));
                AscendC::Add(work_[element], work_[element], work_[upper + element], mask, repeats,
                             {1, 1, 1, groupBlocks, groupBlocks, groupBlocks});
            }
            AscendC::PipeBarrier<PIPE_V>();
        }
        for (int32_t element = 0; element < pitch_; element += kFloatsPerRepeat) {
            const uint64_t mask = static_cast<uint64_t>(Smaller(kFloatsPerRepeat, pitch_ - element));
            AscendC::Copy(sum_[element], work_[element], mask, repeats, {1, 1, rowBlocks, groupBlocks});
        }
        AscendC::PipeBarrier<PIPE_V>();
    }

    /// Returns the elements from one row to the next in UB.
    __aicore__ inline int32_t Pitch() const { return pitch_; }

    /// Returns the sum for vector instructions, in the first `width` elements. Returns all sums one after another if
    /// sums are kept.
    __aicore__ inline AscendC::LocalTensor<float> Finish()
    {
        const int32_t sums = kept_ > 0 ? kept_ : 1;
        kept_ = 0;
        return packedRows_ > 1 ? Folded(sums) : sums_;
    }

private:
    static constexpr int32_t kFloatsPerBlock = 8;
    static constexpr int32_t kFloatsPerRepeat = 64;
    static constexpr int32_t kBankFloats = 128;  // 16 bank groups of 32 bytes
    static constexpr int64_t kMaxBlockCount = 4095;
    template <typename S>
    static constexpr int32_t kElementsPerBlock = static_cast<int32_t>(kUbBlockBytes / sizeof(S));
    static constexpr int64_t kMaxStride = 4294967295;

    /// Adds the rows of each stretch. Row r of all stretches is made contiguous with a mask; then the upper half of the
    /// rows is added to the lower half until one row is left.
    __aicore__ inline AscendC::LocalTensor<float> Folded(int32_t sums)
    {
        MakeMasks();
        AscendC::GatherMaskParams stretches;
        stretches.repeatTimes = static_cast<uint16_t>(sums);
        stretches.src0RepeatStride = static_cast<uint16_t>(stretch_ / kFloatsPerBlock);
        stretches.src1RepeatStride = 0;
        const int32_t part = static_cast<int32_t>(RoundUp(sums * width_, kFloatsPerBlock));
        for (int32_t row = 0; row < packedRows_; ++row) {
            uint64_t kept = 0;
            AscendC::GatherMask(work_[row * part], sums_, MaskOf(row).ReinterpretCast<uint32_t>(), true,
                                static_cast<uint32_t>(stretch_), stretches, kept);
        }
        AscendC::PipeBarrier<PIPE_V>();
        for (int32_t rows = packedRows_ / 2; rows > 0; rows /= 2) {
            for (int32_t row = 0; row < rows; ++row) {
                AscendC::Add(work_[row * part], work_[row * part], work_[(rows + row) * part], sums * width_);
            }
            AscendC::PipeBarrier<PIPE_V>();
        }
        return work_;
    }

    __aicore__ inline AscendC::LocalTensor<uint8_t> MaskOf(int32_t row) const
    {
        const int64_t bytes = RoundUp(RoundUp(stretch_, kFloatsPerRepeat) / 8, kUbBlockBytes);
        return masks_[static_cast<uint32_t>(row * bytes)];
    }

    /// Makes one mask for each packed row, with a bit for each element of a stretch.
    __aicore__ inline void MakeMasks()
    {
        if (maskedWidth_ == width_) {
            return;
        }
        maskedWidth_ = width_;
        const int32_t count = static_cast<int32_t>(RoundUp(stretch_, kFloatsPerRepeat));
        const AscendC::LocalTensor<float> distance = work_[count];
        const float radius = 0.5f * static_cast<float>(width_);
        FillProgression<float>(work_, 0.5f, 1.0f, count);
        for (int32_t row = 0; row < packedRows_; ++row) {
            AscendC::Adds(distance, work_, -radius - static_cast<float>(row * width_), count);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Abs(distance, distance, count);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::CompareScalar(MaskOf(row), distance, radius, AscendC::CMPMODE::LT, static_cast<uint32_t>(count));
            AscendC::PipeBarrier<PIPE_V>();
        }
    }

    template <typename S>
    __aicore__ inline void LayOut(int64_t width, int32_t packedRows)
    {
        constexpr int64_t elementsPerBlock = kUbBlockBytes / static_cast<int64_t>(sizeof(S));
        width_ = static_cast<int32_t>(width);
        packedRows_ = packedRows;
        pitch_ = packedRows > 0 ? width_ : static_cast<int32_t>(RoundUp(width, elementsPerBlock));
        stretch_ = packedRows > 0 ? packedRows * pitch_ : pitch_;
    }

    __aicore__ inline int64_t LongestTile(int64_t stride, int64_t elementBytes) const
    {
        const int64_t fitting = tileBytes_ / (pitch_ * elementBytes);
        if (packedRows_ > 0) {
            return fitting;
        }
        const bool isTooFarApart = (stride - width_) * elementBytes > kMaxStride;
        return isTooFarApart ? 1 : Smaller(fitting, kMaxBlockCount);
    }

    template <typename S>
    __aicore__ inline void CopyIn(const AscendC::GlobalTensor<S>& source, int64_t rows, int64_t stride)
    {
        AscendC::LocalTensor<S> tile = tiles_.AllocTensor<S>();
        AscendC::DataCopyExtParams burst;
        AscendC::DataCopyPadExtParams<S> padding;
        if (packedRows_ > 0) {
            burst.blockLen = static_cast<uint32_t>(rows * width_ * sizeof(S));
        } else {
            burst.blockCount = static_cast<uint16_t>(rows);
            burst.blockLen = static_cast<uint32_t>(width_ * sizeof(S));
            burst.srcStride = rows > 1 ? static_cast<uint32_t>((stride - width_) * sizeof(S)) : 0;
            padding.isPad = pitch_ != width_;
            padding.rightPadding = static_cast<uint8_t>(pitch_ - width_);
        }
        AscendC::DataCopyPad(tile, source, burst, padding);
        tiles_.EnQue(tile);
    }

    template <typename S>
    __aicore__ inline void AddTile(int32_t count)
    {
        const int32_t kept = KeptOf(count);
        if constexpr (sizeof(S) == sizeof(float)) {
            AscendC::LocalTensor<float> tile = tiles_.DeQue<float>();
            Reduce(tile, count, kept, false);
            tiles_.FreeTensor(tile);
        } else {
            // An Add of both halves is faster if they start in different bank groups.
            const int32_t apart =
                static_cast<int32_t>(RoundUp(kept + kFloatsPerRepeat, kBankFloats)) - kFloatsPerRepeat;
            const bool isApart =
                kept < count && kept < apart && apart + count - kept <= static_cast<int32_t>(work_.GetSize());
            const int32_t upper = isApart ? apart : kept;
            Widen<S>(count, kept, upper);
            Reduce(work_, count, upper, true);
        }
    }

    /// Returns the elements of `count` that a step of Reduce keeps: half of the stretches, rounded up.
    __aicore__ inline int32_t KeptOf(int32_t count) const
    {
        return static_cast<int32_t>(CeilDiv(CeilDiv(count, stretch_), 2)) * stretch_;
    }

    /// Copies the next tile to work_ as floats, the elements from `kept` on to `upper`.
    template <typename S>
    __aicore__ inline void Widen(int32_t count, int32_t kept, int32_t upper)
    {
        AscendC::LocalTensor<S> tile = tiles_.DeQue<S>();
        if constexpr (sizeof(S) == sizeof(float)) {
            AscendC::DataCopy(work_, tile, static_cast<uint32_t>(count));
        } else {
            const int32_t lower = kept < upper ? kept : count;
            AscendC::Cast(work_, tile, AscendC::RoundMode::CAST_NONE, static_cast<uint32_t>(lower));
            if (lower < count) {
                // The source starts at a block, so it may begin with the last elements of the lower half.
                const int32_t first = kept / kElementsPerBlock<S> * kElementsPerBlock<S>;
                AscendC::Cast(work_[upper - kept + first], tile[first], AscendC::RoundMode::CAST_NONE,
                              static_cast<uint32_t>(count - first));
            }
        }
        AscendC::PipeBarrier<PIPE_V>();
        tiles_.FreeTensor(tile);
    }

    /// Adds the stretches in `terms` to the sum; the last one may be shorter. The upper half is added to the lower half
    /// until a single stretch is left. The first upper half starts at `upper`. `terms` are in work_ if `isInPlace`.
    __aicore__ inline void Reduce(AscendC::LocalTensor<float> terms, int32_t count, int32_t upper, bool isInPlace)
    {
        while (count > stretch_) {
            const int32_t kept = KeptOf(count);
            const int32_t added = count - kept;
            const bool isFirstSum = isEmpty_ && kept == stretch_;
            const AscendC::LocalTensor<float> result = isFirstSum ? sum_ : work_;
            if (added < kept && (isFirstSum || !isInPlace)) {
                Copy(result, terms, added, kept);
            }
            AscendC::Add(result, terms, terms[upper], added);
            AscendC::PipeBarrier<PIPE_V>();
            if (isFirstSum) {
                isEmpty_ = false;
                return;
            }
            terms = work_;
            isInPlace = true;
            count = kept;
            upper = KeptOf(count);
        }
        if (isEmpty_) {
            Clear();
        }
        Accumulate(terms, count);
    }

    /// Copies the elements that have no counterpart: [first, last) and up to 7 elements before them.
    __aicore__ inline void Copy(const AscendC::LocalTensor<float>& destination,
                                const AscendC::LocalTensor<float>& source, int32_t first, int32_t last)
    {
        const int32_t start = static_cast<int32_t>(RoundDown(first, kFloatsPerBlock));
        AscendC::DataCopy(destination[start], source[start], static_cast<uint32_t>(last - start));
        AscendC::PipeBarrier<PIPE_V>();
    }

    __aicore__ inline void Clear()
    {
        AscendC::Duplicate<float>(sum_, 0.0f, stretch_);
        AscendC::PipeBarrier<PIPE_V>();
        isEmpty_ = false;
    }

    __aicore__ inline void Accumulate(const AscendC::LocalTensor<float>& terms, int32_t count)
    {
        AscendC::Add(sum_, sum_, terms, count);
        AscendC::PipeBarrier<PIPE_V>();
    }

    AscendC::TQue<AscendC::TPosition::VECIN, 1> tiles_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sumBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> maskBuffer_;
    AscendC::LocalTensor<uint8_t> masks_;
    AscendC::LocalTensor<float> work_;
    AscendC::LocalTensor<float> sums_;
    AscendC::LocalTensor<float> sum_;  // the running sum, after the kept ones
    int32_t tileBytes_ = 0;
    int32_t width_ = 0;
    int32_t packedRows_ = 0;
    int32_t pitch_ = 0;    // elements from one row to the next in UB
    int32_t stretch_ = 0;  // elements of the running sum
    int32_t kept_ = 0;
    int32_t maskedWidth_ = 0;  // width for which the masks were made
    bool isEmpty_ = true;      // no rows were added yet
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_VECTOR_ROW_SUM_H
