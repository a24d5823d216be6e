// Element-wise high-level functions: each has a form with and without temporary memory, with and without a count.
#ifndef OPFORGE_TWIN_KERNEL_HIGH_POINTWISE_H
#define OPFORGE_TWIN_KERNEL_HIGH_POINTWISE_H

#include "opforge_twin/kernel/high/composite.h"

namespace AscendC {

// Algorithms of Ascend 950; Ascend 910B has the default.
enum class SinAlgo { POLYNOMIAL_APPROXIMATION = 0, RADIAN_REDUCTION };
struct SinConfig {
    SinAlgo algo = SinAlgo::POLYNOMIAL_APPROXIMATION;
};
inline constexpr SinConfig defaultSinConfig{};
enum class CosAlgo { POLYNOMIAL_APPROXIMATION = 0, RADIAN_REDUCTION };
struct CosConfig {
    CosAlgo algo = CosAlgo::POLYNOMIAL_APPROXIMATION;
};
inline constexpr CosConfig defaultCosConfig{};
enum class AtanAlgo { TAYLOR_EXPANSION = 0, POLYNOMIAL_APPROXIMATION };
struct AtanConfig {
    AtanAlgo algo = AtanAlgo::TAYLOR_EXPANSION;
};
inline constexpr AtanConfig defaultAtanConfig{};
enum class TanhAlgo { INTRINSIC = 0, SUBSECTION_COMPENSATION };
struct TanhConfig {
    TanhAlgo algo = TanhAlgo::INTRINSIC;
};
inline constexpr TanhConfig DEFAULT_TANH_CONFIG{};
enum class ErfAlgo { POLYNOMIAL_APPROXIMATION = 0, SUBSECTION_POLYNOMIAL_APPROXIMATION };
struct ErfConfig {
    ErfAlgo algo = ErfAlgo::POLYNOMIAL_APPROXIMATION;
};
inline constexpr ErfConfig defaultErfConfig{};
enum class PowerAlgo { INTRINSIC = 0, DOUBLE_FLOAT_TECH };
struct PowerConfig {
    PowerAlgo algo = PowerAlgo::INTRINSIC;
};
inline constexpr PowerConfig defaultPowerConfig{};
inline constexpr uint32_t FMOD_ITERATION_NUM_MAX = 11;
enum class FmodAlgo { NORMAL = 0, ITERATION_COMPENSATION = 1 };
struct FmodConfig {
    FmodAlgo algo = FmodAlgo::NORMAL;
    uint32_t iterationNum = FMOD_ITERATION_NUM_MAX;
};
inline constexpr FmodConfig DEFAULT_FMOD_CONFIG{};

// `types`: dtypes in parentheses. The last arguments: template parameters.
#define OPFORGE_UNPACK(...) __VA_ARGS__
#define OPFORGE_POINTWISE(name, types, tmp, count, numbers, ...)                                  \
    twin::RequireDtype<T, OPFORGE_UNPACK types>();                                                \
    twin::RunHigh({twin::HighOp::k##name, {__VA_ARGS__}, tmp, {count}, {OPFORGE_UNPACK numbers}}, \
                  OPFORGE_HIGH_CALL(name))

#define OPFORGE_UNARY_COUNTED(name, types, ...)                                                                      \
    template <__VA_ARGS__>                                                                                           \
    OPFORGE_API void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,                          \
                          const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount)                      \
    {                                                                                                                \
        OPFORGE_POINTWISE(name, types, &sharedTmpBuffer.View(), calCount, (), &dstTensor.View(), &srcTensor.View()); \
    }                                                                                                                \
    template <__VA_ARGS__>                                                                                           \
    OPFORGE_API void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor, const uint32_t calCount) \
    {                                                                                                                \
        OPFORGE_POINTWISE(name, types, nullptr, calCount, (), &dstTensor.View(), &srcTensor.View());                 \
    }

#define OPFORGE_UNARY_WHOLE(name, types, ...)                                                                   \
    template <__VA_ARGS__>                                                                                      \
    OPFORGE_API void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,                     \
                          const LocalTensor<uint8_t>& sharedTmpBuffer)                                          \
    {                                                                                                           \
        OPFORGE_POINTWISE(name, types, &sharedTmpBuffer.View(), srcTensor.GetSize(), (), &dstTensor.View(),     \
                          &srcTensor.View());                                                                   \
    }                                                                                                           \
    template <__VA_ARGS__>                                                                                      \
    OPFORGE_API void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor)                     \
    {                                                                                                           \
        OPFORGE_POINTWISE(name, types, nullptr, srcTensor.GetSize(), (), &dstTensor.View(), &srcTensor.View()); \
    }

#define OPFORGE_UNARY(name, ...)                            \
    OPFORGE_UNARY_COUNTED(name, (half, float), __VA_ARGS__) \
    OPFORGE_UNARY_WHOLE(name, (half, float), __VA_ARGS__)

#define OPFORGE_SIMPLE_UNARY(name) OPFORGE_UNARY(name, typename T, bool isReuseSource = false)

