#include "kernel/timing/lines.h"

#include <algorithm>

namespace opforge::twin::kernel {

namespace {

/// The cause of the wait of a pipe while a chain has this step. A flag or barrier waits for an instruction of another
/// pipe.
TimeCause AwaitedCause(const Step& step)
{
    constexpr PipeSet dma = PipeSet::Of(Pipe::kMte2, Pipe::kMte3);
    if (step.cause != TimeCause::kWork) {
        return step.cause;
    }
    return dma.Has(step.pipe) ? TimeCause::kLatency : TimeCause::kFlag;
}

bool IsOneRun(const Step& a, const Step& b)
{
    return a.site == b.site && a.pipe == b.pipe && a.cause == b.cause;
}

void AddTo(std::vector<Step>& path, const Step& step)
{
    if (path.empty() || !IsOneRun(path.back(), step)) {
        path.push_back(step);
    } else {
        path.back().cycles += step.cycles;
    }
}

void AddTo(PhaseLines::Work& sum, const PhaseLines::Work& more)
{
    sum.instructions += more.instructions;
    sum.bytes += more.bytes;
    sum.firstTouchBytes += more.firstTouchBytes;
    sum.cycles += more.cycles;
    sum.bandwidthCycles += more.bandwidthCycles;
}

void AddTo(PhaseLines::Waits& sum, const PhaseLines::Waits& more)
{
    std::transform(sum.begin(), sum.end(), more.begin(), sum.begin(), std::plus<>());
}

}  // namespace

void PhaseLines::Append(const PhaseLines& later)
{
    for (const auto& [key, more] : later.work) {
        AddTo(work[key], more);
    }
    for (const auto& [key, more] : later.waits) {
        AddTo(waits[key], more);
    }
    path.insert(path.end(), later.path.begin(), later.path.end());
    end = later.end;
}

PhaseLines PhaseLines::ByLine(const std::function<uint32_t(uint32_t)>& lineOf) const
{
    PhaseLines lines;
    for (const auto& [key, more] : work) {
        AddTo(lines.work[{lineOf(key.first), key.second}], more);
    }
    for (const auto& [key, more] : waits) {
        AddTo(lines.waits[{lineOf(key.first), key.second}], more);
    }
    for (Step step : path) {
        step.site = lineOf(step.site);
        AddTo(lines.path, step);
    }
    lines.end = lineOf(end);
    return lines;
}

void PhaseLines::Settle(Pipe pipe, double before, double after)
{
    double moving = 0.0;
    for (const Step& step : path) {
        moving += step.pipe == pipe && step.cause == TimeCause::kBandwidth ? step.cycles : 0.0;
    }
    const double change = after - before;
    const bool isBandwidth = moving > 0.0 && moving + change >= 0.0;
    if (!isBandwidth && before <= 0.0) {
        const auto busiest = std::max_element(work.begin(), work.end(), [&](const auto& a, const auto& b) {
            return (a.first.second == pipe ? a.second.cycles : -1.0) <
                   (b.first.second == pipe ? b.second.cycles : -1.0);
        });
        path.push_back({change, busiest == work.end() ? 0 : busiest->first.first, pipe, TimeCause::kBandwidth});
        return;
    }
    for (Step& step : path) {
        const bool isOfPipe = step.pipe == pipe && step.cause <= TimeCause::kBandwidth;
        if (isOfPipe && (!isBandwidth || step.cause == TimeCause::kBandwidth)) {
            step.cycles *= isBandwidth ? (moving + change) / moving : after / before;
        }
    }
}

std::deque<Link>& Chains::Add()
{
    const std::lock_guard<std::mutex> lock(mutex_);
    return blocks_.emplace_back();
}

const Link* LineRecorder::Add(const Link* before, const Step& step)
{
    if (step.cycles <= 0.0 || !chains_.Reserve()) {
        return before;
    }
    links_.push_back({before, step});
    return &links_.back();
}

const Link* LineRecorder::Run(const Link* before, Pipe pipe, double cycles, double bandwidthCycles)
{
    const uint32_t site = Here();
    PhaseLines::Work& work = phase_.work[{site, pipe}];
    ++work.instructions;
    work.cycles += cycles;
    work.bandwidthCycles += bandwidthCycles;
    const Link* issued = Add(before, {cycles - bandwidthCycles, site, pipe, TimeCause::kWork});
    return Add(issued, {bandwidthCycles, site, pipe, TimeCause::kBandwidth});
}

void LineRecorder::CountBytes(Pipe pipe, uint64_t bytes, uint64_t firstTouchBytes)
{
    PhaseLines::Work& work = phase_.work[{Here(), pipe}];
    work.bytes += bytes;
    work.firstTouchBytes += firstTouchBytes;
}

const Link* LineRecorder::Wait(const Link* before, Pipe pipe, TimeCause cause, double cycles)
{
    return Add(before, {cycles, Here(), pipe, cause});
}

const Link* LineRecorder::Idle(Pipe pipe, const Link* until, double cycles)
{
    const uint32_t site = Here();
    PhaseLines::Waits& waits = phase_.waits[{site, pipe}];
    for (const Link* link = until; link != nullptr && cycles > 0.0; link = link->before) {
        const double awaited = std::min(cycles, link->step.cycles);
        waits[static_cast<size_t>(AwaitedCause(link->step))] += awaited;
        cycles -= awaited;
    }
    waits[static_cast<size_t>(TimeCause::kFlag)] += std::max(cycles, 0.0);
    // The flag is counted at the line that waits for it.
    const bool isFlag = until != nullptr && until->step.cause == TimeCause::kFlag && until->step.site != site;
    return isFlag ? Add(until->before, {until->step.cycles, site, until->step.pipe, TimeCause::kFlag}) : until;
}

std::shared_ptr<PhaseLines> LineRecorder::EndPhase(const Link* last)
{
    for (const Link* link = last; link != nullptr; link = link->before) {
        AddTo(phase_.path, link->step);
    }
    std::reverse(phase_.path.begin(), phase_.path.end());
    phase_.end = Here();
    auto ended = std::make_shared<PhaseLines>(std::move(phase_));
    phase_ = {};
    return ended;
}

}  // namespace opforge::twin::kernel
