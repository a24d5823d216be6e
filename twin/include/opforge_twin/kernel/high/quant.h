// Quantization and dequantization.
#ifndef OPFORGE_TWIN_KERNEL_HIGH_QUANT_H
#define OPFORGE_TWIN_KERNEL_HIGH_QUANT_H

#include "opforge_twin/kernel/high/composite.h"

namespace AscendC {

struct AscendQuantConfig {
    constexpr AscendQuantConfig(const uint32_t calcCountIn, const uint32_t offsetCountIn, const uint32_t scaleCountIn,
                                const uint32_t workLocalSizeIn)
        : calcCount(calcCountIn), offsetCount(offsetCountIn), scaleCount(scaleCountIn), workLocalSize(workLocalSizeIn)
    {
    }
    uint32_t calcCount = 0;
    uint32_t offsetCount = 0;
    uint32_t scaleCount = 0;
    uint32_t workLocalSize = 0;
};
inline constexpr AscendQuantConfig ASCEND_QUANT_DEFAULT_CFG = {0, 0, 0, 0};
enum class DeQuantMode { DEQUANT_WITH_SINGLE_ROW = 0, DEQUANT_WITH_MULTI_ROW };
struct DequantParams {
    uint32_t m;
    uint32_t n;
    uint32_t calCount;
};
struct AntiQuantShapeInfo {
    uint32_t offsetHeight{0};
    uint32_t offsetWidth{0};
    uint32_t scaleHeight{0};
    uint32_t scaleWidth{0};
};

#include "opforge_twin/kernel/high/forms.inc"

#define OPFORGE_LIST(...) __VA_ARGS__
// `parameters`: scale and offset. `views`: their tensors. `scales`: values of a scale tensor.
#define OPFORGE_QUANT_FORM(tmpParameter, tmp, parameters, views, scales, numbers, end, count)                     \
    template <typename T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG> \
    OPFORGE_API void AscendQuant(const LocalTensor<int8_t>& dstTensor, const LocalTensor<T>& srcTensor,           \
                                 OPFORGE_GIVEN tmpParameter OPFORGE_LIST parameters OPFORGE_LIST end)             \
    {                                                                                                             \
        twin::RequireDtype<T, half, float>();                                                                     \
        twin::RunHigh({twin::HighOp::kAscendQuant,                                                                \
                       {&dstTensor.View(), &srcTensor.View(), OPFORGE_LIST views},                                \
                       tmp,                                                                                       \
                       {count, scales},                                                                           \
                       {OPFORGE_LIST numbers}},                                                                   \
                      OPFORGE_HIGH_CALL(AscendQuant));                                                            \
    }
#define OPFORGE_QUANT(tmpParameter, tmp)                                                                           \
    OPFORGE_QUANT_FORM(tmpParameter, tmp, (const float scale, const float offset), (nullptr, nullptr), 1,          \
                       (scale, offset), (, const uint32_t calCount), calCount)                                     \
    OPFORGE_QUANT_FORM(tmpParameter, tmp, (const float scale, const float offset), (nullptr, nullptr), 1,          \
                       (scale, offset), (), srcTensor.GetSize())                                                   \
    OPFORGE_QUANT_FORM(tmpParameter, tmp, (const LocalTensor<T>& scaleTensor, const T offset),                     \
                       (&scaleTensor.View(), nullptr), scaleCount, (0.0, twin::NumberOf(offset)),                  \
                       (, const uint32_t scaleCount, const uint32_t calCount), calCount)                           \
    OPFORGE_QUANT_FORM(tmpParameter, tmp, (const LocalTensor<T>& scaleTensor, const T offset),                     \
                       (&scaleTensor.View(), nullptr), scaleTensor.GetSize(), (0.0, twin::NumberOf(offset)), (),   \
                       srcTensor.GetSize())                                                                        \
    OPFORGE_QUANT_FORM(tmpParameter, tmp, (const LocalTensor<T>& scaleTensor, const LocalTensor<T>& offsetTensor), \
                       (&scaleTensor.View(), &offsetTensor.View()), scaleCount, (0.0, 0.0),                        \
                       (, const uint32_t scaleCount, const uint32_t /*offsetCount*/, const uint32_t calCount),     \
                       calCount)                                                                                   \
    OPFORGE_QUANT_FORM(tmpParameter, tmp, (const LocalTensor<T>& scaleTensor, const LocalTensor<T>& offsetTensor), \
                       (&scaleTensor.View(), &offsetTensor.View()), scaleTensor.GetSize(), (0.0, 0.0), (),         \
                       srcTensor.GetSize())
OPFORGE_BOTH(OPFORGE_QUANT)
#undef OPFORGE_QUANT
#undef OPFORGE_QUANT_FORM

#define OPFORGE_DEQUANT_FORM(scaleParameter, view, number, rows, columns, count, ...)                         \
    template <typename dstT, typename scaleT, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW>        \
    OPFORGE_API void AscendDequant(const LocalTensor<dstT>& dstTensor, const LocalTensor<int32_t>& srcTensor, \
                                   scaleParameter OPFORGE_DEQUANT_TMP __VA_ARGS__)                            \
    {                                                                                                         \
        twin::RequireDtype<dstT, half, bfloat16_t, float>();                                                  \
        twin::RequireDtype<scaleT, uint64_t, bfloat16_t, float>();                                            \
        twin::RunHigh({twin::HighOp::kAscendDequant,                                                          \
                       {&dstTensor.View(), &srcTensor.View(), view},                                          \
                       OPFORGE_DEQUANT_VIEW,                                                                  \
                       {rows, columns, count, mode == DeQuantMode::DEQUANT_WITH_SINGLE_ROW},                  \
                       {number}},                                                                             \
                      OPFORGE_HIGH_CALL(AscendDequant));                                                      \
    }
#define OPFORGE_DEQUANT_TENSOR const LocalTensor<scaleT>& deqScale
#define OPFORGE_DEQUANT_NUMBER const scaleT deqScale
#define OPFORGE_COMMA ,
#define OPFORGE_DEQUANTS                                                                                     \
    OPFORGE_DEQUANT_FORM(OPFORGE_DEQUANT_TENSOR, &deqScale.View(), 0.0, params.m, params.n, params.calCount, \
                         OPFORGE_COMMA DequantParams params)                                                 \
    OPFORGE_DEQUANT_FORM(OPFORGE_DEQUANT_NUMBER, nullptr, twin::ScaleOf(deqScale), params.m, params.n,       \
                         params.calCount, OPFORGE_COMMA DequantParams params)                                \
    OPFORGE_DEQUANT_FORM(OPFORGE_DEQUANT_TENSOR, &deqScale.View(), 0.0, 1, calCount, deqScale.GetSize(),     \
                         OPFORGE_COMMA const uint32_t calCount)                                              \
    OPFORGE_DEQUANT_FORM(OPFORGE_DEQUANT_TENSOR, &deqScale.View(), 0.0, 1, srcTensor.GetSize(), deqScale.GetSize())

}  // namespace AscendC

