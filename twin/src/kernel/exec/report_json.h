// Reports as JSON.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_REPORT_JSON_H
#define OPFORGE_TWIN_KERNEL_EXEC_REPORT_JSON_H

#include <string>

#include "opforge_twin/launch.h"

namespace opforge::twin {

/// A JSON string.
std::string Quoted(const std::string& text);
/// {"error": "..."}
std::string ErrorJson(const std::string& problem);
std::string ToJson(const LaunchReport& report);

}  // namespace opforge::twin

#endif  // OPFORGE_TWIN_KERNEL_EXEC_REPORT_JSON_H
