// Element-wise vector instructions: two tensors, one tensor, tensor and scalar, fill. Each has a count form and two
// forms with mask and repeats. OPFORGE_FORMS defines the three forms once.
#ifndef OPFORGE_TWIN_KERNEL_VECTOR_H
#define OPFORGE_TWIN_KERNEL_VECTOR_H

#include "opforge_twin/kernel/gates.h"
#include "opforge_twin/kernel/params.h"
#include "opforge_twin/kernel/tensor.h"

namespace opforge::twin::kernel {

struct BinaryStrides {
    Stride dst, src0, src1;
    explicit BinaryStrides(const AscendC::BinaryRepeatParams& p)
        : dst{p.dstBlkStride, p.dstRepStride, 255, 255},
          src0{p.src0BlkStride, p.src0RepStride, 255, 255},
          src1{p.src1BlkStride, p.src1RepStride, 255, 255}
    {
    }
};

struct UnaryStrides {
    Stride dst, src;
    explicit UnaryStrides(const AscendC::UnaryRepeatParams& p)
        : dst{p.dstBlkStride, p.dstRepStride, 65535, 255}, src{p.srcBlkStride, p.srcRepStride, 65535, 255}
    {
    }
};

/// Whether R is an integer type whose values may not fit the device's type of a repeat count.
template <typename R>
using IfWide = std::enable_if_t<std::is_integral_v<R> && !std::is_same_v<R, uint8_t>, int>;

/// Whether U is the element type of the TensorTrait T.
template <typename T, typename U>
using IfElement = std::enable_if_t<kIsTrait<T> && std::is_same_v<PrimT<T>, U>, int>;

template <typename T>
constexpr void RequireShiftable()
{
    static_assert(kIsAnyOf<T, int16_t, uint16_t, int32_t, uint32_t>,
                  "ShiftRight: Ascend 910B has int16_t, uint16_t, int32_t, uint32_t");
}

template <typename T, typename U>
constexpr void RequireFusedTypes()
{
    RequireSameKind<T, U>();
    static_assert((kIsAnyOf<T, half, float> && kIsAnyOf<U, PrimT<T>>) || (kIsAnyOf<T, float> && kIsAnyOf<U, half>),
                  "Axpy, MulAddDst: Ascend 910B has (half, half), (float, float) and (float, half)");
}

template <typename T>
constexpr void RequireFillable()
{
    static_assert(kIsAnyOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>,
                  "Duplicate: Ascend 910B has int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float");
}

template <typename T>
constexpr void RequireCopyable()
{
    static_assert(kIsAnyOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>,
                  "Copy: Ascend 910B has 2- and 4-byte types");
}

}  // namespace opforge::twin::kernel

