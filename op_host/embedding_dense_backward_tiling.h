// Plan of EmbeddingDenseBackward: a grid of row blocks times column slices over the vector cores, whatever the indices
// are, and how the indices are sorted.
#ifndef OPFORGE_OP_HOST_EMBEDDING_DENSE_BACKWARD_TILING_H
#define OPFORGE_OP_HOST_EMBEDDING_DENSE_BACKWARD_TILING_H

#include <algorithm>
#include <cstdint>
#include <limits>

#include "common/arithmetic.h"
#include "common/plan.h"
#include "embedding_dense_backward_problem.h"
#include "embedding_dense_backward_tiling_data.h"

namespace opforge {

namespace embedding_dense_backward {

inline constexpr int64_t kMaxElements = int64_t{1} << 58;  // byte offsets stay far below 2^63
inline constexpr int64_t kMaxRows = std::numeric_limits<int32_t>::max();
inline constexpr int64_t kFloatBytes = 4;
inline constexpr int64_t kWordBytes = 4;

inline constexpr int64_t kMaxTileWidth = 4096;
// A burst of 16 KiB reaches the full rate of the DMA; rows of a batch share the flags of a buffer.
inline constexpr int64_t kMaxTileBytes = 32768;
inline constexpr int64_t kTileBuffers = 3;
inline constexpr int64_t kStoreBuffers = 4;
// Slices start on multiples of this; thinner ones waste the DMA.
inline constexpr int64_t kSliceBytes = 2 * kGmSectorBytes;
// Less than this does not pay for starting another core.
inline constexpr int64_t kMinCoreBytes = 16384;

// Of the kernel: windows of indices and keys, probes of a search, the record of a row block.
inline constexpr int64_t kListBytes = 4096 + 2048 + 2048;
inline constexpr int64_t kRecordBytes = 32;

// Of the sort: UB for each index of a chunk and for probes; lists of 8-byte entries, read and written.
inline constexpr int64_t kSortBytesPerIndex = 24;
inline constexpr int64_t kProbeBytes = 4096;
inline constexpr int64_t kListWordsPerIndex = 4;
inline constexpr int64_t kMinChunk = 32;
inline constexpr int64_t kMaxChunk = 4096;
// Estimated cycles: a pass over an index in UB, what a chunk costs besides, and a level of merges with its meeting.
inline constexpr int64_t kChunkCycles = 1500;
inline constexpr int64_t kLevelCycles = 5000;

struct Grid {
    int64_t rowBlocks = 1;
    int64_t columnSlices = 1;
    int64_t sliceWidth = 0;
};

constexpr Grid GridOf(const EmbeddingDenseBackwardProblem& problem, int64_t cores)
{
    const int64_t granule = kSliceBytes / SizeOf(problem.gradDtype);
    Grid grid;
    grid.rowBlocks = std::clamp<int64_t>(std::max(problem.M, problem.numWeights), 1, cores);
    const int64_t slices = std::min(cores / grid.rowBlocks, CeilDiv(problem.E, granule));
    grid.sliceWidth = slices == 1 ? problem.E : RoundUp(CeilDiv(problem.E, slices), granule);
    grid.columnSlices = CeilDiv(problem.E, grid.sliceWidth);
    return grid;
}

/// Estimated cycles of a sort of `length` indices in chunks.
constexpr int64_t SortCycles(int64_t length, int64_t chunk, int64_t cores)
{
    int64_t passes = 2;
    for (int64_t run = kMinChunk; run < chunk; run *= 4) {
        ++passes;
    }
    int64_t cycles = CeilDiv(CeilDiv(length, chunk), cores) * (kChunkCycles + passes * chunk);
    for (int64_t list = chunk; list < length; list *= 2) {
        cycles += kLevelCycles + 2 * CeilDiv(length, cores);
    }
    return cycles;
}

/// The cheapest chunk that fits into UB; 0: none does.
constexpr int64_t ChunkOf(int64_t length, int64_t cores, int64_t ubBytes)
{
    int64_t best = 0;
    for (int64_t chunk = kMinChunk; chunk <= kMaxChunk; chunk *= 2) {
        const bool fits = chunk * kSortBytesPerIndex + kProbeBytes <= ubBytes;
        if (fits && (best == 0 || SortCycles(length, chunk, cores) < SortCycles(length, best, cores))) {
            best = chunk;
        }
    }
    return best;
}

/// Bytes of every buffer in UB that the sums use: the only place where they are decided.
struct Budget {
    int64_t tileWidth = 0;  // columns
    int64_t tileBytes = 0;
    int64_t workBytes = 0;
    int64_t carryBytes = 0;
    int64_t storeBytes = 0;
    int64_t recordBytes = 0;

