"""Compare kernel, ONNX body and NumPy reference of operators, for the tests of a project."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from onnx import ModelProto, ValueInfoProto, helper, numpy_helper

from opforge.codegen.data.names import unknown_operator
from opforge.codegen.project import find_project
from opforge.codegen.spec.call import named_members
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.semantics import Call, infer
from opforge.codegen.views.facts import NPU_DOMAIN, NPU_PREFIX
from opforge.frontend.io.arrays import Array
from opforge.frontend.ir.attributes import LIST_SIZES, counts_in, list_sizes, names_in
from opforge.frontend.operators import project_specs
from opforge.frontend.pipeline import convert
from opforge.twin import run
from opforge.twin.samples import SpecCall, calls_of

from .comparison import KERNEL, REFERENCE, Comparison, compare, widened
from .custom_nodes import Tolerances
from .execute import run_model
from .numpy_reference import numpy_reference, reference_path

_OPSET = 18
_NODE = "node"


def spec_calls() -> list[SpecCall]:
    """Return the tests of all specs of the project in all dtypes, without operators that have no kernel."""
    return [call for spec in _complete_specs() for call in calls_of(spec)]


def cases_without_test() -> list[str]:
    """Return the parts of ONNX bodies that no test runs: cases without a test, attributes always at their default."""
    return [problem for spec in _complete_specs() for case in spec.onnx.bodies for problem in _untested(spec, case)]


def _untested(spec: OpSpec, case: str) -> Iterator[str]:
    place = f"{spec.op_type}: onnx.bodies.{case}"
    tests = [test for test in spec.tests.shapes if test.case == case]
    if not tests:
        yield f"{place}: got no test of this case, expected one; add it to tests.shapes"
        return
    for attr in spec.attrs:
        # A body without the attribute may have its default as a constant.
        texts = [*spec.onnx.bodies.values(), *(f"@{field.value}" for field in spec.tiling.data)]
        is_used = attr.default is not None and any(re.search(rf"@{attr.name}\b", text) for text in texts)
        if is_used and all(test.attrs.get(attr.name, attr.default) == attr.default for test in tests):
            yield f"{place}: got tests with the default of {attr.name} only, expected another value in tests.shapes"


def agree(
    op_type: str, inputs: Mapping[str, Array], attrs: Mapping[str, Any] | None = None, *, level: str = "strict"
) -> None:
    """Compare the kernel on the CPU twin with the NumPy reference, within the tolerances of the spec.

    Args:
        op_type: Operator type.
        inputs: Arrays by name, without absent ones.
        attrs: Attributes by name.
        level: Checks of the CPU twin: strict, device or fast.

    Raises:
        AssertionError: They differ, or there is no reference.
    """
    spec = _spec(op_type)
    expected = numpy_reference(spec, inputs, attrs or {})
    if expected is None:
        raise AssertionError(f"{reference_path(spec)}: got no file, expected the NumPy reference; write it")
    result = run(op_type, inputs, attrs, level=level)
    found = []
    given = {key: array for name, value in result.items() for key, array in named_members(spec, name, value).items()}
    for name, right in expected.items():
        got = given[name]
        tolerance = spec.tests.tolerance.get(got.dtype.name)
        labels = (f"in the {REFERENCE}", f"in the {KERNEL}")
        entry = compare(name, *widened(right, got, got.dtype.name), tolerance=tolerance, names=labels)
        found.append(replace(entry, op=op_type, compared=f"{KERNEL} with {REFERENCE}"))
    _require_same(found)


def agree_as_node(
    op_type: str,
    inputs: Mapping[str, Array | None],
    attrs: Mapping[str, Any] | None = None,
    *,
    tolerances: Tolerances = "spec",
) -> None:
    """Convert a model of one node, run it, and compare kernel, ONNX body and NumPy reference.

    Args:
        op_type: Operator type.
        inputs: Arrays by name; an absent input is None or missing.
        attrs: Attributes by name.
        tolerances: The tolerance: that of the "spec", or of `convert --verify`.

    Raises:
        AssertionError: The node is not mapped, a result is missing, or results differ.
    """
    spec = _spec(op_type)
    if not spec.outputs:  # models cannot contain it
        agree(op_type, {name: value for name, value in inputs.items() if value is not None}, attrs)
        return
    members = (named_members(spec, name, value) for name, value in inputs.items() if value is not None)
    given = {key: array for arrays in members for key, array in arrays.items() if array is not None}
    lists = {tensor.name for tensor in spec.host_lists}
    conversion = convert(_model(spec, given, attrs or {}, lists))
    if [entry.op for entry in conversion.mapped] != [op_type]:
        reasons = "; ".join(entry.reason for entry in conversion.left) or "no rule matches"
        raise AssertionError(f"{op_type}: the node is not mapped: {reasons}; correct the call")
    arrays = {name: value for name, value in given.items() if name not in lists}
    found = run_model(conversion.model, arrays, compared=tolerances).comparisons
    missing = [entry.message for entry in found if not entry.output and entry.same is None]
    if missing:
        raise AssertionError("\n".join(missing))
    _require_same(found)


def _require_same(found: Sequence[Comparison]) -> None:
    if differing := [entry.message for entry in found if entry.same is False]:
        raise AssertionError("\n".join(differing))


def _model(spec: OpSpec, given: Mapping[str, Array], attrs: Mapping[str, Any], lists: set[str]) -> ModelProto:
    """Return a model of one node; host lists are constants."""
    counts = counts_in(spec, given)
    names = [name if name in given else "" for name in names_in(spec.inputs, counts)]
    while names and not names[-1]:
        names.pop()
    outputs = [tensor.name for tensor in spec.outputs]
    if any(tensor.dynamic for tensor in spec.outputs):  # the inputs determine the number of tensors
        call = Call({name: array.shape for name, array in given.items()}, attrs=attrs)
        outputs = list(infer(spec, call, with_checks=False))
    sizes = list_sizes(spec, counts_in(spec, [*given, *outputs]))
    attrs = {**attrs, **({LIST_SIZES: sizes} if sizes else {})}
    node = helper.make_node(f"{NPU_PREFIX}{spec.op_type}", names, outputs, _NODE, domain=NPU_DOMAIN, **attrs)
    types = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in given.items()
        if name not in lists
    ]
    constants = [numpy_helper.from_array(value, name) for name, value in given.items() if name in lists]
    graph = helper.make_graph([node], "one_node", types, [ValueInfoProto(name=name) for name in outputs], constants)
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(NPU_DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets)


def _complete_specs() -> list[OpSpec]:
    project = find_project()
    return [spec for spec in project_specs() if not project.missing(spec.own_files)]


def _spec(op_type: str) -> OpSpec:
    specs = {spec.op_type: spec for spec in project_specs()}
    if op_type not in specs:
        raise unknown_operator("op_type", op_type, specs, find_project().root)
    return specs[op_type]
