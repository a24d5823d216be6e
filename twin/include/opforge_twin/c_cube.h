// The C API of Ascend C: instructions of cube cores on pointers to their memories.
#ifndef OPFORGE_TWIN_C_CUBE_H
#define OPFORGE_TWIN_C_CUBE_H

#include "opforge_twin/c_system.h"

union asc_fill_value_config {
    uint64_t config = 0;
    struct {
        uint64_t repeat : 15;
        uint64_t reserved1 : 1;
        uint64_t blk_num : 15;
        uint64_t reserved2 : 1;
        uint64_t dst_gap : 15;
        uint64_t reserved3 : 17;
    };
};

union asc_load3d_v2_config {
    uint64_t config = 0x10000;  ///< one repetition
    struct {
        uint64_t rpt_stride : 16;
        uint64_t rpt_time : 8;
        uint64_t rpt_mode : 1;
        uint64_t reserved2 : 39;
    };
};

union asc_l13d_fmatrix_config {
    uint64_t config = 0;
    struct {
        uint16_t l1_height;
        uint16_t l1_width;
        uint8_t padding_left_size;
        uint8_t padding_right_size;
        uint8_t padding_top_size;
        uint8_t padding_bottom_size;
    };
};

namespace opforge::twin::kernel {

/// The tensor from an address of a memory of cube cores on.
template <AscendC::TPosition position, typename T>
AscendC::LocalTensor<T> In(T* address)
{
    const LocalView view =
        ViewFrom(position, reinterpret_cast<uintptr_t>(address), DtypeOf<T>(), sizeof(T), {"C API", Here()});
    return AscendC::LocalTensor<T>(view, position);
}

template <AscendC::TPosition position>
AscendC::LocalTensor<uint8_t> In(void* address)
{
    return In<position>(static_cast<uint8_t*>(address));
}

/// Fractals move as bytes.
template <typename T>
using Moved = std::conditional_t<kIsInt4<T>, int8_t, T>;

template <typename T>
using IfMoved = std::enable_if_t<kIsLoaded<T>>;

inline AscendC::MmadParams ProductParams(int64_t m, int64_t k, int64_t n, int64_t unitFlag, bool alignsK,
                                         bool startsAtBias, bool startsAtZero)
{
    AscendC::MmadParams params;
    params.m = static_cast<Given16>(m);
    params.n = static_cast<Given16>(n);
    params.k = static_cast<Given16>(k);
    params.unitFlag = static_cast<Given8>(unitFlag);
    params.kDirectionAlign = alignsK;
    params.cmatrixSource = startsAtBias;
    params.cmatrixInitVal = startsAtZero;
    return params;
}

inline AscendC::DataCopyCO12DstParams StoreParams(int64_t n, int64_t m, int64_t dstStride, int64_t srcStride,
                                                  int64_t unitFlag, uint64_t quantization, int64_t relu,
                                                  bool splitsChannels, bool asRows)
{
    AscendC::DataCopyCO12DstParams params(static_cast<Given16>(n), static_cast<Given16>(m),
                                          static_cast<Given32>(dstStride), static_cast<Given16>(srcStride),
                                          static_cast<QuantMode_t>(quantization), static_cast<Given8>(relu),
                                          splitsChannels, asRows);
    params.unitFlag = static_cast<Given8>(unitFlag);
    return params;
}

/// LoadData with the size and the padding of the registers.
inline constexpr AscendC::IsResetLoad3dConfig kImageOfRegisters{false, false};

inline void SetImageOf(const asc_l13d_fmatrix_config& config, AscendC::FmatrixMode mode)
{
    const uint8_t padding[4] = {config.padding_left_size, config.padding_right_size, config.padding_top_size,
                                config.padding_bottom_size};
    AscendC::SetFmatrix(config.l1_height, config.l1_width, padding, mode);
}

/// The start of the bias table.
inline void* TableAddress(uint64_t dst)
{
    Field("dst (the twin uses the bias table from 0)", static_cast<int64_t>(dst), 0, 0, {"asc_copy_l12bt", Here()});
    return nullptr;
}

/// Sets the scales of the columns, at `scales` times 128 bytes of the fixpipe buffer.
inline void SetStoreRegisters(uint64_t relu, uint64_t scales, bool unitFlag, const Call& call)
{
    constexpr uint64_t kScaleBlockBytes = 128;
    Field("relu_pre", static_cast<int64_t>(relu), 0, kFieldMax8, call);
    Field("quant_pre (in 128 bytes)", static_cast<int64_t>(scales), 0, kFieldMax8, call);
    SetWord(Word::kReluScales, relu, call);
    SetWord(Word::kScales, scales, call);
    SetWord(Word::kUnitFlag, unitFlag ? 1 : 0, call);
    SetPreQuantTensor(
        ViewFrom(AscendC::TPosition::C2PIPE2GM, scales * kScaleBlockBytes, DtypeOf<uint64_t>(), sizeof(uint64_t), call),
        call);
}

/// A fill with the bits of `value`.
template <AscendC::TPosition position, typename T, typename V>
void FillWith(T* dst, V value, int64_t repeats, int64_t blocks, int64_t gap)
{
    static_assert(sizeof(T) == sizeof(V) && kIsAnyOf<V, half, bfloat16_t, uint32_t>,
                  "asc_fill: half and bfloat16_t fill types of 2 bytes, uint32_t fills types of 4 bytes; no public "
                  "source states the bits of other pairs");
    T bits{};
    std::memcpy(&bits, &value, sizeof(bits));
    AscendC::Fill(In<position>(dst),
                  AscendC::InitConstValueParams<T>(static_cast<Given16>(repeats), static_cast<Given16>(blocks),
                                                   static_cast<Given16>(gap), bits));
}

}  // namespace opforge::twin::kernel

