// Images from global memory: SetAippFunctions and LoadImageToLocal.
#ifndef OPFORGE_TWIN_KERNEL_IMAGE_H
#define OPFORGE_TWIN_KERNEL_IMAGE_H

#include <cstring>

#include "opforge_twin/kernel/data_copy.h"

namespace AscendC {

/// paddingMode: 0 constants, 1 the nearest point, 2 a copy of the image, 3 a mirrored image.
template <typename T>
struct AippPaddingParams {
    uint32_t paddingMode = 0;
    T paddingValueCh0 = 0;
    T paddingValueCh1 = 0;
    T paddingValueCh2 = 0;
    T paddingValueCh3 = 0;
};

struct AippSwapParams {
    bool isSwapRB = false;
    bool isSwapUV = false;
    bool isSwapAX = false;  ///< XRGB to RGBX
};

struct AippSingleLineParams {
    bool isSingleLineCopy = false;
};

/// A point is (value - mean - min) * var; int8_t has the mean only.
struct AippDataTypeConvParams {
    uint8_t dtcMeanCh0 = 0;
    uint8_t dtcMeanCh1 = 0;
    uint8_t dtcMeanCh2 = 0;
    half dtcMinCh0 = 0;
    half dtcMinCh1 = 0;
    half dtcMinCh2 = 0;
    half dtcVarCh0 = 1;
    half dtcVarCh1 = 1;
    half dtcVarCh2 = 1;
    uint32_t dtcRoundMode = 0;  ///< for other products
};

/// cPaddingMode: channels up to 32 bytes (0), or 4 channels (1).
template <typename T>
struct AippChannelPaddingParams {
    uint32_t cPaddingMode = 0;
    T cPaddingValue = 0;
};

struct AippColorSpaceConvParams {
    bool isEnableCsc = false;
    int16_t cscMatrixR0C0 = 0, cscMatrixR0C1 = 0, cscMatrixR0C2 = 0;
    int16_t cscMatrixR1C0 = 0, cscMatrixR1C1 = 0, cscMatrixR1C2 = 0;
    int16_t cscMatrixR2C0 = 0, cscMatrixR2C1 = 0, cscMatrixR2C2 = 0;
    uint8_t cscBiasIn0 = 0, cscBiasIn1 = 0, cscBiasIn2 = 0;
    uint8_t cscBiasOut0 = 0, cscBiasOut1 = 0, cscBiasOut2 = 0;
};

template <typename T>
struct AippParams {
    AippPaddingParams<T> paddingParams;
    AippSwapParams swapParams;
    AippSingleLineParams singleLineParams;
    AippDataTypeConvParams dtcParams;
    AippChannelPaddingParams<T> cPaddingParams;
    AippColorSpaceConvParams cscParams;
};

/// A part of an image, and its padding, in points.
struct LoadImageToLocalParams {
    twin::Given16 horizSize = 0;
    twin::Given16 vertSize = 0;
    twin::Given16 horizStartPos = 0;
    twin::Given16 vertStartPos = 0;
    twin::Given16 srcHorizSize = 0;
    twin::Given8 topPadSize = 0;
    twin::Given8 botPadSize = 0;
    twin::Given16 leftPadSize = 0;
    twin::Given16 rightPadSize = 0;
    twin::Given8 sid = 0;

    LoadImageToLocalParams() = default;
    LoadImageToLocalParams(twin::Given16 width, twin::Given16 height, twin::Given16 left, twin::Given16 top,
                           twin::Given16 srcWidth, twin::Given8 topPad, twin::Given8 bottomPad, twin::Given16 leftPad,
                           twin::Given16 rightPad)
        : horizSize(width),
          vertSize(height),
          horizStartPos(left),
          vertStartPos(top),
          srcHorizSize(srcWidth),
          topPadSize(topPad),
          botPadSize(bottomPad),
          leftPadSize(leftPad),
          rightPadSize(rightPad)
    {
    }
};

}  // namespace AscendC

