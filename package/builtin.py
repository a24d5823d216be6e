"""List the names of CANN's built-in operators. A package with the same names hides them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec


def hidden_op_types(specs: Iterable[OpSpec]) -> list[str]:
    """Return operator types of `specs` that CANN also has."""
    return sorted(spec.op_type for spec in specs if spec.op_type in spec.builtin)


def hidden_symbols(specs: Iterable[OpSpec]) -> list[str]:
    """Return symbols of `specs` that CANN's libraries also export."""
    functions = sorted(api.function for spec in specs for api in spec.aclnn if api.function in spec.builtin)
    return [symbol for function in functions for symbol in (function, f"{function}GetWorkspaceSize")]
