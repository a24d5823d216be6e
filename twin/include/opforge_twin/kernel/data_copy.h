// Data movement between global memory and the unified buffer, atomic stores, and fills of global memory.
#ifndef OPFORGE_TWIN_KERNEL_DATA_COPY_H
#define OPFORGE_TWIN_KERNEL_DATA_COPY_H

#include "opforge_twin/arithmetic.h"
#include "opforge_twin/kernel/gates.h"
#include "opforge_twin/kernel/params.h"
#include "opforge_twin/kernel/tensor.h"

namespace opforge::twin::kernel {

inline constexpr int64_t kFieldMax8 = 255;
inline constexpr int64_t kFieldMax16 = 65535;
inline constexpr int64_t kFieldMax32 = 4294967295;

template <typename T>
constexpr void RequireMovable()
{
    static_assert(sizeof(PrimT<T>) == 1 || sizeof(PrimT<T>) == 2 || sizeof(PrimT<T>) == 4 || sizeof(PrimT<T>) == 8,
                  "DataCopy moves elements of 1, 2, 4 or 8 bytes");
}

/// One row of `count` elements. The device rounds the length down to 32 bytes; the twin requires a multiple.
template <typename T>
Rows RowOf(int64_t count, const Call& call)
{
    Field("count", count, 0, kFieldMax32, call);
    RequireMultiple("count * sizeof(T)", BytesOf<T>(count), kBlockBytes, "bytes",
                    "change count, or use DataCopyPad, which accepts any length", call);
    return {1, BytesOf<T>(count), 0, 0};
}

inline Rows RowsOf(const AscendC::DataCopyParams& params, const Call& call)
{
    return {Field("blockCount", params.blockCount, 0, 4095, call),
            Field("blockLen (32-byte blocks)", params.blockLen, 0, kFieldMax16, call) * kBlockBytes,
            Field("srcGap (32-byte blocks)", params.srcGap, 0, kFieldMax16, call) * kBlockBytes,
            Field("dstGap (32-byte blocks)", params.dstGap, 0, kFieldMax16, call) * kBlockBytes};
}

/// The bias table uses blocks of 64 bytes.
inline Rows BiasRowsOf(const AscendC::DataCopyParams& params, const Call& call)
{
    Rows rows = RowsOf(params, call);
    rows.bytes *= 2;
    rows.dstGap *= 2;
    return rows;
}

/// The fixpipe buffer uses blocks of 128 bytes. Strides are from start to start.
inline Rows ScaleRowsOf(const AscendC::DataCopyParams& params, const Call& call)
{
    constexpr int64_t kScaleBlockBytes = 128;
    Rows rows = RowsOf(params, call);
    rows.bytes *= kScaleBlockBytes / kBlockBytes;
    rows.srcGap -= rows.bytes;
    rows.dstGap = rows.dstGap * (kScaleBlockBytes / kBlockBytes) - rows.bytes;
    return rows;
}

/// Rows of a DataCopyPad: gaps in bytes on the GM side, in 32-byte blocks on the UB side.
inline Rows PadRowsOf(const AscendC::DataCopyExtParams& params, int64_t size, bool toLocal, const Call& call)
{
    const int64_t bytes = Field("blockLen (bytes)", params.blockLen, 0, 2097151, call);
    RequireMultiple("blockLen", bytes, size, "bytes", "copy whole elements", call);
    return {Field("blockCount", params.blockCount, 0, 4095, call), bytes,
            Field("srcStride", params.srcStride, 0, kFieldMax32, call) * (toLocal ? 1 : kBlockBytes),
            Field("dstStride", params.dstStride, 0, kFieldMax32, call) * (toLocal ? kBlockBytes : 1)};
}

inline AscendC::DataCopyExtParams Extended(const AscendC::DataCopyParams& params, const Call& call)
{
    return AscendC::DataCopyExtParams(params.blockCount,
                                      Field("blockLen (bytes)", params.blockLen, 0, kFieldMax16, call),
                                      Field("srcStride", params.srcStride, 0, kFieldMax16, call),
                                      Field("dstStride", params.dstStride, 0, kFieldMax16, call), 0);
}

inline void RequirePlain(const AscendC::DataCopyEnhancedParams& params, const Call& call)
{
    const bool isPlain = params.blockMode == AscendC::BlockMode::BLOCK_MODE_NORMAL &&
                         params.deqScale == AscendC::DeqScale::DEQ_NONE && !params.isRelu;
    Field("blockMode, deqScale, isRelu (the twin has no conversion in this copy)", isPlain ? 0 : 1, 0, 0, call);
}

template <typename T>
GlobalView UncachedView(__gm__ T* address)
{
    AscendC::GlobalTensor<T> tensor;
    tensor.SetGlobalBuffer(address, 1);
    GlobalView view = tensor.View();
    view.bypassesScalarCache = true;
    return view;
}

/// Slices of a dimension.
inline int64_t SlicesOf(const AscendC::SliceInfo& info, int64_t length, const Call& call)
{
    const int64_t last = info.shapeValue == 0 ? kFieldMax32 : int64_t{info.shapeValue} - 1;
    Field("endIndex", info.endIndex, info.startIndex, last, call);
    Field("burstLen", info.burstLen, 1, kFieldMax16, call);
    const int64_t pitch = length + info.stride;
    const int64_t slices = (int64_t{info.endIndex} - info.startIndex + 1 + info.stride) / pitch;
    const int64_t end = info.startIndex + slices * pitch - info.stride - 1;
    Field("endIndex (the end of a slice)", info.endIndex, end, end, call);
    return slices;
}

/// The offset of an outer slice in elements; `number` counts the outer slices, the innermost dimension first.
inline int64_t OuterOffset(const AscendC::SliceInfo info[], uint32_t dimensions, int64_t number, const Call& call)
{
    int64_t offset = 0;
    int64_t pitch = info[0].shapeValue;
    for (uint32_t dimension = 1; dimension < dimensions; ++dimension) {
        const int64_t slices = SlicesOf(info[dimension], 1, call);
        offset += (info[dimension].startIndex + number % slices * (1 + int64_t{info[dimension].stride})) * pitch;
        number /= slices;
        pitch *= info[dimension].shapeValue;
    }
    return offset;
}

inline int64_t OuterSlices(const AscendC::SliceInfo info[], uint32_t dimensions, const Call& call)
{
    int64_t slices = 1;
    for (uint32_t dimension = 1; dimension < dimensions; ++dimension) {
        Field("burstLen of an outer dimension", info[dimension].burstLen, 1, 1, call);
        slices *= SlicesOf(info[dimension], 1, call);
    }
    return slices;
}

/// Calls `copy` with the offsets of dst and src in elements and the rows for each outer slice.
template <typename Copy>
void ForSlices(const AscendC::SliceInfo dst[], const AscendC::SliceInfo src[], uint32_t dimensions, int64_t size,
               const Call& call, const Copy& copy)
{
    constexpr uint32_t kMostDimensions = 8;
    Field("dimValue", dimensions, 1, kMostDimensions, call);
    const int64_t bytes = src[0].burstLen * kBlockBytes;
    const int64_t count = SlicesOf(src[0], bytes / size, call);
    const int64_t outer = OuterSlices(src, dimensions, call);
    Field("burstLen of dst", dst[0].burstLen, src[0].burstLen, src[0].burstLen, call);
    Field("slices of dst", SlicesOf(dst[0], bytes / size, call), count, count, call);
    Field("outer slices of dst", OuterSlices(dst, dimensions, call), outer, outer, call);
    const Rows rows{count, bytes, src[0].stride * size, dst[0].stride * size};
    for (int64_t number = 0; number < outer; ++number) {
        copy(dst[0].startIndex + OuterOffset(dst, dimensions, number, call),
             src[0].startIndex + OuterOffset(src, dimensions, number, call), rows);
    }
}

}  // namespace opforge::twin::kernel

