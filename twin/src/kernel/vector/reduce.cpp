// Reductions: pairwise trees inside a repeat, repeats in order, every step rounded to the element type.
#include <algorithm>
#include <array>

#include "opforge_twin/arithmetic.h"
#include "kernel/exec/levels.h"
#include "kernel/vector/numbers.h"
#include "kernel/vector/sweep.h"
#include "kernel/timing/time_model.h"

namespace opforge::twin::kernel {

namespace {

constexpr size_t kMaxLanes = 128;

/// The elements of one repeat at their lanes; lanes outside the mask are zero.
template <typename T>
struct Repeat {
    std::array<Computed<T>, kMaxLanes> values{};
    std::array<int32_t, kMaxLanes> lanes{};
    int64_t count = 0;
};

template <typename T>
void LoadRepeat(Block& block, const Shape& shape, const LocalView& src, int64_t repeat, const Stride& stride,
                Repeat<T>& loaded, const Call& call)
{
    loaded.values.fill(0);
    loaded.count = shape.Count(repeat);
    const Stride natural{1, shape.perRepeat * src.size / kBlockBytes, 255, 255};
    const Stride& step = shape.contiguous ? natural : stride;
    if (shape.active.empty() && step.block == 1) {
        block.checks.Touch({Pipe::kVector, Memory::kOnChip, AccessKind::kRead,
                            src.address + repeat * step.repeat * kBlockBytes, loaded.count * src.size, "src", call});
    }
    for (int64_t index = 0; index < loaded.count; ++index) {
        const int32_t lane =
            shape.active.empty() ? static_cast<int32_t>(index) : shape.active[static_cast<size_t>(index)];
        const int64_t at = src.address + OffsetOf(repeat, lane, src.size, step);
        if (!shape.active.empty() || step.block != 1) {
            block.checks.Touch({Pipe::kVector, Memory::kOnChip, AccessKind::kRead, at, src.size, "src", call});
        }
        loaded.values[static_cast<size_t>(lane)] = Load<T>(block.local.At(at));
        loaded.lanes[static_cast<size_t>(index)] = lane;
    }
}

template <typename T>
Computed<T> TreeSum(const Computed<T>* values, int64_t width)
{
    std::array<Computed<T>, kMaxLanes> level;
    std::copy_n(values, width, level.begin());
    for (int64_t half_width = width / 2; half_width > 0; half_width /= 2) {
        for (int64_t index = 0; index < half_width; ++index) {
            level[static_cast<size_t>(index)] =
                Rounded<T>(level[static_cast<size_t>(2 * index)] + level[static_cast<size_t>(2 * index + 1)]);
        }
    }
    return level[0];
}

template <typename T>
struct Extreme {
    Computed<T> value = 0;
    int64_t index = 0;
};

/// The first of the largest (smallest) elements of a repeat.
template <typename T>
Extreme<T> FindExtreme(ReduceOp op, const Repeat<T>& repeat)
{
    Extreme<T> best{repeat.values[static_cast<size_t>(repeat.lanes[0])], repeat.lanes[0]};
    for (int64_t index = 1; index < repeat.count; ++index) {
        const int32_t lane = repeat.lanes[static_cast<size_t>(index)];
        const Computed<T> value = repeat.values[static_cast<size_t>(lane)];
        if (op == ReduceOp::kMax ? best.value < value : value < best.value) {
            best = {value, lane};
        }
    }
    return best;
}

template <typename T>
void StoreIndex(uint8_t* to, int64_t index)
{
    const auto bits = static_cast<uint64_t>(index);
    std::memcpy(to, &bits, sizeof(T));
}

void TouchWrite(Block& block, int64_t address, int64_t bytes, const Call& call)
{
    block.checks.Touch({Pipe::kVector, Memory::kOnChip, AccessKind::kWrite, address, bytes, "dst", call});
}

template <typename T>
void Remember(Block& block, ReduceOp op, const Extreme<T>& result)
{
    LastReduction& last = op == ReduceOp::kSum ? block.registers.lastSum : block.registers.lastExtreme;
    last = {DtypeOf<T>(), result.value, result.index};
}

template <typename T>
void ReduceAll(Block& block, ReduceOp op, const LocalView& dst, const LocalView& src, const Shape& shape,
               const Stride& stride, bool withIndex, const Call& call)
{
    const int64_t repeats = shape.Repeats();
    Repeat<T> loaded;
    std::vector<Computed<T>> sums;
    Extreme<T> best;
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
        LoadRepeat<T>(block, shape, src, repeat, stride, loaded, call);
        if (op == ReduceOp::kSum) {
            sums.push_back(TreeSum<T>(loaded.values.data(), shape.perRepeat));
            continue;
        }
        Extreme<T> found = FindExtreme<T>(op, loaded);
        found.index += repeat * shape.perRepeat;
        const bool isBetter = op == ReduceOp::kMax ? best.value < found.value : found.value < best.value;
        best = repeat == 0 || isBetter ? found : best;
    }
    if (op == ReduceOp::kSum && shape.contiguous) {
        best.value = sums.front();
        for (size_t index = 1; index < sums.size(); ++index) {
            best.value = Rounded<T>(best.value + sums[index]);
        }
    } else if (op == ReduceOp::kSum) {
        // The form with repeats stores one sum per repeat and reduces those sums in the same way, until one is left.
        while (sums.size() > 1) {
            std::vector<Computed<T>> next;
            sums.resize((sums.size() + static_cast<size_t>(shape.perRepeat) - 1) /
                        static_cast<size_t>(shape.perRepeat) * static_cast<size_t>(shape.perRepeat));
            for (size_t begin = 0; begin < sums.size(); begin += static_cast<size_t>(shape.perRepeat)) {
                next.push_back(TreeSum<T>(sums.data() + begin, shape.perRepeat));
            }
            sums = next;
        }
        best.value = sums.front();
    }
    Store<T>(block.local.At(dst.address), best.value);
    TouchWrite(block, dst.address, dst.size, call);
    Remember<T>(block, op, best);
    if (withIndex) {
        StoreIndex<T>(block.local.At(dst.address + dst.size), best.index);
        TouchWrite(block, dst.address + dst.size, dst.size, call);
    }
}

/// Number of scratch elements that the algorithm of the device may use.
int64_t ScratchElements(const Shape& shape, ReduceOp op, bool withIndex, int64_t size)
{
    const int64_t unit = kBlockBytes / size;
    const auto roundUp = [&](int64_t count) { return RoundUp(count, unit); };
    const int64_t repeats = shape.Repeats();
    if (op == ReduceOp::kSum) {
        return roundUp(repeats);
    }
    int64_t round = 2 * repeats;
    int64_t elements = roundUp(round);
    while (withIndex && round > shape.perRepeat) {
        round = 2 * CeilDiv(round, shape.perRepeat);
        elements += roundUp(round);
    }
    return elements;
}

template <typename T>
void ReduceEach(Block& block, ReduceOp op, const LocalView& dst, const LocalView& src, const Shape& shape,
                const Stride& stride, int64_t dstStride, AscendC::ReduceOrder order, const Call& call)
{
    using AscendC::ReduceOrder;
    Repeat<T> loaded;
    Extreme<T> best;
    for (int64_t repeat = 0; repeat < shape.repeats; ++repeat) {
        LoadRepeat<T>(block, shape, src, repeat, stride, loaded, call);
        const int64_t to = dst.address + repeat * dstStride;
        Extreme<T> found;
        if (op == ReduceOp::kSum) {
            found.value = TreeSum<T>(loaded.values.data(), shape.perRepeat);
        } else {
            found = FindExtreme<T>(op, loaded);
            const bool isBetter = op == ReduceOp::kMax ? best.value < found.value : found.value < best.value;
            best = repeat == 0 || isBetter ? Extreme<T>{found.value, found.index + repeat * shape.perRepeat} : best;
        }
        int64_t at = to;
        if (order == ReduceOrder::ORDER_INDEX_VALUE) {
            StoreIndex<T>(block.local.At(at), found.index);
            at += dst.size;
        }
        if (order == ReduceOrder::ORDER_ONLY_INDEX) {
            const auto index = static_cast<uint32_t>(found.index);
            std::memcpy(block.local.At(at), &index, sizeof(index));
            at += static_cast<int64_t>(sizeof(index));
        } else {
            Store<T>(block.local.At(at), found.value);
            at += dst.size;
        }
        if (order == ReduceOrder::ORDER_VALUE_INDEX) {
            StoreIndex<T>(block.local.At(at), found.index);
            at += dst.size;
        }
        TouchWrite(block, to, at - to, call);
    }
    if (op != ReduceOp::kSum) {
        Remember<T>(block, op, best);
    }
}

int64_t ResultBytes(AscendC::ReduceOrder order, int64_t size)
{
    switch (order) {
        case AscendC::ReduceOrder::ORDER_ONLY_VALUE:
            return size;
        case AscendC::ReduceOrder::ORDER_ONLY_INDEX:
            return static_cast<int64_t>(sizeof(uint32_t));
        default:
            return 2 * size;
    }
}

/// The extreme of the active elements among `group` ones from `first` on.
template <typename T>
Computed<T> GroupExtreme(ReduceOp op, const Repeat<T>& repeat, int64_t first, int64_t group)
{
    Repeat<T> part = repeat;
    part.count = 0;
    for (int64_t index = 0; index < repeat.count; ++index) {
        const int32_t lane = repeat.lanes[static_cast<size_t>(index)];
        if (lane >= first && lane < first + group) {
            part.lanes[static_cast<size_t>(part.count++)] = lane;
        }
    }
    return FindExtreme<T>(op, part).value;
}

/// The results of a repeat, up to the last one that has an active element.
int64_t ResultsOf(const Shape& shape, int64_t repeat, int64_t group)
{
    const int64_t count = shape.Count(repeat);
    if (count == 0) {
        return 0;
    }
    return (shape.active.empty() ? count - 1 : shape.active[static_cast<size_t>(count - 1)]) / group + 1;
}

/// A result without active elements is not written.
template <typename T>
void ReduceEachGroup(Block& block, ReduceOp op, int64_t group, const LocalView& dst, const LocalView& src,
                     const Shape& shape, const Stride& stride, int64_t dstStride, const Call& call)
{
    Repeat<T> loaded;
    for (int64_t repeat = 0; repeat < shape.repeats; ++repeat) {
        LoadRepeat<T>(block, shape, src, repeat, stride, loaded, call);
        std::array<bool, kMaxLanes> isActive{};
        for (int64_t index = 0; index < loaded.count; ++index) {
            isActive[static_cast<size_t>(loaded.lanes[static_cast<size_t>(index)] / group)] = true;
        }
        const int64_t to = dst.address + repeat * dstStride;
        const int64_t results = ResultsOf(shape, repeat, group);
        for (int64_t index = 0; index < results; ++index) {
            const int64_t first = index;
            for (; index < results && isActive[static_cast<size_t>(index)]; ++index) {
                Store<T>(block.local.At(to + index * dst.size),
                         op == ReduceOp::kSum ? TreeSum<T>(loaded.values.data() + index * group, group)
                                              : GroupExtreme<T>(op, loaded, index * group, group));
            }
            TouchWrite(block, to + first * dst.size, (index - first) * dst.size, call);
        }
    }
}

void UseSource(Block& block, const LocalView& src, const Shape& shape, const Stride& stride, const Call& call)
{
    CheckStride(block, {&src, "src", stride, true, false}, call);
    block.checks.Use(src, Extent(shape, src.size, stride), Pipe::kVector, AccessKind::kRead, kBlockBytes, "src", call);
}

constexpr int64_t kStrideLimit = 65535;

/// The documents require the alignment of the results of a repeat.
void RequireAligned(Block& block, const LocalView& dst, int64_t bytes, const Call& call)
{
    if (kDocumentedValues.Has(block.launch.options.level) && dst.address % bytes != 0) {
        block.Fail("api_contract", Pipe::kVector, call,
                   Text("dst begins at byte ", dst.address, " of the unified buffer, expected a multiple of ", bytes));
    }
}

}  // namespace

