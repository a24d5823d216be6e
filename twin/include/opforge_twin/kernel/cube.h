// Instructions of the cube unit: GM to L1; L1 to L0A, L0B and the bias table; matrix products; L0C to GM.
#ifndef OPFORGE_TWIN_KERNEL_CUBE_H
#define OPFORGE_TWIN_KERNEL_CUBE_H

#include "opforge_twin/kernel/cube_params.h"
#include "opforge_twin/kernel/data_copy.h"

namespace opforge::twin::kernel {

/// Dtypes of the cube unit.
template <typename T>
inline constexpr bool kIsFactor = kIsAnyOf<T, half, bfloat16_t, float, int8_t, AscendC::int4b_t>;

/// Dtypes of loads of fractals.
template <typename T>
inline constexpr bool kIsLoaded = kIsFactor<T> || kIsAnyOf<T, uint8_t, int16_t, uint16_t, int32_t, uint32_t>;

/// The fields that loads of fractals have in common.
template <typename Params>
FractalLoad FractalLoadOf(const Params& params, const Call& call)
{
    FractalLoad load{Field("startIndex", params.startIndex, 0, kFieldMax16, call),
                     Field("repeatTimes", params.repeatTimes, 0, kFieldMax8, call),
                     Field("srcStride", params.srcStride, 0, kFieldMax16, call),
                     Field("dstGap", params.dstGap, 0, kIsCoupled ? 0 : kFieldMax16, call)};  // Ascend 910 ignores it
    load.isDescending = Field("addrMode", params.addrMode, 0, 1, call) == 1;
    return load;
}

/// The sums of factors of type U.
template <typename T, typename U, typename S>
constexpr void RequireProduct()
{
    RequireSameKind<T, U, S>();
    static_assert(kIsFactor<U> && kIsAnyOf<S, PrimT<U>> &&
                      kIsAnyOf<T, std::conditional_t<kIsAnyOf<U, int8_t, AscendC::int4b_t>, int32_t, float>>,
                  "Mmad: the twin has (float, half, half), (float, bfloat16_t, bfloat16_t), (float, float, float), "
                  "(int32_t, int8_t, int8_t) and (int32_t, int4b_t, int4b_t)");
}

template <typename T, typename U>
constexpr void RequireStore()
{
    RequireSameKind<T, U>();
    static_assert(
        kIsAnyOf<U, float> ? kIsAnyOf<T, float, half, bfloat16_t, int8_t, uint8_t>
                           : kIsAnyOf<U, int32_t> && kIsAnyOf<T, int32_t, half, int8_t, uint8_t>,
        "Fixpipe: the twin stores float of L0C as float, half, bfloat16_t, int8_t and uint8_t, and int32_t as "
        "int32_t, half, int8_t and uint8_t");
}

template <typename T, typename U>
constexpr void RequireStoreToL1()
{
    RequireStore<T, U>();
    static_assert(sizeof(PrimT<T>) < sizeof(float), "Fixpipe: L1 receives types of 1 and 2 bytes");
}

template <typename U, typename S>
constexpr void RequireScales()
{
    RequireSameKind<U, S>();
    static_assert(sizeof(PrimT<S>) == sizeof(uint64_t), "Fixpipe: cbufWorkspace holds uint64_t");
}

inline Product ProductOf(const AscendC::MmadParams& params, const Call& call)
{
    Field("isBias, enSsparse, enWinogradA, enWinogradB, fmOffset",
          (params.isBias || params.enSsparse || params.enWinogradA || params.enWinogradB ? 1 : 0) + params.fmOffset, 0,
          0, call);
    Field("unitFlag, kDirectionAlign (Ascend 910 has neither)",
          kIsCoupled ? params.unitFlag + (params.kDirectionAlign ? 1 : 0) : 0, 0, 0, call);
    return {Field("m", params.m, 0, 4095, call),
            Field("n", params.n, 0, 4095, call),
            Field("k", params.k, 0, 4095, call),
            Field("unitFlag", params.unitFlag, 0, 3, call),
            params.kDirectionAlign,
            !params.cmatrixInitVal && params.cmatrixSource,
            params.cmatrixInitVal};
}

inline ProductStore ProductStoreOf(const AscendC::FixpipeParamsV220& params, bool asRows, const Call& call)
{
    RequireMultiple("nSize", asRows ? 0 : params.nSize, params.isChannelSplit ? 8 : 16, "columns",
                    "store whole fractals", call);
    ProductStore store{Field("mSize", params.mSize, 0, asRows ? 8192 : kFieldMax16, call),
                       Field("nSize", params.nSize, 0, 4095, call),
                       Field("srcStride", params.srcStride, 0, kFieldMax16, call),
                       Field("dstStride", params.dstStride, 1, kFieldMax32, call),
                       static_cast<uint32_t>(params.quantPre),
                       params.reluEn,
                       Field("unitFlag", params.unitFlag, 0, 3, call),
                       params.deqScalar};
    store.splitsChannels = params.isChannelSplit;
    return store;
}

/// Stores matrices of rows: fractals of 16 x 16 sums apart in L0C, elements apart in global memory.
inline void StoreMatrices(GlobalView dst, LocalView src, const ProductStore& store,
                          const AscendC::FixpipeParamsV220& params, bool asRows, const Call& call)
{
    const bool isOne = !asRows || params.ndNum == 1;
    const int64_t count = isOne ? 1 : Field("ndNum", params.ndNum, 1, kFieldMax16, call);
    const int64_t srcStride = isOne ? 0 : Field("srcNdStride", params.srcNdStride, 1, 512, call);
    const int64_t dstStride = isOne ? 0 : Field("dstNdStride", params.dstNdStride, 1, kFieldMax16, call);
    for (int64_t matrix = 0; matrix < count; ++matrix) {
        StoreProduct(dst, src, store, asRows, call);
        dst.address += static_cast<uint64_t>(dstStride * dst.size);
        src.address += srcStride * 16 * 16 * src.size;
    }
}

/// Stores to global memory with the parameters before FixpipeParamsV220; `scales` may be null.
template <typename U>
void StoreWithGaps(const GlobalView& dst, const LocalView& src, const LocalView* scales,
                   const AscendC::FixpipeParams<U>& params, const Call& call)
{
    const AscendC::FixpipeParamsV220 later = params.Later(static_cast<size_t>(dst.size));
    const bool asRows = params.nz2ndParams.nz2ndEn;
    ProductStore store = ProductStoreOf(later, asRows, call);
    store.quantTensor = scales;
    StoreMatrices(dst, src, store, later, asRows, call);
}

/// Stores to L1 with the parameters before FixpipeParamsV220; `scales` may be null.
template <typename U>
void KeepWithGaps(const LocalView& dst, const LocalView& src, const LocalView* scales,
                  const AscendC::FixpipeParams<U>& params, const Call& call)
{
    Field("nz2ndEn (L1 has fractals)", params.nz2ndParams.nz2ndEn ? 1 : 0, 0, 0, call);
    ProductStore store = ProductStoreOf(params.Later(static_cast<size_t>(dst.size)), false, call);
    store.quantTensor = scales;
    KeepProduct(dst, src, store, call);
}

/// The parameters of a copy from L0C by DataCopy: its quantization and its matrices are in registers.
inline ProductStore ProductStoreOf(const AscendC::DataCopyCO12DstParams& params, const Call& call)
{
    Field("clipReluPre, eltWiseOp", params.clipReluPre + params.eltWiseOp, 0, 0, call);
    AscendC::FixpipeParamsV220 later;
    later.nSize = params.nSize;
    later.mSize = params.mSize;
    later.srcStride = params.srcStride;
    later.dstStride = params.dstStride;
    later.quantPre = params.quantPre;
    later.reluEn = Field("reluPre", params.reluPre, 0, 1, call) == 1;
    later.unitFlag = params.unitFlag;
    later.isChannelSplit = params.channelSplit;
    ProductStore store = ProductStoreOf(later, params.nz2ndEn, call);
    store.usesRegisters = true;
    return store;
}

inline constexpr int64_t kMostImage = 32767;

/// Loads a part of the matrix of an image. Two elements of int4b_t are one byte.
template <typename T>
void LoadWindowOf(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                  const AscendC::LoadData3DParamsV2<PrimT<T>>& params, const Call& call)
{
    GateLoadDataWindow<T>();
    static_assert(kIsLoaded<T> && !kIsAnyOf<T, int16_t, uint16_t>,
                  "LoadData: Ascend 910B has windows of int4b_t, int8_t, uint8_t, half, bfloat16_t, int32_t, uint32_t "
                  "and float");
    constexpr int64_t packed = kIsInt4<T> ? 2 : 1;
    const bool isTurned = params.enTranspose || dst.GetPosition() == static_cast<int32_t>(AscendC::TPosition::B2);
    Field("enTranspose, or a dst in L0B (types of 2 and 4 bytes only)", isTurned && sizeof(PrimT<T>) == 1 ? 1 : 0, 0, 0,
          call);
    Field("enSmallK", params.enSmallK ? 1 : 0, 0, 0, call);
    constexpr int64_t kMostStride = 63;
    constexpr int64_t kMoreFilter = 256;  // of filterSizeW and filterSizeH
    const Filter filter{Field("filterW", params.filterW, 0, kFieldMax8, call) + (params.filterSizeW ? kMoreFilter : 0),
                        Field("filterH", params.filterH, 0, kFieldMax8, call) + (params.filterSizeH ? kMoreFilter : 0),
                        Field("strideW", params.strideW, 1, kMostStride, call),
                        Field("strideH", params.strideH, 1, kMostStride, call),
                        Field("dilationFilterW", params.dilationFilterW, 1, kFieldMax8, call),
                        Field("dilationFilterH", params.dilationFilterH, 1, kFieldMax8, call)};
    LoadWindow(dst.View(), src.View(),
               {0, Field("channelSize", params.channelSize, 0, kFieldMax16, call) / packed,
                Field("mStartPt", params.mStartPt, 0, kFieldMax16, call),
                Field("mExtension", params.mExtension, 0, kFieldMax16, call),
                Field("kStartPt", params.kStartPt, 0, kFieldMax16, call) / packed,
                (Field("kExtension", params.kExtension, 0, kFieldMax16, call) + packed - 1) / packed,
                params.enTranspose, params.fMatrixCtrl, filter},
               call);
}

/// A product without a bias tensor. With cmatrixSource, the sums begin with the bias table.
inline void MultiplyWithTable(const LocalView& dst, const LocalView& fm, const LocalView& filter,
                              const Product& product, const Call& call)
{
    if (!product.startsAtBias) {
        return Multiply(dst, fm, filter, nullptr, product, call);
    }
    const int64_t bytes = (product.n * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
    const LocalView bias = ViewAt(AscendC::TPosition::C2, 0, bytes, call);
    Multiply(dst, fm, filter, &bias, product, call);
}

template <typename T, typename U, typename S>
void MultiplyWithoutBias(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& fm,
                         const AscendC::LocalTensor<S>& filter, const AscendC::MmadParams& params, const Call& call)
{
    GateMmad<U>();
    RequireProduct<T, U, S>();
    MultiplyWithTable(dst.View(), fm.View(), filter.View(), ProductOf(params, call), call);
}

}  // namespace opforge::twin::kernel

namespace AscendC {

/// Copies ND to Nz in L1 or in the unified buffer. Columns are padded with zeros to 32 bytes; rows are not.
template <typename T>
OPFORGE_API void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& intriParams)
{
    twin::GateDataCopyNd2Nz<T>();
    static_assert(sizeof(PrimT<T>) == 1 || sizeof(PrimT<T>) == 2 || sizeof(PrimT<T>) == 4,
                  "Nd2Nz moves elements of 1, 2 or 4 bytes");
    const twin::Call call{"DataCopy", twin::Here()};
    const twin::NzCopy copy{
        twin::Field("ndNum", intriParams.ndNum, 0, 4095, call),
        twin::Field("nValue", intriParams.nValue, 0, 16384, call),
        twin::Field("dValue", intriParams.dValue, 0, twin::kFieldMax16, call),
        twin::Field("srcNdMatrixStride", intriParams.srcNdMatrixStride, 0, twin::kFieldMax16, call),
        twin::Field("srcDValue", intriParams.srcDValue, 1, twin::kFieldMax16, call),
        twin::Field("dstNzC0Stride", intriParams.dstNzC0Stride, 1, 16384, call),
        twin::Field("dstNzNStride", intriParams.dstNzNStride, 1, 16384, call),
        twin::Field("dstNzMatrixStride", intriParams.dstNzMatrixStride, 0, twin::kFieldMax16, call)};
    twin::CopyInNz(dst.View(), src.View(), copy, call);
}

/// Copies Nz in the unified buffer to ND.
template <typename T>
OPFORGE_API void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const Nz2NdParamsFull& intriParams)
{
    twin::GateDataCopyNd2Nz<T>();
    static_assert(sizeof(PrimT<T>) == 2 || sizeof(PrimT<T>) == 4, "Nz2Nd moves elements of 2 or 4 bytes");
    const twin::Call call{"DataCopy", twin::Here()};
    constexpr int64_t kMost = 8192;
    const twin::NdCopy copy{
        twin::Field("ndNum", intriParams.ndNum, 0, 4095, call),
        twin::Field("nValue", intriParams.nValue, 1, kMost, call),
        twin::Field("dValue", intriParams.dValue, 1, kMost, call),
        twin::Field("srcNdMatrixStride", intriParams.srcNdMatrixStride, 1, 512, call) * 256,
        twin::Field("srcNStride", intriParams.srcNStride, 0, 4096, call) * 16,
        twin::Field("dstDStride", intriParams.dstDStride, 16, twin::kFieldMax16, call),
        twin::Field("dstNdMatrixStride", intriParams.dstNdMatrixStride, 1, twin::kFieldMax16, call)};
    twin::RequireMultiple("dValue", copy.columns, 16, "columns", "copy whole columns of 16 elements", call);
    twin::CopyOutNd(dst.View(), src.View(), copy, call);
}

