"""Interpret the constructors of OpDef classes: calls, functions, lambdas and loops over constants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opforge.codegen.data.products import DEFAULT_SOC, SOCS
from opforge.codegen.importers.cpp_tree import Source, children_of, line_of, nodes, parameters, takes

from .scope import Scope, is_literal
from .values import Value, evaluate

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_DEPTH, _MOST_CHAIN, _MOST_CALLS, _MOST_STATEMENTS = 8, 64, 2000, 300_000
_TENSORS = ("Input", "Output")
_ALIASES = ("reference_declarator", "pointer_declarator")
_REFERENCES = (*_ALIASES, "abstract_reference_declarator", "abstract_pointer_declarator")
_APPENDS = {"push_back", "emplace_back"}
_CORES = {"AICore", "AICPU", "MC2", "HostCPU"}
# Statements that a loop over constants cannot contain.
_BRANCHES = (
    "if_statement", "switch_statement", "while_statement", "do_statement", "break_statement", "continue_statement",
    "return_statement", "goto_statement", "try_statement",
)  # fmt: skip
# The configuration that is read first.
_KERNELS = SOCS[DEFAULT_SOC].dir
# Methods of a configuration that describe the build, with their arguments in generated OpDefs.
_FLAGS = {
    "DynamicCompileStaticFlag": "true", "DynamicFormatFlag": "true", "DynamicRankSupportFlag": "true",
    "DynamicShapeSupportFlag": "true", "NeedCheckSupportFlag": "false", "PrecisionReduceFlag": "true",
    "ExtendCfgInfo": "",
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
    is_partial: bool = False


class Walker:
    """Interprets the statements of a constructor."""

    def __init__(self, source: Source, constants: dict[str, object], functions: dict[str, list[Node]]) -> None:
        self.calls = Calls()
        self._source = source
        self._constants = constants
        self._scope = Scope(source, constants)
        self._functions = functions
        self._followed = self._statements = 0
        self._is_returned = False
        self._unread: list[tuple[int, int]] = []
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
        if body is not None:
            self._block(body, depth)
        self._is_returned = False

    def _block(self, node: Node, depth: int) -> None:
        """Interpret statements until a `return`."""
        for statement in node.named_children:
            self._statements += 1
            if self._statements == _MOST_STATEMENTS:
                self._note(statement, f"more than {_MOST_STATEMENTS} statements are not read")
            if self._is_returned or self._statements >= _MOST_STATEMENTS:
                break
            self._statement(statement, depth)

    def note(self, node: Node, text: str) -> None:
        """Note a part of the source that is not read."""
        shown = self._source.of(node)[:1000].split()
        self.calls.notes.append((line_of(node), f"{text}: {' '.join(shown)[:120]}"))
        self.calls.is_partial = True

    def _note(self, node: Node, text: str) -> None:
        """Note a statement that is not read; the variables in it become unknown."""
        self.note(node, text)
        self._scope.forget(node)
        self._unread.append((node.start_byte, node.end_byte))

    def check_read(self, call: Node, method: str, name: str) -> None:
        """Note a tensor or attribute that is not read, if no note about its statement exists."""
        is_known = name in self._groups[method] or any(f"{method} {name}" in group for group in self._configs.values())
        if not is_known and not any(start <= call.start_byte < end for start, end in self._unread):
            self.note(call, f"{method} {name} is not read")

    def _statement(self, node: Node, depth: int) -> None:
        if node.type == "declaration":
            self._declaration(node)
            self._check_changes(node)
        elif node.type == "expression_statement":
            for child in node.named_children[:1]:
                self._expression(child, depth)
        elif node.type == "compound_statement":
            with self._scope.nested():
                self._block(node, depth)
        elif node.type == "return_statement":
            for child in node.named_children[:1]:
                self._expression(child, depth)
            self._is_returned = True
        elif node.type in {"for_range_loop", "for_statement"}:
            self._loop(node, depth)
        elif node.type not in {"comment", "using_declaration", "type_definition", "alias_declaration"}:
            self._note(node, "statement is not read")

    def _declaration(self, node: Node) -> None:
        """Add constants, lambdas, and names of tensors and of `AICore()`."""
        for child in node.named_children:
            value = child.child_by_field_name("value")
            name = self._source.of(next(nodes(child, "identifier"), None)) if value is not None else ""
            if value is not None and value.type == "lambda_expression":
                self._functions[name] = [value]
                return
            is_alias = any(part.type in _ALIASES for part in child.named_children[:1])
            is_alias = is_alias or (value is not None and value.type == "this")
            if value is not None and is_alias and self._source.of(value) in {"this", "*this", *self._own}:
                self._own.add(name)
                return
            while value is not None and value.type in {"pointer_expression", "parenthesized_expression"}:
                value = value.named_children[0] if value.named_children else None
            if value is not None and value.type == "call_expression" and self._name(name, value, is_alias=is_alias):
                return
        self._scope.declare(node)

    def _name(self, name: str, node: Node, *, is_alias: bool = True) -> bool:
        """Give a name to the tensor or attribute of a call, or to the configurations; return whether it is one."""
        chain, base = self._chain(node)
        if base not in self._own or not chain:
            return False
        method, value, _ = chain[0]
        if method in _CORES and len(chain) == 1:
            self._cores[name] = method
        elif method in self._groups:
            self._merge(method, chain)
            if is_alias or self._source.of(node.parent).lstrip().startswith("&"):
                self._entries[name] = self._groups[method], value
        return method in _CORES or method in self._groups

    def _loop(self, node: Node, depth: int) -> None:
        """Interpret a loop over constants; one with branches or other bounds is not read."""
        body = node.child_by_field_name("body")
        steps = self._scope.steps(node, _MOST_CALLS)
        if body is None or steps is None or next(nodes(body, *_BRANCHES), None) is not None:
            self._note(node, "statement is not read")
            return
        with self._scope.nested() as changed:
            for step in steps:
                if not self._may_follow(node, "iterations of loops"):
                    break
                for name, value in step.items():
                    self._scope.put(name, value)
                self._statement(body, depth)
        variable = node.child_by_field_name("declarator")
        if steps and changed & steps[0].keys() and variable is not None and variable.type == "reference_declarator":
            self._scope.forget(node.child_by_field_name("right"))

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
            self._note(node, "statement is not read")
            return
        method, value, _ = chain[0]
        if base in self._entries:
            self._merge_into(*self._entries[base], chain)
        elif base in self._cores:
            self._config(self._cores[base], chain)
        elif base in self._own and method in self._groups:
            self._merge(method, chain)
        elif base in self._own and method in _CORES:
            if method != "AICore" and len(chain) == 1:
                self.calls.notes.append((value.line, f"{method}({value.shown})"))
            self._config(method, chain[1:])
        else:
            self._other(chain, base, node, depth)
        self._check_changes(node)

    def _check_changes(self, node: Node) -> None:
        changed = next(nodes(node, "update_expression", "assignment_expression", "lambda_expression"), None)
        if changed is not None and changed.type != "lambda_expression":
            self._note(node, "a change of a variable in a statement is not read")
        elif changed is None:
            end = 0
            for call in nodes(node, "call_expression"):
                # The arguments of a call contain those of the calls inside.
                if call.start_byte >= end and self._forget_arguments(call, is_read=node.type != "declaration"):
                    end = call.end_byte

    def _forget_arguments(self, call: Node, *, is_read: bool) -> bool:
        """Make the variables unknown that a call inside a statement may change; return whether it has arguments.

        Calls of functions that are read change nothing here.
        """
        function = call.child_by_field_name("function")
        if function is not None and function.type in {"identifier", "qualified_identifier"}:
            if not is_read or self._source.of(function) not in self._functions:
                self._scope.forget(call.child_by_field_name("arguments"))
                return True
        elif function is not None and call.parent is not None and call.parent.type == "init_declarator":
            self._scope.forget(function)  # an iterator or a pointer
        return False

    def _other(self, chain: list[tuple[str, Value, Node]], base: str, node: Node, depth: int) -> None:
        """Interpret a call of a function, of a vector or of a configuration."""
        method, value, call = chain[0]
        if base in self._own and method in self._functions and depth < _MOST_DEPTH and len(chain) == 1:
            self._call_named(method, call, depth)
        elif isinstance(self._constants.get(base), tuple) and method in _APPENDS and len(chain) == 1:
            self._scope.append(base, value.items)
        elif base not in self._own:
            self._override(base, chain, node)
        else:
            self._note(node, f"{method} is not read")

    def _call_named(self, name: str, call: Node, depth: int) -> None:
        """Interpret the function of a name; overloads with the same number of parameters are not read."""
        count = len(children_of(call.child_by_field_name("arguments")))
        fitting = [function for function in self._functions[name] if takes(function, count)]
        if len(fitting) == 1:
            self._call(fitting[0], call, depth)
        else:
            self._note(call, f"{name} has {len(fitting)} definitions with {count} parameters and is not read")

    def _call(self, function: Node, call: Node, depth: int) -> None:
        """Interpret a function or lambda of the source; its parameters are constants, tensors or objects."""
        if not self._may_follow(call, "calls of functions"):
            return
        outer = set(self._own), dict(self._entries), dict(self._cores)
        with self._scope.nested() as changed:
            bound = self._bind(function, call)
            self.run(function, depth + 1)
        for name, (parameter, argument) in bound.items():
            if name in changed and next(nodes(parameter, *_REFERENCES), None) is not None:
                self._scope.forget(argument)
            text = self._source.of(argument)
            if name in self._configs and text != name:
                self._configs[text] = self._configs.pop(name)
        self._own, self._entries, self._cores = outer

    def _bind(self, function: Node, call: Node) -> dict[str, tuple[Node, Node]]:
        """Give the arguments of a call to the parameters; return those that are no calls of the operator."""
        given = children_of(call.child_by_field_name("arguments"))
        values = [self._scope.value(argument) for argument in given]
        own, entries, cores = set(self._own), dict(self._entries), dict(self._cores)
        bound = {}
        for number, parameter in enumerate(parameters(function)):
            name = next((self._source.of(n) for n in nodes(parameter, "identifier")), "")
            for known in (self._own, self._entries, self._cores):
                known.discard(name) if isinstance(known, set) else known.pop(name, None)
            if number >= len(given):
                default = parameter.child_by_field_name("default_value")
                self._scope.put(name, self._scope.value(default) if default else None)
                continue
            argument = given[number]
            text = self._source.of(argument)
            if argument.type == "call_expression" and self._name(name, argument):
                continue
            self._scope.put(name, values[number])
            bound[name] = parameter, argument
            self._own |= {name} if text in {"this", "*this", *own} else set()
            self._entries |= {name: entries[text]} if text in entries else {}
            self._cores |= {name: cores[text]} if text in cores else {}
        return bound

    def _chain(self, node: Node) -> tuple[list[tuple[str, Value, Node]], str]:
        """Return the calls of a chain from left to right, and the object at its start."""
        found: list[tuple[str, Value, Node]] = []
        while node.type == "call_expression" and len(found) < _MOST_CHAIN:
            function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
            if function is None or arguments is None:
                break
            values = tuple(evaluate(self._source, child, self._constants) for child in children_of(arguments))
            is_method = function.type == "field_expression"
            name = self._source.of(function.child_by_field_name("field") if is_method else function)
            shown = " ".join(self._source.of(arguments)[1:-1].split())[:120]
            line = line_of(function.child_by_field_name("field") or function) if is_method else line_of(node)
            found.append((name, Value(values, line, shown), node))
            if not is_method:
                return found[::-1], ""
            argument = function.child_by_field_name("argument")
            if argument is None:
                break
            node = argument
        return found[::-1], self._source.of(node)

    def _merge(self, method: str, chain: list[tuple[str, Value, Node]]) -> None:
        """Add a tensor or attribute; one without a constant name is not read."""
        _, value, call = chain[0]
        if is_literal(value.items):
            self._merge_into(self._groups[method], value, chain[1:])
        else:
            self._note(call, f"{method}: the name is not a constant")

    def _merge_into(
        self, group: dict[str, dict[str, Value]], value: Value, chain: list[tuple[str, Value, Node]]
    ) -> None:
        if not is_literal(value.items):
            return
        entry = group.setdefault(value.text, {"name": value})
        for method, arguments, _ in chain:
            entry[method] = arguments

    def _override(self, base: str, chain: list[tuple[str, Value, Node]], node: Node) -> None:
        """Apply the calls on a configuration: they replace properties of tensors for its products."""
        method, value, _ = chain[0]
        if method in _TENSORS and is_literal(value.items):
            entry = self._configs.setdefault(base, {}).setdefault(f"{method} {value.text}", {"name": value})
            entry.update((name, arguments) for name, arguments, _ in chain[1:])
        elif any(name not in _FLAGS for name, _, _ in chain):
            self._note(node, f"{method} is not read")
        for name, given in ((name, given) for name, given, _ in chain if name in _FLAGS):
            self._configs.setdefault(base, {})[f"{name} {given.text if not _FLAGS[name] else ''}"] = {name: given}

    def _config(self, core: str, chain: list[tuple[str, Value, Node]]) -> None:
        for method, value, node in chain:
            if method == "AddConfig" and not is_literal(value.items):
                self._note(node, "AddConfig: the name is not a constant")
            elif method == "AddConfig":
                product = value.text
                self.calls.products.append(product)
                if core != "AICore":
                    self.calls.notes.append((value.line, f"configuration of {core} for {product}"))
                arguments = node.child_by_field_name("arguments")
                names = [self._source.of(child) for child in arguments.named_children] if arguments else []
                changed = self._configs.get(names[1], {}) if len(names) > 1 else {}
                # The next statements may change the configuration.
                self._products.append((product, {name: dict(entry) for name, entry in changed.items()}))
            elif method not in _FLAGS and not method.startswith("Set"):
                self.calls.notes.append((value.line, f"{core}: {method}({value.shown})"))

    def _note_flags(self) -> None:
        """Note the properties of configurations that differ from those of generated OpDefs."""
        found: dict[tuple[int, str], list[str]] = {}
        for product, changed in self._products:
            for method, value in (pair for entry in changed.values() for pair in entry.items()):
                if method in _FLAGS and value.shown != _FLAGS[method]:
                    found.setdefault((value.line, f"{method}({value.shown})"), []).append(product)
        self.calls.notes += [(line, f"{', '.join(names)}: {text}") for (line, text), names in found.items()]

    def read_configurations(self) -> None:
        """Note other dtypes of configurations. Without tensors of the operator, those of a configuration are read."""
        tensors: dict[str, dict[str, Value]] = {}
        if not self.calls.inputs and not self.calls.outputs:
            found = {product: own for product, changed in self._products if (own := _tensors_of(changed))}
            tensors = found.get(_KERNELS) or next(iter(found.values()), {})
        for key, entry in tensors.items():
            group = self.calls.inputs if key.startswith("Input ") else self.calls.outputs
            group[entry["name"].text] = dict(entry)
        self._note_flags()
        for product, changed in self._products:
            for name, entry in _tensors_of(changed).items():
                dtypes, known = _dtypes(entry), _dtypes(tensors.get(name, {}))
                if dtypes is not None and (known is None or dtypes.words != known.words):
                    text = f"{product} has other dtypes of {name}: {dtypes.shown}"
                    self.calls.notes.append((dtypes.line, text))


def _tensors_of(configuration: dict[str, dict[str, Value]]) -> dict[str, dict[str, Value]]:
    return {key: entry for key, entry in configuration.items() if key.partition(" ")[0] in _TENSORS}


def _dtypes(entry: dict[str, Value]) -> Value | None:
    return entry.get("DataType") or entry.get("DataTypeList")
