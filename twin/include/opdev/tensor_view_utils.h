// Queries about the memory layout of a view.
#ifndef OPDEV_TENSOR_VIEW_UTILS_H
#define OPDEV_TENSOR_VIEW_UTILS_H

#include "opdev/common_types.h"

namespace op {
/// Whether the elements are dense in row-major order.
bool IsContiguous(const aclTensor* tensor);
/// Whether all elements of the view are inside the storage shape.
bool Validate(const aclTensor* tensor);
}  // namespace op

#endif  // OPDEV_TENSOR_VIEW_UTILS_H
