#include "opforge_twin/host/op_argument.h"

#include <mutex>
#include <vector>

#include "opdev/op_def.h"

namespace opforge::twin::host {

namespace {

template <typename Array>
OpArgument ListOf(const Array* array)
{
    if (array == nullptr) {
        return std::monostate();
    }
    using Value = std::remove_const_t<std::remove_reference_t<decltype(*array->GetData())>>;
    return AttributeValue(std::vector<Value>(array->begin(), array->end()));
}

}  // namespace

OpArgument ToArgument(std::nullptr_t)
{
    return std::monostate();
}

OpArgument ToArgument(const aclTensor* tensor)
{
    return tensor == nullptr ? OpArgument() : TensorArgument{tensor, nullptr};
}

OpArgument ToArgument(aclTensor* tensor)
{
    return tensor == nullptr ? OpArgument() : TensorArgument{tensor, tensor};
}

OpArgument ToArgument(const aclTensorList* list)
{
    if (list == nullptr) {
        return std::monostate();
    }
    std::vector<TensorArgument> tensors;
    for (uint64_t i = 0; i < list->Size(); ++i) {
        tensors.push_back({(*list)[i], const_cast<aclTensor*>((*list)[i])});
    }
    return tensors;
}

OpArgument ToArgument(const aclIntArray* array)
{
    return ListOf(array);
}
OpArgument ToArgument(const aclFloatArray* array)
{
    return ListOf(array);
}
OpArgument ToArgument(const aclBoolArray* array)
{
    return ListOf(array);
}

OpArgument ToArgument(const aclScalar* scalar)
{
    if (scalar == nullptr) {
        return std::monostate();
    }
    const op::DataType dtype = scalar->GetDataType();
    if (dtype == ge::DT_BOOL) {
        return AttributeValue(scalar->ToBool());
    }
    const bool isFloat =
        dtype == ge::DT_FLOAT || dtype == ge::DT_FLOAT16 || dtype == ge::DT_BF16 || dtype == ge::DT_DOUBLE;
    return isFloat ? AttributeValue(scalar->ToFloat()) : AttributeValue(scalar->ToInt64());
}

OpArgument ToArgument(const char* text)
{
    return text == nullptr ? OpArgument() : AttributeValue(std::string(text));
}

OpArgument ToArgument(const std::string& text)
{
    return AttributeValue(text);
}

uint32_t OpTypeId(const char* opType)
{
    static std::mutex lock;
    static std::vector<std::string> types;
    const std::lock_guard<std::mutex> guard(lock);
    for (size_t id = 0; id < types.size(); ++id) {
        if (types[id] == opType) {
            return static_cast<uint32_t>(id);
        }
    }
    types.emplace_back(opType);
    return static_cast<uint32_t>(types.size() - 1);
}

}  // namespace opforge::twin::host
