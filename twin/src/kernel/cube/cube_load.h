// Common parts of loads from L1 to L0A and L0B.
#ifndef OPFORGE_TWIN_KERNEL_CUBE_CUBE_LOAD_H
#define OPFORGE_TWIN_KERNEL_CUBE_CUBE_LOAD_H

#include "kernel/exec/block.h"

namespace opforge::twin::kernel {

/// Ends the block unless `dst` is L0A or L0B; returns the memory.
LocalUnit::Id RequireL0(Block& block, const LocalView& dst, const Call& call);
/// Charges the time of a load from L1.
void ChargeLoad(Block& block, const LocalView& dst, int64_t bytes, const Call& call, Pipe pipe = Pipe::kMte1);
/// Reads of L1 whose contents may be undefined as long as no product uses them.
void NoteLoad(Block& block, int64_t address, int64_t bytes, const Call& call);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_CUBE_CUBE_LOAD_H
