#include "kernel/timing/timeline.h"

#include <algorithm>

#include "kernel/timing/time_model.h"

namespace opforge::twin::kernel {

namespace {

Moment Later(const Moment& a, const Moment& b)
{
    return a.at < b.at ? b : a;
}

}  // namespace

Marked SyncAllDelay()
{
    return {Mark::kSyncAll, time_model::kSyncAllCycles};
}

Marked CrossCoreFlagDelay()
{
    return {Mark::kCrossCoreFlag, time_model::kCrossCoreFlagCycles};
}

void Moment::Spend(size_t cause, double cycles)
{
    at += cycles;
    path[cause] += cycles;
}

double MovingCycles(const DmaRecord& dma, const Transfer& transfer)
{
    const bool isRead = dma.pipe == Pipe::kMte2;
    const double l2Rate =
        isRead ? time_model::kPortL2ReadBytesPerCyclePerCore : time_model::kPortL2WriteBytesPerCyclePerCore;
    const double alone = isRead ? time_model::kDmaFragmentReadCycles : time_model::kDmaFragmentWriteCycles;
    const double crowded =
        isRead ? time_model::kDmaFragmentReadCrowdedCycles : time_model::kDmaFragmentWriteCrowdedCycles;
    const auto first = static_cast<double>(transfer.firstTouchBytes);
    const auto again = static_cast<double>(transfer.l2Bytes);
    const double hits = again / std::max(1.0, first + again);
    const double fragment = hits * (alone + (crowded - alone) * dma.others / kMostOthers) +
                            (1.0 - hits) * time_model::kDmaFragmentFirstTouchCycles;
    const double cycles = first / time_model::kPortFirstTouchBytesPerCyclePerCore + again / l2Rate +
                          fragment * static_cast<double>(dma.fragments > 1 ? dma.fragments : 0);
    return std::max(cycles * (dma.isAtomic ? time_model::kAtomicDmaFactor : 1.0), static_cast<double>(dma.leastCycles));
}

double PipeCyclesOf(const DmaRecord& dma, const Transfer& transfer)
{
    return std::max(time_model::kDmaIssueCycles, MovingCycles(dma, transfer));
}

Moment Timeline::After(const Moment& moment, Pipe pipe, TimeCause cause, double cycles) const
{
    Moment later = moment;
    later.Spend(kWaiting, cycles);
    if (lines_ != nullptr) {
        later.chain = lines_->Wait(moment.chain, pipe, cause, cycles);
    }
    return later;
}

void Timeline::Run(Pipe pipe, double cycles, double bandwidthCycles, double latency, const Call& call,
                   const Marked& marked)
{
    const auto index = static_cast<size_t>(pipe);
    Moment& free = Free(pipe);
    if (free.at < Free(Pipe::kScalar).at) {
        free = Free(Pipe::kScalar);
    }
    const double begin = free.at;
    free.Spend(index, cycles);
    free.Add(marked);
    if (lines_ != nullptr) {
        free.chain = lines_->Run(free.chain, pipe, cycles, bandwidthCycles);
    }
    // The scalar unit has no latency: nothing is done later than it is free.
    if (lines_ != nullptr || (pipe != Pipe::kScalar && Done(pipe).at < free.at + latency)) {
        Done(pipe) = Later(Done(pipe), After(free, pipe, TimeCause::kLatency, latency));
    }
    phase_.busy[index] += cycles;
    if (isTraced_) {
        spans_.push_back({static_cast<uint32_t>(phases_.size()), pipe, begin - phaseBegin_,
                          begin + cycles - phaseBegin_, call.name, call.at});
    }
}

void Timeline::RunVector(double cycles, const Call& call)
{
    Run(Pipe::kVector, time_model::kVectorIssueCycles + cycles, 0.0, 0.0, call);
}

void Timeline::RunDma(DmaRecord& dma, const Call& call)
{
    dma.begin = static_cast<float>(Later(Free(dma.pipe), Free(Pipe::kScalar)).at - phaseBegin_);
    phase_.charged += dma.charged;
    const double latency =
        (dma.pipe == Pipe::kMte2 ? time_model::kDmaReadLatencyCycles : time_model::kDmaWriteLatencyCycles) +
        (dma.others > 0 ? time_model::kDmaCrowdedLatencyCycles : 0.0);
    const double cycles = PipeCyclesOf(dma, dma.charged);
    Marked marked;
    if (dma.isAtomic) {
        DmaRecord plain = dma;
        plain.isAtomic = false;
        marked = {Mark::kAtomicDma, cycles - PipeCyclesOf(plain, dma.charged)};
    } else if (dma.pipe == Pipe::kMte2 && dma.charged.firstTouchBytes > 0) {
        marked = {Mark::kFirstReads, cycles};
        phase_.firstReads += cycles;
    }
    Run(dma.pipe, cycles, MovingCycles(dma, dma.charged), latency, call, marked);
    if (lines_ != nullptr) {
        lines_->CountBytes(dma.pipe, dma.Bytes(), dma.charged.firstTouchBytes);
    }
}

void Timeline::RunScalar(double cycles, const Call& call)
{
    Run(Pipe::kScalar, cycles, 0.0, 0.0, call);
}

void Timeline::RunScalarGmAccess(const Call& call)
{
    const double cycles = time_model::kScalarGmAccessCycles;
    Run(Pipe::kScalar, cycles, 0.0, 0.0, call, {Mark::kScalarGmAccess, cycles});
}

void Timeline::RunCube(Pipe pipe, double cycles, const Call& call)
{
    Run(pipe, cycles, pipe == Pipe::kCube ? 0.0 : cycles, 0.0, call);
}

Moment Timeline::Drained(Pipe pipe) const
{
    const auto index = static_cast<size_t>(pipe);
    const bool isVector = pipe == Pipe::kVector && phase_.busy[index] > 0.0;
    return isVector ? After(done_[index], pipe, TimeCause::kDrain, time_model::kVectorDrainCycles) : done_[index];
}

Moment Timeline::FlagTime(Pipe from) const
{
    const Moment set = Later(Drained(from), free_[static_cast<size_t>(Pipe::kScalar)]);
    return After(set, from, TimeCause::kFlag, time_model::kFlagCycles);
}

void Timeline::Wait(Pipe to, const Moment& moment)
{
    if (moment.at <= Free(to).at) {
        return;
    }
    const double begin = std::max(Free(to).at, Free(Pipe::kScalar).at);
    if (moment.phaseBegin == phaseBegin_) {
        Free(to) = moment;
    } else {  // set before the barrier, and not yet visible when the phase began
        Free(to) = After({phaseBegin_, {}, phaseBegin_}, to, TimeCause::kFlag, moment.at - phaseBegin_);
    }
    if (lines_ != nullptr) {
        Free(to).chain = lines_->Idle(to, Free(to).chain, moment.at - begin);
    }
}

PhaseMoment Timeline::Release(uint32_t block, Pipe from) const
{
    Moment moment = free_[static_cast<size_t>(Pipe::kScalar)];
    for (size_t pipe = 0; pipe < kPipes; ++pipe) {
        if (from == Pipe::kAll || from == static_cast<Pipe>(pipe)) {
            moment = Later(moment, Drained(static_cast<Pipe>(pipe)));
        }
    }
    moment.at -= phaseBegin_;
    return {moment, phases_.size(),
            std::make_shared<std::vector<CoreRelease>>(std::vector<CoreRelease>{{block, moment.at}})};
}

void Timeline::Acquire(const PhaseMoment& released, const Marked& delay)
{
    if (released.phase == phases_.size()) {
        // The instructions before the wait may end after it.
        double begin = 0.0;
        for (const Moment& free : free_) {
            begin = std::max(begin, free.at - phaseBegin_);
        }
        const double end = std::max(begin, released.moment.at + delay.cycles);
        phase_.waits.push_back({released.releases, delay.cycles, begin, end});
        Moment moment = After(released.moment, Pipe::kScalar, TimeCause::kFlag, delay.cycles);
        moment.Add(delay);
        moment.at += phaseBegin_;
        moment.phaseBegin = phaseBegin_;
        Wait(Pipe::kScalar, moment);
    }
}

void Timeline::PassBarrier(Pipe pipe)
{
    if (pipe == Pipe::kAll) {
        for (size_t other = 0; other < kPipes; ++other) {
            Wait(Pipe::kScalar, Drained(static_cast<Pipe>(other)));
        }
        return;
    }
    Wait(pipe, Drained(pipe));
}

void Timeline::EndPhase()
{
    Moment end = Free(Pipe::kScalar);
    for (const Moment& done : done_) {
        end = Later(end, done);
    }
    phase_.cycles = end.at - phaseBegin_;
    phase_.path = end.path;
    phase_.marked = end.marked;
    if (lines_ != nullptr) {
        phase_.lines = lines_->EndPhase(end.chain);
    }
    phases_.push_back(phase_);
    phase_ = {};
    phaseBegin_ = end.at;
    const Moment begin{end.at, {}, end.at};
    free_.fill(begin);
    done_.fill(begin);
}

}  // namespace opforge::twin::kernel
