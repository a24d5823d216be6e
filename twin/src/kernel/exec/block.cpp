#include "kernel/exec/block.h"

#include "kernel/exec/guarded_call.h"
#include "kernel/order/race.h"

#include <algorithm>
#include <stdexcept>

namespace opforge::twin::kernel {

namespace {

constexpr size_t kMaxFindings = 100;  // of one block; a broken loop says the same thing again and again
constexpr int64_t kBlockBytes = 32;
constexpr uint64_t kNullPage = uint64_t{1} << 32;

constexpr const char* kEventNames[] = {
    "MTE2_MTE1", "MTE1_MTE2", "MTE1_M",    "M_MTE1",    "MTE2_V",   "V_MTE2",   "MTE3_V",   "V_MTE3",  "M_V",
    "V_M",       "V_V",       "MTE3_MTE1", "MTE1_MTE3", "MTE1_V",   "MTE2_M",   "M_MTE2",   "V_MTE1",  "M_FIX",
    "FIX_M",     "MTE3_MTE2", "MTE2_MTE3", "S_V",       "V_S",      "S_MTE2",   "MTE2_S",   "S_MTE3",  "MTE3_S",
    "MTE2_FIX",  "FIX_MTE2",  "FIX_S",     "M_S",       "FIX_MTE3", "MTE1_FIX", "FIX_MTE1", "FIX_FIX",
};
static_assert(std::size(kEventNames) == static_cast<size_t>(AscendC::HardEvent::MAX));

}  // namespace

const char* Name(Pipe pipe)
{
    constexpr const char* names[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "ALL"};
    return names[static_cast<size_t>(pipe)];
}

const char* Name(AscendC::HardEvent event)
{
    return kEventNames[static_cast<size_t>(event)];
}

std::string Names(PipeSet pipes)
{
    std::string names;
    for (size_t pipe = 0; pipe < kPipes; ++pipe) {
        if (pipes.Has(static_cast<Pipe>(pipe))) {
            names += Text(names.empty() ? "" : " or ", Name(static_cast<Pipe>(pipe)));
        }
    }
    return names;
}

std::string Where(const Location& at)
{
    return at.line == 0 ? std::string() : Text(at.file, ":", at.line);
}

Block*& CurrentBlock()
{
    thread_local Block* current = nullptr;
    return current;
}

Entry::Entry(const Call& call)
    : block_(CurrentBlock() != nullptr
                 ? *CurrentBlock()
                 : throw std::logic_error(Text(call.name, ": a kernel runs only inside a launch of the twin")))
{
    block_.SetInKernel(false);
    block_.instructions.fetch_add(1, std::memory_order_relaxed);
    if (call.at.line != 0) {
        block_.lastCall = call;
    }
    block_.CheckStack(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)), call);
    if (block_.interrupted.load(std::memory_order_relaxed)) {
        block_.Fail("endless_loop", Pipe::kScalar, call,
                    "the block has used up its time here; a loop that does not end, or set OPFORGE_TWIN_TIMEOUT "
                    "(seconds) for a kernel that needs longer");
    }
}

Block::Block(LaunchState& launchState, uint32_t blockIndex)
    : launch(launchState),
      index(blockIndex),
      seat(launchState.layout.At(blockIndex)),
      local(seat.kind, launchState.soc, launchState.options.strict,
            std::array<uint8_t, 4>{0xFF, 0x7F, 0xFE, 0x7E}[launchState.seed % 4]),
      localOrder(seat.kind, local.Bytes(), launchState.options.strict),
      timeline(!launchState.tracePath.empty()),
      sites_(launchState.sites)
{
}

void Block::Require(CoreKind kind, const Call& call)
{
    if (seat.kind != kind) {
        Fail("core_kind", Pipe::kScalar, call,
             Text("this is for ", Name(kind), " cores, the block runs on an ", Name(seat.kind),
                  " core; put it under `if ASCEND_IS_", Name(kind), "`"));
    }
}

