"""Test host functions of the high-level API: bytes of temporary memory, tiling data, and wrong arguments."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

from .conftest import CACHE, compile_library
from .high_level import HEADER, Operand, kernel, table

pytestmark = pytest.mark.slow

# A shape, its elements and type size are parameters; M stands for the two results.
SHAPE = (4, 6, 64)
USUAL = "shape, size, false, M"
NAMES = """Acos Acosh Asin Asinh Atan Atanh Axpy Ceil Clamp Cos Cosh Digamma Erf Erfc Floor Fmod Frac GeGLU Lgamma Log
Log10 Log2 Sign Sin Sinh Tan Tanh Trunc Xor"""
FACTORS = [*NAMES.split(), "Exp", "SwiGLU", "Mean"]
USUAL_NAMES = (
    f"{NAMES} ReGlu Sigmoid DropOut ReduceXorSum WelfordFinalize LayerNorm LayerNormGrad LayerNormGradBeta Exp"
)
SELECT = "shape, shape, size, shape, 1, false, M"
TOP = "platform, last, elements / (last == 0 ? 1 : last)"
NORMAL = "AscendC::TopKMode::TOPK_NORMAL, false"
SIZES = {
    **{f"Get{name}MaxMinTmpSize": USUAL for name in USUAL_NAMES.split()},
    **{f"Get{name}MaxMinTmpSize": "shape, size, M" for name in ("Gelu", "RmsNorm", "AscendQuant", "AscendDequant")},
    **{
        f"GetReduce{name}MaxMinTmpSize": "shape, ge::DT_FLOAT, AscendC::ReducePattern::AR, false, false, M"
        for name in ("All", "Any", "Max", "Mean", "Min", "Prod", "Sum")
    },
    "GetSiluTmpSize": USUAL,
    "GetSwishTmpSize": USUAL,
    "GetPowerMaxMinTmpSize": "shape, shape, false, size, false, M",
    "GetRoundMaxMinTmpSize": "platform, shape, size, false, M",
    "GetCumSumMaxMinTmpSize": "shape, size, true, false, M",
    "GetBroadCastMaxMinTmpSize": "platform, shape, shape, size, false, M",
    "GetPadMaxMinTmpSize": "shape, size, M",
    "GetUnPadMaxMinTmpSize": "platform, shape, size, M",
    "GetBatchNormMaxMinTmpSize": "shape, shape, size, false, M",
    "GetDeepNormMaxMinTmpSize": "shape, size, false, false, M",
    "GetGroupNormMaxMinTmpSize": "shape, size, false, 1, M",
    "GetWelfordUpdateMaxMinTmpSize": "shape, size, size, false, false, M",
    "GetNormalizeMaxMinTmpSize": "shape, size, size, false, false, false, M",
    "GetAscendAntiQuantMaxMinTmpSize": "shape, shape, false, ge::DT_INT8, ge::DT_FLOAT16, M",
    "GetTransposeMaxMinTmpSize": "shape, size, 1, M",
    "GetConfusionTransposeMaxMinTmpSize": "shape, size, 1, M",
    "GetMeanMaxMinTmpSize": "elements, size, size, false, M",
    "GetSumMaxMinTmpSize": "elements, size, false, M",
    "GetSelectMaxMinTmpSize": SELECT,
    "GetSelectWithBytesMaskMaxMinTmpSize": SELECT,
    "GetTopKMaxMinTmpSize": f"{TOP}, false, false, {NORMAL}, size, M",
    "GetSwiGLUMaxMinTmpSize": "shape, size, M, false",
    "GetTransDataMaxMinTmpSize": "platform, shape, shape, ge::DT_FLOAT16, {}, M",
    "GetSoftMaxFlashV3MaxMinTmpSize": "shape, 2, 4, M, false",
    "GetArangeMaxMinTmpSize": "M",
    "GetArithProgressionMaxMinTmpSize": "M",
}
ONE_SIZE = {
    "SoftMax": "shape, size, false",
    "LogSoftMax": "shape, size, false",
    "SoftMaxFlash": "shape, size, false, false",
    "SoftMaxFlashV2": "shape, size, size, false",
    "SoftMaxGrad": "shape, size, false, false",
    "DropOut": "shape, size, false",
    "Gelu": "shape, size",
}
ONE_RESULT = {f"Get{name}{end}TmpSize": (name, end) for name in ONE_SIZE for end in ("Max", "Min")}
SIZES |= {function: ONE_SIZE[name] for function, (name, _) in ONE_RESULT.items()}
# Names that differ from the name of the function, and functions without a row: no temporary memory.
ROWS = {
    "Clamp": "ClampMax",
    "BroadCast": "Broadcast",
    "ConfusionTranspose": "Transpose",
    "SelectWithBytesMask": "Select",
    "SoftMaxFlash": "SoftmaxFlash",
    "SoftMaxFlashV2": "SoftmaxFlashV2",
    "SoftMaxFlashV3": "SoftmaxFlashV3",
    "SoftMaxGrad": "SoftmaxGrad",
    "Arange": "",
    "ArithProgression": "",
}
SOFTMAX = {"srcM": 24, "srcK": 64, "srcSize": 24 * 64, "outMaxM": 24, "outMaxK": 8, "outMaxSize": 24 * 8, "rangeM": 1}
NORM = {"bLength": 4, "sLength": 6, "hLength": 64, "originalHLength": 64}
MATRIX = {"srcHeight": 4, "srcWidth": 6}
AXES = {"param0": 4, "param1": 6, "param2": 64, "param3": 0}
# Function: arguments with T for the tiling data, their struct, and its fields.
TILING = {
    "SoftMaxTilingFunc": ("shape, size, 4096, T", "SoftMaxTiling", SOFTMAX),
    "LogSoftMaxTilingFunc": ("shape, size, 4096, T", "LogSoftMaxTiling", SOFTMAX),
    "SoftMaxFlashTilingFunc": ("shape, size, 4096, T, true", "SoftMaxTiling", SOFTMAX),
    "SoftMaxGradTilingFunc": ("shape, size, 4096, T", "SoftMaxTiling", SOFTMAX),
    "SoftMaxFlashV2TilingFunc": ("shape, size, 4, 4096, T, true", "SoftMaxTiling", SOFTMAX),
    "SoftMaxFlashV3TilingFunc": ("shape, size, 4, 4096, T, true", "SoftMaxTiling", SOFTMAX),
    "GetLayerNormNDTilingInfo": ("shape, 4096, size, false, T", "LayerNormTiling", NORM),
    "GetLayerNormNDTillingInfo": ("shape, 4096, size, false, T", "LayerNormTiling", NORM),
    "GetLayerNormGradNDTilingInfo": ("shape, 4096, size, false, T", "LayerNormGradTiling", NORM),
    "GetLayerNormGradBetaNDTilingInfo": ("shape, 4096, size, false, T", "LayerNormGradBetaTiling", NORM),
    "GetRmsNormTilingInfo": ("shape, shape, 4096, size, T", "RmsNormTiling", NORM),
    "GetDeepNormTilingInfo": ("shape, shape, 4096, size, false, false, T", "DeepNormTiling", NORM),
    "GetBatchNormNDTilingInfo": (
        "shape, shape, 4096, size, false, T",
        "BatchNormTiling",
        {"originalBLength": 4, "meanVarSize": 6 * 64},
    ),
    "GetGroupNormNDTilingInfo": (
        "image, 4096, size, false, 2, T",
        "GroupNormTiling",
        {"n": 4, "c": 6, "hw": 64, "g": 2, "d": 3, "hwAlignSize": 64},
    ),
    "PadTilingFunc": ("shape, shape, 4096, size, T", "PadTiling", {**MATRIX, "srcOriWidth": 6}),
    "UnPadTilingFunc": ("shape, 4096, size, T", "UnPadTiling", MATRIX),
    "GetTransposeTilingInfo": ("shape, 4096, size, 7, T", "ConfusionTransposeTiling", AXES),
    "GetConfusionTransposeTilingInfo": ("shape, 4096, size, 7, T", "ConfusionTransposeTiling", AXES),
    "GetConfusionTransposeOnlyTilingInfo": ("shape, 4096, size, T", "ConfusionTransposeTiling", AXES),
    "TopKTilingFunc": (
        f"{TOP}, 8, size, false, {NORMAL}, T",
        "TopkTiling",
        {"allDataSize": 24 * 64, "innerDataSize": 64, "tmpLocalSize": 4 * 64},
    ),
}
HEAD = """
#include "tiling/tiling_api.h"
#define ARGUMENTS(number)                                                                                 \\
    const ge::Shape shapes[] = {ge::Shape({4, 6, 64}), ge::Shape({4, 0, 64}), ge::Shape({-1, -1}), ge::Shape()}; \\
    const ge::Shape& shape = shapes[number];                                                              \\
    const ge::Shape image = (number) == 0 ? ge::Shape({4, 6, 8, 8}) : shape;                              \\
    const uint32_t elements = (number) == 0 ? 1536 : 0;                                                   \\
    const int32_t last = (number) == 0 ? 64 : 0;                                                          \\
    const uint32_t size = (number) == 0 ? 4 : 0;                                                          \\
    const platform_ascendc::PlatformAscendC& platform =                                                   \\
        *platform_ascendc::PlatformAscendCManager::GetInstance("Ascend910B1");                            \\
    (void)shape; (void)image; (void)elements; (void)last; (void)size; (void)platform
