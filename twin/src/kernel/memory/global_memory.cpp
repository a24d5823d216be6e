#include "kernel/memory/global_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include "opforge_twin/arithmetic.h"

namespace opforge::twin::kernel {

namespace {

constexpr uint64_t kWideGuard = uint64_t{1} << 33;
constexpr uint64_t kNarrowGuard = uint64_t{1} << 26;

void* ReserveRange(uint64_t bytes)
{
    void* range = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return range == MAP_FAILED ? nullptr : range;
}

}  // namespace

GlobalMemory::~GlobalMemory()
{
    if (begin_ != 0) {
        munmap(reinterpret_cast<void*>(static_cast<uintptr_t>(begin_)), reserved_);
    }
}

uint32_t GlobalMemory::Add(Region region)
{
    const uint64_t sectors = RoundUp(region.bytes, kSectorBytes) / kSectorBytes;
    region.touched = std::make_unique<std::atomic<uint64_t>[]>(sectors / 64 + 1);
    const auto index = static_cast<uint32_t>(regions_.size());
    if (region.isPlaced) {
        placed_.emplace(region.base, index);
    }
    regions_.push_back(std::move(region));
    return index;
}

void GlobalMemory::Reserve()
{
    uint64_t largest = 0;
    for (const Region& region : regions_) {
        largest = std::max(largest, region.bytes);
    }
    for (const uint64_t guard : {kWideGuard, kNarrowGuard}) {
        pitch_ = RoundUp(largest + 2 * guard, kAlignment);
        reserved_ = pitch_ * std::max<uint64_t>(regions_.size(), 1);
        if (void* range = ReserveRange(reserved_); range != nullptr) {
            begin_ = reinterpret_cast<uintptr_t>(range);
            uint64_t base = begin_ + guard;
            for (Region& region : regions_) {
                if (!region.isPlaced) {
                    region.base = region.host == nullptr ? 0 : base + region.misalignment % kAlignment;
                }
                base += pitch_;
            }
            return;
        }
    }
    throw std::system_error(errno, std::generic_category(), "reserving addresses for the kernel's arguments");
}

Region* GlobalMemory::Find(uint64_t address)
{
    if (!IsReserved(address)) {
        return FindPlaced(address);
    }
    Region& region = regions_[(address - begin_) / pitch_];
    return region.base == 0 || region.isPlaced ? nullptr : &region;
}

Region* GlobalMemory::FindPlaced(uint64_t address)
{
    Region* nearest = nullptr;
    uint64_t distance = kNarrowGuard;
    const auto after = placed_.upper_bound(address);
    if (after != placed_.end() && regions_[after->second].hasGuards && after->first - address < distance) {
        nearest = &regions_[after->second];
        distance = after->first - address;
    }
    if (after != placed_.begin()) {
        Region& before = regions_[std::prev(after)->second];
        const uint64_t offset = address - before.base;
        if (offset < before.bytes || (before.hasGuards && offset - before.bytes < distance)) {
            nearest = &before;
        }
    }
    return nearest;
}

uint64_t GlobalMemory::FirstTouch(Region& region, uint64_t offset, uint64_t bytes)
{
    const uint64_t first = offset / kSectorBytes;
    const uint64_t last = (offset + bytes - 1) / kSectorBytes;
    uint64_t fresh = 0;
    for (uint64_t word = first / 64; word <= last / 64; ++word) {
        uint64_t wanted = ~uint64_t{0};
        if (word == first / 64) {
            wanted &= ~uint64_t{0} << (first % 64);
        }
        if (word == last / 64) {
            wanted &= ~uint64_t{0} >> (63 - last % 64);
        }
        if ((region.touched[word].load(std::memory_order_relaxed) & wanted) == wanted) {
            continue;
        }
        const uint64_t before = region.touched[word].fetch_or(wanted, std::memory_order_relaxed);
        uint64_t added = wanted & ~before;
        fresh += static_cast<uint64_t>(__builtin_popcountll(added)) * kSectorBytes;
        // The last sector of an argument ends with the argument.
        const uint64_t tail = region.bytes / kSectorBytes;
        if (region.bytes % kSectorBytes != 0 && word == tail / 64 && (added >> (tail % 64) & 1U) != 0) {
            fresh -= kSectorBytes - region.bytes % kSectorBytes;
        }
    }
    return fresh;
}

}  // namespace opforge::twin::kernel
