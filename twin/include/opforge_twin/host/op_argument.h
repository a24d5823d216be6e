// The arguments of a level 0 call, by role.
#ifndef OPFORGE_TWIN_HOST_OP_ARGUMENT_H
#define OPFORGE_TWIN_HOST_OP_ARGUMENT_H

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>

#include "opdev/common_types.h"

namespace opforge::twin::host {

enum class ArgumentRole { kInput, kOutput, kAttribute };

struct ArgumentValues;

/// Arguments of one role: absent optional arguments, tensors, lists of tensors, or attributes. The values are opaque,
/// because a variant would double the compile time of an aclnn function.
class ArgumentGroup {
public:
    explicit ArgumentGroup(ArgumentRole role);
    ArgumentGroup(ArgumentGroup&& other) noexcept;
    ArgumentGroup& operator=(ArgumentGroup&& other) = delete;
    ~ArgumentGroup();

    void Add(std::nullptr_t);
    void Add(const aclTensor* tensor);
    void Add(aclTensor* tensor);
    void Add(const aclTensorList* list);
    void Add(const aclIntArray* array);
    void Add(const aclFloatArray* array);
    void Add(const aclBoolArray* array);
    void Add(const aclScalar* scalar);
    void Add(const char* text);
    void Add(const std::string& text);
    template <typename T, std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>, int> = 0>
    void Add(T value)
    {
        if constexpr (std::is_same_v<T, bool>) {
            AddBool(value);
        } else if constexpr (std::is_floating_point_v<T>) {
            AddFloat(static_cast<float>(value));
        } else {
            AddInt(static_cast<int64_t>(value));
        }
    }

    ArgumentRole Role() const { return role_; }
    const ArgumentValues& Values() const { return *values_; }

private:
    void AddBool(bool value);
    void AddFloat(float value);
    void AddInt(int64_t value);

    ArgumentRole role_;
    std::unique_ptr<ArgumentValues> values_;
};

template <typename... Values>
ArgumentGroup Group(ArgumentRole role, const Values&... values)
{
    ArgumentGroup group(role);
    (group.Add(values), ...);
    return group;
}

/// Runs the registered shape inference and sets the output shapes.
aclnnStatus InferShape(const char* opType, std::initializer_list<ArgumentGroup> groups);
/// Runs tiling for the call and appends the call to the tasks of the executor.
aclnnStatus AddAicoreTask(aclOpExecutor* executor, const char* opType, std::initializer_list<ArgumentGroup> groups);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_OP_ARGUMENT_H
