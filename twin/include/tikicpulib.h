// The interface of CANN's CPU debug mode for programs of `opforge cc`: memory, modes and launches.
#ifndef OPFORGE_TWIN_TIKICPULIB_H
#define OPFORGE_TWIN_TIKICPULIB_H

#include "kernel_operator.h"
#include "opforge_twin/program.h"

enum class KernelMode { MIX_MODE = 0, AIC_MODE, AIV_MODE };

namespace AscendC {

inline void* GmAlloc(size_t size)
{
    return opforge::twin::program::AllocateShared(size);
}

inline void GmFree(void* ptr)
{
    opforge::twin::program::FreeShared(ptr);
}

inline void SetKernelMode(KernelMode mode)
{
    constexpr const char* types[] = {"MIX_AIC_1_2", "AIC_ONLY", "AIV_ONLY"};
    opforge::twin::program::SetLaunchMode(types[static_cast<int>(mode)]);
}

}  // namespace AscendC

#define ICPU_SET_TILING_KEY(tilingKey) opforge::twin::program::SetLaunchKey(tilingKey)
// `opforge cc` replaces the launch after macro expansion.
#define ICPU_RUN_KF(func, numBlocks, ...)                   \
    do {                                                    \
        func<<<numBlocks, nullptr, nullptr>>>(__VA_ARGS__); \
        opforge::twin::program::WaitForLaunches();          \
    } while (false)

#endif  // OPFORGE_TWIN_TIKICPULIB_H
