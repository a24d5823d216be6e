#include "kernel/vector/sweep.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernel/exec/levels.h"
#include "opforge_twin/arithmetic.h"
#include "kernel/timing/time_model.h"
#include "kernel/vector/numbers.h"

namespace opforge::twin::kernel {

namespace {

constexpr int64_t kMaxOperands = 4;
constexpr int64_t kMaxPerRepeat = 256;
constexpr int64_t kMaxCount = 2147483647;

double RateOf(const Shape& shape)
{
    return shape.cycles == CyclesOf::kDiv    ? time_model::kVectorDivCyclesPerRepeat
           : shape.cycles == CyclesOf::kSlow ? time_model::kVectorSlowCyclesPerRepeat
                                             : time_model::kVectorCyclesPerRepeat;
}

/// Cycles of a repeat: blocks of one bank group are accessed one after another. The first repeat represents all.
double CyclesPerRepeat(const Shape& shape, const std::vector<Operand>& operands)
{
    constexpr int64_t kBankGroups = 16;
    std::array<int64_t, kBankGroups> reads{};
    std::array<int64_t, kBankGroups> writes{};
    for (const Operand& operand : operands) {
        const int64_t elements = shape.contiguous ? std::min(shape.total, shape.perRepeat) : shape.leading;
        const int64_t blocks = CeilDiv(elements * operand.view->size, kBlockBytes);
        const int64_t stride = shape.contiguous ? 1 : operand.stride.block;
        for (int64_t block = 0; block < blocks && (block == 0 || stride != 0); ++block) {
            const int64_t group = (operand.view->address / kBlockBytes + block * stride) % kBankGroups;
            reads[static_cast<size_t>(group)] += operand.isWritten ? 0 : 1;
            writes[static_cast<size_t>(group)] += operand.isWritten ? 1 : 0;
        }
    }
    const int64_t most =
        std::max(*std::max_element(reads.begin(), reads.end()), *std::max_element(writes.begin(), writes.end()));
    return std::max(RateOf(shape), static_cast<double>(most) * time_model::kVectorBankConflictCycles);
}

void ResolveCounter(Shape& shape, uint64_t count, Block& block, const Call& call)
{
    if (count > static_cast<uint64_t>(kMaxCount)) {
        block.Fail("mask_range", Pipe::kVector, call,
                   Text("in counter mode the mask is a count, got ", count, ", expected at most ", kMaxCount));
    }
    shape.total = static_cast<int64_t>(count);
    shape.repeats = CeilDiv(shape.total, shape.perRepeat);
    shape.leading = shape.perRepeat;
}

void ResolveBits(Shape& shape, uint64_t low, uint64_t high, Block& block, const Call& call)
{
    const bool fits = shape.perRepeat > 64    ? true
                      : shape.perRepeat == 64 ? high == 0
                                              : (high == 0 && low >> shape.perRepeat == 0);
    if (!fits || (low == 0 && high == 0)) {
        block.Fail("mask_range", Pipe::kVector, call,
                   fits ? Text("the bit mask is empty; remove the instruction")
                        : Text("the bit mask has bits beyond the ", shape.perRepeat,
                               " elements of a repeat; clear them, the second word is for 2-byte types only"));
    }
    for (int32_t element = 0; element < std::min<int64_t>(shape.perRepeat, 128); ++element) {
        if (((element < 64 ? low >> element : high >> (element - 64)) & 1U) != 0) {
            shape.active.push_back(element);
        }
    }
    const auto count = static_cast<int64_t>(shape.active.size());
    shape.leading = count;
    if (shape.active.back() == count - 1) {
        shape.active.clear();
    }
}

void SetRegister(Block& block, uint64_t low, uint64_t high)
{
    block.registers.mask.low = low;
    block.registers.mask.high = high;
    block.registers.mask.hasCount = false;
}

bool IsDense(const Operand& operand, const Shape& shape)
{
    return shape.active.empty() && (operand.stride.block == 1 || shape.leading * operand.view->size <= kBlockBytes);
}

/// Handles operands whose repeats are all adjacent: one long run.
bool IsOneRun(const Shape& shape, const std::vector<Operand>& operands)
{
    return shape.active.empty() && shape.leading == shape.perRepeat &&
           std::all_of(operands.begin(), operands.end(), [&](const Operand& operand) {
               const int64_t natural = shape.perRepeat * operand.view->size / kBlockBytes;
               return operand.stride.block == 1 && (operand.stride.repeat == natural || shape.repeats == 1);
           });
}

/// Checks an access to `count` elements. In levels without the check undefined_lanes, `undefined` passes the states of
/// the read elements (or bytes) to the written ones.
void TouchOperand(Block& block, const Operand& operand, int64_t offset, int64_t count, AccessKind kind,
                  std::vector<uint8_t>& undefined, const Call& call)
{
    const int64_t begin = operand.view->address + offset;
    const int64_t bytes = count * operand.view->size;
    const int64_t unit = operand.bytes ? 1 : operand.view->size;
    const Access access{Pipe::kVector, Memory::kOnChip, kind, begin, bytes, operand.name, call};
    if (kind == AccessKind::kRead && !kUndefinedLanes.Has(block.launch.options.level)) {
        block.local.CollectUndefined(begin, bytes / unit, unit, undefined);
        block.checks.TouchOrder(access);
        return;
    }
    block.checks.Touch(access);
    if (kind == AccessKind::kWrite) {
        block.local.PropagateUndefined(begin, unit, undefined);
    }
}

/// Replaces the states of the bytes of the sources by those of the bytes of the results.
void MoveStates(const Operand& operand, std::vector<uint8_t>& states)
{
    if (!operand.bytes || states.empty()) {
        return;
    }
    const int64_t size = operand.view->size;
    std::vector<uint8_t> results(states.size(), LocalMemory::kWritten);
    for (size_t at = 0; at < states.size(); ++at) {
        const auto byte = static_cast<int64_t>(at) % size;
        const auto first = states.begin() + static_cast<int64_t>(at) - byte;
        for (int64_t source = 0; source < size; ++source) {
            if (first[source] != LocalMemory::kWritten && operand.bytes->Has(source, byte, size)) {
                results[at] = first[source];
            }
        }
    }
    states = std::move(results);
}

void TouchRun(Block& block, const std::vector<Operand>& operands, const int64_t* offsets, int64_t count,
              const Call& call)
{
    std::vector<uint8_t> undefined;
    for (size_t index = operands.size(); index-- > 0;) {
        const Operand& operand = operands[index];
        if (operand.isRead) {
            TouchOperand(block, operand, offsets[index], count, AccessKind::kRead, undefined, call);
        }
    }
    MoveStates(operands.front(), undefined);
    for (size_t index = 0; index < operands.size(); ++index) {
        if (operands[index].isWritten) {
            TouchOperand(block, operands[index], offsets[index], count, AccessKind::kWrite, undefined, call);
        }
    }
}

/// Replaces infinities by the largest numbers and NaN by 0.
template <typename T>
void Saturate(uint8_t* results, int64_t count)
{
    for (int64_t index = 0; index < count; ++index) {
        Store<T>(results + index * 2, Finite<T>(Load<T>(results + index * 2)));
    }
}

void Compute(const Block& block, const Operand& target, Body body, uint8_t* const* pointers, int64_t count,
             uint64_t scalar, const void* context)
{
    body(pointers, count, scalar, context);
    if (block.registers.isSaturating && target.isWritten && target.view->dtype == Dtype::kFloat16) {
        Saturate<half>(pointers[0], count);
    } else if (block.registers.isSaturating && target.isWritten && target.view->dtype == Dtype::kBfloat16) {
        Saturate<bfloat16_t>(pointers[0], count);
    }
}

/// Handles repeats with scattered elements: collect, compute, scatter.
void SweepScattered(Block& block, const Shape& shape, const std::vector<Operand>& operands, int64_t repeat,
                    int64_t count, Body body, uint64_t scalar, const void* context, const Call& call)
{
    alignas(kBlockBytes) std::array<std::array<uint8_t, kMaxPerRepeat * 8>, kMaxOperands> dense;
    std::array<uint8_t*, kMaxOperands> pointers{};
    // The lanes of a 32-byte block are adjacent, unless a mask excludes some of them.
    const int64_t size = operands.front().view->size;
    const bool isWhole =
        shape.active.empty() &&
        std::all_of(operands.begin(), operands.end(), [&](const Operand& other) { return other.view->size == size; });
    const int64_t step = isWhole ? kBlockBytes / size : 1;
    std::vector<std::vector<uint8_t>> undefined(static_cast<size_t>(CeilDiv(count, step)));  // by `step` lanes
    const auto each = [&](size_t index, AccessKind kind) {
        const Operand& operand = operands[index];
        for (int64_t lane = 0; lane < count; lane += step) {
            const int64_t lanes = std::min(step, count - lane);
            const int64_t element = shape.active.empty() ? lane : shape.active[static_cast<size_t>(lane)];
            const int64_t offset = OffsetOf(repeat, element, operand.view->size, operand.stride);
            TouchOperand(block, operand, offset, lanes, kind, undefined[static_cast<size_t>(lane / step)], call);
            uint8_t* const there = block.local.At(operand.view->address + offset);
            uint8_t* const here = pointers[index] + lane * operand.view->size;
            const bool isRead = kind == AccessKind::kRead;
            std::memcpy(isRead ? here : there, isRead ? there : here, static_cast<size_t>(lanes * operand.view->size));
        }
    };
    for (size_t index = 0; index < operands.size(); ++index) {
        pointers[index] = dense[index].data();
        if (operands[index].isRead) {
            each(index, AccessKind::kRead);
        }
    }
    Compute(block, operands[0], body, pointers.data(), count, scalar, context);
    for (std::vector<uint8_t>& states : undefined) {
        MoveStates(operands.front(), states);
    }
    for (size_t index = 0; index < operands.size(); ++index) {
        if (operands[index].isWritten) {
            each(index, AccessKind::kWrite);
        }
    }
}

/// 32-byte blocks of the unified buffer that one repeat of an operand uses, relative to its address.
void BlocksOf(const Shape& shape, int64_t repeat, const Operand& operand, std::vector<int64_t>& blocks)
{
    blocks.clear();
    const int64_t count = shape.Count(repeat);
    const int64_t size = operand.view->size;
    for (int64_t lane = 0; lane < count; ++lane) {
        const int64_t element = shape.active.empty() ? lane : shape.active[static_cast<size_t>(lane)];
        const int64_t at = (operand.view->address + OffsetOf(repeat, element, size, operand.stride)) / kBlockBytes;
        if (blocks.empty() || blocks.back() != at) {
            blocks.push_back(at);
        }
    }
}

/// Operands are equal or do not overlap, and no repeat reads results of an earlier repeat. In levels without the check
/// overlap_in_repeat, a repeat may write bytes that it has read; returns whether one does.
bool CheckOverlap(Block& block, const Shape& shape, const Operand& dst, const Operand& src, const Call& call)
{
    WrittenBlocks written(block);
    std::vector<int64_t> dstBlocks;
    std::vector<int64_t> srcBlocks;
    bool isFound = false;
    for (int64_t repeat = 0; repeat < shape.repeats; ++repeat) {
        BlocksOf(shape, repeat, src, srcBlocks);
        BlocksOf(shape, repeat, dst, dstBlocks);
        const bool inPlace = OffsetOf(repeat, 0, dst.view->size, dst.stride) + dst.view->address ==
                                 OffsetOf(repeat, 0, src.view->size, src.stride) + src.view->address &&
                             dstBlocks == srcBlocks;
        isFound = written.Pass(repeat, dstBlocks, srcBlocks, inPlace, src.name, call) || isFound;
    }
    return isFound;
}

/// Whether a repeat of an operand may start before the last element of the previous one.
bool Folds(const Shape& shape, const Operand& operand)
{
    const int64_t last = shape.active.empty() ? shape.Count(0) - 1 : shape.active.back();
    return !shape.contiguous && shape.repeats > 1 &&
           operand.stride.repeat * kBlockBytes <= OffsetOf(0, last, operand.view->size, operand.stride);
}

/// Describes an instruction with a count by its repeats.
void DivideIntoRepeats(Shape& shape, std::vector<Operand>& operands)
{
    if (shape.contiguous) {
        shape.contiguous = false;
        shape.repeats = CeilDiv(shape.total, shape.perRepeat);
        shape.leading = shape.perRepeat;
        for (Operand& operand : operands) {
            operand.stride = {1, shape.perRepeat * operand.view->size / kBlockBytes, 255, 255};
        }
    }
}

/// Returns whether the operands of each repeat must be read before its results are written.
bool CheckOverlaps(Block& block, const Shape& given, const std::vector<Operand>& operands, bool accumulates,
                   const Call& call)
{
    const Operand& dst = operands.front();
    bool isFound = false;
    for (size_t index = 1; index < operands.size(); ++index) {
        const Operand& src = operands[index];
        const int64_t dstEnd = dst.view->address + Extent(given, dst.view->size, dst.stride);
        const int64_t srcEnd = src.view->address + Extent(given, src.view->size, src.stride);
        if (dst.view->address >= srcEnd || src.view->address >= dstEnd) {
            continue;
        }
        const bool sameLayout = dst.view->address == src.view->address && dst.view->size == src.view->size &&
                                dst.stride.block == src.stride.block && dst.stride.repeat == src.stride.repeat;
        if (sameLayout && !Folds(given, dst)) {
            continue;
        }
        const bool isAccumulator = accumulates && index == 2 && dst.view->address == src.view->address &&
                                   (dst.stride.repeat == 0 || src.stride.repeat == 0);
        if (!isAccumulator) {
            Shape shape = given;
            std::vector<Operand> pair{dst, src};
            DivideIntoRepeats(shape, pair);
            isFound = CheckOverlap(block, shape, pair[0], pair[1], call) || isFound;
        }
    }
    return isFound;
}

}  // namespace

WrittenBlocks::WrittenBlocks(Block& block)
    : block_(block), isWritten_(static_cast<size_t>(block.local.Bytes() / kBlockBytes))
{
}

bool WrittenBlocks::Pass(int64_t repeat, const std::vector<int64_t>& dst, const std::vector<int64_t>& src, bool inPlace,
                         const char* name, const Call& call)
{
    bool isFound = false;
    for (const int64_t at : src) {
        const bool isOld = isWritten_[static_cast<size_t>(at)];
        const bool isOwn = !inPlace && std::find(dst.begin(), dst.end(), at) != dst.end();
        isFound = isFound || isOwn;
        if (isOld || (isOwn && kOverlapInRepeat.Has(block_.launch.options.level))) {
            block_.Fail(
                "overlap", Pipe::kVector, call,
                Text("dst and ", name, " overlap: repeat ", repeat, " reads bytes at unified buffer address ",
                     at * kBlockBytes,
                     isOld ? " that an earlier repeat has written" : " that it also writes, but not in the same place",
                     "; use the same tensor with the same strides, or another buffer"));
        }
    }
    for (const int64_t at : dst) {
        isWritten_[static_cast<size_t>(at)] = true;
    }
    return isFound;
}

int64_t Shape::Count(int64_t repeat) const
{
    if (contiguous) {
        return std::min(perRepeat, total - repeat * perRepeat);
    }
    return total > 0 ? std::min(leading, total - repeat * perRepeat) : leading;
}

int64_t OffsetOf(int64_t repeat, int64_t element, int64_t size, const Stride& stride)
{
    const int64_t perBlock = kBlockBytes / size;
    return (repeat * stride.repeat + element / perBlock * stride.block) * kBlockBytes + element % perBlock * size;
}

int64_t Extent(const Shape& shape, int64_t size, const Stride& stride)
{
    if (shape.contiguous) {
        return shape.total * size;
    }
    int64_t extent = 0;
    for (const int64_t repeat : {int64_t{0}, shape.repeats - 2, shape.repeats - 1}) {
        if (repeat < 0 || repeat >= shape.repeats) {
            continue;
        }
        const int64_t last = shape.active.empty() ? shape.Count(repeat) - 1 : shape.active.back();
        extent = std::max(extent, OffsetOf(repeat, last, size, stride) + size);
    }
    return extent;
}

Shape Resolve(Block& block, const Lanes& lanes, int64_t widest, const Call& call)
{
    Shape shape;
    shape.perRepeat = kRepeatBytes / widest;
    if (lanes.form == Lanes::Form::kCount) {
        const auto count = static_cast<int64_t>(lanes.low);
        shape.contiguous = true;
        shape.total = Field("count", count, 0, kMaxCount, call);
        shape.leading = shape.total;
        // The count form sets mask and mode and leaves the defaults.
        block.registers.mask.isCounter = false;
        SetRegister(block, ~uint64_t{0}, ~uint64_t{0});
        return shape;
    }
    shape.repeats = Field("repeatTime", lanes.repeats, 0, kMaxRepeats, call);
    if (block.registers.mask.isCounter) {
        ResolveCounter(shape, lanes.form == Lanes::Form::kRegister ? block.registers.mask.low : lanes.low, block, call);
    } else if (lanes.form == Lanes::Form::kLeading) {
        if (lanes.low < 1 || lanes.low > static_cast<uint64_t>(shape.perRepeat)) {
            block.Fail("mask_range", Pipe::kVector, call,
                       Text("mask is ", static_cast<int64_t>(lanes.low), ", expected 1..", shape.perRepeat,
                            " elements of a repeat; use more repeats, or the overload with a count"));
        }
        shape.leading = static_cast<int64_t>(lanes.low);
        const uint64_t all = ~uint64_t{0};
        SetRegister(block, shape.leading >= 64 ? all : all >> (64 - shape.leading),
                    shape.leading > 64 ? all >> (128 - std::min<int64_t>(shape.leading, 128)) : 0);
    } else if (lanes.form == Lanes::Form::kBits) {
        ResolveBits(shape, lanes.low, lanes.high, block, call);
        SetRegister(block, lanes.low, lanes.high);
    } else {
        if (block.registers.mask.hasCount) {
            block.Fail("mask_range", Pipe::kVector, call,
                       Text("SetVectorMask<T, MaskMode::COUNTER> has set a mask of ", block.registers.mask.low,
                            " elements, but the core is not in counter mode; call SetMaskCount before"));
        }
        const uint64_t high = shape.perRepeat > 64 ? block.registers.mask.high : 0;
        ResolveBits(shape, block.registers.mask.low, high, block, call);
    }
    return shape;
}

void CheckStride(Block& block, const Operand& operand, const Call& call)
{
    const auto check = [&](const char* what, int64_t value, int64_t limit) {
        if (value < 0 || value > limit) {
            block.Fail("field_range", Pipe::kVector, call,
                       Text(what, " stride of ", operand.name, " is ", value, " blocks of 32 bytes, expected 0..",
                            limit, "; the device does not check it; use several instructions"));
        }
    };
    check("block", operand.stride.block, operand.stride.blockLimit);
    check("repeat", operand.stride.repeat, operand.stride.repeatLimit);
}

void Charge(Block& block, const Shape& shape, const Call& call)
{
    block.timeline.RunVector(static_cast<double>(shape.Repeats()) * RateOf(shape), call);
}

void RequireApart(Block& block, int64_t dst, int64_t dstBytes, int64_t src, int64_t srcBytes, const char* name,
                  const Call& call)
{
    if (dst < src + srcBytes && src < dst + dstBytes) {
        block.Fail("overlap", Pipe::kVector, call,
                   Text("dst and ", name, " overlap: bytes [", std::max(dst, src) - dst, ", ",
                        std::min(dst + dstBytes, src + srcBytes) - dst, ") from the start of dst on are read as ", name,
                        "; the instruction does not work in place, write to another buffer"));
    }
}

void RequireResultsApart(Block& block, const Shape& shape, const LocalView& dst, int64_t bytes, int64_t pitch,
                         const Operand& src, const Call& call)
{
    const int64_t dstEnd = dst.address + (shape.repeats - 1) * pitch + bytes;
    if (dst.address >= src.view->address + Extent(shape, src.view->size, src.stride) || src.view->address >= dstEnd) {
        return;
    }
    constexpr int64_t unread = -1;
    std::vector<int64_t> lastReader(static_cast<size_t>(block.local.Bytes() / kBlockBytes), unread);
    std::vector<int64_t> blocks;
    for (int64_t repeat = 0; repeat < shape.repeats; ++repeat) {
        BlocksOf(shape, repeat, src, blocks);
        for (const int64_t at : blocks) {
            lastReader[static_cast<size_t>(at)] = repeat;
        }
    }
    const bool isStrict = kOverlapInRepeat.Has(block.launch.options.level);
    for (int64_t repeat = 0; repeat < shape.repeats; ++repeat) {
        const int64_t begin = dst.address + repeat * pitch;
        for (int64_t at = begin / kBlockBytes; at * kBlockBytes < begin + bytes; ++at) {
            const int64_t reader = lastReader[static_cast<size_t>(at)];
            if (isStrict ? reader != unread : reader > repeat) {
                block.Fail("overlap", Pipe::kVector, call,
                           Text("dst and ", src.name, " overlap: the result of repeat ", repeat,
                                " is in a block of 32 bytes that the instruction reads; write to another buffer"));
            }
        }
    }
}

bool HasNoRepeats(Block& block, int64_t repeats, const Call& call)
{
    if (repeats == 0) {
        block.Warn("no_effect", Pipe::kVector, call, "the repeat count is 0: the instruction does nothing");
    }
    return repeats == 0;
}

void Sweep(Block& block, Shape shape, std::vector<Operand> operands, Body body, uint64_t scalar, const void* context,
           bool accumulates, const Call& call)
{
    if (shape.contiguous ? shape.total == 0 : HasNoRepeats(block, shape.repeats, call)) {
        return;
    }
    for (const Operand& operand : operands) {
        CheckStride(block, operand, call);
        if (!shape.contiguous && operand.isWritten && operand.stride.block == 0 &&
            shape.leading * operand.view->size > kBlockBytes) {
            block.Fail(
                "field_range", Pipe::kVector, call,
                Text("block stride of ", operand.name, " is 0: blocks of a repeat would overwrite each other; use 1"));
        }
        const int64_t extent = Extent(shape, operand.view->size, operand.stride);
        if (operand.isRead) {
            block.checks.Use(*operand.view, extent, Pipe::kVector, AccessKind::kRead, kBlockBytes, operand.name, call);
        }
        if (operand.isWritten) {
            block.checks.Use(*operand.view, extent, Pipe::kVector, AccessKind::kWrite, kBlockBytes, operand.name, call);
        }
    }
    const bool isInPlace = block.launch.options.strict && CheckOverlaps(block, shape, operands, accumulates, call);
    block.timeline.RunVector(static_cast<double>(shape.Repeats()) * CyclesPerRepeat(shape, operands), call);
    if (!block.launch.computes) {
        return;
    }
    std::array<int64_t, kMaxOperands> offsets{};
    std::array<uint8_t*, kMaxOperands> pointers{};
    if (isInPlace) {
        DivideIntoRepeats(shape, operands);
    }
    const bool isOneRun = !isInPlace && (shape.contiguous || IsOneRun(shape, operands));
    const bool isDense = !isInPlace && std::all_of(operands.begin(), operands.end(),
                                                   [&](const Operand& operand) { return IsDense(operand, shape); });
    for (int64_t repeat = 0; repeat < (isOneRun ? 1 : shape.repeats); ++repeat) {
        int64_t count = shape.Count(repeat);
        if (isOneRun) {
            count = shape.total > 0 ? shape.total : shape.repeats * shape.perRepeat;
        } else if (!isDense) {
            SweepScattered(block, shape, operands, repeat, count, body, scalar, context, call);
            continue;
        }
        for (size_t index = 0; index < operands.size(); ++index) {
            offsets[index] = repeat * operands[index].stride.repeat * kBlockBytes;
            pointers[index] = block.local.At(operands[index].view->address + offsets[index]);
        }
        TouchRun(block, operands, offsets.data(), count, call);
        Compute(block, operands[0], body, pointers.data(), count, scalar, context);
    }
}

}  // namespace opforge::twin::kernel
