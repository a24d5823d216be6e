// Transposition of blocks and matrices in the unified buffer.
#ifndef OPFORGE_TWIN_KERNEL_TRANSPOSE_H
#define OPFORGE_TWIN_KERNEL_TRANSPOSE_H

#include "opforge_twin/kernel/gates.h"
#include "opforge_twin/kernel/params.h"
#include "opforge_twin/kernel/tensor.h"

namespace AscendC {

inline constexpr int32_t NCHW_CONV_ADDR_LIST_SIZE = 16;

struct TransDataTo5HDParams {
    bool dstHighHalf = false;
    bool srcHighHalf = false;
    twin::Given8 repeatTimes = 1;
    twin::Given16 dstRepStride = 0;
    twin::Given16 srcRepStride = 0;

    TransDataTo5HDParams() = default;
    constexpr TransDataTo5HDParams(const bool dstHigh, const bool srcHigh, const twin::Given8 repeats,
                                   const twin::Given16 dstStride, const twin::Given16 srcStride)
        : dstHighHalf(dstHigh),
          srcHighHalf(srcHigh),
          repeatTimes(repeats),
          dstRepStride(dstStride),
          srcRepStride(srcStride)
    {
    }
};

struct TransposeParamsExt {
    twin::Given16 nSize = 0;
    twin::Given16 cSize = 0;
    twin::Given16 hSize = 0;
    twin::Given16 wSize = 0;
    TransposeType transposeType = TransposeType::TRANSPOSE_ND2ND_B16;

    TransposeParamsExt() = default;
    TransposeParamsExt(const twin::Given16 n, const twin::Given16 c, const twin::Given16 h, const twin::Given16 w,
                       const TransposeType type)
        : nSize(n), cSize(c), hSize(h), wSize(w), transposeType(type)
    {
    }
};

}  // namespace AscendC

namespace opforge::twin::kernel {

inline constexpr size_t kBlockList = AscendC::NCHW_CONV_ADDR_LIST_SIZE;

/// `viewOf`: from a number of an address to its view, of dst and of src.
template <typename T, typename Dst, typename Src>
void TransposeBlocks(const Dst& dstOf, const Src& srcOf, const AscendC::TransDataTo5HDParams& params, const Call& call)
{
    static_assert(kIsAnyOf<T, int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float>,
                  "TransDataTo5HD: Ascend 910B has int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float");
    BlockTransposition blocks{
        {}, {}, params.dstHighHalf, params.srcHighHalf, params.repeatTimes, params.dstRepStride, params.srcRepStride};
    for (size_t index = 0; index < kBlockList; ++index) {
        blocks.dst[index] = dstOf(index);
        blocks.src[index] = srcOf(index);
    }
    TransposeBlocks(blocks, call);
}

/// Transposes a matrix of 16 x 16 elements of 2 bytes.
template <typename T>
void TransposeSquare(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const Call& call)
{
    const auto row = [](const AscendC::LocalTensor<T>& tensor) {
        return [&tensor](size_t index) { return tensor[static_cast<int64_t>(index) * kBlockList].View(); };
    };
    TransposeBlocks<T>(row(dst), row(src), {}, call);
}

}  // namespace opforge::twin::kernel

