"""Compare the functions of the C API for cube cores and for the system with NumPy; planted mistakes."""

from __future__ import annotations

import subprocess
from functools import partial

import ml_dtypes
import numpy as np
import pytest
from planted import Planted, kernels_of
from test_kernel_sparse import _inputs as sparse_inputs

from opforge.twin.program import compile_program

pytestmark = pytest.mark.slow

M, N, K = 20, 24, 40
DTYPES = {
    "half": (np.dtype(np.float16), np.float32, "float"),
    "bfloat16_t": (np.dtype(ml_dtypes.bfloat16), np.float32, "float"),
    "float": (np.dtype(np.float32), np.float32, "float"),
    "int8_t": (np.dtype(np.int8), np.int32, "int32_t"),
}
HEAD = """#include "c_api/asc_simd.h"
#define KERNEL(name) extern "C" __global__ __aicore__ \
    void name(U GM_ADDR x, U GM_ADDR y, U GM_ADDR z, U GM_ADDR u, GM_ADDR, GM_ADDR)
#define U [[maybe_unused]]
#define CUBE KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY); asc_init()
// A pointer to a memory, from a byte on.
#define AT(T, name, offset) T* name = reinterpret_cast<T*>(asc_get_phy_buf_addr(offset))
constexpr int M = 20, N = 24, K = 40;
"""
# c = bias + A B' of rows, with an A of M x K and a B of N x K; then the fractals of c by way of L1.
PRODUCT = """
KERNEL(NAME)
{
    CUBE;
    constexpr int c0 = 32 / sizeof(TYPE), parts = (K + c0 - 1) / c0;
    AT(TYPE, a1, 0);
    AT(TYPE, b1, 32768);
    AT(SUM, bias1, 65536);
    AT(TYPE, a0, 0);
    AT(TYPE, b0, 0);
    AT(SUM, c0sums, 0);
    asc_copy_gm2l1_nd2nz(a1, (__gm__ TYPE*)x, 1, M, K, 0, K, 32, 1, 1);
    asc_copy_gm2l1_nd2nz(b1, (__gm__ TYPE*)y, 1, N, K, 0, K, 32, 1, 1);
    asc_copy_gm2l1(bias1, (__gm__ void*)z, 96);
    asc_sync_notify(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    asc_sync_wait(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    for (int i = 0; i < 2; ++i) {
        asc_copy_l12l0a(a0 + i * parts * 16 * c0, a1 + i * 16 * c0, 0, parts, 2, 0);
    }
    asc_copy_l12l0b(b0, b1, 0, 2 * parts, 1, 0);
    asc_copy_l12bt(0, bias1, 0, 1, 2, 0, 0);
    asc_sync_notify(PIPE_MTE1, PIPE_M, EVENT_ID0);
    asc_sync_wait(PIPE_MTE1, PIPE_M, EVENT_ID0);
    asc_mmad_sync(c0sums, a0, b0, M, K, N, 0, false, true, false);
    asc_set_l0c_copy_params(1, 0, 0);
    asc_copy_l0c2gm((__gm__ SUM*)u, c0sums, N, M, N, 32, 0, NoQuant, 0, false, true);
}
"""
# The same of transposed factors: A of K x M, B of K x N; c as half, then relu(c / 4) as int8_t.
TURNED = """
KERNEL(NAME)
{
    CUBE;
    AT(half, a1, 0);
    AT(half, b1, 32768);
    AT(half, c1, 65536);
    AT(half, a0, 0);
    AT(half, b0, 0);
    AT(float, sums, 0);
    asc_copy_gm2l1_nd2nz(a1, (__gm__ half*)x, 1, K, M, 0, M, 48, 1, 1);
    asc_copy_gm2l1_nd2nz_sync(b1, (__gm__ half*)y, 1, K, N, 0, N, 48, 1, 1);
    asc_copy_l12l0a_trans(a0, a1, 0, 6, 1, 0, false, 0);
    for (int i = 0; i < 3; ++i) {
        asc_copy_l12l0b_trans(b0 + i * 512, b1 + i * 256, 0, 2, 3, 0, false, 0);
    }
    asc_sync();
    asc_mmad_sync(sums, a0, b0, M, K, 32, 0, 0, 0, false, false, false, true);
    asc_set_l0c_copy_params(1, 0, 0);
    asc_copy_l0c2gm((__gm__ half*)z, sums, N, M, N, 32, 0, F322F16, 0, false, true);
    asc_set_l0c_copy_prequant(0x3E800000ull | 1ull << 46); // 0.25, signed
    asc_copy_l0c2gm((__gm__ int8_t*)u, sums, N, M, N, 32, 0, QF322B8_PRE, 1, false, true);
    asc_sync();
    asc_copy_l0c2l1_sync(c1, sums, 32, M, 32, 32, 0, F322F16, 0, false, false);
    asc_copy_l12gm_sync((__gm__ void*)((__gm__ half*)z + 512), c1, 2, M, 12, 0);
}
"""
# int8_t with transposed squares of B and a scale for each column.
SCALED = """
KERNEL(NAME)
{
    CUBE;
    AT(int8_t, a1, 0);
    AT(int8_t, b1, 32768);
    AT(uint64_t, scales1, 65536);
    AT(int8_t, a0, 0);
    AT(int8_t, b0, 0);
    AT(int32_t, sums, 0);
    AT(uint64_t, scales, 256);
    asc_copy_gm2l1_nd2nz(a1, (__gm__ int8_t*)x, 1, M, K, 0, K, 32, 1, 1);
    asc_copy_gm2l1_nd2nz(b1, (__gm__ int8_t*)y, 1, K, N, 0, N, 64, 1, 1);
    asc_copy_gm2l1_sync(scales1, (__gm__ void*)z, 2, 4, 0, 1);
    for (int i = 0; i < 2; ++i) {
        asc_copy_l12l0a(a0 + i * 1024, a1 + i * 512, 0, 2, 2, 0);
        asc_copy_l12l0b_trans(b0 + i * 1024, b1 + i * 1024, 0, 1, 2, 1, false, 0);
    }
    asc_copy_l12fb(scales, scales1, 1, 1, 0, 0); // the first
    asc_copy_l12fb_sync(scales + 16, scales1 + 20, 128);
    asc_mmad_sync(sums, a0, b0, M, K, N, 0, false, false, true);
    asc_set_l0c2gm_config(3, 2, true);
    asc_set_l0c_copy_params(1, 0, 0);
    asc_copy_l0c2gm((__gm__ int8_t*)u, sums, N, M, N, 32, 0, VREQ8, 0, false, true);
    const uint64_t words = asc_get_l0c2gm_relu() + 10 * asc_get_l0c2gm_prequant() + 100 * asc_get_l0c2gm_unitflag();
    ascendc_assert(words == 123);
}
"""
# Fractals of global memory: c = 2 A B', with A by way of L1 and directly; M = N = 16, K = 2 C0.
FRACTALS = """
KERNEL(NAME)
{
    CUBE;
    constexpr int fractal = 512 / sizeof(TYPE);
    AT(TYPE, a1, 0);
    AT(TYPE, a0, 0);
    AT(TYPE, b0, 0);
    AT(int32_t, sums, 0);
    asc_copy_gm2l1(a1, (__gm__ TYPE*)x, 1, 1, 0, 1); // one of two fractals
    asc_copy_gm2l1(a1 + fractal, (__gm__ TYPE*)x, 0, 1, 1, 0);
    asc_copy_gm2l0a(a0 + 2 * fractal, (__gm__ TYPE*)x, 0, 2, 1, 0);
    asc_copy_gm2l0b_sync(b0, (__gm__ TYPE*)y, 0, 2, 1, 0);
    asc_copy_l12l0a_sync(a0, a1, 1, 1, 1, 0);
    asc_copy_l12l0a_sync(a0 + fractal, a1, 0, 1, 1, 0);
    PRODUCT_OF(sums, a0, b0, 16, DEPTH, 16, 0, false, false, true);
    PRODUCT_OF(sums, a0 + 2 * fractal, b0, 16, DEPTH, 16, 0, false, false, false);
    asc_set_l0c_copy_params(1, 0, 0);
    asc_copy_l0c2gm_sync((__gm__ int32_t*)z, sums, 16, 16, 16, 16, 0, NoQuant, 0, false, true);
}
"""
# 6 K of constants in L0A and L0B; floats of a constant by way of L1.
FILLS = """
KERNEL(NAME)
{
    CUBE;
    AT(float, ones, 0);
    AT(half, a0, 0);
    AT(half, b0, 0);
    AT(float, sums, 0);
    asc_fill_value_config two{}, four{};
    two.repeat = 1; two.blk_num = 2;
    four.repeat = 2; four.blk_num = 1; four.dst_gap = 1;
    asc_fill_l0a(a0, half(2.0f), two);
    asc_fill_l0b(b0, half(3.0f), two);
    asc_fill_l1_sync(ones, 0x40200000u, four); // 2.5
    asc_mmad_sync(sums, a0, b0, 16, 32, 16, 0, false, false, true);
    asc_set_l0c_copy_params(1, 0, 0);
    asc_copy_l0c2gm((__gm__ float*)x, sums, 16, 16, 16, 16, 0, NoQuant, 0, false, true);
    asc_copy_l12gm_sync((__gm__ void*)y, ones, 2, 1, 1, 0);
    float alpha = 0.5f;
    asc_set_l0c2gm_lrelu_alpha(alpha);
}
"""
# The windows of 3 x 3 of an image of 4 x 5 with 16 channels and a padding of -2, times a filter of 16 x 144.
WINDOWS = """
KERNEL(NAME)
{
    CUBE;
    AT(half, image, 0);
    AT(half, filter, 32768);
    AT(half, a0, 0);
    AT(half, b0, 0);
    AT(float, sums, 0);
    asc_copy_gm2l1(image, (__gm__ void*)x, 640);
    asc_copy_gm2l1_sync(filter, (__gm__ void*)y, 4608);
    asc_l13d_fmatrix_config size{};
    size.l1_height = 4; size.l1_width = 5;
    size.padding_left_size = 1; size.padding_right_size = 1; size.padding_top_size = 1; size.padding_bottom_size = 1;
    asc_set_l13d_fmatrix(size);
    asc_set_l13d_padding(half(-2.0f));
    asc_load3d_v2_config once;
    asc_set_l13d_rpt(once);
    asc_set_l13d_size(0);
    asc_copy_l12l0a(a0, image, 144, 20, 0, 0, 1, 1, 3, 3, 1, 1, false, false, false, false, 16);
    asc_copy_l12l0b_sync(b0, filter, 0, 9, 1, 0);
    asc_mmad_sync(sums, a0, b0, 20, 144, 16, 0, false, false, true);
    asc_set_l0c_copy_params(1, 0, 0);
    asc_copy_l0c2gm_sync((__gm__ float*)z, sums, 16, 20, 16, 32, 0, NoQuant, 0, false, true);
}
"""
# The points of an image of 4 x 4 with 16 channels as the right factor.
RIGHT = """
KERNEL(NAME)
{
    CUBE;
    AT(half, image, 0);
    AT(half, a1, 32768);
    AT(half, a0, 0);
    AT(half, b0, 0);
    AT(float, sums, 0);
    asc_copy_gm2l1(a1, (__gm__ half*)x, 0, 1, 1, 0);
    asc_copy_gm2l1_sync(image, (__gm__ void*)y, 512);
    asc_l13d_fmatrix_config size{};
    size.l1_height = 4; size.l1_width = 4;
    asc_set_l13d_fmatrix_b(size);
    asc_copy_l12l0a(a0, a1, 0, 1, 1, 0);
    asc_copy_l12l0b_sync(b0, image, 16, 16, 0, 0, 1, 1, 1, 1, 1, 1, false, false, false, true, 16);
    asc_mmad_sync(sums, a0, b0, 16, 16, 16, 0, false, false, true);
    asc_set_l0c_copy_params(1, 0, 0);
    asc_copy_l0c2gm_sync((__gm__ float*)z, sums, 16, 16, 16, 16, 0, NoQuant, 0, false, true);
}
"""
# A sparse product with a bias of 7.
SPARSE = """
KERNEL(NAME)
{
    CUBE;
    AT(int8_t, a1, 0);
    AT(int8_t, b1, 8192);
    AT(int8_t, index, 16384);
    AT(int32_t, bias1, 20480);
    AT(int8_t, a0, 0);
    AT(int8_t, b0, 0);
    AT(int32_t, sums, 0);
    asc_copy_gm2l1_nd2nz(a1, (__gm__ int8_t*)x, 1, 16, 128, 0, 128, 16, 1, 0);
    asc_copy_gm2l1_nd2nz(b1, (__gm__ int8_t*)y, 1, 32, 64, 0, 64, 32, 1, 0);
    asc_copy_gm2l1(index, (__gm__ void*)z, 512);
    asc_fill_value_config four{};
    four.repeat = 1; four.blk_num = 4;
    asc_fill_l1_sync(bias1, 7u, four);
    asc_copy_l12bt(0, bias1, 128);
    asc_copy_l12l0a(a0, a1, 0, 4, 1, 0);
    asc_copy_l12l0b_sparse_sync(b0, b1, index, 0, 4);
    asc_mmad_sparse_sync(sums, a0, b0, 16, 128, 32, 0, true, false);
    asc_set_l0c_copy_params(1, 0, 0);
    asc_copy_l0c2gm_sync((__gm__ int32_t*)u, sums, 32, 16, 32, 16, 0, NoQuant, 0, false, true);
}
"""
# A part of 4 x 2 pixels of a grey image of 8 x 4, in the first of 32 bytes.
PICTURE = """
KERNEL(NAME)
{
    CUBE;
    AT(int8_t, l1, 0);
    AscendC::GlobalTensor<uint8_t> image;
    image.SetGlobalBuffer(x);
    AscendC::AippParams<int8_t> conversion;
    AscendC::SetAippFunctions(image, AscendC::AippInputFormat::YUV400_U8, conversion);
    asc_load_image_to_cbuf_sync(l1, 4, 2, 2, 1, 8, 0, 0, 0, 0);
    asc_copy_l12gm_sync((__gm__ void*)y, l1, 1, 8, 0, 0);
}
"""
SYSTEM = """
KERNEL(NAME)
{
    asc_init();
    AT(float, rows, 0);
    const uint64_t before = asc_get_ctrl();
    asc_set_ctrl(before & ~(1ull << 48));
    asc_set_mask_count();
    const int64_t within = asc_get_ctrl();
    asc_set_ctrl(before);
    asc_set_ffts_base_addr(77);
    asc_copy_gm2ub(rows, (__gm__ void*)x, 256);
    asc_sync_notify(PIPE_MTE2, PIPE_MTE3, EVENT_ID0); // loaded
    asc_sync_wait(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
    asc_set_store_atomic_config_v1(1, 0);
    asc_store_atomic_config atomic;
    asc_get_store_atomic_config(atomic);
    asc_copy_ub2gm_align((__gm__ float*)y, rows, 256);
    asc_set_store_atomic_config_v1(0, 0); // off
    const int64_t atomics = atomic.atomic_type + 8 * atomic.atomic_op;
    const int64_t answers[] = {asc_get_core_id(), int64_t(before >> 48), within >> 48, asc_get_ctrl() >> 48,
                               asc_get_ffts_base_addr(), atomics,
                               asc_get_phy_stack_base(), asc_get_sys_virtual_base(), asc_get_smmu_tag_version()};
    asc_ub_dcci_single(rows);
    AscendC::GlobalTensor<int64_t> to;
    to.SetGlobalBuffer((__gm__ int64_t*)z);
    for (int i = 0; i < 9; ++i) {
        to.SetValue(i, answers[i]);
    }
    asc_dcci_entire_all();
}
"""
# Sums with and without saturation, by bit 48 of the control register; the numbers of the cores.
SATURATED = """
KERNEL(NAME)
{
    asc_init();
    AT(half, rows, 0);
    AT(half, sums, 256);
    const uint64_t before = asc_get_ctrl();
    asc_copy_gm2ub_sync(rows, (__gm__ void*)x, 128);
    asc_add(sums, rows, rows, 64);
    asc_sync();
    asc_set_ctrl(before & ~(1ull << 48));
    asc_add(sums + 64, rows, rows, 64);
    asc_set_ctrl(before);
    asc_sync();
    asc_copy_ub2gm_sync((__gm__ half*)y + 128 * asc_get_block_idx(), sums, 256);
    AscendC::GlobalTensor<int64_t> to;
    to.SetGlobalBuffer((__gm__ int64_t*)z);
    to.SetValue(8 * asc_get_block_idx(), asc_get_core_id());
    asc_dcci_entire_all();
}
"""
# Blocks of 16 addresses: 2 repeats of 2 and 4 bytes, and the high half of 1 byte.
BLOCKS = """
KERNEL(NAME)
{
    asc_init();
    AT(TYPE, from, 0);
    AT(TYPE, to, 4096);
    asc_copy_gm2ub(from, (__gm__ void*)x, 1024);
    asc_copy_gm2ub_sync(to, (__gm__ void*)y, 1024);
    constexpr int c0 = 32 / sizeof(TYPE);
    TYPE* sources[16];
    TYPE* targets[16];
    for (int i = 0; i < 16; ++i) {
        sources[i] = from + 2 * i * c0;
        targets[i] = to + 2 * i * c0;
    }
    asc_set_va_reg(VA0, targets);
    asc_set_va_reg(VA1, targets + 8);
    asc_set_va_reg(VA4, sources);
    asc_set_va_reg(VA5, sources + 8);
    CALL;
    asc_copy_ub2gm_sync((__gm__ void*)y, to, 1024);
}
"""
MERGE = """
KERNEL(NAME)
{
    asc_init();
    AT(float, from, 0);
    AT(float, to, 4096);
    asc_copy_gm2ub_sync(from, (__gm__ void*)x, 1024);
    float* lists[4] = {from, from + 64, from + 128, from + 192};
    asc_mrgsort4(to, lists, 1, 32, 32, 32, 32, true, 15);
    asc_sync();
    uint16_t counts[ASC_C_API_MRGSORT_ELEMENT_LEN];
    asc_get_vms4_sr(counts);
    AscendC::GlobalTensor<uint16_t> taken;
    taken.SetGlobalBuffer((__gm__ uint16_t*)y);
    for (int i = 0; i < 4; ++i) {
        taken.SetValue(i, counts[i]);
    }
    asc_dcci_single((__gm__ void*)y);
}
"""
TURNS = {
    "b8": ("uint8_t", "asc_transto5hd_b8_sync(VA0, VA4, 1, 0, 0, true, false)"),
    "b16": ("half", "asc_transto5hd_b16_sync(VA0, VA4, 2, 1, 1)"),
    "b32": ("float", "asc_transto5hd_b32_sync(VA0, VA4, 2, 1, 1)"),
}
LOAD_B = "asc_copy_l12l0b(b0, b1, 0, 2 * parts, 1, 0);"
STORE = "asc_set_l0c_copy_params(1, 0, 0);"
LOADED = "asc_sync_notify(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);\n    asc_sync_wait(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);"
PLANTED = {
    "product_half": [
        Planted("l0a_address", "AT(half, a0, 0)", "AT(half, a0, 32)", "cube_misaligned", "multiple of 512"),
        Planted("beyond_l1", "AT(half, b1, 32768)", "AT(half, b1, 600000)", "no_buffer", "is not in the L1"),
        Planted("too_many", LOAD_B, LOAD_B.replace("2 * parts", "256"), "field_range", "repeatTimes is 256"),
        Planted("not_loaded", LOADED, "", "race", "MTE2 before MTE1"),
        Planted("bias_address", "asc_copy_l12bt(0,", "asc_copy_l12bt(4,", "field_range", "dst (the twin uses"),
        Planted("no_matrices", STORE, "", "fixpipe_register", "nz2ndEn"),
        Planted("long_rows", "bias1, (__gm__ void*)z, 96", "bias1, (__gm__ void*)z, 90", "field_range", "90"),
    ],
    "turned": [
        Planted("descending", "6, 1, 0, false, 0)", "6, 1, 0, true, 0)", "cube_out_of_range", "[-2560, 512)"),
        Planted("offset", "32, 0, 0, 0, false", "32, 1, 0, 0, false", "field_range", "feat_offset"),
        Planted("no_scale", "asc_set_l0c_copy_prequant(", "(void)(", "quant_mode", "without a scale"),
    ],
    "scaled": [
        Planted("scale_address", "config(3, 2, true)", "config(3, 256, true)", "field_range", "quant_pre"),
        Planted("no_table", "asc_set_l0c2gm_config(3, 2, true);", "", "quant_mode", "SetFixPipeConfig"),
    ],
    "fills": [Planted("no_blocks", "two.blk_num = 2;", "", "uninitialised_read", "Mmad: fm")],
    "windows": [Planted("no_image", "asc_set_l13d_fmatrix(size);", "(void)size;", "window", "SetFmatrix")],
    "sparse": [Planted("no_index", "b1, index, 0, 4", "b1, index, 1, 4", "uninitialised_read", "idx reads")],
    "picture": [Planted("odd_start", "4, 2, 2, 1, 8", "4, 2, 1, 1, 8", "window", "even horizStartPos")],
    "system": [
        Planted(
            "other_bits", "asc_set_ctrl(before);", "asc_set_ctrl(before | 1ull << 53);", "field_range", "48 and 56"
        ),
        Planted("left_on", "asc_set_store_atomic_config_v1(0, 0); // off", "", "atomic_left_on", "atomic"),
        Planted("no_dtype", "config_v1(1, 0)", "config_v1(7, 0)", "field_range", "type is 7"),
    ],
    "b16": [Planted("no_register", "asc_set_va_reg(VA5, sources + 8);", "", "field_range", "VA5 has no addresses")],
}


