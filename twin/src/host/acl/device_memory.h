// Device memory: addresses that only the runtime can access, and the bytes that back them.
#ifndef OPFORGE_TWIN_HOST_ACL_DEVICE_MEMORY_H
#define OPFORGE_TWIN_HOST_ACL_DEVICE_MEMORY_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "kernel/memory/written_bytes.h"

namespace opforge::twin::host {

/// Opens a new file without a path, in memory if the system permits it; negative on failure.
int OpenMemoryFile(const char* name);

/// The bytes have the same alignment as their device address, so alignment checks in a kernel are exact.
struct DeviceAllocation {
    static constexpr size_t kAlignment = 512;

    struct Release {
        size_t mapped;  ///< 0: allocated by `operator new`

        explicit Release(size_t bytes) : mapped(bytes) {}
        void operator()(uint8_t* data) const;
    };

    uintptr_t begin = 0;
    size_t bytes = 0;
    std::unique_ptr<uint8_t, Release> content{nullptr, Release(0)};
    /// The bytes that host code or a kernel has written; null if they are not checked.
    std::shared_ptr<kernel::WrittenBytes> written;
    std::atomic<bool> isFreed{false};
};

/// Device memory in use. A span keeps the bytes of its allocation.
struct DeviceSpan {
    uint8_t* data = nullptr;
    std::shared_ptr<DeviceAllocation> allocation;

    /// The position of `data` in the allocation.
    uint64_t Offset() const { return static_cast<uint64_t>(data - allocation->content.get()); }
    /// Notes that host code or an operator has written the first bytes of the span.
    void MarkWritten(uint64_t bytes) const
    {
        if (allocation->written != nullptr) {
            allocation->written->Mark(Offset(), Offset() + bytes);
        }
    }
};

/// Allocates addresses in a range without access rights. Host code that dereferences a device pointer crashes, as on a
/// device. Freed addresses are reused as late as possible.
class DeviceMemory {
public:
    static DeviceMemory& Instance();

    /// Allocates memory filled with a pattern of huge finite values. Returns null if the device memory is full.
    void* Allocate(size_t bytes);
    /// Returns false and the reason if `address` is not the start of a live allocation, or a task uses it and not
    /// `mayBeUsed`. Tasks of captures with this memory fail later.
    bool Free(void* address, bool mayBeUsed, std::string& problem);
    /// Finds the bytes of [address, address + bytes). Returns false and the reason if one allocation does not contain
    /// them all.
    bool Resolve(const void* address, uint64_t bytes, DeviceSpan& span, std::string& problem);
    /// Whether the address is in the device address range, allocated or not.
    bool IsDevice(const void* address) const;

    /// Lets kernels dereference pointers to later allocations (Open). The host code of a program cannot.
    void MakeReadable() { isReadable_ = true; }
    /// Opens or closes an allocation for loads, and for stores if `isWritable`, by their device address.
    void Open(const DeviceAllocation& allocation, bool isOpen, bool isWritable);

    size_t TotalBytes() const { return kTotalBytes; }
    size_t FreeBytes() const;
    /// False if the process limits prevented the reservation of addresses. Then every allocation fails.
    bool HasAddresses() const { return begin_ != 0; }
    size_t LiveCount() const;
    /// Removes all allocations, as a device reset does.
    void Clear();

private:
    static constexpr size_t kTotalBytes = size_t{64} << 30;
    static constexpr size_t kAlignment = DeviceAllocation::kAlignment;
    /// A multiple of the page size of every host; hosts with aarch64 have pages of 4 or 64 KiB.
    static constexpr size_t kPage = 65536;
    static constexpr size_t kWideGap = size_t{128} << 20;

    DeviceMemory();
    uintptr_t FindGap(size_t bytes);
    void Forget(const DeviceAllocation& allocation) const;
    std::string Describe(uintptr_t address, uint64_t bytes) const;

    mutable std::mutex lock_;
    uintptr_t begin_ = 0;
    uintptr_t end_ = 0;
    uintptr_t next_ = 0;
    size_t used_ = 0;
    bool isReadable_ = false;
    struct Users {
        size_t readers = 0;  ///< launches that an allocation is open for, or the host code
        size_t writers = 0;  ///< those that may store
    };
    std::map<uintptr_t, Users> users_;
    std::map<uintptr_t, std::shared_ptr<DeviceAllocation>> live_;
    std::deque<std::pair<uintptr_t, size_t>> freed_;  ///< the most recent ones, for messages
};

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACL_DEVICE_MEMORY_H
