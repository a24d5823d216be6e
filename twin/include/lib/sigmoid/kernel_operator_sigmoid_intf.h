// A public name of the high-level API.
#ifndef LIB_SIGMOID_KERNEL_OPERATOR_SIGMOID_INTF_H
#define LIB_SIGMOID_KERNEL_OPERATOR_SIGMOID_INTF_H

#include "kernel_operator.h"

#endif  // LIB_SIGMOID_KERNEL_OPERATOR_SIGMOID_INTF_H
