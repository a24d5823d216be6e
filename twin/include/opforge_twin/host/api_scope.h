// What the runtime remembers of the aclnn function that is being called.
#ifndef OPFORGE_TWIN_HOST_API_SCOPE_H
#define OPFORGE_TWIN_HOST_API_SCOPE_H

#include <vector>

#include "opdev/common_types.h"

namespace opforge::twin::host {

constexpr bool IsSameText(const char* left, const char* right)
{
    while (*left != '\0' && *left == *right) {
        ++left;
        ++right;
    }
    return *left == *right;
}

using Tensors = std::vector<const aclTensor*>;

inline void Collect(Tensors& tensors, const aclTensor* tensor)
{
    tensors.push_back(tensor);
}
inline void Collect(Tensors& tensors, aclTensor* tensor)
{
    tensors.push_back(tensor);
}
inline void Collect(Tensors& tensors, const aclTensorList* list)
{
    for (uint64_t i = 0; list != nullptr && i < list->Size(); ++i) {
        tensors.push_back((*list)[i]);
    }
}
inline void Collect(Tensors& tensors, aclTensorList* list)
{
    Collect(tensors, static_cast<const aclTensorList*>(list));
}
/// Anything else among the parameters has no memory.
template <typename T>
void Collect(Tensors& tensors, const T& value)
{
    (void)tensors;
    (void)value;
}

template <typename... Parameters>
Tensors TensorsOf(const Parameters&... parameters)
{
    Tensors tensors;
    (Collect(tensors, parameters), ...);
    return tensors;
}

/// Starts the first phase: forgets older errors of the thread, remembers the tensors for the executor.
void BeginPlanning(const char* function, Tensors inputs, Tensors outputs);
/// Starts the second phase.
void BeginLaunch(const char* function);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_API_SCOPE_H
