// A merge of sorted runs of pairs that are beside each other.
#ifndef OPFORGE_OP_KERNEL_COMMON_VECTOR_MERGE_RUNS_H
#define OPFORGE_OP_KERNEL_COMMON_VECTOR_MERGE_RUNS_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/vector/word_pairs.h"

namespace opforge {
namespace kernel {

constexpr int64_t kMaxMergedRuns = 4;  // of MrgSort
constexpr uint16_t kTwoRuns = 3;       // bits of the runs that MrgSort merges
constexpr uint16_t kFourRuns = 15;

/// Merges runs of `length` pairs of `count` pairs, two or four at a time, until one run is left. Returns the tensor
/// with this run: `runs` or `other`. Both are changed.
__aicore__ inline AscendC::LocalTensor<float> MergeRuns(AscendC::LocalTensor<float> runs,
                                                        AscendC::LocalTensor<float> other, int64_t length,
                                                        int64_t count)
{
    while (length < count) {
        const int64_t ways = Smaller(kMaxMergedRuns, count / length);
        const uint32_t run = static_cast<uint32_t>(length * WordPair::kWords);
        AscendC::MrgSort4Info info;
        for (uint16_t& listLength : info.elementLengths) {
            listLength = static_cast<uint16_t>(length);
        }
        info.validBit = ways == kMaxMergedRuns ? kFourRuns : kTwoRuns;
        info.repeatTimes = static_cast<uint8_t>(count / (length * ways));
        AscendC::MrgSortSrcList<float> lists;
        lists.src1 = runs;
        lists.src2 = runs[run];
        lists.src3 = ways == kMaxMergedRuns ? runs[2 * run] : runs;
        lists.src4 = ways == kMaxMergedRuns ? runs[3 * run] : runs;
        AscendC::MrgSort<float>(other, lists, info);
        AscendC::PipeBarrier<PIPE_V>();
        const AscendC::LocalTensor<float> merged = other;
        other = runs;
        runs = merged;
        length *= ways;
    }
    return runs;
}

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_VECTOR_MERGE_RUNS_H
