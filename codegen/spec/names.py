"""Names: which ones a spec may use, and how one name is spelt in each place."""

from __future__ import annotations

import difflib
import keyword
import re
from collections.abc import Iterable

from opforge.codegen.printing import shown

from .dtypes import DTYPES


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CPP_KEYWORDS = _words(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class "
    "compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype "
    "default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int "
    "long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register "
    "reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template "
    "this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t "
    "while xor xor_eq"
)
# What generated code, the CANN macros or the two-phase call use themselves.
_RESERVED = _words(
    "aclnn ascendc call check context cores data executor ge gert half impl kernel_name l0op main op opforge ops "
    "platform plan problem status std stream symbols tensor tiling tiling_data tiling_key unique_executor "
    "user_workspace workspace workspace_size bfloat16_t"
)
_MACROS = _words(
    "ATTR BUFSIZ DATATYPE DYNAMIC EOF EXIT GRAPH INFINITY INPUT NAN NULL OPTIONAL OUTPUT REQUIRED S_OK TRUE FALSE"
)
# Locals of shape inference, tiling and the ONNX plugin, which have locals for attributes too.
_BESIDE_ATTRIBUTES = _words("attrs error node place source target")
# Locals, parameters and types that an aclnn function has besides the parameters of the spec (templates/aclnn.*.j2).
_ACLNN = _words(
    "aclIntArray aclOpExecutor aclTensor aclnnStatus aclrtStream broken call executor status stream symbols "
    "uniqueExecutor workspace workspaceSize"
)
# Types of CANN (twin/cann_api.json) and of the shared headers in the namespaces that operators are declared in or use.
_TYPES = _words(
    "Argument AscendString BinaryRepeatParams BrcbRepeatParams CMPMODE CO2Layout CacheLine CacheMode CallEnvironment "
    "CastPair CommentSection CompileTimeTensorDesc ContinuousVector ContinuousVectorVector CopyRepeatParams CubeCore "
    "DataCopyCO12DstParams DataCopyExtParams DataCopyPadExtParams DataCopyParams DataType DcciDst DependScope "
    "Dimension Dimensions Dtype ElementwiseWork ExtendedKernelContext Extent FixpipeConfig FixpipeParamsV220 "
    "FmatrixMode FollowType Format FormatCheckOption FrameworkType GapReader GapWriter GatherMaskMode GatherMaskParams "
    "GatherRepeatParams GlobalTensor Grid Groups HF32Mode HF32TransMode HardEvent HeadShares IndexSort "
    "InferDataTypeContext InferShapeContext InferShapeRangeContext InitConstValueParams Int IsResetLoad3dConfig "
    "L1Matrix LoadData2DParams LoadData2dTransposeParams LoadData3DParamsV2 LoadDataRepeatParam LocalTensor Logic "
    "MaskMode MatmulImpl MatmulType MaybeViolation MmadParams MrgSort4Info MrgSortSrcList Nd2NzParams NoCompileInfo "
    "NoTilingParse OpAICoreConfig OpAICoreDef OpAttrDef OpDef OpImplMode OpImplRegisterV2 OpMC2Def OpParamDef "
    "OpRegistrationData Operand Operands Operator OperatorFactory Option PairReader PairWriter ParseOpToGraphFunc "
    "ParseParamByOpFunc ParseParamFunc Plan Platform PlatformInfo PrecedesTest Probes Product Real ReduceOrder Refusal "
    "RoundMode RowBurst RowReductionWork RowSum Rule RuntimeAttrs SELMODE SegmentedRowsWork Sequences Shape "
    "ShapeVector SocVersion SortCode SortedList Span Spread Star Status StorageFormat StorageShape Strides TBuf TPipe "
    "TPosition TQue TQueBind TbcStep TbcSteps TbcTile Tensor TensorData TensorDesc TensorPlacement TensorType Text "
    "TilingContext TilingData TilingDef TypedContinuousVector UnaryRepeatParams ValueState Values Violation WantedTest "
    "WordPair"
)
# Functions of the C library that a kernel, which has the name of its operator in lower case, would declare again.
_C_FUNCTIONS = _words(
    "abort abs acos acosh asin asinh atan atanh calloc cbrt ceil cos cosh erf erfc exit exp exp2 expm1 fabs fdim floor "
    "fma fmax fmin fmod free frexp gamma hypot index ldexp lgamma log log10 log1p log2 logb malloc modf nan pow printf "
    "puts realloc remainder rint round scalbn signbit sin sincos sinh sqrt tan tanh tgamma trunc"
)
# Words of the expression language.
_LANGUAGE = _words("present dtype prod len min max sum all steps and or not if else for in True False None")

