#ifndef OPFORGE_OP_HOST_COMMON_ACL_LISTS_H
#define OPFORGE_OP_HOST_COMMON_ACL_LISTS_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "aclnn_kernels/contiguous.h"
#include "common/acl_arguments.h"
#include "common/tensor_list.h"
#include "opdev/common_types.h"
#include "opdev/data_type_utils.h"
#include "opdev/op_executor.h"

namespace opforge {

/// Reads the properties of the tensors of a list; nullptr is an empty list.
inline void ReadTensors(const aclTensorList* tensors, ListArgument& list)
{
    Resize(list, tensors == nullptr ? 0 : static_cast<size_t>(tensors->Size()));
    for (size_t member = 0; member < list.elements.size(); ++member) {
        ReadTensor((*tensors)[member], list.elements[member]);
    }
}

/// Reads a scalar as a tensor of one element.
inline void ReadScalarInput(const aclScalar* scalar, Argument& argument)
{
    argument.isPresent = scalar != nullptr;
    if (scalar != nullptr) {
        argument.dims = {1};
    }
}

/// Reads a list of scalars as a tensor; an empty list is absent.
inline void ReadScalarListInput(const aclScalarList* scalars, Argument& argument)
{
    argument.isPresent = scalars != nullptr && scalars->Size() != 0;
    if (argument.isPresent) {
        argument.dims = {static_cast<int64_t>(scalars->Size())};
    }
}

/// Returns scalars as a tensor of one dimension.
inline const aclTensor* TensorOf(const std::vector<const aclScalar*>& scalars, op::DataType dtype,
                                 aclOpExecutor* executor)
{
    std::vector<double> reals;
    std::vector<int64_t> integers;
    for (const aclScalar* scalar : scalars) {
        reals.push_back(scalar->ToDouble());
        integers.push_back(scalar->ToInt64());
    }
    return op::IsFloatingType(dtype) ? executor->AllocHostTensor(reals.data(), reals.size(), dtype)
                                     : executor->AllocHostTensor(integers.data(), integers.size(), dtype);
}

inline const aclTensor* TensorOf(const aclScalar* scalar, op::DataType dtype, aclOpExecutor* executor)
{
    return TensorOf(std::vector<const aclScalar*>{scalar}, dtype, executor);
}

inline const aclTensor* TensorOf(const aclScalarList* scalars, op::DataType dtype, aclOpExecutor* executor)
{
    std::vector<const aclScalar*> items;
    for (uint64_t index = 0; index < scalars->Size(); ++index) {
        items.push_back((*scalars)[index]);
    }
    return TensorOf(items, dtype, executor);
}

/// Applies a function to each tensor of a list; nullptr if it returns nullptr once.
template <typename Function>
aclTensorList* ListOf(const aclTensorList* tensors, Function function, aclOpExecutor* executor)
{
    std::vector<const aclTensor*> made;
    for (uint64_t index = 0; index < tensors->Size(); ++index) {
        made.push_back(function((*tensors)[index]));
        if (made.back() == nullptr) {
            return nullptr;
        }
    }
    return executor->AllocTensorList(made.data(), made.size());
}

/// Returns dense copies of strided tensors.
inline const aclTensorList* DenseTensors(const aclTensorList* tensors, aclOpExecutor* executor)
{
    return ListOf(
        tensors, [executor](const aclTensor* tensor) { return l0op::Contiguous(tensor, executor); }, executor);
}

/// Allocates an output for each tensor of the list that the caller gives.
inline aclTensorList* AllocTensors(const aclTensorList* given, op::DataType dtype, aclOpExecutor* executor)
{
    const auto make = [dtype, executor](const aclTensor* /*tensor*/) {
        return executor->AllocTensor(dtype, op::Format::FORMAT_ND, op::Format::FORMAT_ND);
    };
    return given == nullptr ? nullptr : ListOf(given, make, executor);
}

/// Returns views of tensors that an operator overwrites.
inline aclTensorList* ViewsOf(const aclTensorList* tensors, aclOpExecutor* executor)
{
    const auto make = [executor](const aclTensor* tensor) {
        return executor->CreateView(tensor, tensor->GetViewShape(), tensor->GetViewOffset());
    };
    return ListOf(tensors, make, executor);
}

/// Copies results to the tensors of the caller; nullptr is an absent list.
inline bool CopyBack(const aclTensorList* results, const aclTensorList* to, aclOpExecutor* executor)
{
    for (uint64_t index = 0; to != nullptr && index < to->Size(); ++index) {
        if (l0op::ViewCopy((*results)[index], (*to)[index], executor) == nullptr) {
            return false;
        }
    }
    return true;
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_ACL_LISTS_H