void Reduce(ReduceOp op, const LocalView& dst, const LocalView& src, const LocalView& tmp, const Lanes& lanes,
            int64_t srcRepeatStride, bool withIndex, const Call& call)
{
    const Entry block(call);
    const Shape shape = Resolve(*block, lanes, src.size, call);
    if (shape.contiguous ? shape.total == 0 : HasNoRepeats(*block, shape.repeats, call)) {
        return;
    }
    const Stride stride{1, srcRepeatStride, kStrideLimit, kStrideLimit};
    UseSource(*block, src, shape, stride, call);
    Charge(*block, shape, call);
    const int64_t scratch = ScratchElements(shape, op, withIndex, src.size) * src.size;
    block->checks.Use(tmp, scratch, Pipe::kVector, AccessKind::kWrite, kBlockBytes, "sharedTmpBuffer", call);
    if (op != ReduceOp::kSum || !shape.contiguous) {
        if (tmp.address < src.address + Extent(shape, src.size, stride) && src.address < tmp.address + scratch) {
            block->Fail("overlap", Pipe::kVector, call,
                        "sharedTmpBuffer and src overlap; use a separate scratch buffer");
        }
        block->checks.TouchOrder(
            {Pipe::kVector, Memory::kOnChip, AccessKind::kWrite, tmp.address, scratch, "sharedTmpBuffer", call});
    }
    const int64_t bytes = int64_t{dst.size} * (withIndex ? 2 : 1);
    block->checks.Use(dst, bytes, Pipe::kVector, AccessKind::kWrite, dst.size, "dst", call);
    RequireAligned(*block, dst, bytes, call);
    (src.dtype == Dtype::kFloat16 ? ReduceAll<half> : ReduceAll<float>)(*block, op, dst, src, shape, stride, withIndex,
                                                                        call);
}

