// Sums of the rows of a matrix in GM, accumulated as float32 in UB.
#ifndef OPFORGE_OP_KERNEL_COMMON_ROW_SUM_H
#define OPFORGE_OP_KERNEL_COMMON_ROW_SUM_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/offsets.h"

namespace opforge {
namespace kernel {

/// Adds rows, burst by burst, to one running row. The order of the additions depends only on the numbers of rows and
/// columns: pairwise additions inside a burst, then burst after burst.
class RowSum {
public:
    /// Bytes of each buffer. `offsetBytes` may be 0 if no packed rows are summed.
    struct Sizes {
        int32_t tileBuffers;
        int32_t tileBytes;
        int32_t sumBytes;
        int32_t offsetBytes;
    };

    __aicore__ inline void Init(AscendC::TPipe* pipe, const Sizes& sizes, const AscendC::LocalTensor<float>& work)
    {
        tileBytes_ = sizes.tileBytes;
        work_ = work;
        pipe->InitBuffer(tiles_, static_cast<uint8_t>(sizes.tileBuffers), static_cast<uint32_t>(sizes.tileBytes));
        pipe->InitBuffer(sumBuffer_, static_cast<uint32_t>(sizes.sumBytes));
        sum_ = sumBuffer_.Get<float>();
        if (sizes.offsetBytes > 0) {
            pipe->InitBuffer(offsetBuffer_, static_cast<uint32_t>(sizes.offsetBytes));
            const int32_t offsets = sizes.offsetBytes / static_cast<int32_t>(sizeof(int32_t));
            FillOffsets(offsetBuffer_.Get<int32_t>(), offsets);
        }
    }

    /// Starts a sum of rows of `width` elements of type S. `packedRows` contiguous rows, a multiple of 32 bytes as
    /// floats, form one stretch of the sum; 0: every row starts at a multiple of 32 bytes.
    template <typename S>
    __aicore__ inline void Start(int64_t width, int32_t packedRows)
    {
        LayOut<S>(width, packedRows);
        isEmpty_ = true;
    }

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
        Widen<S>(groups * groupRows * pitch_);
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

    /// Returns the sum for vector instructions, in the first `width` elements.
    __aicore__ inline const AscendC::LocalTensor<float>& Finish()
    {
        for (int32_t rows = packedRows_; rows > 1;) {
            rows /= 2;
            const int32_t count = rows * width_;
            // The upper half may start at any offset, so only Gather can read it.
            AscendC::Gather(work_, sum_, offsetBuffer_.Get<uint32_t>(),
                            static_cast<uint32_t>(count) * static_cast<uint32_t>(sizeof(float)),
                            static_cast<uint32_t>(count));
            AscendC::PipeBarrier<PIPE_V>();
            Accumulate(work_, count);
        }
        return sum_;
    }

private:
    static constexpr int32_t kFloatsPerBlock = 8;
    static constexpr int32_t kFloatsPerRepeat = 64;
    static constexpr int64_t kMaxBlockCount = 4095;
    static constexpr int64_t kMaxStride = 4294967295;

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
        if constexpr (sizeof(S) == sizeof(float)) {
            AscendC::LocalTensor<float> tile = tiles_.DeQue<float>();
            Reduce(tile, count, false);
            tiles_.FreeTensor(tile);
        } else {
            Widen<S>(count);
            Reduce(work_, count, true);
        }
    }

    /// Copies the next tile to work_ as floats.
    template <typename S>
    __aicore__ inline void Widen(int32_t count)
    {
        AscendC::LocalTensor<S> tile = tiles_.DeQue<S>();
        if constexpr (sizeof(S) == sizeof(float)) {
            AscendC::DataCopy(work_, tile, static_cast<uint32_t>(count));
        } else {
            AscendC::Cast(work_, tile, AscendC::RoundMode::CAST_NONE, static_cast<uint32_t>(count));
        }
        AscendC::PipeBarrier<PIPE_V>();
        tiles_.FreeTensor(tile);
    }

    /// Adds the stretches in `terms` to the sum; the last one may be shorter. The upper half is added to the lower half
    /// until a single stretch is left. `terms` are in work_ if `isInPlace`.
    __aicore__ inline void Reduce(AscendC::LocalTensor<float> terms, int32_t count, bool isInPlace)
    {
        while (count > stretch_) {
            const int32_t kept = static_cast<int32_t>(CeilDiv(CeilDiv(count, stretch_), 2)) * stretch_;
            const int32_t added = count - kept;
            const bool isFirstSum = isEmpty_ && kept == stretch_;
            const AscendC::LocalTensor<float> result = isFirstSum ? sum_ : work_;
            if (added < kept && (isFirstSum || !isInPlace)) {
                Copy(result, terms, added, kept);
            }
            AscendC::Add(result, terms, terms[kept], added);
            AscendC::PipeBarrier<PIPE_V>();
            if (isFirstSum) {
                isEmpty_ = false;
                return;
            }
            terms = work_;
            isInPlace = true;
            count = kept;
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
        const int32_t start = first / kFloatsPerBlock * kFloatsPerBlock;
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
    AscendC::TBuf<AscendC::TPosition::VECCALC> offsetBuffer_;
    AscendC::LocalTensor<float> work_;
    AscendC::LocalTensor<float> sum_;
    int32_t tileBytes_ = 0;
    int32_t width_ = 0;
    int32_t packedRows_ = 0;
    int32_t pitch_ = 0;    // elements from one row to the next in UB
    int32_t stretch_ = 0;  // elements of the running sum
    bool isEmpty_ = true;  // no rows were added yet
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_ROW_SUM_H
