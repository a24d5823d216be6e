#include "host/aclnn/open_view.h"

#include "kernel/exec/text.h"

namespace opforge::twin::host {

bool Open(const PlacedView& placed, OpenView& open, std::string& problem)
{
    const uint64_t bytes = placed.view.ExtentBytes();
    if (bytes == 0) {
        return true;
    }
    if (placed.view.storage->onHost) {
        open.data = static_cast<uint8_t*>(placed.address);
        return true;
    }
    if (!DeviceMemory::Instance().Resolve(placed.address, bytes, open.span, problem)) {
        problem = kernel::Text(placed.view.name, " (", bytes, " bytes): ", problem);
        return false;
    }
    open.data = open.span.data;
    open.span.MarkWritten(bytes);  // the checks of operators find outputs without a value
    return true;
}

TaskResult DeviceFailure(const std::string& operation, const std::string& problem)
{
    return {ACL_ERROR_RT_AICORE_EXCEPTION, kernel::Text(operation, ": ", problem)};
}

}  // namespace opforge::twin::host
