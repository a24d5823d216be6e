#include "kernel/exec/scheduler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <numeric>
#include <random>
#include <system_error>

#include "kernel/exec/interrupt.h"
#include "kernel/exec/levels.h"
#include "kernel/exec/text.h"

namespace opforge::twin::kernel {

namespace {

// A block without instructions for this time, or with this total time, is treated as endless.
constexpr double kQuietSeconds = 20.0;
constexpr double kBlockSeconds = 600.0;
constexpr size_t kMostPhases = 10000;  // each takes 7 KB; a kernel with more phases would only synchronize
constexpr size_t kMostStores = 65536;  // of StoreUncached; each takes up to 2 KB
constexpr std::chrono::milliseconds kWatchInterval{250};

TimeLimit ReadTimeLimit()
{
    const char* const given = std::getenv("OPFORGE_TWIN_TIMEOUT");
    if (given == nullptr || given[0] == '\0') {
        return {kBlockSeconds, false};
    }
    char* end = nullptr;
    const double seconds = std::strtod(given, &end);
    const bool isPlain = given[std::strspn(given, "0123456789.eE+-")] == '\0';  // no hexadecimal number, no infinity
    if (*end != '\0' || !isPlain || !(seconds > 0.0 && std::isfinite(seconds))) {
        RefuseVariable("OPFORGE_TWIN_TIMEOUT", given, "a number of seconds, as in 600");
    }
    return {seconds, true};
}

double CpuSeconds(pthread_t thread)
{
    clockid_t clock = 0;
    timespec time{};
    if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &time) != 0) {
        return 0.0;
    }
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

MinimalBytes MinimalBytesOf(const LaunchRequest& request)
{
    MinimalBytes bytes;
    for (const GmArgument& argument : request.arguments) {
        bytes.read += argument.isInput ? argument.bytes : 0;
        bytes.written += argument.isOutput ? argument.bytes : 0;
    }
    return bytes;
}

/// One finding per kind and location, warnings last: the blocks of a launch make the same error.
std::vector<Finding> Merge(std::vector<Finding> findings)
{
    std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
        return std::pair(a.warning, a.block) < std::pair(b.warning, b.block);
    });
    std::vector<Finding> merged;
    std::map<std::pair<std::string, std::string>, std::pair<size_t, size_t>> seen;  // -> position, repetitions
    for (Finding& finding : findings) {
        const auto [entry, isNew] = seen.try_emplace({finding.kind, finding.where}, merged.size(), 0);
        if (isNew) {
            merged.push_back(std::move(finding));
        } else {
            ++entry->second.second;
        }
    }
    for (const auto& [key, value] : seen) {
        if (value.second > 0) {
            merged[value.first].message +=
                Text(" (and in ", value.second, value.second == 1 ? " more block)" : " more blocks)");
        }
    }
    return merged;
}

}  // namespace

Scheduler::Scheduler(LaunchState& launch, std::function<void(Block&)> body)
    : launch_(launch),
      body_(std::move(body)),
      order_(launch.layout.Count()),
      flags_(launch.layout),
      coreBytes_(launch.layout.PhysicalCount(launch.soc)),
      estimate_(launch.soc, launch.layout)
{
    std::iota(order_.begin(), order_.end(), 0U);
    std::mt19937_64 random(launch.seed);
    for (size_t left = order_.size(); left > 1; --left) {
        std::swap(order_[left - 1], order_[random() % left]);
    }
    const uint32_t wanted = launch.options.threads;
    slots_ = std::max(1U, wanted != 0 ? wanted : std::thread::hardware_concurrency());
}

