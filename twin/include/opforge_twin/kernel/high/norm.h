// Normalizations.
#ifndef OPFORGE_TWIN_KERNEL_HIGH_NORM_H
#define OPFORGE_TWIN_KERNEL_HIGH_NORM_H

#include "opforge_twin/high_tiling.h"
#include "opforge_twin/kernel/high/composite.h"
#include "opforge_twin/kernel/high/pattern.h"

namespace AscendC {

struct LayerNormConfig {
    bool isNoBeta = false;
    bool isNoGamma = false;
    bool isOnlyOutput = false;
    bool isOutputRstd = true;
};
inline constexpr LayerNormConfig LNCFG_NORM{};
struct LayerNormPara {
    uint32_t aLength;
    uint32_t rLength;
    uint32_t rLengthWithPadding;
};
enum class DataFormat : uint8_t;
struct LayerNormGradShapeInfo {
    DataFormat dataFormat = DataFormat{0};  ///< ND
};
struct WelfordUpdateConfig {
    constexpr WelfordUpdateConfig(const bool inplace) : isInplace(inplace) {}
    bool isInplace = false;
};
inline constexpr WelfordUpdateConfig WFUPDATE_DEFAULT_CFG = {false};
struct WelfordUpdateParam {
    uint32_t rnLength;
    uint32_t abLength;
    uint32_t abComputeLength;
    float nRec;
};
struct WelfordFinalizePara {
    uint32_t rnLength;
    uint32_t abLength;
    uint32_t headCount;
    uint32_t headCountLength;
    uint32_t tailCount;
    uint32_t tailCountLength;
    float abRec;
    float rRec;
    float rRecWithCorrection;
};
struct NormalizeConfig {
    ReducePattern reducePattern = ReducePattern::AR;
    int32_t aLength = -1;
    bool isNoBeta = false;
    bool isNoGamma = false;
    bool isOnlyOutput = false;
};
inline constexpr NormalizeConfig NLCFG_NORM{};
struct NormalizePara {
    uint32_t aLength;
    uint32_t rLength;
    uint32_t rLengthWithPadding;
};

#include "opforge_twin/kernel/high/forms.inc"

#define OPFORGE_ROWS int64_t{tiling.bLength} * tiling.sLength, tiling.hLength, tiling.originalHLength

#define OPFORGE_LAYER_NORM(tmpParameter, tmp)                                                                      \
    template <typename T, bool isReuseSource = false>                                                              \
    OPFORGE_API void LayerNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean,                     \
                               const LocalTensor<T>& outputVariance, const LocalTensor<T>& inputX,                 \
                               const LocalTensor<T>& gamma, const LocalTensor<T>& beta,                            \
                               OPFORGE_GIVEN tmpParameter const T epsilon, LayerNormTiling& tiling)                \
    {                                                                                                              \
        twin::RequireDtype<T, half, float>();                                                                      \
        twin::RunHigh({twin::HighOp::kLayerNorm,                                                                   \
                       {&output.View(), &outputMean.View(), &outputVariance.View(), &inputX.View(), &gamma.View(), \
                        &beta.View()},                                                                             \
                       tmp,                                                                                        \
                       {OPFORGE_ROWS, 0},                                                                          \
                       {twin::NumberOf(epsilon)}},                                                                 \
                      OPFORGE_HIGH_CALL(LayerNorm));                                                               \
    }
OPFORGE_BOTH(OPFORGE_LAYER_NORM)
#undef OPFORGE_LAYER_NORM

#define OPFORGE_LAYER_NORM_RSTD(tmpParameter, tmp)                                                                  \
    template <typename U, typename T, bool isReuseSource = false, const LayerNormConfig& config = LNCFG_NORM>       \
    OPFORGE_API void LayerNorm(                                                                                     \
        const LocalTensor<T>& output, const LocalTensor<float>& outputMean, const LocalTensor<float>& outputRstd,   \
        const LocalTensor<T>& inputX, const LocalTensor<U>& gamma, const LocalTensor<U>& beta, const float epsilon, \
        OPFORGE_GIVEN tmpParameter const LayerNormPara& para, const LayerNormSeparateTiling& /*tiling*/)            \
    {                                                                                                               \
        twin::RequireDtype<T, half, float>();                                                                       \
        static_assert(config.isOutputRstd, "LayerNorm: Ascend 910B stores the reciprocal of the deviation");        \
        twin::RunHigh({twin::HighOp::kLayerNorm,                                                                    \
                       {&output.View(), config.isOnlyOutput ? nullptr : &outputMean.View(),                         \
                        config.isOnlyOutput ? nullptr : &outputRstd.View(), &inputX.View(),                         \
                        config.isNoGamma ? nullptr : &gamma.View(), config.isNoBeta ? nullptr : &beta.View()},      \
                       tmp,                                                                                         \
                       {para.aLength, para.rLengthWithPadding, para.rLength, 1},                                    \
                       {epsilon}},                                                                                  \
                      OPFORGE_HIGH_CALL(LayerNorm));                                                                \
    }