template <typename T>
OPFORGE_API void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParams& loadDataParams)
{
    twin::GateLoadData<T>();
    static_assert(twin::kIsLoaded<T>, "LoadData: Ascend 910B has int4b_t and types of 1, 2 and 4 bytes");
    const twin::Call call{"LoadData", twin::Here()};
    twin::Field("sid", loadDataParams.sid, 0, 0, call);
    twin::Field("ifTranspose (2-byte types only)", loadDataParams.ifTranspose && sizeof(PrimT<T>) != 2 ? 1 : 0, 0, 0,
                call);
    twin::FractalLoad load = twin::FractalLoadOf(loadDataParams, call);
    load.isTransposed = loadDataParams.ifTranspose;
    twin::LoadFractals(dst.View(), src.View(), load, call);
}

/// Loads fractals of global memory to L1, L0A or L0B.
template <typename T>
OPFORGE_API void LoadData(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const LoadData2DParams& loadDataParams)
{
    twin::GateLoadData<T>();
    static_assert(twin::kIsLoaded<T> && !twin::kIsInt4<T>,
                  "LoadData: Ascend 910B has types of 1, 2 and 4 bytes from global memory");
    const twin::Call call{"LoadData", twin::Here()};
    twin::Field("sid", loadDataParams.sid, 0, 0, call);
    twin::Field("ifTranspose (from L1 only)", loadDataParams.ifTranspose ? 1 : 0, 0, 0, call);
    twin::LoadFractalsIn(dst.View(), src.View(), twin::FractalLoadOf(loadDataParams, call), call);
}

