// The time of a launch by the model of twin/npu_model.json, from the schedules of its cores.
#ifndef OPFORGE_TWIN_KERNEL_ESTIMATE_H
#define OPFORGE_TWIN_KERNEL_ESTIMATE_H

#include <vector>

#include "kernel/soc.h"
#include "kernel/timeline.h"
#include "opforge_twin/launch.h"

namespace opforge::twin::kernel {

/// Gathers the schedules of the blocks: block b runs on core b modulo the number of cores, one after the other.
class Estimate {
public:
    explicit Estimate(const SocFigures& soc);

    size_t CoreOf(uint32_t block) const { return block % cores_.size(); }
    /// Cycles that the core of a block has spent on earlier ones, by phase.
    std::vector<double> Spent(uint32_t block) const;
    void Add(uint32_t block, const std::vector<Phase>& phases);
    /// Times and balance of the launch; `minimalBytes`: each input and each output once.
    void Write(uint64_t minimalBytes, LaunchReport& report) const;
    /// Cycles from the start of the kernel to the start of each phase.
    std::vector<double> PhaseStarts() const;

private:
    struct Core {
        double cycles = 0.0;
        PipeCycles busy{};
    };
    /// A phase of all cores.
    struct PhaseSum {
        std::vector<double> cycles;  ///< by core
        uint64_t firstTouchBytes = 0;
        uint64_t l2Bytes = 0;
    };

    PhaseTime TimeOf(const PhaseSum& phase) const;

    const SocFigures& soc_;
    std::vector<Core> cores_;
    std::vector<PhaseSum> phases_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_ESTIMATE_H
