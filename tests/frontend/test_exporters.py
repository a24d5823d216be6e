"""Test models of PyTorch's exporters and traced graphs; skipped if PyTorch is not installed."""

import io
import logging
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from opforge.frontend import convert, from_fx
from opforge.frontend.run.execute import execute
from opforge.frontend.run.verify import verify

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch onnxscript")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs it: pip install onnxscript")

# Deprecations and hints of the exporters are not tested here.
pytestmark = pytest.mark.filterwarnings("ignore")
aten = torch.ops.aten
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "convert-models.md"
IDS = torch.tensor([0, 0, 1, 2, 2, 2])


def tensors(*shapes):
    generator = torch.Generator().manual_seed(7)
    return tuple(torch.rand(*shape, generator=generator) + 0.5 for shape in shapes)


def export(function, arguments, *, dynamo, opset, **options):
    """Return the model that an exporter creates from a function."""

    class Module(torch.nn.Module):
        def forward(self, *values):
            return function(*values)

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    if dynamo:
        return torch.onnx.export(Module(), arguments, dynamo=True, opset_version=opset, verbose=False).model_proto
    file = io.BytesIO()
    torch.onnx.export(Module(), arguments, file, dynamo=False, opset_version=opset, **options)
    return onnx.load_from_string(file.getvalue())


def converted(model, arguments, function, op):
    """Convert; the result agrees with PyTorch in onnx's evaluator and in onnxruntime."""
    conversion = convert(model, patterns=True)
    assert [entry.op for entry in conversion.mapped] == [op], conversion.left
    onnx.checker.check_model(conversion.model)
    expected = function(*arguments)
    expected = [value.numpy() for value in (expected if isinstance(expected, (tuple, list)) else [expected])]
    feed = {value.name: a.numpy() for value, a in zip(conversion.model.graph.input, arguments, strict=True)}
    session = onnxruntime.InferenceSession(conversion.model.SerializeToString()).run(None, feed)
    evaluated = onnx.reference.ReferenceEvaluator(conversion.model).run(None, feed)
    for results in (session, evaluated):
        for got, expected_array in zip(results, expected, strict=True):
            np.testing.assert_allclose(got, expected_array, rtol=1e-4, atol=1e-4)
    assert all(comparison.same for comparison in verify(model, conversion))


def embedding(scaled):
    return lambda g, i: aten.embedding_dense_backward(g, i, 7, 2, scaled)


def batch_norm(dy, x, weight, mean, invstd):
    return aten.native_batch_norm_backward(dy, x, weight, None, None, mean, invstd, True, 1e-5, [True, True, True])


def written_out(dy, x, mean, invstd, weight, sum_dy, sum_dy_xmu):
    shape = (1, -1, 1, 1)
    centred = x - mean.view(shape)
    slope = (invstd.pow(2) * sum_dy_xmu / 12).view(shape)
    return (dy - (sum_dy / 12).view(shape) - centred * slope) * (invstd * weight).view(shape)


def parts(g):
    return torch.cat([part.sum(0, keepdim=True) for part in torch.split(g, [2, 1, 3], 0)])


GRAD, INDICES = torch.rand(4, 3, 5), torch.arange(12).reshape(4, 3) % 7
DATA = (3, 5, 2, 2)
DYNAMO = [
    ("embedding", embedding(False), (GRAD, INDICES), "EmbeddingDenseBackward"),
    ("embedding scaled", embedding(True), (GRAD, INDICES), "EmbeddingDenseBackward"),
    ("batch norm", batch_norm, tensors(DATA, DATA, *[(5,)] * 3), "BatchNormElemtBackward"),
    ("written out", written_out, tensors(DATA, DATA, *[(5,)] * 5), "BatchNormElemtBackward"),
    ("equal groups", lambda g: g.sum(1), tensors((3, 4, 5)), "GroupedBiasAddGrad"),
    ("kept axis", lambda g: g.sum(1, keepdim=True), tensors((3, 4, 5)), "GroupedBiasAddGrad"),
    ("parts", parts, tensors((6, 5)), "GroupedBiasAddGrad"),
    ("ids", lambda g: torch.zeros(3, 5).index_add(0, IDS, g), tensors((6, 5)), "GroupedBiasAddGrad"),
    (
        "repeats",
        lambda g: torch.zeros(3, 5).index_add(0, torch.repeat_interleave(torch.tensor([2, 1, 3])), g),
        tensors((6, 5)),
        "GroupedBiasAddGrad",
    ),
    ("any ids", lambda g, i: torch.zeros(3, 5).index_add(0, i, g), (*tensors((6, 5)), IDS), "EmbeddingDenseBackward"),
]


@pytest.mark.parametrize("case", DYNAMO, ids=lambda case: case[0])
def test_dynamo(case):
    _, function, arguments, op = case
    converted(export(function, arguments, dynamo=True, opset=18), arguments, function, op)


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("case", [case for case in DYNAMO if case[0] in ("written out", "equal groups", "parts")])
def test_torchscript(case, opset):
    _, function, arguments, op = case
    converted(export(function, arguments, dynamo=False, opset=opset), arguments, function, op)


