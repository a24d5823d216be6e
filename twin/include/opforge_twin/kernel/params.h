// Parameter structures of the instructions. Fields are wider than the device's, so that a value that does not fit is
// seen by the instruction instead of wrapping. Braces keep the device's types: a narrowing there does not compile.
#ifndef OPFORGE_TWIN_KERNEL_PARAMS_H
#define OPFORGE_TWIN_KERNEL_PARAMS_H

#include "opforge_twin/kernel/runtime.h"

namespace opforge::twin::kernel {

/// The numbers of a braced list, one for each of `names` fields.
template <typename T>
class Listed {
public:
    Listed(std::initializer_list<T> values, int64_t expected, const char* structure, Location at)
        : values_(values.begin())
    {
        Field(structure, static_cast<int64_t>(values.size()), expected, expected, {structure, at});
    }
    int64_t operator[](size_t index) const { return static_cast<int64_t>(values_[index]); }

private:
    const T* values_;
};

}  // namespace opforge::twin::kernel

namespace AscendC {

struct BinaryRepeatParams {
    int64_t dstBlkStride = 1;
    int64_t src0BlkStride = 1;
    int64_t src1BlkStride = 1;
    int64_t dstRepStride = 8;
    int64_t src0RepStride = 8;
    int64_t src1RepStride = 8;

    BinaryRepeatParams() = default;
    BinaryRepeatParams(int64_t dstBlk, int64_t src0Blk, int64_t src1Blk, int64_t dstRep, int64_t src0Rep,
                       int64_t src1Rep)
        : dstBlkStride(dstBlk),
          src0BlkStride(src0Blk),
          src1BlkStride(src1Blk),
          dstRepStride(dstRep),
          src0RepStride(src0Rep),
          src1RepStride(src1Rep)
    {
    }
    BinaryRepeatParams(std::initializer_list<uint8_t> values,
                       opforge::twin::kernel::Location at = opforge::twin::kernel::Location::Here())
        : BinaryRepeatParams(opforge::twin::kernel::Listed<uint8_t>(values, 6, "values of BinaryRepeatParams", at))
    {
    }

private:
    explicit BinaryRepeatParams(const opforge::twin::kernel::Listed<uint8_t>& v)
        : BinaryRepeatParams(v[0], v[1], v[2], v[3], v[4], v[5])
    {
    }
};

struct UnaryRepeatParams {
    int64_t dstBlkStride = 1;
    int64_t srcBlkStride = 1;
    int64_t dstRepStride = 8;
    int64_t srcRepStride = 8;

    UnaryRepeatParams() = default;
    UnaryRepeatParams(int64_t dstBlk, int64_t srcBlk, int64_t dstRep, int64_t srcRep)
        : dstBlkStride(dstBlk), srcBlkStride(srcBlk), dstRepStride(dstRep), srcRepStride(srcRep)
    {
    }
    UnaryRepeatParams(std::initializer_list<uint16_t> values,
                      opforge::twin::kernel::Location at = opforge::twin::kernel::Location::Here())
        : UnaryRepeatParams(opforge::twin::kernel::Listed<uint16_t>(values, 4, "values of UnaryRepeatParams", at))
    {
    }

private:
    explicit UnaryRepeatParams(const opforge::twin::kernel::Listed<uint16_t>& v)
        : UnaryRepeatParams(v[0], v[1], v[2], v[3])
    {
    }
};

struct CopyRepeatParams {
    int64_t dstStride = 0;
    int64_t srcStride = 0;
    int64_t dstRepeatSize = 8;
    int64_t srcRepeatSize = 8;

    CopyRepeatParams() = default;
    CopyRepeatParams(int64_t dstBlk, int64_t srcBlk, int64_t dstRep, int64_t srcRep)
        : dstStride(dstBlk), srcStride(srcBlk), dstRepeatSize(dstRep), srcRepeatSize(srcRep)
    {
    }
    CopyRepeatParams(std::initializer_list<uint16_t> values,
                     opforge::twin::kernel::Location at = opforge::twin::kernel::Location::Here())
        : CopyRepeatParams(opforge::twin::kernel::Listed<uint16_t>(values, 4, "values of CopyRepeatParams", at))
    {
    }

private:
    explicit CopyRepeatParams(const opforge::twin::kernel::Listed<uint16_t>& v)
        : CopyRepeatParams(v[0], v[1], v[2], v[3])
    {
    }
};

struct BrcbRepeatParams {
    int64_t dstRepStride = 8;
    int64_t dstBlkStride = 1;

    BrcbRepeatParams() = default;
    BrcbRepeatParams(int64_t dstBlk, int64_t dstRep) : dstRepStride(dstRep), dstBlkStride(dstBlk) {}
    BrcbRepeatParams(std::initializer_list<uint16_t> values,
                     opforge::twin::kernel::Location at = opforge::twin::kernel::Location::Here())
        : BrcbRepeatParams(opforge::twin::kernel::Listed<uint16_t>(values, 2, "values of BrcbRepeatParams", at))
    {
    }

private:
    explicit BrcbRepeatParams(const opforge::twin::kernel::Listed<uint16_t>& v) : BrcbRepeatParams(v[0], v[1]) {}
};

struct GatherRepeatParams {
    int64_t dstRepStride = 8;
    int64_t dstBlkStride = 1;

