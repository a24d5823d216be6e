"""Parse the expression language of specs, a whitelist of Python's grammar, to a small typed tree.

Values are 64-bit integers, booleans and dtypes. Every back end has the same result or the same error: a result beyond
64 bits and a division by zero are errors; nothing wraps around. A value may be *unknown* (a dimension of -1 at shape
inference). An expression with an unknown operand is unknown, except `false and x` and `true or x`.

Words: literals (integers, decimal numbers, quoted texts, `true false`, dtype names), dimension symbols, attributes,
`cores` (of the device, where it is known), `+ - * // %` of integers (floor division and its remainder, as in Python),
comparisons (chained too), `and or not`, `a if condition else b`, `min(..) max(..)`, and of a tensor `present(x)`,
`dtype(x)`, `len(x)` (its rank), `prod(x)` (its number of elements), `dim(x, i)` (one dimension); `len` and `prod` also
of the dimensions `*S`, as S. Of a list of tensors, `len(x)` is the number of tensors, and `x[i]` in these functions is
one of them.
A list can be folded: `sum(f(V) for V in x)`, `all(V >= 0 for V in x)`. `x` is an input whose values the host knows,
`steps(x)`, the differences of its neighbours with the first value counted from 0, `divisors(n)`, the divisors of an
integer of at most 2**40 from the smallest, or `indices(x)`, the indices of a list of tensors; `x[0]` is one of its
values. `x` may also be an attribute that is a list of integers or bools (0 and 1). `list(V for V in x if f(V))` is a
list too; a spec gives it a name, by which it can be folded or counted, `len(name)`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from opforge.codegen.data.dtypes import DTYPES
from opforge.codegen.data.names import suggest, symbol_problem

from .names import ATTRIBUTE_KINDS, ExprNames
from .operators import BY_NODE
from .tree import (
    CORES,
    INT_MAX,
    INT_MIN,
    Arithmetic,
    Attribute,
    BoolLiteral,
    Choice,
    Comparison,
    Count,
    Dims,
    Divisors,
    DtypeLiteral,
    DtypeOf,
    Expr,
    Extreme,
    Fold,
    HostList,
    Indices,
    IntLiteral,
    Item,
    Junction,
    Kind,
    Negative,
    Not,
    Present,
    RealLiteral,
    Size,
    Source,
    StarDims,
    Symbol,
    TextLiteral,
    Variable,
    single_precision,
    walk,
)

MAX_TEXT = 1000
_EXPECTED = "expected names, numbers, operators and functions, as in '2 * (H + 1)'"


class ExprError(ValueError):
    """A text is not an expression; the message has the actual and the expected text."""


def parse(text: str, scope: ExprNames) -> Expr:
    """Parse one expression.

    Raises:
        ExprError: The grammar is wrong, a name is not in `scope`, kinds do not match, or a literal exceeds 64 bits.
    """
    if len(text) > MAX_TEXT:
        raise ExprError(f"got an expression of {len(text)} characters, expected at most {MAX_TEXT}")
    if not text.isascii() or not text.isprintable():
        raise ExprError(f"got {text!r}, expected an expression in printable ASCII")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "it cannot be read"
        raise ExprError(f"got {text!r}, which is not an expression: {reason}; {_EXPECTED}") from error
    try:
        return _Parser(text.strip(), scope).whole(tree.body)
    except RecursionError as error:
        raise ExprError(
            f"got {text!r}, which is nested too deeply; expected fewer levels; move parts of it to `definitions`"
        ) from error


def parse_kind(text: str, scope: ExprNames, kinds: Sequence[Kind]) -> Expr:
    """Parse an expression with a result of one of some kinds, or raise ExprError."""
    expression = parse(text, scope)
    if expression.kind not in kinds:
        expected = " or ".join(kind.value for kind in kinds)
        raise ExprError(f"got {text!r}, which is {expression.kind.value}; expected {expected}")
    return expression


_INSTEAD: Mapping[type[ast.AST], str] = {
    ast.Div: "'/'; expected '//', the floor division",
    ast.Pow: "'**'; expected a product",
    ast.LShift: "'<<'; expected a product",
    ast.RShift: "'>>'; expected '//'",
    ast.BitAnd: "'&'; expected 'and'",
    ast.BitOr: "'|'; expected 'or'",
    ast.BitXor: "'^'; expected '!='",
    ast.MatMult: "'@'",
    ast.UAdd: "a leading '+'; expected none",
    ast.Invert: "'~'; expected 'not'",
    ast.In: "'in'; expected comparisons joined by 'or'",
    ast.NotIn: "'not in'; expected comparisons joined by 'and'",
    ast.Is: "'is'; expected '=='",
    ast.IsNot: "'is not'; expected '!='",
}


class _Parser:
    def __init__(self, text: str, scope: ExprNames) -> None:
        self._text = text
        self._scope = scope
        self._variables = list(scope.variables)
        self._functions: dict[str, Callable[[ast.Call], Expr]] = {
            "present": lambda call: Present(self._tensor(call)),
            "dtype": lambda call: DtypeOf(*self._member(call)),
            "len": self._length,
            "prod": lambda call: self._dims("prod", call),
            "dim": self._size,
            "min": lambda call: Extreme("min", self._integers(call)),
            "max": lambda call: Extreme("max", self._integers(call)),
            "sum": lambda call: self._fold("sum", Kind.INT, call),
            "all": lambda call: self._fold("all", Kind.BOOL, call),
            "list": lambda call: self._fold("list", Kind.BOOL, call),
        }

    def _refuse(self, got: str) -> ExprError:
        return ExprError(f"in {self._text!r}: got {got}")

    def whole(self, node: ast.expr) -> Expr:
        """Return the whole expression, which may be a list."""
        match node:
            case ast.Call(func=ast.Name(id="list")):
                return self._call(node)
            case ast.Name(id=name) if name in self._scope.definitions:
                return self._scope.definitions[name]
        return self.expression(node)

    def expression(self, node: ast.expr) -> Expr:
        """Return an expression that is not a list."""
        found = self._expression(node)
        if found.kind is Kind.LIST:
            raise self._refuse(f"{ast.unparse(node)!r}, which is a list; expected len(..), or a sum over a named list")
        return found

    def _expression(self, node: ast.expr) -> Expr:
        match node:
            case ast.Constant():
                return self._literal(node)
            case ast.Name(id=name):
                return self._name(name)
            case ast.Call():
                return self._call(node)
            case ast.Subscript(value=ast.Name(id=name), slice=index) if name in self._scope.readable_lists:
                return Item(HostList(name, of_steps=False), self._operand(index, Kind.INT))
            case ast.Compare():
                return self._comparison(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                condition, chosen = self._operand(test, Kind.BOOL), self.expression(body)
                return Choice(condition, chosen, self._operand(orelse, chosen.kind))
            case ast.BoolOp(op=operator, values=values):
                word: Literal["and", "or"] = "and" if isinstance(operator, ast.And) else "or"
                return Junction(word, tuple(self._operand(value, Kind.BOOL) for value in values))
            case ast.BinOp() | ast.UnaryOp():
                return self._arithmetic(node)
            case _:
                raise self._refuse(f"{ast.unparse(node)!r}, which is not part of the expression language; {_EXPECTED}")

    def _arithmetic(self, node: ast.BinOp | ast.UnaryOp) -> Expr:
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Not(self._operand(operand, Kind.BOOL))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._negative(operand)
            case ast.BinOp(op=operator, left=left, right=right) if row := BY_NODE.get(type(operator)):
                return Arithmetic(row.word, self._operand(left, Kind.INT), self._operand(right, Kind.INT))
        raise self._refuse(_INSTEAD[type(node.op)])

    def _operand(self, node: ast.expr, kind: Kind) -> Expr:
        operand = self.expression(node)
        if operand.kind is not kind:
            raise self._refuse(f"{ast.unparse(node)!r}, which is {operand.kind.value}; expected {kind.value}")
        return operand

    def _literal(self, node: ast.Constant, sign: int = 1) -> Expr:
        if isinstance(node.value, str):
            return TextLiteral(node.value)
        if isinstance(node.value, float):
            return RealLiteral(self._single(node.value))
        if type(node.value) is not int:
            raise self._refuse(f"{ast.unparse(node)!r}; expected a number, a text, true or false")
        value = sign * node.value
        if not INT_MIN <= value <= INT_MAX:
            raise self._refuse(f"{value}, which does not fit 64 bits; expected a smaller number")
        return IntLiteral(value)

    def _single(self, value: float) -> float:
        single = single_precision(value)
        if not math.isfinite(single):
            raise self._refuse(f"{value}, which is not in the range of float32; expected a smaller number")
        return single

    def _negative(self, node: ast.expr) -> Expr:
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            return RealLiteral(-self._single(node.value))
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return self._literal(node, sign=-1)
        return Negative(self._operand(node, Kind.INT))

    def _name(self, name: str) -> Expr:
        if name in {"true", "false"}:
            return BoolLiteral(name == "true")
        if name in DTYPES:
            return DtypeLiteral(name)
        if name in self._variables:
            return Variable(name)
        if name in self._scope.definitions:
            return self._scope.definitions[name]
        if name in self._scope.symbols:
            return Symbol(name)
        if name in self._scope.stars:
            raise self._refuse(f"{name!r} alone, which has several dimensions; expected len({name}) or prod({name})")
        if name in self._scope.attributes:
            return self._attribute(name)
        if name == CORES:
            return Attribute(name, Kind.INT)
        if name in self._scope.tensors:
            raise self._refuse(f"tensor {name!r} alone; expected present(..), dtype(..), len(..) or prod(..) of it")
        hint = suggest(name, self._scope.words) if self._scope.words else "no name is defined here"
        raise self._refuse(f"unknown name {name!r}; {hint}")

    def _attribute(self, name: str) -> Expr:
        kind = ATTRIBUTE_KINDS[self._scope.attributes[name]]
        if kind is Kind.LIST:
            raise self._refuse(f"the list {name!r} alone; expected len({name}), {name}[0], or a sum over it")
        return Attribute(name, kind)

    def _call(self, node: ast.Call) -> Expr:
        name = ast.unparse(node.func)
        if name not in self._functions:
            raise self._refuse(f"unknown function {name!r}; {suggest(name, self._functions)}")
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            raise self._refuse(f"{ast.unparse(node)!r}; expected plain arguments")
        return self._functions[name](node)

    def _tensor(self, node: ast.Call) -> str:
        match node.args:
            case [ast.Name(id=name)] if name in self._scope.tensors:
                return name
            case [ast.Name(id=name)]:
                raise self._refuse(f"{ast.unparse(node)!r} of an unknown tensor; {suggest(name, self._scope.tensors)}")
            case _:
                raise self._refuse(f"{ast.unparse(node)!r}; expected the name of one input or output in the brackets")

    def _member(self, node: ast.Call) -> tuple[str, Expr | None]:
        """Return the tensor of a function; for a tensor of a list, the list and the index."""
        match node.args:
            case [ast.Subscript(value=ast.Name(id=name), slice=index), *_] if name in self._scope.tensor_lists:
                return name, self._operand(index, Kind.INT)
            case [ast.Name(id=name), *_] if name in self._scope.tensor_lists:
                raise self._refuse(
                    f"the list {name!r} in {ast.unparse(node)!r}; expected one of its tensors, {name}[0]"
                )
            case _:
                return self._tensor(ast.Call(node.func, node.args[:1], [])), None

    def _size(self, node: ast.Call) -> Expr:
        if len(node.args) != 2:
            raise self._refuse(f"{ast.unparse(node)!r}; expected a tensor and an axis, as in 'dim(x, 0)'")
        tensor, index = self._member(node)
        return Size(tensor, self._operand(node.args[1], Kind.INT), index)

    def _dims(self, function: Literal["len", "prod"], node: ast.Call) -> Expr:
        match node.args:
            case [ast.Name(id=name)] if name in self._scope.stars:
                return StarDims(function, name)
            case [_]:
                return Dims(function, *self._member(node))
            case _:
                return Dims(function, self._tensor(node))

    def _length(self, node: ast.Call) -> Expr:
        match node.args:
            case [ast.Name(id=name)] if named := self._scope.list_of(name):
                return Fold("sum", named.variable, IntLiteral(1), named)
            case [ast.Name(id=name)] if ATTRIBUTE_KINDS.get(self._scope.attributes.get(name, "")) is Kind.LIST:
                return Fold("sum", "V", IntLiteral(1), HostList(name, of_steps=False))
            case [ast.Name(id=name)] if name in self._scope.tensor_lists:
                return Count(name)
            case _:
                return self._dims("len", node)

    def _fold(self, function: Literal["sum", "all", "list"], kind: Kind, node: ast.Call) -> Expr:
        name, of, body = self._comprehension(function, node)
        if refusal := symbol_problem(name):
            raise self._refuse(refusal.removeprefix("got "))
        if name in {*self._variables, *self._scope.symbols, *self._scope.stars}:
            raise self._refuse(f"{name!r} again, which has another meaning; expected another letter")
        source = self._list(of)
        self._variables.append(name)
        folded = Fold(function, name, self._operand(body, kind), source)
        self._variables.pop()
        if not any(isinstance(part, Variable) and part.name == name for part in walk(folded.body)):
            raise self._refuse(f"{ast.unparse(body)!r}, which does not use {name}; expected something that does")
        return folded

    def _comprehension(self, function: str, node: ast.Call) -> tuple[str, ast.expr, ast.expr]:
        """Return the variable of a fold, its list, and its body; for a `list`, the condition."""
        is_list = function == "list"
        match node.args:
            case [
                ast.GeneratorExp(generators=[ast.comprehension(target=ast.Name(id=name), iter=of, ifs=ifs)], elt=elt)
            ]:
                if not is_list and not ifs:
                    return name, of, elt
                if is_list and len(ifs) == 1 and isinstance(elt, ast.Name) and elt.id == name:
                    return name, of, ifs[0]
        form = f"{function}({'V for V in x if ..' if is_list else '.. for V in x'})"
        raise self._refuse(f"{ast.unparse(node)!r}; expected the form {form}")

    def _list(self, node: ast.expr) -> Source:
        """Parse the list of a fold."""
        match node:
            case ast.Name(id=name) if name in self._scope.readable_lists:
                return HostList(name, of_steps=False)
            case ast.Name(id=name) if named := self._scope.list_of(name):
                return named
            case ast.Call(func=ast.Name(id="divisors"), args=[of], keywords=[]):
                return Divisors(self._operand(of, Kind.INT))
            case ast.Call(func=ast.Name(id="indices"), args=[ast.Name(id=name)], keywords=[]) if (
                name in self._scope.tensor_lists
            ):
                return Indices(name)
            case ast.Call(func=ast.Name(id="steps"), args=[ast.Name(id=name)], keywords=[]) if (
                name in self._scope.readable_lists
            ):
                return HostList(name, of_steps=True)
            case _:
                known = [f"{name} or steps({name})" for name in sorted(self._scope.readable_lists)]
                known += [f"indices({name})" for name in sorted(self._scope.tensor_lists)]
                expected = " or ".join([*known, "divisors(n)"])
                raise self._refuse(f"{ast.unparse(node)!r} to iterate over; expected {expected}")

    def _integers(self, node: ast.Call) -> tuple[Expr, ...]:
        if len(node.args) < 2:
            raise self._refuse(f"{ast.unparse(node)!r}; expected two arguments or more")
        return tuple(self._operand(argument, Kind.INT) for argument in node.args)

    def _comparison(self, node: ast.Compare) -> Expr:
        nodes = [node.left, *node.comparators]
        operands = [self.expression(operand) for operand in nodes]
        pairs: list[Expr] = []
        for i, operator in enumerate(node.ops):
            if type(operator) not in BY_NODE:
                raise self._refuse(_INSTEAD[type(operator)])
            word = BY_NODE[type(operator)].word
            left, right = operands[i], operands[i + 1]
            if left.kind is not right.kind:
                raise self._refuse(
                    f"{ast.unparse(nodes[i])!r} {word} {ast.unparse(nodes[i + 1])!r}, which compares "
                    f"{left.kind.value} with {right.kind.value}; expected operands of one kind"
                )
            if left.kind not in {Kind.INT, Kind.REAL} and word not in {"==", "!="}:
                raise self._refuse(f"{word!r} of {left.kind.value}; expected '==' or '!='")
            pairs.append(Comparison(word, left, right))
        return pairs[0] if len(pairs) == 1 else Junction("and", tuple(pairs))
