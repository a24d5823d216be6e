// Log messages of tiling functions. With ASCEND_SLOG_PRINT_TO_STDOUT=1, stderr contains them, see opdev/op_log.h.
#ifndef UTILS_LOG_ASC_CPU_LOG_H
#define UTILS_LOG_ASC_CPU_LOG_H

#include "opdev/op_log.h"

#define OPFORGE_CPU_LOG(level, format, ...)                                                                          \
    opforge::twin::host::LogMessage(opforge::twin::host::LogLevel::level, "[%s:%d][%s] " format, __FILE__, __LINE__, \
                                    __FUNCTION__, ##__VA_ARGS__)
#define ASC_CPU_LOG_ERROR(...) OPFORGE_CPU_LOG(kError, __VA_ARGS__)
#define ASC_CPU_LOG_WARNING(...) OPFORGE_CPU_LOG(kWarning, __VA_ARGS__)
#define ASC_CPU_LOG_INFO(...) OPFORGE_CPU_LOG(kInfo, __VA_ARGS__)
#define ASC_CPU_LOG_DEBUG(...) OPFORGE_CPU_LOG(kDebug, __VA_ARGS__)

#endif  // UTILS_LOG_ASC_CPU_LOG_H
