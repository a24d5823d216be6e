#ifndef OPFORGE_OP_HOST_COMMON_ACL_ARGUMENTS_H
#define OPFORGE_OP_HOST_COMMON_ACL_ARGUMENTS_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "common/check.h"
#include "opdev/common_types.h"
#include "opdev/op_executor.h"
#include "opdev/platform.h"

namespace opforge {

/// Reads the properties of a tensor that checks need; nullptr is an absent argument.
inline void ReadTensor(const aclTensor* tensor, Argument& argument)
{
    argument.isPresent = tensor != nullptr;
    if (tensor == nullptr) {
        return;
    }
    argument.dtype = static_cast<DataType>(tensor->GetDataType());
    argument.format = static_cast<Format>(tensor->GetStorageFormat());
    argument.dims.clear();
    const op::Shape& shape = tensor->GetViewShape();
    for (size_t axis = 0; axis < shape.GetDimNum(); ++axis) {
        argument.dims.push_back(shape.GetDim(axis));
    }
}

/// Reads a list on the host like a tensor; an empty list is absent.
inline void ReadList(const aclIntArray* list, Argument& argument)
{
    argument.isPresent = list != nullptr && list->Size() != 0;
    if (argument.isPresent) {
        argument.dtype = DataType::kInt64;
        argument.dims = {static_cast<int64_t>(list->Size())};
        argument.values.assign(list->GetData(), list->GetData() + list->Size());
        argument.areValuesKnown = true;
    }
}

inline const aclTensor* TensorOf(const aclIntArray* list, aclOpExecutor* executor)
{
    return executor->ConvertToTensor(list, op::DataType::DT_INT64);
}

/// Reads an attribute that is a list; nullptr leaves the default.
template <typename Array, typename T>
void ReadItems(const Array* array, std::vector<T>& items)
{
    if (array != nullptr) {
        items.assign(array->GetData(), array->GetData() + array->Size());
    }
}

/// Reads an attribute that is a scalar object; nullptr leaves the default.
inline void ReadScalar(const aclScalar* scalar, float& value)
{
    value = scalar != nullptr ? scalar->ToFloat() : value;
}
inline void ReadScalar(const aclScalar* scalar, int64_t& value)
{
    value = scalar != nullptr ? scalar->ToInt64() : value;
}
inline void ReadScalar(const aclScalar* scalar, bool& value)
{
    value = scalar != nullptr ? scalar->ToBool() : value;
}

inline const aclIntArray* ArrayOf(const std::vector<int64_t>& items, aclOpExecutor* executor)
{
    return executor->AllocIntArray(items.data(), items.size());
}
inline const aclFloatArray* ArrayOf(const std::vector<float>& items, aclOpExecutor* executor)
{
    return executor->AllocFloatArray(items.data(), items.size());
}
inline const aclBoolArray* ArrayOf(const std::vector<bool>& items, aclOpExecutor* executor)
{
    const std::unique_ptr<bool[]> copy(new bool[items.size()]);
    std::copy(items.begin(), items.end(), copy.get());
    return executor->AllocBoolArray(copy.get(), items.size());
}

/// Reads the device of the call.
inline void ReadDevice(CallEnvironment& environment)
{
    const op::PlatformInfo& device = op::GetCurrentPlatformInfo();
#define OPFORGE_SET_PRODUCT(version, name)   \
    if (device.GetSocVersion() == version) { \
        environment.product = name;          \
    }
    OPFORGE_PRODUCTS(OPFORGE_SET_PRODUCT)
#undef OPFORGE_SET_PRODUCT
    environment.cores = Int(static_cast<int64_t>(device.GetVectorCoreNum()));
    environment.mayCast = true;
}

inline op::DataType OpDataType(DataType dtype)
{
    return static_cast<op::DataType>(dtype);
}

/// An output of a call: a tensor or a list of tensors. An absent one is empty.
class OutputArgument {
public:
    OutputArgument(const aclTensor* tensor) : isEmpty_(tensor == nullptr || tensor->IsEmpty()) {}
    OutputArgument(const aclTensorList* list)
    {
        for (uint64_t index = 0; list != nullptr && index < list->Size(); ++index) {
            isEmpty_ = isEmpty_ && (*list)[index]->IsEmpty();
        }
    }

    bool IsEmpty() const { return isEmpty_; }

private:
    bool isEmpty_ = true;
};

inline bool AreAllEmpty(std::initializer_list<OutputArgument> outputs)
{
    return std::all_of(outputs.begin(), outputs.end(), [](const OutputArgument& output) { return output.IsEmpty(); });
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_ACL_ARGUMENTS_H
