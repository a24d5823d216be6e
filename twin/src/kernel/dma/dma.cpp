// DMA between global memory and the unified buffer, and scalar accesses to both.
#include <algorithm>
#include <cstring>

#include "kernel/dma/dma.h"
#include "kernel/exec/levels.h"
#include "kernel/exec/scheduler.h"
#include "kernel/memory/shared_elements.h"
#include "opforge_twin/arithmetic.h"
#include "kernel/vector/numbers.h"
#include "kernel/timing/time_model.h"

namespace opforge::twin::kernel {

namespace {

constexpr int64_t kMaxPaddingBytes = 32;
constexpr int64_t kFillScratchBytes = 1024;

/// Distance of two rows and extent of all of them on one side.
struct Layout {
    int64_t pitch;
    int64_t extent;
};

Layout LayOut(int64_t rows, int64_t rowBytes, int64_t gap)
{
    const int64_t pitch = rowBytes + gap;
    return {pitch, (rows - 1) * pitch + rowBytes};
}

void FillPadding(uint8_t* to, int64_t count, int64_t size, uint64_t value)
{
    for (int64_t index = 0; index < count; ++index) {
        std::memcpy(to + index * size, &value, static_cast<size_t>(size));
    }
}

/// Whether there is nothing to copy. A count of 0 is an empty tail; 0 rows are probably an error.
bool IsNothing(Block& block, const Rows& rows, bool isCount, Pipe pipe, const Call& call)
{
    if (rows.count != 0 && rows.bytes != 0) {
        return false;
    }
    if (!isCount) {
        block.Warn("no_effect", pipe, call,
                   Text(rows.count == 0 ? "blockCount" : "blockLen", " is 0: the instruction does nothing"));
    }
    return true;
}

/// One row of a padded copy: [left padding][data][right padding][up to 32 bytes]. The last part has documented values
/// if isPad is true or there is no padding. Level strict permits no use of them.
void PadRow(Block& block, int64_t row, int64_t bytes, const Padding& padding, int64_t size, const Call& call)
{
    const int64_t left = padding.left * size;
    const int64_t right = padding.right * size;
    const int64_t end = left + bytes + right;
    const int64_t whole = RoundUp(end, kBlockBytes);
    block.checks.Touch({Pipe::kMte2, Memory::kOnChip, AccessKind::kWrite, row, whole, "dst", call});
    if (padding.enabled) {
        FillPadding(block.local.At(row), padding.left, size, padding.value);
        FillPadding(block.local.At(row + left + bytes), padding.right, size, padding.value);
    } else {
        const Origin unfilled{call, "left it undefined as padding, because isPad is false", nullptr, true};
        block.local.Poison(row, left, unfilled);
        block.local.Poison(row + left + bytes, right, unfilled);
    }
    const bool isFirst = padding.left + padding.right == 0;
    if (!kRowTail.Has(block.launch.options.level) && (isFirst || padding.enabled)) {
        uint64_t value = padding.value;
        if (isFirst) {
            std::memcpy(&value, block.local.At(row), static_cast<size_t>(size));
        }
        FillPadding(block.local.At(row + end), (whole - end) / size, size, value);
    } else {
        block.local.Poison(row + end, whole - end,
                           {call, "left it undefined after a row, up to a multiple of 32 bytes", nullptr, true});
    }
}

template <typename T>
void Accumulate(AtomicOp op, uint8_t* to, const uint8_t* from, int64_t bytes)
{
    using Wide = Computed<T>;
    for (int64_t offset = 0; offset < bytes; offset += static_cast<int64_t>(sizeof(T))) {
        const Wide old = Load<T>(to + offset);
        const Wide add = Load<T>(from + offset);
        const Wide result = op == AtomicOp::kAdd   ? Plus(old, add)
                            : op == AtomicOp::kMax ? Larger(old, add)
                                                   : Smaller(old, add);
        Store<T>(to + offset, result);
    }
}

void AccumulateAs(Dtype dtype, AtomicOp op, uint8_t* to, const uint8_t* from, int64_t bytes)
{
    switch (dtype) {
        case Dtype::kFloat32:
            return Accumulate<float>(op, to, from, bytes);
        case Dtype::kFloat16:
            return Accumulate<half>(op, to, from, bytes);
        case Dtype::kBfloat16:
            return Accumulate<bfloat16_t>(op, to, from, bytes);
        case Dtype::kInt32:
            return Accumulate<int32_t>(op, to, from, bytes);
        case Dtype::kInt16:
            return Accumulate<int16_t>(op, to, from, bytes);
        default:
            return Accumulate<int8_t>(op, to, from, bytes);
    }
}

/// Adds a row to global memory by sectors: cores that add to the same sector do so one after another.
void AtomicRow(Block& block, uint64_t address, uint8_t* to, const uint8_t* from, int64_t bytes)
{
    const AtomicMode& mode = block.registers.atomic;
    int64_t done = 0;
    while (done < bytes) {
        const uint64_t at = address + static_cast<uint64_t>(done);
        const auto left = static_cast<int64_t>(GlobalMemory::kSectorBytes - at % GlobalMemory::kSectorBytes);
        const int64_t piece = std::min(left, bytes - done);
        const std::lock_guard<std::mutex> lock(GlobalMemory::SectorLock(at));
        AccumulateAs(mode.dtype, mode.op, to + done, from + done, piece);
        done += piece;
    }
}

}  // namespace

void RequireAtomicDtype(Block& block, Dtype dtype, Pipe pipe, const Call& call)
{
    const AtomicMode& mode = block.registers.atomic;
    if (mode.IsOn() && dtype != mode.dtype) {
        block.Fail("atomic_dtype", pipe, call,
                   Text("the atomic mode set at ", Where(mode.at),
                        " is for another dtype than the one stored here; call SetAtomicNone() before this store"));
    }
}

void WatchAtomicMode(Block& block, const GlobalView& dst, Pipe pipe, const Call& call)
{
    AtomicMode& mode = block.registers.atomic;
    if (!mode.IsOn()) {
        return;
    }
    const Region* region = block.launch.memory.Find(dst.address);
    if (mode.region == nullptr) {
        mode.region = region;
    } else if (region != nullptr && region != mode.region) {
        block.Warn("atomic_second_tensor", pipe, call,
                   Text("'", region->name, "' is stored to in the atomic mode set at ", Where(mode.at),
                        ", which was used for '", mode.region->name,
                        "'; call SetAtomicNone() between them, and the mode again if it is intended"));
    }
}

void StoreRow(Block& block, const GlobalView& dst, uint64_t address, const uint8_t* from, int64_t bytes, Pipe pipe,
              const Call& call)
{
    const AccessKind kind = block.registers.atomic.IsOn() ? AccessKind::kAtomic : AccessKind::kWrite;
    uint8_t* to = block.checks.Resolve(dst, address, static_cast<uint64_t>(bytes), pipe, kind, "dst", call);
    block.checks.Touch({pipe, Memory::kGlobal, kind, static_cast<int64_t>(address), bytes, "dst", call});
    if (kind == AccessKind::kAtomic && block.launch.computes) {
        AtomicRow(block, address, to, from, bytes);
    } else if (block.launch.computes) {
        std::memcpy(to, from, static_cast<size_t>(bytes));
    }
    block.accounting.CountRow(dst, address, static_cast<uint64_t>(bytes), true);
}

namespace {

void StoreRows(Block& block, const GlobalView& dst, int64_t src, const Rows& rows, int64_t srcPitch, const Call& call)
{
    WatchAtomicMode(block, dst, Pipe::kMte3, call);
    for (int64_t row = 0; row < rows.count; ++row) {
        const int64_t from = src + row * srcPitch;
        const uint64_t address = dst.address + static_cast<uint64_t>(row * (rows.bytes + rows.dstGap));
        const Access read{Pipe::kMte3, Memory::kOnChip, AccessKind::kRead, from, rows.bytes, "src", call};
        if (block.registers.atomic.IsOn()) {
            block.checks.Touch(read);
        }
        StoreRow(block, dst, address, block.local.At(from), rows.bytes, Pipe::kMte3, call);
        if (!block.registers.atomic.IsOn()) {
            block.checks.TouchStored(read, address);
        }
    }
    block.accounting.EndDma(Pipe::kMte3, call);
}

/// Rows that are copied within the unified buffer must not overlap: the unit reads while it writes.
void CheckRowsApart(Block& block, const LocalView& dst, const Layout& to, const LocalView& src, const Layout& from,
                    const Rows& rows, const Call& call)
{
    const bool isSame = dst.address == src.address && (to.pitch == from.pitch || rows.count == 1);
    // A copy to lower addresses writes only blocks that it has read.
    const bool isDown = dst.address < src.address && to.pitch == from.pitch && rows.bytes <= to.pitch;
    if (isDown && !kCopyDown.Has(block.launch.options.level)) {
        return;
    }
    if (isSame || dst.address >= src.address + from.extent || src.address >= dst.address + to.extent) {
        return;
    }
    std::vector<bool> isRead(static_cast<size_t>(block.local.Bytes() / kBlockBytes));
    const auto forBlocks = [&](int64_t begin, int64_t pitch, auto&& apply) {
        for (int64_t row = 0; row < rows.count; ++row) {
            for (int64_t offset = 0; offset < rows.bytes; offset += kBlockBytes) {
                apply(row, static_cast<size_t>((begin + row * pitch + offset) / kBlockBytes));
            }
        }
    };
    forBlocks(src.address, from.pitch, [&](int64_t /*row*/, size_t at) { isRead[at] = true; });
    forBlocks(dst.address, to.pitch, [&](int64_t row, size_t at) {
        if (isRead[at]) {
            block.Fail("overlap", Pipe::kVector, call,
                       Text("dst and src overlap: block ", row,
                            " of the copy is written where the copy reads; copy through another buffer"));
        }
    });
}

void CheckPadding(Block& block, const Padding& padding, int64_t size, const Call& call)
{
    for (const auto& [name, count] : {std::pair{"leftPadding", padding.left}, {"rightPadding", padding.right}}) {
        if (count < 0 || count * size > kMaxPaddingBytes) {
            block.Fail("padding", Pipe::kMte2, call,
                       Text(name, " is ", count, " elements of ", size, " bytes, expected at most ", kMaxPaddingBytes,
                            " bytes"));
        }
    }
    if (padding.enabled && size == 8 && padding.value != 0) {
        block.Fail("padding", Pipe::kMte2, call, "8-byte types can be padded with 0 only");
    }
}

/// The pipe of a copy between memories of a core. Only cores with both units can access the memories of the cube unit.
Pipe PipeOfCopy(Block& block, const LocalView& dst, const LocalView& src, const Call& call)
{
    using Id = LocalUnit::Id;
    const LocalUnit& from = block.checks.UnitOf(src, Pipe::kVector, "src", call);
    const LocalUnit& to = block.checks.UnitOf(dst, Pipe::kVector, "dst", call);
    if (from.id == Id::kUnifiedBuffer) {
        return to.id == Id::kL1 ? Pipe::kMte3 : Pipe::kVector;
    }
    if (from.id == Id::kL0C) {
        block.Fail("position", Pipe::kVector, call,
                   "src is in L0C; pass DataCopyEnhancedParams with BLOCK_MODE_MATRIX, which copies fractals");
    }
    return Pipe::kMte1;
}

}  // namespace

void RequireNoL0(Block& block, const LocalView& dst, const Call& call)
{
    const LocalUnit& unit = block.checks.UnitOf(dst, Pipe::kMte2, "dst", call);
    if (unit.IsL0()) {
        block.Fail("position", Pipe::kMte2, call,
                   Text("dst is in ", unit.name, ", which DataCopy does not write; use LoadData"));
    }
}

void SetPadding(uint64_t value, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kVector, call);
    block->registers.padding = value;
}

