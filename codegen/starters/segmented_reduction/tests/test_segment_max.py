"""Test SegmentMax on the CPU twin."""

import numpy as np
import pytest

from opforge.twin import AclnnError, run


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("rows", "columns", "ends"),
    [
        (1, 1, [1]),
        (0, 9, [0, 0]),
        (100, 30, [0, 40, 40, 99]),
        (3000, 70, [3000]),
        (3000, 65, [1, 2, 1499, 1500, 1500, 2999, 3000]),
        (2, 20_000, [1, 2]),
        (2000, 16, [*range(1, 2001)]),
    ],
)
def test_kernel_computes_the_formula(rows, columns, ends, dtype, agree):
    agree("SegmentMax", {"x": numbers(rows, columns), "ends": np.array(ends, dtype)})


def test_too_many_segments_are_refused():
    with pytest.raises(AclnnError, match=r"\[C4\]") as caught:
        run("SegmentMax", {"x": numbers(10, 3), "ends": np.full(2049, 10, np.int32)})
    assert caught.value.status == 161002


def test_onnx_node_computes_the_formula(agree_as_node):
    agree_as_node("SegmentMax", {"x": numbers(20, 30), "ends": np.array([5, 5, 19], np.int32)})
