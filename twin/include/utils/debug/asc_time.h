// Includes the kernel API, which the twin does not divide.
#include <ctime>

#include "kernel_operator.h"

// The C library has a function of this name.
#define clock() static_cast<uint64_t>(AscendC::GetSystemCycle())
