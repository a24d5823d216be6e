"""Check the binding for NPU tensors on the device "npu" of this folder; test_torch_npu.py starts these checks."""

import threading

import pytest
import torch
import torch_npu
from torch_cases import CALL_IDS, CALLS, CASES, ENDS, IDS, OPS, arguments_of, arrays_of

from opforge.torch import take_reports
from opforge.torch.register import SPECS
from opforge.twin import AclnnError

pytestmark = pytest.mark.filterwarnings("default")
NPU = torch.device("npu")


@pytest.fixture(autouse=True)
def no_findings():
    """The twin has no findings, and CPU calls use the reference."""
    yield
    assert torch_npu.findings() == []


def inside(tensor):
    """Return the tensor on the device, with strides, and with an offset in a larger storage."""
    storage = torch.full((*(size + 3 for size in tensor.shape), 2), 99).to(tensor.dtype)
    storage[(*(slice(2, -1) for _ in tensor.shape), 1)] = tensor
    made = storage.to(NPU)[(*(slice(2, -1) for _ in tensor.shape), 1)]
    assert made.storage_offset()
    return made


def moved(values, move):
    return [move(value) if isinstance(value, torch.Tensor) else value for value in values]


def compare(got, expected, spec):
    for one, other in zip(*([v] if isinstance(v, torch.Tensor) else v for v in (got, expected)), strict=True):
        assert (one.device.type, one.is_contiguous()) == ("npu", True)
        tolerance = spec.tests.tolerance.get(str(other.dtype).removeprefix("torch."))
        limits = {"rtol": tolerance.rtol, "atol": tolerance.atol} if tolerance else {"rtol": 0.0, "atol": 0.0}
        torch.testing.assert_close(one.cpu(), other, **limits)


