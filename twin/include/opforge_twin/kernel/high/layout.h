// Broadcast, padding, transposition, progressions, and the filling of global memory.
#ifndef OPFORGE_TWIN_KERNEL_HIGH_LAYOUT_H
#define OPFORGE_TWIN_KERNEL_HIGH_LAYOUT_H

#include "opforge_twin/high_tiling.h"
#include "opforge_twin/kernel/high/composite.h"
#include "opforge_twin/kernel/data_format.h"
#include "opforge_twin/kernel/layout.h"

namespace AscendC {

template <typename T, typename U>
struct TransDataParams {
    T srcLayout;
    U dstLayout;
};

}  // namespace AscendC

namespace opforge::twin::kernel {

/// Moves [N, C, D, H, W] to blocks of 16 channels, and back.
template <const AscendC::TransDataConfig& config, typename Params>
void MoveParts(const LocalView& dst, const LocalView& src, const LocalView* tmp, const Params& params, const Call& call)
{
    using AscendC::DataFormat;
    constexpr bool isToParts = config.srcFormat == DataFormat::NCDHW;
    constexpr DataFormat format = isToParts ? config.dstFormat : config.srcFormat;
    static_assert((isToParts || config.dstFormat == DataFormat::NCDHW) &&
                      (format == DataFormat::NDC1HWC0 || format == DataFormat::FRACTAL_Z_3D),
                  "TransData: NCDHW to NDC1HWC0 or to FRACTAL_Z_3D, and back");
    constexpr bool isFractal = format == DataFormat::FRACTAL_Z_3D;
    const auto shapes = AscendC::Std::make_tuple(params.srcLayout.GetShape(), params.dstLayout.GetShape());
    const auto& whole = AscendC::Std::get<isToParts ? 0 : 1>(shapes);
    const auto& parts = AscendC::Std::get<isToParts ? 1 : 0>(shapes);
    using Whole = std::decay_t<decltype(whole)>;
    using Parts = std::decay_t<decltype(parts)>;
    static_assert(AscendC::Std::tuple_size_v<Whole> == 5 && AscendC::Std::tuple_size_v<Parts> == (isFractal ? 7 : 6),
                  "TransData: NCDHW has 5 axes, NDC1HWC0 has 6 and FRACTAL_Z_3D has 7");
#define OPFORGE_AXIS(shape, axis) static_cast<int64_t>(AscendC::Std::get<axis>(shape))
    const auto run = [&](int64_t n1, int64_t n0, int64_t d, int64_t c1, int64_t h, int64_t w, int64_t c0) {
        RunHigh({HighOp::kTransData,
                 {&dst, &src},
                 tmp,
                 {isToParts, isFractal, OPFORGE_AXIS(whole, 0), OPFORGE_AXIS(whole, 1), OPFORGE_AXIS(whole, 2),
                  OPFORGE_AXIS(whole, 3), OPFORGE_AXIS(whole, 4), n1, n0, d, c1, h, w, c0}},
                call);
    };
    if constexpr (isFractal) {
        run(OPFORGE_AXIS(parts, 4), OPFORGE_AXIS(parts, 5), OPFORGE_AXIS(parts, 0), OPFORGE_AXIS(parts, 1),
            OPFORGE_AXIS(parts, 2), OPFORGE_AXIS(parts, 3), OPFORGE_AXIS(parts, 6));
    } else {
        run(OPFORGE_AXIS(parts, 0), 1, OPFORGE_AXIS(parts, 1), OPFORGE_AXIS(parts, 2), OPFORGE_AXIS(parts, 3),
            OPFORGE_AXIS(parts, 4), OPFORGE_AXIS(parts, 5));
    }
#undef OPFORGE_AXIS
}

}  // namespace opforge::twin::kernel

