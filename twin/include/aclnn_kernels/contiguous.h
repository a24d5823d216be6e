// Conversion between strided views and dense tensors.
#ifndef ACLNN_KERNELS_CONTIGUOUS_H
#define ACLNN_KERNELS_CONTIGUOUS_H

#include "opdev/op_executor.h"

/// All functions return null and set a message for an invalid call.
namespace l0op {
/// Returns a dense tensor with the elements of `x`: a view if `x` is dense, otherwise a copy in the workspace.
const aclTensor* Contiguous(const aclTensor* x, aclOpExecutor* executor);
/// Copies the elements of `x` to the positions of `y`; returns `y`.
const aclTensor* ViewCopy(const aclTensor* x, const aclTensor* y, aclOpExecutor* executor);
}  // namespace l0op

#endif  // ACLNN_KERNELS_CONTIGUOUS_H
