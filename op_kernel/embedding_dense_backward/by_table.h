// EmbeddingDenseBackward for narrow rows: each core owns a range of table rows. It scans all indices for them, and adds
// their rows of grad to sums in UB. All cores share the rows of grad of the most frequent table rows.
#ifndef OPFORGE_OP_KERNEL_EMBEDDING_DENSE_BACKWARD_BY_TABLE_H
#define OPFORGE_OP_KERNEL_EMBEDDING_DENSE_BACKWARD_BY_TABLE_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/memory/buffer_ring.h"
#include "common/vector/merge_runs.h"
#include "common/order.h"
#include "common/vector/range_scan.h"
#include "common/memory/row_burst.h"
#include "embedding_dense_backward_tiling_data.h"

namespace opforge {

/// Whether an instruction adds elements of dtype T to floats.
template <typename T>
constexpr bool kAddsToFloats = false;
template <>
constexpr bool kAddsToFloats<half> = true;
template <>
constexpr bool kAddsToFloats<float> = true;

/// T: dtype of grad. I: dtype of indices.
template <typename T, typename I>
class EmbeddingByTable {
public:
    __aicore__ inline void Init(GM_ADDR grad, GM_ADDR indices, GM_ADDR gradWeight, GM_ADDR workspace,
                                const EmbeddingDenseBackwardTilingData& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        words_ = kernel::RowWords(tiling.positionBits);
        block_ = AscendC::GetBlockIdx();
        blocks_ = AscendC::GetBlockNum();
        owned_ = RowsOf(block_);
        grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(grad), static_cast<uint64_t>(tiling.rows * tiling.columns));
        indices_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(indices),
                                 static_cast<uint64_t>(tiling.rows * sizeof(I) / sizeof(int32_t)));
        gradWeight_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(gradWeight),
                                    static_cast<uint64_t>(tiling.weights * tiling.columns));
        LayOutWorkspace(workspace + tiling.tableOffset);
        pipe->InitBuffer(stores_, kStoreBuffers, static_cast<uint32_t>(tiling.tableStoreBytes));
        pipe->InitBuffer(samples_, 1, static_cast<uint32_t>(kSampleRuns * kSampleRun * sizeof(I)));
        const uint32_t listWords = static_cast<uint32_t>(tiling.listWords) + kListTail;
        pipe->InitBuffer(lists_, 2 * (listWords + listWords / kBitsPerWord) * static_cast<uint32_t>(sizeof(int32_t)));
        const AscendC::LocalTensor<int32_t> all = lists_.template Get<int32_t>();
        list_ = all;
        parts_ = all[listWords];
        bits_ = all[2 * listWords].template ReinterpretCast<uint8_t>();
        otherBits_ = bits_[listWords / kBitsPerByte];
        pipe->InitBuffer(buffer_, static_cast<uint32_t>(tiling.tableBytes));
        OpenSearch();
    }

    /// Returns false if the indices are in the ranges of few cores, so that another algorithm is faster.
    __aicore__ inline bool Process()
    {
        Scan scan(indices_, words_, scratch_);
        scan_ = &scan;
        if (tiling_.padding >= 0) {
            scan.Exclude(tiling_.padding);
        }
        LoadSample();
        scan.Start({0, tiling_.rows}, loads_);
        if (IsConcentrated()) {
            scan.Stop(loads_);
            loads_.Close();
            return false;
        }
        scan.Run(owned_, {0, tiling_.rows}, loads_, *this);
        isFull_ = isFull_ || count_ > kMostEvenRows * tiling_.evenRows;
        SplitList();
        loads_.Close();
        OpenSums();
        // The other cores wait for those with frequent rows, which scan longer.
        if (frequentRows_ == 0 && !isFull_) {
            LoadFirstRows();
            AddParts(tiling_.rows / blocks_ * kEarlyShare / kShares);
        }
        StoreRecord();
        kernel::Order<AscendC::HardEvent::V_MTE2>();
        AscendC::SyncAll();
        // The words of list_ are in parts_ now.
        AscendC::DataCopy(list_, records_, static_cast<uint32_t>(blocks_ * kFields));
        if (loadedBatches_ == 0) {
            LoadFirstRows();
        }
        AddParts(tiling_.rows + tiling_.tableRows);
        rows_.Close();
        ReadRecords();
        if (doListsFit_ && sharedRows_ > 0) {
            kernel::Order<AscendC::HardEvent::V_MTE2>();
            OpenSearch();
            SumShared();
            AscendC::SyncAll();
            MergeShared();
            loads_.Close();
        }
        outputs_.Close();
        if (!doListsFit_) {
            AscendC::SyncAll();  // the sort writes the same rows
        }
        return doListsFit_;
    }

    /// Returns the place for words of indices at the end of the list.
    __aicore__ inline AscendC::LocalTensor<int32_t> Reserve(int64_t count)
    {
        if (count_ + count > tiling_.listWords) {
            if (isSharing_) {
                SumList();
            } else {
                ShareFrequentRows();
            }
            if (count_ + count > tiling_.listWords) {
                isFull_ = true;
                count_ = 0;
            }
        }
        FillTail(count_ + count);
        return list_[static_cast<uint32_t>(count_)];
    }
    __aicore__ inline void Add(int64_t count) { count_ = kernel::RoundUp(count_ + count, kBlockWords); }

    /// Returns whether the indices of this core did not fit into the list.
    __aicore__ inline bool IsFull() const { return isFull_; }

    /// Shares rows if this core would have too many indices.
    __aicore__ inline void EndChunk()
    {
        if (isSharing_ || isFull_) {
            return;
        }
        // A core with frequent rows adds none of its rows before the first barrier.
        const int64_t share = frequentRows_ > 0 ? kShares - kEarlyShare : kShares;
        const int64_t even = tiling_.evenRows * share / kShares * scan_->Scanned();
        if (count_ >= 2 * lastCount_ && count_ * tiling_.rows > even) {
            ShareFrequentRows();
        }
        for (int64_t index = 0; index < frequentRows_; ++index) {
            if (!isExcluded_[index] && frequent_[index].begin <= scan_->Scanned()) {
                scan_->Exclude(owned_.begin + frequent_[index].row);
                isExcluded_[index] = true;
            }
        }
    }

