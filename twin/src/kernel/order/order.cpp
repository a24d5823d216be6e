#include "kernel/order/order.h"

#include <algorithm>
#include <string_view>

#include "kernel/exec/block.h"

namespace opforge::twin::kernel {

namespace {

using AscendC::HardEvent;

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
    known_[static_cast<size_t>(pipe)].Join(clock);
    if (pipe == Pipe::kScalar) {
        // Its own loads and stores are another matter: those need a flag to the pipe that is to see them.
        Clock issued = clock;
        issued.Of(Pipe::kScalar) = 0;
        for (Clock& known : known_) {
            known.Join(issued);
        }
    }
}

void CoreOrder::Barrier(Pipe pipe, uint32_t now)
{
    if (pipe != Pipe::kAll) {
        known_[static_cast<size_t>(pipe)].Of(pipe) = now;
        return;
    }
    for (Clock& known : known_) {
        known.finished.fill(now);
    }
}

void CoreOrder::Hear(const CoreClocks& published, uint32_t block, bool byAll)
{
    Join(heard_, published);
    if (byAll) {
        const auto& own = published[block].finished;
        metAt_ = std::max(metAt_, *std::min_element(own.begin(), own.end()));
    }
}

CoreClocks CoreOrder::Publish(uint32_t block, uint32_t blocks, const Clock& own) const
{
    CoreClocks published = heard_;
    published.resize(blocks);
    published[block].Join(own);
    return published;
}

}  // namespace opforge::twin::kernel
