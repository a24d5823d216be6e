"""Register schemas of custom operators in onnx, for its checker and shape inference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import onnx.defs
import onnx.helper
import onnx.shape_inference
from onnx import AttributeProto, NodeProto
from onnx.defs import OpSchema

from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.parts import AttrSpec, TensorSpec
from opforge.codegen.spec.semantics import Call, ShapeInferenceError, infer

from .attributes import (
    ATTRIBUTE_TYPES,
    LIST_SIZES,
    attribute_value,
    default_attributes,
    make_attribute,
    named_inputs,
    named_outputs,
)
from .op_names import OnnxKey, onnx_keys
from .reason import Unmatched
from .tensor_type import ELEMENT_TYPES, value_type

# Tensor types as onnx spells them in schemas.
_TYPE_STRINGS = {"float32": "tensor(float)", "float64": "tensor(double)"}


@contextmanager
def registered(specs: Iterable[OpSpec]) -> Iterator[None]:
    """Register custom operators in onnx temporarily."""
    new = register(specs)
    try:
        yield
    finally:
        for key in new:
            onnx.defs.deregister_schema(key.op_type, key.versions.start, key.domain)


def register(specs: Iterable[OpSpec]) -> list[OnnxKey]:
    """Register custom operators in onnx for this process, in every spelling; return the new spellings."""
    # onnx's evaluator indexes all schemas by name at its first import: it must be imported before the registration.
    import onnx.reference.op_run

    new = [
        (spec, key) for spec in specs for key in onnx_keys(spec) if not onnx.defs.has(key.op_type, domain=key.domain)
    ]
    for spec, key in new:
        onnx.defs.register_schema(_schema(spec, key))
    return [key for _, key in new]


def _list_schema(spec: OpSpec, key: OnnxKey) -> OpSchema:
    """Return the schema of an operator with lists; ONNX allows one list at the end only, so all tensors are in it."""
    variadic = OpSchema.FormalParameterOption.Variadic
    options: dict[str, Any] = {"param_option": variadic, "is_homogeneous": False, "min_arity": 1}
    types = sorted({_type_string(word) for tensor in spec.tensors for word in tensor.dtypes})
    schema = OpSchema(
        key.op_type,
        key.domain,
        key.versions.start,
        spec.summary,
        inputs=[OpSchema.FormalParameter("inputs", "T_inputs", **options)],
        outputs=[OpSchema.FormalParameter("outputs", "T_outputs", **options)],
        type_constraints=[(name, types, f"Types of all {name[2:]}.") for name in ("T_inputs", "T_outputs")],
        attributes=[
            *(_attribute(attr) for attr in spec.attrs),
            OpSchema.Attribute(
                LIST_SIZES, OpSchema.AttrType.INTS, "The number of tensors in each list.", required=False
            ),
        ],
    )
    schema.set_type_and_shape_inference_function(lambda context: _infer(spec, context))
    return schema


def _schema(spec: OpSpec, key: OnnxKey) -> OpSchema:
    if spec.program.lists:
        return _list_schema(spec, key)
    optional = OpSchema.FormalParameterOption.Optional
    single = OpSchema.FormalParameterOption.Single
    inputs = [
        OpSchema.FormalParameter(
            tensor.name, _type_variable(tensor), param_option=optional if tensor.optional else single
        )
        for tensor in spec.inputs
    ]
    outputs = [OpSchema.FormalParameter(tensor.name, _type_variable(tensor)) for tensor in spec.outputs]
    constraints = [
        (_type_variable(tensor), [_type_string(word) for word in tensor.dtypes], f"Types of {tensor.name}.")
        for tensor in spec.tensors
        if tensor.dtype is None
    ]
    schema = OpSchema(
        key.op_type,
        key.domain,
        key.versions.start,
        spec.summary,
        inputs=inputs,
        outputs=outputs,
        type_constraints=constraints,
        attributes=[_attribute(attr) for attr in spec.attrs],
    )
    schema.set_type_and_shape_inference_function(lambda context: _infer(spec, context))
    return schema


def _type_variable(tensor: TensorSpec) -> str:
    return f"T_{tensor.dtype or tensor.name}"


def _type_string(word: str) -> str:
    return _TYPE_STRINGS.get(word, f"tensor({word})")


def _attribute(attr: AttrSpec) -> OpSchema.Attribute:
    if attr.default is None:
        kind = getattr(OpSchema.AttrType, AttributeProto.AttributeType.Name(ATTRIBUTE_TYPES[attr.type]))
        return OpSchema.Attribute(attr.name, kind, attr.description, required=True)
    return OpSchema.Attribute(attr.name, make_attribute(attr, attr.default), attr.description)


def _infer(spec: OpSpec, context: onnx.shape_inference.InferenceContext) -> None:
    shapes, dtypes = {}, {}
    # Only the numbers of inputs and outputs are known here, not their names.
    node = NodeProto(input=[""] * context.get_num_inputs(), output=[""] * context.get_num_outputs())
    if sizes := context.get_attribute(LIST_SIZES):
        node.attribute.append(sizes)
    try:
        inputs, outputs = list(named_inputs(spec, node)), list(named_outputs(spec, node))
    except Unmatched as problem:
        raise onnx.shape_inference.InferenceError(f"{spec.op_type}: {problem}") from problem
    for position, name in enumerate(inputs):
        proto = context.get_input_type(position) if context.has_input(position) else None
        if proto is None:
            continue
        known = value_type(proto)
        shapes[name], dtypes[name] = known.shape, known.dtype
    attrs = default_attributes(spec)
    for attr in spec.attrs:
        given = context.get_attribute(attr.name)
        # The checker reports a wrong kind; here it is only ignored.
        if isinstance(given, AttributeProto) and given.type == ATTRIBUTE_TYPES[attr.type]:
            attrs[attr.name] = attribute_value(given)
    try:
        types = infer(spec, Call(shapes=shapes, dtypes=dtypes, attrs=attrs))
    except ShapeInferenceError as refusal:
        raise onnx.shape_inference.InferenceError(f"{spec.op_type}: {refusal}") from refusal
    for position, name in enumerate(outputs):
        found = types.get(name)
        if found is not None and found.dtype is not None:
            dims = None if found.shape is None else [dim if dim >= 0 else None for dim in found.shape]
            context.set_output_type(position, onnx.helper.make_tensor_type_proto(ELEMENT_TYPES[found.dtype], dims))
