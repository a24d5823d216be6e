// Gathers by byte offset and compaction by pattern or bit mask.
#include <cstring>

#include "opforge_twin/arithmetic.h"
#include "kernel/vector/sweep.h"
#include "kernel/exec/levels.h"
#include "kernel/timing/time_model.h"

namespace opforge::twin::kernel {

namespace {

constexpr int64_t kOffsetBytes = 4;

/// The offset at `index`, checked against src.
int64_t OffsetAt(Block& block, const LocalView& offsets, int64_t index, const LocalView& src, int64_t base,
                 int64_t bytes, const Call& call)
{
    const int64_t at = offsets.address + index * kOffsetBytes;
    Touched(block, AccessKind::kRead, at, kOffsetBytes, "srcOffset", call);
    uint32_t offset = 0;
    std::memcpy(&offset, block.local.At(at), sizeof(offset));
    const int64_t from = base + offset;
    if (from % bytes != 0 || src.address + from + bytes > src.end) {
        block.Fail("gather_offset", Pipe::kVector, call,
                   Text("srcOffset[", index, "] leads to byte ", from, " of src, expected a multiple of ", bytes,
                        " below ", src.end - src.address, " (offsets are bytes, not elements)"));
    }
    return src.address + from;
}

/// Whether element `lane` of a repeat is kept by one of the built-in patterns.
bool PatternKeeps(int64_t pattern, int64_t lane)
{
    switch (pattern) {
        case 1:
            return lane % 2 == 0;
        case 2:
            return lane % 2 == 1;
        case 7:
            return true;
        default:
            return lane % 4 == pattern - 3;
    }
}

bool MaskKeeps(Block& block, const LocalView& bits, int64_t repeat, int64_t repeatStride, int64_t lane,
               const Call& call)
{
    const int64_t at = bits.address + repeat * repeatStride * kBlockBytes + lane / 8;
    Touched(block, AccessKind::kRead, at, 1, "src1Pattern", call);
    return (*block.local.At(at) >> (lane % 8) & 1U) != 0;
}

}  // namespace

void GatherElements(const LocalView& dst, const LocalView& src, const LocalView& byteOffsets, int64_t base,
                    const Lanes& lanes, int64_t dstRepeatStride, const Call& call)
{
    const Entry block(call);
    const Shape shape = Resolve(*block, lanes, dst.size, call);
    const Stride stride{1, dstRepeatStride, 255, 255};
    CheckStride(*block, {&dst, "dst", stride, false, true}, call);
    const int64_t repeats = shape.contiguous ? 1 : shape.repeats;
    if (HasNoRepeats(*block, repeats, call) || (shape.contiguous && shape.total == 0)) {
        return;
    }
    const Stride dense{1, shape.perRepeat * kOffsetBytes / kBlockBytes, 255, 255};
    block->checks.Use(byteOffsets, Extent(shape, kOffsetBytes, dense), Pipe::kVector, AccessKind::kRead, kBlockBytes,
                      "srcOffset", call);
    const int64_t dstBytes = Extent(shape, dst.size, stride);
    block->checks.Use(dst, dstBytes, Pipe::kVector, AccessKind::kWrite, kBlockBytes, "dst", call);
    block->checks.Use(src, src.size, Pipe::kVector, AccessKind::kRead, kBlockBytes, "src", call);
    RequireApart(*block, dst.address, dstBytes, byteOffsets.address, Extent(shape, kOffsetBytes, dense), "srcOffset",
                 call);
    const int64_t elements = shape.contiguous ? shape.total : repeats * shape.leading;
    block->timeline.RunVector(static_cast<double>(elements) * time_model::kGatherCyclesPerElement, call);
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
        const int64_t count = shape.contiguous ? shape.total : shape.Count(repeat);
        for (int64_t index = 0; index < count; ++index) {
            const int64_t lane = shape.active.empty() ? index : shape.active[static_cast<size_t>(index)];
            const int64_t from =
                OffsetAt(*block, byteOffsets, repeat * shape.perRepeat + lane, src, base, src.size, call);
            RequireApart(*block, dst.address, dstBytes, from, src.size, "src", call);
            const int64_t to = dst.address + repeat * dstRepeatStride * kBlockBytes + lane * dst.size;
            const uint8_t state = ReadMoved(*block, from, src.size, "src", call);
            std::memcpy(block->local.At(to), block->local.At(from), static_cast<size_t>(src.size));
            Touched(*block, AccessKind::kWrite, to, dst.size, "dst", call);
            block->local.PassState(to, dst.size, state);
        }
    }
}

