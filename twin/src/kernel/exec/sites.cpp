#include "kernel/exec/sites.h"

#include <algorithm>

namespace opforge::twin::kernel {

uint32_t Sites::NumberOf(const Site& site)
{
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto next = static_cast<uint32_t>(std::min<size_t>(sites_.size(), kMost));
    const auto [entry, isNew] = numbers_.try_emplace({site.name, site.at.address, site.operand}, next);
    if (isNew && sites_.size() <= kMost) {
        sites_.push_back(site);
    }
    return entry->second;
}

Site Sites::At(uint32_t number) const
{
    const std::lock_guard<std::mutex> lock(mutex_);
    return sites_[number];
}

uint32_t SiteCache::NumberOf(const Site& site)
{
    const auto hash =
        (reinterpret_cast<uintptr_t>(site.at.address) >> 2) * 5 + (reinterpret_cast<uintptr_t>(site.operand) >> 1);
    Known& known = known_[hash % known_.size()];
    if (known.site.at != site.at || known.site.operand != site.operand || known.site.name != site.name) {
        known = {site, sites_.NumberOf(site)};
    }
    return known.number;
}

}  // namespace opforge::twin::kernel
