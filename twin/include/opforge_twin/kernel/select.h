// Comparison to bit masks and selection by bit masks.
#ifndef OPFORGE_TWIN_KERNEL_SELECT_H
#define OPFORGE_TWIN_KERNEL_SELECT_H

#include "opforge_twin/kernel/vector.h"

namespace opforge::twin::kernel {

template <typename T, typename U>
constexpr void RequireComparable()
{
    RequireSameKind<T, U>();
    static_assert(kIsAnyOf<T, half, float, int32_t>,
                  "Compare: Ascend 910B has half and float, and int32_t for CMPMODE::EQ");
    static_assert(kIsAnyOf<U, uint8_t, int8_t, uint16_t, uint32_t, uint64_t>, "Compare: dst holds bits in uint8_t");
}

template <typename T, typename U>
constexpr void RequireSelectable()
{
    RequireSameKind<T, U>();
    static_assert(kIsAnyOf<T, half, float>, "Select: Ascend 910B has half and float");
    static_assert(kIsAnyOf<U, uint8_t, uint16_t, uint32_t, uint64_t>, "Select: the mask holds bits");
}

inline void RequireSelectMode(AscendC::SELMODE mode, const Call& call)
{
    if constexpr (kIsCoupled) {
        Field("selMode (Ascend 910 has VSEL_CMPMASK_SPR)", static_cast<int64_t>(mode), 0, 0, call);
    }
}

}  // namespace opforge::twin::kernel

namespace AscendC {

/// Writes one bit per element, least significant bit first; `count * sizeof(T)` must be a multiple of 256.
template <typename T, typename U>
OPFORGE_API void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                         CMPMODE cmpMode, uint32_t count)
{
    twin::GateCompare<T>();
    twin::RequireComparable<T, U>();
    twin::CompareTensors(dst.View(), src0.View(), src1.View(), cmpMode, twin::Lanes::Count(count), {}, {},
                         {"Compare", twin::Here()});
}

OPFORGE_REPEATS(Compare, (typename T, typename U, bool isSetMask = true),
                (const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode),
                const, (const BinaryRepeatParams& repeatParams), twin::RequireComparable<T, U>();
                const twin::BinaryStrides s(repeatParams);
                twin::CompareTensors(dst.View(), src0.View(), src1.View(), cmpMode, lanes, s.src0, s.src1,
                                     {"Compare", twin::Here()}))

/// Compares one repeat; the CMPMASK register receives the bits.
template <typename T, bool isSetMask = true>
OPFORGE_API void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, const uint64_t mask,
                         const BinaryRepeatParams& repeatParams)
{
    twin::GateCompareToRegister<T>();
    twin::RequireComparable<PrimT<T>, uint8_t>();
    const twin::BinaryStrides s(repeatParams);
    twin::CompareToRegister(src0.View(), src1.View(), cmpMode, twin::Lanes::Leading<isSetMask>(mask, 1), s.src0, s.src1,
                            {"Compare", twin::Here()});
}

template <typename T, bool isSetMask = true>
OPFORGE_API void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, const uint64_t mask[],
                         const BinaryRepeatParams& repeatParams)
{
    twin::GateCompareToRegister<T>();
    twin::RequireComparable<PrimT<T>, uint8_t>();
    const twin::BinaryStrides s(repeatParams);
    twin::CompareToRegister(src0.View(), src1.View(), cmpMode, twin::Lanes::Bits<isSetMask>(mask, 1), s.src0, s.src1,
                            {"Compare", twin::Here()});
}