namespace AscendC {

#define OPFORGE_LIST(...) __VA_ARGS__

// The forms with mask and repeats. The first two have the documented types. The third one is chosen for a repeat count
// of another type, and checks the value before it wraps. `head`: template parameters; `operands` and `tail`: parameters
// before the mask and after the repeat count; the body uses `lanes`.
#define OPFORGE_REPEATS(name, head, operands, constant, tail, ...)                                           \
    template <OPFORGE_LIST head>                                                                             \
    OPFORGE_API void name(OPFORGE_LIST operands, uint64_t mask, const uint8_t repeatTime, OPFORGE_LIST tail) \
    {                                                                                                        \
        twin::Gate##name<T>();                                                                               \
        const twin::Lanes lanes = twin::Lanes::Of<isSetMask>(mask, repeatTime);                              \
        __VA_ARGS__;                                                                                         \
    }                                                                                                        \
    template <OPFORGE_LIST head>                                                                             \
    OPFORGE_API void name(OPFORGE_LIST operands, constant uint64_t mask[], const uint8_t repeatTime,         \
                          OPFORGE_LIST tail)                                                                 \
    {                                                                                                        \
        twin::Gate##name<T>();                                                                               \
        const twin::Lanes lanes = twin::Lanes::Of<isSetMask>(mask, repeatTime);                              \
        __VA_ARGS__;                                                                                         \
    }                                                                                                        \
    template <OPFORGE_LIST head, typename M, typename R, twin::IfWide<R> = 0>                                \
    OPFORGE_API void name(OPFORGE_LIST operands, M mask, const R repeatTime, OPFORGE_LIST tail)              \
    {                                                                                                        \
        twin::Gate##name<T>();                                                                               \
        const twin::Lanes lanes = twin::Lanes::Of<isSetMask>(mask, static_cast<int64_t>(repeatTime));        \
        __VA_ARGS__;                                                                                         \
    }

#define OPFORGE_BINARY_REPEATS(name, op, types, ...)                                           \
    OPFORGE_REPEATS(                                                                           \
        name, (typename T, bool isSetMask = true),                                             \
        (const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1), , \
        (const BinaryRepeatParams& repeatParams),                                              \
        static_assert(twin::kIsAnyOf<T, __VA_ARGS__>, #name ": Ascend 910B has " types);       \
        const twin::BinaryStrides s(repeatParams);                                             \
        twin::Binary(op, dst.View(), src0.View(), src1.View(), lanes, s.dst, s.src0, s.src1, {#name, twin::Here()}))

#define OPFORGE_BINARY(name, op, types, ...)                                                                 \
    template <typename T>                                                                                    \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, \
                          const int32_t& count)                                                              \
    {                                                                                                        \
        twin::Gate##name<T>();                                                                               \
        static_assert(twin::kIsAnyOf<T, __VA_ARGS__>, #name ": Ascend 910B has " types);                     \
        twin::Binary(op, dst.View(), src0.View(), src1.View(), twin::Lanes::Count(count), {}, {}, {},        \
                     {#name, twin::Here()});                                                                 \
    }                                                                                                        \
    OPFORGE_BINARY_REPEATS(name, op, types, __VA_ARGS__)

OPFORGE_BINARY(Add, twin::BinaryOp::kAdd, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
OPFORGE_BINARY(Sub, twin::BinaryOp::kSub, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
OPFORGE_BINARY(Mul, twin::BinaryOp::kMul, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
OPFORGE_BINARY(Div, twin::BinaryOp::kDiv, "half, float", half, float)
OPFORGE_BINARY(Max, twin::BinaryOp::kMax, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
OPFORGE_BINARY(Min, twin::BinaryOp::kMin, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
// The count form accepts tensors of 4-byte types; its count is in 2-byte elements, as on the device.
#define OPFORGE_BITWISE(name)                                                                                          \
    template <typename T>                                                                                              \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,           \
                          const int32_t& count)                                                                        \
    {                                                                                                                  \
        twin::Gate##name<T>();                                                                                         \
        static_assert(twin::kIsAnyOf<T, int16_t, uint16_t, int32_t, uint32_t>,                                         \
                      #name ": Ascend 910B has int16_t, uint16_t, int32_t, uint32_t");                                 \
        twin::Binary(twin::BinaryOp::k##name, dst.template ReinterpretCast<int16_t>().View(),                          \
                     src0.template ReinterpretCast<int16_t>().View(), src1.template ReinterpretCast<int16_t>().View(), \
                     twin::Lanes::Count(count), {}, {}, {}, {#name, twin::Here()});                                    \
    }                                                                                                                  \
    OPFORGE_BINARY_REPEATS(name, twin::BinaryOp::k##name, "int16_t, uint16_t", int16_t, uint16_t)
OPFORGE_BITWISE(And)
OPFORGE_BITWISE(Or)
#undef OPFORGE_BITWISE
/// max(src0 + src1, 0)
OPFORGE_BINARY(AddRelu, twin::BinaryOp::kAddRelu, "int16_t, half, float", int16_t, half, float)
/// max(src0 - src1, 0)
OPFORGE_BINARY(SubRelu, twin::BinaryOp::kSubRelu, "int16_t, half, float", int16_t, half, float)
/// dst = src0 * dst + src1 with one rounding
OPFORGE_BINARY(FusedMulAdd, twin::BinaryOp::kMulDstAdd, "half, float", half, float)
/// dst = max(src0 * dst + src1, 0)
OPFORGE_BINARY(FusedMulAddRelu, twin::BinaryOp::kMulDstAddRelu, "half, float", half, float)
/// The same; the name since 2026.
OPFORGE_BINARY(MulAddRelu, twin::BinaryOp::kMulDstAddRelu, "half, float", half, float)
#undef OPFORGE_BINARY
#undef OPFORGE_BINARY_REPEATS

#define OPFORGE_UNARY(name, op, types, ...)                                                                            \
    template <typename T>                                                                                              \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count)                  \
    {                                                                                                                  \
        twin::Gate##name<T>();                                                                                         \
        static_assert(twin::kIsAnyOf<T, __VA_ARGS__>, #name ": Ascend 910B has " types);                               \
        twin::Unary(op, dst.View(), src.View(), twin::Lanes::Count(count), {}, {}, {#name, twin::Here()});             \
    }                                                                                                                  \
    OPFORGE_REPEATS(name, (typename T, bool isSetMask = true), (const LocalTensor<T>& dst, const LocalTensor<T>& src), \
                    , (const UnaryRepeatParams& repeatParams),                                                         \
                    static_assert(twin::kIsAnyOf<T, __VA_ARGS__>, #name ": Ascend 910B has " types);                   \
                    const twin::UnaryStrides s(repeatParams);                                                          \
                    twin::Unary(op, dst.View(), src.View(), lanes, s.dst, s.src, {#name, twin::Here()}))

OPFORGE_UNARY(Abs, twin::UnaryOp::kAbs, "int16_t, half, float", int16_t, half, float)
OPFORGE_UNARY(Exp, twin::UnaryOp::kExp, "half, float", half, float)
OPFORGE_UNARY(Ln, twin::UnaryOp::kLn, "half, float", half, float)
OPFORGE_UNARY(Sqrt, twin::UnaryOp::kSqrt, "half, float", half, float)
OPFORGE_UNARY(Rsqrt, twin::UnaryOp::kRsqrt, "half, float", half, float)
OPFORGE_UNARY(Reciprocal, twin::UnaryOp::kReciprocal, "half, float", half, float)
OPFORGE_UNARY(Relu, twin::UnaryOp::kRelu, "half, int32_t, float", half, int32_t, float)
OPFORGE_UNARY(Not, twin::UnaryOp::kNot, "int16_t, uint16_t", int16_t, uint16_t)
#undef OPFORGE_UNARY

// The forms with a scalar of the type T of the tensors, and of the element type U of a TensorTrait T.
#define OPFORGE_WITH_SCALAR(define, ...)                        \
    define((typename T, bool isSetMask = true), T, __VA_ARGS__) \
        define((typename T, typename U, bool isSetMask = true, twin::IfElement<T, U> = 0), U, __VA_ARGS__)

#define OPFORGE_SCALAR_FORMS(head, S, name, op, types, ...)                                                            \
    template <OPFORGE_LIST head>                                                                                       \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const S& scalarValue,                  \
                          const int32_t& count)                                                                        \
    {                                                                                                                  \
        twin::Gate##name<T>();                                                                                         \
        static_assert(twin::kIsAnyOf<T, __VA_ARGS__>, #name ": Ascend 910B has " types);                               \
        twin::WithScalar(op, dst.View(), src.View(), twin::ScalarBits(scalarValue), twin::Lanes::Count(count), {}, {}, \
                         {#name, twin::Here()});                                                                       \
    }                                                                                                                  \
    OPFORGE_REPEATS(name, head, (const LocalTensor<T>& dst, const LocalTensor<T>& src, const S& scalarValue), ,        \
                    (const UnaryRepeatParams& repeatParams),                                                           \
                    static_assert(twin::kIsAnyOf<T, __VA_ARGS__>, #name ": Ascend 910B has " types);                   \
                    const twin::UnaryStrides s(repeatParams);                                                          \
                    twin::WithScalar(op, dst.View(), src.View(), twin::ScalarBits(scalarValue), lanes, s.dst, s.src,   \
                                     {#name, twin::Here()}))
#define OPFORGE_SCALAR(...) OPFORGE_WITH_SCALAR(OPFORGE_SCALAR_FORMS, __VA_ARGS__)

OPFORGE_SCALAR(Adds, twin::ScalarOp::kAdds, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
OPFORGE_SCALAR(Muls, twin::ScalarOp::kMuls, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
OPFORGE_SCALAR(Maxs, twin::ScalarOp::kMaxs, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
OPFORGE_SCALAR(Mins, twin::ScalarOp::kMins, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
/// src > 0 ? src : src * scalarValue
OPFORGE_SCALAR(LeakyRelu, twin::ScalarOp::kLeakyRelu, "half, float", half, float)
OPFORGE_SCALAR(ShiftLeft, twin::ScalarOp::kShiftLeft, "int16_t, uint16_t, int32_t, uint32_t", int16_t, uint16_t,
               int32_t, uint32_t)
#undef OPFORGE_SCALAR
#undef OPFORGE_SCALAR_FORMS

#define OPFORGE_SHIFT_RIGHT(head, S, name)                                                                      \
    template <OPFORGE_LIST head>                                                                                \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const S& scalarValue,           \
                          const int32_t& count)                                                                 \
    {                                                                                                           \
        twin::Gate##name<T>();                                                                                  \
        twin::RequireShiftable<T>();                                                                            \
        twin::WithScalar(twin::ScalarOp::kShiftRight, dst.View(), src.View(), twin::ScalarBits(scalarValue),    \
                         twin::Lanes::Count(count), {}, {}, {#name, twin::Here()});                             \
    }                                                                                                           \
    OPFORGE_REPEATS(name, head, (const LocalTensor<T>& dst, const LocalTensor<T>& src, const S& scalarValue), , \
                    (const UnaryRepeatParams& repeatParams, bool roundEn = false), twin::RequireShiftable<T>(); \
                    const twin::UnaryStrides s(repeatParams); twin::WithScalar(                                 \
                        roundEn ? twin::ScalarOp::kShiftRightRounded : twin::ScalarOp::kShiftRight, dst.View(), \
                        src.View(), twin::ScalarBits(scalarValue), lanes, s.dst, s.src, {#name, twin::Here()}))
OPFORGE_WITH_SCALAR(OPFORGE_SHIFT_RIGHT, ShiftRight)
#undef OPFORGE_SHIFT_RIGHT
#undef OPFORGE_WITH_SCALAR

/// dst += src * scalar with one rounding.
template <typename T, typename U>
OPFORGE_API void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, const int32_t& count)
{
    twin::GateAxpy<T>();
    twin::RequireFusedTypes<T, U>();
    twin::WithScalar(twin::ScalarOp::kAxpy, dst.View(), src.View(), twin::ScalarBits(scalarValue),
                     twin::Lanes::Count(count), {}, {}, {"Axpy", twin::Here()});
}

OPFORGE_REPEATS(Axpy, (typename T, typename U, bool isSetMask = true),
                (const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue), ,
                (const UnaryRepeatParams& repeatParams), twin::RequireFusedTypes<T, U>();
                const twin::UnaryStrides s(repeatParams);
                twin::WithScalar(twin::ScalarOp::kAxpy, dst.View(), src.View(), twin::ScalarBits(scalarValue), lanes,
                                 s.dst, s.src, {"Axpy", twin::Here()}))

/// dst += src0 * src1 with one rounding.
template <typename T, typename U>
OPFORGE_API void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
                           const int32_t& count)
{
    twin::GateMulAddDst<T>();
    twin::RequireFusedTypes<T, U>();
    twin::Binary(twin::BinaryOp::kMulAddDst, dst.View(), src0.View(), src1.View(), twin::Lanes::Count(count), {}, {},
                 {}, {"MulAddDst", twin::Here()});
}

OPFORGE_REPEATS(MulAddDst, (typename T, typename U, bool isSetMask = true),
                (const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1), const,
                (const BinaryRepeatParams& repeatParams), twin::RequireFusedTypes<T, U>();
                const twin::BinaryStrides s(repeatParams);
                twin::Binary(twin::BinaryOp::kMulAddDst, dst.View(), src0.View(), src1.View(), lanes, s.dst, s.src0,
                             s.src1, {"MulAddDst", twin::Here()}))

template <typename T>
OPFORGE_API void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const int32_t& count)
{
    twin::GateDuplicate<T>();
    twin::RequireFillable<T>();
    twin::Fill(dst.View(), twin::ScalarBits(scalarValue), twin::Lanes::Count(count), {}, {"Duplicate", twin::Here()});
}

OPFORGE_REPEATS(Duplicate, (typename T, bool isSetMask = true), (const LocalTensor<T>& dst, const T& scalarValue), ,
                (const uint16_t dstBlockStride, const uint8_t dstRepeatStride), twin::RequireFillable<T>();
                twin::Fill(dst.View(), twin::ScalarBits(scalarValue), lanes,
                           {dstBlockStride, dstRepeatStride, 65535, 255}, {"Duplicate", twin::Here()}))

OPFORGE_REPEATS(Copy, (typename T, bool isSetMask = true), (const LocalTensor<T>& dst, const LocalTensor<T>& src),
                const, (const CopyRepeatParams& repeatParams), twin::RequireCopyable<T>();
                twin::Unary(twin::UnaryOp::kCopy, dst.View(), src.View(), lanes,
                            {repeatParams.dstStride, repeatParams.dstRepeatSize, 65535, 65535},
                            {repeatParams.srcStride, repeatParams.srcRepeatSize, 65535, 65535}, {"Copy", twin::Here()}))

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_VECTOR_H
