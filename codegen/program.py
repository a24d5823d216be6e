"""A spec's shapes and constraints as a program that back ends execute."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opforge.codegen import names
from opforge.codegen.expr import (
    BoolLiteral,
    Expr,
    ExprError,
    IntLiteral,
    Scope,
    Symbol,
    certainly_present,
    parse_condition,
    parse_integer,
    symbols_of,
)
from opforge.codegen.names import suggest
from opforge.codegen.yaml_nodes import KEY, Path

if TYPE_CHECKING:
    from opforge.codegen.model import CaseSpec, ConstraintSpec, OpSpec

RULES = ("required", "dtypes", "ranks", "shapes")
MAX_RANK = 8
TRUE = BoolLiteral(value=True)
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Dim:
    """One dimension of a shape: its text in the spec and the parsed expression."""

    text: str
    expression: Expr


@dataclass(frozen=True)
class Binding:
    """The dimension that gives a symbol its value."""

    symbol: str
    tensor: str
    axis: int


@dataclass(frozen=True)
class Case:
    """One case: its condition, the shape of each tensor it lists, and where its symbols come from."""

    name: str
    when_text: str
    when: Expr
    shapes: Mapping[str, tuple[Dim, ...]]
    bindings: tuple[Binding, ...]

    def shape_text(self, tensor: str) -> str:
        """The shape as the spec writes it, `[T, H]`."""
        return f"[{', '.join(dim.text for dim in self.shapes[tensor])}]"


@dataclass(frozen=True)
class Constraint:
    """One labelled rule or condition, in the order of checks."""

    label: str
    status: int
    rule: str | None = None
    check: Expr = TRUE
    check_text: str = ""
    case: str | None = None
    subject: str = ""
    expected: str = ""


@dataclass(frozen=True)
class Program:
    """Cases and constraints of one operator."""

    cases: tuple[Case, ...]
    constraints: tuple[Constraint, ...]

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols of all cases, in the order of their first appearance."""
        return tuple(dict.fromkeys(binding.symbol for case in self.cases for binding in case.bindings))

    def case(self, name: str) -> Case:
        """The case called `name`."""
        return next(case for case in self.cases if case.name == name)

    def rule(self, name: str) -> Constraint:
        """The constraint that stands for a built-in rule."""
        return next(constraint for constraint in self.constraints if constraint.rule == name)


def compile_spec(spec: OpSpec) -> tuple[Program, list[tuple[Path, str]]]:
    """Parse every expression of a spec.

    Returns:
        The program, and what is wrong as (path in the spec, message). The program is whole if nothing is wrong.
    """
    compiler = _Compiler(spec)
    cases = tuple(compiler.case(index, case) for index, case in enumerate(spec.cases))
    parsed = tuple(case for case in cases if case is not None)
    constraints = tuple(compiler.constraint(i, constraint, parsed) for i, constraint in enumerate(spec.constraints))
    compiler.check_rule_order()
    return Program(parsed, constraints), compiler.problems


