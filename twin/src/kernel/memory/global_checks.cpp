// The checks of accesses to global memory, and of the scalar unit's cache.
#include "opforge_twin/arithmetic.h"
#include "kernel/exec/levels.h"
#include "kernel/memory/access_checks.h"

namespace opforge::twin::kernel {

namespace {

constexpr uint64_t kNullPage = uint64_t{1} << 32;

}  // namespace

uint8_t* AccessChecks::Resolve(const GlobalView& view, uint64_t address, uint64_t bytes, Pipe pipe, AccessKind kind,
                               const char* operand, const Call& call)
{
    if (view.address < kNullPage) {
        diagnostics_.Fail("null_argument", pipe, call,
                          Text(operand,
                               " is a GlobalTensor over a null pointer: an absent optional argument, or "
                               "SetGlobalBuffer was not called"));
    }
    Region* region = launch_.memory.Find(view.address);
    if (region == nullptr) {
        diagnostics_.Fail(
            "gm_out_of_range", pipe, call,
            Text(operand, " points to no argument of the kernel; pass an argument of the kernel to SetGlobalBuffer"));
    }
    const uint32_t index = launch_.memory.IndexOf(*region);
    std::vector<uint8_t>& accessed = kind == AccessKind::kRead ? accessed_.read : accessed_.written;
    if (index < accessed.size()) {
        accessed[index] = 1;
    }
    const auto offset = static_cast<int64_t>(address - region->base);
    const auto end = offset + static_cast<int64_t>(bytes);
    const char* verb = kind == AccessKind::kRead ? " reads" : " writes";
    if (offset < 0 || end > static_cast<int64_t>(region->bytes)) {
        diagnostics_.Fail("gm_out_of_range", pipe, call,
                          Text(operand, verb, " bytes [", offset, ", ", end, ") of '", region->name, "', which has ",
                               region->bytes, " bytes; shorten the last tile or row; DataCopyPad accepts any length"));
    }
    if (view.end != 0 && (address < view.begin || address + bytes > view.end) &&
        kDeclaredSize.Has(launch_.options.level)) {
        const auto start = static_cast<int64_t>(address - view.begin);
        diagnostics_.Fail(
            "gm_out_of_range", pipe, call,
            Text(operand, verb, " bytes [", start, ", ", start + static_cast<int64_t>(bytes),
                 ") of a GlobalTensor that SetGlobalBuffer gave ", view.end - view.begin, " bytes of '", region->name,
                 "'; shorten the last tile or row, or give SetGlobalBuffer the whole size"));
    }
    const bool isSystem =
        index == launch_.workspaceRegion && offset < static_cast<int64_t>(launch_.soc.SystemWorkspaceBytes());
    const bool hasSystemPart = launch_.layout.Type().cubes != 0 || kSystemWorkspace.Has(launch_.options.level);
    if (isSystem && hasSystemPart && !execution_.IsInLibrary()) {
        diagnostics_.Fail(
            "system_workspace", pipe, call,
            Text(operand, verb, " bytes [", offset, ", ", end, ") of the workspace, whose first ",
                 launch_.soc.SystemWorkspaceBytes(), " bytes belong to the system; use GetUserWorkspace(workspace)"));
    }
    if (address % static_cast<uint64_t>(view.size) != 0) {
        diagnostics_.Fail(
            "gm_misaligned", pipe, call,
            Text(operand, " starts at byte ", offset, " of '", region->name, "', which is not a multiple of its ",
                 view.size, "-byte elements; copy it as a type of fewer bytes"));
    }
    if (kind != AccessKind::kRead && !region->writable && kInputWritten.Has(launch_.options.level)) {
        diagnostics_.Fail("input_written", pipe, call,
                          Text(operand, " writes to '", region->name,
                               "', which is an input; write to an output or to the workspace"));
    }
    return region->host + offset;
}

namespace {

/// Whether a range without a value is a finding. Transfers of programs include padding that the program did not write.
bool IsUndefined(const Region& region, const WrittenBytes::Run& run, uint64_t begin, uint64_t end)
{
    return run.begin != run.end && (!region.isProgramMemory || (run.begin == begin && run.end == end));
}

}  // namespace

/// DMA may read undefined bytes if the kernel does not use them (CopyUndefined).
void AccessChecks::CheckGlobalContents(const Access& access)
{
    Region* region = launch_.memory.Find(static_cast<uint64_t>(access.begin));
    if (region->written == nullptr || (access.kind == AccessKind::kRead && access.pipe != Pipe::kScalar)) {
        return;
    }
    const uint64_t begin = static_cast<uint64_t>(access.begin) - region->base;
    const uint64_t end = begin + static_cast<uint64_t>(access.bytes);
    if (access.kind != AccessKind::kWrite) {
        const WrittenBytes::Run run = region->written->NextUnwritten(begin, end);
        if (IsUndefined(*region, run, begin, end)) {
            diagnostics_.Report(
                "uninitialised_read", access.pipe, access.call,
                Text(
                    access.operand, access.kind == AccessKind::kRead ? " reads" : " adds to", " bytes [", run.begin,
                    ", ", run.end, ") of '", region->name,
                    "', which no instruction has written: global memory is not cleared; use InitOutput and SyncAll, or "
                    "write it first"));
        }
    }
    region->written->Mark(begin, end);
}

/// DMA bypasses the cache of the scalar unit: it does not see values of SetValue that are still in the cache, and the
/// write-back of such a line overwrites the bytes of the DMA.
void AccessChecks::CheckUnflushed(const Access& access)
{
    const auto begin = static_cast<uint64_t>(access.begin);
    const bool isRead = access.kind == AccessKind::kRead;
    const ScalarCache::DirtyLine* line = cache_.FindDirty(begin, begin + static_cast<uint64_t>(access.bytes), !isRead);
    if (line == nullptr) {
        return;
    }
    const Region* region = launch_.memory.Find(begin);
    const uint64_t offset = begin - region->base;
    diagnostics_.Report(
        "cache_not_flushed", access.pipe, access.call,
        Text(access.operand, isRead ? " reads" : " writes", " bytes [", offset, ", ",
             offset + static_cast<uint64_t>(access.bytes), ") of '", region->name, "', of which SetValue at ",
             Where(line->at),
             isRead ? " has left some in the scalar unit's cache"
                    : " has changed a cache line of 64 "
                      "bytes that will be written back over them",
             "; call DataCacheCleanAndInvalid after the SetValue, and make this pipe wait for the scalar unit"));
}

void AccessChecks::CopyUndefined(uint64_t address, int64_t bytes, int64_t to, const Call& call)
{
    const Region* region = launch_.memory.Find(address);
    if (region->written == nullptr) {
        return;
    }
    const uint64_t begin = address - region->base;
    const uint64_t end = begin + static_cast<uint64_t>(bytes);
    for (uint64_t at = begin; at < end;) {
        const WrittenBytes::Run run = region->written->NextUnwritten(at, end);
        if (!IsUndefined(*region, run, begin, end)) {
            return;
        }
        local_.Poison(to + static_cast<int64_t>(run.begin - begin), static_cast<int64_t>(run.end - run.begin),
                      {call, "copied it from bytes that no instruction has written, of", region});
        at = run.end;
    }
}

void AccessChecks::LoadCached(const GlobalView& view, uint64_t address, const Call& call)
{
    const Region* region = launch_.memory.Find(view.address);
    if (region->order == nullptr) {
        return;
    }
    const uint64_t begin = address - region->base;
    const uint64_t end = begin + static_cast<uint64_t>(view.size);
    if (!kColdCache.Has(launch_.options.level)) {
        cache_.Fetch(address, region->base, *region->order);
    }
    for (const GlobalOrder::Writer& write : region->order->WritersOf(begin, end)) {
        const auto block = static_cast<int64_t>(write.begin) / kBlockBytes;
        const bool isOwnStore = write.core == core_ && write.pipe == Pipe::kScalar;
        const bool overlaps =
            (write.bytes & BytesIn(block, static_cast<int64_t>(begin), static_cast<int64_t>(end))) != 0;
        if (overlaps && !isOwnStore && !cache_.Sees(write, region->base + write.begin)) {
            const Site site = launch_.sites.At(write.site);
            diagnostics_.Report(
                "stale_cache", Pipe::kScalar, call,
                Text("reads bytes [", begin, ", ", end, ") of '", region->name, "', which ", site.name, " at ",
                     Where(site.at), " wrote on pipe ", Name(write.pipe),
                     write.core == core_ ? std::string() : Text(" of ", launch_.layout.NameOf(write.core)),
                     ": the scalar unit may still have the old line in its cache; call DataCacheCleanAndInvalid "
                     "after that write and before this read"));
        }
    }
}

void AccessChecks::StoreCached(const GlobalView& view, uint64_t address, const Call& call)
{
    cache_.MarkDirty(address, static_cast<uint64_t>(view.size), call.at);
    const Region* region = launch_.memory.Find(view.address);
    if (region->order == nullptr) {
        return;
    }
    if (!kColdCache.Has(launch_.options.level)) {
        cache_.Fetch(address, region->base, *region->order);
    }
    const uint64_t line = RoundDown(address, ScalarCache::kLineBytes);
    const uint64_t first = line > region->base ? line - region->base : 0;
    for (const GlobalOrder::Writer& write :
         region->order->WritersOf(first, line + ScalarCache::kLineBytes - region->base)) {
        if (write.pipe == Pipe::kScalar && write.core != core_ &&
            write.time > order_.Acquired(write.core, Pipe::kScalar)) {
            const Site site = launch_.sites.At(write.site);
            diagnostics_.Report("shared_cache_line", Pipe::kScalar, call,
                                Text("writes byte ", address - region->base, " of '", region->name,
                                     "' into a cache line of 64 bytes that ", launch_.layout.NameOf(write.core),
                                     " writes too, with ", site.name, " at ", Where(site.at),
                                     ": the last write-back overwrites the other one; use separate lines for each "
                                     "core, or write with DataCopyPad"));
        }
    }
}

void AccessChecks::DropCache(const GlobalView& view, bool isWhole)
{
    if (isWhole) {
        cache_.DropAll(core_, execution_.Now(), order_);
    } else if (const Region* region = launch_.memory.Find(view.address); region != nullptr) {
        cache_.Drop(view.address, region->base, region->order.get());
    }
}

void AccessChecks::ReportLeft()
{
    ReportUndefinedStores();
    // Ascend 910 has no flush function; that stores reach memory at the end of a kernel is an assumption.
    if (cache_.DirtyLines() != 0 && !launch_.soc.isCoupled) {
        diagnostics_.Report(
            "cache_not_flushed", Pipe::kScalar, {kKernelEnd, cache_.DirtyAt()},
            Text(cache_.DirtyLines(),
                 " cache lines of 64 bytes written by SetValue were not flushed; call "
                 "DataCacheCleanAndInvalid for each, at or before its first changed element (the line is flushed "
                 "from there to its end), or write with DataCopyPad"));
    }
}

}  // namespace opforge::twin::kernel
