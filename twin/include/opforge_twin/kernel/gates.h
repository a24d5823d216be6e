// Compile-time checks of the architecture: an API function that it lacks is an error that names the alternative.
#ifndef OPFORGE_TWIN_KERNEL_GATES_H
#define OPFORGE_TWIN_KERNEL_GATES_H

#include "opforge_twin/kernel/half.h"
#include "opforge_twin/kernel/language.h"
#include "opforge_twin/kernel/runtime.h"

namespace opforge::twin::kernel {

/// Whether each core has a cube and a vector unit.
inline constexpr bool kIsCoupled = OPFORGE_TWIN_IS_COUPLED;

/// A value that depends on a type: only calls fail to compile, not the template.
template <auto value>
struct ValueType {};

#define OPFORGE_HAS(function, alternative, ...)                                          \
    template <typename T>                                                                \
    constexpr void Gate##function()                                                      \
    {                                                                                    \
        static_assert(!kIsCoupled || kIsAnyOf<T, __VA_ARGS__>,                           \
                      #function ": Ascend 910 has " #__VA_ARGS__ " only; " alternative); \
    }
#define OPFORGE_LACKS(function, alternative)                            \
    template <typename T>                                               \
    constexpr void Gate##function()                                     \
    {                                                                   \
        static_assert(!kIsCoupled || sizeof(T) == 0, #function          \
                      ": Ascend 910 has no such "                       \
                      "function, the call does nothing; " alternative); \
    }
#include "opforge_twin/kernel/gates.inc"
#undef OPFORGE_HAS
#undef OPFORGE_LACKS

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_GATES_H
