"""Test the generated converters for torchair with a mock that rejects the same arguments as torchair."""

import importlib.util
import sys
from types import ModuleType, SimpleNamespace

import pytest

from opforge.codegen.project import BUILTIN_ROOT
from opforge.codegen.render import render
from opforge.codegen.spec.loader import load_specs

CALLS = {
    "batch_norm_elemt_backward": (["dy", "x", "m", "r", None, "s", "t", "n"], {}),
    "conv_tbc_backward": (["dy", "x", "w", "b"], {"pad": 2, "cube_math_type": 0}),
    "embedding_dense_backward": (["dy", "i"], {"num_weights": 9, "padding_idx": -1, "scale_grad_by_freq": True}),
    "nsa_compress_grad": (["dy", "x", "w"], {"compressBlockSize": 32, "compressStride": 16, "actSeqLenType": 0}),
}
TARGETS = {
    "aten": ("batch_norm_backward_elemt", "conv_tbc_backward", "embedding_dense_backward"),
    "npu": ("npu_nsa_compress_grad",),
}


class Tensor(str):
    """A value of the graph that torchair builds."""

    __slots__ = ()


class Attr:
    """The result of `ge.attr.Int(3)`."""

    def __init__(self, kind, value):
        assert type(value) is kind
        self.value = value


def custom_op(op_type, *args, inputs=None, outputs=None, attrs=None, node_name=None):
    """Return the arguments of a call; reject the same arguments as torchair's `ge.custom_op`."""
    assert not args
    assert all(value is None or isinstance(value, Tensor) for value in inputs.values())
    assert all(isinstance(value, Attr) for value in attrs.values())
    assert all(isinstance(name, str) for name in outputs)
    return SimpleNamespace(
        op_type=op_type,
        inputs=inputs,
        attrs={name: attr.value for name, attr in attrs.items()},
        outputs=outputs,
    )


def const(v, dtype=None, node_name=None, readable=True):
    assert isinstance(v, (list, tuple))
    return Tensor(f"Const({list(v)}, {dtype})")


def module_of(name, tmp_path):
    spec = load_specs([BUILTIN_ROOT / "op_proto" / f"{name}.yaml"])[0]
    path = tmp_path / f"{name}_torchair.py"
    path.write_text(dict(render(spec))[f"op_plugin/{name}_torchair.py"])
    described = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    return spec, module


@pytest.fixture
def torchair(monkeypatch, tmp_path):
    """Install mocks of torch, torch_npu and torchair for converters; they store the converters by target.

    As in real installations, torchair exists only after torch_npu was imported, and as a module without a `__spec__`.
    """
    converters = {}
    torch = ModuleType("torch")
    torch.ops = SimpleNamespace(
        **{
            space: SimpleNamespace(**{name: SimpleNamespace(default=name) for name in names})
            for space, names in TARGETS.items()
        }
    )
    module = ModuleType("torchair")
    kinds = {"Int": int, "Float": float, "Bool": bool, "Str": str}
    module.ge = SimpleNamespace(
        custom_op=custom_op,
        Const=const,
        DataType=SimpleNamespace(DT_INT64=9),
        attr=SimpleNamespace(**{name: lambda value, kind=kind: Attr(kind, value) for name, kind in kinds.items()}),
    )
    module.register_fx_node_ge_converter = lambda target: lambda function: converters.setdefault(target, function)
    (tmp_path / "torch_npu.py").write_text(
        "import builtins, sys\nsys.modules['torchair'] = builtins.stand_in_for_torchair\n"
    )
    monkeypatch.setattr("builtins.stand_in_for_torchair", module, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", torch)
    for name in ("torch_npu", "torchair"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield converters
    for name in ("torch_npu", "torchair"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", CALLS)
def test_converter_builds_the_operator(name, torchair, tmp_path):
    spec, _ = module_of(name, tmp_path)
    (converter,) = torchair.values()
    tensors, attrs = CALLS[name]
    given = [tensor and Tensor(tensor) for tensor in tensors]
    values = [attrs[attr.ir_name] for attr in spec.attrs if attr.name in spec.torch.targets[0].args.values()]
    built = converter(*given, *values, meta_outputs=None)
    assert built.op_type == spec.op_type
    assert list(built.inputs.values()) == [*given, *[None] * (len(spec.inputs) - len(given))]
    assert list(built.inputs) == [tensor.ir_name for tensor in spec.inputs]
    assert built.attrs == attrs
    assert built.outputs == [tensor.ir_name for tensor in spec.outputs]


def test_a_host_list_becomes_a_constant(torchair, tmp_path):
    module_of("nsa_compress_grad", tmp_path)
    (converter,) = torchair.values()
    tensors = [Tensor(name) for name in ("dy", "x", "w")]
    built = converter(*tensors, 32, 16, actual_seq_len=[64, 80])
    assert built.inputs["actSeqLenOptional"] == "Const([64, 80], 9)"
    assert converter(*tensors, 32, 16, actual_seq_len=[]).inputs["actSeqLenOptional"] is None


@pytest.mark.parametrize("name", CALLS)
def test_operators_missing_in_this_torch_are_skipped(name, torchair, tmp_path):
    sys.modules["torch"].ops = SimpleNamespace(aten=SimpleNamespace(), npu=SimpleNamespace())
    module_of(name, tmp_path)
    assert torchair == {}


@pytest.mark.parametrize("name", CALLS)
def test_module_is_inert_without_torch_npu(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    _, module = module_of(name, tmp_path)
    assert callable(module.register)
