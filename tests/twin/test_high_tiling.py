"""Test host functions of the high-level API: temporary memory as checked by the kernel, and tiling data."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from .conftest import CACHE, compile_library
from .high_level import HEADER, Operand, kernel, table

SIZED = """Acos Acosh Asin Asinh Atan Atanh Axpy Ceil Cos Cosh Digamma Erf Erfc Exp Floor Fmod Frac GeGLU Lgamma
Log Log10 Log2 ReGlu Sigmoid Sign Sin Sinh Tan Tanh Trunc Xor DropOut LayerNorm LayerNormGrad LayerNormGradBeta
ReduceXorSum WelfordFinalize"""
SOURCE = """
#include "tiling/tiling_api.h"
extern "C" void Sizes(const char* wanted, uint32_t* most, uint32_t* least)
{
    const ge::Shape shape({4, 6, 64});
#define SIZE(name) \\
    if (std::string(wanted) == #name) { AscendC::Get##name##MaxMinTmpSize(shape, 4, false, *most, *least); }
    SIZES
}
extern "C" uint32_t Factor(uint32_t typeSize)
{
    uint32_t nodes = 0, extra = 1;
    AscendC::GetSinTmpBufferFactorSize(typeSize, nodes, extra);
    return nodes + extra;
}
extern "C" uint32_t SortBytes(uint32_t isMost)
{
    uint32_t most = 0, least = 0;
    AscendC::SortConfig config;
    config.type = AscendC::SortType::RADIX_SORT;
    AscendC::GetSortMaxMinTmpSize(ge::Shape({4, 96}), ge::DT_FLOAT16, ge::DT_UINT32, false, config, most, least);
    return isMost != 0 ? most : least;
}
extern "C" uint32_t SoftmaxLeast() { return AscendC::GetSoftMaxMinTmpSize(ge::Shape({4, 6, 64}), 4, false); }
extern "C" void Fill(uint32_t* words, uint32_t isClass)
{
    const ge::Shape shape({4, 6, 64});
    if (isClass != 0) {
        optiling::SoftMaxTiling tiling;
        AscendC::SoftMaxTilingFunc(shape, 4, 4096, tiling);
        tiling.SaveToBuffer(words, 64);
    } else {
        AscendC::tiling::SoftMaxTiling tiling;
        AscendC::SoftMaxTilingFunc(shape, 4, 4096, tiling);
        std::memcpy(words, &tiling, sizeof(tiling));
    }
}
extern "C" void Rows(uint32_t* words)
{
    optiling::LayerNormTiling tiling;
    AscendC::GetLayerNormNDTilingInfo(ge::Shape({4, 6, 64, 60}), 4096, 4, false, tiling);
    words[0] = tiling.get_bLength();
    words[1] = tiling.get_sLength();
    words[2] = tiling.get_hLength();
    words[3] = tiling.get_originalHLength();
}
"""


@pytest.fixture(scope="module")
def host():
    source = CACHE / "high_tiling.cpp"
    CACHE.mkdir(parents=True, exist_ok=True)
    source.write_text(SOURCE.replace("SIZES", " ".join(f"SIZE({name})" for name in SIZED.split())), encoding="utf-8")
    return ctypes.CDLL(str(compile_library("high_tiling", source)))


@pytest.mark.parametrize("name", SIZED.split())
def test_sizes(host, name):
    most, least = ctypes.c_uint32(1), ctypes.c_uint32(1)
    host.Sizes(name.encode(), ctypes.byref(most), ctypes.byref(least))
    _, _, _, buffers, unit, _ = table()[name]
    step = {"None": 0, "Step": 256, "Row": 64 * 4}[unit]
    assert least.value == int(buffers) * step
    assert most.value == (int(buffers) * 4 * 6 * 64 * 4 if unit != "None" else 0)


def test_factors(host):
    buffers = int(table()["Sin"][3])
    assert [host.Factor(size) for size in (2, 4)] == [2 * buffers, buffers]


def test_sort_needs_a_pair_for_each_element(host):
    assert [host.SortBytes(0), host.SortBytes(1)] == [4 * 96 * 8, 4 * 96 * 8]


@pytest.mark.parametrize("is_class", [0, 1])
def test_softmax_tiling(host, is_class):
    words = np.zeros(16, np.uint32)
    host.Fill(ctypes.c_void_p(words.ctypes.data), is_class)
    assert words[:6].tolist() == [24, 64, 24 * 64, 24, 8, 24 * 8]


def test_row_tiling(host):
    words = np.zeros(4, np.uint32)
    host.Rows(ctypes.c_void_p(words.ctypes.data))
    assert words.tolist() == [4, 6, 64, 60]


def test_kernel_accepts_least_memory(host, compile_kernels):
    """The minimum memory of the host function is sufficient, 32 bytes less are not."""
    least = host.SoftmaxLeast()
    call = "SoftMaxTiling tiling; SoftMax<float>(d, s, m, x, tmp, tiling, {24, 64, 24, 64});"
    operands = [
        Operand("d", "float", 1536),
        Operand("x", "float", 1536),
        Operand("s", "float", 192),
        Operand("m", "float", 192),
    ]
    kernels = compile_kernels(
        HEADER + kernel("enough", operands, call, least) + kernel("little", operands, call, least - 32)
    )
    arrays = [np.ones(operand.count, np.float32) for operand in operands]
    kernels.run("enough", *arrays)
    assert [f["kind"] for f in kernels.launch("little", *arrays)["findings"]] == ["tmp_buffer"]


def test_public_names(compile_kernels):
    """The public headers declare the functions."""
    names = ("lib/activation/softmax.h", "adv_api/reduce/reduce.h", "lib/math/kernel_operator_tanh_intf.h")
    includes = "".join(f'#include "{name}"\n' for name in names)
    text = kernel("exponent", [Operand("d", "float", 64), Operand("x", "float", 64)], "Tanh(d, x, tmp, 64);")
    d, x = np.zeros(64, np.float32), np.linspace(-2, 2, 64, dtype=np.float32)
    compile_kernels(includes + HEADER + text).run("exponent", d, x)
    np.testing.assert_allclose(d, np.tanh(x), 1e-6)
