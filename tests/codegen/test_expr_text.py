"""Test the English text of shapes and conditions against the other back ends."""

import pytest

from opforge.codegen.expr.expr_text import expr_text
from opforge.codegen.expr.names import ExprNames
from opforge.codegen.expr.syntax import parse

SCOPE = ExprNames(
    symbols={"N", "K"}, stars={"S"}, attributes={"pad": "int", "fast": "bool"}, tensors={"x", "ends"}, lists={"ends"}
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("N + 2*pad + 1 - K", "N + 2 · pad + 1 - K"),
        ("N - (K - 1)", "N - (K - 1)"),
        ("-(N + 1) * 2", "-(N + 1) · 2"),
        ("N // K % 2", "⌊N / K⌋ mod 2"),
        ("(N + 1) // (K * 2)", "⌊(N + 1) / (K · 2)⌋"),
        ("0 <= pad <= 3", "0 ≤ pad ≤ 3"),
        ("N <= K and K <= 3 and N != 1", "N ≤ K and K ≤ 3 and N ≠ 1"),
        ("not present(x) or prod(x) >= 1", "x is null or number of elements of x ≥ 1"),
        ("prod(x) * 2 + 1 <= prod(S)", "(number of elements of x) · 2 + 1 ≤ product(S)"),
        ("present(x) and (fast or len(S) == 2)", "x is given and (fast or rank(S) = 2)"),
        ("not fast or not (N == 1 and K == 1)", "fast is false or not (N = 1 and K = 1)"),
        ("dtype(x) == bfloat16", "dtype(x) = BF16"),
        ("sum(L // 2 for L in ends) == N", "Σ(⌊L / 2⌋ for each value L of ends) = N"),
        ("all(L >= 0 for L in steps(ends))", "L ≥ 0 for each step L of ends"),
        ("all(L >= 0 for L in ends) and fast", "(L ≥ 0 for each value L of ends) and fast"),
        ("(1 if fast else 2) * N", "(1 if fast, else 2) · N"),
        ("min(N, max(K, 2))", "min(N, max(K, 2))"),
    ],
)
def test_expression_as_english_text(text, words):
    assert expr_text(parse(text, SCOPE)) == words


def test_every_constraint_of_every_operator_can_be_read(operators):
    for spec in operators.values():
        for constraint in spec.program.constraints:
            words = expr_text(constraint.check)
            assert not {"==", "!=", "<=", ">=", "//", "%", "*"} & set(words.split()), words
