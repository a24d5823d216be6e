// Host functions of the high-level API: bytes of temporary memory, and tiling data.
#ifndef OPFORGE_TWIN_HOST_HIGH_TILING_API_H
#define OPFORGE_TWIN_HOST_HIGH_TILING_API_H

#include "opforge_twin/high_tiling_structs.h"
#include "opforge_twin/host/tmp_sizes.h"
#include "opforge_twin/kernel/data_format.h"
#include "opforge_twin/kernel/high/pattern.h"
#include "opforge_twin/kernel/high/sort_modes.h"
#include "register/tilingdata_base.h"

namespace optiling {

#define FIELD(type, name) TILING_DATA_FIELD_DEF(type, name)
#define OPFORGE_TILING_STRUCT(name, ...) \
    BEGIN_TILING_DATA_DEF(name)          \
    __VA_ARGS__                          \
    END_TILING_DATA_DEF
#include "opforge_twin/high_tiling.inc"
#undef OPFORGE_TILING_STRUCT
#undef FIELD

}  // namespace optiling

namespace opforge::twin::host {

// Sets a field of both kinds of tiling data.
#define OPFORGE_PUT(field, value)                                   \
    if constexpr (std::is_base_of_v<optiling::TilingDef, Tiling>) { \
        tiling.set_##field(value);                                  \
    } else {                                                        \
        tiling.field = value;                                       \
    }

/// One pass over all rows; the functions of the twin do not split them.
template <typename Tiling>
void FillSoftmax(Tiling& tiling, const ge::Shape& shape, uint32_t typeSize)
{
    const uint32_t columns = LastAxis(shape);
    const uint32_t rows = columns == 0 ? 0 : Elements(shape) / columns;
    const uint32_t block = typeSize == 0 ? 0 : kBlockBytes / typeSize;
    OPFORGE_PUT(srcM, rows)
    OPFORGE_PUT(srcK, columns)
    OPFORGE_PUT(srcSize, rows * columns)
    OPFORGE_PUT(outMaxM, rows)
    OPFORGE_PUT(outMaxK, block)
    OPFORGE_PUT(outMaxSize, rows * block)
    OPFORGE_PUT(splitM, rows)
    OPFORGE_PUT(splitK, columns)
    OPFORGE_PUT(splitSize, rows * columns)
    OPFORGE_PUT(reduceM, rows)
    OPFORGE_PUT(reduceK, block)
    OPFORGE_PUT(reduceSize, rows * block)
    OPFORGE_PUT(rangeM, rows == 0 ? 0U : 1U)
}

/// `shape`: [B, S, H]. `length`: valid elements of H.
template <typename Tiling>
void FillRows(Tiling& tiling, const ge::Shape& shape, uint32_t length)
{
    OPFORGE_PUT(bLength, Axis(shape, 0))
    OPFORGE_PUT(sLength, Axis(shape, 1))
    OPFORGE_PUT(hLength, Axis(shape, 2))
    OPFORGE_PUT(originalHLength, length)
}

template <typename Tiling>
void FillSeparate(Tiling& tiling, const ge::Shape& shape)
{
    const uint32_t length = LastAxis(shape);
    OPFORGE_PUT(aLength, length == 0 ? 0 : Elements(shape) / length)
    OPFORGE_PUT(rLength, length)
}

/// `shape`: [B, S, H with padding, H].
template <typename Tiling>
void FillPaddedRows(Tiling& tiling, const ge::Shape& shape)
{
    const size_t last = shape.GetDimNum() > 3 ? 3 : 2;
    FillRows(tiling, shape, Axis(shape, last));
}

template <typename Tiling>
void FillBatch(Tiling& tiling, const ge::Shape& shape, const ge::Shape& original)
{
    OPFORGE_PUT(originalBLength, Axis(original, 0))
    OPFORGE_PUT(meanVarSize, Axis(shape, 1) * Axis(shape, 2))
}

template <typename Tiling>
void FillGroups(Tiling& tiling, const ge::Shape& shape, uint32_t typeSize, uint32_t groups)
{
    const uint32_t channels = Axis(shape, 1);
    const uint32_t positions = Axis(shape, 2) * Axis(shape, 3);
    OPFORGE_PUT(n, Axis(shape, 0))
    OPFORGE_PUT(c, channels)
    OPFORGE_PUT(hw, positions)
    OPFORGE_PUT(g, groups)
    OPFORGE_PUT(d, groups == 0 ? 0 : channels / groups)
    OPFORGE_PUT(hwAlignSize, typeSize == 0 ? 0 : RoundUp<uint32_t>(positions * typeSize, kBlockBytes) / typeSize)
}

template <typename Tiling>
void FillPad(Tiling& tiling, const ge::Shape& shape, const ge::Shape& original)
{
    OPFORGE_PUT(srcHeight, Axis(shape, 0))
    OPFORGE_PUT(srcWidth, Axis(shape, 1))
    OPFORGE_PUT(srcOriWidth, Axis(original, 1))
}

template <typename Tiling>
void FillUnPad(Tiling& tiling, const ge::Shape& shape)
{
    OPFORGE_PUT(srcHeight, Axis(shape, 0))
    OPFORGE_PUT(srcWidth, Axis(shape, 1))
}

template <typename Tiling>
void FillTranspose(Tiling& tiling, const ge::Shape& shape)
{
    OPFORGE_PUT(param0, Axis(shape, 0))
    OPFORGE_PUT(param1, Axis(shape, 1))
    OPFORGE_PUT(param2, Axis(shape, 2))
    OPFORGE_PUT(param3, Axis(shape, 3))
}

template <typename Tiling>
void FillTopK(Tiling& tiling, int32_t inner, int32_t outer)
{
    OPFORGE_PUT(tmpLocalSize, static_cast<int32_t>(LeastBytes(tmp::kTopK, static_cast<uint32_t>(inner)) / kFloatBytes))
    OPFORGE_PUT(allDataSize, inner * outer)
    OPFORGE_PUT(innerDataSize, inner)
}
#undef OPFORGE_PUT

}  // namespace opforge::twin::host

