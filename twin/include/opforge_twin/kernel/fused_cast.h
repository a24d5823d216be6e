// Instructions that compute and convert in one step: sums, differences and products, and quantization with SetDeqScale.
#ifndef OPFORGE_TWIN_KERNEL_FUSED_CAST_H
#define OPFORGE_TWIN_KERNEL_FUSED_CAST_H

#include "opforge_twin/kernel/vector.h"

namespace AscendC {

/// The quantization of the 16 elements of a block.
struct VdeqInfo {
    VdeqInfo() {}
    VdeqInfo(const float vdeqScaleIn[16], const int16_t vdeqOffsetIn[16], const bool vdeqSignModeIn[16])
    {
        for (int element = 0; element < 16; ++element) {
            vdeqScale[element] = vdeqScaleIn[element];
            vdeqOffset[element] = vdeqOffsetIn[element];
            vdeqSignMode[element] = vdeqSignModeIn[element];
        }
    }
    float vdeqScale[16] = {};
    int16_t vdeqOffset[16] = {};
    bool vdeqSignMode[16] = {};
};

}  // namespace AscendC

namespace opforge::twin::kernel {

/// dst = conversion of (src0 op src1): the result is rounded to the type of the sources first.
void BinaryCast(BinaryOp op, const LocalView& dst, const LocalView& src0, const LocalView& src1, const Lanes& lanes,
                const BinaryStrides& strides, const Call& call);
/// dst = max((src0 + src1) * scale, 0)
void AddDequantRelu(const LocalView& dst, const LocalView& src0, const LocalView& src1, const Lanes& lanes,
                    const BinaryStrides& strides, const Call& call);
/// Writes the 16 bytes of each block to one half of a block of dst.
void Requantize(const LocalView& dst, const LocalView& src, bool isPerElement, bool isSecondHalf, const Lanes& lanes,
                const Stride& dstStride, const Stride& srcStride, const Call& call);
void SetDequantScale(half scale, const Call& call);
void SetDequantBytes(float scale, int64_t offset, bool isSigned, const Call& call);
void SetDequantTable(const LocalView& table, const AscendC::VdeqInfo& info, const Call& call);

}  // namespace opforge::twin::kernel

