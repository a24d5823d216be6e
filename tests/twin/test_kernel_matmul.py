"""Compare the Matmul API on cube cores and in mixed kernels with sums of exact products in double."""

from __future__ import annotations

import ctypes
import re
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from charged import GM, MODEL
from planted import Planted, kernels_of

from opforge.codegen.data.products import SOCS
from opforge.twin.build import INCLUDE

from .conftest import compile_library

pytestmark = pytest.mark.slow

TYPES = {"half": np.float16, "bfloat16_t": ml_dtypes.bfloat16, "float": np.float32}
TILING_HEADER = INCLUDE / "opforge_twin" / "kernel" / "matmul" / "tiling_data.h"
FIELDS = re.findall(r"\bfield\((\w+)\)", TILING_HEADER.read_text(encoding="utf-8"))
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
    """Return tiling data of a product whose cores have parts of equal size."""
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


def assert_product(
    arrays: list[Any], *, ta: bool = False, tb: bool = False, bias: bool = False, relu: bool = False
) -> None:
    """Each of k sums in float is rounded, and the result once more to its type."""
    a, b, start, c = arrays
    left = (a.T if ta else a).astype(np.float64)
    right = (b.T if tb else b).astype(np.float64)
    added = start.astype(np.float64) * bias
    expected = np.maximum(left @ right + added, 0 if relu else -np.inf)
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
    parts.extend((body("each", compute=EACH), body("in_order", compute=IN_ORDER)))
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


def test_rows_of_a_tail_tile_in_sequence_have_no_gaps(cube):
    a, b, bias, _ = matrices(64, 88, 96, "half", "float")
    c = np.zeros(2 * 64 * 64, np.float32)
    cube.run("in_order", a, b, bias, c, tiling=tiling(64, 88, 96), task_type="AIC_ONLY")
    product = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c[: 64 * 64].reshape(64, 64), product[:, :64], 1e-5, 1e-5)
    np.testing.assert_allclose(c[64 * 64 :][: 64 * 24].reshape(64, 24), product[:, 64:], 1e-5, 1e-5)
    assert not c[64 * (64 + 24) :].any()


PARTIAL = """
constexpr MatmulConfig PartialConfig()
{
    MatmulConfig config = CFG_MDL;
    config.isPartialOutput = true;
    return config;
}
constexpr MatmulConfig kPartial = PartialConfig();
"""
IN_ORDER = (
    "GlobalTensor<float> parts; parts.SetGlobalBuffer(const_cast<__gm__ float*>(c.GetPhyAddr()));"
    "for (int64_t n = 0; mm.Iterate(); n += 64 * 64) { mm.GetTensorC(parts[n], 0, true); }"
)


@pytest.fixture(scope="module")
def partial(compile_kernels):
    calls = {"in_order": IN_ORDER, "all": ALL, "each": EACH}
    parts = [
        body(f"partial_{name}_{task}", config="kPartial", compute=compute, task=types)
        for name, compute in calls.items()
        for task, types in (("cube", "AIC_ONLY"), ("mixed", "MIX_AIC_1_1"))
    ]
    return compile_kernels(HEADER + PARTIAL + "".join(parts))


@pytest.mark.parametrize("task", ["cube", "mixed"])
def test_partial_output_returns_the_product_of_each_block_of_k(partial, task):
    a, b, bias, _ = matrices(128, 64, 160, "half", "float")
    c = np.zeros((2, 3, 64, 64), np.float32)
    types = {"cube": "AIC_ONLY", "mixed": "MIX_AIC_1_1"}[task]
    partial.run(f"partial_in_order_{task}", a, b, bias, c, tiling=tiling(128, 64, 160), task_type=types)
    for rows in range(2):
        for block, k in enumerate(range(0, 160, 64)):
            part = a[64 * rows : 64 * rows + 64, k : k + 64].astype(np.float64) @ b[k : k + 64].astype(np.float64)
            np.testing.assert_allclose(c[rows, block], part, 1e-5, 1e-5)


@pytest.mark.parametrize("call", ["all", "each"])
def test_partial_output_needs_tiles_in_sequence(partial, call, record_planted):
    arrays = matrices(128, 64, 160, "half", "float")
    report = partial.launch(f"partial_{call}_cube", *arrays, tiling=tiling(128, 64, 160), task_type="AIC_ONLY")
    kinds = {finding["kind"] for finding in report["findings"]}
    assert kinds == {"matmul_order"}, report["findings"]
    record_planted(f"partial output: {call}", report["findings"][0])


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


RELU = """
extern "C" __global__ __aicore__ void rectified_{task}(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR,
                                                   GM_ADDR tiling)
{{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_{task});
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);
    TPipe pipe;
    Matmul<MatmulType<TPosition::GM, CubeFormat::ND, half>, MatmulType<TPosition::GM, CubeFormat::ND, half>,
           MatmulType<TPosition::VECIN, CubeFormat::ND, float>, MatmulType<TPosition::GM, CubeFormat::ND, float>> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    TQue<TPosition::VECOUT, 1> queue;
    pipe.InitBuffer(queue, 1, t.baseM * t.baseN * sizeof(float));
    Multiplied<decltype(mm), half, float, float, false, false>(mm, a, b, bias, c, t, [&](auto& mm, auto c) {{
        int32_t count = 0;
        const int32_t down = t.singleCoreM / t.baseM;
        {iterate} {{
            LocalTensor<float> tile = queue.AllocTensor<float>();
            mm.template GetTensorC<{sync}>(tile, false, true);
            Relu(tile, tile, t.baseM * t.baseN);
            queue.EnQue(tile);
            tile = queue.DeQue<float>();
            const int64_t place = (int64_t)(count % down) * t.baseM * t.N + count / down * t.baseN;
            DataCopyParams rows(t.baseM, t.baseN * sizeof(float) / 32, 0, (t.N - t.baseN) * sizeof(float) / 32);
            DataCopy(c[place], tile, rows);
            queue.FreeTensor(tile);
            ++count;
        }}
    }});
}}
"""


@pytest.fixture(scope="module")
def rectified(compile_kernels):
    parts = [RELU.format(task=task, iterate="while (mm.Iterate())", sync="true") for task in ("1_1", "1_2")]
    return compile_kernels(HEADER + "".join(parts))


