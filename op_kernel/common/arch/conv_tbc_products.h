// The products of a convolution over time.
#ifndef OPFORGE_OP_KERNEL_COMMON_ARCH_CONV_TBC_PRODUCTS_H
#define OPFORGE_OP_KERNEL_COMMON_ARCH_CONV_TBC_PRODUCTS_H

#include "common/arch/arch.h"

#if OPFORGE_IS_COUPLED
#include "conv_tbc_backward/by_owner.h"
#else
#include "conv_tbc_backward/by_units.h"
#endif

namespace opforge {

template <typename T, bool kIsHalved>
#if OPFORGE_IS_COUPLED
using ConvTbcProducts = ConvTbcByOwner<T>;  // all products are float16
#else
using ConvTbcProducts = ConvTbcByUnits<T, kIsHalved>;
#endif

}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_ARCH_CONV_TBC_PRODUCTS_H
