"""Read shape inference whose meaning is certain: functions that copy the shapes of inputs to outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .cpp_tree import Source, line_of
from .draft import Note, OperatorDraft
from .op_def_values import collect, declare, evaluate
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
# A shape of unknown rank gives an unknown shape, like in specs.
_UNKNOWN_RANK = re.compile(
    r"if\s*\(\s*([\w:]+::)?IsUnknownRank\(\*?\w+\)\s*\)\s*\{(\s*(OP_LOG\w*\([^;]*;|([\w:]+::)?SetUnknownRank\(\*?\w+\);))*"
    r"\s*return (ge::)?GRAPH_SUCCESS;\s*\}"
)
_MOST_SHOWN = 120


class _UnknownError(Exception):
    """A statement whose effect on the shapes is not certain."""


@dataclass
class _Function:
    """The known effects of the statements of a function.

    Attributes:
        inputs: The inputs whose shapes variables point to.
        outputs: The outputs whose shapes variables point to.
        copies: The input whose shape an output gets.
        notes: The checks, which are not converted.
    """

    source: Source
    constants: dict[str, object]
    inputs: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    copies: dict[int, int] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def run(self, body: Node) -> None:
        """Interpret statements.

        Raises:
            _UnknownError: The effect of a statement is not certain.
        """
        for statement in body.named_children:
            self._statement(statement)

    def _statement(self, node: Node) -> None:
        text = self.source.of(node).strip()
        word = re.match(r"\w*", text)
        name = word[0] if word else ""
        if node.type == "comment" or _LOGS.fullmatch(name) or _NULL_CHECKS.fullmatch(name):
            return
        if re.fullmatch(r"\(void\)\s*\w+\s*;", text) or _UNKNOWN_RANK.fullmatch(text):
            return
        if node.type == "declaration":
            self._declaration(node)
        elif node.type == "return_statement":
            self._return(node, text)
        elif node.type == "if_statement" or _CHECKS.fullmatch(name):
            self._check(node, text)
        elif node.type != "expression_statement" or not self._is_copy(text):
            raise _UnknownError(self._shown(node))

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
        if found is None or not (found[2] in _INPUTS or found[2] == "GetOutputShape"):
            return
        declared = (child for child in node.named_children if child.type == "init_declarator")
        call = next((child.child_by_field_name("value") for child in declared), None)
        arguments = call.child_by_field_name("arguments") if call else None
        values = arguments.named_children if arguments else []
        position = evaluate(self.source, values[0], self.constants) if len(values) == 1 else None
        if isinstance(position, int):
            (self.inputs if found[2] in _INPUTS else self.outputs)[found[1]] = position

    def _return(self, node: Node, text: str) -> None:
        if re.fullmatch(r"return\s+(ge::)?(GRAPH_SUCCESS|SUCCESS)\s*;", text):
            return
        if re.fullmatch(rf"return\s+([\w]+::)*{_ELEMENTWISE}\s*\(\s*\w+\s*\)\s*;", text):
            self.copies[0] = 0
            return
        raise _UnknownError(self._shown(node))

    def _check(self, node: Node, text: str) -> None:
        """Record a condition under which the call is rejected; it changes no shape."""
        text = _STRING.sub('""', text)
        returns = len(_RETURN.findall(text))
        condition = self._condition(node).strip("() \n")
        changes = re.search(r"[^=!<>]=[^=]|->Set|->Append|\+\+|--|\bcontext\b(?!\s*(->Get|==|,|\)))", text)
        if not returns or returns != len(_FAILS.findall(text)) or changes or self._passes(condition):
            raise _UnknownError(self._shown(node))
        if not _NULL.fullmatch(condition):
            self.notes.append(Note(line_of(node), f"shape inference: check {self._shown(node)}"))

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
        self.copies[self.outputs[found[1]]] = self.inputs[found[2]]
        return True


def shape_rules(source: Source) -> Iterator[OperatorDraft]:
    """Yield drafts without a type; `function` is the operator of the registered shape inference."""
    if "InferShape" not in source.text:
        return
    constants: dict[str, object] = {}
    functions: dict[str, Node] = {}
    for node in source.root.named_children:
        collect(source, node, constants, functions)
    for found in _REGISTERED.finditer(source.text):
        line = source.text.count("\n", 0, found.start()) + 1
        copies, notes = _copies(source, found[2], constants, functions, line)
        yield OperatorDraft(
            "", f"{source.place}:{line}", KIND, function=found[1], shapes=tuple(sorted(copies.items())), notes=notes
        )


def _copies(
    source: Source, name: str, constants: Mapping[str, object], functions: Mapping[str, Node], line: int
) -> tuple[dict[int, int], tuple[Note, ...]]:
    """Return the inputs with the shapes of the outputs; empty with a note if the function does more."""
    last = name.rpartition("::")[2]
    if last == _ELEMENTWISE:
        return {0: 0}, ()
    body = functions[last].child_by_field_name("body") if last in functions else None
    if body is None:
        return {}, (Note(line, f"shape inference: the source does not define {name}"),)
    function = _Function(source, dict(constants))
    try:
        function.run(body)
    except _UnknownError as unknown:
        return {}, (Note(line_of(body), f"shape inference is not read: {unknown}"),)
    return function.copies, tuple(function.notes)
