"""The generated converters for torchair, run against a stand-in that records what they build."""

import importlib.util
import sys
from types import ModuleType, SimpleNamespace

import pytest

from opforge.codegen.loader import load_spec
from opforge.codegen.project import BUILTIN_ROOT
from opforge.codegen.render import render

CALLS = {
    "batch_norm_elemt_backward": (["dy", "x", "m", "r", None, "s", "t", "n"], {}),
    "conv_tbc_backward": (["dy", "x", "w", "b"], {"pad": 2, "cube_math_type": 0}),
    "embedding_dense_backward": (["dy", "i"], {"num_weights": 9, "padding_idx": -1, "scale_grad_by_freq": True}),
    "nsa_compress_grad": (["dy", "x", "w"], {"compressBlockSize": 32, "compressStride": 16, "actSeqLenType": 0}),
}


def module_of(name, tmp_path):
    spec = load_spec(BUILTIN_ROOT / "op_proto" / f"{name}.yaml")
    path = tmp_path / f"{name}_torchair.py"
    path.write_text(dict(render(spec))[f"op_plugin/{name}_torchair.py"])
    described = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    return spec, module


@pytest.fixture
def torchair(monkeypatch):
    """torch and torchair as far as converters use them; holds the converters by target."""
    converters = {}
    known = {name: SimpleNamespace(default=name) for name in ("embedding_dense_backward", "conv_tbc_backward")}
    known["batch_norm_backward_elemt"] = SimpleNamespace(default="batch_norm_backward_elemt")
    npu = SimpleNamespace(npu_nsa_compress_grad=SimpleNamespace(default="npu_nsa_compress_grad"))
    torch = ModuleType("torch")
    torch.ops = SimpleNamespace(aten=SimpleNamespace(**known), npu=npu)
    ge = ModuleType("torchair.ge")
    ge.custom_op = lambda op_type, inputs, attrs, outputs: (op_type, inputs, attrs, outputs)
    ge.attr = SimpleNamespace(Int=int, Float=float, Bool=bool, Str=str)
    ge.DataType = SimpleNamespace(DT_INT64="int64")
    ge.Const = lambda values, dtype: (values, dtype)
    module = ModuleType("torchair")
    module.__spec__ = importlib.util.spec_from_loader("torchair", None)
    module.ge = ge
    module.register_fx_node_ge_converter = lambda target: lambda function: converters.setdefault(target, function)
    for name, stand_in in (("torch", torch), ("torchair", module), ("torchair.ge", ge)):
        monkeypatch.setitem(sys.modules, name, stand_in)
    return converters


@pytest.mark.parametrize("name", CALLS)
def test_converter_builds_the_operator(name, torchair, tmp_path):
    spec, _ = module_of(name, tmp_path)
    (converter,) = torchair.values()
    tensors, attrs = CALLS[name]
    given = [attrs[attr.ir_name] for attr in spec.attrs if attr.name in spec.torch.targets[0].args.values()]
    op_type, inputs, built, outputs = converter(*tensors, *given)
    assert op_type == spec.op_type
    assert list(inputs.values()) == [*tensors, *[None] * (len(spec.inputs) - len(tensors))]
    assert list(inputs) == [tensor.ir_name for tensor in spec.inputs]
    assert built == attrs
    assert outputs == [tensor.ir_name for tensor in spec.outputs]


def test_a_host_list_becomes_a_constant(torchair, tmp_path):
    module_of("nsa_compress_grad", tmp_path)
    (converter,) = torchair.values()
    assert converter("dy", "x", "w", 32, 16, actual_seq_len=[64, 80])[1]["actSeqLenOptional"] == ([64, 80], "int64")
    assert converter("dy", "x", "w", 32, 16, actual_seq_len=[])[1]["actSeqLenOptional"] is None


@pytest.mark.parametrize("name", CALLS)
def test_module_is_inert_without_torchair(name, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    _, module = module_of(name, tmp_path)
    assert callable(module.register)
