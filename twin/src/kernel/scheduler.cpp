#include "kernel/scheduler.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <map>
#include <numeric>
#include <random>

#include "kernel/interrupt.h"

namespace opforge::twin::kernel {

namespace {

// A block that issues nothing for this long, or runs for this long in all, will not end.
constexpr double kQuietSeconds = 20.0;
constexpr double kBlockSeconds = 600.0;
constexpr size_t kMostPhases = 10000;  // each takes 7 KB; a kernel with so many would do nothing but meet
constexpr std::chrono::milliseconds kWatchInterval{250};

double TimeLimit()
{
    const char* given = std::getenv("OPFORGE_TWIN_TIMEOUT");
    const double seconds = given == nullptr ? 0.0 : std::atof(given);
    return seconds > 0.0 ? seconds : kBlockSeconds;
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

uint64_t MinimalBytes(const LaunchRequest& request)
{
    uint64_t bytes = 0;
    for (const GmArgument& argument : request.arguments) {
        bytes += (argument.isInput ? argument.bytes : 0) + (argument.isOutput ? argument.bytes : 0);
    }
    return bytes;
}

/// One finding per kind and place, warnings last: the blocks of a launch make the same mistake together.
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
            merged[value.first].message += Text(" (and in ", value.second, " more blocks)");
        }
    }
    return merged;
}

}  // namespace

Scheduler::Scheduler(LaunchState& launch, std::function<void(Block&)> body)
    : launch_(launch),
      body_(std::move(body)),
      order_(launch.request.blockNum),
      endedAfter_(launch.request.blockNum, -1),
      coreBytes_(static_cast<size_t>(launch.soc.vectorCores)),
      estimate_(launch.soc)
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
        for (size_t count = 0; count < workers; ++count) {
            Spawn();
        }
    }
    WatchOver();
    for (std::thread& thread : threads_) {
        thread.join();
    }
    report.gmBytesRead = totals_.gmBytesRead;
    report.gmBytesWritten = totals_.gmBytesWritten;
    report.dmaCount = totals_.dmaCount;
    const uint64_t moved = totals_.gmBytesRead + totals_.gmBytesWritten;
    if (moved != 0) {
        const auto busiest = static_cast<double>(*std::max_element(coreBytes_.begin(), coreBytes_.end()));
        report.trafficBalance = busiest * static_cast<double>(coreBytes_.size()) / static_cast<double>(moved);
    }
    estimate_.Settle(launch_.memory, launch_.dmaCount <= LaunchState::kMostRecords);
    if (!launch_.tracePath.empty() && !trace_.Write(launch_.tracePath, estimate_, launch_.soc.mhz)) {
        report.findings.push_back({"trace", -1, "", "", Text("cannot write the trace ", launch_.tracePath), false});
    }
    estimate_.Write(MinimalBytes(launch_.request), report);
    std::vector<Finding> merged = Merge(std::move(findings_));
    report.findings.insert(report.findings.end(), merged.begin(), merged.end());
}

void Scheduler::Spawn()
{
    ++running_;
    ++alive_;
    threads_.emplace_back([this] { Work(); });
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
    }
    --running_;
    --alive_;
    ReleaseIfStuck();
    changed_.notify_all();
    finished_.notify_all();
}

void Scheduler::RunOne(uint32_t index)
{
    Block block(launch_, index);
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const double now = CpuSeconds(pthread_self());
        watched_.push_back({&block, pthread_self(), 0, now, now});
    }
    body_(block);
    const std::lock_guard<std::mutex> lock(mutex_);
    watched_.erase(std::find_if(watched_.begin(), watched_.end(), [&](const Watched& w) { return w.block == &block; }));
    Collect(block);
    changed_.notify_all();
}

void Scheduler::Collect(Block& block)
{
    endedAfter_[block.index] = block.syncs;
    someoneStopped_ = someoneStopped_ || block.stopped;
    block.timeline.EndPhase();
    trace_.Add(estimate_.CoreOf(block.index), block.timeline.Spans(), estimate_.Spent(block.index));
    estimate_.Add(block.index, block.timeline.Phases(), block.traffic);
    findings_.insert(findings_.end(), block.findings.begin(), block.findings.end());
    totals_.gmBytesRead += block.bytesRead;
    totals_.gmBytesWritten += block.bytesWritten;
    totals_.dmaCount += block.dmaCount;
    coreBytes_[block.index % coreBytes_.size()] += block.bytesRead + block.bytesWritten;
}

