#include "kernel/timing/estimate.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "kernel/exec/text.h"
#include "kernel/timing/calibrated.h"
#include "kernel/timing/time_model.h"

namespace opforge::twin::kernel {

namespace {

constexpr double kMicro = 1e6;

/// Hash values: the order of two cores differs from clock to clock.
uint32_t Turn(uint64_t core, uint64_t clock)
{
    return static_cast<uint32_t>((core * 0x9E3779B97F4A7C15ULL ^ clock * 0xC2B2AE3D27D4EB4FULL) >> 32);
}

template <size_t count>
void AddTo(std::array<double, count>& sum, const std::array<double, count>& more)
{
    for (size_t index = 0; index < count; ++index) {
        sum[index] += more[index];
    }
}

double& At(MarkedCycles& marked, Mark mark)
{
    return marked[static_cast<size_t>(mark)];
}

/// The names of the constants; reads with first touches have none.
constexpr std::array<const char*, kMarks> kAssumed{"", "scalar_gm_access_cycles", "atomic_dma_factor",
                                                   "cross_core_flag_cycles", "sync_all_cycles"};

/// The cycles of the pipes that store to global memory.
double Stores(const PathCycles& path)
{
    return path[static_cast<size_t>(Pipe::kMte3)] + path[static_cast<size_t>(Pipe::kFix)];
}

double Busiest(const PipeCycles& busy)
{
    return *std::max_element(busy.begin(), busy.end());
}

template <size_t count>
std::vector<PipeShare> SharesOf(const std::array<double, count>& cycles, double cyclesPerMicro)
{
    std::vector<PipeShare> shares;
    for (size_t index = 0; index < count; ++index) {
        if (cycles[index] > 0.0) {
            shares.push_back(
                {index == kWaiting ? "waiting" : Name(static_cast<Pipe>(index)), cycles[index] / cyclesPerMicro});
        }
    }
    return shares;
}

}  // namespace

Estimate::Estimate(const SocFigures& soc, const CoreLayout& layout)
    : soc_(soc), layout_(layout), cores_(layout.PhysicalCount(soc))
{
}

std::string Estimate::NameOf(size_t core) const
{
    const bool isBehindCubes = layout_.IsMixed() && KindOf(core) == CoreKind::kVector;
    const size_t number = core - (isBehindCubes ? static_cast<size_t>(soc_.cubeCores) : 0);
    return Text(layout_.IsMixed() ? Name(KindOf(core)) : "core", " ", number);
}

std::vector<double> Estimate::Spent(uint32_t block) const
{
    std::vector<double> spent;
    for (const PhaseSum& phase : phases_) {
        spent.push_back(phase.shares[CoreOf(block)].scheduled);
    }
    return spent;
}

void Estimate::Add(uint32_t block, const std::vector<Phase>& phases, std::deque<DmaRecord>& traffic)
{
    const size_t core = CoreOf(block);
    while (phases_.size() < phases.size()) {
        phases_.emplace_back().shares.resize(cores_);
    }
    for (; !traffic.empty(); traffic.pop_front()) {
        Share& share = phases_[traffic.front().phase].shares[core];
        traffic_.push_back(traffic.front());
        traffic_.back().core = static_cast<uint16_t>(core);
        traffic_.back().clock = share.bytes;
        traffic_.back().turn = Turn(core, share.bytes);
        share.bytes += traffic_.back().Bytes();
    }
    for (size_t index = 0; index < phases.size(); ++index) {
        Share& share = phases_[index].shares[core];
        share.scheduled += phases[index].cycles;
        share.cycles = share.scheduled;
        AddTo(share.path, phases[index].path);
        AddTo(share.busy, phases[index].busy);
        AddTo(share.marked, phases[index].marked);
        share.firstReads += phases[index].firstReads;
        ++share.blocks;
        share.waits.insert(share.waits.end(), phases[index].waits.begin(), phases[index].waits.end());
        if (share.lines == nullptr) {
            share.lines = phases[index].lines;
        } else {
            share.lines->Append(*phases[index].lines);
        }
        phases_[index].moved += phases[index].charged;
    }
}

void Estimate::Settle(const GlobalMemory& memory, bool hasAllTraffic)
{
    if (!hasAllTraffic) {
        return;
    }
    for (PhaseSum& phase : phases_) {
        phase.moved = {};
    }
    std::sort(traffic_.begin(), traffic_.end(), [](const DmaRecord& a, const DmaRecord& b) {
        return std::tie(a.phase, a.clock, a.turn, a.core) < std::tie(b.phase, b.clock, b.turn, b.core);
    });
    std::vector<std::vector<PipeCycles>> changes(phases_.size(), std::vector<PipeCycles>(cores_));
    L2Cache cache(memory, static_cast<uint64_t>(soc_.l2Bytes));
    for (const DmaRecord& record : traffic_) {
        const Transfer transfer = cache.Move(record);
        phases_[record.phase].moved += transfer;
        const double change = PipeCyclesOf(record, transfer) - PipeCyclesOf(record, record.charged);
        changes[record.phase][record.core][static_cast<size_t>(record.pipe)] += change;
        if (change != 0.0 && layout_.IsMixed()) {
            phases_[record.phase].shares[record.core].changes.push_back({record.begin, change});
        }
        if (PhaseLines* lines = phases_[record.phase].shares[record.core].lines.get()) {
            PhaseLines::Work& work = lines->work[{record.site, record.pipe}];
            work.cycles += change;
            work.bandwidthCycles += MovingCycles(record, transfer) - MovingCycles(record, record.charged);
            work.firstTouchBytes += transfer.firstTouchBytes - record.charged.firstTouchBytes;
        }
    }
    traffic_.clear();
    for (size_t phase = 0; phase < phases_.size(); ++phase) {
        for (size_t core = 0; core < cores_; ++core) {
            Share& share = phases_[phase].shares[core];
            const auto slowest = std::max_element(share.busy.begin(), share.busy.end());
            const double before = *slowest;
            AddTo(share.busy, changes[phase][core]);
            const auto busiest = std::max_element(share.busy.begin(), share.busy.end());
            // If the path gets shorter, its busiest pipe does; if it gets longer, the new busiest pipe does.
            const auto pipe = (*busiest < before ? slowest : busiest) - share.busy.begin();
            const PathCycles scheduled = share.path;
            double& onPath = share.path[static_cast<size_t>(pipe)];
            const double change = std::max(*busiest - before, -onPath);
            if (share.lines != nullptr) {
                share.lines->Settle(static_cast<Pipe>(pipe), onPath, onPath + change);
            }
            onPath += change;
            share.cycles += change;
            share.pathChange = change;
            if (layout_.IsMixed()) {
                ShortenPath(share, scheduled, changes[phase][core]);
            }
            if (const double stores = Stores(scheduled); stores > 0.0) {
                At(share.marked, Mark::kAtomicDma) *= Stores(share.path) / stores;
            }
        }
        SettleWaits(phases_[phase]);
    }
}

void Estimate::ShortenPath(Share& share, const PathCycles& scheduled, const PipeCycles& changes)
{
    const double least = Busiest(share.busy);
    for (size_t pipe = 0; pipe < kPipes; ++pipe) {
        const double before = share.busy[pipe] - changes[pipe];
        double settled = before > 0.0 ? scheduled[pipe] * share.busy[pipe] / before : 0.0;
        if (pipe == static_cast<size_t>(Pipe::kMte2) && share.firstReads > 0.0) {
            settled =
                std::max(0.0, scheduled[pipe] + changes[pipe] * At(share.marked, Mark::kFirstReads) / share.firstReads);
        }
        if (changes[pipe] >= 0.0 || share.path[pipe] <= settled) {
            continue;
        }
        share.pathChange += settled - share.path[pipe];
        const double change = std::max(settled - share.path[pipe], std::min(least - share.cycles, 0.0));
        if (share.lines != nullptr) {
            share.lines->Settle(static_cast<Pipe>(pipe), share.path[pipe], share.path[pipe] + change);
        }
        share.path[pipe] += change;
        share.cycles += change;
    }
}

void Estimate::SettleWaits(PhaseSum& phase) const
{
    std::vector<CoreSchedule> cores;
    bool hasWaits = false;
    for (Share& share : phase.shares) {
        if (share.blocks > 1) {
            return;  // the times of a second block begin later
        }
        hasWaits = hasWaits || !share.waits.empty();
        cores.push_back(
            {share.scheduled, share.cycles, share.pathChange, std::move(share.changes), std::move(share.waits)});
    }
    if (!hasWaits) {
        return;
    }
    std::vector<size_t> coreOf;
    for (uint32_t block = 0; block < layout_.Count(); ++block) {
        coreOf.push_back(CoreOf(block));
    }
    const std::vector<double> settled = kernel::SettleWaits(cores, coreOf);
    for (size_t core = 0; core < cores_; ++core) {
        Share& share = phase.shares[core];
        const double total = std::max(settled[core], Busiest(share.busy));
        const double factor = share.cycles > 0.0 ? total / share.cycles : 1.0;
        for (double& cycles : share.path) {
            cycles *= factor;
        }
        for (double& cycles : share.marked) {
            cycles *= factor;
        }
        if (share.lines != nullptr) {
            for (Step& step : share.lines->path) {
                step.cycles *= factor;
            }
        }
        share.cycles = total;
    }
}

double Estimate::Stretch(size_t core, size_t phase) const
{
    const Share& share = phases_[phase].shares[core];
    return share.scheduled > 0.0 ? share.cycles / share.scheduled : 1.0;
}

const Estimate::Share& Estimate::SlowestOf(const PhaseSum& phase)
{
    return *std::max_element(phase.shares.begin(), phase.shares.end(),
                             [](const Share& a, const Share& b) { return a.cycles < b.cycles; });
}

PhaseTime Estimate::TimeOf(const PhaseSum& phase) const
{
    const Share& slowest = SlowestOf(phase);
    PhaseTime time;
    time.core = static_cast<uint32_t>(&slowest - phase.shares.data());
    time.coreUs = slowest.cycles / CyclesPerMicro();
    time.path = SharesOf(slowest.path, CyclesPerMicro());
    time.gmUs = static_cast<double>(phase.moved.gmBytes) / time_model::kGmBandwidthBytesPerS * kMicro;
    time.l2Us = static_cast<double>(phase.moved.l2Bytes) / time_model::kL2BandwidthBytesPerS * kMicro;
    return time;
}

std::vector<double> Estimate::PhaseStarts() const
{
    std::vector<double> starts;
    double start = 0.0;
    for (const PhaseSum& phase : phases_) {
        starts.push_back(start);
        start += TimeOf(phase).Us() * CyclesPerMicro() + time_model::kSyncAllCycles;
    }
    return starts;
}

Estimate::Share Estimate::TotalOf(size_t core) const
{
    Share total;
    for (const PhaseSum& phase : phases_) {
        total.cycles += phase.shares[core].cycles;
        AddTo(total.busy, phase.shares[core].busy);
    }
    return total;
}

double Estimate::CoresWith(Pipe pipe) const
{
    constexpr PipeSet cubeOnly = PipeSet::Of(Pipe::kCube, Pipe::kMte1, Pipe::kFix);
    constexpr PipeSet vectorOnly = PipeSet::Of(Pipe::kVector, Pipe::kMte3);
    return static_cast<double>(!layout_.IsMixed()     ? cores_
                               : cubeOnly.Has(pipe)   ? static_cast<size_t>(soc_.cubeCores)
                               : vectorOnly.Has(pipe) ? static_cast<size_t>(soc_.vectorCores)
                                                      : cores_);
}

std::optional<LineTimes> Estimate::TimesByLine(const Sites& sites) const
{
    LineTimes times;
    std::map<std::string, uint32_t> numbers;
    // A line has several sites if the compiler has duplicated its call.
    const auto lineOf = [&](uint32_t site) {
        const auto [entry, isNew] = numbers.try_emplace(Where(sites.At(site).at), times.lines.size());
        if (isNew) {
            times.lines.push_back(entry->first);
        }
        return entry->second;
    };
    PhaseLines all;
    for (const PhaseSum& phase : phases_) {
        for (const Share& share : phase.shares) {
            if (share.lines != nullptr) {
                all.Append(share.lines->ByLine(lineOf));
                all.path.clear();
            }
        }
        PhaseLineTimes& ofPhase = times.phases.emplace_back();
        const Share& slowest = SlowestOf(phase);
        if (slowest.lines == nullptr) {
            continue;
        }
        const PhaseLines lines = slowest.lines->ByLine(lineOf);
        ofPhase.barrier = lines.end;
        for (const Step& step : lines.path) {
            ofPhase.path.push_back({step.site, Name(step.pipe), step.cause, step.cycles / CyclesPerMicro()});
        }
        const double stretch = slowest.scheduled > 0.0 ? slowest.cycles / slowest.scheduled : 1.0;
        for (const auto& [key, cycles] : lines.waits) {
            LineWait& wait = ofPhase.waits.emplace_back();
            wait.line = key.first;
            wait.pipe = Name(key.second);
            std::transform(cycles.begin(), cycles.end(), wait.us.begin(),
                           [&](double cycle) { return cycle * stretch / CyclesPerMicro(); });
        }
    }
    for (const auto& [key, work] : all.work) {
        const double perMicro = CyclesPerMicro() * CoresWith(key.second);
        times.work.push_back({key.first, Name(key.second), work.cycles / perMicro, work.bandwidthCycles / perMicro,
                              work.instructions, work.bytes, work.firstTouchBytes});
    }
    return times;
}

void Estimate::Write(const MinimalBytes& minimal, double cubeCycles, LaunchReport& report) const
{
    report.launchUs = time_model::kLaunchSeconds * kMicro;
    // The last written bytes may stay in L2.
    const double kept = static_cast<double>(soc_.l2Bytes) * time_model::kL2WriteBackShare;
    const double written = static_cast<double>(minimal.written);
    const double moved = static_cast<double>(minimal.read) + std::max(0.0, written - kept);
    report.boundUs = std::max({moved / time_model::kGmBandwidthBytesPerS * kMicro,
                               std::min(written, kept) / time_model::kL2BandwidthBytesPerS * kMicro,
                               cubeCycles / static_cast<double>(soc_.cubeCores) / CyclesPerMicro()});
    report.estimateUs = report.launchUs;
    MarkedCycles marked{};
    for (size_t index = 0; index < phases_.size(); ++index) {
        PhaseTime time = TimeOf(phases_[index]);
        time.syncUs = index == 0 ? 0.0 : time_model::kSyncAllCycles / CyclesPerMicro();
        report.firstTouchBytes += phases_[index].moved.firstTouchBytes;
        report.estimateUs += time.Us() + time.syncUs;
        if (time.coreUs >= time.Us()) {
            AddTo(marked, SlowestOf(phases_[index]).marked);
        }
        At(marked, Mark::kSyncAll) += index == 0 ? 0.0 : time_model::kSyncAllCycles;
        report.phases.push_back(std::move(time));
    }
    for (size_t mark = 1; mark < kMarks; ++mark) {
        report.assumed.push_back({kAssumed[mark], marked[mark] / CyclesPerMicro()});
    }
    PipeCycles all{};
    for (size_t core = 0; core < cores_; ++core) {
        const Share total = TotalOf(core);
        report.cores.push_back({NameOf(core), total.cycles / CyclesPerMicro(), SharesOf(total.busy, CyclesPerMicro())});
        AddTo(all, total.busy);
    }
    const auto slowest = std::max_element(report.cores.begin(), report.cores.end(),
                                          [](const CoreTime& a, const CoreTime& b) { return a.us < b.us; });
    report.criticalCore = static_cast<uint32_t>(slowest - report.cores.begin());
    double sum = 0.0;
    double peers = 0.0;
    for (size_t core = 0; core < cores_; ++core) {
        if (KindOf(core) == KindOf(report.criticalCore)) {
            sum += report.cores[core].us;
            ++peers;
        }
    }
    report.balance = sum == 0.0 ? 0.0 : slowest->us * peers / sum;
    const PipeCycles critical = TotalOf(report.criticalCore).busy;
    for (size_t pipe = 0; pipe < kPipes; ++pipe) {
        if (all[pipe] > 0.0) {
            report.pipes.push_back({Name(static_cast<Pipe>(pipe)), critical[pipe] / CyclesPerMicro(),
                                    all[pipe] / CyclesPerMicro() / CoresWith(static_cast<Pipe>(pipe))});
        }
    }
    report.outsideRange = OutsideRange(report, soc_.name);
}

}  // namespace opforge::twin::kernel
