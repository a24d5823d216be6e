// The softmax family.
#ifndef OPFORGE_TWIN_KERNEL_HIGH_SOFTMAX_H
#define OPFORGE_TWIN_KERNEL_HIGH_SOFTMAX_H

#include "opforge_twin/high_tiling.h"
#include "opforge_twin/kernel/high/composite.h"

namespace AscendC {

/// A structure below the documented API that a public kernel names.
struct ReduceLastND {
    uint32_t originalSrcM = 0;
    uint32_t originalSrcK = 0;
    uint32_t srcM = 0;
    uint32_t srcK = 0;
    uint32_t dstM = 0;
    uint32_t dstK = 0;
};

enum class SoftmaxMode { SOFTMAX_NORMAL = 0, SOFTMAX_OUTPUT_WITHOUT_BRC = 1 };

struct SoftmaxConfig {
    constexpr SoftmaxConfig(const bool checkTiling) : isCheckTiling(checkTiling) {}
    constexpr SoftmaxConfig(const bool checkTiling, const uint32_t rows, const uint32_t columns,
                            const SoftmaxMode modeIn = SoftmaxMode::SOFTMAX_NORMAL)
        : isCheckTiling(checkTiling), oriSrcM(rows), oriSrcK(columns), mode(modeIn)
    {
    }
    bool isCheckTiling = true;
    uint32_t oriSrcM = 0;
    uint32_t oriSrcK = 0;
    SoftmaxMode mode = SoftmaxMode::SOFTMAX_NORMAL;
};
inline constexpr SoftmaxConfig SOFTMAX_DEFAULT_CFG = {true, 0, 0, SoftmaxMode::SOFTMAX_NORMAL};

struct SoftMaxShapeInfo {
    uint32_t srcM{0};
    uint32_t srcK{0};
    uint32_t oriSrcM{0};
    uint32_t oriSrcK{0};
};

struct SoftMaxParams {
    uint32_t srcM{0};
    uint32_t srcK{0};
    uint32_t oriSrcM{0};
    uint32_t oriSrcK{0};
    uint32_t loopCnt{1};
    uint32_t splitMeanCnt{8};
    float alpha{0.9375};
};

}  // namespace AscendC

namespace opforge::twin::kernel {

/// The shape of the call, or that of the tiling data if the call has none.
template <typename Tiling>
AscendC::SoftMaxShapeInfo SoftmaxShape(const AscendC::SoftMaxShapeInfo& shape, const Tiling& tiling)
{
    return shape.srcM != 0 && shape.srcK != 0
               ? shape
               : AscendC::SoftMaxShapeInfo{tiling.srcM, tiling.srcK, tiling.srcM, tiling.srcK};
}

}  // namespace opforge::twin::kernel

