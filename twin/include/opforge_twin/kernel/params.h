// Parameter structures of instructions. Fields are wider than on the device, so the instruction detects a value that
// does not fit; on the device it would wrap. With OPFORGE_TWIN_DEVICE_FIELDS, fields have the device types. Kernels
// must also compile in that mode, because a narrowing conversion in braces does not compile on the device.
#ifndef OPFORGE_TWIN_KERNEL_PARAMS_H
#define OPFORGE_TWIN_KERNEL_PARAMS_H

#include "opforge_twin/kernel/runtime.h"

namespace opforge::twin::kernel {

/// The host type of a device field of type T.
#ifdef OPFORGE_TWIN_DEVICE_FIELDS
template <typename T>
using Given = T;
#else
template <typename T>
using Given = int64_t;
#endif
using Given8 = Given<uint8_t>;
using Given16 = Given<uint16_t>;
using Given32 = Given<uint32_t>;

}  // namespace opforge::twin::kernel

namespace AscendC {

namespace twin = opforge::twin::kernel;

struct BinaryRepeatParams {
    twin::Given8 dstBlkStride = 1;
    twin::Given8 src0BlkStride = 1;
    twin::Given8 src1BlkStride = 1;
    twin::Given8 dstRepStride = 8;
    twin::Given8 src0RepStride = 8;
    twin::Given8 src1RepStride = 8;
    // Reserved.
    uint32_t blockNumber = 8;
    bool repeatStrideMode = false;
    bool strideSizeMode = false;

    BinaryRepeatParams() = default;
    BinaryRepeatParams(twin::Given8 dstBlk, twin::Given8 src0Blk, twin::Given8 src1Blk, twin::Given8 dstRep,
                       twin::Given8 src0Rep, twin::Given8 src1Rep)
        : dstBlkStride(dstBlk),
          src0BlkStride(src0Blk),
          src1BlkStride(src1Blk),
          dstRepStride(dstRep),
          src0RepStride(src0Rep),
          src1RepStride(src1Rep)
    {
    }
};

struct UnaryRepeatParams {
    twin::Given16 dstBlkStride = 1;
    twin::Given16 srcBlkStride = 1;
    twin::Given8 dstRepStride = 8;
    twin::Given8 srcRepStride = 8;
    // Reserved.
    uint32_t blockNumber = 8;
    bool repeatStrideMode = false;
    bool strideSizeMode = false;
    bool halfBlock = false;  ///< without effect: a template parameter of CastDequant selects the half

    UnaryRepeatParams() = default;
    UnaryRepeatParams(twin::Given16 dstBlk, twin::Given16 srcBlk, twin::Given8 dstRep, twin::Given8 srcRep,
                      bool halfBlockIn = false)
        : dstBlkStride(dstBlk), srcBlkStride(srcBlk), dstRepStride(dstRep), srcRepStride(srcRep), halfBlock(halfBlockIn)
    {
    }
};

struct CopyRepeatParams {
    twin::Given16 dstStride = 0;
    twin::Given16 srcStride = 0;
    twin::Given16 dstRepeatSize = 8;
    twin::Given16 srcRepeatSize = 8;

    CopyRepeatParams() = default;
    CopyRepeatParams(twin::Given16 dstBlk, twin::Given16 srcBlk, twin::Given16 dstRep, twin::Given16 srcRep)
        : dstStride(dstBlk), srcStride(srcBlk), dstRepeatSize(dstRep), srcRepeatSize(srcRep)
    {
    }
};

struct BrcbRepeatParams {
    twin::Given16 dstRepStride = 8;
    twin::Given16 dstBlkStride = 1;

    BrcbRepeatParams() = default;
    BrcbRepeatParams(twin::Given16 dstBlk, twin::Given16 dstRep) : dstRepStride(dstRep), dstBlkStride(dstBlk) {}
};

struct GatherRepeatParams {
    twin::Given16 dstRepStride = 8;
    twin::Given8 dstBlkStride = 1;

    GatherRepeatParams() = default;
    GatherRepeatParams(twin::Given8 dstBlk, twin::Given8 dstRep) : dstRepStride(dstRep), dstBlkStride(dstBlk) {}
};

struct GatherMaskParams {
    twin::Given8 src0BlockStride = 1;
    twin::Given16 repeatTimes = 0;
    twin::Given16 src0RepeatStride = 8;
    twin::Given8 src1RepeatStride = 8;