namespace opforge::twin::kernel {

inline void SetColors(PictureSettings& settings, const AscendC::AippColorSpaceConvParams& colors, const Call& call)
{
    using Format = AscendC::AippInputFormat;
    settings.hasColors = colors.isEnableCsc;
    if (!colors.isEnableCsc) {
        return;
    }
    Field("isEnableCsc (YUV400_U8 has no colors)", settings.format == Format::YUV400_U8 ? 1 : 0, 0, 0, call);
    const int32_t matrix[3][3] = {{colors.cscMatrixR0C0, colors.cscMatrixR0C1, colors.cscMatrixR0C2},
                                  {colors.cscMatrixR1C0, colors.cscMatrixR1C1, colors.cscMatrixR1C2},
                                  {colors.cscMatrixR2C0, colors.cscMatrixR2C1, colors.cscMatrixR2C2}};
    std::memcpy(settings.matrix, matrix, sizeof(matrix));
    const int32_t in[3] = {colors.cscBiasIn0, colors.cscBiasIn1, colors.cscBiasIn2};
    const int32_t out[3] = {colors.cscBiasOut0, colors.cscBiasOut1, colors.cscBiasOut2};
    // The pages of SetAippFunctions and of aclmdlSetAIPPCscParams exchange the directions of the biases.
    const bool isYuv = settings.format == Format::YUV420SP_U8;
    for (int channel = 0; channel < 3; ++channel) {
        Field(isYuv ? "cscBiasOut (YUV to RGB uses cscBiasIn)" : "cscBiasIn (RGB to YUV uses cscBiasOut)",
              isYuv ? out[channel] : in[channel], 0, 0, call);
        settings.biasIn[channel] = in[channel];
        settings.biasOut[channel] = out[channel];
    }
}

template <typename U>
PictureSettings SettingsOf(AscendC::AippInputFormat format, const AscendC::AippParams<U>& config, const Call& call)
{
    static_assert(kIsAnyOf<U, int8_t, half>, "SetAippFunctions: Ascend 910B has images of int8_t and half");
    Field("dtcRoundMode", config.dtcParams.dtcRoundMode, 0, 0, call);
    const AscendC::AippPaddingParams<U>& padding = config.paddingParams;
    const AscendC::AippDataTypeConvParams& conversion = config.dtcParams;
    PictureSettings settings;
    settings.format = format;
    settings.paddingMode = Field("paddingMode", padding.paddingMode, 0, 3, call);
    const auto channel = [](U pad, uint8_t mean, half least, half factor) {
        return PictureSettings::Channel{ScalarBits(pad), mean, static_cast<float>(least), static_cast<float>(factor)};
    };
    settings.of[0] =
        channel(padding.paddingValueCh0, conversion.dtcMeanCh0, conversion.dtcMinCh0, conversion.dtcVarCh0);
    settings.of[1] =
        channel(padding.paddingValueCh1, conversion.dtcMeanCh1, conversion.dtcMinCh1, conversion.dtcVarCh1);
    settings.of[2] =
        channel(padding.paddingValueCh2, conversion.dtcMeanCh2, conversion.dtcMinCh2, conversion.dtcVarCh2);
    settings.of[3].padding = ScalarBits(padding.paddingValueCh3);
    settings.swapsRB = config.swapParams.isSwapRB;
    settings.swapsUV = config.swapParams.isSwapUV;
    settings.swapsAX = config.swapParams.isSwapAX;
    SetColors(settings, config.cscParams, call);
    settings.isOneLine = config.singleLineParams.isSingleLineCopy;
    const bool hasFour = Field("cPaddingMode", config.cPaddingParams.cPaddingMode, 0, 1, call) == 1;
    settings.channels = hasFour ? 4 : kBlockBytes / static_cast<int64_t>(sizeof(U));
    settings.channelPadding = ScalarBits(config.cPaddingParams.cPaddingValue);
    settings.dtype = DtypeOf<U>();
    return settings;
}

}  // namespace opforge::twin::kernel

namespace AscendC {

/// Sets the source and the conversions of LoadImageToLocal; `src1`: U and V of YUV420SP.
template <typename T, typename U>
OPFORGE_API void SetAippFunctions(const GlobalTensor<T>& src0, const GlobalTensor<T>& src1, AippInputFormat format,
                                  AippParams<U> config)
{
    static_assert(twin::kIsAnyOf<T, uint8_t>, "SetAippFunctions: the formats of images have uint8_t");
    const twin::Call call{"SetAippFunctions", twin::Here()};
    twin::Field("format (one source)", static_cast<int64_t>(format), 0, 0, call);
    twin::SetPicture(src0.View(), src1.View(), twin::SettingsOf(format, config, call), call);
}

template <typename T, typename U>
OPFORGE_API void SetAippFunctions(const GlobalTensor<T>& src0, AippInputFormat format, AippParams<U> config)
{
    static_assert(twin::kIsAnyOf<T, uint8_t>, "SetAippFunctions: the formats of images have uint8_t");
    const twin::Call call{"SetAippFunctions", twin::Here()};
    twin::Field("format (YUV420SP_U8 has two sources)", static_cast<int64_t>(format), 1, twin::kFieldMax8, call);
    twin::SetPicture(src0.View(), src0.View(), twin::SettingsOf(format, config, call), call);
}

template <typename T>
OPFORGE_API void LoadImageToLocal(const LocalTensor<T>& dst, const LoadImageToLocalParams& loadDataParams)
{
    static_assert(twin::kIsAnyOf<T, int8_t, half>, "LoadImageToLocal: Ascend 910B has int8_t and half");
    const twin::Call call{"LoadImageToLocal", twin::Here()};
    constexpr int64_t kMost = 4095;
    constexpr int64_t kMostPadding = 32;
    twin::LoadPicture(dst.View(),
                      {twin::Field("horizSize", loadDataParams.horizSize, 2, kMost, call),
                       twin::Field("vertSize", loadDataParams.vertSize, 2, kMost, call),
                       twin::Field("horizStartPos", loadDataParams.horizStartPos, 0, kMost, call),
                       twin::Field("vertStartPos", loadDataParams.vertStartPos, 0, kMost, call),
                       twin::Field("srcHorizSize", loadDataParams.srcHorizSize, 2, kMost, call),
                       twin::Field("topPadSize", loadDataParams.topPadSize, 0, kMostPadding, call),
                       twin::Field("botPadSize", loadDataParams.botPadSize, 0, kMostPadding, call),
                       twin::Field("leftPadSize", loadDataParams.leftPadSize, 0, kMostPadding, call),
                       twin::Field("rightPadSize", loadDataParams.rightPadSize, 0, kMostPadding, call)},
                      call);
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_IMAGE_H