void Block::RequirePipe(Pipe wanted, const Call& call)
{
    constexpr PipeSet vector = PipeSet::Of(Pipe::kScalar, Pipe::kVector, Pipe::kMte2, Pipe::kMte3, Pipe::kAll);
    constexpr PipeSet cube = PipeSet::Of(Pipe::kScalar, Pipe::kCube, Pipe::kMte1, Pipe::kMte2, Pipe::kFix, Pipe::kAll);
    if (!(seat.kind == CoreKind::kCube ? cube : vector).Has(wanted)) {
        Fail("core_kind", wanted, call,
             Text(Name(seat.kind), " cores have no pipe ", Name(wanted),
                  seat.kind == CoreKind::kCube ? "; put it under `if ASCEND_IS_AIV`"
                                               : "; put it under `if ASCEND_IS_AIC`"));
    }
}

void Block::Declare(const TaskType& type, const Call& call)
{
    const TaskType& running = launch.layout.Type();
    taskType = &type;
    if (type.cubes == running.cubes && type.vectors == running.vectors) {
        return;
    }
    if (launch.isDeclared) {
        Fail("task_type", Pipe::kScalar, call,
             Text("got ", type.name, ", but another block or branch has declared ", running.name,
                  "; all blocks of a launch declare one type"));
    }
    launch.declared = &type;
    stopped = true;
    throw Stopped{};
}

void Block::Report(const char* kind, Pipe onPipe, const Call& call, const std::string& message)
{
    Note(kind, onPipe, call, message, false);
}

void Block::Warn(const char* kind, Pipe onPipe, const Call& call, const std::string& message)
{
    Note(kind, onPipe, call, message, true);
}

void Block::Note(const char* kind, Pipe onPipe, const Call& call, const std::string& message, bool isWarning)
{
    if (findings.size() >= kMaxFindings) {
        return;
    }
    std::string where = Where(call.at);
    for (const Finding& known : findings) {
        if (known.kind == kind && known.where == where) {
            return;
        }
    }
    std::string text =
        Text(launch.request.opType, " (tiling key ", launch.request.tilingKey,
             launch.layout.IsMixed() ? Text(", ", Name(seat.kind)) : std::string(), "): ", call.name, ": ", message);
    findings.push_back({kind, static_cast<int64_t>(seat.blockIndex), Name(onPipe), std::move(where), std::move(text),
                        false, isWarning});
}

void Block::Fail(const char* kind, Pipe onPipe, const Call& call, const std::string& message)
{
    Report(kind, onPipe, call, message);
    if (!findings.empty()) {
        findings.back().fatal = true;
    }
    stopped = true;
    throw Stopped{};
}

void Block::CheckStack(uintptr_t frame, const Call& running)
{
    const Call call{running.name, running.at.line != 0 ? running.at : lastCall.at};
    if (frame < stackLimit) {
        Fail("stack_overflow", Pipe::kScalar, call,
             Text("the stack ran out; the device has ", kDeviceStackBytes,
                  " bytes of it: no recursion, no big local arrays"));
    }
    if (stackBase - frame > kDeviceStackBytes) {
        Report("stack_size", Pipe::kScalar, call,
               Text("the kernel has ", stackBase - frame, " bytes on the stack here, the device has ",
                    kDeviceStackBytes, "; no recursion, no big local arrays: take a TBuf"));
    }
}

const char* Block::DescribeState(const Buffer& buffer) const
{
    switch (buffer.state) {
        case BufferState::kFree:
            return "free";
        case BufferState::kAllocated:
            return "allocated and not yet in the queue";
        case BufferState::kQueued:
            return "in the queue";
        case BufferState::kDequeued:
            return "taken from the queue";
        case BufferState::kScratch:
            return "scratch";
    }
    return "";
}