private:
    using Scan = kernel::RangeScan<I>;
    template <int32_t kBuffers>
    using Loads = kernel::BufferRing<kBuffers, AscendC::HardEvent::MTE2_V, AscendC::HardEvent::V_MTE2>;

    /// The record of a core for the other cores: a sector.
    enum Field : uint32_t {
        kCount,  // indices that only this core sums, after the barrier; -1: they do not fit into its list
        kRows,   // number of frequent rows
        kFirst,  // frequent rows: the row in its range, the cost of its shared indices, and their first position
        kFields = 32,
    };

    static constexpr int64_t kElementBytes = static_cast<int64_t>(sizeof(T));
    static constexpr int32_t kLoadBuffers = 2;
    static constexpr int32_t kStoreBuffers = 2;
    static constexpr int32_t kRowBuffers = 4;
    static constexpr int64_t kMaxLoadRows = 16;
    static constexpr int64_t kBlockWords = 8;
    static constexpr uint32_t kListTail = 256;  // words behind the list
    static constexpr int32_t kFillers = 72;     // fillers there
    static constexpr uint32_t kBitsPerWord = 32;
    static constexpr uint32_t kBitsPerByte = 8;
    static constexpr int64_t kBitsPerShort = 16;
    static constexpr int64_t kMaxBlocks = 64;
    static constexpr int64_t kMaxTableRows = 512;
    static constexpr int64_t kMaxParts = 128;
    static constexpr int64_t kSecondSums = 8;      // of rows that are often added without a barrier in between
    static constexpr uint8_t kLeastConflicts = 2;  // barriers of such a row before it has a second sum
    static constexpr int64_t kMaxFrequent = 8;     // frequent rows of a range
    static constexpr uint32_t kFrequentFields = 3;
    static constexpr int64_t kPositionsPerRow = 128;  // positions that are scanned in the time of a row
    static constexpr int64_t kStartRows = 100;        // rows of grad that are added in the time to start a sum
    static constexpr int64_t kMostEvenRows = 3;       // a core with more times the indices of others is too slow
    // Rows of grad that a core without frequent rows adds before the first barrier: a part of the mean of all cores.
    static constexpr int64_t kEarlyShare = 2;
    static constexpr int64_t kShares = 8;
    static constexpr int64_t kLeastShare = 4;  // a row is frequent with 1 / kLeastShare of the indices of a core
    static constexpr int64_t kMaxGapBytes = 4294967295;
    // A sample of the list has kPieces pieces of kPieceWords.
    static constexpr int64_t kPieces = 8;
    static constexpr int64_t kPieceWords = 32;
    static constexpr int64_t kSampleWords = kPieces * kPieceWords;
    static constexpr int64_t kProbeStep = 16;
    // A sample of all indices has kSampleRuns times kSampleRun indices, in pieces of kSamplePiece.
    static constexpr uint8_t kEvenElements = 1;
    static constexpr int64_t kSampleRuns = 2;
    static constexpr int64_t kSampleRun = 32;
    static constexpr int64_t kSamplePiece = 8;
    static constexpr int64_t kTailSamples = 4;        // samples of a run that may be outside of the part
    static constexpr int64_t kLeastDistinct = 4;      // otherwise the indices are a few frequent rows
    static constexpr int64_t kConcentratedParts = 4;  // the table / the largest part that counts as small

    /// A row with many indices.
    struct Frequent {
        int32_t row;
        int32_t rows;   // estimated number of its indices; later the cost of the shared ones in rows
        int32_t begin;  // position of the first index that is shared
    };

    __aicore__ inline kernel::Span RowsOf(int64_t block) const
    {
        return kernel::PartOf(tiling_.weights, blocks_, block);
    }

    /// Gives the memory of buffer_ to the search, and to the sums of shared rows.
    __aicore__ inline void OpenSearch()
    {
        scratch_ = buffer_.template Get<int32_t>();
        work_ = scratch_[static_cast<uint32_t>(Scan::kBufferWords)].template ReinterpretCast<float>();
        table_ = work_[static_cast<uint32_t>(tiling_.batchRows * tiling_.columns)];
        loads_.Open(table_[static_cast<uint32_t>(tiling_.columns)].template ReinterpretCast<uint8_t>(),
                    static_cast<uint32_t>(Scan::kChunkBytes));
    }

    /// Gives the memory of buffer_ to the sums of the rows of this core.
    __aicore__ inline void OpenSums()
    {
        const AscendC::LocalTensor<uint8_t> memory = buffer_.template Get<uint8_t>();
        const uint32_t batch = static_cast<uint32_t>(tiling_.loadRows * tiling_.columns);
        const uint32_t bytes = batch * static_cast<uint32_t>(kElementBytes);
        rows_.Open(memory, bytes);
        work_ = memory[static_cast<uint32_t>(kRowBuffers) * bytes].template ReinterpretCast<float>();
        table_ = work_[kAddsToFloats<T> ? 0 : batch];
        const uint32_t output = static_cast<uint32_t>(OutputRows() * tiling_.columns * kElementBytes);
        outputs_.Open(memory[static_cast<uint32_t>(tiling_.tableBytes) - kStoreBuffers * output], output);
    }

    /// Layout: [records][sums of the parts of the shared rows].
    __aicore__ inline void LayOutWorkspace(GM_ADDR workspace)
    {
        __gm__ int32_t* words = reinterpret_cast<__gm__ int32_t*>(workspace);
        records_.SetGlobalBuffer(words, static_cast<uint64_t>(blocks_ * kFields));
        words += blocks_ * kFields;
        partials_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(words),
                                  static_cast<uint64_t>((2 * kMaxFrequent + 1) * blocks_ * tiling_.columns));
    }

    /// Loads a sample of all indices. The pieces of a run are from all parts of the list.
    __aicore__ inline void LoadSample()
    {
        constexpr int64_t words = static_cast<int64_t>(sizeof(I) / sizeof(int32_t));
        constexpr int64_t pieces = kSampleRun / kSamplePiece;
        const int64_t distance = kernel::RoundDown(tiling_.rows / pieces / kSampleRuns, kSamplePiece);
        AscendC::LocalTensor<int32_t> sample = samples_.template AllocTensor<int32_t>();
        AscendC::DataCopyExtParams params;
        params.blockCount = static_cast<uint16_t>(pieces);
        params.blockLen = static_cast<uint32_t>(kSamplePiece * sizeof(I));
        params.srcStride = static_cast<uint32_t>((kSampleRuns * distance - kSamplePiece) * sizeof(I));
        for (int64_t run = 0; run < kSampleRuns; ++run) {
            AscendC::DataCopyPad(sample[static_cast<uint32_t>(run * kSampleRun * words)],
                                 indices_[static_cast<uint64_t>(run * distance * words)], params,
                                 AscendC::DataCopyPadExtParams<int32_t>());
        }
        samples_.EnQue(sample);
    }

    /// Returns whether most indices are in a small part of the table, but not in a few rows. All cores have the same
    /// sample.
    __aicore__ inline bool IsConcentrated()
    {
        constexpr int64_t words = static_cast<int64_t>(sizeof(I) / sizeof(int32_t));
        constexpr int64_t count = kSampleRuns * kSampleRun;
        AscendC::LocalTensor<int32_t> sample = samples_.template DeQue<int32_t>();
        const AscendC::LocalTensor<int32_t> lows = parts_;
        const AscendC::LocalTensor<float> rows = parts_[static_cast<uint32_t>(count)].template ReinterpretCast<float>();
        const AscendC::LocalTensor<float> runs =
            parts_[static_cast<uint32_t>(2 * count)].template ReinterpretCast<float>();
        if constexpr (words > 1) {
            AscendC::GatherMaskParams once;
            once.repeatTimes = 1;
            uint64_t kept = 0;
            AscendC::GatherMask(lows, sample, kEvenElements, true, static_cast<uint32_t>(count * words), once, kept);
        } else {
            AscendC::DataCopy(lows, sample, static_cast<uint32_t>(count));
        }
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Cast(rows, lows, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(count));
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Sort32<float>(runs, rows, lows.template ReinterpretCast<uint32_t>(),
                               static_cast<int32_t>(kSampleRuns));
        samples_.FreeTensor(sample);
        kernel::Order<AscendC::HardEvent::V_S>();
        bool isConcentrated = true;
        for (int64_t run = 0; run < kSampleRuns; ++run) {
            const int64_t first = run * kSampleRun + kTailSamples;
            const float highest = runs.GetValue(static_cast<uint32_t>(2 * first));
            float last = highest;
            int64_t distinct = 1;
            for (int64_t next = kTailSamples; next <= kSampleRun - 2 * kTailSamples; next += kTailSamples) {
                const float row = runs.GetValue(static_cast<uint32_t>(2 * (first + next)));
                distinct += row < last ? 1 : 0;
                last = row;
            }
            const float part = static_cast<float>(tiling_.weights / kConcentratedParts);
            isConcentrated = isConcentrated && distinct >= kLeastDistinct && highest - last < part;
        }
        kernel::Order<AscendC::HardEvent::S_V>();
        return isConcentrated;
    }

    /// Writes fillers behind `count` words of the list. The caller puts a barrier before it writes these words.
    __aicore__ inline void FillTail(int64_t count)
    {
        AscendC::Duplicate<int32_t>(list_[static_cast<uint32_t>(kernel::RoundDown(count, kBlockWords))],
                                    kernel::RowWords::kFiller, kFillers);
    }

    /// Finds frequent rows, whose indices all cores will sum. This core keeps those at the first positions if it would
    /// have too few indices otherwise.
    __aicore__ inline void ShareFrequentRows()
    {
        const int64_t known = frequentRows_;
        FindFrequentRows();
        int64_t frequent = 0;
        for (int64_t index = known; index < frequentRows_; ++index) {
            frequent += frequent_[index].rows;
        }
        if (frequent > 0) {
            const int64_t others = count_ * tiling_.rows / scan_->Scanned() - frequent;
            const int64_t kept =
                kernel::Larger(tiling_.rows / blocks_ * (kShares - kEarlyShare) / kShares - others, 0) * tiling_.rows /
                frequent;
            const int64_t begin = kept <= scan_->Scanned() ? 0 : kernel::RoundUp(kept, Scan::kChunkIndices);
            for (int64_t index = known; index < frequentRows_; ++index) {
                frequent_[index].begin = static_cast<int32_t>(begin);
            }
            if (begin >= tiling_.rows) {
                frequentRows_ = known;
            }
        }
        const int64_t before = count_;
        RemoveShared();
        lastCount_ = count_;
        // The number of removed words is more exact than the sample.
        const int64_t removed = (before - count_) * tiling_.rows / scan_->Scanned();
        for (int64_t index = known; index < frequentRows_ && frequent_[index].begin == 0; ++index) {
            frequent_[index].rows = static_cast<int32_t>(frequent_[index].rows * removed / frequent);
        }
    }

    /// Removes the words of rows that are shared from the first position on from the list.
    __aicore__ inline void RemoveShared()
    {
        const AscendC::LocalTensor<uint16_t> bits = bits_.template ReinterpretCast<uint16_t>();
        const int32_t shorts = static_cast<int32_t>(kernel::RoundUp(count_, kernel::RowWords::kLanes) / kBitsPerShort);
        bool isMarked = false;
        for (int64_t index = 0; index < frequentRows_; ++index) {
            const int64_t row = frequent_[index].row;
            if (frequent_[index].begin > 0) {
                continue;
            }
            MarkRows({row, row + 1}, count_, isMarked ? otherBits_ : bits_, parts_);
            if (isMarked) {
                AscendC::Or(bits, bits, otherBits_.template ReinterpretCast<uint16_t>(), shorts);
                AscendC::PipeBarrier<PIPE_V>();
            }
            isMarked = true;
        }
        if (isMarked) {
            AscendC::Not(bits, bits, shorts);
            AscendC::PipeBarrier<PIPE_V>();
            const int64_t left = Select(parts_, count_);
            FillTail(left);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Adds<int32_t>(list_, parts_, 0, static_cast<int32_t>(left));
            AscendC::PipeBarrier<PIPE_V>();
            count_ = kernel::RoundUp(left, kBlockWords);
        }
    }

    /// Sorts a sample of the list by row. Equal neighboring probes show the number of indices of a row.
    __aicore__ inline void FindFrequentRows()
    {
        if (count_ < kSampleWords) {
            return;
        }
        const AscendC::LocalTensor<int32_t> sample = parts_;
        const AscendC::LocalTensor<float> rows =
            parts_[static_cast<uint32_t>(kSampleWords)].template ReinterpretCast<float>();
        const AscendC::LocalTensor<float> runs =
            parts_[static_cast<uint32_t>(2 * kSampleWords)].template ReinterpretCast<float>();
        const AscendC::LocalTensor<float> other =
            parts_[static_cast<uint32_t>(4 * kSampleWords)].template ReinterpretCast<float>();
        const int64_t distance = count_ / kPieces / kBlockWords;  // blocks from one piece to the next
        AscendC::DataCopyParams pieces;
        pieces.blockCount = static_cast<uint16_t>(kPieces);
        pieces.blockLen = static_cast<uint16_t>(kPieceWords / kBlockWords);
        pieces.srcStride = static_cast<uint16_t>(distance - kPieceWords / kBlockWords);
        AscendC::DataCopy(sample, list_, pieces);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::ShiftRight<int32_t>(runs.template ReinterpretCast<int32_t>(), sample, words_.PositionBits(),
                                     static_cast<int32_t>(kSampleWords));
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Cast(rows, runs.template ReinterpretCast<int32_t>(), AscendC::RoundMode::CAST_RINT,
                      static_cast<uint32_t>(kSampleWords));
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Sort32<float>(runs, rows, sample.template ReinterpretCast<uint32_t>(), static_cast<int32_t>(kPieces));
        AscendC::PipeBarrier<PIPE_V>();
        const AscendC::LocalTensor<float> sorted = kernel::MergeRuns(runs, other, kPieceWords, kSampleWords);
        kernel::Order<AscendC::HardEvent::V_S>();
        float last = -1.0f;
        int64_t equal = 0;
        for (int64_t probe = 0; probe <= kSampleWords; probe += kProbeStep) {
            const float row = probe < kSampleWords ? sorted.GetValue(static_cast<uint32_t>(2 * probe)) : -1.0f;
            if (row == last) {
                ++equal;
                continue;
            }
            AddFrequentRow(static_cast<int32_t>(last), equal * kProbeStep * count_ / kSampleWords);
            last = row;
            equal = 0;
        }
        kernel::Order<AscendC::HardEvent::S_V>();
    }

    /// `found`: indices of the row in the list.
    __aicore__ inline void AddFrequentRow(int32_t row, int64_t found)
    {
        const int64_t rows = found * tiling_.rows / scan_->Scanned();
        bool isNew = row >= 0 && frequentRows_ < kMaxFrequent && rows * kLeastShare >= tiling_.evenRows;
        for (int64_t index = 0; index < frequentRows_; ++index) {
            isNew = isNew && frequent_[index].row != row;
        }
        if (isNew) {
            frequent_[frequentRows_] = {row, static_cast<int32_t>(rows), 0};
            ++frequentRows_;
        }
    }

    /// Sets the bits of the words of the list that belong to some rows.
    __aicore__ inline void MarkRows(const kernel::Span& rows, int64_t count, const AscendC::LocalTensor<uint8_t>& bits,
                                    const AscendC::LocalTensor<int32_t>& work)
    {
        const kernel::RangeTest test = words_.TestOf(rows);
        test.Mark(bits, work, list_, test.offset, kernel::RoundUp(count, kernel::RowWords::kLanes));
    }

    /// Copies the words of the list whose bit is set; returns their number.
    __aicore__ inline int64_t Select(const AscendC::LocalTensor<int32_t>& target, int64_t count)
    {
        AscendC::GatherMaskParams once;
        once.repeatTimes = 1;
        uint64_t kept = 0;
        AscendC::GatherMask(target, list_, bits_.template ReinterpretCast<uint32_t>(), true,
                            static_cast<uint32_t>(count), once, kept);
        AscendC::PipeBarrier<PIPE_V>();
        kernel::Order<AscendC::HardEvent::V_S>();
        return static_cast<int64_t>(kept);
    }

    __aicore__ inline void StoreWords(const AscendC::GlobalTensor<int32_t>& target,
                                      const AscendC::LocalTensor<int32_t>& source, int64_t count)
    {
        AscendC::DataCopyExtParams burst;
        burst.blockLen = static_cast<uint32_t>(count * sizeof(int32_t));
        AscendC::DataCopyPad(target, source, burst);
    }

    __aicore__ inline void StoreRecord()
    {
        const AscendC::LocalTensor<int32_t> record = otherBits_.template ReinterpretCast<int32_t>();
        AscendC::Duplicate<int32_t>(record, 0, static_cast<int32_t>(kFields));
        kernel::Order<AscendC::HardEvent::V_S>();
        int64_t left = 0;
        for (int64_t part = nextPart_; part < partCount_; ++part) {
            left += kernel::Size(partEnds_[part]);
        }
        if (isPartOpen_) {
            left -= nextWord_ - partEnds_[nextPart_].begin;
        } else {
            left += kStartRows;
        }
        record.SetValue(kCount, static_cast<int32_t>(isFull_ ? -1 : left));
        if (frequentRows_ > 0) {
            record.SetValue(kRows, static_cast<int32_t>(frequentRows_));
            for (uint32_t index = 0; index < frequentRows_; ++index) {
                const Frequent& frequent = frequent_[index];
                const int64_t positions = tiling_.rows - frequent.begin;
                const int64_t cost = frequent.rows * positions / tiling_.rows + positions / kPositionsPerRow + 1;
                record.SetValue(kFirst + kFrequentFields * index, frequent.row);
                record.SetValue(kFirst + kFrequentFields * index + 1, static_cast<int32_t>(cost));
                record.SetValue(kFirst + kFrequentFields * index + 2, frequent.begin);
            }
        }
        kernel::Order<AscendC::HardEvent::S_MTE3>();
        StoreWords(records_[static_cast<uint64_t>(block_ * kFields)], record, kFields);
    }

    /// Reads the numbers of indices and the shared rows of all cores, once.
    __aicore__ inline void ReadRecords()
    {
        if (level_ >= 0) {
            return;
        }
        const AscendC::LocalTensor<int32_t> records = list_;
        kernel::Order<AscendC::HardEvent::MTE2_S>();
        const AscendC::LocalTensor<int64_t> pairs = records.template ReinterpretCast<int64_t>();
        int64_t total = 0;
        for (int64_t block = 0; block < blocks_; ++block) {
            const int64_t record = block * kFields / 2;
            const int64_t counts = pairs.GetValue(static_cast<uint32_t>(record));
            ownCounts_[block] = static_cast<int32_t>(counts);
            doListsFit_ = doListsFit_ && ownCounts_[block] >= 0;
            total += ownCounts_[block];
            if (block == block_) {
                firstShared_ = sharedRows_;
            }
            const int64_t rows = counts >> kBitsPerWord;
            for (int64_t index = 0; index < rows; ++index) {
                const uint32_t field = static_cast<uint32_t>(block * kFields + kFirst + kFrequentFields * index);
                const int64_t row = RowsOf(block).begin + records.GetValue(field);
                shared_[sharedRows_] = {static_cast<int32_t>(row), records.GetValue(field + 1),
                                        records.GetValue(field + 2)};
                total += shared_[sharedRows_].rows + kStartRows;
                ++sharedRows_;
            }
        }
        level_ = kernel::CeilDiv(total, blocks_);
        kernel::Order<AscendC::HardEvent::S_V>();
    }

    /// Returns the shared indices that a core can sum until all cores have the same number.
    __aicore__ inline int64_t CapacityOf(int64_t block) const { return kernel::Larger(level_ - ownCounts_[block], 0); }

    /// Returns the part of a shared row in the sequence of all of them, after the part of the last one. A core with
    /// parts of two rows starts twice.
    __aicore__ inline kernel::Span PartAfter(const kernel::Span& last, int64_t index) const
    {
        const int64_t begin = last.end + (index > 0 ? kStartRows : 0);
        return {begin, begin + shared_[index].rows};
    }

    /// Splits the list by the ranges of rows whose sums fit into UB.
    __aicore__ inline void SplitList()
    {
        int64_t end = 0;
        for (int64_t row = 0; row < kernel::Size(owned_); row += tiling_.tableRows) {
            int64_t found = 0;
            if (count_ > 0 && !isFull_) {
                MarkRows({row, row + tiling_.tableRows}, count_, bits_, scratch_);
                found = Select(parts_[static_cast<uint32_t>(end)], count_);
            }
            partEnds_[partCount_] = {end, end + found};
            ++partCount_;
            end = kernel::RoundUp(end + found, kBlockWords);
        }
    }

    /// Loads the first batches of the rows of this core.
    __aicore__ inline void LoadFirstRows()
    {
        loadWord_ = partEnds_[0].begin;
        for (int64_t batch = 0; batch < kRowBuffers; ++batch) {
            LoadNextRows();
        }
    }

    /// Loads the next batch of the rows of this core, if there is one.
    __aicore__ inline void LoadNextRows()
    {
        while (loadPart_ < partCount_ && loadWord_ == partEnds_[loadPart_].end) {
            ++loadPart_;
            loadWord_ = loadPart_ < partCount_ ? partEnds_[loadPart_].begin : 0;
        }
        if (loadPart_ < partCount_) {
            const int64_t count = kernel::Smaller(tiling_.loadRows, partEnds_[loadPart_].end - loadWord_);
            LoadRows(rows_, loadWord_, count, loadPart_ * tiling_.tableRows, tableRows_[loadedBatches_ % kRowBuffers]);
            loadWord_ += count;
            ++loadedBatches_;
        }
    }

    __aicore__ inline kernel::Span RowsOfPart(int64_t part) const
    {
        const int64_t first = part * tiling_.tableRows;
        return {first, kernel::Smaller(first + tiling_.tableRows, kernel::Size(owned_))};
    }

    /// Sums at most `most` rows of grad of the next parts, and writes the complete parts. A part is not written if its
    /// store takes longer than the remaining sums.
    __aicore__ inline void AddParts(int64_t most)
    {
        while (nextPart_ < partCount_) {
            most -= AddPart(most);
            if (nextWord_ < partEnds_[nextPart_].end || most < tiling_.tableRows / 3) {
                return;
            }
            StorePart();
            ++nextPart_;
            isPartOpen_ = false;
        }
    }

    /// Adds at most `most` rows of grad to the sums of the next part. Returns their number.
    __aicore__ inline int64_t AddPart(int64_t most)
    {
        if (nextPart_ == partCount_) {
            return 0;
        }
        const kernel::Span words = partEnds_[nextPart_];
        if (!isPartOpen_) {
            Clear(tiling_.tableRows + kSecondSums);
            for (int64_t row = 0; row < tiling_.tableRows; ++row) {
                conflicts_[row] = 0;
            }
            nextWord_ = words.begin;
            isPartOpen_ = true;
        }
        int64_t added = 0;
        while (nextWord_ < words.end && added < most) {
            const int64_t count = kernel::Smaller(tiling_.loadRows, words.end - nextWord_);
            AddRows(count);
            LoadNextRows();
            nextWord_ += count;
            added += count;
        }
        return added;
    }

    /// Writes the sums of the next part.
    __aicore__ inline void StorePart()
    {
        const kernel::Span rows = RowsOfPart(nextPart_);
        AscendC::PipeBarrier<PIPE_V>();
        AddSecondSums();
        StoreKept(rows);
        const int64_t most = OutputRows();
        for (int64_t row = rows.begin; row < rows.end; row += most) {
            const int64_t elements = kernel::Smaller(most, rows.end - row) * tiling_.columns;
            AscendC::LocalTensor<T> values = outputs_.template AllocTensor<T>();
            Round(values, table_[static_cast<uint32_t>((row - rows.begin) * tiling_.columns)], elements);
            outputs_.EnQue(values);
            values = outputs_.template DeQue<T>();
            CopyOut(values, owned_.begin + row, elements);
            outputs_.FreeTensor(values);
        }
    }

    /// Returns the rows of an output buffer: all buffers have a part.
    __aicore__ inline int64_t OutputRows() const { return kernel::CeilDiv(int64_t{tiling_.tableRows}, kStoreBuffers); }

    /// Sets the sums of some rows to zero.
    __aicore__ inline void Clear(int64_t rows)
    {
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Duplicate<float>(table_, 0.0f, static_cast<int32_t>(rows * tiling_.columns));
        NextStep();
    }

    /// Separates sums of the same row by a barrier.
    __aicore__ inline void NextStep()
    {
        AscendC::PipeBarrier<PIPE_V>();
        ++step_;
    }

    /// Loads the rows of grad of some words of parts_. Stores the numbers of their sums in `tableRows` unless it is
    /// null. `firstRow`: the row of the first sum in UB.
    template <typename Queue>
    __aicore__ inline void LoadRows(Queue& queue, int64_t first, int64_t count, int64_t firstRow, int32_t* tableRows)
    {
        AscendC::LocalTensor<T> rows = queue.template AllocTensor<T>();
        const AscendC::LocalTensor<int64_t> pairs = parts_.template ReinterpretCast<int64_t>();
        kernel::RowBurst burst(kMaxGapBytes / kElementBytes / tiling_.columns);
        int64_t slot = 0;
        int64_t pair = 0;
        for (int64_t index = 0; index < count; ++index) {
            if (index % 2 == 1) {
                pair >>= kBitsPerWord;
            } else if (index + 1 < count) {
                pair = pairs.GetValue(static_cast<uint32_t>((first + index) / 2));
            } else {
                pair = parts_.GetValue(static_cast<uint32_t>(first + index));
            }
            const int32_t word = static_cast<int32_t>(pair);
            if (tableRows != nullptr) {
                tableRows[index] = static_cast<int32_t>(words_.Row(word) - firstRow);
            }
            const int64_t row = words_.Position(word);
            if (!burst.Take(row)) {
                CopyIn(rows[static_cast<uint32_t>(slot * tiling_.columns)], burst);
                slot += burst.Count();
                burst.Start(row);
            }
        }
        CopyIn(rows[static_cast<uint32_t>(slot * tiling_.columns)], burst);
        queue.EnQue(rows);
    }

    __aicore__ inline void CopyIn(const AscendC::LocalTensor<T>& rows, const kernel::RowBurst& burst)
    {
        if (burst.Count() == 0) {
            return;
        }
        AscendC::DataCopyExtParams params;
        params.blockCount = static_cast<uint16_t>(burst.Count());
        params.blockLen = static_cast<uint32_t>(tiling_.columns * kElementBytes);
        params.srcStride =
            burst.Count() > 1 ? static_cast<uint32_t>((burst.Stride() - 1) * tiling_.columns * kElementBytes) : 0;
        AscendC::DataCopyPad(rows, grad_[static_cast<uint64_t>(burst.First() * tiling_.columns)], params,
                             AscendC::DataCopyPadExtParams<T>());
    }

    /// Converts the loaded rows to floats.
    template <typename Queue>
    __aicore__ inline void Widen(Queue& queue, int64_t count)
    {
        AscendC::LocalTensor<T> rows = queue.template DeQue<T>();
        const uint32_t elements = static_cast<uint32_t>(count * tiling_.columns);
        AscendC::PipeBarrier<PIPE_V>();
        if constexpr (sizeof(T) == sizeof(float)) {
            AscendC::DataCopy(work_, rows, elements);
        } else {
            AscendC::Cast(work_, rows, AscendC::RoundMode::CAST_NONE, elements);
        }
        NextStep();
        queue.FreeTensor(rows);
    }

    /// Adds a batch of rows of grad to their sums.
    __aicore__ inline void AddRows(int64_t count)
    {
        const int32_t columns = static_cast<int32_t>(tiling_.columns);
        const int32_t* tableRows = tableRows_[addedBatches_ % kRowBuffers];
        ++addedBatches_;
        AscendC::LocalTensor<T> rows;
        if constexpr (!kAddsToFloats<T>) {
            Widen(rows_, count);
        } else {
            rows = rows_.template DeQue<T>();
        }
        for (int64_t index = 0; index < count; ++index) {
            const int64_t row = FreeSum(tableRows[index]);
            const AscendC::LocalTensor<float> sum = table_[static_cast<uint32_t>(row * columns)];
            const uint32_t first = static_cast<uint32_t>(index * columns);
            if constexpr (!kAddsToFloats<T>) {
                AscendC::Add(sum, sum, work_[first], columns);
            } else if constexpr (sizeof(T) == sizeof(float)) {
                AscendC::Add(sum, sum, rows[first], columns);
            } else {
                AscendC::Axpy(sum, rows[first], static_cast<T>(1.0f), columns);
            }
        }
        if constexpr (kAddsToFloats<T>) {
            rows_.FreeTensor(rows);
        }
    }

    /// Returns a sum for a row that no instruction changes since the last barrier: that of the row, or one of the
    /// second sums, which belong to rows that need them first.
    __aicore__ inline int64_t FreeSum(int64_t row)
    {
        if (steps_[row] != step_) {
            steps_[row] = step_;
            return row;
        }
        if (conflicts_[row] < kLeastConflicts) {
            ++conflicts_[row];
        } else {
            for (int64_t index = 0; index < kSecondSums; ++index) {
                if (secondRows_[index] < 0) {
                    secondRows_[index] = static_cast<int32_t>(row);
                }
                int32_t& step = steps_[tiling_.tableRows + index];
                if (secondRows_[index] == row && step != step_) {
                    step = step_;
                    return tiling_.tableRows + index;
                }
            }
        }
        NextStep();
        steps_[row] = step_;
        return row;
    }

    /// Adds the second sums to those of their rows.
    __aicore__ inline void AddSecondSums()
    {
        const int32_t columns = static_cast<int32_t>(tiling_.columns);
        for (int64_t index = 0; index < kSecondSums && secondRows_[index] >= 0; ++index) {
            const AscendC::LocalTensor<float> sum = table_[static_cast<uint32_t>(secondRows_[index] * columns)];
            AscendC::Add(sum, sum, table_[static_cast<uint32_t>((tiling_.tableRows + index) * columns)], columns);
            AscendC::PipeBarrier<PIPE_V>();
            secondRows_[index] = -1;
        }
    }

    /// Adds a batch of rows of grad to one sum.
    __aicore__ inline void AddToOne(int64_t count)
    {
        Widen(loads_, count);
        while (count > 1) {
            const int64_t half = count / 2;
            count -= half;
            AscendC::Add(work_, work_, work_[static_cast<uint32_t>(count * tiling_.columns)],
                         static_cast<int32_t>(half * tiling_.columns));
            AscendC::PipeBarrier<PIPE_V>();
        }
        AscendC::Add(table_, table_, work_, static_cast<int32_t>(tiling_.columns));
        AscendC::PipeBarrier<PIPE_V>();
    }

    /// Rounds sums to the dtype of the table.
    __aicore__ inline void Round(const AscendC::LocalTensor<T>& values, const AscendC::LocalTensor<float>& sums,
                                 int64_t elements)
    {
        if constexpr (sizeof(T) == sizeof(float)) {
            AscendC::DataCopy(values, sums, static_cast<uint32_t>(elements));
        } else {
            AscendC::Cast(values, sums, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(elements));
        }
    }

    /// Writes elements to the table from a row on.
    __aicore__ inline void CopyOut(const AscendC::LocalTensor<T>& values, int64_t row, int64_t elements)
    {
        AscendC::DataCopyExtParams burst;
        burst.blockLen = static_cast<uint32_t>(elements * kElementBytes);
        AscendC::DataCopyPad(gradWeight_[static_cast<uint64_t>(row * tiling_.columns)], values, burst);
    }

    /// Sums the part of the shared indices of this core: a sum for each shared row with such indices.
    __aicore__ inline void SumShared()
    {
        isSharing_ = true;
        kernel::Order<AscendC::HardEvent::S_V>();  // parts_ has been read
        Scan scan(indices_, words_, scratch_);
        kernel::Span mine{0, 0};
        for (int64_t block = 0; block < block_; ++block) {
            mine.begin += CapacityOf(block);
        }
        mine.end = mine.begin + CapacityOf(block_);
        kernel::Span part{0, 0};
        for (int64_t index = 0; index < sharedRows_; ++index) {
            const Frequent& shared = shared_[index];
            part = PartAfter(part, index);
            const kernel::Span both = kernel::Overlap(mine, part);
            if (kernel::Size(both) > 0) {
                // The positions of the indices are assumed to be evenly distributed.
                const int64_t length = tiling_.rows - shared.begin;
                const kernel::Span positions = {shared.begin + (both.begin - part.begin) * length / shared.rows,
                                                shared.begin + (both.end - part.begin) * length / shared.rows};
                Clear(1);
                count_ = 0;
                scan.Start(positions, loads_);
                kernel::Order<AscendC::HardEvent::MTE3_MTE2>();  // outputs_ is in the memory of the second load
                scan.Run({shared.row, shared.row + 1}, positions, loads_, *this);
                SumList();
                StorePartial(PartialOf(index, block_), 0);
            }
        }
    }

    /// Adds the rows of grad of the list to the sum of a shared row.
    __aicore__ inline void SumList()
    {
        if (count_ > 0) {
            MarkRows({0, 1}, count_, bits_, parts_);
            const int64_t found = Select(parts_, count_);
            for (int64_t first = 0; first < found; first += tiling_.batchRows) {
                const int64_t length = kernel::Smaller(tiling_.batchRows, found - first);
                LoadRows(loads_, first, length, 0, nullptr);
                AddToOne(length);
            }
            kernel::Order<AscendC::HardEvent::S_V>();  // parts_ has been read
            count_ = 0;
        }
    }

    /// Stores the sums of shared rows that have other indices in the list of this core.
    __aicore__ inline void StoreKept(const kernel::Span& rows)
    {
        for (int64_t index = 0; index < frequentRows_; ++index) {
            const int64_t row = frequent_[index].row;
            if (frequent_[index].begin > 0 && row >= rows.begin && row < rows.end) {
                ReadRecords();
                StorePartial(KeptOf(firstShared_ + index), (row - rows.begin) * tiling_.columns);
            }
        }
    }

    __aicore__ inline void StorePartial(const AscendC::GlobalTensor<float>& target, int64_t first)
    {
        kernel::Order<AscendC::HardEvent::V_MTE3>();
        AscendC::DataCopy(target, table_[static_cast<uint32_t>(first)], static_cast<uint32_t>(tiling_.columns));
        kernel::Order<AscendC::HardEvent::MTE3_V>();
    }

    __aicore__ inline AscendC::GlobalTensor<float> KeptOf(int64_t index) const
    {
        return partials_[static_cast<uint64_t>(((kMaxFrequent + 1) * blocks_ + index) * tiling_.columns)];
    }

    /// Two splits of one sequence, by rows and by cores, have at most one part for each sum of their numbers.
    __aicore__ inline AscendC::GlobalTensor<float> PartialOf(int64_t index, int64_t block) const
    {
        return partials_[static_cast<uint64_t>((index + block) * tiling_.columns)];
    }

    /// Merges the sums of shared rows. The cores take turns.
    __aicore__ inline void MergeShared()
    {
        kernel::Span part{0, 0};
        for (int64_t index = 0; index < sharedRows_; ++index) {
            part = PartAfter(part, index);
            if (index % blocks_ == block_) {
                MergeRow(index, part);
            }
        }
    }

    __aicore__ inline void MergeRow(int64_t index, const kernel::Span& part)
    {
        const int64_t longest = Scan::kChunkBytes / (tiling_.columns * static_cast<int64_t>(sizeof(float)));
        Clear(1);
        kernel::Span mine{0, 0};
        AscendC::LocalTensor<float> sums;
        int64_t first = -1;  // core of the first loaded sum
        for (int64_t block = 0; block < blocks_; ++block) {
            mine = {mine.end, mine.end + CapacityOf(block)};
            if (kernel::Size(kernel::Overlap(mine, part)) == 0) {
                continue;
            }
            if (first < 0 || block - first >= longest) {
                if (first >= 0) {
                    loads_.FreeTensor(sums);
                }
                first = block;
                sums = loads_.template AllocTensor<float>();
                const int64_t count = kernel::Smaller(longest, blocks_ - block);
                AscendC::DataCopy(sums, PartialOf(index, block), static_cast<uint32_t>(count * tiling_.columns));
                loads_.EnQue(sums);
                sums = loads_.template DeQue<float>();
            }
            AscendC::Add(table_, table_, sums[static_cast<uint32_t>((block - first) * tiling_.columns)],
                         static_cast<int32_t>(tiling_.columns));
            AscendC::PipeBarrier<PIPE_V>();
        }
        if (first >= 0) {
            loads_.FreeTensor(sums);
        }
        if (shared_[index].begin > 0) {
            sums = loads_.template AllocTensor<float>();
            AscendC::DataCopy(sums, KeptOf(index), static_cast<uint32_t>(tiling_.columns));
            loads_.EnQue(sums);
            sums = loads_.template DeQue<float>();
            AscendC::Add(table_, table_, sums, static_cast<int32_t>(tiling_.columns));
            AscendC::PipeBarrier<PIPE_V>();
            loads_.FreeTensor(sums);
        }
        AscendC::LocalTensor<T> values = stores_.template AllocTensor<T>();
        Round(values, table_, tiling_.columns);
        stores_.EnQue(values);
        values = stores_.template DeQue<T>();
        CopyOut(values, shared_[index].row, tiling_.columns);
        stores_.FreeTensor(values);
    }

    EmbeddingDenseBackwardTilingData tiling_;
    kernel::RowWords words_{0};
    AscendC::GlobalTensor<T> grad_;
    AscendC::GlobalTensor<int32_t> indices_;
    AscendC::GlobalTensor<T> gradWeight_;
    AscendC::GlobalTensor<int32_t> records_;
    AscendC::GlobalTensor<float> partials_;
    Loads<kLoadBuffers> loads_;
    Loads<kRowBuffers> rows_;
    kernel::BufferRing<kStoreBuffers, AscendC::HardEvent::V_MTE3, AscendC::HardEvent::MTE3_V> outputs_;  // rounded sums
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> stores_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> samples_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> lists_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> buffer_;  // of loads_ or rows_, and what follows them
    AscendC::LocalTensor<int32_t> list_;                 // words of the indices in the range of this core
    AscendC::LocalTensor<int32_t> parts_;                // the same words by ranges of rows; words of one frequent row
    AscendC::LocalTensor<uint8_t> bits_;
    AscendC::LocalTensor<uint8_t> otherBits_;
    AscendC::LocalTensor<int32_t> scratch_;
    AscendC::LocalTensor<float> work_;   // rows of grad as floats
    AscendC::LocalTensor<float> table_;  // sums
    kernel::Span owned_;
    int64_t block_ = 0;
    int64_t blocks_ = 0;
    Scan* scan_ = nullptr;
    int64_t count_ = 0;                     // words in the list
    int64_t lastCount_ = kSampleWords / 2;  // words after the last search for frequent rows
    int64_t level_ = -1;                    // indices of a core if all cores have the same number; -1: not read
    int64_t partCount_ = 0;
    int64_t nextPart_ = 0;  // the next part to sum, and its next word
    int64_t nextWord_ = 0;
    int64_t frequentRows_ = 0;
    int64_t sharedRows_ = 0;
    int64_t firstShared_ = 0;                          // the first shared row of this core
    int32_t step_ = 0;                                 // number of barriers
    Frequent frequent_[kMaxFrequent] = {};             // frequent rows of the range of this core
    Frequent shared_[kMaxBlocks * kMaxFrequent] = {};  // frequent rows of all cores
    int32_t ownCounts_[kMaxBlocks] = {};
    kernel::Span partEnds_[kMaxParts];
    int32_t tableRows_[kRowBuffers][kMaxLoadRows] = {};  // sums of the rows of loaded batches
    int32_t steps_[kMaxTableRows + kSecondSums] = {};    // by sum: the value of step_ at its last addition
    uint8_t conflicts_[kMaxTableRows] = {};              // by row: how often its sum was not free
    int32_t secondRows_[kSecondSums] = {-1, -1, -1, -1, -1, -1, -1, -1};
    bool isExcluded_[kMaxFrequent] = {};
    int64_t loadPart_ = 0;  // the next batch to load
    int64_t loadWord_ = 0;
    int64_t loadedBatches_ = 0;
    int64_t addedBatches_ = 0;
    bool isFull_ = false;
    bool doListsFit_ = true;   // those of all cores
    bool isPartOpen_ = false;  // UB has sums of the next part
    bool isSharing_ = false;
};

}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_EMBEDDING_DENSE_BACKWARD_BY_TABLE_H