void GatherBlocks(const LocalView& dst, const LocalView& src, const LocalView& byteOffsets, int64_t repeats,
                  const Stride& givenStride, const Call& call)
{
    const Entry block(call);
    constexpr int64_t perRepeat = 8;
    Stride dstStride = givenStride;
    dstStride.block = givenStride.block == 0 ? 1 : givenStride.block;
    Field("repeatTime", repeats, 0, kMaxRepeats, call);
    CheckStride(*block, {&dst, "dst", dstStride, false, true}, call);
    if (HasNoRepeats(*block, repeats, call)) {
        return;
    }
    const int64_t lastBlock = ((repeats - 1) * dstStride.repeat + (perRepeat - 1) * dstStride.block) * kBlockBytes;
    block->checks.Use(byteOffsets, repeats * perRepeat * kOffsetBytes, Pipe::kVector, AccessKind::kRead, kBlockBytes,
                      "offset", call);
    block->checks.Use(dst, lastBlock + kBlockBytes, Pipe::kVector, AccessKind::kWrite, kBlockBytes, "dst", call);
    block->checks.Use(src, kBlockBytes, Pipe::kVector, AccessKind::kRead, kBlockBytes, "src", call);
    RequireApart(*block, dst.address, lastBlock + kBlockBytes, byteOffsets.address, repeats * perRepeat * kOffsetBytes,
                 "offset", call);
    block->timeline.RunVector(static_cast<double>(repeats) * time_model::kVectorCyclesPerRepeat, call);
    for (int64_t index = 0; index < repeats * perRepeat; ++index) {
        const int64_t from = OffsetAt(*block, byteOffsets, index, src, 0, kBlockBytes, call);
        RequireApart(*block, dst.address, lastBlock + kBlockBytes, from, kBlockBytes, "src", call);
        const int64_t to =
            dst.address + (index / perRepeat * dstStride.repeat + index % perRepeat * dstStride.block) * kBlockBytes;
        const uint8_t state = ReadMoved(*block, from, kBlockBytes, "src", call);
        std::memcpy(block->local.At(to), block->local.At(from), static_cast<size_t>(kBlockBytes));
        Touched(*block, AccessKind::kWrite, to, kBlockBytes, "dst", call);
        block->local.PassState(to, kBlockBytes, state);
    }
}

uint64_t Compact(const LocalView& dst, const LocalView& src, const Compaction& how, const Call& call)
{
    const Entry block(call);
    if (how.bits == nullptr) {
        Field("src1Pattern", how.pattern, 1, 7, call);
    }
    const Stride stride{Field("src0BlockStride", how.blockStride, 0, 255, call),
                        Field("src0RepeatStride", how.repeatStride, 0, 65535, call), 255, 65535};
    const int64_t repeats = Field("repeatTimes", how.repeats, 0, 65535, call);
    Field("src1RepeatStride", how.maskRepeatStride, 0, 255, call);
    const int64_t perRepeat = kRepeatBytes / src.size;
    const int64_t count = how.counted ? Field("mask", how.mask, 1, UINT32_MAX, call) : perRepeat;
    if (HasNoRepeats(*block, repeats, call)) {
        return 0;
    }
    const int64_t extent = OffsetOf(repeats - 1, count - 1, src.size, stride) + src.size;
    block->checks.Use(src, extent, Pipe::kVector, AccessKind::kRead, kBlockBytes, "src0", call);
    const int64_t maskBytes = (repeats - 1) * how.maskRepeatStride * kBlockBytes + CeilDiv<int64_t>(count, 8);
    if (how.bits != nullptr) {
        block->checks.Use(*how.bits, maskBytes, Pipe::kVector, AccessKind::kRead, kBlockBytes, "src1Pattern", call);
    }
    const int64_t passes = repeats * CeilDiv(count, perRepeat);
    const double setup = how.bits == nullptr ? 0.0 : time_model::kGatherMaskTensorCycles;
    block->timeline.RunVector(setup + static_cast<double>(passes) * time_model::kGatherMaskCyclesPerRepeat, call);
    // The write position is never ahead of the read position: examples of the vendor use the operand in place.
    const bool isInPlace =
        how.bits == nullptr && dst.address == src.address && !kGatherMaskInPlace.Has(block->launch.options.level);
    uint64_t kept = 0;
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
        for (int64_t lane = 0; lane < count; ++lane) {
            const bool keeps = how.bits == nullptr
                                   ? PatternKeeps(how.pattern, lane)
                                   : MaskKeeps(*block, *how.bits, repeat, how.maskRepeatStride, lane, call);
            if (!keeps) {
                continue;
            }
            const int64_t from = src.address + OffsetOf(repeat, lane, src.size, stride);
            const int64_t to = dst.address + static_cast<int64_t>(kept) * dst.size;
            const uint8_t state = ReadMoved(*block, from, src.size, "src0", call);
            if (!isInPlace) {
                RequireApart(*block, to, dst.size, src.address, extent, "src0", call);
            }
            if (how.bits != nullptr) {
                RequireApart(*block, to, dst.size, how.bits->address, maskBytes, "src1Pattern", call);
            }
            block->checks.Use(dst, static_cast<int64_t>(kept + 1) * dst.size, Pipe::kVector, AccessKind::kWrite,
                              kBlockBytes, "dst", call);
            std::memcpy(block->local.At(to), block->local.At(from), static_cast<size_t>(src.size));
            Touched(*block, AccessKind::kWrite, to, dst.size, "dst", call);
            block->local.PassState(to, dst.size, state);
            ++kept;
        }
    }
    block->ordering.OrderInside(Pipe::kVector, Pipe::kScalar);  // the count is in a register of the vector unit
    block->registers.compactedCount = static_cast<int64_t>(kept);
    return kept;
}

int64_t CompactedCount(const Call& call)
{
    const Entry block(call);
    if (!block->registers.compactedCount) {
        block->Fail("no_reduction", Pipe::kScalar, call, "there is no result; call GatherMask before");
    }
    return *block->registers.compactedCount;
}

}  // namespace opforge::twin::kernel