OPFORGE_SIMPLE_UNARY(Acos)
OPFORGE_SIMPLE_UNARY(Acosh)
OPFORGE_SIMPLE_UNARY(Asin)
OPFORGE_SIMPLE_UNARY(Asinh)
OPFORGE_UNARY(Atan, typename T, bool isReuseSource = false, const AtanConfig& config = defaultAtanConfig)
OPFORGE_SIMPLE_UNARY(Atanh)
OPFORGE_UNARY_COUNTED(Ceil, (half, float), typename T, bool isReuseSource = false)
OPFORGE_UNARY(Cos, typename T, bool isReuseSource = false, const CosConfig& config = defaultCosConfig)
OPFORGE_SIMPLE_UNARY(Cosh)
OPFORGE_SIMPLE_UNARY(Digamma)
OPFORGE_UNARY(Erf, typename T, bool isReuseSource = false, const ErfConfig& config = defaultErfConfig)
OPFORGE_SIMPLE_UNARY(Erfc)
OPFORGE_UNARY_COUNTED(Exp, (half, float), typename T, uint8_t taylorExpandLevel, bool isReuseSource = false)
OPFORGE_UNARY_COUNTED(Floor, (half, float), typename T, bool isReuseSource = false)
OPFORGE_SIMPLE_UNARY(Frac)
OPFORGE_SIMPLE_UNARY(Lgamma)
OPFORGE_SIMPLE_UNARY(Log)
OPFORGE_SIMPLE_UNARY(Log10)
OPFORGE_SIMPLE_UNARY(Log2)
OPFORGE_UNARY_COUNTED(Round, (half, float), typename T, bool isReuseSource = false)
OPFORGE_SIMPLE_UNARY(Sign)
OPFORGE_UNARY(Sin, typename T, bool isReuseSource = false, const SinConfig& config = defaultSinConfig)
OPFORGE_SIMPLE_UNARY(Sinh)
OPFORGE_SIMPLE_UNARY(Tan)
OPFORGE_UNARY(Tanh, typename T, bool isReuseSource = false, const TanhConfig& config = DEFAULT_TANH_CONFIG)
OPFORGE_SIMPLE_UNARY(Trunc)
OPFORGE_SIMPLE_UNARY(Sigmoid)
OPFORGE_UNARY_COUNTED(Gelu, (half, float), typename T, bool highPrecision = false, bool highPerformance = false)
OPFORGE_UNARY_COUNTED(FasterGelu, (half, float), typename T, bool highPrecision = false, bool highPerformance = false)
OPFORGE_UNARY_COUNTED(FasterGeluV2, (half, float), typename T, bool highPrecision = false, bool highPerformance = false)
OPFORGE_UNARY_COUNTED(Silu, (half, float), typename T, bool isReuseSource = false)

/// x / (1 + exp(-scalarValue * x))
template <typename T, bool isReuseSource = false>
OPFORGE_API void Swish(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, uint32_t dataSize,
                       const T scalarValue)
{
    OPFORGE_POINTWISE(Swish, (half, float), nullptr, dataSize, (twin::NumberOf(scalarValue)), &dstLocal.View(),
                      &srcLocal.View());
}

#define OPFORGE_CLAMP(name)                                                                                     \
    template <typename T, bool isReuseSource = false>                                                           \
    OPFORGE_API void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,                     \
                          const LocalTensor<uint8_t>& sharedTmpBuffer, const T scalar, const uint32_t calCount) \
    {                                                                                                           \
        OPFORGE_POINTWISE(name, (half, float), &sharedTmpBuffer.View(), calCount, (twin::NumberOf(scalar)),     \
                          &dstTensor.View(), &srcTensor.View());                                                \
    }                                                                                                           \
    template <typename T, bool isReuseSource = false>                                                           \
    OPFORGE_API void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor, const T scalar,     \
                          const uint32_t calCount)                                                              \
    {                                                                                                           \
        OPFORGE_POINTWISE(name, (half, float), nullptr, calCount, (twin::NumberOf(scalar)), &dstTensor.View(),  \
                          &srcTensor.View());                                                                   \
    }
OPFORGE_CLAMP(ClampMax)
OPFORGE_CLAMP(ClampMin)
#undef OPFORGE_CLAMP

/// dst += src * scalar, with temporary memory.
template <typename T, typename U, bool isReuseSource = false>
OPFORGE_API void Axpy(const LocalTensor<T>& dstTensor, const LocalTensor<U>& srcTensor, const U scalarValue,
                      const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount)
{
    OPFORGE_POINTWISE(Axpy, (half, float), &sharedTmpBuffer.View(), calCount, (twin::NumberOf(scalarValue)),
                      &dstTensor.View(), &srcTensor.View());
}