namespace AscendC {

namespace twin_host = opforge::twin::host;

// --- bytes of temporary memory: element-wise functions ---
#define OPFORGE_SIZES(function, row)                                                                             \
    inline void function(const TensorShape& srcShape, const uint32_t /*typeSize*/, const bool /*isReuseSource*/, \
                         uint32_t& maxValue, uint32_t& minValue)                                                 \
    {                                                                                                            \
        twin_host::SetSizes(twin_host::tmp::k##row, srcShape, maxValue, minValue);                               \
    }
#define OPFORGE_FACTORS(name, row)                                                                  \
    inline void Get##name##TmpBufferFactorSize(const uint32_t typeSize, uint32_t& maxLiveNodeCount, \
                                               uint32_t& extraBuf)                                  \
    {                                                                                               \
        twin_host::SetFactors(twin_host::tmp::k##row, typeSize, maxLiveNodeCount, extraBuf);        \
    }
#define OPFORGE_SIZES_AND_FACTORS(name, row)     \
    OPFORGE_SIZES(Get##name##MaxMinTmpSize, row) \
    OPFORGE_FACTORS(name, row)
OPFORGE_SIZES_AND_FACTORS(Acos, Acos)
OPFORGE_SIZES_AND_FACTORS(Acosh, Acosh)
OPFORGE_SIZES_AND_FACTORS(Asin, Asin)
OPFORGE_SIZES_AND_FACTORS(Asinh, Asinh)
OPFORGE_SIZES_AND_FACTORS(Atan, Atan)
OPFORGE_SIZES_AND_FACTORS(Atanh, Atanh)
OPFORGE_SIZES_AND_FACTORS(Axpy, Axpy)
OPFORGE_SIZES_AND_FACTORS(Ceil, Ceil)
OPFORGE_SIZES_AND_FACTORS(Clamp, ClampMax)
OPFORGE_SIZES_AND_FACTORS(Cos, Cos)
OPFORGE_SIZES_AND_FACTORS(Cosh, Cosh)
OPFORGE_SIZES_AND_FACTORS(Digamma, Digamma)
OPFORGE_SIZES_AND_FACTORS(Erf, Erf)
OPFORGE_SIZES_AND_FACTORS(Erfc, Erfc)
OPFORGE_SIZES_AND_FACTORS(Floor, Floor)
OPFORGE_SIZES_AND_FACTORS(Fmod, Fmod)
OPFORGE_SIZES_AND_FACTORS(Frac, Frac)
OPFORGE_SIZES_AND_FACTORS(GeGLU, GeGLU)
OPFORGE_SIZES_AND_FACTORS(Lgamma, Lgamma)
OPFORGE_SIZES_AND_FACTORS(Log, Log)
OPFORGE_SIZES_AND_FACTORS(Log10, Log10)
OPFORGE_SIZES_AND_FACTORS(Log2, Log2)
OPFORGE_SIZES_AND_FACTORS(Sign, Sign)
OPFORGE_SIZES_AND_FACTORS(Sin, Sin)
OPFORGE_SIZES_AND_FACTORS(Sinh, Sinh)
OPFORGE_SIZES_AND_FACTORS(Tan, Tan)
OPFORGE_SIZES_AND_FACTORS(Tanh, Tanh)
OPFORGE_SIZES_AND_FACTORS(Trunc, Trunc)
OPFORGE_SIZES_AND_FACTORS(Xor, Xor)
OPFORGE_FACTORS(Exp, Exp)
OPFORGE_FACTORS(SwiGLU, SwiGLU)
OPFORGE_FACTORS(Mean, Mean)
OPFORGE_SIZES(GetReGluMaxMinTmpSize, ReGlu)
OPFORGE_SIZES(GetSigmoidMaxMinTmpSize, Sigmoid)
OPFORGE_SIZES(GetSiluTmpSize, Silu)
OPFORGE_SIZES(GetSwishTmpSize, Swish)
OPFORGE_SIZES(GetDropOutMaxMinTmpSize, DropOut)
OPFORGE_SIZES(GetReduceXorSumMaxMinTmpSize, ReduceXorSum)
OPFORGE_SIZES(GetWelfordFinalizeMaxMinTmpSize, WelfordFinalize)
#undef OPFORGE_SIZES_AND_FACTORS
#undef OPFORGE_SIZES
#undef OPFORGE_FACTORS

// --- other parameter lists; `shape`: the shape that gives the size ---
#define OPFORGE_SIZE_FUNCTION(result, function, row, parameters, shape, end, ...)                            \
    inline result function(OPFORGE_LIST parameters, uint32_t& maxValue, uint32_t& minValue OPFORGE_LIST end) \
    {                                                                                                        \
        twin_host::SetSizes(twin_host::tmp::k##row, shape, maxValue, minValue);                              \
        __VA_ARGS__;                                                                                         \
    }
#define OPFORGE_LIST(...) __VA_ARGS__
#define OPFORGE_TYPE_SIZE const uint32_t
#define OPFORGE_PLATFORM const platform_ascendc::PlatformAscendC&
/// The larger shape has the channels in blocks of 16.
inline bool GetTransDataMaxMinTmpSize(OPFORGE_PLATFORM /*platform*/, const ge::Shape& srcShape,
                                      const ge::Shape& dstShape, const ge::DataType /*dataType*/,
                                      const TransDataConfig& /*config*/, uint32_t& maxValue, uint32_t& minValue)
{
    const bool isSrc = srcShape.GetDimNum() > dstShape.GetDimNum();
    twin_host::SetSizes(twin_host::tmp::kTransData, isSrc ? srcShape : dstShape, maxValue, minValue);
    return true;
}
#define OPFORGE_SHAPE const TensorShape&
OPFORGE_SIZE_FUNCTION(bool, GetExpMaxMinTmpSize, Exp, (OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE, const bool), srcShape,
                      (), return true)
OPFORGE_SIZE_FUNCTION(void, GetGeluMaxMinTmpSize, Gelu, (OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE), srcShape, ())
OPFORGE_SIZE_FUNCTION(void, GetPowerMaxMinTmpSize, Power,
                      (OPFORGE_SHAPE srcShape1, OPFORGE_SHAPE srcShape2, const bool, OPFORGE_TYPE_SIZE, const bool),
                      (twin_host::Elements(srcShape1) < twin_host::Elements(srcShape2) ? srcShape2 : srcShape1), ())
OPFORGE_SIZE_FUNCTION(void, GetRoundMaxMinTmpSize, Round,
                      (OPFORGE_PLATFORM, OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE, const bool), srcShape, ())
OPFORGE_SIZE_FUNCTION(void, GetSwiGLUMaxMinTmpSize, SwiGLU, (OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE), srcShape,
                      (, const bool /*isReuseSource*/))
OPFORGE_SIZE_FUNCTION(void, GetCumSumMaxMinTmpSize, CumSum,
                      (OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE, const bool, const bool), srcShape, ())
OPFORGE_SIZE_FUNCTION(void, GetBroadCastMaxMinTmpSize, Broadcast,
                      (OPFORGE_PLATFORM, OPFORGE_SHAPE, OPFORGE_SHAPE dstShape, uint32_t, const bool), dstShape, ())
OPFORGE_SIZE_FUNCTION(void, GetPadMaxMinTmpSize, Pad, (OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE),
                      (TensorShape({srcShape.GetDim(0), opforge::twin::RoundUp<int64_t>(srcShape.GetDim(1), 16)})), ())
OPFORGE_SIZE_FUNCTION(void, GetUnPadMaxMinTmpSize, UnPad, (OPFORGE_PLATFORM, OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE),
                      srcShape, ())
OPFORGE_SIZE_FUNCTION(bool, GetBatchNormMaxMinTmpSize, BatchNorm,
                      (OPFORGE_SHAPE srcShape, OPFORGE_SHAPE, OPFORGE_TYPE_SIZE, const bool), srcShape,
                      (, const bool /*isBasicBlock*/ = false), return true)
OPFORGE_SIZE_FUNCTION(bool, GetDeepNormMaxMinTmpSize, DeepNorm,
                      (OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE, const bool, const bool), srcShape, (), return true)
OPFORGE_SIZE_FUNCTION(void, GetGroupNormMaxMinTmpSize, GroupNorm,
                      (OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE, const bool, const uint32_t), srcShape, ())
#define OPFORGE_LAYER_NORM_SIZES(name)                          \
    OPFORGE_SIZE_FUNCTION(void, Get##name##MaxMinTmpSize, name, \
                          (OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE, const bool), twin_host::Stored(srcShape), ())
OPFORGE_LAYER_NORM_SIZES(LayerNorm)
OPFORGE_LAYER_NORM_SIZES(LayerNormGrad)
OPFORGE_LAYER_NORM_SIZES(LayerNormGradBeta)
#undef OPFORGE_LAYER_NORM_SIZES
OPFORGE_SIZE_FUNCTION(void, GetLayerNormMaxMinTmpSize, LayerNorm,
                      (OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE, const bool, const bool, const bool), srcShape, ())
OPFORGE_SIZE_FUNCTION(void, GetWelfordUpdateMaxMinTmpSize, WelfordUpdate,
                      (OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE, OPFORGE_TYPE_SIZE, const bool, const bool), srcShape,
                      ())
OPFORGE_SIZE_FUNCTION(void, GetNormalizeMaxMinTmpSize, Normalize,
                      (OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE, OPFORGE_TYPE_SIZE, const bool, const bool,
                       const bool),
                      srcShape, ())
OPFORGE_SIZE_FUNCTION(bool, GetRmsNormMaxMinTmpSize, RmsNorm, (OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE), srcShape,
                      (, const bool /*isBasicBlock*/ = false), return true)
OPFORGE_SIZE_FUNCTION(void, GetAscendQuantMaxMinTmpSize, AscendQuant, (OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE),
                      srcShape, ())
OPFORGE_SIZE_FUNCTION(void, GetAscendDequantMaxMinTmpSize, AscendDequant, (OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE),
                      srcShape, ())
OPFORGE_SIZE_FUNCTION(void, GetAscendAntiQuantMaxMinTmpSize, AscendAntiQuant,
                      (OPFORGE_SHAPE srcShape, OPFORGE_SHAPE, bool, TensorDataType, TensorDataType), srcShape, ())
OPFORGE_SIZE_FUNCTION(void, GetTransposeMaxMinTmpSize, Transpose,
                      (OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE, const uint32_t), srcShape, ())
OPFORGE_SIZE_FUNCTION(void, GetConfusionTransposeMaxMinTmpSize, Transpose,
                      (OPFORGE_SHAPE srcShape, OPFORGE_TYPE_SIZE, const uint32_t), srcShape, ())
OPFORGE_SIZE_FUNCTION(void, GetMeanMaxMinTmpSize, Mean,
                      (const uint32_t n, OPFORGE_TYPE_SIZE, OPFORGE_TYPE_SIZE, const bool), TensorShape({n}), ())
OPFORGE_SIZE_FUNCTION(void, GetSumMaxMinTmpSize, Sum, (const uint32_t n, OPFORGE_TYPE_SIZE, const bool),
                      TensorShape({n}), ())
#define OPFORGE_REDUCE_SIZES(name)                              \
    OPFORGE_SIZE_FUNCTION(void, Get##name##MaxMinTmpSize, name, \
                          (OPFORGE_SHAPE srcShape, const TensorDataType, ReducePattern, bool, bool), srcShape, ())
OPFORGE_REDUCE_SIZES(ReduceAll)
OPFORGE_REDUCE_SIZES(ReduceAny)
OPFORGE_REDUCE_SIZES(ReduceMax)
OPFORGE_REDUCE_SIZES(ReduceMean)
OPFORGE_REDUCE_SIZES(ReduceMin)
OPFORGE_REDUCE_SIZES(ReduceProd)
OPFORGE_REDUCE_SIZES(ReduceSum)
#undef OPFORGE_REDUCE_SIZES
#define OPFORGE_SELECT_SHAPES \
    (OPFORGE_SHAPE src0Shape, OPFORGE_SHAPE src1Shape, OPFORGE_TYPE_SIZE, OPFORGE_SHAPE, OPFORGE_TYPE_SIZE, const bool)
OPFORGE_SIZE_FUNCTION(void, GetSelectMaxMinTmpSize, Select, OPFORGE_SELECT_SHAPES,
                      (twin_host::Elements(src0Shape) < twin_host::Elements(src1Shape) ? src1Shape : src0Shape), ())
OPFORGE_SIZE_FUNCTION(void, GetSelectWithBytesMaskMaxMinTmpSize, Select, OPFORGE_SELECT_SHAPES,
                      (twin_host::Elements(src0Shape) < twin_host::Elements(src1Shape) ? src1Shape : src0Shape), ())
#undef OPFORGE_SELECT_SHAPES
OPFORGE_SIZE_FUNCTION(bool, GetTopKMaxMinTmpSize, TopK,
                      (OPFORGE_PLATFORM, const int32_t inner, const int32_t outter, const bool, const bool, TopKMode,
                       const bool, OPFORGE_TYPE_SIZE),
                      TensorShape({outter, inner}), (), return true)
#undef OPFORGE_SIZE_FUNCTION

/// Sort of Ascend 910B merges pairs of a value and an index: 8 bytes for each element.
inline void GetSortMaxMinTmpSize(const TensorShape& srcShape, TensorDataType /*valueType*/,
                                 TensorDataType /*indexType*/, bool /*isReuseSource*/, const SortConfig& /*config*/,
                                 uint32_t& maxValue, uint32_t& minValue)
{
    constexpr uint32_t pairBytes = 8;
    minValue = maxValue = twin_host::Elements(srcShape) * pairBytes;
}

/// Bytes that one function returns.
#define OPFORGE_ONE_SIZE(name, row, ...)                                                     \
    inline uint32_t Get##name##MaxTmpSize(OPFORGE_SHAPE srcShape, __VA_ARGS__)               \
    {                                                                                        \
        return twin_host::MostBytes(twin_host::tmp::k##row, twin_host::Elements(srcShape),   \
                                    twin_host::LastAxis(srcShape));                          \
    }                                                                                        \
    inline uint32_t Get##name##MinTmpSize(OPFORGE_SHAPE srcShape, __VA_ARGS__)               \
    {                                                                                        \
        return twin_host::LeastBytes(twin_host::tmp::k##row, twin_host::LastAxis(srcShape)); \
    }
OPFORGE_ONE_SIZE(SoftMax, SoftMax, OPFORGE_TYPE_SIZE, const bool)
OPFORGE_ONE_SIZE(LogSoftMax, LogSoftMax, OPFORGE_TYPE_SIZE, const bool)
OPFORGE_ONE_SIZE(SoftMaxFlash, SoftmaxFlash, OPFORGE_TYPE_SIZE, const bool, const bool)
OPFORGE_ONE_SIZE(SoftMaxFlashV2, SoftmaxFlashV2, OPFORGE_TYPE_SIZE, OPFORGE_TYPE_SIZE, const bool, const bool = false,
                 const bool = false)
OPFORGE_ONE_SIZE(SoftMaxGrad, SoftmaxGrad, OPFORGE_TYPE_SIZE, const bool, const bool)
OPFORGE_ONE_SIZE(DropOut, DropOut, OPFORGE_TYPE_SIZE, const bool)
OPFORGE_ONE_SIZE(Gelu, Gelu, OPFORGE_TYPE_SIZE)
#undef OPFORGE_ONE_SIZE

inline void GetSoftMaxFlashV3MaxMinTmpSize(const TensorShape& srcShape, const uint32_t /*dataTypeSize1*/,
                                           const uint32_t /*dataTypeSize2*/, uint32_t& maxValue, uint32_t& minValue,
                                           const bool /*isUpdate*/, const bool /*isBasicBlock*/ = false)
{
    twin_host::SetSizes(twin_host::tmp::kSoftmaxFlashV3, srcShape, maxValue, minValue);
}

inline void GetArangeMaxMinTmpSize(uint32_t& maxValue, uint32_t& minValue)
{
    maxValue = 0;
    minValue = 0;
}

inline void GetArithProgressionMaxMinTmpSize(uint32_t& maxValue, uint32_t& minValue)
{
    GetArangeMaxMinTmpSize(maxValue, minValue);
}

// --- tiling data, for both kinds of structs ---
#define OPFORGE_TILING_FUNCTION(result, function, Struct, parameters, end, ...)                       \
    inline result function(OPFORGE_LIST parameters, optiling::Struct& tiling OPFORGE_LIST end)        \
    {                                                                                                 \
        __VA_ARGS__;                                                                                  \
    }                                                                                                 \
    inline result function(OPFORGE_LIST parameters, AscendC::tiling::Struct& tiling OPFORGE_LIST end) \
    {                                                                                                 \
        __VA_ARGS__;                                                                                  \
    }
OPFORGE_TILING_FUNCTION(void, SoftMaxTilingFunc, SoftMaxTiling,
                        (OPFORGE_SHAPE srcShape, const uint32_t dataTypeSize, const uint32_t), (),
                        twin_host::FillSoftmax(tiling, srcShape, dataTypeSize))
OPFORGE_TILING_FUNCTION(void, LogSoftMaxTilingFunc, LogSoftMaxTiling,
                        (OPFORGE_SHAPE srcShape, const uint32_t dataTypeSize, const uint32_t), (),
                        twin_host::FillSoftmax(tiling, srcShape, dataTypeSize))
OPFORGE_TILING_FUNCTION(void, SoftMaxFlashTilingFunc, SoftMaxTiling,
                        (OPFORGE_SHAPE srcShape, const uint32_t dataTypeSize, const uint32_t), (, const bool = false),
                        twin_host::FillSoftmax(tiling, srcShape, dataTypeSize))
OPFORGE_TILING_FUNCTION(void, SoftMaxGradTilingFunc, SoftMaxTiling,
                        (OPFORGE_SHAPE srcShape, const uint32_t dataTypeSize, const uint32_t), (, const bool = false),
                        twin_host::FillSoftmax(tiling, srcShape, dataTypeSize))
OPFORGE_TILING_FUNCTION(void, SoftMaxFlashV2TilingFunc, SoftMaxTiling,
                        (OPFORGE_SHAPE srcShape, const uint32_t dataTypeSize1, const uint32_t, const uint32_t),
                        (, const bool, const bool = false, const bool = false),
                        twin_host::FillSoftmax(tiling, srcShape, dataTypeSize1))
OPFORGE_TILING_FUNCTION(void, SoftMaxFlashV3TilingFunc, SoftMaxTiling,
                        (OPFORGE_SHAPE srcShape, const uint32_t dataTypeSize1, const uint32_t, const uint32_t),
                        (, const bool, const bool = false), twin_host::FillSoftmax(tiling, srcShape, dataTypeSize1))
#define OPFORGE_NORM_END (OPFORGE_SHAPE srcShape, const uint32_t, OPFORGE_TYPE_SIZE, const bool)
OPFORGE_TILING_FUNCTION(void, GetLayerNormNDTilingInfo, LayerNormTiling, OPFORGE_NORM_END, (),
                        twin_host::FillPaddedRows(tiling, srcShape))
OPFORGE_TILING_FUNCTION(void, GetLayerNormNDTillingInfo, LayerNormTiling, OPFORGE_NORM_END, (),
                        twin_host::FillPaddedRows(tiling, srcShape))
OPFORGE_TILING_FUNCTION(void, GetLayerNormGradNDTilingInfo, LayerNormGradTiling, OPFORGE_NORM_END, (),
                        twin_host::FillPaddedRows(tiling, srcShape))
OPFORGE_TILING_FUNCTION(void, GetLayerNormGradBetaNDTilingInfo, LayerNormGradBetaTiling, OPFORGE_NORM_END, (),
                        twin_host::FillPaddedRows(tiling, srcShape))
#undef OPFORGE_NORM_END
OPFORGE_TILING_FUNCTION(void, GetLayerNormNDTilingInfo, LayerNormSeparateTiling,
                        (OPFORGE_SHAPE srcShape, const uint32_t, OPFORGE_TYPE_SIZE, const bool, const bool), (),
                        twin_host::FillSeparate(tiling, srcShape))
OPFORGE_TILING_FUNCTION(bool, GetRmsNormTilingInfo, RmsNormTiling,
                        (OPFORGE_SHAPE srcShape, OPFORGE_SHAPE originSrcShape, const uint32_t, OPFORGE_TYPE_SIZE),
                        (, const bool = false),
                        twin_host::FillRows(tiling, srcShape, twin_host::LastAxis(originSrcShape));
                        return true)
OPFORGE_TILING_FUNCTION(bool, GetDeepNormTilingInfo, DeepNormTiling,
                        (OPFORGE_SHAPE srcShape, OPFORGE_SHAPE originSrcShape, const uint32_t, OPFORGE_TYPE_SIZE,
                         const bool, const bool),
                        (), twin_host::FillRows(tiling, srcShape, twin_host::LastAxis(originSrcShape));
                        return true)
OPFORGE_TILING_FUNCTION(bool, GetBatchNormNDTilingInfo, BatchNormTiling,
                        (OPFORGE_SHAPE srcShape, OPFORGE_SHAPE originSrcShape, const uint32_t, OPFORGE_TYPE_SIZE,
                         const bool),
                        (, const bool = false), twin_host::FillBatch(tiling, srcShape, originSrcShape);
                        return true)
OPFORGE_TILING_FUNCTION(void, GetGroupNormNDTilingInfo, GroupNormTiling,
                        (OPFORGE_SHAPE srcShape, const uint32_t, const uint32_t typeSize, const bool,
                         const uint32_t groupNum),
                        (), twin_host::FillGroups(tiling, srcShape, typeSize, groupNum))
OPFORGE_TILING_FUNCTION(void, PadTilingFunc, PadTiling,
                        (OPFORGE_SHAPE srcShape, OPFORGE_SHAPE oriSrcShape, const uint32_t, OPFORGE_TYPE_SIZE), (),
                        twin_host::FillPad(tiling, srcShape, oriSrcShape))
OPFORGE_TILING_FUNCTION(void, UnPadTilingFunc, UnPadTiling, (OPFORGE_SHAPE srcShape, const uint32_t, OPFORGE_TYPE_SIZE),
                        (), twin_host::FillUnPad(tiling, srcShape))
OPFORGE_TILING_FUNCTION(void, GetTransposeTilingInfo, ConfusionTransposeTiling,
                        (OPFORGE_SHAPE srcShape, const uint32_t, OPFORGE_TYPE_SIZE, const uint32_t), (),
                        twin_host::FillTranspose(tiling, srcShape))
OPFORGE_TILING_FUNCTION(void, GetConfusionTransposeTilingInfo, ConfusionTransposeTiling,
                        (OPFORGE_SHAPE srcShape, const uint32_t, OPFORGE_TYPE_SIZE, const uint32_t), (),
                        twin_host::FillTranspose(tiling, srcShape))
OPFORGE_TILING_FUNCTION(void, GetConfusionTransposeOnlyTilingInfo, ConfusionTransposeTiling,
                        (OPFORGE_SHAPE srcShape, const uint32_t, OPFORGE_TYPE_SIZE), (),
                        twin_host::FillTranspose(tiling, srcShape))
OPFORGE_TILING_FUNCTION(bool, TopKTilingFunc, TopkTiling,
                        (OPFORGE_PLATFORM, const int32_t inner, const int32_t outter, const int32_t, OPFORGE_TYPE_SIZE,
                         const bool, TopKMode, const bool),
                        (), twin_host::FillTopK(tiling, inner, outter);
                        return true)
#undef OPFORGE_TILING_FUNCTION
#undef OPFORGE_LIST
#undef OPFORGE_TYPE_SIZE
#undef OPFORGE_PLATFORM
#undef OPFORGE_SHAPE

/// Whether the shape allows the basic block: rows in eights, and columns in 64s of less than 2048.
template <typename Tiling>
bool IsBasicBlockInSoftMax(const Tiling& tiling, const uint32_t /*dataTypeSize*/ = 2)
{
    uint32_t rows = 0;
    uint32_t columns = 0;
    if constexpr (std::is_base_of_v<optiling::TilingDef, Tiling>) {
        rows = tiling.get_srcM();
        columns = tiling.get_srcK();
    } else {
        rows = tiling.srcM;
        columns = tiling.srcK;
    }
    return rows % 8 == 0 && columns % 64 == 0 && columns < 2048;
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_HOST_HIGH_TILING_API_H
