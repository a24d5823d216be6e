// GroupedBiasAddGrad: every core sums the groups in its rows. If a group has rows of several cores, each core stores a
// partial sum as float32. After a barrier, the cores merge the partial sums in the order of the cores. If all groups
// are small, no group has rows of several cores.
#ifndef OPFORGE_OP_KERNEL_GROUPED_BIAS_ADD_GRAD_H
#define OPFORGE_OP_KERNEL_GROUPED_BIAS_ADD_GRAD_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/memory/group_ends.h"
#include "common/vector/row_sum.h"
#include "grouped_bias_add_grad_tiling_data.h"

namespace opforge {

/// T: dtype of grad_y. I: dtype of group_idx if it exists (`kIsIndexed`).
template <typename T, typename I, bool kIsIndexed>
class GroupedBiasAddGrad {
public:
    __aicore__ inline void Init(GM_ADDR gradY, GM_ADDR groupIdx, GM_ADDR gradBias, GM_ADDR userWorkspace,
                                const GroupedBiasAddGradTilingData& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        if (!HasOutput()) {
            return;
        }
        gradY_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(gradY), static_cast<uint64_t>(tiling.rows * tiling.columns));
        gradBias_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(gradBias),
                                  static_cast<uint64_t>(tiling.groups * tiling.columns));
        partials_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(userWorkspace),
                                  static_cast<uint64_t>(2 * tiling.rowBlocks * tiling.partialPitch));
        pipe->InitBuffer(workBuffer_, static_cast<uint32_t>(tiling.workBytes));
        pipe->InitBuffer(stores_, static_cast<uint8_t>(tiling.storeBuffers), static_cast<uint32_t>(tiling.storeBytes));
        sum_.Init(pipe, {tiling.tileBuffers, tiling.tileBytes, tiling.sumBytes, tiling.maskBytes},
                  workBuffer_.Get<float>());
        InitGroups(groupIdx, pipe);

        const int64_t block = AscendC::GetBlockIdx();
        rowBlock_ = block / tiling.columnSlices;
        const int64_t firstColumn = block % tiling.columnSlices * tiling.sliceWidth;
        columns_ = {firstColumn, kernel::Smaller(tiling.columns, firstColumn + tiling.sliceWidth)};
    }

    __aicore__ inline void Process()
    {
        if (!HasOutput()) {
            return;
        }
        if (tiling_.batchGroups > 0) {
            SumBatches();
            return;
        }
        LoadEnds();
        for (Tile tile = FirstTile(); tile.width > 0; tile = NextTile(tile)) {
            ZeroEmptyGroups(tile);
            if (groups_.IsAscending()) {
                SumShare(tile);
            } else {
                SumOverlappingGroups(tile);
            }
        }
        if (tiling_.rowBlocks > 1 && !areGroupsWhole_) {
            AscendC::SyncAll();
            for (Tile tile = FirstTile(); tile.width > 0; tile = NextTile(tile)) {
                MergeBorderGroups(tile);
            }
        }
    }