OPFORGE_BOTH(OPFORGE_LAYER_NORM_RSTD)
#undef OPFORGE_LAYER_NORM_RSTD

#define OPFORGE_LAYER_NORM_GRAD(tmpParameter, tmp)                                                                \
    template <typename T, bool isReuseSource = false>                                                             \
    OPFORGE_API void LayerNormGrad(const LocalTensor<T>& outputPdX, const LocalTensor<T>& resForGamma,            \
                                   const LocalTensor<T>& inputDy, const LocalTensor<T>& inputX,                   \
                                   const LocalTensor<T>& inputVariance, const LocalTensor<T>& inputMean,          \
                                   const LocalTensor<T>& inputGamma, OPFORGE_GIVEN tmpParameter T epsilon,        \
                                   LayerNormGradTiling& tiling, const LayerNormGradShapeInfo& /*shapeInfo*/ = {}) \
    {                                                                                                             \
        twin::RequireDtype<T, half, float>();                                                                     \
        twin::RunHigh({twin::HighOp::kLayerNormGrad,                                                              \
                       {&outputPdX.View(), &resForGamma.View(), &inputDy.View(), &inputX.View(),                  \
                        &inputVariance.View(), &inputMean.View(), &inputGamma.View()},                            \
                       tmp,                                                                                       \
                       {OPFORGE_ROWS},                                                                            \
                       {twin::NumberOf(epsilon)}},                                                                \
                      OPFORGE_HIGH_CALL(LayerNormGrad));                                                          \
    }
OPFORGE_BOTH(OPFORGE_LAYER_NORM_GRAD)
#undef OPFORGE_LAYER_NORM_GRAD

#define OPFORGE_LAYER_NORM_GRAD_BETA(tmpParameter, tmp)                                                         \
    template <typename T, bool isReuseSource = false>                                                           \
    OPFORGE_API void LayerNormGradBeta(const LocalTensor<T>& outputPdGamma, const LocalTensor<T>& outputPdBeta, \
                                       const LocalTensor<T>& resForGamma, const LocalTensor<T>& inputDy,        \
                                       OPFORGE_GIVEN tmpParameter const LayerNormGradBetaTiling& tiling)        \
    {                                                                                                           \
        twin::RequireDtype<T, half, float>();                                                                   \
        twin::RunHigh({twin::HighOp::kLayerNormGradBeta,                                                        \
                       {&outputPdGamma.View(), &outputPdBeta.View(), &resForGamma.View(), &inputDy.View()},     \
                       tmp,                                                                                     \
                       {OPFORGE_ROWS}},                                                                         \
                      OPFORGE_HIGH_CALL(LayerNormGradBeta));                                                    \
    }
OPFORGE_BOTH(OPFORGE_LAYER_NORM_GRAD_BETA)
#undef OPFORGE_LAYER_NORM_GRAD_BETA

#define OPFORGE_RMS_NORM(tmpParameter, tmp)                                                                \
    template <typename T, bool isBasicBlock = false>                                                       \
    OPFORGE_API void RmsNorm(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal,               \
                             const LocalTensor<T>& gammaLocal, OPFORGE_GIVEN tmpParameter const T epsilon, \
                             const RmsNormTiling& tiling)                                                  \
    {                                                                                                      \
        twin::RequireDtype<T, half, float>();                                                              \
        twin::RunHigh({twin::HighOp::kRmsNorm,                                                             \
                       {&dstLocal.View(), &srcLocal.View(), &gammaLocal.View()},                           \
                       tmp,                                                                                \
                       {OPFORGE_ROWS},                                                                     \
                       {twin::NumberOf(epsilon)}},                                                         \
                      OPFORGE_HIGH_CALL(RmsNorm));                                                         \
    }
