"""Follow the statements of a shape inference function whose effect is certain."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opforge.codegen.importers.cpp_text import STRING, arguments_of, without_comments
from opforge.codegen.importers.cpp_tree import Source, line_of, parameters
from opforge.codegen.importers.draft import Dim, Note, Shape
from opforge.codegen.importers.op_classes.values import declare, evaluate

from .changed_names import changed_names
from .checks import FAILS, Checks

if TYPE_CHECKING:
    from tree_sitter import Node

_INPUTS = {"GetInputShape", "GetRequiredInputShape"}
# The CANN function that gives the output the shape of the first input.
ELEMENTWISE = "InferShape4Elewise"
_RETURN = re.compile(r"\breturn\b")
_NULL = re.compile(r"[\s(!]*[\w:>.()-]+\s*==\s*nullptr[\s)]*|[\s(]*nullptr\s*==\s*[\w:>.()-]+|[\s(]*!\s*\w+[\s)]*")
# Conditions that are false if all dimensions are known, as at run time.
_UNKNOWN = re.compile(r"\(?\s*(?:[\w:]+::)?(IsUnknown(?:Rank|Shape|RankShape))\(\*\w+\)\s*\)?")
_UNKNOWN_DIM = re.compile(r"unknown|-\s*[12]\b", re.IGNORECASE)
# Text of a function that may change an output, or give the context to another function.
_MAY_CHANGE = re.compile(r"GetOutput|->Set|->Append|\(\s*\w*[cC]ontext\s*[,)]")
_MACRO_OF_CONTEXT = re.compile(r"\b(?:OP|OPS|GE|CUBE|VECTOR)_?[A-Z]\w*\(\s*context\b")
# for (size_t i = 0; i < x->GetDimNum(); i++) { y->SetDim(i, x->GetDim(i)); }, or with a variable for the dimension
_COPY_LOOP = re.compile(
    r"for\s*\(\s*\w+\s+(?P<i>\w+)\s*=\s*0[uUlL]*\s*;\s*(?P=i)\s*<\s*(?P<count>[\w>()-]+)\s*;"
    r"\s*(?:\+\+(?P=i)|(?P=i)\+\+)\s*\)\s*\{?\s*"
    r"(?:(?:const\s+)?\w+\s+(?P<dim>\w+)\s*=\s*(?P<x>\w+)->GetDim\(\s*(?P=i)\s*\)\s*;"
    r"\s*(?P<y>\w+)->SetDim\(\s*(?P=i)\s*,\s*(?P=dim)\s*\)"
    r"|(?P<out>\w+)->SetDim\(\s*(?P=i)\s*,\s*(?P<in>\w+)->GetDim\(\s*(?P=i)\s*\)\s*\))\s*;\s*\}?"
)
_MOST_SHOWN, _MOST_RANK, _MOST_CALLS = 120, 8, 4
# Types of variables that hold each dimension, with the values that they have.
_INTEGERS = {
    "auto": 63, "int64_t": 63, "int": 31, "int32_t": 31, "size_t": 64, "uint64_t": 64, "uint32_t": 32, "int16_t": 15,
    "uint16_t": 16, "int8_t": 7, "uint8_t": 8,
}  # fmt: skip


def _is_dim(value: Dim | None) -> bool:
    return isinstance(value, int) or (isinstance(value, tuple) and value[0] in {"dim", "attr"})


class UnknownShapeError(Exception):
    """A statement whose effect on the shapes is not certain."""


@dataclass
class ShapeFunction:
    """The known effects of the statements of a function.

    Attributes:
        inputs: The inputs whose shapes variables point to.
        outputs: The outputs whose shapes variables point to.
        copies: The input whose shape an output gets.
        dims: The dimensions of the other outputs that are set; None for a dimension that is not set yet.
        values: The variables that are dimensions, ranks ("rank", input) or attributes ("attrs", 0), ("pointer", index).
        ranks: The input whose rank an output has.
        notes: The checks, which are not converted.
        functions: The functions of the source with one definition.
        macros: The macros with parameters that the source defines.
        depth: The number of calls of these functions.
    """

    source: Source
    constants: dict[str, object]
    inputs: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    copies: dict[int, int] = field(default_factory=dict)
    dims: dict[int, list[Dim | None]] = field(default_factory=dict)
    values: dict[str, Dim] = field(default_factory=dict)
    ranks: dict[int, int] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    functions: Mapping[str, Node] = field(default_factory=dict)
    macros: frozenset[str] = frozenset()
    depth: int = 0

    def __post_init__(self) -> None:
        self._globals = dict(self.constants)
        self._changed: set[str] = set()
        self._checks = Checks(self.source, self.macros)

    def run(self, function: Node, arguments: Mapping[str, object]) -> None:
        """Interpret the statements of a function with the values of its parameters.

        Raises:
            UnknownShapeError: The effect of a statement is not certain.
        """
        body = function.child_by_field_name("body")
        if body is None or _parameters(self.source, function)[:1] != ["context"]:
            raise UnknownShapeError("the function has no first parameter 'context'")
        statements = [self.source.of(child) for child in body.named_children if not self._is_for_unknown(child)]
        self._changed = changed_names(STRING.sub('""', without_comments("\n".join(statements))))
        self.constants = {**self._globals, **arguments}
        self.inputs, self.outputs, self.values = {}, {}, {}
        for statement in body.named_children:
            self._statement(statement)
            if statement.type == "return_statement":
                return

    @property
    def shapes(self) -> dict[int, Shape]:
        """The shapes of the outputs.

        Raises:
            UnknownShapeError: An output has dimensions that are not set.
        """
        found: dict[int, Shape] = dict(self.copies)
        for output, dims in self.dims.items():
            known = tuple(dim for dim in dims if dim is not None)
            if any(isinstance(dim, int) and dim < 0 for dim in known):
                raise UnknownShapeError(f"a dimension of output {output} is negative: it depends on values")
            if len(known) < len(dims) or output in found:
                raise UnknownShapeError(f"the dimensions of output {output} are not all set")
            found[output] = known
        if self.ranks.keys() - found.keys():
            raise UnknownShapeError("an output has the rank of an input and other dimensions")
        return found

    def _statement(self, node: Node) -> None:
        text = self.source.of(node).strip()
        if node.type == "comment" or self._checks.is_message(text):
            return
        if re.fullmatch(r"\(void\)\s*\w+\s*;", text) or self._is_for_unknown(node):
            return
        if node.type == "declaration":
            self._declaration(node)
        elif node.type == "return_statement":
            self._return(node, text)
        elif node.type == "if_statement" or self._checks.is_check(text):
            self._check(node, text)
        elif not self._is_known(node, text):
            raise UnknownShapeError(self._shown(node))

    def _is_known(self, node: Node, text: str) -> bool:
        """Follow a statement that sets a shape; returns whether it is one."""
        if node.type == "for_statement":
            return self._is_copy_loop(text)
        if node.type != "expression_statement" or not node.named_children:
            return False
        return self._is_copy(text) or self._is_set(node.named_children[0])

    def _is_copy_loop(self, text: str) -> bool:
        found = _COPY_LOOP.fullmatch(text)
        if found is None:
            return False
        x, y = found["x"] or found["in"], found["y"] or found["out"]
        if y not in self.outputs or x not in self.inputs:
            return False
        source, output = self.inputs[x], self.outputs[y]
        is_rank = self.values.get(found["count"]) == ("rank", source) or found["count"] == f"{x}->GetDimNum()"
        if not is_rank or self.ranks.get(output) != source:
            return False
        self.copies[output] = source
        return True

    def _is_set(self, node: Node) -> bool:
        """Follow `y->SetDimNum(n)`, `y->SetDim(i, d)`, `y->AppendDim(d)` or `y->SetScalar()`."""
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if node.type != "call_expression" or function is None or function.type != "field_expression" or not arguments:
            return False
        output = self.outputs.get(self.source.of(function.child_by_field_name("argument")))
        method = self.source.of(function.child_by_field_name("field"))
        given = [self._dim(child) for child in arguments.named_children]
        if output is None or output in self.copies or None in given:
            return False
        first = given[0] if given else None
        if method == "SetScalar" or (method == "SetDimNum" and isinstance(first, int) and 0 <= first <= _MOST_RANK):
            self.dims[output] = [None] * (first if isinstance(first, int) else 0)
            self.ranks.pop(output, None)
        elif method == "SetDimNum" and isinstance(first, tuple) and first[0] == "rank":
            self.ranks[output] = first[1]
        elif method == "AppendDim" and output in self.dims and _is_dim(first):
            self.dims[output].append(first)
        elif method == "SetDim" and len(given) == 2 and isinstance(first, int) and _is_dim(given[1]):
            dims = self.dims.get(output, [])
            if not 0 <= first < len(dims):
                return False
            dims[first] = given[1]
        else:
            return False
        return True

    def _dim(self, node: Node | None) -> Dim | None:
        """Return the dimension, rank or attribute that an expression is; None if it is another expression."""
        if node is None:
            return None
        text = self.source.of(node)
        if text in self.values:
            return self.values[text]
        if node.type == "pointer_expression":
            pointed = self.values.get(text.lstrip("* "))
            return ("attr", pointed[1]) if isinstance(pointed, tuple) and pointed[0] == "pointer" else None
        called = re.fullmatch(r"(\w+)->(GetDim|GetDimNum|GetInt|GetAttrPointer<u?int(?:64|32)_t>)\((.*)\)", text)
        if node.type == "call_expression" and (found := called):
            children = node.child_by_field_name("arguments")
            given = [self._dim(child) for child in children.named_children] if children else []
            index = given[0] if len(given) == 1 else None
            if found[1] in self.inputs and found[2] == "GetDimNum" and not given:
                return ("rank", self.inputs[found[1]])
            if found[1] in self.inputs and found[2] == "GetDim" and isinstance(index, int) and 0 <= index < _MOST_RANK:
                return ("dim", self.inputs[found[1]], index)
            is_attr = self.values.get(found[1]) == ("attrs", 0) and isinstance(index, int)
            return ("pointer", index) if is_attr and isinstance(index, int) else None
        value = evaluate(self.source, node, self.constants)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def _shown(self, node: Node) -> str:
        return " ".join(self.source.of(node).split())[:_MOST_SHOWN]

    def _declaration(self, node: Node) -> None:
        self._declare(node)
        found = re.fullmatch(
            r"(?:const\s+)?(?:auto|(?:gert::)?Shape)\s*(?:const\s*)?\*?\s*(?:const\s+)?(\w+)\s*=\s*"
            r"\w+->(\w+)\((.*)\)\s*;",
            self.source.of(node).strip(),
        )
        if self._passes(self.source.of(node)):
            raise UnknownShapeError(self._shown(node))
        declared = (child for child in node.named_children if child.type == "init_declarator")
        call = next((child.child_by_field_name("value") for child in declared), None)
        if found is None or not (found[2] in _INPUTS or found[2] == "GetOutputShape"):
            self._value(self.source.of(node).strip(), call)
            return
        arguments = call.child_by_field_name("arguments") if call else None
        values = arguments.named_children if arguments else []
        position = evaluate(self.source, values[0], self.constants) if len(values) == 1 else None
        if isinstance(position, int):
            (self.inputs if found[2] in _INPUTS else self.outputs)[found[1]] = position

    def _declare(self, node: Node) -> None:
        """Declare variables; a value that other statements may change, or that the type cannot have, is unknown."""
        head = self.source.of(node).partition("=")[0]
        is_constant = re.search(r"\bconst(expr)?\b", head) is not None and "*" not in head
        bits = _INTEGERS.get(self.source.of(node.child_by_field_name("type")).rpartition("::")[2])
        is_signed = bits is not None and bits % 8 == 7
        for name in declare(self.source, node, self.constants):
            value = self.constants[name]
            self.values.pop(name, None)
            for shapes in (self.inputs, self.outputs):
                shapes.pop(name, None)
            if isinstance(value, int) and (bits is None or not (-(2**bits) if is_signed else 0) <= value < 2**bits):
                self.constants[name] = None
            if name in self._changed and not is_constant:
                self.constants[name] = None

    def _value(self, text: str, value: Node | None) -> None:
        """Remember a variable that is a dimension, a rank, or an attribute."""
        found = re.fullmatch(
            r"(const\s+)?(?:std::)?(\w+)\s*(?:const\s*)?(\*?)\s*(?:const\s+)?(\w+)\s*=\s*(.*);", text, re.DOTALL
        )
        if found is None or (found[4] in self._changed and not (found[1] and not found[3])):
            return
        is_attrs = re.fullmatch(r"context->GetAttrs\(\)", found[5]) is not None
        dim: Dim | None = ("attrs", 0) if is_attrs else self._dim(value)
        is_number = dim is not None and (not isinstance(dim, tuple) or dim[0] in {"dim", "attr", "rank"})
        if dim is not None and not (is_number and _INTEGERS.get(found[2], 0) < 31):
            self.values[found[4]] = dim

    def _return(self, node: Node, text: str) -> None:
        if re.fullmatch(r"return\s+(ge::)?(GRAPH_SUCCESS|SUCCESS)\s*;", text):
            return
        if re.fullmatch(rf"return\s+([\w]+::)*{ELEMENTWISE}\s*\(\s*\w+\s*\)\s*;", text):
            self.copies[0] = 0
            return
        if not self._is_call(node):
            raise UnknownShapeError(self._shown(node))

    def _is_call(self, node: Node) -> bool:
        """Follow `return f(context, ..)` with constants and a function of the source; returns whether it is one."""
        call = node.named_children[0] if node.named_children else node
        callee, given = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        function = self.functions.get(self.source.of(callee).rpartition("::")[2])
        if call.type != "call_expression" or given is None or function is None or self.depth == _MOST_CALLS:
            return False
        names = _parameters(self.source, function)
        words = [self.source.of(argument) for argument in given.named_children]
        values = [evaluate(self.source, argument, self.constants) for argument in given.named_children]
        if names[:1] != ["context"] or words[:1] != ["context"] or len(names) != len(words):
            return False
        if not all(isinstance(value, int) for value in values[1:]):
            return False
        self.depth += 1
        self.run(function, dict(zip(names[1:], values[1:], strict=True)))
        return True

    def _check(self, node: Node, text: str) -> None:
        """Record a condition under which the call is rejected; it changes no shape."""
        text = STRING.sub('""', text)
        returns = len(_RETURN.findall(text))
        condition = self._condition(node).strip("() \n")
        changes = re.search(r"[^=!<>]=[^=]|->Set|->Append|\+\+|--|\bcontext\b(?!\s*(->Get|==|,|\)))", text)
        passes = self._passes(condition) and not self._is_checking_call(condition)
        only_fails = returns == len(FAILS.findall(text)) > 0 and self._checks.only_rejects(node)
        if not only_fails or changes or passes:
            raise UnknownShapeError(self._shown(node))
        if not all(map(_NULL.fullmatch, re.split(r"\|\||&&", condition))):
            self.notes.append(Note(line_of(node), f"shape inference: check {self._shown(node)}"))

    def _is_for_unknown(self, node: Node) -> bool:
        """Return whether statements apply only to unknown ranks or dimensions: a spec has its own rules for these."""
        if node.type != "if_statement" or node.child_by_field_name("alternative") is not None:
            return False
        condition = self.source.of(node.child_by_field_name("condition")).strip()[1:-1]
        found = [_UNKNOWN.fullmatch(part.strip()) for part in re.split(r"\|\||&&", condition)]
        return all(one is not None and self._is_unknown_check(one[1]) for one in found)

    def _is_unknown_check(self, name: str) -> bool:
        """Return whether a function with the name of CANN's function compares with the values for unknown."""
        own = self.functions.get(name)
        body = self.source.of(own.child_by_field_name("body")) if own else ""
        return name not in self.macros and (own is None or _UNKNOWN_DIM.search(body) is not None)

    def _is_checking_call(self, condition: str) -> bool:
        """Return whether a condition calls a function of the source that has the context, but changes no output."""
        condition += ")" * (condition.count("(") - condition.count(")"))
        found = re.fullmatch(r"!?\s*(\w+)\((\s*context\s*(?:,[\w\s,]*)?)\)\s*(?:[!=]=\s*[\w:]+)?", condition)
        if found is None or found[1] not in self.functions or set(re.findall(r"\w+", found[2])) & set(self.outputs):
            return False
        body = self.functions[found[1]].child_by_field_name("body")
        return not _MAY_CHANGE.search(_MACRO_OF_CONTEXT.sub("", STRING.sub('""', self.source.of(body))))

    def _passes(self, text: str) -> bool:
        """Return whether a text may pass an output, or the context with all outputs, to a function."""
        names = (*self.outputs, "context(?!->Get)")
        return any(re.search(rf"\b{name}\b(?!\s*==)", text) for name in names)

    def _condition(self, node: Node) -> str:
        """Return the condition of an if statement, or the first argument of a macro."""
        if node.type == "if_statement":
            return self.source.of(node.child_by_field_name("condition"))
        text = self.source.of(node)
        first, _ = arguments_of(text, text.index("(") + 1)
        return first[0] if first else text

    def _is_copy(self, text: str) -> bool:
        found = re.fullmatch(r"\*\s*(\w+)\s*=\s*\*\s*(\w+)\s*;", text)
        if found is None or found[1] not in self.outputs or found[2] not in self.inputs:
            return False
        output = self.outputs[found[1]]
        self.copies[output] = self.inputs[found[2]]
        self.dims.pop(output, None)
        self.ranks.pop(output, None)
        return True


def _parameters(source: Source, function: Node) -> list[str]:
    """Return the names of the parameters of a function."""
    return [source.of(child.child_by_field_name("declarator")).lstrip("*& ") for child in parameters(function)]
