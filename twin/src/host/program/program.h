// The process state of programs that `opforge cc` compiles.
#ifndef OPFORGE_TWIN_HOST_PROGRAM_PROGRAM_H
#define OPFORGE_TWIN_HOST_PROGRAM_PROGRAM_H

#include "opforge_twin/launch.h"

namespace opforge::twin::host {

/// Whether `opforge cc` compiled this process.
bool IsProgram();

/// Writes the findings of a launch to stderr.
void PrintFindings(const LaunchReport& report);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_PROGRAM_PROGRAM_H
