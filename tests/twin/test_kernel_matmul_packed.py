"""Compare Matmul with factors of int4b_t, and with a sparse right factor, with NumPy; planted mistakes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from planted import Planted, kernels_of

from .test_kernel_matmul import HEADER, choose, tiling  # noqa: F401  # a fixture

pytestmark = pytest.mark.slow

INT4 = """
extern "C" __global__ __aicore__ void int4_{tb}(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR, GM_ADDR tiling)
{{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);
    TPipe pipe;
    Mm<int4b_t, int32_t, int32_t, false, {tb}, CFG_MDL> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    Multiplied<decltype(mm), int4b_t, int32_t, int32_t, false, {tb}>(mm, a, b, bias, c, t,
                                                                    [&](auto& mm, auto c) {{ mm.IterateAll(c); }});
}}
"""
SPARSE = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR a, GM_ADDR b, GM_ADDR index, GM_ADDR c, GM_ADDR, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);
    TPipe pipe;
    Matmul<MatmulType<TPosition::GM, CubeFormat::ND, int8_t>,
           SparseMatmulType<TPosition::GM, TPosition::GM, CubeFormat::ND, int8_t, true>,
           MatmulType<TPosition::GM, CubeFormat::ND, int32_t>, MatmulType<TPosition::GM, CubeFormat::ND, int32_t>,
           CFG_MDL> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    if (GetBlockIdx() >= t.usedCoreNum) {
        return;
    }
    const Part part = PartOf<int8_t>(t, false, true, GetBlockIdx());
    GlobalTensor<int8_t> aGm, bGm;
    GlobalTensor<uint8_t> indexGm;
    GlobalTensor<int32_t> cGm;
    aGm.SetGlobalBuffer((__gm__ int8_t*)a);
    bGm.SetGlobalBuffer((__gm__ int8_t*)b);
    indexGm.SetGlobalBuffer((__gm__ uint8_t*)index);
    cGm.SetGlobalBuffer((__gm__ int32_t*)c);
    mm.SetTensorA(aGm[part.a]);
    mm.SetTensorB(bGm[part.b / 2], true);
    mm.SetSparseIndex(indexGm[part.bias * 8]);
    mm.SetTail(part.m, part.n);
    mm.IterateAll(cGm[part.c]);
    mm.End();
}
"""
PLANTED = [
    Planted("no_index", "mm.SetSparseIndex(indexGm[part.bias * 8]);", "", "matmul_order", "SetSparseIndex"),
    Planted("dense_offset", "bGm[part.b / 2]", "bGm[part.b / 2 + t.N * t.Kb / 2]", "gm_out_of_range", "src reads"),
]


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    products = "".join(INT4.format(tb=tb) for tb in ("false", "true"))
    sparse = "".join(kernels_of(SPARSE, "sparse", PLANTED))
    return compile_kernels("#define CUBE_KERNEL\n" + HEADER + products + sparse)


def packed(matrix):
    """Two elements in each byte, the first one in the low bits."""
    pairs = matrix.astype(np.int16).reshape(matrix.shape[0], -1, 2) & 15
    return (pairs[..., 0] | pairs[..., 1] << 4).astype(np.uint8)


def quarters_of(m, n, k):
    random = np.random.default_rng(m + n + k)
    return random.integers(-8, 8, (m, k)), random.integers(-8, 8, (k, n))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(16, 64, 64), (70, 90, 200), (33, 130, 66), (1, 48, 128)])
def test_sums_of_int4_are_exact(kernels, transposed, m, n, k):
    a, b = quarters_of(m, n, k)
    bias = np.arange(n, dtype=np.int32) * 100
    c = np.zeros((m, n), np.int32)
    right = packed(np.ascontiguousarray(b.T) if transposed else b)
    data = tiling(m, n, k, base=(64, 64, 128), isBias=1)
    report = kernels.run(
        f"int4_{str(transposed).lower()}", packed(a), right, bias, c, tiling=data, task_type="AIC_ONLY"
    )
    np.testing.assert_array_equal(c, a @ b + bias)
    assert report["pipes"]["M"]["critical_us"] > 0


