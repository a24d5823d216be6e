#include "host/acl/errors.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"
#include "opdev/op_log.h"

namespace opforge::twin::host {

namespace {

thread_local std::string recent;
thread_local std::string handedOut;
thread_local std::string misuse;
thread_local aclError last = ACL_SUCCESS;

void AddLine(std::string& text, const std::string& line)
{
    text += (text.empty() ? "" : "\n") + line;
}

std::string Format(const char* format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    const int length = std::vsnprintf(nullptr, 0, format, again);
    va_end(again);
    std::vector<char> text(length < 0 ? 1 : static_cast<size_t>(length) + 1);
    std::vsnprintf(text.data(), text.size(), format, arguments);
    return text.data();
}

int Environment(const char* name, int otherwise)
{
    const char* value = std::getenv(name);
    return value == nullptr ? otherwise : std::atoi(value);
}

void Print(LogLevel level, const std::string& text)
{
    constexpr int kErrorsOnly = 3;
    static const char* const words[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
    const int number = static_cast<int>(level);
    if (Environment("ASCEND_SLOG_PRINT_TO_STDOUT", 0) == 1 &&
        number >= Environment("ASCEND_GLOBAL_LOG_LEVEL", kErrorsOnly)) {
        std::fprintf(stderr, "[%s] %s\n", words[number], text.c_str());
    }
}

}  // namespace

aclError Fail(aclError status, const std::string& text)
{
    Print(LogLevel::kError, text);
    recent = text;
    last = status;
    return status;
}

void AddError(const std::string& text)
{
    Print(LogLevel::kError, text);
    AddLine(recent, text);
}

void ClearErrors()
{
    recent.clear();
}

size_t ErrorLength()
{
    return recent.size();
}

std::string TakeErrorsBehind(size_t length)
{
    const size_t start = length == 0 ? 0 : length + 1;  // after the previous line
    const std::string taken = start < recent.size() ? recent.substr(start) : "";
    recent.resize(std::min(length, recent.size()));
    return taken;
}

void ReportMisuse(const std::string& text)
{
    AddLine(misuse, text);
}

std::string TakeMisuse()
{
    std::string taken;
    taken.swap(misuse);
    return taken;
}

void LogMessage(LogLevel level, const char* format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    Print(level, Format(format, arguments));
    va_end(arguments);
}

void LogError(aclnnStatus status, const char* format, ...)
{
    (void)status;  // the caller returns the status; the message does not include it
    va_list arguments;
    va_start(arguments, format);
    AddError(Format(format, arguments));
    va_end(arguments);
}

}  // namespace opforge::twin::host

void aclAppLog(aclLogLevel logLevel, const char* /*func*/, const char* /*file*/, uint32_t /*line*/, const char* fmt,
               ...)
{
    using namespace opforge::twin::host;
    va_list arguments;
    va_start(arguments, fmt);
    const std::string text = Format(fmt, arguments);
    va_end(arguments);
    if (logLevel == ACL_ERROR) {
        AddError(text);
    } else {
        Print(static_cast<LogLevel>(logLevel), text);
    }
}

const char* aclGetRecentErrMsg()
{
    using namespace opforge::twin::host;
    handedOut.swap(recent);
    recent.clear();
    return handedOut.c_str();
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel /*level*/)
{
    return opforge::twin::host::last;
}

aclError aclrtGetLastError(aclrtLastErrLevel /*level*/)
{
    using namespace opforge::twin::host;
    const aclError error = last;
    last = ACL_SUCCESS;
    return error;
}
