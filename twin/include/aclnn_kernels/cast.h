// Conversion of element types.
#ifndef ACLNN_KERNELS_CAST_H
#define ACLNN_KERNELS_CAST_H

#include "opdev/op_executor.h"

/// All functions return null, with a message, for an impossible call.
namespace l0op {
/// Floats are rounded to nearest even, towards zero when they become integers; those saturate.
const aclTensor* Cast(const aclTensor* self, op::DataType dstDtype, aclOpExecutor* executor);
}  // namespace l0op

#endif  // ACLNN_KERNELS_CAST_H
