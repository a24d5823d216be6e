#include "kernel/order/cross_core.h"

#include <algorithm>

#include "kernel/exec/text.h"

namespace opforge::twin::kernel {

void Join(Signal& into, const Signal& other)
{
    Join(into.released, other.released);
    const CoreReleases releases = into.time.releases != nullptr ? into.time.releases : other.time.releases;
    if (releases != other.time.releases) {
        releases->insert(releases->end(), other.time.releases->begin(), other.time.releases->end());
    }
    if (into.time.moment.at <= other.time.moment.at) {
        into.time = other.time;
    }
    into.time.releases = releases;
    into.delay = other.delay;
    into.at = other.at;
}

CrossCoreFlags::CrossCoreFlags(const CoreLayout& layout) : layout_(layout), counters_(layout.Count()) {}

bool CrossCoreFlags::CanRunOver(uint32_t core, const Counter& counter, const Signal& signal) const
{
    const size_t sets = counter.waits.size() + counter.pending.size();
    if (sets <= kMostPending) {
        return false;
    }
    const size_t needed = sets - kMostPending - 1;  // the wait that must come first
    if (needed >= counter.waits.size() || core >= signal.released.size()) {
        return counter.pending.size() > kMostPending;
    }
    const auto& known = signal.released[core].finished;
    return *std::max_element(known.begin(), known.end()) <= counter.waits[needed];
}

CrossCoreFlags::Group CrossCoreFlags::MakeGroup(int64_t mode, const CorePosition& position) const
{
    Group group;
    group.members = mode == 0 ? layout_.CoresOf(position.kind) : layout_.CoresOf(position.kind, position.group);
    const CoreKind other = position.kind == CoreKind::kCube ? CoreKind::kVector : CoreKind::kCube;
    group.listeners = mode == 2 ? layout_.CoresOf(other, position.group) : group.members;
    return group;
}

std::vector<uint32_t> CrossCoreFlags::Set(uint32_t core, int64_t mode, int64_t flag, const Signal& signal)
{
    const CorePosition position = layout_.At(core);
    const auto [entry, isNew] = groups_.try_emplace({flag, mode, position.kind, mode == 0 ? 0 : position.group});
    Group& group = entry->second;
    if (isNew) {
        group = MakeGroup(mode, position);
    }
    const size_t number = group.setBy[core]++ - group.completed;
    if (number >= group.open.size()) {
        group.open.resize(number + 1);
    }
    group.open[number].cores.push_back(core);
    Join(group.open[number].signal, signal);
    if (group.open[number].cores.size() < group.members.size()) {
        return {};
    }
    std::vector<uint32_t> overflowing;
    for (const uint32_t listener : group.listeners) {
        Counter& counter = counters_[listener][static_cast<size_t>(flag)];
        counter.pending.push_back(group.open.front().signal);
        if (CanRunOver(listener, counter, group.open.front().signal)) {
            overflowing.push_back(listener);
        }
    }
    group.open.pop_front();
    ++group.completed;
    return overflowing;
}

Signal CrossCoreFlags::Take(uint32_t core, int64_t flag, uint32_t now)
{
    Counter& counter = counters_[core][static_cast<size_t>(flag)];
    Signal signal = std::move(counter.pending.front());
    counter.pending.pop_front();
    counter.waits.push_back(now);
    return signal;
}

std::string CrossCoreFlags::DescribeMissing(uint32_t core, int64_t flag) const
{
    std::string found;
    for (const auto& [key, group] : groups_) {
        const bool isListener =
            std::find(group.listeners.begin(), group.listeners.end(), core) != group.listeners.end();
        if (std::get<0>(key) == flag && isListener && !group.open.empty()) {
            found += Text("; in mode ", std::get<1>(key), " it was set by ", group.open.front().cores.size(), " of ",
                          group.members.size(), " blocks on ", Name(std::get<2>(key)), " cores and needs all of them");
        }
    }
    return found.empty() ? "; CrossCoreSetFlag with this flagId is missing on the other side" : found;
}

std::vector<CrossCoreFlags::Left> CrossCoreFlags::LeftSet() const
{
    std::vector<Left> left;
    for (uint32_t core = 0; core < counters_.size(); ++core) {
        for (size_t flag = 0; flag < kFlags; ++flag) {
            for (const Signal& signal : counters_[core][flag].pending) {
                left.push_back({core, flag, signal.at});
            }
        }
    }
    for (const auto& [key, group] : groups_) {
        for (const Gathering& gathering : group.open) {
            left.push_back({gathering.cores.front(), static_cast<size_t>(std::get<0>(key)), gathering.signal.at});
        }
    }
    return left;
}

}  // namespace opforge::twin::kernel
