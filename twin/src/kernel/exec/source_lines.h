// Source lines of code addresses, from the line tables of the loaded libraries.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_SOURCE_LINES_H
#define OPFORGE_TWIN_KERNEL_EXEC_SOURCE_LINES_H

#include <string>

#include "opforge_twin/kernel/runtime.h"

namespace opforge::twin::kernel {

struct SourceLine {
    std::string file;
    int line = 0;  ///< 0: not known
};

/// Reads the line table of a library when an address in it is looked up for the first time.
SourceLine LineOf(const Location& at);

/// "file:line", empty if the place is not known.
std::string Where(const Location& at);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_SOURCE_LINES_H
