#include "kernel/order/order.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace opforge::twin::kernel {

namespace {

using AscendC::HardEvent;

constexpr const char* kEventNames[] = {
    "MTE2_MTE1", "MTE1_MTE2", "MTE1_M",    "M_MTE1",    "MTE2_V",   "V_MTE2",   "MTE3_V",   "V_MTE3",  "M_V",
    "V_M",       "V_V",       "MTE3_MTE1", "MTE1_MTE3", "MTE1_V",   "MTE2_M",   "M_MTE2",   "V_MTE1",  "M_FIX",
    "FIX_M",     "MTE3_MTE2", "MTE2_MTE3", "S_V",       "V_S",      "S_MTE2",   "MTE2_S",   "S_MTE3",  "MTE3_S",
    "MTE2_FIX",  "FIX_MTE2",  "FIX_S",     "M_S",       "FIX_MTE3", "MTE1_FIX", "FIX_MTE1", "FIX_FIX",
};
static_assert(std::size(kEventNames) == static_cast<size_t>(HardEvent::MAX));

Pipe PipeNamed(std::string_view name)
{
    size_t pipe = 0;
    while (name != Name(static_cast<Pipe>(pipe))) {
        ++pipe;
    }
    return static_cast<Pipe>(pipe);
}

std::array<PipePair, static_cast<size_t>(HardEvent::MAX)> ReadEnds()
{
    std::array<PipePair, static_cast<size_t>(HardEvent::MAX)> ends;
    for (size_t event = 0; event < ends.size(); ++event) {
        const std::string_view name = Name(static_cast<HardEvent>(event));
        const size_t bar = name.find('_');
        ends[event] = {PipeNamed(name.substr(0, bar)), PipeNamed(name.substr(bar + 1))};
    }
    return ends;
}

}  // namespace

const char* Name(HardEvent event)
{
    return kEventNames[static_cast<size_t>(event)];
}

PipePair EndsOf(HardEvent event)
{
    static const auto ends = ReadEnds();
    return ends[static_cast<size_t>(event)];
}

HardEvent EventOf(Pipe from, Pipe to)
{
    for (size_t event = 0; event < static_cast<size_t>(HardEvent::MAX); ++event) {
        const PipePair ends = EndsOf(static_cast<HardEvent>(event));
        if (ends.from == from && ends.to == to) {
            return static_cast<HardEvent>(event);
        }
    }
    return HardEvent::MAX;
}

void Clock::Join(const Clock& other)
{
    for (size_t pipe = 0; pipe < kPipes; ++pipe) {
        finished[pipe] = std::max(finished[pipe], other.finished[pipe]);
    }
}

void Join(CoreClocks& into, const CoreClocks& other)
{
    into.resize(std::max(into.size(), other.size()));
    for (size_t block = 0; block < other.size(); ++block) {
        into[block].Join(other[block]);
    }
}

Clock CoreOrder::After(Pipe pipe, uint32_t now) const
{
    Clock clock = Before(pipe);
    clock.Of(pipe) = now;
    return clock;
}

void CoreOrder::Wait(Pipe pipe, const Clock& clock)
{
    ++changes_;
    known_[static_cast<size_t>(pipe)].Join(clock);
    if (pipe == Pipe::kScalar) {
        // Its loads and stores need a flag to the pipe that uses the data.
        Clock issued = clock;
        issued.Of(Pipe::kScalar) = 0;
        for (Clock& known : known_) {
            known.Join(issued);
        }
    }
}

void CoreOrder::Barrier(Pipe pipe, uint32_t now)
{
    ++changes_;
    if (pipe != Pipe::kAll) {
        known_[static_cast<size_t>(pipe)].Of(pipe) = now;
        return;
    }
    for (Clock& known : known_) {
        known.finished.fill(now);
    }
}

void CoreOrder::Acquire(const CoreClocks& released, uint32_t block, bool byAll)
{
    Join(acquired_, released);
    if (byAll) {
        const auto& own = released[block].finished;
        metAt_ = std::max(metAt_, *std::min_element(own.begin(), own.end()));
    }
}

CoreClocks CoreOrder::Release(uint32_t block, uint32_t blocks, const Clock& own) const
{
    CoreClocks released = acquired_;
    released.resize(blocks);
    released[block].Join(own);
    return released;
}

}  // namespace opforge::twin::kernel
