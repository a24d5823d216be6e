"""Mutated models: converted, or one clear line; never a traceback."""

import copy
import json

import numpy as np
import onnx
import pytest
from onnx import helper

from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.check import check_model
from opforge.frontend.load import load_model

STRINGS = ["", "x", "y", "i", "a", "npu", "opforge", "ReduceSum", "NPUGroupedBiasAddGrad", "\x1b[2J"]
NUMBERS = [-1, 0, 1, 2, 3, 7, 99, -(2**31), 2**31 - 1]
BYTES = [b"", b"\xff\xfe", bytes(8)]
FLOATS = [0.0, float("nan"), float("inf")]


def seed_model():
    """A subgraph, a local function, a fusable sum, a scatter, and a function of PyTorch."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 19, "npu" : 1, "d" : 1, "com.microsoft" : 1, "org.pytorch.aten" : 1]>
        g (float[6, 3] x, int64[2] i, bool c, float[2, 4, 3] q, float[7, 3] W)
        => (float[2, 3] y, float[2, 3] w, u, e, h, t)
        <int64[1] a = {1}, int64 n = {7}, int64 m = {-1}, bool z = {0}, int64[2] dims = {7, 3}> {
        w = d.F (x, i) p = Relu (q) s = ReduceSum (p, a) u = Squeeze (s, a)
        k = Shape (W) r = ReduceSum <keepdims = 0> (q, a) e = com.microsoft.GatherGrad (k, i, r)
        h = org.pytorch.aten.ATen <operator = "embedding_dense_backward"> (r, i, n, m, z)
        zeros = ConstantOfShape (dims) j = Unsqueeze (i, a) t = ScatterND <reduction = "add"> (zeros, j, r)}"""
    )
    branch = onnx.parser.parse_graph("b () => (float[2, 3] t) {t = npu.NPUGroupedBiasAddGrad (x, i)}")
    model.graph.node.append(helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch))
    model.functions.append(
        onnx.parser.parse_function(
            '<opset_import: ["npu" : 1], domain: "d"> F (a, b) => (c) {c = npu.NPUGroupedBiasAddGrad (a, b)}'
        )
    )
    return model


def messages(message):
    yield message
    for field, value in message.ListFields():
        if field.message_type:
            for inner in value if field.is_repeated else [value]:
                yield from messages(inner)


def mutate_structure(model, rng):
    """Change some field of some message to something of its type."""
    model = copy.deepcopy(model)
    for _ in range(rng.choice([1, 1, 2, 5])):
        found = list(messages(model))
        message = found[rng.integers(len(found))]
        fields = message.DESCRIPTOR.fields
        field = fields[rng.integers(len(fields))]
        if rng.random() < 0.3:
            message.ClearField(field.name)
        elif field.message_type and field.is_repeated:
            values = getattr(message, field.name)
            if values and rng.random() < 0.5:
                del values[rng.integers(len(values))]
            else:
                values.append(values[0]) if values else values.add()
        elif field.message_type:
            getattr(message, field.name).SetInParent()
        else:
            choices = {field.TYPE_STRING: STRINGS, field.TYPE_BYTES: BYTES, field.TYPE_FLOAT: FLOATS}
            pool = choices.get(field.type, FLOATS if field.type == field.TYPE_DOUBLE else NUMBERS)
            value = pool[rng.integers(len(pool))]
            try:
                getattr(message, field.name).append(value) if field.is_repeated else setattr(message, field.name, value)
            except ValueError:
                assert field.cpp_type in (field.CPPTYPE_UINT64, field.CPPTYPE_ENUM)
    return model.SerializeToString()


def mutate_bytes(model, rng):
    data = bytearray(model.SerializeToString())
    for _ in range(rng.choice([1, 2, 8])):
        data[rng.integers(len(data))] = rng.integers(256)
    return bytes(data[: rng.integers(len(data))] if rng.random() < 0.2 else data)


@pytest.mark.parametrize("cases", [1000, pytest.param(10_000, marks=pytest.mark.all)])
@pytest.mark.parametrize("mutate", [mutate_structure, mutate_bytes])
def test_a_mutated_model_is_converted_or_refused_in_one_line(tmp_path, mutate, cases):
    rng = np.random.default_rng(11)
    seeds = [seed_model(), convert(seed_model(), patterns=True).model]
    path = tmp_path / "m.onnx"
    outcomes = {"mapped": 0, "unchanged": 0}
    refusals = []
    for count in range(cases):
        path.write_bytes(mutate(seeds[count % 2], rng))
        try:
            source = load_model(path)
            conversion = convert(source, patterns=True, lower_training=True)
            assert all("\n" not in str(finding) for finding in check_model(source, {}))
        except UserError as error:
            refusals.append(str(error))
            continue
        json.dumps(conversion.report())
        assert onnx.ModelProto.FromString(conversion.model.SerializeToString()) == conversion.model
        outcomes["mapped" if conversion.mapped else "unchanged"] += 1
    assert all("\n" not in text and text.startswith(str(path)) for text in refusals)
    assert outcomes["mapped"] > 10
    assert len(refusals) > 10


def test_an_unchanged_source_keeps_its_bytes(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(seed_model().SerializeToString())
    assert load_model(path).data == path.read_bytes()
