// Plan of EmbeddingDenseBackward: a grid of row blocks times column slices over the vector cores, independent of the
// indices, and the chunks of the sort.
#ifndef OPFORGE_OP_HOST_EMBEDDING_DENSE_BACKWARD_TILING_H
#define OPFORGE_OP_HOST_EMBEDDING_DENSE_BACKWARD_TILING_H

#include <algorithm>
#include <cstdint>
#include <limits>

#include "common/arithmetic.h"
#include "common/plan.h"
#include "common/segmented_rows.h"
#include "common/tile.h"
#include "embedding_dense_backward_problem.h"
#include "embedding_dense_backward_tiling_data.h"

namespace opforge {

namespace embedding_dense_backward {

inline constexpr int64_t kMaxRows = std::numeric_limits<int32_t>::max();

inline constexpr int64_t kTileBuffers = 3;
// Buffers for neighboring rows of the output, which one DMA stores. Narrow rows have many short stores.
inline constexpr int64_t kStoreBytes = 49152;
inline constexpr int64_t kNarrowBytes = 1024;
inline constexpr int64_t kNarrowStoreBuffers = 6;
inline constexpr int64_t kStoreBuffers = 3;
using segmented_rows::Grid;
using segmented_rows::kMaxTileWidth;
using segmented_rows::kSliceBytes;

// Other buffers of the kernel: parts of the lists in GM, probes of a search, the record of a row block.
inline constexpr int64_t kWindowBytes = 4096;
inline constexpr int64_t kGapBytes = 2048;
inline constexpr int64_t kProbeBytes = 512;
inline constexpr int64_t kRecordBytes = 32;
// Bytes of an entry of the list of gaps. A row block has at most one more gap than rows.
inline constexpr int64_t kGapEntryBytes = 8;

// Bytes of the sort per index: in UB, and in the two GM lists that it reads and writes alternately.
inline constexpr int64_t kSortBytesPerIndex = 24;
inline constexpr int64_t kListBytesPerIndex = 16;
inline constexpr int64_t kMinChunk = 32;
inline constexpr int64_t kMaxChunk = 4096;

/// Returns the bytes of the sort in UB.
constexpr int64_t SortBytes(int64_t chunk)
{
    return chunk * kSortBytesPerIndex + 2 * kProbeBytes;
}

/// Returns the estimated cycles of a sort of `length` indices in chunks.
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

/// Returns the cheapest chunk that fits into UB; 0: no chunk fits.
constexpr int64_t ChunkOf(int64_t length, int64_t cores, int64_t ubBytes)
{
    int64_t best = 0;
    for (int64_t chunk = kMinChunk; chunk <= kMaxChunk; chunk *= 2) {
        const bool fits = SortBytes(chunk) <= ubBytes;
        if (fits && (best == 0 || SortCycles(length, chunk, cores) < SortCycles(length, best, cores))) {
            best = chunk;
        }
    }
    return best;
}

/// Bytes of every buffer in UB for the sums; computed only in BudgetOf.
struct Budget {
    int64_t tileWidth = 0;  // columns
    int64_t tileBytes = 0;
    int64_t workBytes = 0;
    int64_t carryBytes = 0;
    int64_t storeBuffers = 0;
    int64_t storeBytes = 0;
    int64_t recordBytes = 0;

