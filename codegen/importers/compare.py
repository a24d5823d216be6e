"""Compare a spec with its source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from opforge.codegen.data.names import camel_problem
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.parts import TensorSpec
from opforge.codegen.views.facts import declared_columns

from .aclnn_page import KIND as PAGE
from .draft import COMBINED_KINDS, DYNAMIC, OPTIONAL, REQUIRED, AttrDraft, FieldDraft, OperatorDraft, TensorDraft


def draft_of(spec: OpSpec, products: Sequence[str]) -> OperatorDraft:
    """Return the facts in the OpDef, tiling data and functions of a spec, for some of its products."""
    columns = declared_columns(spec)

    def tensors(group: Sequence[object]) -> tuple[TensorDraft, ...]:
        return tuple(
            TensorDraft(
                tensor.ir_name,
                DYNAMIC if tensor.dynamic else OPTIONAL if tensor.optional else REQUIRED,
                columns[tensor.name],
                value_depend=_value_depend(tensor),
                scalar=tensor.scalar or "",
            )
            for tensor in spec.tensors
            if tensor in group
        )

    attrs = tuple(AttrDraft(attr.ir_name, attr.type, attr.default) for attr in spec.attrs)
    fields = tuple(FieldDraft(field.name, field.type, field.count) for field in spec.tiling.data)
    ours = OperatorDraft(spec.op_type, "", "spec", tensors(spec.inputs), tensors(spec.outputs), attrs, tuple(products))
    return replace(ours, fields=fields, functions=tuple((one.function, tuple(one.params)) for one in spec.aclnn))


def _value_depend(tensor: TensorSpec) -> str:
    if not (tensor.host_values or tensor.value_depend):
        return ""
    option = OPTIONAL if tensor.optional else REQUIRED
    return tensor.value_depend if isinstance(tensor.value_depend, str) else option


def differences(ours: OperatorDraft, source: OperatorDraft) -> list[str]:
    """Return the differences between a spec and a source, one line each."""
    if source.kind == PAGE:  # it does not state whether values must be constants
        inputs = tuple(replace(one, value_depend=one.value_depend and one.option) for one in ours.inputs)
        ours = replace(ours, inputs=inputs)
    found = [*_parameters("input", ours.inputs, source.inputs), *_parameters("output", ours.outputs, source.outputs)]
    found += _attrs(ours.attrs, source.attrs)
    found += _columns(*_shared(ours, source))
    if source.products:
        found += _sets("configuration", ours.products, source.products)
    if ours.fields and source.fields:
        found += _fields(ours.fields, source.fields)
    if source.function and source.op_type == ours.op_type:
        found += _function(dict(ours.functions), source)
    return found


def not_compared(ours: OperatorDraft, source: OperatorDraft) -> list[str]:
    """Return the statements of a source that are not compared, because a spec or a draft does not have them."""
    found = []
    if ours.op_type != source.op_type:
        found.append(f"the spec has the operator type {ours.op_type}, the source has {source.op_type}")
    for tensor in source.tensors:
        formats = list(dict.fromkeys(tensor.formats))
        if formats not in ([], ["ND"]):
            found.append(f"{tensor.name}: storage formats {', '.join(formats)}; the OpDef of a spec has ND")
    mine, theirs = map(_rows, _shared(ours, source))
    if mine and theirs and set(mine) == set(theirs) and mine != list(dict.fromkeys(theirs)):
        found.append("the order of the dtype combinations, which differs")
    if source.fields and not ours.fields:
        found.append(f"tiling data with {len(source.fields)} fields; the spec has none")
    if source.kind == PAGE:
        count = len(source.notes) + len(source.stated) + len(source.rules)
        return [*found, f"{count} statements of the page about constraints, return codes and usage"]
    return found + [f"line {note.line}: {note.text}" if note.line else note.text for note in source.notes]


def _names(group: Sequence[TensorDraft] | Sequence[AttrDraft] | Sequence[FieldDraft]) -> list[str]:
    return [one.name for one in group]


def _sets(what: str, ours: Sequence[str], source: Sequence[str]) -> Iterator[str]:
    for name in sorted(set(source) - set(ours)):
        yield f"{what} {name}: only the source has it"
    for name in sorted(set(ours) - set(source)):
        yield f"{what} {name}: only the spec has it"


def _lists(what: str, ours: list[str], source: list[str]) -> Iterator[str]:
    """Yield the names of one side only, and another order of the others."""
    yield from _sets(what, ours, source)
    mine, theirs = [name for name in ours if name in source], [name for name in source if name in ours]
    if mine != theirs:
        yield f"{what}s: the spec has the order {', '.join(mine)}; the source has {', '.join(theirs)}"


def _parameters(what: str, ours: Sequence[TensorDraft], source: Sequence[TensorDraft]) -> Iterator[str]:
    yield from _lists(what, _names(ours), _names(source))
    theirs = {tensor.name: tensor for tensor in source}
    for tensor in ours:
        other = theirs.get(tensor.name)
        if other is None:
            continue
        if tensor.option != other.option:
            yield f"{what} {tensor.name}: the spec has {tensor.option}, the source has {other.option}"
        if tensor.scalar != other.scalar:
            kinds = {"": "a tensor", "one": "a scalar", "list": "a list of scalars"}
            yield f"{what} {tensor.name}: the spec has {kinds[tensor.scalar]}, the source has {kinds[other.scalar]}"
        if tensor.value_depend != other.value_depend:
            words = {"": "on the device", REQUIRED: "on the host", OPTIONAL: "on the host if they are constants"}
            yield (
                f"{what} {tensor.name}: the spec has values {words[tensor.value_depend]},"
                f" the source has values {words[other.value_depend]}"
            )


def _attrs(ours: Sequence[AttrDraft], source: Sequence[AttrDraft]) -> Iterator[str]:
    yield from _lists("attribute", _names(ours), _names(source))
    theirs = {attr.name: attr for attr in source}
    for attr in ours:
        other = theirs.get(attr.name)
        if other is not None and attr.type != other.type:
            yield f"attribute {attr.name}: the spec has the type {attr.type}, the source has {other.type}"
        elif other is not None and attr.default != other.default:
            yield f"attribute {attr.name}: the spec has {_default(attr)}, the source has {_default(other)}"


def _default(attr: AttrDraft) -> str:
    return "no default" if attr.default is None else f"the default {attr.default!r}"


def _fields(ours: Sequence[FieldDraft], source: Sequence[FieldDraft]) -> Iterator[str]:
    yield from _lists("tiling field", _names(ours), _names(source))
    theirs = {field.name: field for field in source}
    for field in ours:
        other = theirs.get(field.name, field)
        mine, their = (f"{one.type}[{one.count}]" if one.count else one.type for one in (field, other))
        if mine != their:
            yield f"tiling field {field.name}: the spec has {mine}, the source has {their}"


def _function(functions: dict[str, tuple[str, ...]], source: OperatorDraft) -> Iterator[str]:
    """Yield the differences from the function of a page."""
    if source.function not in functions:
        yield f"function {source.function}: only the source has it"
    elif source.order:
        # Names that no function of a spec can have were replaced.
        theirs = [name for name in source.order if not camel_problem(name)]
        mine = [name for name in functions[source.function] if name in theirs or len(theirs) == len(source.order)]
        yield from _lists(f"parameter of {source.function}", mine, theirs)


def _shared(ours: OperatorDraft, source: OperatorDraft) -> tuple[OperatorDraft, OperatorDraft]:
    """Return both drafts with the tensors that both have, in the order of the spec."""

    def tensors(group: Sequence[TensorDraft], names: Sequence[str]) -> tuple[TensorDraft, ...]:
        found = {one.name: one for one in group}
        return tuple(found[name] for name in names if name in found)

    inputs = [name for name in _names(ours.inputs) if name in _names(source.inputs)]
    outputs = [name for name in _names(ours.outputs) if name in _names(source.outputs)]
    mine, theirs = (
        replace(draft, inputs=tensors(draft.inputs, inputs), outputs=tensors(draft.outputs, outputs))
        for draft in (ours, source)
    )
    return mine, theirs


def _columns(ours: OperatorDraft, source: OperatorDraft) -> Iterator[str]:
    """Yield the dtype combinations of one side only; for a source with sets, compare the dtypes of each tensor."""
    mine, theirs = _rows(ours), _rows(source)
    if mine is None or theirs is None:
        for tensor, other in zip(ours.tensors, source.tensors, strict=True):
            if other.dtypes:
                yield from _sets(f"dtype of {tensor.name}", tensor.dtypes, other.dtypes)
        return
    for row in sorted(set(theirs) - set(mine)):
        yield f"dtypes {_row(ours, row)}: only the source has this combination"
    for row in sorted(set(mine) - set(theirs)):
        yield f"dtypes {_row(ours, row)}: only the spec has this combination"


def _rows(draft: OperatorDraft) -> list[tuple[str, ...]] | None:
    """Return the dtype combinations; None if the source states none."""
    widths = {len(tensor.dtypes) for tensor in draft.tensors}
    if draft.kind not in COMBINED_KINDS or len(widths) != 1:
        return None
    return list(zip(*(tensor.dtypes for tensor in draft.tensors), strict=True))


def _row(draft: OperatorDraft, row: tuple[str, ...]) -> str:
    return ", ".join(f"{tensor.name} {dtype}" for tensor, dtype in zip(draft.tensors, row, strict=True))
