// Error messages, one set per thread.
#ifndef OPFORGE_TWIN_HOST_ACL_ERRORS_H
#define OPFORGE_TWIN_HOST_ACL_ERRORS_H

#include <cstddef>
#include <string>

#include "acl/acl_base.h"

namespace opforge::twin::host {

/// Sets `text` as the error of this thread and returns `status`.
aclError Fail(aclError status, const std::string& text);

/// Adds a line to the error of this thread. Outer functions use it to add context to an inner error.
void AddError(const std::string& text);

void ClearErrors();

/// Length of the error text of this thread.
size_t ErrorLength();

/// Removes and returns the error text of this thread after position `length`.
std::string TakeErrorsBehind(size_t length);

/// Records an operation of operator host code that reads undefined memory on CANN. The code continues; its call fails
/// with this text.
void ReportMisuse(const std::string& text);

/// Returns and clears the recorded misuse; "" if there is none.
std::string TakeMisuse();

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACL_ERRORS_H
