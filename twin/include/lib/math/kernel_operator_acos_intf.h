// A public name of the high-level API.
#ifndef LIB_MATH_KERNEL_OPERATOR_ACOS_INTF_H
#define LIB_MATH_KERNEL_OPERATOR_ACOS_INTF_H

#include "kernel_operator.h"

#endif  // LIB_MATH_KERNEL_OPERATOR_ACOS_INTF_H