FALLTHROUGH = [
    (embedding(False), (GRAD, INDICES), "EmbeddingDenseBackward"),
    (
        lambda g, x, w, b: aten.conv_tbc_backward(g, x, w, b, 1),
        tensors((6, 2, 4), (6, 2, 3), (3, 3, 4), (4,)),
        "ConvTbcBackward",
    ),
]


@pytest.mark.parametrize("mode", ["ONNX_FALLTHROUGH", "ONNX_ATEN_FALLBACK"])
@pytest.mark.parametrize(("function", "arguments", "op"), FALLTHROUGH)
def test_node_of_the_older_exporter(function, arguments, op, mode):
    if mode == "ONNX_ATEN_FALLBACK" and op == "ConvTbcBackward":
        pytest.skip("the exporter refuses functions of several outputs in this mode")
    mode = getattr(torch.onnx.OperatorExportTypes, mode)
    model = export(function, arguments, dynamo=False, opset=16, operator_export_type=mode)
    converted(model, arguments, function, op)


def test_index_put_of_the_older_exporter_is_another_operation():
    function = lambda g: torch.zeros(3, 5).index_put((IDS,), g, accumulate=True)  # noqa: E731  # one line is clearer
    conversion = convert(export(function, tensors((6, 5)), dynamo=False, opset=16), patterns=True)
    assert not conversion.changed
    assert conversion.left[0].reason == "ScatterND has reduction 'none', expected add"


@pytest.mark.parametrize("padding", [0, 1])
def test_convolution_in_standard_nodes_is_not_mapped(padding):
    """Its taps are slices and products, whose number depends on the length of the kernel: there is no pattern for
    it."""
    arguments = tensors((4 + 2 * padding, 2, 4), (6, 2, 3), (3, 3, 4), (4,))
    model = export(lambda g, x, w, b: aten.conv_tbc_backward(g, x, w, b, padding), arguments, dynamo=True, opset=18)
    conversion = convert(model, patterns=True)
    assert "ConvTbcBackward" not in [entry.op for entry in conversion.mapped]
    assert all(entry.same for entry in verify(model, conversion))


# Graphs.


def traced(function, arguments):
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(function)(*arguments)


@pytest.mark.parametrize(
    ("function", "arguments", "op"),
    [
        (lambda g: torch.zeros(3, 5).index_add(0, IDS, g), tensors((6, 5)), "GroupedBiasAddGrad"),
        (
            lambda g, c: torch.zeros(3, 5).index_add(0, torch.repeat_interleave(c, output_size=6), g),
            (*tensors((6, 5)), torch.tensor([2, 1, 3])),
            "GroupedBiasAddGrad",
        ),
        (
            lambda g, i: g.new_zeros(3, 5).index_put((i,), g, accumulate=True),
            (*tensors((6, 5)), IDS),
            "EmbeddingDenseBackward",
        ),
        (lambda x: x.sum(1), tensors((3, 4, 5)), "GroupedBiasAddGrad"),
    ],
)
def test_make_fx(function, arguments, op):
    module = traced(function, arguments)
    conversion = from_fx(module, patterns=True)
    assert [entry.op for entry in conversion.mapped] == [op], conversion.left
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    given = dict(zip(names, arguments, strict=True))
    feed = {value.name: given[value.name].numpy() for value in conversion.model.graph.input}
    (got,) = execute(conversion.model, feed, operators="function").values()
    np.testing.assert_allclose(got, function(*arguments).numpy(), rtol=1e-5, atol=1e-5)


def test_the_program_in_the_guide():
    blocks = r"`from_graph.py`:\n\n```python\n(.*?)^```\n.*?^\$ python from_graph.py\n(.*?)^```$"
    program, printed = re.findall(blocks, GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)[0]
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == printed


def test_a_list_inside_an_exported_program():
    class Module(torch.nn.Module):
        def forward(self, g):
            return torch.zeros(3, 5).index_add(0, torch.tensor([0, 0, 1, 2, 2, 2]), g)

    (entry,) = from_fx(torch.export.export(Module(), tensors((6, 5))), patterns=True).mapped
    assert (entry.op, entry.rule) == ("GroupedBiasAddGrad", "FuseSortedGroups")


def test_a_training_step_of_an_embedding():
    def loss(table, i):
        return torch.nn.functional.embedding(i, table, padding_idx=2).square().sum()

    arguments = (*tensors((7, 5)), INDICES)
    model = traced(torch.func.grad(loss), arguments)
    assert [entry.op for entry in from_fx(model).mapped] == ["EmbeddingDenseBackward"]
    converted(
        export(model, arguments, dynamo=True, opset=18),
        arguments,
        torch.func.grad(loss),
        "EmbeddingDenseBackward",
    )
