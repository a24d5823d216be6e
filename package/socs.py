"""Select the SoC directories of a package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from opforge.codegen.data.products import BUILT_PRODUCTS, FIRST_GENERATION, SOCS
from opforge.codegen.errors import UserError

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec


def require_directory(name: str, place: str = "--product") -> str:
    """Return an SoC directory (ascend910b).

    Raises:
        UserError: The name is that of a chip, or unknown.
    """
    directories = dict.fromkeys(soc.dir for soc in SOCS.values())
    if name in directories:
        return name
    chip = SOCS[name].dir if name in SOCS else FIRST_GENERATION.get(name)
    # The name of another product is not a typing error, so a suggestion would be misleading.
    expected = f"the directory of this chip, {chip}" if chip else f"an SoC directory: {', '.join(directories)}"
    raise UserError(f"{place}: got {name!r}, expected {expected}")


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
        wanted: Directories (ascend910b); None selects all SoCs of the specs.

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
        directory = require_directory(name)
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
