// Parameter structures of cube core instructions. Fields are wider than on the device, as in params.h.
#ifndef OPFORGE_TWIN_KERNEL_CUBE_PARAMS_H
#define OPFORGE_TWIN_KERNEL_CUBE_PARAMS_H

#include "opforge_twin/kernel/params.h"

enum QuantMode_t : unsigned int {
    NoQuant = 0,
    F322F16 = 1,
    VREQ8 = 8,
    REQ8 = 9,
    VDEQF16 = 10,
    DEQF16 = 11,
    F322BF16 = 16,
    VQF322B8_PRE = 23,
    QF322B8_PRE = 24,
};

namespace AscendC {

enum class CO2Layout : uint8_t { NZ = 0, ROW_MAJOR = 1, COLUMN_MAJOR = 2 };

/// Copies rows of GM to fractals of L1. Source strides and dstNzMatrixStride are in elements, the other strides in
/// 32-byte blocks.
struct Nd2NzParams {
    twin::Given16 ndNum = 0;
    twin::Given16 nValue = 0;
    twin::Given16 dValue = 0;
    twin::Given16 srcNdMatrixStride = 0;
    twin::Given16 srcDValue = 0;
    twin::Given16 dstNzC0Stride = 0;
    twin::Given16 dstNzNStride = 0;
    twin::Given16 dstNzMatrixStride = 0;

    Nd2NzParams() = default;
    Nd2NzParams(twin::Given16 matrices, twin::Given16 rows, twin::Given16 columns, twin::Given16 srcMatrixStride,
                twin::Given16 srcPitch, twin::Given16 c0Stride, twin::Given16 rowStride, twin::Given16 dstMatrixStride)
        : ndNum(matrices),
          nValue(rows),
          dValue(columns),
          srcNdMatrixStride(srcMatrixStride),
          srcDValue(srcPitch),
          dstNzC0Stride(c0Stride),
          dstNzNStride(rowStride),
          dstNzMatrixStride(dstMatrixStride)
    {
    }
};

/// Copies columns of 16 elements in the unified buffer to rows of GM. srcNdMatrixStride is in 256 elements, srcNStride
/// in 16 elements; the strides of dst are in elements.
struct Nz2NdParamsFull {
    twin::Given16 ndNum = 1;
    twin::Given16 nValue = 0;
    twin::Given16 dValue = 0;
    twin::Given16 srcNdMatrixStride = 1;
    twin::Given16 srcNStride = 0;
    twin::Given16 dstDStride = 0;
    twin::Given16 dstNdMatrixStride = 1;

    Nz2NdParamsFull() = default;
    Nz2NdParamsFull(twin::Given16 matrices, twin::Given16 rows, twin::Given16 columns, twin::Given16 srcMatrixStride,
                    twin::Given16 columnStride, twin::Given16 dstPitch, twin::Given16 dstMatrixStride)
        : ndNum(matrices),
          nValue(rows),
          dValue(columns),
          srcNdMatrixStride(srcMatrixStride),
          srcNStride(columnStride),
          dstDStride(dstPitch),
          dstNdMatrixStride(dstMatrixStride)
    {
    }
};

/// Loads fractals of 512 bytes from L1 to L0. All counts are in fractals: srcStride from start to start, dstGap from
/// end to start.
struct LoadData2DParams {
    twin::Given16 startIndex = 0;
    twin::Given16 dstGap = 0;
    twin::Given16 srcStride = 0;
    bool ifTranspose = false;
    twin::Given8 repeatTimes = 0;
    twin::Given8 sid = 0;
    twin::Given8 addrMode = 0;

