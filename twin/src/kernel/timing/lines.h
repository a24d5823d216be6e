// The time of a launch by source line. Recorded for profiles only.
#ifndef OPFORGE_TWIN_KERNEL_TIMING_LINES_H
#define OPFORGE_TWIN_KERNEL_TIMING_LINES_H

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernel/exec/execution.h"
#include "kernel/exec/sites.h"
#include "opforge_twin/launch.h"

namespace opforge::twin::kernel {

/// A part of a schedule: an instruction, or a wait.
struct Step {
    double cycles = 0.0;
    uint32_t site = 0;
    Pipe pipe = Pipe::kScalar;  ///< the working pipe, or the pipe that is waited for
    TimeCause cause = TimeCause::kWork;
};

/// A step, and the chain of steps before it.
struct Link {
    const Link* before;
    Step step;
};

/// The lines of a core in a phase.
struct PhaseLines {
    using Key = std::pair<uint32_t, Pipe>;  ///< site, and the pipe that works or waits
    struct Work {
        uint64_t instructions = 0;
        uint64_t bytes = 0;            ///< of DMA
        uint64_t firstTouchBytes = 0;  ///< of DMA
        double cycles = 0.0;
        double bandwidthCycles = 0.0;  ///< in which bytes limit the pipe
    };
    using Waits = std::array<double, kTimeCauses>;  ///< cycles by cause

    std::map<Key, Work> work;
    std::map<Key, Waits> waits;
    std::vector<Step> path;
    uint32_t end = 0;  ///< the barrier that ends the phase

    /// The same with lines instead of sites.
    PhaseLines ByLine(const std::function<uint32_t(uint32_t)>& lineOf) const;
    /// Adds the lines of a later block.
    void Append(const PhaseLines& later);
    /// Corrects the part of the path that is on a pipe from `before` cycles to `after`.
    void Settle(Pipe pipe, double before, double after);
};

/// The chains of a launch. They exist as long as the launch, because chains of different cores share links.
class Chains {
public:
    /// The chains of a block; they have stable addresses.
    std::deque<Link>& Add();
    /// Whether one more link fits.
    bool Reserve() { return count_.fetch_add(1, std::memory_order_relaxed) < kMost; }

private:
    static constexpr uint64_t kMost = uint64_t{8} << 20;  ///< 270 MB; the path has no lines for later steps

    std::mutex mutex_;
    std::list<std::deque<Link>> blocks_;
    std::atomic<uint64_t> count_{0};
};

/// Records the lines of a block.
class LineRecorder {
public:
    LineRecorder(Chains& chains, Sites& sites, const Execution& execution)
        : chains_(chains), links_(chains.Add()), sites_(sites), execution_(execution)
    {
    }

    /// Adds an instruction and the chain that ends with it; bytes limit it for `bandwidthCycles` of its cycles.
    const Link* Run(const Link* before, Pipe pipe, double cycles, double bandwidthCycles);
    void CountBytes(Pipe pipe, uint64_t bytes, uint64_t firstTouchBytes);
    /// The chain after a wait during which no pipe works.
    const Link* Wait(const Link* before, Pipe pipe, TimeCause cause, double cycles);
    /// Records that a pipe idles for `cycles` until the chain ends.
    const Link* Idle(Pipe pipe, const Link* until, double cycles);
    /// The lines of a phase, and of the chain that ends it.
    std::shared_ptr<PhaseLines> EndPhase(const Link* last);

    /// The location of the running instruction.
    uint32_t Here() { return sites_.NumberOf({"", execution_.LastCall().at, ""}); }

private:
    const Link* Add(const Link* before, const Step& step);

    Chains& chains_;
    std::deque<Link>& links_;
    SiteCache sites_;
    const Execution& execution_;
    PhaseLines phase_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_TIMING_LINES_H
