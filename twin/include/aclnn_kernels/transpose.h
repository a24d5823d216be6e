// Permutation of the dims of a tensor.
#ifndef ACLNN_KERNELS_TRANSPOSE_H
#define ACLNN_KERNELS_TRANSPOSE_H

#include "opdev/op_executor.h"

/// All functions return null and set a message for an invalid call.
namespace l0op {
/// Returns a dense tensor whose dim i is dim perm[i] of `x`.
const aclTensor* Transpose(const aclTensor* x, const aclIntArray* perm, aclOpExecutor* executor);
/// Writes to `y` and returns it; `perm` is a host tensor of integers.
const aclTensor* Transpose(const aclTensor* x, const aclTensor* y, const aclTensor* perm, aclOpExecutor* executor);
}  // namespace l0op

#endif  // ACLNN_KERNELS_TRANSPOSE_H
