"""Define the types of texts and words in a spec: their valid values and the completions of an editor."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_after_validator_function

from opforge.codegen.data import names
from opforge.codegen.data.dtypes import ANY_FORMAT, DECLARED_DTYPES, DTYPES, FORMATS
from opforge.codegen.data.names import nearest, suggest
from opforge.codegen.data.products import ARCHITECTURES, DEVICES, PRODUCTS
from opforge.codegen.expr.attr_kinds import ATTR_KINDS, SCALAR_TYPE

from .shared_plans import SHARED_PLANS

STATUSES = {
    161001: "ACLNN_ERR_PARAM_NULLPTR",
    161002: "ACLNN_ERR_PARAM_INVALID",
    561002: "ACLNN_ERR_INNER_TILING_ERROR",
}
# The built-in rules and the status of a call that violates one.
RULE_STATUSES = {"required": 161001, "dtypes": 161002, "formats": 161002, "ranks": 161002, "shapes": 161002}
TASK_TYPES = ("AIV_ONLY", "AIC_ONLY", "MIX_AIV_1_0", "MIX_AIC_1_0", "MIX_AIC_1_1", "MIX_AIC_1_2")
SCALARS = {name: DTYPES[name] for name in ("int32", "uint32", "float32", "int64", "uint64")}
TILING_DATA_BYTES = 2048
# The tiling data that the sources of a kernel define.
STRUCTURE_BYTES = 16384
TENSOR_TYPES = ("aclTensor *", "const aclTensor *")
TENSOR_LIST_TYPES = ("aclTensorList *", "const aclTensorList *")
SCALAR_LIST_TYPE = "const aclScalarList *"
LIST_TYPE = "const aclIntArray *"
if TYPE_CHECKING:
    ArchitectureNumber = int
else:
    ArchitectureNumber = Literal[tuple(ARCHITECTURES)]
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_PLAN_HEADER = re.compile(r"[a-z][a-z0-9_]{0,80}_tiling\.h")

# The words of messages for the forms of texts, by pattern.
FORMS: dict[str, str] = {}


def form(pattern: str, words: str, most: int | None = None) -> StringConstraints:
    """Return the constraint of a text; `words` describes the pattern in messages."""
    FORMS[pattern] = words
    return StringConstraints(pattern=pattern, max_length=most)


def _no_controls(text: str) -> str:
    if bad := sorted({char for char in text if not char.isprintable() and char != "\n"}):
        raise ValueError(f"got the control character {bad[0]!r}, expected printable text")
    return text


def _one_line(text: str) -> str:
    if "\n" in text:
        raise ValueError("got several lines, expected one")
    return _no_controls(text)


class UnknownWordError(ValueError):
    """An unknown word.

    Attributes:
        near: The known word that was probably intended; None if none is similar.
    """

    def __init__(self, kind: str, text: str, words: Collection[str], more: str = "") -> None:
        super().__init__(f"unknown {kind} {text!r}; {suggest(text, words)}{more}")
        self.near = nearest(text, words)


@dataclass(frozen=True)
class _Known:
    """The valid words of a value; an editor offers them as completions."""

    kind: str
    words: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "enum": list(self.words)}

    def _check(self, text: str) -> str:
        if text not in self.words:
            raise UnknownWordError(self.kind, text, self.words)
        return text


def _plan(text: str) -> str:
    if text not in SHARED_PLANS and not _PLAN_HEADER.fullmatch(text):
        own = " (a private plan is a header in op_host/, for example 'my_op_tiling.h')"
        raise UnknownWordError("plan", text, SHARED_PLANS, own)
    return text


def _op_type(text: str) -> str:
    return _accept(text, names.op_type_problem(text))


def _parameter(text: str) -> str:
    return _accept(text, names.parameter_problem(text))


def _attribute(text: str) -> str:
    return _accept(text, names.attribute_problem(text))


def _ir_name(text: str) -> str:
    return _accept(text, names.ir_name_problem(text))


def _tensor_ir(text: str) -> str:
    return _accept(text, names.tensor_ir_problem(text))


def _camel(text: str) -> str:
    return _accept(text, names.camel_problem(text))


def _chinese(text: str) -> str:
    if not _CHINESE.search(text):
        raise ValueError(f"got {text!r}, expected a term in Chinese characters")
    return _one_line(text)


def _accept(text: str, refusal: str | None) -> str:
    if refusal:
        raise ValueError(refusal)
    return text


Line = Annotated[str, StringConstraints(min_length=1, max_length=1000), AfterValidator(_one_line)]
Text = Annotated[str, StringConstraints(max_length=20000), AfterValidator(_no_controls)]
Chinese = Annotated[str, StringConstraints(min_length=1, max_length=16), AfterValidator(_chinese)]
OpType = Annotated[str, AfterValidator(_op_type)]
Name = Annotated[str, AfterValidator(_parameter)]
AttrName = Annotated[str, AfterValidator(_attribute)]
TensorIrName = Annotated[str, AfterValidator(_tensor_ir)]
IrName = Annotated[str, AfterValidator(_ir_name)]
CName = Annotated[str, AfterValidator(_camel)]
Dtype = Annotated[str, _Known("dtype", tuple(sorted(DTYPES)))]
DeclaredDtype = Annotated[str, _Known("dtype", tuple(sorted(DECLARED_DTYPES)))]
FormatName = Annotated[str, _Known("format", (*FORMATS, ANY_FORMAT))]
Mix = Annotated[str, _Known("mix", ("promote", "cast"))]
Support = Annotated[str, _Known("support", ("implemented", "wider", "narrower", "different"))]
Product = Annotated[str, _Known("product", tuple(PRODUCTS))]
# A SoC directory of CANN, supported by opforge or not.
Directory = Annotated[str, form(r"^[a-z][a-z0-9_]{0,31}$", "lower case letters, digits and '_', as in 'ascend910b'")]
Device = Annotated[str, _Known("device", DEVICES)]
TaskType = Annotated[str, _Known("task type", TASK_TYPES)]
AttrType = Annotated[str, _Known("attribute type", tuple(ATTR_KINDS))]
ScalarType = Annotated[str, _Known("type", tuple(SCALARS))]
PlanName = Annotated[str, AfterValidator(_plan)]
RuleName = Annotated[str, _Known("rule", tuple(RULE_STATUSES))]
Status = Annotated[int, Field(ge=0)]
Label = Annotated[str, form(r"^[A-Z][A-Z0-9]{0,7}$", "a capital and at most seven capitals or digits, as in 'C1'")]
CType = Annotated[
    str,
    _Known(
        "C type",
        (
            "int8_t",
            "int32_t",
            "int64_t",
            "uint64_t",
            "double",
            "float",
            "bool",
            "char *",
            *TENSOR_TYPES,
            *TENSOR_LIST_TYPES,
            SCALAR_LIST_TYPE,
            LIST_TYPE,
            "const aclFloatArray *",
            SCALAR_TYPE,
            "const aclBoolArray *",
        ),
    ),
]
Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
# A value of an attribute; with texts of any length, or with texts of one line.
_Default = Annotated[str, StringConstraints(max_length=1000), AfterValidator(_one_line)]
ListValue = Annotated[tuple[bool | Int64 | float | _Default, ...], Field(max_length=64)]
AnyValue: TypeAlias = bool | Int64 | float | str | ListValue
AttrDefault = Annotated[bool | int | float | _Default | ListValue, Field(union_mode="left_to_right")]


class SpecModel(BaseModel):
    """Frozen, closed and strict: an unknown key or a number in quotes is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)
