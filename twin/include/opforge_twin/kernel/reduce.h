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

constexpr ReduceOp ReduceOpOf(AscendC::ReduceType type)
{
    return type == AscendC::ReduceType::SUM   ? ReduceOp::kSum
           : type == AscendC::ReduceType::MAX ? ReduceOp::kMax
                                              : ReduceOp::kMin;
}

}  // namespace opforge::twin::kernel

namespace AscendC {

/// Reduces each 256-byte repeat as a pairwise tree; adds the repeats in order.
template <typename T, bool isSetMask = true>
OPFORGE_API void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
                           const int32_t count)
{
    twin::GateReduceSum<T>();
    twin::RequireReducible<T>();
    twin::Reduce(twin::ReduceOp::kSum, dst.View(), src.View(), sharedTmpBuffer.View(), twin::Lanes::Count(count), 8,
                 false, {"ReduceSum", twin::Here()});
}

template <typename T>
OPFORGE_API void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
                           const int32_t mask, const int32_t repeatTime, const int32_t srcRepStride)
{
    twin::GateReduceSum<T>();
    twin::RequireReducible<T>();
    twin::Reduce(twin::ReduceOp::kSum, dst.View(), src.View(), sharedTmpBuffer.View(),
                 twin::Lanes::Leading<true>(static_cast<uint64_t>(mask), repeatTime), srcRepStride, false,
                 {"ReduceSum", twin::Here()});
}

template <typename T>
OPFORGE_API void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
                           const uint64_t mask[], const int32_t repeatTime, const int32_t srcRepStride)
{
    twin::GateReduceSum<T>();
    twin::RequireReducible<T>();
    twin::Reduce(twin::ReduceOp::kSum, dst.View(), src.View(), sharedTmpBuffer.View(),
                 twin::Lanes::Bits<true>(mask, repeatTime), srcRepStride, false, {"ReduceSum", twin::Here()});
}

