// Tasks of the built-in level 0 operators: each copies the elements of one view to the same positions of another view.
#ifndef OPFORGE_TWIN_HOST_ACLNN_ELEMENT_TASKS_H
#define OPFORGE_TWIN_HOST_ACLNN_ELEMENT_TASKS_H

#include <string>

#include "host/aclnn/executor.h"

namespace opforge::twin::host {

/// Copies `from` to `to`, which has the same dims. Converts the elements if the dtypes differ.
void AddElementTask(aclOpExecutor& executor, const std::string& operation, View from, View to);

/// Whether elements of this dtype can be converted.
bool IsConvertible(ge::DataType dtype);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACLNN_ELEMENT_TASKS_H
