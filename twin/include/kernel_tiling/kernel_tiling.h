// The structures of tiling data that high-level functions use.
#ifndef KERNEL_TILING_KERNEL_TILING_H
#define KERNEL_TILING_KERNEL_TILING_H

#include <cstdint>

#include "opforge_twin/high_tiling.h"
#include "opforge_twin/kernel/matmul/tiling_data.h"

#endif  // KERNEL_TILING_KERNEL_TILING_H