template <typename T>
OPFORGE_API void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                                       const LoadData2dTransposeParams& loadDataParams)
{
    twin::GateLoadDataWithTranspose<T>();
    static_assert(twin::kIsFactor<T> || twin::kIsAnyOf<T, uint8_t, int32_t, uint32_t>,
                  "LoadDataWithTranspose: Ascend 910B has int8_t, uint8_t, half, bfloat16_t, int32_t, uint32_t, float, "
                  "and int4b_t for L0B");
    const twin::Call call{"LoadDataWithTranspose", twin::Here()};
    twin::FractalLoad load = twin::FractalLoadOf(loadDataParams, call);
    load.dstFractalGap = twin::Field("dstFracGap", loadDataParams.dstFracGap, 0, twin::kFieldMax16, call);
    load.isTransposed = true;
    load.isHalfByte = twin::kIsInt4<T>;
    twin::LoadFractals(dst.View(), src.View(), load, call);
}

/// Sets the size and the padding of the image for each LoadData with isSetFMatrix = false.
OPFORGE_API inline void SetFmatrix(uint16_t l1H, uint16_t l1W, const uint8_t padList[4], const FmatrixMode& fmatrixMode)
{
    const twin::Call call{"SetFmatrix", twin::Here()};
    twin::SetImage(twin::Field("l1H", l1H, 1, twin::kMostImage, call),
                   twin::Field("l1W", l1W, 1, twin::kMostImage, call), padList,
                   fmatrixMode == FmatrixMode::FMATRIX_RIGHT, call);
}

