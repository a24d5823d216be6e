// Stable sort of a list of indices in GM, by one core or by all cores together.
#ifndef OPFORGE_OP_KERNEL_COMMON_VECTOR_INDEX_SORT_H
#define OPFORGE_OP_KERNEL_COMMON_VECTOR_INDEX_SORT_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/vector/merge_runs.h"
#include "common/order.h"
#include "common/memory/search.h"
#include "common/vector/sort_code.h"
#include "common/vector/word_pairs.h"

namespace opforge {
namespace kernel {

/// A sorted list in GM: pairs of the code of an index and its position in the unsorted list.
struct SortedList {
    AscendC::GlobalTensor<int32_t> words;
    int64_t length = 0;

    __aicore__ inline AscendC::GlobalTensor<int32_t> From(int64_t entry) const { return PairsFrom(words, entry); }
};

/// True if an entry of the first list precedes the last entry of the second list that would fit before position `rank`
/// of the merged list.
class PrecedesTest {
public:
    __aicore__ inline PrecedesTest(const SortedList& first, const SortedList& second, int64_t rank,
                                   const AscendC::LocalTensor<int32_t>& probes)
        : first_(first), second_(second), rank_(rank)
    {
        ones_.Init(probes);
        others_.Init(probes[static_cast<uint32_t>(Probes::kBytes / sizeof(int32_t))]);
    }

    __aicore__ inline void Load(int64_t entry, int64_t stride, int64_t count)
    {
        const int64_t last = entry + (count - 1) * stride;
        ones_.Load(first_.From(entry), 0, stride * WordPair::kWords, count);
        others_.Load(second_.From(rank_ - 1 - last), 0, stride * WordPair::kWords, count);
        count_ = count;
    }

    __aicore__ inline bool Holds(int64_t probe) const
    {
        return SortCode::Decode(ones_.At(probe)) >= SortCode::Decode(others_.At(count_ - 1 - probe));
    }

private:
    SortedList first_;
    SortedList second_;
    Probes ones_;
    Probes others_;
    int64_t rank_;
    int64_t count_ = 0;
};

/// True for the entries of valid indices.
class WantedTest {
public:
    __aicore__ inline WantedTest(const SortedList& list, const AscendC::LocalTensor<int32_t>& probes) : list_(list)
    {
        probes_.Init(probes);
    }
    __aicore__ inline void Load(int64_t entry, int64_t stride, int64_t count)
    {
        probes_.Load(list_.From(entry), 0, stride * WordPair::kWords, count);
    }
    __aicore__ inline bool Holds(int64_t probe) const { return probes_.At(probe) != SortCode::kZero; }

private:
    SortedList list_;
    Probes probes_;
};

/// Sorts indices of dtype I. Chunks are sorted in UB. Pairs of sorted lists are then merged, level by level; every core
/// merges an equal part of the output. Indices outside [0, limit) and `unwanted` are last.
template <typename I>
class IndexSort {
public:
    struct Problem {
        int64_t length;
        int64_t limit;     // at most 2^31 - 1
        int64_t unwanted;  // -1: no unwanted index
        int64_t chunk;     // number of entries sorted in UB: a power of two, at least 32
        int64_t blocks;    // number of cores that sort together: all cores, or 1
    };

    /// `bytes`: bytes of UB, 24 per entry of a chunk and twice the size of Probes. `workspace`: 4 words per index.
    __aicore__ inline void Init(AscendC::TPipe* pipe, const Problem& problem, int32_t bytes,
                                const AscendC::GlobalTensor<I>& indices,
                                const AscendC::GlobalTensor<int32_t>& workspace)
    {
        problem_ = problem;
        block_ = problem.blocks == 1 ? 0 : AscendC::GetBlockIdx();
        indices_ = indices;
        source_ = workspace;
        target_ = PairsFrom(workspace, problem.length);
        const int64_t chunk = problem.chunk;
        pipe->InitBuffer(buffer_, static_cast<uint32_t>(bytes));
        const AscendC::LocalTensor<int32_t> all = buffer_.template Get<int32_t>();
        front_ = all;
        back_ = all[static_cast<uint32_t>(2 * chunk)];
        codes_ = all[static_cast<uint32_t>(4 * chunk)];
        places_ = all[static_cast<uint32_t>(5 * chunk)];
        probes_ = all[static_cast<uint32_t>(6 * chunk)];
    }

