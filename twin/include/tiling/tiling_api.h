// The tiling classes of high-level APIs.
#ifndef TILING_TILING_API_H
#define TILING_TILING_API_H

#include "opforge_twin/host/matmul_tiling.h"

#endif  // TILING_TILING_API_H