private:
    /// Columns of a tile.
    struct Tile {
        int64_t column;
        int64_t width;
    };

    static constexpr int64_t kFloatsPerBlock = 8;
    // The columns of partial sums are merged in pieces of whole sectors.
    static constexpr int64_t kMergeColumns = 64;
    // With at least this many groups per core, cores of whole groups have similar work.
    static constexpr int64_t kLeastGroups = 6;

    __aicore__ inline bool HasOutput() const { return tiling_.groups > 0 && tiling_.columns > 0; }

    __aicore__ inline void InitGroups(GM_ADDR groupIdx, AscendC::TPipe* pipe)
    {
        if constexpr (kIsIndexed) {
            groupIdx_.SetGlobalBuffer(reinterpret_cast<__gm__ I*>(groupIdx), static_cast<uint64_t>(tiling_.groups));
            groups_.Init(pipe, tiling_.listBytes);
        } else {
            groups_.Init(tiling_.rowsPerGroup);
        }
    }

    /// Finds the ends of the groups and the rows of this core.
    __aicore__ inline void LoadEnds()
    {
        if constexpr (kIsIndexed) {
            groups_.Load(groupIdx_, tiling_.groups, tiling_.rows, tiling_.lengths != 0, workBuffer_.Get<int32_t>());
        }
        usedRows_ = groups_.End(tiling_.groups - 1);
        if (groups_.IsAscending()) {
            // Equal in all cores, so that all of them or none wait at the barrier.
            areGroupsWhole_ = groups_.Longest() <= tiling_.wholeRows &&
                              kLeastGroups * tiling_.rowBlocks * (groups_.Longest() + tiling_.groupRows) <= Units();
            const kernel::Span units = kernel::PartOf(Units(), tiling_.rowBlocks, rowBlock_);
            rows_ = {RowAt(units.begin), RowAt(units.end)};
        }
    }

    /// Returns the units that are split over the row blocks: the rows, and `groupRows` additional units per group.
    __aicore__ inline int64_t Units() const { return usedRows_ + tiling_.groupRows * tiling_.groups; }
    __aicore__ inline int64_t UnitOf(int64_t group, int64_t row) const { return row + tiling_.groupRows * (group + 1); }
    __aicore__ inline int64_t RowAt(int64_t unit) const
    {
        if (unit == Units()) {
            return usedRows_;
        }
        const int64_t group = groups_.GroupOf(unit, tiling_.groupRows);
        if (areGroupsWhole_) {  // the nearer end of the group
            const int64_t start = groups_.Start(group);
            const int64_t end = groups_.End(group);
            return 2 * unit < UnitOf(group - 1, start) + UnitOf(group, end) ? start : end;
        }
        return kernel::Larger(groups_.Start(group), unit - UnitOf(group, 0));
    }

    __aicore__ inline Tile FirstTile() const { return TileAt(columns_.begin); }
    __aicore__ inline Tile NextTile(const Tile& tile) const { return TileAt(tile.column + tile.width); }
    __aicore__ inline Tile TileAt(int64_t column) const
    {
        return {column, kernel::Smaller(tiling_.tileWidth, columns_.end - column)};
    }

    /// Writes zeros for the groups without rows. The groups are split over the cores, because all of them may be empty.
    __aicore__ inline void ZeroEmptyGroups(const Tile& tile)
    {
        const kernel::Span share = kernel::PartOf(tiling_.groups, tiling_.rowBlocks, rowBlock_);
        int64_t group = groups_.NextEmpty(share.begin, share.end);
        while (group < share.end) {
            int64_t last = group + 1;
            while (last < share.end && groups_.NextEmpty(last, last + 1) == last) {
                ++last;
            }
            StoreZeros(group, last - group, tile);
            group = groups_.NextEmpty(last, share.end);
        }
    }

    __aicore__ inline void StoreZeros(int64_t firstGroup, int64_t count, const Tile& tile)
    {
        const bool isContiguous = tile.width == tiling_.columns;
        const int64_t stretch = isContiguous ? count * tile.width : tile.width;
        const int64_t stretches = isContiguous ? 1 : count;
        const int64_t longest = kernel::Smaller(stretch, tiling_.storeBytes / static_cast<int64_t>(sizeof(T)));
        AscendC::LocalTensor<T> zeros = stores_.AllocTensor<T>();
        // Zero is all bits 0 in every dtype, and an int32_t fill is available for every dtype.
        AscendC::Duplicate<int32_t>(zeros.template ReinterpretCast<int32_t>(), 0,
                                    static_cast<int32_t>(kernel::CeilDiv(longest * sizeof(T), sizeof(int32_t))));
        stores_.EnQue(zeros);
        zeros = stores_.DeQue<T>();
        for (int64_t index = 0; index < stretches; ++index) {
            const AscendC::GlobalTensor<T> destination = OutputAt(firstGroup + index, tile.column);
            for (int64_t done = 0; done < stretch; done += longest) {
                CopyOut(destination[static_cast<uint64_t>(done)], zeros, kernel::Smaller(longest, stretch - done));
            }
        }
        stores_.FreeTensor(zeros);
    }

    /// Splits the groups over the cores, for many small groups of equal size.
    __aicore__ inline void SumBatches()
    {
        const kernel::Span share = kernel::PartOf(tiling_.groups, tiling_.rowBlocks, rowBlock_);
        const int64_t groupElements = tiling_.rowsPerGroup * tiling_.columns;
        for (int64_t group = share.begin; group < share.end; group += tiling_.batchGroups) {
            const int32_t batch = static_cast<int32_t>(kernel::Smaller(tiling_.batchGroups, share.end - group));
            sum_.SumGroups(gradY_[static_cast<uint64_t>(group * groupElements)], batch,
                           static_cast<int32_t>(tiling_.rowsPerGroup), tiling_.columns);
            Store(OutputAt(group, 0), tiling_.columns, batch);
        }
    }

    /// Sums the rows of this core, segment by segment. A segment is the part of a group in these rows.
    __aicore__ inline void SumShare(const Tile& tile)
    {
        int64_t row = rows_.begin;
        int64_t firstKept = 0;
        for (int64_t group = FirstGroup(); row < rows_.end; ++group) {
            const int64_t start = groups_.Start(group);
            const int64_t end = groups_.End(group);
            const kernel::Span segment{row, kernel::Smaller(end, rows_.end)};
            if (segment.end == segment.begin) {
                continue;
            }
            const bool isHead = start < rows_.begin;
            const bool isWhole = !isHead && end <= rows_.end;
            if (!isWhole || group != firstKept + sum_.Kept() || sum_.Kept() == tiling_.keptGroups) {
                StoreKept(firstKept, tile);
                firstKept = group;
            }
            SumRows(segment, tile);
            if (isWhole) {
                sum_.Keep();
            } else {
                Store(PartialsAt(isHead ? HeadRow(rowBlock_) : TailRow(rowBlock_), tile.column), tile.width);
            }
            row = segment.end;
        }
        StoreKept(firstKept, tile);
    }

    /// Stores the kept sums of consecutive groups.
    __aicore__ inline void StoreKept(int64_t firstGroup, const Tile& tile)
    {
        if (sum_.Kept() > 0) {
            Store(OutputAt(firstGroup, tile.column), tile.width, sum_.Kept());
        }
    }

    /// Sums group by group, for lists that do not ascend: their groups may share rows.
    __aicore__ inline void SumOverlappingGroups(const Tile& tile)
    {
        for (int64_t group = rowBlock_; group < tiling_.groups; group += tiling_.rowBlocks) {
            const kernel::Span rows{groups_.Start(group), groups_.End(group)};
            if (rows.begin < rows.end) {
                SumRows(rows, tile);
                Store(OutputAt(group, tile.column), tile.width);
            }
        }
    }

    /// Merges columns of the first and the last group of this core.
    __aicore__ inline void MergeBorderGroups(const Tile& tile)
    {
        if (!groups_.IsAscending() || rows_.begin == rows_.end) {
            return;
        }
        const int64_t first = FirstGroup();
        const int64_t last = groups_.GroupOf(rows_.end - 1, 0);
        if (groups_.Start(first) < rows_.begin) {
            Merge(first, tile);
        }
        if (groups_.Start(last) >= rows_.begin && groups_.End(last) > rows_.end) {
            Merge(last, tile);
        }
    }

    /// Merges `group`. Each row block with rows of this group merges one part of the columns.
    __aicore__ inline void Merge(int64_t group, const Tile& tile)
    {
        const int64_t firstBlock = BlockOf(group, groups_.Start(group));
        const int64_t heads = BlockOf(group, groups_.End(group) - 1) - firstBlock;
        const int64_t piece = kernel::RoundUp(kernel::CeilDiv(tile.width, heads + 1), kMergeColumns);
        const int64_t offset = (rowBlock_ - firstBlock) * piece;
        if (offset >= tile.width) {
            return;
        }
        const int64_t column = tile.column + offset;
        const int64_t width = kernel::Smaller(piece, tile.width - offset);
        sum_.Start<float>(width, 0);
        sum_.Add(PartialsAt(TailRow(firstBlock), column), 1, tiling_.partialPitch);
        sum_.Add(PartialsAt(HeadRow(firstBlock + 1), column), heads, tiling_.partialPitch);
        Store(OutputAt(group, column), width);
    }

    __aicore__ inline AscendC::GlobalTensor<T> OutputAt(int64_t group, int64_t column) const
    {
        return gradBias_[static_cast<uint64_t>(group * tiling_.columns + column)];
    }

    __aicore__ inline AscendC::GlobalTensor<float> PartialsAt(int64_t row, int64_t column) const
    {
        return partials_[static_cast<uint64_t>(row * tiling_.partialPitch + column)];
    }

    __aicore__ inline void SumRows(const kernel::Span& rows, const Tile& tile)
    {
        sum_.Start<T>(tile.width, tiling_.packedRows);
        sum_.Add(gradY_[static_cast<uint64_t>(rows.begin * tiling_.columns + tile.column)], rows.end - rows.begin,
                 tiling_.columns);
    }

    /// Writes the sums of `width` columns for one row or for a batch of rows.
    template <typename D>
    __aicore__ inline void Store(const AscendC::GlobalTensor<D>& destination, int64_t width, int32_t rows = 1)
    {
        const AscendC::LocalTensor<float> sum = sum_.Finish();
        const int64_t count = rows > 1 ? rows * sum_.Pitch() : width;
        AscendC::LocalTensor<D> row = stores_.AllocTensor<D>();
        if constexpr (sizeof(D) == sizeof(float)) {
            AscendC::DataCopy(row, sum, static_cast<uint32_t>(kernel::RoundUp(count, kFloatsPerBlock)));
        } else {
            AscendC::Cast(row, sum, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(count));
        }
        AscendC::PipeBarrier<PIPE_V>();
        stores_.EnQue(row);
        row = stores_.DeQue<D>();
        if (count == rows * width) {
            CopyOut(destination, row, count);
        } else {
            CopyOut(destination, row, width, rows);
        }
        stores_.FreeTensor(row);
    }

    template <typename D>
    __aicore__ inline void CopyOut(const AscendC::GlobalTensor<D>& destination, const AscendC::LocalTensor<D>& source,
                                   int64_t width, int32_t rows = 1)
    {
        AscendC::DataCopyExtParams burst;
        burst.blockCount = static_cast<uint16_t>(rows);
        burst.blockLen = static_cast<uint32_t>(width * sizeof(D));
        AscendC::DataCopyPad(destination, source, burst);
    }

    __aicore__ inline int64_t FirstGroup() const
    {
        return rows_.begin < rows_.end ? groups_.GroupOf(rows_.begin, 0) : 0;
    }
    __aicore__ inline int64_t BlockOf(int64_t group, int64_t row) const
    {
        return kernel::PartIndexOf(Units(), tiling_.rowBlocks, UnitOf(group, row));
    }
    /// Partial sums: first those of the first group of each row block, then those of the last group.
    __aicore__ inline int64_t HeadRow(int64_t rowBlock) const { return rowBlock; }
    __aicore__ inline int64_t TailRow(int64_t rowBlock) const { return tiling_.rowBlocks + rowBlock; }

    GroupedBiasAddGradTilingData tiling_;
    AscendC::GlobalTensor<T> gradY_;
    AscendC::GlobalTensor<I> groupIdx_;
    AscendC::GlobalTensor<T> gradBias_;
    AscendC::GlobalTensor<float> partials_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuffer_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> stores_;
    kernel::RowSum sum_;
    kernel::Groups<I, kIsIndexed> groups_;
    kernel::Span columns_;  // columns of this core
    kernel::Span rows_;     // rows of this core
    int64_t rowBlock_ = 0;
    int64_t usedRows_ = 0;
    bool areGroupsWhole_ = false;  // no group has rows of several cores
};

}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_GROUPED_BIAS_ADD_GRAD_H
