// The Matmul API: templates that check types at compile time and pass untyped operands to the runtime library.
#ifndef OPFORGE_TWIN_KERNEL_MATMUL_MATMUL_H
#define OPFORGE_TWIN_KERNEL_MATMUL_MATMUL_H

#include "opforge_twin/kernel/cube.h"
#include "opforge_twin/kernel/matmul/job.h"
#include "opforge_twin/kernel/matmul/static_tiling.h"
#include "opforge_twin/kernel/pipe.h"
#include "opforge_twin/kernel/scalar.h"
#include "opforge_twin/kernel/sync.h"

/// Marks the parameter that is the system workspace. On the twin, each mixed launch has one.
#ifndef __kfc_workspace__
#define __kfc_workspace__
#endif

namespace AscendC {

template <TPosition POSITION, CubeFormat FORMAT, typename TYPE, bool ISTRANS = false,
          LayoutMode LAYOUT = LayoutMode::NONE, bool IBSHARE = false, TPosition SRCPOS = TPosition::GM>
struct MatmulType {
    constexpr static TPosition pos = POSITION;
    constexpr static CubeFormat format = FORMAT;
    using T = TYPE;
    constexpr static bool isTrans = ISTRANS;
    constexpr static LayoutMode layout = LAYOUT;
    constexpr static bool ibShare = IBSHARE;
    constexpr static TPosition srcPos = SRCPOS;
};

/// A right factor with two of four elements of k, and the position of its indices.
template <TPosition POSITION, TPosition INDEX_POSITION, CubeFormat FORMAT, typename TYPE, bool ISTRANS = false,
          LayoutMode LAYOUT = LayoutMode::NONE, bool IBSHARE = false>
struct SparseMatmulType : MatmulType<POSITION, FORMAT, TYPE, ISTRANS, LAYOUT, IBSHARE> {
    static_assert(POSITION == TPosition::GM && INDEX_POSITION == TPosition::GM && std::is_same_v<TYPE, int8_t> &&
                      ISTRANS && LAYOUT == LayoutMode::NONE && !IBSHARE,
                  "SparseMatmulType: Ascend 910B has int8_t in GM with ISTRANS, without LAYOUT and IBSHARE");
    constexpr static TPosition indexPosition = INDEX_POSITION;
};

/// The fields that a DataCopyOut callback receives.
struct DataCopyOutParams {
    uint16_t cBurstNum = 0;
    uint16_t burstLen = 0;
    uint16_t srcStride = 0;
    uint32_t dstStride = 0;
    uint16_t oriNSize = 0;
    bool enUnitFlag = false;
    uint64_t quantScalar = 0;
    uint64_t cbufWorkspaceAddr = 0;
};

template <twin::MatmulCopyOut dataCopyOut = nullptr, twin::MatmulCopyIn copyA1 = nullptr,
          twin::MatmulCopyIn copyB1 = nullptr>
struct MatmulCallBackFunc {
    constexpr static twin::MatmulCopyOut DataCopyOut = dataCopyOut;
    constexpr static twin::MatmulCopyIn CopyA1 = copyA1;
    constexpr static twin::MatmulCopyIn CopyB1 = copyB1;
};

/// The type of the sums in L0C.
template <typename T>
struct GetMmDstType {
    using Type = std::conditional_t<std::is_same_v<T, int8_t> || std::is_same_v<T, int4b_t>, int32_t, float>;
};

namespace Impl {
inline constexpr int32_t QUEUE_DEPTH = 1;

namespace Detail {
template <const auto& MM_CFG, typename IMPL, typename A_TYPE, typename B_TYPE, typename C_TYPE, typename BIAS_TYPE>
struct MatmulPolicy {};
template <const auto& MM_CFG, typename IMPL, typename A_TYPE, typename B_TYPE, typename C_TYPE, typename BIAS_TYPE>
struct TrianUpperMatmulPolicy {};
template <const auto& MM_CFG, typename IMPL, typename A_TYPE, typename B_TYPE, typename C_TYPE, typename BIAS_TYPE>
struct TrianLowerMatmulPolicy {};
template <const auto& MM_CFG, typename IMPL, typename A_TYPE, typename B_TYPE, typename C_TYPE, typename BIAS_TYPE>
struct NBuffer33MatmulPolicy {};
}  // namespace Detail
}  // namespace Impl
using Impl::Detail::MatmulPolicy;

/// The template parameter MATMUL_POLICY with its default.
#define MATMUL_POLICY_DEFAULT_OF(DEFAULT)                                    \
    template <const auto&, typename, typename, typename, typename, typename> \
    class MATMUL_POLICY = AscendC::Impl::Detail::DEFAULT

}  // namespace AscendC

