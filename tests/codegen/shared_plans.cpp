// Draws random sizes and platforms and checks the guarantees of every shared plan. Usage: <program> COUNT SEED. Prints
// the first few violations, one per line, and exits with 1 if there is any.
#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "../op_host/plan_check.h"
#include "common/elementwise.h"
#include "common/row_column_reduction.h"
#include "common/row_reduction.h"
#include "common/segmented_rows.h"

// The split of the kernel, so that host and device are compared.
#define __aicore__
#include "../../op_kernel/common/arithmetic.h"

namespace {

using opforge::CeilDiv;
using opforge::Platform;
using opforge::RoundUp;
using opforge::SaturatingMul;
using opforge::check::Dice;
using opforge::check::kRealUbBytes;

opforge::check::Guarantees g_guarantees;

struct ElementwiseData {
    int64_t elements = 0;
    int64_t share = 0;
    int32_t tile = 0;
    int32_t plannedUbBytes = 0;
};
struct RowData {
    int64_t rows = 0;
    int64_t columns = 0;
    int32_t rowBlocks = 0;
    int32_t tileRows = 0;
    int32_t tileColumns = 0;
    int32_t plannedUbBytes = 0;
};
struct RowColumnData : RowData {
    int64_t partialPitch = 0;
};
struct SegmentData {
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t segments = 0;
    int64_t sliceWidth = 0;
    int64_t partialPitch = 0;
    int32_t columnSlices = 0;
    int32_t rowBlocks = 0;
    int32_t tileWidth = 0;
    int32_t plannedUbBytes = 0;
};

struct Drawn {
    Platform platform;
    int64_t a = 0;
    int64_t b = 0;
    int64_t c = 0;
    int64_t unitBytes = 0;
    int64_t rowBytes = 0;
    int64_t reservedBytes = 0;
};

void Expect(bool holds, const char* guarantee, const Drawn& drawn)
{
    if (g_guarantees.Holds(holds, guarantee)) {
        return;
    }
    std::printf("a=%lld b=%lld c=%lld unit=%lld row=%lld reserved=%lld cores=%lld ub=%lld\n",
                static_cast<long long>(drawn.a), static_cast<long long>(drawn.b), static_cast<long long>(drawn.c),
                static_cast<long long>(drawn.unitBytes), static_cast<long long>(drawn.rowBytes),
                static_cast<long long>(drawn.reservedBytes), static_cast<long long>(drawn.platform.coreNum),
                static_cast<long long>(drawn.platform.ubBytes));
}

Drawn Draw(Dice& dice)
{
    constexpr int64_t kCores[] = {1, 2, 7, 20, 40, 48, 64};
    constexpr int64_t kUbBytes[] = {kRealUbBytes, kRealUbBytes, 262144, 65536};
    // Mostly realistic shapes, sometimes hostile ones.
    const bool isAbsurd = dice.Between(0, 19) == 0;
    Drawn drawn;
    drawn.platform.coreNum = dice.OneOf(kCores);
    drawn.platform.ubBytes = dice.OneOf(kUbBytes);
    drawn.a = dice.Size(isAbsurd ? 62 : 22);
    drawn.b = dice.Size(isAbsurd ? 62 : 18);
    drawn.c = dice.Size(isAbsurd ? 62 : 11);
    drawn.unitBytes = dice.Between(0, 30) == 0 ? dice.Size(62) : dice.Between(0, 64);
    drawn.rowBytes = dice.Between(0, 30) == 0 ? dice.Size(62) : dice.Between(0, 64);
    drawn.reservedBytes = dice.Between(0, 10) == 0 ? dice.Size(62) : 0;
    return drawn;
}

/// Returns whether a plan was rejected; a rejection must state a value above its limit, and must have a reason.
bool IsRefused(const opforge::Refusal& refusal, int64_t elements, const Drawn& drawn)
{
    if (refusal.limit == nullptr) {
        return false;
    }
    Expect(refusal.got > refusal.allowed, "a refusal names a need above its limit", drawn);
    const bool isHuge = elements > opforge::tile::kMaxElements;
    const bool isGreedy = SaturatingMul(drawn.unitBytes, 128) > 65536 / 2 || drawn.rowBytes > 65536 / 2 ||
                          drawn.reservedBytes > 65536 / 2;
    Expect(isHuge || isGreedy, "modest needs are not refused", drawn);
    return true;
}

void ExpectPlanned(int64_t planned, int64_t buffers, const Drawn& drawn)
{
    Expect(buffers <= drawn.platform.ubBytes, "buffers fit into UB", drawn);
    Expect(planned == buffers, "the planned bytes are those of all buffers", drawn);
}

void CheckElementwise(const Drawn& drawn)
{
    const auto plan =
        opforge::PlanElementwise<ElementwiseData>({drawn.a, drawn.unitBytes, drawn.reservedBytes}, drawn.platform);
    if (IsRefused(plan.refusal, drawn.a, drawn)) {
        return;
    }
    const ElementwiseData& data = plan.data;
    Expect(plan.blockNum >= 1 && plan.blockNum <= drawn.platform.coreNum, "blocks are cores", drawn);
    Expect(data.elements == drawn.a, "the elements are those of the problem", drawn);
    Expect(data.share > 0 && data.share % 128 == 0, "a share is whole granules", drawn);
    Expect(data.tile > 0 && data.tile % 128 == 0 && data.tile <= data.share, "a tile is whole granules of a share",
           drawn);
    Expect(SaturatingMul(plan.blockNum, data.share) >= drawn.a, "shares cover the elements", drawn);
    Expect(plan.blockNum == 1 || (plan.blockNum - 1) * data.share < drawn.a, "no core is started for nothing", drawn);
    ExpectPlanned(data.plannedUbBytes, data.tile * drawn.unitBytes + drawn.reservedBytes, drawn);
    const int64_t cores = std::max<int64_t>(std::min(drawn.platform.coreNum, CeilDiv(drawn.a, 2048)), 1);
    Expect(data.share <= RoundUp(std::max<int64_t>(CeilDiv(drawn.a, cores), 1), 128), "shares are even", drawn);
}

void CheckRowReduction(const Drawn& drawn)
{
    const auto plan = opforge::PlanRowReduction<RowData>(
        {drawn.a, drawn.b, drawn.unitBytes, drawn.rowBytes, drawn.reservedBytes}, drawn.platform);
    if (IsRefused(plan.refusal, std::max(SaturatingMul(drawn.a, drawn.b), std::max(drawn.a, drawn.b)), drawn)) {
        return;
    }
    const RowData& data = plan.data;
    Expect(plan.blockNum >= 1 && plan.blockNum <= drawn.platform.coreNum, "blocks are cores", drawn);
    Expect(plan.blockNum == data.rowBlocks, "row blocks are the cores", drawn);
    Expect(data.rowBlocks <= std::max<int64_t>(drawn.a, 1), "no core without a row", drawn);
    int64_t next = 0;
    for (int64_t block = 0; block < data.rowBlocks; ++block) {
        const opforge::kernel::Span part = opforge::kernel::PartOf(data.rows, data.rowBlocks, block);
        Expect(part.begin == next, "every row is in one share", drawn);
        Expect(part.end - part.begin <= CeilDiv(data.rows, data.rowBlocks), "shares are even", drawn);
        next = part.end;
    }
    Expect(next == drawn.a, "shares cover the rows", drawn);
    const bool isWhole = data.tileColumns == drawn.b;
    Expect(data.tileRows >= 1 && data.tileRows <= 4095, "a tile is one DMA", drawn);
    Expect(isWhole || (data.tileRows == 1 && data.tileColumns % 128 == 0 && data.tileColumns > 0),
           "a row in pieces has tiles of whole granules", drawn);
    const int64_t pitch = RoundUp(data.tileColumns, 32);
    const int64_t tileBytes = data.tileRows * (pitch * drawn.unitBytes + drawn.rowBytes);
    ExpectPlanned(data.plannedUbBytes, tileBytes + drawn.reservedBytes, drawn);
}

void CheckRowColumnReduction(const Drawn& drawn, int64_t sums)
{
    // Column buffers of at most 16 bytes, so that medium numbers of columns fit.
    const int64_t columnBytes = drawn.c % 17;
    const auto plan = opforge::PlanRowColumnReduction<RowColumnData>(
        {drawn.a, drawn.b, drawn.unitBytes, columnBytes, drawn.rowBytes, sums, drawn.reservedBytes}, drawn.platform);
    const int64_t padded = drawn.b > opforge::tile::kMaxElements ? drawn.b : RoundUp(drawn.b, 32);
    const int64_t columnTotal = SaturatingMul(padded, columnBytes);
    Drawn needs = drawn;
    needs.reservedBytes = opforge::SaturatingAdd(drawn.reservedBytes, columnTotal);
    if (IsRefused(plan.refusal, std::max(SaturatingMul(drawn.a, drawn.b), std::max(drawn.a, drawn.b)), needs)) {
        return;
    }
    const RowColumnData& data = plan.data;
    Expect(plan.blockNum == data.rowBlocks && data.rowBlocks <= std::max<int64_t>(drawn.a, 1),
           "row blocks are the cores, none without a row", drawn);
    const int64_t pitch = RoundUp(data.tileColumns, 32);
    const int64_t tileBytes = data.tileRows * (pitch * drawn.unitBytes + drawn.rowBytes);
    Expect(tileBytes + columnTotal + drawn.reservedBytes <= drawn.platform.ubBytes, "buffers fit into UB", drawn);
    const int64_t partials = data.rowBlocks > 1 ? sums * data.rowBlocks : 0;
    Expect(partials == 0 || (data.partialPitch >= drawn.b && data.partialPitch % 32 == 0), "sums begin on sectors",
           drawn);
    Expect(partials > 0 || data.partialPitch == 0, "one core needs no workspace", drawn);
    Expect(plan.workspaceBytes == SaturatingMul(partials, SaturatingMul(data.partialPitch, 4)),
           "the workspace holds the sums of every core", drawn);
}

void CheckSegmentedRows(const Drawn& drawn, int64_t elementBytes)
{
    const auto plan = opforge::PlanSegmentedRows<SegmentData>(
        {drawn.a, drawn.b, drawn.c, elementBytes, drawn.unitBytes, drawn.reservedBytes}, drawn.platform);
    const int64_t elements = SaturatingMul(opforge::SaturatingAdd(drawn.a, drawn.c), drawn.b);
    if (IsRefused(plan.refusal, elements, drawn)) {
        return;
    }
    const SegmentData& data = plan.data;
    Expect(plan.blockNum >= 1 && plan.blockNum <= drawn.platform.coreNum, "blocks are cores", drawn);
    if (drawn.b == 0 || drawn.c == 0) {
        Expect(data.segments == 0 && plan.blockNum == 1, "nothing to do, nothing planned", drawn);
        return;
    }
    Expect(plan.blockNum == int64_t{data.rowBlocks} * data.columnSlices, "blocks are the grid", drawn);
    Expect(data.rowBlocks <= std::max(drawn.a, drawn.c), "no row block for nothing", drawn);
    Expect((data.columnSlices - 1) * data.sliceWidth < drawn.b && data.columnSlices * data.sliceWidth >= drawn.b,
           "slices cover the columns, and none is empty", drawn);
    Expect(data.columnSlices == 1 || data.sliceWidth * elementBytes % 256 == 0, "slices begin on sectors", drawn);
    Expect(data.tileWidth >= 1 && data.tileWidth * elementBytes % 256 == 0, "tiles begin on sectors", drawn);
    ExpectPlanned(data.plannedUbBytes, data.tileWidth * drawn.unitBytes + drawn.reservedBytes, drawn);
    Expect(data.rowBlocks == 1 || data.partialPitch >= drawn.b, "parked rows do not overlap", drawn);
    Expect(plan.workspaceBytes == (data.rowBlocks > 1 ? 2 * data.rowBlocks * data.partialPitch * 4 : 0),
           "the workspace holds two parked rows of every row block", drawn);
}

}  // namespace

int main(int argc, char** argv)
{
    return opforge::check::Main(argc, argv, g_guarantees, [](Dice& dice) {
        constexpr int64_t kElementBytes[] = {1, 2, 4, 8};
        const Drawn drawn = Draw(dice);
        CheckElementwise(drawn);
        CheckRowReduction(drawn);
        CheckRowColumnReduction(drawn, dice.Between(1, 3));
        CheckSegmentedRows(drawn, dice.OneOf(kElementBytes));
    });
}
