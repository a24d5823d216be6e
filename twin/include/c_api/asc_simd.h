// The C API of Ascend C: functions asc_ on pointers to on-chip memory. They are the instructions of
// kernel_operator.h. `opforge cc` places arrays with __ubuf__, __cbuf__ and similar words in these memories.
#ifndef OPFORGE_TWIN_C_API_ASC_SIMD_H
#define OPFORGE_TWIN_C_API_ASC_SIMD_H

#include "opforge_twin/c_cube.h"

namespace opforge::twin::kernel {

/// Issues an instruction with the mask register for `count` elements.
template <typename T, typename Body>
void WithCount(int64_t count, const Body& body)
{
    AscendC::SetMaskCount();
    AscendC::SetVectorMask<T, AscendC::MaskMode::COUNTER>(0, static_cast<uint64_t>(count));
    body();
    AscendC::SetMaskNorm();
    AscendC::ResetMask();
}

}  // namespace opforge::twin::kernel

// A function with its forms: with a count; with repeats, strides and the mask register; with a count and a wait for all
// pipes. `operands` are the parameters before them; `...` is the form with repeats.
#define OPFORGE_C_FUNCTION(name, head, operands, arguments, counted, ...)                   \
    template <OPFORGE_C_LIST head, typename... Strides>                                     \
    OPFORGE_API void name(OPFORGE_C_LIST operands, int64_t count, const Strides... strides) \
    {                                                                                       \
        using namespace opforge::twin::kernel;                                              \
        const ComposedCall call;                                                            \
        if constexpr (sizeof...(strides) == 0) {                                            \
            counted;                                                                        \
        } else {                                                                            \
            [[maybe_unused]] constexpr uint64_t mask = 0;                                   \
            __VA_ARGS__;                                                                    \
        }                                                                                   \
    }                                                                                       \
    template <OPFORGE_C_LIST head>                                                          \
    OPFORGE_API void name##_sync(OPFORGE_C_LIST operands, uint32_t count)                   \
    {                                                                                       \
        const opforge::twin::kernel::ComposedCall call;                                     \
        name(OPFORGE_C_LIST arguments, count);                                              \
        AscendC::PipeBarrier<PIPE_ALL>();                                                   \
    }

#define OPFORGE_C_BINARY(name, function)                                                            \
    OPFORGE_C_FUNCTION(name, (typename T), (T * dst, T * src0, T * src1), (dst, src0, src1),        \
                       AscendC::function(At(dst), At(src0), At(src1), static_cast<int32_t>(count)), \
                       (AscendC::function<T, false>(At(dst), At(src0), At(src1), mask, count,       \
                                                    AscendC::BinaryRepeatParams(strides...))))
OPFORGE_C_BINARY(asc_add, Add)
OPFORGE_C_BINARY(asc_sub, Sub)
OPFORGE_C_BINARY(asc_mul, Mul)
OPFORGE_C_BINARY(asc_div, Div)
OPFORGE_C_BINARY(asc_max, Max)
OPFORGE_C_BINARY(asc_min, Min)
OPFORGE_C_BINARY(asc_and, And)
OPFORGE_C_BINARY(asc_or, Or)
OPFORGE_C_BINARY(asc_add_relu, AddRelu)
OPFORGE_C_BINARY(asc_sub_relu, SubRelu)
OPFORGE_C_BINARY(asc_mul_add, FusedMulAdd)
OPFORGE_C_BINARY(asc_mul_add_relu, FusedMulAddRelu)
#undef OPFORGE_C_BINARY

OPFORGE_C_FUNCTION(asc_fma, (typename T, typename U), (T * dst, U* src0, U* src1), (dst, src0, src1),
                   AscendC::MulAddDst(At(dst), At(src0), At(src1), static_cast<int32_t>(count)),
                   (AscendC::MulAddDst<T, U, false>(At(dst), At(src0), At(src1), mask, count,
                                                    AscendC::BinaryRepeatParams(strides...))))

