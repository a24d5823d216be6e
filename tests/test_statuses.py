"""Test every constraint of GroupedBiasAddGrad: its label and status code, and a similar valid call."""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_uint64, c_void_p

import ml_dtypes
import numpy as np
import pytest

from opforge.codegen.project import find_project
from opforge.twin import AclnnError, run
from opforge.twin.build import build_project
from opforge.twin.runtime.acl import runtime

OP = "GroupedBiasAddGrad"
ROWS = np.ones((6, 4), np.float32)
CUBE = np.ones((2, 3, 4), np.float32)
ENDS = np.array([2, 6], np.int32)


def out(*shape, dtype=np.float32):
    return {"grad_bias": np.zeros(shape, dtype)}


@pytest.mark.parametrize(
    ("status", "label", "inputs", "attrs", "outputs"),
    [
        pytest.param(161001, "C1", {"group_idx": ENDS}, {}, out(2, 4), id="grad_y null"),
        pytest.param(161001, "C1", {"grad_y": ROWS, "group_idx": ENDS}, {}, {"grad_bias": None}, id="out null"),
        pytest.param(
            161002, "C2", {"grad_y": ROWS.astype(np.float64), "group_idx": ENDS}, {}, out(2, 4), id="grad_y double"
        ),
        pytest.param(
            161002, "C2", {"grad_y": ROWS.astype(np.int32), "group_idx": ENDS}, {}, out(2, 4), id="grad_y int32"
        ),
        pytest.param(
            161002, "C2", {"grad_y": ROWS, "group_idx": ENDS.astype(np.int16)}, {}, out(2, 4), id="group_idx int16"
        ),
        pytest.param(
            161002, "C2", {"grad_y": ROWS, "group_idx": ENDS}, {}, out(2, 4, dtype=np.float16), id="out float16"
        ),
        pytest.param(161002, "C3", {"grad_y": ROWS}, {}, out(2, 4), id="two dimensions without group_idx"),
        pytest.param(
            161002, "C3", {"grad_y": CUBE, "group_idx": ENDS}, {}, out(2, 4), id="three dimensions with group_idx"
        ),
        pytest.param(
            161002, "C3", {"grad_y": ROWS, "group_idx": ENDS[None]}, {}, out(2, 4), id="group_idx with two dimensions"
        ),
        pytest.param(161002, "C3", {"grad_y": ROWS, "group_idx": ENDS}, {}, out(8), id="out with one dimension"),
        pytest.param(
            161002, "C4", {"grad_y": ROWS, "group_idx": np.zeros(2049, np.int32)}, {}, out(2049, 4), id="2049 groups"
        ),
        pytest.param(
            161002, "C5", {"grad_y": ROWS, "group_idx": ENDS}, {}, out(3, 4), id="out with another number of groups"
        ),
        pytest.param(161002, "C5", {"grad_y": CUBE}, {}, out(2, 3), id="out with another width"),
        pytest.param(161002, "C6", {"grad_y": ROWS, "group_idx": ENDS}, {"group_idx_type": 2}, out(2, 4), id="type 2"),
        pytest.param(
            161002, "C6", {"grad_y": ROWS, "group_idx": ENDS}, {"group_idx_type": -1}, out(2, 4), id="type -1"
        ),
        # Two violated constraints: the first one is reported.
        pytest.param(161001, "C1", {"group_idx": ENDS.astype(np.int16)}, {}, out(2, 4), id="null before dtype"),
        pytest.param(
            161002, "C2", {"grad_y": CUBE.astype(np.int8), "group_idx": ENDS}, {}, out(2, 4), id="dtype before rank"
        ),
        pytest.param(
            161002, "C5", {"grad_y": ROWS, "group_idx": ENDS}, {"group_idx_type": 2}, out(3, 4), id="shape before type"
        ),
    ],
)
def test_broken_rule(status, label, inputs, attrs, outputs):
    with pytest.raises(AclnnError) as refused:
        run(OP, inputs, attrs, outputs=outputs)
    assert refused.value.status == status
    assert refused.value.message.endswith(f"[{label}]")


@pytest.mark.parametrize(
    ("inputs", "attrs", "expected"),
    [
        pytest.param({"grad_y": ROWS, "group_idx": ENDS}, {}, (2, 4), id="ends"),
        pytest.param(
            {"grad_y": ROWS, "group_idx": np.array([2, 4], np.int64)}, {"group_idx_type": 1}, (2, 4), id="lengths"
        ),
        pytest.param({"grad_y": ROWS, "group_idx": np.full(2048, 6, np.int32)}, {}, (2048, 4), id="2048 groups"),
        pytest.param({"grad_y": np.ones((2049, 1, 1), np.float32)}, {}, (2049, 1), id="2049 equal groups"),
        pytest.param({"grad_y": CUBE.astype(ml_dtypes.bfloat16)}, {}, (2, 4), id="bfloat16"),
        pytest.param({"grad_y": ROWS[:0], "group_idx": ENDS}, {}, (2, 4), id="no rows"),
        pytest.param({"grad_y": ROWS[:, :0], "group_idx": ENDS}, {}, (2, 0), id="no columns"),
        pytest.param({"grad_y": ROWS, "group_idx": ENDS[:0]}, {}, (0, 4), id="no groups"),
    ],
)
def test_accepted_neighbour(inputs, attrs, expected):
    result = run(OP, inputs, attrs)["grad_bias"]
    assert result.shape == expected
    assert result.dtype == inputs["grad_y"].dtype
    # All values are one, so that the sums are counts.
    covered = {(2, 4): 0 if inputs["grad_y"].size == 0 else inputs["grad_y"].size}.get(expected)
    if covered is not None:
        assert float(result.astype(np.float64).sum()) == covered


def test_product_without_kernels_is_561003():
    with pytest.raises(AclnnError) as refused:
        run(OP, {"grad_y": ROWS, "group_idx": ENDS}, soc="Ascend910A")
    assert refused.value.status == 561003


@pytest.mark.parametrize("missing", ["workspaceSize", "executor"])
@pytest.mark.parametrize("function", ["aclnnGroupedBiasAddGrad", "aclnnGroupedBiasAddGradV2"])
def test_null_result_pointer_is_161001(function, missing):
    operators = build_project(find_project())
    plan = getattr(ctypes.CDLL(str(operators.opapi)), f"{function}GetWorkspaceSize")
    size, executor = c_uint64(), c_void_p()
    acl = runtime()
    acl.call("aclrtSetDevice", 0)
    with (
        acl.tensor(ROWS) as (grad_y, *_),
        acl.tensor(ENDS) as (ends, *_),
        acl.tensor(np.zeros((2, 4), np.float32)) as (grad_bias, *_),
    ):
        middle = [ctypes.c_int64(0)] if function.endswith("V2") else []
        results = [
            None if missing == "workspaceSize" else byref(size),
            None if missing == "executor" else byref(executor),
        ]
        assert plan(grad_y, ends, *middle, grad_bias, *results) == 161001
    assert f"{missing}: got null" in acl.message()


def test_calls_from_another_thread():
    results = []
    worker = threading.Thread(target=lambda: results.append(run(OP, {"grad_y": CUBE})["grad_bias"]))
    worker.start()
    worker.join()
    np.testing.assert_array_equal(results[0], CUBE.sum(axis=1))