/// A queue orders its producer pipe with its consumer pipe and nothing else.
void Block::CheckState(const Buffer& buffer, Pipe onPipe, AccessKind kind, const char* operand, const Call& call)
{
    if (buffer.state == BufferState::kScratch) {
        return;
    }
    if (buffer.state == BufferState::kFree) {
        Fail("use_after_free", onPipe, call,
             Text(operand, " was given back by FreeTensor at ", Where(buffer.changedAt),
                  "; use a tensor between AllocTensor (or DeQue) and FreeTensor only"));
    }
    if (buffer.state == BufferState::kQueued) {
        Fail(
            "queue_order", onPipe, call,
            Text(operand, " was put into its queue by EnQue at ", Where(buffer.changedAt), "; use what DeQue returns"));
    }
    const Queue& queue = local.queues[buffer.queue - local.firstQueue];
    const bool filling = buffer.state == BufferState::kAllocated;
    const Pipe owner = filling ? queue.producer : queue.consumer;
    const bool isScalar = onPipe == Pipe::kScalar;  // the compiler orders the accessors of tensors
    const bool onlyReads = kind == AccessKind::kRead;
    if (onPipe == owner || (isScalar && (onlyReads || owner == Pipe::kVector)) ||
        (!filling && onlyReads && onPipe == Pipe::kVector)) {
        return;
    }
    Fail("position", onPipe, call,
         Text(operand, " is ", DescribeState(buffer), ", where only pipe ", Name(owner), " may ",
              onlyReads ? "read" : "write", " it: the queue orders ", Name(queue.producer), " before ",
              Name(queue.consumer), " and no other pipe; ",
              filling ? "EnQue and DeQue it first, or use a queue of the right position"
                      : "use a queue of the right position (TQueBind copies through)"));
}

void Block::CheckUnit(const LocalUnit& unit, Pipe onPipe, AccessKind kind, const char* operand, const Call& call)
{
    RequirePipe(onPipe, call);
    const bool reads = kind == AccessKind::kRead;
    if (!(reads ? unit.readers : unit.writers).Has(onPipe)) {
        Fail("position", onPipe, call,
             Text(operand, " is in ", unit.name, ", which pipe ", Name(onPipe), " does not ", reads ? "read" : "write",
                  ": it is written by ", Names(unit.writers), " and read by ", Names(unit.readers)));
    }
}

Buffer& Block::LiveBuffer(const LocalView& view, Pipe onPipe, const char* operand, const Call& call)
{
    if (view.buffer == LocalView::kNoBuffer) {
        Fail("no_buffer", onPipe, call,
             Text(operand, " is a LocalTensor without memory; get it from AllocTensor, DeQue or TBuf::Get"));
    }
    if (view.generation < local.oldestGeneration) {
        Fail("use_after_free", onPipe, call,
             Text(operand, " comes from a TPipe that has ended (Destroy, Reset or the end of its scope)",
                  local.endedAt.line == 0 ? "" : " at ", Where(local.endedAt),
                  "; get a tensor from a buffer of the live TPipe"));
    }
    Buffer& buffer = local.buffers[view.buffer];
    if (buffer.generation != view.generation) {
        Fail("use_after_free", onPipe, call,
             Text(operand, " was given back by FreeTensor and its buffer was allocated again at ",
                  Where(buffer.changedAt), "; use a tensor between AllocTensor (or DeQue) and FreeTensor only"));
    }
    return buffer;
}

void Block::Use(const LocalView& view, int64_t bytes, Pipe onPipe, AccessKind kind, int64_t alignment,
                const char* operand, const Call& call)
{
    const Buffer& buffer = LiveBuffer(view, onPipe, operand, call);
    const LocalUnit& unit = local.UnitOf(buffer.begin);
    CheckUnit(unit, onPipe, kind, operand, call);
    CheckState(buffer, onPipe, kind, operand, call);
    if (view.address < view.begin || view.address + bytes > view.end) {
        Fail(unit.rangeKind, onPipe, call,
             Text(operand, kind == AccessKind::kRead ? " reads" : " writes", " bytes [", view.address - view.begin,
                  ", ", view.address - view.begin + bytes, ") of a tensor that has ", view.end - view.begin,
                  " bytes; shorten the instruction or give InitBuffer more"));
    }
    if ((view.address - unit.begin) % alignment != 0) {
        Fail(unit.alignmentKind, onPipe, call,
             Text(operand, " starts at byte ", view.address - view.begin, " of its tensor (", unit.name, " address ",
                  view.address - unit.begin, "), which is not a multiple of ", alignment,
                  "; round the offset or the row pitch up to it"));
    }
}

