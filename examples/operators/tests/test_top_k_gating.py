"""Test TopKGating on the CPU twin."""

import ml_dtypes
import numpy as np
import pytest

from opforge.twin import AclnnError, run

SHAPES = [((1, 1), 1), ((0, 5), 2), ((9,), 3), ((3, 7), 7), ((2, 50, 64), 8), ((300, 160), 6), ((5, 1024), 1024)]


def logits(*shape, dtype=np.float32):
    return {"logits": (3 * np.random.default_rng(0).standard_normal(shape)).astype(dtype)}


@pytest.mark.parametrize(("shape", "k"), SHAPES)
def test_kernel_computes_the_formula(shape, k, agree):
    agree("TopKGating", logits(*shape), {"k": k})


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_short_dtypes_are_computed_in_float32(dtype, agree):
    for shape, k in [((3, 7), 2), ((50, 64), 8), ((20, 256), 17)]:
        agree("TopKGating", logits(*shape, dtype=dtype), {"k": k})


@pytest.mark.parametrize("experts", [5, 32, 100, 256])
def test_lowest_index_of_equal_logits_is_first(experts, agree):
    few = np.random.default_rng(1).integers(0, 3, (20, experts)).astype(np.float32)
    agree("TopKGating", {"logits": few}, {"k": experts})
    got = run("TopKGating", {"logits": np.zeros((2, experts), np.float32)}, {"k": 5})
    np.testing.assert_array_equal(got["indices"], [[0, 1, 2, 3, 4]] * 2)


def test_masked_experts_have_no_weight():
    masked = np.array([[-np.inf, 1, -np.inf, 1]], np.float32)
    got = run("TopKGating", {"logits": masked}, {"k": 4})
    np.testing.assert_array_equal(got["indices"], [[1, 3, 0, 2]])
    np.testing.assert_array_equal(got["weights"], [[0.5, 0.5, 0, 0]])


@pytest.mark.parametrize(("experts", "k", "label"), [(8, 0, "C5"), (8, 9, "C5"), (1025, 2, "C4")])
def test_wrong_numbers_of_experts_are_refused(experts, k, label):
    with pytest.raises(AclnnError, match=rf"\[{label}\]") as caught:
        run("TopKGating", logits(3, experts), {"k": k})
    assert caught.value.status == 161002


def test_onnx_node_computes_the_formula(agree_as_node):
    agree_as_node("TopKGating", logits(6, 20), {"k": 4})
