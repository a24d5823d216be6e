#include "kernel/timing/calibrated.h"

#include <cmath>
#include <iterator>
#include <set>

#include "kernel/exec/text.h"

namespace opforge::twin {

namespace {

using kernel::Text;

/// With a larger share, the spread of assumed constants can exceed the range of errors.
constexpr double kDecisive = 1.0 / 3.0;

template <size_t count>
bool Contains(const char* const (&names)[count], const std::string& name)
{
    for (const char* const known : names) {
        if (name == known) {
            return true;
        }
    }
    return false;
}

/// Whether cube and vector cores run. The first word of a core's name is its kind.
bool IsMixed(const LaunchReport& report)
{
    std::set<std::string> kinds;
    for (const CoreTime& core : report.cores) {
        if (core.us > 0.0) {
            kinds.insert(core.name.substr(0, core.name.find(' ')));
        }
    }
    return kinds.size() > 1;
}

std::string Percent(double part, double all)
{
    return Text(std::lround(100.0 * part / all), "%");
}

}  // namespace

std::vector<std::string> OutsideRange(const LaunchReport& report, const std::string& soc)
{
    std::vector<std::string> reasons;
    if (!Contains(kPublishedSocs, soc)) {
        std::string known;
        for (const char* const name : kPublishedSocs) {
            known += Text(known.empty() ? "" : ", ", name);
        }
        reasons.push_back(Text("no evaluated published times of ", soc, ", expected ", known));
    }
    const double us = report.estimateUs;
    if (us < kPublishedUs[0] || us > kPublishedUs[1]) {
        reasons.push_back(Text(us, " us, published times are ", kPublishedUs[0], " to ", kPublishedUs[1], " us"));
    }
    if (IsMixed(report)) {
        reasons.emplace_back("no published time was compared with a run of both cube and vector cores");
    }
    if (report.unalignedFactors) {
        reasons.emplace_back("few published times of matrix products with rows that are not multiples of 32 bytes");
    }
    double assumed = 0.0;
    std::string shares;
    for (const PipeShare& part : report.assumed) {
        if (Contains(kAssumedConstants, part.pipe)) {
            assumed += part.us;
            if (std::lround(100.0 * part.us / us) != 0) {
                shares += Text(shares.empty() ? "" : ", ", part.pipe, " ", Percent(part.us, us));
            }
        }
    }
    if (assumed > kDecisive * us) {
        reasons.push_back(Text(Percent(assumed, us), " of the time depends on assumed constants: ", shares));
    }
    return reasons;
}

}  // namespace opforge::twin