#define OPFORGE_C_UNARY(name, function)                                   \
    OPFORGE_C_FUNCTION(                                                   \
        name, (typename T), (T * dst, T * src), (dst, src),               \
        AscendC::function(At(dst), At(src), static_cast<int32_t>(count)), \
        (AscendC::function<T, false>(At(dst), At(src), mask, count, AscendC::UnaryRepeatParams(strides...))))
OPFORGE_C_UNARY(asc_exp, Exp)
OPFORGE_C_UNARY(asc_log, Ln)
OPFORGE_C_UNARY(asc_sqrt, Sqrt)
OPFORGE_C_UNARY(asc_rsqrt, Rsqrt)
OPFORGE_C_UNARY(asc_rcp, Reciprocal)
OPFORGE_C_UNARY(asc_abs, Abs)
OPFORGE_C_UNARY(asc_relu, Relu)
OPFORGE_C_UNARY(asc_not, Not)
#undef OPFORGE_C_UNARY

// Reductions and others without an instruction with a count: the mask register has the count.
#define OPFORGE_C_REPEATED(name, operands, arguments, strides, ...)                                          \
    OPFORGE_C_FUNCTION(name, (typename T), operands, arguments,                                              \
                       WithCount<T>(count, [&] { name(OPFORGE_C_LIST arguments, OPFORGE_C_LIST strides); }), \
                       const auto repeats = static_cast<int>(count);                                         \
                       __VA_ARGS__)
#define OPFORGE_C_REDUCTION(name, ...) \
    OPFORGE_C_REPEATED(name, (T * dst, T * src), (dst, src), (1, 1, 1, 8), __VA_ARGS__)
#define OPFORGE_C_GROUPS(name, function) \
    OPFORGE_C_REDUCTION(name, AscendC::function<T, false>(At(dst), At(src), repeats, 0, strides...))
#define OPFORGE_C_EXTREMES(name, function, order) \
    OPFORGE_C_REDUCTION(                          \
        name, AscendC::function<T, false>(At(dst), At(src), 0, repeats, strides..., AscendC::ReduceOrder::order))
OPFORGE_C_GROUPS(asc_datablock_reduce_sum, BlockReduceSum)
OPFORGE_C_GROUPS(asc_datablock_reduce_max, BlockReduceMax)
OPFORGE_C_GROUPS(asc_datablock_reduce_min, BlockReduceMin)
OPFORGE_C_GROUPS(asc_pair_reduce_sum, PairReduceSum)
OPFORGE_C_REDUCTION(asc_repeat_reduce_sum, AscendC::WholeReduceSum<T, false>(At(dst), At(src), 0, repeats, strides...))
OPFORGE_C_EXTREMES(asc_repeat_reduce_max_value_index, WholeReduceMax, ORDER_VALUE_INDEX)
OPFORGE_C_EXTREMES(asc_repeat_reduce_max_index_value, WholeReduceMax, ORDER_INDEX_VALUE)
OPFORGE_C_EXTREMES(asc_repeat_reduce_max_only_value, WholeReduceMax, ORDER_ONLY_VALUE)
OPFORGE_C_EXTREMES(asc_repeat_reduce_max_only_index, WholeReduceMax, ORDER_ONLY_INDEX)
OPFORGE_C_EXTREMES(asc_repeat_reduce_min_value_index, WholeReduceMin, ORDER_VALUE_INDEX)
OPFORGE_C_EXTREMES(asc_repeat_reduce_min_index_value, WholeReduceMin, ORDER_INDEX_VALUE)
OPFORGE_C_EXTREMES(asc_repeat_reduce_min_only_value, WholeReduceMin, ORDER_ONLY_VALUE)
OPFORGE_C_EXTREMES(asc_repeat_reduce_min_only_index, WholeReduceMin, ORDER_ONLY_INDEX)
#undef OPFORGE_C_EXTREMES
#undef OPFORGE_C_GROUPS
#undef OPFORGE_C_REDUCTION
OPFORGE_C_REPEATED(asc_shiftright_round, (T * dst, T* src, std::common_type_t<T> value), (dst, src, value),
                   (1, 1, 1, 8, 8),
                   AscendC::ShiftRight<T, false>(At(dst), At(src), value, mask, repeats,
                                                 AscendC::UnaryRepeatParams(strides...), true))
