// Zeros around a tensor.
#ifndef ACLNN_KERNELS_PAD_H
#define ACLNN_KERNELS_PAD_H

#include "opdev/op_executor.h"

/// All functions return null, with a message, for an impossible call.
namespace l0op {
/// A dense tensor; `paddings` is a host tensor of two integers for each dim: zeros before and behind it.
const aclTensor* Pad(const aclTensor* self, const aclTensor* paddings, aclOpExecutor* executor);
}  // namespace l0op

#endif  // ACLNN_KERNELS_PAD_H
