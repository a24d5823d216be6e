"""Compare products on the cube cores of the twin with sums of exact products in double."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

TYPES = {"half": np.float16, "bfloat16_t": ml_dtypes.bfloat16, "float": np.float32}
PAIRS = [("half", "half"), ("half", "float"), ("bfloat16_t", "bfloat16_t"), ("bfloat16_t", "float"), ("float", "float")]
KERNEL = """
extern "C" __global__ __aicore__ void gemm_{factor}_{out}(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c,
                                                          GM_ADDR workspace, GM_ADDR tiling)
{{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    GET_TILING_DATA_WITH_STRUCT(GemmTiling, data, tiling);
    (void)workspace;
    TPipe pipe;
    Gemm<{factor}, {out}> gemm;
    gemm.Init(a, b, bias, c, data, &pipe);
    gemm.Process();
}}
"""


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    text = Path(__file__).with_name("gemm_kernel.h").read_text(encoding="utf-8")
    return compile_kernels(text + "".join(KERNEL.format(factor=factor, out=out) for factor, out in PAIRS))


def gemm(kernels: Any, factor: str, out: str, m: int, n: int, k: int, **options: Any) -> tuple[Any, Any, Any]:
    """Run a GEMM that must have no findings; return the result, the sum of products and that of absolute products."""
    flags = ("transpose_a", "transpose_b", "by_window", "hf32", "unit_flag", "has_bias")
    base = options.pop("base", (64, 64, 64))
    given = [int(options.pop(flag, 0)) for flag in flags]
    random = np.random.default_rng(m * 7 + n * 5 + k)
    a = random.standard_normal((k, m) if given[0] else (m, k)).astype(TYPES[factor])
    b = random.standard_normal((n, k) if given[1] else (k, n)).astype(TYPES[factor])
    bias = random.standard_normal(n).astype(np.float32)
    c = np.zeros((m, n), TYPES[out])
    tiling = struct.pack("12i", m, n, k, *base, *given)
    kernels.run(f"gemm_{factor}_{out}", a, b, bias, c, tiling=tiling, task_type="AIV_ONLY", **options)
    left = (a.T if given[0] else a).astype(np.float64)
    right = (b.T if given[1] else b).astype(np.float64)
    start = bias.astype(np.float64) * given[5]
    return c, left @ right + start, np.abs(left) @ np.abs(right) + np.abs(start)


def assert_close(result: Any, expected: Any, absolute: Any, k: int) -> None:
    """Each of k sums in float is rounded, and the result once more to its type."""
    unit = 2.0 ** -{np.dtype(np.float16): 11, np.dtype(ml_dtypes.bfloat16): 8, np.dtype(np.float32): 24}[result.dtype]
    budget = (k + 2) * 2.0**-24 * absolute + unit * np.abs(expected) + 1e-7
    error = np.abs(result.astype(np.float64) - expected)
    assert np.all(error <= budget), float(np.max(error / budget))


@pytest.mark.parametrize(("factor", "out"), PAIRS)
@pytest.mark.parametrize("transpose_a", [0, 1])
@pytest.mark.parametrize("transpose_b", [0, 1])
def test_layouts(kernels, factor, out, transpose_a, transpose_b):
    k = 150
    result = gemm(kernels, factor, out, 97, 83, k, transpose_a=transpose_a, transpose_b=transpose_b, blocks=3)
    assert_close(*result, k)


@pytest.mark.parametrize("factor", ["half", "bfloat16_t"])
@pytest.mark.parametrize("transpose", [0, 1])
def test_window_loads_equal_fractal_loads(kernels, factor, transpose):
    shape = (kernels, factor, "float", 50, 70, 90)
    by_fractals = gemm(*shape, transpose_a=transpose)
    by_windows = gemm(*shape, transpose_a=transpose, by_window=1)
    np.testing.assert_array_equal(by_windows[0], by_fractals[0])
    assert_close(*by_windows, 90)


@pytest.mark.parametrize("has_bias", [0, 1])
def test_unit_flags_and_bias(kernels, has_bias):
    assert_close(*gemm(kernels, "half", "half", 40, 200, 300, unit_flag=1, has_bias=has_bias, blocks=2), 300)


def sequential(left: Any, right: Any) -> Any:
    """Return the sum in the order of k, each product and each sum rounded to float."""
    sums = np.zeros((left.shape[0], right.shape[1]), np.float32)
    for index in range(left.shape[1]):
        sums = sums + np.outer(left[:, index], right[index]).astype(np.float32)
    return sums


def hf32(values: Any, mode: int) -> Any:
    """Return numbers with 11 bits of mantissa: to nearest even (1) or toward zero (2)."""
    bits = values.view(np.uint32).astype(np.uint64)
    if mode == 1:
        bits = bits + 0x7FF + (bits >> 12 & 1)
    return (bits & 0xFFFFF000).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize(("factor", "mode"), [("half", 0), ("bfloat16_t", 0), ("float", 0), ("float", 1), ("float", 2)])
@pytest.mark.parametrize("strict", [True, False])
def test_sums_are_made_in_the_order_of_k(kernels, factor, mode, strict):
    random = np.random.default_rng(5)
    m, n, k = 23, 37, 100
    a, b = (random.standard_normal(shape).astype(TYPES[factor]) for shape in ((m, k), (k, n)))
    a[0, 0] = b[0, 0] = np.inf
    c = np.zeros((m, n), np.float32)
    tiling = struct.pack("12i", m, n, k, 32, 32, 48, 0, 0, 0, mode, 0, 0)
    kernels.run(f"gemm_{factor}_float", a, b, np.zeros(n, np.float32), c, tiling=tiling, strict=strict)
    left, right = a.astype(np.float32), b.astype(np.float32)
    if mode:
        left, right = hf32(left, mode), hf32(right, mode)
    np.testing.assert_array_equal(c, sequential(left, right))


@pytest.mark.parametrize("case", range(30))
def test_random_shapes(kernels, case):
    random = np.random.default_rng(case)
    factor, out = PAIRS[random.integers(len(PAIRS))]
    m, n, k = (int(size) for size in random.integers(1, 150, 3))
    base = tuple(int(size) * 16 for size in random.integers(1, 6, 3))
    flags = {name: int(random.integers(2)) for name in ("transpose_a", "transpose_b", "by_window", "unit_flag")}
    has_bias = int(random.integers(2))
    result = gemm(
        kernels, factor, out, m, n, k, base=base, has_bias=has_bias, blocks=int(random.integers(1, 5)), **flags
    )
    assert_close(*result, k)
