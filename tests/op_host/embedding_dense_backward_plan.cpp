// Draws random problems and platforms and checks the guarantees of every plan of EmbeddingDenseBackward. Usage:
// <program> COUNT SEED. Prints the first few violations, one per line, and exits with 1 if there is any.
#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "embedding_dense_backward_tiling.h"
#include "plan_check.h"

namespace {

using opforge::DataType;
using opforge::EmbeddingDenseBackwardProblem;
using opforge::Platform;
using opforge::check::Dice;
using opforge::check::kRealUbBytes;

opforge::check::Guarantees g_guarantees;

struct Drawn {
    EmbeddingDenseBackwardProblem problem;
    Platform platform;

    int64_t ElementBytes() const { return SizeOf(problem.gradDtype); }
};

void Expect(bool holds, const char* guarantee, const Drawn& drawn)
{
    if (g_guarantees.Holds(holds, guarantee)) {
        return;
    }
    const EmbeddingDenseBackwardProblem& p = drawn.problem;
    std::printf("M=%lld E=%lld weights=%lld padding=%lld dtype=%d index=%d cores=%lld ub=%lld\n",
                static_cast<long long>(p.M), static_cast<long long>(p.E), static_cast<long long>(p.numWeights),
                static_cast<long long>(p.paddingIdx), static_cast<int>(p.gradDtype), static_cast<int>(p.indicesDtype),
                static_cast<long long>(drawn.platform.coreNum), static_cast<long long>(drawn.platform.ubBytes));
}

Drawn Draw(Dice& dice)
{
    constexpr DataType kDtypes[] = {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32};
    constexpr DataType kIndexDtypes[] = {DataType::kInt32, DataType::kInt64};
    Drawn drawn;
    EmbeddingDenseBackwardProblem& problem = drawn.problem;
    // Mostly realistic shapes, sometimes hostile ones.
    const bool isAbsurd = dice.Between(0, 19) == 0;
    problem.gradDtype = dice.OneOf(kDtypes);
    problem.indicesDtype = dice.OneOf(kIndexDtypes);
    problem.E = dice.Size(isAbsurd ? 62 : 20);
    problem.M = problem.I = dice.Size(isAbsurd ? 62 : 22);
    problem.numWeights = dice.Size(isAbsurd ? 62 : 22);
    problem.paddingIdx = dice.Between(0, 2) == 0 ? dice.Between(-3, problem.numWeights + 2)
                         : isAbsurd              ? dice.Between(INT64_MIN, INT64_MAX)
                                                 : -1;
    problem.scaleGradByFreq = dice.Between(0, 1) == 1;
    drawn.platform = dice.Device();
    return drawn;
}

void CheckRefusal(const Drawn& drawn, const opforge::Refusal& refusal)
{
    const EmbeddingDenseBackwardProblem& p = drawn.problem;
    Expect(refusal.got > refusal.allowed, "a refusal names a need above its limit", drawn);
    const int64_t elements = opforge::SaturatingMul(opforge::SaturatingAdd(p.M, p.numWeights), p.E);
    Expect(elements > opforge::tile::kMaxElements || std::max(p.M, p.numWeights) > INT32_MAX ||
               drawn.platform.ubBytes < kRealUbBytes,
           "a real device refuses no real problem", drawn);
}

void CheckGrid(const Drawn& drawn, const EmbeddingDenseBackwardTilingData& data, int64_t blockNum)
{
    Expect(blockNum >= 1 && blockNum <= drawn.platform.coreNum, "blocks are cores", drawn);
    Expect(blockNum == int64_t{data.rowBlocks} * data.columnSlices, "blocks are the grid", drawn);
    Expect(
        (data.columnSlices - 1) * data.sliceWidth < data.columns && data.columnSlices * data.sliceWidth >= data.columns,
        "slices cover the columns, and none is empty", drawn);
    Expect(data.columnSlices == 1 || data.sliceWidth * drawn.ElementBytes() % 128 == 0, "slices begin on sectors",
           drawn);
    Expect(data.tileWidth >= 1 && data.tileWidth <= data.sliceWidth, "a tile is part of a slice", drawn);
    Expect(data.tileWidth == data.sliceWidth || data.tileWidth * drawn.ElementBytes() % 128 == 0,
           "tiles begin on sectors", drawn);
}

void CheckSort(const Drawn& drawn, const EmbeddingDenseBackwardTilingData& data)
{
    Expect(data.chunk >= 32 && (data.chunk & (data.chunk - 1)) == 0, "a chunk is a power of two", drawn);
    Expect(data.chunk / 4 <= 4095, "a run in a chunk is a list of MrgSort", drawn);
    Expect(data.sortBytes >= 24 * data.chunk + 2 * 16 * 32 && data.sortBytes <= drawn.platform.ubBytes,
           "the sort fits into UB", drawn);
    Expect(data.padding >= -1 && data.padding < data.weights, "padding is a row or -1", drawn);
    const int64_t padding = drawn.problem.paddingIdx;
    Expect(padding < 0 || padding >= data.weights || data.padding == padding, "a padding row is kept", drawn);
}

void CheckBuffers(const Drawn& drawn, const EmbeddingDenseBackwardTilingData& data)
{
    const int64_t size = drawn.ElementBytes();
    int64_t total = int64_t{data.tileBuffers} * data.tileBytes + int64_t{data.storeBuffers} * data.storeBytes;
    for (const int64_t bytes :
         {data.workBytes, data.carryBytes, data.windowBytes, data.gapBytes, data.recordBytes, data.probeBytes}) {
        Expect(bytes > 0 && bytes % 32 == 0, "buffers are whole 32-byte blocks", drawn);
        total += bytes;
    }
    Expect(data.tileBytes % 32 == 0 && data.storeBytes % 32 == 0, "queues are of whole 32-byte blocks", drawn);
    Expect(total <= drawn.platform.ubBytes, "buffers fit into UB", drawn);
    Expect(data.tileBuffers >= 2, "loads and sums overlap", drawn);

    const int64_t pitch = opforge::RoundUp(data.tileWidth, 32 / size);
    Expect(pitch * 4 <= data.tileBytes, "a tile holds a row, and a parked one", drawn);
    Expect(pitch * 4 <= std::min({data.workBytes, data.carryBytes, data.storeBytes}), "all hold a row", drawn);
    Expect(data.tileBytes / 32 <= 4095, "a batch of the narrowest rows is one DMA", drawn);
    Expect(data.recordBytes >= data.rowBlocks * 32, "there is a record for each row block", drawn);
    Expect(data.probeBytes >= 16 * 32, "a search has 16 probes", drawn);
}

void CheckWorkspace(const Drawn& drawn, const EmbeddingDenseBackwardTilingData& data, int64_t blocks, int64_t bytes)
{
    const int64_t lists = data.chunk < data.rows ? 1 : blocks;
    const int64_t gaps = (data.rows + data.rowBlocks) * 8;
    const int64_t parked = 2 * data.rowBlocks * data.partialPitch * 4;
    Expect(data.partialPitch >= data.columns && data.partialPitch % 32 == 0, "parked rows are apart, on sectors",
           drawn);
    Expect(bytes == 0 ? data.rows == 0 : bytes >= lists * data.rows * 16 + gaps + data.rowBlocks * 32 + parked,
           "the workspace holds the lists, the gaps, the records and the parked rows", drawn);
}

/// The sums of ranges of table rows; the limits are those of op_kernel/embedding_dense_backward/by_table.h and
/// range_scan.h.
void CheckTable(const Drawn& drawn, const EmbeddingDenseBackwardTilingData& data, int64_t blocks, int64_t bytes)
{
    constexpr int64_t chunkBytes = 32768;
    constexpr int64_t scanBytes = (8192 + 3 * 1024 + 2 * 256) * 4;
    const int64_t rowBytes = data.columns * drawn.ElementBytes();
    const int64_t sumBytes = data.columns * 4;
    const int64_t owned = opforge::CeilDiv(data.weights, blocks);
    const bool isWidened = drawn.problem.gradDtype == DataType::kBfloat16;
    Expect(blocks == drawn.platform.coreNum && blocks <= 64 && data.scale == 0, "all cores have sums, without scaling",
           drawn);
    Expect(rowBytes % 32 == 0, "rows are whole 32-byte blocks", drawn);
    Expect(owned << data.positionBits <= int64_t{1} << 30 && data.rows <= int64_t{1} << data.positionBits,
           "a row of a core and a position fit into a word", drawn);
    Expect(data.tableRows <= 512 && opforge::CeilDiv(owned, int64_t{data.tableRows}) <= 128,
           "there are not too many sums", drawn);
    const int64_t chunks = opforge::CeilDiv(data.rows * SizeOf(drawn.problem.indicesDtype), chunkBytes);
    Expect(data.evenRows * blocks >= data.rows, "cores share the rows of full cores only", drawn);
    Expect(data.listWords % 256 == 0 && data.evenRows + 1024 + 8 * chunks <= data.listWords,
           "the indices of a core fit into its list", drawn);
    for (const int64_t rows : {int64_t{data.batchRows}, int64_t{data.loadRows}}) {
        Expect(rows >= 2 && rows % 2 == 0, "rows are read as pairs of indices", drawn);
    }
    Expect(data.loadRows <= 16, "there are row numbers for a load", drawn);
    Expect(data.batchRows * rowBytes <= chunkBytes, "a buffer has a batch", drawn);
    Expect(data.tableStoreBytes % 32 == 0 && sumBytes <= data.tableStoreBytes, "an output buffer has a row", drawn);
    const int64_t words = data.listWords + 256;
    const int64_t lists = 2 * words * 4 + 2 * words / 8;
    const int64_t widened = isWidened ? data.loadRows : 0;
    const int64_t outputs = 2 * opforge::CeilDiv(int64_t{data.tableRows}, int64_t{2}) * rowBytes;
    const int64_t sums = 4 * data.loadRows * rowBytes + (widened + data.tableRows + 8) * sumBytes + outputs;
    const int64_t search = scanBytes + (data.batchRows + 1) * sumBytes;
    Expect(data.tableBytes >= 2 * chunkBytes + search, "the search fits", drawn);
    Expect(data.tableBytes >= chunkBytes + search + outputs, "the outputs are after the first load of a search", drawn);
    Expect(data.tableBytes >= sums, "the rows, the sums and the outputs fit", drawn);
    const int64_t samples = 64 * SizeOf(drawn.problem.indicesDtype);
    const int64_t ubBytes = lists + 2 * int64_t{data.tableStoreBytes} + samples + data.tableBytes;
    Expect(ubBytes <= data.plannedUbBytes && ubBytes <= drawn.platform.ubBytes, "the buffers of the sums fit into UB",
           drawn);
    const int64_t sorted = data.rows * 16 + (data.rows + data.rowBlocks) * 8 + data.rowBlocks * 32 +
                           2 * data.rowBlocks * data.partialPitch * 4;
    Expect(data.tableOffset % 128 == 0 && data.tableOffset >= sorted &&
               bytes >= data.tableOffset + blocks * (32 + 17 * data.columns) * 4,
           "the workspace holds the records and the shared sums behind that of the sort", drawn);
}

void CheckPlan(const Drawn& drawn)
{
    const auto plan = opforge::PlanEmbeddingDenseBackward(drawn.problem, drawn.platform);
    if (plan.refusal.limit != nullptr) {
        CheckRefusal(drawn, plan.refusal);
        return;
    }
    const EmbeddingDenseBackwardTilingData& data = plan.data;
    if (drawn.problem.numWeights == 0 || drawn.problem.E == 0) {
        Expect(data.weights == 0 && plan.blockNum == 1 && plan.workspaceBytes == 0, "nothing to do, nothing planned",
               drawn);
        return;
    }
    CheckGrid(drawn, data, plan.blockNum);
    CheckSort(drawn, data);
    CheckBuffers(drawn, data);
    CheckWorkspace(drawn, data, plan.blockNum, plan.workspaceBytes);
    if (data.tableRows > 0) {
        CheckTable(drawn, data, plan.blockNum, plan.workspaceBytes);
    }
}

}  // namespace

int main(int argc, char** argv)
{
    return opforge::check::Main(argc, argv, g_guarantees, [](Dice& dice) { CheckPlan(Draw(dice)); });
}
