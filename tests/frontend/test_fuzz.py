"""Mutate models: each is converted or rejected in one line, without traceback, crash, hang or large memory use."""

import copy
import json
import re
import resource
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.ge.write import air_model
from opforge.frontend.io.load import load_model
from opforge.frontend.targets.check import check_model

STRINGS = [
    "",
    "x",
    "y",
    "i",
    "a",
    "npu",
    "opforge",
    "ReduceSum",
    "NPUGroupedBiasAddGrad",
    "\x1b[2J",
    "../w.bin",
    "w.bin",
]
NUMBERS = [-1, 0, 1, 2, 3, 7, 99, -(2**31), 2**31 - 1, 2**62]
BYTES = [b"", b"\xff\xfe", bytes(8)]
FLOATS = [0.0, float("nan"), float("inf")]
SECONDS = 10
BYTES_OF_MEMORY = 1 << 30


def forms_model():
    """Return a model with a subgraph, a local function, a sum, a scatter, and a function of PyTorch."""
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


def training_model():
    """Return gradients of onnxruntime's training graphs, without declared types, with external weights."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 14, "com.microsoft" : 1]>
        g (float[2, 3, 4, 4] x, float[2, 5, 4, 4] dy, float[3] mean, float[3] inv, float[N] v)
        => (float[2, 3, 4, 4] dx, float[5, 3, 1, 1] dw, db, bx, bs, bb)
        {dx, dw, db = com.microsoft.ConvGrad <kernel_shape = [1, 1], pads = [0, 0, 0, 0], strides = [1, 1]> (dy, x, w)
        r = Relu (x) bx, bs, bb = com.microsoft.BatchNormalizationGrad <epsilon = 0.001> (r, x, s, mean, inv)}"""
    )
    weights = (
        numpy_helper.from_array(np.ones((5, 3, 1, 1), np.float32), "w"),
        numpy_helper.from_array(np.ones(3, np.float32), "s"),
    )
    model.graph.initializer.extend(weights)
    for tensor, offset in zip(model.graph.initializer, (0, 60), strict=True):
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "w.bin"), ("offset", str(offset)), ("length", str(60 - 4 * offset // 5))):
            tensor.external_data.add(key=key, value=value)
    return model


def scatter_model():
    """Return the decomposition of an embedding gradient by PyTorch: masks, counts, old spellings."""
    return onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18]> g (int64[5] i, float[5, 3] u) => (float[7, 3] t)
        <int64[2] dims = {7, 3}, int64[1] last = {-1}, int64 zero = {0}, int64 rows = {7}, int64 pad = {2},
        float none = {0}> {low = GreaterOrEqual (i, zero) high = Less (i, rows) both = And (low, high)
        is_pad = Equal (i, pad) no_pad = Not (is_pad) mask = And (both, no_pad) column = Unsqueeze (mask, last)
        kept = Where (column, u, none) base = ConstantOfShape (dims) place = Unsqueeze (i, last)
        t = ScatterND <reduction = "add"> (base, place, kept)}"""
    )


def messages(message):
    yield message
    for field, value in message.ListFields():
        if field.message_type:
            for inner in value if field.is_repeated else [value]:
                yield from messages(inner)


def change_field(model, rng):
    """Change a random field of a random message to another value of its type."""
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
            assert field.cpp_type in (field.CPPTYPE_UINT64, field.CPPTYPE_ENUM, field.CPPTYPE_INT32)


def pick(values, rng):
    return values[rng.integers(len(values))] if values else None


def some_node(model, rng):
    return pick([m for m in messages(model) if isinstance(m, onnx.NodeProto)], rng)


def rename(model, rng):
    """Rename a value at one of its positions."""
    node = some_node(model, rng)
    names = pick([values for values in (node.input, node.output) if values], rng) if node else None
    known = [name for m in messages(model) if isinstance(m, onnx.NodeProto) for name in (*m.input, *m.output)]
    if names:
        names[rng.integers(len(names))] = pick([*known, "", "absent's", "n\no\x1b[1m"], rng)


def change_arity(model, rng):
    """Change the number of inputs or outputs of a node."""
    node = some_node(model, rng)
    names = pick((node.input, node.output), rng) if node else None
    if names and rng.random() < 0.6:
        del names[rng.integers(len(names)) :]
    elif names is not None:
        names.extend([*names, f"more{rng.integers(9)}"])


def change_type(model, rng):
    """Change element type, rank or size of a tensor or declaration."""
    kinds = (TensorProto, onnx.TypeProto.Tensor)
    message = pick([m for m in messages(model) if isinstance(m, kinds)], rng)
    if isinstance(message, TensorProto):
        message.data_type = int(rng.integers(0, 25))
        message.dims[:] = [pick(NUMBERS, rng) for _ in range(rng.integers(4))]
    elif message is not None:
        message.elem_type = int(rng.integers(0, 25))
        del message.shape.dim[rng.integers(len(message.shape.dim) + 1) :]
        message.shape.dim.add(dim_value=pick(NUMBERS, rng))


def change_operator(model, rng):
    """Replace an operator but keep its attributes, or change the kind of an attribute."""
    node = some_node(model, rng)
    types = {(m.domain, m.op_type) for m in messages(model) if isinstance(m, onnx.NodeProto)}
    if node and rng.random() < 0.5:
        node.domain, node.op_type = pick([*sorted(types), ("", "Split"), ("", "LayerNormalization"), ("", "Loop")], rng)
    elif node:
        value = pick([1, 1.5, "add", [1, 2], [0.5], 2**62, numpy_helper.from_array(np.zeros(2)), model.graph], rng)
        name = pick([a.name for a in node.attribute] + ["axis", "value", "reduction"], rng)
        kept = [a for a in node.attribute if a.name != name]
        changed = [*map(copy.deepcopy, kept), helper.make_attribute(name, value)]
        del node.attribute[:]
        node.attribute.extend(changed)


def change_opset(model, rng):
    """Change the version of a domain, in the model or in a function."""
    entry = pick([m for m in messages(model) if isinstance(m, onnx.OperatorSetIdProto)], rng)
    if entry:
        entry.version = int(rng.integers(0, 30))


def move_node(model, rng):
    """Reorder, duplicate or remove nodes."""
    nodes = pick(
        [m.node for m in messages(model) if isinstance(m, (onnx.GraphProto, onnx.FunctionProto)) and m.node], rng
    )
    if nodes:
        kept = [copy.deepcopy(nodes[k]) for k in rng.permutation(len(nodes))]
        kept = pick([kept, kept[1:], [*kept, kept[0]]], rng)
        del nodes[:]
        nodes.extend(kept)


def nest(model, rng):
    """Nest a graph in graphs."""
    node = some_node(model, rng)
    for _ in range(rng.integers(1, 12)):
        if node and rng.random() < 0.5:
            graph = copy.deepcopy(model.graph)
            node.attribute.add(name="body", type=AttributeProto.GRAPH).g.CopyFrom(graph)
            node = pick(node.attribute[-1].g.node, rng)
        elif node:
            graph = node.attribute.add(name="then_branch", type=AttributeProto.GRAPH).g
            node = graph.node.add(op_type=pick(["If", "Loop", "Scan", "Relu"], rng), output=["inner"])
    return model


def mutate_structure(model, rng):
    """Apply a few changes of single fields."""
    model = copy.deepcopy(model)
    for _ in range(rng.choice([1, 1, 2, 5])):
        change_field(model, rng)
    return model.SerializeToString()


CHANGES = (rename, change_arity, change_type, change_operator, change_opset, move_node, nest, change_field)


def mutate_meaning(model, rng):
    """Apply a few changes after which the message can still be a model."""
    model = copy.deepcopy(model)
    for _ in range(rng.choice([1, 1, 2, 3])):
        pick(CHANGES, rng)(model, rng)
    return model.SerializeToString()[: 1 << 20]


def mutate_bytes(model, rng):
    data = bytearray(model.SerializeToString())
    for _ in range(rng.choice([1, 2, 8])):
        data[rng.integers(len(data))] = rng.integers(256)
    return bytes(data[: rng.integers(len(data))] if rng.random() < 0.2 else data)


def one_line(text):
    return "\n" not in text and text.isprintable() and len(text) < 2000


@pytest.fixture
def _limited_memory():
    """More memory is a MemoryError. The peak of the process also has the memory of earlier tests."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    used = int(re.search(r"VmData:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (used + BYTES_OF_MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)


@pytest.mark.usefixtures("_limited_memory")
@pytest.mark.parametrize("cases", [50, pytest.param(5_000, marks=pytest.mark.all)])
@pytest.mark.parametrize(
    ("mutate", "start"), [(mutate_structure, 11), (mutate_bytes, 12), (mutate_meaning, 13), (mutate_meaning, 14)]
)
def test_a_mutated_model_is_converted_or_refused_in_one_line(tmp_path, mutate, start, cases):
    rng = np.random.default_rng(start)
    forms = forms_model()
    seeds = [forms, convert(forms, patterns=True).model, training_model(), scatter_model()]
    path = tmp_path / "m.onnx"
    (tmp_path / "w.bin").write_bytes(np.ones(18, np.float32).tobytes())
    outcomes = {"mapped": 0, "unchanged": 0}
    refusals = []
    for count in range(cases):
        try:
            data = mutate(seeds[count % len(seeds)], rng)
        except DecodeError:  # nesting is deeper than protobuf can copy
            continue
        path.write_bytes(data)
        began = time.process_time()
        try:
            source = load_model(path)
            assert all(one_line(str(finding)) or "\n" not in str(finding) for finding in check_model(source, {}))
            conversion = convert(source, patterns=True, lower_training=True, opset=(None, 17)[count % 16 == 5])
            json.dumps(conversion.report())
            assert onnx.ModelProto.FromString(conversion.model.SerializeToString()) == conversion.model
            outcomes["mapped" if conversion.mapped else "unchanged"] += 1
            air_model(conversion.model, tmp_path)
        except UserError as error:
            refusals.append(str(error))
        except Exception as error:
            (tmp_path / "found.onnx").write_bytes(data)
            raise AssertionError(f"case {count}: {tmp_path / 'found.onnx'}") from error
        assert time.process_time() - began < SECONDS, count
    assert [text for text in refusals if not one_line(text) or "memory" in text] == []
    assert outcomes["mapped"] > cases // 50
    assert len(refusals) > cases // 50


def test_an_unchanged_source_keeps_its_bytes(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(forms_model().SerializeToString())
    assert load_model(path).data == path.read_bytes()


def test_a_gradient_of_impossible_shapes_is_not_mapped():
    model = training_model()
    for tensor in model.graph.initializer:
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
        tensor.raw_data = bytes(4 * int(np.prod(tensor.dims)))
    del model.graph.input[0].type.tensor_type.shape.dim[:]
    conversion = convert(model, lower_training=True)
    assert "ConvGrad" in [node.op_type for node in conversion.model.graph.node]