_PARAMETER_WORDS = _RESERVED | _LANGUAGE | frozenset(DTYPES)
_MOST_NAMES = 40
_SNAKE_EXAMPLE = "lower case words joined by '_', as in 'grad_y'"

_OP_TYPE = re.compile(r"[A-Z][A-Za-z0-9]*")
_SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_IR = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*")
_SYMBOL = re.compile(r"[A-Z][A-Za-z0-9]*")
_LOWER_CAMEL = re.compile(r"[a-z][A-Za-z0-9]*")


def snake_case(name: str) -> str:
    """`ScaledAdd` -> `scaled_add`, by the rule of CANN's op_build."""
    out = []
    for i, char in enumerate(name):
        if char.isupper() and i:
            next_is_lower = i + 1 < len(name) and name[i + 1].islower()
            if not name[i - 1].isupper() or next_is_lower:
                out.append("_")
        out.append(char.lower())
    return "".join(out)


def lower_camel(name: str) -> str:
    """`grad_y` -> `gradY`, the spelling of C++ locals and members."""
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def upper_camel(name: str) -> str:
    """`grad_y` -> `GradY`, the spelling of C++ functions and of enumerators after their `k`."""
    camel = lower_camel(name)
    return camel[:1].upper() + camel[1:]


def suggest(got: str, known: Iterable[str]) -> str:
    """` did you mean 'x'?` with the nearest known name, or the list of known names if none is near."""
    names = sorted(set(known))
    if near := nearest(got, names):
        return f"did you mean {near!r}?"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"expected one of {', '.join(names[:_MOST_NAMES])}{more}" if names else "expected none"


def nearest(got: str, known: Iterable[str]) -> str | None:
    """The known name that `got` probably means."""
    names = sorted(set(known))
    by_lower = {name.lower(): name for name in reversed(names)}
    found = difflib.get_close_matches(got.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def _refusal(got: str, form: re.Pattern[str], example: str, words: frozenset[str] = frozenset()) -> str | None:
    if not form.fullmatch(got):
        return f"got {shown(got)}, expected {example}"
    camel = lower_camel(got)
    if {got, camel} & (_CPP_KEYWORDS | frozenset(keyword.kwlist) | frozenset(keyword.softkwlist) - {"type", "match"}):
        return f"got {got!r}, a keyword of C++ or Python; expected another name, as in {_other(got, form)!r}"
    if {got, camel} & words:
        return own_word_refusal(got, _other(got, form))
    if len(got) > 64:
        return f"got a name of {len(got)} characters, expected at most 64"
    return None


def _other(got: str, form: re.Pattern[str]) -> str:
    snake, camel = f"{got}_value", f"{got}Value"
    return snake if form.fullmatch(snake) else camel


def own_word_refusal(got: str, other: str) -> str:
    """That generated code has a name already, and which other one it leaves free."""
    return f"got {got!r}, which generated code uses itself; expected another name, as in {other!r}"


def op_type_refusal(got: str) -> str | None:
    """Why `got` cannot be an op type, or None."""
    if refusal := _refusal(got, _OP_TYPE, "CamelCase without '_', as in 'ScaledAdd'", _TYPES | _MACROS):
        return refusal
    if (kernel := snake_case(got)) in _CPP_KEYWORDS | _C_FUNCTIONS:
        return f"got {got!r}, whose kernel would be called {kernel!r} as in C; expected another name, as in 'My{got}'"
    return None


def parameter_refusal(got: str) -> str | None:
    """Why `got` cannot name an input, output, case or tiling field, or None."""
    return _refusal(got, _SNAKE, _SNAKE_EXAMPLE, _PARAMETER_WORDS)


def attribute_refusal(got: str) -> str | None:
    """Why `got` cannot name an attribute, or None."""
    return _refusal(got, _SNAKE, _SNAKE_EXAMPLE, _PARAMETER_WORDS | _BESIDE_ATTRIBUTES)


def ir_name_refusal(got: str) -> str | None:
    """Why `got` cannot be a name in the graph IR, or None."""
    return _refusal(got, _IR, "an identifier, as in 'grad_y' or 'outputGrad'", _RESERVED)


def camel_refusal(got: str) -> str | None:
    """Why `got` cannot name a parameter of a C function, or None."""
    return _refusal(got, _LOWER_CAMEL, "camelCase, as in 'gradY'", _ACLNN)


def symbol_refusal(got: str) -> str | None:
    """Why `got` cannot be the symbol of a dimension, or None."""
    return _refusal(got, _SYMBOL, "a capital and letters or digits, as in 'T'", _MACROS)
