"""Read REG_OP prototypes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from .cpp_text import Lines, arguments_of, without_comments, without_strings
from .cpp_tree import Source, nodes
from .draft import ATTR_TYPES, DYNAMIC, OPTIONAL, REQUIRED, AttrDraft, Note, OperatorDraft, TensorDraft, dtype_word
from .op_classes.values import Value, evaluate

_REG_OP = re.compile(r"\bREG_OP\s*\(\s*(\w+)\s*\)")
_DEFINE = re.compile(r"#[ \t]*define\b[^\n]*\Z")
_CLAUSE = re.compile(r"\s*\.\s*(\w+)\s*\(")
_DIRECTIVE = re.compile(r"\s*(#[^\n]*)")
_WORD = re.compile(r"\s*(\w+)[ \t]*(\()?")
_TENSORS = {
    "INPUT": (REQUIRED, False), "OPTIONAL_INPUT": (OPTIONAL, False), "DYNAMIC_INPUT": (DYNAMIC, False),
    "OUTPUT": (REQUIRED, True), "DYNAMIC_OUTPUT": (DYNAMIC, True),
}  # fmt: skip
_TYPE_WORDS = {"TensorType", "ListTensorType", "ge"}
# The sets of dtypes that the documentation of TensorType in CANN lists.
_SIGNED, _UNSIGNED = ("int16", "int32", "int64", "int8"), ("uint16", "uint32", "uint64", "uint8")
_COMPLEX, _FLOATING = ("complex128", "complex64", "complex32"), ("float64", "float32", "float16")
_QUANTIFIED = ("qint16", "qint32", "qint8", "quint16", "quint8")
_REAL = (*_FLOATING, *_SIGNED, *_UNSIGNED, "bfloat16")
_SETS = {
    "ALL": ("bool", *_COMPLEX, *_REAL, *_QUANTIFIED, "resource", "string"),
    "OrdinaryType": ("bool", *_COMPLEX, *_REAL),
    "BasicType": (*_COMPLEX, *_REAL, *_QUANTIFIED),
    "NumberType": (*_COMPLEX, *_REAL, "qint32", "qint8", "quint8"),
    "RealNumberType": _REAL,
    "UnaryDataType": (*_COMPLEX, *_FLOATING, "bfloat16"),
    "FLOAT": ("float32", "float16", "bfloat16"),
    "FloatingDataType": _FLOATING,
    "IntegerDataType": (*_SIGNED, *_UNSIGNED),
    "SignedDataType": _SIGNED,
    "UnsignedDataType": _UNSIGNED,
    "IndexNumberType": ("int32", "int64"),
    "ComplexDataType": _COMPLEX,
    "QuantifiedType": _QUANTIFIED,
}
_ATTR_TYPES = {name.lower(): kind for name, kind in ATTR_TYPES.items()}
_ZEROS: dict[str, bool | float | str] = {"int": 0, "float": 0.0, "bool": False, "string": ""}
_MOST_CLAUSES, _MOST_SHOWN = 256, 120


def prototypes(source: Source) -> Iterator[OperatorDraft]:
    """Yield the operators of the REG_OP macros of a source."""
    if "REG_OP" not in source.text:
        return
    text = without_comments(source.text)
    plain, lines = without_strings(text), Lines(text)
    starts = [
        found
        for found in _REG_OP.finditer(plain)
        if not _DEFINE.search(plain, plain.rfind("\n", 0, found.start()) + 1, found.start())
    ]
    ends = [found.start() for found in starts[1:]] + [len(text)]
    for found, end in zip(starts, ends, strict=False):
        prototype = _Prototype(text, end, lines)
        prototype.read(found.end())
        yield prototype.draft(found[1], f"{source.place}:{lines.of(found.start())}")


class _Prototype:
    """Reads the clauses of one REG_OP."""

    def __init__(self, text: str, end: int, lines: Lines) -> None:
        self._text = text
        self._end = end
        self._lines = lines
        self._tensors: dict[bool, list[TensorDraft]] = {False: [], True: []}
        self._attrs: list[AttrDraft] = []
        self._notes: list[Note] = []
        self._types: dict[str, str] = {}  # the dtypes of DATATYPE clauses by symbol
        self._symbols: dict[str, str] = {}  # the text of the dtypes by tensor
        self._is_partial = False

    def read(self, position: int) -> None:
        """Read the clauses from a position on."""
        for _ in range(_MOST_CLAUSES):
            if (clause := _CLAUSE.match(self._text, position, self._end)) is not None:
                if clause[1].startswith("OP_END"):
                    return
                arguments, position = arguments_of(self._text, clause.end(), self._end - clause.end())
                self._clause(clause[1], arguments, self._lines.of(clause.start(1)))
            elif (directive := _DIRECTIVE.match(self._text, position, self._end)) is not None:
                self._skip(directive, directive[1], "both branches of conditions are read")
                position = directive.end()
            elif (word := _WORD.match(self._text, position, self._end)) is not None:
                self._skip(word, word[1], "the macro is not read")
                most = self._end - word.end()
                position = arguments_of(self._text, word.end(), most)[1] if word[2] else word.end()
            else:
                self._note(self._lines.of(position), "the prototype has no OP_END_FACTORY_REG, so it may be incomplete")
                self._is_partial = True
                return
        self._note(self._lines.of(position), f"more than {_MOST_CLAUSES} clauses are not read")
        self._is_partial = True

    def draft(self, op_type: str, place: str) -> OperatorDraft:
        """Return the operator."""
        inputs, outputs = (tuple(map(self._with_dtypes, self._tensors[is_output])) for is_output in (False, True))
        return OperatorDraft(
            op_type,
            place,
            "REG_OP",
            inputs,
            outputs,
            tuple(self._attrs),
            notes=tuple(self._notes),
            is_partial=self._is_partial,
        )

    def _note(self, line: int, text: str) -> None:
        self._notes.append(Note(line, text))

    def _skip(self, found: re.Match[str], shown: str, reason: str) -> None:
        self._note(self._lines.of(found.start(1)), f"{shown[:_MOST_SHOWN]}: {reason}")
        self._is_partial = True

    def _clause(self, name: str, arguments: list[str], line: int) -> None:
        shown = f"{name}({', '.join(arguments)})"[:_MOST_SHOWN]
        if name in _TENSORS and arguments:
            option, is_output = _TENSORS[name]
            group = self._tensors[is_output]
            if any(tensor.name == arguments[0] for tensor in group) or len(arguments) > 2:
                self._note(line, f"{shown}: {'a further argument' if len(arguments) > 2 else 'it'} is not read")
            if all(tensor.name != arguments[0] for tensor in group):
                group.append(TensorDraft(arguments[0], option, line=line))
                self._symbols.setdefault(f"{is_output} {arguments[0]}", " ".join(arguments[1:2]))
        elif name in {"ATTR", "REQUIRED_ATTR"} and len(arguments) > 1:
            self._attr(arguments, line, shown, is_required=name != "ATTR")
        elif name == "DATATYPE" and len(arguments) == 2 and arguments[0] not in self._types:
            self._types[arguments[0]] = arguments[1]
        else:
            self._note(line, shown)

    def _with_dtypes(self, tensor: TensorDraft) -> TensorDraft:
        """Return a tensor with its dtypes; the lists of a prototype are sets, so there are no combinations."""
        is_output = any(tensor is other for other in self._tensors[True])
        stated = self._symbols[f"{is_output} {tensor.name}"]
        text = self._types.get(stated.strip('"'), stated) if stated.startswith('"') else stated
        words = [word for word in re.findall(r"\w+", text) if word not in _TYPE_WORDS]
        one = {word: dtype_word(word) for word in words if word.startswith("DT_")}
        dtypes = [_SETS.get(word) or tuple(filter(None, (one.get(word),))) for word in words]
        if not all(dtypes) or not words:
            self._note(tensor.line, f"tensor {tensor.name}: dtypes {text[:_MOST_SHOWN] or 'none'}: not all are read")
        known = tuple(dict.fromkeys(itertools.chain(*dtypes)))
        return TensorDraft(tensor.name, tensor.option, known, line=tensor.line)

    def _attr(self, arguments: list[str], line: int, shown: str, *, is_required: bool) -> None:
        name, word = arguments[:2]
        if any(attr.name == name for attr in self._attrs):
            self._note(line, f"{shown}: it is not read")
            return
        kind = _ATTR_TYPES.get(word.lower())
        if kind is None:
            self._note(line, f"attribute {name}: the type {word} is not read; the draft has int")
            kind = "int"
        if len(arguments) > (2 if is_required else 3):
            self._note(line, f"{shown}: the last argument is not read")
        if is_required or len(arguments) < 3:
            if not is_required:
                self._note(line, f"attribute {name}: its default is not stated; the draft has a required attribute")
            self._attrs.append(AttrDraft(name, kind, None, line))
            return
        default = _constant(arguments[2], kind)
        if default is None:
            default = () if kind.startswith("list_") else _ZEROS[kind]
            got = f"the default {arguments[2][:_MOST_SHOWN]} is not a constant of the type {kind}"
            self._note(line, f"attribute {name}: {got}; the draft has {default!r}")
        self._attrs.append(AttrDraft(name, kind, default, line))


def _constant(text: str, kind: str) -> bool | float | str | tuple[bool | float | str, ...] | None:
    """Return the value of a constant expression; None if it is not one of this type."""
    source = Source(f"auto value = {text};", "")
    declared = next(nodes(source.root, "init_declarator"), None)
    node = declared.child_by_field_name("value") if declared and not source.root.has_error else None
    if node is None or source.of(node) != text:
        return None
    found = evaluate(source, node, {})
    is_fraction = any(isinstance(item, float) for item in (found if isinstance(found, tuple) else (found,)))
    return None if kind.endswith("int") and is_fraction else Value((found,), 0, text).of_type(kind)
