// ConvTbcBackward: by steps that cube and vector cores share, or by blocks of results that a core with both units owns.
#ifndef OPFORGE_OP_KERNEL_CONV_TBC_BACKWARD_H
#define OPFORGE_OP_KERNEL_CONV_TBC_BACKWARD_H

#include "common/arch/conv_tbc_products.h"

namespace opforge {

/// T: dtype of all tensors. kIsHalved: cube_math_type selects float16 products.
template <typename T, bool kIsHalved>
using ConvTbcBackward = ConvTbcProducts<T, kIsHalved>;

}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_CONV_TBC_BACKWARD_H
