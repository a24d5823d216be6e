// A public name of the high-level API.
#ifndef LIB_MATH_SIN_H
#define LIB_MATH_SIN_H

#include "kernel_operator.h"

#endif  // LIB_MATH_SIN_H
