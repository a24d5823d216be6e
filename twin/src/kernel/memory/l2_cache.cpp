#include "kernel/memory/l2_cache.h"

#include <algorithm>

namespace opforge::twin::kernel {

namespace {

constexpr uint64_t kSectorBytes = GlobalMemory::kSectorBytes;

}  // namespace

L2Cache::L2Cache(const GlobalMemory& memory, uint64_t bytes)
    : memory_(memory), capacity_(bytes / kSectorBytes), touchedIn_(memory.Regions().size()), lastTouched_(2)
{
}

bool L2Cache::Touch(uint32_t& touchedIn)
{
    const bool isResident = touchedIn >= oldest_;
    if (isResident) {
        --lastTouched_[touchedIn];
    } else {
        ++resident_;
    }
    touchedIn = static_cast<uint32_t>(lastTouched_.size() - 1);
    ++lastTouched_.back();
    while (resident_ > capacity_) {
        resident_ -= lastTouched_[oldest_++];
    }
    if (++touchesOfEpoch_ == kEpochSectors) {
        touchesOfEpoch_ = 0;
        lastTouched_.push_back(0);
    }
    return isResident;
}

Transfer L2Cache::Move(const DmaRecord& record)
{
    const uint64_t end = memory_.Regions()[record.region].bytes;
    std::vector<uint32_t>& touchedIn = touchedIn_[record.region];
    touchedIn.resize(end / kSectorBytes + 1);
    Transfer transfer;
    for (uint64_t row = 0; row < record.rows; ++row) {
        const uint64_t offset = record.offset + row * record.pitch;
        for (uint64_t sector = offset / kSectorBytes; sector * kSectorBytes < offset + record.rowBytes; ++sector) {
            if (Touch(touchedIn[sector])) {
                transfer.l2Bytes += kSectorBytes;
            } else {
                // The last sector of an argument is as long as the argument is.
                transfer.firstTouchBytes += std::min(kSectorBytes, end - sector * kSectorBytes);
            }
        }
    }
    return transfer;
}

}  // namespace opforge::twin::kernel
