// Draws random problems and platforms and checks the guarantees of every plan of BatchNormElemtBackward. Usage:
// <program> COUNT SEED. Prints the first few violations, one per line, and exits with 1 if there is any.
#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "batch_norm_elemt_backward_tiling.h"
#include "plan_check.h"

namespace {

using opforge::BatchNormElemtBackwardCase;
using opforge::BatchNormElemtBackwardProblem;
using opforge::DataType;
using opforge::Platform;
using opforge::RoundUp;
using opforge::SaturatingMul;
using opforge::check::Dice;
using opforge::check::kRealUbBytes;

opforge::check::Guarantees g_guarantees;

struct Drawn {
    BatchNormElemtBackwardProblem problem;
    Platform platform;

    int64_t ElementBytes() const { return SizeOf(problem.gradOutDtype); }
    int64_t Elements() const { return SaturatingMul(SaturatingMul(problem.N, problem.C), problem.S); }
};

void Expect(bool holds, const char* guarantee, const Drawn& drawn)
{
    if (g_guarantees.Holds(holds, guarantee)) {
        return;
    }
    const BatchNormElemtBackwardProblem& p = drawn.problem;
    std::printf("N=%lld C=%lld S=%lld R=%lld dtype=%d cores=%lld ub=%lld\n", static_cast<long long>(p.N),
                static_cast<long long>(p.C), static_cast<long long>(p.S), static_cast<long long>(p.R),
                static_cast<int>(p.gradOutDtype), static_cast<long long>(drawn.platform.coreNum),
                static_cast<long long>(drawn.platform.ubBytes));
}

Drawn Draw(Dice& dice)
{
    constexpr DataType kDtypes[] = {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32};
    constexpr int64_t kInner[] = {1, 1, 3, 49, 64, 255, 256, 3136};
    Drawn drawn;
    BatchNormElemtBackwardProblem& problem = drawn.problem;
    // Mostly realistic shapes, sometimes hostile ones.
    const bool isAbsurd = dice.Between(0, 19) == 0;
    problem.shapeCase =
        dice.Between(0, 1) == 0 ? BatchNormElemtBackwardCase::kWeighted : BatchNormElemtBackwardCase::kPlain;
    problem.gradOutDtype = dice.OneOf(kDtypes);
    problem.N = dice.Size(isAbsurd ? 62 : 17);
    problem.C = std::max<int64_t>(dice.Size(isAbsurd ? 62 : 18), 1);
    problem.S = dice.Between(0, 1) == 0 ? dice.OneOf(kInner) : dice.Size(isAbsurd ? 62 : 20);
    problem.R = dice.Size(isAbsurd ? 62 : 13);
    drawn.platform = dice.Device();
    return drawn;
}

void CheckRefusal(const Drawn& drawn, const opforge::Refusal& refusal)
{
    const bool isHuge = drawn.Elements() > opforge::batch_norm_elemt_backward::kMaxElements;
    Expect(refusal.got > refusal.allowed, "a refusal names a need above its limit", drawn);
    Expect(isHuge || drawn.platform.ubBytes < kRealUbBytes, "a real device refuses no real problem", drawn);
}

/// Slices and batches cover every element once.
void CheckSlices(const Drawn& drawn, const BatchNormElemtBackwardTilingData& data)
{
    const BatchNormElemtBackwardProblem& p = drawn.problem;
    Expect(data.batches * data.channels * data.inner == drawn.Elements(), "the data is all of the data", drawn);
    Expect(p.C == 1 || (data.batches == p.N && data.channels == p.C), "channels stay where they are", drawn);
    const int64_t channelSlices = (data.channels + data.sliceChannels - 1) / data.sliceChannels;
    Expect(data.slices == channelSlices * data.pieces, "slices are channels times pieces", drawn);
    Expect(data.sliceChannels >= 1 && data.sliceChannels <= data.channels, "a slice has channels", drawn);
    Expect(data.pieceWidth * (data.pieces - 1) < data.inner && data.pieceWidth * data.pieces >= data.inner,
           "pieces cover a channel, and none is empty", drawn);
    Expect(data.pieces == 1 || (data.isRowWise == 1 && data.sliceChannels == 1), "pieces are of one channel", drawn);
    Expect(data.pieces == 1 || data.pieceWidth * drawn.ElementBytes() % 128 == 0, "pieces are whole sectors", drawn);
    Expect(data.tileBatches >= 1 && data.tileBatches <= data.batches, "a tile has batches", drawn);
    Expect(data.tileBatches == 1 || (data.slices == 1 && data.isRowWise == 0), "several batches are contiguous", drawn);
    Expect(data.isRowWise == 1 || data.slices == 1 || data.sliceChannels % 8 == 0,
           "what is spread for a slice ends on a block", drawn);
}

void CheckBuffers(const Drawn& drawn, const BatchNormElemtBackwardTilingData& data)
{
    const int64_t size = drawn.ElementBytes();
    const int64_t width = data.isRowWise == 1 ? RoundUp(data.pieceWidth, 32 / size) : data.inner;
    const int64_t elements = data.tileBatches * data.sliceChannels * width;
    Expect(data.tileFloats >= elements && data.tileBytes >= data.tileFloats * size, "a tile fits", drawn);
    Expect(data.tileFloats * size % 32 == 0 && data.tileFloats % 8 == 0, "a tile is whole blocks", drawn);
    Expect(data.rightFloats >= data.tileFloats && data.rightFloats % 128 == 64, "operands are in two banks", drawn);
    Expect(data.workBytes >= (data.rightFloats + data.tileFloats) * 4, "both operands fit", drawn);
    Expect(data.workBytes >= 2 * data.channelCount * 4, "count and quotient of every channel fit", drawn);
    Expect(data.channelCount >= data.sliceChannels && data.channelCount % 8 == 0, "a tile's factors fit", drawn);
    Expect(data.loadBytes >= 5 * data.channelCount * 4, "what is given per channel fits", drawn);
    for (const int64_t bytes : {data.tileBytes, data.workBytes / 2, data.loadBytes, data.maskBytes}) {
        Expect(bytes % 32 == 0, "buffers are whole 32-byte blocks", drawn);
    }
    const int64_t total = 6 * int64_t{data.tileBytes} + data.workBytes + data.loadBytes + data.maskBytes +
                          4 * 4 * (int64_t{data.channelCount} + data.spreadFloats);
    Expect(total <= drawn.platform.ubBytes, "buffers fit into UB", drawn);
}

/// The intermediate writes of op_kernel/common/vector/spread.h, element by element.
void CheckSpread(const Drawn& drawn, const BatchNormElemtBackwardTilingData& data)
{
    const bool isAsItIs = data.isRowWise == 1 || (data.inner == 1 && data.tileBatches == 1);
    Expect((data.spreadFloats == 0) == isAsItIs, "factors are spread where an element needs its own", drawn);
    if (data.spreadFloats == 0) {
        Expect(data.maskBytes == 0, "nothing spread, nothing masked", drawn);
        return;
    }
    const int64_t lanes = data.tileBatches * RoundUp(data.sliceChannels, 8);
    Expect(data.isWindowed == 0 || (data.tileBatches == 1 && data.inner < 256), "windows are in one batch", drawn);
    Expect(data.isWindowed == 0 || data.sliceChannels <= 8 * 255, "an instruction has at most 255 repeats", drawn);
    const int64_t pitch = data.isWindowed == 1 ? 8 : data.inner == 1 ? 1 : RoundUp(data.inner, 8);
    const int64_t elements = data.tileBatches * data.sliceChannels * data.inner;
    const bool hasPadding =
        data.isWindowed == 0 && (pitch != data.inner || (data.tileBatches > 1 && data.sliceChannels % 8 != 0));
    Expect((data.maskBytes > 0) == hasPadding, "padding is masked", drawn);
    Expect(data.maskBytes * 8 >= (hasPadding ? RoundUp(lanes * pitch, 64) : 0), "the mask covers all lanes", drawn);
    Expect(data.spreadFloats >= (hasPadding ? elements : lanes * pitch), "spread factors fit", drawn);
    Expect(data.workBytes >= 4 * (lanes + lanes * pitch) && data.workBytes >= 4 * 768, "the way there fits", drawn);
}

void CheckPlan(Dice& dice)
{
    const Drawn drawn = Draw(dice);
    const auto plan = opforge::PlanBatchNormElemtBackward(drawn.problem, drawn.platform);
    if (plan.refusal.limit != nullptr) {
        CheckRefusal(drawn, plan.refusal);
        return;
    }
    const BatchNormElemtBackwardTilingData& data = plan.data;
    const bool isWeighted = drawn.problem.shapeCase == BatchNormElemtBackwardCase::kWeighted;
    Expect(plan.tilingKey == (isWeighted ? 1U : 2U), "the key says whether there are weights", drawn);
    Expect(plan.workspaceBytes == 0, "no workspace", drawn);
    Expect(plan.blockNum >= 1 && plan.blockNum <= drawn.platform.coreNum, "blocks are cores", drawn);
    if (drawn.Elements() == 0) {
        Expect(data.slices == 0 && plan.blockNum == 1, "nothing to do, nothing planned", drawn);
        return;
    }
    Expect(plan.blockNum <= data.slices * data.batches, "every core has something to do", drawn);
    // Another core is only used from a minimum traffic on.
    Expect((plan.blockNum - 1) * 16384 < SaturatingMul(drawn.Elements(), 3 * drawn.ElementBytes()),
           "small problems stay on few cores", drawn);
    CheckSlices(drawn, data);
    CheckBuffers(drawn, data);
    CheckSpread(drawn, data);
}

}  // namespace

int main(int argc, char** argv)
{
    return opforge::check::Main(argc, argv, g_guarantees, [](Dice& dice) { CheckPlan(dice); });
}
