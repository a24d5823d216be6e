// Common parts of stores to global memory, and the copies that exist on one kind of core only.
#ifndef OPFORGE_TWIN_KERNEL_DMA_DMA_H
#define OPFORGE_TWIN_KERNEL_DMA_DMA_H

#include "kernel/exec/block.h"

namespace opforge::twin::kernel {

void RequireAtomicDtype(Block& block, Dtype dtype, Pipe pipe, const Call& call);
/// The atomic mode applies to every store of the core: a second tensor is rarely intended.
void WatchAtomicMode(Block& block, const GlobalView& dst, Pipe pipe, const Call& call);
/// Stores a row from host memory; the instruction ends with Block::EndDma.
void StoreRow(Block& block, const GlobalView& dst, uint64_t address, const uint8_t* from, int64_t bytes, Pipe pipe,
              const Call& call);
/// Ends the block if a copy from global memory writes L0A or L0B, which only LoadData does.
void RequireNoL0(Block& block, const LocalView& dst, const Call& call);
/// L1 to the bias table, in multiples of 64 bytes, or to the fixpipe buffer, in multiples of 128 bytes.
void CopyInCube(Block& block, const LocalView& dst, const LocalView& src, const Rows& rows, const Call& call);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_DMA_DMA_H
