// Conversion between element types.
#ifndef ACLNN_KERNELS_CAST_H
#define ACLNN_KERNELS_CAST_H

#include "opdev/op_executor.h"

/// All functions return null and set a message for an invalid call.
namespace l0op {
/// Rounds floats to nearest even. Rounds toward zero and saturates in a conversion from float to integer.
const aclTensor* Cast(const aclTensor* self, op::DataType dstDtype, aclOpExecutor* executor);
}  // namespace l0op

#endif  // ACLNN_KERNELS_CAST_H
