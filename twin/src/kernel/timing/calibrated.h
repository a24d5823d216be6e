// The range in which published times are comparable with the time model.
#ifndef OPFORGE_TWIN_SRC_KERNEL_TIMING_CALIBRATED_H
#define OPFORGE_TWIN_SRC_KERNEL_TIMING_CALIBRATED_H

#include <string>
#include <vector>

#include "opforge_twin/launch.h"

namespace opforge::twin {

#include "calibrated.inc"

/// Returns the reasons why no published time is comparable with a launch.
std::vector<std::string> OutsideRange(const LaunchReport& report, const std::string& soc);

}  // namespace opforge::twin

#endif  // OPFORGE_TWIN_SRC_KERNEL_TIMING_CALIBRATED_H
