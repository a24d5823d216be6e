"""Find calls with sizes near those of a call, and chips on which a plan can differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opforge.codegen.data.products import PRODUCTS, SOCS
from opforge.codegen.expr.evaluate import EvaluationError
from opforge.codegen.spec.call import shapes_of_test
from opforge.codegen.spec.section_parts import TestShape
from opforge.codegen.spec.semantics import Call, environment_of

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec

_ODD = (1, 3, 7)
Shapes = Mapping[str, tuple[int, ...]]
Place = tuple[str, int]  # a symbol, and the index of its dimension


def other_chips(spec: OpSpec, soc: str) -> tuple[str, ...]:
    """Return one chip of the spec for each combination of cores and memories that differs from that of a chip.

    A plan receives no other properties of a chip.
    """
    known = {_properties(soc)}
    found = []
    for chip in (chip for product in spec.built_products for chip in PRODUCTS[product].socs):
        if _properties(chip.name) not in known:
            known.add(_properties(chip.name))
            found.append(chip.name)
    return tuple(found)


def _properties(soc: str) -> tuple[int, ...]:
    chip = SOCS[soc]
    return chip.arch, chip.aic, chip.aiv, chip.ub, chip.l1, chip.l0a, chip.l0b, chip.l0c, chip.l2


def odd_calls(spec: OpSpec, shapes: Shapes, attrs: Mapping[str, Any]) -> dict[str, Shapes]:
    """Return shapes in which all sizes are 1, 3 or 7, by name; none for an operator with lists of tensors."""
    test = _test_of(spec, shapes, attrs)
    if test is None:
        return {}
    places = _places(test)
    found = {f"all sizes {size}": _changed(spec, test, shapes, dict.fromkeys(places, size)) for size in _ODD}
    return {name: changed for name, changed in found.items() if changed}


def neighbor_calls(spec: OpSpec, shapes: Shapes, attrs: Mapping[str, Any]) -> dict[str, Shapes]:
    """Return shapes in which one size is less or more by 1, by name; none for an operator with lists of tensors."""
    test = _test_of(spec, shapes, attrs)
    if test is None:
        return {}
    found = {
        f"{symbol}[{index}] {step:+d}": _changed(spec, test, shapes, {(symbol, index): size + step})
        for (symbol, index), size in _places(test).items()
        for step in (-1, 1)
    }
    return {name: changed for name, changed in found.items() if changed}


def _test_of(spec: OpSpec, shapes: Shapes, attrs: Mapping[str, Any]) -> TestShape | None:
    """Return the case and the symbols of a call; None if the shapes do not determine them."""
    if spec.program.lists:
        return None
    environment = environment_of(spec, Call(shapes, attrs=attrs))
    known = {**environment.symbols, **environment.stars}
    for case in spec.program.cases:
        names = {binding.symbol for binding in case.bindings}
        symbols = {name: size for name, size in known.items() if name in names and size is not None}
        if len(symbols) == len(names):
            test = TestShape.model_validate({"case": case.name, "symbols": symbols, "attrs": dict(attrs)})
            if _shapes(spec, test, shapes) == dict(shapes):
                return test
    return None


def _shapes(spec: OpSpec, test: TestShape, shapes: Shapes) -> Shapes | None:
    """Return the shapes of a test for the same tensors; None if there are none."""
    try:
        found = shapes_of_test(spec.program, test, {attr.name: attr for attr in spec.attrs})
    except EvaluationError:
        return None
    return {name: found[name] for name in shapes} if shapes.keys() <= found.keys() else None


def _places(test: TestShape) -> dict[Place, int]:
    """Return all sizes of a test."""
    return {(name, index): int(size) for name, sizes in test.symbols.items() for index, size in enumerate(_dims(sizes))}


def _dims(sizes: Any) -> tuple[Any, ...]:
    return (sizes,) if isinstance(sizes, int) else tuple(sizes)


def _changed(spec: OpSpec, test: TestShape, shapes: Shapes, sizes: Mapping[Place, int]) -> Shapes | None:
    """Return the shapes with other sizes; None if a size is less than 1, or if nothing changes."""
    if min(sizes.values()) < 1:
        return None
    symbols: dict[str, Any] = {}
    for name, old in test.symbols.items():
        new = tuple(sizes.get((name, index), size) for index, size in enumerate(_dims(old)))
        symbols[name] = new[0] if isinstance(old, int) else new
    found = _shapes(spec, test.model_copy(update={"symbols": symbols}), shapes)
    return None if found == dict(shapes) else found
