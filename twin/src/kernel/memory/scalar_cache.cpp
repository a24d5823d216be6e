#include "kernel/memory/scalar_cache.h"

#include <algorithm>

#include "opforge_twin/arithmetic.h"

namespace opforge::twin::kernel {

void ScalarCache::MarkDirty(uint64_t address, uint64_t bytes, const Location& at)
{
    DirtyLine& line = dirty_[address / kLineBytes];
    line.bytes |= ((uint64_t{1} << bytes) - 1) << address % kLineBytes;
    line.at = at;
    dirtyAt_ = at;
}

const ScalarCache::DirtyLine* ScalarCache::FindDirty(uint64_t begin, uint64_t end, bool whole) const
{
    for (auto line = dirty_.lower_bound(begin / kLineBytes); line != dirty_.end(); ++line) {
        const uint64_t start = line->first * kLineBytes;
        if (start >= end) {
            break;
        }
        const uint64_t first = begin > start ? begin - start : 0;
        const uint64_t last = std::min(end - start, kLineBytes) - 1;
        const uint64_t asked = ~uint64_t{0} >> (kLineBytes - 1 - (last - first)) << first;
        if (whole || (line->second.bytes & asked) != 0) {
            return &line->second;
        }
    }
    return nullptr;
}

std::vector<uint64_t> ScalarCache::DirtyLinesIn(uint64_t begin, uint64_t end) const
{
    std::vector<uint64_t> lines;
    for (auto line = dirty_.lower_bound(begin / kLineBytes); line != dirty_.end() && line->first * kLineBytes < end;
         ++line) {
        lines.push_back(line->first * kLineBytes);
    }
    return lines;
}

void ScalarCache::Drop(uint64_t address, uint64_t base, GlobalOrder* region)
{
    const uint64_t line = RoundDown(address, kLineBytes);
    if (const auto dirty = dirty_.find(address / kLineBytes); dirty != dirty_.end()) {
        dirty->second.bytes &= (uint64_t{1} << (address - line)) - 1;
        if (dirty->second.bytes == 0) {
            dirty_.erase(dirty);
        }
    }
    cached_.erase(address / kLineBytes);
    droppedLines_.insert(address / kLineBytes);
    if (region != nullptr) {
        See(address, base, *region);
    }
}

void ScalarCache::See(uint64_t address, uint64_t base, GlobalOrder& region)
{
    const uint64_t end = RoundDown(address, kLineBytes) + kLineBytes;
    for (const GlobalOrder::Writer& write : region.WritersOf(address - base, end - base)) {
        seen_[base + write.begin] = {write.core, write.time};
    }
}

void ScalarCache::Fetch(uint64_t address, uint64_t base, GlobalOrder& region)
{
    if (cached_.insert(address / kLineBytes).second) {
        See(std::max(RoundDown(address, kLineBytes), base), base, region);
    }
}

void ScalarCache::DropAll(uint32_t core, uint32_t now, const CoreOrder& order)
{
    dirty_.clear();
    cached_.clear();
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
           (write.core == core_ ? write.time < droppedAt_ : write.time <= dropped_.Acquired(write.core, write.pipe));
}

}  // namespace opforge::twin::kernel
