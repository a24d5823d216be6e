#include "host/aclnn/reports.h"

#include <mutex>

#include "host/program/program.h"
#include "kernel/exec/report_json.h"
#include "kernel/exec/text.h"

namespace opforge::twin::host {

namespace {

std::mutex lock;
std::string kept;

}  // namespace

void KeepReport(const LaunchReport& report, uint64_t minimalBytes)
{
    if (IsProgram()) {
        PrintFindings(report);
    }
    // The launch report has the measured traffic; add the minimal traffic in front.
    const std::string fields = ToJson(report).substr(1);
    const std::lock_guard<std::mutex> guard(lock);
    kept += kernel::Text(kept.empty() ? "" : ", ", "{\"minimal_bytes\": ", minimalBytes, ", ", fields);
}

std::string TakeReports()
{
    const std::lock_guard<std::mutex> guard(lock);
    std::string reports = "[" + kept + "]";
    kept.clear();
    return reports;
}

}  // namespace opforge::twin::host
