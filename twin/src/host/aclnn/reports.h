// The reports of all launches of this process until they are taken.
#ifndef OPFORGE_TWIN_HOST_ACLNN_REPORTS_H
#define OPFORGE_TWIN_HOST_ACLNN_REPORTS_H

#include <string>

#include "opforge_twin/launch.h"

namespace opforge::twin::host {

/// `minimalBytes`: the total size of all inputs and outputs, each counted once.
void KeepReport(const LaunchReport& report, uint64_t minimalBytes);

/// Records in the reports of programs that the host can read the results of all launches up to now.
void RecordReadBack();

/// Returns all reports as a JSON array and removes them.
std::string TakeReports();

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACLNN_REPORTS_H
