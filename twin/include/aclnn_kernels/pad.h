// Padding of a tensor with zeros.
#ifndef ACLNN_KERNELS_PAD_H
#define ACLNN_KERNELS_PAD_H

#include "opdev/op_executor.h"

/// All functions return null and set a message for an invalid call.
namespace l0op {
/// Returns a dense tensor. `paddings` is a host tensor with two integers per dim: the number of zeros before and after
/// it.
const aclTensor* Pad(const aclTensor* self, const aclTensor* paddings, aclOpExecutor* executor);
}  // namespace l0op

#endif  // ACLNN_KERNELS_PAD_H
