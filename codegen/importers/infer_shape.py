"""Read shape inference whose meaning is certain: copied shapes, numbers, attributes and copied dimensions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .cpp_tree import Source, line_of, nodes
from .draft import Dim, Note, OperatorDraft, Shape
from .op_classes.values import collect, declare, evaluate
from .reg_op import arguments_of

if TYPE_CHECKING:
    from tree_sitter import Node

KIND = "InferShape"
_REGISTERED = re.compile(
    r"\bIMPL_OP(?:_INFERSHAPE)?\s*\(\s*(\w+)\s*\)(?:\s*\.\s*\w+\s*\([^()]*\))*?\s*\.\s*InferShape\s*\(\s*([\w:]+)\s*\)"
)
_INPUTS = {"GetInputShape", "GetRequiredInputShape"}
# The CANN function that gives the output the shape of the first input.
_ELEMENTWISE = "InferShape4Elewise"
_LOGS = re.compile(r"(OP_LOG|OPS_LOG|GE_LOG|OP_EVENT)\w*|VECTOR_INFER_SHAPE_INNER_ERR_REPORT\w*")
_NULL_CHECKS = re.compile(r"(OP|OPS|GE)_CHECK_(NULL|NOT_NULL)\w*")
_CHECKS = re.compile(r"(OP|OPS|GE)_(CHECK|CHK|TILING_CHECK)\w*")
_FAILS = re.compile(r"return\s+(ge::)?(GRAPH_(FAILED|PARAM_INVALID)|FAILED)\b")
_RETURN = re.compile(r"\breturn\b")
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_NULL = re.compile(r"[\w:>.()&| -]*(==\s*nullptr|!\w+)[\w:>.()&|!= -]*")
# Conditions that are false if all dimensions are known, as at run time.
_UNKNOWN = re.compile(r"\(?\s*(?:[\w:]+::)?IsUnknown(?:Rank|Shape|RankShape)\(\*\w+\)\s*\)?")
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


def _is_dim(value: Dim | None) -> bool:
    return isinstance(value, int) or (isinstance(value, tuple) and value[0] in {"dim", "attr"})


class _UnknownError(Exception):
    """A statement whose effect on the shapes is not certain."""


@dataclass
class _Function:
    """The known effects of the statements of a function.

    Attributes:
        inputs: The inputs whose shapes variables point to.
        outputs: The outputs whose shapes variables point to.
        copies: The input whose shape an output gets.
        dims: The dimensions of the other outputs that are set; None for a dimension that is not set yet.
        values: The variables that are dimensions, ranks ("rank", input) or attributes ("attrs", 0), ("pointer", index).
        ranks: The input whose rank an output has.
        notes: The checks, which are not converted.
        functions: The functions of the source.
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
    depth: int = 0

    def run(self, body: Node) -> None:
        """Interpret statements.

        Raises:
            _UnknownError: The effect of a statement is not certain.
        """
        for statement in body.named_children:
            self._statement(statement)
            if statement.type == "return_statement":
                return

    @property
    def shapes(self) -> dict[int, Shape]:
        """The shapes of the outputs.

        Raises:
            _UnknownError: An output has dimensions that are not set.
        """
        found: dict[int, Shape] = dict(self.copies)
        for output, dims in self.dims.items():
            known = tuple(dim for dim in dims if dim is not None)
            if len(known) < len(dims) or output in found:
                raise _UnknownError(f"the dimensions of output {output} are not all set")
            found[output] = known
        if self.ranks.keys() - found.keys():
            raise _UnknownError("an output has the rank of an input and other dimensions")
        return found

    def _statement(self, node: Node) -> None:
        text = self.source.of(node).strip()
        word = re.match(r"\w*", text)
        name = word[0] if word else ""
        if node.type == "comment" or _LOGS.fullmatch(name) or _NULL_CHECKS.fullmatch(name):
            return
        if re.fullmatch(r"\(void\)\s*\w+\s*;", text) or self._is_for_unknown(node):
            return
        if node.type == "declaration":
            self._declaration(node)
        elif node.type == "return_statement":
            self._return(node, text)
        elif node.type == "if_statement" or _CHECKS.fullmatch(name):
            self._check(node, text)
        elif not self._is_known(node, text):
            raise _UnknownError(self._shown(node))

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
        if found := re.fullmatch(r"(\w+)->(GetDim|GetDimNum|GetInt|GetAttrPointer<u?int(?:64|32)_t>)\((.*)\)", text):
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
        declare(self.source, node, self.constants)
        found = re.fullmatch(
            r"(?:const\s+)?(?:auto|(?:gert::)?Shape)\s*(?:const\s*)?\*?\s*(?:const\s+)?(\w+)\s*=\s*"
            r"\w+->(\w+)\((.*)\)\s*;",
            self.source.of(node).strip(),
        )
        if self._passes(self.source.of(node)):
            raise _UnknownError(self._shown(node))
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

    def _value(self, text: str, value: Node | None) -> None:
        """Remember a variable that is a dimension, a rank, or an attribute."""
        if found := re.fullmatch(
            r"(?:const\s+)?[\w:]+\s*(?:const\s*)?\*?\s*(?:const\s+)?(\w+)\s*=\s*(.*);", text, re.DOTALL
        ):
            is_attrs = re.fullmatch(r"context->GetAttrs\(\)", found[2]) is not None
            dim: Dim | None = ("attrs", 0) if is_attrs else self._dim(value)
            if dim is not None:
                self.values[found[1]] = dim

    def _return(self, node: Node, text: str) -> None:
        if re.fullmatch(r"return\s+(ge::)?(GRAPH_SUCCESS|SUCCESS)\s*;", text):
            return
        if re.fullmatch(rf"return\s+([\w]+::)*{_ELEMENTWISE}\s*\(\s*\w+\s*\)\s*;", text):
            self.copies[0] = 0
            return
        if not self._is_call(node):
            raise _UnknownError(self._shown(node))

    def _is_call(self, node: Node) -> bool:
        """Follow `return f(context, ..)` with constants and a function of the source; returns whether it is one."""
        call = node.named_children[0] if node.named_children else node
        callee, given = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        function = self.functions.get(self.source.of(callee).rpartition("::")[2])
        body = function.child_by_field_name("body") if function else None
        listed = next(nodes(function, "parameter_list"), None) if function else None
        if (
            call.type != "call_expression"
            or given is None
            or body is None
            or listed is None
            or self.depth == _MOST_CALLS
        ):
            return False
        names = [
            self.source.of(parameter.child_by_field_name("declarator")).lstrip("*& ")
            for parameter in listed.named_children
        ]
        words = [self.source.of(argument) for argument in given.named_children]
        values = [evaluate(self.source, argument, self.constants) for argument in given.named_children]
        if names[:1] != ["context"] or words[:1] != ["context"] or len(names) != len(words):
            return False
        if not all(isinstance(value, int) for value in values[1:]):
            return False
        self.constants |= dict(zip(names[1:], values[1:], strict=True))
        self.depth += 1
        self.run(body)
        return True

    def _check(self, node: Node, text: str) -> None:
        """Record a condition under which the call is rejected; it changes no shape."""
        text = _STRING.sub('""', text)
        returns = len(_RETURN.findall(text))
        condition = self._condition(node).strip("() \n")
        changes = re.search(r"[^=!<>]=[^=]|->Set|->Append|\+\+|--|\bcontext\b(?!\s*(->Get|==|,|\)))", text)
        passes = self._passes(condition) and not self._is_checking_call(condition)
        if not returns or returns != len(_FAILS.findall(text)) or changes or passes:
            raise _UnknownError(self._shown(node))
        if not _NULL.fullmatch(condition):
            self.notes.append(Note(line_of(node), f"shape inference: check {self._shown(node)}"))

    def _is_for_unknown(self, node: Node) -> bool:
        """Return whether statements apply only to unknown ranks or dimensions: a spec has its own rules for these."""
        if node.type != "if_statement" or node.child_by_field_name("alternative") is not None:
            return False
        condition = self.source.of(node.child_by_field_name("condition")).strip()[1:-1]
        return all(_UNKNOWN.fullmatch(part.strip()) for part in re.split(r"\|\||&&", condition))

    def _is_checking_call(self, condition: str) -> bool:
        """Return whether a condition calls a function of the source that has the context, but changes no output."""
        condition += ")" * (condition.count("(") - condition.count(")"))
        found = re.fullmatch(r"!?\s*(\w+)\((\s*context\s*(?:,[\w\s,]*)?)\)\s*(?:[!=]=\s*[\w:]+)?", condition)
        if found is None or found[1] not in self.functions or set(re.findall(r"\w+", found[2])) & set(self.outputs):
            return False
        body = self.functions[found[1]].child_by_field_name("body")
        return not _MAY_CHANGE.search(_MACRO_OF_CONTEXT.sub("", _STRING.sub('""', self.source.of(body))))

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