    LoadData2DParams() = default;
    LoadData2DParams(twin::Given16 start, twin::Given8 repeats, twin::Given16 stride, twin::Given8 sidIn,
                     twin::Given16 gap, bool transpose, twin::Given8 mode)
        : startIndex(start),
          dstGap(gap),
          srcStride(stride),
          ifTranspose(transpose),
          repeatTimes(repeats),
          sid(sidIn),
          addrMode(mode)
    {
    }
};
// The name in kernels for earlier releases.
using LoadData2dParams = LoadData2DParams;

/// Loads and transposes squares of one (2-byte types) or two (float) fractals from L1 to L0.
struct LoadData2dTransposeParams {
    twin::Given16 startIndex = 0;
    twin::Given8 repeatTimes = 0;
    twin::Given16 srcStride = 0;
    twin::Given16 dstGap = 0;
    twin::Given16 dstFracGap = 0;
    twin::Given8 addrMode = 0;

    LoadData2dTransposeParams() = default;
    LoadData2dTransposeParams(twin::Given16 start, twin::Given8 repeats, twin::Given16 stride, twin::Given16 gap,
                              twin::Given16 fractalGap, twin::Given8 mode = 0)
        : startIndex(start),
          repeatTimes(repeats),
          srcStride(stride),
          dstGap(gap),
          dstFracGap(fractalGap),
          addrMode(mode)
    {
    }
};

/// Whether LoadData sets the size and the padding of its image itself, or uses those of SetFmatrix and
/// SetLoadDataPaddingValue.
struct IsResetLoad3dConfig {
    bool isSetFMatrix = true;
    bool isSetPadding = true;
};
inline constexpr IsResetLoad3dConfig IS_RESER_LOAD3D_DEFAULT_CONFIG = {true, true};

enum class FmatrixMode : uint8_t { FMATRIX_LEFT = 0, FMATRIX_RIGHT = 1 };

/// Repetitions of LoadData with LoadData3DParamsV2. repeatStride is in 16 rows (repeatMode 0) or in columns of 32 bytes
/// (repeatMode 1).
struct LoadDataRepeatParam {
    twin::Given16 repeatStride = 0;
    twin::Given8 repeatTime = 1;
    twin::Given8 repeatMode = 0;
    twin::Given8 reserved = 0;

    LoadDataRepeatParam() = default;
    LoadDataRepeatParam(twin::Given16 stride, twin::Given8 times, twin::Given8 mode)
        : repeatStride(stride), repeatTime(times), repeatMode(mode)
    {
    }
};

/// Loads a part of the matrix whose rows are the windows of a convolution over an image in L1.
template <typename T>
struct LoadData3DParamsV2 {
    uint8_t padList[4] = {0, 0, 0, 0};
    twin::Given16 l1H = 0;
    twin::Given16 l1W = 0;
    twin::Given16 channelSize = 0;
    twin::Given16 kExtension = 0;
    twin::Given16 mExtension = 0;
    twin::Given16 kStartPt = 0;
    twin::Given16 mStartPt = 0;
    twin::Given8 strideW = 1;
    twin::Given8 strideH = 1;
    twin::Given8 filterW = 1;
    twin::Given8 filterH = 1;
    twin::Given8 dilationFilterW = 1;
    twin::Given8 dilationFilterH = 1;
    bool enTranspose = false;
    bool enSmallK = false;
    T padValue = 0;
    bool filterSizeW = false;
    bool filterSizeH = false;
    bool fMatrixCtrl = false;