    constexpr int64_t Total() const
    {
        return kTileBuffers * tileBytes + workBytes + carryBytes + kStoreBuffers * storeBytes + recordBytes +
               kListBytes;
    }
};

/// With the widest tile that fits, up to the slice of the grid, and as many rows in a batch as fit beside it.
constexpr Budget BudgetOf(const EmbeddingDenseBackwardProblem& problem, const Grid& grid, const Platform& platform)
{
    const int64_t elementBytes = SizeOf(problem.gradDtype);
    const int64_t granule = kSliceBytes / elementBytes;
    Budget budget;
    for (int64_t widest = kMaxTileWidth; widest >= granule; widest /= 2) {
        const int64_t tiles = CeilDiv(grid.sliceWidth, widest);
        budget.tileWidth = tiles == 1 ? grid.sliceWidth : RoundUp(CeilDiv(grid.sliceWidth, tiles), granule);
        const int64_t pitch = RoundUp(budget.tileWidth, kUbBlockBytes / elementBytes);
        budget.carryBytes = budget.storeBytes = pitch * kFloatBytes;
        budget.recordBytes = grid.rowBlocks * kRecordBytes;
        // A parked row must fit into a tile as well.
        budget.tileBytes = budget.workBytes = budget.carryBytes;
        if (budget.Total() > platform.ubBytes) {
            continue;
        }
        const int64_t left = platform.ubBytes - budget.Total() + kTileBuffers * budget.tileBytes + budget.workBytes;
        const int64_t rowBytes = pitch * elementBytes;
        const int64_t rows = std::min(kMaxTileBytes / rowBytes, left / (kTileBuffers * rowBytes + pitch * kFloatBytes));
        budget.tileBytes = std::max(budget.tileBytes, rows * rowBytes);
        budget.workBytes = std::max(budget.workBytes, rows * pitch * kFloatBytes);
        return budget;
    }
    return budget;
}

}  // namespace embedding_dense_backward

/// Splits the sorted rows and the columns over the cores, and UB over the buffers of a core.
constexpr Plan<EmbeddingDenseBackwardTilingData> PlanEmbeddingDenseBackward(
    const EmbeddingDenseBackwardProblem& problem, const Platform& platform)
{
    namespace self = embedding_dense_backward;
    Plan<EmbeddingDenseBackwardTilingData> plan;
    plan.tilingKey = EMBEDDING_DENSE_BACKWARD_DEFAULT;
    plan.blockNum = 1;
    if (problem.numWeights == 0 || problem.E == 0) {
        return plan;  // nothing to write: the kernel returns at once
    }
    const int64_t elements = SaturatingMul(SaturatingAdd(problem.M, problem.numWeights), problem.E);
    if (elements > self::kMaxElements) {
        plan.refusal = {"elements of grad and grad_weight", elements, self::kMaxElements};
        return plan;
    }
    if (problem.M > self::kMaxRows || problem.numWeights > self::kMaxRows) {
        const bool isGrad = problem.M > self::kMaxRows;
        plan.refusal = {isGrad ? "rows of grad" : "rows of grad_weight", isGrad ? problem.M : problem.numWeights,
                        self::kMaxRows};
        return plan;
    }
    const int64_t bytes = elements * SizeOf(problem.gradDtype);
    const int64_t cores = std::clamp<int64_t>(CeilDiv(bytes, self::kMinCoreBytes), 1, platform.coreNum);
    const self::Grid grid = self::GridOf(problem, cores);
    const self::Budget budget = self::BudgetOf(problem, grid, platform);
    const int64_t blocks = grid.rowBlocks * grid.columnSlices;
    const int64_t chunk = self::ChunkOf(problem.M, blocks, platform.ubBytes);
    if (budget.Total() > platform.ubBytes || chunk == 0) {
        plan.refusal = {"bytes of the unified buffer",
                        std::max(budget.Total(), self::kMinChunk * self::kSortBytesPerIndex + self::kProbeBytes),
                        platform.ubBytes};
        return plan;
    }

    EmbeddingDenseBackwardTilingData& data = plan.data;
    data.rows = problem.M;
    data.columns = problem.E;
    data.weights = problem.numWeights;
    data.padding = problem.paddingIdx >= 0 && problem.paddingIdx < problem.numWeights ? problem.paddingIdx : -1;
    data.sliceWidth = grid.sliceWidth;
    data.partialPitch = RoundUp(problem.E, kGmSectorBytes / self::kFloatBytes);
    data.scale = problem.scaleGradByFreq ? 1 : 0;
    data.columnSlices = static_cast<int32_t>(grid.columnSlices);
    data.rowBlocks = static_cast<int32_t>(grid.rowBlocks);
    data.tileWidth = static_cast<int32_t>(budget.tileWidth);
    data.chunk = static_cast<int32_t>(chunk);
    data.tileBuffers = self::kTileBuffers;
    data.tileBytes = static_cast<int32_t>(budget.tileBytes);
    data.workBytes = static_cast<int32_t>(budget.workBytes);
    data.carryBytes = static_cast<int32_t>(budget.carryBytes);
    data.storeBuffers = self::kStoreBuffers;
    data.storeBytes = static_cast<int32_t>(budget.storeBytes);

    plan.blockNum = blocks;
    if (problem.M > 0) {
        const int64_t lists = chunk < problem.M ? 1 : blocks;
        const int64_t words = lists * self::kListWordsPerIndex * problem.M + RoundUp(problem.M, 8) + grid.rowBlocks * 8;
        plan.workspaceBytes = words * self::kWordBytes + 2 * grid.rowBlocks * data.partialPitch * self::kFloatBytes;
    }
    return plan;
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_EMBEDDING_DENSE_BACKWARD_TILING_H
