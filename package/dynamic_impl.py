"""Write `<vendor>_impl/dynamic/<op>.py`, the file that CANN uses to compile the kernel of a source release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opforge.codegen.data.dtypes import DTYPES
from opforge.codegen.escape import Code

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec
    from opforge.codegen.spec.parts import AttrSpec


def dynamic_impl_text(spec: OpSpec) -> str:
    """Return the Python text for one operator; the file has no effect without an installed CANN."""
    from opforge.codegen.render import printed

    inputs = [f"{tensor.ir_name}_in__" for tensor in spec.inputs]
    outputs = [f"{tensor.ir_name}_out_" for tensor in spec.outputs]
    attrs = [attr.ir_name for attr in spec.attrs]
    words = {dtype for tensor in spec.tensors for dtype in tensor.dtypes}
    return printed(
        "dynamic_impl.py.j2",
        op_type=spec.op_type,
        name=spec.name,
        inputs=inputs,
        outputs=outputs,
        attrs=attrs,
        input_names=_literal([tensor.ir_name for tensor in spec.inputs]),
        output_names=_literal([tensor.ir_name for tensor in spec.outputs]),
        param_types=_literal(["optional" if tensor.optional else "required" for tensor in spec.tensors]),
        attr_types=_literal([(attr.ir_name, attr.type) for attr in spec.attrs]),
        dtypes=[DTYPES[word] for word in sorted(words)],
        parameters=_parameters(spec, inputs, outputs),
        kinds=_literal(_para_kinds(spec)),
    )


def _literal(values: list[str] | list[tuple[str, str]]) -> Code:
    return Code(repr(tuple(values)).replace("'", '"'))


def _parameters(spec: OpSpec, inputs: list[str], outputs: list[str]) -> list[Code]:
    """Return parameters in IR order; the first optional parameter and all later ones have a default."""
    parameters = []
    has_default = False
    for name, tensor in zip([*inputs, *outputs], spec.tensors, strict=True):
        has_default = has_default or tensor.optional
        parameters.append(f"{name}=None" if has_default else name)
    for attr in spec.attrs:
        has_default = has_default or attr.default is not None
        default = list(attr.default) if isinstance(attr.default, tuple) else attr.default
        parameters.append(f"{attr.ir_name}={default!r}" if has_default else attr.ir_name)
    return [Code(text) for text in (*parameters, f'kernel_name="{spec.name}"', 'impl_mode=""')]


def _para_kinds(spec: OpSpec) -> list[str]:
    """Return the names of the constants that describe each parameter for CANN's parameter checker."""
    kinds = ["OPTION_INPUT" if tensor.optional else "REQUIRED_INPUT" for tensor in spec.inputs]
    kinds += ["OPTION_OUTPUT" if tensor.optional else "REQUIRED_OUTPUT" for tensor in spec.outputs]
    for attr in spec.attrs:
        need = "REQUIRED" if attr.default is None else "OPTION"
        kinds.append(f"{need}_ATTR_{_para_word(attr)}")
    return [*kinds, "KERNEL_NAME"]


def _para_word(attr: AttrSpec) -> str:
    """Return the word of an attribute type in CANN's parameter checker: `STR`, `LIST_INT`."""
    return attr.type.upper() if attr.kind.is_list else attr.kind.cann.upper()
