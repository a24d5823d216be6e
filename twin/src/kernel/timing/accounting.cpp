#include "kernel/timing/accounting.h"

#include "opforge_twin/arithmetic.h"

namespace opforge::twin::kernel {

void Totals::operator+=(const Totals& more)
{
    bytesRead += more.bytesRead;
    bytesWritten += more.bytesWritten;
    dmaCount += more.dmaCount;
    macs += more.macs;
    cubeCycles += more.cubeCycles;
}

void Accounting::CountRow(const GlobalView& view, uint64_t address, uint64_t bytes, bool isWritten)
{
    constexpr uint64_t sector = GlobalMemory::kSectorBytes;
    Region* region = launch_.memory.Find(view.address);
    (isWritten ? sums_.bytesWritten : sums_.bytesRead) += bytes;
    const uint64_t offset = address - region->base;
    const uint64_t sectors = (offset + bytes - 1) / sector - offset / sector + 1;
    const uint64_t fresh = GlobalMemory::FirstTouch(*region, offset, bytes);
    if (dma_.rows == 0) {
        dma_.region = launch_.memory.IndexOf(*region);
        dma_.offset = offset;
        dma_.rowBytes = static_cast<uint32_t>(bytes);
    } else if (dma_.rows == 1) {
        dma_.pitch = offset - dma_.offset;
    }
    ++dma_.rows;
    dma_.charged.firstTouchBytes += fresh;
    dma_.charged.l2Bytes += RoundDown(sectors * sector - fresh, sector);
}

void Accounting::EndDma(Pipe pipe, const Call& call, double leastCycles)
{
    ++sums_.dmaCount;
    dma_.pipe = pipe;
    dma_.leastCycles = leastCycles;
    dma_.isAtomic = pipe != Pipe::kMte2 && atomic_.IsOn();
    dma_.phase = static_cast<uint32_t>(timeline_.Phases().size());
    dma_.site = timeline_.Site();
    timeline_.RunDma(dma_, call);
    if (launch_.dmaCount.fetch_add(1, std::memory_order_relaxed) < LaunchState::kMostRecords) {
        traffic_.push_back(dma_);
    }
    dma_ = {};
}

void Accounting::CountProducts(uint64_t macs, double peak)
{
    sums_.macs += macs;
    sums_.cubeCycles += static_cast<double>(macs) / peak;
}

}  // namespace opforge::twin::kernel
