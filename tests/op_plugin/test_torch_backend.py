"""Test the backend `opforge` of torch.compile, and the rewriting of traced graphs."""

import json
import sys
import types

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.run.execute import execute

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'opforge[torch]'")

from torch_cases import CALLS

from opforge.torch import export_onnx, rewrite, take_reports
from opforge.torch.register import FORWARDS

# Deprecations inside of PyTorch.
pytestmark = pytest.mark.filterwarnings("default")


class Model(torch.nn.Module):
    """An embedding, a convolution along time, and a bias for each of five groups."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(50, 16)
        self.kernel = torch.nn.Parameter(torch.randn(3, 16, 8) * 0.1)
        self.bias = torch.nn.Parameter(torch.zeros(8))
        self.groups = torch.nn.Parameter(torch.zeros(5, 8))

    def forward(self, ids):
        rows = torch.conv_tbc(self.table(ids), self.kernel, self.bias, 1).relu()
        return (rows.reshape(5, -1, 8) + self.groups[:, None]).square().mean()


@pytest.fixture
def model():
    torch.manual_seed(5)
    torch._dynamo.reset()
    take_reports()
    return Model()


def gradients(function, model, ids):
    model.zero_grad()
    function(ids).backward()
    grads = {name: parameter.grad for name, parameter in model.named_parameters()}
    return {name: grad.clone() for name, grad in grads.items() if grad is not None}


@pytest.mark.parametrize(
    ("rest", "patterns", "operators"),
    [
        ("eager", False, {"ConvTbcBackward", "EmbeddingDenseBackward"}),
        ("eager", True, {"ConvTbcBackward", "EmbeddingDenseBackward", "GroupedBiasAddGrad"}),
        pytest.param(
            "inductor", True, {"ConvTbcBackward", "EmbeddingDenseBackward", "GroupedBiasAddGrad"}, marks=pytest.mark.all
        ),
    ],
)
def test_a_training_step_has_the_same_gradients(model, rest, patterns, operators, tmp_path):
    ids = torch.randint(0, 50, (10, 6))
    expected = gradients(model, model, ids)
    path = tmp_path / "report.json"
    options = {"rest": rest, "patterns": patterns, "report": str(path)}
    compiled = torch.compile(model, backend="opforge", fullgraph=True, options=options)
    got = gradients(compiled, model, ids)
    for name, grad in expected.items():
        torch.testing.assert_close(got[name], grad, rtol=1e-4, atol=1e-6)
    mapped = {entry.op for report in take_reports() for entry in report.mapped}
    assert mapped == operators
    written = json.loads(path.read_text())["graphs"]
    assert {entry["op"] for graph in written for entry in graph["mapped"]} == operators


@pytest.mark.parametrize("rest", ["torchair", "npugraph_ex"])
def test_the_compilers_of_torch_npu_get_the_rewritten_graphs(model, rest, monkeypatch):
    graphs = []

    def compiler(graph, *_given):
        graphs.append([str(node.target) for node in graph.graph.nodes])
        return graph.forward

    if rest == "torchair":
        made = types.SimpleNamespace(CompilerConfig=object, get_compiler=lambda _config: compiler)
        monkeypatch.setitem(sys.modules, "torchair", made)
    else:
        module = types.SimpleNamespace(npugraph_ex=types.SimpleNamespace(compile_fx=compiler))
        monkeypatch.setattr(torch, "npu", module, raising=False)
    ids = torch.randint(0, 50, (10, 6))
    expected = gradients(model, model, ids)
    got = gradients(torch.compile(model, backend="opforge", options={"rest": rest}), model, ids)
    for name, grad in expected.items():
        torch.testing.assert_close(got[name], grad, rtol=1e-4, atol=1e-6)
    forward, backward = graphs
    assert not any(target.startswith("opforge.") for target in forward)
    assert {"opforge.conv_tbc_backward.default", "opforge.embedding_dense_backward.default"} <= {*backward}


class Experts(torch.nn.Module):
    """Experts with a bias each, and a tied embedding: rows are sorted by the number of their expert."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(30, 8, padding_idx=0)
        self.router = torch.nn.Linear(8, 4)
        self.bias = torch.nn.Parameter(torch.randn(4, 8))

    def forward(self, ids):
        rows = self.table(ids)
        experts = self.router(rows).argmax(-1)
        order = torch.argsort(experts, stable=True)
        sums = rows[order] + self.bias[experts[order]]
        result = torch.zeros_like(sums).index_copy(0, order, sums)
        return torch.nn.functional.cross_entropy(result @ self.table.weight.T, ids)


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_model_with_experts_has_the_same_gradients_for_all_sizes(dynamic):
    torch.manual_seed(5)
    torch._dynamo.reset()
    take_reports()
    model = Experts()
    options = {"rest": "eager", "patterns": True}
    compiled = torch.compile(model, backend="opforge", fullgraph=True, dynamic=dynamic, options=options)
    for rows in (12, 20, 33):
        ids = torch.randint(0, 30, (rows,))
        expected = gradients(model, model, ids)
        got = gradients(compiled, model, ids)
        for name, grad in expected.items():
            torch.testing.assert_close(got[name], grad, rtol=1e-4, atol=1e-6)
    reports = take_reports()
    assert len(reports) == (1 if dynamic else 2)  # a second size makes a dynamic graph
    for report in reports:
        tables = [entry.attrs["num_weights"] for entry in report.mapped]
        assert {4, 30} <= {*tables}  # a graph of fixed sizes also has the sorted rows as a table


