// BilinearInterpolation: weighted sums of gathered blocks, in the documented steps.
#ifndef OPFORGE_TWIN_KERNEL_INTERPOLATION_H
#define OPFORGE_TWIN_KERNEL_INTERPOLATION_H

#include "opforge_twin/kernel/gather.h"
#include "opforge_twin/kernel/reduce.h"
#include "opforge_twin/kernel/sync.h"

namespace opforge::twin::kernel {

/// `across` repeats of 8 blocks for each of the `down` sums. A weight is for a repeat or, with `hasBlockWeights`, for a
/// block.
struct Interpolation {
    uint8_t across;
    bool hasBlockWeights;
    uint16_t dstBlockStride;
    uint16_t dstPitch;
    uint8_t down;
};

inline void RequireInterpolation(const Interpolation& how, int64_t elements, int64_t scratchBytes, const Call& call)
{
    Field("hRepeat", how.across, 1, 255, call);
    Field("vRepeat", how.down, 1, 255, call);
    Field("dstBlkStride", how.dstBlockStride, 1, 255, call);
    RequireMultiple("vROffset", Field("vROffset", how.dstPitch, 128, 65534, call), 16, "elements",
                    "a block has 16 elements of half", call);
    Field("size of sharedTmpBuffer", scratchBytes, elements * 32, kFieldMax32, call);
}

/// Assumption: a sum begins with the first product, and each step rounds to half.
template <typename T, typename M>
void Interpolate(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src0,
                 const AscendC::LocalTensor<uint32_t>& offsets, const AscendC::LocalTensor<T>& src1, M mask,
                 const Interpolation& how, const AscendC::LocalTensor<T>& blocks)
{
    constexpr int64_t kMostRepeats = 248;
    constexpr uint32_t kPerRepeat = 128;
    const int64_t repeats = int64_t{how.across} * how.down;
    const int64_t groups = how.hasBlockWeights ? repeats : (repeats + 7) / 8;
    const AscendC::LocalTensor<T> weights = blocks[static_cast<uint32_t>(repeats) * kPerRepeat];
    for (int64_t from = 0; from < repeats; from += kMostRepeats) {
        const auto first = static_cast<uint32_t>(from);
        AscendC::Gatherb(blocks[first * kPerRepeat].template ReinterpretCast<uint16_t>(),
                         src0.template ReinterpretCast<uint16_t>(), offsets[first * 8],
                         repeats - from < kMostRepeats ? repeats - from : kMostRepeats, {1, 8});
    }
    for (int64_t from = 0; from < groups; from += kMostRepeats) {
        const auto first = static_cast<uint32_t>(from);
        AscendC::Brcb(weights[first * kPerRepeat], src1[first * 8],
                      groups - from < kMostRepeats ? groups - from : kMostRepeats, {1, 8});
    }
    AscendC::PipeBarrier<PIPE_V>();
    const auto stride = static_cast<uint8_t>(how.dstBlockStride);
    const uint8_t weightStride = how.hasBlockWeights ? 1 : 0;
    for (uint32_t repeat = 0; repeat < static_cast<uint32_t>(repeats); ++repeat) {
        const AscendC::LocalTensor<T> sum = dst[repeat / how.across * how.dstPitch];
        const AscendC::LocalTensor<T> product = blocks[repeat * kPerRepeat];
        const AscendC::LocalTensor<T> weight = weights[repeat * (how.hasBlockWeights ? kPerRepeat : 16)];
        const bool isFirst = repeat % how.across == 0;
        AscendC::Mul(isFirst ? sum : product, product, weight, mask, uint8_t{1},
                     {isFirst ? stride : uint8_t{1}, 1, weightStride, 8, 8, 8});
        AscendC::PipeBarrier<PIPE_V>();
        if (!isFirst) {
            AscendC::Add(sum, sum, product, mask, uint8_t{1}, {stride, stride, 1, 8, 8, 8});
            AscendC::PipeBarrier<PIPE_V>();
        }
    }
}

}  // namespace opforge::twin::kernel

namespace AscendC {

#define OPFORGE_INTERPOLATION(...)                                                                                \
    template <typename T>                                                                                         \
    OPFORGE_API void BilinearInterpolation(                                                                       \
        const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<uint32_t>& src0Offset,           \
        const LocalTensor<T>& src1, __VA_ARGS__, uint8_t hRepeat, bool repeatMode, uint16_t dstBlkStride,         \
        uint16_t vROffset, uint8_t vRepeat, const LocalTensor<uint8_t>& sharedTmpBuffer)                          \
    {                                                                                                             \
        twin::GateBilinearInterpolation<T>();                                                                     \
        static_assert(twin::kIsAnyOf<T, half>, "BilinearInterpolation: Ascend 910B has half");                    \
        const twin::ComposedCall composed;                                                                        \
        const twin::Interpolation how{hRepeat, repeatMode, dstBlkStride, vROffset, vRepeat};                      \
        twin::RequireInterpolation(how, src0.GetSize() + src1.GetSize(), sharedTmpBuffer.GetSize(),               \
                                   {"BilinearInterpolation", twin::Here()});                                      \
        twin::Interpolate(dst, src0, src0Offset, src1, mask, how, sharedTmpBuffer.template ReinterpretCast<T>()); \
    }
OPFORGE_INTERPOLATION(uint64_t mask)
OPFORGE_INTERPOLATION(uint64_t mask[])
#undef OPFORGE_INTERPOLATION

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_INTERPOLATION_H