void Scheduler::Run(LaunchReport& report)
{
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const size_t workers = std::min<size_t>(slots_, order_.size());
        for (size_t count = 0; count < workers && Spawn(); ++count) {
        }
        if (alive_ == 0) {
            Abandon("the system has no thread for the first block; free memory, or raise the limits of the process");
        }
    }
    WatchOver();
    for (std::thread& thread : threads_) {
        thread.join();
    }
    ReportLeftFlags();
    report.gmBytesRead = totals_.bytesRead;
    report.gmBytesWritten = totals_.bytesWritten;
    report.dmaCount = totals_.dmaCount;
    report.macs = totals_.macs;
    report.unalignedFactors = totals_.HasUnalignedFactors();
    const uint64_t moved = totals_.bytesRead + totals_.bytesWritten;
    if (moved != 0) {
        const auto busiest = static_cast<double>(*std::max_element(coreBytes_.begin(), coreBytes_.end()));
        report.trafficBalance = busiest * static_cast<double>(coreBytes_.size()) / static_cast<double>(moved);
    }
    estimate_.Settle(launch_.memory, launch_.dmaCount <= LaunchState::kMostRecords);
    if (!launch_.tracePath.empty() && !trace_.Write(launch_.tracePath, estimate_, launch_.soc.mhz)) {
        report.findings.push_back({"trace", -1, "", "",
                                   Text("cannot write the trace ", launch_.tracePath,
                                        "; expected a new name or a regular file, in a folder that can be written to; "
                                        "set OPFORGE_TWIN_TRACE to another file")});
    }
    estimate_.Write(MinimalBytesOf(launch_.request), totals_.cubeCycles, report);
    if (launch_.hasLines) {
        report.lineTimes = estimate_.TimesByLine(launch_.sites);
    }
    std::vector<Finding> merged = Merge(std::move(findings_));
    report.findings.insert(report.findings.end(), merged.begin(), merged.end());
    report.isComplete = !someoneStopped_;
    if (!someoneStopped_ && launch_.declared == nullptr) {
        const std::vector<Finding> unused = arguments_.Check(launch_);
        report.findings.insert(report.findings.end(), unused.begin(), unused.end());
    }
}

bool Scheduler::Spawn()
{
    try {
        threads_.emplace_back([this] { Work(); });
    } catch (const std::system_error&) {
        return false;  // running blocks continue with the remaining blocks
    }
    ++running_;
    ++alive_;
    return true;
}

void Scheduler::Abandon(const std::string& problem)
{
    findings_.push_back({kNoResources, -1, "", "", Text(launch_.request.opType, ": ", problem)});
    next_ = order_.size();
    someoneStopped_ = true;
}

void Scheduler::Work()
{
    const SignalStack signalStack;
    std::unique_lock<std::mutex> lock(mutex_);
    while (next_ < order_.size()) {
        const uint32_t index = order_[next_++];
        lock.unlock();
        RunOne(index);
        lock.lock();
        if (launch_.declared != nullptr) {
            next_ = order_.size();
        }
    }
    --running_;
    --alive_;
    ReleaseIfStuck();
    changed_.notify_all();
    finished_.notify_all();
}

void Scheduler::RunOne(uint32_t index)
{
    std::unique_ptr<Block> block;
    try {
        block = std::make_unique<Block>(launch_, index);
    } catch (const std::exception& error) {
        const std::lock_guard<std::mutex> lock(mutex_);
        Abandon(Text("no memory for the cores of the twin (", error.what(),
                     "); free some, or raise the limits of the "
                     "process (ulimit -v)"));
        return;
    }
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        watched_.push_back({block.get(), pthread_self(), 0, CpuSeconds(pthread_self())});
    }
    body_(*block);
    const std::lock_guard<std::mutex> lock(mutex_);
    watched_.erase(
        std::find_if(watched_.begin(), watched_.end(), [&](const Watched& w) { return w.block == block.get(); }));
    Collect(*block);
    changed_.notify_all();
}

void Scheduler::Collect(Block& block)
{
    endedAfter_[block.index] = block.ordering.Syncs();
    someoneStopped_ = someoneStopped_ || block.execution.IsStopped();
    if (block.execution.IsInterrupted()) {
        isEndless_ = true;
        next_ = order_.size();
    }
    block.timeline.EndPhase();
    trace_.Add(estimate_.CoreOf(block.index), block.timeline.Spans(), estimate_.Spent(block.index));
    estimate_.Add(block.index, block.timeline.Phases(), block.accounting.Traffic());
    const std::vector<Finding>& findings = block.diagnostics.Findings();
    findings_.insert(findings_.end(), findings.begin(), findings.end());
    const Totals& sums = block.accounting.Sums();
    totals_ += sums;
    arguments_.Add(block.checks.Accessed());
    coreBytes_[estimate_.CoreOf(block.index)] += sums.bytesRead + sums.bytesWritten;
}