uint8_t* Block::Resolve(const GlobalView& view, uint64_t address, uint64_t bytes, Pipe onPipe, AccessKind kind,
                        const char* operand, const Call& call)
{
    if (view.address < kNullPage) {
        Fail("null_argument", onPipe, call,
             Text(operand,
                  " is a GlobalTensor over a null pointer: an absent optional argument, or "
                  "SetGlobalBuffer was not called"));
    }
    Region* region = launch.memory.Find(view.address);
    if (region == nullptr) {
        Fail("gm_out_of_range", onPipe, call,
             Text(operand, " points to no argument of the kernel; SetGlobalBuffer takes what the kernel was given"));
    }
    const auto offset = static_cast<int64_t>(address - region->base);
    const auto end = offset + static_cast<int64_t>(bytes);
    const char* verb = kind == AccessKind::kRead ? " reads" : " writes";
    if (offset < 0 || end > static_cast<int64_t>(region->bytes)) {
        Fail("gm_out_of_range", onPipe, call,
             Text(operand, verb, " bytes [", offset, ", ", end, ") of '", region->name, "', which has ", region->bytes,
                  " bytes; shorten the last tile or row, DataCopyPad takes any length"));
    }
    if (view.end != 0 && (address < view.begin || address + bytes > view.end)) {
        const auto start = static_cast<int64_t>(address - view.begin);
        Fail("gm_out_of_range", onPipe, call,
             Text(operand, verb, " bytes [", start, ", ", start + static_cast<int64_t>(bytes),
                  ") of a GlobalTensor that SetGlobalBuffer gave ", view.end - view.begin, " bytes of '", region->name,
                  "'; shorten the last tile or row, or give SetGlobalBuffer the whole size"));
    }
    if (launch.memory.IndexOf(*region) == launch.workspaceRegion &&
        offset < static_cast<int64_t>(kSystemWorkspaceBytes)) {
        Fail("system_workspace", onPipe, call,
             Text(operand, verb, " bytes [", offset, ", ", end, ") of the workspace, whose first ",
                  kSystemWorkspaceBytes, " bytes belong to the system; take GetUserWorkspace(workspace)"));
    }
    if (address % static_cast<uint64_t>(view.size) != 0) {
        Fail("gm_misaligned", onPipe, call,
             Text(operand, " starts at byte ", offset, " of '", region->name, "', which is not a multiple of its ",
                  view.size, "-byte elements; copy it as a type of fewer bytes"));
    }
    if (kind != AccessKind::kRead && !region->writable) {
        Fail("input_written", onPipe, call,
             Text(operand, " writes to '", region->name,
                  "', which is an input; write to an output or to the workspace"));
    }
    return region->host + offset;
}

void Block::Touch(const Access& access)
{
    if (access.bytes == 0) {
        return;
    }
    if (access.memory == Memory::kOnChip) {
        CheckContents(access);
    }
    if (access.memory == Memory::kGlobal && access.pipe != Pipe::kScalar && cache.DirtyLines() != 0) {
        CheckUnflushed(access);
    }
    if (launch.options.strict) {
        if (access.memory == Memory::kGlobal) {
            CheckGlobalContents(access);
        }
        CheckOrder(access);
    }
}

void Block::NoteUse(const Access& access)
{
    if (launch.options.strict && access.bytes != 0) {
        CheckOrder(access);
    }
}

int64_t Block::BufferAt(int64_t address) const
{
    const auto holds = [&](const Buffer& buffer) { return address >= buffer.begin && address < buffer.end; };
    const auto found = std::find_if(local.buffers.begin(), local.buffers.end(), holds);
    return found == local.buffers.end() ? 0 : found->begin;
}

