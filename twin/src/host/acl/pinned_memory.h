// Host memory of aclrtMallocHost.
#ifndef OPFORGE_TWIN_HOST_ACL_PINNED_MEMORY_H
#define OPFORGE_TWIN_HOST_ACL_PINNED_MEMORY_H

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace opforge::twin::host {

/// Keeps a block until it is freed and no copy uses it.
class PinnedMemory {
public:
    static PinnedMemory& Instance();

    /// Returns null if no memory is left.
    void* Allocate(size_t bytes);
    /// Frees a block. Returns the reason of a failure; empty on success.
    std::string Free(void* address);
    /// Returns the block that contains `address` and keeps it alive; null for other memory.
    std::shared_ptr<void> Holding(const void* address);

    size_t LiveCount() const;
    size_t LiveBytes() const;

private:
    struct Entry {
        size_t bytes = 0;
        std::shared_ptr<void> block;
    };

    mutable std::mutex lock_;
    std::map<void*, Entry> live_;
};

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACL_PINNED_MEMORY_H