#define OPFORGE_REDUCE_EXTREME(name, op)                                                                               \
    template <typename T>                                                                                              \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, \
                          const int32_t count, bool calIndex = false)                                                  \
    {                                                                                                                  \
        twin::Gate##name<T>();                                                                                         \
        twin::RequireReducible<T>();                                                                                   \
        twin::Reduce(op, dst.View(), src.View(), sharedTmpBuffer.View(), twin::Lanes::Count(count), 8, calIndex,       \
                     {#name, twin::Here()});                                                                           \
    }                                                                                                                  \
    template <typename T>                                                                                              \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, \
                          const int32_t mask, const int32_t repeatTime, const int32_t srcRepStride,                    \
                          bool calIndex = false)                                                                       \
    {                                                                                                                  \
        twin::Gate##name<T>();                                                                                         \
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
        twin::Gate##name<T>();                                                                                         \
        twin::RequireReducible<T>();                                                                                   \
        twin::Reduce(op, dst.View(), src.View(), sharedTmpBuffer.View(), twin::Lanes::Bits<true>(mask, repeatTime),    \
                     srcRepStride, calIndex, {#name, twin::Here()});                                                   \
    }
OPFORGE_REDUCE_EXTREME(ReduceMax, twin::ReduceOp::kMax)
OPFORGE_REDUCE_EXTREME(ReduceMin, twin::ReduceOp::kMin)
#undef OPFORGE_REDUCE_EXTREME

// The forms with a number of leading elements and with bits. `head`: template parameters before isSetMask; `before` and
// `after`: parameters around the mask; the body uses `lanes`.
#define OPFORGE_REDUCE_FORMS(name, head, before, after, ...)                                    \
    template <OPFORGE_LIST head, bool isSetMask = true>                                         \
    OPFORGE_API void name(OPFORGE_LIST before, const int32_t mask, OPFORGE_LIST after)          \
    {                                                                                           \
        twin::Gate##name<T>();                                                                  \
        const auto lanes = twin::Lanes::Of<isSetMask>(static_cast<uint64_t>(mask), repeatTime); \
        __VA_ARGS__;                                                                            \
    }                                                                                           \
    template <OPFORGE_LIST head, bool isSetMask = true>                                         \
    OPFORGE_API void name(OPFORGE_LIST before, const uint64_t mask[], OPFORGE_LIST after)       \
    {                                                                                           \
        twin::Gate##name<T>();                                                                  \
        const auto lanes = twin::Lanes::Of<isSetMask>(mask, repeatTime);                        \
        __VA_ARGS__;                                                                            \
    }

/// One result per repeat; `dstRepStride` counts elements of dst.
OPFORGE_REDUCE_FORMS(WholeReduceSum, (typename T), (const LocalTensor<T>& dst, const LocalTensor<T>& src),
                     (const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,
                      const int32_t srcRepStride),
                     twin::RequireReducible<T>();
                     twin::ReduceRepeats(twin::ReduceOp::kSum, dst.View(), src.View(), lanes, dstRepStride,
                                         srcBlkStride, srcRepStride, ReduceOrder::ORDER_ONLY_VALUE,
                                         {"WholeReduceSum", twin::Here()}))

/// One result per repeat; `dstBlkStride` has no effect.
OPFORGE_REDUCE_FORMS(RepeatReduceSum, (typename T),
                     (const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime),
                     (const int32_t /*dstBlkStride*/, const int32_t srcBlkStride, const int32_t dstRepStride,
                      const int32_t srcRepStride),
                     twin::RequireReducible<T>();
                     twin::ReduceRepeats(twin::ReduceOp::kSum, dst.View(), src.View(), lanes, dstRepStride,
                                         srcBlkStride, srcRepStride, ReduceOrder::ORDER_ONLY_VALUE,
                                         {"RepeatReduceSum", twin::Here()}))

/// One result per repeat; `dstRepStride` counts results (pairs if value and index are stored).
#define OPFORGE_REDUCE_EXTREMES(name, op)                                                                   \
    OPFORGE_REDUCE_FORMS(name, (typename T), (const LocalTensor<T>& dst, const LocalTensor<T>& src),        \
                         (const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride, \
                          const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX),  \
                         twin::RequireReducible<T>();                                                       \
                         twin::ReduceRepeats(op, dst.View(), src.View(), lanes, dstRepStride, srcBlkStride, \
                                             srcRepStride, order, {#name, twin::Here()}))
OPFORGE_REDUCE_EXTREMES(WholeReduceMax, twin::ReduceOp::kMax)
OPFORGE_REDUCE_EXTREMES(WholeReduceMin, twin::ReduceOp::kMin)
#undef OPFORGE_REDUCE_EXTREMES

#define OPFORGE_REDUCE_GROUPS(name, op, group)                                                                    \
    OPFORGE_REDUCE_FORMS(name, (typename T),                                                                      \
                         (const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime),        \
                         (const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride),    \
                         twin::RequireReducible<T>();                                                             \
                         twin::ReduceGroups(op, group, dst.View(), src.View(), lanes, dstRepStride, srcBlkStride, \
                                            srcRepStride, {#name, twin::Here()}))
/// 8 results per repeat; `dstRepStride` counts units of 8 results.
OPFORGE_REDUCE_GROUPS(BlockReduceSum, twin::ReduceOp::kSum, 32 / static_cast<int64_t>(sizeof(PrimT<T>)))
OPFORGE_REDUCE_GROUPS(BlockReduceMax, twin::ReduceOp::kMax, 32 / static_cast<int64_t>(sizeof(PrimT<T>)))
OPFORGE_REDUCE_GROUPS(BlockReduceMin, twin::ReduceOp::kMin, 32 / static_cast<int64_t>(sizeof(PrimT<T>)))
/// Half as many results as elements; `dstRepStride` counts units of 128 bytes.
OPFORGE_REDUCE_GROUPS(PairReduceSum, twin::ReduceOp::kSum, 2)
#undef OPFORGE_REDUCE_GROUPS

// The names since 2026 have the operation as a template parameter and the mask before the repeat count.
#define OPFORGE_REDUCE_GROUPS(name, group)                                                                      \
    OPFORGE_REDUCE_FORMS(name, (ReduceType reduceType, typename T, typename U),                                 \
                         (const LocalTensor<T>& dst, const LocalTensor<U>& src),                                \
                         (const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,     \
                          const int32_t srcRepStride),                                                          \
                         static_assert(std::is_same_v<T, U>, #name ": dst and src have the same type");         \
                         twin::RequireReducible<T>();                                                           \
                         twin::ReduceGroups(twin::ReduceOpOf(reduceType), group, dst.View(), src.View(), lanes, \
                                            dstRepStride, srcBlkStride, srcRepStride, {#name, twin::Here()}))
OPFORGE_REDUCE_GROUPS(ReduceDataBlock, 32 / static_cast<int64_t>(sizeof(PrimT<T>)))
OPFORGE_REDUCE_GROUPS(ReducePairElem, 2)
#undef OPFORGE_REDUCE_GROUPS

OPFORGE_REDUCE_FORMS(ReduceRepeat, (ReduceType reduceType, typename T, typename U),
                     (const LocalTensor<T>& dst, const LocalTensor<U>& src),
                     (const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,
                      const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX),
                     static_assert(std::is_same_v<T, U>, "ReduceRepeat: dst and src have the same type");
                     twin::RequireReducible<T>();
                     twin::ReduceRepeats(twin::ReduceOpOf(reduceType), dst.View(), src.View(), lanes, dstRepStride,
                                         srcBlkStride, srcRepStride,
                                         reduceType == ReduceType::SUM ? ReduceOrder::ORDER_ONLY_VALUE : order,
                                         {"ReduceRepeat", twin::Here()}))

/// The sum of the last ReduceSum with a count.
template <typename T>
OPFORGE_API T GetReduceRepeatSumSpr()
{
    twin::RequireReducible<T>();
    return twin::FromBits<T>(twin::LastSum(twin::DtypeOf<T>(), {"GetReduceRepeatSumSpr", twin::Here()}));
}

template <typename T>
OPFORGE_API T GetAccVal()
{
    twin::RequireReducible<T>();
    return twin::FromBits<T>(twin::LastSum(twin::DtypeOf<T>(), {"GetAccVal", twin::Here()}));
}

/// The bits of the last sum of float values, for kernels that convert them.
OPFORGE_API inline int64_t GetAccVal()
{
    return static_cast<int64_t>(twin::LastSum(twin::Dtype::kFloat32, {"GetAccVal", twin::Here()}));
}

/// The extreme of all repeats of the last reduction to it, and the bits of its index.
#define OPFORGE_LAST_EXTREME(name)                                                    \
    template <typename T>                                                             \
    OPFORGE_API void name(T& maxMinValue, T& maxMinIndex)                             \
    {                                                                                 \
        twin::RequireReducible<T>();                                                  \
        uint64_t value = 0;                                                           \
        uint64_t index = 0;                                                           \
        twin::LastExtreme(twin::DtypeOf<T>(), &value, &index, {#name, twin::Here()}); \
        maxMinValue = twin::FromBits<T>(value);                                       \
        maxMinIndex = twin::FromBits<T>(index);                                       \
    }
OPFORGE_LAST_EXTREME(GetReduceRepeatMaxMinSpr)
OPFORGE_LAST_EXTREME(GetReduceMaxMinCount)
#undef OPFORGE_LAST_EXTREME

/// Broadcasts 8 adjacent elements per repeat to 8 blocks.
template <typename T>
OPFORGE_API void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int64_t repeatTime,
                      const BrcbRepeatParams& repeatParams)
{
    twin::GateBrcb<T>();
    static_assert(twin::kIsAnyOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>,
                  "Brcb: Ascend 910B has 2- and 4-byte types");
    twin::BroadcastBlocks(dst.View(), src.View(), repeatTime,
                          {repeatParams.dstBlkStride, repeatParams.dstRepStride, 65535, 65535}, {"Brcb", twin::Here()});
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_REDUCE_H
