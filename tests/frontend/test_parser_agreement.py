"""Compare with the open-source GE parser: accepted and rejected models, and the printed codes."""

from itertools import product

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from opforge.codegen.project import BUILTIN_ROOT
from opforge.codegen.render import render
from opforge.codegen.spec.loader import load_specs
from opforge.frontend import convert
from opforge.frontend.io.load import SourceModel
from opforge.frontend.run.execute import execute
from opforge.frontend.targets.check import check_model
from opforge.frontend.targets.finding import OPFORGE

X = "(float[2, 4, 6, 6] x) =>"
CONV = "(float[5, 2, 4] g, float[5, 2, 3] x, float[1, 3, 4] w, float[4] b) => (p, q, r)"
NSA = "(float16[1, 2, 16] g, float16[32, 2, 16] x, float16[32, 2] w) => (p, q)"
NSA_ATTRIBUTES = "compress_block_size = 32, compress_stride = 16"
CUBE = "(float[2, 4, 3] x)"
BRANCHES = (
    "(bool c, float[2] x) => (y) {{{} y = If (c)"
    " <then_branch = t () => (float[2] a) {{{}}}, else_branch = e () => (float[2] b) {{{}}}>}}"
)
OUR = "npu.NPUGroupedBiasAddGrad"


def parse(text, opset=18):
    imports = [f'"" : {opset}', *(f'"{domain}" : 1' for domain in ("npu", "opforge") if f"{domain}." in text)]
    return onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{', '.join(imports)}]> g {text}")


def errors(model, tmp_path):
    found = check_model(SourceModel(tmp_path / "m.onnx", b"", model), {})
    return [finding for finding in found if finding.level == "error"]


