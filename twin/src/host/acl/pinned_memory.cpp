#include "host/acl/pinned_memory.h"

#include <cstdlib>

namespace opforge::twin::host {

PinnedMemory& PinnedMemory::Instance()
{
    static auto* memory = new PinnedMemory();
    return *memory;
}

void* PinnedMemory::Allocate(size_t bytes)
{
    const std::shared_ptr<void> block(std::malloc(bytes), std::free);
    if (block != nullptr) {
        const std::lock_guard<std::mutex> guard(lock_);
        live_.emplace(block.get(), Entry{bytes, block});
    }
    return block.get();
}

std::string PinnedMemory::Free(void* address)
{
    const std::lock_guard<std::mutex> guard(lock_);
    const auto found = live_.find(address);
    if (found == live_.end()) {
        return "the pointer is not one of aclrtMallocHost, or it was freed before";
    }
    if (found->second.block.use_count() > 1) {
        return "the memory is used by a copy that waits or runs; synchronise its stream before freeing";
    }
    live_.erase(found);
    return "";
}

std::shared_ptr<void> PinnedMemory::Holding(const void* address)
{
    const std::lock_guard<std::mutex> guard(lock_);
    auto next = live_.upper_bound(const_cast<void*>(address));
    if (next == live_.begin()) {
        return nullptr;
    }
    const auto& [start, entry] = *--next;
    return static_cast<const char*>(address) < static_cast<char*>(start) + entry.bytes ? entry.block : nullptr;
}

size_t PinnedMemory::LiveCount() const
{
    const std::lock_guard<std::mutex> guard(lock_);
    return live_.size();
}

size_t PinnedMemory::LiveBytes() const
{
    const std::lock_guard<std::mutex> guard(lock_);
    size_t bytes = 0;
    for (const auto& item : live_) {
        bytes += item.second.bytes;
    }
    return bytes;
}

}  // namespace opforge::twin::host
