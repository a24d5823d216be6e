// Includes the kernel API, which the twin does not divide.
#include "kernel_operator.h"
