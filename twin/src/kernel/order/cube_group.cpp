// KfcWorkspace, the creation of groups, and the functions of CubeResGroupHandle for cube cores.
#include "kernel/exec/levels.h"
#include "kernel/order/group_call.h"
#include "kernel/order/sync.h"
#include "opforge_twin/arithmetic.h"

namespace opforge::twin::kernel {

namespace {

using AscendC::CubeMsgState;

void CheckSize(Block& block, uint32_t messageBytes, const CubeGroupSize& size, const Call& call)
{
    const auto require = [&](bool isMet, const std::string& problem) {
        if (!isMet) {
            block.Fail("field_range", Pipe::kScalar, call, problem);
        }
    };
    require(messageBytes % kMessageUnit == 0,
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
    RequireGroups(*block, call);
    block->UseCubes(Block::CubeUse::kGroups, call);
    CheckSize(*block, messageBytes, size, call);
    if (block->position.kind == CoreKind::kVector) {
        Field("evtIDIn", size.event, 0, block->launch.soc.eventIds - 1, call);
    }
    MessageArea wanted(reinterpret_cast<uintptr_t>(workspace), messageBytes, size);
    if (wanted.begin % kMessageUnit != 0) {
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
        now.Change([&] { area.waitsFor[cube] = slot; });
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
        now.Change([&] { next.wasReceived = true; });
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
    now.Change([&] { area.waitsFor[cube] = static_cast<uint32_t>(area.slots.size()); });
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
    now.Change([&] {
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
        now.Change([&] { now.Slot(slot).isSkippable = false; });
    }
}

}  // namespace opforge::twin::kernel
