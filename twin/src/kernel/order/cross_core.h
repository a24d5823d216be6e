// Flags between cores: the cores that set a flag, and the cores that wait for it.
#ifndef OPFORGE_TWIN_KERNEL_ORDER_CROSS_CORE_H
#define OPFORGE_TWIN_KERNEL_ORDER_CROSS_CORE_H

#include <array>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "kernel/exec/core_layout.h"
#include "kernel/order/order.h"
#include "kernel/timing/timeline.h"

namespace opforge::twin::kernel {

/// The clocks that a core releases to other cores.
struct Signal {
    CoreClocks released;  ///< finished instructions; empty without checks
    PhaseMoment time;
    Marked delay;  ///< until others see it
    Location at;
};

void Join(Signal& into, const Signal& other);

/// Modes: 0 = all cores of a kind set it for each other, 1 = the vector cores of an AI core for each other, 2 = one
/// side of an AI core for the other; a side with two cores needs both. A flag counts; a wait takes one. Not
/// thread-safe.
class CrossCoreFlags {
public:
    static constexpr size_t kFlags = 16;
    static constexpr size_t kMostPending = 15;

    explicit CrossCoreFlags(const CoreLayout& layout);

    /// Returns the cores whose counters can run over: no order of the cores ensures that they wait before.
    std::vector<uint32_t> Set(uint32_t core, int64_t mode, int64_t flag, const Signal& signal);
    bool RunsOver(uint32_t core, int64_t flag) const { return Pending(core, flag).size() > kMostPending; }
    bool IsSet(uint32_t core, int64_t flag) const { return !Pending(core, flag).empty(); }
    /// `now`: the instruction of `core` that waits.
    Signal Take(uint32_t core, int64_t flag, uint32_t now);
    /// The missing conditions before `core` sees the flag.
    std::string DescribeMissing(uint32_t core, int64_t flag) const;

    /// A flag without a wait.
    struct Left {
        uint32_t core;  ///< the core without a set flag
        size_t flag;
        Location setAt;
    };
    std::vector<Left> LeftSet() const;

private:
    /// The n-th time that the cores of a group set a flag.
    struct Gathering {
        std::vector<uint32_t> cores;
        Signal signal;
    };
    struct Group {
        std::vector<uint32_t> members;
        std::vector<uint32_t> listeners;
        std::map<uint32_t, size_t> setBy;  ///< how often each member has set it
        std::deque<Gathering> open;        ///< flags that some members have not set yet
        size_t completed = 0;
    };
    using Key = std::tuple<int64_t, int64_t, CoreKind, uint32_t>;  ///< flag, mode, side, AI core

    /// The flags that a core waits for.
    struct Counter {
        std::deque<Signal> pending;
        std::vector<uint32_t> waits;  ///< instructions that took one
    };

    bool CanRunOver(uint32_t core, const Counter& counter, const Signal& signal) const;
    Group MakeGroup(int64_t mode, const CorePosition& position) const;
    const std::deque<Signal>& Pending(uint32_t core, int64_t flag) const
    {
        return counters_[core][static_cast<size_t>(flag)].pending;
    }

    const CoreLayout& layout_;
    std::map<Key, Group> groups_;
    std::vector<std::array<Counter, kFlags>> counters_;  ///< by core
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_ORDER_CROSS_CORE_H
