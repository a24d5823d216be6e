"""Interpret the constructors of OpDef classes: calls, functions, lambdas and loops over constants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opforge.codegen.data.products import DEFAULT_SOC, SOCS

from .cpp_tree import Source, line_of, nodes
from .op_def_values import Value, collect, declare, evaluate

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_DEPTH, _MOST_CHAIN, _MOST_CALLS, _MOST_STATEMENTS = 8, 64, 2000, 300_000
_TENSORS = ("Input", "Output")
_CORES = {"AICore", "AICPU", "MC2", "HostCPU"}
# Statements that a loop over constants cannot contain.
_BRANCHES = (
    "if_statement", "switch_statement", "while_statement", "do_statement", "break_statement", "continue_statement",
    "return_statement", "goto_statement", "try_statement",
)  # fmt: skip
# The configuration that is read first.
_KERNELS = SOCS[DEFAULT_SOC].dir
# Methods of a configuration that describe the build.
_FLAGS = {
    "DynamicCompileStaticFlag", "DynamicFormatFlag", "DynamicRankSupportFlag", "DynamicShapeSupportFlag",
    "NeedCheckSupportFlag", "PrecisionReduceFlag", "ExtendCfgInfo",
}  # fmt: skip


@dataclass
class Calls:
    """The calls of one OpDef class: methods with their arguments, by parameter; partial, if others were not read."""

    line: int = 0
    inputs: dict[str, dict[str, Value]] = field(default_factory=dict)
    outputs: dict[str, dict[str, Value]] = field(default_factory=dict)
    attrs: dict[str, dict[str, Value]] = field(default_factory=dict)
    products: list[str] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)
    limits: list[tuple[int, str]] = field(default_factory=list)
    is_partial: bool = False


def class_calls(source: Source) -> Iterator[tuple[str, Calls]]:
    """Yield the OpDef classes of a source by name, with their calls."""
    added = {source.of(node) for node in _added(source)}
    constants: dict[str, object] = {}
    functions: dict[str, Node] = {}
    for node in source.root.named_children:
        collect(source, node, constants, functions)
    for node in nodes(source.root, "class_specifier", "struct_specifier"):
        bases = [source.of(child) for child in node.children if child.type == "base_class_clause"]
        name = source.of(node.child_by_field_name("name"))
        body = node.child_by_field_name("body")
        if body is None or not bases or not (any("OpDef" in base for base in bases) or name in added):
            continue
        methods = dict(functions)
        own = dict(constants)
        for child in body.named_children:
            collect(source, child, own, methods)
        walker = _Walker(source, own, methods)
        walker.calls.line = line_of(node)
        if constructor := methods.get(name):
            walker.run(constructor, 0)
        walker.read_configurations()
        yield name, walker.calls


def _added(source: Source) -> Iterator[Node]:
    for node in nodes(source.root, "call_expression"):
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        is_name = function is not None and function.type == "identifier"  # the text of a chain of calls may be long
        if is_name and source.of(function) == "OP_ADD" and arguments is not None:
            yield from arguments.named_children[:1]


def _is_constant(value: object) -> bool:
    """Return whether a value, or each item of a list, is known."""
    return all(map(_is_constant, value)) if isinstance(value, tuple) else value is not None


class _Walker:
    """Interprets the statements of a constructor."""

    def __init__(self, source: Source, constants: dict[str, object], functions: dict[str, Node]) -> None:
        self.calls = Calls()
        self._source = source
        self._constants = constants
        self._functions = functions
        self._followed = self._statements = 0
        self._configs: dict[str, dict[str, dict[str, Value]]] = {}
        self._products: list[tuple[str, dict[str, dict[str, Value]]]] = []
        # Names of the operator itself: functions receive it as an argument.
        self._own = {"", "this", "(*this)"}
        self._groups = {"Input": self.calls.inputs, "Output": self.calls.outputs, "Attr": self.calls.attrs}
        # Names of tensors and attributes, and of the object with configurations.
        self._entries: dict[str, tuple[dict[str, dict[str, Value]], Value]] = {}
        self._cores: dict[str, str] = {}

    def run(self, function: Node, depth: int) -> None:
        """Interpret the statements of a function."""
        body = function.child_by_field_name("body")
        for statement in body.named_children if body else ():
            self._statement(statement, depth)

    def _note(self, node: Node, text: str) -> None:
        self.calls.notes.append((line_of(node), f"{text}: {' '.join(self._source.of(node).split())[:120]}"))
        self.calls.is_partial = True

    def _statement(self, node: Node, depth: int) -> None:
        self._statements += 1
        if self._statements >= _MOST_STATEMENTS:
            if self._statements == _MOST_STATEMENTS:
                self._note(node, f"more than {_MOST_STATEMENTS} statements are not read")
            return
        if node.type == "declaration":
            self._declaration(node)
        elif node.type == "expression_statement":
            for child in node.named_children[:1]:
                self._expression(child, depth)
        elif node.type == "compound_statement":
            for child in node.named_children:
                self._statement(child, depth)
        elif node.type in {"for_range_loop", "for_statement"}:
            self._loop(node, depth)
        elif node.type not in {
            "comment",
            "using_declaration",
            "type_definition",
            "return_statement",
            "alias_declaration",
        }:
            self._note(node, "statement is not read")

    def _declaration(self, node: Node) -> None:
        """Add constants, lambdas, and names of tensors and of `AICore()`."""
        for child in node.named_children:
            value = child.child_by_field_name("value")
            name = self._source.of(next(nodes(child, "identifier"), None)) if value is not None else ""
            if value is not None and value.type == "lambda_expression":
                self._functions[name] = value
                return
            if value is not None and value.type == "call_expression" and self._name(name, value):
                return
        declare(self._source, node, self._constants)

    def _name(self, name: str, node: Node) -> bool:
        """Give a name to the tensor or attribute of a call, or to the configurations; return whether it is one."""
        chain, base = self._chain(node)
        if base not in self._own or not chain:
            return False
        method, value, _ = chain[0]
        if method in _CORES and len(chain) == 1:
            self._cores[name] = method
        elif method in self._groups:
            self._merge(self._groups[method], value, chain[1:])
            self._entries[name] = self._groups[method], value
        return method in _CORES or method in self._groups

    def _loop(self, node: Node, depth: int) -> None:
        """Interpret a loop over constants; one with branches or other bounds is not read."""
        body = node.child_by_field_name("body")
        steps = self._steps(node)
        if body is None or steps is None or next(nodes(body, *_BRANCHES), None) is not None:
            self._note(node, "statement is not read")
            return
        outer = dict(self._constants)
        for step in steps:
            if not self._may_follow(node, "iterations of loops"):
                break
            self._constants.update(step)
            self._statement(body, depth)
        self._constants.clear()
        self._constants.update(outer)

    def _steps(self, node: Node) -> list[dict[str, object]] | None:
        """Return the constants of each iteration of a loop; None if they are not known."""
        field = node.child_by_field_name
        names = [self._source.of(name) for name in nodes(field("declarator") or node, "identifier")]
        if node.type == "for_range_loop":
            right = field("right")
            items = evaluate(self._source, right, self._constants) if right else None
            if not isinstance(items, tuple) or not all(map(_is_constant, items)):
                return None
            rows = [item if len(names) > 1 else (item,) for item in items]
            if not all(isinstance(row, tuple) and len(row) == len(names) for row in rows):
                return None
            return [dict(zip(names, row, strict=True)) for row in rows if isinstance(row, tuple)]
        first, condition, update = field("initializer"), field("condition"), field("update")
        if first is None or condition is None or update is None:
            return None
        bounds: dict[str, object] = {}
        declare(self._source, first, bounds)
        (name, start), *more = bounds.items() or (("", None),)
        text = re.sub(r"\s", "", self._source.of(update))
        left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
        end = evaluate(self._source, right, self._constants) if right else None
        operator = self._source.of(condition.child_by_field_name("operator"))
        is_plain = self._source.of(left) == name and text in {f"++{name}", f"{name}++", f"{name}+=1"} and not more
        if not is_plain or operator not in {"<", "<=", "!="} or not isinstance(start, int) or not isinstance(end, int):
            return None
        return [{name: index} for index in range(start, min(end + (operator == "<="), start + _MOST_CALLS + 1))]

    def _may_follow(self, node: Node, what: str) -> bool:
        """Count a call of a function or an iteration; return whether it is within the limit."""
        self._followed += 1
        if self._followed == _MOST_CALLS:
            self._note(node, f"more than {_MOST_CALLS} {what} are not read")
        return self._followed < _MOST_CALLS

    def _expression(self, node: Node, depth: int) -> None:
        called = node.child_by_field_name("function") if node.type == "call_expression" else None
        if called is not None and called.type == "lambda_expression" and depth < _MOST_DEPTH:
            self._call(called, node, depth)
            return
        chain, base = self._chain(node)
        if not chain:
            if node.type != "call_expression":
                self._note(node, "statement is not read")
            return
        method, value, call = chain[0]
        if base in self._entries:
            self._merge(*self._entries[base], chain)
        elif base in self._cores:
            self._config(self._cores[base], chain)
        elif base in self._own and method in self._groups:
            self._merge(self._groups[method], value, chain[1:])
        elif base in self._own and method in _CORES:
            self._config(method, chain[1:])
        elif base in self._own and method in self._functions and depth < _MOST_DEPTH:
            self._call(self._functions[method], call, depth)
        elif base not in self._own:
            self._override(base, chain)
        else:
            self._note(node, f"{method} is not read")

    def _call(self, function: Node, call: Node, depth: int) -> None:
        """Interpret a function or lambda of the source; its parameters are constants, tensors or objects."""
        if not self._may_follow(call, "calls of functions"):
            return
        arguments = call.child_by_field_name("arguments")
        given = arguments.named_children if arguments else []
        outer = dict(self._constants), set(self._own), dict(self._entries), dict(self._cores)
        parameters = next(nodes(function, "parameter_list"), None)
        aliases = {}
        for parameter, argument in zip(parameters.named_children if parameters else [], given, strict=False):
            name = next((self._source.of(n) for n in nodes(parameter, "identifier")), "")
            text = self._source.of(argument)
            is_own, entry, core = text in {"this", "*this", *outer[1]}, outer[2].get(text), outer[3].get(text)
            for known in (self._own, self._entries, self._cores):
                known.discard(name) if isinstance(known, set) else known.pop(name, None)
            if argument.type == "call_expression" and self._name(name, argument):
                continue
            self._constants[name] = evaluate(self._source, argument, outer[0])
            aliases[name] = text
            self._own |= {name} if is_own else set()
            self._entries |= {name: entry} if entry else {}
            self._cores |= {name: core} if core else {}
        self.run(function, depth + 1)
        for alias, original in aliases.items():
            if alias in self._configs and original != alias:
                self._configs[original] = self._configs.pop(alias)
        self._constants.clear()
        self._constants.update(outer[0])
        self._own, self._entries, self._cores = outer[1:]

    def _chain(self, node: Node) -> tuple[list[tuple[str, Value, Node]], str]:
        """Return the calls of a chain from left to right, and the object at its start."""
        found: list[tuple[str, Value, Node]] = []
        while node.type == "call_expression" and len(found) < _MOST_CHAIN:
            function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
            if function is None or arguments is None:
                break
            children = [child for child in arguments.named_children if child.type != "comment"]
            items = tuple(evaluate(self._source, child, self._constants) for child in children)
            is_method = function.type == "field_expression"
            name = self._source.of(function.child_by_field_name("field") if is_method else function)
            shown = " ".join(self._source.of(arguments)[1:-1].split())[:120]
            line = line_of(function.child_by_field_name("field") or function) if is_method else line_of(node)
            found.append((name, Value(items, line, shown), node))
            if not is_method:
                return found[::-1], ""
            argument = function.child_by_field_name("argument")
            if argument is None:
                break
            node = argument
        return found[::-1], self._source.of(node)

    def _merge(self, group: dict[str, dict[str, Value]], value: Value, chain: list[tuple[str, Value, Node]]) -> None:
        entry = group.setdefault(value.text, {"name": value})
        for method, arguments, _ in chain:
            if method == "ValueDepend" and arguments.text not in {"OPTIONAL", "REQUIRED"}:
                continue
            entry[method] = arguments

    def _override(self, base: str, chain: list[tuple[str, Value, Node]]) -> None:
        """Apply the calls on a configuration: they replace properties of tensors for its products."""
        method, value, _ = chain[0]
        if method in _TENSORS:
            entry = self._configs.setdefault(base, {}).setdefault(f"{method} {value.text}", {"name": value})
            entry.update((name, arguments) for name, arguments, _ in chain[1:])

    def _config(self, core: str, chain: list[tuple[str, Value, Node]]) -> None:
        for method, value, node in chain:
            if method == "AddConfig":
                product = value.text
                self.calls.products.append(product)
                if core != "AICore":
                    self.calls.limits.append((value.line, f"configuration of {core} for {product}"))
                arguments = node.child_by_field_name("arguments")
                names = [self._source.of(child) for child in arguments.named_children] if arguments else []
                changed = self._configs.get(names[1], {}) if len(names) > 1 else {}
                # The next statements may change the configuration.
                self._products.append((product, {name: dict(entry) for name, entry in changed.items()}))
            elif method not in _FLAGS and not method.startswith("Set"):
                self.calls.notes.append((value.line, f"{core}: {method}({value.shown})"))

    def read_configurations(self) -> None:
        """Note other dtypes of configurations. Without tensors of the operator, those of a configuration are read."""
        tensors: dict[str, dict[str, Value]] = {}
        if not self.calls.inputs and not self.calls.outputs:
            found = {product: changed for product, changed in self._products if changed}
            tensors = found.get(_KERNELS) or next(iter(found.values()), {})
        for key, entry in tensors.items():
            group = self.calls.inputs if key.startswith("Input ") else self.calls.outputs
            group[entry["name"].text] = dict(entry)
        for product, changed in self._products:
            for name, entry in changed.items():
                dtypes, known = _dtypes(entry), _dtypes(tensors.get(name, {}))
                if dtypes is not None and (known is None or dtypes.words != known.words):
                    text = f"{product} has other dtypes of {name}: {dtypes.shown}"
                    self.calls.limits.append((dtypes.line, text))


def _dtypes(entry: dict[str, Value]) -> Value | None:
    return entry.get("DataType") or entry.get("DataTypeList")