namespace AscendC {

template <typename T>
OPFORGE_API void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count)
{
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopy", twin::Here()};
    twin::CopyIn(dst.View(), src.View(), twin::RowOf<T>(count, call), nullptr, call);
}

template <typename T>
OPFORGE_API void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count)
{
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopy", twin::Here()};
    twin::CopyOut(dst.View(), src.View(), twin::RowOf<T>(count, call), false, call);
}

template <typename T>
OPFORGE_API void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count)
{
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopy", twin::Here()};
    twin::CopyLocal(dst.View(), src.View(), twin::RowOf<T>(count, call), call);
}

template <typename T>
OPFORGE_API void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& repeatParams)
{
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopy", twin::Here()};
    twin::CopyIn(dst.View(), src.View(), twin::RowsOf(repeatParams, call), nullptr, call);
}

template <typename T>
OPFORGE_API void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& repeatParams)
{
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopy", twin::Here()};
    twin::CopyOut(dst.View(), src.View(), twin::RowsOf(repeatParams, call), false, call);
}

template <typename T>
OPFORGE_API void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& repeatParams)
{
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopy", twin::Here()};
    const auto position = static_cast<TPosition>(dst.GetPosition());
    const auto rowsOf = position == TPosition::C2          ? twin::BiasRowsOf
                        : position == TPosition::C2PIPE2GM ? twin::ScaleRowsOf
                                                           : twin::RowsOf;
    twin::CopyLocal(dst.View(), src.View(), rowsOf(repeatParams, call), call);
}

