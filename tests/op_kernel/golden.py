"""Common parts of kernel tests: dtypes, references, comparison within an error bound."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import ml_dtypes
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
# Largest relative and absolute error of rounding a real number to the dtype.
ROUNDING = {"float16": (2.0**-11, 2.0**-25), "bfloat16": (2.0**-8, 2.0**-134), "float32": (2.0**-24, 2.0**-150)}


def load_reference(operator):
    """Return the function `reference` of tests/reference/<operator>.py."""
    path = ROOT / "tests" / "reference" / f"{operator}.py"
    module_spec = importlib.util.spec_from_file_location(f"reference_{operator}", path)
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    return module.reference


def values(shape, dtype, seed=0):
    """Return normally distributed numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def rounded(exact, computed, dtype):
    """Return the error `computed` of a number, plus the error of its rounding to the dtype."""
    relative, absolute = ROUNDING[np.dtype(dtype).name]
    return computed + relative * (np.abs(exact) + computed) + absolute


def assert_within(got, exact, bound):
    """Check that the distance of every element of `got` from `exact` is at most `bound`."""
    assert got.shape == exact.shape
    error = np.abs(got.astype(np.float64) - exact)
    worst = np.unravel_index(np.argmax(error - bound), error.shape) if error.size else ()
    assert np.all(error <= bound), f"at {worst}: got {got[worst]}, exact {exact[worst]}, bound {bound[worst]}"