namespace opforge::twin::kernel {

template <class Type, typename = void>
inline constexpr bool kIsSparseFactor = false;
template <class Type>
inline constexpr bool kIsSparseFactor<Type, std::void_t<decltype(Type::indexPosition)>> = true;

template <class Type>
constexpr MatmulOperand OperandOf()
{
    MatmulOperand operand;
    operand.format = Type::format;
    operand.layout = Type::layout;
    operand.isTransposed = operand.mayBeTransposed = Type::isTrans;
    operand.dtype = DtypeOf<typename Type::T>();
    operand.size = sizeof(typename Type::T);
    operand.isSparse = kIsSparseFactor<Type>;
    operand.packed = kIsInt4<typename Type::T> || operand.isSparse ? 2 : 1;
    return operand;
}

template <class Type>
MatmulOperand In(const AscendC::GlobalTensor<typename Type::T>& tensor, bool isTransposed = Type::isTrans)
{
    MatmulOperand operand = OperandOf<Type>();
    operand.place = MatmulPlace::kGlobal;
    operand.isTransposed = isTransposed;
    operand.global = tensor.View();
    return operand;
}

template <class Type>
MatmulOperand In(const AscendC::LocalTensor<typename Type::T>& tensor, bool isTransposed = Type::isTrans)
{
    MatmulOperand operand = OperandOf<Type>();
    const auto position = static_cast<AscendC::TPosition>(tensor.GetPosition());
    const bool isUb = position == AscendC::TPosition::VECIN || position == AscendC::TPosition::VECOUT ||
                      position == AscendC::TPosition::VECCALC;
    operand.place = isUb ? MatmulPlace::kUnifiedBuffer : MatmulPlace::kL1;
    operand.isTransposed = isTransposed;
    operand.local = tensor.View();
    return operand;
}

/// Other policies change the method of a product, not its result; the twin has one method.
template <template <const auto&, typename, typename, typename, typename, typename> class Policy>
constexpr MatmulTriangle TriangleOf()
{
    using Given = Policy<CFG_NORM, void, void, void, void, void>;
    using Upper = AscendC::Impl::Detail::TrianUpperMatmulPolicy<CFG_NORM, void, void, void, void, void>;
    using Lower = AscendC::Impl::Detail::TrianLowerMatmulPolicy<CFG_NORM, void, void, void, void, void>;
    return std::is_same_v<Given, Upper>   ? MatmulTriangle::kUpper
           : std::is_same_v<Given, Lower> ? MatmulTriangle::kLower
                                          : MatmulTriangle::kWhole;
}

/// The initial tiling data of an object of this configuration.
constexpr TCubeTiling TilingOf(const MatmulConfig& /*config*/)
{
    return {};
}
constexpr TCubeTiling TilingOf(const MatmulApiStaticTiling& tiling)
{
    return tiling.Plain();
}
template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE, const auto& MM_CFG, class MM_CB, bool IS_DIRECT,
          MatmulTriangle TRIANGLE = MatmulTriangle::kWhole>
class MatmulObject {
    using SrcAT = typename A_TYPE::T;
    using SrcBT = typename B_TYPE::T;
    using DstT = typename C_TYPE::T;
    using BiasT = typename BIAS_TYPE::T;
    static_assert(kIsAnyOf<SrcAT, half, bfloat16_t, float, int8_t, AscendC::int4b_t> && !kIsTrait<SrcAT> &&
                      sizeof(SrcAT) == sizeof(SrcBT) && kIsInt4<SrcAT> == kIsInt4<SrcBT>,
                  "Matmul: the twin has A and B of half, bfloat16_t, float, int8_t or int4b_t");
    static_assert(!(kIsInt4<SrcAT> && A_TYPE::isTrans), "Matmul: A of int4b_t cannot be transposed");
    static_assert(kIsAnyOf<DstT, half, bfloat16_t, float, int32_t, int8_t>,
                  "Matmul: the twin has C of half, bfloat16_t, float, int32_t or int8_t");