void CopyIn(const LocalView& dst, const GlobalView& src, const Rows& rows, const Padding* padding, const Call& call)
{
    const Entry block(call);
    Padding given;
    if (padding != nullptr && !padding->enabled && block->registers.padding) {
        given = {true, padding->left, padding->right, *block->registers.padding};
        padding = &given;
    }
    if (IsNothing(*block, rows, padding == nullptr && rows.count == 1, Pipe::kMte2, call)) {
        return;
    }
    RequireNoL0(*block, dst, call);
    int64_t rowBytes = rows.bytes;
    int64_t left = 0;
    if (padding != nullptr) {
        block->Require(CoreKind::kVector, call);
        CheckPadding(*block, *padding, dst.size, call);
        left = padding->left * dst.size;
        rowBytes = RoundUp(left + rows.bytes + padding->right * dst.size, kBlockBytes);
    }
    const Layout layout = LayOut(rows.count, rowBytes, rows.dstGap);
    block->checks.Use(dst, layout.extent, Pipe::kMte2, AccessKind::kWrite, kBlockBytes, "dst", call);
    for (int64_t row = 0; row < rows.count; ++row) {
        const int64_t to = dst.address + row * layout.pitch;
        const uint64_t address = src.address + static_cast<uint64_t>(row * (rows.bytes + rows.srcGap));
        const auto bytes = static_cast<uint64_t>(rows.bytes);
        const uint8_t* from = block->checks.Resolve(src, address, bytes, Pipe::kMte2, AccessKind::kRead, "src", call);
        block->checks.Touch(
            {Pipe::kMte2, Memory::kGlobal, AccessKind::kRead, static_cast<int64_t>(address), rows.bytes, "src", call});
        if (block->launch.computes) {
            std::memcpy(block->local.At(to + left), from, bytes);
        }
        if (padding != nullptr) {
            PadRow(*block, to, rows.bytes, *padding, dst.size, call);
        } else {
            block->checks.Touch({Pipe::kMte2, Memory::kOnChip, AccessKind::kWrite, to, rows.bytes, "dst", call});
        }
        block->checks.CopyUndefined(address, rows.bytes, to + left, call);
        block->accounting.CountRow(src, address, bytes, false);
    }
    block->accounting.EndDma(Pipe::kMte2, call);
}

