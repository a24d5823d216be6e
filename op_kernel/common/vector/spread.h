// One value per channel, repeated for all elements of the channels in a contiguous range of memory.
#ifndef OPFORGE_OP_KERNEL_COMMON_VECTOR_SPREAD_H
#define OPFORGE_OP_KERNEL_COMMON_VECTOR_SPREAD_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/vector/offsets.h"
#include "common/order.h"

namespace opforge {
namespace kernel {

/// Repeats each of `values` floats `width` times, and the result `copies` times. Internally, every value is a lane of
/// `pitch` equal elements, and every copy is a multiple of 8 lanes, so that each step processes whole 32-byte blocks. A
/// mask removes the padding at the end.
class Spread {
public:
    /// `maskBytes`: one bit for each element of all lanes, in whole repeats. `scratch`: lanes + lanes * pitch elements,
    /// at least 768. The scratch is free when no function of this class runs.
    __aicore__ inline void Init(AscendC::TPipe* pipe, int32_t maskBytes, const AscendC::LocalTensor<float>& scratch)
    {
        scratch_ = scratch;
        isMasked_ = maskBytes > 0;
        if (isMasked_) {
            pipe->InitBuffer(maskBuffer_, static_cast<uint32_t>(maskBytes));
            mask_ = maskBuffer_.Get<uint8_t>();
        }
    }

    __aicore__ inline void Prepare(int32_t values, int32_t width, int32_t copies)
    {
        width_ = width;
        copies_ = copies;
        pitch_ = width == 1 ? 1 : static_cast<int32_t>(RoundUp(width, kFloatsPerBlock));
        if (isMasked_) {
            MakeMask(values);
        }
    }

    /// Repeats the first `values` elements of `source`, at most the number given to Prepare. `source` has whole 32-byte
    /// blocks. Elements after the last one may be overwritten, up to the end of its lanes.
    __aicore__ inline void Run(const AscendC::LocalTensor<float>& destination,
                               const AscendC::LocalTensor<float>& source, int32_t values)
    {
        const int32_t copyLanes = static_cast<int32_t>(RoundUp(values, kFloatsPerBlock));
        const int32_t lanes = copies_ * copyLanes;
        AscendC::LocalTensor<float> spread = source;
        if (copies_ > 1) {
            const bool isLast = width_ == 1 && !isMasked_;
            spread = Copies(isLast ? destination : scratch_, source, copyLanes);
        }
        if (width_ > 1) {
            spread = Widened(isMasked_ ? scratch_[lanes] : destination, spread, lanes);
        }
        if (isMasked_) {
            AscendC::GatherMaskParams once;
            once.repeatTimes = 1;
            uint64_t kept = 0;
            AscendC::GatherMask(destination, spread, mask_.ReinterpretCast<uint32_t>(), true,
                                static_cast<uint32_t>(lanes * pitch_), once, kept);
            AscendC::PipeBarrier<PIPE_V>();
        }
    }

private:
    static constexpr int32_t kFloatsPerBlock = 8;
    static constexpr int32_t kFloatsPerRepeat = 64;
    static constexpr int32_t kBitsPerBlock = 256;
    static constexpr int32_t kMaxRepeats = 255;

    /// Bit i is set if element i is the value of a channel and not padding. i / pitch in floats is exact for i below
    /// 2^21, because the quotient is half an element away from every integer.
    __aicore__ inline void MakeMask(int32_t values)
    {
        const int32_t copyLanes = static_cast<int32_t>(RoundUp(values, kFloatsPerBlock));
        const int32_t elements = static_cast<int32_t>(RoundUp(copies_ * copyLanes * pitch_, kFloatsPerRepeat));
        const int32_t longest = static_cast<int32_t>(RoundDown(scratch_.GetSize() / 3, kBitsPerBlock));
        for (int32_t first = 0; first < elements; first += longest) {
            const int32_t count = static_cast<int32_t>(Smaller(longest, elements - first));
            const AscendC::LocalTensor<float> inLane = scratch_;
            const AscendC::LocalTensor<float> lane = scratch_[longest];
            const AscendC::LocalTensor<float> copy = scratch_[2 * longest];
            FillProgression<float>(inLane, static_cast<float>(first) + 0.5f, 1.0f, count);
            Split(lane, inLane, pitch_, count);
            AscendC::Adds(lane, lane, 0.5f, count);
            AscendC::PipeBarrier<PIPE_V>();
            Split(copy, lane, copyLanes, count);
            AscendC::Adds(inLane, inLane, static_cast<float>(values - width_), count);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Max(inLane, inLane, lane, count);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::CompareScalar(mask_[static_cast<uint32_t>(first / 8)], inLane, static_cast<float>(values),
                                   AscendC::CMPMODE::LT, static_cast<uint32_t>(count));
            AscendC::PipeBarrier<PIPE_V>();
        }
    }

    /// quotient = number / divisor rounded down, number = the remainder.
    __aicore__ inline void Split(const AscendC::LocalTensor<float>& quotient, const AscendC::LocalTensor<float>& number,
                                 int32_t divisor, int32_t count)
    {
        AscendC::Muls(quotient, number, 1.0f / static_cast<float>(divisor), count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Cast(quotient, quotient, AscendC::RoundMode::CAST_FLOOR, static_cast<uint32_t>(count));
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Axpy(number, quotient, -static_cast<float>(divisor), count);
        AscendC::PipeBarrier<PIPE_V>();
    }

    __aicore__ inline AscendC::LocalTensor<float> Copies(const AscendC::LocalTensor<float>& destination,
                                                         const AscendC::LocalTensor<float>& source, int32_t length)
    {
        AscendC::DataCopy(destination, source, static_cast<uint32_t>(length));
        AscendC::PipeBarrier<PIPE_V>();
        for (int32_t done = 1; done < copies_;) {
            const int32_t more = static_cast<int32_t>(Smaller(done, copies_ - done));
            AscendC::DataCopy(destination[done * length], destination, static_cast<uint32_t>(more * length));
            AscendC::PipeBarrier<PIPE_V>();
            done += more;
        }
        return destination;
    }

    /// Repeats every element as a lane of pitch_ equal elements.
    __aicore__ inline AscendC::LocalTensor<float> Widened(const AscendC::LocalTensor<float>& destination,
                                                          const AscendC::LocalTensor<float>& source, int32_t lanes)
    {
        const uint16_t laneBlocks = static_cast<uint16_t>(pitch_ / kFloatsPerBlock);
        constexpr int32_t longest = kMaxRepeats * kFloatsPerBlock;
        for (int32_t lane = 0; lane < lanes; lane += longest) {
            const int32_t repeats = static_cast<int32_t>(Smaller(longest, lanes - lane)) / kFloatsPerBlock;
            for (int32_t block = 0; block < pitch_; block += kFloatsPerBlock) {
                AscendC::Brcb(destination[lane * pitch_ + block], source[lane], static_cast<uint8_t>(repeats),
                              {laneBlocks, static_cast<uint16_t>(kFloatsPerBlock * laneBlocks)});
            }
        }
        AscendC::PipeBarrier<PIPE_V>();
        return destination;
    }

    AscendC::TBuf<AscendC::TPosition::VECCALC> maskBuffer_;
    AscendC::LocalTensor<uint8_t> mask_;
    AscendC::LocalTensor<float> scratch_;
    bool isMasked_ = false;
    int32_t width_ = 0;
    int32_t copies_ = 0;
    int32_t pitch_ = 0;
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_VECTOR_SPREAD_H