// Operands: `first` and `second` in the parameter list, their views and the scalar operand, if there is one.
#define OPFORGE_BINARY(name, types, first, second, views, numbers, sized, ...)                                         \
    template <__VA_ARGS__>                                                                                             \
    OPFORGE_API void name(const LocalTensor<T>& dstTensor, first, second, const LocalTensor<uint8_t>& sharedTmpBuffer, \
                          const uint32_t calCount)                                                                     \
    {                                                                                                                  \
        OPFORGE_POINTWISE(name, types, &sharedTmpBuffer.View(), calCount, numbers, &dstTensor.View(),                  \
                          OPFORGE_UNPACK views);                                                                       \
    }                                                                                                                  \
    template <__VA_ARGS__>                                                                                             \
    OPFORGE_API void name(const LocalTensor<T>& dstTensor, first, second, const uint32_t calCount)                     \
    {                                                                                                                  \
        OPFORGE_POINTWISE(name, types, nullptr, calCount, numbers, &dstTensor.View(), OPFORGE_UNPACK views);           \
    }                                                                                                                  \
    template <__VA_ARGS__>                                                                                             \
    OPFORGE_API void name(const LocalTensor<T>& dstTensor, first, second, const LocalTensor<uint8_t>& sharedTmpBuffer) \
    {                                                                                                                  \
        OPFORGE_POINTWISE(name, types, &sharedTmpBuffer.View(), sized.GetSize(), numbers, &dstTensor.View(),           \
                          OPFORGE_UNPACK views);                                                                       \
    }                                                                                                                  \
    template <__VA_ARGS__>                                                                                             \
    OPFORGE_API void name(const LocalTensor<T>& dstTensor, first, second)                                              \
    {                                                                                                                  \
        OPFORGE_POINTWISE(name, types, nullptr, sized.GetSize(), numbers, &dstTensor.View(), OPFORGE_UNPACK views);    \
    }

#define OPFORGE_TENSORS(name, types, ...)                                                           \
    OPFORGE_BINARY(name, types, const LocalTensor<T>& src0Tensor, const LocalTensor<T>& src1Tensor, \
                   (&src0Tensor.View(), &src1Tensor.View()), (), src0Tensor, __VA_ARGS__)

OPFORGE_TENSORS(Fmod, (half, float), typename T, bool isReuseSource = false,
                const FmodConfig& config = DEFAULT_FMOD_CONFIG)
OPFORGE_TENSORS(GeGLU, (half, float), typename T, bool isReuseSource = false)
OPFORGE_TENSORS(Power, (half, float, int32_t), typename T, bool isReuseSource = false,
                const PowerConfig& config = defaultPowerConfig)
OPFORGE_TENSORS(ReGlu, (half, float, bfloat16_t), typename T, bool isReuseSource = false)
OPFORGE_TENSORS(Xor, (int16_t, uint16_t), typename T, bool isReuseSource = false)
OPFORGE_BINARY(Power, (half, float, int32_t), const LocalTensor<T>& src0Tensor, const T& src1Scalar,
               (&src0Tensor.View(), nullptr), (twin::NumberOf(src1Scalar)), src0Tensor, typename T,
               bool isReuseSource = false, const PowerConfig& config = defaultPowerConfig)
OPFORGE_BINARY(Power, (half, float, int32_t), const T& src0Scalar, const LocalTensor<T>& src1Tensor,
               (nullptr, &src1Tensor.View()), (twin::NumberOf(src0Scalar)), src1Tensor, typename T,
               bool isReuseSource = false, const PowerConfig& config = defaultPowerConfig)
#undef OPFORGE_TENSORS
#undef OPFORGE_BINARY

#define OPFORGE_SWIGLU(tmpParameter, tmp, countParameter, count)                                                \
    template <typename T, bool isReuseSource = false>                                                           \
    OPFORGE_API void SwiGLU(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor0,                  \
                            const LocalTensor<T>& srcTensor1,                                                   \
                            const float& scalarValue OPFORGE_UNPACK tmpParameter OPFORGE_UNPACK countParameter) \
    {                                                                                                           \
        OPFORGE_POINTWISE(SwiGLU, (half, float), tmp, count, (twin::NumberOf(scalarValue)), &dstTensor.View(),  \
                          &srcTensor0.View(), &srcTensor1.View());                                              \
    }
#define OPFORGE_SHARED_TMP (, const LocalTensor<uint8_t>& sharedTmpBuffer)
#define OPFORGE_COUNT (, const uint32_t calCount)
OPFORGE_SWIGLU((), nullptr, (), srcTensor0.GetSize())
OPFORGE_SWIGLU((), nullptr, OPFORGE_COUNT, calCount)
OPFORGE_SWIGLU(OPFORGE_SHARED_TMP, &sharedTmpBuffer.View(), (), srcTensor0.GetSize())
OPFORGE_SWIGLU(OPFORGE_SHARED_TMP, &sharedTmpBuffer.View(), OPFORGE_COUNT, calCount)
#undef OPFORGE_SWIGLU
#undef OPFORGE_SHARED_TMP
#undef OPFORGE_COUNT
#undef OPFORGE_SIMPLE_UNARY
#undef OPFORGE_UNARY
#undef OPFORGE_UNARY_WHOLE
#undef OPFORGE_UNARY_COUNTED
#undef OPFORGE_POINTWISE
#undef OPFORGE_UNPACK

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_HIGH_POINTWISE_H