void CopyOut(const GlobalView& dst, const LocalView& src, const Rows& rows, bool padded, const Call& call)
{
    const Entry block(call);
    if (IsNothing(*block, rows, !padded && rows.count == 1, Pipe::kMte3, call)) {
        return;
    }
    RequireAtomicDtype(*block, dst.dtype, Pipe::kMte3, call);
    const Layout layout = LayOut(rows.count, padded ? RoundUp(rows.bytes, kBlockBytes) : rows.bytes, rows.srcGap);
    // The end of the last row is read exactly, not to the end of the block.
    const int64_t extent = (rows.count - 1) * layout.pitch + rows.bytes;
    block->checks.Use(src, extent, Pipe::kMte3, AccessKind::kRead, kBlockBytes, "src", call);
    StoreRows(*block, dst, src.address, rows, layout.pitch, call);
}

void CopyLocal(const LocalView& dst, const LocalView& src, const Rows& rows, const Call& call)
{
    const Entry block(call);
    if (block->position.kind == CoreKind::kCube) {
        return CopyInCube(*block, dst, src, rows, call);
    }
    const Pipe pipe = PipeOfCopy(*block, dst, src, call);
    if (IsNothing(*block, rows, rows.count == 1, pipe, call)) {
        return;
    }
    const Layout from = LayOut(rows.count, rows.bytes, rows.srcGap);
    const Layout to = LayOut(rows.count, rows.bytes, rows.dstGap);
    block->checks.Use(src, from.extent, pipe, AccessKind::kRead, kBlockBytes, "src", call);
    block->checks.Use(dst, to.extent, pipe, AccessKind::kWrite, kBlockBytes, "dst", call);
    CheckRowsApart(*block, dst, to, src, from, rows, call);
    for (int64_t row = 0; row < rows.count; ++row) {
        const int64_t source = src.address + row * from.pitch;
        const int64_t target = dst.address + row * to.pitch;
        const Access read{pipe, Memory::kOnChip, AccessKind::kRead, source, rows.bytes, "src", call};
        if (pipe == Pipe::kVector) {
            block->checks.TouchMoved(read);
        } else {
            block->checks.Touch(read);
        }
        block->local.Rearrange(
            [&](uint8_t* memory) { std::memmove(memory + target, memory + source, static_cast<size_t>(rows.bytes)); });
        block->checks.TouchOrder({pipe, Memory::kOnChip, AccessKind::kWrite, target, rows.bytes, "dst", call});
    }
    if (pipe != Pipe::kVector) {
        const double bytes = static_cast<double>(rows.count * rows.bytes);
        return block->timeline.RunCube(pipe, bytes / time_model::kUbL1BytesPerCycle, call);
    }
    const int64_t repeats = rows.count * CeilDiv(rows.bytes, kRepeatBytes);
    block->timeline.RunVector(static_cast<double>(repeats) * time_model::kVectorCyclesPerRepeat, call);
}

