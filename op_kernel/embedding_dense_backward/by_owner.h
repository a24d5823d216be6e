// EmbeddingDenseBackward for vector units without a sort: each core owns a range of table rows and scans all indices
// for them. No core waits for another one. The bits do not depend on the number of cores.
#ifndef OPFORGE_OP_KERNEL_EMBEDDING_DENSE_BACKWARD_BY_OWNER_H
#define OPFORGE_OP_KERNEL_EMBEDDING_DENSE_BACKWARD_BY_OWNER_H

#include "kernel_operator.h"
#include "common/arch/owner_scan.h"
#include "common/arch/row_panel.h"
#include "common/arch/rows.h"
#include "common/arithmetic.h"
#include "common/order.h"
#include "embedding_dense_backward_tiling_data.h"

namespace opforge {

/// T: dtype of grad. I: dtype of indices.
template <typename T, typename I>
class EmbeddingByOwner {
public:
    __aicore__ inline void Init(GM_ADDR grad, GM_ADDR indices, GM_ADDR gradWeight, GM_ADDR,
                                const EmbeddingDenseBackwardTilingData& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        owned_ = kernel::PartOf(tiling.weights, AscendC::GetBlockNum(), AscendC::GetBlockIdx());
        if (tiling.columns == 0 || owned_.begin == owned_.end) {
            owned_ = {0, 0};
            return;
        }
        grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(grad), static_cast<uint64_t>(tiling.rows * tiling.columns));
        AscendC::GlobalTensor<T> output;
        output.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(gradWeight),
                               static_cast<uint64_t>(tiling.weights * tiling.columns));
        AscendC::GlobalTensor<I> list;
        list.SetGlobalBuffer(reinterpret_cast<__gm__ I*>(indices), static_cast<uint64_t>(tiling.rows));
        scan_.Init(pipe, list, tiling.rows, tiling.padding);
        panel_.Init(pipe, tiling.columns, tiling.storeBytes);
        panel_.Use(output, tiling.columns);
        pipe->InitBuffer(tiles_, 2, static_cast<uint32_t>(tiling.tileBytes));
        pipe->InitBuffer(workBuffer_, static_cast<uint32_t>(tiling.workBytes));
        pipe->InitBuffer(carryBuffer_, static_cast<uint32_t>(tiling.carryBytes));
        work_ = workBuffer_.template Get<float>();
        carry_ = carryBuffer_.template Get<float>();
    }

    __aicore__ inline void Process()
    {
        const bool isOneTile = tiling_.columns <= tiling_.tileWidth;
        if (isOneTile) {
            panel_.Begin(owned_, 0, tiling_.columns);
        }
        for (int64_t row = owned_.begin; row < owned_.end;) {
            kernel::Span range = {row, kernel::Smaller(row + Scan::kMaxRange, owned_.end)};
            // Fewer rows have fewer indices. All indices of a single row are summed list by list.
            int64_t next = scan_.Scan(range, 0);
            while (next < tiling_.rows && kernel::Size(range) > 1) {
                range.end = range.begin + kernel::Size(range) / 2;
                next = scan_.Scan(range, 0);
            }
            const bool isWhole = next >= tiling_.rows;
            if (isWhole) {
                scan_.Sort();
            }
            for (Tile tile = TileAt(0); tile.width > 0; tile = TileAt(tile.column + tile.width)) {
                if (!isOneTile) {
                    panel_.Begin(range, tile.column, tile.width);
                }
                SumRange(range, tile, isWhole);
                if (!isOneTile) {
                    panel_.End();
                }
            }
            row = range.end;
        }
        if (isOneTile) {
            panel_.End();
        }
    }

