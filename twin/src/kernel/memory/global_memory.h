// Global memory of one launch: its arguments at separate addresses, far apart from each other.
#ifndef OPFORGE_TWIN_KERNEL_MEMORY_GLOBAL_MEMORY_H
#define OPFORGE_TWIN_KERNEL_MEMORY_GLOBAL_MEMORY_H

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernel/order/global_order.h"
#include "kernel/memory/written_bytes.h"

namespace opforge::twin::kernel {

/// One kernel argument. The kernel uses addresses from `base`, never `host`: the twin can therefore distinguish
/// out-of-range pointers from other arguments.
struct Region {
    std::string name;
    uint8_t* host = nullptr;
    uint64_t bytes = 0;
    uint64_t base = 0;
    bool writable = true;
    uint64_t misalignment = 0;  ///< distance of the first byte from a multiple of kAlignment
    bool isPlaced = false;      ///< `base` was given
    bool hasGuards = true;      ///< no other memory of the process is beside the region
    /// One bit per 128-byte sector that DMA has accessed.
    std::unique_ptr<std::atomic<uint64_t>[]> touched;
    /// The last accesses; null if the region is read-only or order is not checked.
    std::unique_ptr<GlobalOrder> order;
    /// The written bytes; null if the contents are known at launch or are not checked.
    std::shared_ptr<WrittenBytes> written;
    bool isProgramMemory = false;  ///< `written` is that of a program, whose padding may have no value
};

class GlobalMemory {
public:
    static constexpr uint64_t kSectorBytes = 128;
    static constexpr uint64_t kAlignment = 512;  ///< of aclrtMalloc; a tensor may start anywhere in an allocation

    GlobalMemory() = default;
    ~GlobalMemory();
    GlobalMemory(const GlobalMemory&) = delete;
    GlobalMemory& operator=(const GlobalMemory&) = delete;

    /// Call it before Reserve; returns the index of the region.
    uint32_t Add(Region region);
    /// Assigns an address to every region, in a range without access rights.
    void Reserve();

    uint64_t AddressOf(uint32_t region) const { return regions_[region].base; }
    /// The region with `address` inside it or near it; null if there is none.
    Region* Find(uint64_t address);
    uint32_t IndexOf(const Region& region) const { return static_cast<uint32_t>(&region - regions_.data()); }
    const std::vector<Region>& Regions() const { return regions_; }
    bool Contains(uint64_t address) { return IsReserved(address) || FindPlaced(address) != nullptr; }
    /// Returns the bytes of the untouched sectors in [offset, offset + bytes), and marks them.
    static uint64_t FirstTouch(Region& region, uint64_t offset, uint64_t bytes);
    /// Serializes read-modify-write operations by DMA on one sector.
    static std::mutex& SectorLock(uint64_t address) { return locks_[address / kSectorBytes % locks_.size()]; }

private:
    bool IsReserved(uint64_t address) const { return address >= begin_ && address < begin_ + reserved_; }
    Region* FindPlaced(uint64_t address);

    std::vector<Region> regions_;
    std::map<uint64_t, uint32_t> placed_;             ///< base -> index
    inline static std::array<std::mutex, 64> locks_;  // kernels of several streams may add to the same memory
    uint64_t begin_ = 0;
    uint64_t reserved_ = 0;
    uint64_t pitch_ = 0;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_MEMORY_GLOBAL_MEMORY_H
