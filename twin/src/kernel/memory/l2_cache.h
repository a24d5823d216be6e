// Decides whether the bytes of a launch come from global memory or L2, by the rule of twin/npu_model.json: a sector is
// a first touch if no core touched it in this launch, or if more than the size of L2 was touched since.
#ifndef OPFORGE_TWIN_KERNEL_MEMORY_L2_CACHE_H
#define OPFORGE_TWIN_KERNEL_MEMORY_L2_CACHE_H

#include <cstdint>
#include <vector>

#include "kernel/memory/global_memory.h"
#include "kernel/timing/timeline.h"

namespace opforge::twin::kernel {

/// L2 with the most recently touched sectors. Touches are grouped in epochs of `kEpochSectors`.
class L2Cache {
public:
    L2Cache(const GlobalMemory& memory, uint64_t bytes);

    /// The sectors of a DMA instruction, in the order of the instructions at L2.
    Transfer Move(const DmaRecord& record);

private:
    static constexpr uint64_t kEpochSectors = 1024;

    /// A sector: the epoch of its last touch (0 for none), and whether its content is not yet written to global memory.
    struct Sector {
        uint32_t epoch : 31;
        uint32_t isDirty : 1;
    };
    struct Epoch {
        uint64_t sectors = 0;  ///< whose last touch was in it
        uint64_t dirty = 0;    ///< of them
    };

    /// Returns whether the sector was in L2, and adds it.
    bool Touch(Sector& sector, bool isWritten, Transfer& transfer);

    const GlobalMemory& memory_;
    uint64_t capacity_;       ///< sectors
    uint64_t dirtyCapacity_;  ///< sectors that may come after a written one until it is written back
    std::vector<std::vector<Sector>> touchedIn_;  ///< by region and sector
    std::vector<Epoch> epochs_;
    uint64_t resident_ = 0;  ///< sectors of the epochs from `oldest_` on
    uint64_t recent_ = 0;    ///< of those from `oldestDirty_` on
    uint32_t oldestDirty_ = 1;
    uint32_t oldest_ = 1;
    uint64_t touchesOfEpoch_ = 0;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_MEMORY_L2_CACHE_H