#define OPFORGE_ENHANCED_COPY(Dst, Src, copy)                                                          \
    template <typename T>                                                                              \
    OPFORGE_API void DataCopy(const Dst<T>& dst, const Src<T>& src, const DataCopyParams& intriParams, \
                              const DataCopyEnhancedParams& enhancedParams)                            \
    {                                                                                                  \
        twin::RequireMovable<T>();                                                                     \
        const twin::Call call{"DataCopy", twin::Here()};                                               \
        twin::RequirePlain(enhancedParams, call);                                                      \
        const twin::Rows rows = twin::RowsOf(intriParams, call);                                       \
        copy;                                                                                          \
    }
OPFORGE_ENHANCED_COPY(LocalTensor, GlobalTensor, twin::CopyIn(dst.View(), src.View(), rows, nullptr, call))
OPFORGE_ENHANCED_COPY(GlobalTensor, LocalTensor, twin::CopyOut(dst.View(), src.View(), rows, false, call))
#undef OPFORGE_ENHANCED_COPY

/// BLOCK_MODE_MATRIX copies fractals of L0C on cores with both units.
template <typename T>
OPFORGE_API void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& intriParams,
                          const DataCopyEnhancedParams& enhancedParams)
{
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopy", twin::Here()};
    DataCopyEnhancedParams others = enhancedParams;
    if (twin::kIsCoupled && enhancedParams.blockMode == BlockMode::BLOCK_MODE_MATRIX) {
        others.blockMode = BlockMode::BLOCK_MODE_NORMAL;
        twin::RequirePlain(others, call);
        twin::CopySums(dst.View(), src.View(),
                       {twin::Field("blockCount", intriParams.blockCount, 0, 4095, call),
                        twin::Field("blockLen (fractals)", intriParams.blockLen, 0, twin::kFieldMax16, call),
                        twin::Field("srcGap (fractals)", intriParams.srcGap, 0, twin::kFieldMax16, call),
                        twin::Field("dstGap (32-byte blocks)", intriParams.dstGap, 0, twin::kFieldMax16, call)},
                       call);
        return;
    }
    twin::RequirePlain(others, call);
    twin::CopyLocal(dst.View(), src.View(), twin::RowsOf(intriParams, call), call);
}

#if !OPFORGE_TWIN_IS_COUPLED
/// For L0C of other products; a use is a compile error.
template <typename T, typename U>
void DataCopy(const LocalTensor<T>& /*dst*/, const LocalTensor<U>& /*src*/, const DataCopyParams& /*intriParams*/,
              const DataCopyEnhancedParams& /*enhancedParams*/)
{
    static_assert(sizeof(T) == 0, "DataCopy: Ascend 910B has no copy with other types of dst and src; use Fixpipe");
}
#endif

/// Copies slices of a tensor to slices of another one; the first dimension is the innermost.
template <typename T>
OPFORGE_API void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const SliceInfo dstSliceInfo[],
                          const SliceInfo srcSliceInfo[], const uint32_t dimValue = 1)
{
    twin::RequireMovable<T>();
    twin::RequireShape<T>();
    const twin::Call call{"DataCopy", twin::Here()};
    twin::ForSlices(dstSliceInfo, srcSliceInfo, dimValue, sizeof(T), call,
                    [&](int64_t to, int64_t from, const twin::Rows& rows) {
                        twin::CopyIn(dst[to].View(), src[static_cast<uint64_t>(from)].View(), rows, nullptr, call);
                    });
}