def _clean():
    """Return the text of each kernel."""
    texts = {"turned": TURNED, "scaled": SCALED, "fills": FILLS, "windows": WINDOWS, "sparse": SPARSE}
    texts |= {"picture": PICTURE, "system": SYSTEM, "merge": MERGE, "right": RIGHT, "saturated": SATURATED}
    for dtype, (_, _, sums) in DTYPES.items():
        texts[f"product_{dtype}"] = PRODUCT.replace("TYPE", dtype).replace("SUM", sums)
    for dtype, call, depth in (("int8_t", "asc_mmad_sync", 64), ("int4b_t", "asc_mmad_s4_sync", 128)):
        text = FRACTALS.replace("TYPE", dtype).replace("PRODUCT_OF", call)
        texts[f"fractals_{dtype}"] = text.replace("DEPTH", str(depth))
    texts |= {name: BLOCKS.replace("TYPE", dtype).replace("CALL", call) for name, (dtype, call) in TURNS.items()}
    return texts


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    planted = [kernel for name, text in _clean().items() for kernel in kernels_of(text, name, PLANTED.get(name, []))]
    return compile_kernels(HEAD + "".join(planted))


def _integers(seed, shape, dtype, low=-4, high=5):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def _product(dtype):
    factor, sums, _ = DTYPES[dtype]
    a, b, bias = _integers(1, (M, K), factor), _integers(2, (N, K), factor), _integers(3, N, sums)
    return [a, b, bias, np.zeros((M, N), sums)], {3: a.astype(sums) @ b.astype(sums).T + bias}


