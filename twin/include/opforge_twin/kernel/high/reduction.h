// Reductions of one axis, sums and cumulative sums.
#ifndef OPFORGE_TWIN_KERNEL_HIGH_REDUCTION_H
#define OPFORGE_TWIN_KERNEL_HIGH_REDUCTION_H

#include "opforge_twin/kernel/high/composite.h"
#include "opforge_twin/kernel/high/pattern.h"

namespace AscendC {

struct MeanParams {
    uint32_t outter = 1;
    uint32_t inner;
    uint32_t n;
};
struct SumParams {
    uint32_t outter = 1;
    uint32_t inner;
    uint32_t n;
};
enum class CumSumAlgorithm { CUMSUM_ALGORITHM_LINEBYLINE = 0, CUMSUM_ALGORITHM_SKLANSKY = 1 };
struct CumSumConfig {
    bool isLastAxis{true};
    bool isReuseSource{false};
    bool outputLastRow{false};
    CumSumAlgorithm algorithm{CumSumAlgorithm::CUMSUM_ALGORITHM_LINEBYLINE};
};
inline constexpr CumSumConfig defaultCumSumConfig{};
struct CumSumInfo {
    uint32_t outter{0};
    uint32_t inner{0};
};

#include "opforge_twin/kernel/high/forms.inc"

#define OPFORGE_AXIS(name, types, tmpParameter, tmp)                                                                 \
    template <class T, class pattern, bool isReuseSource = false>                                                    \
    OPFORGE_API void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,                          \
                          OPFORGE_GIVEN tmpParameter const uint32_t srcShape[], bool srcInnerPad)                    \
    {                                                                                                                \
        constexpr bool isLast = std::is_same_v<pattern, Pattern::Reduce::AR>;                                        \
        static_assert(isLast || std::is_same_v<pattern, Pattern::Reduce::RA>, "reductions: Ascend 910B has AR, RA"); \
        twin::RequireDtype<T, OPFORGE_TYPES types>();                                                                \
        twin::RunHigh({twin::HighOp::k##name,                                                                        \
                       {&dstTensor.View(), &srcTensor.View()},                                                       \
                       tmp,                                                                                          \
                       {srcShape[0], srcShape[1], srcInnerPad ? srcShape[1] : 0, isLast}},                           \
                      OPFORGE_HIGH_CALL(name));                                                                      \
    }
#define OPFORGE_TYPES(...) __VA_ARGS__
#define OPFORGE_REDUCTIONS(tmpParameter, tmp)                    \
    OPFORGE_AXIS(ReduceAll, (uint8_t, float), tmpParameter, tmp) \
    OPFORGE_AXIS(ReduceAny, (uint8_t, float), tmpParameter, tmp) \
    OPFORGE_AXIS(ReduceMax, (half, float), tmpParameter, tmp)    \
    OPFORGE_AXIS(ReduceMean, (float), tmpParameter, tmp)         \
    OPFORGE_AXIS(ReduceMin, (half, float), tmpParameter, tmp)    \
    OPFORGE_AXIS(ReduceProd, (float), tmpParameter, tmp)         \
    OPFORGE_AXIS(ReduceSum, (float), tmpParameter, tmp)
OPFORGE_BOTH(OPFORGE_REDUCTIONS)
#undef OPFORGE_REDUCTIONS
#undef OPFORGE_TYPES
#undef OPFORGE_AXIS

#define OPFORGE_SUMS(tmpParameter, tmp)                                                                  \
    template <typename T, typename accType = T, bool isReuseSource = false, bool isBasicBlock = false,   \
              int32_t reduceDim = -1>                                                                    \
    OPFORGE_API void Mean(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,              \
                          OPFORGE_GIVEN tmpParameter const MeanParams& meanParams)                       \
    {                                                                                                    \
        twin::RequireDtype<T, half, float>();                                                            \
        twin::RunHigh({twin::HighOp::kMean,                                                              \
                       {&dstTensor.View(), &srcTensor.View()},                                           \
                       tmp,                                                                              \
                       {meanParams.outter, meanParams.inner, meanParams.n, 1}},                          \
                      OPFORGE_HIGH_CALL(Mean));                                                          \
    }                                                                                                    \
    template <typename T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false> \
    OPFORGE_API void Sum(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,               \
                         OPFORGE_GIVEN tmpParameter const SumParams& sumParams)                          \
    {                                                                                                    \
        twin::RequireDtype<T, half, float>();                                                            \
        twin::RunHigh({twin::HighOp::kSum,                                                               \
                       {&dstTensor.View(), &srcTensor.View()},                                           \
                       tmp,                                                                              \
                       {sumParams.outter, sumParams.inner, sumParams.n, 1}},                             \
                      OPFORGE_HIGH_CALL(Sum));                                                           \
    }                                                                                                    \
    template <typename T, bool isReuseSource = false>                                                    \
    OPFORGE_API void ReduceXorSum(LocalTensor<T>& dstTensor, const LocalTensor<T>& src0Tensor,           \
                                  const LocalTensor<T>& src1Tensor,                                      \
                                  OPFORGE_GIVEN tmpParameter const uint32_t calCount)                    \
    {                                                                                                    \
        twin::RequireDtype<T, int16_t>();                                                                \
        twin::RunHigh({twin::HighOp::kReduceXorSum,                                                      \
                       {&dstTensor.View(), &src0Tensor.View(), &src1Tensor.View()},                      \
                       tmp,                                                                              \
                       {calCount}},                                                                      \
                      OPFORGE_HIGH_CALL(ReduceXorSum));                                                  \
    }
OPFORGE_BOTH(OPFORGE_SUMS)
#undef OPFORGE_SUMS
#include "opforge_twin/kernel/high/forms_end.inc"

/// A call constructs an object: in a call of a function template, g++ 12 has an internal error for a `config` that is a
/// static variable of another template.
template <typename T, const CumSumConfig& config = defaultCumSumConfig>
class CumSum {
public:
    OPFORGE_API CumSum(LocalTensor<T>& dstTensor, LocalTensor<T>& lastRowTensor, const LocalTensor<T>& srcTensor,
                       const LocalTensor<uint8_t>& sharedTmpBuffer, const CumSumInfo& cumSumInfo)
    {
        Run(dstTensor, lastRowTensor, srcTensor, &sharedTmpBuffer.View(), cumSumInfo, OPFORGE_HIGH_CALL(CumSum));
    }
    OPFORGE_API CumSum(LocalTensor<T>& dstTensor, LocalTensor<T>& lastRowTensor, const LocalTensor<T>& srcTensor,
                       const CumSumInfo& cumSumInfo)
    {
        Run(dstTensor, lastRowTensor, srcTensor, nullptr, cumSumInfo, OPFORGE_HIGH_CALL(CumSum));
    }

private:
    static void Run(const LocalTensor<T>& dst, const LocalTensor<T>& lastRow, const LocalTensor<T>& src,
                    const twin::LocalView* tmp, const CumSumInfo& info, const twin::Call& call)
    {
        twin::RequireDtype<T, half, float>();
        twin::RunHigh({twin::HighOp::kCumSum,
                       {&dst.View(), &lastRow.View(), &src.View()},
                       tmp,
                       {info.outter, info.inner, config.isLastAxis, config.outputLastRow}},
                      call);
    }
};

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_HIGH_REDUCTION_H
