"""Checks and shape inference: the documented rules, and that generated C++ says the same, word for word."""

import os
import random
import subprocess

import pytest

from opforge.codegen.dtypes import DTYPES
from opforge.codegen.names import lower_camel
from opforge.codegen.render import render
from opforge.codegen.semantics import Call, ShapeRefusal, TensorType, check, infer

INDEXED = {"grad_y": (8, 6), "group_idx": (3,), "grad_bias": (3, 6)}
EQUAL = {"grad_y": (3, 4, 6), "grad_bias": (3, 6)}
DTYPES_OF_CALL = {"grad_y": "float16", "group_idx": "int32", "grad_bias": "float16"}


def changed(base, **changes):
    merged = {**base, **changes}
    return {name: value for name, value in merged.items() if value != "absent"}


def test_good_calls_break_nothing(grouped):
    for shapes in (INDEXED, EQUAL, changed(EQUAL, grad_y=(3, 0, 6)), changed(INDEXED, grad_y=(0, 6))):
        assert check(grouped, Call(shapes, DTYPES_OF_CALL)) is None
    assert check(grouped, Call(changed(EQUAL, grad_y=(4000, 2, 6), grad_bias=(4000, 6)))) is None, (
        "no limit without idx"
    )
    assert check(grouped, Call(INDEXED, DTYPES_OF_CALL, {"group_idx_type": 1})) is None


# One row per condition of the operator's table of constraints.
@pytest.mark.parametrize(
    ("shapes", "dtypes", "attrs", "status", "message"),
    [
        ({"grad_y": "absent"}, {}, {}, 161001, "grad_y: got null, expected a tensor [C1]"),
        ({"grad_bias": "absent"}, {}, {}, 161001, "grad_bias: got null, expected a tensor [C1]"),
        ({}, {"grad_y": "int8"}, {}, 161002, "grad_y: got int8, expected float16, bfloat16 or float32 [C2]"),
        ({}, {"group_idx": "uint8"}, {}, 161002, "group_idx: got uint8, expected int32 or int64 [C2]"),
        (
            {},
            {"grad_bias": "float32"},
            {},
            161002,
            "grad_bias: got float32, expected float16, the dtype of grad_y [C2]",
        ),
        ({"grad_y": (8,)}, {}, {}, 161002, "grad_y: got shape [8], expected 2 dimensions [T, H] [C3]"),
        ({"group_idx": "absent"}, {}, {}, 161002, "grad_y: got shape [8, 6], expected 3 dimensions [G, C, H] [C3]"),
        ({"group_idx": (1, 3)}, {}, {}, 161002, "group_idx: got shape [1, 3], expected 1 dimension [G] [C3]"),
        ({"grad_bias": (18,)}, {}, {}, 161002, "grad_bias: got shape [18], expected 2 dimensions [G, H] [C3]"),
        (
            {"group_idx": (2049,), "grad_bias": (2049, 6)},
            {},
            {},
            161002,
            "group_idx: got shape [2049], expected at most 2048 values [C4]",
        ),
        ({"grad_bias": (3, 7)}, {}, {}, 161002, "grad_bias: got shape [3, 7], expected [G, H] = [3, 6] [C5]"),
        ({}, {}, {"group_idx_type": 2}, 161002, "group_idx_type: got 2, expected 0 or 1 [C6]"),
        ({}, {}, {"group_idx_type": -1}, 161002, "group_idx_type: got -1, expected 0 or 1 [C6]"),
    ],
)
def test_each_constraint_has_its_status_and_message(grouped, shapes, dtypes, attrs, status, message):
    violation = check(grouped, Call(changed(INDEXED, **shapes), {**DTYPES_OF_CALL, **dtypes}, attrs))
    assert violation is not None
    assert violation.message == f"GroupedBiasAddGrad: {message}"
    assert violation.status == status


