// When the instructions of one block would run on the device: in-order issue on every pipe, held up by flags, barriers
// and barriers between cores. Times are cycles of the model of twin/npu_model.json: estimates.
#ifndef OPFORGE_TWIN_KERNEL_TIMING_TIMELINE_H
#define OPFORGE_TWIN_KERNEL_TIMING_TIMELINE_H

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernel/memory/access.h"
#include "kernel/order/order.h"
#include "kernel/timing/lines.h"

namespace opforge::twin::kernel {

using PipeCycles = std::array<double, kPipes>;

/// What a stretch of time went into: instructions of each pipe, and at `kWaiting` what no pipe works at (the latency of
/// DMA, the drain of the vector unit, flags).
constexpr size_t kWaiting = kPipes;
using PathCycles = std::array<double, kPipes + 1>;

/// A point in time, and the chain of instructions since the phase began that made it so late.
struct Moment {
    double at = 0.0;
    PathCycles path{};
    double phaseBegin = 0.0;
    const Link* chain = nullptr;  ///< the chain by line, if lines are recorded

    Moment After(size_t cause, double cycles) const;
};

/// A moment counted from the beginning of a phase, which all cores have in common.
struct PhaseMoment {
    Moment moment;
    size_t phase = 0;
};

/// Bytes of DMA instructions, in whole sectors.
struct Transfer {
    uint64_t firstTouchBytes = 0;
    uint64_t l2Bytes = 0;
    uint64_t gmBytes = 0;  ///< that global memory reads, and writes when L2 gives them up

    void operator+=(const Transfer& more)
    {
        firstTouchBytes += more.firstTouchBytes;
        l2Bytes += more.l2Bytes;
        gmBytes += more.gmBytes;
    }
};

/// What a block did between two barriers of the cores.
struct Phase {
    double cycles = 0.0;  ///< of its schedule
    PathCycles path{};    ///< the critical path: what the cycles went into
    PipeCycles busy{};
    Transfer charged;                   ///< of all its DMA
    std::shared_ptr<PhaseLines> lines;  ///< null if not recorded
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

/// Blocks beside one that crowd the requests to L2; more do not change the time.
inline constexpr uint32_t kMostOthers = 47;

/// A DMA instruction and what it was charged for while its block ran.
struct DmaRecord {
    uint64_t clock = 0;  ///< bytes that its core had moved in the phase
    uint64_t offset = 0;
    uint64_t pitch = 0;  ///< from row to row, modulo 2^64
    uint32_t rowBytes = 0;
    uint32_t rows = 0;
    uint32_t phase = 0;
    uint32_t region = 0;
    uint32_t core = 0;
    uint32_t turn = 0;  ///< of cores with the same clock the least comes first, now this one, now that
    Pipe pipe = Pipe::kMte2;
    bool isAtomic = false;
    bool isCached = true;
    uint8_t others = 0;        ///< blocks of the launch beside this one, 47 at most
    uint32_t fragments = 0;    ///< requests of less than 512 bytes
    uint32_t site = 0;         ///< if lines are recorded
    float leastCycles = 0.0F;  ///< that the other end takes
    Transfer charged;

    uint64_t Bytes() const { return uint64_t{rows} * rowBytes; }
};

/// The bytes of a row that does not use L2.
Transfer Uncached(uint64_t begin, uint64_t end);
/// Cycles that the port of a core takes to move the bytes of an instruction.
double MovingCycles(const DmaRecord& dma, const Transfer& transfer);
/// Cycles until the pipe can start the next instruction.
double PipeCyclesOf(const DmaRecord& dma, const Transfer& transfer);

class Timeline {
public:
    /// `lines` is null if lines are not recorded.
    Timeline(bool isTraced, std::unique_ptr<LineRecorder> lines) : isTraced_(isTraced), lines_(std::move(lines)) {}

    void RunVector(double cycles, const Call& call);
    void RunDma(const DmaRecord& dma, const Call& call);
    void RunScalar(double cycles, const Call& call);
    /// MTE1 or the cube unit.
    void RunCube(Pipe pipe, double cycles, const Call& call);

    /// When a flag that `from` sets now is seen.
    Moment FlagTime(Pipe from) const;
    void Wait(Pipe to, const Moment& moment);
    /// When all that `from` (or all pipes) was given has finished, for another core.
    PhaseMoment Release(Pipe from) const;
    /// The core goes on `delay` cycles after what another one released, at the earliest.
    void Acquire(const PhaseMoment& released, double delay);
    void PassBarrier(Pipe pipe);
    /// The core reaches a barrier: everything it was given has finished.
    void EndPhase();

    const std::vector<Phase>& Phases() const { return phases_; }
    const std::vector<Span>& Spans() const { return spans_; }
    /// The place of the running instruction, if lines are recorded.
    uint32_t Site() const { return lines_ == nullptr ? 0 : lines_->Here(); }

private:
    /// The pipe is busy for `cycles`, in which bytes limit it for `bandwidthCycles`; the result is there `latency`
    /// after them.
    void Run(Pipe pipe, double cycles, double bandwidthCycles, double latency, const Call& call);
    /// A moment after a wait for a pipe.
    Moment After(const Moment& moment, Pipe pipe, TimeCause cause, double cycles) const;
    /// When the results of all that `pipe` was given are there.
    Moment Drained(Pipe pipe) const;
    Moment& Free(Pipe pipe) { return free_[static_cast<size_t>(pipe)]; }
    Moment& Done(Pipe pipe) { return done_[static_cast<size_t>(pipe)]; }

    using PipeMoments = std::array<Moment, kPipes>;

    bool isTraced_;
    std::unique_ptr<LineRecorder> lines_;
    double phaseBegin_ = 0.0;
    PipeMoments
        free_{};  ///< when a pipe can start its next instruction; the scalar unit's: when it issues its next one
    PipeMoments done_{};  ///< when all that a pipe was given has finished
    Phase phase_;
    std::vector<Phase> phases_;
    std::vector<Span> spans_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_TIMING_TIMELINE_H
