"""Test the table of high-level functions: the documentation, and the charged time of the twin."""

from __future__ import annotations

import re

import numpy as np
import pytest

from opforge.codegen.project import BUILTIN_ROOT
from opforge.twin.build import INCLUDE, npu_model

from . import test_high_families, test_high_pointwise, test_high_softmax

TABLE = INCLUDE / "opforge_twin" / "kernel" / "high" / "operations.inc"
PAGE = BUILTIN_ROOT / "docs" / "reference" / "ascend-c-high-level.md"
ROW = re.compile(r"^OPFORGE_HIGH\((\w+), (\w+), (\d+), (\d+), (\d+), (\w+), (\w+)\)$", re.MULTILINE)
UNITS = {"None": "", "Step": "256 bytes", "Row": "one row"}


def table():
    return {row[0]: row[1:] for row in ROW.findall(TABLE.read_text(encoding="utf-8"))}


def page_rows():
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells[1:] for cells in ([c.strip() for c in line.split("|")[1:-1]] for line in lines)}


def test_page_lists_table():
    expected = {
        name: [fast, slow, f"{buffers} x {UNITS[unit]}" if buffers != "0" else "", {"true": "yes", "false": ""}[same]]
        for name, (_, fast, slow, buffers, unit, same) in table().items()
    }
    assert page_rows() == expected


def cycles(name, elements, casts):
    """Return the cycles by the formula of the page."""
    constants = {key: row["value"] for key, row in npu_model()["constants"].items()}
    _, fast, slow, *_ = table()[name]
    repeats = -(-elements * 4 // 256)
    issue = constants["vector_issue_cycles"]
    each = constants["vector_cycles_per_repeat"] * repeats + issue
    slow_each = constants["vector_slow_cycles_per_repeat"] * repeats + issue
    return (int(fast) + 2 * casts) * each + int(slow) * slow_each


@pytest.fixture(scope="module")
def pointwise(compile_kernels):
    return test_high_pointwise.kernels.__wrapped__(compile_kernels)


@pytest.fixture(scope="module")
def softmax(compile_kernels):
    return test_high_softmax.kernels.__wrapped__(compile_kernels)


@pytest.fixture(scope="module")
def families(compile_kernels):
    return test_high_families.kernels.__wrapped__(compile_kernels)


def charged(report, soc_mhz=1850):
    return report["pipes"]["V"]["critical_us"] * soc_mhz


@pytest.mark.parametrize("name", test_high_pointwise.CASES)
def test_pointwise_time(pointwise, name):
    dtypes = test_high_pointwise.CASES[name][3]
    for dtype in dtypes[:2]:
        arrays = test_high_pointwise.arrays(dtype, (0.1, 0.9), np.random.default_rng(1))
        report = pointwise.run(f"{name}_{dtype}", *arrays)
        assert charged(report) == pytest.approx(cycles(name, test_high_pointwise.COUNT, dtype != "float"), rel=1e-4)


@pytest.mark.parametrize(("kernel", "name"), [("softmax", "SoftMax"), ("flash2_update", "SoftmaxFlashV2")])
def test_softmax_time(softmax, kernel, name):
    report = softmax.run(f"{kernel}_float_float", *test_high_softmax.arrays("float", "float").values())
    elements = test_high_softmax.M * test_high_softmax.K
    assert charged(report) == pytest.approx(cycles(name, elements, False), rel=1e-4)


TIMED = {
    "layer_norm_float": "LayerNorm",
    "rms_norm_half": "RmsNorm",
    "welford_float": "WelfordUpdate",
    "ReduceSum_AR_float": "ReduceSum",
    "sum_float": "Sum",
    "cum_sum_float": "CumSum",
    "broadcast_rows_float": "Broadcast",
    "unpad_float": "UnPad",
    "channel_parts_half": "TransData",
    "quant_float": "AscendQuant",
    "dequant_float": "AscendDequant",
    "drop_bytes_float": "DropOut",
    "select_bytes_float": "Select",
    "top_largest_float": "TopK",
}


@pytest.mark.parametrize(("kernel", "name"), TIMED.items())
def test_family_time(families, kernel, name):
    arrays = test_high_families.arrays(kernel.rsplit("_", 1)[1])
    report = families.run(kernel, *arrays.values())
    elements = test_high_families.R * test_high_families.H
    casts = kernel.endswith("half") or name == "AscendQuant"
    assert charged(report) == pytest.approx(cycles(name, elements, casts), rel=1e-4)
