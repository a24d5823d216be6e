// Runs the kernel function of one block: every failure becomes a finding.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_GUARDED_CALL_H
#define OPFORGE_TWIN_KERNEL_EXEC_GUARDED_CALL_H

#include <functional>

#include "kernel/exec/block.h"

namespace opforge::twin::kernel {

/// Stack of a kernel on the device.
inline constexpr uint64_t kDeviceStackBytes = 32768;

/// Calls `kernel` as `block`. Marks the block as stopped if the kernel did not return.
void CallGuarded(Block& block, const std::function<void()>& kernel);

/// Called after the finding of a fault in a function of the C library, which may hold a lock.
using LibraryFaultHandler = void (*)(const Block& block);
void SetLibraryFaultHandler(LibraryFaultHandler handler);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_GUARDED_CALL_H
