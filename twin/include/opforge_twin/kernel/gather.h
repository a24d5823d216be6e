// Index vectors, gather by byte offset, compaction by mask.
#ifndef OPFORGE_TWIN_KERNEL_GATHER_H
#define OPFORGE_TWIN_KERNEL_GATHER_H

#include "opforge_twin/kernel/vector.h"

namespace opforge::twin::kernel {

template <typename T>
constexpr void RequireGatherable()
{
    static_assert(kIsAnyOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>,
                  "Gather, GatherMask: Ascend 910B has 2- and 4-byte types");
}

template <typename T>
constexpr void RequireCountable()
{
    static_assert(kIsAnyOf<T, int16_t, int32_t, half, float>,
                  "CreateVecIndex, ArithProgression: Ascend 910B has int16_t, int32_t, half, float");
}

}  // namespace opforge::twin::kernel

namespace AscendC {

/// dst[i] = element at src + srcBaseOffset + srcOffset[i]; both offsets are in bytes.
template <typename T>
OPFORGE_API void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
                        const uint32_t srcBaseOffset, const uint32_t count)
{
    twin::GateGather<T>();
    twin::RequireGatherable<T>();
    twin::GatherElements(dst.View(), src.View(), srcOffset.View(), srcBaseOffset, twin::Lanes::Count(count), 8,
                         {"Gather", twin::Here()});
}

template <typename T>
OPFORGE_API void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
                        const uint32_t srcBaseOffset, const uint64_t mask, const int64_t repeatTime,
                        const int64_t dstRepStride)
{
    twin::GateGather<T>();
    twin::RequireGatherable<T>();
    twin::GatherElements(dst.View(), src.View(), srcOffset.View(), srcBaseOffset,
                         twin::Lanes::Leading<true>(mask, repeatTime), dstRepStride, {"Gather", twin::Here()});
}

template <typename T>
OPFORGE_API void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
                        const uint32_t srcBaseOffset, const uint64_t mask[], const int64_t repeatTime,
                        const int64_t dstRepStride)
{
    twin::GateGather<T>();
    twin::RequireGatherable<T>();
    twin::GatherElements(dst.View(), src.View(), srcOffset.View(), srcBaseOffset,
                         twin::Lanes::Bits<true>(mask, repeatTime), dstRepStride, {"Gather", twin::Here()});
}

/// Gathers 8 whole 32-byte blocks per repeat.
template <typename T>
OPFORGE_API void Gatherb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset,
                         const int64_t repeatTime, const GatherRepeatParams& repeatParams)
{
    twin::GateGatherb<T>();
    static_assert(twin::kIsAnyOf<T, uint16_t, uint32_t>, "Gatherb: Ascend 910B has uint16_t and uint32_t");
    twin::GatherBlocks(dst.View(), src.View(), offset.View(), repeatTime,
                       {repeatParams.dstBlkStride, repeatParams.dstRepStride, 255, 255}, {"Gatherb", twin::Here()});
}

template <typename T, GatherMaskMode mode = GatherMaskMode::VERSION_V2>
OPFORGE_API void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const uint8_t src1Pattern,
                            const bool reduceMode, const uint32_t mask, const GatherMaskParams& gatherMaskParams,
                            uint64_t& rsvdCnt)
{
    twin::GateGatherMask<T>();
    twin::RequireGatherable<T>();
    const twin::Compaction how{nullptr,
                               src1Pattern,
                               reduceMode,
                               mask,
                               gatherMaskParams.src0BlockStride,
                               gatherMaskParams.repeatTimes,
                               gatherMaskParams.src0RepeatStride,
                               gatherMaskParams.src1RepeatStride};
    rsvdCnt = twin::Compact(dst.View(), src0.View(), how, {"GatherMask", twin::Here()});
}

template <typename T, typename U, GatherMaskMode mode = GatherMaskMode::VERSION_V2>
OPFORGE_API void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<U>& src1Pattern,
                            const bool reduceMode, const uint32_t mask, const GatherMaskParams& gatherMaskParams,
                            uint64_t& rsvdCnt)
{
    twin::GateGatherMask<T>();
    twin::RequireGatherable<T>();
    twin::RequireSameKind<T, U>();
    static_assert(twin::kIsAnyOf<U, uint16_t, uint32_t> && sizeof(PrimT<T>) == sizeof(PrimT<U>),
                  "GatherMask: the bit mask is uint16_t for 2-byte and uint32_t for 4-byte elements");
    const twin::Compaction how{&src1Pattern.View(),
                               0,
                               reduceMode,
                               mask,
                               gatherMaskParams.src0BlockStride,
                               gatherMaskParams.repeatTimes,
                               gatherMaskParams.src0RepeatStride,
                               gatherMaskParams.src1RepeatStride};
    rsvdCnt = twin::Compact(dst.View(), src0.View(), how, {"GatherMask", twin::Here()});
}

/// Returns the number of elements that the last GatherMask kept.
OPFORGE_API inline int64_t GetGatherMaskRemainCount()
{
    return twin::CompactedCount({"GetGatherMaskRemainCount", twin::Here()});
}

/// first, first + 1, first + 2, ..
template <typename T>
OPFORGE_API void CreateVecIndex(LocalTensor<T> dst, const T& firstValue, uint32_t count)
{
    twin::GateCreateVecIndex<T>();
    twin::RequireCountable<T>();
    twin::Progression(dst.View(), twin::ScalarBits(firstValue), twin::ScalarBits(T(1)), twin::Lanes::Count(count), {},
                      {"CreateVecIndex", twin::Here()});
}

template <typename T>
OPFORGE_API void CreateVecIndex(LocalTensor<T>& dst, const T& firstValue, uint64_t mask, int64_t repeatTime,
                                int64_t dstBlkStride, int64_t dstRepStride)
{
    twin::GateCreateVecIndex<T>();
    twin::RequireCountable<T>();
    twin::Progression(dst.View(), twin::ScalarBits(firstValue), twin::ScalarBits(T(1)),
                      twin::Lanes::Leading<true>(mask, repeatTime), {dstBlkStride, dstRepStride, 65535, 255},
                      {"CreateVecIndex", twin::Here()});
}

template <typename T>
OPFORGE_API void CreateVecIndex(LocalTensor<T>& dst, const T& firstValue, uint64_t mask[], int64_t repeatTime,
                                int64_t dstBlkStride, int64_t dstRepStride)
{
    twin::GateCreateVecIndex<T>();
    twin::RequireCountable<T>();
    twin::Progression(dst.View(), twin::ScalarBits(firstValue), twin::ScalarBits(T(1)),
                      twin::Lanes::Bits<true>(mask, repeatTime), {dstBlkStride, dstRepStride, 65535, 255},
                      {"CreateVecIndex", twin::Here()});
}

template <typename T>
OPFORGE_API void ArithProgression(const LocalTensor<T>& dstLocal, const T firstValue, const T diffValue,
                                  const int32_t count)
{
    twin::GateArithProgression<T>();
    twin::RequireCountable<T>();
    twin::Progression(dstLocal.View(), twin::ScalarBits(firstValue), twin::ScalarBits(diffValue),
                      twin::Lanes::Count(count), {}, {"ArithProgression", twin::Here()});
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_GATHER_H
