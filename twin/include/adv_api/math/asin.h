// A public name of the high-level API.
#ifndef ADV_API_MATH_ASIN_H
#define ADV_API_MATH_ASIN_H

#include "kernel_operator.h"

#endif  // ADV_API_MATH_ASIN_H
