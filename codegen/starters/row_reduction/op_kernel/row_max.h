#ifndef OP_KERNEL_ROW_MAX_H
#define OP_KERNEL_ROW_MAX_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "row_max_tiling_data.h"

namespace opforge {

template <typename T>
class RowMax {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR /*userWorkspace*/, const RowMaxTilingData& tiling,
                                AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        x_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), static_cast<uint64_t>(tiling.rows * tiling.columns));
        y_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), static_cast<uint64_t>(tiling.rows));
        pitch_ = kernel::RoundUp(tiling.tileColumns, kBlock);
        pipe->InitBuffer(tiles_, 2, static_cast<uint32_t>(tiling.tileRows * pitch_) * kSize);
        pipe->InitBuffer(results_, 2, static_cast<uint32_t>(tiling.tileRows * kBlock) * kSize);
        // The result of a tile, then two elements for each repeat of a reduction.
        const int64_t work = kBlock + kernel::RoundUp(2 * kernel::CeilDiv(tiling.tileColumns, kRepeat), kBlock);
        pipe->InitBuffer(workBuffer_, static_cast<uint32_t>(work) * kSize);
    }

    __aicore__ inline void Process()
    {
        const kernel::Span rows = kernel::PartOf(tiling_.rows, tiling_.rowBlocks, AscendC::GetBlockIdx());
        for (int64_t row = rows.begin; row < rows.end; row += tiling_.tileRows) {
            ReduceRows(row, kernel::Smaller(tiling_.tileRows, rows.end - row));
        }
    }

private:
    static constexpr int64_t kBlock = 8;  // elements
    static constexpr int64_t kRepeat = 64;
    static constexpr uint32_t kSize = sizeof(T);

    __aicore__ inline void ReduceRows(int64_t first, int64_t rows)
    {
        AscendC::LocalTensor<T> results = results_.AllocTensor<T>();
        for (int64_t column = 0; column < tiling_.columns; column += tiling_.tileColumns) {
            const int64_t width = kernel::Smaller(tiling_.tileColumns, tiling_.columns - column);
            AscendC::LocalTensor<T> tile = Loaded(first, rows, column, width);
            for (int64_t row = 0; row < rows; ++row) {
                ReduceRow(results[static_cast<uint32_t>(row * kBlock)], tile[static_cast<uint32_t>(row * pitch_)],
                          static_cast<int32_t>(width), column == 0);
            }
            tiles_.FreeTensor(tile);
        }
        results_.EnQue(results);
        results = results_.DeQue<T>();
        AscendC::DataCopyExtParams burst;
        burst.blockCount = static_cast<uint16_t>(rows);
        burst.blockLen = kSize;
        AscendC::DataCopyPad(y_[static_cast<uint64_t>(first)], results, burst);
        results_.FreeTensor(results);
    }

    /// Every result is the first element of a separate block.
    __aicore__ inline void ReduceRow(const AscendC::LocalTensor<T>& result, const AscendC::LocalTensor<T>& row,
                                     int32_t width, bool isFirst)
    {
        const AscendC::LocalTensor<T> work = workBuffer_.Get<T>();
        const AscendC::LocalTensor<T> ofTile = isFirst ? result : work;
        AscendC::ReduceMax<T>(ofTile, row, work[kBlock], width);
        AscendC::PipeBarrier<PIPE_V>();
        if (!isFirst) {
            AscendC::Max(result, result, work, 1);
            AscendC::PipeBarrier<PIPE_V>();
        }
    }

    __aicore__ inline AscendC::LocalTensor<T> Loaded(int64_t first, int64_t rows, int64_t column, int64_t width)
    {
        AscendC::LocalTensor<T> tile = tiles_.AllocTensor<T>();
        AscendC::DataCopyExtParams burst;
        burst.blockCount = static_cast<uint16_t>(rows);
        burst.blockLen = static_cast<uint32_t>(width) * kSize;
        burst.srcStride = static_cast<uint32_t>((tiling_.columns - width)) * kSize;
        burst.dstStride = static_cast<uint32_t>((pitch_ - kernel::RoundUp(width, kBlock)) / kBlock);
        AscendC::DataCopyPadExtParams<T> padding;
        AscendC::DataCopyPad(tile, x_[static_cast<uint64_t>(first * tiling_.columns + column)], burst, padding);
        tiles_.EnQue(tile);
        return tiles_.DeQue<T>();
    }

    RowMaxTilingData tiling_;
    AscendC::GlobalTensor<T> x_;
    AscendC::GlobalTensor<T> y_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> tiles_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> results_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuffer_;
    int64_t pitch_ = 0;
};

}  // namespace opforge

#endif  // OP_KERNEL_ROW_MAX_H
