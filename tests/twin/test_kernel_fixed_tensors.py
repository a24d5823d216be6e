"""Run products on tensors at addresses of the kernel: the bias table, several matrices of Fixpipe, and copies of L1."""

from __future__ import annotations

import numpy as np
import pytest

from opforge.twin.runtime.launch import launch

# y[0] = A B + bias, y[1] = A B, x = A. The sums begin with the bias table if cmatrixSource is true.
PRODUCTS = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void kernel(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR y, GM_ADDR x)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    InitSocState();
    GlobalTensor<half> aGm, bGm, xGm;
    GlobalTensor<float> biasGm, yGm;
    aGm.SetGlobalBuffer((__gm__ half*)a);
    bGm.SetGlobalBuffer((__gm__ half*)b);
    biasGm.SetGlobalBuffer((__gm__ float*)bias);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    xGm.SetGlobalBuffer((__gm__ half*)x);
    LocalTensor<half> a1(TPosition::A1, 0, SIZE), b1(TPosition::B1, 512, 256);
    LocalTensor<float> c1(TPosition::C1, 1024, 16), c2(TPosition::C2, 0, 16);
    LocalTensor<half> a2(TPosition::A2, 0, 256), b2(TPosition::B2, 0, 256);
    LocalTensor<float> co1(TPosition::CO1, PLACE, 512);
    DataCopy(a1, aGm, Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
    DataCopy(b1, bGm, Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
    DataCopy(c1, biasGm, 16);
    SetFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    uint8_t padding[4] = {0, 0, 0, 0};
    SetFmatrix(1, 16, padding, FmatrixMode::FMATRIX_LEFT);
    LoadData3DParamsV2Pro window;
    window.channelSize = 16;
    window.extConfig = (uint64_t{0} << 48) | (uint64_t{0} << 32) | (uint64_t{16} << 16) | uint64_t{16};
    window.filterConfig = FILTER;
    LoadData(a2, a1, window);
    LoadData(b2, b1, LoadData2DParams(0, 1, 1, 0, 0, true, 0));
    DataCopy(c2, c1, DataCopyParams(1, 1, 0, 0)); // bias
    SetFlag<HardEvent::MTE1_M>(EVENT_ID0);
    WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);
    Mmad(co1, a2, b2, MmadParams(16, 16, 16, 0, true, false));
    Mmad(co1[256], a2, b2, MmadParams(16, 16, 16, 0, false, true));
    SetFlag<HardEvent::M_FIX>(EVENT_ID0);
    WaitFlag<HardEvent::M_FIX>(EVENT_ID0);
    FixpipeParamsV220 store(16, 16, 16, 16, false);
    store.ndNum = 2;
    store.srcNdStride = STRIDE;
    store.dstNdStride = 256;
    Fixpipe<float, float, CFG_ROW_MAJOR>(yGm, co1, store);
    SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0); // copy
    DataCopy(xGm, a1, 256);
}
"""
FIELDS = {"SIZE": "256", "PLACE": "0", "FILTER": "0x10101010101", "STRIDE": "1"}


def _run(level="strict", without="", text=PRODUCTS, **fields):
    random = np.random.default_rng(3)
    a, b = (random.integers(-4, 5, (16, 16)).astype(np.float16) for _ in range(2))
    bias = random.integers(-100, 100, 16).astype(np.float32)
    y, x = np.zeros((2, 16, 16), np.float32), np.zeros((16, 16), np.float16)
    text = "\n".join(line for line in text.splitlines() if not without or without not in line)
    for name, value in {**FIELDS, **fields}.items():
        text = text.replace(name, value)
    findings = launch(text, "kernel", 1, [a, b, bias, y, x], level=level, lint=False)
    product = a.astype(np.float64) @ b.astype(np.float64)
    return findings, [y[0] - product, y[1] - product, x - a], bias


def test_products_begin_with_the_bias_table_and_one_fixpipe_stores_both():
    findings, (first, second, copied), bias = _run()
    assert findings == []
    assert np.array_equal(first, np.broadcast_to(bias, (16, 16)))
    assert not second.any()
    assert not copied.any()


@pytest.mark.parametrize(
    ("without", "fields", "kind", "word"),
    [
        ("// bias", {}, "uninitialised_read", "bias"),
        ("// copy", {}, "race", "src"),
        ("", {"STRIDE": "0"}, "field_range", "srcNdStride"),
        ("", {"STRIDE": "513"}, "field_range", "srcNdStride"),
        ("", {"STRIDE": "2"}, "cube_out_of_range", "src"),
        ("", {"FILTER": "0x10101010140"}, "field_range", "strideW"),
    ],
)
def test_a_planted_mistake_is_named(without, fields, kind, word):
    findings, _, _ = _run(without=without, **fields)
    assert any(finding.kind == kind and word in finding.message for finding in findings), findings


def test_level_device_ignores_the_size_of_a_tensor_at_a_fixed_address():
    for level, kinds in (("strict", {"cube_out_of_range"}), ("fast", {"cube_out_of_range"}), ("device", set())):
        findings, (first, second, copied), bias = _run(level=level, SIZE="128")
        assert {finding.kind for finding in findings} == kinds
    assert np.array_equal(first, np.broadcast_to(bias, (16, 16)))
    assert not second.any()
    assert not copied.any()


@pytest.mark.parametrize("level", ["strict", "device"])
def test_an_access_after_the_memory_is_a_finding_in_all_levels(level):
    findings, _, _ = _run(level=level, PLACE="131072 - 1024")
    assert findings
    assert {finding.kind for finding in findings} <= {"cube_out_of_range", "cube_budget"}, findings


@pytest.mark.parametrize(("stored", "kinds"), [(16, {"uninitialised_read"}), (8, set())])
def test_level_device_accepts_an_undefined_bias_of_columns_that_are_not_used(stored, kinds):
    """The last 8 columns of the bias table come from bytes of L1 that no instruction has written."""
    text = PRODUCTS.replace("DataCopy(c1, biasGm, 16);", "DataCopy(c1, biasGm, 8);")
    text = text.replace("FixpipeParamsV220 store(16, 16", f"FixpipeParamsV220 store({stored}, 16")
    findings, (first, _, _), bias = _run(text=text, level="device")
    assert {finding.kind for finding in findings} == kinds, findings
    assert all("undefined bytes of bias" in finding.message for finding in findings)
    assert np.array_equal(first[:, :8], np.broadcast_to(bias[:8], (16, 8)))
    findings, _, _ = _run(text=text, level="strict")
    assert {finding.kind for finding in findings} == {"uninitialised_read"}


def test_the_parameters_before_v220_store_the_same_rows():
    """cburstNum columns of fractals of burstLen blocks of 32 bytes; originalNSize columns of rows."""
    begin = PRODUCTS.index("    FixpipeParamsV220 store")
    end = PRODUCTS.index("    Fixpipe<")
    fields = (
        "    FixpipeParams<float> store(1, 32, 0, 16);\n    store.quantParams = {NoQuant};\n"
        "    store.nz2ndParams = {true, 2, 1, 256, 16};\n"
    )
    text = PRODUCTS[:begin] + fields + PRODUCTS[end:].replace("Fixpipe<float, float, CFG_ROW_MAJOR>", "Fixpipe")
    findings, (first, second, _), bias = _run(text=text)
    assert findings == []
    assert np.array_equal(first, np.broadcast_to(bias, (16, 16)))
    assert not second.any()
    findings, (first, second, _), bias = _run(text=text.replace("{true, 2", "{false, 2"))
    assert findings == []
    assert np.array_equal(first, np.broadcast_to(bias, (16, 16)))  # one fractal, of 16 x 16 floats
    assert second.any()


def test_the_image_of_a_window_has_a_second_name():
    text = PRODUCTS.replace(
        "SetFmatrix(1, 16, padding, FmatrixMode::FMATRIX_LEFT)", "Load3DSetFMatrixCal(1, 16, padding)"
    )
    findings, (first, second, _), bias = _run(text=text)
    assert findings == []
    assert np.array_equal(first, np.broadcast_to(bias, (16, 16)))
    assert not second.any()
    findings, _, _ = _run(text=text.replace("(1, 16, padding)", "(1, 8, padding)"))
    assert findings
    assert {finding.kind for finding in findings} == {"uninitialised_read"}  # 8 rows are outside of the image


def test_level_device_accepts_the_image_of_the_right_factor():
    """The document permits the left image only, and public kernels use both; each has its own size."""
    right = (
        "SetFmatrix(1, 16, padding, FmatrixMode::FMATRIX_RIGHT); SetFmatrix(1, 8, padding, FmatrixMode::FMATRIX_LEFT);"
    )
    text = PRODUCTS.replace("SetFmatrix(1, 16, padding, FmatrixMode::FMATRIX_LEFT);", right)
    text = text.replace("LoadData3DParamsV2Pro window;", "LoadData3DParamsV2Pro window; window.fMatrixCtrl = true;")
    for level in ("strict", "fast"):
        (finding,) = _run(text=text, level=level)[0]
        assert (finding.kind, "use FMATRIX_LEFT" in finding.message) == ("field_range", True)
    findings, (first, second, _), bias = _run(text=text, level="device")
    assert findings == []
    assert np.array_equal(first, np.broadcast_to(bias, (16, 16)))
    assert not second.any()
    findings, _, _ = _run(text=text.replace("window.fMatrixCtrl = true;", ""), level="device")
    assert {finding.kind for finding in findings} == {"uninitialised_read"}  # 8 rows are outside of the left image
    findings, _, _ = _run(text=text.replace(right[: right.index(";") + 1], ""), level="device")
    assert "call SetFmatrix" in findings[0].message


@pytest.mark.parametrize("columns", [16, 8])
def test_fractals_of_float_are_split(columns):
    begin = PRODUCTS.index("    FixpipeParamsV220 store")
    end = PRODUCTS.index("    Fixpipe<")
    fields = f"    FixpipeParamsV220 store({columns}, 16, 16, 20, false);\n    store.isChannelSplit = true;\n"
    text = PRODUCTS[:begin] + fields + PRODUCTS[end:].replace("CFG_ROW_MAJOR", "CFG_NZ")
    for old, new in FIELDS.items():
        text = text.replace(old, new)
    random = np.random.default_rng(3)
    a, b = (random.integers(-4, 5, (16, 16)).astype(np.float16) for _ in range(2))
    bias = random.integers(-100, 100, 16).astype(np.float32)
    y, x = np.zeros(512, np.float32), np.zeros((16, 16), np.float16)
    assert launch(text, "kernel", 1, [a, b, bias, y, x], lint=False) == []
    expected = np.zeros(512, np.float32)
    product = (a.astype(np.float64) @ b.astype(np.float64) + bias).reshape(16, 2, 8)
    for part in range(columns // 8):  # dstStride is 20 blocks of 8 floats
        expected[part * 160 : part * 160 + 128] = product[:, part].reshape(-1)
    assert np.array_equal(y, expected)
    planted = text.replace("isChannelSplit = true;", "isChannelSplit = true; store.unitFlag = 3;")
    assert any(
        finding.kind == "field_range" for finding in launch(planted, "kernel", 1, [a, b, bias, y, x], lint=False)
    )
    planted = text.replace("CFG_NZ", "CFG_ROW_MAJOR")
    (finding,) = launch(planted, "kernel", 1, [a, b, bias, y, x], lint=False)
    assert "isChannelSplit" in finding.message


SUMS_OF_BYTES = """#include "kernel_operator.h"
extern "C" __global__ __aicore__ void kernel(GM_ADDR x)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    AscendC::SetAtomicAdd<SUM_T>();
    AscendC::SetAtomicNone();
    (void)x;
}
"""


@pytest.mark.parametrize("level", ["strict", "device"])
def test_atomic_add_of_other_dtypes_is_a_finding_when_it_runs(level):
    findings = launch(SUMS_OF_BYTES.replace("SUM_T", "int16_t"), "kernel", 1, [np.zeros(8)], level=level, lint=False)
    assert findings == []
    findings = launch(SUMS_OF_BYTES.replace("SUM_T", "uint8_t"), "kernel", 1, [np.zeros(8)], level=level, lint=False)
    assert [finding.kind for finding in findings] == ["field_range"]
    assert "Ascend 910B adds float" in findings[0].message