def test_the_earlier_of_two_broken_constraints_answers(grouped):
    shapes = changed(INDEXED, group_idx=(2049,), grad_bias=(3, 7))
    assert check(grouped, Call(shapes, {**DTYPES_OF_CALL, "grad_y": "int8"}, {"group_idx_type": 7})).label == "C2"
    assert check(grouped, Call(shapes, DTYPES_OF_CALL, {"group_idx_type": 7})).label == "C4"
    assert check(grouped, Call(changed(INDEXED, grad_bias=(3, 7)), DTYPES_OF_CALL, {"group_idx_type": 7})).label == "C5"


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ({"grad_y": (8, 6), "group_idx": (3,)}, (3, 6)),
        ({"grad_y": (-1, 6), "group_idx": (None,)}, (-1, 6)),
        ({"grad_y": None, "group_idx": (3,)}, (3, -1)),
        ({"grad_y": (8, -1), "group_idx": None}, (-1, -1)),
        ({"grad_y": (5, -1, 7)}, (5, 7)),
        ({"grad_y": None}, (-1, -1)),
        ({"grad_y": (0, 6), "group_idx": (0,)}, (0, 6)),
    ],
)
def test_inference(grouped, shapes, expected):
    assert infer(grouped, Call(shapes, {"grad_y": "bfloat16"})) == {"grad_bias": TensorType(expected, "bfloat16")}


def test_inference_refuses_what_is_known_to_be_wrong(grouped):
    with pytest.raises(ShapeRefusal) as caught:
        infer(grouped, Call({"grad_y": (8, 6, 4), "group_idx": None}))
    assert caught.value.label == "C3"
    with pytest.raises(ShapeRefusal, match="at most 2048 values"):
        infer(grouped, Call({"grad_y": (-1, 6), "group_idx": (4096,)}))


def test_computed_dimensions(specimen):
    shapes = {"x": (10, 32), "scale": (10,), "index": (3, 2)}
    types = infer(specimen, Call(shapes, {"x": "float32"}, {"pad": 2}))
    assert types == {"y": TensorType((12, 32), "float32"), "count": TensorType((16,), "int64")}
    for pad, text in ((0, "result of D // pad,"), (2**62, r"result of N \+ 2\*pad \+ 1 - K,")):
        with pytest.raises(ShapeRefusal, match=text):
            infer(specimen, Call(shapes, {}, {"pad": pad}))
    with pytest.raises(ShapeRefusal, match="= -85, expected a dimension of at least 0"):
        infer(specimen, Call({**shapes, "index": (100, 2)}, {}, {"pad": 2}))


def test_a_missing_required_attribute_is_unknown(specimen):
    shapes = {"x": (10, 32), "scale": (10,), "index": (3, 2)}
    with pytest.raises(ShapeRefusal, match="none of the cases"):
        infer(specimen, Call(shapes))
    assert infer(specimen, Call({"x": (4,), "index": (4, 4)}))["y"].shape == (64,)


PROGRAM = """
#include <iostream>
#include "NAME_check.h"
using namespace opforge;
static void Read(Argument& argument)
{
    int64_t present = 0, ranked = 0, rank = 0, dtype = 0;
    std::cin >> present >> ranked >> rank >> dtype;
    argument.isPresent = present != 0;
    argument.isRankKnown = ranked != 0;
    argument.dtype = static_cast<DataType>(dtype);
    for (int64_t axis = 0, dim = 0; axis < rank && std::cin >> dim; ++axis) argument.dims.push_back(dim);
}
static void Print(const std::vector<Dimension>& shape)
{
    for (const Dimension& dimension : shape) std::cout << " " << dimension.value.ValueOr(-1);
    std::cout << ";";
}
int main()
{
    for (int64_t hasOutputs = 0; std::cin >> hasOutputs;) {
        TYPECall call;
        TYPESymbols symbols;
        READ
        if (const Verdict broken = CheckTYPE(call, hasOutputs != 0, symbols)) {
            std::cout << broken->status << " " << broken->message << "\\n";
            continue;
        }
        PRINT
        std::cout << "\\n";
    }
}
"""


def compiled_checks(spec, root, folder):
    for path, text in render(spec):
        if path.startswith("op_host/") and path.endswith(".h"):
            (folder / path.split("/")[1]).write_text(text)
    reads = [f"Read(call.{lower_camel(tensor.name)});" for tensor in spec.tensors]
    reads += [f"std::cin >> call.{lower_camel(a.name)};" for a in spec.attrs if a.type in {"int", "bool"}]
    prints = [
        f"Print({lower_camel(o.name)[0].upper()}{lower_camel(o.name)[1:]}Shape(call, symbols));" for o in spec.outputs
    ]
    text = PROGRAM.replace("NAME", spec.name).replace("TYPE", spec.op_type)
    source = folder / "checks.cpp"
    source.write_text(text.replace("READ", "\n        ".join(reads)).replace("PRINT", "\n        ".join(prints)))
    command = [
        os.environ.get("CXX", "g++"),
        "-std=c++17",
        "-O0",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{root / 'op_host'}",
    ]
    subprocess.run([*command, source, "-o", folder / "checks"], check=True)
    return folder / "checks"