/// The same under its name below the documented API, which public kernels call.
OPFORGE_API inline void Load3DSetFMatrixCal(uint16_t l1H, uint16_t l1W, const uint8_t padList[4])
{
    const twin::ComposedCall composed;
    SetFmatrix(l1H, l1W, padList, FmatrixMode::FMATRIX_LEFT);
}

/// Sets the value of the padding of images for each LoadData with isSetPadding = false.
template <typename T>
OPFORGE_API void SetLoadDataPaddingValue(const T padValue)
{
    twin::SetImagePadding(twin::ScalarBits(padValue), {"SetLoadDataPaddingValue", twin::Here()});
}

OPFORGE_API inline void SetLoadDataBoundary(uint32_t boundaryValue)
{
    twin::Field("boundaryValue (the twin uses the whole L1)", boundaryValue, 0, 0,
                {"SetLoadDataBoundary", twin::Here()});
}

/// Sets the parts of the matrix that each later LoadData with LoadData3DParamsV2 loads.
OPFORGE_API inline void SetLoadDataRepeat(const LoadDataRepeatParam& repeatParams)
{
    const twin::Call call{"SetLoadDataRepeat", twin::Here()};
    twin::SetImageRepeats({twin::Field("repeatStride", repeatParams.repeatStride, 0, twin::kFieldMax16, call),
                           twin::Field("repeatTime", repeatParams.repeatTime, 0, twin::kFieldMax8, call),
                           twin::Field("repeatMode", repeatParams.repeatMode, 0, 1, call) == 1},
                          call);
}

