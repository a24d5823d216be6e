"""Compare products with a right factor that has two of four elements with NumPy; planted mistakes."""

from __future__ import annotations

import numpy as np
import pytest
from planted import Planted, kernels_of

pytestmark = pytest.mark.slow

# c = A B', with A of M x K, and B of 32 x K as 32 x K / 2 values and two bits for each value.
CUBE = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR a, GM_ADDR b, GM_ADDR idx, GM_ADDR c, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    constexpr int32_t left = (K + 31) / 32, right = (K / 2 + 31) / 32 * 2;  // fractals
    TPipe pipe;
    TBuf<TPosition::A1> a1Buffer;
    TBuf<TPosition::B1> b1Buffer, indexBuffer;
    TBuf<TPosition::A2> a2Buffer;
    TBuf<TPosition::B2> b2Buffer;
    TBuf<TPosition::CO1> co1Buffer;
    pipe.InitBuffer(a1Buffer, left * 512);
    pipe.InitBuffer(b1Buffer, right * 512);
    pipe.InitBuffer(indexBuffer, right * 128);
    pipe.InitBuffer(a2Buffer, left * 512);
    pipe.InitBuffer(b2Buffer, right * 512);
    pipe.InitBuffer(co1Buffer, 2048);
    GlobalTensor<int8_t> aGm, bGm;
    GlobalTensor<uint8_t> indexGm;
    GlobalTensor<int32_t> cGm;
    aGm.SetGlobalBuffer((__gm__ int8_t*)a);
    bGm.SetGlobalBuffer((__gm__ int8_t*)b);
    indexGm.SetGlobalBuffer((__gm__ uint8_t*)idx);
    cGm.SetGlobalBuffer((__gm__ int32_t*)c);
    LocalTensor<int8_t> a1 = a1Buffer.Get<int8_t>(), b1 = b1Buffer.Get<int8_t>();
    LocalTensor<int8_t> a2 = a2Buffer.Get<int8_t>(), b2 = b2Buffer.Get<int8_t>();
    LocalTensor<uint8_t> index = indexBuffer.Get<uint8_t>();
    LocalTensor<int32_t> co1 = co1Buffer.Get<int32_t>();
    DataCopy(a1, aGm, Nd2NzParams(1, M, K, 0, K, 16, 1, 0));
    DataCopy(b1, bGm, Nd2NzParams(1, 32, K / 2, 0, K / 2, 32, 1, 0));
    DataCopy(index, indexGm, right * 128);
    SetFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    LoadData(a2, a1, LoadData2DParams(0, left, 1, 0, 0, false, 0));
    LoadDataWithSparse(b2, b1, index, LoadData2DParams(0, right, 0, 0, 0, false, 0));
    SetFlag<HardEvent::MTE1_M>(EVENT_ID0);
    WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);
    MmadWithSparse(co1, a2, b2, MmadParams(M, N, K, 0, false, true));
    SetFlag<HardEvent::M_FIX>(EVENT_ID0);
    WaitFlag<HardEvent::M_FIX>(EVENT_ID0);
    FixpipeParamsV220 store(N, M, 16, N, false);
    store.quantPre = NoQuant;
    Fixpipe<int32_t, int32_t, CFG_ROW_MAJOR>(cGm, co1, store);
}
"""
CASES = {"whole": (16, 32, 128), "tail": (13, 20, 88), "narrow": (5, 32, 32)}
LOAD = "LoadDataWithSparse(b2, b1, index, LoadData2DParams(0, right,"
PRODUCT = "MmadWithSparse(co1, a2, b2, MmadParams(M, N,"
PLANTED = [
    Planted("no_indices", LOAD, "LoadData(b2, b1, LoadData2DParams(0, right, 1 +", "sparse_indices", "filter"),
    Planted("few_indices", "LoadData2DParams(0, right, 0", "LoadData2DParams(1, right, 0", "cube_out_of_range", "src"),
    Planted("wrong_memory", "LoadDataWithSparse(b2,", "LoadDataWithSparse(a2,", "position", "expected L0B"),
    Planted("odd_k", f"{PRODUCT} K,", f"{PRODUCT} K - 2,", "field_range", "k"),
    Planted("one_row", "MmadParams(M, N, K,", "MmadParams(1, N, K,", "field_range", "no form for vectors"),
]


def _kernel(case):
    sizes = zip(("M", "N", "K"), CASES[case], strict=True)
    return "".join(f"#undef {name}\n#define {name} {size}\n" for name, size in sizes) + CUBE


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    cases = [_kernel(case).replace("NAME", case) for case in CASES]
    planted = kernels_of(_kernel("whole"), "clean", PLANTED)
    return compile_kernels('#include "kernel_operator.h"\nusing namespace AscendC;\n' + "".join([*cases, *planted]))


def _inputs(case):
    """Return A, the values and indices of B, and B."""
    m, _, k = CASES[case]
    random = np.random.default_rng(k)
    a = random.integers(-128, 128, (m, k)).astype(np.int8)
    values = random.integers(-128, 128, (32, k // 2)).astype(np.int8)
    pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])[random.integers(0, 6, (32, k // 4))]
    b = np.zeros((32, k), np.int64)
    for row in range(32):
        for group in range(k // 4):
            b[row, 4 * group + pairs[row, group]] = values[row, 2 * group : 2 * group + 2]
    # An index counts from the first element of four for the first value, and from the second one for the second value.
    bits = np.zeros((32, (k // 2 + 31) // 32 * 32), np.int64)
    bits[:, : k // 2] = (pairs - [0, 1]).reshape(32, k // 2)
    packed = (bits.reshape(32, -1, 4) << [0, 2, 4, 6]).sum(axis=2).astype(np.uint8)
    fractals = packed.reshape(2, 16, -1, 8).transpose(2, 0, 1, 3)  # columns of k, then rows of 16
    return a, values, np.ascontiguousarray(fractals).ravel(), b


@pytest.mark.parametrize("case", CASES)
def test_products_with_a_sparse_factor(kernels, case):
    m, n, _ = CASES[case]
    a, values, indices, b = _inputs(case)
    c = np.zeros((m, n), np.int32)
    report = kernels.run(case, a, values, indices, c)
    np.testing.assert_array_equal(c, (a.astype(np.int64) @ b.T)[:, :n])
    assert report["pipes"]["M"]["critical_us"] > 0


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_mistake_with_a_sparse_factor_is_found(kernels, record_planted, planted):
    a, values, indices, _ = _inputs("whole")
    findings = kernels.launch(planted.name, a, values, indices, np.zeros((16, 32), np.int32))["findings"]
    record_planted(planted.name, planted.assert_in(findings))
