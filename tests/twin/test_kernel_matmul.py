"""The Matmul API on cube cores and in mixed kernels, against sums of exact products in double."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

TYPES = {"half": np.float16, "bfloat16_t": ml_dtypes.bfloat16, "float": np.float32}
FIELDS = [
    "usedCoreNum",
    "M",
    "N",
    "Ka",
    "Kb",
    "singleCoreM",
    "singleCoreN",
    "singleCoreK",
    "baseM",
    "baseN",
    "baseK",
    "depthA1",
    "depthB1",
    "stepM",
    "stepN",
    "isBias",
    "transLength",
    "iterateOrder",
    "shareMode",
    "shareL1Size",
    "shareL0CSize",
    "shareUbSize",
    "batchM",
    "batchN",
    "singleBatchM",
    "singleBatchN",
    "stepKa",
    "stepKb",
    "depthAL1CacheUB",
    "depthBL1CacheUB",
    "dbL0A",
    "dbL0B",
    "dbL0C",
    "ALayoutInfoB",
    "ALayoutInfoS",
    "ALayoutInfoN",
    "ALayoutInfoG",
    "ALayoutInfoD",
    "BLayoutInfoB",
    "BLayoutInfoS",
    "BLayoutInfoN",
    "BLayoutInfoG",
    "BLayoutInfoD",
    "CLayoutInfoB",
    "CLayoutInfoS1",
    "CLayoutInfoN",
    "CLayoutInfoG",
    "CLayoutInfoS2",
    "BatchNum",
    "mxTypePara",
]
BODY = """
extern "C" __global__ __aicore__ void {name}(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR,
                                             GM_ADDR tiling)
{{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_{task});
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);
    TPipe pipe;
    Mm<{factor}, {out}, {bias}, {ta}, {tb}, {config}> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    Multiplied<decltype(mm), {factor}, {out}, {bias}, {ta}, {tb}>(mm, a, b, bias, c, t, [&](auto& mm, auto c) {{
        {compute}
    }});
}}
"""
ALL = "mm.IterateAll(c);"
EACH = "while (mm.Iterate()) { mm.GetTensorC(c); }"
HEADER = Path(__file__).with_name("matmul_kernel.h").read_text(encoding="utf-8")


def body(name: str, factor: str = "half", out: str = "float", **fields: Any) -> str:
    given = {"task": "AIC_ONLY", "bias": "float", "ta": "false", "tb": "false", "config": "CFG_NORM", "compute": ALL}
    return BODY.format(name=name, factor=factor, out=out, **{**given, **fields})


def tiling(m: int, n: int, k: int, base: tuple[int, int, int] = (64, 64, 64), **fields: int) -> bytes:
    """Tiling data of a product whose cores have parts of equal size."""
    base_m, base_n, base_k = base
    values = {
        **dict.fromkeys(FIELDS, 0),
        "usedCoreNum": 1,
        "M": m,
        "N": n,
        "Ka": k,
        "Kb": k,
        "singleCoreM": m,
        "singleCoreN": n,
        "singleCoreK": k,
        "baseM": base_m,
        "baseN": base_n,
        "baseK": base_k,
        "depthA1": 2,
        "depthB1": 2,
        "stepM": 1,
        "stepN": 1,
        "stepKa": 1,
        "stepKb": 1,
        "dbL0A": 2,
        "dbL0B": 2,
        "dbL0C": 1,
        **fields,
    }
    return struct.pack(f"{len(FIELDS)}i", *values.values())


def matrices(m: int, n: int, k: int, factor: str, out: str, *, ta: bool = False, tb: bool = False) -> list[Any]:
    random = np.random.default_rng(m * 7 + n * 5 + k)
    a = random.standard_normal((k, m) if ta else (m, k)).astype(TYPES[factor])
    b = random.standard_normal((n, k) if tb else (k, n)).astype(TYPES[factor])
    return [a, b, random.standard_normal(n).astype(np.float32), np.zeros((m, n), TYPES[out])]


def assert_product(arrays: list[Any], *, ta: bool = False, tb: bool = False, bias: bool = False) -> None:
    """Each of k sums in float rounds, and the result once more to its type."""
    a, b, start, c = arrays
    left = (a.T if ta else a).astype(np.float64)
    right = (b.T if tb else b).astype(np.float64)
    added = start.astype(np.float64) * bias
    expected = left @ right + added
    absolute = np.abs(left) @ np.abs(right) + np.abs(added)
    unit = 2.0 ** -{np.dtype(np.float16): 11, np.dtype(ml_dtypes.bfloat16): 8, np.dtype(np.float32): 24}[c.dtype]
    budget = (left.shape[1] + 2) * 2.0**-24 * absolute + unit * np.abs(expected) + 1e-7
    error = np.abs(c.astype(np.float64) - expected)
    assert np.all(error <= budget), float(np.max(error / budget))


PAIRS = [("half", "half"), ("half", "float"), ("bfloat16_t", "bfloat16_t"), ("float", "float")]
LAYOUTS = [("false", "false"), ("true", "false"), ("false", "true"), ("true", "true")]


@pytest.fixture(scope="module")
def cube(compile_kernels):
    parts = [
        body(f"mm_{factor}_{out}_{ta}_{tb}", factor, out, ta=ta, tb=tb) for factor, out in PAIRS for ta, tb in LAYOUTS
    ]
    parts.append(body("each", compute=EACH))
    parts.append(body("mdl", config="CFG_MDL"))
    return compile_kernels("#define CUBE_KERNEL\n" + HEADER + "".join(parts))


@pytest.mark.parametrize(("factor", "out"), PAIRS)
@pytest.mark.parametrize(("ta", "tb"), LAYOUTS)
def test_layouts(cube, factor, out, ta, tb):
    flags = {"ta": ta == "true", "tb": tb == "true"}
    arrays = matrices(97, 88, 150, factor, out, **flags)
    data = tiling(97, 88, 150, usedCoreNum=4, singleCoreM=64, singleCoreN=48, isBias=1)
    cube.run(f"mm_{factor}_{out}_{ta}_{tb}", *arrays, tiling=data, task_type="AIC_ONLY", blocks=4)
    assert_product(arrays, **flags, bias=True)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"iterateOrder": 1},
        {"dbL0A": 1, "dbL0B": 1},
        {"dbL0C": 2},
        {"stepKa": 2, "depthA1": 4, "stepKb": 4, "depthB1": 4},
        {"stepM": 2, "depthA1": 4, "stepN": 2, "depthB1": 2},
        {"depthA1": 1, "depthB1": 1},
        {"isBias": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["mm_half_float_false_false", "each", "mdl"])
def test_tilings(cube, name, fields):
    arrays = matrices(150, 130, 250, "half", "float")
    cube.run(name, *arrays, tiling=tiling(150, 130, 250, **fields), task_type="AIC_ONLY")
    assert_product(arrays, bias=fields.get("isBias", 0) == 1)


@pytest.fixture(scope="module")
def mixed(compile_kernels):
    parts = [
        body(f"{name}_{task}", task=f"MIX_AIC_{task}", compute=compute)
        for task in ("1_1", "1_2")
        for name, compute in (("all", ALL), ("each", EACH))
    ]
    return compile_kernels(HEADER + "".join(parts))


@pytest.mark.parametrize("task", ["1_1", "1_2"])
@pytest.mark.parametrize("name", ["all", "each"])
def test_vector_cores_drive_the_cube_core(mixed, name, task):
    arrays = matrices(97, 88, 150, "half", "float")
    data = tiling(97, 88, 150, usedCoreNum=4, singleCoreM=64, singleCoreN=48, isBias=1)
    mixed.run(f"{name}_{task}", *arrays, tiling=data, task_type=f"MIX_AIC_{task}", blocks=4 // int(task[-1]))
    assert_product(arrays, bias=True)