template <typename T, const IsResetLoad3dConfig& defaultConfig = IS_RESER_LOAD3D_DEFAULT_CONFIG>
OPFORGE_API void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                          const LoadData3DParamsV2<PrimT<T>>& loadDataParams)
{
    const twin::Call call{"LoadData", twin::Here()};
    if constexpr (defaultConfig.isSetFMatrix) {
        twin::SetImage(twin::Field("l1H", loadDataParams.l1H, 0, twin::kMostImage, call),
                       twin::Field("l1W", loadDataParams.l1W, 0, twin::kMostImage, call), loadDataParams.padList,
                       loadDataParams.fMatrixCtrl, call);
    }
    if constexpr (defaultConfig.isSetPadding) {
        twin::SetImagePadding(twin::ScalarBits(loadDataParams.padValue) * (twin::kIsInt4<T> ? 0x11 : 1), call);
    }
    twin::LoadWindowOf(dst, src, loadDataParams, call);
}

template <typename T>
OPFORGE_API void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                          const LoadData3DParamsV2Pro& loadDataParams)
{
    twin::LoadWindowOf(dst, src, loadDataParams.template Fields<PrimT<T>>(), {"LoadData", twin::Here()});
}

template <typename T>
void LoadData(const LocalTensor<T>& /*dst*/, const LocalTensor<T>& /*src*/, const LoadData2DParamsV2& /*params*/)
{
    static_assert(sizeof(T) == 0, "LoadData: Ascend 910B does not have LoadData2DParamsV2; use LoadData2DParams");
}

