"""Define the access of rules to a model: its index, the types of its values, its constants, the operators."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property
from pathlib import Path

from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.semantics import TensorType, Violation
from opforge.frontend.ir.algebra import Algebra
from opforge.frontend.ir.constants import Constants
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.names import FreshNames
from opforge.frontend.ir.reason import Reason
from opforge.frontend.ir.value_types import ValueTypes

Specs = Mapping[str, OpSpec]
# The violated constraint of a call, or its case and the types of its outputs by parameter name.
Judgement = Violation | tuple[str, Mapping[str, TensorType]]


class Context:
    """Read access of rules to the model.

    Attributes:
        view: The index of the model.
        types: Types of its values.
        constants: Values of constants.
        specs: Operators by op type.
        judged: Cache of checked calls of custom operators.
        folder: Folder of the model, for external data; None if it is not known.
        opset_problem: The reason why the model cannot be written in the opset of training formulas; None if it can.
    """

    def __init__(
        self,
        view: GraphView,
        specs: Specs,
        folder: Path | None,
        types: ValueTypes | None = None,
        opset_problem: Reason | None = None,
    ) -> None:
        self.view = view
        self.specs = specs
        self.folder = folder
        self.judged: dict[Hashable, Judgement] = {}
        self.types = types or ValueTypes(view, list(specs.values()))
        self.constants = Constants(self.types, folder)
        self.opset_problem = opset_problem

    def over(self, view: GraphView, types: ValueTypes | None = None, opset_problem: Reason | None = None) -> Context:
        """Return the context of another model in the same folder, with the same operators."""
        return Context(view, self.specs, self.folder, types, opset_problem)

    @cached_property
    def algebra(self) -> Algebra:
        """Return the sums and products of its values."""
        return Algebra(self.types, self.constants)

    @cached_property
    def value_names(self) -> FreshNames:
        """Return names for new values."""
        return FreshNames(name for scope in self.view.scopes for name in scope.makers)