void Scheduler::ReleaseIfStuck()
{
    const bool idle = !stuck_ && running_ == 0 && next_ == order_.size() && !waiting_.empty();
    if (idle && std::none_of(waiting_.begin(), waiting_.end(), [](const Ready* ready) { return (*ready)(); })) {
        stuck_ = true;
        isAftermath_ = someoneStopped_;
    }
}

bool Scheduler::WaitUntil(std::unique_lock<std::mutex>& lock, const Ready& ready)
{
    changed_.notify_all();
    if (ready()) {
        return true;
    }
    waiting_.push_back(&ready);
    --running_;
    if (next_ < order_.size() && running_ < slots_ && !Spawn() && running_ == 0) {
        Abandon("the system has no thread for the blocks that the others wait for; launch fewer, or raise the limits");
    }
    ReleaseIfStuck();
    changed_.notify_all();
    changed_.wait(lock, [&] { return stuck_ || (running_ < slots_ && ready()); });
    ++running_;
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), &ready));
    return ready();
}

void Scheduler::FailDeadlock(Block& block, const Call& call, const std::string& message, bool silent,
                             const char* kind) const
{
    if (silent || overflows_ > 0) {
        block.diagnostics.Stop();
    }
    block.Fail(kind, Pipe::kScalar, call, message);
}

std::string Scheduler::EndedBefore(SyncScope scope, uint32_t barriers) const
{
    std::string names;
    size_t count = 0;
    for (const auto& [core, ended] : endedAfter_) {
        const bool isExpected = scope == SyncScope::kAll || launch_.layout.At(core).kind != CoreKind::kCube;
        if (isExpected && ended[static_cast<size_t>(scope)] < barriers && ++count <= 4) {
            const CorePosition position = launch_.layout.At(core);
            names += Text(names.empty() ? "" : ", ", launch_.layout.IsMixed() ? Text(Name(position.kind), " ") : "",
                          position.blockIndex, " (after ", ended[static_cast<size_t>(scope)], ")");
        }
    }
    return names.empty() ? "no block has ended" : Text("ended without it: block ", names, count > 4 ? ", ..." : "");
}

void Scheduler::BeginPhase(Block& block, const Call& call)
{
    block.timeline.EndPhase();
    if (block.timeline.Phases().size() > kMostPhases) {
        block.Fail("endless_loop", Pipe::kScalar, call,
                   Text("the cores have waited for each other ", kMostPhases,
                        " times before; remove an endless loop, or use fewer barriers"));
    }
}

void Scheduler::Barrier(Block& block, bool isAivOnly, const Call& call)
{
    block.ordering.PassBarrier(Pipe::kAll);
    const Signal own = block.ordering.Release(Pipe::kAll, SyncAllDelay(), call.at);
    if (EndsPhase(isAivOnly)) {
        BeginPhase(block, call);
    }
    const SyncScope scope = isAivOnly ? SyncScope::kVectors : SyncScope::kAll;
    const size_t expected = isAivOnly ? launch_.layout.CoresOf(CoreKind::kVector).size() : order_.size();
    std::unique_lock<std::mutex> lock(mutex_);
    const uint32_t mine = block.ordering.CountSync(scope);
    std::vector<BarrierState>& barriers = barriers_[static_cast<size_t>(scope)];
    barriers.resize(std::max<size_t>(barriers.size(), mine + 1));
    ++barriers[mine].blocks;
    Join(barriers[mine].signal, own);
    if (!WaitUntil(lock, [&] { return barriers[mine].blocks == expected; })) {
        FailDeadlock(block, call,
                     Text("SyncAll number ", mine + 1, " has seen ", barriers[mine].blocks, " of ", expected,
                          " blocks, and the other blocks do not call it; ", EndedBefore(scope, mine + 1),
                          ". Call it equally often in every block, also in idle blocks"),
                     isAftermath_);
    }
    block.ordering.Acquire(barriers[mine].signal, EndsPhase(isAivOnly));
}