OPFORGE_BOTH(OPFORGE_RMS_NORM)
#undef OPFORGE_RMS_NORM

#define OPFORGE_DEEP_NORM(tmpParameter, tmp)                                                                          \
    template <typename T, bool isReuseSrc = false, bool isBasicBlock = false>                                         \
    OPFORGE_API void DeepNorm(const LocalTensor<T>& dstLocal, const LocalTensor<T>& meanLocal,                        \
                              const LocalTensor<T>& rstdLocal, const LocalTensor<T>& srcLocal,                        \
                              const LocalTensor<T>& gxLocal, const LocalTensor<T>& betaLocal,                         \
                              const LocalTensor<T>& gammaLocal, OPFORGE_GIVEN tmpParameter const T alpha,             \
                              const T epsilon, DeepNormTiling& tiling)                                                \
    {                                                                                                                 \
        twin::RequireDtype<T, half, float>();                                                                         \
        twin::RunHigh({twin::HighOp::kDeepNorm,                                                                       \
                       {&dstLocal.View(), &meanLocal.View(), &rstdLocal.View(), &srcLocal.View(), &gammaLocal.View(), \
                        &betaLocal.View(), &gxLocal.View()},                                                          \
                       tmp,                                                                                           \
                       {OPFORGE_ROWS, 1},                                                                             \
                       {twin::NumberOf(epsilon), twin::NumberOf(alpha)}},                                             \
                      OPFORGE_HIGH_CALL(DeepNorm));                                                                   \
    }
OPFORGE_BOTH(OPFORGE_DEEP_NORM)
#undef OPFORGE_DEEP_NORM
#undef OPFORGE_ROWS

// BatchNorm: meanVarSize is S * H. GroupNorm: d channels in each of g groups.
#define OPFORGE_GROUPED_NORM(name, Tiling, parameters, tmpParameter, tmp, ...)                                     \
    template <parameters>                                                                                          \
    OPFORGE_API void name(const LocalTensor<T>& output, const LocalTensor<T>& outputMean,                          \
                          const LocalTensor<T>& outputVariance, const LocalTensor<T>& inputX,                      \
                          const LocalTensor<T>& gamma, const LocalTensor<T>& beta,                                 \
                          OPFORGE_GIVEN tmpParameter const T epsilon, Tiling& tiling)                              \
    {                                                                                                              \
        twin::RequireDtype<T, half, float>();                                                                      \
        twin::RunHigh({twin::HighOp::k##name,                                                                      \
                       {&output.View(), &outputMean.View(), &outputVariance.View(), &inputX.View(), &gamma.View(), \
                        &beta.View()},                                                                             \
                       tmp,                                                                                        \
                       {__VA_ARGS__},                                                                              \
                       {twin::NumberOf(epsilon)}},                                                                 \
                      OPFORGE_HIGH_CALL(name));                                                                    \
    }
#define OPFORGE_BATCH_PARAMETERS typename T, bool isReuseSource = false, bool isBasicBlock = false
#define OPFORGE_GROUP_PARAMETERS typename T, bool isReuseSource = false
#define OPFORGE_GROUPED_NORMS(tmpParameter, tmp)                                                                      \
    OPFORGE_GROUPED_NORM(BatchNorm, BatchNormTiling, OPFORGE_BATCH_PARAMETERS, tmpParameter, tmp, 1, 1,               \
                         tiling.originalBLength, tiling.meanVarSize, tiling.meanVarSize)                              \
    OPFORGE_GROUPED_NORM(GroupNorm, GroupNormTiling, OPFORGE_GROUP_PARAMETERS, tmpParameter, tmp, tiling.n, tiling.g, \
                         tiling.d, tiling.hw, tiling.hwAlignSize)
OPFORGE_BOTH(OPFORGE_GROUPED_NORMS)
#undef OPFORGE_GROUPED_NORMS
#undef OPFORGE_GROUPED_NORM
#undef OPFORGE_BATCH_PARAMETERS
#undef OPFORGE_GROUP_PARAMETERS

