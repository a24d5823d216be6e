// The structures of tiling data that high-level functions use.
#ifndef KERNEL_TILING_KERNEL_TILING_H
#define KERNEL_TILING_KERNEL_TILING_H

#include <cstdint>

#if __has_include("opforge_twin/high_tiling.h")
#include "opforge_twin/high_tiling.h"
#endif
#if __has_include("opforge_twin/kernel/matmul/tiling_data.h")
#include "opforge_twin/kernel/matmul/tiling_data.h"
#endif

#endif  // KERNEL_TILING_KERNEL_TILING_H
