// Hardware parameters of the SoCs that the twin emulates.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_SOC_H
#define OPFORGE_TWIN_KERNEL_EXEC_SOC_H

#include <cstdint>
#include <string>
#include <string_view>

namespace opforge::twin {

struct SocFigures {
    const char* name;
    const char* directory;
    int64_t arch;
    int64_t cubeCores;
    int64_t vectorCores;
    int64_t mhz;
    int64_t ubBytes;  ///< the size of UB that the platform reports; slightly less than the memory
    int64_t l1Bytes;
    int64_t l0aBytes;
    int64_t l0bBytes;
    int64_t l0cBytes;
    int64_t l2Bytes;
    bool isCoupled;            ///< whether each core has a cube and a vector unit
    int64_t eventIds;          ///< of a pair of pipes
    int64_t mostQueueBuffers;  ///< of all queues of one position
    int64_t systemWorkspaceMib;

    /// Whether kernels have groups of cores: CubeResGroupHandle and GroupBarrier.
    bool HasGroups() const { return std::string_view(directory) == "ascend910b"; }
    /// Bytes of a workspace that are reserved for the system.
    uint64_t SystemWorkspaceBytes() const { return static_cast<uint64_t>(systemWorkspaceMib) << 20; }
};

/// The default SoC of a process.
const SocFigures& DefaultSoc();

/// Null if the SoC does not exist.
const SocFigures* FindSoc(const std::string& name);

}  // namespace opforge::twin

#endif  // OPFORGE_TWIN_KERNEL_EXEC_SOC_H
