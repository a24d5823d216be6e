// Change of the shape of a tensor.
#ifndef ACLNN_KERNELS_RESHAPE_H
#define ACLNN_KERNELS_RESHAPE_H

#include "opdev/op_executor.h"

/// All functions return null and set a message for an invalid call.
namespace l0op {
/// `x` must be dense; one dim may be -1.
const aclTensor* Reshape(const aclTensor* x, const op::Shape& shape, aclOpExecutor* executor);
const aclTensor* Reshape(const aclTensor* x, const aclIntArray* shape, aclOpExecutor* executor);
}  // namespace l0op

#endif  // ACLNN_KERNELS_RESHAPE_H