// Fill: the name since 2026.
#define OPFORGE_FILL(name)                                                                                       \
    template <typename T>                                                                                        \
    OPFORGE_API void name(const LocalTensor<T>& dst, const InitConstValueParams<PrimT<T>>& initConstValueParams) \
    {                                                                                                            \
        twin::Gate##name<T>();                                                                                   \
        static_assert(twin::kIsAnyOf<T, half, bfloat16_t, float, int16_t, uint16_t, int32_t, uint32_t>,          \
                      #name ": Ascend 910B has int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float");  \
        const twin::Call call{#name, twin::Here()};                                                              \
        twin::FillConstant(dst.View(),                                                                           \
                           {twin::Field("repeatTimes", initConstValueParams.repeatTimes, 0, 32767, call),        \
                            twin::Field("blockNum", initConstValueParams.blockNum, 0, 32767, call),              \
                            twin::Field("dstGap", initConstValueParams.dstGap, 0, 32767, call)},                 \
                           twin::ScalarBits(initConstValueParams.initValue), call);                              \
    }
OPFORGE_FILL(InitConstValue)
OPFORGE_FILL(Fill)
#undef OPFORGE_FILL

template <typename T, typename U, typename S>
OPFORGE_API void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
                      const MmadParams& mmadParams)
{
    twin::MultiplyWithoutBias(dst, fm, filter, mmadParams, {"Mmad", twin::Here()});
}

template <typename T, typename U, typename S, typename V>
OPFORGE_API void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
                      const LocalTensor<V>& bias, const MmadParams& mmadParams)
{
    twin::GateMmadWithBias<U>();
    twin::RequireProduct<T, U, S>();
    static_assert(std::is_same_v<V, T>, "Mmad: the bias has the type of dst");
    const twin::Call call{"Mmad", twin::Here()};
    twin::Product product = twin::ProductOf(mmadParams, call);
    twin::Field("cmatrixInitVal (a bias is added with false only)", product.startsAtZero ? 1 : 0, 0, 0, call);
    product.startsAtBias = true;
    twin::Multiply(dst.View(), fm.View(), filter.View(), &bias.View(), product, call);
}

// The name of Mmad below the documented API that public kernels call.
template <typename T, typename U, typename S>
OPFORGE_API void MmadImpl(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
                          const MmadParams& mmadParams)
{
    twin::MultiplyWithoutBias(dst, fm, filter, mmadParams, {"MmadImpl", twin::Here()});
}

template <int gate = 0>
OPFORGE_API void SetHF32Mode(bool hf32Mode)
{
    twin::GateSetHF32Mode<twin::ValueType<gate>>();
    twin::SetHf32(hf32Mode, {"SetHF32Mode", twin::Here()});
}

/// true: round toward zero; false: round to nearest, ties to even.
template <int gate = 0>
OPFORGE_API void SetHF32TransMode(bool hf32TransMode)
{
    twin::GateSetHF32TransMode<twin::ValueType<gate>>();
    twin::SetHf32Truncation(hf32TransMode, {"SetHF32TransMode", twin::Here()});
}

// The enumerations exist since 2026; their first values stand for true.
template <int gate = 0>
OPFORGE_API void SetHF32Mode(HF32Mode mode)
{
    const twin::ComposedCall composed;
    SetHF32Mode<gate>(mode == HF32Mode::ENABLE);
}

