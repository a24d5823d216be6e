"""Define the names that an expression may use."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from .attr_kinds import ATTR_KINDS
from .tree import Expr, Fold, Kind

ATTRIBUTE_KINDS: Mapping[str, Kind] = {
    "int": Kind.INT,
    "bool": Kind.BOOL,
    "float": Kind.REAL,
    "string": Kind.TEXT,
    **{name: Kind.LIST for name, kind in ATTR_KINDS.items() if kind.is_list},
}
# Lists whose values expressions can read; of other lists, they read the length.
_LISTS_OF_INTEGERS = ("list_int", "list_bool")


@dataclass(frozen=True)
class ExprNames:
    """The names that an expression may use.

    Attributes:
        symbols: Dimension symbols.
        stars: Symbols for any number of dimensions.
        attributes: Type by name of attribute, as in `ATTR_KINDS`.
        tensors: Names of inputs and outputs.
        tensor_lists: Those of them that are lists of tensors.
        lists: Names of the inputs with values on the host.
        variables: Further names of integers.
        definitions: Named expressions.
    """

    symbols: Collection[str] = ()
    stars: Collection[str] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    tensors: Collection[str] = ()
    tensor_lists: Collection[str] = ()
    lists: Collection[str] = ()
    variables: Collection[str] = ()
    definitions: Mapping[str, Expr] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        """Return all names that can be a whole expression."""
        return sorted({*self.symbols, *self.attributes, *self.definitions})

    @property
    def readable_lists(self) -> set[str]:
        """Names of the inputs and attributes whose values expressions can read."""
        return {*self.lists, *(name for name, kind in self.attributes.items() if kind in _LISTS_OF_INTEGERS)}

    def list_of(self, name: str) -> Fold | None:
        """Return the list with a defined name, or None."""
        found = self.definitions.get(name)
        return found if isinstance(found, Fold) and found.kind is Kind.LIST else None
