// A public name of the high-level API.
#ifndef ADV_API_ACTIVATION_SOFTMAX_H
#define ADV_API_ACTIVATION_SOFTMAX_H

#include "kernel_operator.h"

#endif  // ADV_API_ACTIVATION_SOFTMAX_H