def shape_rules(source: Source) -> Iterator[OperatorDraft]:
    """Yield drafts without a type; `function` is the operator of the registered shape inference."""
    if "InferShape" not in source.text:
        return
    constants: dict[str, object] = {}
    collected: dict[str, list[Node]] = {}
    for node in source.root.named_children:
        collect(source, node, constants, collected)
    functions = {name: group[0] for name, group in collected.items()}
    for found in _REGISTERED.finditer(source.text):
        line = source.text.count("\n", 0, found.start()) + 1
        copies, notes = _copies(source, found[2], constants, functions, line)
        yield OperatorDraft(
            "", f"{source.place}:{line}", KIND, function=found[1], shapes=tuple(sorted(copies.items())), notes=notes
        )


def _copies(
    source: Source, name: str, constants: Mapping[str, object], functions: Mapping[str, Node], line: int
) -> tuple[dict[int, Shape], tuple[Note, ...]]:
    """Return the shapes that the outputs get; empty with a note if the function does more."""
    last = name.rpartition("::")[2]
    if last == _ELEMENTWISE:
        return {0: 0}, ()
    body = functions[last].child_by_field_name("body") if last in functions else None
    if body is None:
        return {}, (Note(line, f"shape inference: the source does not define {name}"),)
    function = _Function(source, dict(constants), functions=functions)
    try:
        function.run(body)
        return function.shapes, tuple(function.notes)
    except _UnknownError as unknown:
        return {}, (Note(line_of(body), f"shape inference is not read: {unknown}"),)