void Scheduler::SetShared(Block& block, int64_t mode, Pipe pipe, int64_t flag, const Call& call)
{
    const Marked delay = mode == 0 ? SyncAllDelay() : CrossCoreFlagDelay();
    const Signal own = block.ordering.Release(pipe, delay, call.at);
    std::unique_lock<std::mutex> lock(mutex_);
    for (const uint32_t listener : flags_.Set(block.index, mode, flag, own)) {
        ++overflows_;
        const bool isFound = kFlagAhead.Has(launch_.options.level) || listener == block.index;
        if (isFound || !WaitUntil(lock, [&] { return !flags_.RunsOver(listener, flag); })) {
            if (isAftermath_) {
                block.diagnostics.Stop();
            }
            block.Fail(
                "flag_overflow", Pipe::kScalar, call,
                Text("flag ", flag, " was set more than ", CrossCoreFlags::kMostPending,
                     " times, and no flag or barrier ensures that ", launch_.layout.NameOf(listener),
                     " waits for it before: its counter overflows; before this call, wait for a flag that the other "
                     "core sets after its wait"));
        }
        --overflows_;
    }
    changed_.notify_all();
}

void Scheduler::WaitShared(Block& block, int64_t flag, const Call& call)
{
    if (EndsPhase(true)) {
        BeginPhase(block, call);
    }
    std::unique_lock<std::mutex> lock(mutex_);
    if (!WaitUntil(lock, [&] { return flags_.IsSet(block.index, flag); })) {
        FailDeadlock(block, call,
                     Text("flag ", flag, " is not set and nothing will set it: the core would hang",
                          flags_.DescribeMissing(block.index, flag)),
                     isAftermath_);
    }
    block.ordering.Acquire(flags_.Take(block.index, flag, block.execution.Now()), EndsPhase(true));
}

void Scheduler::SetGmFlag(Block& block, uint64_t address, const Call& call)
{
    const Signal own = block.ordering.Release(Pipe::kAll, SyncAllDelay(), call.at);
    const std::lock_guard<std::mutex> lock(mutex_);
    std::deque<Signal>& signals = gmFlags_[address];
    if (!signals.empty()) {
        block.Fail("flag_set_twice", Pipe::kScalar, call,
                   Text("the flag in gmWorkspace is still set since ", Where(signals.front().at),
                        "; wait for it before setting it again"));
    }
    signals.push_back(own);
    changed_.notify_all();
}

void Scheduler::CountGmFlag(Block& block, uint64_t address, const Call& call)
{
    const Signal own = block.ordering.Release(Pipe::kAll, SyncAllDelay(), call.at);
    const std::lock_guard<std::mutex> lock(mutex_);
    gmFlags_[address].push_back(own);
    changed_.notify_all();
}

void Scheduler::WaitGmFlag(Block& block, uint64_t address, const Call& call)
{
    if (EndsPhase(true)) {
        BeginPhase(block, call);
    }
    std::unique_lock<std::mutex> lock(mutex_);
    if (!WaitUntil(lock, [&] { return !gmFlags_[address].empty(); })) {
        FailDeadlock(block, call,
                     "the flag in gmWorkspace is not set and nothing will set it: the core would hang; call IBSet,"
                     " NotifyNextBlock or Arrive on another core",
                     isAftermath_);
    }
    const Signal signal = std::move(gmFlags_[address].front());
    gmFlags_[address].pop_front();
    block.ordering.Acquire(signal, EndsPhase(true));
}

void Scheduler::StoreUncached(Block& block, uint64_t address, const std::function<void()>& store, const Call& call)
{
    const Signal own = block.ordering.Release(Pipe::kScalar, {}, call.at);
    const std::lock_guard<std::mutex> lock(mutex_);
    store();
    if (stores_.size() < kMostStores || stores_.count(address) != 0) {
        stores_[address] = {block.index, own};
    }
    changed_.notify_all();
}

