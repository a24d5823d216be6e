// Questions about how a view lies in its memory.
#ifndef OPDEV_TENSOR_VIEW_UTILS_H
#define OPDEV_TENSOR_VIEW_UTILS_H

#include "opdev/common_types.h"

namespace op {
/// Whether the elements lie densely in row-major order.
bool IsContiguous(const aclTensor* tensor);
/// Whether no element of the view lies outside the storage shape.
bool Validate(const aclTensor* tensor);
}  // namespace op

#endif  // OPDEV_TENSOR_VIEW_UTILS_H