template <int gate = 0>
OPFORGE_API void SetHF32TransMode(HF32TransMode mode)
{
    const twin::ComposedCall composed;
    SetHF32TransMode<gate>(mode == HF32TransMode::NEAREST_ZERO);
}

// The order in which the cube unit computes the fractals of L0C; no effect on results. The first name is that of 8.1:
// true is the order of SetMMRowMajor.
#define OPFORGE_PRODUCT_ORDER(name, ...)              \
    template <int gate = 0>                           \
    OPFORGE_API void name(__VA_ARGS__)                \
    {                                                 \
        twin::Gate##name<twin::ValueType<gate>>();    \
        twin::RequireCubeCore({#name, twin::Here()}); \
    }
OPFORGE_PRODUCT_ORDER(SetMMLayoutTransform, bool /*mmLayoutMode*/)
OPFORGE_PRODUCT_ORDER(SetMMRowMajor)
OPFORGE_PRODUCT_ORDER(SetMMColumnMajor)
#undef OPFORGE_PRODUCT_ORDER

template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
OPFORGE_API void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& intriParams)
{
    twin::GateFixpipe<T>();
    twin::RequireStore<T, U>();
    static_assert(config.format != CO2Layout::COLUMN_MAJOR, "Fixpipe: Ascend 910B has CFG_ROW_MAJOR and CFG_NZ");
    const twin::Call call{"Fixpipe", twin::Here()};
    constexpr bool asRows = config.format == CO2Layout::ROW_MAJOR;
    twin::StoreMatrices(dst.View(), src.View(), twin::ProductStoreOf(intriParams, asRows, call), intriParams, asRows,
                        call);
}

// The parameters before FixpipeParamsV220.
template <typename T, typename U>
OPFORGE_API void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src,
                         const FixpipeParams<PrimT<U>>& intriParams)
{
    twin::GateFixpipe<T>();
    twin::RequireStore<T, U>();
    twin::StoreWithGaps(dst.View(), src.View(), nullptr, intriParams, {"Fixpipe", twin::Here()});
}

template <typename T, typename U, typename S>
OPFORGE_API void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const LocalTensor<S>& cbufWorkspace,
                         const FixpipeParams<PrimT<U>>& intriParams)
{
    twin::GateFixpipe<T>();
    twin::RequireStore<T, U>();
    twin::RequireScales<U, S>();
    twin::StoreWithGaps(dst.View(), src.View(), &cbufWorkspace.View(), intriParams, {"Fixpipe", twin::Here()});
}

template <typename T, typename U>
OPFORGE_API void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src,
                         const FixpipeParams<PrimT<U>>& intriParams)
{
    twin::GateFixpipe<T>();
    twin::RequireStoreToL1<T, U>();
    twin::KeepWithGaps(dst.View(), src.View(), nullptr, intriParams, {"Fixpipe", twin::Here()});
}

template <typename T, typename U, typename S>
OPFORGE_API void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src, const LocalTensor<S>& cbufWorkspace,
                         const FixpipeParams<PrimT<U>>& intriParams)
{
    twin::GateFixpipe<T>();
    twin::RequireStoreToL1<T, U>();
    twin::RequireScales<U, S>();
    twin::KeepWithGaps(dst.View(), src.View(), &cbufWorkspace.View(), intriParams, {"Fixpipe", twin::Here()});
}

/// Stores to L1, always as fractals.
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
OPFORGE_API void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& intriParams)
{
    twin::GateFixpipe<T>();
    twin::RequireStoreToL1<T, U>();
    const twin::Call call{"Fixpipe", twin::Here()};
    twin::KeepProduct(dst.View(), src.View(), twin::ProductStoreOf(intriParams, false, call), call);
}

