// Pools whose class the kernel defines: it selects the address of each buffer.
#include <algorithm>

#include "kernel/exec/block.h"
#include "kernel/memory/buffers.h"
#include "opforge_twin/arithmetic.h"

namespace opforge::twin::kernel {

namespace {

/// Adds a buffer at an address of the pool. Buffers may share addresses.
uint32_t Place(Block& block, uint32_t pool, const BufferRequest& request, int64_t address, BufferState state,
               uint32_t queue, const Call& call)
{
    LocalUnit& unit = ArenaOf(block, pool, request.position, 1, call);
    const int64_t first = unit.begin - RequireUnit(block, request.position, call).begin;
    Field("curPoolAddr", address, first, first + unit.bytes - 1, call);
    RequireMultiple("curPoolAddr", address, kBlockBytes, "bytes", "round the length of each buffer up", call);
    const int64_t used = std::max(unit.used, address - first + request.bytes);
    unit.used = address - first;
    RequireBudget(block, unit, request, call);
    const uint32_t buffer = AddBuffer(block, unit, request, state, queue, call);
    block.local.buffers[buffer].pool = pool;
    unit.used = used;
    return buffer;
}

}  // namespace

int64_t PoolAddress(uint32_t pool, AscendC::TPosition position, const Call& call)
{
    const Entry block(call);
    return PoolAt(*block, pool, call).unit.begin - RequireUnit(*block, position, call).begin;
}

uint32_t StartQueue(AscendC::TPosition source, AscendC::TPosition destination, int64_t depth, int64_t buffers,
                    const Call& call)
{
    const Entry block(call);
    Field("num", buffers, 1, LocalMemory::kMaxBuffers, call);
    return NewQueue(block->local, source, destination, depth);
}

void PlaceBuffer(uint32_t queue, uint32_t pool, AscendC::TPosition position, int64_t index, int64_t address,
                 int64_t bytes, const Call& call)
{
    const Entry block(call);
    const uint32_t number = queue - block->local.firstQueue;
    if (queue == LocalView::kNoBuffer || number >= block->local.queues.size()) {
        block->Fail("no_buffer", Pipe::kScalar, call, "the queue has no buffers; call InitStartBufHandle for it first");
    }
    Field("index", index, static_cast<int64_t>(block->local.queues[number].buffers.size()),
          static_cast<int64_t>(block->local.queues[number].buffers.size()), call);
    Field("len", bytes, 1, 4294967295, call);
    RequireQueueBuffers(*block, position, 1, call);
    const BufferRequest request{position, 1, RoundUp(bytes, kBlockBytes), call.at};
    const uint32_t buffer = Place(*block, pool, request, address, BufferState::kFree, queue, call);
    block->local.queues[number].buffers.push_back(buffer);
}

LocalView PlaceScratch(uint32_t pool, AscendC::TPosition position, int64_t address, int64_t bytes, const Call& call)
{
    const Entry block(call);
    Field("len", bytes, 1, 4294967295, call);
    const BufferRequest request{position, 1, RoundUp(bytes, kBlockBytes), call.at};
    return ViewOf(block->local,
                  Place(*block, pool, request, address, BufferState::kScratch, LocalView::kNoBuffer, call));
}

}  // namespace opforge::twin::kernel