namespace AscendC {

/// Moves element j of the i-th source block to element i of the j-th destination block. Elements of 4 bytes fill two
/// destination blocks for each j; of 1 byte, half blocks are read and written.
template <typename T>
OPFORGE_API void TransDataTo5HD(const LocalTensor<T> (&dstList)[NCHW_CONV_ADDR_LIST_SIZE],
                                const LocalTensor<T> (&srcList)[NCHW_CONV_ADDR_LIST_SIZE],
                                const TransDataTo5HDParams& nchwconvParams)
{
    twin::GateTransDataTo5HD<T>();
    twin::TransposeBlocks<T>([&](size_t index) { return dstList[index].View(); },
                             [&](size_t index) { return srcList[index].View(); }, nchwconvParams,
                             {"TransDataTo5HD", twin::Here()});
}

/// The same with addresses from GetPhyAddr.
template <typename T>
OPFORGE_API void TransDataTo5HD(uint64_t dstList[NCHW_CONV_ADDR_LIST_SIZE], uint64_t srcList[NCHW_CONV_ADDR_LIST_SIZE],
                                const TransDataTo5HDParams& nchwconvParams)
{
    twin::GateTransDataTo5HD<T>();
    const twin::Call call{"TransDataTo5HD", twin::Here()};
    const auto viewOf = [&call](uint64_t address) {
        return twin::ViewOf(address, twin::DtypeOf<T>(), sizeof(PrimT<T>), call);
    };
    twin::TransposeBlocks<T>([&](size_t index) { return viewOf(dstList[index]); },
                             [&](size_t index) { return viewOf(srcList[index]); }, nchwconvParams, call);
}

/// The same with addresses in the unified buffer, which the scalar unit reads.
template <typename T>
OPFORGE_API void TransDataTo5HD(const LocalTensor<uint64_t>& dst, const LocalTensor<uint64_t>& src,
                                const TransDataTo5HDParams& nchwconvParams)
{
    twin::GateTransDataTo5HD<T>();
    const twin::Call call{"TransDataTo5HD", twin::Here()};
    const auto viewOf = [&call](const LocalTensor<uint64_t>& list, size_t index) {
        return twin::ViewOf(twin::ReadLocal(list.View(), static_cast<int64_t>(index), call), twin::DtypeOf<T>(),
                            sizeof(PrimT<T>), call);
    };
    twin::TransposeBlocks<T>([&](size_t index) { return viewOf(dst, index); },
                             [&](size_t index) { return viewOf(src, index); }, nchwconvParams, call);
}

/// Transposes a matrix of 16 x 16 elements.
template <typename T>
OPFORGE_API void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src)
{
    twin::GateTranspose<T>();
    static_assert(twin::kIsAnyOf<T, int16_t, uint16_t, half>, "Transpose: Ascend 910B has int16_t, uint16_t, half");
    twin::TransposeSquare(dst, src, {"Transpose", twin::Here()});
}

/// Transposes a matrix of 16 x 16 elements, or converts between NCHW and NHWC.
template <typename T>
OPFORGE_API void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                           const LocalTensor<uint8_t>& sharedTmpBuffer, const TransposeParamsExt& transposeParams)
{
    twin::GateTranspose<T>();
    static_assert(twin::kIsAnyOf<T, int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float>,
                  "Transpose: Ascend 910B has types of 1, 2 and 4 bytes");
    const twin::Call call{"Transpose", twin::Here()};
    const TransposeType type = transposeParams.transposeType;
    if (type == TransposeType::TRANSPOSE_ND2ND_B16) {
        twin::Field("transposeType (TRANSPOSE_ND2ND_B16 transposes 2-byte types)", sizeof(PrimT<T>), 2, 2, call);
        twin::TransposeSquare(dst, src, call);
        return;
    }
    twin::Field("transposeType", static_cast<int64_t>(type), static_cast<int64_t>(TransposeType::TRANSPOSE_ND2ND_B16),
                static_cast<int64_t>(TransposeType::TRANSPOSE_NHWC2NCHW), call);
    const int64_t n = twin::Field("nSize", transposeParams.nSize, 0, 65535, call);
    const int64_t c = twin::Field("cSize", transposeParams.cSize, 0, 4095, call);
    const int64_t plane =
        twin::Field("hSize * wSize", int64_t{transposeParams.hSize} * transposeParams.wSize, 0, 4095, call);
    twin::RequireMultiple("hSize * wSize * sizeof(T)", plane * static_cast<int64_t>(sizeof(PrimT<T>)), 32, "bytes",
                          "pad the plane", call);
    const bool isToNhwc = type == TransposeType::TRANSPOSE_NCHW2NHWC;
    // The documented size: tiles of h0 rows of 32 bytes.
    const int64_t tile = (sizeof(PrimT<T>) == 1 ? 32 : 16) * 32;
    twin::TransposeMatrices(dst.View(), src.View(), sharedTmpBuffer.View(), (isToNhwc ? c + 2 : c * 2 + 1) * tile, n,
                            isToNhwc ? c : plane, isToNhwc ? plane : c, call);
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_TRANSPOSE_H
