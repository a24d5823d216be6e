"""Compile the cases, constraints, work and valid values of a spec to a program."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from opforge.codegen.data import names
from opforge.codegen.data.names import suggest
from opforge.codegen.expr.evaluate import why_never
from opforge.codegen.expr.names import ExprNames
from opforge.codegen.expr.program import (
    INDEX,
    LIMIT,
    MAX_RANK,
    TRUE,
    Binding,
    Case,
    Constraint,
    Dim,
    Program,
    Values,
    Work,
    limit_of,
)
from opforge.codegen.expr.syntax import ExprError, parse_kind
from opforge.codegen.expr.tree import (
    BoolLiteral,
    Expr,
    IntLiteral,
    Kind,
    StarDims,
    Symbol,
    certainly_present,
    reads_shapes,
    symbols_of,
)

from .field_types import RULE_STATUSES
from .yaml_nodes import KEY, Path

if TYPE_CHECKING:
    from .parts import CaseSpec, ConstraintSpec, SpecData

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STAR = re.compile(r"\*([A-Za-z_][A-Za-z0-9_]*)")


def compile_spec(spec: SpecData) -> tuple[Program, list[tuple[Path, str]]]:
    """Parse every expression of a spec.

    Returns:
        The program, and the problems as (path in the spec, message). The program is complete if there are no problems.
    """
    compiler = _Compiler(spec)
    cases = tuple(compiler.case(index, case) for index, case in enumerate(spec.cases))
    parsed = tuple(case for case in cases if case is not None)
    compiler.define()
    constraints = tuple(compiler.constraint(i, constraint, parsed) for i, constraint in enumerate(spec.constraints))
    compiler.check_rule_order(constraints)
    program = Program(
        parsed,
        constraints,
        compiler.work(parsed),
        compiler.values(parsed),
        compiler.forward(),
        compiler.counts(parsed),
        tuple(tensor.name for tensor in spec.tensor_lists),
    )
    return program, compiler.problems


def _parsed(text: str, scope: ExprNames, kinds: Sequence[Kind]) -> Expr:
    expression = parse_kind(text, scope, kinds)
    if reason := why_never(expression):
        raise ExprError(f"in {text!r}: {reason}")
    return expression


class _Compiler:
    def __init__(self, spec: SpecData) -> None:
        self._spec = spec
        self._attributes = {attr.name: attr.type for attr in spec.attrs}
        self._inputs = [tensor.name for tensor in spec.inputs]
        self._tensors = [tensor.name for tensor in spec.tensors]
        self._lists = [tensor.name for tensor in spec.host_lists]
        self._tensor_lists = [tensor.name for tensor in spec.tensor_lists]
        self._certain: dict[str, set[str]] = {}
        self._stars: set[str] = set()
        self._definitions: dict[str, Expr] = {}
        self.problems: list[tuple[Path, str]] = []

    def _problem(self, path: Path, message: str) -> None:
        self.problems.append((path, message))

    def _scope(
        self, tensors: Collection[str], symbols: Collection[str] = (), variables: Collection[str] = ()
    ) -> ExprNames:
        return ExprNames(
            symbols=set(symbols) - self._stars,
            stars=set(symbols) & self._stars,
            attributes=self._attributes,
            tensors=tensors,
            tensor_lists=[name for name in self._tensor_lists if name in tensors],
            lists=self._lists,
            variables=variables,
            definitions=self._definitions,
        )

    def case(self, index: int, case: CaseSpec) -> Case | None:
        """Return one case, or None if its condition cannot be parsed."""
        path: Path = ("cases", index)
        try:
            when = _parsed(case.when, self._scope(self._inputs), (Kind.BOOL,))
        except ExprError as error:
            self._problem((*path, "when"), str(error))
            return None
        present = {tensor.name for tensor in self._spec.inputs if not tensor.optional} | certainly_present(when)
        self._check_listed(path, case, present)
        listed = sorted((name for name in self._inputs if name in case.shapes), key=lambda name: name not in present)
        bindings = self._bindings(path, case, [name for name in listed if name not in self._tensor_lists], ())
        lists = [name for name in listed if name in self._tensor_lists]
        members = self._bindings(path, case, lists, {binding.symbol for binding in bindings})
        self._certain[case.name] = {binding.symbol for binding in bindings if binding.tensor in present}
        known_members = {binding.symbol for binding in members if binding.tensor in present}
        shapes = {}
        for tensor in self._tensors:
            if tensor not in case.shapes:
                continue
            in_list = tensor in self._tensor_lists
            bound = (*bindings, *members) if in_list else bindings
            known = self._certain[case.name] | (known_members if in_list else set())
            if tensor in self._inputs:
                known = known | {binding.symbol for binding in bound if binding.tensor == tensor}
            dims = self._dims((*path, "shapes", tensor), case.shapes[tensor], known, {b.symbol for b in bound}, in_list)
            shapes[tensor] = tuple(dims)
        parallel = self._parallel(shapes, members)
        self._check_counts(path, case.shapes, parallel)
        return Case(case.name, case.when, when, shapes, bindings, members, parallel)

    def _parallel(self, shapes: Mapping[str, Sequence[Dim]], members: Sequence[Binding]) -> tuple[str, ...]:
        """Return the lists that share symbols of their tensors with other lists; the first one binds a symbol."""
        used = {name: set().union(*(symbols_of(dim.expression) for dim in dims)) for name, dims in shapes.items()}
        shared = [b for b in members if any(b.symbol in used[name] for name in used if name != b.tensor)]
        symbols = {binding.symbol for binding in shared}
        using = [name for name in used if used[name] & symbols]
        return tuple(dict.fromkeys([*(binding.tensor for binding in shared[:1]), *using]))

    def _check_counts(self, path: Path, shapes: Collection[str], parallel: Collection[str]) -> None:
        for index, output in enumerate(self._spec.outputs):
            if not output.dynamic or output.name not in shapes:
                continue
            if output.name in parallel and output.count is not None:
                message = "got a number of tensors, expected none: its shapes have symbols of the tensors of a list"
                self._problem(("outputs", index, "count"), message)
            elif output.name not in parallel and output.count is None:
                message = (
                    "has no symbol of the tensors of an input list, expected one, or the key 'count' of the output"
                )
                self._problem((*path, "shapes", output.name), message)

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

    def _bindings(
        self, path: Path, case: CaseSpec, inputs: Iterable[str], known: Collection[str]
    ) -> tuple[Binding, ...]:
        found: dict[str, Binding] = {}
        for tensor in inputs:
            dims = [str(dim) for dim in case.shapes[tensor]]
            stars = [position for position, dim in enumerate(dims) if dim.startswith("*")]
            for extra in stars[1:]:
                self._problem((*path, "shapes", tensor, extra), "got a second dimension with a star, expected one")
            for position, dim in enumerate(dims):
                is_star = position in stars
                symbol = dim.removeprefix("*") if is_star else dim
                if not _BARE.fullmatch(symbol) or symbol in {*self._attributes, *found, *known, INDEX}:
                    continue
                if refusal := names.symbol_problem(symbol):
                    self._problem((*path, "shapes", tensor, position), refusal)
                known_as_star = symbol in self._stars
                known_as_dim = any(symbol in certain for certain in self._certain.values()) and not known_as_star
                if (is_star and known_as_dim) or (not is_star and known_as_star):
                    message = f"got {dim!r}, but {symbol} has another meaning in another case; rename one"
                    self._problem((*path, "shapes", tensor, position), message)
                    continue
                if is_star:
                    self._stars.add(symbol)
                found[symbol] = Binding(symbol, tensor, position, len(dims), stars[0] if stars else None)
        return tuple(found.values())

    def _dims(
        self, path: Path, dims: tuple[int | str, ...], known: set[str], bound: set[str], in_list: bool = False
    ) -> list[Dim]:
        if len(dims) > MAX_RANK:
            self._problem(path, f"got {len(dims)} dimensions, expected at most {MAX_RANK}")
        parsed = []
        for axis, dim in enumerate(dims):
            star = _STAR.fullmatch(dim) if isinstance(dim, str) else None
            expression: Expr = IntLiteral(0)
            try:
                expression = self._star(star[1], known) if star else self._dim(dim, known, bound, in_list)
            except ExprError as error:
                self._problem((*path, axis), str(error))
            parsed.append(Dim(str(dim), expression, star[1] if star else ""))
        return parsed

    def _star(self, symbol: str, known: set[str]) -> Expr:
        if symbol not in known & self._stars:
            raise ExprError(f"got '*{symbol}', which no input has; {suggest(symbol, known & self._stars)}")
        return StarDims("len", symbol)

    def _dim(self, dim: int | str, known: set[str], bound: set[str], in_list: bool) -> Expr:
        if isinstance(dim, int):
            if dim < 0:
                raise ExprError(f"got {dim}, expected a dimension of at least 0")
            return IntLiteral(dim)
        if dim.startswith("*"):
            raise ExprError(f"got {dim!r}, expected one symbol after the star, as in '*S'")
        if _BARE.fullmatch(dim) and dim in known - self._stars:
            return Symbol(dim)
        if _BARE.fullmatch(dim) and dim in bound:
            raise ExprError(f"got {dim!r}, which is unbound when an optional input is absent; expected another symbol")
        variables = [INDEX] if in_list and INDEX not in self._attributes else []
        if _BARE.fullmatch(dim) and dim not in {*self._attributes, *self._stars, *variables}:
            raise ExprError(f"got {dim!r}, which no input has as a dimension; {suggest(dim, known)}")
        return _parsed(dim, self._scope(self._inputs, known, variables), (Kind.INT,))

    def define(self) -> None:
        """Parse the named expressions; each may use earlier ones."""
        symbols = set().union(*self._certain.values())
        for name, text in self._spec.definitions.items():
            try:
                self._definitions[name] = _parsed(text, self._scope(self._tensors, symbols), (Kind.INT, Kind.LIST))
            except ExprError as error:
                self._problem(("definitions", name), str(error))

    def constraint(self, index: int, constraint: ConstraintSpec, cases: tuple[Case, ...]) -> Constraint:
        """Return one constraint; its check is `true` if it has none or it cannot be parsed."""
        path: Path = ("constraints", index)
        check: Expr = TRUE
        if constraint.check is not None:
            check = self._check(path, constraint, cases)
        given = constraint.model_dump(exclude={"check"}, exclude_none=True)
        return Constraint(check=check, blanks=self._blanks(path, constraint, check), **given)

    def _blanks(self, path: Path, constraint: ConstraintSpec, check: Expr) -> dict[str, Expr]:
        """Return the expressions of the placeholders in the message of a constraint."""
        limit = limit_of(check)
        known = self._definitions | ({LIMIT: limit} if limit else {})
        found = {name: value for name, value in known.items() if f"{{{name}}}" in (constraint.expected or "")}
        if f"{{{LIMIT}}}" in (constraint.expected or "") and LIMIT not in found and check is not TRUE:
            message = (
                f"got {{{LIMIT}}}, expected it with a check that ends with a comparison of integers, as in 'N <= 8'"
            )
            self._problem((*path, "expected"), message)
        return found

    def _check(self, path: Path, constraint: ConstraintSpec, cases: tuple[Case, ...]) -> Expr:
        chosen = [case for case in cases if constraint.case in {None, case.name}]
        hint = "add 'case: {}'" if constraint.case is None else "it is in case {!r}"
        check = self._expression((*path, "check"), constraint.check or "", (Kind.BOOL,), chosen, hint)
        return check or TRUE

    def work(self, cases: Sequence[Case]) -> Work:
        """Return the inputs of the shared plan."""
        tiling = self._spec.tiling
        hint = "it is in case {!r}; write a case of it, as in 'prod(x)', or a plan of the operator's own"
        sizes = {
            name: self._expression(("tiling", "work", name), str(text), (Kind.INT,), cases, hint)
            for name, text in tiling.work.items()
        }
        values = {}
        for index, field in enumerate(tiling.data):
            kinds = (Kind.REAL,) if field.type == "float32" else (Kind.INT, Kind.BOOL)
            if field.value is not None:
                path: Path = ("tiling", "data", index, "value")
                values[field.name] = self._expression(path, str(field.value), kinds, cases, hint)
        keys = [
            self._expression(("tiling", "keys", index, "when"), key.when, (Kind.BOOL,), cases, hint)
            for index, key in enumerate(tiling.keys)
            if key.when is not None
        ]
        return Work(
            {name: size or IntLiteral(0) for name, size in sizes.items()},
            {name: value or IntLiteral(0) for name, value in values.items()},
            tuple(key or TRUE for key in keys),
        )

    def values(self, cases: Sequence[Case]) -> dict[str, Values]:
        """Return the valid values by input."""
        found = {}
        for index, tensor in enumerate(self._spec.inputs):
            having = [case for case in cases if tensor.name in case.shapes]
            hint = f"it is in case {{!r}}; write a dimension of {tensor.name} or an attribute"
            parsed = {
                key: self._expression(("inputs", index, "values", key), str(text), kinds, having, hint)
                for key, text, kinds in (
                    ("low", tensor.values.low, (Kind.INT, Kind.REAL)),
                    ("high", tensor.values.high, (Kind.INT, Kind.REAL)),
                    ("lengths_when", tensor.values.lengths_when, (Kind.BOOL,)),
                )
                if text is not None
            }
            low, high = parsed.get("low"), parsed.get("high")
            bounds = (low, high) if low and high else None
            if bounds or tensor.values.ends_of:
                lengths = parsed.get("lengths_when") or BoolLiteral(value=False)
                found[tensor.name] = Values(bounds, tensor.values.ends_of or "", lengths)
        return found

    def forward(self) -> tuple[Dim, ...]:
        """Return the shape of the result of the forward operator; empty if the spec has none."""
        forward = self._spec.torch.forward
        known = set().union(*self._certain.values())
        return tuple(self._dims(("torch", "forward", "shape"), forward.shape, known, known)) if forward else ()

    def counts(self, cases: Sequence[Case]) -> dict[str, Expr]:
        """Return the numbers of tensors in output lists that have the key `count`."""
        hint = "it is in case {!r}; write an attribute, or the number of tensors in an input, as in 'len(x)'"
        found = {}
        for index, output in enumerate(self._spec.outputs):
            if output.count is not None:
                text = str(output.count)
                found[output.name] = self._expression(("outputs", index, "count"), text, (Kind.INT,), cases, hint)
        return {name: count or IntLiteral(1) for name, count in found.items()}

    def _expression(
        self, path: Path, text: str, kinds: Sequence[Kind], cases: Sequence[Case], hint: str
    ) -> Expr | None:
        """Return an expression over symbols that all `cases` bind; None if it is invalid."""
        scopes = [self._certain[case.name] for case in cases]
        everywhere = set.intersection(*scopes) if scopes else set()
        somewhere = set().union(*self._certain.values()) if self._certain else set()
        try:
            expression = _parsed(text, self._scope(self._tensors, somewhere), kinds)
        except ExprError as error:
            self._problem(path, str(error))
            return None
        for symbol in sorted(symbols_of(expression) - everywhere):
            having = next(name for name, certain in self._certain.items() if symbol in certain)
            message = f"got symbol {symbol!r}, which is not bound in every case; {hint.format(having)}"
            self._problem(path, message)
        return expression

    def check_rule_order(self, constraints: Sequence[Constraint]) -> None:
        """Check that built-in rules occur once, and that checks with symbols are after the rule that binds them."""
        order = [constraint.rule or "check" for constraint in constraints]
        always = [rule for rule in RULE_STATUSES if rule != "formats"]
        for rule in always:
            if order.count(rule) != 1:
                got = f"got {order.count(rule)} constraints with rule {rule!r}, expected one"
                self._problem(("constraints",), f"{got}, as in '{{.., rule: {rule}, status: {RULE_STATUSES[rule]}}}'")
        if order.count("formats") > 1:
            self._problem(("constraints",), "got the rule 'formats' several times, expected it at most once")
        if any(order.count(rule) != 1 for rule in always):
            return
        if not order.index("required") < order.index("dtypes") < order.index("ranks"):
            self._problem(("constraints",), "expected the rules in the order required, dtypes, ranks")
        for index, constraint in enumerate(constraints[: order.index("ranks")]):
            path: Path = ("constraints", index)
            if order[index] == "shapes" or reads_shapes(constraint.check) or constraint.case is not None:
                self._problem(path, "is before the rule 'ranks', which binds the symbols; expected it after")
            if order[index] != "required" and index < order.index("required"):
                self._problem(path, "is before the rule 'required'; expected it after")
