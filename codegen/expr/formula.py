"""Parse the formula of an operator, equations in Python's grammar with a whitelist, and print it as LaTeX.

`grad_bias[g, h] = sum(grad_y[i, h], start(g) <= i < end(g))`; several equations are separated by `;`. The left side is
an output. An operator without outputs and overwritten inputs has an expression instead. `sum(term, over, ..)` has
indices or conditions as further arguments; other words are `+ - * / // % **`, comparisons, `and or not`,
`a if c else b`, `min max floor ceil exp log sqrt abs`, and functions of one letter or more that the description
explains, as in `count(v)`. Names are inputs, outputs, attributes and symbols of the spec, and single letters for
indices.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from opforge.codegen.data.names import suggest
from opforge.codegen.escape import Code

from .operators import ATOM, BY_NODE, COMPARISON, PRODUCT, SUM, UNARY

_LINE = 72  # characters of an equation that fit into a line of a page
_FENCES: Mapping[str, tuple[str, str]] = {
    "floor": (r"\lfloor ", r" \rfloor"),
    "ceil": (r"\lceil ", r" \rceil"),
    "abs": (r"\lvert ", r" \rvert"),
    "sqrt": (r"\sqrt{", "}"),
}
_KNOWN_FUNCTIONS: Mapping[str, str] = {name: rf"\{name}" for name in ("min", "max", "exp", "log")}
_WITH_ARGUMENTS = {"sum", *_FENCES, *_KNOWN_FUNCTIONS}


class FormulaError(ValueError):
    """A text is not a formula; the message has the actual and the expected text."""


@dataclass(frozen=True)
class Names:
    """Names that a formula may use."""

    outputs: Collection[str]
    others: Collection[str]

    @property
    def all(self) -> list[str]:
        """Every name, sorted."""
        return sorted({*self.outputs, *self.others})


def latex_lines(text: str, names: Names) -> tuple[Code, ...]:
    """Return LaTeX for each equation of a formula; a long one is broken at its outer sums and products.

    Raises:
        FormulaError: The grammar is wrong, or the operator does not have a name.
    """
    if not text.isascii():
        raise FormulaError(f"got {text!r}, expected equations in ASCII")
    try:
        statements = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "it cannot be read"
        raise FormulaError(f"got {text!r}, which is not a formula: {reason}; expected 'y[i] = 2 * x[i]'") from error
    try:
        return tuple(Code(_Printer(names).equation(statement)) for statement in statements)
    except RecursionError as error:
        raise FormulaError(
            f"got {text!r}, which is nested too deeply; expected fewer levels; replace a part of it by a new symbol"
            " and explain the symbol in the description"
        ) from error


class _Printer:
    def __init__(self, names: Names) -> None:
        self._names = names

    def equation(self, statement: ast.stmt) -> str:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)) as left]):
                if name not in self._names.outputs:
                    hint = suggest(name, self._names.outputs)
                    raise FormulaError(f"got {name!r} on the left side, which is not an output; {hint}")
                text = f"{self._text(left)} = {self._text(statement.value)}"
                lines = self._lines(statement.value) if _letters(text) > _LINE else []
                if len(lines) < 2:
                    return text
                rows = r" \\ & ".join(lines)
                return rf"\begin{{split}} {self._text(left)} = {{}} & {rows} \end{{split}}"
            case ast.Expr(value=value) if not self._names.outputs:
                return self._text(value)
            case _:
                raise FormulaError(f"got {ast.unparse(statement)!r}, expected an equation, as in 'y[i] = 2 * x[i]'")

    def _lines(self, node: ast.expr) -> list[str]:
        """Return the text of an expression; a long one in several lines, with one operand and its operator in each."""
        text, level = self._term(node)
        operands: list[tuple[str, ast.expr, int]] = []
        first = node
        while isinstance(first, ast.BinOp) and (row := BY_NODE.get(type(first.op))) and row.level == level:
            operands.insert(0, (rf"{{}} {row.latex} ", first.right, level + 1))
            first = first.left
        if _letters(text) <= _LINE or not operands:
            return [text]
        lines = self._lines_within(first, level)
        for sign, operand, least in operands:
            start, *more = self._lines_within(operand, least)
            if _letters(lines[-1] + start) <= _LINE:
                lines[-1] += f" {sign.removeprefix('{} ')}{start}"
            else:
                lines.append(sign + start)
            lines += more
        return lines

    def _lines_within(self, node: ast.expr, level: int) -> list[str]:
        """Return the lines of an operand; brackets that are open at the end of a line have one height."""
        lines = self._lines(node)
        if len(lines) < 2:
            return [self._within(node, level)]
        if self._term(node)[1] >= level:
            return lines
        return [rf"\Bigl({lines[0]}", *(rf"\quad {line}" for line in lines[1:-1]), rf"\quad {lines[-1]}\Bigr)"]

    def _text(self, node: ast.expr) -> str:
        return self._term(node)[0]

    def _within(self, node: ast.expr, level: int) -> str:
        """Return the text of an operand, in brackets if its precedence is lower than `level`."""
        text, own = self._term(node)
        return rf"\left({text}\right)" if own < level else text

    def _term(self, node: ast.expr) -> tuple[str, int]:
        """Return LaTeX and the precedence of the outermost operator."""
        match node:
            case ast.Name(id=name):
                return self._name(name), ATOM
            case ast.Constant(value=bool() | int() | float() as value):
                return str(value).lower(), ATOM
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                return f"{self._name(name)}[{self._indices(index)}]", ATOM
            case ast.IfExp(test=test, body=body, orelse=other):
                rows = rf"{self._text(body)} & \text{{if }} {self._text(test)} \\ {self._text(other)} & \text{{else}}"
                return rf"\begin{{cases}} {rows} \end{{cases}}", ATOM
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if (
                arguments or name not in _WITH_ARGUMENTS
            ):
                return self._call(name, arguments)
            case _:
                return self._operation(node)

    def _operation(self, node: ast.expr) -> tuple[str, int]:
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"-{self._within(operand, PRODUCT)}", SUM
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return rf"\lnot {self._within(operand, ATOM)}", UNARY
            case ast.BinOp(op=ast.Div(), left=left, right=right):
                # A fraction after a multiplication sign stays in brackets: it is rounded before the product is.
                return rf"\frac{{{self._text(left)}}}{{{self._text(right)}}}", PRODUCT
            case ast.BinOp(op=ast.FloorDiv(), left=left, right=right):
                return rf"\left\lfloor \frac{{{self._text(left)}}}{{{self._text(right)}}} \right\rfloor", ATOM
            case ast.BinOp(op=ast.Pow(), left=left, right=right):
                return f"{{{self._within(left, ATOM)}}}^{{{self._text(right)}}}", UNARY
            case ast.BinOp(op=operator, left=left, right=right) if row := BY_NODE.get(type(operator)):
                return f"{self._within(left, row.level)} {row.latex} {self._within(right, row.level + 1)}", row.level
            case ast.BoolOp(op=operator, values=values):
                row = BY_NODE[type(operator)]
                return f" {row.latex} ".join(self._within(value, row.level + 1) for value in values), row.level
            case ast.Compare() if all(type(sign) in BY_NODE for sign in node.ops):
                text = self._within(node.left, SUM)
                for sign, operand in zip(node.ops, node.comparators, strict=True):
                    text += f" {BY_NODE[type(sign)].latex} {self._within(operand, SUM)}"
                return text, COMPARISON
            case _:
                raise FormulaError(
                    f"got {ast.unparse(node)!r}, which is not part of the formula language; expected numbers, names,"
                    " operators, sum(..) and functions, as in 'y[i] = 2 * x[i]'"
                )

    def _call(self, name: str, arguments: list[ast.expr]) -> tuple[str, int]:
        if name == "sum":
            body, *over = arguments
            if not over:
                raise FormulaError("got a sum over nothing, expected indices or conditions, as in 'sum(x[i, j], j)'")
            below = r",\ ".join(map(self._text, over))
            return rf"\sum_{{{below}}} {self._within(body, PRODUCT)}", SUM
        values = r",\, ".join(map(self._text, arguments))
        if name in _FENCES:
            opening, closing = _FENCES[name]
            return f"{opening}{values}{closing}", ATOM
        return f"{_KNOWN_FUNCTIONS.get(name) or _word(name)}({values})", ATOM

    def _indices(self, node: ast.expr) -> str:
        match node:
            case ast.Tuple(elts=elements):
                return r",\, ".join(map(self._indices, elements))
            case ast.Slice(lower=None, upper=None, step=None):
                return ":"
            case ast.Constant(value=value) if value is Ellipsis:
                return r"\ldots"
            case _:
                return self._text(node)

    def _name(self, name: str) -> str:
        if len(name) > 1 and name not in self._names.all:
            raise FormulaError(f"got the unknown name {name!r}; {suggest(name, self._names.all)}")
        return _word(name)


def _letters(latex: str) -> int:
    """Return the approximate width of typeset LaTeX."""
    return len(re.sub(r"\\[A-Za-z]+|[\\{}\s]", "", latex))


def _word(name: str) -> str:
    """Return a name in upright letters, a single letter in italics."""
    return name if len(name) == 1 else rf"\mathrm{{{name.replace('_', chr(92) + '_')}}}"
