"""Evaluate the calls in the constructors of OpDef classes with constants, without executing code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opforge.codegen.data.products import DEFAULT_SOC, SOCS

from .cpp_tree import Source, line_of, nodes
from .draft import number_of

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_DEPTH, _MOST_CHAIN, _MOST_ITEMS, _MOST_CALLS = 8, 64, 4096, 2000
_TENSORS = ("Input", "Output")
# The configuration that is read first.
_KERNELS = SOCS[DEFAULT_SOC].dir
# Methods of a configuration that describe the build.
_FLAGS = {
    "DynamicCompileStaticFlag", "DynamicFormatFlag", "DynamicRankSupportFlag", "DynamicShapeSupportFlag",
    "NeedCheckSupportFlag", "PrecisionReduceFlag", "ExtendCfgInfo",
}  # fmt: skip


@dataclass(frozen=True)
class Value:
    """The arguments of a call as constants.

    Attributes:
        items: Words, numbers and texts; lists in braces are tuples.
        line: The line of the call.
        shown: The text of the arguments.
    """

    items: tuple[object, ...]
    line: int
    shown: str

    @property
    def text(self) -> str:
        """The first argument."""
        return str(self.items[0]) if self.items else ""

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the first argument, which is a list."""
        first = self.items[0] if self.items else ()
        return tuple(map(str, first)) if isinstance(first, tuple) else (str(first),)

    def of_type(self, kind: str) -> bool | float | str | tuple[bool | float | str, ...] | None:
        """Return the first argument as a value of an attribute type; None if it is not one."""
        if not self.items:
            return None
        first = self.items[0]
        if kind.startswith("list_"):
            if not isinstance(first, tuple):
                return None
            items = [_scalar(item, kind.removeprefix("list_")) for item in first]
            return None if None in items else tuple(item for item in items if item is not None)
        return _scalar(first, kind)


def _scalar(value: object, kind: str) -> bool | float | str | None:
    if kind == "string":
        return str(value) if isinstance(value, _Text) else None
    if isinstance(value, bool):
        return value if kind == "bool" else int(value) if kind == "int" else None
    if isinstance(value, int | float):
        return bool(value) if kind == "bool" else number_of(value, kind)
    return None


class _Text(str):
    """A text in quotes; other texts are names of constants."""

    __slots__ = ()


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


def collect(source: Source, node: Node, constants: dict[str, object], functions: dict[str, Node]) -> None:
    """Add the constants and functions of a scope, including nested namespaces."""
    if node.type in {
        "namespace_definition",
        "linkage_specification",
        "declaration_list",
        "preproc_ifdef",
        "preproc_if",
    }:
        for child in node.named_children:
            collect(source, child, constants, functions)
    elif node.type == "function_definition":
        for declarator in nodes(node, "function_declarator"):
            functions.setdefault(source.of(declarator.child_by_field_name("declarator")).rpartition("::")[2], node)
            break
    elif node.type in {"declaration", "field_declaration"}:
        declare(source, node, constants)
    elif node.type == "preproc_def":
        name, value = source.of(node.child_by_field_name("name")), source.of(node.child_by_field_name("value"))
        if (number := _number(value.strip())) is not None:
            constants[name] = number
        elif value.strip().startswith('"'):
            constants[name] = _Text(value.strip().strip('"'))


def declare(source: Source, node: Node, constants: dict[str, object]) -> None:
    """Add the constants of a declaration."""
    for child in node.named_children:
        value = child.child_by_field_name("value")
        if child.type == "field_identifier" and (value := node.child_by_field_name("default_value")) is not None:
            constants[source.of(child)] = evaluate(source, value, constants)
        elif child.type == "init_declarator" and value is not None:
            name = child.child_by_field_name("declarator")
            while name is not None and name.named_children and name.type != "identifier":
                name = name.named_children[0]
            constants[source.of(name)] = evaluate(source, value, constants)


def _number(text: str) -> bool | float | None:
    words = {"true": True, "false": False}
    if text in words:
        return words[text]
    body = text.replace("'", "")
    if not body.lower().startswith("0x"):
        body = body.rstrip("fF")
    body = body.rstrip("uUlL")
    try:
        return int(body, 0)
    except ValueError:
        try:
            return float(body)
        except ValueError:
            return None


def evaluate(source: Source, node: Node, constants: dict[str, object], depth: int = 0) -> object:
    """Return the value of a constant expression; None if it is not constant."""
    kind, text = node.type, source.of(node)
    value: object = None
    if depth > _MOST_DEPTH:
        return None
    if kind == "initializer_list":
        children = [child for child in node.named_children if child.type != "comment"][:_MOST_ITEMS]
        value = tuple(evaluate(source, child, constants, depth + 1) for child in children)
    elif kind in {"number_literal", "true", "false"}:
        value = _number(text)
    elif kind in {"identifier", "qualified_identifier"}:
        last = text.rpartition("::")[2]
        value = constants.get(last, last)
    elif kind in {"string_literal", "concatenated_string"}:
        value = _Text("".join(source.of(child) for child in nodes(node, "string_content")))
    else:
        value = _composed(source, node, constants, depth)
    return value


