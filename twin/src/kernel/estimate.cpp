#include "kernel/estimate.h"

#include <algorithm>

#include "kernel/time_model.h"

namespace opforge::twin::kernel {

namespace {

constexpr double kMicro = 1e6;

}  // namespace

Estimate::Estimate(const SocFigures& soc) : soc_(soc), cores_(static_cast<size_t>(soc.vectorCores)) {}

std::vector<double> Estimate::Spent(uint32_t block) const
{
    std::vector<double> spent;
    for (const PhaseSum& phase : phases_) {
        spent.push_back(phase.cycles[CoreOf(block)]);
    }
    return spent;
}

void Estimate::Add(uint32_t block, const std::vector<Phase>& phases)
{
    const size_t number = CoreOf(block);
    phases_.resize(std::max(phases_.size(), phases.size()));
    for (size_t index = 0; index < phases.size(); ++index) {
        PhaseSum& sum = phases_[index];
        sum.cycles.resize(cores_.size());
        sum.cycles[number] += phases[index].cycles;
        sum.firstTouchBytes += phases[index].firstTouchBytes;
        sum.l2Bytes += phases[index].l2Bytes;
        cores_[number].cycles += phases[index].cycles;
        for (size_t pipe = 0; pipe < kPipes; ++pipe) {
            cores_[number].busy[pipe] += phases[index].busy[pipe];
        }
    }
}

PhaseTime Estimate::TimeOf(const PhaseSum& phase) const
{
    const double cyclesPerMicro = static_cast<double>(soc_.mhz);
    PhaseTime time;
    time.coreUs = *std::max_element(phase.cycles.begin(), phase.cycles.end()) / cyclesPerMicro;
    time.gmUs = static_cast<double>(phase.firstTouchBytes) / time_model::kGmBandwidthBytesPerS * kMicro;
    time.l2Us = static_cast<double>(phase.l2Bytes) / time_model::kL2BandwidthBytesPerS * kMicro;
    return time;
}

std::vector<double> Estimate::PhaseStarts() const
{
    const double cyclesPerMicro = static_cast<double>(soc_.mhz);
    std::vector<double> starts;
    double start = 0.0;
    for (const PhaseSum& phase : phases_) {
        starts.push_back(start);
        start += TimeOf(phase).Us() * cyclesPerMicro + time_model::kSyncAllCycles;
    }
    return starts;
}

void Estimate::Write(uint64_t minimalBytes, LaunchReport& report) const
{
    const double cyclesPerMicro = static_cast<double>(soc_.mhz);
    report.launchUs = time_model::kLaunchSeconds * kMicro;
    report.boundUs = static_cast<double>(minimalBytes) / time_model::kGmBandwidthBytesPerS * kMicro;
    report.estimateUs = report.launchUs;
    for (size_t index = 0; index < phases_.size(); ++index) {
        PhaseTime time = TimeOf(phases_[index]);
        time.syncUs = index == 0 ? 0.0 : time_model::kSyncAllCycles / cyclesPerMicro;
        report.estimateUs += time.Us() + time.syncUs;
        report.phases.push_back(time);
    }
    const auto slowest = std::max_element(cores_.begin(), cores_.end(),
                                          [](const Core& a, const Core& b) { return a.cycles < b.cycles; });
    double total = 0.0;
    for (const Core& core : cores_) {
        total += core.cycles;
    }
    report.balance = total == 0.0 ? 0.0 : slowest->cycles * static_cast<double>(cores_.size()) / total;
    report.criticalCore = static_cast<uint32_t>(slowest - cores_.begin());
    for (size_t pipe = 0; pipe < kPipes; ++pipe) {
        double all = 0.0;
        for (const Core& core : cores_) {
            all += core.busy[pipe];
        }
        if (all > 0.0) {
            report.pipes.push_back({Name(static_cast<Pipe>(pipe)), slowest->busy[pipe] / cyclesPerMicro,
                                    all / cyclesPerMicro / static_cast<double>(cores_.size())});
        }
    }
}

}  // namespace opforge::twin::kernel