    GatherRepeatParams() = default;
    GatherRepeatParams(int64_t dstBlk, int64_t dstRep) : dstRepStride(dstRep), dstBlkStride(dstBlk) {}
    GatherRepeatParams(std::initializer_list<uint8_t> values,
                       opforge::twin::kernel::Location at = opforge::twin::kernel::Location::Here())
        : GatherRepeatParams(opforge::twin::kernel::Listed<uint8_t>(values, 2, "values of GatherRepeatParams", at))
    {
    }

private:
    explicit GatherRepeatParams(const opforge::twin::kernel::Listed<uint8_t>& v) : GatherRepeatParams(v[0], v[1]) {}
};

struct GatherMaskParams {
    int64_t src0BlockStride = 1;
    int64_t repeatTimes = 0;
    int64_t src0RepeatStride = 8;
    int64_t src1RepeatStride = 8;

    GatherMaskParams() = default;
    GatherMaskParams(int64_t blockStride, int64_t repeats, int64_t repeatStride, int64_t maskRepeatStride)
        : src0BlockStride(blockStride),
          repeatTimes(repeats),
          src0RepeatStride(repeatStride),
          src1RepeatStride(maskRepeatStride)
    {
    }
    GatherMaskParams(std::initializer_list<uint16_t> values,
                     opforge::twin::kernel::Location at = opforge::twin::kernel::Location::Here())
        : GatherMaskParams(opforge::twin::kernel::Listed<uint16_t>(values, 4, "values of GatherMaskParams", at))
    {
    }

private:
    explicit GatherMaskParams(const opforge::twin::kernel::Listed<uint16_t>& v)
        : GatherMaskParams(v[0], v[1], v[2], v[3])
    {
    }
};

/// Lengths and gaps in 32-byte blocks (DataCopy), or in bytes on the GM side (DataCopyPad).
struct DataCopyParams {
    int64_t blockCount = 1;
    int64_t blockLen = 0;
    union {
        int64_t srcGap = 0;
        int64_t srcStride;
    };
    union {
        int64_t dstGap = 0;
        int64_t dstStride;
    };

    DataCopyParams() = default;
    DataCopyParams(int64_t count, int64_t len, int64_t srcGapIn, int64_t dstGapIn)
        : blockCount(count), blockLen(len), srcGap(srcGapIn), dstGap(dstGapIn)
    {
    }
    DataCopyParams(std::initializer_list<uint16_t> values,
                   opforge::twin::kernel::Location at = opforge::twin::kernel::Location::Here())
        : DataCopyParams(opforge::twin::kernel::Listed<uint16_t>(values, 4, "values of DataCopyParams", at))
    {
    }

private:
    explicit DataCopyParams(const opforge::twin::kernel::Listed<uint16_t>& v) : DataCopyParams(v[0], v[1], v[2], v[3])
    {
    }
};

/// blockLen in bytes; the stride of the GM side in bytes, of the UB side in 32-byte blocks.
struct DataCopyExtParams {
    int64_t blockCount = 1;
    int64_t blockLen = 0;
    int64_t srcStride = 0;
    int64_t dstStride = 0;
    int64_t rsv = 0;

    DataCopyExtParams() = default;
    DataCopyExtParams(int64_t count, int64_t len, int64_t srcStrideIn, int64_t dstStrideIn, int64_t rsvIn)
        : blockCount(count), blockLen(len), srcStride(srcStrideIn), dstStride(dstStrideIn), rsv(rsvIn)
    {
    }
    DataCopyExtParams(std::initializer_list<uint32_t> values,
                      opforge::twin::kernel::Location at = opforge::twin::kernel::Location::Here())
        : DataCopyExtParams(opforge::twin::kernel::Listed<uint32_t>(values, 5, "values of DataCopyExtParams", at))
    {
    }

private:
    explicit DataCopyExtParams(const opforge::twin::kernel::Listed<uint32_t>& v)
        : DataCopyExtParams(v[0], v[1], v[2], v[3], v[4])
    {
    }
};

struct DataCopyPadParams {
    bool isPad = false;
    int64_t leftPadding = 0;
    int64_t rightPadding = 0;
    uint64_t paddingValue = 0;

    DataCopyPadParams() = default;
    DataCopyPadParams(bool isPadIn, uint8_t left, uint8_t right, uint64_t value)
        : isPad(isPadIn), leftPadding(left), rightPadding(right), paddingValue(value)
    {
    }
};

/// Paddings in elements.
template <typename T>
struct DataCopyPadExtParams {
    bool isPad = false;
    int64_t leftPadding = 0;
    int64_t rightPadding = 0;
    T paddingValue = 0;

    DataCopyPadExtParams() = default;
    DataCopyPadExtParams(bool isPadValue, uint8_t left, uint8_t right, T value)
        : isPad(isPadValue), leftPadding(left), rightPadding(right), paddingValue(value)
    {
    }
};

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_PARAMS_H
