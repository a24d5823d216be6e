// Reductions: of a whole tensor, of each repeat, of each 32-byte block, of adjacent pairs.
#ifndef OPFORGE_TWIN_KERNEL_REDUCE_H
#define OPFORGE_TWIN_KERNEL_REDUCE_H

#include "opforge_twin/kernel/vector.h"

namespace opforge::twin::kernel {

template <typename T>
constexpr void RequireReducible()
{
    static_assert(kIsAnyOf<T, half, float>, "reductions: Ascend 910B has half and float");
}

}  // namespace opforge::twin::kernel

namespace AscendC {

/// Reduces each 256-byte repeat as a pairwise tree; adds the repeats in order.
template <typename T, bool isSetMask = true>
OPFORGE_API void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
                           const int32_t count)
{
    twin::RequireReducible<T>();
    twin::Reduce(twin::ReduceOp::kSum, dst.View(), src.View(), sharedTmpBuffer.View(), twin::Lanes::Count(count), 8,
                 false, {"ReduceSum", twin::Here()});
}

template <typename T>
OPFORGE_API void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
                           const int32_t mask, const int32_t repeatTime, const int32_t srcRepStride)
{
    twin::RequireReducible<T>();
    twin::Reduce(twin::ReduceOp::kSum, dst.View(), src.View(), sharedTmpBuffer.View(),
                 twin::Lanes::Leading<true>(static_cast<uint64_t>(mask), repeatTime), srcRepStride, false,
                 {"ReduceSum", twin::Here()});
}

template <typename T>
OPFORGE_API void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
                           const uint64_t mask[], const int32_t repeatTime, const int32_t srcRepStride)
{
    twin::RequireReducible<T>();
    twin::Reduce(twin::ReduceOp::kSum, dst.View(), src.View(), sharedTmpBuffer.View(),
                 twin::Lanes::Bits<true>(mask, repeatTime), srcRepStride, false, {"ReduceSum", twin::Here()});
}

#define OPFORGE_REDUCE_EXTREME(name, op)                                                                               \
    template <typename T>                                                                                              \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, \
                          const int32_t count, bool calIndex = false)                                                  \
    {                                                                                                                  \
        twin::RequireReducible<T>();                                                                                   \
        twin::Reduce(op, dst.View(), src.View(), sharedTmpBuffer.View(), twin::Lanes::Count(count), 8, calIndex,       \
                     {#name, twin::Here()});                                                                           \
    }                                                                                                                  \
    template <typename T>                                                                                              \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, \
                          const int32_t mask, const int32_t repeatTime, const int32_t srcRepStride,                    \
                          bool calIndex = false)                                                                       \
    {                                                                                                                  \
        twin::RequireReducible<T>();                                                                                   \
        twin::Reduce(op, dst.View(), src.View(), sharedTmpBuffer.View(),                                               \
                     twin::Lanes::Leading<true>(static_cast<uint64_t>(mask), repeatTime), srcRepStride, calIndex,      \
                     {#name, twin::Here()});                                                                           \
    }                                                                                                                  \
    template <typename T>                                                                                              \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, \
                          const uint64_t mask[], const int32_t repeatTime, const int32_t srcRepStride,                 \
                          bool calIndex = false)                                                                       \
    {                                                                                                                  \
        twin::RequireReducible<T>();                                                                                   \
        twin::Reduce(op, dst.View(), src.View(), sharedTmpBuffer.View(), twin::Lanes::Bits<true>(mask, repeatTime),    \
                     srcRepStride, calIndex, {#name, twin::Here()});                                                   \
    }
OPFORGE_REDUCE_EXTREME(ReduceMax, twin::ReduceOp::kMax)
OPFORGE_REDUCE_EXTREME(ReduceMin, twin::ReduceOp::kMin)
#undef OPFORGE_REDUCE_EXTREME

/// One result per repeat; `dstRepStride` counts elements of dst.
template <typename T, bool isSetMask = true>
OPFORGE_API void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask,
                                const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,
                                const int32_t srcRepStride)
{
    twin::RequireReducible<T>();
    twin::ReduceRepeats(twin::ReduceOp::kSum, dst.View(), src.View(),
                        twin::Lanes::Leading<isSetMask>(static_cast<uint64_t>(mask), repeatTime), dstRepStride,
                        srcBlkStride, srcRepStride, ReduceOrder::ORDER_ONLY_VALUE, {"WholeReduceSum", twin::Here()});
}

template <typename T, bool isSetMask = true>
OPFORGE_API void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[],
                                const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,
                                const int32_t srcRepStride)
{
    twin::RequireReducible<T>();
    twin::ReduceRepeats(twin::ReduceOp::kSum, dst.View(), src.View(), twin::Lanes::Bits<isSetMask>(mask, repeatTime),
                        dstRepStride, srcBlkStride, srcRepStride, ReduceOrder::ORDER_ONLY_VALUE,
                        {"WholeReduceSum", twin::Here()});
}

/// One result per repeat; `dstRepStride` counts results (pairs if value and index are stored).
template <typename T, bool isSetMask = true>
OPFORGE_API void WholeReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask,
                                const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,
                                const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX)
{
    twin::RequireReducible<T>();
    twin::ReduceRepeats(twin::ReduceOp::kMax, dst.View(), src.View(),
                        twin::Lanes::Leading<isSetMask>(static_cast<uint64_t>(mask), repeatTime), dstRepStride,
                        srcBlkStride, srcRepStride, order, {"WholeReduceMax", twin::Here()});
}

template <typename T, bool isSetMask = true>
OPFORGE_API void WholeReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[],
                                const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,
                                const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX)
{
    twin::RequireReducible<T>();
    twin::ReduceRepeats(twin::ReduceOp::kMax, dst.View(), src.View(), twin::Lanes::Bits<isSetMask>(mask, repeatTime),
                        dstRepStride, srcBlkStride, srcRepStride, order, {"WholeReduceMax", twin::Here()});
}

