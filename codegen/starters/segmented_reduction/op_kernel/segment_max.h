#ifndef OP_KERNEL_SEGMENT_MAX_H
#define OP_KERNEL_SEGMENT_MAX_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/memory/group_ends.h"
#include "segment_max_tiling_data.h"

namespace opforge {

/// T: dtype of x. I: dtype of the ends, which ascend.
template <typename T, typename I>
class SegmentMax {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR ends, GM_ADDR y, GM_ADDR userWorkspace,
                                const SegmentMaxTilingData& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        if (!HasOutput()) {
            return;
        }
        x_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), static_cast<uint64_t>(tiling.rows * tiling.columns));
        y_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), static_cast<uint64_t>(tiling.segments * tiling.columns));
        ends_.SetGlobalBuffer(reinterpret_cast<__gm__ I*>(ends), static_cast<uint64_t>(tiling.segments));
        partials_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(userWorkspace),
                                  static_cast<uint64_t>(2 * tiling.rowBlocks * tiling.partialPitch));
        const uint32_t tileBytes = static_cast<uint32_t>(tiling.tileWidth) * static_cast<uint32_t>(sizeof(T));
        pipe->InitBuffer(rows_, 2, tileBytes);
        pipe->InitBuffer(stores_, 2, tileBytes);
        pipe->InitBuffer(maximumBuffer_, tileBytes);
        pipe->InitBuffer(scratchBuffer_, 5 * kMaxSegments * static_cast<uint32_t>(sizeof(int32_t)));
        segments_.Init(pipe, 32 + kMaxSegments * static_cast<int32_t>(sizeof(int32_t)));
        maximum_ = maximumBuffer_.Get<T>();

        const int64_t block = AscendC::GetBlockIdx();
        rowBlock_ = block / tiling.columnSlices;
        const int64_t first = block % tiling.columnSlices * tiling.sliceWidth;
        columns_ = {first, kernel::Smaller(tiling.columns, first + tiling.sliceWidth)};
    }

    __aicore__ inline void Process()
    {
        if (!HasOutput()) {
            return;
        }
        segments_.Load(ends_, tiling_.segments, tiling_.rows, false, scratchBuffer_.Get<int32_t>());
        used_ = segments_.End(tiling_.segments - 1);
        share_ = kernel::PartOf(used_, tiling_.rowBlocks, rowBlock_);
        for (int64_t column = columns_.begin; column < columns_.end; column += tiling_.tileWidth) {
            WriteEmpty(column);
            ReduceShare(column);
        }
        if (tiling_.rowBlocks > 1) {
            AscendC::SyncAll();
            for (int64_t column = columns_.begin; column < columns_.end; column += tiling_.tileWidth) {
                MergeTail(column);
            }
        }
    }