    static_assert(A_TYPE::format != CubeFormat::COLUMN_MAJOR && B_TYPE::format != CubeFormat::COLUMN_MAJOR &&
                      C_TYPE::format != CubeFormat::COLUMN_MAJOR,
                  "Matmul: Ascend 910B has ND, ND_ALIGN, NZ and VECTOR");

public:
    using AType = A_TYPE;
    using BType = B_TYPE;
    using CType = C_TYPE;
    using BiasType = BIAS_TYPE;
    using CallBack = MM_CB;

    MatmulObject()
    {
        state_.job.config = AscendC::ToMatmulConfig(MM_CFG);
        state_.job.triangle = TRIANGLE;
        state_.job.a = OperandOf<A_TYPE>();
        state_.job.b = OperandOf<B_TYPE>();
        state_.job.c = OperandOf<C_TYPE>();
        state_.job.bias = OperandOf<BIAS_TYPE>();
        state_.job.copyOut = MM_CB::DataCopyOut;
        state_.job.copyA = MM_CB::CopyA1;
        state_.job.copyB = MM_CB::CopyB1;
    }

    OPFORGE_API void Init(const TCubeTiling* __restrict cubeTiling, AscendC::TPipe* /*tpipe*/ = nullptr)
    {
        state_.Init(Merged(*cubeTiling), {"Matmul::Init", Here()});
    }
    OPFORGE_API void SetOrgShape(int orgM, int orgN, int orgK)
    {
        state_.SetOrgShape(orgM, orgN, orgK, orgK, 0, {"Matmul::SetOrgShape", Here()});
    }
    OPFORGE_API void SetOrgShape(int orgM, int orgN, int orgKa, int orgKb, int orgKc = 0)
    {
        state_.SetOrgShape(orgM, orgN, orgKa, orgKb, orgKc, {"Matmul::SetOrgShape", Here()});
    }
    OPFORGE_API void SetSingleShape(int singleM, int singleN, int singleK)
    {
        state_.SetTail(singleM, singleN, singleK, {"Matmul::SetSingleShape", Here()});
    }
    OPFORGE_API void SetTail(int tailM = -1, int tailN = -1, int tailK = -1)
    {
        state_.SetTail(tailM, tailN, tailK, {"Matmul::SetTail", Here()});
    }
    OPFORGE_API void SetTensorA(const AscendC::GlobalTensor<SrcAT>& gm, bool isTransposeA = false)
    {
        state_.SetOperand(state_.job.a, In<A_TYPE>(gm, isTransposeA), {"Matmul::SetTensorA", Here()});
    }
    OPFORGE_API void SetTensorA(const AscendC::LocalTensor<SrcAT>& leftMatrix, bool isTransposeA = false)
    {
        state_.SetOperand(state_.job.a, In<A_TYPE>(leftMatrix, isTransposeA), {"Matmul::SetTensorA", Here()});
    }
    OPFORGE_API void SetTensorA(SrcAT aScalar)
    {
        state_.SetOperand(state_.job.a, Scalar<A_TYPE>(aScalar), {"Matmul::SetTensorA", Here()});
    }
    OPFORGE_API void SetTensorB(const AscendC::GlobalTensor<SrcBT>& gm, bool isTransposeB = false)
    {
        state_.SetOperand(state_.job.b, In<B_TYPE>(gm, isTransposeB), {"Matmul::SetTensorB", Here()});
    }
    OPFORGE_API void SetTensorB(const AscendC::LocalTensor<SrcBT>& rightMatrix, bool isTransposeB = false)
    {
        state_.SetOperand(state_.job.b, In<B_TYPE>(rightMatrix, isTransposeB), {"Matmul::SetTensorB", Here()});
    }
    OPFORGE_API void SetTensorB(SrcBT bScalar)
    {
        state_.SetOperand(state_.job.b, Scalar<B_TYPE>(bScalar), {"Matmul::SetTensorB", Here()});
    }
    OPFORGE_API void SetBias(const AscendC::GlobalTensor<BiasT>& biasGlobal)
    {
        state_.SetOperand(state_.job.bias, In<BIAS_TYPE>(biasGlobal), {"Matmul::SetBias", Here()});
    }
    OPFORGE_API void SetBias(const AscendC::LocalTensor<BiasT>& inputBias)
    {
        state_.SetOperand(state_.job.bias, In<BIAS_TYPE>(inputBias), {"Matmul::SetBias", Here()});
    }
    void DisableBias() { state_.DisableBias(); }
    void ClearBias() { state_.DisableBias(); }
    void SetBatchNum(int32_t batchA, int32_t batchB)
    {
        batchA_ = batchA;
        batchB_ = batchB;
    }
    void SetHF32(bool enableHF32 = false, int32_t transMode = 0)
    {
        state_.job.hasHf32 = enableHF32;
        state_.job.truncatesHf32 = transMode == 1;
    }
    void SetQuantScalar(const uint64_t quantScalar)
    {
        state_.job.quant = MatmulQuant::kScalar;
        state_.job.quantScalar = quantScalar;
    }
    void SetQuantVector(const AscendC::GlobalTensor<uint64_t>& quantTensor)
    {
        state_.job.quant = MatmulQuant::kVector;
        state_.job.quantVector = quantTensor.View();
    }
    template <class T>
    void SetSelfDefineData(T dataPtr)
    {
        state_.job.dataPointer = (uint64_t)dataPtr;
    }
    void SetUserDefInfo(const uint64_t tilingPtr) { state_.job.tilingPointer = tilingPtr; }
    void SetSubBlockIdx(uint8_t subBlockIdx) { subBlock_ = subBlockIdx; }
    uint8_t GetSubBlockIdx() { return subBlock_; }
    template <class T>
    void SetWorkspace(AscendC::GlobalTensor<T>& addr)
    {
        state_.SetWorkspace(addr.View());
    }
    template <class T>
    void SetWorkspace(__gm__ const T* addr, int size)
    {
        AscendC::GlobalTensor<T> workspace;
        workspace.SetGlobalBuffer(const_cast<__gm__ T*>(addr), size);
        state_.SetWorkspace(workspace.View());
    }
    /// The twin needs no part of the unified buffer.
    void SetLocalWorkspace(const AscendC::LocalTensor<uint8_t>& /*tmpBuffer*/) {}