namespace AscendC {

struct PadParams {
    uint16_t leftPad = 0;
    uint16_t rightPad = 0;
    int32_t padValue = 0;
};
struct UnPadParams {
    uint16_t leftPad = 0;
    uint16_t rightPad = 0;
};
#define OPFORGE_BROADCAST(name, tmpParameter, tmp)                                                                     \
    template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>                                       \
    OPFORGE_API void name(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal,                              \
                          const uint32_t dstShape[dim], const uint32_t srcShape[dim] OPFORGE_OPTIONAL tmpParameter)    \
    {                                                                                                                  \
        twin::RequireDtype<T, int8_t, uint8_t, half, float>();                                                         \
        static_assert((dim == 1 || dim == 2) && (axis == 0 || axis == 1), "Broadcast: dim is 1 or 2, axis is 0 or 1"); \
        constexpr int32_t last = dim - 1;                                                                              \
        twin::RunHigh({twin::HighOp::kBroadcast,                                                                       \
                       {&dstLocal.View(), &srcLocal.View()},                                                           \
                       tmp,                                                                                            \
                       {dim == 1 ? 1 : dstShape[0], dstShape[last], dim == 1 ? 1 : srcShape[0], srcShape[last]}},      \
                      OPFORGE_HIGH_CALL(name));                                                                        \
    }
#define OPFORGE_OPTIONAL(...) __VA_ARGS__
OPFORGE_BROADCAST(Broadcast, (), nullptr)
OPFORGE_BROADCAST(Broadcast, (, LocalTensor<uint8_t>& sharedTmpBuffer), &sharedTmpBuffer.View())
OPFORGE_BROADCAST(BroadCast, (), nullptr)
OPFORGE_BROADCAST(BroadCast, (, LocalTensor<uint8_t>& sharedTmpBuffer), &sharedTmpBuffer.View())
#undef OPFORGE_BROADCAST
#undef OPFORGE_OPTIONAL

#include "opforge_twin/kernel/high/forms.inc"
#define OPFORGE_PADDING(tmpParameter, tmp)                                                                             \
    template <typename T>                                                                                              \
    OPFORGE_API void Pad(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor, PadParams& padParams,       \
                         OPFORGE_GIVEN tmpParameter PadTiling& tiling)                                                 \
    {                                                                                                                  \
        twin::RequireDtype<T, int16_t, uint16_t, half, int32_t, uint32_t, float>();                                    \
        twin::RunHigh({twin::HighOp::kPad,                                                                             \
                       {&dstTensor.View(), &srcTensor.View()},                                                         \
                       tmp,                                                                                            \
                       {tiling.srcHeight, tiling.srcWidth, tiling.srcOriWidth, padParams.leftPad, padParams.rightPad}, \
                       {twin::NumberOf(padParams.padValue)}},                                                          \
                      OPFORGE_HIGH_CALL(Pad));                                                                         \
    }                                                                                                                  \
    template <typename T>                                                                                              \
    OPFORGE_API void UnPad(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor, UnPadParams& unPadParams, \
                           OPFORGE_GIVEN tmpParameter UnPadTiling& tiling)                                             \
    {                                                                                                                  \
        twin::RequireDtype<T, int16_t, uint16_t, half, int32_t, uint32_t, float>();                                    \
        twin::RunHigh({twin::HighOp::kUnPad,                                                                           \
                       {&dstTensor.View(), &srcTensor.View()},                                                         \
                       tmp,                                                                                            \
                       {tiling.srcHeight, tiling.srcWidth, unPadParams.leftPad, unPadParams.rightPad}},                \
                      OPFORGE_HIGH_CALL(UnPad));                                                                       \
    }                                                                                                                  \
    OPFORGE_TRANSPOSE(Transpose, tmpParameter, tmp)                                                                    \
    OPFORGE_TRANSPOSE(ConfusionTranspose, tmpParameter, tmp)
// The tiling data have the shape: H and W, or B, N, S and H / N.
#define OPFORGE_TRANSPOSE(name, tmpParameter, tmp)                                                                \
    template <typename T>                                                                                         \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src,                                   \
                          OPFORGE_GIVEN tmpParameter TransposeType type, ConfusionTransposeTiling& tiling)        \
    {                                                                                                             \
        twin::RequireDtype<T, int16_t, uint16_t, half, int32_t, uint32_t, float>();                               \
        twin::RunHigh({twin::HighOp::kTranspose,                                                                  \
                       {&dst.View(), &src.View()},                                                                \
                       tmp,                                                                                       \
                       {static_cast<int64_t>(type), tiling.param0, tiling.param1, tiling.param2, tiling.param3}}, \
                      OPFORGE_HIGH_CALL(name));                                                                   \
    }
OPFORGE_BOTH(OPFORGE_PADDING)
#undef OPFORGE_PADDING
#undef OPFORGE_TRANSPOSE
#include "opforge_twin/kernel/high/forms_end.inc"

#define OPFORGE_TRANS_DATA(tmpParameter, tmp)                                                                   \
    template <const TransDataConfig& config, typename T, typename U, typename S>                                \
    OPFORGE_API void TransData(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,                \
                               OPFORGE_GIVEN tmpParameter const TransDataParams<U, S>& params)                  \
    {                                                                                                           \
        twin::RequireDtype<T, int16_t, uint16_t, half, bfloat16_t>();                                           \
        twin::MoveParts<config>(dstTensor.View(), srcTensor.View(), tmp, params, OPFORGE_HIGH_CALL(TransData)); \
    }
#include "opforge_twin/kernel/high/forms.inc"
OPFORGE_BOTH(OPFORGE_TRANS_DATA)
#include "opforge_twin/kernel/high/forms_end.inc"
#undef OPFORGE_TRANS_DATA

#define OPFORGE_FILL(name)                                                                            \
    template <typename T>                                                                             \
    OPFORGE_API void name(GlobalTensor<T>& gmWorkspaceAddr, const uint64_t size, const T value)       \
    {                                                                                                 \
        twin::RequireDtype<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>();       \
        twin::FillGlobal(gmWorkspaceAddr.View(), static_cast<int64_t>(size), twin::ScalarBits(value), \
                         OPFORGE_HIGH_CALL(name));                                                    \
    }
OPFORGE_FILL(Fill)
OPFORGE_FILL(InitGlobalMemory)
#undef OPFORGE_FILL

/// firstValue, firstValue + diffValue, ...; the scalar unit writes the first block.
template <typename T>
OPFORGE_API void Arange(const LocalTensor<T>& dst, const T firstValue, const T diffValue, const int32_t count)
{
    twin::RequireDtype<T, int16_t, int32_t, half, float>();
    twin::Progression(dst.View(), twin::ScalarBits(firstValue), twin::ScalarBits(diffValue), twin::Lanes::Count(count),
                      {}, OPFORGE_HIGH_CALL(Arange));
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_HIGH_LAYOUT_H