    /// Sorts the indices. For equal indices, the earlier one is first. All blocks must call it.
    __aicore__ inline SortedList Run()
    {
        const int64_t chunk = problem_.chunk;
        for (int64_t first = block_ * chunk; first < problem_.length; first += problem_.blocks * chunk) {
            SortChunk(first, Smaller(chunk, problem_.length - first));
        }
        for (int64_t length = chunk; length < problem_.length; length *= 2) {
            Synchronize();
            MergeLevel(length);
            const AscendC::GlobalTensor<int32_t> merged = target_;
            target_ = source_;
            source_ = merged;
        }
        Synchronize();
        return {source_, problem_.length};
    }

    /// Returns the number of valid sorted entries.
    __aicore__ inline int64_t CountWanted(const SortedList& list)
    {
        WantedTest test(list, probes_);
        return FirstFailure(test, 0, list.length);
    }

private:
    static constexpr int64_t kRunLength = 32;  // length of a run that Sort32 sorts
    static constexpr uint8_t kEvenElements = 1;
    static constexpr uint8_t kOddElements = 2;

    /// Waits for all cores of the sort, so that each core can load the data stored by any core.
    __aicore__ inline void Synchronize()
    {
        if (problem_.blocks > 1) {
            AscendC::SyncAll();
        } else {
            Order<AscendC::HardEvent::MTE3_MTE2>();
        }
    }

    __aicore__ inline void SortChunk(int64_t first, int64_t count)
    {
        const int32_t chunk = static_cast<int32_t>(problem_.chunk);
        const AscendC::LocalTensor<I> raw = back_.template ReinterpretCast<I>();
        AscendC::DataCopyExtParams burst;
        burst.blockLen = static_cast<uint32_t>(count * sizeof(I));
        // The store of an earlier chunk to GM may be incomplete.
        Order<AscendC::HardEvent::MTE3_MTE2>();
        AscendC::DataCopyPad(raw, indices_[static_cast<uint64_t>(first)], burst, AscendC::DataCopyPadExtParams<I>());
        Order<AscendC::HardEvent::V_S>();
        AscendC::CreateVecIndex<int32_t>(places_, static_cast<int32_t>(first), static_cast<uint32_t>(chunk));
        Order<AscendC::HardEvent::S_V>();
        AscendC::Duplicate<int32_t>(codes_, SortCode::kZero, chunk);
        Order<AscendC::HardEvent::MTE2_V>();
        AscendC::PipeBarrier<PIPE_V>();
        EncodeIndices(static_cast<int32_t>(count));

        const AscendC::LocalTensor<float> runs = front_.template ReinterpretCast<float>();
        AscendC::Sort32<float>(runs, codes_.template ReinterpretCast<float>(),
                               places_.template ReinterpretCast<uint32_t>(), static_cast<int32_t>(chunk / kRunLength));
        AscendC::PipeBarrier<PIPE_V>();
        const AscendC::LocalTensor<float> sorted =
            MergeRuns(runs, back_.template ReinterpretCast<float>(), kRunLength, chunk);
        Order<AscendC::HardEvent::V_MTE3>();
        Store(sorted.template ReinterpretCast<int32_t>(), PairsFrom(source_, first), count);
    }

