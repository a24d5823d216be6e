// The device dialect of C++ in terms of the host compiler's.
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
// A cast that loses the address space loses `volatile`, and -Wcast-qual refuses it.
#define __gm__ volatile
#define __ubuf__

#define GM_ADDR __gm__ uint8_t*

// On the device both expand to `constexpr (..)`, in two programs: write `if ASCEND_IS_AIV { }` without parentheses.
// Here one program serves both kinds of cores, and the core decides; the declaration keeps the parentheses out.
#define ASCEND_IS_AIC (const bool opforgeIsAic = opforge::twin::kernel::IsCubeCore(); opforgeIsAic)
#define ASCEND_IS_AIV (const bool opforgeIsAiv = !opforge::twin::kernel::IsCubeCore(); opforgeIsAiv)

namespace opforge::twin::kernel {

/// The place in the kernel's sources that a finding names; instructions take it as a defaulted last parameter.
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