void Block::CheckContents(const Access& access)
{
    if (access.kind == AccessKind::kWrite) {
        local.MarkWritten(access.begin, access.bytes);
        return;
    }
    const int64_t unwritten = local.FirstUnwritten(access.begin, access.bytes);
    if (unwritten >= 0) {
        const LocalUnit& unit = local.UnitOf(access.begin);
        local.MarkWritten(access.begin, access.bytes);
        Report("uninitialised_read", access.pipe, access.call,
               Text(access.operand, " reads ", access.bytes, " bytes from byte ", access.begin - BufferAt(access.begin),
                    " of its buffer in the ", unit.name, " on, but byte ", unwritten - access.begin,
                    " of them was never written since the buffer was allocated (the padding behind a row of "
                    "DataCopyPad, and what came from global memory that nobody has written, are undefined too); write "
                    "it, or leave it out by count or mask"));
    }
}

/// What DMA reads may be undefined as long as nobody uses it: SpreadUndefined.
void Block::CheckGlobalContents(const Access& access)
{
    Region* region = launch.memory.Find(static_cast<uint64_t>(access.begin));
    if (region->written == nullptr || (access.kind == AccessKind::kRead && access.pipe != Pipe::kScalar)) {
        return;
    }
    const uint64_t begin = static_cast<uint64_t>(access.begin) - region->base;
    const uint64_t end = begin + static_cast<uint64_t>(access.bytes);
    if (access.kind != AccessKind::kWrite) {
        const WrittenBytes::Run run = region->written->NextUnwritten(begin, end);
        if (run.begin != run.end) {
            Report("uninitialised_read", access.pipe, access.call,
                   Text(access.operand, access.kind == AccessKind::kRead ? " reads" : " adds to", " bytes [", run.begin,
                        ", ", run.end, ") of '", region->name,
                        "', which nobody has written: global memory is not cleared; use InitOutput and SyncAll, or "
                        "write it first"));
        }
    }
    region->written->Mark(begin, end);
}

/// DMA goes by the scalar unit's cache: it does not see what SetValue has left there, and what it writes to such a line
/// is lost when the line is written back.
void Block::CheckUnflushed(const Access& access)
{
    const auto begin = static_cast<uint64_t>(access.begin);
    const bool isRead = access.kind == AccessKind::kRead;
    const ScalarCache::DirtyLine* line = cache.FindDirty(begin, begin + static_cast<uint64_t>(access.bytes), !isRead);
    if (line == nullptr) {
        return;
    }
    const Region* region = launch.memory.Find(begin);
    const uint64_t offset = begin - region->base;
    Report("cache_not_flushed", access.pipe, access.call,
           Text(access.operand, isRead ? " reads" : " writes", " bytes [", offset, ", ",
                offset + static_cast<uint64_t>(access.bytes), ") of '", region->name, "', of which SetValue at ",
                Where(line->at),
                isRead ? " has left some in the scalar unit's cache"
                       : " has changed a cache line of 64 "
                         "bytes that will be written back over them",
                "; call DataCacheCleanAndInvalid behind the SetValue and let this pipe wait for the scalar unit"));
}

void Block::SpreadUndefined(uint64_t address, int64_t bytes, int64_t to)
{
    const Region* region = launch.memory.Find(address);
    if (region->written == nullptr) {
        return;
    }
    const uint64_t begin = address - region->base;
    const uint64_t end = begin + static_cast<uint64_t>(bytes);
    for (uint64_t at = begin; at < end;) {
        const WrittenBytes::Run run = region->written->NextUnwritten(at, end);
        local.Poison(to + static_cast<int64_t>(run.begin - begin), static_cast<int64_t>(run.end - run.begin));
        at = run.end;
    }
}

void Block::CheckCachedLoad(const GlobalView& view, uint64_t address, const Call& call)
{
    const Region* region = launch.memory.Find(view.address);
    if (region->order == nullptr) {
        return;
    }
    const uint64_t begin = address - region->base;
    const uint64_t end = begin + static_cast<uint64_t>(view.size);
    for (const GlobalOrder::Writer& write : region->order->WritersOf(begin, end)) {
        const auto block = static_cast<int64_t>(write.begin) / kBlockBytes;
        const bool isOwnStore = write.core == index && write.pipe == Pipe::kScalar;
        const bool overlaps =
            (write.bytes & BytesIn(block, static_cast<int64_t>(begin), static_cast<int64_t>(end))) != 0;
        if (overlaps && !isOwnStore && !cache.Sees(write, region->base + write.begin)) {
            const Site site = launch.sites.At(write.site);
            Report("stale_cache", Pipe::kScalar, call,
                   Text("reads bytes [", begin, ", ", end, ") of '", region->name, "', which ", site.name, " at ",
                        Where(site.at), " wrote on pipe ", Name(write.pipe),
                        write.core == index ? std::string() : Text(" of ", launch.layout.NameOf(write.core)),
                        ": the scalar unit may still have the old line in its cache; call DataCacheCleanAndInvalid "
                        "after that write and before this read"));
        }
    }
}