def cpp_line(spec, call, with_outputs):
    words = [int(with_outputs)]
    for tensor in spec.tensors:
        shape = call.shapes.get(tensor.name)
        dtype = call.dtypes.get(tensor.name)
        dims = [-1 if dim is None else dim for dim in shape or ()]
        words += [int(tensor.name in call.shapes), int(shape is not None), len(dims)]
        words += [DTYPES[dtype].number if dtype else -1, *dims]
    words += [int(call.attrs[attr.name]) for attr in spec.attrs if attr.type in {"int", "bool"}]
    return " ".join(map(str, words))


def python_line(spec, call, with_outputs):
    violation = check(spec, call, with_outputs=with_outputs)
    if violation is not None:
        return f"{violation.status} {violation.message}"
    inputs = {tensor.name for tensor in spec.inputs}
    types = infer(spec, Call({n: s for n, s in call.shapes.items() if n in inputs}, call.dtypes, call.attrs))
    return "".join("".join(f" {dim}" for dim in types[output.name].shape) + ";" for output in spec.outputs)


def random_call(spec, rng, with_outputs):
    """A call near a right one: shapes of a case from random symbols, then a few mistakes."""
    case = rng.choice(spec.program.cases)
    sizes = [0, 1, 2, 3, 16, 32, 2048, 2049, 2**31, 2**62, -1]
    symbols = {symbol: rng.choice(sizes) for symbol in spec.program.symbols}
    attrs = {attr.name: rng.choice([0, 1, 2, -1, 2**62]) for attr in spec.attrs if attr.type == "int"}
    attrs |= {attr.name: rng.random() < 0.5 for attr in spec.attrs if attr.type == "bool"}
    shapes, dtypes = {}, {}
    for tensor in spec.tensors if with_outputs else spec.inputs:
        if tensor.name in case.shapes:
            dims = [symbols.get(dim.text, rng.choice([2, 3, 33])) for dim in case.shapes[tensor.name]]
            shapes[tensor.name] = tuple(dims)
        dtypes[tensor.name] = rng.choice(tensor.dtypes)
    if with_outputs and rng.random() < 0.7:
        shapes |= inferred(spec, shapes, attrs)
    for tensor in spec.tensors:
        if tensor.dtype is not None and rng.random() < 0.9:
            dtypes[tensor.name] = dtypes[tensor.dtype]
    for name in list(shapes):
        mistake = rng.random()
        if mistake < 0.03:
            del shapes[name]
        elif mistake < 0.06:
            shapes[name] = None
        elif mistake < 0.09:
            shapes[name] = (*shapes[name], 1)
        elif mistake < 0.12 and shapes[name]:
            shapes[name] = (*shapes[name][:-1], rng.choice(sizes))
        if rng.random() < 0.03:
            dtypes[name] = rng.choice(["int8", "bool", None])
    return Call(shapes, {name: dtype for name, dtype in dtypes.items() if name in shapes}, attrs)


def inferred(spec, shapes, attrs):
    inputs = {tensor.name for tensor in spec.inputs}
    try:
        types = infer(spec, Call({name: shape for name, shape in shapes.items() if name in inputs}, {}, attrs))
    except ShapeRefusal:
        return {}
    return {name: type_.shape for name, type_ in types.items()}


@pytest.mark.parametrize("name", ["grouped", "specimen"])
def test_generated_checks_say_what_python_says(name, request, root, tmp_path):
    spec = request.getfixturevalue(name)
    program = compiled_checks(spec, root, tmp_path)
    rng = random.Random(7)  # noqa: S311  # the same calls in every run
    cases = []
    for _ in range(10000):
        with_outputs = rng.random() < 0.5
        cases.append((random_call(spec, rng, with_outputs), with_outputs))
    text = "\n".join(cpp_line(spec, *case) for case in cases)
    answers = subprocess.run([program], input=text, check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(answers) == len(cases)
    for case, answer in zip(cases, answers, strict=True):
        assert answer == python_line(spec, *case), case
    labels = {constraint.label for constraint in spec.constraints}
    assert {answer[-3:-1] for answer in answers if answer.endswith("]")} == labels, (
        "every constraint must be broken once"
    )
    assert any(answer.endswith(";") for answer in answers)
