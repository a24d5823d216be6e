"""Test formulas: their LaTeX text, and rejected formulas."""

import pytest

from opforge.codegen.expr.formula import FormulaError, Names, latex_lines

NAMES = Names(outputs={"y", "grad_w"}, others={"x", "scale", "pad", "T"})


@pytest.mark.parametrize(
    ("formula", "latex"),
    [
        ("y[i] = x[i]", "y[i] = x[i]"),
        ("y = -x + 2 * pad", r"y = -x + 2 \cdot \mathrm{pad}"),
        ("y[i, :] = x[..., i]", r"y[i,\, :] = x[\ldots,\, i]"),
        ("y = (x + 1) * (x - (1 - x))", r"y = \left(x + 1\right) \cdot \left(x - \left(1 - x\right)\right)"),
        ("y = x * 2 + x % 3", r"y = x \cdot 2 + x \bmod 3"),
        ("y = (x + 1) / T ** 2", r"y = \frac{x + 1}{{T}^{2}}"),
        ("y = x * 2 / T", r"y = \frac{x \cdot 2}{T}"),
        ("y = x * (2 / T)", r"y = x \cdot \left(\frac{2}{T}\right)"),
        ("y = x / 2 * T - x / T", r"y = \frac{x}{2} \cdot T - \frac{x}{T}"),
        ("y = (x / T) ** 2", r"y = {\left(\frac{x}{T}\right)}^{2}"),
        ("y = (x * 2) ** 0.5", r"y = {\left(x \cdot 2\right)}^{0.5}"),
        ("y = x // 2", r"y = \left\lfloor \frac{x}{2} \right\rfloor"),
        ("y = floor(x) + ceil(x)", r"y = \lfloor x \rfloor + \lceil x \rceil"),
        ("y = sum(x[i], end(g) <= i < T, i != 1)", r"y = \sum_{\mathrm{end}(g) \le i < T,\ i \ne 1} x[i]"),
        ("y = sum(x[i] + 1, i) * 2", r"y = \left(\sum_{i} \left(x[i] + 1\right)\right) \cdot 2"),
        ("y = 1 if T > 0 else exp(x)", r"y = \begin{cases} 1 & \text{if } T > 0 \\ \exp(x) & \text{else} \end{cases}"),
        ("y = max(x, 0 if T or not x == 1 else 1)",
         r"y = \max(x,\, \begin{cases} 0 & \text{if } T \lor \lnot \left(x = 1\right) \\ 1 & \text{else} \end{cases})"),
        ("grad_w[a] = sqrt(abs(x))", r"\mathrm{grad\_w}[a] = \sqrt{\lvert x \rvert}"),
    ],
)  # fmt: skip
def test_equation_is_printed_in_mathematical_notation(formula, latex):
    assert latex_lines(formula, NAMES) == (latex,)


def test_every_equation_has_a_line():
    assert latex_lines("y = x; grad_w = 2 * x", NAMES) == ("y = x", r"\mathrm{grad\_w} = 2 \cdot x")


def test_a_long_equation_is_broken_at_its_outer_sums_and_products():
    first, second = "x[long_a, long_b, long_c]", "x[long_d, long_e, long_f]"
    names = Names(outputs={"y"}, others={f"long_{letter}" for letter in "abcdef"})
    (latex,) = latex_lines(f"y = ({first} - {second} * {first}) * {second}", names)
    one, two = (latex_lines(f"y = {text}", names)[0].removeprefix("y = ") for text in (first, second))
    lines = (
        rf"\begin{{split}} y = {{}} & \Bigl({one}",
        rf"\quad {{}} - {two} \cdot {one}\Bigr)",
        rf"{{}} \cdot {two} \end{{split}}",
    )
    assert latex == r" \\ & ".join(lines)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y = (x", "not a formula"),
        ("y x", "not a formula"),
        ("y + x", "expected an equation"),
        ("x[i] = y[i]", "'x' on the left side, which is not an output"),
        ("a = b = x", "expected an equation"),
        ("y = scael * x", "unknown name 'scael'; did you mean 'scale'?"),
        ("y = sum(x[i])", "a sum over nothing"),
        ("y = x.shape", "not part of the formula language"),
        ("y = x & 1", "not part of the formula language"),
        ("y = 'text'", "not part of the formula language"),
        ("y = max()", "not part of the formula language"),
        ("y = f(a=x)", "not part of the formula language"),
        ("y = x[0](1)", "not part of the formula language"),
        ("y = \u03b1", "in ASCII"),
        ("y = " + "(" * 300 + "x" + ")" * 300, "not a formula"),
        ("y = " + "-" * 5000 + "x", "not a formula|nested too deeply"),
        ("import os", "expected an equation"),
    ],
)
def test_invalid_formula_is_rejected(formula, message):
    with pytest.raises(FormulaError, match=message):
        latex_lines(formula, NAMES)


def test_nothing_of_a_formula_is_latex_source():
    """Check that only numbers and words of letters, digits and escaped underscores reach LaTeX."""
    for hostile in (r"y = x\input", "y = x$", "y = x}", "y = x # comment {", "y = {x}", "y = x; \\write18{id} = 1"):
        try:
            (line,) = latex_lines(hostile, NAMES)
        except FormulaError:
            continue
        assert line == "y = x"
