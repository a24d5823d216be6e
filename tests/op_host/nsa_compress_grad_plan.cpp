// Draws random problems and platforms and checks the guarantees of every plan of NsaCompressGrad. Usage: <program>
// COUNT SEED. Prints the first few violations, one per line, and exits with 1 if there is any.
#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "nsa_compress_grad_tiling.h"
#include "plan_check.h"

// The shares of the kernel, so that host and device are compared.
#define __aicore__
#include "../../op_kernel/common/arithmetic.h"
#include "../../op_kernel/nsa_compress_grad/head_shares.h"

namespace {

using opforge::CeilDiv;
using opforge::DataType;
using opforge::NsaCompressGradProblem;
using opforge::Platform;
using opforge::RoundUp;
using opforge::check::Dice;
using opforge::check::kRealUbBytes;
using opforge::kernel::HeadShares;
using opforge::kernel::Span;

opforge::check::Guarantees g_guarantees;

struct Drawn {
    NsaCompressGradProblem problem;
    Platform platform;
};

void Expect(bool holds, const char* guarantee, const Drawn& drawn)
{
    if (g_guarantees.Holds(holds, guarantee)) {
        return;
    }
    const NsaCompressGradProblem& p = drawn.problem;
    std::printf("T=%lld N=%lld D=%lld W=%lld S=%lld cores=%lld ub=%lld\n", static_cast<long long>(p.T),
                static_cast<long long>(p.N), static_cast<long long>(p.D), static_cast<long long>(p.compressBlockSize),
                static_cast<long long>(p.compressStride), static_cast<long long>(drawn.platform.coreNum),
                static_cast<long long>(drawn.platform.ubBytes));
}

Drawn Draw(Dice& dice)
{
    Drawn drawn;
    NsaCompressGradProblem& problem = drawn.problem;
    // Mostly realistic shapes, sometimes hostile ones.
    const bool isAbsurd = dice.Between(0, 19) == 0;
    problem.outputGradDtype = problem.inputDtype = problem.weightDtype = DataType::kFloat16;
    problem.N = std::max<int64_t>(dice.Size(isAbsurd ? 62 : 8), 1);
    problem.D = std::max<int64_t>(dice.Size(isAbsurd ? 62 : 11), 1);
    problem.compressStride = 16 * std::max<int64_t>(dice.Size(isAbsurd ? 40 : 5), 1);
    problem.compressBlockSize = problem.compressStride + 16 * std::max<int64_t>(dice.Size(isAbsurd ? 40 : 4), 1);
    problem.T = problem.compressBlockSize + dice.Size(isAbsurd ? 60 : 20);
    problem.O = (problem.T - problem.compressBlockSize) / problem.compressStride + 1;
    drawn.platform = dice.Device();
    return drawn;
}

void CheckRefusal(const Drawn& drawn, const opforge::Refusal& refusal)
{
    const NsaCompressGradProblem& p = drawn.problem;
    Expect(refusal.got > refusal.allowed, "a refusal names a need above its limit", drawn);
    const int64_t row = opforge::SaturatingMul(p.N, p.D);
    const int64_t rows = std::max(p.T, p.compressBlockSize);
    const bool isHuge = opforge::SaturatingMul(rows, row) > opforge::nsa_compress_grad::kMaxElements;
    Expect(isHuge || row > INT32_MAX || p.compressBlockSize > 1024 || drawn.platform.ubBytes < kRealUbBytes,
           "a real device refuses no real problem", drawn);
}

void CheckTile(const Drawn& drawn, const NsaCompressGradTilingData& data)
{
    const NsaCompressGradProblem& p = drawn.problem;
    const int64_t columns = int64_t{data.tileHeads} * data.headPitch;
    Expect(data.tileHeads >= 1 && data.tileHeads <= p.N, "a tile has heads", drawn);
    Expect(data.tileRows >= 16 && data.tileRows <= 255, "the rows of a tile are one instruction", drawn);
    Expect(data.pieceRows >= 16 && data.pieceRows <= 255, "a piece of a window is one instruction", drawn);
    Expect(data.partWidth == p.D || (data.partWidth < p.D && data.tileHeads == 1 && data.partWidth % 16 == 0),
           "only a single head is worked on in parts, which begin on 32-byte blocks in UB", drawn);
    Expect(data.headPitch == RoundUp(data.partWidth, 16), "heads are padded to 32 bytes", drawn);
    Expect(columns / 8 <= 255, "a row of the tile is one stride", drawn);
    Expect(int64_t{data.tileWindows} * data.stride >= data.tileRows + data.windowRows - 1 && data.tileWindows <= 4095,
           "all windows that reach into a tile are there", drawn);
    const bool isOneBlockEnough = data.tileHeads == 1 || data.headPitch % 64 == 0;
    Expect(isOneBlockEnough ? data.weightBlocks == 1 : data.weightBlocks == data.headPitch / 8,
           "64 columns have one weight, or each column has its own", drawn);
    Expect(int64_t{data.tileHeads} * data.weightBlocks <= 255, "a row of the weight is one stride", drawn);
    Expect((p.N * p.D - 1) * 2 <= UINT32_MAX, "a row in GM is one stride", drawn);
}

void CheckBuffers(const Drawn& drawn, const NsaCompressGradTilingData& data)
{
    const int64_t columns = int64_t{data.tileHeads} * data.headPitch;
    const int64_t area = columns * data.tileRows;
    const int64_t gradArea = columns * data.tileWindows;
    const int64_t sumPitch = RoundUp(data.tileHeads, 16);
    const int64_t sumArea = sumPitch * data.pieceRows;
    const int64_t spreadArea = RoundUp(data.tileHeads, 8) * 8 * data.pieceRows;
    int64_t total = 0;
    for (const int32_t bytes : {data.rowBytes, data.rowBytes, data.gradBytes, data.gradBytes, data.storeBytes,
                                data.storeBytes, data.wideBytes, data.imageBytes, data.wideGradBytes, data.productBytes,
                                data.weightBytes, data.mergeBytes, data.mergeSumBytes, data.listBytes}) {
        Expect(bytes > 0 && bytes % 32 == 0, "buffers are whole 32-byte blocks", drawn);
        total += bytes;
    }
    Expect(total <= drawn.platform.ubBytes, "buffers fit into UB", drawn);
    Expect(data.rowBytes >= std::max(area, sumArea) * 2, "a load holds the tile, and a piece of the weight", drawn);
    Expect(data.wideBytes >= std::max(area, sumArea) * 4, "both can be widened", drawn);
    Expect(data.wideBytes >= 512 + 2 * data.listBytes, "a piece of the list can be counted", drawn);
    Expect(data.gradBytes >= gradArea * 2 && data.wideGradBytes >= gradArea * 4, "the windows fit", drawn);
    Expect(data.imageBytes >= area * 4 && data.storeBytes >= area * 2, "input_grad of the tile fits", drawn);
    Expect(data.storeBytes >= sumArea * 4, "sums can be parked", drawn);
    Expect(data.productBytes >= columns * data.windowRows * 4, "there is a product for each row and column", drawn);
    Expect(data.productBytes >= spreadArea * 4, "a piece of the weight can be spread", drawn);
    Expect(data.weightBytes >= int64_t{data.windowRows} * data.tileHeads * data.weightBlocks * 32, "weights fit",
           drawn);
    Expect(data.mergeSumBytes >= sumPitch * 4 && data.mergeBytes >= data.mergeSumBytes &&
               data.wideBytes * 2 >= data.mergeBytes,
           "parked sums can be merged", drawn);
}

/// Every row of every head is in one share, shares are even, and all cores of a tile agree on its cores.
void CheckShares(const Drawn& drawn, const NsaCompressGradTilingData& data, int64_t blocks, int64_t workspaceBytes)
{
    const int64_t tiles = CeilDiv(data.heads, data.tileHeads);
    const int64_t sums = data.slotPitch == 0 ? 0 : (blocks + tiles) * data.slotPitch * 4;
    Expect(workspaceBytes == sums, "the workspace holds a slot for each step from core to core or tile to tile", drawn);
    Expect(data.slotPitch == 0 || data.slotPitch >= RoundUp(data.tileHeads, 16) * data.windowRows, "a slot holds sums",
           drawn);
    if (tiles > 300) {
        return;
    }
    HeadShares shares;
    shares.Init(data.heads, data.rows, data.tileHeads, blocks);
    const int64_t mean = data.heads * data.rows / blocks;
    int64_t tile = 0;
    int64_t row = 0;
    for (int64_t share = 0; share < blocks; ++share) {
        const Span own = shares.TilesOf(share);
        int64_t size = 0;
        for (int64_t index = own.begin; index < own.end; ++index) {
            const Span rows = shares.RowsOf(share, index);
            const Span owners = shares.OwnersOf(index);
            const bool isOwner = owners.begin <= share && share < owners.end;
            Expect(isOwner == (rows.begin < rows.end), "owners of a tile are those that have rows of it", drawn);
            if (rows.begin == rows.end) {
                continue;
            }
            Expect(index == tile && rows.begin == row, "shares follow each other", drawn);
            size += (rows.end - rows.begin) * shares.HeadsOf(index);
            tile = rows.end == data.rows ? index + 1 : index;
            row = rows.end == data.rows ? 0 : rows.end;
            Expect(data.slotPitch > 0 || owners.end - owners.begin == 1, "a core without a barrier works alone", drawn);
        }
        Expect(size > 0 && std::abs(size - mean) <= data.tileHeads, "shares are even", drawn);
    }
    Expect(tile == tiles && row == 0, "shares cover all rows of all heads", drawn);
}

void CheckPlan(const Drawn& drawn)
{
    const auto plan = opforge::PlanNsaCompressGrad(drawn.problem, drawn.platform);
    if (plan.refusal.limit != nullptr) {
        CheckRefusal(drawn, plan.refusal);
        return;
    }
    Expect(plan.blockNum >= 1 && plan.blockNum <= drawn.platform.coreNum, "blocks are cores", drawn);
    CheckTile(drawn, plan.data);
    CheckBuffers(drawn, plan.data);
    CheckShares(drawn, plan.data, plan.blockNum, plan.workspaceBytes);
}

}  // namespace

int main(int argc, char** argv)
{
    return opforge::check::Main(argc, argv, g_guarantees, [](Dice& dice) { CheckPlan(Draw(dice)); });
}
