"""Register the operators of a project with PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opforge.codegen.project import Project
from opforge.codegen.spec.loader import load_project
from opforge.codegen.spec.model import OpSpec
from opforge.frontend.rules.names.torch_forms import TorchForm

from .autograd import Formula, refuse_second_derivative
from .cpu import cpu_kernel
from .fake import forward_fake, operator_fake
from .forward import autocast_kernel, forward_kernel, hand_written
from .npu import npu_kernel
from .schema import NAMESPACE, Argument, forward_arguments, forward_of, operator_arguments, schema_text

# The dispatch key of the device "npu".
_NPU = "PrivateUse1"
# The operators exist as long as this object.
LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
# Kernels for functions of other libraries, by namespace.
_IMPLEMENTED: dict[str, torch.library.Library] = {}
# The specs by name of the operator in PyTorch; those of forward operators too.
SPECS: dict[str, OpSpec] = {}
FORWARDS: dict[str, OpSpec] = {}
# The forward operators in torch operations, by name.
FORWARD_KERNELS: dict[str, Callable[..., torch.Tensor]] = {}
# Replacements for functions of PyTorch without a translation to ONNX.
ONNX_FORMS: dict[Callable[..., Any], Callable[..., Any]] = {}


def register_project(project: Project) -> None:
    """Register the operators of a project that do not exist yet, with their forward operators.

    Args:
        project: The project.

    Raises:
        UserError: A spec or a file of an operator is wrong.
    """
    left_out = []
    for spec in load_project(project, declared=True):
        reason = "its spec has 'declared_only: true'" if spec.declared_only else spec.extended_tensors
        if reason:
            left_out.append(f"{spec.op_type}: {reason}")
        if reason or spec.name in SPECS:
            continue
        _register_operator(spec, project)
        _add_meta_kernels(spec)
        SPECS[spec.name] = spec
        if spec.torch.forward is not None:
            _register_forward(spec, project)
            FORWARDS[spec.torch.forward.name] = spec
    if left_out:
        warnings.warn(
            f"opforge.torch: not registered: {'; '.join(left_out)}. Call these operators with opforge.twin.run, or"
            " their aclnn functions",
            stacklevel=2,
        )


def _register_operator(spec: OpSpec, project: Project) -> None:
    arguments = operator_arguments(spec)
    _define(spec.name, arguments, len(spec.outputs), operator_fake(spec, arguments))
    LIBRARY.impl(spec.name, _backward_mode(spec.name, cpu_kernel(spec, arguments, project)), "CPU")
    if spec.aclnn:
        LIBRARY.impl(spec.name, _backward_mode(spec.name, npu_kernel(spec, arguments)), _NPU)
    name = f"{NAMESPACE}::{spec.name}"
    torch.library.register_autograd(name, refuse_second_derivative(spec.name), lib=LIBRARY)


def _register_forward(spec: OpSpec, project: Project) -> None:
    forward = forward_of(spec)
    arguments = forward_arguments(spec)
    written = hand_written(spec, project)
    _define(forward.name, arguments, 1, forward_fake(spec, arguments))
    kernel = forward_kernel(spec, arguments, written)
    FORWARD_KERNELS[forward.name] = kernel
    ONNX_FORMS.update(written.onnx_forms)
    for key in ("CPU", _NPU):
        LIBRARY.impl(forward.name, _backward_mode(forward.name, kernel), key)
    operator = getattr(getattr(torch.ops, NAMESPACE), forward.name).default
    for key, device in (("AutocastCPU", "cpu"), (f"Autocast{_NPU}", "npu")):
        LIBRARY.impl(forward.name, autocast_kernel(spec, arguments, operator, device), key)
    formula = Formula(spec, arguments, written)
    name = f"{NAMESPACE}::{forward.name}"
    torch.library.register_autograd(name, formula.backward, setup_context=formula.save, lib=LIBRARY)


def torch_functions(spec: OpSpec) -> Iterator[tuple[Any, TorchForm]]:
    """Yield the functions of PyTorch for an operator that exist in this PyTorch."""
    for target in spec.torch.targets:
        namespace, name, overload = target.target.split(".")
        found = getattr(getattr(getattr(torch.ops, namespace), name, None), overload, None)
        if found is not None:
            yield found, TorchForm.of(spec, target)


def operator_call(spec: OpSpec, form: TorchForm) -> Callable[..., Any]:
    """Return a call of an operator with the arguments of a function of PyTorch."""
    arguments = operator_arguments(spec)

    def call(*given: Any, **named: Any) -> Any:
        values = dict(zip(form.args, given, strict=False)) | named
        known = {form.args[name]: value for name, value in values.items()} | dict(form.attrs)
        function = getattr(getattr(torch.ops, NAMESPACE), spec.name).default
        return function(*(known.get(argument.parameter, argument.default) for argument in arguments))

    return call


def _add_meta_kernels(spec: OpSpec) -> None:
    """Let torch.compile trace functions of PyTorch that have no kernel for traced tensors."""
    for target, form in torch_functions(spec):
        keys = ("Meta", "CompositeImplicitAutograd", "CompositeExplicitAutograd")
        if not any(torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), key) for key in keys):
            library = _IMPLEMENTED.setdefault(target.namespace, torch.library.Library(target.namespace, "IMPL"))
            library.impl(target, operator_call(spec, form), "Meta")


def _backward_mode(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that rejects forward mode of autograd, where PyTorch would assume zero derivatives."""

    def checked(*given: Any, **named: Any) -> Any:
        if torch.autograd.forward_ad._current_level >= 0:
            raise NotImplementedError(
                f"{NAMESPACE}::{name}: got forward mode of autograd (jvp), expected backward mode; call"
                " torch.autograd.grad or backward()"
            )
        return kernel(*given, **named)

    return checked


def _define(name: str, arguments: Sequence[Argument], results: int, fake: Callable[..., Any]) -> None:
    LIBRARY.define(schema_text(name, arguments, results), tags=(torch.Tag.pt2_compliant_tag,))
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=LIBRARY)
    torch.library.register_vmap(f"{NAMESPACE}::{name}", _refuse_vmap(name), lib=LIBRARY)


def _refuse_vmap(name: str) -> Callable[..., Any]:
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        del info, in_dims, arguments
        raise NotImplementedError(
            f"{NAMESPACE}::{name}: got torch.vmap, expected a call without it: no rule adds a batch dimension to this"
            " operator; call it in a loop"
        )

    return vmap
