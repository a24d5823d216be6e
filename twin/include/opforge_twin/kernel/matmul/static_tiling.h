// MatmulApiStaticTiling: tiling data that are known at compile time.
#ifndef OPFORGE_TWIN_KERNEL_MATMUL_STATIC_TILING_H
#define OPFORGE_TWIN_KERNEL_MATMUL_STATIC_TILING_H

#include "opforge_twin/arithmetic.h"
#include "opforge_twin/kernel/matmul/config.h"

namespace AscendC {

/// The fields of TCubeTiling, -1 if not known at compile time, with the configuration of the template.
struct MatmulApiStaticTiling {
#define OPFORGE_TWIN_MEMBER(name) int32_t name = -1;
    OPFORGE_TWIN_CUBE_TILING_FIELDS(OPFORGE_TWIN_MEMBER)
#undef OPFORGE_TWIN_MEMBER
    MatmulConfig cfg = CFG_NORM;

    constexpr TCubeTiling Plain() const
    {
        TCubeTiling plain;
#define OPFORGE_TWIN_COPY(name) plain.name = name;
        OPFORGE_TWIN_CUBE_TILING_FIELDS(OPFORGE_TWIN_COPY)
#undef OPFORGE_TWIN_COPY
        return plain;
    }
};

/// Chooses what the configuration leaves open: the blocks in L1 and the double buffers.
template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE>
constexpr MatmulApiStaticTiling GetMatmulApiTiling(const MatmulConfig& mmCFG, int32_t l1Size = 512 * 1024)
{
    MatmulApiStaticTiling tiling;
    tiling.cfg = mmCFG;
    tiling.isBias = mmCFG.enableSetBias ? 1 : 0;
    if (mmCFG.basicM == 0 || mmCFG.basicN == 0 || mmCFG.basicK == 0) {
        return tiling;
    }
    const auto baseM = static_cast<int32_t>(mmCFG.basicM);
    const auto baseN = static_cast<int32_t>(mmCFG.basicN);
    const auto baseK = static_cast<int32_t>(mmCFG.basicK);
    const int32_t blockA = baseM * baseK * static_cast<int32_t>(sizeof(typename A_TYPE::T));
    const int32_t blockB = baseN * baseK * static_cast<int32_t>(sizeof(typename B_TYPE::T));
    tiling.baseM = baseM;
    tiling.baseN = baseN;
    tiling.baseK = baseK;
    tiling.dbL0A = 2 * blockA <= 64 * 1024 ? 2 : 1;
    tiling.dbL0B = 2 * blockB <= 64 * 1024 ? 2 : 1;
    tiling.dbL0C = 1;
    if (mmCFG.singleCoreM == 0 || mmCFG.singleCoreN == 0 || mmCFG.singleCoreK == 0) {
        return tiling;
    }
    tiling.singleCoreM = tiling.M = static_cast<int32_t>(mmCFG.singleCoreM);
    tiling.singleCoreN = tiling.N = static_cast<int32_t>(mmCFG.singleCoreN);
    tiling.singleCoreK = tiling.Ka = tiling.Kb = static_cast<int32_t>(mmCFG.singleCoreK);
    const int32_t kBlocks = opforge::twin::CeilDiv(tiling.singleCoreK, baseK);
    const int32_t bias = 4 * baseN;
    int32_t step = kBlocks;
    while (step > 1 && 2 * step * (blockA + blockB) + bias > l1Size) {
        --step;
    }
    tiling.stepM = 1;
    tiling.stepN = 1;
    tiling.stepKa = step;
    tiling.stepKb = step;
    tiling.depthA1 = 2 * step;
    tiling.depthB1 = 2 * step;
    tiling.iterateOrder = 0;
    tiling.transLength = 0;
    tiling.shareMode = 0;
    tiling.shareL1Size = 2 * step * (blockA + blockB) + bias;
    tiling.shareL0CSize = baseM * baseN * 4;
    tiling.shareUbSize = 0;
    return tiling;
}

// The configuration of the template, which public kernels read.
constexpr MatmulConfig ToMatmulConfig(const MatmulConfig& config)
{
    return config;
}
constexpr MatmulConfig ToMatmulConfig(const MatmulApiStaticTiling& tiling)
{
    return tiling.cfg;
}

}  // namespace AscendC

using AscendC::MatmulApiStaticTiling;

#endif  // OPFORGE_TWIN_KERNEL_MATMUL_STATIC_TILING_H
