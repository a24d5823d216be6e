// Functions below the documented API that public kernels call: the same instructions with addresses from GetPhyAddr.
#ifndef OPFORGE_TWIN_KERNEL_POINTER_FUNCTIONS_H
#define OPFORGE_TWIN_KERNEL_POINTER_FUNCTIONS_H

#include "opforge_twin/kernel/data_copy.h"
#include "opforge_twin/kernel/reduce.h"
#include "opforge_twin/kernel/transpose.h"

namespace opforge::twin::kernel {

/// The tensor at an address of the unified buffer.
template <typename T>
LocalView ViewAt(const T* address, const Call& call)
{
    return ViewOf(reinterpret_cast<uintptr_t>(address), DtypeOf<T>(), sizeof(T), call);
}

/// The array of a declaration with __ubuf__, __cbuf__ or similar; `opforge cc` initializes a reference with it.
/// 0 is a valid address: kernels are compiled with -fno-delete-null-pointer-checks.
template <typename R, AscendC::TPosition position>
OPFORGE_API R OnChipArray()
{
    using Array = std::remove_reference_t<R>;
    return *reinterpret_cast<Array*>(ArrayAddress(position, sizeof(Array), {"on-chip array", Here()}));
}

template <typename T>
AscendC::GlobalTensor<T> GlobalAt(__gm__ T* address)
{
    AscendC::GlobalTensor<T> tensor;
    tensor.SetGlobalBuffer(address);
    return tensor;
}

}  // namespace opforge::twin::kernel

namespace AscendC {

/// DataCopyPad of rows to the unified buffer.
template <typename T, typename U>
OPFORGE_API void DataCopyPadGm2UBImpl(T* dst, __gm__ T* src, const DataCopyExtParams& rows,
                                      const DataCopyPadExtParams<U>& pad)
{
    twin::GateDataCopyPad<T>();
    const twin::Call call{"DataCopyPad", twin::Here()};
    const twin::Padding padding{pad.isPad, pad.leftPadding, pad.rightPadding, twin::ScalarBits(pad.paddingValue)};
    twin::CopyIn(twin::ViewAt(dst, call), twin::GlobalAt(src).View(), twin::PadRowsOf(rows, sizeof(T), true, call),
                 &padding, call);
}

/// DataCopy of blocks to global memory.
template <typename T>
OPFORGE_API void DataCopyUB2GMImpl(__gm__ T* dst, T* src, const DataCopyParams& rows)
{
    const twin::Call call{"DataCopy", twin::Here()};
    twin::CopyOut(twin::GlobalAt(dst).View(), twin::ViewAt(src, call), twin::RowsOf(rows, call), false, call);
}

template <typename T>
OPFORGE_API void TransDataTo5HDImpl(T* dstList[NCHW_CONV_ADDR_LIST_SIZE], T* srcList[NCHW_CONV_ADDR_LIST_SIZE],
                                    const TransDataTo5HDParams& params)
{
    twin::GateTransDataTo5HD<T>();
    const twin::Call call{"TransDataTo5HD", twin::Here()};
    twin::TransposeBlocks<T>([&](size_t index) { return twin::ViewAt(dstList[index], call); },
                             [&](size_t index) { return twin::ViewAt(srcList[index], call); }, params, call);
}

/// The reductions of blocks with the mask of the last SetVectorMask.
#define OPFORGE_BLOCK_REDUCE(name, op)                                                                                 \
    template <typename T>                                                                                              \
    OPFORGE_API void name##IntrinsicsImpl(__ubuf__ T* dst, __ubuf__ T* src, const int32_t repeatTime,                  \
                                          const int32_t dstRepStride, const int32_t srcBlkStride,                      \
                                          const int32_t srcRepStride)                                                  \
    {                                                                                                                  \
        twin::Gate##name<T>();                                                                                         \
        twin::RequireReducible<T>();                                                                                   \
        const twin::Call call{#name, twin::Here()};                                                                    \
        twin::ReduceGroups(op, 32 / static_cast<int64_t>(sizeof(T)), twin::ViewAt(dst, call), twin::ViewAt(src, call), \
                           twin::Lanes::Of<false>(uint64_t{0}, repeatTime), dstRepStride, srcBlkStride, srcRepStride,  \
                           call);                                                                                      \
    }
OPFORGE_BLOCK_REDUCE(BlockReduceSum, twin::ReduceOp::kSum)
OPFORGE_BLOCK_REDUCE(BlockReduceMax, twin::ReduceOp::kMax)
#undef OPFORGE_BLOCK_REDUCE

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_POINTER_FUNCTIONS_H