private:
    using Scan = kernel::OwnerScan<I>;
    static constexpr int64_t kMaxBatchRows = 256;

    /// Columns of a tile.
    struct Tile {
        int64_t column;
        int64_t width;
    };

    __aicore__ inline Tile TileAt(int64_t column) const
    {
        const int64_t left = tiling_.columns - column;
        return {column, left == 0 ? 0 : kernel::TileOf(left, tiling_.tileWidth, kernel::kLeastRun<T>)};
    }

    /// Writes the sums of the rows of a range.
    __aicore__ inline void SumRange(const kernel::Span& range, const Tile& tile, bool isWhole)
    {
        pitch_ = kernel::RoundUp(tile.width, kernel::kBlockElements<T>);
        const int64_t elements = kernel::Smaller(tiling_.tileBytes / static_cast<int64_t>(sizeof(T)),
                                                 tiling_.workBytes / static_cast<int64_t>(sizeof(float)));
        batchRows_ = kernel::Smaller(elements / pitch_, kMaxBatchRows);
        runLength_ = 0;
        if (isWhole) {
            SumList(tile);
        } else {
            for (int64_t next = 0; next < tiling_.rows;) {
                next = scan_.Scan(range, next);
                scan_.Sort();
                SumList(tile);
            }
        }
        FinishRun();
    }

    /// Sums the rows of the sorted list in batches; the next batch is loaded before the sums of the current one.
    __aicore__ inline void SumList(const Tile& tile)
    {
        const int64_t found = scan_.Found();
        LoadBatch(0, tile);
        for (int64_t rank = 0; rank < found; rank += batchRows_) {
            LoadBatch(rank + batchRows_, tile);
            SumBatch(rank, kernel::Smaller(batchRows_, found - rank));
        }
    }

    __aicore__ inline void LoadBatch(int64_t rank, const Tile& tile)
    {
        const int64_t count = kernel::Smaller(batchRows_, scan_.Found() - rank);
        if (count <= 0) {
            return;
        }
        AscendC::LocalTensor<T> rows = tiles_.template AllocTensor<T>();
        for (int64_t index = 0; index < count; ++index) {
            kernel::LoadRows(rows[static_cast<uint32_t>(index * pitch_)], grad_,
                             scan_.PositionAt(rank + index) * tiling_.columns + tile.column, {1, tile.width});
        }
        tiles_.EnQue(rows);
    }

    /// Sums the runs of equal rows in a batch. The last run may continue in the next batch.
    __aicore__ inline void SumBatch(int64_t rank, int64_t count)
    {
        AscendC::LocalTensor<T> rows = tiles_.template DeQue<T>();
        const uint32_t elements = static_cast<uint32_t>(count * pitch_);
        if constexpr (sizeof(T) == sizeof(float)) {
            AscendC::DataCopy(work_, rows, elements);
        } else {
            AscendC::Cast(work_, rows, AscendC::RoundMode::CAST_NONE, elements);
        }
        AscendC::PipeBarrier<PIPE_V>();
        tiles_.FreeTensor(rows);
        for (int64_t first = 0; first < count;) {
            const int64_t row = scan_.RowAt(rank + first);
            int64_t next = first + 1;
            while (next < count && scan_.RowAt(rank + next) == row) {
                ++next;
            }
            if (runLength_ > 0 && runRow_ != row) {
                FinishRun();
            }
            const AscendC::LocalTensor<float> sum = SumRows(first, next - first);
            if (runLength_ > 0) {
                AscendC::Add(carry_, carry_, sum, static_cast<int32_t>(pitch_));
            } else {
                AscendC::DataCopy(carry_, sum, static_cast<uint32_t>(pitch_));
            }
            AscendC::PipeBarrier<PIPE_V>();
            runRow_ = row;
            runLength_ += next - first;
            first = next;
        }
    }

    /// Sums rows of work_ into the first of them.
    __aicore__ inline AscendC::LocalTensor<float> SumRows(int64_t first, int64_t count)
    {
        const AscendC::LocalTensor<float> rows = work_[static_cast<uint32_t>(first * pitch_)];
        while (count > 1) {
            const int64_t half = count / 2;
            AscendC::Add(rows, rows, rows[static_cast<uint32_t>((count - half) * pitch_)],
                         static_cast<int32_t>(half * pitch_));
            AscendC::PipeBarrier<PIPE_V>();
            count -= half;
        }
        return rows;
    }

    /// Writes the sum of the current run.
    __aicore__ inline void FinishRun()
    {
        if (runLength_ == 0) {
            return;
        }
        if (tiling_.scale != 0 && runLength_ > 1) {
            AscendC::Muls<float>(carry_, carry_, 1.0f / static_cast<float>(runLength_), static_cast<int32_t>(pitch_));
            AscendC::PipeBarrier<PIPE_V>();
        }
        panel_.Write(runRow_, carry_);
        runLength_ = 0;
    }

    EmbeddingDenseBackwardTilingData tiling_;
    AscendC::GlobalTensor<T> grad_;
    AscendC::TQue<AscendC::TPosition::VECIN, 2> tiles_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> carryBuffer_;
    AscendC::LocalTensor<float> work_;
    AscendC::LocalTensor<float> carry_;
    Scan scan_;
    kernel::RowPanel<T> panel_;
    kernel::Span owned_;  // table rows of this core
    int64_t pitch_ = 0;   // elements from one row to the next in UB
    int64_t batchRows_ = 0;
    int64_t runRow_ = 0;
    int64_t runLength_ = 0;  // summed rows of the current run
};

}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_EMBEDDING_DENSE_BACKWARD_BY_OWNER_H