    LoadData3DParamsV2() {}
    LoadData3DParamsV2(const uint8_t pads[4], twin::Given16 height, twin::Given16 width, twin::Given16 channels,
                       twin::Given16 columns, twin::Given16 rows, twin::Given16 firstColumn, twin::Given16 firstRow,
                       twin::Given8 strideWIn, twin::Given8 strideHIn, twin::Given8 filterWIn, twin::Given8 filterHIn,
                       twin::Given8 dilationW, twin::Given8 dilationH, bool transpose, bool smallK, T pad,
                       bool wideFilter = false, bool highFilter = false, bool usesRight = false)
        : padList{pads[0], pads[1], pads[2], pads[3]},
          l1H(height),
          l1W(width),
          channelSize(channels),
          kExtension(columns),
          mExtension(rows),
          kStartPt(firstColumn),
          mStartPt(firstRow),
          strideW(strideWIn),
          strideH(strideHIn),
          filterW(filterWIn),
          filterH(filterHIn),
          dilationFilterW(dilationW),
          dilationFilterH(dilationH),
          enTranspose(transpose),
          enSmallK(smallK),
          padValue(pad),
          filterSizeW(wideFilter),
          filterSizeH(highFilter),
          fMatrixCtrl(usesRight)
    {
    }
};

/// The same with combined fields; SetFmatrix and SetLoadDataPaddingValue give the image and the padding.
struct LoadData3DParamsV2Pro {
    twin::Given16 channelSize = 0;
    bool enTranspose = false;
    bool enSmallK = false;
    bool filterSizeW = false;
    bool filterSizeH = false;
    bool fMatrixCtrl = false;
    uint64_t extConfig = 0;                 ///< 16 bits each: kExtension, mExtension, kStartPt, mStartPt
    uint64_t filterConfig = 0x10101010101;  ///< 8 bits each: strides, filter and dilation, each W and H

    LoadData3DParamsV2Pro() {}
    LoadData3DParamsV2Pro(twin::Given16 channels, bool transpose, bool smallK, bool wideFilter, bool highFilter,
                          bool usesRight, uint64_t extent, uint64_t filter)
        : channelSize(channels),
          enTranspose(transpose),
          enSmallK(smallK),
          filterSizeW(wideFilter),
          filterSizeH(highFilter),
          fMatrixCtrl(usesRight),
          extConfig(extent),
          filterConfig(filter)
    {
    }

    template <typename T>
    LoadData3DParamsV2<T> Fields() const
    {
        const auto word = [](uint64_t value, int index) { return static_cast<uint16_t>(value >> (16 * index)); };
        const auto byte = [](uint64_t value, int index) { return static_cast<uint8_t>(value >> (8 * index)); };
        LoadData3DParamsV2<T> fields;
        fields.channelSize = channelSize;
        fields.kExtension = word(extConfig, 0);
        fields.mExtension = word(extConfig, 1);
        fields.kStartPt = word(extConfig, 2);
        fields.mStartPt = word(extConfig, 3);
        fields.strideW = byte(filterConfig, 0);
        fields.strideH = byte(filterConfig, 1);
        fields.filterW = byte(filterConfig, 2);
        fields.filterH = byte(filterConfig, 3);
        fields.dilationFilterW = byte(filterConfig, 4);
        fields.dilationFilterH = byte(filterConfig, 5);
        fields.enTranspose = enTranspose;
        fields.enSmallK = enSmallK;
        fields.filterSizeW = filterSizeW;
        fields.filterSizeH = filterSizeH;
        fields.fMatrixCtrl = fMatrixCtrl;
        return fields;
    }
};

/// For LoadData of other products; a use is a compile error.
struct LoadData2DParamsV2 {
    uint32_t mStartPosition = 0;
    uint32_t kStartPosition = 0;
    uint16_t mStep = 0;
    uint16_t kStep = 0;
    int32_t srcStride = 0;
    uint16_t dstStride = 0;
    bool ifTranspose = false;
    uint8_t sid = 0;

    LoadData2DParamsV2() {}
};

/// Blocks of 32 bytes in L1, or 512 bytes in L0A and L0B.
template <typename T>
struct InitConstValueParams {
    twin::Given16 repeatTimes = 0;
    twin::Given16 blockNum = 0;
    twin::Given16 dstGap = 0;
    T initValue = 0;

