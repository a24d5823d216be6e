// EmbeddingDenseBackward: the indices are sorted once. Every core sums an equal number of sorted rows. If a run of
// equal indices has rows of several cores, each core stores a partial sum as float32. After a barrier, the cores merge
// the partial sums in the order of the cores. All cores zero the rows without an index.
#ifndef OPFORGE_OP_KERNEL_EMBEDDING_DENSE_BACKWARD_BY_SORT_H
#define OPFORGE_OP_KERNEL_EMBEDDING_DENSE_BACKWARD_BY_SORT_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/vector/index_sort.h"
#include "common/order.h"
#include "common/memory/row_burst.h"
#include "common/memory/row_gaps.h"
#include "common/vector/word_pairs.h"
#include "embedding_dense_backward_tiling_data.h"

namespace opforge {

/// T: dtype of grad. I: dtype of indices.
template <typename T, typename I>
class EmbeddingBySort {
public:
    __aicore__ inline void Init(GM_ADDR grad, GM_ADDR indices, GM_ADDR gradWeight, GM_ADDR userWorkspace,
                                const EmbeddingDenseBackwardTilingData& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        pipe_ = pipe;
        if (!HasOutput()) {
            return;
        }
        const int64_t block = AscendC::GetBlockIdx();
        rowBlock_ = block / tiling.columnSlices;
        slice_ = block % tiling.columnSlices;
        const int64_t firstColumn = slice_ * tiling.sliceWidth;
        columns_ = {firstColumn, kernel::Smaller(tiling.columns, firstColumn + tiling.sliceWidth)};
        gradWeight_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(gradWeight),
                                    static_cast<uint64_t>(tiling.weights * tiling.columns));
        if (tiling.rows == 0) {
            return;
        }
        grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(grad), static_cast<uint64_t>(tiling.rows * tiling.columns));
        indices_.SetGlobalBuffer(reinterpret_cast<__gm__ I*>(indices), static_cast<uint64_t>(tiling.rows));
        LayOutWorkspace(userWorkspace, block);
    }

    __aicore__ inline void Process()
    {
        if (!HasOutput()) {
            return;
        }
        if (tiling_.rows > 0) {
            Sort();
        }
        InitBuffers();
        if (tiling_.rows == 0) {
            const kernel::Span rows = kernel::PartOf(tiling_.weights, tiling_.rowBlocks, rowBlock_);
            AscendC::LocalTensor<T> zeros = ZeroSource();
            ZeroRows(rows, zeros);
            stores_.FreeTensor(zeros);
            return;
        }
        SumShare();
        ShareRecords();
        ZeroGaps();
        for (Tile tile = FirstTile(); tile.width > 0; tile = NextTile(tile)) {
            MergeBorderRuns(tile);
        }
    }

