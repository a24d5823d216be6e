// The time of a launch by the model of twin/npu_model.json, from the schedules of its cores.
#ifndef OPFORGE_TWIN_KERNEL_TIMING_ESTIMATE_H
#define OPFORGE_TWIN_KERNEL_TIMING_ESTIMATE_H

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "kernel/memory/l2_cache.h"
#include "kernel/exec/soc.h"
#include "opforge_twin/launch.h"

namespace opforge::twin::kernel {

/// The bytes of all inputs and outputs, each counted once.
struct MinimalBytes {
    uint64_t read = 0;
    uint64_t written = 0;
};

/// Collects the schedules of the blocks; blocks on the same core of the SoC run one after another.
class Estimate {
public:
    Estimate(const SocFigures& soc, const CoreLayout& layout);

    size_t CoreOf(uint32_t block) const { return layout_.PhysicalOf(block, soc_); }
    CoreKind KindOf(size_t core) const { return layout_.PhysicalKind(static_cast<uint32_t>(core), soc_); }
    /// "core 3", or "AIC 3" where both kinds run.
    std::string NameOf(size_t core) const;
    /// The cycles of earlier blocks on the core of a block, by phase.
    std::vector<double> Spent(uint32_t block) const;
    /// Moves the records of `traffic` to the estimate, because there can be very many.
    void Add(uint32_t block, const std::vector<Phase>& phases, std::deque<DmaRecord>& traffic);
    /// Decides which bytes came from L2 after the traffic of all cores is known, and corrects the schedules. The
    /// schedules were made one block after another, but cores run concurrently. The model assumes that cores keep pace,
    /// by bytes of a phase. A schedule grows or shrinks with its busiest pipe, and with the cores that it waits for.
    /// Without records of all traffic, the schedules are not changed.
    void Settle(const GlobalMemory& memory, bool hasAllTraffic);
    /// Times and balance of the launch; `cubeCycles`: the cycles of one cube core for all products.
    void Write(const MinimalBytes& minimal, double cubeCycles, LaunchReport& report) const;
    /// Cycles from the start of the kernel to the start of each phase.
    std::vector<double> PhaseStarts() const;
    /// The ratio of corrected to original cycles in the schedule of a core.
    double Stretch(size_t core, size_t phase) const;
    /// The times by line, if they were recorded.
    std::optional<LineTimes> TimesByLine(const Sites& sites) const;

private:
    /// A core in a phase.
    struct Share {
        double scheduled = 0.0;  ///< cycles before the correction
        double cycles = 0.0;
        double pathChange = 0.0;  ///< of the correction, without the limit by the busiest pipe
        PathCycles path{};
        PipeCycles busy{};
        MarkedCycles marked{};    ///< of the path
        double firstReads = 0.0;  ///< cycles of all reads with first touches
        uint64_t bytes = 0;       ///< of its DMA
        uint32_t blocks = 0;
        std::vector<CycleChange> changes;  ///< of a core that others may wait for
        std::vector<CoreWait> waits;
        std::shared_ptr<PhaseLines> lines;  ///< null if not recorded
    };
    /// A phase of all cores.
    struct PhaseSum {
        std::vector<Share> shares;  ///< by core
        Transfer moved;
    };

    /// Shortens the instructions of each pipe on the `scheduled` path as L2 hits shorten the pipe. Of the reads, these
    /// are the ones with first touches.
    static void ShortenPath(Share& share, const PathCycles& scheduled, const PipeCycles& changes);
    /// Ends the waits of cores for other cores at their corrected times.
    void SettleWaits(PhaseSum& phase) const;
    static const Share& SlowestOf(const PhaseSum& phase);
    PhaseTime TimeOf(const PhaseSum& phase) const;
    Share TotalOf(size_t core) const;
    /// The number of cores of the launch with a pipe.
    double CoresWith(Pipe pipe) const;
    double CyclesPerMicro() const { return static_cast<double>(soc_.mhz); }

    const SocFigures& soc_;
    const CoreLayout& layout_;
    size_t cores_;
    std::vector<PhaseSum> phases_;
    std::deque<DmaRecord> traffic_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_TIMING_ESTIMATE_H
