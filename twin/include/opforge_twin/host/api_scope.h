// The runtime state of the current aclnn function call.
#ifndef OPFORGE_TWIN_HOST_API_SCOPE_H
#define OPFORGE_TWIN_HOST_API_SCOPE_H

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "opdev/common_types.h"
#include "opdev/op_errno.h"

namespace opforge::twin::host {

constexpr bool IsSameText(const char* left, const char* right)
{
    while (*left != '\0' && *left == *right) {
        ++left;
        ++right;
    }
    return *left == *right;
}

/// The acl objects among the parameters of an aclnn function, kept alive during planning.
class Handles {
public:
    void Add(const aclTensor* tensor);
    void Add(const aclTensorList* list);
    void Add(const aclScalar* scalar);
    void Add(const aclScalarList* list);
    void Add(const aclIntArray* array);
    void Add(const aclFloatArray* array);
    void Add(const aclBoolArray* array);
    /// Adds a parameter. A parameter that is not an acl object is only counted.
    template <typename T>
    void AddAny(const T& value)
    {
        if constexpr (std::is_pointer_v<T>) {
            using Object = std::remove_cv_t<std::remove_pointer_t<T>>;
            constexpr bool kIsHandle = std::is_same_v<Object, aclTensor> || std::is_same_v<Object, aclTensorList> ||
                                       std::is_same_v<Object, aclScalar> || std::is_same_v<Object, aclScalarList> ||
                                       std::is_same_v<Object, aclIntArray> || std::is_same_v<Object, aclFloatArray> ||
                                       std::is_same_v<Object, aclBoolArray>;
            if constexpr (kIsHandle) {
                Add(value);
            }
        }
        ++count_;
    }

    const std::vector<const aclTensor*>& Tensors() const { return tensors_; }
    size_t Count() const { return count_; }
    /// Returns the positions of parameters that are not live.
    const std::vector<size_t>& Dead() const { return dead_; }

private:
    template <typename T>
    bool Hold(const T* object);

    std::vector<const aclTensor*> tensors_;
    std::vector<std::shared_ptr<const void>> held_;
    std::vector<size_t> dead_;
    size_t count_ = 0;
};

template <typename... Parameters>
Handles HandlesOf(const Parameters&... parameters)
{
    Handles handles;
    (handles.AddAny(parameters), ...);
    return handles;
}

/// Starts the first phase: clears earlier errors of the thread and stores the tensors for the executor. Rejects
/// destroyed objects; CANN would read freed memory.
aclnnStatus BeginPlanning(const char* function, Handles inputs, Handles outputs);
void BeginLaunch(const char* function);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_API_SCOPE_H
