"""Translate operators to custom nodes for `torch.onnx.export`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from onnx import ModelProto

from opforge.codegen.errors import UserError, not_installed
from opforge.codegen.printing import first_line
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.views.facts import OPFORGE_DOMAIN
from opforge.frontend.ir.schemas import register
from opforge.frontend.pipeline import convert

from .register import FORWARD_KERNELS, ONNX_FORMS, SPECS
from .schema import NAMESPACE, bind, operator_arguments


def onnx_translation_table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return the argument `custom_translation_table` of `torch.onnx.export`, with an entry for each operator.

    Raises:
        MissingToolError: onnxscript is not installed.
    """
    try:
        import onnxscript.values
    except ImportError as error:
        raise not_installed("torch.onnx.export", "onnxscript", "the export", "pip install onnxscript") from error
    # The exporter reads the schemas of nodes.
    register(SPECS.values())
    opset = onnxscript.values.Opset(OPFORGE_DOMAIN, 1)
    namespace = getattr(torch.ops, NAMESPACE)
    return {getattr(namespace, name).default: _translation(spec, opset) for name, spec in SPECS.items()}


def export_onnx(program: Any, *, opset: int = 18) -> ModelProto:
    """Export a program to ONNX, as `opforge convert` writes it: with custom nodes, and standard forward nodes.

    Args:
        program: An ExportedProgram.
        opset: The version of ai.onnx.

    Raises:
        UserError: The argument is not a program, PyTorch cannot export it, or onnxscript is not installed.
    """
    if not isinstance(program, torch.export.ExportedProgram):
        raise UserError(
            f"export_onnx: got {type(program).__name__}, expected an ExportedProgram; call torch.export.export first"
        )
    table = onnx_translation_table()
    forwards = {getattr(getattr(torch.ops, NAMESPACE), name).default: call for name, call in FORWARD_KERNELS.items()}
    plain = program.run_decompositions(forwards | ONNX_FORMS)
    try:
        exported = torch.onnx.export(
            plain, (), dynamo=True, opset_version=opset, custom_translation_table=table, verbose=False
        )
    except torch.onnx.OnnxExporterError as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise UserError(
            f"torch.onnx.export: got '{first_line(cause)}', expected functions with a translation to ONNX; replace the"
            " function in the model, or write a .pt2 file"
        ) from error
    # PyTorch leaves nodes that depend only on constants, which ATC would drop.
    return convert(exported.model_proto, opset=opset).model


def _translation(spec: OpSpec, opset: Any) -> Callable[..., Any]:
    arguments = operator_arguments(spec)

    def translate(*given: Any, **named: Any) -> Any:
        values = bind(arguments, given, named)
        attrs = {a.parameter: _attribute(values[a.name]) for a in arguments if a.is_attribute}
        inputs = [_input(values[a.name]) for a in arguments if not a.is_attribute]
        while inputs and inputs[-1] is None:
            inputs.pop()
        return getattr(opset, spec.op_type)(*inputs, **attrs)

    return translate


def _attribute(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


def _input(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        import onnxscript

        return onnxscript.opset18.Constant(value_ints=[int(number) for number in value])
    return value
