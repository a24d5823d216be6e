#include "kernel/timing/core_waits.h"

#include <algorithm>

namespace opforge::twin::kernel {

namespace {

/// The changed times of a core. Its waits are added in ascending order.
class ChangedCore {
public:
    explicit ChangedCore(CoreSchedule& schedule) : changes_(schedule.changes)
    {
        std::stable_sort(changes_.begin(), changes_.end(), IsEarlier);
        double sum = 0.0;
        for (CycleChange& change : changes_) {
            sum += change.cycles;
            change.cycles = sum;
        }
        factor_ = sum != 0.0 ? std::clamp(schedule.change / sum, 0.0, 1.0) : 0.0;
    }

    double At(double time) const
    {
        const auto next = std::upper_bound(ends_.begin(), ends_.end(), time,
                                           [](double value, const End& end) { return value < end.before; });
        const End last = next == ends_.begin() ? End{} : *(next - 1);
        return std::max(last.after, last.after + time - last.before + ChangeUntil(time) - ChangeUntil(last.before));
    }
    void Add(double end, double changedEnd) { ends_.push_back({end, changedEnd}); }

private:
    struct End {
        double before = 0.0;
        double after = 0.0;
    };

    static bool IsEarlier(const CycleChange& a, const CycleChange& b) { return a.at < b.at; }

    double ChangeUntil(double time) const
    {
        const auto next = std::lower_bound(changes_.begin(), changes_.end(), CycleChange{time}, IsEarlier);
        return next == changes_.begin() ? 0.0 : (next - 1)->cycles * factor_;
    }

    std::vector<CycleChange>& changes_;  ///< with the sums of the cycles
    double factor_ = 0.0;
    std::vector<End> ends_;
};

}  // namespace

std::vector<double> SettleWaits(std::vector<CoreSchedule>& cores, const std::vector<size_t>& coreOf)
{
    struct Item {
        size_t core;
        const CoreWait* wait;
    };
    std::vector<Item> items;
    std::vector<ChangedCore> changed;
    for (size_t core = 0; core < cores.size(); ++core) {
        changed.emplace_back(cores[core]);
        for (const CoreWait& wait : cores[core].waits) {
            items.push_back({core, &wait});
        }
    }
    // The releases of a wait, and the earlier waits before them, have earlier ends.
    std::stable_sort(items.begin(), items.end(),
                     [](const Item& a, const Item& b) { return a.wait->end < b.wait->end; });
    for (const Item& item : items) {
        double end = changed[item.core].At(item.wait->begin);
        for (const CoreRelease& release : *item.wait->releases) {
            end = std::max(end, changed[coreOf[release.block]].At(release.at) + item.wait->delay);
        }
        changed[item.core].Add(item.wait->end, end);
    }
    std::vector<double> cycles;
    for (size_t core = 0; core < cores.size(); ++core) {
        const CoreSchedule& schedule = cores[core];
        cycles.push_back(schedule.waits.empty() ? schedule.settled : changed[core].At(schedule.cycles));
    }
    return cycles;
}

}  // namespace opforge::twin::kernel