class RowByIndex(torch.nn.Module):
    """A row of a table for each index; negative indices count from the end."""

    def __init__(self):
        super().__init__()
        self.rows = torch.nn.Parameter(torch.randn(3, 4))

    def forward(self, indices):
        return self.rows[indices].square().sum()


@pytest.mark.parametrize("dynamic", [None, True])
def test_gradients_of_negative_indices_are_the_same(dynamic):
    torch._dynamo.reset()
    take_reports()
    model, indices = RowByIndex(), torch.tensor([-1, 0, 1, 0, -3, 2])
    expected = gradients(model, model, indices)
    options = {"rest": "eager", "patterns": True}
    compiled = torch.compile(model, backend="opforge", fullgraph=True, dynamic=dynamic, options=options)
    torch.testing.assert_close(gradients(compiled, model, indices), expected)
    assert [entry.op for report in take_reports() for entry in report.mapped] == ["EmbeddingDenseBackward"]


def test_inference_is_unchanged(model):
    ids = torch.randint(0, 50, (10, 6))
    with torch.no_grad():
        compiled = torch.compile(model, backend="opforge", options={"rest": "eager"})
        torch.testing.assert_close(compiled(ids), model(ids))


def test_composite_functions_are_split_again_after_compilation(model):
    ids = torch.randint(0, 50, (10, 6))
    gradients(torch.compile(model, backend="opforge", options={"rest": "eager"}), model, ids)
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    assert key not in torch.ops.aten.conv_tbc_backward.default.py_kernels


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rest": "tvm"}, "rest: got 'tvm', expected inductor, eager"),
        ({"paterns": True}, "got option 'paterns', expected rest, patterns, report"),
        ({"rest": ["eager"]}, r"rest: got \['eager'\], expected inductor, eager"),
        ({"patterns": "yes"}, "patterns: got 'yes', expected True or False"),
        ({"report": 7}, "report: got 7, expected the path of a JSON file"),
        ({"rest": "eager", "report": "no_such_folder/report.json"}, "cannot write the report"),
        ({"rest": "torchair"}, "rest: got 'torchair', expected an installed torchair"),
        ({"rest": "npugraph_ex"}, "rest: got 'npugraph_ex', expected torch_npu"),
    ],
)
def test_wrong_options_are_refused(model, options, message):
    with pytest.raises(Exception, match=message):
        torch.compile(model, backend="opforge", options=options)(torch.randint(0, 50, (10, 6)))


