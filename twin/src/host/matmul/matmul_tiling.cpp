// The values that a tiling function sets, and the tiling data that it receives.
#include "opforge_twin/host/matmul_tiling.h"

#include "opforge_twin/arithmetic.h"

namespace matmul_tiling {

namespace {

uint64_t SizeOf(const platform_ascendc::PlatformAscendC& platform, platform_ascendc::CoreMemType type)
{
    uint64_t bytes = 0;
    platform.GetCoreMemSize(type, bytes);
    return bytes;
}

PlatformInfo InfoOf(const platform_ascendc::PlatformAscendC& platform)
{
    using platform_ascendc::CoreMemType;
    return {
        platform.GetSocVersion(),          SizeOf(platform, CoreMemType::L1),   SizeOf(platform, CoreMemType::L0_C),
        SizeOf(platform, CoreMemType::UB), SizeOf(platform, CoreMemType::L0_A), SizeOf(platform, CoreMemType::L0_B)};
}

/// The memories of Ascend 910B.
PlatformInfo Default()
{
    constexpr uint64_t kKib = 1024;
    return {platform_ascendc::SocVersion::ASCEND910B, 512 * kKib, 128 * kKib, 192 * kKib - 256, 64 * kKib, 64 * kKib};
}

int32_t Checked(bool isRight)
{
    return isRight ? 0 : -1;
}

bool IsCount(int32_t value)
{
    return value > 0 || value == -1;
}

}  // namespace

MatmulApiTilingBase::MatmulApiTilingBase() : MatmulApiTilingBase(Default()) {}

MatmulApiTilingBase::MatmulApiTilingBase(const platform_ascendc::PlatformAscendC& ascendcPlatform)
    : MatmulApiTilingBase(InfoOf(ascendcPlatform))
{
}

MatmulApiTilingBase::MatmulApiTilingBase(const PlatformInfo& platform)
    : l1Bytes_(static_cast<int64_t>(platform.l1Size)),
      l0aBytes_(static_cast<int64_t>(platform.l0ASize)),
      l0bBytes_(static_cast<int64_t>(platform.l0BSize)),
      l0cBytes_(static_cast<int64_t>(platform.l0CSize)),
      ubBytes_(static_cast<int64_t>(platform.ubSize)),
      l1Limit_(l1Bytes_),
      l0cLimit_(l0cBytes_),
      ubLimit_(ubBytes_)
{
}

int32_t MatmulApiTilingBase::SetAType(TPosition pos, CubeFormat type, DataType dataType, bool isTrans)
{
    a_ = {pos, type, dataType, isTrans};
    return 0;
}

int32_t MatmulApiTilingBase::SetBType(TPosition pos, CubeFormat type, DataType dataType, bool isTrans)
{
    b_ = {pos, type, dataType, isTrans};
    return 0;
}

int32_t MatmulApiTilingBase::SetCType(TPosition pos, CubeFormat type, DataType dataType)
{
    c_ = {pos, type, dataType, false};
    return 0;
}

int32_t MatmulApiTilingBase::SetBiasType(TPosition pos, CubeFormat type, DataType dataType)
{
    bias_ = {pos, type, dataType, false};
    return 0;
}

int32_t MatmulApiTilingBase::SetDequantType(DequantType /*dequantType*/)
{
    return 0;
}

int32_t MatmulApiTilingBase::SetShape(int32_t m, int32_t n, int32_t k)
{
    shape_ = {m, n, k};
    return Checked(IsCount(m) && IsCount(n) && IsCount(k));
}

int32_t MatmulApiTilingBase::SetOrgShape(int32_t orgMIn, int32_t orgNIn, int32_t orgKIn)
{
    return SetOrgShape(orgMIn, orgNIn, orgKIn, orgKIn);
}

int32_t MatmulApiTilingBase::SetOrgShape(int32_t orgMIn, int32_t orgNIn, int32_t orgKaIn, int32_t orgKbIn)
{
    orgM_ = orgMIn;
    orgN_ = orgNIn;
    orgKa_ = orgKaIn;
    orgKb_ = orgKbIn;
    return Checked(orgM_ > 0 && orgN_ > 0 && orgKa_ > 0 && orgKb_ > 0);
}

int32_t MatmulApiTilingBase::SetALayout(int32_t b, int32_t s, int32_t n, int32_t g, int32_t d)
{
    tiling_.ALayoutInfoB = b;
    tiling_.ALayoutInfoS = s;
    tiling_.ALayoutInfoN = n;
    tiling_.ALayoutInfoG = g;
    tiling_.ALayoutInfoD = d;
    return 0;
}

int32_t MatmulApiTilingBase::SetBLayout(int32_t b, int32_t s, int32_t n, int32_t g, int32_t d)
{
    tiling_.BLayoutInfoB = b;
    tiling_.BLayoutInfoS = s;
    tiling_.BLayoutInfoN = n;
    tiling_.BLayoutInfoG = g;
    tiling_.BLayoutInfoD = d;
    return 0;
}

int32_t MatmulApiTilingBase::SetCLayout(int32_t b, int32_t s, int32_t n, int32_t g, int32_t d)
{
    tiling_.CLayoutInfoB = b;
    tiling_.CLayoutInfoS1 = s;
    tiling_.CLayoutInfoN = n;
    tiling_.CLayoutInfoG = g;
    tiling_.CLayoutInfoS2 = d;
    return 0;
}

int32_t MatmulApiTilingBase::SetBatchInfoForNormal(int32_t batchA, int32_t batchB, int32_t m, int32_t n, int32_t k)
{
    SetALayout(batchA, m, 1, 1, k);
    SetBLayout(batchB, n, 1, 1, k);
    SetCLayout(batchA > batchB ? batchA : batchB, m, 1, 1, n);
    single_ = {m, n, k};
    return SetBatchNum(batchA > batchB ? batchA : batchB);
}

int32_t MatmulApiTilingBase::SetBatchNum(int32_t batch)
{
    tiling_.BatchNum = batch;
    return Checked(batch > 0);
}

int32_t MatmulApiTilingBase::EnableBias(bool isBiasIn)
{
    hasBias_ = isBiasIn;
    return 0;
}

int32_t MatmulApiTilingBase::SetBias(bool isBiasIn)
{
    return EnableBias(isBiasIn);
}

int32_t MatmulApiTilingBase::SetFixSplit(int32_t baseMIn, int32_t baseNIn, int32_t baseKIn)
{
    fixedBase_ = {baseMIn, baseNIn, baseKIn};
    const bool isWhole = IsCount(baseMIn) && IsCount(baseNIn) && IsCount(baseKIn);
    const int64_t m = baseMIn > 0 ? baseMIn : 1;
    return Checked(isWhole && m * (baseNIn > 0 ? baseNIn : 1) * 4 <= l0cBytes_);
}

int32_t MatmulApiTilingBase::SetBufferSpace(int32_t l1Size, int32_t l0CSize, int32_t ubSize, int32_t /*btSize*/)
{
    l1Limit_ = l1Size == -1 ? l1Bytes_ : l1Size;
    l0cLimit_ = l0CSize == -1 ? l0cBytes_ : l0CSize;
    ubLimit_ = ubSize == -1 ? ubBytes_ : ubSize;
    return Checked(l1Limit_ <= l1Bytes_ && l0cLimit_ <= l0cBytes_ && l1Limit_ >= 0 && l0cLimit_ >= 0);
}

int32_t MatmulApiTilingBase::SetTraverse(MatrixTraverse traverse)
{
    traverse_ = traverse;
    return 0;
}

int32_t MatmulApiTilingBase::SetMadType(MatrixMadType /*madType*/)
{
    return 0;
}

int32_t MatmulApiTilingBase::SetSplitRange(int32_t maxBaseM, int32_t maxBaseN, int32_t maxBaseK, int32_t minBaseM,
                                           int32_t minBaseN, int32_t minBaseK)
{
    mostBase_ = {maxBaseM, maxBaseN, maxBaseK};
    leastBase_ = {minBaseM, minBaseN, minBaseK};
    return 0;
}

int32_t MatmulApiTilingBase::SetDoubleBuffer(bool /*a*/, bool /*b*/, bool c, bool /*bias*/, bool /*transND2NZ*/,
                                             bool /*transNZ2ND*/)
{
    hasDoubleSums_ = c;
    return 0;
}

void MatmulApiTilingBase::SetMatmulConfigParams(int32_t /*mmConfigTypeIn*/, bool /*enableL1CacheUBIn*/,
                                                ScheduleType /*scheduleTypeIn*/, MatrixTraverse traverseIn,
                                                bool /*enVecND2NZIn*/)
{
    traverse_ = traverseIn != MatrixTraverse::NOSET ? traverseIn : traverse_;
}

void MatmulApiTilingBase::SetMatmulConfigParams(const MatmulConfigParams& configParams)
{
    SetMatmulConfigParams(configParams.mmConfigType, configParams.enableL1CacheUB, configParams.scheduleType,
                          configParams.traverse, configParams.enVecND2NZ);
}

int32_t MatmulApiTilingBase::SetSparse(bool isSparseIn)
{
    isSparse_ = isSparseIn;
    return 0;
}

int64_t MatmulApiTilingBase::GetTiling(AscendC::tiling::TCubeTiling& tiling)
{
    if (!Choose()) {
        return -1;
    }
    tiling = tiling_;
    return 0;
}

int64_t MatmulApiTilingBase::GetTiling(optiling::TCubeTiling& tiling)
{
    if (!Choose()) {
        return -1;
    }
#define OPFORGE_TWIN_SET(name) tiling.set_##name(tiling_.name);
    OPFORGE_TWIN_CUBE_TILING_FIELDS(OPFORGE_TWIN_SET)
#undef OPFORGE_TWIN_SET
    return 0;
}

int32_t MultiCoreMatmulTiling::SetDim(int32_t dim)
{
    constexpr int32_t kMostCores = 1024;  // more than any chip has
    const bool isRight = dim > 0 && dim <= kMostCores;
    cores_ = isRight ? dim : cores_;
    return Checked(isRight);
}

int32_t MultiCoreMatmulTiling::SetSingleShape(int32_t singleMIn, int32_t singleNIn, int32_t singleKIn)
{
    single_ = {singleMIn, singleNIn, singleKIn};
    return Checked(IsCount(singleMIn) && IsCount(singleNIn) && IsCount(singleKIn));
}

int32_t MultiCoreMatmulTiling::SetSingleRange(int32_t maxM, int32_t maxN, int32_t maxK, int32_t minM, int32_t minN,
                                              int32_t minK)
{
    mostSingle_ = {maxM, maxN, maxK};
    leastSingle_ = {minM, minN, minK};
    return 0;
}

int32_t MultiCoreMatmulTiling::SetAlignSplit(int32_t alignM, int32_t alignN, int32_t alignK)
{
    alignment_ = {alignM, alignN, alignK};
    return Checked(IsCount(alignM) && IsCount(alignN) && IsCount(alignK));
}

int32_t MultiCoreMatmulTiling::GetSingleShape(int32_t& shapeM, int32_t& shapeN, int32_t& shapeK)
{
    shapeM = tiling_.singleCoreM;
    shapeN = tiling_.singleCoreN;
    shapeK = tiling_.singleCoreK;
    return 0;
}

int32_t MultiCoreMatmulTiling::GetCoreNum(int32_t& dim, int32_t& mDim, int32_t& nDim)
{
    dim = tiling_.usedCoreNum;
    mDim = coresM_;
    nDim = coresN_;
    return 0;
}

int32_t BatchMatmulTiling::GetCoreNum(int32_t& dim, int32_t& mDim, int32_t& nDim, int32_t& batchCoreM,
                                      int32_t& batchCoreN)
{
    dim = tiling_.usedCoreNum;
    mDim = coresM_;
    nDim = coresN_;
    batchCoreM = 1;
    batchCoreN = 1;
    return 0;
}

}  // namespace matmul_tiling

