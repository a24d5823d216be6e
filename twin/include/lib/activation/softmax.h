// A public name of the high-level API.
#ifndef LIB_ACTIVATION_SOFTMAX_H
#define LIB_ACTIVATION_SOFTMAX_H

#include "kernel_operator.h"

#endif  // LIB_ACTIVATION_SOFTMAX_H
