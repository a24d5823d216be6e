// The functions of securec.h that host code of examples and unit tests uses: copies with the size of the target.
#ifndef OPFORGE_TWIN_SECUREC_H
#define OPFORGE_TWIN_SECUREC_H

#include <cstddef>
#include <cstring>

using errno_t = int;
constexpr errno_t EOK = 0;
constexpr errno_t kOpforgeTooLong = 34;  // ERANGE

inline errno_t memcpy_s(void* target, size_t space, const void* source, size_t count)
{
    if (count > space || target == nullptr || source == nullptr) {
        return kOpforgeTooLong;
    }
    std::memcpy(target, source, count);
    return EOK;
}

inline errno_t memset_s(void* target, size_t space, int value, size_t count)
{
    if (count > space || target == nullptr) {
        return kOpforgeTooLong;
    }
    std::memset(target, value, count);
    return EOK;
}

inline errno_t strcpy_s(char* target, size_t space, const char* source)
{
    return memcpy_s(target, space, source, std::strlen(source) + 1);
}

#endif  // OPFORGE_TWIN_SECUREC_H
