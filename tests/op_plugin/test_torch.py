"""Test `torch.ops.opforge` on the CPU: schemas, gradients, compilation, errors."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'opforge[torch]'")

from torch_cases import CALL_IDS, CALLS, CASES, ENDS, IDS, OPS, arguments_of, arrays_of  # noqa: E402

from opforge.codegen.spec.semantics import Call, infer  # noqa: E402
from opforge.torch.register import FORWARDS, SPECS  # noqa: E402
from opforge.torch.schema import bind, forward_arguments  # noqa: E402
from opforge.twin import AclnnError  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent


def wide(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_all_operators_and_their_forwards_are_registered():
    assert {call[0] for call in CALLS} == set(FORWARDS)
    for name, spec in SPECS.items():
        schema = getattr(OPS, name).default._schema
        inputs = [spec.torch.names.get(tensor.name, tensor.name) for tensor in spec.inputs]
        assert [a.name for a in schema.arguments] == [*inputs, *(attr.name for attr in spec.attrs)]
        assert len(schema.returns) == len(spec.outputs)
        # `self` beside `input` has one name in torch.fx, which inductor rejects.
        assert not {"self", "input"} <= {a.name for a in schema.arguments}


@pytest.mark.parametrize(("name", "test"), CASES, ids=IDS)
def test_opcheck(name, test):
    spec = SPECS[name]
    arguments = list(arguments_of(spec, test, arrays_of(spec, test, "float32")))
    results = torch.library.opcheck(getattr(OPS, name).default, arguments)
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize(("name", "test"), CASES, ids=IDS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_twin_and_reference_agree(name, test, dtype, monkeypatch):
    spec = SPECS[name]
    arrays = arrays_of(spec, test, dtype)
    arguments = list(arguments_of(spec, test, arrays))
    monkeypatch.setenv("OPFORGE_TORCH_CPU", "strict")
    got = getattr(OPS, name)(*arguments)
    monkeypatch.setenv("OPFORGE_TORCH_CPU", "reference")
    expected = getattr(OPS, name)(*arguments)
    call = Call({n: a.shape for n, a in arrays.items()}, {n: a.dtype.name for n, a in arrays.items()}, test.attrs)
    types = infer(spec, call)
    pairs = [(got, expected)] if len(spec.outputs) == 1 else zip(got, expected, strict=True)
    for output, (one, other) in zip(spec.outputs, pairs, strict=True):
        assert tuple(one.shape) == types[output.name].shape
        assert str(one.dtype) == f"torch.{types[output.name].dtype}"
        tolerance = spec.tests.tolerance.get(types[output.name].dtype)
        limits = {"rtol": tolerance.rtol, "atol": tolerance.atol} if tolerance else {"rtol": 0.0, "atol": 0.0}
        torch.testing.assert_close(one, other, **limits)


@pytest.mark.parametrize(("name", "function", "shapes"), [(c[0], c[1], c[2:]) for c in CALLS], ids=CALL_IDS)
def test_gradcheck(name, function, shapes):
    torch.manual_seed(3)
    assert torch.autograd.gradcheck(function, tuple(wide(*shape) for shape in shapes))


@pytest.mark.parametrize(("name", "function", "shapes"), [(c[0], c[1], c[2:]) for c in CALLS], ids=CALL_IDS)
def test_forward_operators_compile_to_one_graph(name, function, shapes):
    torch.manual_seed(3)
    dtype = torch.bfloat16 if name == "nsa_compress" else torch.float32
    tensors = [torch.randn(*shape).to(dtype).requires_grad_() for shape in shapes]
    function(*tensors).float().square().sum().backward()
    expected = [tensor.grad for tensor in tensors]
    for tensor in tensors:
        tensor.grad = None
    torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)(
        *tensors
    ).float().square().sum().backward()
    for tensor, grad in zip(tensors, expected, strict=True):
        torch.testing.assert_close(tensor.grad, grad)


@pytest.mark.parametrize("name", [*SPECS])
def test_every_gradient_operator_refuses_a_second_derivative(name):
    # opcheck does not detect a missing formula: without one, gradients silently do not exist.
    spec = SPECS[name]
    test = spec.tests.shapes[1]
    given = list(arguments_of(spec, test, arrays_of(spec, test, "float32")))
    given = [v.requires_grad_() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in given]
    results = getattr(OPS, name)(*given)
    first = results if isinstance(results, torch.Tensor) else results[0]
    with pytest.raises(RuntimeError, match=f"{name}: got a second derivative"):
        first.float().sum().backward()


@pytest.mark.parametrize("name", [*FORWARDS])
def test_forward_operators_have_a_formula(name):
    call = next(call for call in CALLS if call[0] == name)
    tensors = [torch.randn(*shape, requires_grad=True) for shape in call[2:]]
    assert call[1](*tensors).grad_fn is not None


def test_strided_tensors_and_offsets():
    grad = torch.randn(40, 12)
    view = grad[4:24, 1:11:2]
    torch.testing.assert_close(
        OPS.grouped_bias_add_grad(view, torch.tensor([5, 20])),
        torch.stack([view[:5].sum(0), view[5:].sum(0)]),
    )
    ones = torch.ones(()).expand(20, 5)
    assert OPS.grouped_bias_add_grad(ones, torch.tensor([5, 20])).tolist() == [[5.0] * 5, [15.0] * 5]


@pytest.mark.parametrize("mode", ["twin", "reference"])
def test_a_broken_constraint_has_its_label(mode, monkeypatch):
    monkeypatch.setenv("OPFORGE_TORCH_CPU", mode)
    with pytest.raises(AclnnError, match=r"group_idx_type: got 2, expected 0 or 1 \[C6\]") as error:
        OPS.grouped_bias_add_grad(torch.ones(10, 4), ENDS, 2)
    assert error.value.status == 161002


def test_a_broken_constraint_of_a_traced_call_has_its_label():
    with pytest.raises(RuntimeError, match=r"group_idx_type: got 2, expected 0 or 1 \[C6\]"):
        OPS.grouped_bias_add_grad(torch.ones(10, 4, device="meta"), ENDS.to("meta"), 2)
    with pytest.raises(RuntimeError, match=r"weight: got shape \[3, 4, 4\], expected \[K, Cin, Cout\] \[C14\]"):
        OPS.conv_tbc(*(torch.ones(*s, device="meta") for s in ((6, 2, 3), (3, 4, 4), (4,))), 1)


def test_vmap_is_refused():
    with pytest.raises(NotImplementedError, match="call it in a loop"):
        torch.vmap(lambda g: OPS.grouped_bias_add_grad(g, ENDS))(torch.ones(2, 10, 4))


def test_an_unknown_mode_is_refused(monkeypatch):
    monkeypatch.setenv("OPFORGE_TORCH_CPU", "fast")
    with pytest.raises(Exception, match="OPFORGE_TORCH_CPU: got 'fast', expected twin, strict or reference"):
        OPS.grouped_bias_add_grad(torch.ones(10, 4), ENDS)


def test_export_keeps_the_operators():
    class Model(torch.nn.Module):
        def forward(self, x, bias, ends):
            return OPS.grouped_bias_add(x, bias, ends)

    program = torch.export.export(Model(), (torch.randn(10, 6), torch.randn(3, 6), ENDS))
    targets = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert "opforge.grouped_bias_add.default" in targets


def test_omitted_arguments_get_their_defaults():
    arguments = forward_arguments(FORWARDS["grouped_bias_add"])
    assert bind(arguments, (1, 2), {}) == {"x": 1, "bias": 2, "group_idx": None, "group_idx_type": 0}


@pytest.mark.filterwarnings("default")
def test_the_training_example_has_equal_losses(tmp_path):
    picture = tmp_path / "losses.svg"
    command = [sys.executable, str(ROOT / "examples" / "train_cpu.py"), "--steps", "4", "--plot", str(picture)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert picture.read_text().count("<polyline") == 2