namespace AscendC {

// `T` and `U`: types of the data and of the row results. `flag` has a meaning for each function.
#define OPFORGE_SOFTMAX_BODY(name, tmp, nz, mode, flag, ...)                                                          \
    {                                                                                                                 \
        const SoftMaxShapeInfo shape = twin::SoftmaxShape(softmaxShapeInfo, tiling);                                  \
        twin::RunHigh({twin::HighOp::k##name,                                                                         \
                       {__VA_ARGS__},                                                                                 \
                       tmp,                                                                                           \
                       {shape.srcM, shape.srcK, shape.oriSrcM, shape.oriSrcK, nz, static_cast<int64_t>(mode), flag}}, \
                      OPFORGE_HIGH_CALL(name));                                                                       \
    }
#define OPFORGE_SHARED_TMP const LocalTensor<uint8_t>&sharedTmpBuffer,
#define OPFORGE_SOFTMAX_END const SoftMaxTiling &tiling, const SoftMaxShapeInfo &softmaxShapeInfo = {}
#define OPFORGE_SOFTMAX_TEMPLATE                                                                              \
    template <typename T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false, \
              const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>

// The forms with half data and float row results have a T that no parameter uses.
#define OPFORGE_SOFTMAX(T, U, tmpParameter, tmp)                                                                       \
    OPFORGE_SOFTMAX_TEMPLATE                                                                                           \
    OPFORGE_API void SoftMax(const LocalTensor<T>& dstTensor, const LocalTensor<U>& sumTensor,                         \
                             const LocalTensor<U>& maxTensor, const LocalTensor<T>& srcTensor,                         \
                             tmpParameter OPFORGE_SOFTMAX_END)                                                         \
        OPFORGE_SOFTMAX_BODY(SoftMax, tmp, isDataFormatNZ, config.mode, 0, &dstTensor.View(), &sumTensor.View(),       \
                             &maxTensor.View(), &srcTensor.View())                                                     \
            OPFORGE_SOFTMAX_TEMPLATE void SimpleSoftMax(                                                               \
                const LocalTensor<T>& dstTensor, const LocalTensor<U>& inSumTensor, const LocalTensor<U>& inMaxTensor, \
                const LocalTensor<T>& srcTensor, tmpParameter OPFORGE_SOFTMAX_END)                                     \
                OPFORGE_SOFTMAX_BODY(SimpleSoftMax, tmp, isDataFormatNZ, config.mode, 0, &dstTensor.View(),            \
                                     &inSumTensor.View(), &inMaxTensor.View(), &srcTensor.View())

#define OPFORGE_SOFTMAX_ALONE(tmpParameter, tmp)                                               \
    template <typename T, bool isReuseSource = false, bool isBasicBlock = false,               \
              const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>                               \
    OPFORGE_API void SoftMax(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor, \
                             tmpParameter OPFORGE_SOFTMAX_END)                                 \
        OPFORGE_SOFTMAX_BODY(SoftMax, tmp, 0, config.mode, 0, &dstTensor.View(), nullptr, nullptr, &srcTensor.View())

#define OPFORGE_FLASH(T, U, tmpParameter, tmp)                                                                         \
    OPFORGE_FLASH_V1_TEMPLATE                                                                                          \
    OPFORGE_API void SoftmaxFlash(const LocalTensor<T>& dstTensor, const LocalTensor<U>& sumTensor,                    \
                                  const LocalTensor<U>& maxTensor, const LocalTensor<T>& srcTensor,                    \
                                  const LocalTensor<T>& expMaxTensor, const LocalTensor<U>& inSumTensor,               \
                                  const LocalTensor<U>& inMaxTensor, tmpParameter const SoftMaxTiling& tiling,         \
                                  bool isUpdate = false, const SoftMaxShapeInfo& softmaxShapeInfo = {})                \
        OPFORGE_SOFTMAX_BODY(SoftmaxFlash, tmp, 0, 0, isUpdate, &dstTensor.View(), &sumTensor.View(),                  \
                             &maxTensor.View(), &srcTensor.View(), &expMaxTensor.View(), &inSumTensor.View(),          \
                             &inMaxTensor.View(), nullptr)                                                             \
            OPFORGE_FLASH_TEMPLATE void SoftmaxFlashV2(                                                                \
                const LocalTensor<T>& dstTensor, const LocalTensor<U>& expSumTensor, const LocalTensor<U>& maxTensor,  \
                const LocalTensor<T>& srcTensor, const LocalTensor<T>& expMaxTensor,                                   \
                const LocalTensor<U>& inExpSumTensor, const LocalTensor<U>& inMaxTensor,                               \
                tmpParameter OPFORGE_SOFTMAX_END)                                                                      \
                OPFORGE_SOFTMAX_BODY(SoftmaxFlashV2, tmp, isDataFormatNZ, config.mode, isUpdate, &dstTensor.View(),    \
                                     &expSumTensor.View(), &maxTensor.View(), &srcTensor.View(), &expMaxTensor.View(), \
                                     &inExpSumTensor.View(), &inMaxTensor.View(), nullptr)
#define OPFORGE_FLASH_V1_TEMPLATE template <typename T, bool isReuseSource = false, bool isBasicBlock = false>
#define OPFORGE_FLASH_TEMPLATE                                                                          \
    template <typename T, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false, \
              bool isDataFormatNZ = false, const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>

#define OPFORGE_FLASH_WITH_MAX(tmpParameter, tmp)                                                             \
    OPFORGE_FLASH_TEMPLATE                                                                                    \
    OPFORGE_API void SoftmaxFlashV2(                                                                          \
        const LocalTensor<T>& dstTensor, const LocalTensor<T>& outReduceMax, const LocalTensor<T>& outExpSum, \
        const LocalTensor<T>& outMax, const LocalTensor<T>& srcTensor, const LocalTensor<T>& outExpMax,       \
        const LocalTensor<T>& inExpSum, const LocalTensor<T>& inMax, tmpParameter OPFORGE_SOFTMAX_END)        \
        OPFORGE_SOFTMAX_BODY(SoftmaxFlashV2, tmp, isDataFormatNZ, config.mode, isUpdate, &dstTensor.View(),   \
                             &outExpSum.View(), &outMax.View(), &srcTensor.View(), &outExpMax.View(),         \
                             &inExpSum.View(), &inMax.View(), &outReduceMax.View())

#define OPFORGE_FLASH_V3(tmpParameter, tmp)                                                                          \
    template <typename T, typename U, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false,  \
              bool isDataFormatNZ = false, const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>                        \
    OPFORGE_API void SoftmaxFlashV3(                                                                                 \
        const LocalTensor<T>& dstTensor, const LocalTensor<U>& meanTensor, const LocalTensor<U>& expSumTensor,       \
        const LocalTensor<U>& maxTensor, const LocalTensor<T>& srcTensor, const LocalTensor<T>& expMaxTensor,        \
        const LocalTensor<U>& inMeanTensor, const LocalTensor<U>& inExpSumTensor, const LocalTensor<U>& inMaxTensor, \
        tmpParameter const SoftMaxTiling& /*tiling*/, const SoftMaxParams& params)                                   \
    {                                                                                                                \
        twin::RequireDtype<T, half>();                                                                               \
        twin::RequireDtype<U, float>();                                                                              \
        twin::RunHigh(                                                                                               \
            {twin::HighOp::kSoftmaxFlashV3,                                                                          \
             {&dstTensor.View(), &expSumTensor.View(), &maxTensor.View(), &srcTensor.View(), &expMaxTensor.View(),   \
              &inExpSumTensor.View(), &inMaxTensor.View(), &meanTensor.View(), &inMeanTensor.View()},                \
             tmp,                                                                                                    \
             {params.srcM, params.srcK, params.oriSrcM, params.oriSrcK, 0, 0, isUpdate, params.loopCnt,              \
              params.splitMeanCnt},                                                                                  \
             {params.alpha}},                                                                                        \
            OPFORGE_HIGH_CALL(SoftmaxFlashV3));                                                                      \
    }

#define OPFORGE_SOFTMAX_GRAD(tmpParameter, tmp)                                                                      \
    template <typename T, bool isReuseSource = false, bool isDataFormatNZ = false>                                   \
    OPFORGE_API void SoftmaxGrad(const LocalTensor<T>& dstTensor, const LocalTensor<T>& gradTensor,                  \
                                 const LocalTensor<T>& srcTensor, tmpParameter const SoftMaxTiling& tiling,          \
                                 bool isFront = false, const SoftMaxShapeInfo& softmaxShapeInfo = {})                \
        OPFORGE_SOFTMAX_BODY(                                                                                        \
            SoftmaxGrad, tmp, isDataFormatNZ, 0, isFront, &dstTensor.View(), &gradTensor.View(), nullptr,            \
            &srcTensor.View()) template <typename T, bool isBasicBlock = false, bool isDataFormatNZ = false>         \
        OPFORGE_API void SoftmaxGradFront(const LocalTensor<T>& dstTensor, const LocalTensor<T>& gradTensor,         \
                                          const LocalTensor<T>& srcTensor, tmpParameter OPFORGE_SOFTMAX_END)         \
            OPFORGE_SOFTMAX_BODY(SoftmaxGradFront, tmp, isDataFormatNZ, 0, 1, &dstTensor.View(), &gradTensor.View(), \
                                 nullptr, &srcTensor.View())

#define OPFORGE_NOTHING
#define OPFORGE_WITH_AND_WITHOUT_TMP(define) \
    define(OPFORGE_NOTHING, nullptr) define(OPFORGE_SHARED_TMP, &sharedTmpBuffer.View())

OPFORGE_SOFTMAX(T, T, OPFORGE_NOTHING, nullptr)
OPFORGE_SOFTMAX(T, T, OPFORGE_SHARED_TMP, &sharedTmpBuffer.View())
OPFORGE_SOFTMAX(half, float, OPFORGE_NOTHING, nullptr)
OPFORGE_SOFTMAX(half, float, OPFORGE_SHARED_TMP, &sharedTmpBuffer.View())
OPFORGE_FLASH(T, T, OPFORGE_NOTHING, nullptr)
OPFORGE_FLASH(T, T, OPFORGE_SHARED_TMP, &sharedTmpBuffer.View())
OPFORGE_FLASH(half, float, OPFORGE_NOTHING, nullptr)
OPFORGE_FLASH(half, float, OPFORGE_SHARED_TMP, &sharedTmpBuffer.View())
OPFORGE_WITH_AND_WITHOUT_TMP(OPFORGE_SOFTMAX_ALONE)
OPFORGE_WITH_AND_WITHOUT_TMP(OPFORGE_FLASH_WITH_MAX)
OPFORGE_WITH_AND_WITHOUT_TMP(OPFORGE_FLASH_V3)
OPFORGE_WITH_AND_WITHOUT_TMP(OPFORGE_SOFTMAX_GRAD)

/// Stores log10 of the softmax, as documented.
template <typename T, bool isReuseSource = false, bool isDataFormatNZ = false>
OPFORGE_API void LogSoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& sum, const LocalTensor<T>& max,
                            const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
                            const LogSoftMaxTiling& tiling, const SoftMaxShapeInfo& softmaxShapeInfo = {})
    OPFORGE_SOFTMAX_BODY(LogSoftMax, &sharedTmpBuffer.View(), isDataFormatNZ, 0, 0, &dst.View(), &sum.View(),
                         &max.View(), &src.View())

    /// Replaces the rows whose maximum has the bits `from`; returns whether there are any.
    template <typename T1, typename T2, bool isDataFormatNZ = false, uint8_t stepSizeMode = 0>
    OPFORGE_API bool AdjustSoftMaxRes(const LocalTensor<T1>& softMaxRes, const LocalTensor<T2>& maxTensor,
                                      const uint32_t from, const T1 to, const SoftMaxShapeInfo& softmaxShapeInfo)
{
    return twin::RunHigh({twin::HighOp::kAdjustSoftMaxRes,
                          {&softMaxRes.View(), nullptr, &maxTensor.View()},
                          nullptr,
                          {softmaxShapeInfo.srcM, softmaxShapeInfo.srcK, softmaxShapeInfo.oriSrcM,
                           softmaxShapeInfo.oriSrcK, isDataFormatNZ, stepSizeMode, from},
                          {twin::NumberOf(to)}},
                         OPFORGE_HIGH_CALL(AdjustSoftMaxRes)) != 0;
}

