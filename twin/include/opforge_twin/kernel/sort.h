// Sorting of (value, index) entries of 8 bytes: first the value (half: 2 of 4 bytes), then a uint32_t index.
#ifndef OPFORGE_TWIN_KERNEL_SORT_H
#define OPFORGE_TWIN_KERNEL_SORT_H

#include "opforge_twin/kernel/gates.h"
#include "opforge_twin/kernel/params.h"
#include "opforge_twin/kernel/tensor.h"

namespace opforge::twin::kernel {

template <typename T>
constexpr void RequireSortable()
{
    static_assert(kIsAnyOf<T, half, float>, "Sort32, MrgSort, Extract: Ascend 910B has half and float");
}

}  // namespace opforge::twin::kernel

namespace AscendC {

/// Lengths are in entries. validBit 3, 7 or 15 selects the first 2, 3 or 4 lists.
struct MrgSort4Info {
    uint16_t elementLengths[4] = {0};
    bool ifExhaustedSuspension = false;
    twin::Given16 validBit = 0;
    twin::Given8 repeatTimes = 1;

    MrgSort4Info() = default;
    MrgSort4Info(const uint16_t lengths[4], const bool suspension, const twin::Given16 valid,
                 const twin::Given16 repeats)
        : elementLengths{lengths[0], lengths[1], lengths[2], lengths[3]},
          ifExhaustedSuspension(suspension),
          validBit(valid),
          repeatTimes(static_cast<twin::Given8>(repeats))
    {
    }
};

template <typename T>
struct MrgSortSrcList {
    LocalTensor<T> src1;
    LocalTensor<T> src2;
    LocalTensor<T> src3;
    LocalTensor<T> src4;

    MrgSortSrcList() = default;
    MrgSortSrcList(const LocalTensor<T>& first, const LocalTensor<T>& second, const LocalTensor<T>& third,
                   const LocalTensor<T>& fourth)
        : src1(first), src2(second), src3(third), src4(fourth)
    {
    }
};

/// Sorts 32 values with their indices per repeat, in descending order; the sort is stable.
template <typename T>
OPFORGE_API void Sort32(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<uint32_t>& src1,
                        const int32_t repeatTime)
{
    twin::GateSort32<T>();
    twin::RequireSortable<T>();
    twin::SortRepeats(dst.View(), src0.View(), src1.View(), repeatTime, false, {"Sort32", twin::Here()});
}

/// Merges lists in descending order; for equal values, the list with the lower number is first.
template <typename T>
OPFORGE_API void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& src, const MrgSort4Info& params)
{
    twin::GateMrgSort<T>();
    twin::RequireSortable<T>();
    const twin::ListMerge merge{
        {&src.src1.View(), &src.src2.View(), &src.src3.View(), &src.src4.View()},
        {params.elementLengths[0], params.elementLengths[1], params.elementLengths[2], params.elementLengths[3]},
        params.ifExhaustedSuspension,
        params.validBit,
        params.repeatTimes};
    twin::MergeLists(dst.View(), merge, {"MrgSort", twin::Here()});
}

/// Returns the number of entries that the last MrgSort took from each list.
template <bool isUsed = true>
OPFORGE_API void GetMrgSortResult(uint16_t& mrgSortList1, uint16_t& mrgSortList2, uint16_t& mrgSortList3,
                                  uint16_t& mrgSortList4)
{
    twin::GateGetMrgSortResult<twin::ValueType<isUsed>>();
    uint16_t taken[4];
    twin::MergedCounts(taken, {"GetMrgSortResult", twin::Here()});
    mrgSortList1 = taken[0];
    mrgSortList2 = taken[1];
    mrgSortList3 = taken[2];
    mrgSortList4 = taken[3];
}

template <typename T, bool isExhaustedSuspension = false>
OPFORGE_API void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& sortList,
                         const uint16_t elementCountList[4], uint32_t sortedNum[4], uint16_t validBit,
                         const int32_t repeatTime)
{
    twin::GateMrgSort<T>();
    const twin::ComposedCall call;
    MrgSort(dst, sortList, MrgSort4Info(elementCountList, isExhaustedSuspension, validBit, repeatTime));
    uint16_t taken[4];
    twin::MergedCounts(taken, {"MrgSort", twin::Here()});
    for (int list = 0; list < 4; ++list) {
        sortedNum[list] = taken[list];
    }
}

/// On this architecture, the sort uses the values directly: `concat` becomes an alias of `src`.
template <typename T>
void Concat(LocalTensor<T>& concat, const LocalTensor<T>& src, const LocalTensor<T>& /*tmp*/,
            const int32_t /*repeatTime*/)
{
    twin::RequireSortable<T>();
    concat = src;
}

/// Sorts each repeat of 32 separately, or all elements together with `isFullSort`.
template <typename T, bool isFullSort>
OPFORGE_API void Sort(const LocalTensor<T>& dst, const LocalTensor<T>& concat, const LocalTensor<uint32_t>& index,
                      LocalTensor<T>& tmp, const int32_t repeatTime)
{
    twin::GateSort<T>();
    twin::RequireSortable<T>();
    twin::SortRepeats(dst.View(), concat.View(), index.View(), repeatTime, true, {"Sort", twin::Here()});
    if constexpr (isFullSort) {
        twin::MergeRepeats(dst.View(), tmp.View(), repeatTime, {"Sort", twin::Here()});
    }
}

/// Splits 32 entries per repeat into values and indices.
template <typename T>
OPFORGE_API void Extract(const LocalTensor<T>& dstValue, const LocalTensor<uint32_t>& dstIndex,
                         const LocalTensor<T>& sorted, const int32_t repeatTime)
{
    twin::RequireSortable<T>();
    twin::SplitEntries(dstValue.View(), dstIndex.View(), sorted.View(), repeatTime, {"Extract", twin::Here()});
}

/// Returns the number of elements of T in `elemOffset` entries.
template <typename T>
uint32_t GetSortOffset(const uint32_t elemOffset)
{
    return elemOffset * static_cast<uint32_t>(8 / sizeof(PrimT<T>));
}

template <typename T>
uint32_t GetSortLen(const uint32_t elemCount)
{
    return GetSortOffset<T>(elemCount);
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_SORT_H