# Rejected by the parser: nodes, opset, code, words of the cause.
REFUSED = {
    "Pad with axes": (
        '(float[4] x, int64[2] p, int64[1] a) => (y) {[n] y = Pad (x, p, "", a)}',
        18,
        "E19999",
        "has an input 3, expected at most 3 inputs",
    ),
    "ReduceSumSquare with an input for axes": (
        f"{X} (y) {{a = Constant <value = int64[1] {{1}}> () [n] y = ReduceSumSquare (x, a)}}",
        18,
        "E19999",
        "has an input 1, expected at most 1 input",
    ),
    "GatherND with batch_dims": (
        "(float[2, 3] x, int64[2, 1] i) => (y) {[n] y = GatherND <batch_dims = 1> (x, i)}",
        13,
        "E19999",
        "has batch_dims 1, expected 0",
    ),
    "Conv without attributes": (
        "(float[1, 4, 6, 6] x, float[2, 4, 3, 3] w) => (y) {[n] y = Conv (x, w)}",
        13,
        "E19999",
        "has no attribute kernel_shape, pads, strides or dilations",
    ),
    "MaxPool with two outputs": (
        f"{X} (y, i) {{[n] y, i = MaxPool <kernel_shape = [2, 2]> (x)}}",
        13,
        "E19999",
        "has 2 outputs, expected 1",
    ),
    "MaxPool with an output without name": (
        f'{X} (y) {{[n] y, "" = MaxPool <kernel_shape = [2, 2]> (x)}}',
        13,
        "E19999",
        "has 2 outputs, expected 1",
    ),
    "Dropout's mask": (f"{X} (y, m) {{[n] y, m = Dropout (x)}}", 13, "E19999", "output 1 with a reader"),
    "two nodes of one name in a branch": (
        BRANCHES.format("", "[n] u = Neg (x) [n] a = Abs (u)", "b = Abs (x)"),
        13,
        "E13009",
        "another node has the same name",
    ),
    "a standard node of a new opset": (f"{X} (y) {{[n] y = Relu (x)}}", 22, "E13010", "ai.onnx"),
    "our node of a new opset": (f"{CUBE} => (y) {{[n] y = NPUGroupedBiasAddGrad (x)}}", 23, "E13010", "8 to 22"),
    # Rejected by the plugin of a custom operator.
    "our attribute": (f"{CUBE} => (y) {{[n] y = {OUR} <group_idx_type = 2> (x)}}", 18, "E19999", "[C6]"),
    "our attribute of another kind": (
        f"{CUBE} => (y) {{[n] y = {OUR} <group_idx_type = 1.0> (x)}}",
        18,
        "E19999",
        "kind",
    ),
    "our unknown attribute": (f"{CUBE} => (y) {{[n] y = {OUR} <axis = 1> (x)}}", 18, "E19999", "unknown attribute"),
    "our required input": (f'{CUBE} => (y) {{[n] y = {OUR} ("", x)}}', 18, "E19999", "required input"),
    "our attribute in another spelling": (
        f"{CUBE} => (y) {{[n] y = {OUR} <groupIdxType = 0> (x)}}",
        18,
        "E19999",
        "another name",
    ),
    "our extra input": (f"{CUBE} => (y) {{[n] y = {OUR} (x, x, x)}}", 18, "E19999", "has 3 inputs"),
    "our extra output with a reader": (f"{CUBE} => (y, z) {{[n] y, z = {OUR} (x)}}", 18, "E19999", "has 2 outputs"),
    "our required attribute": (f"{CONV} {{[n] p, q, r = npu.NPUConvTbcBackward (g, x, w, b)}}", 18, "E19999", "pad"),
    # Rejected by the shape inference of a custom operator.
    "our rank": (f"(float[2, 3] x) => (y) {{[n] y = {OUR} (x)}}", 18, "EZ9999", "[C3]"),
    # Accepted by both at this stage, rejected by opforge.
    "our dtype": (f"(double[2, 4, 3] x) => (y) {{[n] y = {OUR} (x)}}", 18, OPFORGE, "[C2]"),
    "our list of a run": (
        NSA.replace(") =>", ", int64[1] s) =>")
        + f" {{[n] p, q = npu.NPUNsaCompressGrad <{NSA_ATTRIBUTES}, act_seq_len_type = 0> (g, x, w, s)}}",
        18,
        OPFORGE,
        "must be constant",
    ),
    "our extra output": (f"{CUBE} => (y) {{[n] y, z = {OUR} (x)}}", 18, OPFORGE, "has 2 outputs"),
    "our declared shape": (f"{CUBE} => (float[2, 7] y) {{[n] y = {OUR} (x)}}", 18, OPFORGE, "got shape [2, 7]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_check_refuses_with_the_code_of_the_parser(name, tmp_path):
    text, opset, code, words = REFUSED[name]
    found = errors(parse(text, opset), tmp_path)
    assert {(finding.node.split(" ")[0], finding.code) for finding in found} <= {("n", code), ("model", code)}
    assert any(words in finding.cause for finding in found)


REDUCED = "(float[2, 4, 6] x) => (y) {{a = Constant <value = int64[1] {{1}}> () y = {0} (x, a)}}"
REDUCTIONS = ("Max", "Min", "Mean", "Prod", "Sum", "LogSum", "LogSumExp")
# Accepted by the parser: nodes and opset.
ACCEPTED = {
    **{f"Reduce{name} with an input for axes": (REDUCED.format(f"Reduce{name}"), 18) for name in REDUCTIONS},
    "ReduceSumSquare with an attribute": ("(float[2, 4] x) => (y) {y = ReduceSumSquare <axes = [1]> (x)}", 13),
    "a Pad of three inputs": (
        f"{X} (y) {{p = Constant <value = int64[8] {{0, 0, 1, 1, 0, 0, 1, 1}}> () y = Pad (x, p)}}",
        18,
    ),
    "Dropout's mask without reader": (f"{X} (y) {{y, m = Dropout (x)}}", 13),
    "our node without cube_math_type": (
        f"{CONV} {{p, q, r = npu.NPUConvTbcBackward <pad = 0> (g, x, w, b)}}",
        18,
    ),
    "our node without act_seq_len_type": (f"{NSA} {{p, q = npu.NPUNsaCompressGrad <{NSA_ATTRIBUTES}> (g, x, w)}}", 18),
    "one name in a branch and in the main graph": (
        BRANCHES.format("[n] u = Neg (x)", "[n] a = Abs (u)", "[n] b = Neg (u)"),
        13,
    ),
    "our node in opset 22": (f"{CUBE} => (y) {{y = NPUGroupedBiasAddGrad (x)}}", 22),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_check_accepts_models_accepted_by_the_parser(name, tmp_path):
    assert errors(parse(*ACCEPTED[name]), tmp_path) == []


@pytest.mark.parametrize("output", ["y", "w"])
@pytest.mark.parametrize("is_input_fed", [True, False])
def test_initializers_are_inputs_and_outputs(output, is_input_fed, tmp_path):
    """A model without other inputs starts from its constants; an output that is an initializer is a constant."""
    model = parse("(float[2] x, float[2] w) => (float[2] y) {y = Add (x, w)}")
    given = ["w"] if is_input_fed else ["w", "x"]
    model.graph.initializer.extend(numpy_helper.from_array(np.ones(2, np.float32), name) for name in given)
    model.graph.output[0].name = output
    assert errors(model, tmp_path) == []


@pytest.mark.parametrize("op", ["conv_tbc_backward", "nsa_compress_grad"])
def test_plugins_accept_nodes_without_an_attribute_that_pytorch_lacks(op):
    """The compared parser rejected them: the plugin had no value for the attribute."""
    spec = load_specs([BUILTIN_ROOT / f"op_proto/{op}.yaml"])[0]
    (plugin,) = (text for name, text in render(spec) if name.endswith("_onnx_plugin.cpp"))
    demanded = {attr.name for attr in spec.attrs if f"got no attribute '{attr.name}'" in plugin}
    required = {attr.name for attr in spec.attrs if attr.default is None}
    assert demanded == required - set(spec.torch.implied) != required


def test_every_limit_names_a_type_of_the_parser():
    from opforge.frontend.parsers.atc_limits import _table
    from opforge.frontend.parsers.atc_types import is_registered

    rows = {(limit, op_type) for (op_type, _), found in _table().items() for limit in found}
    assert len(rows) > 60
    for limit, op_type in rows:
        versions = [version for version in range(1, 23) if is_registered("", op_type, version)]
        assert any(limit in _table().get((op_type, version), ()) for version in versions), (limit, op_type)
        schema = onnx.defs.get_schema(op_type, 18) if onnx.defs.has(op_type, 18) else None
        if schema is not None and limit.attribute:
            assert limit.attribute in schema.attributes or op_type == "Selu"


def test_squares_are_summed_without_an_input_for_axes(tmp_path, rng):
    text = (
        "(float[2, 4, 3] x) => (y, z) {a = Constant <value = int64[1] {1}> () y = ReduceSumSquare <keepdims = 0> (x, a)"
    )
    model = parse(f"{text} z = {OUR} (x)}}")
    old = parse(
        f"(float[2, 4, 3] x) => (y, z) {{y = ReduceSumSquare <axes = [1], keepdims = 0> (x) z = {OUR} (x)}}", 13
    )
    x = rng.normal(size=(2, 4, 3)).astype(np.float32)
    for source in (model, old):
        result = convert(source).model
        assert errors(result, tmp_path) == []
        assert "ReduceSumSquare" not in [node.op_type for node in result.graph.node]
        session = onnxruntime.InferenceSession(result.SerializeToString())
        np.testing.assert_allclose(session.run(["y"], {"x": x})[0], (x**2).sum(1), rtol=1e-6)


def test_outputs_without_reader_are_removed_in_the_opset_of_the_result(tmp_path):
    text = f"(float[2, 4, 6] x) => (y, z) {{z, i = MaxPool <kernel_shape = [2]> (x) y = {OUR} (x)}}"
    result = convert(parse(text, 20)).model
    assert [len(node.output) for node in result.graph.node] == [1, 1]
    assert errors(result, tmp_path) == []
    read = parse(text.replace("(y, z)", "(y, z, i)"), 20)
    assert [finding.code for finding in errors(convert(read).model, tmp_path)] == ["E19999"]


POOLS = {
    "plain": ([2, 3, 6, 6], "kernel_shape = [2, 2], strides = [2, 2]"),
    "overlapping": ([2, 2, 7, 5], "kernel_shape = [3, 3]"),
    "padding": ([1, 2, 6, 5], "kernel_shape = [3, 2], strides = [2, 1], pads = [1, 1, 2, 0]"),
    "dilations": ([2, 1, 9, 8], "kernel_shape = [3, 2], dilations = [2, 3], pads = [2, 0, 1, 1]"),
    "ceil_mode": ([1, 2, 7, 8], "kernel_shape = [3, 3], strides = [2, 3], ceil_mode = 1"),
    "ceil_mode with padding": (
        [1, 2, 8, 10],
        "kernel_shape = [3, 4], strides = [2, 3], ceil_mode = 1, pads = [1, 1, 1, 0]",
    ),
    "SAME_UPPER": ([1, 2, 7, 6], 'kernel_shape = [3, 2], strides = [2, 2], auto_pad = "SAME_UPPER"'),
    "SAME_LOWER": ([1, 2, 7, 6], 'kernel_shape = [4, 3], strides = [2, 2], auto_pad = "SAME_LOWER"'),
    "VALID": ([1, 2, 7, 6], 'kernel_shape = [3, 2], strides = [2, 3], auto_pad = "VALID"'),
    "one axis": ([2, 2, 9], "kernel_shape = [4], strides = [3], pads = [2, 1]"),
    "three axes": ([1, 2, 4, 5, 4], "kernel_shape = [2, 3, 2], strides = [2, 1, 2], pads = [0, 1, 0, 0, 1, 0]"),
}


def pool_model(dims, attributes, dtype="float"):
    """Return a MaxPool, and onnxruntime's gradient of it; the shape of y determines that of dy."""
    text = f"({dtype}{dims} x) => (y, i) {{y, i = MaxPool <{attributes}> (x)}}"
    forward = onnx.shape_inference.infer_shapes(parse(text))
    outs = [dim.dim_value for dim in forward.graph.output[0].type.tensor_type.shape.dim]
    inputs = f"{dtype}{dims} x, {dtype}{outs} dy"
    outputs = f"{dtype}{dims} dx, {dtype}{outs} y"
    return parse(f"({inputs}) => ({outputs}) {{y, i = MaxPool <{attributes}> (x) dx = MaxPoolGrad (dy, i)}}")


def first_maxima(x, dy, begins, strides, kernel, dilations):
    """Return dx from the definition: the first maximum of a window, by rows, gets the element of dy."""
    dx = np.zeros(x.shape)
    for batch, place in product(np.ndindex(x.shape[:2]), np.ndindex(dy.shape[2:])):
        best, at = None, None
        for tap in np.ndindex(*kernel):
            spot = tuple(
                p * s - b + t * d for p, s, b, t, d in zip(place, strides, begins, tap, dilations, strict=True)
            )
            if all(0 <= i < n for i, n in zip(spot, x.shape[2:], strict=True)) and (
                best is None or x[batch + spot] > best
            ):
                best, at = x[batch + spot], spot
        dx[batch + at] += dy[batch + place]
    return dx


@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize("name", POOLS)
def test_max_pool_grad_finds_the_first_maximum_again(name, is_tied, tmp_path, rng):
    dims, attributes = POOLS[name]
    model = pool_model(dims, attributes)
    conversion = convert(model, lower_training=True)
    assert [len(node.output) for node in conversion.model.graph.node if node.op_type == "MaxPool"] == [1]
    assert errors(conversion.model, tmp_path) == []
    x = (rng.integers(-2, 2, dims) if is_tied else rng.normal(size=dims)).astype(np.float32)
    session = onnxruntime.InferenceSession(conversion.model.SerializeToString())
    outs = session.get_inputs()[1].shape
    dy = rng.integers(-8, 8, outs).astype(np.float32)
    given = {a.name: helper.get_attribute_value(a) for a in model.graph.node[0].attribute}
    rank = len(dims) - 2
    kernel, (strides, dilations) = given["kernel_shape"], (given.get(n, [1] * rank) for n in ("strides", "dilations"))
    begins = list(given.get("pads", [0] * rank)[:rank])
    if given.get("auto_pad", b"").startswith(b"SAME"):
        totals = [max((o - 1) * s + k - n, 0) for o, s, k, n in zip(outs[2:], strides, kernel, dims[2:], strict=True)]
        begins = [total // 2 if given["auto_pad"] == b"SAME_UPPER" else -(-total // 2) for total in totals]
    expected = first_maxima(x, dy, begins, strides, kernel, dilations)
    np.testing.assert_array_equal(session.run(["dx"], {"x": x, "dy": dy})[0], expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "double"])
def test_max_pool_grad_of_other_dtypes(dtype, rng):
    model = pool_model(*POOLS["padding"], dtype)
    word = {"double": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[dtype]
    shapes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in model.graph.input}
    feed = {name: rng.integers(-3, 3, shape).astype(word) for name, shape in shapes.items()}
    got = execute(convert(model, lower_training=True).model, feed)["dx"]
    expected = first_maxima(feed["x"], feed["dy"], [1, 1], [2, 1], [3, 2], [1, 1])
    np.testing.assert_array_equal(got.astype(np.float64), expected)


@pytest.mark.parametrize(
    ("dims", "dy", "attributes", "words"),
    [
        ("[1, 1, 8]", "[1, 1, 3]", "kernel_shape = [2], strides = [2]", "expected that of a MaxPool"),
        ("[1, 1, A]", "[1, 1, 4]", "kernel_shape = [2], strides = [2]", "needs a known dim 2"),
        ("[1, 1, 8]", "[1, 1, 4]", "kernel_shape = [2, 2], strides = [2]", "is malformed"),
        ("[1, 1, 8]", "[1, 1, 4]", "kernel_shape = [2], strides = [0]", "is malformed"),
        (
            "[1, 1, 99999999]",
            "[1, 1, 49999999]",
            "kernel_shape = [2], strides = [2]",
            "more than the lowering supports",
        ),
    ],
)
def test_other_pools_are_not_lowered(dims, dy, attributes, words):
    body = f"{{y, i = MaxPool <{attributes}> (x) dx = MaxPoolGrad (dy, i)}}"
    (entry,) = convert(parse(f"(float{dims} x, float{dy} dy) => (dx) {body}"), lower_training=True).left
    assert words in entry.reason