def _turned():
    a, b = _integers(1, (K, M), np.float16), _integers(2, (K, N), np.float16)
    c = a.T.astype(np.float32) @ b.astype(np.float32)
    blocks = np.pad(c, ((0, 0), (0, 8))).reshape(M, 2, 16).transpose(1, 0, 2)
    halves = np.concatenate([c.ravel(), np.zeros(32), blocks.ravel()]).astype(np.float16)
    small = np.clip(np.rint(np.maximum(c, 0) / 4), -128, 127).astype(np.int8)
    return [a, b, np.zeros_like(halves), np.zeros_like(small)], {2: halves, 3: small}


def _scaled():
    a, b = _integers(1, (M, K), np.int8), _integers(2, (K, N), np.int8)
    scales = np.exp2(_integers(3, 32, np.int64, -3, 2)).astype(np.float32)
    words = scales.view(np.uint32).astype(np.uint64) | np.uint64(1 << 46)
    c = np.rint(a.astype(np.int32) @ b.astype(np.int32) * scales[:N])
    return [a, b, words, np.zeros((M, N), np.int8)], {3: np.clip(c, -128, 127).astype(np.int8)}


def _fills():
    products, ones = np.full((16, 16), 6 * 32, np.float32), np.full(16, 2.5, np.float32)
    return [np.zeros_like(products), np.zeros_like(ones), None, None], {0: products, 1: ones}


