// The architecture that a kernel is compiled for, and what follows from it. Only this folder tests the architecture.
#ifndef OPFORGE_OP_KERNEL_COMMON_ARCH_ARCH_H
#define OPFORGE_OP_KERNEL_COMMON_ARCH_ARCH_H

#include "kernel_operator.h"
#include "common/arithmetic.h"

// CANN 8.1 has only __CCE_AICORE__. 1001: Ascend 910, whose cores have a cube and a vector unit each.
#if defined(__NPU_ARCH__)
#define OPFORGE_ARCH __NPU_ARCH__
#elif defined(__CCE_AICORE__) && __CCE_AICORE__ == 100
#define OPFORGE_ARCH 1001
#else
#define OPFORGE_ARCH 2201
#endif
// Whether each core has a cube and a vector unit.
#define OPFORGE_IS_COUPLED (OPFORGE_ARCH == 1001)

namespace opforge {
namespace kernel {

/// Whether DMA can move any number of bytes between global memory and UB.
constexpr bool kHasPadCopy = !OPFORGE_IS_COUPLED;
/// The mode of conversions of int32 to float.
constexpr AscendC::RoundMode kFromInt32Mode =
    OPFORGE_IS_COUPLED ? AscendC::RoundMode::CAST_NONE : AscendC::RoundMode::CAST_RINT;

/// Returns the mode of conversions of float to a narrower dtype, rounded to nearest even.
template <typename T>
__aicore__ inline constexpr AscendC::RoundMode ToNarrowMode()
{
    return OPFORGE_IS_COUPLED ? AscendC::RoundMode::CAST_NONE : AscendC::RoundMode::CAST_RINT;
}

/// Elements of the shortest contiguous run that a core can store next to the runs of other cores.
template <typename T>
constexpr int64_t kLeastRun = kHasPadCopy ? 1 : kUbBlockBytes / static_cast<int64_t>(sizeof(T));

/// Returns the units of the next tile of at most `tile` units, so that the rest has no unit or at least `least`.
__aicore__ inline constexpr int64_t TileOf(int64_t left, int64_t tile, int64_t least)
{
    const int64_t rest = left - tile;
    return rest <= 0 ? left : rest < least ? tile - (least - rest) : tile;
}

/// Returns the share of block `block` in shares of `share` units, without one of less than `least` units at the end.
__aicore__ inline constexpr Span ShareOf(int64_t total, int64_t share, int64_t block, int64_t least)
{
    const Span own = PieceOf(total, share, block);
    const bool isShort = block > 0 && Size(own) < least;
    return {own.begin, isShort ? own.begin : total - own.end < least ? total : own.end};
}

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_ARCH_ARCH_H
