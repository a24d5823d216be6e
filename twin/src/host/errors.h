// Messages of failures, one set per thread.
#ifndef OPFORGE_TWIN_HOST_ERRORS_H
#define OPFORGE_TWIN_HOST_ERRORS_H

#include <string>

#include "acl/acl_base.h"

namespace opforge::twin::host {

/// Makes `text` the error of this thread; returns `status`.
aclError Fail(aclError status, const std::string& text);

/// Adds a line to the error of this thread: outer callers explain what inner ones found.
void AddError(const std::string& text);

void ClearErrors();

/// Host code of an operator did what would read garbage on CANN. It goes on, and its call fails with this text.
void ReportMisuse(const std::string& text);

/// What was reported since the last call, "" for nothing.
std::string TakeMisuse();

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ERRORS_H