OPFORGE_C_REPEATED(asc_copy, (T * dst, T* src), (dst, src), (1, 1, 1, 8, 8),
                   AscendC::Copy<T, false>(At(dst), At(src), mask, repeats, AscendC::CopyRepeatParams(strides...)))
OPFORGE_C_REPEATED(asc_select, (T * dst, T* src0, T* src1), (dst, src0, src1), (1, 1, 1, 1, 8, 8, 8),
                   AscendC::Select<T, AscendC::SELMODE::VSEL_CMPMASK_SPR>(At(dst), At(src0), At(src1), repeats,
                                                                          AscendC::BinaryRepeatParams(strides...)))
#undef OPFORGE_C_REPEATED

#define OPFORGE_C_SCALAR(name, function, scalar)                                                                 \
    OPFORGE_C_FUNCTION(name, (typename T), (T * dst, T * src, std::common_type_t<T> value), (dst, src, value),   \
                       AscendC::function(At(dst), At(src), static_cast<T>(scalar), static_cast<int32_t>(count)), \
                       (AscendC::function<T, false>(At(dst), At(src), static_cast<T>(scalar), mask, count,       \
                                                    AscendC::UnaryRepeatParams(strides...))))
OPFORGE_C_SCALAR(asc_add_scalar, Adds, value)
OPFORGE_C_SCALAR(asc_sub_scalar, Adds, -value)
OPFORGE_C_SCALAR(asc_mul_scalar, Muls, value)
OPFORGE_C_SCALAR(asc_max_scalar, Maxs, value)
OPFORGE_C_SCALAR(asc_min_scalar, Mins, value)
OPFORGE_C_SCALAR(asc_leakyrelu, LeakyRelu, value)
OPFORGE_C_SCALAR(asc_shiftleft, ShiftLeft, value)
OPFORGE_C_SCALAR(asc_shiftright, ShiftRight, value)
#undef OPFORGE_C_SCALAR
OPFORGE_C_FUNCTION(asc_axpy, (typename T, typename U), (T * dst, U* src, std::common_type_t<U> value),
                   (dst, src, value), AscendC::Axpy(At(dst), At(src), value, static_cast<int32_t>(count)),
                   (AscendC::Axpy<T, U, false>(At(dst), At(src), value, mask, count,
                                               AscendC::UnaryRepeatParams(strides...))))
#define OPFORGE_C_MUL_CAST(name, To)                                                                     \
    OPFORGE_C_FUNCTION(name, (typename T = To), (To * dst, half * src0, half * src1), (dst, src0, src1), \
                       AscendC::MulCast(At(dst), At(src0), At(src1), static_cast<uint32_t>(count)),      \
                       (AscendC::MulCast<To, half, false>(At(dst), At(src0), At(src1), mask, count,      \
                                                          AscendC::BinaryRepeatParams(strides...))))
OPFORGE_C_MUL_CAST(asc_mul_cast_half2int8, int8_t)
OPFORGE_C_MUL_CAST(asc_mul_cast_half2uint8, uint8_t)
#undef OPFORGE_C_MUL_CAST
OPFORGE_C_FUNCTION(asc_duplicate, (typename T), (T * dst, std::common_type_t<T> src), (dst, src),
                   AscendC::Duplicate(At(dst), src, static_cast<int32_t>(count)),
                   (AscendC::Duplicate<T, false>(At(dst), src, mask, count, strides...)))

