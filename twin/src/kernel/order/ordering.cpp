#include "kernel/order/ordering.h"

namespace opforge::twin::kernel {

using AscendC::HardEvent;

int32_t Ordering::FreeEvent(HardEvent event, const Call& call)
{
    const EventState& state = Event(event);
    const auto ids = static_cast<int32_t>(launch_.soc.eventIds);
    for (int32_t id = 0; id < ids; ++id) {
        if (!state.reserved[static_cast<size_t>(id)]) {
            return id;
        }
    }
    diagnostics_.Fail(
        "event_ids", Pipe::kScalar, call,
        Text("all ", ids, " event ids of ", Name(event),
             " are in use; every buffer of a queue uses one in each direction, and AllocEventID one more"));
}

int32_t Ordering::ReserveEvent(HardEvent event, const Call& call)
{
    const int32_t id = FreeEvent(event, call);
    EventState& state = Event(event);
    state.reserved[static_cast<size_t>(id)] = true;
    state.reservedAt[static_cast<size_t>(id)] = call.at;
    return id;
}

void Ordering::ReleaseEvent(HardEvent event, int64_t id, const Call& call)
{
    EventState& state = Event(event);
    Location& reservedAt = state.reservedAt[static_cast<size_t>(id)];
    if (!reservedAt) {
        diagnostics_.Fail("event_ids", Pipe::kScalar, call,
                          Text("id ", id, " of ", Name(event),
                               " does not come from AllocEventID; release each id of AllocEventID once"));
    }
    state.reserved[static_cast<size_t>(id)] = false;
    reservedAt = {};
}

void Ordering::SetEvent(HardEvent event, int64_t id, const Call& call)
{
    const PipePair ends = EndsOf(event);
    diagnostics_.RequirePipe(ends.from, call);
    diagnostics_.RequirePipe(ends.to, call);
    EventState& state = Event(event);
    const auto slot = static_cast<size_t>(id);
    if (state.set[slot]) {
        diagnostics_.Fail("flag_set_twice", Pipe::kScalar, call,
                          Text("flag ", Name(event), " id ", id, " is still set since ", Where(state.setAt[slot]),
                               "; wait for it before setting it again, or use another id"));
    }
    state.set[slot] = true;
    state.setAt[slot] = call.at;
    state.clock[slot] = order_.After(ends.from, execution_.Now());
    state.time[slot] = timeline_.FlagTime(ends.from);
}

void Ordering::WaitEvent(HardEvent event, int64_t id, bool mayBeOfPipe, const Call& call)
{
    EventState& state = Event(event);
    const auto slot = static_cast<size_t>(id);
    if (!state.set[slot] && mayBeOfPipe && event == HardEvent::M_MTE1 && id < kIdsOfPipe && !state.ofPipe[slot]) {
        state.ofPipe[slot] = true;
        return;
    }
    if (!state.set[slot]) {
        diagnostics_.Fail("flag_not_set", Pipe::kScalar, call,
                          Text("nothing has set flag ", Name(event), " id ", id,
                               ": the core would hang; pair it with SetFlag<", Name(event), ">(", id, ") before"));
    }
    state.set[slot] = false;
    PassEvent(event, id);
}

int32_t Ordering::SetQueueEvent(Pipe from, Pipe to, const Call& call)
{
    const HardEvent event = EventOf(from, to);
    const int32_t id = FreeEvent(event, call);
    Event(event).reserved[static_cast<size_t>(id)] = true;
    SetEvent(event, id, call);
    return id;
}

void Ordering::WaitQueueEvent(Pipe from, Pipe to, int32_t& id, const Call& call)
{
    if (id < 0) {
        return;
    }
    const HardEvent event = EventOf(from, to);
    WaitEvent(event, id, false, call);
    Event(event).reserved[static_cast<size_t>(id)] = false;
    id = -1;
}

void Ordering::EndQueueEvent(Pipe from, Pipe to, int32_t id)
{
    if (id >= 0) {
        const HardEvent event = EventOf(from, to);
        PassEvent(event, id);
        Event(event).set[static_cast<size_t>(id)] = false;
        Event(event).reserved[static_cast<size_t>(id)] = false;
    }
}

void Ordering::PassEvent(HardEvent event, int64_t id)
{
    const EventState& state = Event(event);
    const Pipe to = EndsOf(event).to;
    order_.Wait(to, state.clock[static_cast<size_t>(id)]);
    timeline_.Wait(to, state.time[static_cast<size_t>(id)]);
}

void Ordering::PassBarrier(Pipe pipe)
{
    order_.Barrier(pipe, execution_.Now());
    timeline_.PassBarrier(pipe);
}

void Ordering::OrderInside(Pipe from, Pipe to)
{
    order_.Wait(to, order_.After(from, execution_.Now()));
    timeline_.Wait(to, timeline_.FlagTime(from));
}

Signal Ordering::Release(Pipe pipe, const Marked& delay, const Location& at) const
{
    Signal signal{{}, timeline_.Release(core_, pipe), delay, at};
    if (launch_.options.strict) {
        Clock own;
        if (pipe == Pipe::kAll) {
            own.finished.fill(execution_.Now());
        } else {
            own = order_.After(pipe, execution_.Now());
        }
        signal.released = order_.Release(core_, launch_.layout.Count(), own);
    }
    return signal;
}

void Ordering::Acquire(const Signal& signal, bool byAll)
{
    if (!signal.released.empty()) {
        order_.Acquire(signal.released, core_, byAll);
        order_.Wait(Pipe::kScalar, signal.released[core_]);
    }
    timeline_.Acquire(signal.time, signal.delay);
}

void Ordering::ReportLeft()
{
    for (size_t number = 0; number < events_.size(); ++number) {
        const EventState& state = events_[number];
        const auto event = static_cast<HardEvent>(number);
        for (size_t id = 0; id < kIds; ++id) {
            if (const Location& at = state.reservedAt[id]; at) {
                diagnostics_.Report("event_ids", Pipe::kScalar, {kKernelEnd, at},
                                    Text("id ", id, " of ", Name(event),
                                         " from AllocEventID is never released; call ReleaseEventID after its last "
                                         "wait, or use FetchEventID"));
            }
            if (state.set[id] && !state.ofPipe[id]) {
                diagnostics_.Report("flag_left_set", Pipe::kScalar, {kKernelEnd, state.setAt[id]},
                                    Text("flag ", Name(event), " id ", id,
                                         " is set here and never waited for; it would break the next kernel on this "
                                         "core"));
            }
        }
    }
    for (const auto& [address, tile] : tiles_) {
        if (tile.flag != kUnitFlagOff) {
            diagnostics_.Report("unit_flag", Pipe::kScalar, {kKernelEnd, tile.at},
                                "the tile of this product with a unit flag was not stored by a Fixpipe with unitFlag "
                                "3; the next kernel that uses it would hang");
        }
    }
}

}  // namespace opforge::twin::kernel
