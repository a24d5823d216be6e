#include "kernel/memory/l2_cache.h"

#include <algorithm>

#include "kernel/timing/time_model.h"

namespace opforge::twin::kernel {

namespace {

constexpr uint64_t kSectorBytes = GlobalMemory::kSectorBytes;

}  // namespace

L2Cache::L2Cache(const GlobalMemory& memory, uint64_t bytes)
    : memory_(memory),
      capacity_(bytes / kSectorBytes),
      dirtyCapacity_(static_cast<uint64_t>(static_cast<double>(capacity_) * time_model::kL2WriteBackShare)),
      touchedIn_(memory.Regions().size()),
      epochs_(2)
{
}

bool L2Cache::Touch(Sector& sector, bool isWritten, Transfer& transfer)
{
    const bool isResident = sector.epoch >= oldest_;
    if (isResident) {
        --epochs_[sector.epoch].sectors;
    } else {
        ++resident_;
    }
    const bool isRecent = sector.epoch >= oldestDirty_;
    recent_ += isRecent ? 0 : 1;
    if (isRecent && sector.isDirty != 0) {
        --epochs_[sector.epoch].dirty;
    }
    sector.isDirty = isWritten || (isRecent && sector.isDirty != 0) ? 1 : 0;
    sector.epoch = static_cast<uint32_t>(epochs_.size() - 1);
    ++epochs_.back().sectors;
    epochs_.back().dirty += sector.isDirty;
    while (resident_ > capacity_) {
        resident_ -= epochs_[oldest_++].sectors;
    }
    while (recent_ > dirtyCapacity_ && oldestDirty_ + 1 < epochs_.size()) {
        const Epoch& epoch = epochs_[oldestDirty_++];
        recent_ -= std::min(recent_, epoch.sectors);
        transfer.gmBytes += epoch.dirty * kSectorBytes;
    }
    if (++touchesOfEpoch_ == kEpochSectors) {
        touchesOfEpoch_ = 0;
        epochs_.emplace_back();
    }
    return isResident;
}

Transfer L2Cache::Move(const DmaRecord& record)
{
    const uint64_t end = memory_.Regions()[record.region].bytes;
    std::vector<Sector>& touchedIn = touchedIn_[record.region];
    touchedIn.resize(end / kSectorBytes + 1);
    const bool isWritten = record.pipe != Pipe::kMte2;
    Transfer transfer;
    for (uint32_t row = 0; row < record.rows; ++row) {
        const uint64_t offset = record.OffsetOf(row);
        if (offset > end || record.rowBytes > end - offset) {
            continue;  // the rows of the instruction have another pattern
        }
        if (!record.isCached) {
            transfer += Uncached(offset, offset + record.rowBytes);
            continue;
        }
        for (uint64_t sector = offset / kSectorBytes; sector * kSectorBytes < offset + record.rowBytes; ++sector) {
            if (Touch(touchedIn[sector], isWritten, transfer)) {
                transfer.l2Bytes += kSectorBytes;
            } else {
                // The last sector of an argument ends with the argument.
                const uint64_t bytes = std::min(kSectorBytes, end - sector * kSectorBytes);
                transfer.firstTouchBytes += bytes;
                transfer.gmBytes += isWritten ? 0 : bytes;
            }
        }
    }
    return transfer;
}

}  // namespace opforge::twin::kernel
