// Maps the device dialect of C++ to the host compiler.
#ifndef OPFORGE_TWIN_KERNEL_LANGUAGE_H
#define OPFORGE_TWIN_KERNEL_LANGUAGE_H

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#define __NPU_ARCH__ 2201
#define __CCE_AICORE__ 220
#define __DAV_C220__

#define __global__ __attribute__((visibility("default")))
#define __aicore__
#define __forceinline__ inline __attribute__((always_inline))
// A cast that drops the address space drops `volatile`, and -Wcast-qual reports it.
#define __gm__ volatile
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#define __local_mem__

#define GM_ADDR __gm__ uint8_t*

// On the device, both expand to `constexpr (..)` in two separate programs: write `if ASCEND_IS_AIV { }` without
// parentheses. On the twin, one program runs on both core types and tests the core. The declaration prevents
// parentheses.
#define ASCEND_IS_AIC (const bool opforgeIsAic = opforge::twin::kernel::IsCubeCore(); opforgeIsAic)
#define ASCEND_IS_AIV (const bool opforgeIsAiv = !opforge::twin::kernel::IsCubeCore(); opforgeIsAiv)

namespace opforge::twin::kernel {

/// The source location in a finding. Instructions have it as the last parameter with a default value.
struct Location {
    const char* file = "";
    int line = 0;

    static constexpr Location Here(const char* file = __builtin_FILE(), int line = __builtin_LINE())
    {
        return {file, line};
    }
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_LANGUAGE_H
