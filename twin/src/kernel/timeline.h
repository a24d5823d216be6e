// When the instructions of one block would run on the device: in-order issue on every pipe, held up by flags, barriers
// and meetings of cores. Times are cycles of the model of twin/npu_model.json: estimates.
#ifndef OPFORGE_TWIN_KERNEL_TIMELINE_H
#define OPFORGE_TWIN_KERNEL_TIMELINE_H

#include <array>
#include <cstdint>
#include <vector>

#include "kernel/access.h"
#include "kernel/order.h"

namespace opforge::twin::kernel {

using PipeCycles = std::array<double, kPipes>;

/// What a block did between two meetings of the cores.
struct Phase {
    double cycles = 0.0;  ///< of its schedule
    PipeCycles busy{};
    uint64_t firstTouchBytes = 0;
    uint64_t l2Bytes = 0;
};

/// An instruction on a pipe, for a trace.
struct Span {
    uint32_t phase;
    Pipe pipe;
    double begin;  ///< cycles since the phase began
    double end;
    const char* name;
    Location at;
};

/// Bytes of a DMA instruction, in whole sectors.
struct Transfer {
    uint64_t firstTouchBytes = 0;
    uint64_t l2Bytes = 0;
};

class Timeline {
public:
    explicit Timeline(bool isTraced) : isTraced_(isTraced) {}

    void RunVector(double cycles, const Call& call);
    void RunDma(Pipe pipe, int64_t rows, const Transfer& transfer, bool isAtomic, const Call& call);
    void RunScalar(double cycles, const Call& call);

    /// When a flag that `from` sets now is seen.
    double FlagTime(Pipe from) const;
    void Wait(Pipe to, double time);
    void PassBarrier(Pipe pipe);
    /// The core meets others: everything it was given has finished.
    void EndPhase();

    const std::vector<Phase>& Phases() const { return phases_; }
    const std::vector<Span>& Spans() const { return spans_; }

private:
    /// The pipe is busy for `cycles`; the result is there `latency` after the start at the earliest.
    void Run(Pipe pipe, double cycles, double latency, const Call& call);
    /// When the results of all that `pipe` was given are there.
    double Drained(Pipe pipe) const;
    double& Free(Pipe pipe) { return free_[static_cast<size_t>(pipe)]; }
    double& Done(Pipe pipe) { return done_[static_cast<size_t>(pipe)]; }

    bool isTraced_;
    double phaseBegin_ = 0.0;
    PipeCycles free_{};  ///< when a pipe can start its next instruction; the scalar unit's: when it issues its next one
    PipeCycles done_{};  ///< when all that a pipe was given has finished
    Phase phase_;
    std::vector<Phase> phases_;
    std::vector<Span> spans_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_TIMELINE_H