#define OPFORGE_WELFORD(tmpParameter, tmp)                                                                           \
    template <typename T, typename U, bool isReuseSource = false,                                                    \
              const WelfordUpdateConfig& config = WFUPDATE_DEFAULT_CFG>                                              \
    OPFORGE_API void WelfordUpdate(const LocalTensor<U>& outputMean, const LocalTensor<U>& outputVariance,           \
                                   const LocalTensor<U>& inputMean, const LocalTensor<U>& inputVariance,             \
                                   const LocalTensor<T>& inputX,                                                     \
                                   OPFORGE_GIVEN tmpParameter const WelfordUpdateParam& para)                        \
    {                                                                                                                \
        twin::RequireDtype<T, half, float>();                                                                        \
        twin::RequireDtype<U, float>();                                                                              \
        twin::RunHigh(                                                                                               \
            {twin::HighOp::kWelfordUpdate,                                                                           \
             {&outputMean.View(), &outputVariance.View(), &inputMean.View(), &inputVariance.View(), &inputX.View()}, \
             tmp,                                                                                                    \
             {para.abLength, para.abComputeLength, para.rnLength, config.isInplace},                                 \
             {para.nRec}},                                                                                           \
            OPFORGE_HIGH_CALL(WelfordUpdate));                                                                       \
    }                                                                                                                \
    template <bool isReuseSource = false>                                                                            \
    OPFORGE_API void WelfordFinalize(const LocalTensor<float>& outputMean, const LocalTensor<float>& outputVariance, \
                                     const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,   \
                                     OPFORGE_GIVEN tmpParameter WelfordFinalizePara& para)                           \
    {                                                                                                                \
        OPFORGE_WELFORD_FINALIZE(tmp, nullptr);                                                                      \
    }                                                                                                                \
    template <bool isReuseSource = false>                                                                            \
    OPFORGE_API void WelfordFinalize(const LocalTensor<float>& outputMean, const LocalTensor<float>& outputVariance, \
                                     const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,   \
                                     const LocalTensor<int32_t>& counts,                                             \
                                     OPFORGE_GIVEN tmpParameter WelfordFinalizePara& para)                           \
    {                                                                                                                \
        OPFORGE_WELFORD_FINALIZE(tmp, &counts.View());                                                               \
    }
// Without a tail, all elements have rnLength samples.
#define OPFORGE_WELFORD_FINALIZE(tmp, countView)                                                                      \
    twin::RunHigh({twin::HighOp::kWelfordFinalize,                                                                    \
                   {&outputMean.View(), &outputVariance.View(), &inputMean.View(), &inputVariance.View(), countView}, \
                   tmp,                                                                                               \
                   {para.abLength, para.headCount, para.headCountLength, para.tailCount, para.tailCountLength},       \
                   {para.rRec}},                                                                                      \
                  OPFORGE_HIGH_CALL(WelfordFinalize))
OPFORGE_BOTH(OPFORGE_WELFORD)
#undef OPFORGE_WELFORD
#undef OPFORGE_WELFORD_FINALIZE

#define OPFORGE_NORMALIZE(tmpParameter, tmp)                                                                          \
    template <typename U, typename T, bool isReuseSource = false, const NormalizeConfig& config = NLCFG_NORM>         \
    OPFORGE_API void Normalize(const LocalTensor<T>& output, const LocalTensor<float>& outputRstd,                    \
                               const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,          \
                               const LocalTensor<T>& inputX, const LocalTensor<U>& gamma, const LocalTensor<U>& beta, \
                               OPFORGE_GIVEN tmpParameter const float epsilon, const NormalizePara& para)             \
    {                                                                                                                 \
        twin::RequireDtype<T, half, float>();                                                                         \
        twin::RunHigh({twin::HighOp::kNormalize,                                                                      \
                       {&output.View(), config.isOnlyOutput ? nullptr : &outputRstd.View(), &inputMean.View(),        \
                        &inputVariance.View(), &inputX.View(), config.isNoGamma ? nullptr : &gamma.View(),            \
                        config.isNoBeta ? nullptr : &beta.View()},                                                    \
                       tmp,                                                                                           \
                       {para.aLength, para.rLengthWithPadding, para.rLength},                                         \
                       {epsilon}},                                                                                    \
                      OPFORGE_HIGH_CALL(Normalize));                                                                  \
    }
OPFORGE_BOTH(OPFORGE_NORMALIZE)
#undef OPFORGE_NORMALIZE
#include "opforge_twin/kernel/high/forms_end.inc"

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_HIGH_NORM_H
