// One value per channel, repeated for all elements of the channels in a contiguous range of memory.
#ifndef OPFORGE_OP_KERNEL_COMMON_ARCH_SPREAD_H
#define OPFORGE_OP_KERNEL_COMMON_ARCH_SPREAD_H

#include "common/arch/arch.h"

#if OPFORGE_IS_COUPLED
#include "common/arch/spread_by_fill.h"
#else
#include "common/vector/spread.h"
#endif

#endif  // OPFORGE_OP_KERNEL_COMMON_ARCH_SPREAD_H
