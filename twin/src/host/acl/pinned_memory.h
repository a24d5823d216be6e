// Host memory of aclrtMallocHost.
#ifndef OPFORGE_TWIN_HOST_ACL_PINNED_MEMORY_H
#define OPFORGE_TWIN_HOST_ACL_PINNED_MEMORY_H

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace opforge::twin::host {

/// A block lives until it is freed and no copy uses it.
class PinnedMemory {
public:
    static PinnedMemory& Instance();

    /// Null when there is no memory.
    void* Allocate(size_t bytes);
    /// What is wrong with freeing `address`; empty when it is done.
    std::string Free(void* address);
    /// The block in which `address` lies, kept alive; null for other memory.
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
