// TBufPool: parts of a memory that can share their addresses.
#include "kernel/exec/block.h"
#include "kernel/memory/buffers.h"
#include "opforge_twin/arithmetic.h"

namespace opforge::twin::kernel {

Pool& PoolAt(Block& block, uint32_t pool, const Call& call)
{
    const LocalMemory& local = block.local;
    if (pool == LocalView::kNoBuffer || pool - local.firstPool >= local.pools.size()) {
        block.Fail("no_buffer", Pipe::kScalar, call,
                   "the TBufPool has no memory, expected memory of the current TPipe; call InitBufPool for it first");
    }
    return block.local.pools[pool - local.firstPool];
}

LocalUnit& ArenaOf(Block& block, uint32_t pool, AscendC::TPosition position, int64_t buffers, const Call& call)
{
    LocalUnit& whole = RequireUnit(block, position, call);
    if (pool == LocalView::kNoBuffer) {
        return whole;
    }
    if (pool == kPoolOfSecondPipe) {
        FailSecondPipe(block, call);
    }
    Pool& part = PoolAt(block, pool, call);
    if (part.unit.id != whole.id) {
        block.Fail("position", Pipe::kScalar, call,
                   Text("the buffer is in ", whole.name, " and the TBufPool in ", part.unit.name,
                        ", expected one memory; use a position of the pool"));
    }
    part.buffers += buffers;
    if (part.buffers > part.mostBuffers) {
        block.Fail("buffer_count", Pipe::kScalar, call,
                   Text("the TBufPool has ", part.buffers, " buffers, expected at most ", part.mostBuffers,
                        "; raise its template parameter bufIDSize (at most 16)"));
    }
    return part.unit;
}

uint32_t AddPool(uint32_t parent, AscendC::TPosition position, int64_t bytes, uint32_t shared, int64_t mostBuffers,
                 const Call& call)
{
    const Entry block(call);
    if (block->local.pipe == nullptr) {
        block->Fail("no_pipe", Pipe::kScalar, call, "there is no live TPipe; declare one in the kernel function");
    }
    Field("len", bytes, 1, 4294967295, call);
    LocalUnit& from = ArenaOf(*block, parent, position, 0, call);
    Pool pool{from, mostBuffers};
    pool.unit.bytes = RoundUp(bytes, kBlockBytes);
    pool.unit.used = 0;
    if (shared == LocalView::kNoBuffer) {
        RequireBudget(*block, from, {position, 1, pool.unit.bytes, call.at}, call);
        pool.unit.begin = from.begin + from.used;
        from.used += pool.unit.bytes;
    } else {
        const LocalUnit& other = PoolAt(*block, shared, call).unit;
        if (other.id != from.id) {
            block->Fail("position", Pipe::kScalar, call,
                        Text("the TBufPool is in ", from.name, " and shares memory of a TBufPool in ", other.name,
                             ", expected one memory; use pools of one position"));
        }
        Field("len", pool.unit.bytes, 1, other.bytes, call);
        pool.unit.begin = other.begin;
    }
    pool.unit.budget = pool.unit.bytes;
    block->local.pools.push_back(pool);
    return block->local.firstPool + static_cast<uint32_t>(block->local.pools.size() - 1);
}

void ResetPool(uint32_t pool, const Call& call)
{
    const Entry block(call);
    Pool& part = PoolAt(*block, pool, call);
    for (Buffer& buffer : block->local.buffers) {
        if (buffer.pool == pool && !buffer.isEnded) {
            EndBuffer(*block, buffer, call, true);
            buffer.state = BufferState::kFree;
            buffer.generation = ++block->local.generation;
            buffer.changedAt = call.at;
            buffer.isEnded = true;
        }
    }
    part.buffers = 0;
    part.unit.used = 0;
}

}  // namespace opforge::twin::kernel
