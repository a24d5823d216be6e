// Functions of the buffers of a TPipe and of a TBufPool.
#ifndef OPFORGE_TWIN_KERNEL_MEMORY_BUFFERS_H
#define OPFORGE_TWIN_KERNEL_MEMORY_BUFFERS_H

#include "kernel/memory/buffer_list.h"

namespace opforge::twin::kernel {

/// Ends the block if `unit` has no memory for the buffers.
void RequireBudget(Block& block, LocalUnit& unit, const BufferRequest& request, const Call& call);
uint32_t AddBuffer(Block& block, LocalUnit& unit, const BufferRequest& request, BufferState state, uint32_t queue,
                   const Call& call);
/// Reports the newest buffer if it or another one has a given address, and both overlap.
void CheckSeparate(Block& block, const Call& call);
LocalView ViewOf(const LocalMemory& local, uint32_t index);
/// Ends the flags of a buffer, and reports a tensor that the kernel has not freed.
void EndBuffer(Block& block, Buffer& buffer, const Call& call, bool checked);
/// The memory that a TPipe (kNoBuffer) or a TBufPool divides into `buffers` more buffers.
LocalUnit& ArenaOf(Block& block, uint32_t pool, AscendC::TPosition position, int64_t buffers, const Call& call);

/// The tensor at an address of `unit`, with the buffer kNoBuffer if no buffer has the address.
LocalView FindAt(const LocalMemory& local, const LocalUnit& unit, uint64_t address, Dtype dtype, int32_t size);
[[noreturn]] void FailNoBuffer(Block& block, uint64_t address, Pipe pipe, const Call& call);

/// Reports a queue if the queues of its position have too many buffers.
void RequireQueueBuffers(Block& block, AscendC::TPosition position, int64_t buffers, const Call& call);
/// Adds a queue without buffers; returns its number.
uint32_t NewQueue(LocalMemory& local, AscendC::TPosition source, AscendC::TPosition destination, int64_t depth);
/// Ends the block if the pool has no memory.
Pool& PoolAt(Block& block, uint32_t pool, const Call& call);

/// The pool number of a TPipe that is not the live one.
constexpr uint32_t kPoolOfSecondPipe = LocalView::kNoBuffer - 2;
[[noreturn]] void FailSecondPipe(Block& block, const Call& call);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_MEMORY_BUFFERS_H
