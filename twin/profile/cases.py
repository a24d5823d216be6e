"""Derive the shapes of a case of `opforge profile` from sizes, through the shape symbols of the spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opforge.codegen.errors import UserError
from opforge.codegen.expr.evaluate import Environment, EvaluationError, evaluate
from opforge.codegen.expr.tree import Attribute, Kind, Symbol, walk
from opforge.codegen.expr.value_text import alternatives
from opforge.codegen.printing import shown

from .inputs import parse_shapes

if TYPE_CHECKING:
    from opforge.codegen.expr.program import Case, Dim
    from opforge.codegen.spec.model import OpSpec

MOST_CASES = 100
_MOST_NAME = 60


@dataclass(frozen=True)
class ProfileCase:
    """The shapes and attributes of one row of a profile."""

    name: str
    shapes: Mapping[str, tuple[int, ...]]
    attrs: Mapping[str, Any]


@dataclass
class _Missing:
    """The sizes that are missing in a case of the spec."""

    case: str
    names: list[str] = field(default_factory=list)


def parse_cases(spec: OpSpec, texts: Sequence[str], attrs: Mapping[str, Any]) -> list[ProfileCase]:
    """Return the cases of the texts `NAME SYMBOL=SIZE,...`.

    Raises:
        UserError: A text has another form, a name occurs twice, a symbol is unknown or missing, or no case of the spec
            has these shapes.
    """
    if len(texts) > MOST_CASES:
        raise UserError(f"--case: got {len(texts)} cases, expected at most {MOST_CASES}")
    cases: dict[str, ProfileCase] = {}
    for text in texts:
        name, _, sizes = text.partition(" ")
        if not name or not sizes or "=" in name or len(name) > _MOST_NAME or not name.isprintable():
            raise UserError(
                f"--case: got {shown(text)}, expected a name (at most {_MOST_NAME} letters) and sizes, for example"
                " --case large N=4096,H=4096"
            )
        if name in cases:
            raise UserError(f"--case: got {name} twice, expected different names")
        cases[name] = _case(spec, name, _parse_sizes(name, sizes), attrs)
    return list(cases.values())


def _parse_sizes(name: str, text: str) -> dict[str, tuple[int, ...]]:
    """Return sizes by symbol; `S=` means no dimensions for a symbol with a star."""
    parts = text.split(",")
    names = [part.partition("=")[0].strip() for part in parts]
    if twice := next((found for found in names if names.count(found) > 1), ""):
        raise UserError(f"--case {name}: got {shown(twice)} twice, expected each size once")
    absent = {part[:-1]: () for part in parts if part.endswith("=") and part[:-1].isidentifier()}
    given = [part for part in parts if part[:-1] not in absent or not part.endswith("=")]
    return absent | (parse_shapes([",".join(given)], f"--case {name}") if given else {})


def _case(spec: OpSpec, name: str, sizes: Mapping[str, tuple[int, ...]], attrs: Mapping[str, Any]) -> ProfileCase:
    integers = {attr.name for attr in spec.attrs if attr.type == "int"}
    known = {case.name: [*_symbols(spec, case)] for case in spec.program.cases}
    listed = "; ".join(f"{', '.join(symbols)} (case {case})" for case, symbols in known.items())
    if unknown := sorted(set(sizes) - set().union(*known.values()) - integers):
        raise UserError(f"--case {name}: got {shown(unknown[0])}, expected the symbols of {spec.op_type}: {listed}")
    values = dict(attrs)
    for size, dims in sizes.items():
        if size in integers:
            if size in attrs:
                raise UserError(f"--case {name}: got {size} also in --attr, expected it once")
            values[size] = _single(name, size, dims)
    missing: list[_Missing] = []
    for case in sorted(spec.program.cases, key=lambda case: case.name != name):
        symbols = {size: dims for size, dims in sizes.items() if size not in integers}
        if set(symbols) <= set(known[case.name]):
            lacking = _Missing(case.name)
            shapes = _shapes(spec, case, name, symbols, values, lacking)
            if shapes is not None:
                return ProfileCase(name, shapes, values)
            missing += [lacking] if lacking.names else []
    got = ", ".join(sizes)
    if missing:
        cases_of: dict[str, list[str]] = {}
        for lacking in missing:
            cases_of.setdefault(", ".join(lacking.names), []).append(lacking.case)
        wanted = alternatives([f"{names} (case {alternatives(cases)})" for names, cases in cases_of.items()])
        raise UserError(f"--case {name}: got sizes of {got}; {spec.op_type} also needs {wanted}; add the sizes")
    raise UserError(f"--case {name}: got sizes of {got}, expected all symbols of one case of {spec.op_type}: {listed}")


def _single(name: str, symbol: str, dims: Sequence[int]) -> int:
    if len(dims) != 1:
        raise UserError(f"--case {name}: {symbol}: got '{'x'.join(map(str, dims))}', expected one number")
    return dims[0]


def _symbols(spec: OpSpec, case: Case) -> dict[str, None]:
    """Return the names in the shapes of the inputs."""
    tensors = [tensor.name for tensor in spec.inputs if tensor.name in case.shapes]
    return {name: None for tensor in tensors for dim in case.shapes[tensor] for name in _names(dim)}


def _names(dim: Dim) -> Iterator[str]:
    if dim.star:
        yield dim.star
        return
    for part in walk(dim.expression):
        if isinstance(part, Symbol) or (isinstance(part, Attribute) and part.kind is Kind.INT):
            yield part.name


def _shapes(
    spec: OpSpec,
    case: Case,
    name: str,
    sizes: Mapping[str, tuple[int, ...]],
    attrs: Mapping[str, Any],
    missing: _Missing,
) -> dict[str, tuple[int, ...]] | None:
    """Return the shapes of the inputs; None if a size is missing or the condition of the case is false."""
    stars = {dim.star for dims in case.shapes.values() for dim in dims if dim.star}
    symbols = {size: _single(name, size, dims) for size, dims in sizes.items() if size not in stars}
    values = {attr.name: attrs.get(attr.name, attr.default) for attr in spec.attrs}
    environment = Environment(symbols, values, stars=sizes)
    known = {*sizes, *(name for name, value in values.items() if value is not None)}
    shapes: dict[str, tuple[int, ...]] = {}
    try:
        for tensor in spec.inputs:
            if tensor.name not in case.shapes:
                continue
            dims = case.shapes[tensor.name]
            lacking = [size for dim in dims for size in _names(dim) if size not in known]
            if not lacking:
                shapes[tensor.name] = tuple(size for dim in dims for size in _sizes(dim, environment))
            elif not tensor.optional:
                missing.names += [size for size in dict.fromkeys(lacking) if size not in missing.names]
        present = Environment(symbols, values, shapes, stars=sizes)
        is_right = not missing.names and evaluate(case.when, present) is True
    except EvaluationError as error:
        raise UserError(
            f"--case {name}: case {case.name}: got sizes for which a dimension has no value ({error}), expected"
            " dimensions of at least 0; give other sizes"
        ) from error
    return shapes if is_right else None


def _sizes(dim: Dim, environment: Environment) -> tuple[int, ...]:
    if dim.star:
        return tuple(size for size in environment.stars[dim.star] or () if size is not None)
    size = evaluate(dim.expression, environment)
    if not isinstance(size, int) or size < 0:
        raise EvaluationError(f"{dim.text} = {size}")
    return (size,)
