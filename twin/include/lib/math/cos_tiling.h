// A public name of host functions of the high-level API.
#ifndef LIB_MATH_COS_TILING_H
#define LIB_MATH_COS_TILING_H

#include "tiling/tiling_api.h"

#endif  // LIB_MATH_COS_TILING_H
