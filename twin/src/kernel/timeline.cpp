#include "kernel/timeline.h"

#include <algorithm>

#include "kernel/time_model.h"

namespace opforge::twin::kernel {

void Timeline::Run(Pipe pipe, double cycles, double latency, const Call& call)
{
    const double begin = std::max(Free(pipe), Free(Pipe::kScalar));
    Free(pipe) = begin + cycles;
    Done(pipe) = std::max(Done(pipe), begin + std::max(cycles, latency));
    phase_.busy[static_cast<size_t>(pipe)] += cycles;
    if (isTraced_) {
        spans_.push_back({static_cast<uint32_t>(phases_.size()), pipe, begin - phaseBegin_,
                          begin + cycles - phaseBegin_, call.name, call.at});
    }
}

void Timeline::RunVector(double cycles, const Call& call)
{
    Run(Pipe::kVector, time_model::kVectorIssueCycles + cycles, 0.0, call);
}

void Timeline::RunDma(Pipe pipe, int64_t rows, const Transfer& transfer, bool isAtomic, const Call& call)
{
    constexpr double rowCycles = 2.0;  // stated in the note of dma_issue_cycles
    const double l2Rate = pipe == Pipe::kMte2 ? time_model::kPortL2ReadBytesPerCyclePerCore
                                              : time_model::kPortL2WriteBytesPerCyclePerCore;
    const double moving =
        static_cast<double>(transfer.firstTouchBytes) / time_model::kPortFirstTouchBytesPerCyclePerCore +
        static_cast<double>(transfer.l2Bytes) / l2Rate;
    Run(pipe,
        time_model::kDmaIssueCycles + rowCycles * static_cast<double>(rows - 1) +
            moving * (isAtomic ? time_model::kAtomicDmaFactor : 1.0),
        time_model::kDmaLatencyCycles, call);
    phase_.firstTouchBytes += transfer.firstTouchBytes;
    phase_.l2Bytes += transfer.l2Bytes;
}

void Timeline::RunScalar(double cycles, const Call& call)
{
    Run(Pipe::kScalar, cycles, 0.0, call);
}

double Timeline::Drained(Pipe pipe) const
{
    const auto index = static_cast<size_t>(pipe);
    const bool isVector = pipe == Pipe::kVector && phase_.busy[index] > 0.0;
    return done_[index] + (isVector ? time_model::kVectorDrainCycles : 0.0);
}

double Timeline::FlagTime(Pipe from) const
{
    return std::max(Drained(from), free_[static_cast<size_t>(Pipe::kScalar)]) + time_model::kFlagCycles;
}

void Timeline::Wait(Pipe to, double time)
{
    Free(to) = std::max(Free(to), time);
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
    const double end = std::max(*std::max_element(done_.begin(), done_.end()), Free(Pipe::kScalar));
    phase_.cycles = end - phaseBegin_;
    phases_.push_back(phase_);
    phase_ = {};
    phaseBegin_ = end;
    free_.fill(end);
    done_.fill(end);
}

}  // namespace opforge::twin::kernel
