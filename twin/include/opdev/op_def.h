// OP_TYPE_REGISTER: declares an operator type for the level 0 functions of this file.
#ifndef OPDEV_OP_DEF_H
#define OPDEV_OP_DEF_H

#include <cstdint>

namespace opforge::twin::host {
uint32_t OpTypeId(const char* opType);
}  // namespace opforge::twin::host

#define OP_TYPE_REGISTER(kernelName)                                           \
    inline uint32_t kernelName##OpTypeId()                                     \
    {                                                                          \
        static const uint32_t id = opforge::twin::host::OpTypeId(#kernelName); \
        return id;                                                             \
    }                                                                          \
    static_assert(true, "a semicolon follows")

#endif  // OPDEV_OP_DEF_H
