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

/// Reads the line table of a library at the first lookup of an address in it.
SourceLine LineOf(const Location& at);

/// "file:line"; empty if the location is not known.
std::string Where(const Location& at);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_SOURCE_LINES_H