@pytest.mark.parametrize(("name", "test"), CASES, ids=IDS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_strided_tensors_with_offsets(name, test, dtype):
    spec = SPECS[name]
    arguments = list(arguments_of(spec, test, arrays_of(spec, test, dtype)))
    expected = getattr(OPS, name)(*arguments)
    compare(getattr(OPS, name)(*moved(arguments, inside)), expected, spec)


def gradients(function, tensors):
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    function(*leaves).float().square().sum().backward()
    return [leaf.grad for leaf in leaves]


@pytest.mark.parametrize("where", ["default stream", "other stream"])
@pytest.mark.parametrize(("name", "function", "shapes"), [(c[0], c[1], c[2:]) for c in CALLS], ids=CALL_IDS)
def test_forward_and_backward(name, function, shapes, where):
    torch.manual_seed(3)
    dtype = torch.bfloat16 if name == "nsa_compress" else torch.float32
    tensors = [torch.randn(*shape).to(dtype) for shape in shapes]
    expected = gradients(function, tensors)
    stream = torch_npu.new_stream() if where == "other stream" else torch.npu.current_stream()
    with torch.npu.stream(stream):
        got = gradients(function, moved(tensors, inside))
    for one, other in zip(got, expected, strict=True):
        assert one.device.type == "npu"
        torch.testing.assert_close(one.cpu(), other)


def test_a_launch_does_not_overtake_queued_copies():
    zeros, ones, ends = torch.zeros(10, 6, device=NPU), torch.ones(10, 6, device=NPU), ENDS.to(NPU)
    for stream in (torch.npu.current_stream(), torch_npu.new_stream(), torch_npu.new_stream()):
        with torch.npu.stream(stream):
            grad = zeros.clone()
            torch.npu.synchronize()
            grad.copy_(ones)  # waits in the queue until the stream is read
            assert OPS.grouped_bias_add_grad(grad, ends).cpu()[:, 0].tolist() == [3, 4, 3]


def test_a_new_thread_can_call():
    grad, ends, results = torch.ones(10, 6, device=NPU), ENDS.to(NPU), []
    threads = [threading.Thread(target=lambda: results.append(OPS.grouped_bias_add_grad(grad, ends))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.cpu()[:, 0].tolist() for result in results] == [[3, 4, 3]] * 4


def test_lists_and_other_attributes():
    rows, factors = torch.randn(64, 2, 8).half(), torch.randn(32, 2).half()
    call = (torch.randn(2, 2, 8).half(), rows, factors, [32, 64], 32, 16, 0, "TND")
    expected = OPS.nsa_compress_grad(*call)
    compare(OPS.nsa_compress_grad(*moved(call, inside)), expected, SPECS["nsa_compress_grad"])
    with pytest.raises(AclnnError, match="layout"):
        OPS.nsa_compress_grad(*moved(call[:-1], inside), "BSND")


def test_autocast_gives_tensors_one_dtype():
    rows, factors = torch.ones(64, 2, 8, device=NPU).bfloat16(), torch.ones(32, 2, device=NPU, requires_grad=True)
    with torch.autocast("npu", torch.bfloat16):
        result = OPS.nsa_compress(rows, factors, None, 32, 16)
    result.float().sum().backward()
    assert (result.dtype, factors.grad.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.parametrize(
    ("grad", "more", "label"),
    [
        (torch.ones(10, 6), (ENDS, 2), "C6"),
        (torch.ones(10, 6, dtype=torch.float64), (ENDS,), "C2"),
        (torch.ones(10, 6, dtype=torch.float8_e4m3fn), (ENDS,), "C2"),
        (torch.ones(10, 6), (ENDS.float(),), "C2"),
        (torch.ones(10, 6), (ENDS[None],), "C3"),
    ],
)
def test_a_refused_call_has_the_label_and_the_next_one_works(grad, more, label):
    with pytest.raises((AclnnError, RuntimeError), match=rf"\[{label}\]"):
        OPS.grouped_bias_add_grad(grad.to(NPU), *moved(more, lambda tensor: tensor.to(NPU)))
    assert OPS.grouped_bias_add_grad(torch.ones(10, 6, device=NPU), ENDS.to(NPU)).cpu()[:, 0].tolist() == [3, 4, 3]


def test_refused_forward_and_backward_calls_have_the_label():
    x, bias = torch.ones(10, 6, device=NPU), torch.ones(3, 6, device=NPU)
    with pytest.raises(RuntimeError, match=r"\[C6\]"):
        OPS.grouped_bias_add(x, bias, ENDS.to(NPU), 3)
    wide = OPS.grouped_bias_add(x.double(), bias.double().requires_grad_(), ENDS.to(NPU))
    with pytest.raises(AclnnError, match=r"got float64, .* \[C2\]"):  # in the thread of autograd
        wide.sum().backward()


def test_tensors_on_two_devices_are_refused():
    with pytest.raises(RuntimeError, match=r"group_idx: got a tensor on cpu, expected npu:0"):
        OPS.grouped_bias_add_grad(torch.ones(10, 6, device=NPU), ENDS)
    with pytest.raises(RuntimeError, match=r"group_idx: got a tensor on meta, expected npu:0"):
        OPS.grouped_bias_add_grad(torch.ones(10, 6, device=NPU), ENDS.to("meta"))


@pytest.mark.parametrize("name", [*SPECS])
def test_opcheck(name):
    spec = SPECS[name]
    test = spec.tests.shapes[0]
    arguments = moved(arguments_of(spec, test, arrays_of(spec, test, "float32")), lambda tensor: tensor.to(NPU))
    results = torch.library.opcheck(getattr(OPS, name).default, arguments)
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize(("name", "function", "shapes"), [(c[0], c[1], c[2:]) for c in CALLS[::2]], ids=CALL_IDS[::2])
def test_compiled_calls(name, function, shapes):
    torch.manual_seed(3)
    dtype = torch.bfloat16 if name == "nsa_compress" else torch.float32
    tensors = [torch.randn(*shape).to(dtype) for shape in shapes]
    expected = gradients(function, tensors)
    take_reports()
    compiled = torch.compile(function, backend="opforge", fullgraph=True, options={"rest": "eager"})
    got = gradients(compiled, moved(tensors, lambda tensor: tensor.to(NPU)))
    assert [entry.rule for report in take_reports() for entry in report.mapped]
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other)