void ReduceRepeats(ReduceOp op, const LocalView& dst, const LocalView& src, const Lanes& lanes, int64_t dstRepeatStride,
                   int64_t srcBlockStride, int64_t srcRepeatStride, AscendC::ReduceOrder order, const Call& call)
{
    const Entry block(call);
    const Shape shape = Resolve(*block, lanes, src.size, call);
    if (HasNoRepeats(*block, shape.repeats, call)) {
        return;
    }
    const Stride stride{srcBlockStride, srcRepeatStride, kStrideLimit, kStrideLimit};
    UseSource(*block, src, shape, stride, call);
    Charge(*block, shape, call);
    const int64_t bytes = ResultBytes(order, dst.size);
    const int64_t dstStride = Field("dstRepStride", dstRepeatStride, 0, kStrideLimit, call) * bytes;
    block->checks.Use(dst, (shape.repeats - 1) * dstStride + bytes, Pipe::kVector, AccessKind::kWrite, dst.size, "dst",
                      call);
    RequireAligned(*block, dst, bytes, call);
    RequireResultsApart(*block, shape, dst, bytes, dstStride, {&src, "src", stride, true, false}, call);
    (src.dtype == Dtype::kFloat16 ? ReduceEach<half> : ReduceEach<float>)(*block, op, dst, src, shape, stride,
                                                                          dstStride, order, call);
}

