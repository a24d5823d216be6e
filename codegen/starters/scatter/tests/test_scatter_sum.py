"""Test ScatterSum on the CPU twin."""

import numpy as np
import pytest

from opforge.twin import AclnnError, run


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def indices(rows, count, dtype=np.int32):
    """Make row numbers of y, and one invalid number on each side."""
    return np.random.default_rng(1).integers(-1, count + 1, rows).astype(dtype)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("rows", "columns", "count"),
    [(1, 1, 1), (0, 5, 3), (7, 0, 2), (4, 3, 0), (300, 33, 5), (40, 70, 3000), (3, 20_001, 2)],
)
def test_kernel_computes_the_formula(rows, columns, count, dtype, agree):
    inputs = {"x": numbers(rows, columns), "indices": indices(rows, count, dtype)}
    agree("ScatterSum", inputs, {"count": count})


def test_negative_number_of_rows_is_refused():
    with pytest.raises(AclnnError, match=r"\[C4\]") as caught:
        run("ScatterSum", {"x": numbers(2, 3), "indices": indices(2, 1)}, {"count": -1})
    assert caught.value.status == 161002


def test_onnx_node_computes_the_formula(agree_as_node):
    agree_as_node("ScatterSum", {"x": numbers(20, 30), "indices": indices(20, 4)}, {"count": 4})
