// Tasks of the built-in level 0 operators: every element of one view goes to the same place of another.
#ifndef OPFORGE_TWIN_HOST_ACLNN_ELEMENT_TASKS_H
#define OPFORGE_TWIN_HOST_ACLNN_ELEMENT_TASKS_H

#include <string>

#include "host/aclnn/executor.h"

namespace opforge::twin::host {

/// Copies `from` to `to`, of the same dims; converts when their dtypes differ.
void AddElementTask(aclOpExecutor& executor, const std::string& operation, View from, View to);

/// Whether elements of this dtype can be converted.
bool IsConvertible(ge::DataType dtype);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACLNN_ELEMENT_TASKS_H
