#include "kernel/timing/accounting.h"

#include <algorithm>

#include "opforge_twin/arithmetic.h"

namespace opforge::twin::kernel {

void Totals::operator+=(const Totals& more)
{
    bytesRead += more.bytesRead;
    bytesWritten += more.bytesWritten;
    dmaCount += more.dmaCount;
    macs += more.macs;
    cubeCycles += more.cubeCycles;
    if (more.macs != 0) {
        factorRead += more.bytesRead;
        unalignedFactorRead += more.unalignedRead;
    }
}

bool Totals::HasUnalignedFactors() const
{
    constexpr uint64_t kTenth = 10;  // the last rows of a product do not count
    return unalignedFactorRead * kTenth > factorRead;
}

namespace {

/// The number of requests of less than 512 bytes in a row: it is split at multiples of 512, 256, 128, 64 and 32 bytes.
uint32_t Fragments(uint64_t begin, uint64_t end)
{
    constexpr uint64_t kLeast = 32;
    constexpr uint64_t kMost = 512;
    uint32_t count = 0;
    begin = RoundDown(begin, kLeast);
    end = RoundUp(end, kLeast);
    while (begin < end) {
        uint64_t piece = kLeast;
        while (piece < kMost && begin % (2 * piece) == 0 && begin + 2 * piece <= end) {
            piece *= 2;
        }
        if (piece == kMost) {
            begin = RoundDown(end, kMost);
            continue;
        }
        begin += piece;
        ++count;
    }
    return count;
}

}  // namespace

Transfer Uncached(uint64_t begin, uint64_t end)
{
    constexpr uint64_t kGmBytes = 256;  // the smallest transfer of global memory
    constexpr uint64_t kSector = GlobalMemory::kSectorBytes;
    const uint64_t sectors = RoundUp(end, kSector) - RoundDown(begin, kSector);
    return {sectors, 0, RoundUp(end, kGmBytes) - RoundDown(begin, kGmBytes)};
}

void Accounting::AddRow(uint64_t offset, uint32_t region)
{
    if (dma_.rows == 0) {
        dma_.region = region;
        dma_.offset = offset;
    } else if (dma_.rows == 1) {
        dma_.pitch = offset - dma_.offset;
    } else if (dma_.matrixRows == 0 && offset != dma_.OffsetOf(dma_.rows)) {
        dma_.matrixRows = dma_.rows;
        dma_.matrixPitch = offset - dma_.offset;
    }
    ++dma_.rows;
    rowBegin_ = offset;
    otherFragments_ = dma_.fragments;
}

void Accounting::CountRow(const GlobalView& view, uint64_t address, uint64_t bytes, bool isWritten)
{
    constexpr uint64_t sector = GlobalMemory::kSectorBytes;
    Region* region = launch_.memory.Find(view.address);
    (isWritten ? sums_.bytesWritten : sums_.bytesRead) += bytes;
    const uint64_t offset = address - region->base;
    if (!isWritten && (offset % kBlockBytes != 0 || bytes % kBlockBytes != 0)) {
        sums_.unalignedRead += bytes;
    }
    // Rows without a gap are one row; no row is longer than the first one.
    const bool continues =
        dma_.rows != 0 && offset == rowEnd_ && (dma_.rows == 1 || offset + bytes - rowBegin_ <= dma_.rowBytes);
    const uint64_t begin = continues ? RoundUp(offset, sector) : offset;
    const uint64_t sectors =
        CeilDiv(offset + bytes, sector) - std::min(begin / sector, CeilDiv(offset + bytes, sector));
    const uint64_t fresh = GlobalMemory::FirstTouch(*region, offset, bytes);
    if (!continues) {
        AddRow(offset, launch_.memory.IndexOf(*region));
    }
    rowEnd_ = offset + bytes;
    dma_.fragments = otherFragments_ + Fragments(rowBegin_, rowEnd_);
    dma_.rowBytes = dma_.rows == 1 ? static_cast<uint32_t>(rowEnd_ - rowBegin_) : dma_.rowBytes;
    dma_.isCached = isWritten ? view.isWriteCached : view.isReadCached;
    dma_.charged += dma_.isCached ? Transfer{fresh, RoundDown(std::max(sectors * sector, fresh) - fresh, sector), fresh}
                                  : Uncached(offset, offset + bytes);
}

void Accounting::EndDma(Pipe pipe, const Call& call, double leastCycles)
{
    ++sums_.dmaCount;
    dma_.pipe = pipe;
    dma_.leastCycles = static_cast<float>(leastCycles);
    dma_.isAtomic = pipe != Pipe::kMte2 && atomic_.IsOn();
    dma_.others = static_cast<uint8_t>(std::min(launch_.request.blockNum - 1, kMostOthers));
    dma_.phase = static_cast<uint16_t>(timeline_.Phases().size());
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