void FillGlobal(const GlobalView& dst, int64_t count, uint64_t value, const Call& call)
{
    const Entry block(call);
    if (block->position.kind == CoreKind::kCube && !kOtherCoreBuffer.Has(block->launch.options.level)) {
        return;
    }
    block->Require(CoreKind::kVector, call);
    Field("size", count, 0, 4294967295, call);
    if (count == 0) {
        return;
    }
    RequireAtomicDtype(*block, dst.dtype, Pipe::kMte3, call);
    const int64_t freeBytes = block->local.UnifiedBuffer().Left();
    if (freeBytes < kFillScratchBytes) {
        block->Fail("no_scratch", Pipe::kVector, call,
                    Text("InitOutput uses free memory at the end of the unified buffer; ", freeBytes,
                         " bytes are left, expected at least ", kFillScratchBytes));
    }
    const int64_t begin = block->local.UnifiedBuffer().used;
    const int64_t bytes = count * dst.size;
    const int64_t piece = std::min(RoundDown(freeBytes, kBlockBytes), bytes);
    block->checks.ForgetOrder(begin, piece);
    FillPadding(block->local.At(begin), piece / dst.size, dst.size, value);
    block->checks.Touch({Pipe::kVector, Memory::kOnChip, AccessKind::kWrite, begin, piece, "scratch", call});
    const int64_t repeats = piece / kRepeatBytes + 1;
    block->timeline.RunVector(static_cast<double>(repeats) * time_model::kVectorCyclesPerRepeat, call);
    block->timeline.Wait(Pipe::kMte3, block->timeline.FlagTime(Pipe::kVector));
    GlobalView part = dst;
    for (int64_t done = 0; done < bytes; done += piece) {
        part.address = dst.address + static_cast<uint64_t>(done);
        StoreRows(*block, part, begin, {1, std::min(piece, bytes - done), 0, 0}, 0, call);
    }
    block->local.Poison(begin, piece, {call, "used it as scratch"});
    block->checks.ForgetOrder(begin, piece);  // the API waits for its stores
}

