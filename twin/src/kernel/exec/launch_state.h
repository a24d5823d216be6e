// Shared state of the blocks of a launch.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_LAUNCH_STATE_H
#define OPFORGE_TWIN_KERNEL_EXEC_LAUNCH_STATE_H

#include <atomic>
#include <string>

#include "kernel/exec/core_layout.h"
#include "kernel/exec/sites.h"
#include "kernel/exec/soc.h"
#include "kernel/memory/global_memory.h"
#include "kernel/timing/lines.h"
#include "opforge_twin/launch.h"

namespace opforge::twin::kernel {

class Scheduler;

/// How a kernel has declared its task type; later ones have priority.
enum class Declaration : uint8_t { kNone, kDefault, kKey };

struct LaunchState {
    const LaunchRequest& request;
    const Options& options;
    const SocFigures& soc;
    CoreLayout layout;
    uint64_t seed;
    GlobalMemory memory{};
    Sites sites{};
    uint32_t workspaceRegion = 0;
    uint32_t tilingRegion = 0;
    Scheduler* scheduler = nullptr;
    std::string tracePath{};  ///< empty: no trace
    bool hasLines = false;    ///< whether times are recorded by line
    Chains chains{};
    bool computes = true;                          ///< false: only times count, no instruction moves or changes data
    Declaration declaration = Declaration::kNone;  ///< of the task type of the layout
    std::atomic<Declaration> declaredBy{Declaration::kNone};  ///< of `declared`
    std::atomic<const TaskType*> declared{nullptr};  ///< a type with other cores than the layout: the launch restarts
    std::atomic<uint64_t> dmaCount{0};

    /// Maximum number of DMA instructions whose traffic is recorded until the launch ends: 150 MB of records.
    static constexpr uint64_t kMostRecords = uint64_t{2} << 20;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_LAUNCH_STATE_H