template <typename T>
OPFORGE_API void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const SliceInfo dstSliceInfo[],
                          const SliceInfo srcSliceInfo[], const uint32_t dimValue = 1)
{
    twin::RequireMovable<T>();
    twin::RequireShape<T>();
    const twin::Call call{"DataCopy", twin::Here()};
    twin::ForSlices(dstSliceInfo, srcSliceInfo, dimValue, sizeof(T), call,
                    [&](int64_t to, int64_t from, const twin::Rows& rows) {
                        twin::CopyOut(dst[static_cast<uint64_t>(to)].View(), src[from].View(), rows, false, call);
                    });
}

template <typename T>
OPFORGE_API void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                             const DataCopyExtParams& dataCopyParams, const DataCopyPadExtParams<PrimT<T>>& padParams)
{
    twin::GateDataCopyPad<T>();
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopyPad", twin::Here()};
    const twin::Padding padding{padParams.isPad, padParams.leftPadding, padParams.rightPadding,
                                twin::ScalarBits(padParams.paddingValue)};
    twin::CopyIn(dst.View(), src.View(), twin::PadRowsOf(dataCopyParams, sizeof(PrimT<T>), true, call), &padding, call);
}

template <typename T>
OPFORGE_API void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                             const DataCopyParams& dataCopyParams, const DataCopyPadParams& padParams)
{
    twin::GateDataCopyPad<T>();
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopyPad", twin::Here()};
    const twin::Padding padding{padParams.isPad, padParams.leftPadding, padParams.rightPadding, padParams.paddingValue};
    const DataCopyExtParams rows = twin::Extended(dataCopyParams, call);
    twin::CopyIn(dst.View(), src.View(), twin::PadRowsOf(rows, sizeof(PrimT<T>), true, call), &padding, call);
}

template <typename T>
OPFORGE_API void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                             const DataCopyExtParams& dataCopyParams)
{
    twin::GateDataCopyPad<T>();
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopyPad", twin::Here()};
    twin::CopyOut(dst.View(), src.View(), twin::PadRowsOf(dataCopyParams, sizeof(PrimT<T>), false, call), true, call);
}

template <typename T>
OPFORGE_API void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                             const DataCopyParams& dataCopyParams)
{
    twin::GateDataCopyPad<T>();
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopyPad", twin::Here()};
    const DataCopyExtParams rows = twin::Extended(dataCopyParams, call);
    twin::CopyOut(dst.View(), src.View(), twin::PadRowsOf(rows, sizeof(PrimT<T>), false, call), true, call);
}

/// Loads an element of global memory without the scalar unit's cache.
template <typename T>
OPFORGE_API T ReadGmByPassDCache(__gm__ T* addr)
{
    twin::GateReadGmByPassDCache<T>();
    return twin::FromBits<T>(twin::ReadGlobal(twin::UncachedView(addr), 0, {"ReadGmByPassDCache", twin::Here()}));
}

/// Stores an element to global memory without the scalar unit's cache.
template <typename T>
OPFORGE_API void WriteGmByPassDCache(__gm__ T* addr, T value)
{
    twin::GateWriteGmByPassDCache<T>();
    twin::WriteGlobal(twin::UncachedView(addr), 0, twin::ScalarBits(value), {"WriteGmByPassDCache", twin::Here()});
}

/// Sets the value of the padding of each later DataCopyPad whose isPad is false.
template <typename T, TPosition pos = TPosition::MAX>
OPFORGE_API void SetPadValue(T paddingValue)
{
    twin::GateSetPadValue<T>();
    twin::RequireMovable<T>();
    twin::SetPadding(twin::ScalarBits(paddingValue), {"SetPadValue", twin::Here()});
}

template <typename T>
OPFORGE_API void SetAtomicAdd()
{
    twin::GateSetAtomicAdd<T>();
    const twin::Call call{"SetAtomicAdd", twin::Here()};
    // Public kernels name all their dtypes, also those that no launch on Ascend 910B uses.
    twin::Field("T (Ascend 910B adds float, half, bfloat16_t, int32_t, int16_t and int8_t; 1: another dtype)",
                twin::kIsAnyOf<T, float, half, bfloat16_t, int32_t, int16_t, int8_t> ? 0 : 1, 0, 0, call);
    twin::SetAtomic(twin::AtomicOp::kAdd, twin::DtypeOf<T>(), call);
}