def _windows():
    image, weights = _integers(1, (4, 5, 16), np.float16), _integers(2, (144, 16), np.float16)
    padded = np.pad(image, ((1, 1), (1, 1), (0, 0)), constant_values=-2)
    rows = [padded[y : y + 3, x : x + 3].ravel() for y in range(4) for x in range(5)]
    stored = np.ascontiguousarray(weights.T.reshape(16, 9, 16).transpose(1, 0, 2))
    expected = np.array(rows, np.float32) @ weights.astype(np.float32)
    return [image, stored, np.zeros_like(expected), None], {2: expected}


def _sparse():
    a, values, indices, b = sparse_inputs("whole")
    return [a, values, indices, np.zeros((16, 32), np.int32)], {3: a.astype(np.int64) @ b.T + 7}


def _picture():
    image = _integers(1, (4, 8), np.uint8, 0, 128)
    expected = np.zeros((8, 32), np.int8)
    expected[:, 0] = image[1:3, 2:6].ravel()
    return [image, np.ones_like(expected), None, None], {1: expected}


def _system():
    x, y = _integers(1, 64, np.float32), _integers(2, 64, np.float32)
    return [x, y, np.zeros(9, np.int64), None], {1: x + y, 2: [0, 1, 256, 1, 77, 1, 0, 0, 0]}


