// A public name of host functions of the high-level API.
#ifndef ADV_API_MATH_POWER_TILING_H
#define ADV_API_MATH_POWER_TILING_H

#include "tiling/tiling_api.h"

#endif  // ADV_API_MATH_POWER_TILING_H