private:
    /// Columns of a tile.
    struct Tile {
        int64_t column;
        int64_t width;
    };

    /// The record of a row block for the other cores: 32 bytes of workspace.
    enum Field : uint32_t {
        kGaps,        // entries in the list of gaps
        kZeros,       // rows without an index in these gaps
        kHeadLength,  // rows of the run that began in an earlier row block; 0: none
        kTailLength,  // rows of the last run if it continues in the next row block; 0: none
        kTailKey,     // index of this run
        kPasses,      // 1 if the run that began earlier continues in the next row block
        kFields = 8,
    };

    /// Rows of a batch with the same index, before SumRows.
    struct Run {
        int32_t first;
        int32_t rows;
    };

    static constexpr int64_t kElementBytes = static_cast<int64_t>(sizeof(T));
    static constexpr int64_t kMaxGapBytes = 4294967295;
    static constexpr int64_t kMaxBatchRows = 256;
    // The columns of partial sums are merged in pieces of whole sectors.
    static constexpr int64_t kMergeColumns = 64;

    __aicore__ inline bool HasOutput() const { return tiling_.weights > 0 && tiling_.columns > 0; }
    __aicore__ inline int64_t SortBlocks() const { return tiling_.chunk < tiling_.rows ? AscendC::GetBlockNum() : 1; }

    /// Layout: [partial sums][records][gaps][lists of the sort]. A core that sorts alone has separate lists.
    __aicore__ inline void LayOutWorkspace(GM_ADDR userWorkspace, int64_t block)
    {
        const int64_t partialElements = 2 * tiling_.rowBlocks * tiling_.partialPitch;
        partials_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(userWorkspace),
                                  static_cast<uint64_t>(partialElements));
        __gm__ int32_t* words = reinterpret_cast<__gm__ int32_t*>(userWorkspace) + partialElements;
        records_.SetGlobalBuffer(words, static_cast<uint64_t>(tiling_.rowBlocks * kFields));
        words += tiling_.rowBlocks * kFields;
        const int64_t gapWords = (tiling_.rows + tiling_.rowBlocks) * kernel::WordPair::kWords;
        gaps_.SetGlobalBuffer(words, static_cast<uint64_t>(gapWords));
        words += gapWords;
        const int64_t listWords = 2 * tiling_.rows * kernel::WordPair::kWords;
        lists_.SetGlobalBuffer(words + (SortBlocks() > 1 ? 0 : block * listWords), static_cast<uint64_t>(listWords));
    }

    __aicore__ inline void Sort()
    {
        kernel::IndexSort<I> sort;
        sort.Init(pipe_, {tiling_.rows, tiling_.weights, tiling_.padding, tiling_.chunk, SortBlocks()},
                  tiling_.sortBytes, indices_, lists_);
        sorted_ = sort.Run();
        usedRows_ = sort.CountWanted(sorted_);
        share_ = ShareOf(rowBlock_);
        AscendC::PipeBarrier<PIPE_ALL>();
        pipe_->Reset();
    }

    __aicore__ inline void InitBuffers()
    {
        pipe_->InitBuffer(tiles_, static_cast<uint8_t>(tiling_.tileBuffers), static_cast<uint32_t>(tiling_.tileBytes));
        pipe_->InitBuffer(stores_, static_cast<uint8_t>(tiling_.storeBuffers),
                          static_cast<uint32_t>(tiling_.storeBytes));
        pipe_->InitBuffer(workBuffer_, static_cast<uint32_t>(tiling_.workBytes));
        pipe_->InitBuffer(carryBuffer_, static_cast<uint32_t>(tiling_.carryBytes));
        pipe_->InitBuffer(windowBuffer_, static_cast<uint32_t>(tiling_.windowBytes));
        pipe_->InitBuffer(gapBuffer_, static_cast<uint32_t>(tiling_.gapBytes));
        pipe_->InitBuffer(recordBuffer_, static_cast<uint32_t>(tiling_.recordBytes));
        pipe_->InitBuffer(probeBuffer_, static_cast<uint32_t>(tiling_.probeBytes));
        work_ = workBuffer_.template Get<float>();
        carry_ = carryBuffer_.template Get<float>();
        record_ = recordBuffer_.template Get<int32_t>();
    }

    __aicore__ inline Tile FirstTile() const { return TileAt(columns_.begin); }
    __aicore__ inline Tile NextTile(const Tile& tile) const { return TileAt(tile.column + tile.width); }
    __aicore__ inline Tile TileAt(int64_t column) const
    {
        return {column, kernel::Smaller(tiling_.tileWidth, columns_.end - column)};
    }

    __aicore__ inline int32_t CodeAt(int64_t rank) { return entries_.At(rank).first; }
    __aicore__ inline int64_t KeyOf(int32_t code) const { return tiling_.weights - kernel::SortCode::Decode(code); }

    /// Sums the runs of this core and writes the record for the other cores.
    __aicore__ inline void SumShare()
    {
        entries_.Init(sorted_.words, sorted_.length, windowBuffer_.template Get<int32_t>());
        const bool isEmpty = share_.begin == share_.end;
        hasTail_ = !isEmpty && share_.end < usedRows_ && IsOneRun(share_.end - 1);
        const bool hasHead = !isEmpty && share_.begin > 0 && IsOneRun(share_.begin - 1);
        const int64_t firstRow = isEmpty || share_.begin == 0 ? 0 : KeyOf(CodeAt(share_.begin - 1)) + 1;
        gapWriter_.Init(GapsOf(rowBlock_), gapBuffer_.template Get<int32_t>(), firstRow);
        for (Tile tile = FirstTile(); tile.width > 0; tile = NextTile(tile)) {
            LayOutRows<T>(tile.width);
            pending_ = kernel::RowBurst(MaxStride());
            hasHead_ = hasHead;
            isListing_ = slice_ == 0 && tile.column == 0;
            runLength_ = 0;
            for (int64_t rank = share_.begin; rank < share_.end;) {
                const int64_t count = kernel::Smaller(batchRows_, share_.end - rank);
                LoadRows(rank, count, tile);
                SumBatch(rank, count, tile);
                rank += count;
            }
            StorePending(tile);
        }
        if (slice_ == 0) {
            const bool isLast = isEmpty ? usedRows_ == 0 && rowBlock_ == 0 : share_.end == usedRows_;
            if (isLast) {
                gapWriter_.Touch(tiling_.weights);
            }
            gapWriter_.Store();
            StoreRecord();
        }
    }

    /// Returns whether the entry after `rank` has the same index.
    __aicore__ inline bool IsOneRun(int64_t rank)
    {
        const int32_t code = CodeAt(rank);
        return CodeAt(rank + 1) == code;
    }

    /// Returns the elements from one row to the next in UB, and the rows of a batch, for rows of dtype D.
    template <typename D>
    __aicore__ inline void LayOutRows(int64_t width)
    {
        constexpr int64_t bytes = static_cast<int64_t>(sizeof(D));
        pitch_ = kernel::RoundUp(width, kernel::kUbBlockBytes / bytes);
        const int64_t rows = kernel::Smaller(tiling_.tileBytes / (pitch_ * bytes),
                                             tiling_.workBytes / (pitch_ * static_cast<int64_t>(sizeof(float))));
        batchRows_ = kernel::Smaller(rows, kMaxBatchRows);
    }

    /// Starts the load of the rows of `count` sorted entries, and stores their codes.
    __aicore__ inline void LoadRows(int64_t rank, int64_t count, const Tile& tile)
    {
        AscendC::LocalTensor<T> rows = tiles_.AllocTensor<T>();
        kernel::RowBurst burst(MaxStride());
        int64_t slot = 0;
        for (int64_t index = 0; index < count; ++index) {
            const kernel::WordPair entry = entries_.At(rank + index);
            const int64_t row = entry.second;
            codes_[index] = entry.first;
            if (!burst.Take(row)) {
                CopyIn(rows[static_cast<uint32_t>(slot * pitch_)], burst, tile);
                slot += burst.Count();
                burst.Start(row);
            }
        }
        CopyIn(rows[static_cast<uint32_t>(slot * pitch_)], burst, tile);
        tiles_.EnQue(rows);
    }

    __aicore__ inline void CopyIn(const AscendC::LocalTensor<T>& rows, const kernel::RowBurst& burst, const Tile& tile)
    {
        if (burst.Count() == 0) {
            return;
        }
        AscendC::DataCopyExtParams params;
        params.blockCount = static_cast<uint16_t>(burst.Count());
        params.blockLen = static_cast<uint32_t>(tile.width * kElementBytes);
        params.srcStride = GapBytes(burst, tile);
        AscendC::DataCopyPadExtParams<T> padding;
        padding.isPad = pitch_ != tile.width;
        padding.rightPadding = static_cast<uint8_t>(pitch_ - tile.width);
        AscendC::DataCopyPad(rows, grad_[static_cast<uint64_t>(burst.First() * tiling_.columns + tile.column)], params,
                             padding);
    }

    /// Returns the distance in GM from the end of a row of a burst to the start of the next row.
    __aicore__ inline uint32_t GapBytes(const kernel::RowBurst& burst, const Tile& tile) const
    {
        const int64_t gap = (burst.Stride() * tiling_.columns - tile.width) * kElementBytes;
        return burst.Count() > 1 ? static_cast<uint32_t>(gap) : 0;
    }

    /// Copies the next rows to work_ as floats.
    template <typename D>
    __aicore__ inline void Widen(int64_t count)
    {
        AscendC::LocalTensor<D> rows = tiles_.DeQue<D>();
        const uint32_t elements = static_cast<uint32_t>(count * pitch_);
        if constexpr (sizeof(D) == sizeof(float)) {
            AscendC::DataCopy(work_, rows, elements);
        } else {
            AscendC::Cast(work_, rows, AscendC::RoundMode::CAST_NONE, elements);
        }
        AscendC::PipeBarrier<PIPE_V>();
        tiles_.FreeTensor(rows);
    }

    /// Sums the runs in a batch of sorted rows. The last run may continue in the next batch.
    __aicore__ inline void SumBatch(int64_t rank, int64_t count, const Tile& tile)
    {
        Widen<T>(count);
        SumRows(FindRuns(count));
        for (int64_t first = 0, run = 0; first < count; ++run) {
            const int32_t code = codes_[first];
            const int64_t next = runs_[run + 1].first;
            const bool isLast = rank + next == share_.end;
            const bool isWhole = next < count || isLast || CodeAt(rank + next) != code;
            AscendC::LocalTensor<float> sum = RowAt(first);
            if (runLength_ > 0) {
                AscendC::Add(carry_, carry_, sum, static_cast<int32_t>(pitch_));
                AscendC::PipeBarrier<PIPE_V>();
                sum = carry_;
            } else if (!isWhole) {
                // An earlier run of this batch may have used carry_.
                AscendC::PipeBarrier<PIPE_V>();
                AscendC::DataCopy(carry_, sum, static_cast<uint32_t>(pitch_));
                AscendC::PipeBarrier<PIPE_V>();
            }
            runLength_ += next - first;
            if (isWhole) {
                FinishRun(sum, KeyOf(code), isLast, tile);
                runLength_ = 0;
            }
            first = next;
        }
        AscendC::PipeBarrier<PIPE_V>();
    }

    /// Finds the runs of equal codes in a batch; returns their number.
    __aicore__ inline int64_t FindRuns(int64_t count)
    {
        int64_t runs = 0;
        for (int64_t index = 0; index < count; ++index) {
            if (index == 0 || codes_[index] != codes_[index - 1]) {
                runs_[runs] = {static_cast<int32_t>(index), 0};
                ++runs;
            }
            ++runs_[runs - 1].rows;
        }
        runs_[runs] = {static_cast<int32_t>(count), 0};
        return runs;
    }

    __aicore__ inline AscendC::LocalTensor<float> RowAt(int64_t row) const
    {
        return work_[static_cast<uint32_t>(row * pitch_)];
    }

    /// Sums the rows of work_ in each of the first `runs` runs into the first row of the run. One barrier separates the
    /// steps of all runs.
    __aicore__ inline void SumRows(int64_t runs)
    {
        for (bool isSummed = false; !isSummed;) {
            isSummed = true;
            for (int64_t index = 0; index < runs; ++index) {
                Run& run = runs_[index];
                if (run.rows == 1) {
                    continue;
                }
                const int32_t half = run.rows / 2;
                run.rows -= half;
                AscendC::Add(RowAt(run.first), RowAt(run.first), RowAt(run.first + run.rows),
                             static_cast<int32_t>(half * pitch_));
                isSummed = false;
            }
            AscendC::PipeBarrier<PIPE_V>();
        }
    }

    /// Stores the sum of the rows of a run that this core has.
    __aicore__ inline void FinishRun(const AscendC::LocalTensor<float>& sum, int64_t key, bool isLast, const Tile& tile)
    {
        const bool goesOn = isLast && hasTail_;
        if (isListing_) {
            gapWriter_.Touch(key);
        }
        if (hasHead_) {
            Store(PartialsAt(HeadRow(rowBlock_), tile.column), sum, tile.width);
            Note(kHeadLength, runLength_);
            Note(kPasses, goesOn ? 1 : 0);
            hasHead_ = false;
            return;
        }
        if (goesOn) {
            Store(PartialsAt(TailRow(rowBlock_), tile.column), sum, tile.width);
            Note(kTailLength, runLength_);
            Note(kTailKey, key);
        } else {
            Scale(sum, runLength_);
            StoreRun(key, sum, tile);
        }
    }

    /// Adds the sum of a run to the burst of sums that one DMA stores.
    __aicore__ inline void StoreRun(int64_t key, const AscendC::LocalTensor<float>& sum, const Tile& tile)
    {
        const int64_t capacity = kernel::Smaller(tiling_.storeBytes / (pitch_ * kElementBytes), kMaxBatchRows);
        if (pending_.Count() == capacity || !pending_.Take(key)) {
            StorePending(tile);
            pending_.Start(key);
            pendingRows_ = stores_.AllocTensor<T>();
        }
        Narrow(pendingRows_[static_cast<uint32_t>((pending_.Count() - 1) * pitch_)], sum);
    }

    __aicore__ inline void StorePending(const Tile& tile)
    {
        if (pending_.Count() == 0) {
            return;
        }
        stores_.EnQue(pendingRows_);
        pendingRows_ = stores_.DeQue<T>();
        AscendC::DataCopyExtParams params;
        params.blockCount = static_cast<uint16_t>(pending_.Count());
        params.blockLen = static_cast<uint32_t>(tile.width * kElementBytes);
        params.dstStride = GapBytes(pending_, tile);
        AscendC::DataCopyPad(OutputAt(pending_.First(), tile.column), pendingRows_, params);
        stores_.FreeTensor(pendingRows_);
        pending_ = kernel::RowBurst(MaxStride());
    }

    __aicore__ inline int64_t MaxStride() const { return kMaxGapBytes / kElementBytes / tiling_.columns; }

    __aicore__ inline void Scale(const AscendC::LocalTensor<float>& sum, int64_t length)
    {
        if (tiling_.scale != 0 && length > 1) {
            AscendC::Muls<float>(sum, sum, 1.0f / static_cast<float>(length), static_cast<int32_t>(pitch_));
            AscendC::PipeBarrier<PIPE_V>();
        }
    }

    /// Writes `sum` in dtype D. The caller puts a barrier before the next change of `sum`.
    template <typename D>
    __aicore__ inline void Narrow(const AscendC::LocalTensor<D>& row, const AscendC::LocalTensor<float>& sum)
    {
        if constexpr (sizeof(D) == sizeof(float)) {
            AscendC::DataCopy(row, sum, static_cast<uint32_t>(pitch_));
        } else {
            AscendC::Cast(row, sum, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(pitch_));
        }
    }

    /// Writes a row of `width` columns.
    template <typename D>
    __aicore__ inline void Store(const AscendC::GlobalTensor<D>& destination, const AscendC::LocalTensor<float>& sum,
                                 int64_t width)
    {
        AscendC::LocalTensor<D> row = stores_.AllocTensor<D>();
        Narrow(row, sum);
        stores_.EnQue(row);
        row = stores_.DeQue<D>();
        CopyOut(destination, row, width);
        stores_.FreeTensor(row);
    }

    template <typename D>
    __aicore__ inline void CopyOut(const AscendC::GlobalTensor<D>& destination, const AscendC::LocalTensor<D>& source,
                                   int64_t count)
    {
        AscendC::DataCopyExtParams burst;
        burst.blockLen = static_cast<uint32_t>(count * sizeof(D));
        AscendC::DataCopyPad(destination, source, burst);
    }

    __aicore__ inline AscendC::GlobalTensor<int32_t> GapsOf(int64_t rowBlock) const
    {
        return kernel::PairsFrom(gaps_, ShareOf(rowBlock).begin + rowBlock);
    }

    __aicore__ inline void Note(Field field, int64_t value) { noted_[field] = static_cast<int32_t>(value); }

    __aicore__ inline void StoreRecord()
    {
        Note(kGaps, gapWriter_.Gaps());
        Note(kZeros, gapWriter_.Rows());
        for (uint32_t field = 0; field < kFields; ++field) {
            record_.SetValue(field, noted_[field]);
        }
        kernel::Order<AscendC::HardEvent::S_MTE3>();
        CopyOut(records_[static_cast<uint64_t>(rowBlock_ * kFields)], record_, kFields);
    }

    /// Loads the records of all cores.
    __aicore__ inline void ShareRecords()
    {
        if (AscendC::GetBlockNum() > 1) {
            AscendC::SyncAll();
        } else {
            kernel::Order<AscendC::HardEvent::MTE3_MTE2>();
        }
        AscendC::DataCopy(record_, records_, static_cast<uint32_t>(tiling_.rowBlocks * kFields));
        kernel::Order<AscendC::HardEvent::MTE2_S>();
    }

    __aicore__ inline int64_t Recorded(int64_t rowBlock, Field field) const
    {
        return record_.GetValue(static_cast<uint32_t>(rowBlock * kFields) + field);
    }

    /// Merges columns of the runs that this core shares with other cores.
    __aicore__ inline void MergeBorderRuns(const Tile& tile)
    {
        if (Recorded(rowBlock_, kHeadLength) > 0) {
            int64_t first = rowBlock_ - 1;
            while (Recorded(first, kPasses) != 0) {
                --first;
            }
            Merge(first, tile);
        }
        if (Recorded(rowBlock_, kTailLength) > 0) {
            Merge(rowBlock_, tile);
        }
    }

    /// Merges the run that begins in block `first`. Each row block with rows of this run merges one part of the
    /// columns.
    __aicore__ inline void Merge(int64_t first, const Tile& tile)
    {
        int64_t length = Recorded(first, kTailLength);
        int64_t last = first;
        do {
            ++last;
            length += Recorded(last, kHeadLength);
        } while (Recorded(last, kPasses) != 0);
        const int64_t heads = last - first;
        const int64_t piece = kernel::RoundUp(kernel::CeilDiv(tile.width, heads + 1), kMergeColumns);
        const int64_t offset = (rowBlock_ - first) * piece;
        if (offset >= tile.width) {
            return;
        }
        const int64_t column = tile.column + offset;
        const int64_t width = kernel::Smaller(piece, tile.width - offset);
        LayOutRows<float>(width);
        LoadPartials(TailRow(first), 1, column, width);
        Widen<float>(1);
        AscendC::DataCopy(carry_, work_, static_cast<uint32_t>(pitch_));
        AscendC::PipeBarrier<PIPE_V>();
        const bool isTooFarApart = tiling_.partialPitch * static_cast<int64_t>(sizeof(float)) > kMaxGapBytes;
        const int64_t batch = isTooFarApart ? 1 : batchRows_;
        for (int64_t head = 0; head < heads; head += batch) {
            const int64_t count = kernel::Smaller(batch, heads - head);
            LoadPartials(HeadRow(first + 1 + head), count, column, width);
            Widen<float>(count);
            runs_[0] = {0, static_cast<int32_t>(count)};
            SumRows(1);
            AscendC::Add(carry_, carry_, work_, static_cast<int32_t>(pitch_));
            AscendC::PipeBarrier<PIPE_V>();
        }
        Scale(carry_, length);
        Store(OutputAt(Recorded(first, kTailKey), column), carry_, width);
    }

    __aicore__ inline void LoadPartials(int64_t row, int64_t count, int64_t column, int64_t width)
    {
        AscendC::LocalTensor<float> rows = tiles_.AllocTensor<float>();
        AscendC::DataCopyExtParams params;
        params.blockCount = static_cast<uint16_t>(count);
        params.blockLen = static_cast<uint32_t>(width * sizeof(float));
        params.srcStride = count > 1 ? static_cast<uint32_t>((tiling_.partialPitch - width) * sizeof(float)) : 0;
        AscendC::DataCopyPadExtParams<float> padding;
        padding.isPad = pitch_ != width;
        padding.rightPadding = static_cast<uint8_t>(pitch_ - width);
        AscendC::DataCopyPad(rows, PartialsAt(row, column), params, padding);
        tiles_.EnQue(rows);
    }

    /// Zeroes the rows of this core in the gaps.
    __aicore__ inline void ZeroGaps()
    {
        int64_t total = 0;
        for (int64_t block = 0; block < tiling_.rowBlocks; ++block) {
            total += Recorded(block, kZeros);
        }
        kernel::Span part = kernel::PartOf(total, tiling_.rowBlocks, rowBlock_);
        if (part.begin == part.end) {
            return;
        }
        AscendC::LocalTensor<T> zeros = ZeroSource();
        for (int64_t block = 0; part.end > 0; ++block) {
            const int64_t count = Recorded(block, kZeros);
            int64_t left = kernel::Smaller(part.end, count) - part.begin;
            if (left > 0) {
                kernel::GapReader gaps;
                gaps.Init(GapsOf(block), Recorded(block, kGaps), part.begin, windowBuffer_.template Get<int32_t>(),
                          probeBuffer_.template Get<int32_t>());
                while (left > 0) {
                    const kernel::Span rows = gaps.Next(left);
                    ZeroRows(rows, zeros);
                    left -= rows.end - rows.begin;
                }
            }
            part = {kernel::Larger(part.begin - count, 0), part.end - count};
        }
        stores_.FreeTensor(zeros);
    }

    /// Returns an output buffer of zeros. Zero is all bits 0 in every dtype.
    __aicore__ inline AscendC::LocalTensor<T> ZeroSource()
    {
        AscendC::LocalTensor<T> zeros = stores_.AllocTensor<T>();
        AscendC::Duplicate<int32_t>(zeros.template ReinterpretCast<int32_t>(), 0,
                                    tiling_.storeBytes / static_cast<int32_t>(sizeof(int32_t)));
        stores_.EnQue(zeros);
        return stores_.DeQue<T>();
    }

    __aicore__ inline void ZeroRows(const kernel::Span& rows, const AscendC::LocalTensor<T>& zeros)
    {
        const int64_t width = columns_.end - columns_.begin;
        const int64_t longest = tiling_.storeBytes / kElementBytes;
        // Whole rows are contiguous, parts of rows are not.
        const int64_t joined = width == tiling_.columns ? rows.end - rows.begin : 1;
        for (int64_t row = rows.begin; row < rows.end; row += joined) {
            const AscendC::GlobalTensor<T> destination = OutputAt(row, columns_.begin);
            for (int64_t done = 0; done < joined * width; done += longest) {
                CopyOut(destination[static_cast<uint64_t>(done)], zeros,
                        kernel::Smaller(longest, joined * width - done));
            }
        }
    }

    __aicore__ inline kernel::Span ShareOf(int64_t rowBlock) const
    {
        return kernel::PartOf(usedRows_, tiling_.rowBlocks, rowBlock);
    }
    __aicore__ inline AscendC::GlobalTensor<T> OutputAt(int64_t row, int64_t column) const
    {
        return gradWeight_[static_cast<uint64_t>(row * tiling_.columns + column)];
    }
    __aicore__ inline AscendC::GlobalTensor<float> PartialsAt(int64_t row, int64_t column) const
    {
        return partials_[static_cast<uint64_t>(row * tiling_.partialPitch + column)];
    }
    /// Partial sums: first those of the first run of each row block, then those of the last run.
    __aicore__ inline int64_t HeadRow(int64_t rowBlock) const { return rowBlock; }
    __aicore__ inline int64_t TailRow(int64_t rowBlock) const { return tiling_.rowBlocks + rowBlock; }

    EmbeddingDenseBackwardTilingData tiling_;
    AscendC::TPipe* pipe_ = nullptr;
    AscendC::GlobalTensor<T> grad_;
    AscendC::GlobalTensor<I> indices_;
    AscendC::GlobalTensor<T> gradWeight_;
    AscendC::GlobalTensor<int32_t> lists_;
    AscendC::GlobalTensor<int32_t> gaps_;
    AscendC::GlobalTensor<int32_t> records_;
    AscendC::GlobalTensor<float> partials_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> tiles_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> stores_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> carryBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> windowBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> gapBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> recordBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> probeBuffer_;
    AscendC::LocalTensor<float> work_;
    AscendC::LocalTensor<float> carry_;
    AscendC::LocalTensor<int32_t> record_;
    kernel::SortedList sorted_;
    kernel::PairReader entries_;   // reader of the sorted list
    kernel::GapWriter gapWriter_;  // rows before the runs of this core
    kernel::RowBurst pending_{0};  // finished runs that are not stored yet
    AscendC::LocalTensor<T> pendingRows_;
    kernel::Span columns_;  // columns of this core
    kernel::Span share_;    // sorted rows of this core
    int64_t rowBlock_ = 0;
    int64_t slice_ = 0;
    int64_t usedRows_ = 0;
    int64_t pitch_ = 0;  // elements from one row to the next in UB
    int64_t batchRows_ = 0;
    int64_t runLength_ = 0;  // already summed rows of the current run
    int32_t noted_[kFields] = {};
    int32_t codes_[kMaxBatchRows];  // codes of the rows of a batch
    Run runs_[kMaxBatchRows + 1];   // runs of a batch, and the end of the last one
    bool hasHead_ = false;          // the current run began in an earlier share
    bool hasTail_ = false;          // the last run continues in the next row block
    bool isListing_ = false;
};

}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_EMBEDDING_DENSE_BACKWARD_BY_SORT_H