def _pairs(bits):
    depth = 512 // bits
    a, b = _integers(1, (16, depth), np.int64), _integers(2, (16, depth), np.int64)
    return [*(_fractals(each) for each in (a, b)), np.zeros((16, 16), np.int32), None], {2: 2 * a @ b.T}


def _turn(name):
    dtype = {"b8": np.uint8, "b16": np.float16, "b32": np.float32}[name]
    x, y = (_integers(seed, (16, 2, 32 // dtype().itemsize), dtype, 0, 100) for seed in (1, 2))
    expected = y.copy()
    if name == "b8":
        expected[:, 0, 16:] = x[:, 0, :16].T
    elif name == "b16":
        expected = x.transpose(2, 1, 0)
    else:
        expected = x.reshape(2, 8, 2, 8).transpose(3, 0, 2, 1).reshape(16, 2, 8)
    return [x, y, None, None], {1: expected}


def _fractals(matrix):
    """Return rows of 16 as fractals of two columns of 32 bytes; two elements of 4 bits are one byte."""
    if matrix.shape[1] == 128:
        matrix = (matrix[:, ::2] & 15) | (matrix[:, 1::2] & 15) << 4
    return np.ascontiguousarray(matrix.astype(np.uint8).reshape(16, 2, 32).transpose(1, 0, 2))


def _merge():
    """Return four sorted lists, and the entries of each list that are merged when the first list ends."""
    scores = -np.sort(-np.random.default_rng(1).permutation(128).astype(np.float32).reshape(4, 32), axis=1)
    pairs = np.zeros((4, 32, 2), np.float32)
    pairs[..., 0] = scores
    last = scores.min(axis=1).max()
    return [pairs, np.zeros(16, np.uint16), None, None], {1: [*(scores >= last).sum(axis=1), *[0] * 12]}


GIVEN = {"turned": _turned, "scaled": _scaled, "fills": _fills, "windows": _windows, "sparse": _sparse}
GIVEN |= {"picture": _picture, "system": _system, "merge": _merge}
GIVEN |= {f"product_{dtype}": partial(_product, dtype) for dtype in DTYPES}
GIVEN |= {"fractals_int8_t": partial(_pairs, 8), "fractals_int4b_t": partial(_pairs, 4)}
GIVEN |= {name: partial(_turn, name) for name in TURNS}


@pytest.mark.parametrize("name", GIVEN)
def test_a_kernel_agrees_with_numpy(kernels, name):
    arrays, expected = GIVEN[name]()
    report = kernels.run(name, *arrays)
    for position, values in expected.items():
        np.testing.assert_array_equal(arrays[position], values)
    assert report["estimate_us"] > 0


def test_an_image_of_the_right_factor(kernels):
    """Registers of the right factor exist in level device only."""
    a, image = _integers(1, (16, 16), np.float16), _integers(2, (16, 16), np.float16)
    c = np.zeros((16, 16), np.float32)
    kernels.run("right", a, image, c, None, strict=2)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ image.astype(np.float32))
    assert kernels.launch("right", a, image, c, None)["findings"][0]["kind"] == "field_range"


def test_saturation_and_numbers_of_cores(kernels):
    x = np.array([60000, -40000, 1, 2] * 16, np.float16)
    y, z = np.zeros((3, 2, 64), np.float16), np.zeros((3, 8), np.int64)
    kernels.run("saturated", x, y, z, None, blocks=3)
    for plain, saturated in y:
        assert plain.tolist() == [np.inf, -np.inf, 2, 4] * 16
        assert saturated.tolist() == [65504, -65504, 2, 4] * 16
    assert z[:, 0].tolist() == [0, 1, 2]


CASES = [(name, planted) for name, ones in PLANTED.items() for planted in ones]


@pytest.mark.parametrize(("name", "planted"), CASES, ids=[planted.name for _, planted in CASES])
def test_a_planted_mistake_is_found(kernels, record_planted, name, planted):
    findings = kernels.launch(planted.name, *GIVEN[name]()[0])["findings"]
    record_planted(planted.name, planted.assert_in(findings))


def test_each_instruction_takes_time(kernels):
    """The longest kernels use all pipes of a cube core."""
    for name, expected in (
        ("product_half", {"DataCopy", "LoadData", "Mmad"}),
        ("turned", {"DataCopy", "LoadDataWithTranspose", "Mmad"}),
        ("fills", {"Fill", "Mmad", "DataCopy"}),
        ("sparse", {"LoadDataWithSparse", "MmadWithSparse"}),
        ("b16", {"asc_transto5hd_b16"}),
    ):
        cycles = kernels.cycles(name, *GIVEN[name]()[0])
        assert all(cycles.get(each, 0) > 0 for each in expected), (name, cycles)


ARRAYS = """
#include <cstdio>
#include "acl/acl.h"
#include "c_api/asc_simd.h"
__global__ __cube__ void twice(__gm__ half* a, __gm__ float* c)
{
    asc_init();
    __cbuf__ half a1[256], other[16];
    __ca__ half a0[256], next[256];
    __cb__ half b0[256];
    __cc__ float sums[256];
    __fbuf__ uint64_t scales[16];
    __biasbuf__ float bias[16];
    // mixed
    asc_fill_value_config one{};
    one.repeat = 1;
    one.blk_num = 1;
    asc_copy_gm2l1_sync(a1, a, 512);
    asc_fill_l0a_sync(a0, half(0.0f), one);
    asc_copy_l12l0a_sync(next, a1, 0, 1, 1, 0);
    asc_fill_l0b_sync(b0, half(2.0f), one);
    asc_mmad_sync(sums, next, b0, 16, 16, 16, 0, false, false, true);
    asc_set_l0c_copy_params(1, 0, 0);
    asc_copy_l0c2gm_sync(c, sums, 16, 16, 16, 16, 0, NoQuant, 0, false, true);
    ascendc_assert(reinterpret_cast<uintptr_t>(&other) == 512 && reinterpret_cast<uintptr_t>(&next) == 512);
    ascendc_assert(reinterpret_cast<uintptr_t>(&scales) == 0 && reinterpret_cast<uintptr_t>(&bias) == 0);
}
int main()
{
    aclInit(nullptr);
    aclrtSetDevice(0);
    half a[256];
    float c[256];
    for (int i = 0; i < 256; ++i) { a[i] = half(float(i / 16)); }
    half* from = nullptr;
    float* to = nullptr;
    aclrtMalloc((void**)&from, 512, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMalloc((void**)&to, 1024, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(from, 512, a, 512, ACL_MEMCPY_HOST_TO_DEVICE);
    twice<<<1, 0>>>(from, to);
    aclrtSynchronizeDevice();
    aclrtMemcpy(c, 1024, to, 1024, ACL_MEMCPY_DEVICE_TO_HOST);
    int wrong = 0;
    for (int i = 0; i < 256; ++i) { wrong += c[i] != 32.0f * (i / 16); }
    std::printf("%d wrong\\n", wrong);
    aclrtFree(from);
    aclrtFree(to);
    aclrtResetDevice(0);
    return aclFinalize();
}
"""


def _run(folder, text):
    source = folder / "program.asc"
    source.write_text(text)
    program = compile_program([source], folder / "program").path
    return subprocess.run([program], capture_output=True, text=True, timeout=300, check=False)


def test_arrays_are_in_the_memories_of_cube_cores(tmp_path):
    ended = _run(tmp_path, ARRAYS)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "0 wrong\n", "")


def test_arrays_and_addresses_in_one_kernel(tmp_path):
    ended = _run(tmp_path, ARRAYS.replace("// mixed", "(void)asc_get_phy_buf_addr(0);"))
    assert ended.returncode == 1
    assert "error: overlap" in ended.stderr
    assert "asc_get_phy_buf_addr, and they may overlap" in ended.stderr
