// The reports of all launches of this process, until someone takes them.
#ifndef OPFORGE_TWIN_HOST_ACLNN_REPORTS_H
#define OPFORGE_TWIN_HOST_ACLNN_REPORTS_H

#include <string>

#include "opforge_twin/launch.h"

namespace opforge::twin::host {

/// `minimalBytes`: every input and every output of the launch once.
void KeepReport(const LaunchReport& report, uint64_t minimalBytes);

/// All reports as a JSON array; they are gone then.
std::string TakeReports();

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACLNN_REPORTS_H
