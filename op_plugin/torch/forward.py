"""Load the hand-written Python files of operators: `op_plugin/torch/operators/<op>.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from opforge.codegen.errors import UserError
from opforge.codegen.printing import path_text
from opforge.codegen.project import Project
from opforge.codegen.spec.model import OpSpec

from .fake import symbolic_call
from .schema import Argument, bind, forward_of


@dataclass(frozen=True)
class HandWritten:
    """The hand-written functions of an operator.

    Attributes:
        forward: Computes the result of the forward operator in torch operations.
        derive: Computes the derived tensors from the gradient and the saved tensors by name.
        onnx_forms: Replacements for functions of PyTorch without a translation to ONNX.
    """

    forward: Callable[..., torch.Tensor]
    derive: Callable[[torch.Tensor, Mapping[str, torch.Tensor]], Mapping[str, torch.Tensor]]
    onnx_forms: Mapping[Callable[..., Any], Callable[..., Any]]


def hand_written(spec: OpSpec, project: Project) -> HandWritten:
    """Return the functions of the file of an operator.

    Raises:
        UserError: The file or a function is missing.
    """
    path = _path(spec, project)
    if not path.is_file():
        raise UserError(f"{path_text(path)}: is missing, expected the forward operator of {spec.op_type}; write it")
    loader = SourceFileLoader(f"opforge_torch_{path.stem}", str(path))
    module = ModuleType(loader.name)
    module.__file__ = loader.path
    loader.exec_module(module)
    forward, derive = getattr(module, "forward", None), getattr(module, "derive", None)
    if not callable(forward) or (forward_of(spec).derived and not callable(derive)):
        missing = "forward" if not callable(forward) else "derive"
        raise UserError(f"{path_text(path)}: got no function {missing!r}, expected one; write it")
    return HandWritten(forward, derive or (lambda _grad, _saved: {}), getattr(module, "ONNX_FORMS", {}))


def _path(spec: OpSpec, project: Project) -> Path:
    own = project.root / "op_plugin" / "torch" / "operators" / f"{spec.source_name}.py"
    return own if own.is_file() else Path(__file__).parent / "operators" / f"{spec.source_name}.py"


def forward_kernel(spec: OpSpec, arguments: Sequence[Argument], written: HandWritten) -> Callable[..., torch.Tensor]:
    """Return the kernel of a forward operator, for all devices."""

    def kernel(*given: Any, **named: Any) -> torch.Tensor:
        values = bind(arguments, given, named)
        call = symbolic_call(spec, arguments, values)
        call.require(call.case())
        return written.forward(**values).contiguous()

    return kernel


def autocast_kernel(
    spec: OpSpec, arguments: Sequence[Argument], operator: Callable[..., torch.Tensor], device: str
) -> Callable[..., torch.Tensor]:
    """Return the kernel of a forward operator under autocast.

    It casts tensors that must have one dtype to the dtype of autocast, if they differ.
    """
    leaders = {a.name: spec.tensor(a.parameter).dtype or a.parameter for a in arguments if a.is_tensor}

    def kernel(*given: Any, **named: Any) -> torch.Tensor:
        values = bind(arguments, given, named)
        groups: dict[str, list[str]] = {}
        for name, leader in leaders.items():
            if values[name] is not None and values[name].is_floating_point():
                groups.setdefault(leader, []).append(name)
        for names in groups.values():
            if len({values[name].dtype for name in names}) > 1:
                values |= {name: values[name].to(torch.get_autocast_dtype(device)) for name in names}
        with torch.autocast(device, enabled=False):
            return operator(**values)

    return kernel
