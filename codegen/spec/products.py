"""The products that a spec may list: SoC directories of CANN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Family(NamedTuple):
    """What is known of a product.

    Attributes:
        devices: What documents call its devices.
        is_built: Whether kernels are written for its cores; operators are only documented and checked for the others.
    """

    devices: str
    is_built: bool = False


# In the order of `Product` in op_host/common/check.h.
PRODUCTS: Mapping[str, Family] = {
    "ascend310b": Family("Atlas 200I/500 A2 inference"),
    "ascend310p": Family("Atlas inference series"),
    "ascend910": Family("Atlas training series"),
    "ascend910b": Family("Atlas A2 training, Atlas 800I A2 inference", is_built=True),
    "ascend910_93": Family("Atlas A3 training and inference", is_built=True),
    "ascend950": Family("Ascend 950"),
}
BUILT_PRODUCTS = tuple(name for name, family in PRODUCTS.items() if family.is_built)
# The chip that is meant where none is named; its figures are in twin/npu_model.json.
DEFAULT_SOC = "Ascend910B1"