@pytest.mark.parametrize(("m", "n", "k"), [(256, 320, 1024), (100, 70, 6)])
def test_int4_with_the_chosen_tiling(kernels, choose, m, n, k):  # noqa: F811  # a fixture
    a, b = quarters_of(m, n, k)
    status, fields, data = choose(m, n, k, "int4b_t", cores=3, bias=1)
    assert status == 0
    assert fields["baseN"] % 64 == fields["baseK"] % 64 == 0
    c, bias = np.zeros((m, n), np.int32), np.zeros(n, np.int32)
    blocks = fields["usedCoreNum"]
    kernels.run("int4_false", packed(a), packed(b), bias, c, tiling=data, task_type="AIC_ONLY", blocks=blocks)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize(("transposed", "shape"), [(False, (16, 63, 64)), (True, (16, 64, 65))])
def test_odd_rows_of_int4_are_a_finding(kernels, transposed, shape):
    arrays = [np.zeros(8192, np.uint8), np.zeros(8192, np.uint8), np.zeros(64, np.int32), np.zeros(4096, np.int32)]
    data = tiling(*shape, base=(64, 64, 128))
    report = kernels.launch(f"int4_{str(transposed).lower()}", *arrays, tiling=data, task_type="AIC_ONLY")
    (finding,) = report["findings"]
    assert (finding["kind"], "expected even numbers" in finding["message"]) == ("matmul_shape", True)


def sparse_of(n, k):
    """Return B of n x k, its values, and its indices as fractals of 16 rows of 8 bytes."""
    random = np.random.default_rng(n + k)
    values = random.integers(-128, 128, (n, k // 2)).astype(np.int8)
    pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])[random.integers(0, 6, (n, k // 4))]
    b = np.zeros((n, k // 4, 4), np.int64)
    np.put_along_axis(b, pairs, values.reshape(n, -1, 2).astype(np.int64), axis=2)
    # An index counts from the first element of four for the first value, and from the second one for the second value.
    rows, width = -(-n // 16) * 16, -(-k // 64) * 8
    packed_bits = np.zeros((rows, width), np.uint8)
    bits = (pairs - [0, 1]).reshape(n, -1, 4)
    packed_bits[:n, : bits.shape[1]] = (bits << [0, 2, 4, 6]).sum(axis=2)
    fractals = packed_bits.reshape(rows // 16, 16, width // 8, 8).transpose(2, 0, 1, 3)
    return b.reshape(n, k), values, np.ascontiguousarray(fractals).ravel()


def _sparse(kernels, choose, m, n, k, name="sparse", **given):  # noqa: F811  # a fixture
    a = np.random.default_rng(m).integers(-128, 128, (m, k)).astype(np.int8)
    b, values, indices = sparse_of(n, k)
    status, fields, data = choose(m, n, k, "int8_t", transpose_b=1, sparse=1, **given)
    assert status == 0
    c = np.zeros((m, n), np.int32)
    blocks = fields["usedCoreNum"]
    report = kernels.launch(name, a, values, indices, c, tiling=data, task_type="AIC_ONLY", blocks=blocks)
    return report, c, a.astype(np.int64) @ b.T


@pytest.mark.parametrize(("m", "n", "k"), [(128, 768, 64), (40, 96, 640), (17, 33, 200)])
def test_products_with_a_sparse_factor(kernels, choose, m, n, k):  # noqa: F811  # a fixture
    report, c, expected = _sparse(kernels, choose, m, n, k, cores=2)
    assert report["findings"] == []
    np.testing.assert_array_equal(c, expected)
    assert report["pipes"]["M"]["critical_us"] > 0


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_mistake_with_a_sparse_factor_is_found(kernels, choose, record_planted, planted):  # noqa: F811  # a fixture
    report, _, _ = _sparse(kernels, choose, 32, 64, 128, planted.name)
    record_planted(planted.name, planted.assert_in(report["findings"]))


def test_other_types_of_a_sparse_factor_do_not_compile(compile_kernels):
    text = Path(__file__).with_name("matmul_kernel.h").read_text(encoding="utf-8") + SPARSE
    with pytest.raises(Exception, match="SparseMatmulType: Ascend 910B has int8_t in GM with ISTRANS"):
        compile_kernels("#define CUBE_KERNEL\n" + text.replace("int8_t, true>,", "int8_t, false>,"))