extern "C" uint32_t SortBytes(uint32_t isMost)
{
    uint32_t most = 0, least = 0;
    AscendC::SortConfig config;
    config.type = AscendC::SortType::RADIX_SORT;
    const ge::Shape shape = isMost == 2 ? ge::Shape({4, -1}) : ge::Shape({4, 96});
    AscendC::GetSortMaxMinTmpSize(shape, ge::DT_FLOAT16, ge::DT_UINT32, false, config, most, least);
    return isMost == 1 ? most : least;
}
extern "C" void Rows(uint32_t* words)
{
    optiling::LayerNormTiling tiling;
    AscendC::GetLayerNormNDTilingInfo(ge::Shape({4, 6, 64, 60}), 4096, 4, false, tiling);
    words[0] = tiling.get_hLength();
    words[1] = tiling.get_originalHLength();
    AscendC::tiling::LayerNormSeparateTiling separate;
    AscendC::GetLayerNormNDTilingInfo(ge::Shape({4, 6, 64}), 4096, 4, false, false, separate);
    words[2] = separate.aLength;
    words[3] = separate.rLength;
    AscendC::tiling::SoftMaxTiling rows;
    AscendC::SoftMaxTilingFunc(ge::Shape({16, 128}), 2, 4096, rows);
    words[4] = AscendC::IsBasicBlockInSoftMax(rows);
    rows.srcM = 12;
    words[5] = AscendC::IsBasicBlockInSoftMax(rows);
}
"""
WRONG = {1: "no_elements", 2: "unknown_dims", 3: "no_dims"}  # with type size 0


def source():
    parts = [HEAD]
    for name, call in SIZES.items():
        filled = re.sub(r"\bM\b", "most, least", call)
        results = f"AscendC::{name}({filled});" if filled != call else f"most = least = AscendC::{name}({call});"
        parts.append(
            f'extern "C" void {name}(int number, uint32_t* bytes) {{ ARGUMENTS(number);'
            f"uint32_t most = 1, least = 1; {results} bytes[0] = most; bytes[1] = least; }}\n"
        )
    parts += [
        f'extern "C" void Get{name}TmpBufferFactorSize(uint32_t size, uint32_t* bytes)'
        f"{{ AscendC::Get{name}TmpBufferFactorSize(size, bytes[0], bytes[1]); }}\n"
        for name in FACTORS
    ]
    for name, (arguments, struct, fields) in TILING.items():
        call = re.sub(r"\bT\b", "tiling", arguments)
        of_class = "".join(f"words[{i}] = tiling.get_{field}();" for i, field in enumerate(fields))
        of_struct = "".join(f"words[{i}] = tiling.{field};" for i, field in enumerate(fields))
        parts.append(
            f'extern "C" void {name}(int number, int isClass, int64_t* words) {{ ARGUMENTS(number);'
            f"if (isClass != 0) {{ optiling::{struct} tiling; AscendC::{name}({call}); {of_class} }}"
            f"else {{ AscendC::tiling::{struct} tiling; AscendC::{name}({call}); {of_struct} }} }}\n"
        )
    return "".join(parts)


@pytest.fixture(scope="module")
def host():
    file = CACHE / "high_tiling.cpp"
    CACHE.mkdir(parents=True, exist_ok=True)
    file.write_text(source(), encoding="utf-8")
    return ctypes.CDLL(str(compile_library("high_tiling", file)))


def sizes(host, name, number):
    """Return the most and the least bytes."""
    words = (ctypes.c_uint32 * 2)()
    host[name](number, words)
    return list(words)


def row_of(name):
    """Return the number of buffers and the bytes of one for rows of 64 elements."""
    function = re.sub(r"^Get|(MaxMinTmpSize|TmpSize|TmpBufferFactorSize)$", "", name)
    function, _ = ONE_RESULT.get(name, (ROWS.get(function, function), ""))
    _, _, _, buffers, unit, _ = table().get(ROWS.get(function, function), ("", "", "", "0", "None", ""))
    return int(buffers), {"None": 0, "Step": 256, "Row": 64 * 4}[unit]


def expected_sizes(name):
    """Return the most and the least bytes for 4 x 6 rows of 64 elements."""
    buffers, unit = row_of(name)
    most, least = buffers * 4 * 6 * 64 * 4 if unit else 0, buffers * unit
    if name == "GetPadMaxMinTmpSize":  # 4 rows of 6 elements, each in 16
        most, least = buffers * 4 * 16 * 4, buffers * 16 * 4
    return {"": [most, least], "Max": [most, most], "Min": [least, least]}[ONE_RESULT.get(name, ("", ""))[1]]


def test_sizes(host):
    assert {name: sizes(host, name, 0) for name in SIZES} == {name: expected_sizes(name) for name in SIZES}


@pytest.mark.parametrize("number", WRONG, ids=WRONG.values())
def test_wrong_shapes_have_the_least_size(host, number):
    found = {name: sizes(host, name, number) for name in SIZES}
    least = {name: expected_sizes(name)[1] for name in SIZES}
    assert {name: pair for name, pair in found.items() if pair[0] != pair[1] or pair[1] > least[name]} == {}


def test_factors(host):
    words = (ctypes.c_uint32 * 2)(7, 7)
    found, expected = {}, {}
    for name in FACTORS:
        function = f"Get{name}TmpBufferFactorSize"
        buffers, _ = row_of(function)
        expected[name] = [[2 * buffers, 0], [buffers, 0], [0, 0]]
        found[name] = []
        for size in (2, 4, 0):
            host[function](size, words)
            found[name].append(list(words))
    assert found == expected


def tiling(host, name, number, is_class):
    words = (ctypes.c_int64 * 8)(*[-1] * 8)
    host[name](number, is_class, words)
    return dict(zip(TILING[name][2], words, strict=False))


@pytest.mark.parametrize("is_class", [0, 1])
def test_tiling(host, is_class):
    found = {name: tiling(host, name, 0, is_class) for name in TILING}
    assert found == {name: fields for name, (_, _, fields) in TILING.items()}


@pytest.mark.parametrize("number", WRONG, ids=WRONG.values())
def test_tiling_of_wrong_shapes_has_no_elements(host, number):
    found = {name: tiling(host, name, number, 0) for name in TILING}
    assert {name: got for name, got in found.items() if 0 not in got.values() or max(got.values()) > 64} == {}


def test_sort_needs_a_pair_for_each_element(host):
    assert [host.SortBytes(case) for case in range(3)] == [4 * 96 * 8, 4 * 96 * 8, 0]


def test_rows_with_padding_and_basic_blocks(host):
    words = np.zeros(6, np.uint32)
    host.Rows(ctypes.c_void_p(words.ctypes.data))
    assert words.tolist() == [64, 60, 24, 64, 1, 0]


def test_kernel_accepts_least_memory(host, compile_kernels):
    """The minimum memory of the host function is sufficient, 32 bytes less are not."""
    least = sizes(host, "GetSoftMaxMinTmpSize", 0)[0]
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
