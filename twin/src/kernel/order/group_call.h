// One call of a function of CubeResGroupHandle.
#ifndef OPFORGE_TWIN_KERNEL_ORDER_GROUP_CALL_H
#define OPFORGE_TWIN_KERNEL_ORDER_GROUP_CALL_H

#include "kernel/exec/scheduler.h"

namespace opforge::twin::kernel {

inline constexpr const char* kMessageOrder = "message_order";
inline constexpr int64_t kMessageUnit = 64;  ///< bytes

/// The block and the messages that a function of a handle uses.
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
    template <typename Update>
    void Change(const Update& update) const
    {
        block_->launch.scheduler->ChangeMessages([&](MessageAreas& /*areas*/) { update(); });
    }
    /// Waits until the slot has the state; the clocks and the time are then those of its last change.
    void Await(uint32_t slot, AscendC::CubeMsgState state, const std::function<std::string()>& problem) const
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
    void Publish(uint32_t slot, AscendC::CubeMsgState state, Pipe pipe) const
    {
        const Signal signal = block_->ordering.Release(pipe, CrossCoreFlagDelay(), call_.at);
        Change([&] {
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
    const Call call_;
    MessageArea* area_ = nullptr;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_ORDER_GROUP_CALL_H
