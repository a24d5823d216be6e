#include "host/aclnn/reports.h"

#include <mutex>
#include <string>
#include <vector>

#include "host/program/program.h"
#include "kernel/exec/report_json.h"
#include "kernel/exec/text.h"

namespace opforge::twin::host {

namespace {

std::mutex lock;
std::vector<std::string> kept;  ///< without the closing brace
size_t readBack = 0;            ///< number of reports that precede a copy to the host

}  // namespace

void KeepReport(const LaunchReport& report, uint64_t minimalBytes)
{
    if (IsProgram()) {
        PrintFindings(report);
    }
    // The launch report has the measured traffic; add the minimal traffic in front.
    std::string fields = ToJson(report).substr(1);
    fields.pop_back();
    const std::lock_guard<std::mutex> guard(lock);
    kept.push_back(kernel::Text("{\"minimal_bytes\": ", minimalBytes, ", ", fields));
}

void RecordReadBack()
{
    const std::lock_guard<std::mutex> guard(lock);
    readBack = kept.size();
}

std::string TakeReports()
{
    const std::lock_guard<std::mutex> guard(lock);
    std::string reports;
    for (size_t index = 0; index < kept.size(); ++index) {
        const char* const read = !IsProgram()       ? "}"
                                 : index < readBack ? R"(, "read_back": true})"
                                                    : R"(, "read_back": false})";
        reports += kernel::Text(reports.empty() ? "" : ", ", kept[index], read);
    }
    kept.clear();
    readBack = 0;
    return kernel::Text("[", reports, "]");
}

}  // namespace opforge::twin::host
