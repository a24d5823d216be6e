// The names of the tiling structs in kernels. kernel_tiling/kernel_tiling.h includes this header.
#ifndef OPFORGE_TWIN_HIGH_TILING_H
#define OPFORGE_TWIN_HIGH_TILING_H

#include "opforge_twin/high_tiling_structs.h"

#define OPFORGE_TILING_STRUCT(name, ...) using AscendC::tiling::name;
namespace AscendC {
#include "opforge_twin/high_tiling.inc"
}
#include "opforge_twin/high_tiling.inc"
#undef OPFORGE_TILING_STRUCT

#endif  // OPFORGE_TWIN_HIGH_TILING_H
