// Buffers whose addresses the kernel selects: pools with their own class, and InitBuffer with addresses.
#include <algorithm>

#include "kernel/exec/block.h"
#include "kernel/exec/levels.h"
#include "kernel/memory/buffers.h"
#include "opforge_twin/arithmetic.h"
#include "opforge_twin/kernel/pipe.h"

namespace opforge::twin::kernel {

namespace {

/// Adds a buffer at an address of the pool. Buffers may share addresses.
uint32_t Place(Block& block, uint32_t pool, const BufferRequest& request, const char* name, int64_t address,
               BufferState state, uint32_t queue, const Call& call)
{
    LocalUnit& unit = ArenaOf(block, pool, request.position, 1, call);
    const int64_t first = unit.begin - RequireUnit(block, request.position, call).begin;
    Field(name, address, first, first + unit.bytes - 1, call);
    RequireMultiple(name, address, kBlockBytes, "bytes", "round it up", call);
    const int64_t used = std::max(unit.used, address - first + request.bytes);
    unit.used = address - first;
    RequireBudget(block, unit, request, call);
    const uint32_t buffer = AddBuffer(block, unit, request, state, queue, call);
    block.local.buffers[buffer].pool = pool;
    unit.used = used;
    return buffer;
}

}  // namespace

void CheckSeparate(Block& block, const Call& call)
{
    const Buffer& newest = block.local.buffers.back();
    if (newest.pool != LocalView::kNoBuffer || !kGivenAddresses.Has(block.launch.options.level)) {
        return;
    }
    for (const Buffer& other : block.local.buffers) {
        const bool mayOverlap = newest.isPlaced == other.isPlaced && (newest.queue != other.queue || !newest.isPlaced);
        if (&other != &newest && !mayOverlap && other.pool == LocalView::kNoBuffer && !other.isFixed &&
            newest.begin < other.end && other.begin < newest.end) {
            const int64_t first = block.local.UnitOf(newest.begin).begin;
            block.Report("overlap", Pipe::kScalar, call,
                         Text("the buffer has the bytes [", newest.begin - first, ", ", newest.end - first,
                              "), which overlap the buffer [", other.begin - first, ", ", other.end - first, ") of ",
                              Where(other.createdAt),
                              "; give all buffers an address, and those of one queue separate addresses"));
            return;
        }
    }
}

uint32_t AddQueueAt(uint32_t pool, AscendC::TPosition source, AscendC::TPosition destination, int64_t depth,
                    std::initializer_list<AddressRange> ranges, const Call& call)
{
    LivePipe(call);
    const Entry block(call);
    const AscendC::TPosition position = PositionOf(source, destination);
    const uint32_t queue = NewQueue(block->local, source, destination, depth);
    if (IsOfOtherCores(*block, position)) {
        return queue;
    }
    RequireQueueBuffers(*block, position, static_cast<int64_t>(ranges.size()), call);
    for (const AddressRange& range : ranges) {
        Field("length", range.bytes, 1, 4294967295, call);
        RequireMultiple("length", range.bytes, kBlockBytes, "bytes", "round it up", call);
        LocalUnit& unit = ArenaOf(*block, pool, position, 1, call);
        const int64_t used = unit.used;
        const uint32_t buffer = Place(*block, pool, {position, 1, range.bytes, call.at}, "address", range.address,
                                      BufferState::kFree, queue, call);
        unit.used = used;
        block->local.buffers[buffer].isPlaced = true;
        block->local.queues.back().buffers.push_back(buffer);
        CheckSeparate(*block, call);
    }
    return queue;
}

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
    const uint32_t buffer = Place(*block, pool, request, "curPoolAddr", address, BufferState::kFree, queue, call);
    block->local.queues[number].buffers.push_back(buffer);
}

LocalView PlaceScratch(uint32_t pool, AscendC::TPosition position, int64_t address, int64_t bytes, const Call& call)
{
    const Entry block(call);
    Field("len", bytes, 1, 4294967295, call);
    const BufferRequest request{position, 1, RoundUp(bytes, kBlockBytes), call.at};
    return ViewOf(block->local, Place(*block, pool, request, "curPoolAddr", address, BufferState::kScratch,
                                      LocalView::kNoBuffer, call));
}

}  // namespace opforge::twin::kernel
