// The order between the pipes of one core and with other cores: flags, barriers and clocks of other cores.
#ifndef OPFORGE_TWIN_KERNEL_ORDER_ORDERING_H
#define OPFORGE_TWIN_KERNEL_ORDER_ORDERING_H

#include <array>

#include "kernel/exec/diagnostics.h"
#include "kernel/order/cross_core.h"
#include "kernel/order/order.h"
#include "kernel/order/unit_flags.h"
#include "kernel/timing/timeline.h"

namespace opforge::twin::kernel {

/// Cores that a SyncAll waits for.
enum class SyncScope : uint8_t { kVectors, kAll };
/// SyncAlls that a core has reached, by scope.
using SyncCounts = std::array<uint32_t, 2>;

class Ordering {
public:
    /// Event ids of each HardEvent.
    static constexpr int32_t kIds = 8;

    Ordering(const LaunchState& launch, uint32_t core, Execution& execution, Diagnostics& diagnostics,
             Timeline& timeline)
        : launch_(launch), core_(core), execution_(execution), diagnostics_(diagnostics), timeline_(timeline)
    {
    }

    /// An event id that is not reserved; ends the block if there is none.
    int32_t FreeEvent(AscendC::HardEvent event, const Call& call);
    /// AllocEventID and ReleaseEventID.
    int32_t ReserveEvent(AscendC::HardEvent event, const Call& call);
    void ReleaseEvent(AscendC::HardEvent event, int64_t id, const Call& call);
    /// SetFlag and WaitFlag.
    void SetEvent(AscendC::HardEvent event, int64_t id, const Call& call);
    /// With `mayBeOfPipe`, the first wait for a flag that TPipe of the device sets on cube cores succeeds.
    void WaitEvent(AscendC::HardEvent event, int64_t id, bool mayBeOfPipe, const Call& call);
    /// The flag of a buffer of a queue: reserves a free id, and releases it after the wait. An id of -1 is no flag.
    int32_t SetQueueEvent(Pipe from, Pipe to, const Call& call);
    void WaitQueueEvent(Pipe from, Pipe to, int32_t& id, const Call& call);
    /// The end of a TPipe waits for the flag.
    void EndQueueEvent(Pipe from, Pipe to, int32_t id);

    void PassBarrier(Pipe pipe);
    /// Orders the instructions of a pipe that waits for its earlier ones without a barrier.
    void OrderOwn(Pipe pipe) { order_.Barrier(pipe, execution_.Now()); }
    /// The clock after the last instruction of a pipe, and a wait for it without a flag.
    Clock After(Pipe pipe) const { return order_.After(pipe, execution_.Now()); }
    void Wait(Pipe pipe, const Clock& clock) { order_.Wait(pipe, clock); }
    /// Orders `to` after all instructions of `from`, for instructions that need no flag.
    void OrderInside(Pipe from, Pipe to);

    /// The clocks that other cores can acquire when `pipe` (or every pipe) has finished; visible `delay` later.
    Signal Release(Pipe pipe, const Marked& delay, const Location& at) const;
    /// `byAll`: all cores of the launch acquire it.
    void Acquire(const Signal& signal, bool byAll);
    /// Counts a SyncAll; returns the number of those before it.
    uint32_t CountSync(SyncScope scope) { return syncs_[static_cast<size_t>(scope)]++; }
    const SyncCounts& Syncs() const { return syncs_; }

    /// The tiles of L0C that instructions with a unit flag have used.
    UnitFlags& Tiles() { return tiles_; }
    CoreOrder& Clocks() { return order_; }

    /// Reports flags that are still set at the end of the kernel.
    void ReportLeft();

private:
    /// Flags and event ids of one HardEvent.
    /// TPipe of the device sets M_MTE1 with the ids below this one.
    static constexpr int32_t kIdsOfPipe = 3;
    struct EventState {
        std::array<bool, kIds> set{};
        std::array<bool, kIds> ofPipe{};  ///< the kernel has waited for the flag of TPipe
        std::array<bool, kIds> reserved{};
        std::array<Location, kIds> reservedAt{};  ///< by AllocEventID; no location: by a queue
        std::array<Location, kIds> setAt{};
        std::array<Clock, kIds> clock{};  ///< finished instructions when the flag is set
        std::array<Moment, kIds> time{};  ///< time at which it becomes visible
    };

    EventState& Event(AscendC::HardEvent event) { return events_[static_cast<size_t>(event)]; }
    /// The order of a flag that is set.
    void PassEvent(AscendC::HardEvent event, int64_t id);

    const LaunchState& launch_;
    const uint32_t core_;
    Execution& execution_;
    Diagnostics& diagnostics_;
    Timeline& timeline_;
    CoreOrder order_;
    std::array<EventState, static_cast<size_t>(AscendC::HardEvent::MAX)> events_;
    UnitFlags tiles_;
    SyncCounts syncs_{};
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_ORDER_ORDERING_H
