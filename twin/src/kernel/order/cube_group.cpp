// The functions of KfcWorkspace and CubeResGroupHandle.
#include <cstring>

#include "kernel/exec/levels.h"
#include "kernel/exec/scheduler.h"
#include "kernel/order/sync.h"
#include "kernel/timing/time_model.h"
#include "opforge_twin/arithmetic.h"

namespace opforge::twin::kernel {

namespace {

using AscendC::CubeMsgState;
using AscendC::HardEvent;
using AscendC::PipeMode;

constexpr const char* kMessageOrder = "message_order";
constexpr int64_t kLineBytes = 64;
constexpr int64_t kScratchBytes = 1600;

/// One call of a function of a handle.
class GroupCall {
public:
    GroupCall(const CubeGroup& group, const Call& call) : block_(call), call_(call)
    {
        if (group.area < 0) {
            Fail(kMessageOrder, "the handle has no group; assign the result of CreateCubeResGroup to it first");
        }
        area_ = &block_->launch.scheduler->MessagesOf(group.area);
    }

    Block& At() const { return *block_; }
    MessageArea& Area() const { return *area_; }
    MessageSlot& Slot(uint32_t slot) const { return area_->slots[slot]; }
    bool IsOn(CoreKind kind) const { return block_->position.kind == kind; }
    /// Of a cube core: its number in the group.
    uint32_t Cube() const { return block_->position.blockIndex - area_->firstCube; }

