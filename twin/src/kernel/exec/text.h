// Messages of findings, built only when there is something to say.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_TEXT_H
#define OPFORGE_TWIN_KERNEL_EXEC_TEXT_H

#include <sstream>
#include <string>

namespace opforge::twin::kernel {

template <typename... Parts>
std::string Text(const Parts&... parts)
{
    std::ostringstream stream;
    (stream << ... << parts);
    return stream.str();
}

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_TEXT_H
