#include "host/acl/stream_order.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "host/aclnn/reports.h"
#include "host/program/program.h"
#include "kernel/exec/levels.h"
#include "kernel/exec/source_lines.h"
#include "kernel/exec/text.h"
#include "opforge_twin/options.h"

namespace opforge::twin::host {

namespace {

using kernel::Text;

constexpr size_t kMostRecords = 1024;  ///< of an allocation; then the order of the oldest ones is not checked

thread_local StreamOrder::Handle running;

bool Knows(const StreamOrder::Task& later, const StreamOrder::Task& earlier)
{
    const auto found = later.before.find(earlier.stream);
    return found != later.before.end() && found->second >= earlier.number;
}

/// The first bytes that both have; empty if there are none. The ranges are sorted.
std::optional<ByteRange> Shared(const std::vector<ByteRange>& first, const std::vector<ByteRange>& second)
{
    for (auto a = first.begin(), b = second.begin(); a != first.end() && b != second.end();) {
        const ByteRange both{std::max(a->begin, b->begin), std::min(a->end, b->end)};
        if (both.begin < both.end) {
            return both;
        }
        a->end < b->end ? ++a : ++b;
    }
    return std::nullopt;
}

const char* Verb(const std::string& what, ByteUse use)
{
    return what == StreamOrder::kFree ? "frees"
           : use == ByteUse::kRead    ? "reads"
           : use == ByteUse::kWrite   ? "writes"
                                      : "adds to";
}

}  // namespace

StreamOrder& StreamOrder::Instance()
{
    static auto* order = new StreamOrder();
    return *order;
}

uint64_t StreamOrder::NewStream()
{
    const std::lock_guard<std::mutex> guard(lock_);
    return ++streams_;
}

StreamOrder::Handle StreamOrder::Begin(uint64_t stream, const void* caller)
{
    if (!IsProgram() || !kernel::kStreamOrder.Has(ProcessOptions().level)) {
        return nullptr;
    }
    const std::lock_guard<std::mutex> guard(lock_);
    JoinLocked(stream, known_[kHost]);
    Clock& before = known_[stream];
    if (stream != kHost) {
        before[kHost] = last_[kHost];
    }
    ++unfinished_;
    return std::make_shared<Task>(Task{stream, ++last_[stream], ++serial_, caller, before});
}

void StreamOrder::End(const Handle& task)
{
    if (task != nullptr) {
        const std::lock_guard<std::mutex> guard(lock_);
        --unfinished_;
        RemoveKnown();
    }
}

StreamOrder::Clock StreamOrder::Of(uint64_t stream)
{
    const std::lock_guard<std::mutex> guard(lock_);
    JoinLocked(stream, known_[kHost]);
    Clock clock = known_[stream];
    clock[stream] = last_[stream];
    return clock;
}

void StreamOrder::Join(uint64_t stream, const Clock& clock)
{
    const std::lock_guard<std::mutex> guard(lock_);
    JoinLocked(stream, clock);
    RemoveKnown();
}

void StreamOrder::JoinHost()
{
    if (running != nullptr) {
        Clock clock = running->before;
        clock[running->stream] = running->number;
        Join(kHost, clock);
    }
}

void StreamOrder::JoinLocked(uint64_t stream, const Clock& clock)
{
    Clock& known = known_[stream];
    for (const auto& [other, number] : clock) {
        known[other] = std::max(known[other], number);
    }
}

/// Later tasks are ordered after all tasks that the host knows. Only unfinished tasks may have no order with them.
void StreamOrder::RemoveKnown()
{
    if (unfinished_ != 0) {
        return;
    }
    const Clock& known = known_[kHost];
    for (auto found = records_.begin(); found != records_.end();) {
        std::vector<Record>& records = found->second;
        records.erase(std::remove_if(records.begin(), records.end(),
                                     [&](const Record& record) {
                                         const auto last = known.find(record.task->stream);
                                         return record.task->stream == kHost ||
                                                (last != known.end() && last->second >= record.task->number);
                                     }),
                      records.end());
        found = records.empty() ? records_.erase(found) : std::next(found);
    }
}

std::string StreamOrder::Conflict(const Record& earlier, const Record& later, const DeviceAllocation& allocation)
{
    const bool isSame = earlier.task->stream == later.task->stream;
    const bool mayMeet = earlier.use == later.use && later.use != ByteUse::kWrite;
    if (isSame || mayMeet || Knows(*later.task, *earlier.task) || Knows(*earlier.task, *later.task)) {
        return {};
    }
    const std::optional<ByteRange> both = Shared(earlier.ranges, later.ranges);
    if (!both || !reported_.insert(earlier.what + "\n" + later.what).second) {
        return {};
    }
    const bool isHost = later.task->stream == kHost;
    return Text(later.what, ": ", Verb(later.what, later.use), " bytes [", both->begin, ", ", both->end,
                ") of an allocation of ", allocation.bytes, " bytes, which ", earlier.what, " ",
                Verb(earlier.what, earlier.use),
                isHost ? " in a stream that may not have finished; expected a call that waits for it; call "
                         "aclrtSynchronizeStream before"
                       : " in another stream or on the host; expected an order of both; call aclrtSynchronizeStream, "
                         "or aclrtRecordEvent and aclrtStreamWaitEvent, between them");
}

void StreamOrder::Use(const std::string& what, const DeviceAllocation& allocation, ByteUse use,
                      std::vector<ByteRange> ranges)
{
    if (running == nullptr || ranges.empty()) {
        return;
    }
    const Record record{running, what, use, std::move(ranges)};
    std::vector<Finding> findings;
    {
        const std::lock_guard<std::mutex> guard(lock_);
        std::vector<Record>& records = records_[allocation.begin];
        for (const Record& other : records) {
            const bool isLater = record.task->serial > other.task->serial;
            const Record& later = isLater ? record : other;
            if (const std::string text = Conflict(isLater ? other : record, later, allocation); !text.empty()) {
                const std::string where = later.task->caller == nullptr ? "" : kernel::Where({later.task->caller});
                findings.push_back({"race", -1, "", where, text});
            }
        }
        if (records.size() == kMostRecords) {
            records.erase(records.begin());
        }
        records.push_back(record);
    }
    if (!findings.empty()) {
        LaunchReport report;
        report.opType = what;
        report.findings = std::move(findings);
        KeepReport(report, 0);
    }
}

void StreamOrder::Forget(uintptr_t begin)
{
    const std::lock_guard<std::mutex> guard(lock_);
    records_.erase(begin);
}

StreamOrder::Running::Running(Handle task) : task_(std::move(task)), previous_(std::exchange(running, task_)) {}

StreamOrder::Running::~Running()
{
    running = previous_;
    StreamOrder::Instance().End(task_);
}

}  // namespace opforge::twin::host
