"""`<vendor>_impl/dynamic/<op>.py`: the function through which CANN compiles the kernel of a source release."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from opforge.codegen.dtypes import DTYPES
from opforge.package.ops_info import ATTR_TYPES

if TYPE_CHECKING:
    from opforge.codegen.model import OpSpec

_TEXT = '''\
"""Compiles the kernel of {op_type} when CANN asks for it. Generated from op_proto/{name}.yaml; do not edit.

Without CANN's `tbe` package this module can be imported and does nothing.
"""

import importlib.util
import os
import shutil

OP_TYPE = "{op_type}"
INPUTS = {inputs}
OUTPUTS = {outputs}
PARAM_TYPES = {param_types}
ATTR_TYPES = {attr_types}
# dtype word -> (GE enumerator, type in a kernel)
DTYPES = {dtypes}
HERE = os.path.dirname(os.path.realpath(__file__))


def type_options(names, tensors, taken=()):
    """Macros that tell the kernel the dtype and format of each tensor; an absent one has none."""
    options = []
    for name, tensor in zip(names, tensors):
        if tensor is None:
            continue
        enumerator, c_type = DTYPES[tensor["dtype"]]
        macro = name.upper() + ("_REF" if name in taken else "")
        options += [f"-DDTYPE_{{macro}}={{c_type}}", f"-DORIG_DTYPE_{{macro}}={{enumerator}}"]
        options.append(f"-DFORMAT_{{macro}}=FORMAT_{{tensor['format']}}")
    return options


def include_options():
    """Folders of the Ascend C headers, and this folder, where the kernel and its headers are."""
    toolkit = os.environ.get("ASCEND_HOME_PATH")
    compiler = shutil.which("bisheng")
    if toolkit is None and compiler is not None:
        toolkit = os.path.realpath(os.path.join(os.path.dirname(compiler), "..", "..", ".."))
    if toolkit is None:
        raise RuntimeError(f"{{OP_TYPE}}: no toolkit: set ASCEND_HOME_PATH or put bisheng on PATH (set_env.sh of CANN)")
    api = os.path.join(toolkit, "compiler", "tikcpp")
    folders = [api, os.path.join(toolkit, "include"), os.path.join(api, "tikcfw")]
    folders += [os.path.join(api, "tikcfw", "impl"), os.path.join(api, "tikcfw", "interface"), HERE]
    return [f"-I{{folder}}" for folder in folders]


def {function}({parameters}):
    """Compile the kernel for the given tensors; called by CANN's operator compiler."""
    from tbe.common.buildcfg import get_current_build_config
    from tbe.tikcpp import OpInfo, compile_op, get_code_channel

    if get_current_build_config("enable_op_prebuild"):
        return
    source = os.path.join(HERE, "{name}.cpp")
    if not os.path.isfile(source):
        raise RuntimeError(f"{{OP_TYPE}}: {{source}} is missing; install the package again")
    inputs = [{input_arguments}]
    outputs = [{output_arguments}]
    values = [{attr_arguments}]
    attrs = [
        {{"name": name, "dtype": dtype, "value": value}}
        for (name, dtype), value in zip(ATTR_TYPES, values)
        if value is not None
    ]
    options = type_options(INPUTS, inputs) + type_options(OUTPUTS, outputs, INPUTS)
    options += ["-x", "cce", *include_options()]
    options.append(f"-DDETERMINISTIC_MODE={{int(get_current_build_config('enable_deterministic_mode') == 1)}}")
    info = OpInfo(
        kernel_name=kernel_name,
        op_type=OP_TYPE,
        inputs=inputs,
        outputs=outputs,
        attrs=attrs,
        impl_mode=impl_mode,
        origin_inputs=inputs,
        origin_outputs=outputs,
        param_type_dynamic=False,
        mc2_ctx=[],
        param_type_list=list(PARAM_TYPES),
        init_value_list=[None] * len(OUTPUTS),
        output_shape_depend_on_compute=[],
    )
    channel = get_code_channel(source, kernel_name, OP_TYPE, options)
    compile_op(source, "{function}", info, options, channel, "{{}}")


def _register(function):
    from tbe.common.register import register_operator
    from tbe.common.utils import para_check

    kinds = {kinds}
    checked = para_check.check_op_params(*(getattr(para_check, kind) for kind in kinds))(function)
    return register_operator(OP_TYPE, trans_bool_to_s8=False)(checked)


if importlib.util.find_spec("tbe") is not None:
    {function} = _register({function})
'''


def dynamic_impl_text(spec: OpSpec) -> str:
    """The Python text for one operator; inert where CANN's `tbe` is not installed."""
    inputs = [f"{tensor.ir_name}_in__" for tensor in spec.inputs]
    outputs = [f"{tensor.ir_name}_out_" for tensor in spec.outputs]
    attrs = [attr.ir_name for attr in spec.attrs]
    words = {dtype for tensor in spec.tensors for dtype in tensor.dtypes}
    return _TEXT.format(
        op_type=spec.op_type,
        name=spec.name,
        function=spec.name,
        inputs=_literal([tensor.ir_name for tensor in spec.inputs]),
        outputs=_literal([tensor.ir_name for tensor in spec.outputs]),
        param_types=_literal(["optional" if tensor.optional else "required" for tensor in spec.tensors]),
        attr_types=_literal([(attr.ir_name, attr.type) for attr in spec.attrs]),
        dtypes=json.dumps({word: (DTYPES[word].ge, DTYPES[word].kernel) for word in sorted(words)}),
        parameters=", ".join(_parameters(spec, inputs, outputs)),
        input_arguments=", ".join(inputs),
        output_arguments=", ".join(outputs),
        attr_arguments=", ".join(attrs),
        kinds=_literal(_para_kinds(spec)),
    )


def _literal(values: list[str] | list[tuple[str, str]]) -> str:
    return repr(tuple(values)).replace("'", '"')


def _parameters(spec: OpSpec, inputs: list[str], outputs: list[str]) -> list[str]:
    """Parameters in the order of the IR; from the first optional one on, each has a default."""
    parameters = []
    has_default = False
    for name, tensor in zip([*inputs, *outputs], spec.tensors, strict=True):
        has_default = has_default or tensor.optional
        parameters.append(f"{name}=None" if has_default else name)
    for attr in spec.attrs:
        has_default = has_default or attr.default is not None
        parameters.append(f"{attr.ir_name}={attr.default!r}" if has_default else attr.ir_name)
    return [*parameters, f'kernel_name="{spec.name}"', 'impl_mode=""']


def _para_kinds(spec: OpSpec) -> list[str]:
    """Names of the constants with which CANN's parameter checker knows each parameter."""
    kinds = ["OPTION_INPUT" if tensor.optional else "REQUIRED_INPUT" for tensor in spec.inputs]
    kinds += ["OPTION_OUTPUT" if tensor.optional else "REQUIRED_OUTPUT" for tensor in spec.outputs]
    for attr in spec.attrs:
        need = "REQUIRED" if attr.default is None else "OPTION"
        kinds.append(f"{need}_ATTR_{ATTR_TYPES[attr.type].upper()}")
    return [*kinds, "KERNEL_NAME"]