template <typename T>
OPFORGE_API void SetAtomicMax()
{
    twin::GateSetAtomicMax<T>();
    static_assert(twin::kIsAnyOf<T, float, half, bfloat16_t, int32_t, int16_t, int8_t>,
                  "SetAtomicMax: Ascend 910B has float, half, bfloat16_t, int32_t, int16_t, int8_t");
    twin::SetAtomic(twin::AtomicOp::kMax, twin::DtypeOf<T>(), {"SetAtomicMax", twin::Here()});
}

template <typename T>
OPFORGE_API void SetAtomicMin()
{
    twin::GateSetAtomicMin<T>();
    static_assert(twin::kIsAnyOf<T, float, half, bfloat16_t, int32_t, int16_t, int8_t>,
                  "SetAtomicMin: Ascend 910B has float, half, bfloat16_t, int32_t, int16_t, int8_t");
    twin::SetAtomic(twin::AtomicOp::kMin, twin::DtypeOf<T>(), {"SetAtomicMin", twin::Here()});
}

/// Sets the dtype of the atomic mode that is on.
template <typename T>
OPFORGE_API void SetAtomicType()
{
    twin::GateSetAtomicType<T>();
    static_assert(twin::kIsAnyOf<T, float, half, bfloat16_t, int32_t, int16_t, int8_t>,
                  "SetAtomicType: Ascend 910B has float, half, bfloat16_t, int32_t, int16_t, int8_t");
    twin::SetAtomicDtype(twin::DtypeOf<T>(), {"SetAtomicType", twin::Here()});
}

OPFORGE_API inline void SetAtomicNone()
{
    twin::SetAtomic(twin::AtomicOp::kNone, twin::Dtype::kOther, {"SetAtomicNone", twin::Here()});
}

OPFORGE_API inline void DisableDmaAtomic()
{
    twin::SetAtomic(twin::AtomicOp::kNone, twin::Dtype::kOther, {"DisableDmaAtomic", twin::Here()});
}

/// Fills `size` elements of global memory; uses scratch memory at the end of the unified buffer.
template <typename T>
OPFORGE_API void InitOutput(GlobalTensor<T> gmWorkspaceAddr, int64_t size, T value)
{
    twin::GateInitOutput<T>();
    static_assert(twin::kIsAnyOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>,
                  "InitOutput: Ascend 910B fills 2- and 4-byte types");
    twin::FillGlobal(gmWorkspaceAddr.View(), size, twin::ScalarBits(value), {"InitOutput", twin::Here()});
}

template <typename T, CacheLine entireType, DcciDst dcciDst>
OPFORGE_API void DataCacheCleanAndInvalid(const GlobalTensor<T>& dst)
{
    twin::GateDataCacheCleanAndInvalid<T>();
    twin::CleanCache(dst.View(), entireType == CacheLine::ENTIRE_DATA_CACHE,
                     {"DataCacheCleanAndInvalid", twin::Here()});
}

template <typename T, CacheLine entireType>
OPFORGE_API void DataCacheCleanAndInvalid(const GlobalTensor<T>& dst)
{
    twin::GateDataCacheCleanAndInvalid<T>();
    twin::CleanCache(dst.View(), entireType == CacheLine::ENTIRE_DATA_CACHE,
                     {"DataCacheCleanAndInvalid", twin::Here()});
}

/// The scalar unit of this architecture accesses the unified buffer without a cache.
template <typename T, CacheLine entireType, DcciDst dcciDst>
OPFORGE_API void DataCacheCleanAndInvalid(const LocalTensor<T>& /*dst*/)
{
    twin::GateDataCacheCleanAndInvalid<T>();
    twin::Issue({"DataCacheCleanAndInvalid", twin::Here()});
}

/// Loads a line of the data cache in advance; the time model has no such caches.
template <typename T>
OPFORGE_API void DataCachePreload(const GlobalTensor<uint64_t>& /*src*/, const T /*cacheOffset*/)
{
    static_assert(twin::kIsAnyOf<T, int16_t, int64_t>, "DataCachePreload: the offset is int16_t or int64_t");
    twin::Issue({"DataCachePreload", twin::Here()});
}

OPFORGE_API inline void ICachePreLoad(const int64_t /*preFetchLen*/)
{
    twin::Issue({"ICachePreLoad", twin::Here()});
}

/// 0: no preload is running.
OPFORGE_API inline int64_t GetICachePreloadStatus()
{
    twin::Issue({"GetICachePreloadStatus", twin::Here()});
    return 0;
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_DATA_COPY_H
