// Even splits of rows of heads.
#ifndef OPFORGE_OP_KERNEL_NSA_COMPRESS_GRAD_HEAD_SHARES_H
#define OPFORGE_OP_KERNEL_NSA_COMPRESS_GRAD_HEAD_SHARES_H

#include "common/arithmetic.h"

namespace opforge {
namespace kernel {

/// Splits rows of heads evenly over cores. Heads are grouped into tiles of `tileHeads`; the last tile may have fewer.
/// The work is counted in rows of one head, from the last row of a tile to the first row of the next. A row belongs to
/// the core of its last head.
class HeadShares {
public:
    __aicore__ inline constexpr void Init(int64_t heads, int64_t rows, int64_t tileHeads, int64_t shares)
    {
        heads_ = heads;
        rows_ = rows;
        tileHeads_ = tileHeads;
        shares_ = shares;
    }

    __aicore__ inline constexpr int64_t HeadsOf(int64_t tile) const
    {
        return Smaller(tileHeads_, heads_ - tile * tileHeads_);
    }

    /// Returns the tiles that may have rows of a core.
    __aicore__ inline constexpr Span TilesOf(int64_t share) const
    {
        return {PlaceOf(share).tile, Smaller(PlaceOf(share + 1).tile + 1, CeilDiv(heads_, tileHeads_))};
    }

    /// Returns the rows of a tile that a core has.
    __aicore__ inline constexpr Span RowsOf(int64_t share, int64_t tile) const
    {
        const Place begin = PlaceOf(share);
        const Place end = PlaceOf(share + 1);
        return {tile == begin.tile ? begin.row : 0, tile == end.tile ? end.row : rows_};
    }

    /// Returns the cores with rows of a tile.
    __aicore__ inline constexpr Span OwnersOf(int64_t tile) const
    {
        const int64_t first = tile * tileHeads_ * rows_;
        const int64_t rowSize = HeadsOf(tile);
        return {PartIndexOf(heads_ * rows_, shares_, first + rowSize - 1),
                PartIndexOf(heads_ * rows_, shares_, first + rows_ * rowSize - 1) + 1};
    }

private:
    struct Place {
        int64_t tile;
        int64_t row;
    };

    /// Returns the start of the work of a core.
    __aicore__ inline constexpr Place PlaceOf(int64_t share) const
    {
        const int64_t position = share == shares_ ? heads_ * rows_ : PartOf(heads_ * rows_, shares_, share).begin;
        const int64_t tileSize = tileHeads_ * rows_;
        const int64_t tile = position / tileSize;
        const int64_t offset = position % tileSize;
        return {tile, offset == 0 ? 0 : offset / HeadsOf(tile)};
    }

    int64_t heads_ = 0;
    int64_t rows_ = 0;
    int64_t tileHeads_ = 1;
    int64_t shares_ = 1;
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_NSA_COMPRESS_GRAD_HEAD_SHARES_H