void Scheduler::LoadUncached(Block& block, uint64_t address, const std::function<void()>& load)
{
    std::unique_lock<std::mutex> lock(mutex_);
    load();
    const auto last = stores_.find(address);
    if (last == stores_.end() || last->second.first == block.index) {
        return;
    }
    const auto [core, signal] = last->second;
    lock.unlock();
    if (signal.released.empty() ||
        block.ordering.Clocks().Acquired(core, Pipe::kScalar) < signal.released[core].Of(Pipe::kScalar)) {
        block.ordering.Acquire(signal, false);
    }
}

void Scheduler::Post(Block& sender, const MatmulJob& job, const Call& call)
{
    const Signal own = sender.ordering.Release(Pipe::kAll, CrossCoreFlagDelay(), call.at);
    const std::lock_guard<std::mutex> lock(mutex_);
    requests_[sender.position.group].push_back({sender.index, job, call, own});
    changed_.notify_all();
}

bool Scheduler::Take(Block& server, MatmulRequest& request)
{
    const uint32_t group = server.position.group;
    const std::vector<uint32_t> senders = launch_.layout.CoresOf(CoreKind::kVector, group);
    std::unique_lock<std::mutex> lock(mutex_);
    std::deque<MatmulRequest>& requests = requests_[group];
    const auto next = [&] {
        auto holder = holders_.find(group);
        if (holder != holders_.end() && endedAfter_.count(holder->second) != 0) {
            holders_.erase(holder);
            holder = holders_.end();
        }
        return std::find_if(requests.begin(), requests.end(), [&](const MatmulRequest& each) {
            return holder == holders_.end() || each.sender == holder->second;
        });
    };
    const auto hasEnded = [&] {
        return std::all_of(senders.begin(), senders.end(), [&](uint32_t core) { return endedAfter_.count(core) != 0; });
    };
    if (!WaitUntil(lock, [&] { return next() != requests.end() || hasEnded(); })) {
        server.diagnostics.Stop();  // the vector cores report the reason
    }
    const auto found = next();
    if (found == requests.end()) {
        return false;
    }
    request = *found;
    requests.erase(found);
    if (request.job.multiplies && !request.job.stores) {
        holders_[group] = request.sender;
    } else {
        holders_.erase(group);
    }
    server.ordering.Acquire(request.signal, false);
    return true;
}

void Scheduler::Answer(Block& server, const MatmulRequest& request)
{
    const Signal own = server.ordering.Release(Pipe::kAll, CrossCoreFlagDelay(), request.call.at);
    const std::lock_guard<std::mutex> lock(mutex_);
    answers_[request.sender].push_back(own);
    changed_.notify_all();
}

void Scheduler::AwaitAnswer(Block& sender, const Call& call)
{
    std::unique_lock<std::mutex> lock(mutex_);
    std::deque<Signal>& answers = answers_[sender.index];
    if (!WaitUntil(lock, [&] { return !answers.empty(); })) {
        FailDeadlock(
            sender, call,
            "the cube core has ended or waits elsewhere: the product is never computed; also call REGIST_MATMUL_OBJ "
            "on the cube core, before it waits for a vector core",
            isAftermath_ || someoneStopped_);
    }
    sender.ordering.Acquire(answers.front(), false);
    answers.pop_front();
}

MessageArea& Scheduler::MessagesOf(int32_t area)
{
    const std::lock_guard<std::mutex> lock(mutex_);
    return messages_[static_cast<size_t>(area)];
}

void Scheduler::ChangeMessages(const std::function<void(MessageAreas&)>& change)
{
    const std::lock_guard<std::mutex> lock(mutex_);
    change(messages_);
    vainPolls_ = 0;
    changed_.notify_all();
}

void Scheduler::AwaitMessage(Block& block, const Ready& isReady, const std::function<std::string()>& problem,
                             const Call& call)
{
    std::unique_lock<std::mutex> lock(mutex_);
    if (!WaitUntil(lock, isReady)) {
        FailDeadlock(block, call, problem(), isAftermath_);
    }
}

