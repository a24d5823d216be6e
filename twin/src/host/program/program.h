// The process state of programs that `opforge cc` compiles.
#ifndef OPFORGE_TWIN_HOST_PROGRAM_PROGRAM_H
#define OPFORGE_TWIN_HOST_PROGRAM_PROGRAM_H

#include <cstdint>
#include <string>

#include "opforge_twin/launch.h"

namespace opforge::twin::host {

/// Whether `opforge cc` compiled this process.
bool IsProgram();

/// SetKernelMode and ICPU_SET_TILING_KEY.
struct LaunchMode {
    std::string taskType;
    uint64_t tilingKey = 0;
};
LaunchMode& CurrentLaunchMode();

/// Reports a call that cannot run.
void Refuse(const std::string& kernel, const std::string& message);

/// Whether the program has a finding that is not a warning.
bool HasFindings();

/// Writes the findings of a launch to stderr.
void PrintFindings(const LaunchReport& report);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_PROGRAM_PROGRAM_H
