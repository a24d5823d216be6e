// A public name of the high-level API.
#ifndef LIB_MATH_TRUNC_H
#define LIB_MATH_TRUNC_H

#include "kernel_operator.h"

#endif  // LIB_MATH_TRUNC_H