def _composed(source: Source, node: Node, constants: dict[str, object], depth: int) -> object:
    """Return the value of an expression with operands."""
    kind, text = node.type, source.of(node)
    operand: Node | None = None
    if kind == "unary_expression" and text[:1] in {"-", "+"}:
        operand = node.child_by_field_name("argument")
    elif kind == "parenthesized_expression" and node.named_child_count == 1:
        operand = node.named_children[0]
    elif kind == "compound_literal_expression":
        operand = node.child_by_field_name("value")
    elif kind in {"call_expression", "argument_list"}:
        return _constructed(source, node, constants, depth)
    value = evaluate(source, operand, constants, depth + 1) if operand else None
    return -value if isinstance(value, int | float) and text[:1] == "-" else value


def _constructed(source: Source, node: Node, constants: dict[str, object], depth: int) -> object:
    """Return the value of `vector<T>(n, value)` or `vector<T>{...}`, and of the arguments of such a declaration."""
    arguments = node if node.type == "argument_list" else node.child_by_field_name("arguments")
    if arguments is None or (
        node.type == "call_expression" and "vector" not in source.of(node.child_by_field_name("function"))
    ):
        return None
    values = [evaluate(source, child, constants, depth + 1) for child in arguments.named_children]
    if len(values) == 2 and isinstance(values[0], int) and 0 <= values[0] <= _MOST_ITEMS:
        return (values[1],) * values[0]
    return values[0] if len(values) == 1 else None


class _Walker:
    """Interprets the statements of a constructor."""

    def __init__(self, source: Source, constants: dict[str, object], functions: dict[str, Node]) -> None:
        self.calls = Calls()
        self._source = source
        self._constants = constants
        self._functions = functions
        self._followed = 0
        self._configs: dict[str, dict[str, dict[str, Value]]] = {}
        self._products: list[tuple[str, dict[str, dict[str, Value]]]] = []
        # Names of the operator itself: functions receive it as an argument.
        self._own = {"", "this", "(*this)"}

    def run(self, function: Node, depth: int) -> None:
        """Interpret the statements of a function."""
        body = function.child_by_field_name("body")
        for statement in body.named_children if body else ():
            self._statement(statement, depth)

    def _note(self, node: Node, text: str) -> None:
        self.calls.notes.append((line_of(node), f"{text}: {' '.join(self._source.of(node).split())[:120]}"))
        self.calls.is_partial = True

    def _statement(self, node: Node, depth: int) -> None:
        if node.type == "declaration":
            declare(self._source, node, self._constants)
        elif node.type == "expression_statement" and node.named_children:
            self._expression(node.named_children[0], depth)
        elif node.type == "compound_statement":
            for child in node.named_children:
                self._statement(child, depth)
        elif node.type not in {
            "comment",
            "using_declaration",
            "type_definition",
            "return_statement",
            "alias_declaration",
        }:
            self._note(node, "statement is not read")

    def _expression(self, node: Node, depth: int) -> None:
        chain, base = self._chain(node)
        if not chain:
            if node.type != "call_expression":
                self._note(node, "statement is not read")
            return
        method, value, call = chain[0]
        if base in self._own and method in _TENSORS:
            group = self.calls.inputs if method == "Input" else self.calls.outputs
            self._merge(group, value, chain[1:])
        elif base in self._own and method == "Attr":
            self._merge(self.calls.attrs, value, chain[1:])
        elif base in self._own and method in {"AICore", "AICPU", "MC2", "HostCPU"}:
            self._config(method, chain[1:])
        elif base in self._own and method in self._functions and depth < _MOST_DEPTH:
            self._call(method, call, depth)
        elif base not in self._own:
            self._override(base, chain)
        else:
            self._note(node, f"{method} is not read")

    def _call(self, method: str, call: Node, depth: int) -> None:
        """Interpret a function of the source with its parameters as constants."""
        self._followed += 1
        if self._followed >= _MOST_CALLS:
            if self._followed == _MOST_CALLS:
                self._note(call, f"more than {_MOST_CALLS} calls of functions are not read")
            return
        function = self._functions[method]
        arguments = call.child_by_field_name("arguments")
        given = arguments.named_children if arguments else []
        outer = dict(self._constants)
        parameters = next(nodes(function, "parameter_list"), None)
        aliases = {}
        for parameter, argument in zip(parameters.named_children if parameters else [], given, strict=False):
            name = next((self._source.of(n) for n in nodes(parameter, "identifier")), "")
            self._constants[name] = evaluate(self._source, argument, outer)
            aliases[name] = self._source.of(argument)
            if aliases[name] in {"this", "*this", *self._own}:
                self._own.add(name)
        self.run(function, depth + 1)
        for alias, original in aliases.items():
            if alias in self._configs and original != alias:
                self._configs[original] = self._configs.pop(alias)
        self._constants.clear()
        self._constants.update(outer)

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
