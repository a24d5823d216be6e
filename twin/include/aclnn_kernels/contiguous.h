// Between strided views and dense tensors.
#ifndef ACLNN_KERNELS_CONTIGUOUS_H
#define ACLNN_KERNELS_CONTIGUOUS_H

#include "opdev/op_executor.h"

/// All functions return null, with a message, for an impossible call.
namespace l0op {
/// A dense tensor with the elements of `x`: a view of `x` where it is dense already, else a copy in the workspace.
const aclTensor* Contiguous(const aclTensor* x, aclOpExecutor* executor);
/// Copies the elements of `x` to the places of `y`; returns `y`.
const aclTensor* ViewCopy(const aclTensor* x, const aclTensor* y, aclOpExecutor* executor);
}  // namespace l0op

#endif  // ACLNN_KERNELS_CONTIGUOUS_H
