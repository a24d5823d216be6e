// The options of launches that are not given their own: one set for the process.
#ifndef OPFORGE_TWIN_OPTIONS_H
#define OPFORGE_TWIN_OPTIONS_H

#include "opforge_twin/launch.h"

namespace opforge::twin {

Options ProcessOptions();
void SetProcessOptions(const Options& options);

}  // namespace opforge::twin

#endif  // OPFORGE_TWIN_OPTIONS_H
