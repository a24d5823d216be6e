"""Plant mistakes in kernels of the Matmul API: positions, workspace, quantization and formats."""

from __future__ import annotations

import numpy as np
import pytest
from planted import Planted, kernels_of

from .test_kernel_matmul import HEADER, tiling

pytestmark = pytest.mark.slow

M, N, K = 32, 32, 64
OPEN = (
    """
extern "C" __global__ __aicore__ void NAME(GM_ADDR a, GM_ADDR b, GM_ADDR, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_TASK_NAME);
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tiling);
    TPipe pipe;
    Matmul<MatmulType<TPosition::GM, CubeFormat::ND, IN_T>, MatmulType<TPosition::GM, CubeFormat::ND, IN_T>,
           MatmulType<TPosition::C_PLACE, CubeFormat::ND, OUT_T>, MatmulType<TPosition::GM, CubeFormat::ND, float>> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    GlobalTensor<IN_T> aGm, bGm;
    GlobalTensor<OUT_T> cGm;
    aGm.SetGlobalBuffer((__gm__ IN_T*)a, M * K);
    bGm.SetGlobalBuffer((__gm__ IN_T*)b, K * N);
    cGm.SetGlobalBuffer((__gm__ OUT_T*)c, M * N);
    mm.SetTensorA(aGm);
    mm.SetTensorB(bGm);
    (void)workspace;
""".replace("M * K", str(M * K))
    .replace("K * N", str(K * N))
    .replace("M * N", str(M * N))
)
TO_UB = """    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 4096);
    LocalTensor<float> local = buffer.Get<float>();
    mm.IterateAll(local);
    DataCopy(cGm, local, 1024);
    mm.End();
}
"""
TILES = """    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 4096);
    LocalTensor<float> local = buffer.Get<float>();
    GlobalTensor<float> results;
    results.SetGlobalBuffer((__gm__ float*)GetUserWorkspace(workspace));
    mm.SetWorkspace(results);
    mm.template Iterate<false>();
    mm.template GetTensorC<false>(local, 0, true);
    mm.WaitGetTensorC();
    SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    DataCopy(cGm, local, 1024);
    mm.End();
}
"""
SCALED = "    mm.SetQuantScalar(0x40003F800000ull);\n    mm.IterateAll(cGm);\n    mm.End();\n}\n"
# Task type, type of the factors, type and position of C, the kernel, and the errors.
CASES = {
    "whole": (
        ("MIX_AIC_1_1", "half", "float", "VECIN", TO_UB),
        [],
    ),
    "messages": (
        ("MIX_AIC_1_1", "half", "float", "GM", "    mm.IterateAll(cGm);\n    mm.End();\n}\n"),
        [Planted("no_workspace", "GetSysWorkSpacePtr()", "(__gm__ uint8_t*)nullptr", "matmul_workspace", "messages")],
    ),
    "tiles": (
        ("MIX_AIC_1_1", "half", "float", "VECIN", TILES),
        [Planted("tile_to_gm", "GetTensorC<false>(local", "GetTensorC<false>(cGm", "matmul_position", "copies a tile")],
    ),
    "fractals": (
        ("AIC_ONLY", "int8_t", "int8_t", "GM", SCALED),
        [],
    ),
    "scaled": (
        ("AIC_ONLY", "int8_t", "int8_t", "GM", SCALED),
        [
            Planted("no_scale", "    mm.SetQuantScalar(0x40003F800000ull);\n", "", "matmul_quant", "SetQuantScalar"),
            Planted("transposed", "SetTensorA(aGm)", "SetTensorA(aGm, true)", "api_contract", "passes 1 for the"),
            Planted("atomic", "IterateAll(cGm)", "IterateAll(cGm, 4)", "api_contract", "enAtomic is 4, expected 0"),
            Planted("tail", "IterateAll(cGm)", "Iterate(); mm.SetTail(16)", "matmul_order", "GetTensorC before"),
            Planted("not_stored", "IterateAll(cGm)", "Iterate(); mm.Iterate()", "matmul_order", "was not stored"),
        ],
    ),
}  # fmt: skip
PLANTED = [(clean, planted) for clean, (_, mistakes) in CASES.items() for planted in mistakes]


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    parts = {True: "", False: ""}
    for name, ((task, factor, out, place, rest), mistakes) in CASES.items():
        text = OPEN + rest
        if name == "fractals":
            text = text.replace("C_PLACE, CubeFormat::ND", "C_PLACE, CubeFormat::NZ")
        for field, value in (("TASK_NAME", task), ("IN_T", factor), ("OUT_T", out), ("C_PLACE", place)):
            text = text.replace(field, value)
        parts[task == "AIC_ONLY"] += "".join(kernels_of(text, name, mistakes))
    return {
        is_cube: compile_kernels(("#define CUBE_KERNEL\n" if is_cube else "") + HEADER + text)
        for is_cube, text in parts.items()
    }


def _launched(kernels, clean: str, name: str, base: tuple[int, int, int] = (32, 32, 64)):
    (task, factor, out, _, _), _ = CASES[clean]
    types = {"half": np.float16, "int8_t": np.int8, "float": np.float32}
    random = np.random.default_rng(3)
    a, b = (random.integers(-2, 3, shape).astype(types[factor]) for shape in ((M, K), (K, N)))
    c = np.zeros((M, N), types[out])
    data = tiling(M, N, K, base=base)
    report = kernels[task == "AIC_ONLY"].launch(name, a, b, np.zeros(8), c, tiling=data, task_type=task)
    return report["findings"], c, np.clip(a.astype(np.int64) @ b.astype(np.int64), -128, 127)


@pytest.mark.parametrize("clean", CASES)
def test_the_clean_kernels_are_right(kernels, clean):
    findings, c, expected = _launched(kernels, clean, clean)
    assert findings == []  # a fractal of int8_t has the 32 columns of C
    np.testing.assert_array_equal(c, expected.astype(c.dtype))


def test_tiles_of_int8_fractals_have_32_columns(kernels, record_planted):
    (finding,) = _launched(kernels, "fractals", "fractals", base=(32, 16, 64))[0]
    assert finding["kind"] == "matmul_format"
    assert "fractals of 32 columns; baseN is 16" in finding["message"]
    record_planted("half_fractals", finding)


@pytest.mark.parametrize(("clean", "planted"), PLANTED, ids=[planted.name for _, planted in PLANTED])
def test_planted_mistakes(kernels, record_planted, clean, planted):
    findings, _, _ = _launched(kernels, clean, planted.name)
    record_planted(planted.name, planted.assert_in(findings))
