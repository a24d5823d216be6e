// The estimated schedule of the instructions of one block on the device: in-order issue on every pipe, delayed by
// flags, barriers and barriers between cores. Times are estimates, in cycles of the model of twin/npu_model.json.
#ifndef OPFORGE_TWIN_KERNEL_TIMING_TIMELINE_H
#define OPFORGE_TWIN_KERNEL_TIMING_TIMELINE_H

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernel/memory/access.h"
#include "kernel/order/order.h"
#include "kernel/timing/core_waits.h"
#include "kernel/timing/lines.h"

namespace opforge::twin::kernel {

using PipeCycles = std::array<double, kPipes>;

/// The uses of a time span: instructions of each pipe, and `kWaiting` for times without a working pipe (the latency of
/// DMA, the drain of the vector unit, flags).
constexpr size_t kWaiting = kPipes;
using PathCycles = std::array<double, kPipes + 1>;

/// Cycles of a path that are also counted apart: reads with first touches, and constants that are assumed values.
enum class Mark : uint8_t { kFirstReads, kScalarGmAccess, kAtomicDma, kCrossCoreFlag, kSyncAll };
constexpr size_t kMarks = 5;
using MarkedCycles = std::array<double, kMarks>;

struct Marked {
    Mark mark = Mark::kFirstReads;
    double cycles = 0.0;
};

/// The delays between cores.
Marked SyncAllDelay();
Marked CrossCoreFlagDelay();

/// A point in time, and the chain of instructions in the phase that determines it.
struct Moment {
    double at = 0.0;
    PathCycles path{};
    double phaseBegin = 0.0;
    const Link* chain = nullptr;  ///< the chain by line, if lines are recorded
    MarkedCycles marked{};        ///< of the path

    void Spend(size_t cause, double cycles);
    void Add(const Marked& more) { marked[static_cast<size_t>(more.mark)] += more.cycles; }
};

/// A point in time since the start of a phase, which is common to all cores.
struct PhaseMoment {
    Moment moment;
    size_t phase = 0;
    CoreReleases releases;  ///< of all cores whose latest time is `moment`
};

/// Bytes of DMA instructions, in whole sectors.
struct Transfer {
    uint64_t firstTouchBytes = 0;
    uint64_t l2Bytes = 0;
    uint64_t gmBytes = 0;  ///< that global memory reads, and writes when L2 evicts them

    void operator+=(const Transfer& more)
    {
        firstTouchBytes += more.firstTouchBytes;
        l2Bytes += more.l2Bytes;
        gmBytes += more.gmBytes;
    }
};

/// The bytes of one instruction: it moves at most a memory of a core.
struct DmaTransfer {
    uint32_t firstTouchBytes = 0;
    uint32_t l2Bytes = 0;
    uint32_t gmBytes = 0;

    operator Transfer() const { return {firstTouchBytes, l2Bytes, gmBytes}; }
    void operator+=(const Transfer& more)
    {
        firstTouchBytes += static_cast<uint32_t>(more.firstTouchBytes);
        l2Bytes += static_cast<uint32_t>(more.l2Bytes);
        gmBytes += static_cast<uint32_t>(more.gmBytes);
    }
};

/// The schedule of a block between two barriers of all cores.
struct Phase {
    double cycles = 0.0;  ///< of its schedule
    PathCycles path{};    ///< the critical path: cycles by use
    PipeCycles busy{};
    MarkedCycles marked{};              ///< of the critical path
    double firstReads = 0.0;            ///< cycles of all reads with first touches
    Transfer charged;                   ///< of all its DMA
    std::shared_ptr<PhaseLines> lines;  ///< null if not recorded
    std::vector<CoreWait> waits;
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

/// Number of other blocks above which contention for L2 does not increase.
inline constexpr uint32_t kMostOthers = 47;

/// A DMA instruction and its charged cost.
struct DmaRecord {
    uint64_t clock = 0;  ///< bytes that its core had moved in the phase
    uint64_t offset = 0;
    uint64_t pitch = 0;  ///< from row to row, modulo 2^64
    uint64_t matrixPitch = 0;
    uint32_t rowBytes = 0;
    uint32_t rows = 0;
    uint32_t matrixRows = 0;  ///< 0: one matrix
    uint32_t region = 0;
    uint16_t phase = 0;
    uint16_t core = 0;
    uint32_t turn = 0;  ///< a hash that orders cores with the same clock
    Pipe pipe = Pipe::kMte2;
    bool isAtomic = false;
    bool isCached = true;
    uint8_t others = 0;        ///< blocks of the launch beside this one, 47 at most
    uint32_t fragments = 0;    ///< requests of less than 512 bytes
    uint32_t site = 0;         ///< if lines are recorded
    float leastCycles = 0.0F;  ///< of the other end
    float begin = 0.0F;        ///< cycles since the phase began
    DmaTransfer charged;

    uint64_t Bytes() const { return uint64_t{rows} * rowBytes; }
    uint64_t OffsetOf(uint32_t row) const
    {
        return matrixRows == 0 ? offset + row * pitch
                               : offset + row / matrixRows * matrixPitch + row % matrixRows * pitch;
    }
};
static_assert(sizeof(DmaRecord) == 88);  // a launch stores up to two million records

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
    /// Sets the begin of the instruction.
    void RunDma(DmaRecord& dma, const Call& call);
    void RunScalar(double cycles, const Call& call);
    /// A scalar access to global memory.
    void RunScalarGmAccess(const Call& call);
    /// MTE1 or the cube unit.
    void RunCube(Pipe pipe, double cycles, const Call& call);

    /// The time at which a flag that `from` sets now becomes visible.
    Moment FlagTime(Pipe from) const;
    void Wait(Pipe to, const Moment& moment);
    /// The time at which all instructions of `from` (or of all pipes) of this block have finished, for another core.
    PhaseMoment Release(uint32_t block, Pipe from) const;
    /// Continues the core no earlier than `delay` after the release of another core.
    void Acquire(const PhaseMoment& released, const Marked& delay);
    void PassBarrier(Pipe pipe);
    /// Ends the phase at a barrier: all instructions of the core have finished.
    void EndPhase();

    const std::vector<Phase>& Phases() const { return phases_; }
    const std::vector<Span>& Spans() const { return spans_; }
    /// The location of the running instruction, if lines are recorded.
    uint32_t Site() const { return lines_ == nullptr ? 0 : lines_->Here(); }

private:
    /// Occupies the pipe for `cycles`; bytes limit it for `bandwidthCycles` of them. The result is available `latency`
    /// cycles later. `marked`: part of the cycles.
    void Run(Pipe pipe, double cycles, double bandwidthCycles, double latency, const Call& call,
             const Marked& marked = {});
    /// A point in time after a wait for a pipe.
    Moment After(const Moment& moment, Pipe pipe, TimeCause cause, double cycles) const;
    /// The time at which the results of all instructions of `pipe` are available.
    Moment Drained(Pipe pipe) const;
    Moment& Free(Pipe pipe) { return free_[static_cast<size_t>(pipe)]; }
    Moment& Done(Pipe pipe) { return done_[static_cast<size_t>(pipe)]; }

    using PipeMoments = std::array<Moment, kPipes>;

    bool isTraced_;
    std::unique_ptr<LineRecorder> lines_;
    double phaseBegin_ = 0.0;
    PipeMoments
        free_{};  ///< when a pipe can start its next instruction; for the scalar unit: when it issues its next one
    PipeMoments done_{};  ///< when all instructions of a pipe have finished
    Phase phase_;
    std::vector<Phase> phases_;
    std::vector<Span> spans_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_TIMING_TIMELINE_H
