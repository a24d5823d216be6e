// Plan of NsaCompressGrad: heads times rows, split evenly over the vector cores. A tile has rows of a few heads.
#ifndef OPFORGE_OP_HOST_NSA_COMPRESS_GRAD_TILING_H
#define OPFORGE_OP_HOST_NSA_COMPRESS_GRAD_TILING_H

#include <algorithm>
#include <cstdint>
#include <limits>

#include "common/arithmetic.h"
#include "common/plan.h"
#include "nsa_compress_grad_problem.h"
#include "nsa_compress_grad_tiling_data.h"

namespace opforge {

namespace nsa_compress_grad {

inline constexpr int64_t kMaxElements = int64_t{1} << 57;                      // byte offsets stay far below 2^63
inline constexpr int64_t kMaxRowBytes = std::numeric_limits<uint32_t>::max();  // stride of a DMA
inline constexpr int64_t kMaxWindowRows = 65536;                               // larger windows do not fit into UB
inline constexpr int64_t kElementBytes = 2;
inline constexpr int64_t kElementsPerBlock = kUbBlockBytes / kElementBytes;
inline constexpr int64_t kFloatsPerBlock = kUbBlockBytes / kFloatBytes;
inline constexpr int64_t kFloatsPerRepeat = 64;

// Limits of one vector instruction: repeats, 32-byte blocks from one repeat to the next.
inline constexpr int64_t kMaxTileRows = 240;
inline constexpr int64_t kMaxTileColumns = 255 * kFloatsPerBlock;
// With a multiple of this number, tiles usually begin at window starts.
inline constexpr int64_t kRowGranule = 16;
inline constexpr int64_t kLoadBuffers = 2;
inline constexpr int64_t kStoreBuffers = 2;
// Rows of a window whose weights or sums are copied together: one DMA, one vector instruction.
inline constexpr int64_t kPieceRows = 128;
inline constexpr int64_t kMergeBytes = 4096;
inline constexpr int64_t kMergeSumBytes = 1024;
inline constexpr int64_t kListBytes = 2048;
inline constexpr int64_t kListWorkBytes = 512 + 2 * kListBytes;

// Unit for the comparison of costs: fractions of a cycle per row.
inline constexpr int64_t kCostUnit = 65536;

/// The block of rows and heads that a core processes at once.
struct Tile {
    int64_t heads = 0;
    int64_t partWidth = 0;  // columns of a head
    int64_t headPitch = 0;  // columns of a head, padded
    int64_t rows = 0;       // 0: no tile fits
    int64_t windows = 0;    // maximum number of windows that overlap the rows

    constexpr int64_t Columns() const { return heads * headPitch; }
};

/// Bytes of every buffer in UB; computed only in BudgetOf.
struct Budget {
    int64_t weightBlocks = 0;  // 32-byte blocks per weight
    int64_t rowBytes = 0;
    int64_t gradBytes = 0;
    int64_t wideBytes = 0;
    int64_t imageBytes = 0;
    int64_t wideGradBytes = 0;
    int64_t productBytes = 0;
    int64_t weightBytes = 0;
    int64_t storeBytes = 0;

