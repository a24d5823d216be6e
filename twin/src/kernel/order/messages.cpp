#include "kernel/order/messages.h"

#include "kernel/exec/source_lines.h"
#include "kernel/exec/text.h"
#include "opforge_twin/arithmetic.h"

namespace opforge::twin::kernel {

using AscendC::CubeMsgState;

const char* Name(CubeMsgState state)
{
    constexpr const char* names[] = {"FREE", "VALID", "QUIT", "FAKE"};
    return names[static_cast<size_t>(state)];
}

MessageArea::MessageArea(uint64_t address, uint32_t bytesEach, const CubeGroupSize& size)
    : begin(address),
      messageBytes(bytesEach),
      firstCube(size.blockStart / 2U),
      cubes(size.blockSize / 2U),
      columns(CeilDiv<uint32_t>(size.queues, cubes)),
      queues(size.queues),
      slots(size_t{cubes} * columns * kDepth),
      waitsFor(cubes, kIdle)
{
}

uint32_t MessageArea::QueuesOf(uint32_t cube) const
{
    const auto all = static_cast<uint32_t>(queues.size());
    return cube + 1 == cubes ? all - cube * columns : columns;
}

uint32_t MessageArea::SlotAt(MessagePointer message) const
{
    const auto none = static_cast<uint32_t>(slots.size());
    const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(message));
    for (const uint64_t start : {static_cast<uint64_t>(reinterpret_cast<uintptr_t>(visible)), begin}) {
        const uint64_t offset = address - start;
        if (address >= start && offset < Bytes() && offset % messageBytes == 0) {
            return static_cast<uint32_t>(offset / messageBytes);
        }
    }
    return none;
}

void MessageArea::SetState(uint32_t slot, CubeMsgState state)
{
    slots[slot].state = state;
    HostOf(slot)[0] = static_cast<uint8_t>(state);
}

std::string MessageArea::DescribeOpen(uint32_t slot) const
{
    const MessageSlot& open = slots[slot];
    if (open.wasReceived) {
        return Text("the cube core has handled the message of ", Where(open.at),
                    " without FreeMessage; call it in Call of the callback");
    }
    const uint32_t cube = slot / (kDepth * columns);
    const uint32_t waits = waitsFor[cube];
    if (waits == kIdle || waits == slots.size()) {
        return Text("AIC block ", firstCube + cube, " does not read messages; call CreateCubeResGroup on it");
    }
    return Text("AIC block ", firstCube + cube, " waits for queue ", QueueOf(waits),
                ": it reads one message of each queue in turn, until the queue has called SetQuit");
}

std::string MessageArea::DescribeMissing(uint32_t slot, const CoreLayout& layout) const
{
    const uint32_t number = QueueOf(slot);
    const MessageQueue& queue = queues[number];
    if (queue.owner == MessageQueue::kNoOwner) {
        return Text("no vector core has called AssignQueue(", number, "); each queue needs one");
    }
    if (slots[slot].isSkippable) {
        return Text("the callback has freed the fake message of ", Where(slots[slot].at),
                    " without SetSkipMsg; call it in the same Call");
    }
    const std::string owner = layout.NameOf(queue.owner);
    if (slots[slot].isAllocated) {
        return Text(owner, " has not posted the message of AllocMessage at ", Where(slots[slot].at));
    }
    return Text(owner, " posts no more messages to queue ", number, "; call SetQuit on it after its last message");
}

}  // namespace opforge::twin::kernel
