// The buffers of a memory as text, for messages about its limit.
#ifndef OPFORGE_TWIN_KERNEL_MEMORY_BUFFER_LIST_H
#define OPFORGE_TWIN_KERNEL_MEMORY_BUFFER_LIST_H

#include <string>
#include <vector>

#include "kernel/memory/local_memory.h"

namespace opforge::twin::kernel {

/// The buffers of one call of InitBuffer.
struct BufferRequest {
    AscendC::TPosition position;
    int64_t count;
    int64_t bytes;  ///< of one buffer
    Location at;
};

/// The calls that have divided `unit` so far.
std::vector<BufferRequest> RequestsOf(const LocalMemory& local, const LocalUnit& unit);
/// "x_ VECIN 2 x 4096 bytes (kernel.h:12), VECCALC 1 x 512 bytes (kernel.h:13)".
std::string Describe(const std::vector<BufferRequest>& requests);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_MEMORY_BUFFER_LIST_H
