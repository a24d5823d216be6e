// Types of the plugin registry.
#ifndef REGISTER_REGISTER_TYPES_H
#define REGISTER_REGISTER_TYPES_H

#include <cstdint>

namespace domi {
using Status = uint32_t;

constexpr Status SUCCESS = 0;
constexpr Status FAILED = 0xFFFFFFFF;

enum class ImplyType : uint32_t {
    BUILDIN = 0,
    CUSTOM,
    TVM,
};
}  // namespace domi

#endif  // REGISTER_REGISTER_TYPES_H