bool Scheduler::IsVainPoll(const Ready& isReady) const
{
    const auto isPollReady = [](const OpenPoll& poll) { return (*poll.isReady)(); };
    const auto isOtherReady = [&](const Ready* ready) {
        return std::none_of(polls_.begin(), polls_.end(), [&](const OpenPoll& poll) { return poll.mayEnd == ready; }) &&
               (*ready)();
    };
    return running_ == 0 && next_ == order_.size() && polls_.front().isReady == &isReady &&
           std::none_of(polls_.begin(), polls_.end(), isPollReady) &&
           std::none_of(waiting_.begin(), waiting_.end(), isOtherReady);
}

bool Scheduler::PollMessage(Block& block, const Ready& isReady, const std::function<std::string()>& problem,
                            const Call& call)
{
    return Poll(block, isReady, {"deadlock", kMostVainPolls, problem}, call);
}

bool Scheduler::Poll(Block& block, const Ready& isReady, const VainPoll& vain, const Call& call)
{
    std::unique_lock<std::mutex> lock(mutex_);
    const Ready mayEnd = [&] { return isReady() || IsVainPoll(isReady); };
    polls_.push_back({&isReady, &mayEnd});
    WaitUntil(lock, mayEnd);
    polls_.erase(
        std::find_if(polls_.begin(), polls_.end(), [&](const OpenPoll& poll) { return poll.isReady == &isReady; }));
    if (isReady()) {
        vainPolls_ = 0;
        return true;
    }
    if (stuck_ || ++vainPolls_ > vain.polls) {
        FailDeadlock(block, call, vain.problem(), isAftermath_, vain.kind);
    }
    return false;
}

void Scheduler::ReportLeftFlags()
{
    if (someoneStopped_) {
        return;
    }
    for (const CrossCoreFlags::Left& left : flags_.LeftSet()) {
        findings_.push_back({"flag_left_set", static_cast<int64_t>(launch_.layout.At(left.core).blockIndex),
                             Name(Pipe::kScalar), Where(left.setAt),
                             Text(launch_.request.opType, " (tiling key ", launch_.request.tilingKey, "): flag ",
                                  left.flag, " between cores is set here and not waited for by ",
                                  launch_.layout.NameOf(left.core), "; it would break the next kernel")});
    }
}

void Scheduler::WatchOver()
{
    const TimeLimit limit = ReadTimeLimit();
    std::unique_lock<std::mutex> lock(mutex_);
    auto before = std::chrono::steady_clock::now();
    while (!finished_.wait_for(lock, kWatchInterval, [&] { return alive_ == 0; })) {
        const auto now = std::chrono::steady_clock::now();
        // If the process was stopped for a while, no thread was blocked.
        const double elapsed = std::chrono::duration<double>(
                                   std::min<std::chrono::steady_clock::duration>(now - before, 2 * kWatchInterval))
                                   .count();
        before = now;
        if (!polls_.empty()) {
            changed_.notify_all();  // DMA of a running block may have changed the bytes of a poll
        }
        for (Watched& watched : watched_) {
            if (isEndless_) {
                watched.block->execution.Cancel();
            } else if (IsOverdue(watched, elapsed, limit)) {
                watched.block->execution.Interrupt();
            }
            if (watched.block->execution.IsInterrupted()) {
                Interrupt(watched.thread);
            }
        }
    }
}

bool Scheduler::IsOverdue(Watched& watched, double elapsed, const TimeLimit& limit)
{
    const double cpuSeconds = CpuSeconds(watched.thread);
    const uint64_t instructions = watched.block->execution.Instructions();
    double spent = cpuSeconds - watched.cpuSeconds;
    // A thread without CPU time is blocked: by the twin until other blocks arrive, or by a call of the kernel.
    if (spent == 0.0 && watched.block->execution.IsInKernel()) {
        spent = elapsed;
    }
    watched.cpuSeconds = cpuSeconds;
    watched.spentSeconds += limit.isElapsed && spent > 0.0 ? std::max(spent, elapsed) : spent;
    watched.quietSeconds = instructions == watched.instructions ? watched.quietSeconds + spent : 0.0;
    watched.instructions = instructions;
    return watched.quietSeconds > std::min(limit.seconds, kQuietSeconds) || watched.spentSeconds > limit.seconds;
}

}  // namespace opforge::twin::kernel