// --- global memory to L1, L0A and L0B ---
OPFORGE_C_INSTRUCTION(asc_copy_gm2l1, (typename = void), (void* dst, __gm__ void* src, uint32_t size), (dst, src, size),
                      AscendC::DataCopy(In<AscendC::TPosition::A1>(dst), At(src), size))
OPFORGE_C_INSTRUCTION(asc_copy_gm2l1, (typename = void),
                      (void* dst, __gm__ void* src, int64_t n_burst, int64_t len_burst, int64_t src_gap,
                       int64_t dst_gap),
                      (dst, src, n_burst, len_burst, src_gap, dst_gap),
                      AscendC::DataCopy(In<AscendC::TPosition::A1>(dst), At(src),
                                        AscendC::DataCopyParams(n_burst, len_burst, src_gap, dst_gap)))
#define OPFORGE_C_FRACTALS(name, position, From, from)                                                \
    OPFORGE_C_INSTRUCTION(                                                                            \
        name, (typename T, typename = opforge::twin::kernel::IfMoved<T>),                             \
        (T * dst, From * src, int64_t base_idx, int64_t repeat, int64_t src_stride, int64_t dst_gap), \
        (dst, src, base_idx, repeat, src_stride, dst_gap),                                            \
        AscendC::LoadData(In<AscendC::TPosition::position>(reinterpret_cast<Moved<T>*>(dst)), from,   \
                          AscendC::LoadData2DParams(base_idx, repeat, src_stride, 0, dst_gap, false, 0)))
#define OPFORGE_C_FROM_GLOBAL(name, position) \
    OPFORGE_C_FRACTALS(name, position, __gm__ T, GlobalAt(reinterpret_cast<__gm__ Moved<T>*>(src)))