    constexpr int64_t Total() const
    {
        return kTileBuffers * tileBytes + workBytes + carryBytes + storeBuffers * storeBytes + recordBytes +
               kWindowBytes + kGapBytes + kProbeBytes;
    }
};

/// Computes the buffers for the widest tile that fits, at most the slice of the grid, with the maximum rows per batch.
constexpr Budget BudgetOf(const EmbeddingDenseBackwardProblem& problem, const Grid& grid, const Platform& platform)
{
    const int64_t elementBytes = SizeOf(problem.gradDtype);
    const int64_t granule = kSliceBytes / elementBytes;
    Budget budget;
    for (int64_t widest = kMaxTileWidth; widest >= granule; widest /= 2) {
        const int64_t tiles = CeilDiv(grid.sliceWidth, widest);
        budget.tileWidth = tiles == 1 ? grid.sliceWidth : RoundUp(CeilDiv(grid.sliceWidth, tiles), granule);
        const int64_t pitch = RoundUp(budget.tileWidth, kUbBlockBytes / elementBytes);
        budget.carryBytes = pitch * kFloatBytes;
        budget.storeBuffers = budget.carryBytes <= kNarrowBytes ? kNarrowStoreBuffers : kStoreBuffers;
        budget.storeBytes = std::max(budget.carryBytes, kStoreBytes / budget.storeBuffers);
        budget.recordBytes = grid.rowBlocks * kRecordBytes;
        // A row of partial sums must fit into a tile.
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

// The sums by table rows (op_kernel/embedding_dense_backward/by_table.h): bytes of the buffers for loads, for stores,
// and of the scan; rows of a batch and of the table in UB; words of the list of a core, and behind it.
inline constexpr int64_t kChunkBytes = 32768;
inline constexpr int64_t kTableLoadBuffers = 2;
inline constexpr int64_t kRowBuffers = 4;
inline constexpr int64_t kRowBufferBytes = 8192;
inline constexpr int64_t kMaxLoadRows = 16;
inline constexpr int64_t kTableStoreBuffers = 2;
inline constexpr int64_t kTableStoreBytes = 1024;
inline constexpr int64_t kScanWords = 11776;
inline constexpr int64_t kBatchBytes = 14336;
inline constexpr int64_t kMaxBatchRows = 32;
inline constexpr int64_t kMaxTableRows = 512;
inline constexpr int64_t kMaxTableParts = 128;
inline constexpr int64_t kSecondSums = 8;
inline constexpr int64_t kListWords = 5120;
inline constexpr int64_t kListTail = 256;
inline constexpr int64_t kMaxHits = 1024;  // indices that are added to the list together
inline constexpr int64_t kMaxTableCores = 64;
inline constexpr int64_t kMaxTableRowBytes = 1024;  // in float32
inline constexpr int64_t kMaxFrequent = 8;
inline constexpr int64_t kRecordWords = 32;
inline constexpr int64_t kSamples = 64;  // indices of the sample of the list
inline constexpr int64_t kBitsPerWord = 32;
// Estimated cycles: of the scan for a chunk of indices, and for 64 words of it; of a part of the table; of a row of
// grad; of a barrier and the records. Those of the sums of sorted rows: for a row, and for the merge and the gaps.
inline constexpr int64_t kScanCycles = 420;
inline constexpr int64_t kScanLanes = 20;  // words that are scanned in a cycle
inline constexpr int64_t kPartCycles = 450;
inline constexpr int64_t kRowCycles = 11;
inline constexpr int64_t kRecordCycles = 2700;
inline constexpr int64_t kSortedRowCycles = 14;
inline constexpr int64_t kMergeCycles = 6000;
inline constexpr int64_t kRepeatBytes = 256;
inline constexpr int64_t kPortBytes = 32;  // bytes of GM per cycle and core

/// The sums by table rows, and estimated cycles; `rows` is 0 if the kernel does not support the problem.
struct Table {
    int64_t rows = 0;
    int64_t batchRows = 0;
    int64_t loadRows = 0;
    int64_t evenRows = 0;
    int64_t positionBits = 0;
    int64_t tableBytes = 0;
    int64_t ubBytes = 0;
    int64_t workspaceBytes = 0;
    int64_t cycles = 0;  // without the stores, which all algorithms have
};

/// Returns the sums by table rows for `cores` cores.
constexpr Table TableOf(const EmbeddingDenseBackwardProblem& problem, const Platform& platform)
{
    const int64_t elementBytes = SizeOf(problem.gradDtype);
    const int64_t cores = platform.coreNum;
    const int64_t rowBytes = problem.E * elementBytes;
    const int64_t sumBytes = problem.E * kFloatBytes;
    Table table;
    if (problem.scaleGradByFreq || cores > kMaxTableCores || problem.numWeights < cores ||
        sumBytes > kMaxTableRowBytes || rowBytes % kUbBlockBytes != 0 || problem.M > kMaxTableCores * kListWords) {
        return table;
    }
    const int64_t ownedRows = CeilDiv(problem.numWeights, cores);
    const int64_t meanRows = CeilDiv(problem.M, cores);
    const int64_t indexWords = SizeOf(problem.indicesDtype) / kFloatBytes;
    const int64_t chunks = CeilDiv(problem.M * indexWords * kFloatBytes, kChunkBytes);
    table.evenRows = meanRows + meanRows / 8 + 64;
    while (int64_t{1} << table.positionBits < problem.M) {
        ++table.positionBits;
    }
    const int64_t fillers = chunks * (kUbBlockBytes / kFloatBytes);
    if (table.evenRows + fillers + kMaxHits > kListWords || ownedRows > (int64_t{1} << 30 >> table.positionBits)) {
        return Table();
    }
    const int64_t listBytes = 2 * (kListWords + kListTail) * (kFloatBytes * kBitsPerWord + kFloatBytes) / kBitsPerWord;
    table.batchRows = RoundDown(std::min({kBatchBytes / sumBytes, kMaxBatchRows, kChunkBytes / rowBytes}), 2);
    table.loadRows = RoundDown(std::min(kMaxLoadRows, kRowBufferBytes / rowBytes), 2);
    const int64_t otherBytes = listBytes + kTableStoreBuffers * kTableStoreBytes + kSamples * indexWords * kFloatBytes;
    // The buffers of the search and of the sums share memory. Vector instructions add half and float rows to floats.
    const int64_t scanBytes = kScanWords * kFloatBytes + (table.batchRows + 1) * sumBytes + kChunkBytes;
    const int64_t searchBytes = scanBytes + (kTableLoadBuffers - 1) * kChunkBytes;
    const int64_t widened = problem.gradDtype == DataType::kBfloat16 ? table.loadRows : 0;
    // The output buffers have one row more than the table if its number of rows is odd.
    const int64_t rowBuffers = kRowBuffers * table.loadRows * rowBytes + (widened + kSecondSums) * sumBytes + rowBytes;
    const int64_t ubBytes = platform.ubBytes - otherBytes;
    // The second search loads its first indices while the output buffers are stored.
    const int64_t outputs = (ubBytes - scanBytes) / rowBytes - 1;
    const int64_t most = std::min({(ubBytes - rowBuffers) / (sumBytes + rowBytes), outputs, kMaxTableRows, ownedRows});
    if (most < kMaxFrequent) {
        return Table();
    }
    const int64_t parts = CeilDiv(ownedRows, most);
    table.rows = std::max(CeilDiv(ownedRows, parts), kMaxFrequent);
    table.tableBytes = std::max(
        {searchBytes, rowBuffers + table.rows * (sumBytes + rowBytes), scanBytes + (table.rows + 1) * rowBytes});
    table.ubBytes = otherBytes + table.tableBytes;
    table.workspaceBytes = cores * (kRecordWords + (2 * kMaxFrequent + 1) * problem.E) * kFloatBytes;
    if (table.ubBytes > platform.ubBytes || parts > kMaxTableParts) {
        return Table();
    }
    const int64_t scan = chunks * kScanCycles + problem.M * indexWords / kScanLanes * indexWords + meanRows;
    const int64_t row = std::max(kRowCycles + sumBytes / kRepeatBytes, rowBytes / kPortBytes);
    table.cycles =
        scan + kRecordCycles + parts * kPartCycles + meanRows * row + 2 * ownedRows * sumBytes / kRepeatBytes;
    return table;
}

/// Returns the estimated cycles of the sums of sorted rows.
constexpr int64_t SortedCycles(const EmbeddingDenseBackwardProblem& problem, int64_t chunk, int64_t cores)
{
    const int64_t row = std::max(kSortedRowCycles, problem.E * SizeOf(problem.gradDtype) / kPortBytes);
    return SortCycles(problem.M, chunk, cores) + CeilDiv(problem.M, cores) * row + kMergeCycles;
}

// The kernel for cores without a sort (op_kernel/common/arch/owner_scan.h, row_panel.h): bytes of the scan, of the two
// buffers of loads, of a panel of rows.
inline constexpr int64_t kScanBytes = 2 * 16384 + 768 + 1024 + 3 * 16384 + 16416;
inline constexpr int64_t kOwnerTileBytes = 24576;
inline constexpr int64_t kOwnerTileWidth = 2048;
inline constexpr int64_t kPanelBytes = 8192;

/// Plans ranges of table rows: each core scans all indices for its range. No core stores less than 32 bytes.
constexpr Plan<EmbeddingDenseBackwardTilingData> PlanByOwner(const EmbeddingDenseBackwardProblem& problem,
                                                             const Platform& platform)
{
    const int64_t elementBytes = SizeOf(problem.gradDtype);
    const int64_t blockElements = kUbBlockBytes / elementBytes;
    const int64_t bytes =
        SaturatingMul(SaturatingMul(SaturatingAdd(problem.M, problem.numWeights), problem.E), elementBytes);
    const int64_t leastRows = CeilDiv(blockElements, problem.E);
    const int64_t most = std::max<int64_t>(std::min(platform.coreNum, problem.numWeights / leastRows), 1);
    Plan<EmbeddingDenseBackwardTilingData> plan;
    plan.tilingKey = EMBEDDING_DENSE_BACKWARD_DEFAULT;
    plan.blockNum = std::clamp<int64_t>(CeilDiv(bytes, segmented_rows::kMinCoreBytes), 1, most);
    EmbeddingDenseBackwardTilingData& data = plan.data;
    data.rows = problem.M;
    data.columns = problem.E;
    data.weights = problem.numWeights;
    data.padding = problem.paddingIdx >= 0 && problem.paddingIdx < problem.numWeights ? problem.paddingIdx : -1;
    data.scale = problem.scaleGradByFreq ? 1 : 0;
    data.tileWidth = static_cast<int32_t>(kOwnerTileWidth);
    data.tileBytes = static_cast<int32_t>(kOwnerTileBytes);
    data.workBytes = static_cast<int32_t>(kOwnerTileBytes / elementBytes * kFloatBytes);
    data.carryBytes = static_cast<int32_t>(kOwnerTileWidth * kFloatBytes);
    data.storeBytes = static_cast<int32_t>(kPanelBytes);
    const int64_t panels = problem.E < blockElements ? 3 : 2;
    const int64_t ubBytes = kScanBytes + 2 * kOwnerTileBytes + data.workBytes + data.carryBytes + panels * kPanelBytes;
    data.plannedUbBytes = static_cast<int32_t>(ubBytes);
    if (ubBytes > platform.ubBytes) {
        plan.refusal = {"bytes of the unified buffer", ubBytes, platform.ubBytes};
    }
    return plan;
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
        return plan;  // nothing to write: the kernel returns immediately
    }
    const int64_t elements = SaturatingMul(SaturatingAdd(problem.M, problem.numWeights), problem.E);
    if (elements > tile::kMaxElements) {
        plan.refusal = {"elements of grad and grad_weight", elements, tile::kMaxElements};
        return plan;
    }
    if (problem.M > self::kMaxRows || problem.numWeights > self::kMaxRows) {
        const bool isGrad = problem.M > self::kMaxRows;
        plan.refusal = {isGrad ? "rows of grad" : "rows of grad_weight", isGrad ? problem.M : problem.numWeights,
                        self::kMaxRows};
        return plan;
    }
    if (platform.hasBlockCopyOnly) {
        return self::PlanByOwner(problem, platform);
    }
    const int64_t elementBytes = SizeOf(problem.gradDtype);
    const self::Grid grid = segmented_rows::GridOf({problem.M, problem.E, problem.numWeights, elementBytes}, platform);
    const self::Budget budget = self::BudgetOf(problem, grid, platform);
    const int64_t blocks = grid.rowBlocks * grid.columnSlices;
    const int64_t chunk = self::ChunkOf(problem.M, blocks, platform.ubBytes);
    const int64_t ubBytes = std::max(budget.Total(), self::SortBytes(std::max(chunk, self::kMinChunk)));
    if (ubBytes > platform.ubBytes) {
        plan.refusal = {"bytes of the unified buffer", ubBytes, platform.ubBytes};
        return plan;
    }

    EmbeddingDenseBackwardTilingData& data = plan.data;
    data.rows = problem.M;
    data.columns = problem.E;
    data.weights = problem.numWeights;
    data.padding = problem.paddingIdx >= 0 && problem.paddingIdx < problem.numWeights ? problem.paddingIdx : -1;
    data.sliceWidth = grid.sliceWidth;
    data.partialPitch = RoundUp(problem.E, kGmSectorBytes / kFloatBytes);
    data.scale = problem.scaleGradByFreq ? 1 : 0;
    data.columnSlices = static_cast<int32_t>(grid.columnSlices);
    data.rowBlocks = static_cast<int32_t>(grid.rowBlocks);
    data.tileWidth = static_cast<int32_t>(budget.tileWidth);
    data.chunk = static_cast<int32_t>(chunk);
    data.sortBytes = static_cast<int32_t>(self::SortBytes(chunk));
    data.tileBuffers = self::kTileBuffers;
    data.tileBytes = static_cast<int32_t>(budget.tileBytes);
    data.workBytes = static_cast<int32_t>(budget.workBytes);
    data.carryBytes = static_cast<int32_t>(budget.carryBytes);
    data.storeBuffers = static_cast<int32_t>(budget.storeBuffers);
    data.storeBytes = static_cast<int32_t>(budget.storeBytes);
    data.windowBytes = self::kWindowBytes;
    data.gapBytes = self::kGapBytes;
    data.recordBytes = static_cast<int32_t>(budget.recordBytes);
    data.probeBytes = self::kProbeBytes;
    data.plannedUbBytes = static_cast<int32_t>(ubBytes);

    plan.blockNum = blocks;
    if (problem.M > 0) {
        const int64_t lists = chunk < problem.M ? 1 : blocks;
        const int64_t gapBytes = (problem.M + grid.rowBlocks) * self::kGapEntryBytes;
        plan.workspaceBytes = lists * self::kListBytesPerIndex * problem.M + gapBytes +
                              grid.rowBlocks * (self::kRecordBytes + 2 * data.partialPitch * kFloatBytes);
        const self::Table table = self::TableOf(problem, platform);
        if (table.rows > 0 && blocks == platform.coreNum && table.cycles < self::SortedCycles(problem, chunk, blocks)) {
            data.tableRows = static_cast<int32_t>(table.rows);
            data.loadRows = static_cast<int32_t>(table.loadRows);
            data.batchRows = static_cast<int32_t>(table.batchRows);
            data.listWords = static_cast<int32_t>(self::kListWords);
            data.evenRows = static_cast<int32_t>(table.evenRows);
            data.positionBits = static_cast<int32_t>(table.positionBits);
            data.tableStoreBytes = static_cast<int32_t>(self::kTableStoreBytes);
            data.tableBytes = static_cast<int32_t>(table.tableBytes);
            data.tableOffset = RoundUp(plan.workspaceBytes, kGmSectorBytes);
            data.plannedUbBytes = static_cast<int32_t>(std::max(ubBytes, table.ubBytes));
            plan.workspaceBytes = data.tableOffset + table.workspaceBytes;
        }
    }
    return plan;
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_EMBEDDING_DENSE_BACKWARD_TILING_H
