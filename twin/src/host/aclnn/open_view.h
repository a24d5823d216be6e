// A placed tensor with its real address for the running task. The memory cannot be freed during the task.
#ifndef OPFORGE_TWIN_HOST_ACLNN_OPEN_VIEW_H
#define OPFORGE_TWIN_HOST_ACLNN_OPEN_VIEW_H

#include <cstdint>
#include <string>

#include "host/acl/device_memory.h"
#include "host/aclnn/executor.h"

namespace opforge::twin::host {

struct OpenView {
    uint8_t* data = nullptr;  ///< address of the first element; null without elements
    DeviceSpan span;
};

/// Returns false and the reason if the memory is not live device memory or is too small for the view.
bool Open(const PlacedView& placed, OpenView& open, std::string& problem);

/// Returns ACL_ERROR_RT_AICORE_EXCEPTION with the name of the failed operation.
TaskResult DeviceFailure(const std::string& operation, const std::string& problem);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACLNN_OPEN_VIEW_H