OPFORGE_C_FROM_GLOBAL(asc_copy_gm2l1, A1)
OPFORGE_C_FROM_GLOBAL(asc_copy_gm2l0a, A2)
OPFORGE_C_FROM_GLOBAL(asc_copy_gm2l0b, B2)
#undef OPFORGE_C_FROM_GLOBAL
OPFORGE_C_INSTRUCTION(asc_copy_gm2l1_nd2nz, (typename T),
                      (T * dst, __gm__ T* src, int64_t nd_num, int64_t n_value, int64_t d_value,
                       int64_t src_nd_matrix_stride, int64_t src_d_value, int64_t dst_nz_c0_stride,
                       int64_t dst_nz_n_stride, int64_t dst_nz_matrix_stride),
                      (dst, src, nd_num, n_value, d_value, src_nd_matrix_stride, src_d_value, dst_nz_c0_stride,
                       dst_nz_n_stride, dst_nz_matrix_stride),
                      AscendC::DataCopy(In<AscendC::TPosition::A1>(dst), GlobalAt(src),
                                        AscendC::Nd2NzParams(nd_num, n_value, d_value, src_nd_matrix_stride,
                                                             src_d_value, dst_nz_c0_stride, dst_nz_n_stride,
                                                             dst_nz_matrix_stride)))
/// The source and the conversions are those of SetAippFunctions.
OPFORGE_C_INSTRUCTION(asc_load_image_to_cbuf, (typename T),
                      (T * dst, int64_t hor_size, int64_t ver_size, int64_t hor_start_pos, int64_t ver_start_pos,
                       int64_t src_hor_size, int64_t top_pad_size, int64_t bot_pad_size, int64_t left_pad_size,
                       int64_t right_pad_size),
                      (dst, hor_size, ver_size, hor_start_pos, ver_start_pos, src_hor_size, top_pad_size, bot_pad_size,
                       left_pad_size, right_pad_size),
                      AscendC::LoadImageToLocal(In<AscendC::TPosition::A1>(dst),
                                                AscendC::LoadImageToLocalParams(hor_size, ver_size, hor_start_pos,
                                                                                ver_start_pos, src_hor_size,
                                                                                top_pad_size, bot_pad_size,
                                                                                left_pad_size, right_pad_size)))

// --- L1 to other memories ---
/// On MTE3, as DataCopy.
OPFORGE_C_INSTRUCTION(asc_copy_l12gm, (typename = void),
                      (__gm__ void* dst, void* src, int64_t n_burst, int64_t len_burst, int64_t src_gap,
                       int64_t dst_gap),
                      (dst, src, n_burst, len_burst, src_gap, dst_gap),
                      AscendC::DataCopy(At(dst), In<AscendC::TPosition::A1>(src),
                                        AscendC::DataCopyParams(n_burst, len_burst, src_gap, dst_gap)))
#define OPFORGE_C_LOADS(name, position)                                                                               \
    OPFORGE_C_FRACTALS(name, position, T, In<AscendC::TPosition::A1>(reinterpret_cast<Moved<T>*>(src)))               \
    OPFORGE_C_INSTRUCTION(                                                                                            \
        name, (typename T),                                                                                           \
        (T * dst, T * src, int64_t k_extension, int64_t m_extension, int64_t k_start_pt, int64_t m_start_pt,          \
         int64_t stride_w, int64_t stride_h, int64_t filter_w, int64_t filter_h, int64_t dilation_filter_w,           \
         int64_t dilation_filter_h, bool filter_size_w, bool filter_size_h, bool transpose, bool f_matrix_ctrl,       \
         int64_t channel_size),                                                                                       \
        (dst, src, k_extension, m_extension, k_start_pt, m_start_pt, stride_w, stride_h, filter_w, filter_h,          \
         dilation_filter_w, dilation_filter_h, filter_size_w, filter_size_h, transpose, f_matrix_ctrl, channel_size), \
        const uint8_t unused[4] = {};                                                                                 \
        const AscendC::LoadData3DParamsV2<T> window(unused, 0, 0, channel_size, k_extension, m_extension, k_start_pt, \
                                                    m_start_pt, stride_w, stride_h, filter_w, filter_h,               \
                                                    dilation_filter_w, dilation_filter_h, transpose, false, T{},      \
                                                    filter_size_w, filter_size_h, f_matrix_ctrl);                     \
        (AscendC::LoadData<T, kImageOfRegisters>(In<AscendC::TPosition::position>(dst),                               \
                                                 In<AscendC::TPosition::A1>(src), window)))                           \
    OPFORGE_C_INSTRUCTION(name##_trans, (typename T),                                                                 \
                          (T * dst, T * src, int64_t index_id, int64_t repeat, int64_t src_stride, int64_t dst_gap,   \
                           bool enable_addr_decrement, int64_t dst_frac_gap),                                         \
                          (dst, src, index_id, repeat, src_stride, dst_gap, enable_addr_decrement, dst_frac_gap),     \
                          AscendC::LoadDataWithTranspose(                                                             \
                              In<AscendC::TPosition::position>(dst), In<AscendC::TPosition::A1>(src),                 \
                              AscendC::LoadData2dTransposeParams(index_id, repeat, src_stride, dst_gap, dst_frac_gap, \
                                                                 enable_addr_decrement ? 1 : 0)))
