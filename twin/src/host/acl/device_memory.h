// Device memory: addresses that only the runtime can follow, and the bytes behind them.
#ifndef OPFORGE_TWIN_HOST_ACL_DEVICE_MEMORY_H
#define OPFORGE_TWIN_HOST_ACL_DEVICE_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>

namespace opforge::twin::host {

/// The bytes are aligned as their address on the device is, so that what a kernel sees of an address is true.
struct DeviceAllocation {
    static constexpr size_t kAlignment = 512;

    struct Release {
        void operator()(uint8_t* data) const { ::operator delete(data, std::align_val_t(kAlignment)); }
    };

    uintptr_t begin = 0;
    size_t bytes = 0;
    std::unique_ptr<uint8_t, Release> content;
};

/// Bytes of device memory in use: an allocation cannot be freed while one lives.
struct DeviceSpan {
    uint8_t* data = nullptr;
    std::shared_ptr<DeviceAllocation> allocation;
};

/// Hands out addresses of a range without access rights, so host code that follows a device pointer dies of it as it
/// would with a device. Freed addresses are given out again as late as possible.
class DeviceMemory {
public:
    static DeviceMemory& Instance();

    /// Fresh memory, filled with a pattern that is a NaN in most types; null when the device is full.
    void* Allocate(size_t bytes);
    /// False, with the reason, when `address` is not the start of a live allocation or a task uses it.
    bool Free(void* address, std::string& problem);
    /// The bytes behind [address, address + bytes). False, with the reason, when they are not all in one allocation.
    bool Resolve(const void* address, uint64_t bytes, DeviceSpan& span, std::string& problem);
    /// Whether the address is one of the device's, live or not.
    bool IsDevice(const void* address) const;

    size_t TotalBytes() const { return kTotalBytes; }
    size_t FreeBytes() const;
    /// False when the limits of the process left no addresses to reserve: then nothing can be allocated.
    bool HasAddresses() const { return begin_ != 0; }
    size_t LiveCount() const;
    /// Forgets all allocations, as the reset of a device does.
    void Clear();

private:
    static constexpr size_t kTotalBytes = size_t{64} << 30;
    static constexpr size_t kAlignment = DeviceAllocation::kAlignment;

    DeviceMemory();
    uintptr_t FindGap(size_t bytes);
    std::string Describe(uintptr_t address, uint64_t bytes) const;

    mutable std::mutex lock_;
    uintptr_t begin_ = 0;
    uintptr_t end_ = 0;
    uintptr_t next_ = 0;
    size_t used_ = 0;
    std::map<uintptr_t, std::shared_ptr<DeviceAllocation>> live_;
    std::deque<std::pair<uintptr_t, size_t>> freed_;  ///< the latest ones, for messages
};

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACL_DEVICE_MEMORY_H
