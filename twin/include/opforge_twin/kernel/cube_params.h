// Parameter structures of the instructions of cube cores, wider than the device's like those of params.h.
#ifndef OPFORGE_TWIN_KERNEL_CUBE_PARAMS_H
#define OPFORGE_TWIN_KERNEL_CUBE_PARAMS_H

#include "opforge_twin/kernel/params.h"

enum QuantMode_t : unsigned int {
    NoQuant = 0,
    F322F16 = 1,
    F322BF16 = 16,
};

namespace AscendC {

enum class CO2Layout : uint8_t { NZ = 0, ROW_MAJOR = 1, COLUMN_MAJOR = 2 };

/// Rows of GM to fractals of L1 (no list of numbers: DataCopy takes DataCopyParams from one). Strides of the source and
/// dstNzMatrixStride in elements, the others in 32-byte blocks.
struct Nd2NzParams {
    int64_t ndNum = 0;
    int64_t nValue = 0;
    int64_t dValue = 0;
    int64_t srcNdMatrixStride = 0;
    int64_t srcDValue = 0;
    int64_t dstNzC0Stride = 0;
    int64_t dstNzNStride = 0;
    int64_t dstNzMatrixStride = 0;

    Nd2NzParams() = default;
    Nd2NzParams(int64_t matrices, int64_t rows, int64_t columns, int64_t srcMatrixStride, int64_t srcPitch,
                int64_t c0Stride, int64_t rowStride, int64_t dstMatrixStride)
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

/// Fractals of 512 bytes from L1 to L0: all in fractals, srcStride from start to start, dstGap from end to start.
struct LoadData2DParams {
    int64_t startIndex = 0;
    int64_t dstGap = 0;
    int64_t srcStride = 0;
    bool ifTranspose = false;
    int64_t repeatTimes = 0;
    int64_t sid = 0;
    int64_t addrMode = 0;

    LoadData2DParams() = default;
    LoadData2DParams(int64_t start, int64_t repeats, int64_t stride, int64_t sidIn, int64_t gap, bool transpose,
                     int64_t mode)
        : startIndex(start),
          dstGap(gap),
          srcStride(stride),
          ifTranspose(transpose),
          repeatTimes(repeats),
          sid(sidIn),
          addrMode(mode)
    {
    }
    LoadData2DParams(std::initializer_list<uint16_t> values,
                     opforge::twin::kernel::Location at = opforge::twin::kernel::Location::Here())
        : LoadData2DParams(opforge::twin::kernel::Listed<uint16_t>(values, 7, "values of LoadData2DParams", at))
    {
    }

private:
    explicit LoadData2DParams(const opforge::twin::kernel::Listed<uint16_t>& v)
        : LoadData2DParams(v[0], v[1], v[2], v[3], v[4], v[5] != 0, v[6])
    {
    }
};

/// Squares of one (2-byte types) or two (float) fractals from L1 to L0, transposed.
struct LoadData2dTransposeParams {
    int64_t startIndex = 0;
    int64_t repeatTimes = 0;
    int64_t srcStride = 0;
    int64_t dstGap = 0;
    int64_t dstFracGap = 0;
    int64_t addrMode = 0;

    LoadData2dTransposeParams() = default;
    LoadData2dTransposeParams(int64_t start, int64_t repeats, int64_t stride, int64_t gap, int64_t fractalGap,
                              int64_t mode = 0)
        : startIndex(start),
          repeatTimes(repeats),
          srcStride(stride),
          dstGap(gap),
          dstFracGap(fractalGap),
          addrMode(mode)
    {
    }
    LoadData2dTransposeParams(std::initializer_list<uint16_t> values,
                              opforge::twin::kernel::Location at = opforge::twin::kernel::Location::Here())
        : LoadData2dTransposeParams(
              opforge::twin::kernel::Listed<uint16_t>(values, 5, "values of LoadData2dTransposeParams", at))
    {
    }

private:
    explicit LoadData2dTransposeParams(const opforge::twin::kernel::Listed<uint16_t>& v)
        : LoadData2dTransposeParams(v[0], v[1], v[2], v[3], v[4])
    {
    }
};

/// A window of a matrix in L1 to L0, as a convolution with a 1 x 1 filter over an image of one row.
template <typename T>
struct LoadData3DParamsV2 {
    uint8_t padList[4] = {0, 0, 0, 0};
    int64_t l1H = 0;
    int64_t l1W = 0;
    int64_t channelSize = 0;
    int64_t kExtension = 0;
    int64_t mExtension = 0;
    int64_t kStartPt = 0;
    int64_t mStartPt = 0;
    int64_t strideW = 1;
    int64_t strideH = 1;
    int64_t filterW = 1;
    int64_t filterH = 1;
    int64_t dilationFilterW = 1;
    int64_t dilationFilterH = 1;
    bool enTranspose = false;
    bool enSmallK = false;
    T padValue = 0;
    bool filterSizeW = false;
    bool filterSizeH = false;
    bool fMatrixCtrl = false;