    template <bool sync = true>
    OPFORGE_API bool Iterate(bool enPartialSum = false)
    {
        return state_.Iterate(enPartialSum, nullptr, sync, {"Matmul::Iterate", Here()});
    }
    template <bool sync = true, typename T>
    OPFORGE_API bool Iterate(bool enPartialSum, const AscendC::LocalTensor<T>& localCmatrix)
    {
        return state_.Iterate(enPartialSum, &localCmatrix.View(), sync, {"Matmul::Iterate", Here()});
    }
    template <bool sync = true>
    OPFORGE_API void IterateAll(const AscendC::GlobalTensor<DstT>& gm, uint8_t enAtomic = 0,
                                bool enSequentialWrite = false, bool waitIterateAll = false, bool fakeMsg = false)
    {
        state_.IterateAll(In<C_TYPE>(gm), enAtomic, enSequentialWrite, sync, waitIterateAll, fakeMsg,
                          {"Matmul::IterateAll", Here()});
    }
    template <bool sync = true>
    OPFORGE_API void IterateAll(const AscendC::LocalTensor<DstT>& ubCmatrix, uint8_t enAtomic = 0)
    {
        state_.IterateAll(In<C_TYPE>(ubCmatrix), enAtomic, false, true, false, false, {"Matmul::IterateAll", Here()});
    }
    template <bool sync = true, bool waitIterateBatch = false, bool DIRECT = IS_DIRECT,
              std::enable_if_t<!DIRECT, int> = 0>
    OPFORGE_API void IterateBatch(const AscendC::GlobalTensor<DstT>& gm, uint32_t batchA, uint32_t batchB,
                                  bool enSequentialWrite, const uint32_t matrixStrideA = 0,
                                  const uint32_t matrixStrideB = 0, const uint32_t /*matrixStrideC*/ = 0,
                                  const bool enPartialSum = false, const uint8_t enAtomic = 0)
    {
        state_.job.atomic = enAtomic;
        state_.job.accumulates = enPartialSum;
        state_.IterateBatch(In<C_TYPE>(gm), batchA, batchB, enSequentialWrite, matrixStrideA, matrixStrideB, sync,
                            waitIterateBatch, {"Matmul::IterateBatch", Here()});
    }
    template <bool sync = true, bool waitIterateBatch = false, bool DIRECT = IS_DIRECT,
              std::enable_if_t<!DIRECT, int> = 0>
    OPFORGE_API void IterateBatch(const AscendC::LocalTensor<DstT>& ubCmatrix, uint32_t batchA, uint32_t batchB,
                                  bool enSequentialWrite, const uint32_t matrixStrideA = 0,
                                  const uint32_t matrixStrideB = 0, const uint32_t /*matrixStrideC*/ = 0,
                                  const bool enPartialSum = false, const uint8_t enAtomic = 0)
    {
        state_.job.atomic = enAtomic;
        state_.job.accumulates = enPartialSum;
        state_.IterateBatch(In<C_TYPE>(ubCmatrix), batchA, batchB, enSequentialWrite, matrixStrideA, matrixStrideB,
                            true, false, {"Matmul::IterateBatch", Here()});
    }
    /// The forms of cube kernels: SetBatchNum gives the batches.
    template <bool DIRECT = IS_DIRECT, std::enable_if_t<DIRECT, int> = 0>
    OPFORGE_API void IterateBatch(const AscendC::GlobalTensor<DstT>& gm, bool enPartialSum, uint8_t enAtomic,
                                  bool enSequentialWrite, const uint32_t matrixStrideA = 0,
                                  const uint32_t matrixStrideB = 0, const uint32_t /*matrixStrideC*/ = 0)
    {
        state_.job.atomic = enAtomic;
        state_.job.accumulates = enPartialSum;
        state_.IterateBatch(In<C_TYPE>(gm), batchA_, batchB_, enSequentialWrite, matrixStrideA, matrixStrideB, true,
                            false, {"Matmul::IterateBatch", Here()});
    }
    template <bool sync = true, bool waitIterateBatch = false>
    OPFORGE_API void IterateNBatch(const uint32_t batchLoop, uint32_t batchA, uint32_t batchB, bool enSequentialWrite,
                                   const uint32_t matrixStrideA = 0, const uint32_t matrixStrideB = 0,
                                   const uint32_t /*matrixStrideC*/ = 0)
    {
        state_.IterateNBatch(OperandOf<C_TYPE>(), batchLoop, batchA, batchB, enSequentialWrite, matrixStrideA,
                             matrixStrideB, sync, waitIterateBatch, {"Matmul::IterateNBatch", Here()});
    }