namespace opforge::twin::kernel {

template <typename T>
double ScaleOf(const T& scale)
{
    if constexpr (std::is_same_v<T, bfloat16_t>) {
        return Bfloat16ToFloat(scale.bits);
    } else {
        return static_cast<double>(scale);
    }
}

}  // namespace opforge::twin::kernel

namespace AscendC {

#define OPFORGE_DEQUANT_TMP
#define OPFORGE_DEQUANT_VIEW nullptr
OPFORGE_DEQUANTS
#undef OPFORGE_DEQUANT_TMP
#undef OPFORGE_DEQUANT_VIEW
#define OPFORGE_DEQUANT_TMP , const LocalTensor<uint8_t>& sharedTmpBuffer
#define OPFORGE_DEQUANT_VIEW &sharedTmpBuffer.View()
OPFORGE_DEQUANTS
#undef OPFORGE_DEQUANT_TMP
#undef OPFORGE_DEQUANT_VIEW
#undef OPFORGE_DEQUANTS
#undef OPFORGE_DEQUANT_FORM
#undef OPFORGE_DEQUANT_TENSOR
#undef OPFORGE_DEQUANT_NUMBER
#undef OPFORGE_COMMA

#define OPFORGE_ANTIQUANT_FORM(tmpParameter, tmp, parameters, views, numbers)                                       \
    template <typename InputDataType, typename OutputDataType, bool isTranspose>                                    \
    OPFORGE_API void AscendAntiQuant(const LocalTensor<OutputDataType>& dst, const LocalTensor<InputDataType>& src, \
                                     OPFORGE_LIST parameters, OPFORGE_GIVEN tmpParameter const uint32_t k,          \
                                     [[maybe_unused]] const AntiQuantShapeInfo& shapeInfo = {})                     \
    {                                                                                                               \
        twin::RequireDtype<InputDataType, int8_t>();                                                                \
        twin::RequireDtype<OutputDataType, half, bfloat16_t>();                                                     \
        twin::RunHigh({twin::HighOp::kAscendAntiQuant,                                                              \
                       {&dst.View(), &src.View(), OPFORGE_LIST views},                                              \
                       tmp,                                                                                         \
                       {src.GetSize(), k, isTranspose, isTranspose ? shapeInfo.scaleWidth : shapeInfo.scaleHeight}, \
                       {OPFORGE_LIST numbers}},                                                                     \
                      OPFORGE_HIGH_CALL(AscendAntiQuant));                                                          \
    }
#define OPFORGE_OUT const LocalTensor<OutputDataType>&
#define OPFORGE_ANTIQUANT(tmpParameter, tmp)                                                             \
    OPFORGE_ANTIQUANT_FORM(tmpParameter, tmp, (OPFORGE_OUT offset, OPFORGE_OUT scale),                   \
                           (&scale.View(), &offset.View()), (1.0, 0.0))                                  \
    OPFORGE_ANTIQUANT_FORM(tmpParameter, tmp, (OPFORGE_OUT scale), (&scale.View(), nullptr), (1.0, 0.0)) \
    OPFORGE_ANTIQUANT_FORM(tmpParameter, tmp, (const OutputDataType offset, const OutputDataType scale), \
                           (nullptr, nullptr), (twin::ScaleOf(scale), twin::ScaleOf(offset)))            \
    OPFORGE_ANTIQUANT_FORM(tmpParameter, tmp, (const OutputDataType scale), (nullptr, nullptr),          \
                           (twin::ScaleOf(scale), 0.0))
OPFORGE_BOTH(OPFORGE_ANTIQUANT)
#undef OPFORGE_ANTIQUANT
#undef OPFORGE_ANTIQUANT_FORM
#undef OPFORGE_OUT
#undef OPFORGE_LIST
#include "opforge_twin/kernel/high/forms_end.inc"

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_HIGH_QUANT_H
