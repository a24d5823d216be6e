// The time of a launch by the model of twin/npu_model.json, from the schedules of its cores.
#ifndef OPFORGE_TWIN_KERNEL_ESTIMATE_H
#define OPFORGE_TWIN_KERNEL_ESTIMATE_H

#include <deque>
#include <vector>

#include "kernel/l2_cache.h"
#include "kernel/soc.h"
#include "opforge_twin/launch.h"

namespace opforge::twin::kernel {

/// Gathers the schedules of the blocks: block b runs on core b modulo the number of cores, one after the other.
class Estimate {
public:
    explicit Estimate(const SocFigures& soc);

    size_t CoreOf(uint32_t block) const { return block % cores_; }
    /// Cycles that the core of a block has spent on earlier ones, by phase.
    std::vector<double> Spent(uint32_t block) const;
    /// `traffic` moves to the estimate record by record: there may be very many.
    void Add(uint32_t block, const std::vector<Phase>& phases, std::deque<DmaRecord>& traffic);
    /// Decides what came from L2, now that the traffic of all cores is known, and corrects the schedules: they were
    /// made block after block, but cores run side by side. They are taken to keep pace, byte for byte of a phase, and a
    /// schedule grows or shrinks with its busiest pipe. Without records of all traffic the schedules stay as they are.
    void Settle(const GlobalMemory& memory, bool hasAllTraffic);
    /// Times and balance of the launch; `minimalBytes`: each input and each output once.
    void Write(uint64_t minimalBytes, LaunchReport& report) const;
    /// Cycles from the start of the kernel to the start of each phase.
    std::vector<double> PhaseStarts() const;
    /// What settling made of a cycle of the schedule of a core.
    double Stretch(size_t core, size_t phase) const;

private:
    /// A core in a phase.
    struct Share {
        double scheduled = 0.0;  ///< cycles before settling
        double cycles = 0.0;
        PathCycles path{};
        PipeCycles busy{};
        uint64_t bytes = 0;  ///< of its DMA
    };
    /// A phase of all cores.
    struct PhaseSum {
        std::vector<Share> shares;  ///< by core
        Transfer moved;
    };

    PhaseTime TimeOf(const PhaseSum& phase) const;
    Share TotalOf(size_t core) const;
    double CyclesPerMicro() const { return static_cast<double>(soc_.mhz); }

    const SocFigures& soc_;
    size_t cores_;
    std::vector<PhaseSum> phases_;
    std::deque<DmaRecord> traffic_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_ESTIMATE_H
