// The messages to groups of cube cores: for each queue four slots, which the cube cores read in rows.
#ifndef OPFORGE_TWIN_KERNEL_ORDER_MESSAGES_H
#define OPFORGE_TWIN_KERNEL_ORDER_MESSAGES_H

#include <deque>
#include <string>
#include <vector>

#include "kernel/order/cross_core.h"
#include "opforge_twin/kernel/cube_group.h"

namespace opforge::twin::kernel {

struct MessageSlot {
    AscendC::CubeMsgState state = AscendC::CubeMsgState::FREE;
    AscendC::CubeMsgState posted = AscendC::CubeMsgState::FREE;  ///< the last message
    AscendC::PipeMode mode = AscendC::PipeMode::SCALAR_MODE;
    bool isAllocated = false;  ///< and not posted
    bool wasReceived = true;   ///< the cube core has read or freed the last message
    bool isSkippable = false;  ///< the cube core has freed a fake message here, and has not skipped it
    Location at;               ///< of the allocation, or of the last message
    bool hasSignal = false;    ///< the other core has changed the state
    Signal signal;
};

struct MessageQueue {
    static constexpr uint32_t kNoOwner = 0xFFFFFFFFU;

    uint32_t owner = kNoOwner;  ///< vector core, by block
    bool hasQuit = false;
    Location at;  ///< of AssignQueue, or of SetQuit
};

/// The messages of a group. Not thread-safe.
struct MessageArea {
    static constexpr uint32_t kDepth = AscendC::MAX_MSG_PER_AIV;

    MessageArea(uint64_t address, uint32_t bytesEach, const CubeGroupSize& size);

    bool operator==(const MessageArea& other) const
    {
        return begin == other.begin && messageBytes == other.messageBytes && firstCube == other.firstCube &&
               cubes == other.cubes && queues.size() == other.queues.size();
    }
    /// Whether two groups cannot exist beside each other.
    bool Overlaps(const MessageArea& other) const
    {
        const bool sharesCubes = firstCube < other.firstCube + other.cubes && other.firstCube < firstCube + cubes;
        return sharesCubes || (begin < other.begin + other.Bytes() && other.begin < begin + Bytes());
    }
    uint64_t Bytes() const { return slots.size() * uint64_t{messageBytes}; }
    /// Queues of a cube core of the group; the last one may have fewer than `columns`.
    uint32_t QueuesOf(uint32_t cube) const;
    uint32_t IndexOf(uint32_t cube, uint32_t row, uint32_t column) const
    {
        return (cube * kDepth + row) * columns + column;
    }
    uint32_t FirstOf(uint32_t queue) const { return IndexOf(queue / columns, 0, queue % columns); }
    /// The queue of a slot.
    uint32_t QueueOf(uint32_t slot) const { return slot / (kDepth * columns) * columns + slot % columns; }
    uint64_t AddressOf(uint32_t slot) const { return begin + uint64_t{slot} * messageBytes; }
    uint8_t* HostOf(uint32_t slot) const { return host + uint64_t{slot} * messageBytes; }
    /// The address that the kernel gets: it can read the message there.
    MessagePointer PointerTo(uint32_t slot) const { return visible + uint64_t{slot} * messageBytes; }
    /// The slot at a pointer; the number of slots if there is none.
    uint32_t SlotAt(MessagePointer message) const;
    void SetState(uint32_t slot, AscendC::CubeMsgState state);
    /// The reason why the message of a slot is not free yet.
    std::string DescribeOpen(uint32_t slot) const;
    /// The reason why a slot has no message.
    std::string DescribeMissing(uint32_t slot, const CoreLayout& layout) const;

    uint64_t begin;
    uint32_t messageBytes;
    uint32_t firstCube;
    uint32_t cubes;
    uint32_t columns = 0;
    uint8_t* host = nullptr;
    MessagePointer visible = nullptr;
    std::vector<MessageQueue> queues;
    std::vector<MessageSlot> slots;
    /// For each cube core, the slot that it waits for; kIdle before its first one, and the number of slots at the end.
    std::vector<uint32_t> waitsFor;
    static constexpr uint32_t kIdle = 0xFFFFFFFFU;
};

using MessageAreas = std::deque<MessageArea>;

const char* Name(AscendC::CubeMsgState state);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_ORDER_MESSAGES_H
