"""Compare the cycles of instructions of cube cores with formulas of the time model, in the kernels of other tests."""

from __future__ import annotations

import numpy as np
import pytest
from charged import COPY, FREE, MODEL

from . import test_kernel_cube, test_kernel_int4, test_kernel_quant, test_kernel_sparse

pytestmark = pytest.mark.slow

FRACTAL = 512  # bytes
LOAD, MMAD = MODEL["l1_load_issue_cycles"], MODEL["mmad_issue_cycles"]
L0A, L0B = MODEL["l1_to_l0a_bytes_per_cycle"], MODEL["l1_to_l0b_bytes_per_cycle"]
PORT, L0C = MODEL["port_first_touch_bytes_per_cycle_per_core"], MODEL["l0c_out_bytes_per_cycle"]
SUMS = 16 * 32 * 4  # bytes of the tile of test_kernel_quant
REGISTERS = (
    *("SetFmatrix", "Load3DSetFMatrixCal", "SetLoadDataBoundary", "SetLoadDataRepeat", "SetLoadDataPaddingValue"),
    "SetHF32Mode",
)
# Kernel: cycles of its functions.
CUBE_TIMES = {
    "clean_cube": {
        "InitConstValue": 2 * 48 * 32 / L0B,  # two times 48 blocks of 32 bytes
        # Two loads of 3 fractals, three of 2, and three windows of 48 rows of 32 columns
        "LoadData": 2 * (LOAD + 3 * FRACTAL / L0A) + 3 * (LOAD + 2 * FRACTAL / L0B) + 3 * (LOAD + 48 * 32 * 2 / L0B),
        "Mmad": 4 * (MMAD + 2 * 2 * 3),  # fractals
        "MmadImpl": MMAD + 2 * 2 * 3,
        **dict.fromkeys(REGISTERS, FREE),
    }
}
QUANT_TIMES = {
    "to_sums": {"Fixpipe": SUMS / PORT, "Fill": 48 * 32 / L0B, "Mmad": MMAD + 1 * 2 * 3},
    "to_half": {"Fixpipe": SUMS / 2 / PORT},
    "to_int8": {"Fixpipe": COPY},
    "kept_int8": {"Fixpipe": SUMS / L0C},
    "copy_half": {"SetFixpipePreQuantFlag": FREE, "SetFixpipeNz2ndFlag": FREE},
    "copy_columns": {
        # A, B and C; bias and scales to L1; both to their buffers
        "DataCopy": (12 * 96 + 32 * 96 + SUMS / 2) / PORT + 2 * COPY + 2 * LOAD + (128 + 256) / L0B,
        "SetFixPipeConfig": FREE,
        "SetFixpipeNz2ndFlag": FREE,
    },
}
SPARSE_TIMES = {
    "whole": {
        # Four fractals of values, and a quarter of their bytes for indices
        "LoadDataWithSparse": 2 * LOAD + 4 * FRACTAL / L0B + 4 * FRACTAL / 4 / L0B,
        "MmadWithSparse": MMAD + 1 * 2 * 4 / 2,
    }
}
INT4_TIMES = {
    "whole": {"SetMMRowMajor": FREE, "Mmad": MMAD + 1 * 2 * 2},
    "tail": {"SetMMColumnMajor": FREE},
    "narrow": {"SetMMLayoutTransform": FREE},
    "turned_int8_t": {"LoadDataWithTranspose": 2 * (LOAD + 4 * 32 * 32 / L0B)},
    "modes_reset": {"SetHF32Mode": FREE, "SetHF32TransMode": FREE},
}


def assert_cycles(kernels, expected, symbol, *arrays):
    cycles = kernels.cycles(symbol, *arrays, task_type="AIC_ONLY")
    assert {function: cycles.get(function, FREE) for function in expected} == pytest.approx(expected)


def test_loads_and_products(compile_kernels):
    kernels = test_kernel_cube.kernels.__wrapped__(compile_kernels)
    m, n, k = 20, 24, 40
    a, b, bias = np.ones((m, k), np.float16), np.ones((k, n), np.float16), np.ones(n, np.float32)
    results = np.zeros((m, n), np.float16), np.zeros((m, n), np.float32), np.zeros((m, n), np.float32)
    assert_cycles(kernels, CUBE_TIMES["clean_cube"], "clean_cube", a, b, bias, *results)


def test_stores(compile_kernels):
    kernels = test_kernel_quant.kernels.__wrapped__(compile_kernels)
    a, b, bias, scales = test_kernel_quant._inputs()
    for name, expected in QUANT_TIMES.items():
        c = np.zeros((16, 32), test_kernel_quant.DTYPES[test_kernel_quant.CASES[name][0]])
        assert_cycles(kernels, expected, name, a, b, bias, scales.view(np.uint32).astype(np.uint64), c)


def test_sparse_products(compile_kernels):
    kernels = test_kernel_sparse.kernels.__wrapped__(compile_kernels)
    a, values, indices, _ = test_kernel_sparse._inputs("whole")
    assert_cycles(kernels, SPARSE_TIMES["whole"], "whole", a, values, indices, np.zeros((16, 32), np.int32))


def test_packed_products_and_modes(compile_kernels):
    kernels = test_kernel_int4.kernels.__wrapped__(compile_kernels)
    for name, expected in INT4_TIMES.items():
        if name in test_kernel_int4.CASES:
            m, n, _, _ = test_kernel_int4.CASES[name]
            a, b, bias = test_kernel_int4._inputs(name)
            arrays = [test_kernel_int4._pack(a), test_kernel_int4._pack(b), bias, np.zeros((m, n), np.int32)]
        elif name == "turned_int8_t":
            arrays = [np.ones((16, 128), np.int8), np.ones((128, 64), np.int8), np.zeros((16, 64), np.int32)]
        else:
            arrays = []
        assert_cycles(kernels, expected, name, *arrays)
