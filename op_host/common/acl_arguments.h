#ifndef OPFORGE_OP_HOST_COMMON_ACL_ARGUMENTS_H
#define OPFORGE_OP_HOST_COMMON_ACL_ARGUMENTS_H

#include <cstddef>
#include <initializer_list>

#include "common/check.h"
#include "opdev/common_types.h"

namespace opforge {

/// Reads what checks need of a tensor of an aclnn call; nullptr is an absent argument.
inline void ReadTensor(const aclTensor* tensor, Argument& argument)
{
    argument.isPresent = tensor != nullptr;
    if (tensor == nullptr) {
        return;
    }
    argument.dtype = static_cast<DataType>(tensor->GetDataType());
    argument.dims.clear();
    const op::Shape& shape = tensor->GetViewShape();
    for (size_t axis = 0; axis < shape.GetDimNum(); ++axis) {
        argument.dims.push_back(shape.GetDim(axis));
    }
}

inline bool AreAllEmpty(std::initializer_list<const aclTensor*> tensors)
{
    for (const aclTensor* tensor : tensors) {
        if (!tensor->IsEmpty()) {
            return false;
        }
    }
    return true;
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_ACL_ARGUMENTS_H
