"""The products that a spec may list: SoC directories of CANN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .tables import TABLES


@dataclass(frozen=True)
class Family:
    """What is known of a product.

    Attributes:
        name: Its SoC directory.
        devices: The products with this SoC, by their names in documents.
        version: Enumerator of op::SocVersion.
        tiling_version: Enumerator of platform_ascendc::SocVersion, if it differs.
        is_built: Whether kernels are written for its cores; operators are only documented and checked for the others.
        chips: Chips of it whose names look like those of another product.
        prefix: What the names of its chips begin with, if no other product has such names.
    """

    name: str
    devices: tuple[str, ...]
    version: str
    tiling_version: str = ""
    is_built: bool = False
    chips: tuple[str, ...] = ()
    prefix: str = ""

    @property
    def enumerator(self) -> str:
        """Enumerator of opforge::Product."""
        return f"k{self.name.capitalize()}"


_LISTS = ("devices", "chips")
_FAMILIES = (Family(**row | {key: tuple(row.get(key, ())) for key in _LISTS}) for row in TABLES["products"])
PRODUCTS: Mapping[str, Family] = {family.name: family for family in _FAMILIES}
DEVICES = tuple(device for family in PRODUCTS.values() for device in family.devices)
BUILT_PRODUCTS = tuple(name for name, family in PRODUCTS.items() if family.is_built)
# Directories that CANN knows besides.
OTHER_DIRECTORIES = tuple(TABLES["other_directories"])
# The chip that is meant where none is named; its figures are in twin/npu_model.json.
DEFAULT_SOC: str = TABLES["default_soc"]
