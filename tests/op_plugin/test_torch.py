"""Test `torch.ops.opforge` on the CPU: schemas, gradients, compilation, errors."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'opforge[torch]'")

from torch_cases import CALL_IDS, CALLS, CASES, ENDS, IDS, OPS, arguments_of, arrays_of

from opforge.codegen.errors import UserError
from opforge.codegen.spec.semantics import Call, infer
from opforge.torch.cpu import to_numpy, to_torch
from opforge.torch.register import FORWARDS, SPECS
from opforge.torch.schema import bind, forward_arguments
from opforge.twin import AclnnError

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
    with pytest.raises(RuntimeError, match=r"expected dimensions of at most 2147483646 \[C17\]"):
        OPS.conv_tbc(*(torch.ones(*s, device="meta") for s in ((6, 2, 3), (3, 3, 4), (4,))), 2**40)


@pytest.mark.parametrize("mode", ["twin", "reference"])
def test_empty_tensors_and_tensors_of_rank_0(mode, monkeypatch):
    monkeypatch.setenv("OPFORGE_TORCH_CPU", mode)
    none = torch.zeros(0, dtype=torch.int64)
    assert OPS.grouped_bias_add_grad(torch.ones(0, 4), torch.tensor([0, 0])).tolist() == [[0.0] * 4] * 2
    assert OPS.grouped_bias_add_grad(torch.ones(0, 4), none).shape == (0, 4)
    assert OPS.grouped_bias_add_grad(torch.ones(10, 0), ENDS).shape == (3, 0)
    assert OPS.embedding_dense_backward(torch.ones(0, 4), none, 2, -1, False).tolist() == [[0.0] * 4] * 2
    assert OPS.embedding_dense_backward(torch.ones(2), torch.tensor(1), 2, -1, False).tolist() == [[0, 0], [1, 1]]
    with pytest.raises(AclnnError, match=r"grad_y: got shape \[\], expected 2 dimensions \[T, H\] \[C3\]"):
        OPS.grouped_bias_add_grad(torch.tensor(1.0), ENDS)


@pytest.mark.parametrize("mode", ["twin", "reference"])
def test_nan_affects_only_its_group(mode, monkeypatch):
    monkeypatch.setenv("OPFORGE_TORCH_CPU", mode)
    grad = torch.ones(10, 4)
    grad[5, 1] = torch.nan
    result = OPS.grouped_bias_add_grad(grad, ENDS)
    assert result.isnan().nonzero().tolist() == [[1, 1]]


def test_arrays_share_the_memory_of_tensors():
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        view = torch.zeros(6, 8, dtype=dtype)[1:, ::2]
        array = to_numpy(view)
        assert array.ctypes.data == view.data_ptr()
        assert [stride // array.itemsize for stride in array.strides] == list(view.stride())
        whole = np.ascontiguousarray(array)
        assert to_torch(whole).data_ptr() == whole.ctypes.data


def test_a_dtype_without_numpy_is_refused():
    with pytest.raises(RuntimeError, match=r"grad_y: got torch\.float8_e4m3fn, expected a dtype of NumPy"):
        OPS.grouped_bias_add_grad(torch.ones(10, 4).to(torch.float8_e4m3fn), ENDS)


def test_a_result_without_memory_is_refused():
    for rows in (2**40, 2**62):
        with pytest.raises(UserError, match="more memory"):
            OPS.embedding_dense_backward(torch.ones(3, 4), torch.tensor([0, 1, 2]), rows, -1, False)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_different_dtypes_of_a_forward_call_are_refused(device):
    x, bias, ends = (tensor.to(device) for tensor in (torch.ones(10, 4).bfloat16(), torch.ones(3, 4), ENDS))
    with pytest.raises(RuntimeError, match=r"got float32, expected bfloat16, the dtype of the first tensor \[C2\]"):
        OPS.grouped_bias_add(x, bias, ends)
    with pytest.raises(RuntimeError, match=r"group_idx: got float32, expected int32 or int64 \[C2\]"):
        OPS.grouped_bias_add(x, bias.bfloat16(), ends.float())


def test_tensors_on_several_devices_are_refused():
    with pytest.raises(RuntimeError, match="group_idx: got a tensor on meta, expected cpu"):
        OPS.grouped_bias_add_grad(torch.ones(10, 4), ENDS.to("meta"))


@pytest.mark.parametrize("is_compiled", [False, True])
def test_autocast_gives_tensors_one_dtype(is_compiled):
    def layer(x, weight, bias):
        x = torch.nn.functional.linear(x, torch.eye(3))
        return OPS.conv_tbc(x, weight, bias, 1)

    function = torch.compile(layer, backend="aot_eager", fullgraph=True) if is_compiled else layer
    weight, bias = torch.ones(3, 3, 4, requires_grad=True), torch.ones(4, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        result = function(torch.ones(6, 2, 3), weight, bias)
    result.float().sum().backward()
    assert (result.dtype, weight.grad.dtype, bias.grad.tolist()) == (torch.bfloat16, torch.float32, [12.0] * 4)
    with torch.autocast("cpu", torch.bfloat16):
        assert OPS.embedding(torch.ones(3, 4), torch.tensor([0, 2])).dtype == torch.float32


@pytest.mark.filterwarnings("default")  # deprecations inside of PyTorch
def test_forward_mode_is_refused():
    def function(bias):
        return OPS.grouped_bias_add(torch.ones(10, 4), bias, ENDS)

    with pytest.raises(NotImplementedError, match="grouped_bias_add: got forward mode of autograd"):
        torch.func.jvp(function, (torch.ones(3, 4),), (torch.ones(3, 4),))
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="got forward mode"):
        OPS.grouped_bias_add_grad(torch.autograd.forward_ad.make_dual(torch.ones(10, 4), torch.ones(10, 4)), ENDS)


def test_results_are_deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        grad, ids = torch.randn(500, 8), torch.randint(0, 3, (500,))
        results = [OPS.embedding_dense_backward(grad, ids, 3, -1, False) for _ in range(3)]
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_threads_and_forked_processes_can_call():
    def call():
        return OPS.grouped_bias_add_grad(torch.ones(10, 4), ENDS)[:, 0].tolist()

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(lambda _number: call(), range(8))] == [[3, 4, 3]] * 8
    read, write = os.pipe()
    if not (child := os.fork()):
        os.write(write, repr(call()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        assert stream.read() == "[3.0, 4.0, 3.0]"
    os.waitpid(child, 0)


@pytest.mark.parametrize("name", [*SPECS])
def test_vmap_of_a_gradient_operator_is_refused(name):
    spec, test = SPECS[name], SPECS[name].tests.shapes[1]
    first, *rest = arguments_of(spec, test, arrays_of(spec, test, "float32"))
    with pytest.raises(NotImplementedError, match=f"{name}: got torch.vmap, .*; call it in a loop"):
        torch.vmap(lambda grad: getattr(OPS, name)(grad, *rest))(first[None])


@pytest.mark.parametrize(("name", "function", "shapes"), [(c[0], c[1], c[2:]) for c in CALLS[::2]], ids=CALL_IDS[::2])
def test_vmap_of_a_forward_operator_is_refused(name, function, shapes):
    first, *rest = (torch.ones(*shape) for shape in shapes)
    with pytest.raises(NotImplementedError, match=f"{name}: got torch.vmap, .*; call it in a loop"):
        torch.vmap(lambda x: function(x, *rest))(first[None])


def test_an_unknown_mode_is_refused(monkeypatch):
    monkeypatch.setenv("OPFORGE_TORCH_CPU", "fast")
    with pytest.raises(Exception, match="OPFORGE_TORCH_CPU: got 'fast', expected twin, strict or reference"):
        OPS.grouped_bias_add_grad(torch.ones(10, 4), ENDS)


def test_exported_model_has_the_operators():
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
