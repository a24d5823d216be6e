"""Compare the shapes of outputs in a spec with the shape inference of a source."""

from __future__ import annotations

from collections.abc import Iterator

from opforge.codegen.spec.model import OpSpec

from .draft import OperatorDraft, Shape

SpecShape = tuple[str | int, ...]


def shape_differences(spec: OpSpec, source: OperatorDraft) -> Iterator[str]:
    """Yield the outputs whose shape in a case differs from that of the source; only shapes that a spec can have."""
    names = {tensor.ir_name: tensor.name for tensor in spec.inputs}
    outputs = {tensor.ir_name: tensor.name for tensor in spec.outputs}
    attrs = {attr.ir_name: attr.name for attr in spec.attrs}
    for number, shape in source.shapes:
        output = source.outputs[number] if source.has_position(source.outputs, number) else None
        if output is None or output.name not in outputs:
            continue
        for case in spec.cases:
            shapes: dict[str, SpecShape] = dict(case.shapes)
            expected = _expected(shape, source, {ir: shapes.get(name, ()) for ir, name in names.items()}, attrs)
            ours = shapes.get(outputs[output.name], ())
            if expected is not None and ours != expected:
                of = f"shape of {output.name} in case {case.name}"
                yield f"{of}: the spec has {_shown(ours)}, the source has {_shown(expected)}"


def _expected(
    shape: Shape, source: OperatorDraft, inputs: dict[str, SpecShape], attrs: dict[str, str]
) -> SpecShape | None:
    """Return the shape of the source with the symbols of a case; None if the case has no symbols for it."""
    if isinstance(shape, int):
        return _required(source, shape, inputs)
    found: list[str | int] = []
    for dim in shape:
        if isinstance(dim, int):
            found.append(dim)
        elif len(dim) == 3:
            given = _required(source, dim[1], inputs)
            if given is None or len(given) <= dim[2] or any(str(one).startswith("*") for one in given[: dim[2] + 1]):
                return None
            found.append(given[dim[2]])
        else:
            name = source.attrs[dim[1]].name if dim[1] < len(source.attrs) else ""
            if name not in attrs:
                return None
            found.append(attrs[name])
    return tuple(found)


def _required(source: OperatorDraft, number: int, inputs: dict[str, SpecShape]) -> SpecShape | None:
    """Return the shape of a required input of the source in the case; None if the spec has no such input."""
    tensor = source.inputs[number] if source.has_position(source.inputs, number) else None
    return inputs.get(tensor.name) if tensor is not None and not tensor.scalar else None


def _shown(shape: SpecShape) -> str:
    return f"[{', '.join(map(str, shape))}]"
