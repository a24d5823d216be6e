#include "opforge_twin/host/op_argument.h"

#include <mutex>
#include <utility>
#include <vector>

#include "host/aclnn/argument_values.h"
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

ArgumentGroup::ArgumentGroup(ArgumentRole role) : role_(role), values_(std::make_unique<ArgumentValues>()) {}

ArgumentGroup::ArgumentGroup(ArgumentGroup&& other) noexcept = default;

ArgumentGroup::~ArgumentGroup() = default;

void ArgumentGroup::Add(std::nullptr_t)
{
    values_->items.emplace_back();
}

void ArgumentGroup::Add(const aclTensor* tensor)
{
    values_->items.push_back(tensor == nullptr ? OpArgument() : TensorArgument{tensor, nullptr});
}

void ArgumentGroup::Add(aclTensor* tensor)
{
    values_->items.push_back(tensor == nullptr ? OpArgument() : TensorArgument{tensor, tensor});
}

void ArgumentGroup::Add(const aclTensorList* list)
{
    if (list == nullptr) {
        values_->items.emplace_back();
        return;
    }
    std::vector<TensorArgument> tensors;
    for (uint64_t i = 0; i < list->Size(); ++i) {
        tensors.push_back({(*list)[i], const_cast<aclTensor*>((*list)[i])});
    }
    values_->items.emplace_back(std::move(tensors));
}

void ArgumentGroup::Add(const aclIntArray* array)
{
    values_->items.push_back(ListOf(array));
}

void ArgumentGroup::Add(const aclFloatArray* array)
{
    values_->items.push_back(ListOf(array));
}

void ArgumentGroup::Add(const aclBoolArray* array)
{
    values_->items.push_back(ListOf(array));
}

void ArgumentGroup::Add(const aclScalar* scalar)
{
    if (scalar == nullptr) {
        values_->items.emplace_back();
        return;
    }
    const op::DataType dtype = scalar->GetDataType();
    if (dtype == ge::DT_BOOL) {
        AddBool(scalar->ToBool());
    } else if (dtype == ge::DT_FLOAT || dtype == ge::DT_FLOAT16 || dtype == ge::DT_BF16 || dtype == ge::DT_DOUBLE) {
        AddFloat(scalar->ToFloat());
    } else {
        AddInt(scalar->ToInt64());
    }
}

void ArgumentGroup::Add(const char* text)
{
    values_->items.push_back(text == nullptr ? OpArgument() : AttributeValue(std::string(text)));
}

void ArgumentGroup::Add(const std::string& text)
{
    values_->items.emplace_back(AttributeValue(text));
}

void ArgumentGroup::AddBool(bool value)
{
    values_->items.emplace_back(AttributeValue(value));
}

void ArgumentGroup::AddFloat(float value)
{
    values_->items.emplace_back(AttributeValue(value));
}

void ArgumentGroup::AddInt(int64_t value)
{
    values_->items.emplace_back(AttributeValue(value));
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