    template <bool sync = true>
    OPFORGE_API void GetTensorC(const AscendC::LocalTensor<DstT>& co2Local, uint8_t enAtomic = 0,
                                bool enSequentialWrite = false)
    {
        state_.GetTensor(In<C_TYPE>(co2Local), enAtomic, enSequentialWrite, sync, {"Matmul::GetTensorC", Here()});
    }
    template <bool sync = true>
    OPFORGE_API void GetTensorC(const AscendC::GlobalTensor<DstT>& gm, uint8_t enAtomic = 0,
                                bool enSequentialWrite = false)
    {
        state_.GetTensor(In<C_TYPE>(gm), enAtomic, enSequentialWrite, sync, {"Matmul::GetTensorC", Here()});
    }
    template <bool sync = true>
    OPFORGE_API void GetTensorC(const AscendC::GlobalTensor<DstT>& gm, const AscendC::LocalTensor<DstT>& co2Local,
                                uint8_t enAtomic = 0, bool enSequentialWrite = false)
    {
        const Call call{"Matmul::GetTensorC", Here()};
        state_.GetTensor(In<C_TYPE>(gm), enAtomic, enSequentialWrite, sync, call);
        state_.GetTensor(In<C_TYPE>(co2Local), 0, enSequentialWrite, sync, call, true);
    }
    template <bool sync = true>
    OPFORGE_API AscendC::GlobalTensor<DstT> GetTensorC(uint8_t /*enAtomic*/ = 0, bool /*enSequentialWrite*/ = false)
    {
        return Result(state_.NextResult({"Matmul::GetTensorC", Here()}));
    }
    OPFORGE_API void AsyncGetTensorC(const AscendC::LocalTensor<DstT>& c)
    {
        state_.GetTensor(In<C_TYPE>(c), 0, false, false, {"Matmul::GetTensorC", Here()});
    }
    void WaitGetTensorC() {}
    template <bool sync = true>
    OPFORGE_API AscendC::GlobalTensor<DstT> GetBatchTensorC(uint32_t batchA, uint32_t batchB,
                                                            bool /*enSequentialWrite*/ = false)
    {
        return Result(state_.NextBatch(batchA, batchB, {"Matmul::GetBatchTensorC", Here()}));
    }
    /// The earlier name of GetBatchTensorC.
    template <bool sync = true>
    OPFORGE_API AscendC::GlobalTensor<DstT> GetBatchC(uint32_t batchA, uint32_t batchB,
                                                      bool /*enSequentialWrite*/ = false)
    {
        return Result(state_.NextBatch(batchA, batchB, {"Matmul::GetBatchC", Here()}));
    }
    template <typename T>
    void SetSparseIndex(const AscendC::GlobalTensor<T>& indexGlobal)
    {
        static_assert(kIsAnyOf<T, uint8_t, int8_t> && kIsSparseFactor<B_TYPE>,
                      "SetSparseIndex: the index has uint8_t, and B is a SparseMatmulType");
        state_.job.sparseIndex = indexGlobal.View();
    }
    OPFORGE_API void WaitIterateAll() { state_.AwaitAll({"Matmul::WaitIterateAll", Here()}); }
    OPFORGE_API void WaitIterateBatch() { state_.AwaitAll({"Matmul::WaitIterateBatch", Here()}); }
    template <bool isTurnOnDebug = true>
    MatrixOffset GetOffsetC()
    {
        return state_.Offset();
    }
    OPFORGE_API void End() { state_.End({"Matmul::End", Here()}); }