namespace {

int32_t SizesOf(int32_t ub, int32_t l1, int32_t l0c, matmul_tiling::SysTilingTempBufSize& bufSize)
{
    bufSize = {ub, l1, l0c};
    return l1 > 0 && l0c > 0 ? 0 : -1;
}

}  // namespace

int32_t MatmulGetTmpBufSize(optiling::TCubeTiling& tiling, matmul_tiling::SysTilingTempBufSize& bufSize)
{
    return SizesOf(tiling.get_shareUbSize(), tiling.get_shareL1Size(), tiling.get_shareL0CSize(), bufSize);
}

int32_t MultiCoreMatmulGetTmpBufSize(optiling::TCubeTiling& tiling, matmul_tiling::SysTilingTempBufSize& bufSize)
{
    return MatmulGetTmpBufSize(tiling, bufSize);
}

int32_t BatchMatmulGetTmpBufSize(optiling::TCubeTiling& tiling, matmul_tiling::SysTilingTempBufSize& bufSize)
{
    return MatmulGetTmpBufSize(tiling, bufSize);
}

int32_t MatmulGetTmpBufSizeV2(AscendC::tiling::TCubeTiling& tiling, matmul_tiling::SysTilingTempBufSize& bufSize)
{
    return SizesOf(tiling.shareUbSize, tiling.shareL1Size, tiling.shareL0CSize, bufSize);
}

int32_t MultiCoreMatmulGetTmpBufSizeV2(AscendC::tiling::TCubeTiling& tiling,
                                       matmul_tiling::SysTilingTempBufSize& bufSize)
{
    return MatmulGetTmpBufSizeV2(tiling, bufSize);
}

int32_t BatchMatmulGetTmpBufSizeV2(AscendC::tiling::TCubeTiling& tiling, matmul_tiling::SysTilingTempBufSize& bufSize)
{
    return MatmulGetTmpBufSizeV2(tiling, bufSize);
}
