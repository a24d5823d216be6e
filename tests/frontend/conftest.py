"""Fixtures of the tests of the frontend."""

from types import SimpleNamespace

import numpy as np
import pytest

from opforge import twin


@pytest.fixture
def rng():
    """Return a random generator with a fixed seed."""
    return np.random.default_rng(7)


@pytest.fixture
def feed(rng):
    return {"x": rng.normal(size=(6, 3)).astype(np.float32), "i": np.array([2, 2, 5])}


@pytest.fixture
def calls(monkeypatch):
    """Replace the twin by a mock that records its calls and returns ones."""
    found = []

    def run(op_type, inputs, attrs, *, soc, level="strict", seed=0):
        found.append((op_type, dict(inputs), dict(attrs), soc))
        assert (level == "strict") == (seed == 0)
        groups = len(inputs["group_idx"]) if "group_idx" in inputs else inputs["grad_y"].shape[0]
        output = {"grad_bias": np.ones((groups, inputs["grad_y"].shape[-1]), inputs["grad_y"].dtype)}
        figures = {"gm_bytes_read": 72, "gm_bytes_written": 36, "first_touch_bytes": 256, "minimal_bytes": 108}
        report = SimpleNamespace(**figures, blocks=2, estimate_us=7.5, outside_range=("short",))
        return type("Result", (dict,), {"report": report})(output)

    monkeypatch.setattr(twin, "run", run)
    return found
