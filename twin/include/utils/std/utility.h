// Includes AscendC::Std.
#include "opforge_twin/kernel/std.h"