@pytest.mark.parametrize("task", ["1_1", "1_2"])
def test_tiles_reach_the_unified_buffer(rectified, task):
    arrays = matrices(256, 128, 100, "half", "float")
    data = tiling(256, 128, 100, usedCoreNum=4, singleCoreM=128, singleCoreN=64, isBias=1)
    rectified.run(f"rectified_{task}", *arrays, tiling=data, task_type=f"MIX_AIC_{task}", blocks=4 // int(task[-1]))
    assert_product(arrays, bias=True, relu=True)


GIVEN = {
    "m": 0,
    "n": 0,
    "k": 0,
    "cores": 1,
    "dtype": 1,
    "transpose_a": 0,
    "transpose_b": 0,
    "bias": 0,
    "base_m": -1,
    "base_n": -1,
    "base_k": -1,
    "in_ub": 0,
    "split_k": 0,
    "traverse": 0,
    "sparse": 0,
}
DTYPES = {"float": 0, "half": 1, "int8_t": 2, "bfloat16_t": 27, "int4b_t": 29}


@pytest.fixture(scope="module")
def choose():
    source = Path(__file__).with_name("matmul_tiling.cpp")
    function = ctypes.CDLL(str(compile_library("matmul_tiling", source))).ChooseTiling

    def chosen(m: int, n: int, k: int, factor: str = "half", **given: int) -> tuple[int, dict[str, int], bytes]:
        values = GIVEN | {"m": m, "n": n, "k": k, "dtype": DTYPES[factor]} | given
        fields = (ctypes.c_int32 * len(FIELDS))()
        status = function((ctypes.c_int32 * len(GIVEN))(*values.values()), fields)
        return status, dict(zip(FIELDS, fields, strict=True)), bytes(fields)

    return chosen


SHAPES = [(1, 1, 1), (16, 16, 16), (97, 88, 150), (128, 2048, 1024), (1000, 40, 3000), (7, 700, 65)]


@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
@pytest.mark.parametrize("factor", ["half", "float", "int8_t"])
@pytest.mark.parametrize("cores", [1, 2, 20])
def test_chosen_tiling_fits_the_core(choose, m, n, k, factor, cores):
    size = {"half": 2, "float": 4, "int8_t": 1}[factor]
    for transposed in (0, 1):
        status, t, _ = choose(m, n, k, factor, cores=cores, bias=1, transpose_a=transposed, transpose_b=transposed)
        assert status == 0
        assert t["baseM"] % 16 == t["baseN"] % 16 == 0
        assert t["baseK"] % max(16, 32 // size) == 0
        assert t["baseM"] * t["baseK"] * size * t["dbL0A"] <= 65536
        assert t["baseN"] * t["baseK"] * size * t["dbL0B"] <= 65536
        assert t["baseM"] * t["baseN"] * 4 * t["dbL0C"] <= 131072
        blocks = t["baseM"] * t["depthA1"] + t["baseN"] * t["depthB1"]
        assert blocks * t["baseK"] * size + t["baseN"] * 4 <= 524288
        assert t["depthA1"] in {t["stepM"] * t["stepKa"] * db for db in (1, 2)}
        used = -(-m // t["singleCoreM"]) * -(-n // t["singleCoreN"])
        assert used == t["usedCoreNum"] <= cores
        assert t["singleCoreK"] == k


def test_tiling_follows_the_settings(choose):
    status, t, _ = choose(512, 128, 128, cores=2, base_m=128, base_n=64, base_k=128, in_ub=1, traverse=2)
    assert (status, t["baseM"], t["baseN"], t["baseK"], t["iterateOrder"]) == (0, 128, 64, 128, 1)
    assert (t["singleCoreM"], t["singleCoreN"], t["usedCoreNum"]) == (512, 64, 2)
    _, t, _ = choose(32, 32, 4096, cores=8, split_k=1, base_m=32, base_n=32)
    assert t["singleCoreK"] * t["usedCoreNum"] >= 4096 > t["singleCoreK"]
    _, t, _ = choose(512, 512, 128, cores=2)
    assert (t["singleCoreM"], t["singleCoreN"]) == (256, 512)  # equal traffic: parts of M
    assert choose(512, 512, 512, base_m=512, base_n=512)[0] == -2
    assert choose(0, 16, 16)[0] == -1


@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
@pytest.mark.parametrize("cores", [1, 6])
def test_kernels_run_with_the_chosen_tiling(cube, choose, m, n, k, cores):
    arrays = matrices(m, n, k, "half", "float")
    _, fields, data = choose(m, n, k, cores=cores, bias=1)
    cube.run("mm_half_float_false_false", *arrays, tiling=data, task_type="AIC_ONLY", blocks=fields["usedCoreNum"])
    assert_product(arrays, bias=True)


FRACTALS = """
extern "C" __global__ __aicore__ void fractals(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);
    TPipe pipe;
    Mm<half, float, float, false, false, CFG_NORM, MatmulCallBackFunc<>, CubeFormat::NZ, CubeFormat::NZ,
       CubeFormat::NZ> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    Multiplied<decltype(mm), half, float, float, false, false>(mm, a, b, bias, c, t,
                                                                [&](auto& mm, auto c) { mm.IterateAll(c); });
}
"""
# The matrices have fewer rows than the product.
FEW_ROWS = FRACTALS.replace("fractals(", "few_rows(").replace(
    "mm.IterateAll(c)", "mm.SetOrgShape(16, 80, 128); mm.IterateAll(c)"
)

FORMS = """
extern "C" __global__ __aicore__ void vector_by_matrix(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR,
                                                       GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);
    TPipe pipe;
    Mm<half, float, float, false, false, CFG_NORM, MatmulCallBackFunc<>, CubeFormat::VECTOR> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    Multiplied<decltype(mm), half, float, float, false, false>(mm, a, b, bias, c, t,
                                                                [&](auto& mm, auto c) { mm.IterateAll(c); });
}

/// Fractals with 8 columns of float.
constexpr MatmulConfig SPLIT = [] {
    MatmulConfig config = CFG_NORM;
    config.isEnableChannelSplit = true;
    return config;
}();
extern "C" __global__ __aicore__ void split(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);
    TPipe pipe;
    Mm<half, float, float, false, false, SPLIT, MatmulCallBackFunc<>, CubeFormat::ND, CubeFormat::ND,
       CubeFormat::NZ> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    Multiplied<decltype(mm), half, float, float, false, false>(mm, a, b, bias, c, t,
                                                                [&](auto& mm, auto c) { mm.IterateAll(c); });
}

/// Sums of rows: A is a scalar.
extern "C" __global__ __aicore__ void scalar_by_matrix(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR,
                                                       GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);
    TPipe pipe;
    Mm<half, float, float, false, false> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm);
    mm.Init(&t);
    Multiplied<decltype(mm), half, float, float, false, false>(mm, a, b, bias, c, t, [&](auto& mm, auto c) {
        mm.SetTensorA(half(2.0f));
        mm.IterateAll(c);
    });
}

/// A K-slice after the other is added in L0C, then with atomic addition in global memory.
extern "C" __global__ __aicore__ void slices(GM_ADDR a, GM_ADDR b, GM_ADDR, GM_ADDR c, GM_ADDR, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);
    TPipe pipe;
    Mm<half, float, float, false, false> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    GlobalTensor<half> aGm, bGm;
    GlobalTensor<float> cGm;
    aGm.SetGlobalBuffer((__gm__ half*)a);
    bGm.SetGlobalBuffer((__gm__ half*)b);
    cGm.SetGlobalBuffer((__gm__ float*)c);
    for (int32_t half = 0; half < 2; ++half) {
        for (int32_t slice = 0; slice < 2; ++slice) {
            const int32_t k = (half * 2 + slice) * t.singleCoreK;
            mm.SetTensorA(aGm[k]);
            mm.SetTensorB(bGm[(int64_t)k * t.N]);
            mm.Iterate(slice != 0);
        }
        mm.GetTensorC(cGm, 1);
        mm.End();
    }
}

constexpr MatmulShapeParams kShape{64, 64, 128, 32, 64, 64};
constexpr MatmulConfig kConfig = GetMMConfig<MatmulConfigMode::CONFIG_MDL>(kShape, MatmulBiasParams{false});
template <class A, class B, class C, class Bias>
constexpr MatmulApiStaticTiling kStatic = GetMatmulApiTiling<A, B, C, Bias>(kConfig);

/// The tiling data give no blocks: the configuration does.
extern "C" __global__ __aicore__ void constant(GM_ADDR a, GM_ADDR b, GM_ADDR, GM_ADDR c, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    using Factor = MatmulType<TPosition::GM, CubeFormat::ND, half>;
    using Sum = MatmulType<TPosition::GM, CubeFormat::ND, float>;
    static constexpr MatmulApiStaticTiling fixed = kStatic<Factor, Factor, Sum, Sum>;
    static_assert(ToMatmulConfig(fixed).singleCoreM == 64 && ToMatmulConfig(kConfig).basicN == 64);
    TPipe pipe;
    MatmulImpl<Factor, Factor, Sum, Sum, fixed> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, (TCubeTiling*)nullptr);
    GlobalTensor<half> aGm, bGm;
    GlobalTensor<float> cGm;
    aGm.SetGlobalBuffer((__gm__ half*)a);
    bGm.SetGlobalBuffer((__gm__ half*)b);
    cGm.SetGlobalBuffer((__gm__ float*)c);
    mm.SetOrgShape(50, 60, 100);
    mm.SetSingleShape(50, 60, 100);
    mm.SetTensorA(aGm);
    mm.SetTensorB(bGm);
    mm.IterateAll(cGm);
    mm.End();
}

/// Copies a block of A with a row pitch that the kernel knows, doubles C through the row pitch, and counts tiles.
struct Custom {
    int32_t pitchA;
    int32_t pitchC;
};
__aicore__ inline void CopyA1(const LocalTensor<int8_t>& aMatrix, const __gm__ void* gm, int row, int col, int useM,
                              int useK, const uint64_t tilingPtr, const uint64_t dataPtr)
{
    const Custom* custom = reinterpret_cast<const Custom*>(dataPtr);
    const TCubeTiling* t = reinterpret_cast<const TCubeTiling*>(tilingPtr);
    GlobalTensor<half> src;
    src.SetGlobalBuffer((__gm__ half*)const_cast<__gm__ void*>(gm));
    const int64_t place = (int64_t)row * t->baseM * custom->pitchA + col * t->baseK;
    DataCopy(aMatrix.ReinterpretCast<half>(), src[place],
             Nd2NzParams(1, useM, useK, 0, custom->pitchA, (useM + 15) / 16 * 16, 1, 0));
}
__aicore__ inline void CopyOut(const __gm__ void* gm, const LocalTensor<int8_t>& co1Local, const void* params,
                               const uint64_t, const uint64_t)
{
    const DataCopyOutParams* out = reinterpret_cast<const DataCopyOutParams*>(params);
    GlobalTensor<float> dst;
    dst.SetGlobalBuffer((__gm__ float*)const_cast<__gm__ void*>(gm));
    FixpipeParamsV220 store(out->oriNSize, out->burstLen / 2, out->srcStride, out->dstStride, false);
    Fixpipe<float, float, CFG_ROW_MAJOR>(dst, co1Local.ReinterpretCast<float>(), store);
}

extern "C" __global__ __aicore__ void callbacks(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);
    TPipe pipe;
    Mm<half, float, float, false, false, CFG_NORM, MatmulCallBackFunc<CopyOut, CopyA1, nullptr>> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    const Custom custom{t.Ka, t.N};
    mm.SetUserDefInfo(reinterpret_cast<uint64_t>(&t));
    mm.SetSelfDefineData(reinterpret_cast<uint64_t>(&custom));
    Multiplied<decltype(mm), half, float, float, false, false>(mm, a, b, bias, c, t,
                                                                [&](auto& mm, auto c) { mm.IterateAll(c); });
}

/// C[i] = A[i] B[i / 2]
extern "C" __global__ __aicore__ void batches(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);
    TPipe pipe;
    using A = MatmulType<TPosition::GM, CubeFormat::ND, half, false, LayoutMode::NORMAL>;
    using C = MatmulType<TPosition::GM, CubeFormat::ND, float, false, LayoutMode::NORMAL>;
    Matmul<A, A, C, C> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    mm.SetBatchNum(4, 2);
    Multiplied<decltype(mm), half, float, float, false, false>(
        mm, a, b, bias, c, t, [&](auto& mm, auto) {
            GlobalTensor<half> aGm, bGm;
            GlobalTensor<float> cGm;
            aGm.SetGlobalBuffer((__gm__ half*)a);
            bGm.SetGlobalBuffer((__gm__ half*)b);
            cGm.SetGlobalBuffer((__gm__ float*)c);
            mm.SetTensorA(aGm);
            mm.SetTensorB(bGm);
            mm.IterateBatch(cGm, false, 0, false);
        });
}
"""


CONSTANT = FORMS[FORMS.index("constexpr MatmulShapeParams") :].partition("\n}\n")[0] + "\n}\n"
LARGE = re.sub(r"\bk(Shape|Config|Static)\b", r"kLarge\1", CONSTANT).replace("void constant", "void constant_large")
LARGE = LARGE.replace("128, 32, 64, 64", "512, 64, 64, 1024")


@pytest.fixture(scope="module")
def forms(compile_kernels):
    return compile_kernels("#define CUBE_KERNEL\n" + HEADER + FRACTALS + FEW_ROWS + FORMS + LARGE)


def fractals_of(matrix: Any, c0: int = 16) -> Any:
    """Return a matrix in format NZ: columns of c0, rows padded to 16."""
    rows, columns = matrix.shape
    padded = np.zeros((-(-rows // 16) * 16, -(-columns // c0) * c0), matrix.dtype)
    padded[:rows, :columns] = matrix
    return np.ascontiguousarray(padded.reshape(padded.shape[0], -1, c0).transpose(1, 0, 2))


def test_row_vector(forms):
    arrays = matrices(1, 130, 250, "half", "float")
    forms.run("vector_by_matrix", *arrays, tiling=tiling(1, 130, 250, base=(16, 64, 64)), task_type="AIC_ONLY")
    assert_product(arrays)


@pytest.mark.parametrize("n", [80, 69])
def test_fractal_format(forms, n):
    a, b, bias, _ = matrices(96, n, 128, "half", "float")
    data = tiling(96, 80, 128, singleCoreN=n)
    result = np.zeros((5, 96, 16), np.float32)
    forms.run("fractals", fractals_of(a), fractals_of(b), bias, result, tiling=data, task_type="AIC_ONLY")
    assert_product([a, b, bias, result.transpose(1, 0, 2).reshape(96, 80)[:, :n]])
    assert not result[4, :, n - 64 :].any()


def test_fractals_need_the_rows_of_the_product(forms, record_planted):
    a, b, bias, _ = matrices(96, 80, 128, "half", "float")
    arrays = [fractals_of(a), fractals_of(b), bias, np.zeros((5, 96, 16), np.float32)]
    (finding,) = forms.launch("few_rows", *arrays, tiling=tiling(96, 80, 128), task_type="AIC_ONLY")["findings"]
    assert (finding["kind"], "64 rows of a matrix that has 16" in finding["message"]) == ("matmul_shape", True)
    record_planted("few_rows", finding)


def test_fractals_of_8_columns(forms):
    arrays = matrices(96, 72, 128, "half", "float")
    arrays[3] = np.zeros((9, 96, 8), np.float32)
    data = tiling(96, 72, 128, base=(48, 32, 64))
    report = forms.run("split", *arrays, tiling=data, task_type="AIC_ONLY")
    assert report["pipes"]["FIX"]["critical_us"] > 0
    arrays[3] = arrays[3].transpose(1, 0, 2).reshape(96, 72)
    assert_product(arrays)


def test_scalar_factor(forms):
    arrays = matrices(40, 48, 100, "half", "float")
    forms.run("scalar_by_matrix", *arrays, tiling=tiling(40, 48, 100), task_type="AIC_ONLY")
    arrays[0][:] = 2
    assert_product(arrays)


def test_sums_of_slices(forms):
    arrays = matrices(64, 48, 256, "half", "float")
    data = tiling(64, 48, 256, base=(64, 48, 64), singleCoreK=64)
    forms.run("slices", *arrays, tiling=data, task_type="AIC_ONLY")
    assert_product(arrays)


def test_constant_tiling(forms):
    arrays = matrices(50, 60, 100, "half", "float")
    forms.run("constant", *arrays, tiling=b"", task_type="AIC_ONLY")
    assert_product(arrays)


def test_constant_blocks_that_do_not_fit(forms, record_planted):
    arrays = matrices(50, 60, 512, "half", "float")
    (finding,) = forms.launch("constant_large", *arrays, tiling=b"", task_type="AIC_ONLY")["findings"]
    assert (finding["kind"], "L0A has 65536" in finding["message"]) == ("matmul_tiling", True)
    record_planted("GetMatmulApiTiling with large blocks", finding)


@pytest.mark.parametrize(
    ("k", "fields"),
    [
        (150, {}),
        (300, {"depthA1": 8, "stepM": 2, "stepKa": 2, "depthB1": 6, "stepKb": 3}),
        (300, {"depthA1": 6, "stepKa": 3}),
    ],
)
def test_callbacks(forms, k, fields):
    """A callback copies a base block of A, whatever the number of base blocks in L1 is."""
    arrays = matrices(96, 80, k, "half", "float")
    forms.run("callbacks", *arrays, tiling=tiling(96, 80, k, **fields), task_type="AIC_ONLY")
    assert_product(arrays)


def test_batches(forms):
    random = np.random.default_rng(0)
    a = random.standard_normal((4, 40, 70)).astype(np.float16)
    b = random.standard_normal((2, 70, 50)).astype(np.float16)
    c = np.zeros((4, 40, 50), np.float32)
    forms.run("batches", a, b, np.zeros(50, np.float32), c, tiling=tiling(40, 50, 70), task_type="AIC_ONLY")
    for index in range(4):
        assert_product([a[index], b[index // 2], np.zeros(50), c[index]])


MIXED_FORMS = """
#define OPEN(object)                                                  \\
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_1);                \\
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);              \\
    TPipe pipe;                                                       \\
    object mm;                                                        \\
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);           \\
    GlobalTensor<half> aGm, bGm;                                      \\
    GlobalTensor<float> cGm;                                          \\
    aGm.SetGlobalBuffer((__gm__ half*)a);                             \\
    bGm.SetGlobalBuffer((__gm__ half*)b);                             \\
    cGm.SetGlobalBuffer((__gm__ float*)c);                            \\
    (void)workspace
#define KERNEL(name)                                                                                            \\
    extern "C" __global__ __aicore__ void name(GM_ADDR a, GM_ADDR b, GM_ADDR, GM_ADDR c, GM_ADDR workspace,     \\
                                               GM_ADDR tiling)
using Half = MatmulType<TPosition::GM, CubeFormat::ND, half>;
using Float = MatmulType<TPosition::GM, CubeFormat::ND, float>;
using Local = MatmulType<TPosition::VECIN, CubeFormat::ND, float>;
using Aligned = MatmulType<TPosition::VECIN, CubeFormat::ND_ALIGN, float>;
using FromVector = MatmulType<TPosition::VECOUT, CubeFormat::ND, half>;
using ToUb = Matmul<Half, Half, Local, Float>;
using ToAlignedUb = Matmul<Half, Half, Aligned, Float>;
using FromUb = Matmul<FromVector, Half, Float, Float>;
using Plain = Matmul<Half, Half, Float, Float>;
using HalfBatch = MatmulType<TPosition::GM, CubeFormat::ND, half, false, LayoutMode::NORMAL>;
using FloatBatch = MatmulType<TPosition::GM, CubeFormat::ND, float, false, LayoutMode::NORMAL>;
using Batches = Matmul<HalfBatch, HalfBatch, FloatBatch, FloatBatch>;

/// All tiles go to a workspace; the vector core takes them one by one.
KERNEL(tiles_later)
{
    OPEN(ToUb);
    GlobalTensor<float> results;
    results.SetGlobalBuffer((__gm__ float*)GetUserWorkspace(workspace));
    TQue<TPosition::VECIN, 1> queue;
    pipe.InitBuffer(queue, 1, t.baseM * t.baseN * sizeof(float));
    mm.SetWorkspace(results);
    mm.SetTensorA(aGm);
    mm.SetTensorB(bGm);
    mm.template Iterate<false>();
    const int32_t down = t.singleCoreM / t.baseM;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> out;
    pipe.InitBuffer(out, 1, t.baseM * t.baseN * sizeof(float));
    for (int32_t i = 0; i < down * (t.singleCoreN / t.baseN); ++i) {
        LocalTensor<float> tile = out.AllocTensor<float>();
        mm.template GetTensorC<false>(tile);
        mm.WaitGetTensorC();
        out.EnQue(tile);
        tile = out.DeQue<float>();
        DataCopy(cGm[(int64_t)(i % down) * t.baseM * t.N + i / down * t.baseN], tile,
                 DataCopyParams(t.baseM, t.baseN / 8, 0, (t.N - t.baseN) / 8));
        out.FreeTensor(tile);
    }
    mm.End();
}

/// The whole C in the unified buffer, with rows padded to 32 bytes.
KERNEL(all_to_ub)
{
    OPEN(ToAlignedUb);
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 64 * 56 * 4);
    LocalTensor<float> local = buffer.Get<float>();
    mm.SetTensorA(aGm);
    mm.SetTensorB(bGm);
    mm.IterateAll(local);
    DataCopyPad(cGm, local, DataCopyExtParams(t.M, t.N * 4, 0, 0, 0));
    mm.End();
}

/// A comes from the vector core: it is doubled there.
KERNEL(a_from_ub)
{
    OPEN(FromUb);
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    const int32_t count = t.M * t.Ka;
    pipe.InitBuffer(in, 1, count * 2);
    pipe.InitBuffer(out, 1, count * 2);
    LocalTensor<half> x = in.AllocTensor<half>();
    DataCopy(x, aGm, count);
    in.EnQue(x);
    x = in.DeQue<half>();
    LocalTensor<half> y = out.AllocTensor<half>();
    Add(y, x, x, count);
    in.FreeTensor(x);
    out.EnQue(y);
    y = out.DeQue<half>();
    mm.SetTensorA(y);
    mm.SetTensorB(bGm);
    mm.IterateAll(cGm);
    out.FreeTensor(y);
    mm.End();
}

/// C[i] = A[i] B[i / 2]: two batches of four and two matrices go to a workspace; the vector core takes them one by one.
KERNEL(batches_later)
{
    OPEN(Batches);
    GlobalTensor<float> results;
    results.SetGlobalBuffer((__gm__ float*)GetUserWorkspace(workspace));
    const int32_t count = 4 * t.M * t.N;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
    pipe.InitBuffer(queue, 1, count * sizeof(float));
    mm.SetWorkspace(results);
    mm.SetTensorA(aGm);
    mm.SetTensorB(bGm);
    mm.template IterateNBatch<false>(2, 4, 2, false);
    for (int32_t batch = 0; batch < 2; ++batch) {
        GlobalTensor<float> part = batch == 0 ? mm.template GetBatchTensorC<false>(4, 2) : mm.GetBatchC(4, 2);
        LocalTensor<float> local = queue.AllocTensor<float>();
        DataCopy(local, part, count);
        queue.EnQue(local);
        local = queue.DeQue<float>();
        DataCopy(cGm[(int64_t)batch * count], local, count);
        queue.FreeTensor(local);
    }
    mm.End();
}

KERNEL(batches_without_workspace)
{
    OPEN(Batches);
    mm.SetTensorA(aGm);
    mm.SetTensorB(bGm);
    mm.template IterateNBatch<false>(2, 4, 2, false);
    mm.End();
}

/// The vector core goes on while the cube core computes.
KERNEL(all_later)
{
    OPEN(Plain);
    mm.SetTensorA(aGm);
    mm.SetTensorB(bGm);
    mm.template IterateAll<false>(cGm, 0, false, true);
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    LocalTensor<float> ones = buffer.Get<float>();
    Duplicate(ones, 1.0f, 64);
    mm.WaitIterateAll();
    SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
    SetAtomicAdd<float>();
    DataCopy(cGm, ones, 64);
    SetAtomicNone();
    mm.End();
}

KERNEL(all_too_early)
{
    OPEN(Plain);
    mm.SetTensorA(aGm);
    mm.SetTensorB(bGm);
    mm.template IterateAll<false>(cGm, 0, false, true);
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    LocalTensor<float> local = buffer.Get<float>();
    DataCopy(local, cGm, 64);  // planted: before WaitIterateAll
    mm.WaitIterateAll();
    mm.End();
}
"""


@pytest.fixture(scope="module")
def mixed_forms(compile_kernels):
    return compile_kernels(HEADER + MIXED_FORMS)


@pytest.mark.parametrize("name", ["tiles_later", "all_to_ub", "a_from_ub", "all_later"])
def test_forms_of_mixed_kernels(mixed_forms, name):
    m, n, k = (64, 50, 96) if name == "all_to_ub" else (128, 64, 96)
    arrays = matrices(m, n, k, "half", "float")
    data = tiling(m, n, k, base=(64, 32, 32))
    mixed_forms.run(name, *arrays, tiling=data, task_type="MIX_AIC_1_1")
    if name == "a_from_ub":
        arrays[0] += arrays[0]
    if name == "all_later":
        arrays[3][0, :64] -= 1
    assert_product(arrays)


def _batches(kernels, name):
    random = np.random.default_rng(4)
    a = random.standard_normal((8, 24, 70)).astype(np.float16)
    b = random.standard_normal((4, 70, 40)).astype(np.float16)
    c = np.zeros((8, 24, 40), np.float32)
    arrays = [a, b, np.zeros(40, np.float32), c]
    return kernels.launch(name, *arrays, tiling=tiling(24, 40, 70), task_type="MIX_AIC_1_1"), arrays


def test_batches_of_a_workspace(mixed_forms):
    report, (a, b, _, c) = _batches(mixed_forms, "batches_later")
    assert report["findings"] == []
    for index in range(8):
        assert_product([a[index], b[index // 2], np.zeros(40), c[index]])
    assert report["cores"][0]["busy"]["M"] > 0, report["cores"]


def test_batches_without_a_workspace(mixed_forms, record_planted):
    findings = _batches(mixed_forms, "batches_without_workspace")[0]["findings"]
    assert ("matmul_order", True) in {(found["kind"], "SetWorkspace" in found["message"]) for found in findings}
    record_planted("IterateNBatch without SetWorkspace", findings[0])


def test_an_early_read_of_an_asynchronous_result(mixed_forms):
    arrays = matrices(128, 64, 96, "half", "float")
    report = mixed_forms.launch("all_too_early", *arrays, tiling=tiling(128, 64, 96), task_type="MIX_AIC_1_1")
    assert "race" in {finding["kind"] for finding in report["findings"]}


# Names of the toolkit's headers that public kernels use without a document.
INNER_NAMES = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR c, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_1);
    if ASCEND_IS_AIC {
        NotifyEvent<PIPE_FIX>(3);
        return;
    }
    WaitEvent(3);
    blockNumber = 7;
    GlobalTensor<int32_t> gm;
    gm.SetGlobalBuffer((__gm__ int32_t*)c);
    const uint32_t length = 100;
    gm.SetValue(0, CeilDiv(length, 32));
    gm.SetValue(1, CeilAlign(length, 32));
    gm.SetValue(2, blockNumber + SYNC_AIC_FLAG);
    DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE>(gm);
}
"""
PLANTED_NAMES = [
    Planted("names_not_notified", "NotifyEvent<PIPE_FIX>(3);", "", "deadlock", "nothing will set it"),
    Planted("names_not_awaited", "WaitEvent(3);", "", "flag_left_set", "is set"),
    Planted("names_long", "CeilDiv(length, 32)", "CeilDiv(70000, 32)", "field_range", "num1"),
    Planted("names_by_zero", "CeilDiv(length, 32)", "CeilDiv(length, 0)", "field_range", "num2"),
]


@pytest.fixture(scope="module")
def names(compile_kernels):
    return compile_kernels(
        HEADER
        + "__BLOCK_LOCAL__ inline int32_t blockNumber;"
        + "".join(kernels_of(INNER_NAMES, "names", PLANTED_NAMES))
    )


def test_names_of_the_headers(names):
    c = np.zeros(16, np.int32)
    report = names.run("names", c, task_type="MIX_AIC_1_1")
    assert c[:3].tolist() == [4, 128, 18]
    waiting = next(core["us"] for core in report["cores"] if core["name"] == "AIV 0")
    expected = MODEL["cross_core_flag_cycles"] + 3 * GM  # the flag, and three values
    assert waiting * SOCS["Ascend910B1"].mhz == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("planted", PLANTED_NAMES, ids=lambda planted: planted.name)
def test_planted_mistakes_of_names(names, record_planted, planted):
    findings = names.launch(planted.name, np.zeros(16, np.int32), task_type="MIX_AIC_1_1")["findings"]
    record_planted(planted.name, planted.assert_in(findings))


PLANTED = """
#define PLANT(name, code)                                                                              \\
    extern "C" __global__ __aicore__ void name(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR, \\
                                               GM_ADDR tiling)                                         \\
    {                                                                                                  \\
        KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);                                                \\
        GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);                                           \\
        TPipe pipe;                                                                                    \\
        Mm<half, float, float, false, false> mm;                                                       \\
        GlobalTensor<half> aGm, bGm;                                                                   \\
        GlobalTensor<float> biasGm, cGm;                                                               \\
        aGm.SetGlobalBuffer((__gm__ half*)a);                                                          \\
        bGm.SetGlobalBuffer((__gm__ half*)b);                                                          \\
        biasGm.SetGlobalBuffer((__gm__ float*)bias);                                                   \\
        cGm.SetGlobalBuffer((__gm__ float*)c);                                                         \\
        code                                                                                           \\
    }
#define REGISTERED REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
#define READY REGISTERED mm.SetTensorA(aGm); mm.SetTensorB(bGm);
PLANT(right, READY mm.IterateAll(cGm); mm.End();)
PLANT(no_a, REGISTERED mm.SetTensorB(bGm);
mm.IterateAll(cGm);)
PLANT(no_tiling, REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm); mm.SetTensorA(aGm); mm.SetTensorB(bGm);
mm.IterateAll(cGm);)
PLANT(after_end, READY mm.IterateAll(cGm); mm.End();
mm.Iterate();)
PLANT(store_first, READY
mm.GetTensorC(cGm);)
PLANT(bias_off, READY mm.SetBias(biasGm);
mm.IterateAll(cGm);)
PLANT(empty_tail, READY
mm.SetTail(0, 16);)
PLANT(no_shape, READY
mm.SetOrgShape(0, 16, 16);)
PLANT(sum_of_tiles, READY
mm.Iterate(true);)
PLANT(no_results, READY
mm.GetTensorC();)
PLANT(long_rows, REGISTERED mm.SetOrgShape(16, 16, 70000, 64); mm.SetTensorA(aGm); mm.SetTensorB(bGm);
mm.IterateAll(cGm);)
PLANT(batches_of_3_and_2, READY mm.SetBatchNum(3, 2);
mm.IterateBatch(cGm, false, 0, false);)
PLANT(no_batches, READY mm.IterateNBatch(1, 4, 0, false);)
PLANT(too_many_batches, READY mm.IterateNBatch(UINT32_MAX, 4, 4, false);)
"""
MISUSES = {
    "no_a": ("matmul_order", "SetTensorA"),
    "no_tiling": ("matmul_order", "tiling"),
    "after_end": ("matmul_order", "SetTensorA"),
    "store_first": ("matmul_order", "Iterate"),
    "bias_off": ("matmul_bias", "isBias"),
    "empty_tail": ("matmul_shape", "singleCoreM"),
    "no_shape": ("matmul_shape", "orgM"),
    "sum_of_tiles": ("matmul_shape", "enPartialSum"),
    "no_results": ("matmul_order", "Iterate<false>"),
    "long_rows": ("matmul_shape", "intrinsicsCheck"),
    "batches_of_3_and_2": ("matmul_shape", "batchA"),
    "no_batches": ("matmul_shape", "batchA is 4 and batchB 0"),
    "too_many_batches": ("matmul_shape", "4294967295 batches of 4 matrices, expected at most 65536"),
}


@pytest.fixture(scope="module")
def planted(compile_kernels):
    return compile_kernels("#define CUBE_KERNEL\n" + HEADER + PLANTED)


def line_of(text: str) -> int:
    """Return the line of a statement in the source of the planted mistakes."""
    lines = ("#define CUBE_KERNEL\n" + HEADER + PLANTED).split("\n")
    return 1 + next(number for number, line in enumerate(lines) if line.startswith(text))


@pytest.mark.parametrize("name", MISUSES)
def test_misuse_is_a_finding(planted, record_planted, name):
    arrays = matrices(128, 64, 64, "half", "float")
    report = planted.launch(name, *arrays, tiling=tiling(128, 64, 64), task_type="AIC_ONLY")
    (finding,) = report["findings"]
    kind, word = MISUSES[name]
    assert (finding["kind"], word in finding["message"]) == (kind, True), finding
    record_planted(name, finding)
    assert int(finding["where"].rsplit(":", 1)[1]) >= line_of(f"PLANT({name},")


@pytest.mark.parametrize("fields", [{"dbL0C": 3}, {"iterateOrder": 2}], ids=str)
def test_undocumented_tiling_is_a_finding_of_level_strict(planted, fields):
    arrays = matrices(128, 64, 64, "half", "float")
    data = tiling(128, 64, 64, **fields)
    (finding,) = planted.launch("right", *arrays, tiling=data, task_type="AIC_ONLY")["findings"]
    assert (finding["kind"], "iterateOrder is" in finding["message"]) == ("api_contract", True)
    planted.run("right", *arrays, tiling=data, task_type="AIC_ONLY", strict=2)  # level device


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"baseM": 24}, "baseM"),
        ({"baseK": 8}, "baseK"),
        ({"baseM": 256, "baseK": 256}, "L0A"),
        ({"baseN": 256, "baseK": 128}, "L0B"),
        ({"baseM": 256, "baseN": 256, "baseK": 16}, "L0C"),
        ({"depthA1": 3, "stepKa": 2}, "depthA1"),
        ({"depthA1": 64, "depthB1": 64}, "L1"),
        ({"stepM": 0}, "stepM"),
        ({"singleCoreK": 0}, "singleCoreK"),
    ],
    ids=str,
)
def test_wrong_tiling_is_a_finding(planted, fields, word):
    arrays = matrices(128, 64, 64, "half", "float")
    report = planted.launch("right", *arrays, tiling=tiling(128, 64, 64, **fields), task_type="AIC_ONLY")
    (finding,) = report["findings"]
    assert finding["kind"] == "matmul_tiling"
    assert word in finding["message"]
    assert "REGIST_MATMUL_OBJ" in finding["message"]


@pytest.mark.parametrize(
    ("kernel", "strict", "depth", "bias", "kinds"),
    [
        ("right", 1, 32, 0, ["matmul_tiling"]),
        ("right", 2, 32, 0, []),
        ("right", 2, 34, 0, ["matmul_tiling"]),
        ("right", 2, 32, 1, []),  # a bias needs space only if the kernel sets it
        ("bias_off", 2, 32, 1, ["cube_budget"]),
    ],
)
def test_level_device_has_the_reserved_end_of_l1(planted, kernel, strict, depth, bias, kinds):
    arrays = matrices(64, 64, 250, "half", "float")
    fields = {"depthA1": depth, "depthB1": depth, "stepKa": depth // 2, "stepKb": depth // 2, "isBias": bias}
    given = tiling(64, 64, 250, **fields)
    report = planted.launch(kernel, *arrays, tiling=given, task_type="AIC_ONLY", strict=strict)
    assert [finding["kind"] for finding in report["findings"]] == kinds


def test_each_load_of_l1_has_as_many_blocks(choose):
    status, t, _ = choose(8192, 8192, 8192, "half", cores=24, base_m=128, base_n=256, base_k=64)
    assert status == 0
    assert (t["depthA1"], t["stepKa"], t["depthB1"], t["stepKb"]) == (8, 4, 8, 4)


INTEGERS = """
extern "C" __global__ __aicore__ void integers_{tb}(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR,
                                                    GM_ADDR tiling)
{{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);
    TPipe pipe;
    Mm<int8_t, int32_t, int32_t, false, {tb}> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    Multiplied<decltype(mm), int8_t, int32_t, int32_t, false, {tb}>(mm, a, b, bias, c, t,
                                                                   [&](auto& mm, auto c) {{ mm.IterateAll(c); }});
}}
"""
QUANTIZED = """
template <class Out, bool byColumn>
__aicore__ inline void Quantized(GM_ADDR a, GM_ADDR b, GM_ADDR scales, GM_ADDR c, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);
    TPipe pipe;
    Mm<int8_t, Out, int32_t, true, false> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    GlobalTensor<uint64_t> scaleGm;
    scaleGm.SetGlobalBuffer((__gm__ uint64_t*)scales, t.N);
    if (byColumn) {
        mm.SetQuantVector(scaleGm);
    } else {
        mm.SetQuantScalar(scaleGm.GetValue(0));
    }
    Multiplied<decltype(mm), int8_t, Out, int32_t, true, false>(mm, a, b, scales, c, t,
                                                                [&](auto& mm, auto c) { mm.IterateAll(c); });
}
#define QUANTIZED(name, Out, byColumn)                                                                              \\
    extern "C" __global__ __aicore__ void name(GM_ADDR a, GM_ADDR b, GM_ADDR q, GM_ADDR c, GM_ADDR, GM_ADDR tiling) \\
    {                                                                                                               \\
        Quantized<Out, byColumn>(a, b, q, c, tiling);                                                               \\
    }
QUANTIZED(half_by_one, half, false)
QUANTIZED(half_by_column, half, true)
QUANTIZED(int8_by_one, int8_t, false)
QUANTIZED(int8_by_column, int8_t, true)
"""
TRIANGLES = """
template <class A, class C, MATMUL_POLICY_DEFAULT_OF(MatmulPolicy)>
using Product = Matmul<A, A, C, C, CFG_NORM, MatmulCallBackFunc<>, MATMUL_POLICY>;
#define TRIANGLE(name)                                                                                            \\
    extern "C" __global__ __aicore__ void name(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR, GM_ADDR ti) \\
    {                                                                                                             \\
        KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);                                                           \\
        GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, ti);                                                          \\
        TPipe pipe;                                                                                               \\
        using Half = MatmulType<TPosition::GM, CubeFormat::ND, half>;                                             \\
        using Float = MatmulType<TPosition::GM, CubeFormat::ND, float>;                                           \\
        Product<Half, Float, AscendC::Impl::Detail::name> mm;                                                     \\
        REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);                                                   \\
        Multiplied<decltype(mm), half, float, float, false, false>(                                               \\
            mm, a, b, bias, c, t, [&](auto& mm, auto c) { mm.IterateAll(c); });                                   \\
    }
TRIANGLE(TrianUpperMatmulPolicy)
TRIANGLE(TrianLowerMatmulPolicy)
"""


@pytest.fixture(scope="module")
def others(compile_kernels):
    integers = "".join(INTEGERS.format(tb=tb) for tb in ("false", "true"))
    return compile_kernels("#define CUBE_KERNEL\n" + HEADER + integers + QUANTIZED + TRIANGLES)


def bytes_of(m: int, n: int, k: int) -> tuple[Any, Any]:
    random = np.random.default_rng(m + n + k)
    return random.integers(-128, 128, (m, k), np.int8), random.integers(-128, 128, (k, n), np.int8)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("n", [90, 48, 100])
def test_sums_of_integers_are_exact(others, transposed, n):
    a, b = bytes_of(70, n, 200)
    bias = np.arange(n, dtype=np.int32) * 1000
    c = np.zeros((70, n), np.int32)
    data = tiling(70, n, 200, base=(64, 48, 64), isBias=1)
    right = np.ascontiguousarray(b.T) if transposed else b
    others.run(f"integers_{str(transposed).lower()}", a, right, bias, c, tiling=data, task_type="AIC_ONLY")
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32) + bias)


def test_integers_with_the_chosen_tiling(others, choose):
    a, b = bytes_of(256, 256, 1024)
    _, fields, data = choose(256, 256, 1024, "int8_t", cores=2)
    assert fields["baseK"] > 64
    c = np.zeros((256, 256), np.int32)
    bias = np.zeros(256, np.int32)
    others.run("integers_false", a, b, bias, c, tiling=data, task_type="AIC_ONLY", blocks=fields["usedCoreNum"])
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("by", ["one", "column"])
@pytest.mark.parametrize("out", [np.float16, np.int8])
def test_scales_of_quantisation(others, by, out):
    a, b = bytes_of(70, 90, 200)
    # 10 bits of the mantissa are exact.
    factors = (np.arange(90) % 7 + 1).astype(np.float32) / 8192
    offsets = np.arange(90) % 5 - 2
    scales = factors.view(np.uint32).astype(np.uint64) | (1 << 46)
    if out is np.int8:
        scales |= (offsets & 0x1FF).astype(np.uint64) << np.uint64(37)
    c = np.zeros((70, 90), out)
    name = f"{'half' if out is np.float16 else 'int8'}_by_{by}"
    others.run(name, np.ascontiguousarray(a.T), b, scales, c, tiling=tiling(70, 90, 200), task_type="AIC_ONLY")
    index = np.zeros(90, int) if by == "one" else np.arange(90)
    value = (a.astype(np.int32) @ b.astype(np.int32)).astype(np.float32) * factors[index]
    if out is np.int8:
        value = np.clip(np.rint(value) + offsets[index], -128, 127)
    np.testing.assert_array_equal(c, value.astype(out))


@pytest.mark.parametrize("name", ["TrianUpperMatmulPolicy", "TrianLowerMatmulPolicy"])
def test_triangles(others, name):
    arrays = matrices(128, 128, 64, "half", "float")
    others.run(name, *arrays, tiling=tiling(128, 128, 64, base=(32, 32, 32)), task_type="AIC_ONLY")
    row, column = np.indices((128, 128)) // 32
    left_out = row > column if "Upper" in name else row < column
    c = arrays[3]
    assert not c[left_out].any()
    product = arrays[0].astype(np.float64) @ arrays[1].astype(np.float64)
    c[left_out] = product[left_out]
    assert_product(arrays)