    InitConstValueParams() = default;
    InitConstValueParams(twin::Given16 repeats, twin::Given16 blocks, twin::Given16 gap, T value)
        : repeatTimes(repeats), blockNum(blocks), dstGap(gap), initValue(value)
    {
    }
    /// For other products: without blocks the instruction does nothing.
    InitConstValueParams(twin::Given16 repeats, T value) : repeatTimes(repeats), initValue(value) {}
};

// The values of unitFlag, by the names that public kernels use.
constexpr uint8_t UFMode0 = 0;
constexpr uint8_t UFMode2 = 2;
constexpr uint8_t UFMode3 = 3;

struct MmadParams {
    twin::Given16 m = 0;
    twin::Given16 n = 0;
    twin::Given16 k = 0;
    bool isBias = false;
    twin::Given<int32_t> fmOffset = 0;
    bool enSsparse = false;
    bool enWinogradA = false;
    bool enWinogradB = false;
    twin::Given8 unitFlag = 0;
    bool kDirectionAlign = false;
    bool cmatrixSource = false;
    bool cmatrixInitVal = true;

    MmadParams() = default;
    MmadParams(twin::Given16 mIn, twin::Given16 nIn, twin::Given16 kIn, twin::Given8 unitFlagIn, bool source,
               bool initVal)
        : m(mIn), n(nIn), k(kIn), unitFlag(unitFlagIn), cmatrixSource(source), cmatrixInitVal(initVal)
    {
    }
    MmadParams(twin::Given16 mIn, twin::Given16 nIn, twin::Given16 kIn, bool bias, twin::Given<int32_t> offset,
               bool sparse, bool winogradA, bool winogradB)
        : m(mIn),
          n(nIn),
          k(kIn),
          isBias(bias),
          fmOffset(offset),
          enSsparse(sparse),
          enWinogradA(winogradA),
          enWinogradB(winogradB)
    {
    }
};

/// srcStride is in units of 16 elements of L0C; dstStride is in elements (rows of GM) or 32-byte blocks (fractals).
struct FixpipeParamsV220 {
    twin::Given16 nSize = 0;
    twin::Given16 mSize = 0;
    twin::Given16 srcStride = 0;
    twin::Given32 dstStride = 0;
    QuantMode_t quantPre = NoQuant;
    uint64_t deqScalar = 0;
    twin::Given16 ndNum = 1;
    twin::Given16 srcNdStride = 0;
    twin::Given16 dstNdStride = 0;
    bool reluEn = false;
    twin::Given8 unitFlag = 0;
    bool isChannelSplit = false;

    FixpipeParamsV220() = default;
    FixpipeParamsV220(twin::Given16 n, twin::Given16 m, twin::Given16 srcPitch, twin::Given32 dstPitch, bool relu)
        : nSize(n), mSize(m), srcStride(srcPitch), dstStride(dstPitch), reluEn(relu)
    {
    }
    FixpipeParamsV220(twin::Given16 n, twin::Given16 m, twin::Given16 srcPitch, twin::Given32 dstPitch, bool relu,
                      QuantMode_t quant, twin::Given<int64_t> scalar, twin::Given16 matrices,
                      twin::Given16 srcMatrixStride, twin::Given16 dstMatrixStride, twin::Given8 unitFlagIn,
                      bool channelSplit = false)
        : nSize(n),
          mSize(m),
          srcStride(srcPitch),
          dstStride(dstPitch),
          quantPre(quant),
          deqScalar(static_cast<uint64_t>(scalar)),
          ndNum(matrices),
          srcNdStride(srcMatrixStride),
          dstNdStride(dstMatrixStride),
          reluEn(relu),
          unitFlag(unitFlagIn),
          isChannelSplit(channelSplit)
    {
    }
};

// The parameters of Fixpipe before FixpipeParamsV220: cburstNum columns of fractals of burstLen * 32 bytes.
struct QuantParams {
    QuantMode_t quantPre = NoQuant;
    uint64_t deqScalar = 0;
};
struct Nz2NdParams {
    bool nz2ndEn = false;
    uint16_t ndNum = 1;
    uint16_t srcNdStride = 0;
    uint16_t dstNdStride = 0;
    uint16_t originalNSize = 0;
};
template <typename SrcT = int32_t>
struct FixpipeParams {
    twin::Given16 cburstNum = 1;
    twin::Given16 burstLen = 1;
    twin::Given32 dstStride = 0;
    twin::Given16 srcStride = 0;
    QuantParams quantParams;
    bool reluEn = false;
    Nz2NdParams nz2ndParams;
    twin::Given8 unitFlag = 0;

