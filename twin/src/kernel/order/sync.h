// Conditions of synchronization between cores.
#ifndef OPFORGE_TWIN_KERNEL_ORDER_SYNC_H
#define OPFORGE_TWIN_KERNEL_ORDER_SYNC_H

#include "kernel/exec/block.h"

namespace opforge::twin::kernel {

/// Ends the block unless the cores of its launch can wait for each other.
void RequireBarrier(Block& block, const Call& call);
/// Ends the block unless the chip has groups of cores.
void RequireGroups(Block& block, const Call& call);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_ORDER_SYNC_H