OPFORGE_C_LOADS(asc_copy_l12l0a, A2)
OPFORGE_C_LOADS(asc_copy_l12l0b, B2)
#undef OPFORGE_C_LOADS
#undef OPFORGE_C_FRACTALS
OPFORGE_C_INSTRUCTION(asc_copy_l12l0b_sparse, (typename T),
                      (T * dst, T* src, T* index, int64_t start_index, int64_t repeat),
                      (dst, src, index, start_index, repeat),
                      AscendC::LoadDataWithSparse(In<AscendC::TPosition::B2>(dst), In<AscendC::TPosition::A1>(src),
                                                  In<AscendC::TPosition::A1>(reinterpret_cast<uint8_t*>(index)),
                                                  AscendC::LoadData2DParams(start_index, repeat, 0, 0, 0, false, 0)))
// Copies of `size` bytes, and of bursts in the units of DataCopy: 64 bytes in the bias table, 128 bytes in the fixpipe
// buffer. Public sources state different units for `dst` in the bias table: only 0 is possible.
OPFORGE_C_INSTRUCTION(asc_copy_l12bt, (typename = void), (uint64_t dst, void* src, uint32_t size), (dst, src, size),
                      AscendC::DataCopy(In<AscendC::TPosition::C2>(TableAddress(dst)), In<AscendC::TPosition::A1>(src),
                                        size))
OPFORGE_C_INSTRUCTION(asc_copy_l12bt, (typename = void),
                      (uint64_t dst, void* src, int64_t conv_control, int64_t n_burst, int64_t len_burst,
                       int64_t source_gap, int64_t dst_gap),
                      (dst, src, conv_control, n_burst, len_burst, source_gap, dst_gap),
                      Field("conv_control", conv_control, 0, 0, {"asc_copy_l12bt", Here()});
                      AscendC::DataCopy(In<AscendC::TPosition::C2>(TableAddress(dst)), In<AscendC::TPosition::A1>(src),
                                        AscendC::DataCopyParams(n_burst, len_burst, source_gap, dst_gap)))
OPFORGE_C_INSTRUCTION(asc_copy_l12fb, (typename = void), (void* dst, void* src, uint32_t size), (dst, src, size),
                      AscendC::DataCopy(In<AscendC::TPosition::C2PIPE2GM>(dst), In<AscendC::TPosition::A1>(src), size))
OPFORGE_C_INSTRUCTION(asc_copy_l12fb, (typename = void),
                      (void* dst, void* src, int64_t n_burst, int64_t len_burst, int64_t src_gap_size,
                       int64_t dst_gap_size),
                      (dst, src, n_burst, len_burst, src_gap_size, dst_gap_size),
                      AscendC::DataCopy(In<AscendC::TPosition::C2PIPE2GM>(dst), In<AscendC::TPosition::A1>(src),
                                        AscendC::DataCopyParams(n_burst, len_burst, src_gap_size, dst_gap_size)))