private:
    static constexpr uint32_t kMaxSegments = 2048;

    __aicore__ inline bool HasOutput() const { return tiling_.segments > 0 && tiling_.columns > 0; }

    __aicore__ inline void WriteEmpty(int64_t column)
    {
        const kernel::Span own = kernel::PartOf(tiling_.segments, tiling_.rowBlocks, rowBlock_);
        for (int64_t segment = own.begin; segment < own.end; ++segment) {
            if (segments_.End(segment) == segments_.Start(segment)) {
                Start(column);
                Store(OutputAt(segment, column), column);
            }
        }
    }

    __aicore__ inline void ReduceShare(int64_t column)
    {
        int64_t row = share_.begin;
        while (row < share_.end) {
            const int64_t segment = segments_.GroupOf(row, 0);
            const int64_t end = kernel::Smaller(segments_.End(segment), share_.end);
            Start(column);
            for (; row < end; ++row) {
                Take(x_[static_cast<uint64_t>(row * tiling_.columns + column)], column);
            }
            if (segments_.Start(segment) < share_.begin) {
                Store(PartialAt(rowBlock_, column), column);
            } else if (segments_.End(segment) > share_.end) {
                Store(PartialAt(tiling_.rowBlocks + rowBlock_, column), column);
            } else {
                Store(OutputAt(segment, column), column);
            }
        }
    }

    /// Merges the segment that begins on this core and ends on another one.
    __aicore__ inline void MergeTail(int64_t column)
    {
        if (share_.begin == share_.end) {
            return;
        }
        const int64_t segment = segments_.GroupOf(share_.end - 1, 0);
        if (segments_.Start(segment) < share_.begin || segments_.End(segment) <= share_.end) {
            return;
        }
        Start(column);
        Take(PartialAt(tiling_.rowBlocks + rowBlock_, column), column);
        const int64_t last = kernel::PartIndexOf(used_, tiling_.rowBlocks, segments_.End(segment) - 1);
        for (int64_t block = rowBlock_ + 1; block <= last; ++block) {
            Take(PartialAt(block, column), column);
        }
        Store(OutputAt(segment, column), column);
    }

    __aicore__ inline uint32_t Width(int64_t column) const
    {
        return static_cast<uint32_t>(kernel::Smaller(tiling_.tileWidth, columns_.end - column));
    }

    __aicore__ inline void Start(int64_t column)
    {
        AscendC::Duplicate<T>(maximum_, -__builtin_huge_valf(), static_cast<int32_t>(Width(column)));
        AscendC::PipeBarrier<PIPE_V>();
    }

    __aicore__ inline void Take(const AscendC::GlobalTensor<T>& source, int64_t column)
    {
        AscendC::LocalTensor<T> row = rows_.AllocTensor<T>();
        AscendC::DataCopyPad(row, source, Burst(column), AscendC::DataCopyPadExtParams<T>());
        rows_.EnQue(row);
        row = rows_.DeQue<T>();
        AscendC::Max(maximum_, maximum_, row, static_cast<int32_t>(Width(column)));
        AscendC::PipeBarrier<PIPE_V>();
        rows_.FreeTensor(row);
    }

    __aicore__ inline void Store(const AscendC::GlobalTensor<T>& destination, int64_t column)
    {
        AscendC::LocalTensor<T> row = stores_.AllocTensor<T>();
        AscendC::Adds<T>(row, maximum_, 0, static_cast<int32_t>(Width(column)));
        AscendC::PipeBarrier<PIPE_V>();
        stores_.EnQue(row);
        row = stores_.DeQue<T>();
        AscendC::DataCopyPad(destination, row, Burst(column));
        stores_.FreeTensor(row);
    }

    __aicore__ inline AscendC::DataCopyExtParams Burst(int64_t column) const
    {
        AscendC::DataCopyExtParams burst;
        burst.blockCount = 1;
        burst.blockLen = Width(column) * static_cast<uint32_t>(sizeof(T));
        return burst;
    }

    __aicore__ inline AscendC::GlobalTensor<T> OutputAt(int64_t segment, int64_t column) const
    {
        return y_[static_cast<uint64_t>(segment * tiling_.columns + column)];
    }

    /// Partial results: first those of the first segment of each row block, then those of the last segment.
    __aicore__ inline AscendC::GlobalTensor<float> PartialAt(int64_t row, int64_t column) const
    {
        return partials_[static_cast<uint64_t>(row * tiling_.partialPitch + column)];
    }

    SegmentMaxTilingData tiling_;
    AscendC::GlobalTensor<T> x_;
    AscendC::GlobalTensor<T> y_;
    AscendC::GlobalTensor<I> ends_;
    AscendC::GlobalTensor<float> partials_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> rows_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> stores_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> maximumBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> scratchBuffer_;
    AscendC::LocalTensor<T> maximum_;
    kernel::Groups<I, true> segments_;
    kernel::Span columns_;  // of this core
    kernel::Span share_;    // of this core
    int64_t rowBlock_ = 0;
    int64_t used_ = 0;
};

}  // namespace opforge

#endif  // OP_KERNEL_SEGMENT_MAX_H
