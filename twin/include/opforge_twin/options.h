// The process-wide default options of launches.
#ifndef OPFORGE_TWIN_OPTIONS_H
#define OPFORGE_TWIN_OPTIONS_H

#include "opforge_twin/launch.h"

namespace opforge::twin {

Options ProcessOptions();
void SetProcessOptions(const Options& options);

}  // namespace opforge::twin

#endif  // OPFORGE_TWIN_OPTIONS_H
