"""What the tests of the frontend share."""

import numpy as np
import pytest


@pytest.fixture
def rng():
    """The same numbers in every run."""
    return np.random.default_rng(7)
