// Waits of cores for other cores inside a phase. After L2 has changed the times of the cores, these waits end at other
// times.
#ifndef OPFORGE_TWIN_KERNEL_TIMING_CORE_WAITS_H
#define OPFORGE_TWIN_KERNEL_TIMING_CORE_WAITS_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace opforge::twin::kernel {

/// A block that sets a flag or reaches a barrier, in cycles since the start of the phase.
struct CoreRelease {
    uint32_t block = 0;
    double at = 0.0;
};
using CoreReleases = std::shared_ptr<std::vector<CoreRelease>>;

/// A wait of a core until `delay` cycles after all `releases`: it reaches the wait at `begin` and continues at `end`.
struct CoreWait {
    CoreReleases releases;
    double delay = 0.0;
    double begin = 0.0;
    double end = 0.0;
};

/// A change of the cycles of an instruction that begins `at` cycles after the start of the phase.
struct CycleChange {
    double at = 0.0;
    double cycles = 0.0;
};

/// The schedule of a core in a phase. L2 changes its path by `change`, at the times of `changes`.
struct CoreSchedule {
    double cycles = 0.0;
    double settled = 0.0;  ///< cycles with the changes, but without those of other cores
    double change = 0.0;
    std::vector<CycleChange> changes;
    std::vector<CoreWait> waits;
};

/// Returns the cycles of each core after the changes. A wait ends when the changed times of its releases permit it.
/// `coreOf` has the core of each block.
std::vector<double> SettleWaits(std::vector<CoreSchedule>& cores, const std::vector<size_t>& coreOf);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_TIMING_CORE_WAITS_H