class Gradient(torch.nn.Module):
    """A gradient graph, as exporters of training steps write it."""

    def forward(self, table, ids):
        loss = torch.nn.functional.embedding(ids, table).square().sum()
        return torch.autograd.grad(loss, table)[0]


def exported(dynamic):
    rows = torch.export.Dim("rows") if dynamic else None
    arguments = (torch.randn(9, 4, requires_grad=True), torch.randint(0, 9, (6, 3)))
    shapes = {"table": None, "ids": {0: rows} if dynamic else None}
    return torch.export.export(Gradient(), arguments, strict=False, dynamic_shapes=shapes), arguments


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_exported_gradient_is_rewritten(dynamic, tmp_path):
    program, arguments = exported(dynamic)
    expected = program.module()(*arguments)
    report = rewrite(program)
    assert [entry.op for entry in report.mapped] == ["EmbeddingDenseBackward"]
    assert "opforge.embedding_dense_backward.default" in {str(node.target) for node in program.graph.nodes}
    torch.testing.assert_close(program.module()(*arguments), expected)
    torch.export.save(program, tmp_path / "gradient.pt2")
    torch.testing.assert_close(torch.export.load(tmp_path / "gradient.pt2").module()(*arguments), expected)


def test_a_dtype_without_kernel_is_not_replaced():
    program = torch.export.export(
        Gradient(), (torch.randn(9, 4, dtype=torch.float64, requires_grad=True), torch.arange(3)), strict=False
    )
    report = rewrite(program)
    assert report.mapped == []
    assert [entry.candidate for entry in report.left] == ["EmbeddingDenseBackward"]


def test_convert_rewrites_an_exported_program(tmp_path):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install onnxscript")
    program, arguments = exported(dynamic=False)
    torch.export.save(program, tmp_path / "in.pt2")
    command = ["convert", str(tmp_path / "in.pt2"), "-o"]
    for name in ("out.pt2", "out.onnx"):
        result = CliRunner().invoke(app, [*command, str(tmp_path / name), "--json", str(tmp_path / "r.json")])
        assert result.exit_code == 0, result.output
        report = json.loads((tmp_path / "r.json").read_text())
        assert [entry["op"] for entry in report["mapped"]] == ["EmbeddingDenseBackward"]
        assert report["left"] == []
    expected = program.module()(*arguments)
    torch.testing.assert_close(torch.export.load(tmp_path / "out.pt2").module()(*arguments), expected)
    model = onnx.load(tmp_path / "out.onnx")
    assert [n.op_type for n in model.graph.node if n.domain == "opforge"] == ["EmbeddingDenseBackward"]
    conversion = convert(model)
    assert (len(conversion.mapped), conversion.left) == (1, [])