// Compares: the name since 2026.
#define OPFORGE_COMPARE_SCALAR(name)                                                                                  \
    template <typename T, typename U>                                                                                 \
    OPFORGE_API void name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode, \
                          uint32_t count)                                                                             \
    {                                                                                                                 \
        twin::Gate##name<T>();                                                                                        \
        twin::RequireComparable<T, U>();                                                                              \
        twin::CompareWithScalar(dst.View(), src0.View(), twin::ScalarBits(src1Scalar), cmpMode,                       \
                                twin::Lanes::Count(count), {}, {#name, twin::Here()});                                \
    }                                                                                                                 \
    OPFORGE_REPEATS(name, (typename T, typename U, bool isSetMask = true),                                            \
                    (const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode),     \
                    const, (const UnaryRepeatParams& repeatParams), twin::RequireComparable<T, U>();                  \
                    twin::CompareWithScalar(dst.View(), src0.View(), twin::ScalarBits(src1Scalar), cmpMode, lanes,    \
                                            twin::UnaryStrides(repeatParams).src, {#name, twin::Here()}))
OPFORGE_COMPARE_SCALAR(CompareScalar)
OPFORGE_COMPARE_SCALAR(Compares)
#undef OPFORGE_COMPARE_SCALAR

template <typename T, typename U>
OPFORGE_API void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                        const LocalTensor<T>& src1, SELMODE selMode, uint32_t count)
{
    twin::GateSelect<T>();
    twin::RequireSelectMode(selMode, {"Select", twin::Here()});
    twin::RequireSelectable<T, U>();
    twin::Choose(dst.View(), selMask.View(), src0.View(), &src1.View(), 0, selMode, twin::Lanes::Count(count), {}, {},
                 {}, {"Select", twin::Here()});
}

template <typename T, typename U>
OPFORGE_API void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,
                        SELMODE selMode, uint32_t count)
{
    twin::GateSelectScalar<T>();
    twin::RequireSelectable<T, U>();
    twin::Choose(dst.View(), selMask.View(), src0.View(), nullptr, twin::ScalarBits(src1), selMode,
                 twin::Lanes::Count(count), {}, {}, {}, {"Select", twin::Here()});
}

OPFORGE_REPEATS(Select, (typename T, typename U, bool isSetMask = true),
                (const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                 const LocalTensor<T>& src1, SELMODE selMode),
                , (const BinaryRepeatParams& repeatParams), twin::RequireSelectable<T, U>();
                twin::RequireSelectMode(selMode, {"Select", twin::Here()}); const twin::BinaryStrides s(repeatParams);
                twin::Choose(dst.View(), selMask.View(), src0.View(), &src1.View(), 0, selMode, lanes, s.dst, s.src0,
                             s.src1, {"Select", twin::Here()}))

OPFORGE_REPEATS(Select, (typename T, typename U, bool isSetMask = true),
                (const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,
                 SELMODE selMode),
                , (const BinaryRepeatParams& repeatParams), twin::GateSelectScalar<T>();
                twin::RequireSelectable<T, U>(); const twin::BinaryStrides s(repeatParams);
                twin::Choose(dst.View(), selMask.View(), src0.View(), nullptr, twin::ScalarBits(src1), selMode, lanes,
                             s.dst, s.src0, s.src1, {"Select", twin::Here()}))

/// Stores the CMPMASK register.
template <typename T>
OPFORGE_API void GetCmpMask(const LocalTensor<T>& dst)
{
    twin::GateGetCmpMask<T>();
    twin::StoreCompareMask(dst.View(), {"GetCmpMask", twin::Here()});
}

/// Sets the CMPMASK register to the bits in src.
template <typename T>
OPFORGE_API void SetCmpMask(const LocalTensor<T>& src)
{
    twin::GateSetCmpMask<T>();
    twin::LoadCompareMask(src.View(), {"SetCmpMask", twin::Here()});
}

/// Selects by the CMPMASK register: its bits, the same for all repeats, or the bits at the address in it.
template <typename T, SELMODE selMode>
OPFORGE_API void Select(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                        int64_t repeatTime, const BinaryRepeatParams& repeatParams)
{
    twin::RequireSelectable<PrimT<T>, uint8_t>();
    static_assert(selMode != SELMODE::VSEL_TENSOR_SCALAR_MODE,
                  "Select: VSEL_TENSOR_SCALAR_MODE takes a mask tensor, and the scalar of SetCmpMask");
    const twin::Call call{"Select", twin::Here()};
    const twin::BinaryStrides s(repeatParams);
    constexpr auto choose = selMode == SELMODE::VSEL_CMPMASK_SPR ? twin::ChooseByRegister : twin::ChooseByAddress;
    choose(dst.View(), src0.View(), src1.View(), repeatTime, s.dst, s.src0, s.src1, call);
}

/// Selects elements of src0, or the scalar in the CMPMASK register.
template <typename T, typename U>
OPFORGE_API void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                        int64_t repeatTime, const BinaryRepeatParams& repeatParams)
{
    twin::GateSelectScalar<T>();
    twin::RequireSelectable<T, U>();
    const twin::BinaryStrides s(repeatParams);
    twin::ChooseOrRegister(dst.View(), selMask.View(), src0.View(), repeatTime, s.dst, s.src0,
                           {"Select", twin::Here()});
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_SELECT_H
