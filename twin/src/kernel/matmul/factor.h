// The left or right factor of a product: its blocks in L1 and their way to L0.
#ifndef OPFORGE_TWIN_KERNEL_MATMUL_FACTOR_H
#define OPFORGE_TWIN_KERNEL_MATMUL_FACTOR_H

#include <vector>

#include "kernel/exec/block.h"
#include "opforge_twin/kernel/matmul/job.h"

namespace opforge::twin::kernel {

/// A range of rows of A (columns of B), and of k.
struct FactorRange {
    int64_t outer;  ///< first row of A, or column of B
    int64_t outerCount;
    int64_t k;
    int64_t kCount;
};

class Factor {
public:
    enum class Side : uint8_t { kLeft, kRight };

    /// Bytes of L1 that the blocks of a factor take.
    static int64_t BytesInL1(const MatmulJob& job, Side side);

    /// `indices`: the memory in L1 for the indices of a sparse factor, a quarter of that of the blocks.
    Factor(Block& block, const MatmulJob& job, Side side, const LocalView& l1, const LocalView& indices,
           const Call& call);

    /// Loads the block of L1 that has tile `outerTile` and base block `kBlock`, if it is not there.
    void Require(int64_t outerTile, int64_t kBlock);
    /// The same ahead of time; does nothing if that would replace the block of the last Require.
    void Prefetch(int64_t outerTile, int64_t kBlock);
    /// Loads a base block of the last required block to L0; `range` is in the whole factor.
    void LoadL0(const LocalView& dst, const FactorRange& range);

private:
    struct Slot {
        int64_t outerGroup = -1;
        int64_t kGroup = -1;
        uint64_t used = 0;
        bool isPending = false;  ///< its flag was not waited for
    };

    /// The function of the kernel that copies blocks to L1; null for the default.
    MatmulCopyIn CopyFunction() const;
    FactorRange GroupRange(int64_t outerGroup, int64_t kGroup) const;
    Slot* Find(int64_t outerTile, int64_t kBlock);
    Slot& Load(int64_t outerTile, int64_t kBlock);
    void CopyIn(const LocalView& dst, const FactorRange& range, int64_t outerGroup, int64_t kGroup);
    void CopyRows(const LocalView& dst, int64_t row, int64_t rows, int64_t column, int64_t columns);
    void RequireRows(int64_t used, int64_t stored);
    void CopyFractals(const LocalView& dst, int64_t row, int64_t rows, int64_t column, int64_t columns);
    /// Copies the indices of a block of a sparse factor to L1.
    void CopyIndices(const LocalView& dst, const FactorRange& range);
    /// Loads the fractals of a right factor whose rows have k; `dst` has `fractals` of them for each 32 bytes of k.
    void LoadStraight(const LocalView& dst, const LocalView& src, int64_t rows, int64_t outer, int64_t k,
                      int64_t fractals, int64_t blocks);
    /// Loads squares of int4b_t to L0B, and transposes them.
    void LoadSquares(const LocalView& dst, const LocalView& src, int64_t rows, const FactorRange& inBlock);
    /// Rows of a block in L1, with padding.
    int64_t RowsInL1(int64_t rows) const;
    void FillScalar(const LocalView& dst, int64_t bytes);
    LocalView ViewOf(const Slot& slot) const;
    LocalView IndicesOf(const Slot& slot) const;

    Block& block_;
    const MatmulJob& job_;
    const Side side_;
    const MatmulOperand& operand_;
    const Call& call_;
    bool kIsInner_;      ///< k runs along the rows of the stored matrix
    int64_t single_;     ///< rows of A, columns of B, of this core
    int64_t outerStep_;  ///< rows (columns) of a block in L1
    int64_t tilesPerStep_;
    int64_t kStep_;
    int64_t kBlocksPerStep_;
    int64_t pitch_;    ///< of rows in global memory, in elements
    int64_t orgRows_;  ///< of the stored matrix
    int64_t slotBytes_;
    LocalView l1_;
    LocalView indices_;
    std::vector<Slot> slots_;
    Slot* current_ = nullptr;
    uint64_t uses_ = 0;
    AscendC::HardEvent loaded_ = AscendC::HardEvent::MTE2_MTE1;
    int64_t loadedId_;
    int64_t freedId_;
};

/// A view of `bytes` from `offset` bytes of a buffer on, with elements of a type.
LocalView Part(const LocalView& view, int64_t offset, Dtype dtype, int64_t size);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_MATMUL_FACTOR_H
