// Products with a right factor that has two of four elements, and their loads.
#ifndef OPFORGE_TWIN_KERNEL_SPARSE_H
#define OPFORGE_TWIN_KERNEL_SPARSE_H

#include "opforge_twin/kernel/cube.h"

namespace AscendC {

/// Loads fractals from L1 to L0B, and their indices of two bits from L1. Only startIndex and repeatTimes are used.
template <typename T, typename U>
OPFORGE_API void LoadDataWithSparse(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<U>& idx,
                                    const LoadData2DParams& loadDataParam)
{
    twin::GateLoadDataWithSparse<T>();
    twin::RequireSameKind<T, U>();
    static_assert(twin::kIsAnyOf<T, int8_t> && twin::kIsAnyOf<U, uint8_t>,
                  "LoadDataWithSparse: dst and src are int8_t, idx is uint8_t");
    const twin::Call call{"LoadDataWithSparse", twin::Here()};
    twin::LoadSparse(dst.View(), src.View(), idx.View(),
                     twin::Field("startIndex", loadDataParam.startIndex, 0, twin::kFieldMax16, call),
                     twin::Field("repeatTimes", loadDataParam.repeatTimes, 0, twin::kFieldMax8, call), call);
}

/// k is that of the left factor. Assumption: the time is that of a product with half of k.
template <typename T, typename U>
OPFORGE_API void MmadWithSparse(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<U>& filter,
                                const MmadParams& mmadParams)
{
    twin::GateMmadWithSparse<U>();
    twin::RequireSameKind<T, U>();
    static_assert(twin::kIsAnyOf<T, int32_t> && twin::kIsAnyOf<U, int8_t>,
                  "MmadWithSparse: dst is int32_t, fm and filter are int8_t");
    const twin::Call call{"MmadWithSparse", twin::Here()};
    twin::Product product = twin::ProductOf(mmadParams, call);
    twin::Field("m (there is no form for vectors)", product.m == 1 ? 1 : 0, 0, 0, call);
    twin::Field("kDirectionAlign", product.hasWideK ? 1 : 0, 0, 0, call);
    twin::RequireMultiple("k", product.k, 4, "elements", "two of four elements are in the right factor", call);
    product.isSparse = true;
    twin::MultiplyWithTable(dst.View(), fm.View(), filter.View(), product, call);
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_SPARSE_H