#define OPFORGE_C_CAST(name, To, From, mode)                                                                    \
    OPFORGE_C_FUNCTION(name, (typename T = To), (To * dst, From * src), (dst, src),                             \
                       AscendC::Cast(At(dst), At(src), AscendC::RoundMode::mode, static_cast<uint32_t>(count)), \
                       (AscendC::Cast<To, From, false>(At(dst), At(src), AscendC::RoundMode::mode, mask, count, \
                                                       AscendC::UnaryRepeatParams(strides...))))
/// The suffixes of the rounding modes: to nearest even, to nearest away from 0, down, up, to zero.
#define OPFORGE_C_CASTS(name, To, From)              \
    OPFORGE_C_CAST(name##_rn, To, From, CAST_RINT)   \
    OPFORGE_C_CAST(name##_rna, To, From, CAST_ROUND) \
    OPFORGE_C_CAST(name##_rd, To, From, CAST_FLOOR)  \
    OPFORGE_C_CAST(name##_ru, To, From, CAST_CEIL)   \
    OPFORGE_C_CAST(name##_rz, To, From, CAST_TRUNC)
OPFORGE_C_CAST(asc_int42half, half, int4b_t, CAST_NONE)
OPFORGE_C_CAST(asc_half2int4, int4b_t, half, CAST_NONE)
OPFORGE_C_CASTS(asc_half2int4, int4b_t, half)
OPFORGE_C_CAST(asc_deq_int322half, half, int32_t, CAST_NONE)
/// With the quantization of asc_set_deq_scale, to the high or the low half of each block.
#define OPFORGE_C_DEQUANT(name, isTable, isHigh)                                                                \
    OPFORGE_C_FUNCTION(                                                                                         \
        name, (typename T), (T * dst, int16_t* src), (dst, src),                                                \
        (AscendC::CastDequant<T, int16_t, isTable, isHigh>(At(dst), At(src), static_cast<uint32_t>(count))),    \
        (AscendC::CastDequant<T, int16_t, false, isTable, isHigh>(At(dst), At(src), static_cast<int32_t>(mask), \
                                                                  static_cast<uint8_t>(count),                  \
                                                                  AscendC::UnaryRepeatParams(strides...))))
OPFORGE_C_DEQUANT(asc_deq_int162b8_h, false, true)
OPFORGE_C_DEQUANT(asc_deq_int162b8_l, false, false)
OPFORGE_C_DEQUANT(asc_vdeq_int162b8_h, true, true)
OPFORGE_C_DEQUANT(asc_vdeq_int162b8_l, true, false)
#undef OPFORGE_C_DEQUANT
OPFORGE_C_CAST(asc_half2float, float, half, CAST_NONE)
OPFORGE_C_CAST(asc_bfloat162float, float, bfloat16_t, CAST_NONE)
OPFORGE_C_CAST(asc_int322float, float, int32_t, CAST_NONE)
OPFORGE_C_CAST(asc_int82half, half, int8_t, CAST_NONE)
OPFORGE_C_CAST(asc_uint82half, half, uint8_t, CAST_NONE)
OPFORGE_C_CAST(asc_int162float, float, int16_t, CAST_NONE)
OPFORGE_C_CAST(asc_int162half, half, int16_t, CAST_NONE)
OPFORGE_C_CAST(asc_int322int16, int16_t, int32_t, CAST_NONE)
OPFORGE_C_CAST(asc_int322int64, int64_t, int32_t, CAST_NONE)
OPFORGE_C_CAST(asc_int642int32, int32_t, int64_t, CAST_NONE)
OPFORGE_C_CAST(asc_half2int8, int8_t, half, CAST_NONE)
OPFORGE_C_CAST(asc_half2uint8, uint8_t, half, CAST_NONE)
OPFORGE_C_CAST(asc_float2half, half, float, CAST_NONE)
OPFORGE_C_CAST(asc_float2half_ro, half, float, CAST_ODD)
OPFORGE_C_CASTS(asc_float2half, half, float)
OPFORGE_C_CASTS(asc_float2bfloat16, bfloat16_t, float)
OPFORGE_C_CASTS(asc_float2int16, int16_t, float)
OPFORGE_C_CASTS(asc_float2int32, int32_t, float)
OPFORGE_C_CASTS(asc_float2int64, int64_t, float)
OPFORGE_C_CASTS(asc_float2float, float, float)
OPFORGE_C_CASTS(asc_bfloat162int32, int32_t, bfloat16_t)
OPFORGE_C_CASTS(asc_half2int8, int8_t, half)
OPFORGE_C_CASTS(asc_half2uint8, uint8_t, half)
OPFORGE_C_CASTS(asc_half2int16, int16_t, half)
OPFORGE_C_CASTS(asc_half2int32, int32_t, half)
OPFORGE_C_CASTS(asc_int162half, half, int16_t)
OPFORGE_C_CASTS(asc_int322float, float, int32_t)
OPFORGE_C_CASTS(asc_int642float, float, int64_t)
#undef OPFORGE_C_CASTS
#undef OPFORGE_C_CAST
#undef OPFORGE_C_FUNCTION

// Comparisons write bits to `dst`, or without it to the CMPMASK register.
#define OPFORGE_C_COMPARE(name, mode)                                                                                  \
    OPFORGE_C_INSTRUCTION(                                                                                             \
        name, (typename T, typename... Strides), (uint8_t* dst, T* src0, T* src1, uint8_t repeat, Strides... strides), \
        (dst, src0, src1, repeat, strides...),                                                                         \
        (AscendC::Compare<T, uint8_t, false>(At(dst), At(src0), At(src1), AscendC::CMPMODE::mode, uint64_t{0}, repeat, \
                                             AscendC::BinaryRepeatParams(strides...))))                                \
    OPFORGE_C_INSTRUCTION(name, (typename T, typename... Strides),                                                     \
                          (T * src0, T * src1, int repeat, Strides... strides), (src0, src1, repeat, strides...),      \
                          (void)repeat;                                                                                \
                          (AscendC::Compare<T, false>(At(src0), At(src1), AscendC::CMPMODE::mode, uint64_t{0},         \
                                                      AscendC::BinaryRepeatParams(strides...))))                       \
    OPFORGE_C_INSTRUCTION(                                                                                             \
        name##_scalar, (typename T, typename... Strides),                                                              \
        (uint8_t* dst, T* src, std::common_type_t<T> value, uint8_t repeat, Strides... strides),                       \
        (dst, src, value, repeat, strides...),                                                                         \
        (AscendC::CompareScalar<T, uint8_t, false>(At(dst), At(src), value, AscendC::CMPMODE::mode, uint64_t{0},       \
                                                   repeat, AscendC::UnaryRepeatParams(strides...))))
OPFORGE_C_COMPARE(asc_eq, EQ)
OPFORGE_C_COMPARE(asc_ne, NE)
OPFORGE_C_COMPARE(asc_gt, GT)
OPFORGE_C_COMPARE(asc_ge, GE)
OPFORGE_C_COMPARE(asc_lt, LT)
OPFORGE_C_COMPARE(asc_le, LE)
#undef OPFORGE_C_COMPARE
OPFORGE_C_INSTRUCTION(asc_gather, (typename T), (T * dst, T* src, uint32_t* src_offset, uint32_t count),
                      (dst, src, src_offset, count),
                      AscendC::Gather(At(dst), At(src), At(src_offset), uint32_t{0}, count))
OPFORGE_C_INSTRUCTION(asc_gather_datablock, (typename T),
                      (T * dst, T* src, uint32_t* src_offset, uint16_t dst_repeat_stride, uint8_t dst_block_stride,
                       uint8_t repeat),
                      (dst, src, src_offset, dst_repeat_stride, dst_block_stride, repeat),
                      AscendC::Gatherb(At(dst), At(src), At(src_offset), repeat,
                                       AscendC::GatherRepeatParams(dst_block_stride, dst_repeat_stride)))
OPFORGE_C_INSTRUCTION(asc_brcb, (typename T),
                      (T * dst, T* src, uint16_t dst_block_stride, uint16_t dst_repeat_stride, uint8_t repeat),
                      (dst, src, dst_block_stride, dst_repeat_stride, repeat),
                      AscendC::Brcb(At(dst), At(src), repeat,
                                    AscendC::BrcbRepeatParams(dst_block_stride, dst_repeat_stride)))
OPFORGE_C_INSTRUCTION(asc_bitsort, (typename T), (T * dst, T* src0, uint32_t* src1, int32_t repeat),
                      (dst, src0, src1, repeat), AscendC::Sort32(At(dst), At(src0), At(src1), repeat))
OPFORGE_C_INSTRUCTION(
    asc_mrgsort4, (typename T),
    (T * dst, T* src[4], uint8_t repeat, uint16_t element_length_0, uint16_t element_length_1,
     uint16_t element_length_2, uint16_t element_length_3, bool if_exhausted_suspension, uint8_t valid_bit),
    (dst, src, repeat, element_length_0, element_length_1, element_length_2, element_length_3, if_exhausted_suspension,
     valid_bit),
    const uint16_t lengths[] = {element_length_0, element_length_1, element_length_2, element_length_3};
    AscendC::MrgSort(At(dst),
                     AscendC::MrgSortSrcList<T>(At(src[0]), At(src[1]), At(src[valid_bit > 3 ? 2 : 0]),
                                                At(src[valid_bit > 7 ? 3 : 0])),
                     AscendC::MrgSort4Info(lengths, if_exhausted_suspension, valid_bit, repeat)))
/// Keeps the elements whose bits in `src1` are set, or those of a fixed pattern.
OPFORGE_C_INSTRUCTION(
    asc_reduce, (typename T),
    (T * dst, T* src0, T* src1, uint16_t repeat, uint8_t src0_block_stride, uint8_t pattern_mode,
     uint16_t src0_repeat_stride, uint8_t src1_repeat_stride),
    (dst, src0, src1, repeat, src0_block_stride, pattern_mode, src0_repeat_stride, src1_repeat_stride),
    const AscendC::GatherMaskParams params(src0_block_stride, repeat, src0_repeat_stride, src1_repeat_stride);
    uint64_t kept = 0; pattern_mode == 0 ? AscendC::GatherMask(At(dst), At(src0), At(src1), false, 0, params, kept)
                                         : AscendC::GatherMask(At(dst), At(src0), pattern_mode, false, 0, params, kept))
OPFORGE_C_INSTRUCTION(asc_transpose, (typename T), (T * dst, T* src), (dst, src), AscendC::Transpose(At(dst), At(src)))
/// Between the blocks at the addresses in registers `dst` and `src` and in the next ones.
#define OPFORGE_C_TRANSPOSE(name, T)                                                                \
    OPFORGE_C_INSTRUCTION(                                                                          \
        name, (typename = T),                                                                       \
        (ub_addr8_t dst, ub_addr8_t src, uint8_t repeat, uint16_t dst_stride, uint16_t src_stride), \
        (dst, src, repeat, dst_stride, src_stride),                                                 \
        TransposeRegisters<T>(dst, src, {false, false, repeat, dst_stride, src_stride}, {#name, Here()}))
OPFORGE_C_TRANSPOSE(asc_transto5hd_b16, uint16_t)
OPFORGE_C_TRANSPOSE(asc_transto5hd_b32, uint32_t)
#undef OPFORGE_C_TRANSPOSE
OPFORGE_C_INSTRUCTION(asc_transto5hd_b8, (typename = uint8_t),
                      (ub_addr8_t dst, ub_addr8_t src, uint8_t repeat, uint16_t dst_stride, uint16_t src_stride,
                       bool dst_high_half, bool src_high_half),
                      (dst, src, repeat, dst_stride, src_stride, dst_high_half, src_high_half),
                      TransposeRegisters<uint8_t>(dst, src,
                                                  {dst_high_half, src_high_half, repeat, dst_stride, src_stride},
                                                  {"asc_transto5hd_b8", Here()}))
#undef OPFORGE_C_INSTRUCTION
#undef OPFORGE_C_LIST

#define OPFORGE_C_EXTREME(name)                                                 \
    template <typename T>                                                       \
    OPFORGE_API void name(T& val, uint32_t& index)                              \
    {                                                                           \
        const opforge::twin::kernel::ComposedCall call;                         \
        T bits{};                                                               \
        AscendC::GetReduceMaxMinCount(val, bits);                               \
        index = static_cast<uint32_t>(opforge::twin::kernel::ScalarBits(bits)); \
    }
OPFORGE_C_EXTREME(asc_get_reduce_max_cnt)
OPFORGE_C_EXTREME(asc_get_reduce_min_cnt)
#undef OPFORGE_C_EXTREME

/// The value around a row of asc_copy_gm2ub_align.
template <typename T>
OPFORGE_API void asc_set_copy_pad_val(T pad_value)
{
    const opforge::twin::kernel::ComposedCall call;
    AscendC::SetPadValue(pad_value);
}

// Copies of `size` bytes, a multiple of 32, and of bursts in blocks of 32 bytes.
#define OPFORGE_C_COPY(name, To, From)                                                                       \
    OPFORGE_API inline void name(To* dst, From* src, uint32_t size)                                          \
    {                                                                                                        \
        const opforge::twin::kernel::ComposedCall call;                                                      \
        AscendC::DataCopy(opforge::twin::kernel::At(dst), opforge::twin::kernel::At(src), size);             \
    }                                                                                                        \
    OPFORGE_API inline void name(To* dst, From* src, uint16_t n_burst, uint16_t len_burst, uint16_t src_gap, \
                                 uint16_t dst_gap)                                                           \
    {                                                                                                        \
        const opforge::twin::kernel::ComposedCall call;                                                      \
        AscendC::DataCopy(opforge::twin::kernel::At(dst), opforge::twin::kernel::At(src),                    \
                          AscendC::DataCopyParams(n_burst, len_burst, src_gap, dst_gap));                    \
    }                                                                                                        \
    OPFORGE_API inline void name##_sync(To* dst, From* src, uint32_t size)                                   \
    {                                                                                                        \
        const opforge::twin::kernel::ComposedCall call;                                                      \
        name(dst, src, size);                                                                                \
        AscendC::PipeBarrier<PIPE_ALL>();                                                                    \
    }
OPFORGE_C_COPY(asc_copy_gm2ub, void, __gm__ void)
OPFORGE_C_COPY(asc_copy_ub2gm, __gm__ void, void)
OPFORGE_C_COPY(asc_copy_ub2ub, void, void)
#undef OPFORGE_C_COPY

/// A copy of any number of bytes.
template <typename T>
OPFORGE_API void asc_copy_gm2ub_align(T* dst, __gm__ T* src, uint32_t size)
{
    const opforge::twin::kernel::ComposedCall call;
    AscendC::DataCopyPad(opforge::twin::kernel::At(dst), opforge::twin::kernel::GlobalAt(src),
                         AscendC::DataCopyExtParams(1, size, 0, 0, 0), AscendC::DataCopyPadExtParams<T>());
}

template <typename T>
OPFORGE_API void asc_copy_ub2gm_align(__gm__ T* dst, T* src, uint32_t size)
{
    const opforge::twin::kernel::ComposedCall call;
    AscendC::DataCopyPad(opforge::twin::kernel::GlobalAt(dst), opforge::twin::kernel::At(src),
                         AscendC::DataCopyExtParams(1, size, 0, 0, 0));
}

#endif  // OPFORGE_TWIN_C_API_ASC_SIMD_H
