// What the programs of this folder do with every call: a status that is no success is shown with its reason.
#ifndef EXAMPLES_CALLS_H
#define EXAMPLES_CALLS_H

#include <cstddef>
#include <cstdio>
#include <memory>

#include "acl/acl.h"

inline bool Succeeded(int status, const char* call)
{
    if (status != ACL_SUCCESS) {
        std::fprintf(stderr, "%s failed with %d: %s\n", call, status, aclGetRecentErrMsg());
    }
    return status == ACL_SUCCESS;
}

#define RETURN_IF_FAILED(call)         \
    do {                               \
        if (!Succeeded(call, #call)) { \
            return 1;                  \
        }                              \
    } while (false)

/// Memory that is released with its owner.
using Memory = std::unique_ptr<void, aclError (*)(void*)>;

inline Memory OnDevice(size_t bytes)
{
    void* memory = nullptr;
    aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
    return {memory, aclrtFree};
}

#endif
