// Log messages of aclnn code. aclGetRecentErrMsg returns the error text. With ASCEND_SLOG_PRINT_TO_STDOUT=1, stderr
// also gets all messages from level ASCEND_GLOBAL_LOG_LEVEL on (0 debug, 1 info, 2 warning, 3 error).
#ifndef OPDEV_OP_LOG_H
#define OPDEV_OP_LOG_H

#include "opdev/op_errno.h"

namespace opforge::twin::host {
enum class LogLevel { kDebug, kInfo, kWarning, kError };

[[gnu::format(printf, 2, 3)]] void LogMessage(LogLevel level, const char* format, ...);
[[gnu::format(printf, 2, 3)]] void LogError(aclnnStatus status, const char* format, ...);
}  // namespace opforge::twin::host

#define OP_LOGD(...) opforge::twin::host::LogMessage(opforge::twin::host::LogLevel::kDebug, __VA_ARGS__)
#define OP_LOGI(...) opforge::twin::host::LogMessage(opforge::twin::host::LogLevel::kInfo, __VA_ARGS__)
#define OP_LOGW(...) opforge::twin::host::LogMessage(opforge::twin::host::LogLevel::kWarning, __VA_ARGS__)
#define OP_LOGE(errno, ...) opforge::twin::host::LogError(errno, __VA_ARGS__)

#define CHECK_RET(condition, ret_value) \
    do {                                \
        if (!(condition)) {             \
            return ret_value;           \
        }                               \
    } while (false)

#define OP_CHECK(cond, log_func, return_expr) \
    do {                                      \
        if (!(cond)) {                        \
            log_func;                         \
            return_expr;                      \
        }                                     \
    } while (false)

#endif  // OPDEV_OP_LOG_H