namespace AscendC {

#define OPFORGE_BINARY_CAST(name, op, types, ...)                                                                      \
    template <typename T, typename U>                                                                                  \
    OPFORGE_API void name(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,           \
                          const uint32_t count)                                                                        \
    {                                                                                                                  \
        twin::Gate##name<T>();                                                                                         \
        twin::RequireSameKind<T, U>();                                                                                 \
        static_assert(__VA_ARGS__, #name ": Ascend 910B has (dst, src) of " types);                                    \
        twin::BinaryCast(op, dst.View(), src0.View(), src1.View(), twin::Lanes::Count(count), twin::BinaryStrides({}), \
                         {#name, twin::Here()});                                                                       \
    }                                                                                                                  \
    OPFORGE_REPEATS(name, (typename T, typename U, bool isSetMask = true),                                             \
                    (const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1), ,             \
                    (const BinaryRepeatParams& repeatParams), twin::RequireSameKind<T, U>();                           \
                    static_assert(__VA_ARGS__, #name ": Ascend 910B has (dst, src) of " types);                        \
                    twin::BinaryCast(op, dst.View(), src0.View(), src1.View(), lanes,                                  \
                                     twin::BinaryStrides(repeatParams), {#name, twin::Here()}))

OPFORGE_BINARY_CAST(AddReluCast, twin::BinaryOp::kAddRelu, "(int8_t, half), (int8_t, int16_t), (half, float)",
                    (twin::kIsAnyOf<T, int8_t> && twin::kIsAnyOf<U, half, int16_t>) ||
                        (twin::kIsAnyOf<T, half> && twin::kIsAnyOf<U, float>))
OPFORGE_BINARY_CAST(SubReluCast, twin::BinaryOp::kSubRelu, "(int8_t, half), (int8_t, int16_t), (half, float)",
                    (twin::kIsAnyOf<T, int8_t> && twin::kIsAnyOf<U, half, int16_t>) ||
                        (twin::kIsAnyOf<T, half> && twin::kIsAnyOf<U, float>))
OPFORGE_BINARY_CAST(MulCast, twin::BinaryOp::kMul, "(int8_t, half), (uint8_t, half)",
                    twin::kIsAnyOf<T, int8_t, uint8_t>&& twin::kIsAnyOf<U, half>)
#undef OPFORGE_BINARY_CAST

template <typename T = half, typename U = int32_t>
OPFORGE_API void AddDeqRelu(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
                            const int32_t& count)
{
    twin::GateAddDeqRelu<T>();
    twin::RequireSameKind<T, U>();
    static_assert(twin::kIsAnyOf<T, half> && twin::kIsAnyOf<U, int32_t>, "AddDeqRelu: dst is half, src is int32_t");
    twin::AddDequantRelu(dst.View(), src0.View(), src1.View(), twin::Lanes::Count(count), twin::BinaryStrides({}),
                         {"AddDeqRelu", twin::Here()});
}

#define OPFORGE_ADD_DEQ_RELU(head, Dst, Src)                                                                     \
    OPFORGE_REPEATS(AddDeqRelu, head,                                                                            \
                    (const LocalTensor<Dst>& dst, const LocalTensor<Src>& src0, const LocalTensor<Src>& src1), , \
                    (const BinaryRepeatParams& repeatParams), twin::RequireSameKind<Dst, Src>();                 \
                    static_assert(twin::kIsAnyOf<Dst, half> && twin::kIsAnyOf<Src, int32_t>,                     \
                                  "AddDeqRelu: dst is half, src is int32_t");                                    \
                    twin::AddDequantRelu(dst.View(), src0.View(), src1.View(), lanes,                            \
                                         twin::BinaryStrides(repeatParams), {"AddDeqRelu", twin::Here()}))
OPFORGE_ADD_DEQ_RELU((bool isSetMask = true, typename T = half), half, int32_t)
OPFORGE_ADD_DEQ_RELU((typename T, typename U, bool isSetMask = true), T, U)
#undef OPFORGE_ADD_DEQ_RELU

/// Sets the scale of int32_t to half, for Cast, CastDequant and AddDeqRelu.
OPFORGE_API inline void SetDeqScale(half scale)
{
    twin::SetDequantScale(scale, {"SetDeqScale", twin::Here()});
}

/// Sets the quantization of int16_t to one byte.
OPFORGE_API inline void SetDeqScale(float scale, int16_t offset, bool signMode)
{
    twin::SetDequantBytes(scale, offset, signMode, {"SetDeqScale", twin::Here()});
}

/// The same for each element of a block. The scalar unit writes 16 values to `vdeq`; CastDequant reads them, so the
/// kernel orders it with S_V.
template <typename T>
OPFORGE_API void SetDeqScale(const LocalTensor<T>& vdeq, const VdeqInfo& vdeqInfo)
{
    static_assert(std::is_same_v<T, uint64_t>, "SetDeqScale: vdeq has uint64_t");
    twin::SetDequantTable(vdeq.View(), vdeqInfo, {"SetDeqScale", twin::Here()});
}

}  // namespace AscendC

namespace opforge::twin::kernel {

template <typename T, typename U, bool isVecDeq, bool halfBlock>
void Dequantize(const LocalView& dst, const LocalView& src, const Lanes& lanes, const Stride& dstStride,
                const Stride& srcStride, const Call& call)
{
    RequireSameKind<T, U>();
    static_assert((kIsAnyOf<T, half> && kIsAnyOf<U, int32_t>) || (kIsAnyOf<T, int8_t, uint8_t> && kIsAnyOf<U, int16_t>),
                  "CastDequant: Ascend 910B has (dst, src) of (half, int32_t), (int8_t, int16_t), (uint8_t, int16_t)");
    if constexpr (kIsAnyOf<T, half>) {
        Convert(dst, src, AscendC::RoundMode::CAST_NONE, 1U << static_cast<uint32_t>(AscendC::RoundMode::CAST_NONE),
                lanes, dstStride, srcStride, call);
    } else {
        Requantize(dst, src, isVecDeq, halfBlock, lanes, dstStride, srcStride, call);
    }
}

}  // namespace opforge::twin::kernel

namespace AscendC {

template <typename T, typename U, bool isVecDeq = true, bool halfBlock = true>
OPFORGE_API void CastDequant(const LocalTensor<T>& dst, const LocalTensor<U>& src, const uint32_t count)
{
    twin::GateCastDequant<T>();
    twin::Dequantize<T, U, isVecDeq, halfBlock>(dst.View(), src.View(), twin::Lanes::Count(count), {}, {},
                                                {"CastDequant", twin::Here()});
}

template <typename T, typename U, bool isSetMask = true, bool isVecDeq = true, bool halfBlock = true>
OPFORGE_API void CastDequant(const LocalTensor<T>& dst, const LocalTensor<U>& src, const int32_t mask,
                             uint8_t repeatTime, const UnaryRepeatParams& repeatParams)
{
    twin::GateCastDequant<T>();
    const twin::UnaryStrides s(repeatParams);
    twin::Dequantize<T, U, isVecDeq, halfBlock>(dst.View(), src.View(), twin::Lanes::Of<isSetMask>(mask, repeatTime),
                                                s.dst, s.src, {"CastDequant", twin::Here()});
}

template <typename T, typename U, bool isSetMask = true, bool isVecDeq = true, bool halfBlock = true>
OPFORGE_API void CastDequant(const LocalTensor<T>& dst, const LocalTensor<U>& src, const uint64_t mask[],
                             uint8_t repeatTime, const UnaryRepeatParams& repeatParams)
{
    twin::GateCastDequant<T>();
    const twin::UnaryStrides s(repeatParams);
    twin::Dequantize<T, U, isVecDeq, halfBlock>(dst.View(), src.View(), twin::Lanes::Of<isSetMask>(mask, repeatTime),
                                                s.dst, s.src, {"CastDequant", twin::Here()});
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_FUSED_CAST_H
