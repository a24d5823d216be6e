// Element-wise vector instructions: two tensors, one tensor, tensor and scalar, fill. Each has a count form and two
// forms with mask and repeats. OPFORGE_BINARY and the similar macros define the three forms once.
#ifndef OPFORGE_TWIN_KERNEL_VECTOR_H
#define OPFORGE_TWIN_KERNEL_VECTOR_H

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

template <typename T>
constexpr void RequireShiftable()
{
    static_assert(kIsAnyOf<T, int16_t, uint16_t, int32_t, uint32_t>,
                  "ShiftRight: Ascend 910B has int16_t, uint16_t, int32_t, uint32_t");
}

template <typename T, typename U>
constexpr void RequireFusedTypes()
{
    static_assert(
        (kIsAnyOf<T, half, float> && std::is_same_v<T, U>) || (std::is_same_v<T, float> && std::is_same_v<U, half>),
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

#define OPFORGE_BINARY(name, op, types, ...)                                                                          \
    template <typename T>                                                                                             \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,          \
                          const int64_t count)                                                                        \
    {                                                                                                                 \
        static_assert(twin::kIsAnyOf<T, __VA_ARGS__>, #name ": Ascend 910B has " types);                              \
        twin::Binary(op, dst.View(), src0.View(), src1.View(), twin::Lanes::Count(count), {}, {}, {},                 \
                     {#name, twin::Here()});                                                                          \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                      \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,          \
                          uint64_t mask, const int64_t repeatTime, const BinaryRepeatParams& repeatParams)            \
    {                                                                                                                 \
        static_assert(twin::kIsAnyOf<T, __VA_ARGS__>, #name ": Ascend 910B has " types);                              \
        const twin::BinaryStrides s(repeatParams);                                                                    \
        twin::Binary(op, dst.View(), src0.View(), src1.View(), twin::Lanes::Leading<isSetMask>(mask, repeatTime),     \
                     s.dst, s.src0, s.src1, {#name, twin::Here()});                                                   \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                      \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,          \
                          uint64_t mask[], const int64_t repeatTime, const BinaryRepeatParams& repeatParams)          \
    {                                                                                                                 \
        static_assert(twin::kIsAnyOf<T, __VA_ARGS__>, #name ": Ascend 910B has " types);                              \
        const twin::BinaryStrides s(repeatParams);                                                                    \
        twin::Binary(op, dst.View(), src0.View(), src1.View(), twin::Lanes::Bits<isSetMask>(mask, repeatTime), s.dst, \
                     s.src0, s.src1, {#name, twin::Here()});                                                          \
    }

OPFORGE_BINARY(Add, twin::BinaryOp::kAdd, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
OPFORGE_BINARY(Sub, twin::BinaryOp::kSub, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
OPFORGE_BINARY(Mul, twin::BinaryOp::kMul, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
OPFORGE_BINARY(Div, twin::BinaryOp::kDiv, "half, float", half, float)
OPFORGE_BINARY(Max, twin::BinaryOp::kMax, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
OPFORGE_BINARY(Min, twin::BinaryOp::kMin, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
OPFORGE_BINARY(And, twin::BinaryOp::kAnd, "int16_t, uint16_t", int16_t, uint16_t)
OPFORGE_BINARY(Or, twin::BinaryOp::kOr, "int16_t, uint16_t", int16_t, uint16_t)
#undef OPFORGE_BINARY

#define OPFORGE_UNARY(name, op, types, ...)                                                                      \
    template <typename T>                                                                                        \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int64_t count)             \
    {                                                                                                            \
        static_assert(twin::kIsAnyOf<T, __VA_ARGS__>, #name ": Ascend 910B has " types);                         \
        twin::Unary(op, dst.View(), src.View(), twin::Lanes::Count(count), {}, {}, {#name, twin::Here()});       \
    }                                                                                                            \
    template <typename T, bool isSetMask = true>                                                                 \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask,                   \
                          const int64_t repeatTime, const UnaryRepeatParams& repeatParams)                       \
    {                                                                                                            \
        static_assert(twin::kIsAnyOf<T, __VA_ARGS__>, #name ": Ascend 910B has " types);                         \
        const twin::UnaryStrides s(repeatParams);                                                                \
        twin::Unary(op, dst.View(), src.View(), twin::Lanes::Leading<isSetMask>(mask, repeatTime), s.dst, s.src, \
                    {#name, twin::Here()});                                                                      \
    }                                                                                                            \
    template <typename T, bool isSetMask = true>                                                                 \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask[],                 \
                          const int64_t repeatTime, const UnaryRepeatParams& repeatParams)                       \
    {                                                                                                            \
        static_assert(twin::kIsAnyOf<T, __VA_ARGS__>, #name ": Ascend 910B has " types);                         \
        const twin::UnaryStrides s(repeatParams);                                                                \
        twin::Unary(op, dst.View(), src.View(), twin::Lanes::Bits<isSetMask>(mask, repeatTime), s.dst, s.src,    \
                    {#name, twin::Here()});                                                                      \
    }

OPFORGE_UNARY(Abs, twin::UnaryOp::kAbs, "int16_t, half, float", int16_t, half, float)
OPFORGE_UNARY(Exp, twin::UnaryOp::kExp, "half, float", half, float)
OPFORGE_UNARY(Ln, twin::UnaryOp::kLn, "half, float", half, float)
OPFORGE_UNARY(Sqrt, twin::UnaryOp::kSqrt, "half, float", half, float)
OPFORGE_UNARY(Rsqrt, twin::UnaryOp::kRsqrt, "half, float", half, float)
OPFORGE_UNARY(Reciprocal, twin::UnaryOp::kReciprocal, "half, float", half, float)
OPFORGE_UNARY(Relu, twin::UnaryOp::kRelu, "half, int32_t, float", half, int32_t, float)
OPFORGE_UNARY(Not, twin::UnaryOp::kNot, "int16_t, uint16_t", int16_t, uint16_t)
#undef OPFORGE_UNARY

#define OPFORGE_SCALAR(name, op, types, ...)                                                                           \
    template <typename T, bool isSetMask = true>                                                                       \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue,                  \
                          const int64_t count)                                                                         \
    {                                                                                                                  \
        static_assert(twin::kIsAnyOf<T, __VA_ARGS__>, #name ": Ascend 910B has " types);                               \
        twin::WithScalar(op, dst.View(), src.View(), twin::ScalarBits(scalarValue), twin::Lanes::Count(count), {}, {}, \
                         {#name, twin::Here()});                                                                       \
    }                                                                                                                  \
    template <typename T, bool isSetMask = true>                                                                       \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask,   \
                          const int64_t repeatTime, const UnaryRepeatParams& repeatParams)                             \
    {                                                                                                                  \
        static_assert(twin::kIsAnyOf<T, __VA_ARGS__>, #name ": Ascend 910B has " types);                               \
        const twin::UnaryStrides s(repeatParams);                                                                      \
        twin::WithScalar(op, dst.View(), src.View(), twin::ScalarBits(scalarValue),                                    \
                         twin::Lanes::Leading<isSetMask>(mask, repeatTime), s.dst, s.src, {#name, twin::Here()});      \
    }                                                                                                                  \
    template <typename T, bool isSetMask = true>                                                                       \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask[], \
                          const int64_t repeatTime, const UnaryRepeatParams& repeatParams)                             \
    {                                                                                                                  \
        static_assert(twin::kIsAnyOf<T, __VA_ARGS__>, #name ": Ascend 910B has " types);                               \
        const twin::UnaryStrides s(repeatParams);                                                                      \
        twin::WithScalar(op, dst.View(), src.View(), twin::ScalarBits(scalarValue),                                    \
                         twin::Lanes::Bits<isSetMask>(mask, repeatTime), s.dst, s.src, {#name, twin::Here()});         \
    }

OPFORGE_SCALAR(Adds, twin::ScalarOp::kAdds, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
OPFORGE_SCALAR(Muls, twin::ScalarOp::kMuls, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
OPFORGE_SCALAR(Maxs, twin::ScalarOp::kMaxs, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
OPFORGE_SCALAR(Mins, twin::ScalarOp::kMins, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
OPFORGE_SCALAR(ShiftLeft, twin::ScalarOp::kShiftLeft, "int16_t, uint16_t, int32_t, uint32_t", int16_t, uint16_t,
               int32_t, uint32_t)
#undef OPFORGE_SCALAR

template <typename T, bool isSetMask = true>
OPFORGE_API void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue,
                            const int64_t count)
{
    twin::RequireShiftable<T>();
    twin::WithScalar(twin::ScalarOp::kShiftRight, dst.View(), src.View(), twin::ScalarBits(scalarValue),
                     twin::Lanes::Count(count), {}, {}, {"ShiftRight", twin::Here()});
}

template <typename T, bool isSetMask = true>
OPFORGE_API void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask,
                            const int64_t repeatTime, const UnaryRepeatParams& repeatParams, bool roundEn = false)
{
    twin::RequireShiftable<T>();
    const twin::UnaryStrides s(repeatParams);
    twin::WithScalar(roundEn ? twin::ScalarOp::kShiftRightRounded : twin::ScalarOp::kShiftRight, dst.View(), src.View(),
                     twin::ScalarBits(scalarValue), twin::Lanes::Leading<isSetMask>(mask, repeatTime), s.dst, s.src,
                     {"ShiftRight", twin::Here()});
}

template <typename T, bool isSetMask = true>
OPFORGE_API void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask[],
                            const int64_t repeatTime, const UnaryRepeatParams& repeatParams, bool roundEn = false)
{
    twin::RequireShiftable<T>();
    const twin::UnaryStrides s(repeatParams);
    twin::WithScalar(roundEn ? twin::ScalarOp::kShiftRightRounded : twin::ScalarOp::kShiftRight, dst.View(), src.View(),
                     twin::ScalarBits(scalarValue), twin::Lanes::Bits<isSetMask>(mask, repeatTime), s.dst, s.src,
                     {"ShiftRight", twin::Here()});
}

/// dst += src * scalar with one rounding.
template <typename T, typename U>
OPFORGE_API void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, const int64_t count)
{
    twin::RequireFusedTypes<T, U>();
    twin::WithScalar(twin::ScalarOp::kAxpy, dst.View(), src.View(), twin::ScalarBits(scalarValue),
                     twin::Lanes::Count(count), {}, {}, {"Axpy", twin::Here()});
}

template <typename T, typename U, bool isSetMask = true>
OPFORGE_API void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, uint64_t mask,
                      const int64_t repeatTime, const UnaryRepeatParams& repeatParams)
{
    twin::RequireFusedTypes<T, U>();
    const twin::UnaryStrides s(repeatParams);
    twin::WithScalar(twin::ScalarOp::kAxpy, dst.View(), src.View(), twin::ScalarBits(scalarValue),
                     twin::Lanes::Leading<isSetMask>(mask, repeatTime), s.dst, s.src, {"Axpy", twin::Here()});
}

template <typename T, typename U, bool isSetMask = true>
OPFORGE_API void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, uint64_t mask[],
                      const int64_t repeatTime, const UnaryRepeatParams& repeatParams)
{
    twin::RequireFusedTypes<T, U>();
    const twin::UnaryStrides s(repeatParams);
    twin::WithScalar(twin::ScalarOp::kAxpy, dst.View(), src.View(), twin::ScalarBits(scalarValue),
                     twin::Lanes::Bits<isSetMask>(mask, repeatTime), s.dst, s.src, {"Axpy", twin::Here()});
}

/// dst += src0 * src1 with one rounding.
template <typename T, typename U>
OPFORGE_API void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
                           const int64_t count)
{
    twin::RequireFusedTypes<T, U>();
    twin::Binary(twin::BinaryOp::kMulAddDst, dst.View(), src0.View(), src1.View(), twin::Lanes::Count(count), {}, {},
                 {}, {"MulAddDst", twin::Here()});
}

template <typename T, typename U, bool isSetMask = true>
OPFORGE_API void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
                           uint64_t mask, const int64_t repeatTime, const BinaryRepeatParams& repeatParams)
{
    twin::RequireFusedTypes<T, U>();
    const twin::BinaryStrides s(repeatParams);
    twin::Binary(twin::BinaryOp::kMulAddDst, dst.View(), src0.View(), src1.View(),
                 twin::Lanes::Leading<isSetMask>(mask, repeatTime), s.dst, s.src0, s.src1, {"MulAddDst", twin::Here()});
}

template <typename T, typename U, bool isSetMask = true>
OPFORGE_API void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
                           const uint64_t mask[], const int64_t repeatTime, const BinaryRepeatParams& repeatParams)
{
    twin::RequireFusedTypes<T, U>();
    const twin::BinaryStrides s(repeatParams);
    twin::Binary(twin::BinaryOp::kMulAddDst, dst.View(), src0.View(), src1.View(),
                 twin::Lanes::Bits<isSetMask>(mask, repeatTime), s.dst, s.src0, s.src1, {"MulAddDst", twin::Here()});
}

template <typename T>
OPFORGE_API void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const int64_t count)
{
    twin::RequireFillable<T>();
    twin::Fill(dst.View(), twin::ScalarBits(scalarValue), twin::Lanes::Count(count), {}, {"Duplicate", twin::Here()});
}

template <typename T, bool isSetMask = true>
OPFORGE_API void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask, const int64_t repeatTime,
                           const int64_t dstBlockStride, const int64_t dstRepeatStride)
{
    twin::RequireFillable<T>();
    twin::Fill(dst.View(), twin::ScalarBits(scalarValue), twin::Lanes::Leading<isSetMask>(mask, repeatTime),
               {dstBlockStride, dstRepeatStride, 65535, 255}, {"Duplicate", twin::Here()});
}

template <typename T, bool isSetMask = true>
OPFORGE_API void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask[], const int64_t repeatTime,
                           const int64_t dstBlockStride, const int64_t dstRepeatStride)
{
    twin::RequireFillable<T>();
    twin::Fill(dst.View(), twin::ScalarBits(scalarValue), twin::Lanes::Bits<isSetMask>(mask, repeatTime),
               {dstBlockStride, dstRepeatStride, 65535, 255}, {"Duplicate", twin::Here()});
}

template <typename T, bool isSetMask = true>
OPFORGE_API void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask,
                      const int64_t repeatTime, const CopyRepeatParams& repeatParams)
{
    twin::RequireCopyable<T>();
    twin::Unary(twin::UnaryOp::kCopy, dst.View(), src.View(), twin::Lanes::Leading<isSetMask>(mask, repeatTime),
                {repeatParams.dstStride, repeatParams.dstRepeatSize, 65535, 65535},
                {repeatParams.srcStride, repeatParams.srcRepeatSize, 65535, 65535}, {"Copy", twin::Here()});
}

template <typename T, bool isSetMask = true>
OPFORGE_API void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[],
                      const int64_t repeatTime, const CopyRepeatParams& repeatParams)
{
    twin::RequireCopyable<T>();
    twin::Unary(twin::UnaryOp::kCopy, dst.View(), src.View(), twin::Lanes::Bits<isSetMask>(mask, repeatTime),
                {repeatParams.dstStride, repeatParams.dstRepeatSize, 65535, 65535},
                {repeatParams.srcStride, repeatParams.srcRepeatSize, 65535, 65535}, {"Copy", twin::Here()});
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_VECTOR_H