/// The tiling data of a shape that is known at compile time.
constexpr SoftMaxTiling SoftMaxFlashV2TilingFunc(const SoftMaxShapeInfo& shapeInfo, const uint32_t /*dataTypeSize1*/,
                                                 const uint32_t /*dataTypeSize2*/,
                                                 const uint32_t /*localWorkSpaceSize*/, const bool /*isUpdate*/ = false,
                                                 const bool /*isBasicBlock*/ = false,
                                                 const bool /*isDataFormatNZ*/ = false,
                                                 const bool /*isFlashOutputBrc*/ = false)
{
    SoftMaxTiling tiling;
    tiling.srcM = shapeInfo.srcM;
    tiling.srcK = shapeInfo.srcK;
    tiling.srcSize = shapeInfo.srcM * shapeInfo.srcK;
    return tiling;
}

#undef OPFORGE_NOTHING
#undef OPFORGE_WITH_AND_WITHOUT_TMP
#undef OPFORGE_SOFTMAX_BODY
#undef OPFORGE_SHARED_TMP
#undef OPFORGE_SOFTMAX_END
#undef OPFORGE_SOFTMAX_TEMPLATE
#undef OPFORGE_SOFTMAX
#undef OPFORGE_SOFTMAX_ALONE
#undef OPFORGE_FLASH
#undef OPFORGE_FLASH_TEMPLATE
#undef OPFORGE_FLASH_V1_TEMPLATE
#undef OPFORGE_FLASH_WITH_MAX
#undef OPFORGE_FLASH_V3
#undef OPFORGE_SOFTMAX_GRAD

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_HIGH_SOFTMAX_H
