// The functions of CubeResGroupHandle for vector cores.
#include <cstring>

#include "kernel/order/group_call.h"
#include "kernel/timing/time_model.h"

namespace opforge::twin::kernel {

namespace {

using AscendC::CubeMsgState;
using AscendC::HardEvent;
using AscendC::PipeMode;

constexpr int64_t kScratchBytes = 1600;

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
    now.Change([&] {
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

}  // namespace

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
    now.Change([&] {
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
    now.Change([&] {
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
    now.UseLines(now.Area().messageBytes / kMessageUnit);
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

}  // namespace opforge::twin::kernel
