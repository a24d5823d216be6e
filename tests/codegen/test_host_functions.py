"""Compare the generated InferShape, InferDataType and tiling functions with Python, called in the same way as by the
runtime.

The contexts are those of the twin, so that dimensions of -1, the rank -2, absent inputs and lists on the host pass
through the same getters as in CANN.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path

import pytest

from opforge.codegen.data.dtypes import DTYPES
from opforge.codegen.data.names import lower_camel
from opforge.codegen.expr import evaluate, program
from opforge.codegen.render import TABLES_HEADER, render, tables_header
from opforge.codegen.spec.semantics import Call, ShapeInferenceError, check, infer
from opforge.twin.build import INCLUDE, build_runtime
from opforge.twin.compiler.flags import WARNINGS
from opforge.twin.compiler.units import compiler

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
OPERATORS = sorted(
    [
        *(path.stem for path in (ROOT / "op_proto").glob("*.yaml")),
        *("scale_rows", "row_window", "pair_product", "add_lists", "split_rows"),
    ]
)
KINDS = {"int": "i", "bool": "b", "float": "f", "string": "s", "list_int": "I", "list_bool": "B", "list_float": "F"}

PRINT_ITEMS = """
#pragma once
#include <iostream>
#include <vector>
namespace opforge {
template <typename T>
std::ostream& operator<<(std::ostream& stream, const std::vector<T>& items)
{
    stream << items.size();
    for (auto&& item : items) {
        stream << " " << item;
    }
    return stream;
}
}  // namespace opforge
"""
# Prints the arguments that it receives from the generated code.
PLAN = """
#include "common/plan.h"
#include "print_items.h"
#include "NAME_problem.h"
#include "NAME_tiling_data.h"
namespace opforge {
inline Plan<TYPETilingData> PlanTYPE(const TYPEProblem& problem, const Platform&)
{
    std::cout << "problem " << static_cast<int32_t>(problem.shapeCase)FIELDS << std::endl;
    Plan<TYPETilingData> plan;
    plan.blockNum = 1;
    return plan;
}
}  // namespace opforge
"""


def plan_of(spec):
    """Return a plan of an operator that prints its arguments."""
    names = [*spec.program.symbols, *spec.program.stars]
    fields = [f"problem.{name}" for name in names] + [f"problem.{lower_camel(attr.name)}" for attr in spec.attrs]
    fields += [f"problem.{lower_camel(name)}Shapes" for name in spec.program.lists]
    text = PLAN.replace("FIELDS", "".join(f' << " " << {field}' for field in fields))
    return text.replace("NAME", spec.name).replace("TYPE", spec.op_type)


def compile_host_functions(specs, folder, change=lambda _, text: text):
    """Compile one program, `host_functions`, with the host functions of all specs; `change` may modify a file."""
    own = {TABLES_HEADER: tables_header(), "print_items.h": PRINT_ITEMS}
    sources = []
    for spec in specs:
        for path, text in (dict(render(spec)) | own | {f"op_host/{spec.name}_tiling.h": plan_of(spec)}).items():
            # The plan above sets no tiling key.
            unchecked = text.replace("plan.tilingKey != expectedKey", "false")
            (folder / Path(path).name).write_text(change(path, unchecked), encoding="utf-8")
        sources += [f"{spec.name}_{part}.cpp" for part in ("proto", "def", "infershape", "tiling")]
    (folder / "operators.h").write_text("".join(f'#include "{name}"\n' for name in sources), encoding="utf-8")
    library = build_runtime()
    command = [compiler()[0], "-std=c++17", "-O0", *WARNINGS, "-DOP_PROTO_LIB", "-DOP_TILING_LIB", f"-I{folder}"]
    command += [f"-I{ROOT / 'op_host'}", f"-I{INCLUDE}", HERE / "host_functions.cpp", "-o", folder / "host_functions"]
    command += [f"-L{library.parent}", f"-Wl,-rpath,{library.parent}", "-lopforge_twin"]
    subprocess.run(command, check=True)


class HostFunctions:
    """The host functions of one operator in a separate process, with more variables of its environment."""

    def __init__(self, spec, program, **variables):
        self.spec, self.program, self.environment = spec, program, os.environ | variables

    def answers(self, calls):
        """Return, for each (call, whether it is tiled), the lines before the answer, and the answer."""
        spec = self.spec
        tensors = "".join("iI"[tensor.dynamic] for tensor in spec.inputs)
        tensors += "".join("oO"[tensor.dynamic] for tensor in spec.outputs)
        arguments = [spec.op_type, tensors, "".join(KINDS[attr.type] for attr in spec.attrs)]
        text = "\n".join(self._line(call, is_tiled) for call, is_tiled in calls)
        done = subprocess.run(
            [self.program, *arguments], input=text, check=True, capture_output=True, text=True, env=self.environment
        )
        answers, before = [], []
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                answers.append((before, json.loads(line)))
                before = []
            else:
                before.append(line)
        return answers

    def _line(self, call, is_tiled):
        words = [int(is_tiled)]
        for tensor in self.spec.tensors:
            if tensor.dynamic:
                words.append(call.tensors_in(tensor.name))
                for name in (f"{tensor.name}[{index}]" for index in range(words[-1])):
                    shape = call.shapes.get(name, ())
                    dims = [-2] if shape is None else [-1 if dim is None else dim for dim in shape]
                    words += [DTYPES[call.dtypes.get(name, "float32")].number, len(dims), *dims]
                continue
            shape = call.shapes.get(tensor.name, ())
            dims = [-2] if shape is None else [-1 if dim is None else dim for dim in shape]
            values = call.values.get(tensor.name)
            is_there = tensor.name in call.shapes or (tensor in self.spec.outputs and not is_tiled)
            words += [int(is_there), DTYPES[call.dtypes.get(tensor.name, "float32")].number, len(dims), *dims]
            words += [int(values is not None), len(values or ()), *(values or ())]
        words += [word for attr in self.spec.attrs for word in items_of(call.attrs[attr.name])]
        return " ".join(map(str, words))


def items_of(value):
    """Return an attribute value as the words of a line; a list starts with its number of items."""
    items = [len(value), *value] if isinstance(value, tuple) else [value]
    return [int(item) if isinstance(item, bool) else item for item in items]


def reachable(spec, call, *, is_tiled):
    """Return the call as a graph node, or None: a node has all required inputs and known dtypes."""
    tensors = spec.tensors if is_tiled else spec.inputs
    counts = {name: call.tensors_in(name) for name in spec.program.lists}
    keys = {t.name: [f"{t.name}[{i}]" for i in range(counts[t.name])] if t.dynamic else [t.name] for t in tensors}
    shapes = {key: call.shapes[key] for names in keys.values() for key in names if key in call.shapes}
    for tensor in tensors:
        is_given = keys[tensor.name] and all(key in shapes for key in keys[tensor.name])
        if not is_given and not (tensor.optional and not (tensor.dynamic and counts[tensor.name])):
            return None
    dtypes = {}
    for tensor in tensors:
        own = tensor.dtypes or spec.tensor(tensor.dtype).dtypes
        dtypes |= {key: call.dtypes.get(key) or own[0] for key in keys[tensor.name] if key in shapes}
    values = {name: list(v) for name, v in call.values.items() if shapes.get(name) == (len(v),)}
    known = Call(shapes, dtypes, call.attrs, values, counts=counts)
    if not is_tiled and any(t.dynamic and not counts[t.name] for t in spec.outputs):
        try:
            types = infer(spec, known, with_checks=False)
        except ShapeInferenceError:
            types = {}
        counts |= {t.name: sum(n.startswith(f"{t.name}[") for n in types) or 1 for t in spec.outputs if t.dynamic}
    return known


def expected_inference(spec, call):
    """Return the message of a rejection, None if InferDataType rejects the call, or dims and dtype number of every
    output."""
    untyped = Call(call.shapes, {}, call.attrs, call.values, counts=call.counts)
    if violation := check(spec, untyped, with_outputs=False):
        return violation.message
    types = infer(spec, call, with_checks=False)
    shapes = [[-2] if type_.shape is None else list(type_.shape) for type_ in types.values()]
    dtypes = [type_.dtype for type_ in types.values()]
    if None in dtypes:  # no combination of dtypes has those of the inputs
        return None
    return [(shape, DTYPES[dtype].number) for shape, dtype in zip(shapes, dtypes, strict=True)]


def expected_problem(spec, call):
    """Return the message of a rejection, or the arguments of the plan: case, symbols, products of stars, attributes."""
    if violation := check(spec, call, with_casts=False):
        return violation.message
    if any(shape is None or any(dim is None or dim < 0 for dim in shape) for shape in call.shapes.values()):
        return f"{spec.op_type}: shapes: got a dimension that is not known, expected the dimensions at run time"
    environment = evaluate.Environment({}, call.attrs, call.shapes, call.dtypes, counts=call.counts)
    cases = spec.program.cases
    index = next(i for i, case in enumerate(cases) if evaluate.evaluate(case.when, environment) is True)
    known = {}
    for binding in cases[index].bindings:
        shape = call.shapes.get(binding.tensor)
        if shape is None:
            continue
        dims = binding.dims_of(shape) if binding.is_star else [shape[binding.axis]]
        product = math.prod(dims)
        known[binding.symbol] = product if product < 2**63 else 0
    words = [index, *(known.get(name, 0) for name in (*spec.program.symbols, *spec.program.stars))]
    attrs = [word for attr in spec.attrs for word in items_of(call.attrs[attr.name])]
    words += [f"{word:g}" if isinstance(word, float) else word for word in attrs]
    for name in spec.program.lists:
        shapes = [call.shapes[f"{name}[{index}]"] for index in range(call.counts[name])]
        words += [len(shapes), *(word for shape in shapes for word in (len(shape), *shape))]
    return " ".join(map(str, ["problem", *words]))


def drawn_calls(spec, calls, count):
    drawn = []
    while len(drawn) < count:
        call, (is_tiled, _) = calls.draw()
        if (known := reachable(spec, call, is_tiled=is_tiled)) is not None:
            drawn.append((known, is_tiled))
    return drawn


def compare(functions, calls, count):
    spec = functions.spec
    drawn = drawn_calls(spec, calls, count)
    answers = functions.answers(drawn)
    assert len(answers) == len(drawn)
    kinds = {"refused": 0, "inferred": 0, "planned": 0}
    for (call, is_tiled), (before, answer) in zip(drawn, answers, strict=True):
        expected = expected_problem(spec, call) if is_tiled else expected_inference(spec, call)
        if isinstance(expected, str):
            is_refused = not expected.startswith("problem ")
            line = f"{expected} (node {spec.op_type})" if is_refused else expected
            assert before == [line], (call, is_tiled, answer)
            assert ("error" in answer) == is_refused, (call, is_tiled, answer)
            kinds["refused" if is_refused else "planned"] += 1
        elif expected is None:
            assert "dtype inference" in answer["error"], (call, answer)
        else:
            got = [(output["dims"], output["dtype"]) for output in answer["outputs"]]
            assert got == expected, (call, before)
            kinds["inferred"] += 1
    return kinds


@pytest.fixture(scope="module")
def compiled(once, spec_of):
    """Return the program with the host functions of all operators."""
    specs = [spec_of[name] for name in OPERATORS]
    return once("host_functions", lambda folder: compile_host_functions(specs, folder)) / "host_functions"


@pytest.mark.parametrize("name", OPERATORS)
def test_host_functions_agree_with_python(name, spec_of, calls_of, compiled):
    kinds = compare(HostFunctions(spec_of[name], compiled), calls_of(spec_of[name]), 1000)
    assert min(kinds.values()) > 20, kinds


@pytest.mark.all
@pytest.mark.parametrize("name", OPERATORS)
def test_host_functions_agree_with_python_for_many_calls(name, spec_of, calls_of, compiled):
    compare(HostFunctions(spec_of[name], compiled), calls_of(spec_of[name]), 100_000)


# In the program with all of these mistakes, BROKEN is the number of the active one.
BROKEN = [
    (
        "InferShape",
        "infershape.cpp",
        "WriteShape(GradBiasShape(call, symbols), *gradBias);",
        "if (kBroken != 0) {{ {} }}",
    ),
    ("InferDataType", "infershape.cpp", "context->GetRequiredInputDataType(0)", "(kBroken == 1 ? ge::DT_FLOAT : {})"),
    ("tiling glue", "tiling.cpp", "call.groupIdxType = *groupIdxType", "{} / (kBroken == 2 ? 2 : 1)"),
    ("tiling glue", "tiling.cpp", "symbols.C.ValueOr(0)", "(kBroken == 3 ? symbols.G.ValueOr(0) : {})"),
]


@pytest.mark.parametrize("number", [-1, *range(len(BROKEN))])
def test_a_broken_host_function_is_noticed(number, spec_of, calls_of, once):
    def broken(path, text):
        for back_end, file, old, new in BROKEN:
            if path.endswith(file):
                assert old in text, f"{back_end} must have the line that is to be broken"
                text = text.replace(old, new.format(old))
        first = '#include <cstdlib>\nstatic const int kBroken = std::atoi(std::getenv("BROKEN"));\n'
        return first + text if path.endswith("proto.cpp") else text

    spec = spec_of["grouped_bias_add_grad"]
    folder = once("broken_host_functions", lambda folder: compile_host_functions([spec], folder, broken))
    functions = HostFunctions(spec, folder / "host_functions", BROKEN=str(number))
    if number < 0:
        compare(functions, calls_of(spec), 1000)
        return
    with pytest.raises(AssertionError):
        compare(functions, calls_of(spec), 2000)


def test_a_broken_python_is_noticed(spec_of, calls_of, compiled, monkeypatch):
    spec = spec_of["grouped_bias_add_grad"]
    functions = HostFunctions(spec, compiled)
    compare(functions, calls_of(spec), 1000)
    monkeypatch.setattr(program.Binding, "axis", 0)
    with pytest.raises(AssertionError):
        compare(functions, calls_of(spec), 1000)