void SetAtomic(AtomicOp op, Dtype dtype, const Call& call)
{
    const Entry block(call);
    block->registers.atomic = {op, dtype, call.at, nullptr};
}

void SetAtomicDtype(Dtype dtype, const Call& call)
{
    const Entry block(call);
    block->registers.atomic.dtype = dtype;
    block->registers.atomic.at = call.at;
}

void Issue(const Call& call)
{
    const Entry block(call);
    block->timeline.RunScalar(1.0, call);
}

namespace {

/// Whether accesses through the scalar unit's cache, with DataCacheCleanAndInvalid, order cores.
bool MayBeFlag(const Block& block)
{
    return block.launch.options.strict && !kCachedFlag.Has(block.launch.options.level);
}

/// Equal rounds of a loop of GetValue after which the core waits for a change.
constexpr uint32_t kMostCachedRounds = 16;
/// Waits in vain of such a loop after which it is endless.
constexpr uint32_t kMostVainCachedPolls = 1000000;

/// Lets other cores run until a read of the loop of the scalar unit would return another value; false if none can
/// change one now.
bool AwaitChange(Block& block, const GlobalView& view, uint64_t address, const Call& call)
{
    const auto problem = [&] {
        const Region& region = *block.launch.memory.Find(address);
        const uint64_t offset = address - region.base;
        return Text("the loop reads bytes [", offset, ", ", offset + static_cast<uint64_t>(view.size), ") of '",
                    region.name,
                    "' until they change, and all other cores have ended or wait: the core would hang; let another "
                    "core write them, or end the loop");
    };
    const uint32_t polls = view.bypassesScalarCache ? Scheduler::kMostVainPolls : kMostVainCachedPolls;
    return block.launch.scheduler->Poll(
        block, [&] { return block.checks.Reads().HaveChanged(); }, {"endless_loop", polls, problem}, call);
}

}  // namespace

