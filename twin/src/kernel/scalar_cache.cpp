#include "kernel/scalar_cache.h"

namespace opforge::twin::kernel {

void ScalarCache::MarkDirty(uint64_t address, const Location& at)
{
    dirty_.insert(address / kLineBytes);
    dirtyAt_ = at;
}

void ScalarCache::Drop(uint64_t address, uint64_t base, GlobalOrder* region)
{
    dirty_.erase(address / kLineBytes);
    if (region == nullptr) {
        return;
    }
    const uint64_t line = address / kLineBytes * kLineBytes;
    const uint64_t first = line > base ? line - base : 0;
    for (const GlobalOrder::Writer& write : region->WritersOf(first, line + kLineBytes - base)) {
        seen_[base + write.begin] = {write.core, write.time};
    }
}

void ScalarCache::DropAll(uint32_t core, uint32_t now, const CoreOrder& order)
{
    dirty_.clear();
    core_ = core;
    droppedAt_ = now;
    dropped_ = order;
}

bool ScalarCache::Sees(const GlobalOrder::Writer& write, uint64_t address) const
{
    const auto seen = seen_.find(address);
    if (seen != seen_.end() && seen->second.core == write.core && seen->second.time == write.time) {
        return true;
    }
    return droppedAt_ != 0 &&
           (write.core == core_ ? write.time < droppedAt_ : write.time <= dropped_.Heard(write.core, write.pipe));
}

}  // namespace opforge::twin::kernel