    [[noreturn]] void Fail(const char* kind, const std::string& message) const
    {
        block_->Fail(kind, Pipe::kScalar, call_, message);
    }
    void Change(const std::function<void(MessageAreas&)>& change) const
    {
        block_->launch.scheduler->ChangeMessages(change);
    }
    /// Waits until the slot has the state; the clocks and the time are then those of its last change.
    void Await(uint32_t slot, CubeMsgState state, const std::function<std::string()>& problem) const
    {
        block_->launch.scheduler->AwaitMessage(*block_, [&] { return Slot(slot).state == state; }, problem, call_);
        See(slot);
    }
    void See(uint32_t slot) const
    {
        if (Slot(slot).hasSignal) {
            block_->ordering.Acquire(Slot(slot).signal, false);
        }
        UseLines(1);
    }
    /// The scalar unit loads or stores lines of 64 bytes.
    void UseLines(int64_t lines) const
    {
        for (int64_t line = 0; line < lines; ++line) {
            block_->timeline.RunScalarGmAccess(call_);
        }
    }
    /// Changes the state of a slot after the instructions of `pipe`.
    void Publish(uint32_t slot, CubeMsgState state, Pipe pipe) const
    {
        const Signal signal = block_->ordering.Release(pipe, CrossCoreFlagDelay(), call_.at);
        Change([&](MessageAreas& /*areas*/) {
            area_->SetState(slot, state);
            Slot(slot).hasSignal = true;
            Slot(slot).signal = signal;
        });
    }
    /// The slot of a pointer that the kernel passes.
    uint32_t SlotAt(MessagePointer message) const
    {
        const uint32_t slot = area_->SlotAt(message);
        if (slot == area_->slots.size()) {
            Fail(kMessageOrder,
                 "msg is no message of this group; pass the result of AllocMessage, or in the callback "
                 "its parameter");
        }
        return slot;
    }
    void CheckState(uint32_t slot) const
    {
        const auto address = static_cast<int64_t>(area_->AddressOf(slot));
        block_->checks.Touch({Pipe::kScalar, Memory::kGlobal, AccessKind::kRead, address, 1, "message", call_});
    }

private:
    Entry block_;
    const Call& call_;
    MessageArea* area_ = nullptr;
};

void CheckSize(Block& block, uint32_t messageBytes, const CubeGroupSize& size, const Call& call)
{
    const auto require = [&](bool isMet, const std::string& problem) {
        if (!isMet) {
            block.Fail("field_range", Pipe::kScalar, call, problem);
        }
    };
    require(messageBytes % kLineBytes == 0,
            Text("the type of a message has ", messageBytes, " bytes, expected a multiple of 64; add an array to it"));
    require(size.blockStart % 2 == 0 && size.blockSize % 2 == 0,
            Text("blockStart is ", size.blockStart + 0, " and blockSize ", size.blockSize + 0,
                 ", expected even numbers: twice the number of cube cores"));
    const SocFigures& soc = block.launch.soc;
    Field("blockSize", size.blockSize, 2, soc.vectorCores - 1, call);
    Field("msgQueueSize", size.queues, 1, soc.vectorCores, call);
    const int64_t end = size.blockStart + size.blockSize;
    const int64_t cubes = size.blockSize / 2;
    const int64_t launched = block.launch.request.blockNum;
    require(end < soc.vectorCores, Text("blockStart + blockSize is ", end, ", expected at most ", soc.vectorCores - 1,
                                        ": the vector cores of the chip less one"));
    require(end <= 2 * launched, Text("the group ends at cube core ", end / 2, " of a launch with ", launched,
                                      "; expected blockStart + blockSize of at most ", 2 * launched));
    require((cubes - 1) * CeilDiv<int64_t>(size.queues, cubes) < size.queues,
            Text("msgQueueSize is ", size.queues + 0, " for ", cubes, " cube cores of ",
                 CeilDiv<int64_t>(size.queues, cubes), " queues each; expected at least one queue for the last core"));
}

/// The area of a group; adds it if the core is the first one. Sets `problem` if other groups are in its way.
int32_t FindArea(MessageAreas& areas, const MessageArea& wanted, std::string& problem)
{
    for (size_t index = 0; index < areas.size(); ++index) {
        if (areas[index] == wanted) {
            return static_cast<int32_t>(index);
        }
        if (areas[index].Overlaps(wanted)) {
            problem =
                "another group has the same cube cores or memory; a cube core is in one group, and all cores "
                "create a group with the same arguments";
        }
    }
    areas.push_back(wanted);
    return static_cast<int32_t>(areas.size() - 1);
}

/// The queue of this vector core; ends the block if it has none, or has quit.
uint32_t QueueOf(const GroupCall& now, const CubeGroup& group)
{
    if (group.queue < 0) {
        now.Fail(kMessageOrder, "the handle has no queue; call AssignQueue before");
    }
    const auto queue = static_cast<uint32_t>(group.queue);
    if (const MessageQueue& own = now.Area().queues[queue]; own.hasQuit) {
        now.Fail(kMessageOrder,
                 Text("queue ", queue, " has quit with SetQuit at ", Where(own.at), "; call SetQuit last"));
    }
    return queue;
}

/// The slot of a message that this vector core has allocated.
uint32_t AllocatedSlot(const GroupCall& now, const CubeGroup& group, MessagePointer message, PipeMode mode)
{
    const uint32_t queue = QueueOf(now, group);
    const uint32_t slot = now.SlotAt(message);
    if (now.Area().QueueOf(slot) != queue || !now.Slot(slot).isAllocated) {
        now.Fail(kMessageOrder,
                 "AllocMessage has not returned msg since it was last posted; call AllocMessage for "
                 "each message");
    }
    if (now.Slot(slot).mode != mode) {
        now.Fail(kMessageOrder, Text("AllocMessage at ", Where(now.Slot(slot).at),
                                     " has another PipeMode; use one mode for both, and PostMessage only for "
                                     "MTE3_MODE"));
    }
    return slot;
}

/// Notes a message whose content is in its slot.
uint16_t Post(const GroupCall& now, uint32_t slot, CubeMsgState state, Pipe pipe, const Location& at)
{
    MessageArea& area = now.Area();
    now.Change([&](MessageAreas& /*areas*/) {
        MessageSlot& posted = now.Slot(slot);
        posted.isAllocated = false;
        posted.wasReceived = false;
        posted.posted = state;
        posted.at = at;
        if (state == CubeMsgState::QUIT) {
            area.queues[area.QueueOf(slot)].hasQuit = true;
            area.queues[area.QueueOf(slot)].at = at;
        }
    });
    now.Publish(slot, state, pipe);
    return static_cast<uint16_t>(slot - area.FirstOf(area.QueueOf(slot)));
}

/// MTE3 copies the message from the end of the unified buffer.
void StoreByMte3(const GroupCall& now, uint32_t slot, int32_t event, const Call& call)
{
    Block& block = now.At();
    const uint32_t bytes = now.Area().messageBytes;
    block.timeline.RunScalar(bytes / sizeof(uint64_t) * time_model::kScalarUbAccessCycles, call);
    block.ordering.OrderInside(Pipe::kScalar, Pipe::kMte3);
    block.ordering.PassBarrier(Pipe::kMte3);
    GlobalView view;
    view.address = now.Area().AddressOf(slot);
    block.accounting.CountRow(view, view.address, bytes, true);
    block.accounting.EndDma(Pipe::kMte3, call);
    block.ordering.SetEvent(HardEvent::MTE3_S, event, call);
}

/// Moves a cube core to its next queue; the first one follows the last one in the next row.
void Advance(const MessageArea& area, CubeGroup& group, uint32_t cube)
{
    if (++group.column >= area.QueuesOf(cube)) {
        group.column = 0;
        group.row = static_cast<uint8_t>((group.row + 1) % MessageArea::kDepth);
    }
}

void ReportLeftMessages(const GroupCall& now, const Call& call)
{
    const MessageArea& area = now.Area();
    const uint32_t first = area.IndexOf(now.Cube(), 0, 0);
    for (uint32_t slot = first; slot < first + MessageArea::kDepth * area.columns; ++slot) {
        const CubeMsgState state = now.Slot(slot).state;
        if (state == CubeMsgState::VALID || state == CubeMsgState::FAKE) {
            now.At().Report("message_not_freed", Pipe::kScalar, {call.name, now.Slot(slot).at},
                            area.DescribeOpen(slot));
        }
    }
}

}  // namespace

int32_t OpenKfcWorkspace(const Call& call)
{
    const Entry block(call);
    block->UseCubes(Block::CubeUse::kGroups, call);
    if (block->position.kind != CoreKind::kVector) {
        return -1;
    }
    LivePipe(call);
    return block->ordering.SetQueueEvent(Pipe::kMte3, Pipe::kScalar, call);
}

void CloseKfcWorkspace(int32_t event)
{
    Block* const block = CurrentBlock();
    if (block != nullptr && !block->execution.IsStopped()) {
        block->ordering.EndQueueEvent(Pipe::kMte3, Pipe::kScalar, event);
    }
}

void ReportSharedWorkspace(const Call& call)
{
    const Entry block(call);
    if (kKfcWorkspace.Has(block->launch.options.level)) {
        block->Report("api_contract", Pipe::kScalar, call,
                      "both the kernel and CreateCubeResGroup divide the memory of this KfcWorkspace; use another "
                      "KfcWorkspace");
    }
}

CubeGroup OpenGroup(MessagePointer workspace, uint32_t messageBytes, const CubeGroupSize& size, const Call& call)
{
    const Entry block(call);
    if (!block->launch.layout.IsMixed()) {
        block->Fail("sync_task_type", Pipe::kScalar, call,
                    "groups need cube and vector cores; declare KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2)");
    }
    RequireBarrier(*block, call);
    block->UseCubes(Block::CubeUse::kGroups, call);
    CheckSize(*block, messageBytes, size, call);
    if (block->position.kind == CoreKind::kVector) {
        Field("evtIDIn", size.event, 0, block->launch.soc.eventIds - 1, call);
    }
    MessageArea wanted(reinterpret_cast<uintptr_t>(workspace), messageBytes, size);
    if (wanted.begin % kLineBytes != 0) {
        block->Fail("gm_misaligned", Pipe::kScalar, call,
                    "the memory of the messages does not start at a multiple of 64 bytes; round its address up");
    }
    GlobalView view;
    view.address = wanted.begin;
    wanted.host = block->checks.Resolve(view, wanted.begin, wanted.Bytes(), Pipe::kScalar, AccessKind::kWrite,
                                        "the memory of the messages", call);
    // Kernels of programs read the message at its address, others at its host address.
    wanted.visible = block->launch.memory.Find(wanted.begin)->isPlaced ? workspace : wanted.host;
    CubeGroup group;
    group.size = size;
    std::string problem;
    block->launch.scheduler->ChangeMessages(
        [&](MessageAreas& areas) { group.area = FindArea(areas, wanted, problem); });
    if (!problem.empty()) {
        block->Fail("api_contract", Pipe::kScalar, call, problem);
    }
    return group;
}

uint32_t BytesOf(const CubeGroup& group)
{
    const GroupCall now(group, {"CreateCubeResGroup", {}});
    return static_cast<uint32_t>(now.Area().Bytes());
}

void BindQueue(CubeGroup& group, int64_t queue, const Call& call)
{
    const GroupCall now(group, call);
    if (!now.IsOn(CoreKind::kVector)) {
        return;
    }
    MessageArea& area = now.Area();
    const auto number =
        static_cast<uint32_t>(Field("queueIdIn", queue, 0, static_cast<int64_t>(area.queues.size()) - 1, call));
    MessageQueue& own = area.queues[number];
    Location earlier;
    now.Change([&](MessageAreas& /*areas*/) {
        earlier = own.owner != MessageQueue::kNoOwner ? own.at : Location{};
        own.owner = now.At().index;
        own.at = call.at;
    });
    if (group.queue >= 0 || earlier) {
        now.Fail(kMessageOrder, group.queue >= 0
                                    ? Text("the handle has queue ", group.queue + 0, "; call AssignQueue once")
                                    : Text("queue ", number, " is assigned at ", Where(earlier),
                                           "; give each vector core another queue"));
    }
    group.queue = static_cast<int16_t>(number);
    for (uint32_t row = 0; row < MessageArea::kDepth; ++row) {
        const uint32_t slot = area.FirstOf(number) + row * area.columns;
        now.CheckState(slot);
        if (now.At().launch.computes && area.HostOf(slot)[0] != 0) {
            now.Fail("sync_workspace",
                     "the memory of the messages is not zero; clear it before each launch, and wait "
                     "with SyncAll<false> if the kernel clears it");
        }
    }
}

MessagePointer AllocateMessage(CubeGroup& group, PipeMode mode, const Call& call)
{
    const GroupCall now(group, call);
    MessageArea& area = now.Area();
    if (!now.IsOn(CoreKind::kVector)) {
        return area.visible;
    }
    const uint32_t slot = area.FirstOf(QueueOf(now, group)) + group.row * area.columns;
    if (const int64_t left = now.At().local.UnifiedBuffer().Left(); left < kScratchBytes + area.messageBytes) {
        now.Fail("no_scratch", Text("messages use the end of the unified buffer; ", left, " bytes are left, expected ",
                                    kScratchBytes + area.messageBytes, "; use smaller buffers"));
    }
    if (now.Slot(slot).isAllocated) {
        now.Fail(kMessageOrder,
                 Text("the message of AllocMessage at ", Where(now.Slot(slot).at), " is not posted, and the queue has ",
                      MessageArea::kDepth, " messages; post it before"));
    }
    if (mode == PipeMode::MTE3_MODE) {
        now.At().ordering.WaitEvent(HardEvent::MTE3_S, group.size.event, false, call);
    }
    now.Await(slot, CubeMsgState::FREE, [&] { return Text("the queue is full: ", area.DescribeOpen(slot)); });
    now.Change([&](MessageAreas& /*areas*/) {
        now.Slot(slot).isAllocated = true;
        now.Slot(slot).mode = mode;
        now.Slot(slot).at = call.at;
    });
    group.row = static_cast<uint8_t>((group.row + 1) % MessageArea::kDepth);
    return area.PointerTo(slot);
}

uint16_t PostMessage(const CubeGroup& group, MessagePointer message, const void* content, PipeMode mode,
                     const Call& call)
{
    const GroupCall now(group, call);
    if (!now.IsOn(CoreKind::kVector)) {
        return 0;
    }
    const uint32_t slot = AllocatedSlot(now, group, message, mode);
    const auto* bytes = static_cast<const uint8_t*>(content);
    if (bytes[0] != static_cast<uint8_t>(CubeMsgState::VALID)) {
        now.Fail(kMessageOrder,
                 "msgState of msgInput.head is not CubeMsgState::VALID; set it, or use PostFakeMsg or "
                 "SetQuit");
    }
    std::memcpy(now.Area().HostOf(slot) + 1, bytes + 1, now.Area().messageBytes - 1);
    if (mode == PipeMode::MTE3_MODE) {
        StoreByMte3(now, slot, group.size.event, call);
        return Post(now, slot, CubeMsgState::VALID, Pipe::kMte3, call.at);
    }
    now.UseLines(now.Area().messageBytes / kLineBytes);
    return Post(now, slot, CubeMsgState::VALID, Pipe::kScalar, call.at);
}

uint16_t PostState(const CubeGroup& group, MessagePointer message, CubeMsgState state, const Call& call)
{
    const GroupCall now(group, call);
    if (!now.IsOn(CoreKind::kVector)) {
        return 0;
    }
    const uint32_t slot = AllocatedSlot(now, group, message, PipeMode::SCALAR_MODE);
    now.UseLines(1);
    return Post(now, slot, state, Pipe::kScalar, call.at);
}

bool AwaitMessage(const CubeGroup& group, int64_t offset, bool isBlocking, const Call& call)
{
    const GroupCall now(group, call);
    if (!now.IsOn(CoreKind::kVector)) {
        return true;
    }
    const MessageArea& area = now.Area();
    if (group.queue < 0) {
        now.Fail(kMessageOrder, "the handle has no queue; call AssignQueue before");
    }
    const uint32_t slot = area.FirstOf(static_cast<uint32_t>(group.queue)) + static_cast<uint32_t>(offset);
    const bool isOwn = offset % area.columns == 0 && offset / area.columns < MessageArea::kDepth;
    if (!isOwn || now.Slot(slot).isAllocated || now.Slot(slot).posted == CubeMsgState::FREE) {
        now.Fail(kMessageOrder,
                 Text("no message was posted at offset ", offset, "; pass the result of PostMessage or PostFakeMsg"));
    }
    if (now.Slot(slot).posted == CubeMsgState::QUIT) {
        now.Fail(kMessageOrder, "the message is that of SetQuit, which no cube core frees; wait for other messages");
    }
    const auto problem = [&] { return Text("the message is never freed: ", area.DescribeOpen(slot)); };
    if (isBlocking) {
        now.Await(slot, CubeMsgState::FREE, problem);
        return true;
    }
    const auto isFree = [&] { return now.Slot(slot).state == CubeMsgState::FREE; };
    if (now.At().launch.scheduler->PollMessage(now.At(), isFree, problem, call)) {
        now.See(slot);
        return true;
    }
    now.UseLines(1);
    return false;
}

bool ServesGroup(const CubeGroup& group, const Call& call)
{
    const GroupCall now(group, call);
    const MessageArea& area = now.Area();
    if (!now.IsOn(CoreKind::kCube) || now.Cube() >= area.cubes) {
        return false;
    }
    if (area.waitsFor[now.Cube()] != MessageArea::kIdle) {
        now.Fail("api_contract", "the cube core has served this group before; create each group once");
    }
    const uint32_t first = area.IndexOf(now.Cube(), 0, 0);
    for (uint32_t slot = first; slot < first + MessageArea::kDepth * area.columns; ++slot) {
        now.CheckState(slot);
    }
    return true;
}

MessagePointer ReceiveMessage(CubeGroup& group, const Call& call)
{
    const GroupCall now(group, call);
    MessageArea& area = now.Area();
    const uint32_t cube = now.Cube();
    if (group.isInCall) {
        Advance(area, group, cube);
    } else {
        group.workingQueues = ~uint64_t{0} >> (64 - area.QueuesOf(cube));
    }
    group.isInCall = true;
    while (group.workingQueues != 0) {
        if ((group.workingQueues >> group.column & 1U) == 0) {
            Advance(area, group, cube);
            continue;
        }
        const uint32_t slot = area.IndexOf(cube, group.row, group.column);
        MessageSlot& next = now.Slot(slot);
        now.Change([&](MessageAreas& /*areas*/) { area.waitsFor[cube] = slot; });
        now.At().launch.scheduler->AwaitMessage(
            now.At(), [&] { return next.state != CubeMsgState::FREE; },
            [&] {
                return Text("queue ", area.QueueOf(slot),
                            " has no message: ", area.DescribeMissing(slot, now.At().launch.layout));
            },
            call);
        if (next.wasReceived) {
            now.Fail("message_not_freed", Text(area.DescribeOpen(slot), "; the device handles the message again"));
        }
        now.See(slot);
        now.Change([&](MessageAreas& /*areas*/) { next.wasReceived = true; });
        const bool isFake = next.posted == CubeMsgState::FAKE;
        if (isFake && kFakeMessage.Has(now.At().launch.options.level)) {
            now.Fail(kMessageOrder, Text("the message of PostFakeMsg at ", Where(next.at),
                                         " is not skipped; in the callback of the message before it, call "
                                         "FreeMessage(msg + i, CubeMsgState::FAKE) and SetSkipMsg"));
        }
        if (next.posted != CubeMsgState::QUIT) {
            return area.PointerTo(slot);
        }
        group.workingQueues &= ~(uint64_t{1} << group.column);
        Advance(area, group, cube);
    }
    now.Change([&](MessageAreas& /*areas*/) { area.waitsFor[cube] = static_cast<uint32_t>(area.slots.size()); });
    group.isInCall = false;
    ReportLeftMessages(now, call);
    return nullptr;
}

uint16_t FreeMessage(const CubeGroup& group, MessagePointer message, const CubeMsgState* awaited, const Call& call)
{
    const GroupCall now(group, call);
    if (!now.IsOn(CoreKind::kCube)) {
        return 0;
    }
    const MessageArea& area = now.Area();
    const uint32_t slot = now.SlotAt(message);
    const uint32_t first = area.IndexOf(now.Cube(), 0, 0);
    if (now.Cube() >= area.cubes || slot < first || slot - first >= MessageArea::kDepth * area.columns) {
        now.Fail(kMessageOrder, Text("msg belongs to queue ", area.QueueOf(slot), " of another cube core"));
    }
    if (awaited != nullptr) {
        if (*awaited != CubeMsgState::VALID && *awaited != CubeMsgState::FAKE) {
            now.Fail("field_range", Text("waitState is ", Name(*awaited), ", expected VALID or FAKE"));
        }
        now.Await(slot, *awaited, [&] {
            const CubeMsgState state = now.Slot(slot).state;
            return Text("waits for ", Name(*awaited), ", but ",
                        state != CubeMsgState::FREE
                            ? Text("the message at ", Where(now.Slot(slot).at), " is ", Name(state))
                            : area.DescribeMissing(slot, now.At().launch.layout));
        });
    } else if (const CubeMsgState state = now.Slot(slot).state;
               state == CubeMsgState::FREE || state == CubeMsgState::QUIT) {
        now.Fail(kMessageOrder, Text("msg is ", Name(state),
                                     ", expected a message that is posted and not freed; pass "
                                     "waitState to wait for it"));
    }
    now.UseLines(1);
    now.Change([&](MessageAreas& /*areas*/) {
        MessageSlot& freed = now.Slot(slot);
        freed.isSkippable = freed.state == CubeMsgState::FAKE && !freed.wasReceived;
        freed.wasReceived = true;
    });
    now.Publish(slot, CubeMsgState::FREE, Pipe::kScalar);
    return static_cast<uint16_t>(slot - first);
}

void SkipMessages(CubeGroup& group, int64_t count, const Call& call)
{
    const GroupCall now(group, call);
    if (!now.IsOn(CoreKind::kCube)) {
        return;
    }
    if (!group.isInCall) {
        now.Fail(kMessageOrder, "SetSkipMsg is called outside of the callback; call it in Call");
    }
    const MessageArea& area = now.Area();
    Field("skipCnt (queues after this one)", count, 0, int64_t{area.QueuesOf(now.Cube())} - group.column - 1, call);
    for (int64_t skipped = 0; skipped < count; ++skipped) {
        Advance(area, group, now.Cube());
        const uint32_t slot = area.IndexOf(now.Cube(), group.row, group.column);
        const bool isWorking = (group.workingQueues >> group.column & 1U) != 0;
        if (isWorking && !now.Slot(slot).isSkippable) {
            now.Fail(kMessageOrder, Text("the skipped message of queue ", area.QueueOf(slot),
                                         " was not freed as a fake one; before, call FreeMessage(msg + i, "
                                         "CubeMsgState::FAKE) for each"));
        }
        now.Change([&](MessageAreas& /*areas*/) { now.Slot(slot).isSkippable = false; });
    }
}

}  // namespace opforge::twin::kernel
