// The arguments of a level 0 call, by role.
#ifndef OPFORGE_TWIN_HOST_OP_ARGUMENT_H
#define OPFORGE_TWIN_HOST_OP_ARGUMENT_H

#include <cstddef>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "opdev/common_types.h"
#include "opforge_twin/host/attribute.h"

namespace opforge::twin::host {

struct TensorArgument {
    const aclTensor* tensor = nullptr;
    aclTensor* writable = nullptr;  ///< the same tensor; null if it was passed as const
};

/// An absent optional argument, a tensor, a list of tensors, or an attribute.
using OpArgument = std::variant<std::monostate, TensorArgument, std::vector<TensorArgument>, AttributeValue>;

enum class ArgumentRole { kInput, kOutput, kAttribute };

struct ArgumentGroup {
    ArgumentRole role;
    std::vector<OpArgument> arguments;
};

OpArgument ToArgument(std::nullptr_t);
OpArgument ToArgument(const aclTensor* tensor);
OpArgument ToArgument(aclTensor* tensor);
OpArgument ToArgument(const aclTensorList* list);
OpArgument ToArgument(const aclIntArray* array);
OpArgument ToArgument(const aclFloatArray* array);
OpArgument ToArgument(const aclBoolArray* array);
OpArgument ToArgument(const aclScalar* scalar);
OpArgument ToArgument(const char* text);
OpArgument ToArgument(const std::string& text);

template <typename T, std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>, int> = 0>
OpArgument ToArgument(T value)
{
    if constexpr (std::is_same_v<T, bool>) {
        return AttributeValue(value);
    } else if constexpr (std::is_floating_point_v<T>) {
        return AttributeValue(static_cast<float>(value));
    } else {
        return AttributeValue(static_cast<int64_t>(value));
    }
}

template <typename... Values>
ArgumentGroup Group(ArgumentRole role, const Values&... values)
{
    return {role, {ToArgument(values)...}};
}

/// Runs the registered shape inference and sets the output shapes.
aclnnStatus InferShape(const char* opType, std::initializer_list<ArgumentGroup> groups);
/// Runs tiling for the call and appends the call to the tasks of the executor.
aclnnStatus AddAicoreTask(aclOpExecutor* executor, const char* opType, std::initializer_list<ArgumentGroup> groups);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_OP_ARGUMENT_H