void Block::CheckCachedStore(const GlobalView& view, uint64_t address, const Call& call)
{
    const Region* region = launch.memory.Find(view.address);
    if (region->order == nullptr) {
        return;
    }
    const uint64_t line = address / ScalarCache::kLineBytes * ScalarCache::kLineBytes;
    const uint64_t first = line > region->base ? line - region->base : 0;
    for (const GlobalOrder::Writer& write :
         region->order->WritersOf(first, line + ScalarCache::kLineBytes - region->base)) {
        if (write.pipe == Pipe::kScalar && write.core != index &&
            write.time > order_.Heard(write.core, Pipe::kScalar)) {
            const Site site = launch.sites.At(write.site);
            Report("shared_cache_line", Pipe::kScalar, call,
                   Text("writes byte ", address - region->base, " of '", region->name,
                        "' into a cache line of 64 bytes that ", launch.layout.NameOf(write.core), " writes too, with ",
                        site.name, " at ", Where(site.at),
                        ": the line that is written back last undoes the other; give each core lines of its own, or "
                        "write through DataCopyPad"));
        }
    }
}

void Block::DropCache(const GlobalView& view, bool whole)
{
    if (whole) {
        cache.DropAll(index, Now(), order_);
    } else if (const Region* region = launch.memory.Find(view.address); region != nullptr) {
        cache.Drop(view.address, region->base, region->order.get());
    }
}

void Block::CheckOrder(const Access& access)
{
    const uint32_t site = sites_.NumberOf({access.call.name, access.call.at, access.operand});
    if (access.memory == Memory::kOnChip) {
        if (auto conflict = localOrder.Note(access, Now(), site, order_)) {
            const LocalUnit& unit = local.UnitOf(access.begin);
            conflict->block = index;
            ReportRace(access, *conflict, Text("the ", unit.name), unit.begin);
        }
        return;
    }
    const Region* region = launch.memory.Find(static_cast<uint64_t>(access.begin));
    if (region->order == nullptr) {
        return;  // nobody writes there
    }
    const auto base = static_cast<int64_t>(region->base);
    if (const auto conflict = region->order->Note(access, access.begin - base, index, Now(), site, order_)) {
        ReportRace(access, *conflict, Text("'", region->name, "'"), base);
    }
}

void Block::ReportRace(const Access& access, const Conflict& conflict, const std::string& memory, int64_t base)
{
    Report("race", access.pipe, access.call,
           DescribeRace(access, conflict, launch.sites.At(conflict.site), conflict.block == index,
                        launch.layout.NameOf(conflict.block), memory, conflict.begin - base));
}

void Block::CountDma(const GlobalView& view, uint64_t address, uint64_t bytes, bool written)
{
    Region* region = launch.memory.Find(view.address);
    (written ? bytesWritten : bytesRead) += bytes;
    const uint64_t offset = address - region->base;
    const uint64_t sectors =
        (offset + bytes - 1) / GlobalMemory::kSectorBytes - offset / GlobalMemory::kSectorBytes + 1;
    const uint64_t fresh = GlobalMemory::FirstTouch(*region, offset, bytes);
    if (dma_.rows == 0) {
        dma_.region = launch.memory.IndexOf(*region);
        dma_.offset = offset;
        dma_.rowBytes = static_cast<uint32_t>(bytes);
    } else if (dma_.rows == 1) {
        dma_.pitch = offset - dma_.offset;
    }
    ++dma_.rows;
    dma_.charged.firstTouchBytes += fresh;
    dma_.charged.l2Bytes +=
        (sectors * GlobalMemory::kSectorBytes - fresh) / GlobalMemory::kSectorBytes * GlobalMemory::kSectorBytes;
}

