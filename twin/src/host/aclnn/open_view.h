// A placed tensor, opened for the task that runs: real addresses, nothing freed meanwhile.
#ifndef OPFORGE_TWIN_HOST_ACLNN_OPEN_VIEW_H
#define OPFORGE_TWIN_HOST_ACLNN_OPEN_VIEW_H

#include <cstdint>
#include <string>

#include "host/acl/device_memory.h"
#include "host/aclnn/executor.h"

namespace opforge::twin::host {

struct OpenView {
    uint8_t* data = nullptr;  ///< of the first element; null without elements
    DeviceSpan span;
};

/// False, with the reason, when the memory is no live device memory or too short for the view.
bool Open(const PlacedView& placed, OpenView& open, std::string& problem);

/// ACL_ERROR_RT_AICORE_EXCEPTION with the name of what failed.
TaskResult DeviceFailure(const std::string& operation, const std::string& problem);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACLNN_OPEN_VIEW_H