/// The same with a quantization for each column: values of 8 bytes in L1.
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR, typename S = uint64_t>
OPFORGE_API void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const LocalTensor<S>& cbufWorkspace,
                         const FixpipeParamsV220& intriParams)
{
    twin::GateFixpipe<T>();
    twin::RequireStore<T, U>();
    twin::RequireScales<U, S>();
    const twin::Call call{"Fixpipe", twin::Here()};
    constexpr bool asRows = config.format == CO2Layout::ROW_MAJOR;
    twin::ProductStore store = twin::ProductStoreOf(intriParams, asRows, call);
    store.quantTensor = &cbufWorkspace.View();
    twin::StoreMatrices(dst.View(), src.View(), store, intriParams, asRows, call);
}

template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR, typename S = uint64_t>
OPFORGE_API void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src, const LocalTensor<S>& cbufWorkspace,
                         const FixpipeParamsV220& intriParams)
{
    twin::GateFixpipe<T>();
    twin::RequireStoreToL1<T, U>();
    twin::RequireScales<U, S>();
    const twin::Call call{"Fixpipe", twin::Here()};
    twin::ProductStore store = twin::ProductStoreOf(intriParams, false, call);
    store.quantTensor = &cbufWorkspace.View();
    twin::KeepProduct(dst.View(), src.View(), store, call);
}

/// Sets the quantization of the following copies from L0C with DataCopyCO12DstParams.
template <int gate = 0>
OPFORGE_API void SetFixpipePreQuantFlag(uint64_t config)
{
    twin::GateSetFixpipePreQuantFlag<twin::ValueType<gate>>();
    twin::SetPreQuantScalar(config, {"SetFixpipePreQuantFlag", twin::Here()});
}

/// Sets the scales of the columns for the following copies from L0C, or only clears unit flags, which the twin does
/// without. The twin has no ReLU with a factor for each column.
template <typename T, bool setRelu = false>
OPFORGE_API void SetFixPipeConfig(const LocalTensor<T>& preData, bool isUnitFlag = false)
{
    twin::GateSetFixPipeConfig<T>();
    static_assert(!setRelu, "SetFixPipeConfig: the twin has no ReLU with a factor for each column");
    const twin::Call call{"SetFixPipeConfig", twin::Here()};
    if constexpr (twin::kIsAnyOf<T, uint64_t>) {
        twin::SetPreQuantTensor(preData.View(), call);
    } else {
        twin::Field("isUnitFlag (scales are uint64_t)", isUnitFlag ? 1 : 0, 1, 1, call);
        twin::RequireCubeCore(call);
    }
}

/// Sets the matrices of the following copies from L0C with nz2ndEn; the twin has one.
template <int gate = 0>
OPFORGE_API void SetFixpipeNz2ndFlag(uint16_t ndNum, uint16_t srcNdStride, uint16_t dstNdStride)
{
    twin::GateSetFixpipeNz2ndFlag<twin::ValueType<gate>>();
    twin::SetMatricesOfStore(ndNum, srcNdStride, dstNdStride, {"SetFixpipeNz2ndFlag", twin::Here()});
}

template <typename T, typename U>
OPFORGE_API void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<U>& src,
                          const DataCopyCO12DstParams& intriParams)
{
    twin::GateDataCopyFromL0C<T>();
    twin::RequireStore<T, U>();
    const twin::Call call{"DataCopy", twin::Here()};
    twin::StoreProduct(dst.View(), src.View(), twin::ProductStoreOf(intriParams, call), intriParams.nz2ndEn, call);
}

template <typename T, typename U>
OPFORGE_API void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src,
                          const DataCopyCO12DstParams& intriParams)
{
    twin::GateDataCopyFromL0C<T>();
    twin::RequireStoreToL1<T, U>();
    const twin::Call call{"DataCopy", twin::Here()};
    twin::Field("nz2ndEn (L1 has fractals)", intriParams.nz2ndEn ? 1 : 0, 0, 0, call);
    twin::KeepProduct(dst.View(), src.View(), twin::ProductStoreOf(intriParams, call), call);
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_CUBE_H