void Block::EndDma(Pipe onPipe, const Call& call, double leastCycles)
{
    ++dmaCount;
    dma_.pipe = onPipe;
    dma_.leastCycles = leastCycles;
    dma_.isAtomic = onPipe != Pipe::kMte2 && atomic != AtomicOp::kNone;
    dma_.phase = static_cast<uint32_t>(timeline.Phases().size());
    timeline.RunDma(dma_, call);
    if (launch.dmaCount.fetch_add(1, std::memory_order_relaxed) < LaunchState::kMostRecords) {
        traffic.push_back(dma_);
    }
    dma_ = {};
}

void Block::SetEvent(AscendC::HardEvent event, int64_t id, const Call& call)
{
    RequirePipe(EndsOf(event).from, call);
    RequirePipe(EndsOf(event).to, call);
    EventState& state = Event(event);
    const auto slot = static_cast<size_t>(id);
    if (state.set[slot]) {
        Fail("flag_set_twice", Pipe::kScalar, call,
             Text("flag ", Name(event), " id ", id, " is still set since ", Where(state.setAt[slot]),
                  "; wait for it before setting it again, or take another id"));
    }
    state.set[slot] = true;
    state.setAt[slot] = call.at;
    state.clock[slot] = order_.After(EndsOf(event).from, Now());
    state.time[slot] = timeline.FlagTime(EndsOf(event).from);
}

void Block::WaitEvent(AscendC::HardEvent event, int64_t id, const Call& call)
{
    EventState& state = Event(event);
    const auto slot = static_cast<size_t>(id);
    if (!state.set[slot]) {
        Fail("flag_not_set", Pipe::kScalar, call,
             Text("nobody has set flag ", Name(event), " id ", id, ": the core would hang; pair it with SetFlag<",
                  Name(event), ">(", id, ") before"));
    }
    state.set[slot] = false;
    PassEvent(event, static_cast<int32_t>(id));
}

void Block::PassEvent(AscendC::HardEvent event, int32_t id)
{
    const EventState& state = Event(event);
    order_.Wait(EndsOf(event).to, state.clock[static_cast<size_t>(id)]);
    timeline.Wait(EndsOf(event).to, state.time[static_cast<size_t>(id)]);
}

void Block::PassBarrier(Pipe onPipe)
{
    order_.Barrier(onPipe, Now());
    timeline.PassBarrier(onPipe);
}

CoreClocks Block::Publish(Pipe onPipe) const
{
    Clock own;
    if (onPipe == Pipe::kAll) {
        own.finished.fill(Now());
    } else {
        own = order_.After(onPipe, Now());
    }
    return order_.Publish(index, launch.layout.Count(), own);
}

Signal Block::SignalAfter(Pipe onPipe, double delay, const Location& at) const
{
    return {launch.options.strict ? Publish(onPipe) : CoreClocks{}, timeline.Told(onPipe), delay, at};
}

void Block::Hear(const Signal& signal, bool byAll)
{
    if (!signal.published.empty()) {
        order_.Hear(signal.published, index, byAll);
        order_.Wait(Pipe::kScalar, signal.published[index]);
    }
    timeline.Hear(signal.time, signal.delay);
}

void Block::OrderInside(Pipe from, Pipe to)
{
    order_.Wait(to, order_.After(from, Now()));
    timeline.Wait(to, timeline.FlagTime(from));
}

int32_t Block::FreeEvent(AscendC::HardEvent event, const Call& call)
{
    const EventState& state = Event(event);
    for (int32_t id = 0; id < EventState::kIds; ++id) {
        if (!state.reserved[static_cast<size_t>(id)]) {
            return id;
        }
    }
    Fail("event_ids", Pipe::kScalar, call,
         Text("all ", EventState::kIds, " event ids of ", Name(event),
              " are taken; every buffer of a queue takes one in each direction, AllocEventID one more"));
}

}  // namespace opforge::twin::kernel
