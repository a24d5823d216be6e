"""Evaluate the shapes and constraints of a spec with sizes that may be symbolic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch

from opforge.codegen.expr.evaluate import EvaluationError
from opforge.codegen.expr.operators import OPERATORS
from opforge.codegen.expr.program import Case, Constraint, Dim
from opforge.codegen.expr.tree import (
    Arithmetic,
    Attribute,
    Choice,
    Comparison,
    Constant,
    Dims,
    DtypeLiteral,
    DtypeOf,
    Expr,
    Extreme,
    Fold,
    HostList,
    Item,
    Junction,
    Name,
    Negative,
    Not,
    Present,
    StarDims,
    Symbol,
    Variable,
)
from opforge.codegen.expr.value_text import shape_text, value_text
from opforge.codegen.spec.checker import accepted_dtypes
from opforge.codegen.spec.model import OpSpec


class UnknownValueError(Exception):
    """An expression depends on a value that is unknown during tracing."""


@dataclass
class SymbolicCall:
    """The names of expressions in a call whose sizes may be symbolic.

    Attributes:
        spec: The operator.
        shapes: Shape by parameter; an absent one is missing.
        dtypes: Dtype name by parameter.
        attributes: Attribute values.
        lists: Values of lists on the host.
        symbols: Sizes of the case.
        stars: Dimensions of symbols with a star.
        variables: The variables of folds.
    """

    spec: OpSpec
    shapes: Mapping[str, Sequence[Any]]
    dtypes: Mapping[str, str]
    attributes: dict[str, Any]
    lists: dict[str, Sequence[Any]]
    symbols: dict[str, Any] = field(default_factory=dict)
    stars: dict[str, Sequence[Any]] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)

    def case(self) -> Case:
        """Select the case and bind its symbols."""
        for case in self.spec.program.cases:
            if self._holds(case.when):
                self._bind(case)
                return case
        rule = self.spec.program.rule("ranks")
        conditions = " or ".join(case.when_text for case in self.spec.program.cases)
        raise RuntimeError(f"{self.spec.op_type}: got none of the cases, expected {conditions} [{rule.label}]")

    def _bind(self, case: Case) -> None:
        rule = self.spec.program.rule("ranks")
        for name, shape in self.shapes.items():
            least, most = case.rank_range(name) if name in case.shapes else (0, 0)
            if name not in case.shapes or not least <= len(shape) <= most:
                expected = case.rank_text(name, self.spec.program.cases) if name in case.shapes else "null"
                got = shape_text([_plain(dim) for dim in shape])
                raise RuntimeError(f"{self.spec.op_type}: {name}: got {got}, expected {expected} [{rule.label}]")
        for name, shape in self.shapes.items():
            dims = case.shapes[name]
            star = next((position for position, dim in enumerate(dims) if dim.star), len(dims))
            for position, dim in enumerate(dims):
                if position == star:
                    self.stars.setdefault(dim.star, shape[position : len(shape) - (len(dims) - 1 - position)])
                    continue
                size = shape[position if position < star else position - len(dims)]
                match dim.expression:
                    case Symbol(name=symbol):
                        self.symbols.setdefault(symbol, size)
                    case Attribute(name=attribute):
                        self.attributes.setdefault(attribute, size)

    def require(self, case: Case) -> None:
        """Check the shapes of inputs and the constraints of the spec with torch._check.

        Raises:
            RuntimeError: A constraint is violated; the text has its label.
        """
        for constraint in self.spec.program.constraints:
            if constraint.rule == "dtypes":
                self._require_dtypes(constraint)
            elif constraint.rule == "shapes":
                self._require_shapes(case, constraint)
            elif constraint.rule is None and not constraint.products and constraint.case in {None, case.name}:
                self._require(constraint)

    def _require_dtypes(self, constraint: Constraint) -> None:
        """Check dtypes, as far as the forward operator has the tensors; gradcheck needs float64."""
        leaders: dict[str, str] = {}
        for name, got in self.dtypes.items():
            tensor = self.spec.tensor(name)
            wanted = leaders.setdefault(tensor.dtype or name, got)
            accepted = accepted_dtypes(self.spec, tensor)
            if got == "float64" and wanted == got:
                continue
            if accepted and got not in accepted:
                expected = " or ".join(accepted)
            elif not accepted and got != wanted:
                expected = f"{wanted}, the dtype of the first tensor"
            else:
                continue
            raise RuntimeError(f"{self.spec.op_type}: {name}: got {got}, expected {expected} [{constraint.label}]")

    def _require_shapes(self, case: Case, constraint: Constraint) -> None:
        for name, shape in self.shapes.items():
            try:
                wanted = self.shape(case.shapes[name])
            except UnknownValueError:
                continue
            expected = case.shape_text(name)
            torch._check(
                len(wanted) == len(shape),
                lambda name=name, shape=shape, expected=expected: self._message(constraint, name, shape, expected),
            )
            for got, size in zip(shape, wanted, strict=True):
                torch._check(
                    got == size,
                    lambda name=name, shape=shape, expected=expected: self._message(constraint, name, shape, expected),
                )

    def _message(self, constraint: Constraint, name: str, shape: Sequence[Any], expected: str) -> str:
        got = shape_text([_plain(dim) for dim in shape])
        return f"{self.spec.op_type}: {name}: got {got}, expected {expected} [{constraint.label}]"

    def _require(self, constraint: Constraint) -> None:
        try:
            holds = self.value(constraint.check)
        except (UnknownValueError, EvaluationError):
            return
        subject = constraint.subject
        got = value_text(self.attributes[subject]) if subject in self.attributes else "a call that breaks the rule"
        expected = "".join(piece if isinstance(piece, str) else self._blank(piece) for piece in constraint.pieces)
        text = f"{self.spec.op_type}: {subject}: got {got}, expected {expected} [{constraint.label}]"
        torch._check(holds, lambda: text)

    def _blank(self, expression: Expr) -> str:
        with suppress(UnknownValueError, EvaluationError):
            value = self.value(expression)
            return str(value) if isinstance(value, torch.SymInt) else value_text(value)
        return "(unknown)"

    def shape(self, dims: Sequence[Dim]) -> list[Any]:
        """Return the sizes of a shape."""
        sizes: list[Any] = []
        for dim in dims:
            if dim.star:
                if dim.star not in self.stars:
                    raise UnknownValueError(dim.star)
                sizes += self.stars[dim.star]
            else:
                sizes.append(self.value(dim.expression))
        return sizes

    def _holds(self, condition: Expr) -> bool:
        try:
            return bool(self.value(condition))
        except UnknownValueError:
            return False

    def value(self, expression: Expr) -> Any:
        """Return the value of an expression.

        Raises:
            UnknownValueError: It depends on an unknown value.
        """
        if isinstance(expression, Constant):
            return expression.name if isinstance(expression, DtypeLiteral) else expression.value
        if isinstance(expression, Name):
            return self._named(expression)
        match expression:
            case Present(tensor=tensor):
                return tensor in self.shapes
            case DtypeOf(tensor=tensor):
                return self.dtypes.get(tensor)
            case Dims(function=function, tensor=tensor):
                return _dims(function, _known(self.shapes, tensor))
            case StarDims(function=function, symbol=symbol):
                return _dims(function, _known(self.stars, symbol))
            case Item(source=source, index=index):
                return self._item(self._list(source), self.value(index))
            case Fold():
                return self._fold(expression)
            case _:
                return self._result(expression)

    def _named(self, name: Name) -> Any:
        match name:
            case Symbol():
                return _known(self.symbols, name.name)
            case Attribute():
                return _known(self.attributes, name.name)
            case Variable():
                return self.variables[name.name]

    def _result(self, expression: Expr) -> Any:
        match expression:
            case Negative(operand=operand):
                return -self.value(operand)
            case Arithmetic(operator=word, left=left, right=right) | Comparison(operator=word, left=left, right=right):
                return OPERATORS[word].compute(self.value(left), self.value(right))
            case Extreme(function=word, operands=operands):
                function = torch.sym_max if word == "max" else torch.sym_min
                first, *others = (self.value(operand) for operand in operands)
                for other in others:
                    first = function(first, other)
                return first
            case Not(operand=operand):
                return not self.value(operand)
            case Junction(operator=word, operands=operands):
                return self._junction(word == "or", operands)
            case Choice(condition=condition, chosen=chosen, other=other):
                return self.value(chosen if self.value(condition) else other)
        raise AssertionError(expression)

    def _junction(self, deciding: bool, operands: Sequence[Expr]) -> bool:
        for operand in operands:
            if bool(self.value(operand)) is deciding:
                return deciding
        return not deciding

    def _fold(self, fold: Fold) -> Any:
        if not isinstance(fold.source, HostList) or fold.function == "list":
            raise UnknownValueError(fold.function)
        results = []
        for value in self._list(fold.source):
            self.variables[fold.variable] = value
            results.append(self.value(fold.body))
        return all(results) if fold.function == "all" else sum(results)

    def _list(self, source: HostList) -> list[Any]:
        values = list(_known(self.lists | self.attributes, source.tensor))
        if source.of_steps:
            values = [value - before for value, before in zip(values, [0, *values], strict=False)]
        return values

    @staticmethod
    def _item(values: Sequence[Any], index: int) -> Any:
        if not -len(values) <= index < len(values):
            raise EvaluationError(f"a list of {len(values)} values has no value {index}")
        return values[index]


def _known(mapping: Mapping[str, Any], name: str) -> Any:
    if name not in mapping or mapping[name] is None:
        raise UnknownValueError(name)
    return mapping[name]


def _dims(function: str, shape: Sequence[Any]) -> Any:
    if function == "len":
        return len(shape)
    product: Any = 1
    for dim in shape:
        product = product * dim
    return product


def _plain(dim: Any) -> int | None:
    return dim if isinstance(dim, int) else None
