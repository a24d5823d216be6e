"""Check the tensors that are not single required tensors: overwritten ones, lists and scalars."""

from __future__ import annotations

from collections.abc import Iterator

from .model import OpSpec
from .parts import TensorSpec, ValuesSpec
from .validate_uses import Problems
from .yaml_nodes import Path


def check_in_place(spec: OpSpec, problems: Problems) -> None:
    """Check the outputs that are written to the memory of an input: they have its shape and dtype in all cases."""
    for index, output in enumerate(spec.outputs):
        source = spec.in_place.get(output.name)
        if source is None or spec.declared_only:
            continue
        path: Path = ("outputs", index)
        what = f"an output in the memory of {source.name!r}, which has the same IR name"
        if source.optional or source.host_values or source.scalar or output.optional:
            problems.append((path, f"got {what}, expected a required tensor; give the output another 'ir'"))
        if source.dynamic != output.dynamic:
            problems.append((path, f"got {what}, expected two lists of tensors or none; write 'dynamic' with both"))
        if any(tensor.casts or tensor.mix for tensor in (source, output)):
            problems.append((path, f"got {what}, expected no 'casts' and 'mix' with these two"))
        if not _have_equal_dtypes(spec, source, output):
            problems.append((path, f"got {what}, expected its dtypes; write 'dtype: {source.dtype or source.name}'"))
        problems += [
            (("cases", number, "shapes", output.name), f"got another shape for {what}, expected the shape of the input")
            for number, case in enumerate(spec.cases)
            if case.shapes.get(output.name) != case.shapes.get(source.name)
        ]


def _have_equal_dtypes(spec: OpSpec, one: TensorSpec, other: TensorSpec) -> bool:
    """Return whether two tensors have the same dtype in each combination."""
    names = one.dtype or one.name, other.dtype or other.name
    if names[0] == names[1]:
        return True
    columns = [spec.combinations.get(name, spec.tensor(name).dtypes) for name in names]
    return columns[0] == columns[1] and (bool(spec.combinations) or len(columns[0]) == 1)


def check_overwritten(spec: OpSpec, problems: Problems) -> None:
    """Check the inputs that the operator overwrites without an output, and that there are parameters at all."""
    if not (spec.parameters or spec.declared_only):
        problems.append((("inputs",), "got no inputs, attributes and outputs, expected at least one of them"))
    for section, group in (("inputs", spec.inputs), ("outputs", spec.outputs)):
        for index, tensor in enumerate(group):
            beside = {
                "outputs; an output with the 'ir' of the input is in its memory": bool(spec.outputs),
                "'casts'": bool(tensor.casts),
                "'mix'": tensor.mix is not None,
                "'scalar'": tensor.scalar is not None,
                "'host_values'": tensor.host_values,
                "'value_depend'": bool(tensor.value_depend),
            }
            for what in (name for name, is_given in beside.items() if tensor.overwritten and is_given):
                problems.append(((section, index, "overwritten"), f"got true, expected false with {what}"))
    if spec.outputs or spec.declared_only:
        return
    problems += [
        (section, "got this key, expected none: the operator has no outputs; remove it")
        for section, is_given in ((("onnx", "bodies"), spec.onnx.bodies), (("onnx", "aliases"), spec.onnx.aliases))
        if is_given
    ]
    if spec.torch.targets or spec.torch.variants or spec.torch.forward:
        message = "got this key, expected none: the operator has no outputs; remove it"
        problems.append((("torch",), message))


def check_lists(spec: OpSpec, problems: Problems) -> None:
    """Check the tensors that are not single required tensors."""
    for section, group in (("inputs", spec.inputs), ("outputs", spec.outputs)):
        for index, tensor in enumerate(group):
            problems += [
                ((section, index, key), message) for key, message in _tensor_problems(tensor, section == "outputs")
            ]
    problems += list(_shape_problems(spec))
    if spec.tensor_lists and spec.torch.forward is not None:
        message = "got a forward operator, expected none for an operator with lists of tensors"
        problems.append((("torch", "forward"), message))


def _tensor_problems(tensor: TensorSpec, is_output: bool) -> Iterator[tuple[str, str]]:
    """Yield the key and the message of each problem."""
    if tensor.count is not None and not (tensor.dynamic and is_output):
        yield "count", f"got {tensor.count}, expected it only with an output that has 'dynamic: true'"
    if tensor.scalar and is_output:
        yield "scalar", f"got {tensor.scalar!r}, expected no 'scalar' with an output"
    if not (tensor.dynamic or tensor.scalar):
        return
    kind = "dynamic: true" if tensor.dynamic else f"scalar: {tensor.scalar}"
    beside = {
        "casts": bool(tensor.casts),
        "mix": tensor.mix is not None,
        "host_values": tensor.host_values,
        "value_depend": bool(tensor.value_depend) and tensor.dynamic,
        "scalar": tensor.dynamic and tensor.scalar is not None,
        "values": tensor.values.ends_of is not None and tensor.values != ValuesSpec(),
    }
    for key, is_given in beside.items():
        if is_given:
            yield key, f"got this key, expected none with '{kind}'; remove one of them"


def _shape_problems(spec: OpSpec) -> Iterator[tuple[Path, str]]:
    """Yield the problems of scalars in cases: a scalar is one element, a list of scalars has one dimension."""
    for number, case in enumerate(spec.cases):
        for tensor in spec.inputs:
            dims = case.shapes.get(tensor.name)
            if not tensor.scalar or dims is None:
                continue
            path: Path = ("cases", number, "shapes", tensor.name)
            if tensor.scalar == "one" and dims != (1,):
                yield path, f"got {len(dims)} dimensions, expected [1] for a scalar"
            elif len(dims) != 1 or str(dims[0]).startswith("*"):
                yield path, f"got {len(dims)} dimensions, expected one, as in [N], for a list of scalars"