void ReduceGroups(ReduceOp op, int64_t group, const LocalView& dst, const LocalView& src, const Lanes& lanes,
                  int64_t dstRepeatStride, int64_t srcBlockStride, int64_t srcRepeatStride, const Call& call)
{
    const Entry block(call);
    const Shape shape = Resolve(*block, lanes, src.size, call);
    if (HasNoRepeats(*block, shape.repeats, call)) {
        return;
    }
    const Stride stride{srcBlockStride, srcRepeatStride, kStrideLimit, kStrideLimit};
    UseSource(*block, src, shape, stride, call);
    Charge(*block, shape, call);
    const int64_t bytes = ResultsOf(shape, 0, group) * dst.size;
    const int64_t lastBytes = ResultsOf(shape, shape.repeats - 1, group) * dst.size;
    const bool isBlock = group * src.size == kBlockBytes;
    const int64_t unit = shape.perRepeat / group * dst.size;
    const int64_t dstStride = Field("dstRepStride", dstRepeatStride, 0, kStrideLimit, call) * unit;
    block->checks.Use(dst, std::max(bytes, (shape.repeats - 1) * dstStride + lastBytes), Pipe::kVector,
                      AccessKind::kWrite, isBlock ? dst.size : kBlockBytes, "dst", call);
    RequireAligned(*block, dst, isBlock ? unit : kBlockBytes, call);
    RequireResultsApart(*block, shape, dst, bytes, dstStride, {&src, "src", stride, true, false}, call);
    (src.dtype == Dtype::kFloat16 ? ReduceEachGroup<half> : ReduceEachGroup<float>)(*block, op, group, dst, src, shape,
                                                                                    stride, dstStride, call);
}

