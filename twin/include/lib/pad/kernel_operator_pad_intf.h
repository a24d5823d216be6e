// A public name of the high-level API.
#ifndef LIB_PAD_KERNEL_OPERATOR_PAD_INTF_H
#define LIB_PAD_KERNEL_OPERATOR_PAD_INTF_H

#include "kernel_operator.h"

#endif  // LIB_PAD_KERNEL_OPERATOR_PAD_INTF_H