void CleanCache(const GlobalView& view, bool whole, const Call& call)
{
    const Entry block(call);
    if (MayBeFlag(*block)) {
        const uint64_t end = whole ? UINT64_MAX : view.address + 1;
        for (const uint64_t line : block->checks.Cache().DirtyLinesIn(whole ? 0 : view.address, end)) {
            block->launch.scheduler->StoreUncached(*block, line, [] {}, call);
        }
    }
    block->checks.DropCache(view, whole);
}

uint64_t ReadGlobal(const GlobalView& view, uint64_t index, const Call& call)
{
    const Entry block(call);
    const auto size = static_cast<uint64_t>(view.size);
    const uint64_t address = view.address + index * size;
    const uint8_t* const host =
        block->checks.Resolve(view, address, size, Pipe::kScalar, AccessKind::kRead, "tensor", call);
    uint64_t bits = LoadElement(host, size);
    const auto load = [&] { bits = LoadElement(host, size); };
    const uint32_t rounds = view.bypassesScalarCache ? 1 : kMostCachedRounds;
    if (block->checks.Reads().Add({host, size, bits}, block->execution.Now(), rounds) &&
        AwaitChange(*block, view, address, call)) {
        load();
    } else {
        block->timeline.RunScalarGmAccess(call);
    }
    const bool isCached = !view.bypassesScalarCache;
    const bool isFlag = !isCached || (MayBeFlag(*block) && block->checks.Cache().WasDropped(address));
    if (isFlag) {
        block->launch.scheduler->LoadUncached(*block, isCached ? RoundDown(address, ScalarCache::kLineBytes) : address,
                                              load);
    }
    if (isCached) {
        block->checks.LoadCached(view, address, call);
    }
    block->checks.Touch({Pipe::kScalar, Memory::kGlobal, AccessKind::kRead, static_cast<int64_t>(address), view.size,
                         "tensor", call, isFlag});
    return bits;
}

void WriteGlobal(const GlobalView& view, uint64_t index, uint64_t value, const Call& call)
{
    const Entry block(call);
    block->timeline.RunScalarGmAccess(call);
    const auto size = static_cast<uint64_t>(view.size);
    const uint64_t address = view.address + index * size;
    uint8_t* const host = block->checks.Resolve(view, address, size, Pipe::kScalar, AccessKind::kWrite, "tensor", call);
    const auto store = [&] { StoreElement(host, size, value); };
    const bool isFlag = view.bypassesScalarCache || MayBeFlag(*block);
    const Access access{
        Pipe::kScalar, Memory::kGlobal, AccessKind::kWrite, static_cast<int64_t>(address), view.size, "tensor",
        call,          isFlag};
    if (view.bypassesScalarCache) {
        block->checks.Touch(access);  // before other cores see the value
        block->launch.scheduler->StoreUncached(*block, address, store, call);
        return;
    }
    store();
    block->checks.StoreCached(view, address, call);
    block->checks.Touch(access);
}

uint64_t ReadLocal(const LocalView& view, int64_t index, const Call& call)
{
    const Entry block(call);
    block->timeline.RunScalar(time_model::kScalarUbAccessCycles, call);
    LocalView element = view;
    element.address += index * view.size;
    block->checks.Use(element, view.size, Pipe::kScalar, AccessKind::kRead, view.size, "tensor", call);
    block->checks.Touch(
        {Pipe::kScalar, Memory::kOnChip, AccessKind::kRead, element.address, view.size, "tensor", call});
    uint64_t bits = 0;
    std::memcpy(&bits, block->local.At(element.address), static_cast<size_t>(view.size));
    return bits;
}

void WriteLocal(const LocalView& view, int64_t index, uint64_t value, const Call& call)
{
    const Entry block(call);
    block->timeline.RunScalar(time_model::kScalarUbAccessCycles, call);
    LocalView element = view;
    element.address += index * view.size;
    block->checks.Use(element, view.size, Pipe::kScalar, AccessKind::kWrite, view.size, "tensor", call);
    block->checks.Touch(
        {Pipe::kScalar, Memory::kOnChip, AccessKind::kWrite, element.address, view.size, "tensor", call});
    std::memcpy(block->local.At(element.address), &value, static_cast<size_t>(view.size));
}

}  // namespace opforge::twin::kernel
