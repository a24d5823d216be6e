// A public name of the high-level API.
#ifndef ADV_API_MATH_ASINH_H
#define ADV_API_MATH_ASINH_H

#include "kernel_operator.h"

#endif  // ADV_API_MATH_ASINH_H
