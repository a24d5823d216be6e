// Includes the kernel API, which the twin does not divide. Kernels call printf without a namespace.
#include <cstdio>

#include "kernel_operator.h"

using AscendC::printf;