    FixpipeParams() = default;
    FixpipeParams(twin::Given16 count, twin::Given16 len, twin::Given16 srcStrideIn, twin::Given32 dstStrideIn)
        : cburstNum(count), burstLen(len), dstStride(dstStrideIn), srcStride(srcStrideIn)
    {
    }

    /// The same copy with the later parameters; strides of FixpipeParams are gaps between fractal columns.
    FixpipeParamsV220 Later(size_t dstBytes) const
    {
        const int64_t rows = static_cast<int64_t>(burstLen) * 32 / (16 * sizeof(SrcT));
        const bool isRows = nz2ndParams.nz2ndEn;
        FixpipeParamsV220 params;
        params.nSize = isRows ? nz2ndParams.originalNSize : static_cast<int64_t>(cburstNum) * 16;
        params.mSize = rows;
        params.srcStride = static_cast<int64_t>(srcStride) * 16 + (rows + 15) / 16 * 16;
        const int64_t length =
            static_cast<int64_t>(burstLen) * static_cast<int64_t>(dstBytes) / static_cast<int64_t>(sizeof(SrcT));
        params.dstStride = dstStride + (isRows ? 0 : length);
        params.quantPre = quantParams.quantPre;
        params.deqScalar = quantParams.deqScalar;
        params.ndNum = nz2ndParams.ndNum;
        params.srcNdStride = nz2ndParams.srcNdStride;
        params.dstNdStride = nz2ndParams.dstNdStride;
        params.reluEn = reluEn;
        params.unitFlag = unitFlag;
        return params;
    }
};

/// L0C to global memory as fractals, or as rows with nz2ndEn; L0C to L1 as fractals.
struct DataCopyCO12DstParams {
    twin::Given8 sid = 0;
    twin::Given16 nSize = 0;
    twin::Given16 mSize = 0;
    twin::Given32 dstStride = 0;
    twin::Given16 srcStride = 0;
    twin::Given8 unitFlag = 0;
    twin::Given8 clipReluPre = 0;
    twin::Given8 eltWiseOp = 0;
    QuantMode_t quantPre = NoQuant;
    twin::Given8 reluPre = 0;
    bool channelSplit = false;
    bool nz2ndEn = false;

    DataCopyCO12DstParams() = default;
    DataCopyCO12DstParams(const twin::Given16 n, const twin::Given16 m, const twin::Given32 dstPitch,
                          const twin::Given16 srcPitch, const QuantMode_t quant, const twin::Given8 relu,
                          const bool split, const bool isRows)
        : nSize(n),
          mSize(m),
          dstStride(dstPitch),
          srcStride(srcPitch),
          quantPre(quant),
          reluPre(relu),
          channelSplit(split),
          nz2ndEn(isRows)
    {
    }
};

struct FixpipeConfig {
    CO2Layout format;
    bool isToUB;  ///< without effect: L0C has no path to the unified buffer

    constexpr FixpipeConfig(CO2Layout layout, bool toUB = false, bool /*enableFixVal*/ = false)
        : format(layout), isToUB(toUB)
    {
    }
};

inline constexpr FixpipeConfig CFG_NZ{CO2Layout::NZ};
inline constexpr FixpipeConfig CFG_ROW_MAJOR{CO2Layout::ROW_MAJOR};
inline constexpr FixpipeConfig CFG_COLUMN_MAJOR{CO2Layout::COLUMN_MAJOR};  ///< a use is a compile error

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_CUBE_PARAMS_H
