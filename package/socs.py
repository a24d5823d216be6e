"""Select the SoC directories of a package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from opforge.codegen.errors import UserError
from opforge.codegen.spec.products import BUILT_PRODUCTS, PRODUCTS, SOCS, known_socs

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec

# Chips whose names are often confused: "Ascend910B" is not Ascend910B1, and its directory is not ascend910b.
FIRST_GENERATION = {
    chip: family.name for family in PRODUCTS.values() if family.other_chips for chip in family.other_chips
}


def soc_directory(name: str, place: str = "soc") -> str:
    """Return the directory of a chip (Ascend910B1) or directory (ascend910b).

    Raises:
        UserError: The name is unknown, or a chip of the first generation.
    """
    if name in FIRST_GENERATION:
        raise UserError(
            f"{place}: got {name!r}, a chip of the first generation; use its directory {FIRST_GENERATION[name]}, or "
            "leave it out. The directory of Ascend910B1 is ascend910b"
        )
    directory = SOCS[name].dir if name in SOCS else name
    if any(soc.dir == directory for soc in SOCS.values()):
        return directory
    # The name of another chip is not a typing error, so a suggestion would be misleading.
    raise UserError(f"{place}: got {name!r}, expected a directory, as in ascend910b, or a chip of it: {known_socs()}")


def opc_chips() -> dict[str, tuple[str, str]]:
    """Return SoC directory -> architecture of its cores and the first chip of the model, which represents it in opc."""
    found: dict[str, tuple[str, str]] = {}
    for chip, soc in SOCS.items():
        if soc.dir in BUILT_PRODUCTS:
            found.setdefault(soc.dir, (str(soc.arch), chip))
    return found


def choose_socs(specs: Iterable[OpSpec], wanted: Sequence[str] | None) -> tuple[str, ...]:
    """Return the SoC directories of a package, sorted.

    Args:
        specs: The operators of the package.
        wanted: Directory names (ascend910b) or chip names (Ascend910B1); None selects all SoCs of the specs.

    Raises:
        UserError: A name is unknown, no kernel is built for it, or no operator supports it.
    """
    specs = tuple(specs)
    products = {product for spec in specs for product in spec.products}
    with_kernels = {product for spec in specs for product in spec.built_products}
    if wanted is None:
        return tuple(sorted(with_kernels))
    chosen = set()
    for name in wanted:
        directory = soc_directory(name, "--product")
        if directory not in products:
            raise UserError(
                f"--product: got {name!r}, but the operators support {', '.join(sorted(products))}; choose one of these"
            )
        if directory not in with_kernels:
            raise UserError(
                f"--product: got {name!r}, for which these operators are documented but not built; choose one of "
                f"{', '.join(sorted(with_kernels))}"
            )
        chosen.add(directory)
    return tuple(sorted(chosen))