namespace {

/// The value of a register that a reduction sets, as bits of the dtype.
uint64_t ValueOf(Block& block, const LastReduction& last, Dtype dtype, const char* reduction, const Call& call)
{
    if (last.dtype != dtype) {
        block.Fail("no_reduction", Pipe::kScalar, call,
                   Text(last.dtype == Dtype::kOther ? "there is no result" : "the last result has another dtype",
                        "; call ", reduction, " of this dtype before"));
    }
    uint64_t bits = 0;
    auto* to = reinterpret_cast<uint8_t*>(&bits);
    dtype == Dtype::kFloat16 ? Store<half>(to, last.value) : Store<float>(to, last.value);
    return bits;
}

}  // namespace

uint64_t LastSum(Dtype dtype, const Call& call)
{
    const Entry block(call);
    return ValueOf(*block, block->registers.lastSum, dtype, "ReduceSum with a count", call);
}

void LastExtreme(Dtype dtype, uint64_t* value, uint64_t* index, const Call& call)
{
    const Entry block(call);
    const LastReduction& last = block->registers.lastExtreme;
    *value = ValueOf(*block, last, dtype, "a reduction to the maximum or minimum", call);
    *index = static_cast<uint64_t>(last.index);
}

void BroadcastBlocks(const LocalView& dst, const LocalView& src, int64_t repeats, const Stride& dstStride,
                     const Call& call)
{
    const Entry block(call);
    constexpr int64_t perRepeat = 8;
    Field("repeatTime", repeats, 0, kMaxRepeats, call);
    CheckStride(*block, {&dst, "dst", dstStride, false, true}, call);
    if (HasNoRepeats(*block, repeats, call)) {
        return;
    }
    const int64_t lastBlock = ((repeats - 1) * dstStride.repeat + (perRepeat - 1) * dstStride.block) * kBlockBytes;
    block->checks.Use(src, repeats * perRepeat * src.size, Pipe::kVector, AccessKind::kRead, kBlockBytes, "src", call);
    block->checks.Use(dst, lastBlock + kBlockBytes, Pipe::kVector, AccessKind::kWrite, kBlockBytes, "dst", call);
    RequireApart(*block, dst.address, lastBlock + kBlockBytes, src.address, repeats * perRepeat * src.size, "src",
                 call);
    block->timeline.RunVector(static_cast<double>(repeats) * time_model::kVectorCyclesPerRepeat, call);
    for (int64_t element = 0; element < repeats * perRepeat; ++element) {
        const int64_t from = src.address + element * src.size;
        const int64_t to =
            dst.address +
            (element / perRepeat * dstStride.repeat + element % perRepeat * dstStride.block) * kBlockBytes;
        const uint8_t state = ReadMoved(*block, from, src.size, "src", call);
        for (int64_t offset = 0; offset < kBlockBytes; offset += src.size) {
            std::memcpy(block->local.At(to + offset), block->local.At(from), static_cast<size_t>(src.size));
        }
        Touched(*block, AccessKind::kWrite, to, kBlockBytes, "dst", call);
        block->local.PassState(to, kBlockBytes, state);
    }
}

}  // namespace opforge::twin::kernel
