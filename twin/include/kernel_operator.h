// The main header of an Ascend C kernel (architecture 2201, or 1001 with OPFORGE_TWIN_ARCH) for the CPU twin.
#ifndef OPFORGE_TWIN_KERNEL_OPERATOR_H
#define OPFORGE_TWIN_KERNEL_OPERATOR_H

#include "opforge_twin/kernel/language.h"
#include "opforge_twin/kernel/enums.h"
#include "opforge_twin/kernel/half.h"
#include "opforge_twin/kernel/params.h"
#include "opforge_twin/kernel/layout.h"
#include "opforge_twin/kernel/tensor.h"
#include "opforge_twin/kernel/pipe.h"
#include "opforge_twin/kernel/custom_pool.h"
#include "opforge_twin/kernel/data_copy.h"
#include "opforge_twin/kernel/vector.h"
#include "opforge_twin/kernel/cast.h"
#include "opforge_twin/kernel/fused_cast.h"
#include "opforge_twin/kernel/reduce.h"
#include "opforge_twin/kernel/select.h"
#include "opforge_twin/kernel/tensor_operators.h"
#include "opforge_twin/kernel/gather.h"
#include "opforge_twin/kernel/interpolation.h"
#include "opforge_twin/kernel/sort.h"
#include "opforge_twin/kernel/transpose.h"
#include "opforge_twin/kernel/pointer_functions.h"
#include "opforge_twin/kernel/sync.h"
#include "opforge_twin/kernel/scalar.h"
#include "opforge_twin/kernel/core_state.h"
#include "opforge_twin/kernel/local_allocator.h"
#include "opforge_twin/kernel/list_tensor.h"
#include "opforge_twin/kernel/debug.h"
#include "opforge_twin/kernel/tiling.h"
#include "opforge_twin/kernel/overruns.h"
#include "opforge_twin/kernel/cube.h"
#include "opforge_twin/kernel/sparse.h"
#if !OPFORGE_TWIN_IS_COUPLED
#include "opforge_twin/kernel/cube_group.h"
#include "opforge_twin/kernel/image.h"
#include "opforge_twin/kernel/high.h"
#include "opforge_twin/kernel/not_modeled.h"
#include "opforge_twin/kernel/super_kernel.h"
#endif

#endif  // OPFORGE_TWIN_KERNEL_OPERATOR_H