    /// REGIST_MATMUL_OBJ
    void Register(uint64_t number, uint64_t workspace, const TCubeTiling* tiling, const Call& call)
    {
        state_.Register(number, workspace, IS_DIRECT, call);
        if (tiling != nullptr) {
            state_.Init(Merged(*tiling), call);
        } else if constexpr (TilingOf(MM_CFG).baseM > 0) {
            state_.Init(TilingOf(MM_CFG), call);
        }
    }
    static constexpr bool kIsDirect = IS_DIRECT;

private:
    /// Fields that the configuration fixes replace those of the tiling data.
    static TCubeTiling Merged(const TCubeTiling& given)
    {
        TCubeTiling tiling = given;
        constexpr TCubeTiling fixed = TilingOf(MM_CFG);
        if constexpr (fixed.baseM > 0) {
#define OPFORGE_TWIN_MERGE(name) tiling.name = fixed.name > 0 ? fixed.name : tiling.name;
            OPFORGE_TWIN_CUBE_TILING_FIELDS(OPFORGE_TWIN_MERGE)
#undef OPFORGE_TWIN_MERGE
        }
        return tiling;
    }
    template <class Type>
    static MatmulOperand Scalar(typename Type::T value)
    {
        MatmulOperand operand = OperandOf<Type>();
        operand.place = MatmulPlace::kScalar;
        operand.scalar = ScalarBits(value);
        return operand;
    }
    static AscendC::GlobalTensor<DstT> Result(const GlobalView& view)
    {
        AscendC::GlobalTensor<DstT> tensor;
        tensor.SetGlobalBuffer(reinterpret_cast<__gm__ DstT*>(static_cast<uintptr_t>(view.address)));
        return tensor;
    }