def test_check_and_run_read_an_exported_program(tmp_path):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install onnxscript")
    program, arguments = exported(dynamic=False)
    torch.export.save(program, tmp_path / "in.pt2")
    result = CliRunner().invoke(app, ["check", str(tmp_path / "in.pt2")])
    assert result.exit_code == 0, result.output
    convert_command = ["convert", str(tmp_path / "in.pt2"), "-o", str(tmp_path / "out.onnx")]
    assert CliRunner().invoke(app, convert_command).exit_code == 0
    names = [value.name for value in onnx.load(tmp_path / "out.onnx").graph.input]
    np.savez(tmp_path / "in.npz", **dict(zip(names, (array.detach().numpy() for array in arguments), strict=True)))
    command = ["run", str(tmp_path / "in.pt2"), "--inputs", str(tmp_path / "in.npz")]
    result = CliRunner().invoke(app, [*command, "--outputs", str(tmp_path / "out.npz")])
    assert result.exit_code == 0, result.output
    expected = program.module()(*arguments)
    expected = expected if isinstance(expected, tuple) else (expected,)
    with np.load(tmp_path / "out.npz") as results:
        for got, array in zip(results.values(), expected, strict=True):
            np.testing.assert_allclose(got, array.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_a_broken_exported_program_is_one_message(tmp_path):
    (tmp_path / "in.pt2").write_bytes(b"PK\x03\x04 no archive")
    for command in ("check", "run"):
        result = CliRunner().invoke(app, [command, str(tmp_path / "in.pt2")])
        assert isinstance(result.exception, UserError)
        assert "expected an exported program" in str(result.exception)


class Training(torch.nn.Module):
    """A forward and a backward pass of aten.conv_tbc, which PyTorch does not translate to ONNX."""

    def forward(self, x, weight, bias, grad):
        result = torch.conv_tbc(x, weight, bias, 1)
        return result, *torch.autograd.grad(result, (x, weight, bias), grad)


@pytest.mark.parametrize("is_converted", [False, True])
def test_a_training_step_with_conv_tbc_becomes_onnx(is_converted, tmp_path):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install onnxscript")
    shapes = ((7, 2, 4), (3, 4, 5), (5,), (7, 2, 5))
    arguments = tuple(torch.randn(shape, requires_grad=shape != shapes[-1]) for shape in shapes)
    program = torch.export.export(Training(), arguments, strict=False)
    if is_converted:
        rewrite(program)
    torch.export.save(program, tmp_path / "in.pt2")
    result = CliRunner().invoke(app, ["convert", str(tmp_path / "in.pt2"), "-o", str(tmp_path / "out.onnx")])
    assert result.exit_code == 0, result.output
    model = onnx.load(tmp_path / "out.onnx")
    assert [n.op_type for n in model.graph.node if n.domain == "opforge"] == ["ConvTbcBackward"]
    arrays = [array.detach().numpy() for array in arguments]
    feeds = dict(zip([value.name for value in model.graph.input], arrays, strict=True))
    got = execute(convert(model).model, feeds, operators="function")
    for array, expected in zip(got.values(), Training()(*arguments), strict=True):
        np.testing.assert_allclose(array, expected.detach().numpy(), rtol=1e-4, atol=1e-5)


class Exotic(torch.nn.Module):
    """A function that the ONNX exporter does not support."""

    def forward(self, x):
        return torch.linalg.eigvals(x)


def test_a_program_that_has_no_onnx_form_is_one_message(tmp_path):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install onnxscript")
    torch.export.save(torch.export.export(Exotic(), (torch.eye(3),)), tmp_path / "in.pt2")
    result = CliRunner().invoke(app, ["convert", str(tmp_path / "in.pt2"), "-o", str(tmp_path / "out.onnx")])
    assert isinstance(result.exception, UserError)
    assert "expected functions with a translation to ONNX" in str(result.exception)
    assert "linalg" in str(result.exception)
    assert not (tmp_path / "out.onnx").exists()


def test_an_exported_program_is_ready_for_atc(tmp_path):
    """PyTorch leaves nodes that depend only on constants; `convert` finds nothing to change."""
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install onnxscript")

    class Padded(torch.nn.Module):
        def forward(self, grad, ids):
            table = torch.ops.opforge.embedding_dense_backward(grad, ids, 9, -1, False)
            return table + torch.cat([torch.zeros(4, 4), torch.ones(5, 4)])

    model = export_onnx(torch.export.export(Padded(), (torch.randn(6, 4), torch.randint(0, 9, (6,)))))
    assert convert(model).model == model
    onnx.save(model, tmp_path / "m.onnx")
    answer = CliRunner().invoke(app, ["check", str(tmp_path / "m.onnx")])
    assert (answer.exit_code, "0 errors" in answer.output) == (0, True), answer.output


def test_export_onnx_refuses_a_module():
    with pytest.raises(UserError, match="export_onnx: got Exotic, expected an ExportedProgram"):
        export_onnx(Exotic())


class SyncedNorm(torch.autograd.Function):
    """The backward pass of SyncBatchNorm on one process."""

    @staticmethod
    def forward(ctx, x, scale):
        mean = x.mean((0, 2))
        invstd = (x.var((0, 2), unbiased=False) + 1e-5).rsqrt()
        ctx.save_for_backward(x, scale, mean, invstd)
        return (x - mean[:, None]) * (invstd * scale)[:, None]

    @staticmethod
    def backward(ctx, grad):
        x, scale, mean, invstd = ctx.saved_tensors
        centered = grad * (x - mean[:, None])
        count = torch.full((1, 1), x.shape[0] * x.shape[2], dtype=torch.int32)
        sums = grad.sum((0, 2)), centered.sum((0, 2))
        result = torch.batch_norm_backward_elemt(grad, x, mean, invstd, scale, *sums, count)
        return result, sums[1] * invstd


def test_the_backward_pass_of_sync_batch_norm_is_mapped():
    """PyTorch has no kernel of aten.batch_norm_backward_elemt for CPU tensors and none for traced tensors."""
    torch._dynamo.reset()
    take_reports()
    x = torch.randn(4, 3, 5, requires_grad=True)
    scale = torch.randn(3, requires_grad=True)
    options = {"rest": "eager"}
    model = lambda *given: SyncedNorm.apply(*given).pow(3).sum()  # noqa: E731  # one line is clearer
    compiled = torch.compile(model, backend="opforge", fullgraph=True, options=options)
    got = torch.autograd.grad(compiled(x, scale), (x, scale))
    plain = torch.nn.functional.batch_norm(x, None, None, scale, None, training=True).pow(3).sum()
    for grad, expected in zip(got, torch.autograd.grad(plain, (x, scale)), strict=True):
        torch.testing.assert_close(grad, expected, rtol=1e-4, atol=1e-5)
    (report,) = take_reports()
    assert [entry.op for entry in report.mapped] == ["BatchNormElemtBackward"]


@pytest.mark.parametrize("content", [b"nothing", b"", b"PK\x03\x04 and no more"])
def test_convert_refuses_a_broken_program(content, tmp_path):
    (tmp_path / "in.pt2").write_bytes(content)
    result = CliRunner().invoke(app, ["convert", str(tmp_path / "in.pt2"), "-o", str(tmp_path / "out.pt2")])
    assert isinstance(result.exception, UserError)
    assert "expected an exported program" in str(result.exception)
    assert not (tmp_path / "out.pt2").exists()


def test_onnx_export_writes_custom_nodes():
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install onnxscript")

    class Gradients(torch.nn.Module):
        def forward(self, grad, rows, factors, ends, bias):
            ops = torch.ops.opforge
            first, second = ops.nsa_compress_grad(grad, rows, factors, [32, 64], 32, 16)
            matrix = rows.flatten(1).float()
            added = ops.grouped_bias_add(matrix, bias, ends)
            return first, second, ops.grouped_bias_add_grad(matrix, ends), added

    half = torch.float16
    rows, factors = torch.randn(64, 2, 8).to(half), torch.randn(32, 2).to(half)
    arguments = (torch.randn(2, 2, 8).to(half), rows, factors, torch.tensor([20, 64]), torch.randn(2, 16))
    model = export_onnx(torch.export.export(Gradients(), arguments))
    assert [n.op_type for n in model.graph.node if n.domain == "opforge"] == ["NsaCompressGrad", "GroupedBiasAddGrad"]
    conversion = convert(model)
    assert (len(conversion.mapped), conversion.left) == (2, [])
    assert {function.name for function in conversion.model.functions} == {"NsaCompressGrad", "GroupedBiasAddGrad"}


@pytest.mark.parametrize("name", [*FORWARDS])
def test_every_forward_operator_becomes_standard_nodes(name):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install onnxscript")
    _, function, *shapes = next(call for call in CALLS if call[0] == name)

    class Forward(torch.nn.Module):
        def forward(self, *tensors):
            return function(*tensors)

    tensors = tuple(torch.randn(*shape) for shape in shapes)
    model = export_onnx(torch.export.export(Forward(), tensors, strict=False))
    assert {node.domain for node in model.graph.node} == {""}
    feeds = {given.name: tensor.numpy() for given, tensor in zip(model.graph.input, tensors, strict=True)}
    (result,) = execute(model, feeds).values()
    torch.testing.assert_close(torch.from_numpy(result), function(*tensors), rtol=1e-4, atol=1e-4)
