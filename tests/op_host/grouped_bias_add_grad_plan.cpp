// Draws random problems and platforms and checks the guarantees of every plan of GroupedBiasAddGrad. Usage: <program>
// COUNT SEED. Prints the first few violations, one per line, and exits with 1 if there is any.
#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "grouped_bias_add_grad_tiling.h"
#include "plan_check.h"

// The splits of the kernel, so that host and device are compared.
#define __aicore__
#include "../../op_kernel/common/arithmetic.h"

namespace {

using opforge::DataType;
using opforge::GroupedBiasAddGradCase;
using opforge::GroupedBiasAddGradProblem;
using opforge::Platform;
using opforge::check::Dice;
using opforge::check::kRealUbBytes;
using opforge::kernel::PartIndexOf;
using opforge::kernel::PartOf;
using opforge::kernel::Span;

opforge::check::Guarantees g_guarantees;

struct Drawn {
    GroupedBiasAddGradProblem problem;
    Platform platform;

    bool IsIndexed() const { return problem.shapeCase == GroupedBiasAddGradCase::kIndexed; }
    int64_t ElementBytes() const { return SizeOf(problem.gradYDtype); }
};

void Expect(bool holds, const char* guarantee, const Drawn& drawn)
{
    if (g_guarantees.Holds(holds, guarantee)) {
        return;
    }
    const GroupedBiasAddGradProblem& p = drawn.problem;
    std::printf("%s T=%lld H=%lld G=%lld C=%lld dtype=%d index=%d type=%lld cores=%lld ub=%lld\n",
                drawn.IsIndexed() ? "indexed" : "equal", static_cast<long long>(p.T), static_cast<long long>(p.H),
                static_cast<long long>(p.G), static_cast<long long>(p.C), static_cast<int>(p.gradYDtype),
                static_cast<int>(p.groupIdxDtype), static_cast<long long>(p.groupIdxType),
                static_cast<long long>(drawn.platform.coreNum), static_cast<long long>(drawn.platform.ubBytes));
}

Drawn Draw(Dice& dice)
{
    constexpr DataType kDtypes[] = {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32};
    constexpr DataType kIndexDtypes[] = {DataType::kInt32, DataType::kInt64};
    Drawn drawn;
    GroupedBiasAddGradProblem& problem = drawn.problem;
    // Mostly realistic shapes, sometimes hostile ones.
    const bool isAbsurd = dice.Between(0, 19) == 0;
    problem.gradYDtype = dice.OneOf(kDtypes);
    problem.H = dice.Size(isAbsurd ? 62 : 21);
    if (dice.Between(0, 1) == 0) {
        problem.shapeCase = GroupedBiasAddGradCase::kIndexed;
        problem.T = dice.Size(isAbsurd ? 62 : 22);
        problem.G = dice.Between(0, 3) == 0 ? 2048 : dice.Size(11);
        problem.groupIdxDtype = dice.OneOf(kIndexDtypes);
        problem.groupIdxType = dice.Between(0, 1);
    } else {
        problem.shapeCase = GroupedBiasAddGradCase::kEqual;
        problem.G = dice.Size(isAbsurd ? 62 : 20);
        problem.C = dice.Size(isAbsurd ? 62 : 12);
    }
    drawn.platform = dice.Device();
    return drawn;
}

void CheckRefusal(const Drawn& drawn, const opforge::Refusal& refusal)
{
    const GroupedBiasAddGradProblem& p = drawn.problem;
    Expect(refusal.got > refusal.allowed, "a refusal names a need above its limit", drawn);
    const int64_t rows = drawn.IsIndexed() ? p.T : opforge::SaturatingMul(p.G, p.C);
    const bool isHuge = opforge::SaturatingMul(opforge::SaturatingAdd(rows, p.G), p.H) > opforge::tile::kMaxElements;
    const bool isBeyondIndex = drawn.IsIndexed() && p.T > INT32_MAX;
    Expect(isHuge || isBeyondIndex || drawn.platform.ubBytes < kRealUbBytes, "a real device refuses no real problem",
           drawn);
}

/// Every row is in the share of exactly one row block, for any number of rows in groups.
void CheckRows(const Drawn& drawn, const GroupedBiasAddGradTilingData& data, Dice& dice)
{
    for (const int64_t used : {data.rows, dice.Between(0, data.rows), std::min<int64_t>(data.rows, 3)}) {
        int64_t next = 0;
        int64_t longest = 0;
        int64_t shortest = data.rows;
        for (int64_t block = 0; block < data.rowBlocks; ++block) {
            const Span part = PartOf(used, data.rowBlocks, block);
            Expect(part.begin == next && part.end >= part.begin, "row blocks follow each other", drawn);
            if (part.begin < part.end) {
                Expect(PartIndexOf(used, data.rowBlocks, part.begin) == block &&
                           PartIndexOf(used, data.rowBlocks, part.end - 1) == block,
                       "a row leads back to its block", drawn);
            }
            longest = std::max(longest, part.end - part.begin);
            shortest = std::min(shortest, part.end - part.begin);
            next = part.end;
        }
        Expect(next == used, "row blocks cover the rows", drawn);
        Expect(longest - shortest <= 1, "row blocks are even", drawn);
    }
}

void CheckColumns(const Drawn& drawn, const GroupedBiasAddGradTilingData& data)
{
    Expect(data.sliceWidth >= 1 && data.columnSlices >= 1, "slices have columns", drawn);
    Expect(
        (data.columnSlices - 1) * data.sliceWidth < data.columns && data.columnSlices * data.sliceWidth >= data.columns,
        "slices cover the columns, and none is empty", drawn);
    Expect(data.columnSlices == 1 || data.sliceWidth * drawn.ElementBytes() % 128 == 0, "slices begin on sectors",
           drawn);
    Expect(data.tileWidth >= 1 && data.tileWidth <= data.sliceWidth, "a tile is part of a slice", drawn);
    const bool isWhole = data.tileWidth == data.sliceWidth;
    Expect(isWhole || data.tileWidth * drawn.ElementBytes() % 128 == 0, "tiles begin on sectors", drawn);
}

void CheckBuffers(const Drawn& drawn, const GroupedBiasAddGradTilingData& data)
{
    const int64_t size = drawn.ElementBytes();
    int64_t total = 0;
    for (const int64_t bytes : {int64_t{data.tileBytes}, int64_t{data.workBytes}, int64_t{data.sumBytes},
                                int64_t{data.maskBytes}, int64_t{data.storeBytes}, int64_t{data.listBytes}}) {
        Expect(bytes >= 0 && bytes % 32 == 0, "buffers are whole 32-byte blocks", drawn);
    }
    total += int64_t{data.tileBuffers} * data.tileBytes + int64_t{data.storeBuffers} * data.storeBytes;
    total += int64_t{data.workBytes} + data.sumBytes + data.maskBytes + data.listBytes;
    Expect(total <= drawn.platform.ubBytes, "buffers fit into UB", drawn);

    const int64_t padded = opforge::RoundUp(data.tileWidth, 32 / size);
    Expect(padded * size <= data.tileBytes, "a tile holds a row", drawn);
    Expect(opforge::RoundUp(data.tileWidth, 8) * 4 <= data.tileBytes, "a tile holds a parked row", drawn);
    Expect(padded * 4 <= data.sumBytes && padded * 4 <= data.storeBytes, "sum and store hold a row", drawn);
    Expect(size == 4 || data.tileBytes / size * 4 <= data.workBytes, "a tile can be widened", drawn);
    Expect(data.tileBytes / 2 <= data.workBytes, "half a tile of floats can be reduced", drawn);
    if (data.packedRows > 0) {
        const int64_t stretch = data.packedRows * data.columns;
        Expect(data.tileWidth == data.columns, "packed rows are whole rows", drawn);
        Expect(stretch % 8 == 0, "packed rows end on a 32-byte border", drawn);
        Expect(stretch * 4 <= data.sumBytes, "the sum holds the packed rows", drawn);
        const int64_t masked = opforge::RoundUp(stretch, 64);
        const int64_t maskBytes = data.packedRows * opforge::RoundUp(masked / 8, 32);
        Expect(data.packedRows == 1 || maskBytes <= data.maskBytes, "each packed row has a mask", drawn);
        Expect(data.packedRows == 1 || 2 * masked * 4 <= data.workBytes, "the values for the masks fit", drawn);
        const int64_t part = opforge::RoundUp(data.keptGroups * data.columns, 8);
        Expect(data.keptGroups >= 1 && data.keptGroups * stretch * 4 <= data.sumBytes, "kept sums fit", drawn);
        Expect(data.packedRows == 1 || data.packedRows * part * 4 <= data.workBytes, "rows of kept sums fit", drawn);
        Expect(part * 4 <= data.storeBytes, "folded sums fit", drawn);
    }
    if (drawn.IsIndexed()) {
        const int64_t list = data.listBytes / 4 - 8;
        Expect(list >= 64 && (list & (list - 1)) == 0 && list >= data.groups, "the list is a power of two", drawn);
        Expect(5 * list * 4 <= data.workBytes, "five lists fit into the scratch", drawn);
    }
}

void CheckBatch(const Drawn& drawn, const GroupedBiasAddGradTilingData& data)
{
    if (data.batchGroups == 0) {
        return;
    }
    const int64_t size = drawn.ElementBytes();
    const int64_t pitch = data.columns % 8 == 0 ? data.columns : opforge::RoundUp(data.columns, 32 / size);
    const int64_t elements = data.batchGroups * data.rowsPerGroup * pitch;
    Expect(!drawn.IsIndexed() && data.columnSlices == 1, "batches are of whole rows of equal groups", drawn);
    Expect(data.batchGroups <= 255 && data.rowsPerGroup * pitch / 8 <= 255, "a batch is one instruction", drawn);
    Expect(data.batchGroups * data.rowsPerGroup <= 4095, "a batch is one DMA", drawn);
    Expect(elements * size <= data.tileBytes && elements * 4 <= data.workBytes, "a batch fits", drawn);
    Expect(data.batchGroups * pitch * 4 <= std::min(data.sumBytes, data.storeBytes), "the sums of a batch fit", drawn);
    Expect(data.groups >= data.rowBlocks, "every core has groups", drawn);
}

void CheckPlan(const Drawn& drawn, Dice& dice)
{
    const auto plan = opforge::PlanGroupedBiasAddGrad(drawn.problem, drawn.platform);
    if (plan.refusal.limit != nullptr) {
        CheckRefusal(drawn, plan.refusal);
        return;
    }
    const GroupedBiasAddGradTilingData& data = plan.data;
    const uint64_t key = !drawn.IsIndexed() ? 1 : drawn.problem.groupIdxDtype == DataType::kInt32 ? 2 : 3;
    Expect(plan.tilingKey == key, "the key names the case and the index dtype", drawn);
    Expect(plan.blockNum >= 1 && plan.blockNum <= drawn.platform.coreNum, "blocks are cores", drawn);
    if (drawn.problem.G == 0 || drawn.problem.H == 0) {
        Expect(data.groups == 0 && plan.blockNum == 1 && plan.workspaceBytes == 0, "nothing to do, nothing planned",
               drawn);
        return;
    }
    Expect(plan.blockNum == int64_t{data.rowBlocks} * data.columnSlices, "blocks are the grid", drawn);
    const bool isMerging = data.rowBlocks > 1 && data.batchGroups == 0;
    Expect(!isMerging || data.partialPitch >= data.columns, "parked rows do not overlap", drawn);
    Expect(plan.workspaceBytes == (isMerging ? 2 * data.rowBlocks * data.partialPitch * 4 : 0),
           "the workspace holds two parked rows of every row block", drawn);
    CheckRows(drawn, data, dice);
    CheckColumns(drawn, data);
    CheckBuffers(drawn, data);
    CheckBatch(drawn, data);
}

}  // namespace

int main(int argc, char** argv)
{
    return opforge::check::Main(argc, argv, g_guarantees, [](Dice& dice) { CheckPlan(Draw(dice), dice); });
}