    LoadData3DParamsV2() {}
};

/// Blocks of 32 bytes in L1, of 512 bytes in L0A and L0B.
template <typename T>
struct InitConstValueParams {
    int64_t repeatTimes = 0;
    int64_t blockNum = 0;
    int64_t dstGap = 0;
    T initValue = 0;

    InitConstValueParams() = default;
    InitConstValueParams(int64_t repeats, int64_t blocks, int64_t gap, T value)
        : repeatTimes(repeats), blockNum(blocks), dstGap(gap), initValue(value)
    {
    }
};

struct MmadParams {
    int64_t m = 0;
    int64_t n = 0;
    int64_t k = 0;
    bool isBias = false;
    int64_t fmOffset = 0;
    bool enSsparse = false;
    bool enWinogradA = false;
    bool enWinogradB = false;
    int64_t unitFlag = 0;
    bool kDirectionAlign = false;
    bool cmatrixSource = false;
    bool cmatrixInitVal = true;

    MmadParams() = default;
    MmadParams(int64_t mIn, int64_t nIn, int64_t kIn, int64_t unitFlagIn, bool source, bool initVal)
        : m(mIn), n(nIn), k(kIn), unitFlag(unitFlagIn), cmatrixSource(source), cmatrixInitVal(initVal)
    {
    }
    MmadParams(std::initializer_list<uint16_t> values,
               opforge::twin::kernel::Location at = opforge::twin::kernel::Location::Here())
        : MmadParams(opforge::twin::kernel::Listed<uint16_t>(values, 6, "values of MmadParams", at))
    {
    }

private:
    explicit MmadParams(const opforge::twin::kernel::Listed<uint16_t>& v)
        : MmadParams(v[0], v[1], v[2], v[3], v[4] != 0, v[5] != 0)
    {
    }
};

/// srcStride in 16 elements of L0C; dstStride in elements (rows of GM) or 32-byte blocks (fractals).
struct FixpipeParamsV220 {
    int64_t nSize = 0;
    int64_t mSize = 0;
    int64_t srcStride = 0;
    int64_t dstStride = 0;
    QuantMode_t quantPre = NoQuant;
    uint64_t deqScalar = 0;
    int64_t ndNum = 1;
    int64_t srcNdStride = 0;
    int64_t dstNdStride = 0;
    bool reluEn = false;
    int64_t unitFlag = 0;
    bool isChannelSplit = false;

    FixpipeParamsV220() = default;
    FixpipeParamsV220(int64_t n, int64_t m, int64_t srcPitch, int64_t dstPitch, bool relu)
        : nSize(n), mSize(m), srcStride(srcPitch), dstStride(dstPitch), reluEn(relu)
    {
    }
    FixpipeParamsV220(int64_t n, int64_t m, int64_t srcPitch, int64_t dstPitch, bool relu, QuantMode_t quant,
                      int64_t scalar, int64_t matrices, int64_t srcMatrixStride, int64_t dstMatrixStride,
                      int64_t unitFlagIn, bool channelSplit = false)
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

struct FixpipeConfig {
    CO2Layout format;
};

inline constexpr FixpipeConfig CFG_NZ{CO2Layout::NZ};
inline constexpr FixpipeConfig CFG_ROW_MAJOR{CO2Layout::ROW_MAJOR};

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_CUBE_PARAMS_H
