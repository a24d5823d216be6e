"""Compare a spec with its source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opforge.codegen.spec.model import OpSpec
from opforge.codegen.views.facts import declared_columns

from .draft import COMBINED_KINDS, DYNAMIC, OPTIONAL, REQUIRED, AttrDraft, OperatorDraft, TensorDraft


def draft_of(spec: OpSpec, products: Sequence[str]) -> OperatorDraft:
    """Return the facts in the OpDef of a spec, for some of its products."""
    columns = declared_columns(spec)

    def tensors(group: Sequence[object]) -> tuple[TensorDraft, ...]:
        return tuple(
            TensorDraft(
                tensor.ir_name,
                DYNAMIC if tensor.dynamic else OPTIONAL if tensor.optional else REQUIRED,
                columns[tensor.name],
                is_value_dependent=tensor.host_values or tensor.value_depend,
                scalar=tensor.scalar or "",
            )
            for tensor in spec.tensors
            if tensor in group
        )

    attrs = tuple(AttrDraft(attr.ir_name, attr.type, attr.default) for attr in spec.attrs)
    return OperatorDraft(spec.op_type, "", "spec", tensors(spec.inputs), tensors(spec.outputs), attrs, tuple(products))


def differences(ours: OperatorDraft, source: OperatorDraft) -> list[str]:
    """Return the differences between a spec and a source, one line each."""
    found = [*_parameters("input", ours.inputs, source.inputs), *_parameters("output", ours.outputs, source.outputs)]
    found += _attrs(ours.attrs, source.attrs)
    if _names(ours.tensors) == _names(source.tensors):
        found += _columns(ours, source)
    if source.products:
        found += _sets("configuration", ours.products, source.products)
    return found


def not_compared(source: OperatorDraft) -> list[str]:
    """Return the statements of a source that no spec can express, one line each."""
    found = []
    for tensor in source.tensors:
        formats = list(dict.fromkeys(tensor.formats))
        if formats not in ([], ["ND"]):
            found.append(f"{tensor.name}: storage formats {', '.join(formats)}; the OpDef of a spec has ND")
    return found + [f"line {note.line}: {note.text}" for note in source.limits]


def _names(group: Sequence[TensorDraft]) -> list[str]:
    return [tensor.name for tensor in group]


def _sets(what: str, ours: Sequence[str], source: Sequence[str]) -> Iterator[str]:
    for name in sorted(set(source) - set(ours)):
        yield f"{what} {name}: only the source has it"
    for name in sorted(set(ours) - set(source)):
        yield f"{what} {name}: only the spec has it"


def _parameters(what: str, ours: Sequence[TensorDraft], source: Sequence[TensorDraft]) -> Iterator[str]:
    yield from _sets(what, _names(ours), _names(source))
    if set(_names(ours)) == set(_names(source)) and _names(ours) != _names(source):
        yield f"{what}s: the spec has the order {', '.join(_names(ours))}; the source has {', '.join(_names(source))}"
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
        if tensor.is_value_dependent != other.is_value_dependent:
            words = {True: "on the host", False: "on the device"}
            yield (
                f"{what} {tensor.name}: the spec has values {words[tensor.is_value_dependent]},"
                f" the source has values {words[other.is_value_dependent]}"
            )


def _attrs(ours: Sequence[AttrDraft], source: Sequence[AttrDraft]) -> Iterator[str]:
    yield from _sets("attribute", [attr.name for attr in ours], [attr.name for attr in source])
    theirs = {attr.name: attr for attr in source}
    for attr in ours:
        other = theirs.get(attr.name)
        if other is not None and attr.type != other.type:
            yield f"attribute {attr.name}: the spec has the type {attr.type}, the source has {other.type}"
        elif other is not None and attr.default != other.default:
            yield f"attribute {attr.name}: the spec has {_default(attr)}, the source has {_default(other)}"


def _default(attr: AttrDraft) -> str:
    return "no default" if attr.default is None else f"the default {attr.default!r}"


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
