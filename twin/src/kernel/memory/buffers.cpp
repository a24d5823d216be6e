// TPipe, queues and scratch buffers as a state machine: allocate, enqueue, dequeue, free.
#include <algorithm>
#include <utility>

#include "opforge_twin/arithmetic.h"
#include "kernel/exec/block.h"
#include "kernel/exec/levels.h"
#include "kernel/memory/buffer_list.h"
#include "kernel/memory/buffers.h"
#include "opforge_twin/kernel/pipe.h"

namespace opforge::twin::kernel {

namespace {

constexpr const char* kUnwritten = "gave the buffer, and no instruction has written it since";

using AscendC::HardEvent;
using AscendC::TPosition;

Pipe ProducerOf(TPosition source)
{
    switch (source) {
        case TPosition::GM:
        case TPosition::VECIN:
            return Pipe::kMte2;
        case TPosition::A1:
        case TPosition::B1:
        case TPosition::C1:
            return Pipe::kMte1;
        case TPosition::CO1:
            return Pipe::kCube;
        case TPosition::C2PIPE2GM:
            return Pipe::kFix;
        default:
            return Pipe::kVector;
    }
}

Pipe ConsumerOf(TPosition destination)
{
    switch (destination) {
        case TPosition::GM:
        case TPosition::VECOUT:
            return Pipe::kMte3;
        case TPosition::A1:
        case TPosition::B1:
        case TPosition::C1:
            return Pipe::kMte1;
        case TPosition::A2:
        case TPosition::B2:
        case TPosition::C2:
            return Pipe::kCube;
        case TPosition::TSCM:
            return Pipe::kMte1;
        case TPosition::CO2:
        case TPosition::C2PIPE2GM:
            return Pipe::kFix;
        default:
            return Pipe::kVector;
    }
}

/// " at file:line"; empty if the location is not known.
std::string Place(const Location& at)
{
    return !at ? std::string() : Text(" at ", Where(at));
}

void RequirePipe(Block& block, const Call& call)
{
    if (block.local.pipe == nullptr) {
        block.Fail("no_pipe", Pipe::kScalar, call, "there is no live TPipe; declare one in the kernel function");
    }
}

Queue& QueueOf(Block& block, uint32_t queue, const Call& call)
{
    LocalMemory& local = block.local;
    if (queue == LocalView::kNoBuffer || queue - local.firstQueue >= local.queues.size()) {
        block.Fail("no_buffer", Pipe::kScalar, call,
                   Text("the queue has no buffers",
                        queue < local.firstQueue ? Text(" since its TPipe ended", Place(local.endedAt)) : std::string(),
                        "; call TPipe::InitBuffer for it first"));
    }
    return local.queues[queue - local.firstQueue];
}

Buffer& BufferOf(Block& block, uint32_t queue, const LocalView& view, const Call& call)
{
    Buffer& buffer = block.checks.LiveBuffer(view, Pipe::kScalar, "the tensor", call);
    if (buffer.queue != queue) {
        block.Fail("queue_order", Pipe::kScalar, call,
                   "the tensor does not come from this queue; give it to the queue whose AllocTensor or DeQue made it");
    }
    return buffer;
}

bool HasFlags(const Queue& queue)
{
    return queue.producer != queue.consumer;
}

/// Reports buffers that exceed the total of the tiling plan.
void CheckPlan(Block& block)
{
    const LocalMemory& local = block.local;
    const LocalUnit& unit = local.UnitOf(0);
    if (unit.planned == 0 || unit.used <= unit.planned) {
        return;
    }
    const auto first = std::find_if(local.buffers.begin(), local.buffers.end(),
                                    [&](const Buffer& buffer) { return buffer.end - unit.begin > unit.planned; });
    block.Report("ub_plan", Pipe::kScalar, {"TPipe::InitBuffer", first->createdAt},
                 Text("the buffers need ", unit.used, " bytes, expected at most planned_ub_bytes = ", unit.planned,
                      " of the tiling data; count all buffers in the tiling plan; buffers: ",
                      Describe(RequestsOf(local, unit))));
}

/// The end of a TPipe waits for the flags of its queues; all buffers must be freed before.
void ReleaseAll(Block& block, const Call& call, bool checked)
{
    if (checked) {
        CheckPlan(block);
    }
    for (Buffer& buffer : block.local.buffers) {
        EndBuffer(block, buffer, call, checked);
    }
    block.local.FreeAll(call.at);
}

}  // namespace

void RequireQueueBuffers(Block& block, TPosition position, int64_t buffers, const Call& call)
{
    const LocalMemory& local = block.local;
    const auto taken = std::count_if(local.buffers.begin(), local.buffers.end(), [&](const Buffer& buffer) {
        return buffer.queue != LocalView::kNoBuffer && buffer.position == position;
    });
    const int64_t most = block.launch.soc.mostQueueBuffers;
    if (taken + buffers > most) {
        block.Fail("queue_buffers", Pipe::kScalar, call,
                   Text("the queues of this position have ", taken + buffers, " buffers, ", block.launch.soc.name,
                        " has ids for ", most, "; use fewer buffers, or a TBuf with flags"));
    }
}

uint32_t NewQueue(LocalMemory& local, TPosition source, TPosition destination, int64_t depth)
{
    Queue queue;
    queue.source = source;
    queue.destination = destination;
    queue.producer = ProducerOf(source);
    queue.consumer = ConsumerOf(destination);
    queue.depth = std::max<int64_t>(depth, 1);
    local.queues.push_back(queue);
    return static_cast<uint32_t>(local.firstQueue + local.queues.size() - 1);
}

void EndBuffer(Block& block, Buffer& buffer, const Call& call, bool checked)
{
    if (buffer.queue == LocalView::kNoBuffer) {
        return;
    }
    const Queue& queue = block.local.queues[buffer.queue - block.local.firstQueue];
    if (checked && buffer.state != BufferState::kFree && kQueueUnbalanced.Has(block.launch.options.level)) {
        const char* missing = buffer.state == BufferState::kQueued     ? "DeQue and FreeTensor"
                              : buffer.state == BufferState::kDequeued ? "FreeTensor"
                                                                       : "EnQue, DeQue and FreeTensor";
        block.Report("queue_unbalanced", Pipe::kScalar, {call.name, buffer.changedAt},
                     Text("a tensor of a queue ", Name(queue.producer), " -> ", Name(queue.consumer),
                          " is not freed when its ", buffer.pool == LocalView::kNoBuffer ? "TPipe" : "TBufPool",
                          " ends", Place(call.at), "; missing: ", missing));
    }
    block.ordering.EndQueueEvent(buffer.producer, buffer.consumer, buffer.filledEvent);
    block.ordering.EndQueueEvent(queue.consumer, queue.producer, buffer.freedEvent);
}

LocalUnit& RequireUnit(Block& block, TPosition position, const Call& call)
{
    LocalUnit* unit = block.local.UnitAt(position);
    if (unit == nullptr) {
        const bool isCube = block.position.kind == CoreKind::kCube;
        const bool isCoupled = block.position.kind == CoreKind::kCoupled;
        block.Fail("core_kind", Pipe::kScalar, call,
                   Text("the position is in a memory that ", Name(block.position.kind), " cores do not have; ",
                        isCoupled ? "use the unified buffer, L1, L0A, L0B or L0C"
                        : isCube  ? "use `if ASCEND_IS_AIV`, or declare a task type with such cores"
                                  : "use `if ASCEND_IS_AIC`, or declare a task type with such cores"));
    }
    return *unit;
}

void RequireBudget(Block& block, LocalUnit& unit, const BufferRequest& request, const Call& call)
{
    const int64_t needed = unit.used + request.count * request.bytes;
    if (needed > unit.budget) {
        std::vector<BufferRequest> all = RequestsOf(block.local, unit);
        all.push_back(request);
        block.Fail(
            unit.budgetKind, Pipe::kScalar, call,
            Text("the buffers need at least ", needed, " bytes, expected at most the ", unit.budget, " bytes of the ",
                 unit.name, "; shorten the tile in the tiling plan, or share a buffer; buffers: ", Describe(all)));
    }
}

uint32_t AddBuffer(Block& block, LocalUnit& unit, const BufferRequest& request, BufferState state, uint32_t queue,
                   const Call& call)
{
    LocalMemory& local = block.local;
    const int64_t count = std::count_if(local.buffers.begin(), local.buffers.end(),
                                        [](const Buffer& buffer) { return !buffer.isFixed && !buffer.isEnded; });
    if (count >= LocalMemory::kMaxBuffers) {
        block.Fail("buffer_count", Pipe::kScalar, call,
                   Text("this would be buffer ", count + 1, ", a kernel may have ", LocalMemory::kMaxBuffers,
                        "; use parts of one buffer with TBuf::GetWithOffset"));
    }
    Buffer buffer;
    buffer.begin = unit.begin + unit.used;
    buffer.end = buffer.begin + request.bytes;
    buffer.state = state;
    buffer.queue = queue;
    buffer.position = request.position;
    buffer.createdAt = call.at;
    buffer.generation = ++local.generation;
    buffer.changedAt = call.at;
    unit.used += request.bytes;
    local.Poison(buffer.begin, request.bytes, {call, kUnwritten});
    local.buffers.push_back(buffer);
    return static_cast<uint32_t>(local.buffers.size() - 1);
}

LocalView ViewOf(const LocalMemory& local, uint32_t index)
{
    const Buffer& buffer = local.buffers[index];
    LocalView view;
    view.buffer = index;
    view.generation = buffer.generation;
    view.address = buffer.begin;
    view.begin = buffer.begin;
    view.end = buffer.end;
    return view;
}

void FailSecondPipe(Block& block, const Call& call)
{
    block.Fail("two_pipes", Pipe::kScalar, call,
               "a second TPipe while the first one exists; pass the address of the first one, or call Destroy() first");
}

uint32_t OpenPipe(void* pipe, const Call& call)
{
    const Entry block(call);
    if (block->local.pipe != nullptr && block->local.pipe != pipe) {
        if (kSecondPipe.Has(block->launch.options.level)) {
            FailSecondPipe(*block, call);
        }
        return kPoolOfSecondPipe;
    }
    block->local.pipe = pipe;
    return LocalView::kNoBuffer;
}

void ReplacePipe(void* pipe, const void* other, const Call& call)
{
    const Entry block(call);
    if (block->local.pipe != other) {
        block->Fail("two_pipes", Pipe::kScalar, call, "the assigned TPipe is not the live one; assign that one");
    }
    block->local.pipe = pipe;
}

void ClosePipe(void* pipe, bool waits, const Call& call)
{
    Block* current = CurrentBlock();
    if (current == nullptr || current->local.pipe != pipe) {
        return;  // Destroy() was called, or the pipe belongs to a block that was stopped
    }
    ReleaseAll(*current, call, !current->execution.IsStopped());
    current->local.pipe = nullptr;
    if (waits && !current->execution.IsStopped()) {
        current->ordering.PassBarrier(Pipe::kAll);
    }
}

void ResetPipe(const Call& call)
{
    const Entry block(call);
    ReleaseAll(*block, call, true);
}

void* LivePipe(const Call& call)
{
    const Entry block(call);
    RequirePipe(*block, call);
    return block->local.pipe;
}

bool IsOfOtherCores(Block& block, TPosition position)
{
    return block.launch.layout.IsMixed() && block.local.UnitAt(position) == nullptr &&
           !kOtherCoreBuffer.Has(block.launch.options.level);
}

uint32_t AddQueue(uint32_t pool, TPosition source, TPosition destination, int64_t depth, int64_t buffers, int64_t bytes,
                  const Call& call)
{
    const Entry block(call);
    RequirePipe(*block, call);
    Field("num", buffers, 1, LocalMemory::kMaxBuffers, call);
    Field("len", bytes, kEmptyBuffer.Has(block->launch.options.level) ? 1 : 0, 4294967295, call);
    if (IsOfOtherCores(*block, PositionOf(source, destination))) {
        return NewQueue(block->local, source, destination, depth);
    }
    LocalUnit& unit = ArenaOf(*block, pool, PositionOf(source, destination), buffers, call);
    const BufferRequest request{PositionOf(source, destination), buffers, RoundUp(bytes, kBlockBytes), call.at};
    RequireBudget(*block, unit, request, call);
    RequireQueueBuffers(*block, request.position, buffers, call);
    const uint32_t id = NewQueue(block->local, source, destination, depth);
    for (int64_t count = 0; count < buffers; ++count) {
        const uint32_t buffer = AddBuffer(*block, unit, request, BufferState::kFree, id, call);
        block->local.buffers[buffer].pool = pool;
        block->local.queues.back().buffers.push_back(buffer);
        CheckSeparate(*block, call);
    }
    return id;
}

LocalView AddScratch(uint32_t pool, TPosition position, int64_t bytes, const Call& call)
{
    const Entry block(call);
    RequirePipe(*block, call);
    Field("len", bytes, kEmptyBuffer.Has(block->launch.options.level) ? 1 : 0, 4294967295, call);
    if (IsOfOtherCores(*block, position)) {
        return {};
    }
    LocalUnit& unit = ArenaOf(*block, pool, position, 1, call);
    const BufferRequest request{position, 1, RoundUp(bytes, kBlockBytes), call.at};
    RequireBudget(*block, unit, request, call);
    const uint32_t buffer = AddBuffer(*block, unit, request, BufferState::kScratch, LocalView::kNoBuffer, call);
    block->local.buffers[buffer].pool = pool;
    CheckSeparate(*block, call);
    return ViewOf(block->local, buffer);
}

LocalView AllocateFrom(uint32_t queue, const Call& call)
{
    const Entry block(call);
    Queue& from = QueueOf(*block, queue, call);
    if (from.buffers.empty()) {
        block->Fail("core_kind", Pipe::kScalar, call,
                    Text("the queue is in a memory that ", Name(block->position.kind),
                         " cores do not have; use `if ASCEND_IS_AIC` or `if ASCEND_IS_AIV`"));
    }
    for (size_t tried = 0; tried < from.buffers.size(); ++tried) {
        const uint32_t index = from.buffers[from.next];
        from.next = (from.next + 1) % from.buffers.size();
        Buffer& buffer = block->local.buffers[index];
        if (buffer.state != BufferState::kFree) {
            continue;
        }
        block->ordering.WaitQueueEvent(from.consumer, from.producer, buffer.freedEvent, call);
        buffer.state = BufferState::kAllocated;
        buffer.generation = ++block->local.generation;
        buffer.changedAt = call.at;
        block->local.Poison(buffer.begin, buffer.end - buffer.begin, {call, kUnwritten});
        return ViewOf(block->local, index);
    }
    block->Fail("queue_exhausted", Pipe::kScalar, call,
                Text("all ", from.buffers.size(), " buffers of the queue are out since ",
                     Where(block->local.buffers[from.buffers.front()].changedAt),
                     ": the core would hang; free one first, or give InitBuffer more of them"));
}

namespace {

void EnqueueFor(uint32_t queue, const LocalView& view, const QueueEnds* ends, const Call& call)
{
    const Entry block(call);
    Queue& to = QueueOf(*block, queue, call);
    Buffer& buffer = BufferOf(*block, queue, view, call);
    const bool mayPassOn = ends != nullptr || !kEnqueAgain.Has(block->launch.options.level);
    const bool isPassedOn = buffer.state == BufferState::kDequeued && mayPassOn;
    if (buffer.state != BufferState::kAllocated && !isPassedOn) {
        block->Fail("queue_order", Pipe::kScalar, call,
                    Text("the tensor is not fresh from AllocTensor (last change at ", Where(buffer.changedAt),
                         "); the order is AllocTensor, EnQue, DeQue, FreeTensor"));
    }
    if (static_cast<int64_t>(to.filled.size()) >= to.depth) {
        block->Fail("queue_depth", Pipe::kScalar, call,
                    Text("the queue already holds ", to.filled.size(), " tensors, its depth is ", to.depth,
                         "; call DeQue first, or declare a deeper queue"));
    }
    buffer.state = BufferState::kQueued;
    buffer.changedAt = call.at;
    buffer.producer = ends == nullptr ? to.producer : ProducerOf(ends->source);
    buffer.consumer = ends == nullptr ? to.consumer : ConsumerOf(ends->destination);
    if (buffer.producer != buffer.consumer) {
        buffer.filledEvent = block->ordering.SetQueueEvent(buffer.producer, buffer.consumer, call);
    }
    to.filled.push_back(view.buffer);
}

LocalView DequeueFor(uint32_t queue, const QueueEnds* ends, const Call& call)
{
    const Entry block(call);
    Queue& from = QueueOf(*block, queue, call);
    if (from.filled.empty()) {
        block->Fail("missing_enque", Pipe::kScalar, call,
                    "the queue is empty, expected a filled tensor; call EnQue with the tensor before DeQue");
    }
    const uint32_t index = from.filled.front();
    from.filled.pop_front();
    Buffer& buffer = block->local.buffers[index];
    const Pipe producer = ends == nullptr ? from.producer : ProducerOf(ends->source);
    const Pipe consumer = ends == nullptr ? from.consumer : ConsumerOf(ends->destination);
    if (producer != buffer.producer || consumer != buffer.consumer) {
        block->Fail("queue_order", Pipe::kScalar, call,
                    Text("waits for the order ", Name(producer), " before ", Name(consumer), ", but EnQue at ",
                         Where(buffer.changedAt), " set ", Name(buffer.producer), " before ", Name(buffer.consumer),
                         "; use the same positions in both"));
    }
    block->ordering.WaitQueueEvent(producer, consumer, buffer.filledEvent, call);
    buffer.state = BufferState::kDequeued;
    buffer.changedAt = call.at;
    return ViewOf(block->local, index);
}

}  // namespace

void Enqueue(uint32_t queue, const LocalView& view, const Call& call)
{
    EnqueueFor(queue, view, nullptr, call);
}

void Enqueue(uint32_t queue, const LocalView& view, const QueueEnds& ends, const Call& call)
{
    EnqueueFor(queue, view, &ends, call);
}

LocalView Dequeue(uint32_t queue, const Call& call)
{
    return DequeueFor(queue, nullptr, call);
}

LocalView Dequeue(uint32_t queue, const QueueEnds& ends, const Call& call)
{
    return DequeueFor(queue, &ends, call);
}

void Release(uint32_t queue, const LocalView& view, const Call& call)
{
    const Entry block(call);
    const Queue& to = QueueOf(*block, queue, call);
    Buffer& buffer = BufferOf(*block, queue, view, call);
    const bool isPlainScratch = buffer.state == BufferState::kAllocated &&
                                (!HasFlags(to) || !kFreeWithoutEnque.Has(block->launch.options.level));
    if (buffer.state != BufferState::kDequeued && !isPlainScratch) {
        block->Fail(buffer.state == BufferState::kFree ? "use_after_free" : "queue_order", Pipe::kScalar, call,
                    Text("the tensor ",
                         buffer.state == BufferState::kFree        ? "was already freed at "
                         : buffer.state == BufferState::kAllocated ? "was not passed to EnQue and DeQue since "
                                                                   : "is still in the queue since ",
                         Where(buffer.changedAt), "; the order is AllocTensor, EnQue, DeQue, FreeTensor"));
    }
    buffer.state = BufferState::kFree;
    buffer.changedAt = call.at;
    if (HasFlags(to)) {
        buffer.freedEvent = block->ordering.SetQueueEvent(to.consumer, to.producer, call);
    }
}

void PlanUnifiedBuffer(int64_t bytes)
{
    const Entry block({"GET_TILING_DATA", {}});
    if (LocalUnit* unit = block->local.UnitAt(TPosition::VECCALC); unit != nullptr) {
        unit->planned = bytes;
    }
}

int64_t FilledBuffers(uint32_t queue, const Call& call)
{
    const Entry block(call);
    return static_cast<int64_t>(QueueOf(*block, queue, call).filled.size());
}

int64_t IdleBuffers(uint32_t queue, const Call& call)
{
    const Entry block(call);
    const Queue& asked = QueueOf(*block, queue, call);
    return std::count_if(asked.buffers.begin(), asked.buffers.end(),
                         [&](uint32_t index) { return block->local.buffers[index].state == BufferState::kFree; });
}

void FreeEvents(uint32_t queue, const Call& call)
{
    const Entry block(call);
    const Queue& of = QueueOf(*block, queue, call);
    for (const uint32_t index : of.buffers) {
        int32_t& event = block->local.buffers[index].freedEvent;
        block->ordering.EndQueueEvent(of.consumer, of.producer, std::exchange(event, -1));
    }
}

LocalView Slice(const LocalView& view, int64_t offsetBytes, int64_t bytes, const Call& call)
{
    const Entry block(call);
    if (view.buffer == LocalView::kNoBuffer) {
        block->Fail("no_buffer", Pipe::kScalar, call, "the TBuf has no memory; call TPipe::InitBuffer for it first");
    }
    if (offsetBytes < 0 || bytes < 0 || offsetBytes + bytes > view.end - view.begin) {
        block->Fail(block->local.UnitOf(view.begin).rangeKind, Pipe::kScalar, call,
                    Text("bytes [", offsetBytes, ", ", offsetBytes + bytes, ") of a TBuf that has ",
                         view.end - view.begin, " bytes; give InitBuffer more bytes, or use fewer"));
    }
    LocalView part = view;
    part.begin = view.begin + offsetBytes;
    part.address = part.begin;
    part.end = part.begin + bytes;
    return part;
}

void RequireMultiple(const char* name, int64_t value, int64_t unit, const char* noun, const char* fix, const Call& call)
{
    if (value % unit == 0) {
        return;
    }
    const Entry block(call);
    block->Fail("field_range", Pipe::kScalar, call,
                Text(name, " must be a multiple of ", unit, " ", noun, "; got ", value, " ", noun, "; ", fix));
}

int64_t Field(const char* name, int64_t value, int64_t low, int64_t high, const Call& call)
{
    if (value >= low && value <= high) {
        return value;
    }
    const Entry block(call);
    block->Fail("field_range", Pipe::kScalar, call,
                low == high
                    ? Text(name, " is ", value, ", expected ", low)
                    : Text(name, " is ", value, ", expected ", low, "..", high, "; the device does not check it"));
}

}  // namespace opforge::twin::kernel
