// SuperKernel: functions that a graph compiler calls instead of a kernel. Programs launch the kernel.
#ifndef OPFORGE_TWIN_KERNEL_SUPER_KERNEL_H
#define OPFORGE_TWIN_KERNEL_SUPER_KERNEL_H

#include <cstdint>

#define __sk__

namespace sk {

struct SkSystemArgs {
    uint32_t skNumBlocks;

    uint32_t SkGetNumBlocks() const { return skNumBlocks; }
};

}  // namespace sk

namespace opforge::twin::kernel {

template <typename Function>
inline constexpr bool kIsSuperKernel = false;
template <typename Arguments>
inline constexpr bool kIsSuperKernel<void(const Arguments*)> = true;
template <typename Arguments>
inline constexpr bool kIsSuperKernel<void(const Arguments*, sk::SkSystemArgs*)> = true;

template <typename... Parameters, typename... Functions>
constexpr bool BindSuperKernel(void (* /*kernel*/)(Parameters...), uint64_t /*capabilities*/,
                               Functions*... /*functions*/)
{
    static_assert(sizeof...(Functions) >= 1 && sizeof...(Functions) <= 4, "SK_BIND: a kernel has 1 to 4 functions");
    static_assert((kIsSuperKernel<Functions> && ...),
                  "SK_BIND: the functions have the parameters (const Arguments*) or "
                  "(const Arguments*, sk::SkSystemArgs*)");
    return true;
}

}  // namespace opforge::twin::kernel

#define OPFORGE_SK_NAME_OF(line) opforgeSuperKernel##line
#define OPFORGE_SK_NAME(line) OPFORGE_SK_NAME_OF(line)
#define SK_BIND(...) \
    [[maybe_unused]] static const bool OPFORGE_SK_NAME(__LINE__) = opforge::twin::kernel::BindSuperKernel(__VA_ARGS__)

#endif  // OPFORGE_TWIN_KERNEL_SUPER_KERNEL_H