class _Compiler:
    def __init__(self, spec: OpSpec) -> None:
        self._spec = spec
        self._attributes = {attr.name: attr.type for attr in spec.attrs}
        self._inputs = [tensor.name for tensor in spec.inputs]
        self._tensors = [tensor.name for tensor in spec.tensors]
        self._certain: dict[str, set[str]] = {}
        self.problems: list[tuple[Path, str]] = []

    def _problem(self, path: Path, message: str) -> None:
        self.problems.append((path, message))

    def case(self, index: int, case: CaseSpec) -> Case | None:
        """One case, or None if its condition cannot be parsed."""
        path: Path = ("cases", index)
        try:
            when = parse_condition(case.when, Scope(attributes=self._attributes, tensors=self._inputs))
        except ExprError as error:
            self._problem((*path, "when"), str(error))
            return None
        present = {tensor.name for tensor in self._spec.inputs if not tensor.optional} | certainly_present(when)
        self._check_listed(path, case, present)
        listed = [name for name in self._inputs if name in case.shapes]
        bindings = self._bindings(path, case, sorted(listed, key=lambda name: name not in present))
        certain = {binding.symbol for binding in bindings if binding.tensor in present}
        self._certain[case.name] = certain
        all_symbols = {binding.symbol for binding in bindings}
        shapes = {}
        for tensor in self._tensors:
            if tensor not in case.shapes:
                continue
            of_absent = {binding.symbol for binding in bindings if binding.tensor == tensor}
            known = certain | of_absent if tensor in self._inputs else certain
            dims = self._dims((*path, "shapes", tensor), case.shapes[tensor], known, all_symbols)
            shapes[tensor] = tuple(dims)
        return Case(case.name, case.when, when, shapes, bindings)

    def _check_listed(self, path: Path, case: CaseSpec, present: set[str]) -> None:
        for name in case.shapes:
            if name not in self._tensors:
                self._problem((*path, "shapes", name, KEY), f"unknown tensor {name!r}; {suggest(name, self._tensors)}")
        outputs = {tensor.name for tensor in self._spec.outputs}
        for name in self._tensors:
            if name in case.shapes:
                continue
            if name in present or name in outputs:
                self._problem((*path, "shapes"), f"{name!r} is missing, expected its shape, as in '{name}: [N]'")

    def _bindings(self, path: Path, case: CaseSpec, inputs: Iterable[str]) -> tuple[Binding, ...]:
        found: dict[str, Binding] = {}
        for tensor in inputs:
            for axis, dim in enumerate(case.shapes[tensor]):
                if not isinstance(dim, str) or not _BARE.fullmatch(dim) or dim in self._attributes or dim in found:
                    continue
                if refusal := names.symbol_refusal(dim):
                    self._problem((*path, "shapes", tensor, axis), refusal)
                found[dim] = Binding(dim, tensor, axis)
        return tuple(found.values())

    def _dims(self, path: Path, dims: tuple[int | str, ...], known: set[str], bound: set[str]) -> list[Dim]:
        if len(dims) > MAX_RANK:
            self._problem(path, f"got {len(dims)} dimensions, expected at most {MAX_RANK}")
        parsed = []
        for axis, dim in enumerate(dims):
            try:
                expression = self._dim(dim, known, bound)
            except ExprError as error:
                self._problem((*path, axis), str(error))
                expression = IntLiteral(0)
            parsed.append(Dim(str(dim), expression))
        return parsed

    def _dim(self, dim: int | str, known: set[str], bound: set[str]) -> Expr:
        if isinstance(dim, int):
            if dim < 0:
                raise ExprError(f"got {dim}, expected a dimension of at least 0")
            return IntLiteral(dim)
        if dim.startswith("*"):
            raise ExprError(f"got {dim!r}, expected a symbol, an integer or an expression")
        if _BARE.fullmatch(dim) and dim in known:
            return Symbol(dim)
        if _BARE.fullmatch(dim) and dim in bound:
            raise ExprError(f"got {dim!r}, which is unbound when an optional input is absent; expected another symbol")
        if _BARE.fullmatch(dim) and dim not in self._attributes:
            raise ExprError(f"got {dim!r}, which no input has as a dimension; {suggest(dim, known)}")
        return parse_integer(dim, Scope(symbols=known, attributes=self._attributes, tensors=self._inputs))

    def constraint(self, index: int, constraint: ConstraintSpec, cases: tuple[Case, ...]) -> Constraint:
        """One constraint; its check is `true` if it has none or it cannot be parsed."""
        path: Path = ("constraints", index)
        check: Expr = TRUE
        if constraint.check is not None:
            check = self._check(path, constraint, cases)
        return Constraint(
            constraint.label,
            constraint.status,
            constraint.rule,
            check,
            constraint.check or "",
            constraint.case,
            constraint.subject or "",
            constraint.expected or "",
        )

    def _check(self, path: Path, constraint: ConstraintSpec, cases: tuple[Case, ...]) -> Expr:
        scopes = [self._certain[case.name] for case in cases if constraint.case in {None, case.name}]
        everywhere = set.intersection(*scopes) if scopes else set()
        somewhere = set().union(*self._certain.values()) if self._certain else set()
        scope = Scope(symbols=somewhere, attributes=self._attributes, tensors=self._tensors)
        try:
            check = parse_condition(constraint.check or "", scope)
        except ExprError as error:
            self._problem((*path, "check"), str(error))
            return TRUE
        for symbol in sorted(symbols_of(check) - everywhere):
            having = [name for name, certain in self._certain.items() if symbol in certain]
            hint = f"add 'case: {having[0]}'" if constraint.case is None else f"it is in case {having[0]!r}"
            self._problem((*path, "check"), f"got symbol {symbol!r}, which is not bound in every case; {hint}")
        return check

    def check_rule_order(self) -> None:
        """Each built-in rule stands once; what reads shapes stands behind the rules that make them readable."""
        order = [constraint.rule or "check" for constraint in self._spec.constraints]
        for rule in RULES:
            if order.count(rule) != 1:
                got = f"got {order.count(rule)} constraints with rule {rule!r}, expected one"
                self._problem(("constraints",), f"{got}, as in '{{label: C1, rule: {rule}, status: 161002}}'")
        if any(order.count(rule) != 1 for rule in RULES):
            return
        if not order.index("required") < order.index("dtypes") < order.index("ranks"):
            self._problem(("constraints",), "expected the rules in the order required, dtypes, ranks")
        for index, rule in enumerate(order):
            if rule in {"check", "shapes"} and index < order.index("ranks"):
                path: Path = ("constraints", index)
                self._problem(path, "stands before the rule 'ranks', which binds the symbols; expected it behind")
