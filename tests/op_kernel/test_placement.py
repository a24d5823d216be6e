"""Test that tensors which start inside a storage, as slices do, give the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from opforge.twin import run


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("storage_offset", [1, 3, 8, 24, 127])
def test_grouped_bias_add_grad(dtype, storage_offset):
    random = np.random.default_rng(7)
    inputs = {
        "grad_y": random.standard_normal((96, 133)).astype(dtype),
        "group_idx": np.array([7, 7, 40, 96]),
    }
    expected = run("GroupedBiasAddGrad", inputs)["grad_bias"]
    result = run("GroupedBiasAddGrad", inputs, storage_offset=storage_offset)
    np.testing.assert_array_equal(result["grad_bias"], expected)
    assert result.warnings == ()
