// A header of the debugging tools of the toolkit: the twin has its names in kernel_operator.h.
#ifndef OPFORGE_COVERAGE_STUB_FUN_H
#define OPFORGE_COVERAGE_STUB_FUN_H

#include "kernel_operator.h"

#endif  // OPFORGE_COVERAGE_STUB_FUN_H
