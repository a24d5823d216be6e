// Order-preserving codes: 32-bit integers as floats, for a sort unit with float keys only.
#ifndef OPFORGE_OP_KERNEL_COMMON_VECTOR_SORT_CODE_H
#define OPFORGE_OP_KERNEL_COMMON_VECTOR_SORT_CODE_H

#include "kernel_operator.h"

namespace opforge {
namespace kernel {

/// The code of a number n in [0, 2^31) is a float. Its bits are n - 2^30 in sign and magnitude, with the magnitude
/// increased by `kLeastNormal`. It is never a denormal, which the sort unit might treat as zero, and never infinite.
class SortCode {
public:
    static constexpr int32_t kLeastNormal = 0x00800000;
    static constexpr int32_t kMiddle = 1 << 30;
    static constexpr int32_t kSignBit = INT32_MIN;

    /// The bits of the code of 0, the smallest code.
    static constexpr int32_t kZero = kSignBit + (kMiddle + kLeastNormal);

    /// Converts the bits of a code to its number.
    __aicore__ static inline int64_t Decode(int32_t bits)
    {
        const int64_t magnitude = (bits & INT32_MAX) - kLeastNormal;
        return bits < 0 ? kMiddle - magnitude : kMiddle + magnitude;
    }

    /// codes = the codes of `count` numbers; destroys `numbers` and `work`.
    __aicore__ static inline void Encode(const AscendC::LocalTensor<int32_t>& codes,
                                         const AscendC::LocalTensor<int32_t>& numbers,
                                         const AscendC::LocalTensor<int32_t>& work, int32_t count)
    {
        AscendC::Adds<int32_t>(numbers, numbers, -kMiddle, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Maxs<int32_t>(work, numbers, 0, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Sub(numbers, work, numbers, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Add(work, work, numbers, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Mins<int32_t>(numbers, numbers, 1, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Adds<int32_t>(work, work, kLeastNormal, count);
        AscendC::Muls<int32_t>(numbers, numbers, kSignBit, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Add(codes, work, numbers, count);
        AscendC::PipeBarrier<PIPE_V>();
    }
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_VECTOR_SORT_CODE_H