    GatherMaskParams() = default;
    GatherMaskParams(twin::Given8 blockStride, twin::Given16 repeats, twin::Given16 repeatStride,
                     twin::Given8 maskRepeatStride)
        : src0BlockStride(blockStride),
          repeatTimes(repeats),
          src0RepeatStride(repeatStride),
          src1RepeatStride(maskRepeatStride)
    {
    }
};

/// Lengths and gaps are in 32-byte blocks (DataCopy), or in bytes on the GM side (DataCopyPad).
struct DataCopyParams {
    twin::Given16 blockCount = 1;
    twin::Given16 blockLen = 0;
    union {
        twin::Given16 srcGap = 0;
        twin::Given16 srcStride;
    };
    union {
        twin::Given16 dstGap = 0;
        twin::Given16 dstStride;
    };

    DataCopyParams() = default;
    DataCopyParams(twin::Given16 count, twin::Given16 len, twin::Given16 srcGapIn, twin::Given16 dstGapIn)
        : blockCount(count), blockLen(len), srcGap(srcGapIn), dstGap(dstGapIn)
    {
    }
};

/// blockLen is in bytes. The stride is in bytes on the GM side and in 32-byte blocks on the UB side.
struct DataCopyExtParams {
    twin::Given16 blockCount = 1;
    twin::Given32 blockLen = 0;
    twin::Given32 srcStride = 0;
    twin::Given32 dstStride = 0;
    twin::Given32 rsv = 0;

    DataCopyExtParams() = default;
    DataCopyExtParams(twin::Given16 count, twin::Given32 len, twin::Given32 srcStrideIn, twin::Given32 dstStrideIn,
                      twin::Given32 rsvIn)
        : blockCount(count), blockLen(len), srcStride(srcStrideIn), dstStride(dstStrideIn), rsv(rsvIn)
    {
    }
};

struct DataCopyPadParams {
    bool isPad = false;
    twin::Given8 leftPadding = 0;
    twin::Given8 rightPadding = 0;
    uint64_t paddingValue = 0;

    DataCopyPadParams() = default;
    DataCopyPadParams(bool isPadIn, twin::Given8 left, twin::Given8 right, uint64_t value)
        : isPad(isPadIn), leftPadding(left), rightPadding(right), paddingValue(value)
    {
    }
};

/// Padding counts are in elements.
template <typename T>
struct DataCopyPadExtParams {
    bool isPad = false;
    twin::Given8 leftPadding = 0;
    twin::Given8 rightPadding = 0;
    T paddingValue = 0;

    DataCopyPadExtParams() = default;
    DataCopyPadExtParams(bool isPadValue, twin::Given8 left, twin::Given8 right, T value)
        : isPad(isPadValue), leftPadding(left), rightPadding(right), paddingValue(value)
    {
    }
    /// A number of another type, which public kernels also pass for bfloat16_t.
    template <typename U, typename = std::enable_if_t<std::is_arithmetic_v<U> && !std::is_same_v<U, T>>>
    DataCopyPadExtParams(bool isPadValue, twin::Given8 left, twin::Given8 right, U value)
        : isPad(isPadValue), leftPadding(left), rightPadding(right), paddingValue(static_cast<T>(value))
    {
    }
};

/// Conversions on the way of a copy. On this architecture copies between global memory and the unified buffer have
/// none of them.
struct DataCopyEnhancedParams {
    BlockMode blockMode = BlockMode::BLOCK_MODE_NORMAL;
    DeqScale deqScale = DeqScale::DEQ_NONE;
    uint64_t deqValue = 0;
    uint8_t sidStoreMode = 0;
    bool isRelu = false;
    pad_t padMode = pad_t::PAD_NONE;
    uint64_t padValue = 0;

    DataCopyEnhancedParams() = default;
    DataCopyEnhancedParams(const BlockMode mode, const DeqScale scale, const uint64_t value, const uint8_t storeMode,
                           const bool relu, const pad_t padding = pad_t::PAD_NONE, const uint64_t filling = 0)
        : blockMode(mode),
          deqScale(scale),
          deqValue(value),
          sidStoreMode(storeMode),
          isRelu(relu),
          padMode(padding),
          padValue(filling)
    {
    }
};

/// The slices of a dimension. Indices and stride (the gap between slices) are in elements, burstLen in 32-byte blocks.
struct SliceInfo {
    uint32_t startIndex = 0;
    uint32_t endIndex = 0;
    uint32_t stride = 0;
    uint32_t burstLen = 0;
    uint32_t shapeValue = 0;

    SliceInfo() = default;
    SliceInfo(const uint32_t start, const uint32_t end, const uint32_t gap, const uint32_t burst,
              const uint32_t shape = 0)
        : startIndex(start), endIndex(end), stride(gap), burstLen(burst), shapeValue(shape)
    {
    }
};

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_PARAMS_H