    /// codes_ = the codes of limit - index, so that the smallest index has the largest code; 0 for invalid indices.
    /// Integers cannot be compared, so the code clamps values to flags of 0 and 1.
    __aicore__ inline void EncodeIndices(int32_t count)
    {
        AscendC::LocalTensor<int32_t> index = back_;
        const AscendC::LocalTensor<int32_t>& number = front_;
        const AscendC::LocalTensor<int32_t> flag = front_[static_cast<uint32_t>(problem_.chunk)];
        if constexpr (sizeof(I) == sizeof(int64_t)) {
            index = codes_;
            Narrow(index, flag, count);
        }
        AscendC::Maxs<int32_t>(index, index, -1, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Mins<int32_t>(flag, index, 0, count);
        AscendC::Muls<int32_t>(number, index, -1, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Adds<int32_t>(flag, flag, 1, count);
        AscendC::Adds<int32_t>(number, number, static_cast<int32_t>(problem_.limit), count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Maxs<int32_t>(number, number, 0, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Mul(number, number, flag, count);
        if (problem_.unwanted >= 0) {
            AscendC::Adds<int32_t>(index, index, static_cast<int32_t>(-problem_.unwanted), count);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Muls<int32_t>(flag, index, -1, count);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Max(flag, flag, index, count);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Mins<int32_t>(flag, flag, 1, count);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Mul(number, number, flag, count);
        }
        AscendC::PipeBarrier<PIPE_V>();
        // The padding of the chunk starts at the end of the codes. The last vector instruction writes both.
        SortCode::Encode(codes_, number, flag, count);
    }

    /// index = the low words of 64-bit indices, or -1 if the high word is not 0; destroys `high`.
    __aicore__ inline void Narrow(const AscendC::LocalTensor<int32_t>& index, const AscendC::LocalTensor<int32_t>& high,
                                  int32_t count)
    {
        AscendC::GatherMaskParams once;
        once.repeatTimes = 1;
        uint64_t kept = 0;
        const uint32_t words = static_cast<uint32_t>(2 * count);
        AscendC::GatherMask(index, back_, kEvenElements, true, words, once, kept);
        AscendC::GatherMask(high, back_, kOddElements, true, words, once, kept);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Maxs<int32_t>(high, high, -1, count);
        AscendC::Adds<int32_t>(index, index, 1, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Mins<int32_t>(high, high, 1, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Mul(high, high, high, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Muls<int32_t>(high, high, -1, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Adds<int32_t>(high, high, 1, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Mul(index, index, high, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Adds<int32_t>(index, index, -1, count);
        AscendC::PipeBarrier<PIPE_V>();
    }

    /// Merges neighboring lists of `length` entries. The last list may be shorter, or have no neighbor.
    __aicore__ inline void MergeLevel(int64_t length)
    {
        const Span share = PartOf(problem_.length, problem_.blocks, block_);
        for (int64_t rank = share.begin; rank < share.end;) {
            const int64_t begin = rank / (2 * length) * (2 * length);
            const int64_t firstLength = Smaller(length, problem_.length - begin);
            const int64_t secondLength = Smaller(length, problem_.length - begin - firstLength);
            const int64_t end = Smaller(share.end, begin + firstLength + secondLength);
            const SortedList first{PairsFrom(source_, begin), firstLength};
            const SortedList second{PairsFrom(source_, begin + firstLength), secondLength};
            MergePair(first, second, rank - begin, end - begin, PairsFrom(target_, begin));
            rank = end;
        }
    }

    /// Merges the entries [rank, end) of two lists and writes them to their positions in `target`.
    __aicore__ inline void MergePair(const SortedList& first, const SortedList& second, int64_t rank, int64_t end,
                                     const AscendC::GlobalTensor<int32_t>& target)
    {
        PrecedesTest test(first, second, rank, probes_);
        int64_t fromFirst = FirstFailure(test, Larger(0, rank - second.length), Smaller(rank, first.length));
        const int64_t window = problem_.chunk / 2;
        while (rank < end) {
            const int64_t fromSecond = rank - fromFirst;
            const int64_t longest = Smaller(window, end - rank);
            const int64_t ones = Smaller(longest, first.length - fromFirst);
            const int64_t others = Smaller(longest, second.length - fromSecond);
            // The previous entries are stored, so the windows have been read.
            Order<AscendC::HardEvent::MTE3_MTE2>();
            Load(front_, first.From(fromFirst), ones);
            Load(front_[static_cast<uint32_t>(window * WordPair::kWords)], second.From(fromSecond), others);
            if (ones == 0 || others == 0) {
                const int64_t offset = ones == 0 ? window * WordPair::kWords : 0;
                Order<AscendC::HardEvent::MTE2_MTE3>();
                Store(front_[static_cast<uint32_t>(offset)], PairsFrom(target, rank), ones + others);
                fromFirst += ones;
                rank += ones + others;
                continue;
            }
            const Taken taken = MergeWindows(ones, others, window);
            const int64_t count = Smaller(taken.ones + taken.others, end - rank);
            Store(back_, PairsFrom(target, rank), count);
            fromFirst += taken.ones;
            rank += count;
        }
    }

    struct Taken {
        int64_t ones;
        int64_t others;
    };

    /// Merges two windows until one of them is empty.
    __aicore__ inline Taken MergeWindows(int64_t ones, int64_t others, int64_t window)
    {
        const AscendC::LocalTensor<float> source = front_.template ReinterpretCast<float>();
        AscendC::MrgSort4Info info;
        info.elementLengths[0] = static_cast<uint16_t>(ones);
        info.elementLengths[1] = static_cast<uint16_t>(others);
        info.ifExhaustedSuspension = true;
        info.validBit = kTwoRuns;
        info.repeatTimes = 1;
        AscendC::MrgSortSrcList<float> lists;
        lists.src1 = source;
        lists.src2 = source[static_cast<uint32_t>(window * WordPair::kWords)];
        lists.src3 = source;
        lists.src4 = source;
        Order<AscendC::HardEvent::MTE2_V>();
        AscendC::MrgSort<float>(back_.template ReinterpretCast<float>(), lists, info);
        Order<AscendC::HardEvent::V_MTE3>();
        Order<AscendC::HardEvent::V_S>();
        uint16_t taken[kMaxMergedRuns] = {0, 0, 0, 0};
        AscendC::GetMrgSortResult(taken[0], taken[1], taken[2], taken[3]);
        return {taken[0], taken[1]};
    }

    __aicore__ inline void Load(const AscendC::LocalTensor<int32_t>& target,
                                const AscendC::GlobalTensor<int32_t>& source, int64_t entries)
    {
        if (entries > 0) {
            AscendC::DataCopyExtParams burst;
            burst.blockLen = static_cast<uint32_t>(entries * WordPair::kWords * sizeof(int32_t));
            AscendC::DataCopyPad(target, source, burst, AscendC::DataCopyPadExtParams<int32_t>());
        }
    }

    __aicore__ inline void Store(const AscendC::LocalTensor<int32_t>& source,
                                 const AscendC::GlobalTensor<int32_t>& target, int64_t entries)
    {
        AscendC::DataCopyExtParams burst;
        burst.blockLen = static_cast<uint32_t>(entries * WordPair::kWords * sizeof(int32_t));
        AscendC::DataCopyPad(target, source, burst);
    }

    Problem problem_;
    AscendC::GlobalTensor<I> indices_;
    AscendC::GlobalTensor<int32_t> source_;
    AscendC::GlobalTensor<int32_t> target_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> buffer_;
    AscendC::LocalTensor<int32_t> front_;  // 8-byte entries, or integers
    AscendC::LocalTensor<int32_t> back_;
    AscendC::LocalTensor<int32_t> codes_;
    AscendC::LocalTensor<int32_t> places_;
    AscendC::LocalTensor<int32_t> probes_;
    int64_t block_ = 0;
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_VECTOR_INDEX_SORT_H
