// The tiling functions and classes of high-level APIs.
#ifndef TILING_TILING_API_H
#define TILING_TILING_API_H

// Programs use std::cout and memcpy_s with this header alone.
#include <iostream>

#include "securec.h"

#include "opforge_twin/host/high_tiling_api.h"
#include "opforge_twin/host/matmul_tiling.h"

#endif  // TILING_TILING_API_H
