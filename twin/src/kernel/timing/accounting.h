// The traffic and the products of one block.
#ifndef OPFORGE_TWIN_KERNEL_TIMING_ACCOUNTING_H
#define OPFORGE_TWIN_KERNEL_TIMING_ACCOUNTING_H

#include <cstdint>
#include <deque>

#include "kernel/exec/launch_state.h"
#include "kernel/exec/registers.h"
#include "kernel/timing/timeline.h"

namespace opforge::twin::kernel {

/// Sums over a block, or over the blocks of a launch.
struct Totals {
    uint64_t bytesRead = 0;
    uint64_t bytesWritten = 0;
    uint64_t dmaCount = 0;
    uint64_t macs = 0;           ///< products of the cube unit, without padding
    double cubeCycles = 0.0;     ///< their cycles at the peak rate of the unit
    uint64_t unalignedRead = 0;  ///< read bytes of rows that do not start and end at a multiple of 32 bytes
    uint64_t factorRead = 0;     ///< read bytes of blocks with products, and those of such rows
    uint64_t unalignedFactorRead = 0;

    void operator+=(const Totals& more);
    /// Whether the factors of the products have rows that are not multiples of 32 bytes.
    bool HasUnalignedFactors() const;
};

class Accounting {
public:
    Accounting(LaunchState& launch, const AtomicMode& atomic, Timeline& timeline)
        : launch_(launch), atomic_(atomic), timeline_(timeline)
    {
    }

    /// A row of a DMA instruction between global memory and the core.
    void CountRow(const GlobalView& view, uint64_t address, uint64_t bytes, bool isWritten);
    /// The end of a DMA instruction whose rows were counted.
    void EndDma(Pipe pipe, const Call& call, double leastCycles = 0.0);
    /// Products of a Mmad; `peak`: products per cycle.
    void CountProducts(uint64_t macs, double peak);

    const Totals& Sums() const { return sums_; }
    /// The DMA instructions of the block; the estimate moves them.
    std::deque<DmaRecord>& Traffic() { return traffic_; }

private:
    void AddRow(uint64_t offset, uint32_t region);

    LaunchState& launch_;
    const AtomicMode& atomic_;
    Timeline& timeline_;
    Totals sums_;
    DmaRecord dma_;                       ///< the running instruction
    uint64_t rowBegin_ = 0, rowEnd_ = 0;  ///< of its last row
    uint32_t otherFragments_ = 0;         ///< of its earlier rows
    std::deque<DmaRecord> traffic_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_TIMING_ACCOUNTING_H