// --- fills ---
#define OPFORGE_C_FILL(name, position)                                                                                 \
    OPFORGE_C_INSTRUCTION(                                                                                             \
        name, (typename T, typename V), (T * dst, V value, const asc_fill_value_config& config), (dst, value, config), \
        FillWith<AscendC::TPosition::position>(dst, value, config.repeat, config.blk_num, config.dst_gap))
OPFORGE_C_FILL(asc_fill_l1, A1)
OPFORGE_C_FILL(asc_fill_l0a, A2)
OPFORGE_C_FILL(asc_fill_l0b, B2)
#undef OPFORGE_C_FILL

// --- products ---
#define OPFORGE_C_PRODUCT(name, Factor)                                                                                \
    OPFORGE_C_INSTRUCTION(                                                                                             \
        name, (typename T, typename U),                                                                                \
        (T * c_matrix, U * a_matrix, U * b_matrix, int64_t left_height, int64_t n_dim, int64_t right_width,            \
         int64_t unit_flag, bool k_direction_align, bool c_matrix_source, bool c_matrix_init_val),                     \
        (c_matrix, a_matrix, b_matrix, left_height, n_dim, right_width, unit_flag, k_direction_align, c_matrix_source, \
         c_matrix_init_val),                                                                                           \
        static_assert(kIsInt4<U> == std::is_same_v<Factor, int4b_t>,                                                   \
                      "int4b_t needs asc_mmad_s4, other types asc_mmad");                                              \
        AscendC::Mmad(In<AscendC::TPosition::CO1>(c_matrix), In<AscendC::TPosition::A2>(a_matrix),                     \
                      In<AscendC::TPosition::B2>(b_matrix),                                                            \
                      ProductParams(left_height, n_dim, right_width, unit_flag, k_direction_align, c_matrix_source,    \
                                    c_matrix_init_val)))                                                               \
    OPFORGE_C_INSTRUCTION(                                                                                             \
        name, (typename T, typename U),                                                                                \
        (T * c_matrix, U * a_matrix, U * b_matrix, int64_t left_height, int64_t n_dim, int64_t right_width,            \
         int64_t feat_offset, int64_t smask_offset, int64_t unit_flag, bool k_direction_align, bool is_weight_offset,  \
         bool c_matrix_source, bool c_matrix_init_val),                                                                \
        (c_matrix, a_matrix, b_matrix, left_height, n_dim, right_width, feat_offset, smask_offset, unit_flag,          \
         k_direction_align, is_weight_offset, c_matrix_source, c_matrix_init_val),                                     \
        Field("feat_offset, smask_offset, is_weight_offset", feat_offset + smask_offset + (is_weight_offset ? 1 : 0),  \
              0, 0, {#name, Here()});                                                                                  \
        name(c_matrix, a_matrix, b_matrix, left_height, n_dim, right_width, unit_flag, k_direction_align,              \
             c_matrix_source, c_matrix_init_val))
using AscendC::int4b_t;
OPFORGE_C_PRODUCT(asc_mmad, void)
OPFORGE_C_PRODUCT(asc_mmad_s4, int4b_t)
#undef OPFORGE_C_PRODUCT
OPFORGE_C_INSTRUCTION(asc_mmad_sparse, (typename T, typename U),
                      (T * c, U* a, U* b, int64_t m, int64_t k, int64_t n, int64_t unit_flag, bool c_matrix_source,
                       bool c_matrix_init_val),
                      (c, a, b, m, k, n, unit_flag, c_matrix_source, c_matrix_init_val),
                      AscendC::MmadWithSparse(In<AscendC::TPosition::CO1>(c), In<AscendC::TPosition::A2>(a),
                                              In<AscendC::TPosition::B2>(b),
                                              ProductParams(m, k, n, unit_flag, false, c_matrix_source,
                                                            c_matrix_init_val)))

// --- results of L0C ---
#define OPFORGE_C_STORE(name, To, to)                                                                              \
    OPFORGE_C_INSTRUCTION(                                                                                         \
        name, (typename T, typename U),                                                                            \
        (To * dst, U * src, int64_t n_size, int64_t m_size, int64_t dst_stride, int64_t src_stride,                \
         int64_t unit_flag_mode, uint64_t quant_pre, int64_t relu_pre, bool channel_split, bool nz2nd_en),         \
        (dst, src, n_size, m_size, dst_stride, src_stride, unit_flag_mode, quant_pre, relu_pre, channel_split,     \
         nz2nd_en),                                                                                                \
        AscendC::DataCopy(to, In<AscendC::TPosition::CO1>(src),                                                    \
                          StoreParams(n_size, m_size, dst_stride, src_stride, unit_flag_mode, quant_pre, relu_pre, \
                                      channel_split, nz2nd_en)))
OPFORGE_C_STORE(asc_copy_l0c2gm, __gm__ T, GlobalAt(dst))
OPFORGE_C_STORE(asc_copy_l0c2l1, T, In<AscendC::TPosition::A1>(dst))
#undef OPFORGE_C_STORE

// --- registers ---
OPFORGE_C_CALL(asc_set_l13d_fmatrix, (const asc_l13d_fmatrix_config& config),
               opforge::twin::kernel::SetImageOf(config, AscendC::FmatrixMode::FMATRIX_LEFT))
OPFORGE_C_CALL(asc_set_l13d_fmatrix_b, (const asc_l13d_fmatrix_config& config),
               opforge::twin::kernel::SetImageOf(config, AscendC::FmatrixMode::FMATRIX_RIGHT))
OPFORGE_C_CALL(asc_set_l13d_rpt, (const asc_load3d_v2_config& config),
               AscendC::SetLoadDataRepeat(AscendC::LoadDataRepeatParam(config.rpt_stride, config.rpt_time,
                                                                       config.rpt_mode)))
OPFORGE_C_CALL(asc_set_l13d_size, (uint64_t value), AscendC::SetLoadDataBoundary(static_cast<uint32_t>(value)))
template <typename T>
OPFORGE_API void asc_set_l13d_padding(T config)
{
    const opforge::twin::kernel::ComposedCall call;
    AscendC::SetLoadDataPaddingValue(config);
}
OPFORGE_C_CALL(asc_set_l0c_copy_params, (uint16_t nd_num, uint16_t src_nd_stride, uint16_t dst_nd_stride),
               AscendC::SetFixpipeNz2ndFlag(nd_num, src_nd_stride, dst_nd_stride))
OPFORGE_C_CALL(asc_set_l0c_copy_prequant, (uint64_t config), AscendC::SetFixpipePreQuantFlag(config))
OPFORGE_C_CALL(asc_set_l0c2gm_config, (uint64_t relu_pre, uint64_t quant_pre, bool enable_unit_flag),
               opforge::twin::kernel::SetStoreRegisters(relu_pre, quant_pre, enable_unit_flag,
                                                        {"asc_set_l0c2gm_config", opforge::twin::kernel::Here()}))
#define OPFORGE_C_WORD(name, word) \
    OPFORGE_C_CALL(                \
        name, (),                  \
        opforge::twin::kernel::WordOf(opforge::twin::kernel::Word::word, {#name, opforge::twin::kernel::Here()}))
OPFORGE_C_WORD(asc_get_l0c2gm_relu, kReluScales)
OPFORGE_C_WORD(asc_get_l0c2gm_prequant, kScales)
OPFORGE_C_WORD(asc_get_l0c2gm_unitflag, kUnitFlag)
#undef OPFORGE_C_WORD
#undef OPFORGE_C_CALL
/// Has no effect: no public source states the `relu_pre` that uses it.
template <typename T>
OPFORGE_API void asc_set_l0c2gm_lrelu_alpha(T& /*config*/)
{
    static_assert(std::is_same_v<T, half> || std::is_same_v<T, float>,
                  "asc_set_l0c2gm_lrelu_alpha: config is half or float");
    opforge::twin::kernel::RequireCubeCore({"asc_set_l0c2gm_lrelu_alpha", opforge::twin::kernel::Here()});
}

#endif  // OPFORGE_TWIN_C_CUBE_H
