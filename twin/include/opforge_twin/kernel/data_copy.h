// Data movement between global memory and the unified buffer, atomic stores, and fills of global memory.
#ifndef OPFORGE_TWIN_KERNEL_DATA_COPY_H
#define OPFORGE_TWIN_KERNEL_DATA_COPY_H

#include "opforge_twin/arithmetic.h"
#include "opforge_twin/kernel/params.h"
#include "opforge_twin/kernel/tensor.h"

namespace opforge::twin::kernel {

inline constexpr int64_t kFieldMax8 = 255;
inline constexpr int64_t kFieldMax16 = 65535;
inline constexpr int64_t kFieldMax32 = 4294967295;

template <typename T>
constexpr void RequireMovable()
{
    static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8,
                  "DataCopy moves elements of 1, 2, 4 or 8 bytes");
}

/// One row of `count` elements. The device rounds the length down to 32 bytes; the twin requires a multiple.
inline Rows RowOf(int64_t count, int64_t size, const Call& call)
{
    Field("count", count, 0, kFieldMax32, call);
    RequireMultiple("count * sizeof(T)", count * size, kBlockBytes, "bytes",
                    "change count, or use DataCopyPad, which accepts any length", call);
    return {1, count * size, 0, 0};
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

}  // namespace opforge::twin::kernel

namespace AscendC {

template <typename T>
OPFORGE_API void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count)
{
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopy", twin::Here()};
    twin::CopyIn(dst.View(), src.View(), twin::RowOf(count, sizeof(T), call), nullptr, call);
}

template <typename T>
OPFORGE_API void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count)
{
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopy", twin::Here()};
    twin::CopyOut(dst.View(), src.View(), twin::RowOf(count, sizeof(T), call), false, call);
}

template <typename T>
OPFORGE_API void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count)
{
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopy", twin::Here()};
    twin::CopyLocal(dst.View(), src.View(), twin::RowOf(count, sizeof(T), call), call);
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
    const bool isBias = dst.GetPosition() == static_cast<int32_t>(TPosition::C2);
    twin::CopyLocal(dst.View(), src.View(),
                    isBias ? twin::BiasRowsOf(repeatParams, call) : twin::RowsOf(repeatParams, call), call);
}

template <typename T>
OPFORGE_API void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                             const DataCopyExtParams& dataCopyParams, const DataCopyPadExtParams<T>& padParams)
{
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopyPad", twin::Here()};
    const twin::Padding padding{padParams.isPad, padParams.leftPadding, padParams.rightPadding,
                                twin::ScalarBits(padParams.paddingValue)};
    twin::CopyIn(dst.View(), src.View(), twin::PadRowsOf(dataCopyParams, sizeof(T), true, call), &padding, call);
}

template <typename T>
OPFORGE_API void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                             const DataCopyParams& dataCopyParams, const DataCopyPadParams& padParams)
{
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopyPad", twin::Here()};
    const twin::Padding padding{padParams.isPad, padParams.leftPadding, padParams.rightPadding, padParams.paddingValue};
    const DataCopyExtParams rows = twin::Extended(dataCopyParams, call);
    twin::CopyIn(dst.View(), src.View(), twin::PadRowsOf(rows, sizeof(T), true, call), &padding, call);
}

template <typename T>
OPFORGE_API void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                             const DataCopyExtParams& dataCopyParams)
{
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopyPad", twin::Here()};
    twin::CopyOut(dst.View(), src.View(), twin::PadRowsOf(dataCopyParams, sizeof(T), false, call), true, call);
}

template <typename T>
OPFORGE_API void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                             const DataCopyParams& dataCopyParams)
{
    twin::RequireMovable<T>();
    const twin::Call call{"DataCopyPad", twin::Here()};
    const DataCopyExtParams rows = twin::Extended(dataCopyParams, call);
    twin::CopyOut(dst.View(), src.View(), twin::PadRowsOf(rows, sizeof(T), false, call), true, call);
}

template <typename T>
OPFORGE_API void SetAtomicAdd()
{
    static_assert(twin::kIsAnyOf<T, float, half, bfloat16_t, int32_t, int16_t, int8_t>,
                  "SetAtomicAdd: Ascend 910B has float, half, bfloat16_t, int32_t, int16_t, int8_t");
    twin::SetAtomic(twin::AtomicOp::kAdd, twin::DtypeOf<T>(), {"SetAtomicAdd", twin::Here()});
}

template <typename T>
OPFORGE_API void SetAtomicMax()
{
    static_assert(twin::kIsAnyOf<T, float, half, bfloat16_t, int32_t, int16_t, int8_t>,
                  "SetAtomicMax: Ascend 910B has float, half, bfloat16_t, int32_t, int16_t, int8_t");
    twin::SetAtomic(twin::AtomicOp::kMax, twin::DtypeOf<T>(), {"SetAtomicMax", twin::Here()});
}

template <typename T>
OPFORGE_API void SetAtomicMin()
{
    static_assert(twin::kIsAnyOf<T, float, half, bfloat16_t, int32_t, int16_t, int8_t>,
                  "SetAtomicMin: Ascend 910B has float, half, bfloat16_t, int32_t, int16_t, int8_t");
    twin::SetAtomic(twin::AtomicOp::kMin, twin::DtypeOf<T>(), {"SetAtomicMin", twin::Here()});
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
    static_assert(twin::kIsAnyOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>,
                  "InitOutput: Ascend 910B fills 2- and 4-byte types");
    twin::FillGlobal(gmWorkspaceAddr.View(), size, twin::ScalarBits(value), {"InitOutput", twin::Here()});
}

template <typename T, CacheLine entireType, DcciDst dcciDst>
OPFORGE_API void DataCacheCleanAndInvalid(const GlobalTensor<T>& dst)
{
    twin::CleanCache(dst.View(), entireType == CacheLine::ENTIRE_DATA_CACHE,
                     {"DataCacheCleanAndInvalid", twin::Here()});
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_DATA_COPY_H
