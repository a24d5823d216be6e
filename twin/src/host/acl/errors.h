// Messages of failures, one set per thread.
#ifndef OPFORGE_TWIN_HOST_ACL_ERRORS_H
#define OPFORGE_TWIN_HOST_ACL_ERRORS_H

#include <cstddef>
#include <string>

#include "acl/acl_base.h"

namespace opforge::twin::host {

/// Makes `text` the error of this thread; returns `status`.
aclError Fail(aclError status, const std::string& text);

/// Adds a line to the error of this thread: outer callers explain what inner ones found.
void AddError(const std::string& text);

void ClearErrors();

/// Where the error of this thread ends now.
size_t ErrorLength();

/// Takes back what was added to the error of this thread behind `length`.
std::string TakeErrorsBehind(size_t length);

/// Host code of an operator did what would read garbage on CANN. It goes on, and its call fails with this text.
void ReportMisuse(const std::string& text);

/// What was reported since the last call, "" for nothing.
std::string TakeMisuse();

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACL_ERRORS_H
