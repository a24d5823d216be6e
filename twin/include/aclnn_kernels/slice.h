// Extraction of a part of a tensor.
#ifndef ACLNN_KERNELS_SLICE_H
#define ACLNN_KERNELS_SLICE_H

#include "opdev/op_executor.h"

/// All functions return null and set a message for an invalid call. Size -1 means up to the end of the dim.
namespace l0op {
const aclTensor* Slice(const aclTensor* x, const aclIntArray* offsets, const aclIntArray* size,
                       aclOpExecutor* executor);
/// Writes to `y` and returns it; `offset` and `size` are host tensors of integers.
const aclTensor* Slice(const aclTensor* x, const aclTensor* y, const aclTensor* offset, const aclTensor* size,
                       aclOpExecutor* executor);
}  // namespace l0op

#endif  // ACLNN_KERNELS_SLICE_H
