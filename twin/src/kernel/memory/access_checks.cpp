#include "kernel/memory/access_checks.h"

#include <algorithm>

#include "opforge_twin/arithmetic.h"
#include "kernel/exec/levels.h"
#include "kernel/order/race.h"

namespace opforge::twin::kernel {

namespace {

const char* NameOf(BufferState state)
{
    switch (state) {
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

}  // namespace

AccessChecks::AccessChecks(LaunchState& launch, uint32_t core, const Execution& execution, Diagnostics& diagnostics,
                           LocalMemory& local, CoreOrder& order)
    : launch_(launch),
      core_(core),
      execution_(execution),
      diagnostics_(diagnostics),
      local_(local),
      order_(order),
      localOrder_(launch.layout.At(core).kind, launch.options.strict,
                  launch.options.autoSync && !kCompilerOrder.Has(launch.options.level)),
      sites_(launch.sites),
      accessed_{std::vector<uint8_t>(launch.request.arguments.size()),
                std::vector<uint8_t>(launch.request.arguments.size())}
{
}

/// A queue orders its producer pipe with its consumer pipe and nothing else.
void AccessChecks::CheckState(const Buffer& buffer, Pipe pipe, AccessKind kind, const char* operand, const Call& call)
{
    if (buffer.state == BufferState::kScratch) {
        return;
    }
    if (buffer.state == BufferState::kFree) {
        diagnostics_.Fail("use_after_free", pipe, call,
                          Text(operand, " was freed by FreeTensor at ", Where(buffer.changedAt),
                               "; use a tensor between AllocTensor (or DeQue) and FreeTensor only"));
    }
    if (buffer.state == BufferState::kQueued) {
        diagnostics_.Fail("queue_order", pipe, call,
                          Text(operand, " was put into its queue by EnQue at ", Where(buffer.changedAt),
                               "; use the tensor that DeQue returns"));
    }
    if (execution_.IsInLibrary()) {
        return;
    }
    const Queue& queue = local_.queues[buffer.queue - local_.firstQueue];
    const bool filling = buffer.state == BufferState::kAllocated;
    const Pipe owner = filling ? queue.producer : buffer.consumer;
    const bool isScalar = pipe == Pipe::kScalar;  // the compiler orders the element accesses of tensors
    const bool onlyReads = kind == AccessKind::kRead;
    // Without DataCopyPad, the scalar unit moves the ends of rows; the order of accesses detects races.
    if (pipe == owner || (isScalar && launch_.soc.isCoupled) || (isScalar && (onlyReads || owner == Pipe::kVector)) ||
        (!filling && onlyReads && pipe == Pipe::kVector) || !kQueuePosition.Has(launch_.options.level)) {
        return;
    }
    diagnostics_.Report(
        "position", pipe, call,
        Text(operand, " is ", NameOf(buffer.state), ", where only pipe ", Name(owner), " may ",
             onlyReads ? "read" : "write", " it: the queue orders ", Name(filling ? queue.producer : buffer.producer),
             " before ", Name(filling ? queue.consumer : buffer.consumer), " and no other pipe; ",
             filling ? "EnQue and DeQue it first, or use a queue of the right position"
                     : "use a queue of the right position (TQueBind copies through)",
             ". Level device accepts a kernel that orders these pipes with its own flags"));
}

void AccessChecks::CheckUnit(const LocalUnit& unit, Pipe pipe, AccessKind kind, const char* operand, const Call& call)
{
    diagnostics_.RequirePipe(pipe, call);
    const bool reads = kind == AccessKind::kRead;
    if (!(reads ? unit.readers : unit.writers).Has(pipe)) {
        diagnostics_.Fail("position", pipe, call,
                          Text(operand, " is in ", unit.name, ", which pipe ", Name(pipe), " does not ",
                               reads ? "read" : "write", ": it is written by ", Names(unit.writers), " and read by ",
                               Names(unit.readers), "; use a queue of another position"));
    }
}

Buffer& AccessChecks::LiveBuffer(const LocalView& view, Pipe pipe, const char* operand, const Call& call)
{
    if (view.buffer == LocalView::kNoBuffer) {
        diagnostics_.Fail(
            "no_buffer", pipe, call,
            Text(operand, " is a LocalTensor without memory; get it from AllocTensor, DeQue or TBuf::Get"));
    }
    if (view.generation < local_.oldestGeneration) {
        diagnostics_.Fail("use_after_free", pipe, call,
                          Text(operand, " comes from a TPipe that has ended (Destroy, Reset or the end of its scope)",
                               !local_.endedAt ? "" : " at ", Where(local_.endedAt),
                               "; get a tensor from a buffer of the current TPipe"));
    }
    Buffer& buffer = local_.buffers[view.buffer];
    if (buffer.generation != view.generation) {
        diagnostics_.Fail(
            "use_after_free", pipe, call,
            Text(operand, " was freed by FreeTensor, and its buffer was allocated again at ", Where(buffer.changedAt),
                 "; use a tensor between AllocTensor (or DeQue) and FreeTensor only"));
    }
    return buffer;
}

const LocalUnit& AccessChecks::UnitOf(const LocalView& view, Pipe pipe, const char* operand, const Call& call)
{
    return local_.UnitOf(LiveBuffer(view, pipe, operand, call).begin);
}

void AccessChecks::Use(const LocalView& view, int64_t bytes, Pipe pipe, AccessKind kind, int64_t alignment,
                       const char* operand, const Call& call)
{
    const Buffer& buffer = LiveBuffer(view, pipe, operand, call);
    const LocalUnit& unit = local_.UnitOf(buffer.begin);
    CheckUnit(unit, pipe, kind, operand, call);
    CheckState(buffer, pipe, kind, operand, call);
    // The device does not use the size of a tensor at an address that the kernel chose.
    const bool isFixed = buffer.isFixed && !kFixedSize.Has(launch_.options.level);
    const int64_t begin = isFixed ? buffer.begin : view.begin;
    const int64_t end = isFixed ? buffer.end : view.end;
    if (view.address < begin || view.address + bytes > end) {
        diagnostics_.Fail(
            unit.rangeKind, pipe, call,
            Text(operand, kind == AccessKind::kRead ? " reads" : " writes", " bytes [", view.address - view.begin, ", ",
                 view.address - view.begin + bytes, ") of a tensor that has ", view.end - view.begin,
                 " bytes; shorten the instruction, or give InitBuffer more bytes"));
    }
    if ((view.address - unit.begin) % alignment != 0) {
        diagnostics_.Fail(unit.alignmentKind, pipe, call,
                          Text(operand, " starts at byte ", view.address - view.begin, " of its tensor (", unit.name,
                               " address ", view.address - unit.begin, "), which is not a multiple of ", alignment,
                               "; round the offset or the row pitch up to it"));
    }
}

void AccessChecks::Touch(const Access& access)
{
    if (access.bytes == 0) {
        return;
    }
    if (access.memory == Memory::kOnChip) {
        TouchContents(access);
    }
    if (access.memory == Memory::kGlobal && access.pipe != Pipe::kScalar && cache_.DirtyLines() != 0) {
        CheckUnflushed(access);
    }
    if (access.memory == Memory::kGlobal && access.kind != AccessKind::kRead) {
        reads_.Clear();
    }
    if (launch_.options.strict && access.memory == Memory::kGlobal) {
        CheckGlobalContents(access);
    }
    TouchOrder(access);
}

int64_t AccessChecks::BufferAt(int64_t address) const
{
    const auto holds = [&](const Buffer& buffer) { return address >= buffer.begin && address < buffer.end; };
    const auto found = std::find_if(local_.buffers.begin(), local_.buffers.end(), holds);
    return found == local_.buffers.end() ? 0 : found->begin;
}

std::string AccessChecks::DescribeUndefined(int64_t address, int64_t readBegin)
{
    const Origin* origin = local_.OriginOf(address);
    const Location madeAt = origin == nullptr ? Location{} : origin->call.at;
    std::string text = "no instruction has written it";
    if (origin != nullptr) {
        text = Text(origin->call.name, !madeAt ? "" : " at ", Where(madeAt), " ", origin->effect,
                    origin->region == nullptr ? std::string() : Text(" '", origin->region->name, "'"));
    }
    if (address > readBegin && local_.FirstUnwritten(address - 1, 1) < 0) {
        if (const auto site = localOrder_.LastWriter(address - 1, execution_.Now())) {
            const Site before = launch_.sites.At(*site);
            const bool isSame = Where(before.at) == Where(madeAt);
            text += isSame ? std::string()
                           : Text("; ", before.name, " at ", Where(before.at), " wrote the bytes before it");
        }
    }
    return text;
}

void AccessChecks::TouchContents(const Access& access)
{
    if (access.kind == AccessKind::kWrite) {
        local_.MarkWritten(access.begin, access.bytes);
        return;
    }
    int64_t unwritten = local_.FirstUnwritten(access.begin, access.bytes);
    // Vector instructions over whole blocks also compute with these bytes; a store of them is still a finding.
    const bool mayRead = access.pipe == Pipe::kVector && !kRowTail.Has(launch_.options.level);
    for (const int64_t end = access.begin + access.bytes; mayRead && unwritten >= 0;) {
        const Origin* origin = local_.OriginOf(unwritten);
        if (origin == nullptr || !origin->isPadding) {
            break;
        }
        unwritten = local_.FirstUnwritten(unwritten + 1, end - unwritten - 1);
    }
    if (unwritten >= 0) {
        ReportUndefined(access, unwritten);
    }
}

std::string AccessChecks::UndefinedText(const Access& access, int64_t unwritten)
{
    return Text(access.operand, " reads ", access.bytes, " bytes, which begin at byte ",
                access.begin - BufferAt(access.begin), " of its buffer in the ", local_.UnitOf(access.begin).name,
                "; byte ", unwritten - access.begin,
                " of them is undefined: ", DescribeUndefined(unwritten, access.begin),
                "; write it, or exclude it by count or mask");
}

void AccessChecks::ReportUndefined(const Access& access, int64_t unwritten)
{
    diagnostics_.Report("uninitialised_read", access.pipe, access.call, UndefinedText(access, unwritten));
    local_.MarkWritten(access.begin, access.bytes);
}

uint8_t AccessChecks::TouchMoved(const Access& access)
{
    if (kUndefinedLanes.Has(launch_.options.level)) {
        Touch(access);
    } else {
        TouchOrder(access);
    }
    return local_.StateOf(access.begin, access.bytes);
}

void AccessChecks::TouchStored(const Access& access, uint64_t address)
{
    Region* region = launch_.memory.Find(address);
    if (kUndefinedLanes.Has(launch_.options.level) || region->written == nullptr) {
        return Touch(access);
    }
    TouchOrder(access);
    int64_t first = local_.FirstUnwritten(access.begin, access.bytes);
    if (first < 0) {
        return;
    }
    std::vector<WrittenBytes::Run>* runs = nullptr;
    if (launch_.memory.IndexOf(*region) != launch_.workspaceRegion && !region->isProgramMemory) {
        const auto isSame = [&](const UndefinedStore& store) {
            return store.region == region && store.call.at == access.call.at;
        };
        auto known = std::find_if(undefinedStores_.begin(), undefinedStores_.end(), isSame);
        if (known == undefinedStores_.end()) {
            undefinedStores_.push_back({region, access.pipe, access.call, UndefinedText(access, first), {}});
            known = undefinedStores_.end() - 1;
        }
        runs = &known->runs;
    }
    const uint64_t base = address - region->base - static_cast<uint64_t>(access.begin);
    for (const int64_t end = access.begin + access.bytes; first >= 0 && first < end;) {
        int64_t last = first + 1;
        while (last < end && local_.FirstUnwritten(last, 1) >= 0) {
            ++last;
        }
        const WrittenBytes::Run run{base + static_cast<uint64_t>(first), base + static_cast<uint64_t>(last)};
        region->written->Unmark(run.begin, run.end);
        if (runs != nullptr && !runs->empty() && runs->back().end == run.begin) {
            runs->back().end = run.end;
        } else if (runs != nullptr) {
            runs->push_back(run);
        }
        first = last < end ? local_.FirstUnwritten(last, end - last) : -1;
    }
}

void AccessChecks::ReportUndefinedStores()
{
    for (const UndefinedStore& store : undefinedStores_) {
        bool isLeft = false;
        for (const WrittenBytes::Run& run : store.runs) {
            const WrittenBytes::Run left = store.region->written->NextUnwritten(run.begin, run.end);
            isLeft = isLeft || left.begin != left.end;
            store.region->written->Mark(run.begin, run.end);  // one finding for a byte
        }
        if (isLeft) {
            diagnostics_.Report("uninitialised_read", store.pipe, store.call, store.text);
        }
    }
}

void AccessChecks::CheckWatches(const Access& access)
{
    const LocalUnit& unit = local_.UnitOf(access.begin);
    const int64_t begin = access.begin - unit.begin;
    for (const MemoryWatch& watch : watches_) {
        const uint32_t kinds = access.pipe == Pipe::kScalar   ? watch.scalar
                               : access.pipe == Pipe::kVector ? watch.vector
                                                              : watch.mte;
        const bool isWatched = (kinds & (access.kind == AccessKind::kRead ? 1U : 2U)) != 0;
        if (watch.isOn && isWatched && unit.id == LocalUnit::Id::kUnifiedBuffer &&
            begin < (watch.last + 1) * kBlockBytes && begin + access.bytes > (watch.first + 1) * kBlockBytes) {
            diagnostics_.Fail("watched_memory", access.pipe, access.call,
                              Text(access.operand, " is in blocks (", watch.first, ", ", watch.last,
                                   "] of the unified buffer, where CheckLocalMemoryIA makes this access an error; use "
                                   "another buffer, or end the check with isEnable = false"));
        }
    }
}

void AccessChecks::TouchOrder(const Access& access)
{
    if (isWatching_ && access.memory == Memory::kOnChip && access.bytes != 0) {
        CheckWatches(access);
    }
    if (!launch_.options.strict || access.bytes == 0) {
        return;
    }
    const uint32_t site = sites_.NumberOf({access.call.name, access.call.at, access.operand});
    if (access.memory == Memory::kOnChip) {
        if (auto conflict = localOrder_.Note(access, execution_.Now(), site, order_)) {
            const LocalUnit& unit = local_.UnitOf(access.begin);
            conflict->block = core_;
            ReportRace(access, *conflict, Text("the ", unit.name), unit.begin);
        }
        return;
    }
    const Region* region = launch_.memory.Find(static_cast<uint64_t>(access.begin));
    if (region->order == nullptr) {
        return;  // the region is read-only
    }
    const auto base = static_cast<int64_t>(region->base);
    if (const auto conflict = region->order->Note(access, access.begin - base, core_, execution_.Now(), site, order_)) {
        ReportRace(access, *conflict, Text("'", region->name, "'"), base);
    }
}

void AccessChecks::ReportRace(const Access& access, const Conflict& conflict, const std::string& memory, int64_t base)
{
    diagnostics_.Report("race", access.pipe, access.call,
                        DescribeRace(access, conflict, launch_.sites.At(conflict.site), conflict.block == core_,
                                     launch_.layout.NameOf(conflict.block), memory, conflict.begin - base));
}

}  // namespace opforge::twin::kernel