#define OPFORGE_REDUCE_GROUPS(name, group)                                                                         \
    template <typename T, bool isSetMask = true>                                                                   \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime,          \
                          const int32_t mask, const int32_t dstRepStride, const int32_t srcBlkStride,              \
                          const int32_t srcRepStride)                                                              \
    {                                                                                                              \
        twin::RequireReducible<T>();                                                                               \
        twin::ReduceGroups(group, dst.View(), src.View(),                                                          \
                           twin::Lanes::Leading<isSetMask>(static_cast<uint64_t>(mask), repeatTime), dstRepStride, \
                           srcBlkStride, srcRepStride, {#name, twin::Here()});                                     \
    }                                                                                                              \
    template <typename T, bool isSetMask = true>                                                                   \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime,          \
                          const uint64_t mask[], const int32_t dstRepStride, const int32_t srcBlkStride,           \
                          const int32_t srcRepStride)                                                              \
    {                                                                                                              \
        twin::RequireReducible<T>();                                                                               \
        twin::ReduceGroups(group, dst.View(), src.View(), twin::Lanes::Bits<isSetMask>(mask, repeatTime),          \
                           dstRepStride, srcBlkStride, srcRepStride, {#name, twin::Here()});                       \
    }
/// 8 results per repeat; `dstRepStride` counts units of 8 results.
OPFORGE_REDUCE_GROUPS(BlockReduceSum, 32 / static_cast<int64_t>(sizeof(T)))
/// Half as many results as elements; `dstRepStride` counts units of 128 bytes.
OPFORGE_REDUCE_GROUPS(PairReduceSum, 2)
#undef OPFORGE_REDUCE_GROUPS

/// Broadcasts 8 adjacent elements per repeat to 8 blocks.
template <typename T>
OPFORGE_API void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int64_t repeatTime,
                      const BrcbRepeatParams& repeatParams)
{
    static_assert(twin::kIsAnyOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>,
                  "Brcb: Ascend 910B has 2- and 4-byte types");
    twin::BroadcastBlocks(dst.View(), src.View(), repeatTime,
                          {repeatParams.dstBlkStride, repeatParams.dstRepStride, 65535, 65535}, {"Brcb", twin::Here()});
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_REDUCE_H