    MatmulState state_;
    int32_t batchA_ = 1;
    int32_t batchB_ = 1;
    uint8_t subBlock_ = 0;
};

inline const TCubeTiling* TilingPointer(const TCubeTiling* tiling)
{
    return tiling;
}
/// Public kernels pass the address without its type.
inline const TCubeTiling* TilingPointer(const void* tiling)
{
    return static_cast<const TCubeTiling*>(tiling);
}
inline const TCubeTiling* TilingPointer(const TCubeTiling& tiling)
{
    return &tiling;
}

/// Registers the objects of REGIST_MATMUL_OBJ, each with its tiling or without.
inline void RegisterObjects(uint64_t /*workspace*/, uint64_t /*number*/, const Call& /*call*/) {}
template <class Object>
void RegisterObjects(uint64_t workspace, uint64_t number, const Call& call, Object& object)
{
    object.Register(number, workspace, nullptr, call);
}
template <class Object, class Tiling, class... Rest>
void RegisterObjects(uint64_t workspace, uint64_t number, const Call& call, Object& object, Tiling&& tiling,
                     Rest&&... rest)
{
    if constexpr (std::is_null_pointer_v<std::decay_t<Tiling>>) {
        object.Register(number, workspace, nullptr, call);
    } else {
        object.Register(number, workspace, TilingPointer(tiling), call);
    }
    RegisterObjects(workspace, number + 1, call, rest...);
}

/// Returns whether the calling core is finished: it has executed the requests of the vector cores.
template <class Object, class... Rest>
OPFORGE_API bool RegisterMatmul(uint64_t workspace, Object& object, Rest&&... rest)
{
    const Call call{"REGIST_MATMUL_OBJ", Here()};
    RegisterObjects(workspace, 0, call, object, rest...);
    const bool isServer = ServesMatmul(Object::kIsDirect);
    if (isServer) {
        ServeMatmul(call);
    }
    return isServer;
}

}  // namespace opforge::twin::kernel

/// Registers Matmul objects. In a mixed kernel, the cube core computes for its vector cores here and then returns.
#define REGIST_MATMUL_OBJ(tpipe, workspace, ...)                                                                 \
    do {                                                                                                         \
        static_cast<void>(tpipe);                                                                                \
        if (opforge::twin::kernel::RegisterMatmul(static_cast<uint64_t>(reinterpret_cast<uintptr_t>(workspace)), \
                                                  __VA_ARGS__)) {                                                \
            return;                                                                                              \
        }                                                                                                        \
    } while (false)
#define REGIST_MATMUL_OBJ_STATIC REGIST_MATMUL_OBJ

namespace AscendC {

template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto& MM_CFG = CFG_NORM,
          class MM_CB = MatmulCallBackFunc<nullptr, nullptr, nullptr>, MATMUL_POLICY_DEFAULT_OF(MatmulPolicy),
          typename = void>
class MatmulImpl : public twin::MatmulObject<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, MM_CFG, MM_CB, true,
                                             twin::TriangleOf<MATMUL_POLICY>()> {};

template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto& MM_CFG = CFG_NORM,
          class MM_CB = MatmulCallBackFunc<nullptr, nullptr, nullptr>, MATMUL_POLICY_DEFAULT_OF(MatmulPolicy)>
class MatmulClient : public twin::MatmulObject<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, MM_CFG, MM_CB, false,
                                               twin::TriangleOf<MATMUL_POLICY>()> {};

}  // namespace AscendC

namespace matmul = AscendC;

#endif  // OPFORGE_TWIN_KERNEL_MATMUL_MATMUL_H