    constexpr int64_t Total() const
    {
        return kLoadBuffers * (rowBytes + gradBytes) + kStoreBuffers * storeBytes + wideBytes + imageBytes +
               wideGradBytes + productBytes + weightBytes + kMergeBytes + kMergeSumBytes + kListBytes;
    }
};

constexpr Budget BudgetOf(const Tile& tile, int64_t windowRows)
{
    const int64_t area = tile.rows * tile.Columns();
    const int64_t gradArea = tile.windows * tile.Columns();
    const int64_t pieceRows = std::min(windowRows, kPieceRows);
    const int64_t sumArea = pieceRows * RoundUp(tile.heads, kElementsPerBlock);
    // During the copy, a weight fills a 32-byte block, eight heads at a time.
    const int64_t spreadArea = pieceRows * RoundUp(tile.heads, kFloatsPerBlock) * kFloatsPerBlock;
    const bool isOneWeightEnough = tile.heads == 1 || tile.headPitch % kFloatsPerRepeat == 0;
    Budget budget;
    budget.weightBlocks = isOneWeightEnough ? 1 : tile.headPitch / kFloatsPerBlock;
    budget.rowBytes = std::max(area, sumArea) * kElementBytes;
    budget.gradBytes = gradArea * kElementBytes;
    budget.wideBytes = std::max(std::max(area, sumArea) * kFloatBytes, kListWorkBytes);
    budget.imageBytes = area * kFloatBytes;
    budget.wideGradBytes = gradArea * kFloatBytes;
    budget.productBytes = std::max(windowRows * tile.Columns(), spreadArea) * kFloatBytes;
    budget.weightBytes = windowRows * tile.heads * budget.weightBlocks * kUbBlockBytes;
    budget.storeBytes = std::max(area * kElementBytes, sumArea * kFloatBytes);
    return budget;
}

/// Returns the estimated cycles of vector instructions and DMA for a tile.
constexpr int64_t CyclesOf(const Tile& tile, const NsaCompressGradProblem& problem)
{
    const int64_t repeats = CeilDiv(tile.Columns(), kFloatsPerRepeat);
    const int64_t windows =
        CeilDiv(tile.rows, problem.compressStride) + CeilDiv(problem.compressBlockSize, problem.compressStride) - 1;
    const int64_t products = CeilDiv(tile.rows * problem.compressBlockSize, problem.compressStride);
    // Two instructions per window and 64 columns, then a barrier; three instructions for all elements of the tile.
    const int64_t vector = repeats * (2 * products + 8 * windows + 3 * tile.rows) + 14 * windows + 100;
    const int64_t sectors = CeilDiv(tile.Columns() * kElementBytes, kGmSectorBytes);
    const int64_t dma = (tile.rows + windows) * (4 * sectors + 2) + 128;
    return vector + dma;
}

constexpr Tile WithRows(Tile tile, int64_t rows, const NsaCompressGradProblem& problem)
{
    tile.rows = rows;
    tile.windows = CeilDiv(rows + problem.compressBlockSize - 1, problem.compressStride);
    return tile;
}

constexpr Tile LeastTile(const NsaCompressGradProblem& problem)
{
    return WithRows({1, std::min(problem.D, kElementsPerBlock), kElementsPerBlock, 0, 0}, kRowGranule, problem);
}

/// Returns the tile with the maximum rows that fit; 0 rows: no tile fits.
constexpr Tile TallestOf(int64_t heads, int64_t partWidth, const NsaCompressGradProblem& problem,
                         const Platform& platform)
{
    Tile tile{heads, partWidth, RoundUp(partWidth, kElementsPerBlock), 0, 0};
    for (int64_t rows = kMaxTileRows; rows > 0; rows -= kRowGranule) {
        if (BudgetOf(WithRows(tile, rows, problem), problem.compressBlockSize).Total() <= platform.ubBytes) {
            return WithRows(tile, rows, problem);
        }
    }
    return tile;
}

/// Returns the cheapest tile that fits, of whole heads or of a part of one; 0 rows: no tile fits.
constexpr Tile TileOf(const NsaCompressGradProblem& problem, const Platform& platform)
{
    Tile best;
    int64_t bestCost = 0;
    const auto consider = [&](int64_t heads, int64_t partWidth) {
        const Tile tile = TallestOf(heads, partWidth, problem, platform);
        if (tile.rows == 0) {
            return;
        }
        const int64_t tiles = CeilDiv(problem.N, heads) * CeilDiv(problem.D, partWidth);
        const int64_t cost = SaturatingMul(tiles, kCostUnit * CyclesOf(tile, problem) / tile.rows);
        if (best.rows == 0 || cost < bestCost) {
            best = tile;
            bestCost = cost;
        }
    };
    for (int64_t width = kElementsPerBlock; width < std::min(problem.D, kMaxTileColumns); width *= 2) {
        consider(1, width);
    }
    const int64_t pitch = RoundUp(problem.D, kElementsPerBlock);
    for (int64_t heads = 1; heads <= std::min(problem.N, kMaxTileColumns / pitch); ++heads) {
        consider(heads, problem.D);
    }
    return best;
}

/// The number of cores, and whether several of them have rows of the same heads.
struct CoreSplit {
    int64_t cores = 1;
    bool needsBarrier = false;
};

constexpr CoreSplit CoreSplitOf(const NsaCompressGradProblem& problem, const Tile& tile, const Platform& platform)
{
    const int64_t tiles = CeilDiv(problem.N, tile.heads);
    const int64_t workers = problem.T * problem.N * problem.D / kMinCoreElements;
    // Every core has at least one row.
    const int64_t most =
        std::clamp<int64_t>(std::min(workers, problem.T * problem.N / tile.heads), 1, platform.coreNum);
    // Cores with an equal number of whole tiles of heads.
    int64_t apart = problem.N % tile.heads == 0 ? std::min(most, tiles) : 1;
    while (tiles % apart != 0) {
        --apart;
    }
    const int64_t tilesOfAll = SaturatingMul(tiles * CeilDiv(problem.D, tile.partWidth), CeilDiv(problem.T, tile.rows));
    const int64_t cycles = SaturatingMul(tilesOfAll, CyclesOf(tile, problem));
    const bool needsBarrier = cycles / apart - cycles / most > kBarrierCycles;
    return {needsBarrier ? most : apart, needsBarrier};
}

}  // namespace nsa_compress_grad

constexpr Plan<NsaCompressGradTilingData> PlanNsaCompressGrad(const NsaCompressGradProblem& problem,
                                                              const Platform& platform)
{
    namespace self = nsa_compress_grad;
    Plan<NsaCompressGradTilingData> plan;
    plan.tilingKey = NSA_COMPRESS_GRAD_GATHER;
    plan.blockNum = 1;
    const int64_t rowElements = SaturatingMul(problem.N, problem.D);
    const int64_t elements = SaturatingMul(problem.T, rowElements);
    if (elements > self::kMaxElements) {
        plan.refusal = {"elements of input", elements, self::kMaxElements};
        return plan;
    }
    if (rowElements * self::kElementBytes > self::kMaxRowBytes) {
        plan.refusal = {"bytes of a row of input", rowElements * self::kElementBytes, self::kMaxRowBytes};
        return plan;
    }
    if (problem.compressBlockSize > self::kMaxWindowRows) {
        plan.refusal = {"rows of a window", problem.compressBlockSize, self::kMaxWindowRows};
        return plan;
    }
    const self::Tile tile = self::TileOf(problem, platform);
    if (tile.rows == 0) {
        const int64_t least = self::BudgetOf(self::LeastTile(problem), problem.compressBlockSize).Total();
        plan.refusal = {"bytes of the unified buffer", least, platform.ubBytes};
        return plan;
    }
    const self::Budget budget = self::BudgetOf(tile, problem.compressBlockSize);

    NsaCompressGradTilingData& data = plan.data;
    data.rows = problem.T;
    data.windows = problem.O;
    data.heads = problem.N;
    data.headSize = problem.D;
    data.sequences = problem.B;
    data.windowRows = static_cast<int32_t>(problem.compressBlockSize);
    data.pieceRows = static_cast<int32_t>(std::min(problem.compressBlockSize, self::kPieceRows));
    data.stride = static_cast<int32_t>(problem.compressStride);
    data.lengths = problem.shapeCase == NsaCompressGradCase::kLengths ? 1 : 0;
    data.tileHeads = static_cast<int32_t>(tile.heads);
    data.partWidth = static_cast<int32_t>(tile.partWidth);
    data.headPitch = static_cast<int32_t>(tile.headPitch);
    data.weightBlocks = static_cast<int32_t>(budget.weightBlocks);
    data.tileRows = static_cast<int32_t>(tile.rows);
    data.tileWindows = static_cast<int32_t>(tile.windows);
    data.rowBytes = static_cast<int32_t>(budget.rowBytes);
    data.gradBytes = static_cast<int32_t>(budget.gradBytes);
    data.wideBytes = static_cast<int32_t>(budget.wideBytes);
    data.imageBytes = static_cast<int32_t>(budget.imageBytes);
    data.wideGradBytes = static_cast<int32_t>(budget.wideGradBytes);
    data.productBytes = static_cast<int32_t>(budget.productBytes);
    data.weightBytes = static_cast<int32_t>(budget.weightBytes);
    data.storeBytes = static_cast<int32_t>(budget.storeBytes);
    data.mergeBytes = self::kMergeBytes;
    data.mergeSumBytes = self::kMergeSumBytes;
    data.listBytes = self::kListBytes;
    data.plannedUbBytes = static_cast<int32_t>(budget.Total());

    const self::CoreSplit split = self::CoreSplitOf(problem, tile, platform);
    plan.blockNum = split.cores;
    if (split.needsBarrier) {
        const int64_t sums = problem.compressBlockSize * RoundUp(tile.heads, self::kElementsPerBlock);
        data.slotPitch = RoundUp(sums, kGmSectorBytes / kFloatBytes);
        plan.workspaceBytes = (split.cores + CeilDiv(problem.N, tile.heads)) * data.slotPitch * kFloatBytes;
    }
    return plan;
}

namespace nsa_compress_grad {

constexpr Plan<NsaCompressGradTilingData> ExamplePlan(int64_t rows, int64_t heads, int64_t headSize, int64_t windowRows)
{
    NsaCompressGradProblem problem;
    problem.T = rows;
    problem.N = heads;
    problem.D = headSize;
    problem.compressBlockSize = windowRows;
    problem.compressStride = 16;
    problem.O = (rows - windowRows) / 16 + 1;
    return PlanNsaCompressGrad(problem, kDefaultPlatform);
}

static_assert(ExamplePlan(32, 1, 1, 32).blockNum == 1, "a tiny problem stays on one core");
static_assert(ExamplePlan(32768, 8, 64, 32).blockNum == 48, "many rows: every core has some");
static_assert(ExamplePlan(4096, 1, 5000, 32).data.partWidth < 5000, "a wide head is worked on in parts");
static_assert(ExamplePlan(4096, 1, 16, 4096).refusal.allowed == 196352, "a window of products fits into UB");

}  // namespace nsa_compress_grad

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_NSA_COMPRESS_GRAD_TILING_H
