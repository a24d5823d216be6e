// IterateBatch and IterateNBatch: several products of the same shape.
#include <algorithm>

#include "kernel/exec/block.h"
#include "opforge_twin/arithmetic.h"
#include "opforge_twin/kernel/matmul/job.h"

namespace opforge::twin::kernel {

namespace {

/// The positions of the matrices of a batch: in a layout with heads, rows are not adjacent.
struct BatchPlace {
    int64_t stride;  ///< from matrix to matrix, in elements
    int64_t pitch;   ///< from row to row; 0: dense
};

struct Axes {
    int64_t b;
    int64_t s;
    int64_t n;
    int64_t g;
    int64_t d;
};

BatchPlace PlaceOf(LayoutMode layout, const Axes& axes, int64_t rows, int64_t columns)
{
    switch (layout) {
        case LayoutMode::BSNGD:
            return {axes.d, axes.n * axes.g * axes.d};
        case LayoutMode::SBNGD:
            return {axes.d, axes.b * axes.n * axes.g * axes.d};
        default:
            return {rows * columns, 0};
    }
}

void Advance(MatmulOperand& operand, int64_t elements)
{
    if (operand.place == MatmulPlace::kGlobal) {
        operand.global.address += static_cast<uint64_t>(elements * operand.size / operand.packed);
    } else {
        operand.local.address += elements * operand.size / operand.packed;
    }
}

}  // namespace

void MatmulState::Batch(const MatmulOperand& c, int64_t first, int64_t batchA, int64_t batchB, int64_t strideA,
                        int64_t strideB, bool isSync, const Call& call)
{
    const TCubeTiling& t = job.tiling;
    const Axes axesA{t.ALayoutInfoB, t.ALayoutInfoS, t.ALayoutInfoN, t.ALayoutInfoG, t.ALayoutInfoD};
    const Axes axesB{t.BLayoutInfoB, t.BLayoutInfoS, t.BLayoutInfoN, t.BLayoutInfoG, t.BLayoutInfoD};
    const Axes axesC{t.CLayoutInfoB, t.CLayoutInfoS1, t.CLayoutInfoN, t.CLayoutInfoG, t.CLayoutInfoS2};
    BatchPlace placeA = PlaceOf(job.a.layout, axesA, job.orgM, job.orgKa);
    BatchPlace placeB = PlaceOf(job.b.layout, axesB, job.orgKb, job.orgN);
    const BatchPlace placeC = PlaceOf(c.layout, axesC, job.singleM, job.singleN);
    placeA.stride = strideA != 0 ? strideA : placeA.stride;
    placeB.stride = strideB != 0 ? strideB : placeB.stride;
    const int64_t count = std::max(batchA, batchB);
    const MatmulJob whole = job;
    for (int64_t index = 0; index < count; ++index) {
        Advance(job.a, (first * batchA + index / (count / batchA)) * placeA.stride);
        Advance(job.b, (first * batchB + index / (count / batchB)) * placeB.stride);
        if (job.bias.place != MatmulPlace::kNone && job.config.isBiasBatch) {
            Advance(job.bias, (first * count + index) * job.singleN);
        }
        job.pitchA = placeA.pitch;
        job.pitchB = placeB.pitch;
        job.orgKc = placeC.pitch != 0 ? placeC.pitch : job.orgKc != 0 ? job.orgKc : job.singleN;
        MatmulOperand to = c;
        Advance(to, (first * count + index) * placeC.stride);
        IterateAll(to, job.atomic, false, isSync && index + 1 == count, false, false, call);
        job = whole;
    }
}

void MatmulState::RequireBatches(int64_t loops, int64_t batchA, int64_t batchB, const Call& call) const
{
    constexpr int64_t kMost = 65536;  // the twin stores all products of a call
    if (batchA <= 0 || batchB <= 0 || std::max(batchA, batchB) % std::min(batchA, batchB) != 0) {
        Entry(call)->Fail("matmul_shape", Pipe::kScalar, call,
                          Text("batchA is ", batchA, " and batchB ", batchB,
                               ", expected positive numbers of which one divides the other"));
    }
    if (std::max(batchA, batchB) > kMost || loops > kMost / std::max(batchA, batchB)) {
        Entry(call)->Fail("matmul_shape", Pipe::kScalar, call,
                          Text("got ", loops, " batches of ", std::max(batchA, batchB), " matrices, expected at most ",
                               kMost, " matrices; correct the numbers, or use several calls"));
    }
}

void MatmulState::IterateBatch(const MatmulOperand& c, int64_t batchA, int64_t batchB, bool /*isSequential*/,
                               int64_t strideA, int64_t strideB, bool isSync, bool /*isAwaited*/, const Call& call)
{
    if (isIdle_) {
        return;
    }
    RequireOperands(call);
    RequireBatches(1, batchA, batchB, call);
    Batch(c, 0, batchA, batchB, strideA, strideB, isSync, call);
}

void MatmulState::IterateNBatch(const MatmulOperand& c, int64_t loops, int64_t batchA, int64_t batchB,
                                bool /*isSequential*/, int64_t strideA, int64_t strideB, bool isSync,
                                bool /*isAwaited*/, const Call& call)
{
    if (isIdle_) {
        return;
    }
    RequireOperands(call);
    RequireBatches(loops, batchA, batchB, call);
    if (results_.address == 0) {
        Entry(call)->Fail("matmul_order", Pipe::kScalar, call,
                          "IterateNBatch stores its results in a workspace; call SetWorkspace before");
    }
    MatmulOperand to = c;
    to.place = MatmulPlace::kGlobal;
    to.global = results_;
    for (int64_t loop = 0; loop < loops; ++loop) {
        Batch(to, loop, batchA, batchB, strideA, strideB, isSync && loop + 1 == loops, call);
    }
    nextResult_ = 0;
}

GlobalView MatmulState::NextBatch(int64_t batchA, int64_t batchB, const Call& call)
{
    AwaitAll(call);
    GlobalView view = results_;
    const int64_t matrices = nextResult_++ * std::max(batchA, batchB);
    view.address += static_cast<uint64_t>(matrices * job.singleM * job.singleN * job.c.size);
    return view;
}

}  // namespace opforge::twin::kernel
