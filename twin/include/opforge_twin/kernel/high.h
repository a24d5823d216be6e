// The high-level API of vector cores.
#ifndef OPFORGE_TWIN_KERNEL_HIGH_H
#define OPFORGE_TWIN_KERNEL_HIGH_H

#include "opforge_twin/kernel/high/choice.h"
#include "opforge_twin/kernel/high/layout.h"
#include "opforge_twin/kernel/high/norm.h"
#include "opforge_twin/kernel/high/pointwise.h"
#include "opforge_twin/kernel/high/quant.h"
#include "opforge_twin/kernel/high/reduction.h"
#include "opforge_twin/kernel/high/softmax.h"

#endif  // OPFORGE_TWIN_KERNEL_HIGH_H
