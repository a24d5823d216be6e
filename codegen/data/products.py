"""The products that a spec may list (SoC directories of CANN), and their chips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opforge.codegen.errors import UserError
from opforge.codegen.printing import shown

from .dtypes import TABLES


@dataclass(frozen=True)
class Architecture:
    """Properties of a kind of cores.

    Attributes:
        number: `__NPU_ARCH__`.
        device: Its name in options of the device compiler.
        event_ids: Event ids of a pair of pipes.
        system_workspace_mib: MiB of a workspace that are reserved for the system.
        is_coupled: Whether each core has a cube and a vector unit; DMA between GM and UB then moves whole blocks only.
        missing_dtypes: Dtypes that the cores do not support.
        queue_buffers: The maximum number of buffers of all queues of one position; 0: no limit.
    """

    number: int
    device: str
    event_ids: int
    system_workspace_mib: int
    is_coupled: bool = False
    missing_dtypes: tuple[str, ...] = ()
    queue_buffers: int = 0


@dataclass(frozen=True)
class Soc:
    """A chip: its cores, its clock and the bytes of its memories; 0: without figure.

    Attributes:
        name: Its name, for example Ascend910B1.
        dir: SoC directory of its product.
        arch: Number of its architecture, `__NPU_ARCH__`.
        aic: Cube cores.
        aiv: Vector cores.
        mhz: Clock rate of the cores.
        ub: Unified buffer of a vector core.
        l1: L1 buffer of a cube core.
        l0a: Buffer of left matrices.
        l0b: Buffer of right matrices.
        l0c: Buffer of products.
        l2: L2 cache of the chip.
    """

    name: str
    dir: str
    arch: int
    aic: int
    aiv: int
    mhz: int
    ub: int
    l1: int
    l0a: int = 0
    l0b: int = 0
    l0c: int = 0
    l2: int = 0


@dataclass(frozen=True)
class Family:
    """Properties of a product.

    Attributes:
        name: Its SoC directory.
        devices: The products with this SoC, by their names in documents.
        pages: Regular expression that finds these names on pages of aclnn functions.
        version: Enumerator of op::SocVersion.
        tiling_version: Enumerator of platform_ascendc::SocVersion, if it differs.
        is_built: Whether kernels are written for its cores; operators are only documented and checked for the others.
        other_chips: Chips of it without figures whose names are similar to those of another product.
        socs: Chips of it with figures.
        prefix: The prefix of the names of its chips, if it is unique to the product.
    """

    name: str
    devices: tuple[str, ...]
    pages: str
    version: str
    tiling_version: str = ""
    is_built: bool = False
    other_chips: tuple[str, ...] = ()
    socs: tuple[Soc, ...] = ()
    prefix: str = ""

    @property
    def arch(self) -> int:
        """Architecture of its chips; 0 without figures."""
        return self.socs[0].arch if self.socs else 0

    @property
    def is_coupled(self) -> bool:
        """Whether each of its cores has a cube and a vector unit."""
        return self.arch in ARCHITECTURES and ARCHITECTURES[self.arch].is_coupled

    def supports(self, dtype: str) -> bool:
        """Return whether its cores support a dtype."""
        return self.arch not in ARCHITECTURES or dtype not in ARCHITECTURES[self.arch].missing_dtypes

    @property
    def enumerator(self) -> str:
        """Enumerator of opforge::Product."""
        return f"k{self.name.capitalize()}"


def _family(row: Mapping[str, Any]) -> Family:
    lists = {key: tuple(row.get(key, ())) for key in ("devices", "other_chips")}
    socs = tuple(Soc(dir=row["name"], **soc) for soc in row.get("socs", ()))
    return Family(**{**row, **lists, "socs": socs})


ARCHITECTURES: Mapping[int, Architecture] = {
    row["number"]: Architecture(**{**row, "missing_dtypes": tuple(row.get("missing_dtypes", ()))})
    for row in TABLES["architectures"]
}
PRODUCTS: Mapping[str, Family] = {row["name"]: _family(row) for row in TABLES["products"]}
# Chips whose names are often confused: "Ascend910B" is not Ascend910B1, and its directory is not ascend910b.
FIRST_GENERATION = {chip: family.name for family in PRODUCTS.values() for chip in family.other_chips}
DEVICES = tuple(device for family in PRODUCTS.values() for device in family.devices)
BUILT_PRODUCTS = tuple(name for name, family in PRODUCTS.items() if family.is_built)
# Other directories that CANN has.
OTHER_DIRECTORIES = tuple(TABLES["other_directories"])
# The default chip.
DEFAULT_SOC: str = TABLES["default_soc"]
# All chips with figures: first the default one, then those with kernels.
_SOCS = (soc for family in PRODUCTS.values() for soc in family.socs)
SOCS: Mapping[str, Soc] = {
    soc.name: soc for soc in sorted(_SOCS, key=lambda soc: (soc.name != DEFAULT_SOC, soc.dir not in BUILT_PRODUCTS))
}
# The architecture of the default chip.
DEFAULT_ARCH = SOCS[DEFAULT_SOC].arch


def soc_properties(soc: str, place: str = "soc") -> Soc:
    """Return the figures of a chip; `place` is the option or parameter that contains it.

    Raises:
        UserError: The chip is unknown.
    """
    if isinstance(soc, str) and soc in FIRST_GENERATION:
        raise UserError(
            f"{place}: got {soc!r}, a chip of {FIRST_GENERATION[soc]} that opforge does not support; expected one of"
            f" {known_socs()}"
        )
    if not isinstance(soc, str) or soc not in SOCS:
        raise UserError(f"{place}: got {shown(soc)}, expected one of {known_socs()}")
    return SOCS[soc]


def known_socs() -> str:
    """Return the names of all chips, those of each SoC directory together."""
    directories = dict.fromkeys(soc.dir for soc in SOCS.values())
    return ", ".join(soc.name for name in directories for soc in PRODUCTS[name].socs)
