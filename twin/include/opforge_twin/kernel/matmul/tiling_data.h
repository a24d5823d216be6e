// TCubeTiling: the tiling data of the Matmul API, for kernels and for the host.
#ifndef OPFORGE_TWIN_KERNEL_MATMUL_TILING_DATA_H
#define OPFORGE_TWIN_KERNEL_MATMUL_TILING_DATA_H

#include <cstdint>

/// The fields in the order of the tiling buffer. All are int32_t.
#define OPFORGE_TWIN_CUBE_TILING_FIELDS(field)                                                                         \
    field(usedCoreNum) field(M) field(N) field(Ka) field(Kb) field(singleCoreM) field(singleCoreN) field(singleCoreK)  \
        field(baseM) field(baseN) field(baseK) field(depthA1) field(depthB1) field(stepM) field(stepN) field(isBias)   \
            field(transLength) field(iterateOrder) field(shareMode) field(shareL1Size) field(shareL0CSize)             \
                field(shareUbSize) field(batchM) field(batchN) field(singleBatchM) field(singleBatchN) field(stepKa)   \
                    field(stepKb) field(depthAL1CacheUB) field(depthBL1CacheUB) field(dbL0A) field(dbL0B) field(dbL0C) \
                        field(ALayoutInfoB) field(ALayoutInfoS) field(ALayoutInfoN) field(ALayoutInfoG)                \
                            field(ALayoutInfoD) field(BLayoutInfoB) field(BLayoutInfoS) field(BLayoutInfoN)            \
                                field(BLayoutInfoG) field(BLayoutInfoD) field(CLayoutInfoB) field(CLayoutInfoS1)       \
                                    field(CLayoutInfoN) field(CLayoutInfoG) field(CLayoutInfoS2) field(BatchNum)       \
                                        field(mxTypePara)

namespace AscendC {
namespace tiling {

struct TCubeTiling {
#define OPFORGE_TWIN_MEMBER(name) int32_t name = 0;
    OPFORGE_TWIN_CUBE_TILING_FIELDS(OPFORGE_TWIN_MEMBER)
#undef OPFORGE_TWIN_MEMBER
};

}  // namespace tiling
}  // namespace AscendC

using AscendC::tiling::TCubeTiling;

#endif  // OPFORGE_TWIN_KERNEL_MATMUL_TILING_DATA_H
