"""Define the operators of expressions and formulas once: in Python, in C++, as text and as LaTeX."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

# Precedence of operators: a conditional expression has the lowest. A phrase is text such as "number of elements of x".
CHOICE, OR, AND, EQUALITY, COMPARISON, PHRASE, SUM, PRODUCT, UNARY, ATOM = range(10)


@dataclass(frozen=True)
class Operator:
    """A binary operator.

    Attributes:
        word: Its spelling in specs.
        node: Its type in Python's grammar; None for a function.
        level: Its precedence.
        compute: Its value in Python.
        cpp: Its sign or function in C++.
        sign: Its sign on the pages of operators.
        latex: Its sign in formulas.
    """

    word: str
    node: type[ast.AST] | None
    level: int
    compute: Callable[[Any, Any], Any]
    cpp: str
    sign: str = ""
    latex: str = ""

    @property
    def is_cpp_function(self) -> bool:
        """Return whether the C++ form calls a function of op_host/common/expression.h."""
        return self.cpp.isidentifier()


OPERATORS: Mapping[str, Operator] = {
    row.word: row
    for row in (
        Operator("or", ast.Or, OR, operator.or_, "||", "or", r"\lor"),
        Operator("and", ast.And, AND, operator.and_, "&&", "and", r"\land"),
        Operator("==", ast.Eq, EQUALITY, operator.eq, "==", "=", "="),
        Operator("!=", ast.NotEq, EQUALITY, operator.ne, "!=", "\u2260", r"\ne"),
        Operator("<", ast.Lt, COMPARISON, operator.lt, "<", "<", "<"),
        Operator("<=", ast.LtE, COMPARISON, operator.le, "<=", "\u2264", r"\le"),
        Operator(">", ast.Gt, COMPARISON, operator.gt, ">", ">", ">"),
        Operator(">=", ast.GtE, COMPARISON, operator.ge, ">=", "\u2265", r"\ge"),
        Operator("+", ast.Add, SUM, operator.add, "+", "+", "+"),
        Operator("-", ast.Sub, SUM, operator.sub, "-", "-", "-"),
        Operator("*", ast.Mult, PRODUCT, operator.mul, "*", "\u00b7", r"\cdot"),
        Operator("%", ast.Mod, PRODUCT, operator.mod, "FloorMod", "mod", r"\bmod"),
        # Text and formulas put the quotient into floor brackets.
        Operator("//", ast.FloorDiv, ATOM, operator.floordiv, "FloorDiv"),
        Operator("min", None, ATOM, min, "Min", "min"),
        Operator("max", None, ATOM, max, "Max", "max"),
    )
}
BY_NODE: Mapping[type[ast.AST], Operator] = {row.node: row for row in OPERATORS.values() if row.node is not None}