void Scheduler::ReleaseIfStuck()
{
    const bool idle = running_ == 0 && next_ == order_.size() && !waiting_.empty();
    if (idle && std::none_of(waiting_.begin(), waiting_.end(), [](const Ready* ready) { return (*ready)(); })) {
        stuck_ = true;
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
    if (next_ < order_.size() && running_ < slots_) {
        Spawn();
    }
    ReleaseIfStuck();
    changed_.notify_all();
    changed_.wait(lock, [&] { return stuck_ || (running_ < slots_ && ready()); });
    ++running_;
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), &ready));
    return ready();
}

void Scheduler::GiveUp(Block& block, const Call& call, const std::string& message, bool silent)
{
    if (silent) {
        block.stopped = true;
        throw Stopped{};
    }
    block.Fail("deadlock", Pipe::kScalar, call, message);
}

std::string Scheduler::Laggards(uint32_t meetings) const
{
    std::string names;
    size_t count = 0;
    for (size_t index = 0; index < endedAfter_.size(); ++index) {
        if (endedAfter_[index] >= 0 && endedAfter_[index] < static_cast<int64_t>(meetings) && ++count <= 4) {
            names += Text(names.empty() ? "" : ", ", index, " (after ", endedAfter_[index], ")");
        }
    }
    return names.empty() ? "no block has ended" : Text("ended without it: block ", names, count > 4 ? ", ..." : "");
}

void Scheduler::Arrive(std::vector<Meeting>& meetings, uint32_t number, const Block& block, Pipe pipe) const
{
    meetings.resize(std::max<size_t>(meetings.size(), number + 1));
    ++meetings[number].blocks;
    if (launch_.options.strict) {
        Join(meetings[number].published, block.Publish(pipe));
    }
}

void Scheduler::BeginPhase(Block& block, const Call& call)
{
    block.timeline.EndPhase();
    if (block.timeline.Phases().size() > kMostPhases) {
        block.Fail("endless_loop", Pipe::kScalar, call,
                   Text("the cores have met or waited for each other ", kMostPhases,
                        " times before; a loop that does not end, or let each core do more between two meetings"));
    }
}

void Scheduler::Meet(Block& block, const Call& call)
{
    block.PassBarrier(Pipe::kAll);
    BeginPhase(block, call);
    std::unique_lock<std::mutex> lock(mutex_);
    const uint32_t mine = block.syncs++;
    Arrive(meetings_, mine, block, Pipe::kAll);
    if (!WaitUntil(lock, [&] { return meetings_[mine].blocks == order_.size(); })) {
        GiveUp(block, call,
               Text("SyncAll number ", mine + 1, " has seen ", meetings_[mine].blocks, " of ", order_.size(),
                    " blocks and the others will not come; ", Laggards(mine + 1),
                    ". Every block must call it equally often, idle ones too"),
               someoneStopped_);
    }
    block.Hear(meetings_[mine].published);
}

void Scheduler::SetShared(Block& block, Pipe pipe, int64_t flag, const Location& at)
{
    block.crossCoreSetAt[static_cast<size_t>(flag)] = at;
    const std::lock_guard<std::mutex> lock(mutex_);
    Arrive(sharedSets_[static_cast<size_t>(flag)], block.crossCoreSets[static_cast<size_t>(flag)]++, block, pipe);
    changed_.notify_all();
}

void Scheduler::WaitShared(Block& block, int64_t flag, const Call& call)
{
    BeginPhase(block, call);
    std::unique_lock<std::mutex> lock(mutex_);
    const std::vector<Meeting>& sets = sharedSets_[static_cast<size_t>(flag)];
    const uint32_t mine = block.crossCoreWaits[static_cast<size_t>(flag)]++;
    if (!WaitUntil(lock, [&] { return mine < sets.size() && sets[mine].blocks == order_.size(); })) {
        GiveUp(
            block, call,
            Text("flag ", flag, " was set ", mine + 1, " times by ", mine < sets.size() ? sets[mine].blocks : 0, " of ",
                 order_.size(), " blocks only and nobody will set it; CrossCoreSetFlag of mode 0 needs every block"),
            someoneStopped_);
    }
    block.Hear(sets[mine].published);
}

void Scheduler::WatchOver()
{
    const double limit = TimeLimit();
    std::unique_lock<std::mutex> lock(mutex_);
    while (!finished_.wait_for(lock, kWatchInterval, [&] { return alive_ == 0; })) {
        for (Watched& watched : watched_) {
            const double now = CpuSeconds(watched.thread);
            const uint64_t instructions = watched.block->instructions.load(std::memory_order_relaxed);
            if (instructions != watched.instructions) {
                watched.instructions = instructions;
                watched.quietSince = now;
            }
            if (now - watched.quietSince > std::min(limit, kQuietSeconds) || now - watched.startedAt > limit) {
                watched.block->interrupted = true;
                Interrupt(watched.thread);
            }
        }
    }
}

}  // namespace opforge::twin::kernel
