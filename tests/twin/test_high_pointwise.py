"""Compare element-wise high-level functions with their formulas in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from .high_level import CPP, HEADER, TOLERANCE, Operand, assert_misplaced, assert_timed, kernel, misplaced

pytestmark = pytest.mark.slow

COUNT, ROOM = 100, 112
GELU = 2 * math.sqrt(2 / math.pi)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return x * sigmoid(GELU * (x + 0.044715 * x**3))


def quadratic_gelu(x):
    bent = -0.1444 * (np.minimum(np.abs(x / math.sqrt(2)), 1.769) - 1.769) ** 2 + 0.5
    return x * (np.where(x < 0, -1, 1) * bent + 0.5)


def digamma(x):
    """Return the limit of ln(n) - sum of 1 / (x + k), with the first term of its error."""
    terms = 200000
    steps = np.arange(terms)
    return np.array([math.log(value + terms - 0.5) - np.sum(1 / (value + steps)) for value in x])


def each(function):
    return np.vectorize(function, otypes=[np.float64])


WIDE, POSITIVE, UNIT, ABOVE = (-6.0, 6.0), (0.05, 9.0), (-0.98, 0.98), (1.01, 9.0)
FLOATS = ("half", "float")
# name: call, formula of x and y, range of x, dtypes
CASES = {
    "Acos": ("Acos(d, x, tmp, n)", np.arccos, UNIT, FLOATS),
    "Acosh": ("Acosh(d, x, tmp, n)", np.arccosh, ABOVE, FLOATS),
    "Asin": ("Asin(d, x, n)", np.arcsin, UNIT, FLOATS),
    "Asinh": ("Asinh(d, x, tmp, n)", np.arcsinh, WIDE, FLOATS),
    "Atan": ("Atan(d, x, n)", np.arctan, WIDE, FLOATS),
    "Atanh": ("Atanh(d, x, tmp, n)", np.arctanh, UNIT, FLOATS),
    "Axpy": ("Axpy<T, T>(d, x, T(2.0f), tmp, n)", lambda x: 2 * x + 77, WIDE, FLOATS),
    "Ceil": ("Ceil(d, x, tmp, n)", np.ceil, WIDE, FLOATS),
    "ClampMax": ("ClampMax(d, x, tmp, T(1.5f), n)", lambda x: np.minimum(x, 1.5), WIDE, FLOATS),
    "ClampMin": ("ClampMin(d, x, T(1.5f), n)", lambda x: np.maximum(x, 1.5), WIDE, FLOATS),
    "Cos": ("Cos(d, x, tmp, n)", np.cos, WIDE, FLOATS),
    "Cosh": ("Cosh(d, x, n)", np.cosh, WIDE, FLOATS),
    "Digamma": ("Digamma(d, x, tmp, n)", digamma, POSITIVE, FLOATS),
    "Erf": ("Erf(d, x, tmp, n)", each(math.erf), WIDE, FLOATS),
    "Erfc": ("Erfc(d, x, n)", each(math.erfc), (-3.0, 3.0), FLOATS),
    "Exp": ("Exp<T, 10, false>(d, x, tmp, n)", np.exp, WIDE, FLOATS),
    "Floor": ("Floor(d, x, n)", np.floor, WIDE, FLOATS),
    "Fmod": ("Fmod(d, x, y, tmp, n)", lambda x, y: x - np.trunc(x / y) * y, WIDE, FLOATS),
    "Frac": ("Frac(d, x, tmp, n)", lambda x: x - np.trunc(x), WIDE, FLOATS),
    "Lgamma": ("Lgamma(d, x, tmp, n)", each(math.lgamma), POSITIVE, FLOATS),
    "Log": ("Log(d, x, n)", np.log, POSITIVE, FLOATS),
    "Log10": ("Log10(d, x, n)", np.log10, POSITIVE, FLOATS),
    "Log2": ("Log2(d, x, tmp, n)", np.log2, POSITIVE, FLOATS),
    "Power": ("Power(d, x, y, tmp, n)", lambda x, y: x**y, POSITIVE, FLOATS),
    "Round": ("Round(d, x, tmp, n)", lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5), WIDE, FLOATS),
    "Sign": ("Sign(d, x, tmp, n)", np.sign, WIDE, FLOATS),
    "Sin": ("Sin(d, x, n)", np.sin, WIDE, FLOATS),
    "Sinh": ("Sinh(d, x, tmp, n)", np.sinh, WIDE, FLOATS),
    "Tan": ("Tan(d, x, tmp, n)", np.tan, (-1.4, 1.4), FLOATS),
    "Tanh": ("Tanh(d, x, tmp, n)", np.tanh, WIDE, FLOATS),
    "Trunc": ("Trunc(d, x, tmp, n)", np.trunc, WIDE, FLOATS),
    "Xor": ("Xor(d, x, y, tmp, n)", lambda x, y: x ^ y, (-999, 999), ("int16_t", "uint16_t")),
    "FasterGelu": ("FasterGelu(d, x, tmp, n)", lambda x: x * sigmoid(1.702 * x), WIDE, FLOATS),
    "FasterGeluV2": ("FasterGeluV2(d, x, n)", quadratic_gelu, WIDE, FLOATS),
    "GeGLU": ("GeGLU(d, x, y, tmp, n)", lambda x, y: x * gelu(y), WIDE, FLOATS),
    "Gelu": ("Gelu(d, x, tmp, n)", gelu, WIDE, FLOATS),
    "ReGlu": ("ReGlu(d, x, y, tmp, n)", lambda x, y: x * np.maximum(y, 0), WIDE, (*FLOATS, "bfloat16_t")),
    "Sigmoid": ("Sigmoid(d, x, tmp, n)", sigmoid, WIDE, FLOATS),
    "Silu": ("Silu(d, x, n)", lambda x: x * sigmoid(x), WIDE, FLOATS),
    "SwiGLU": ("SwiGLU(d, x, y, 1.5f, tmp, n)", lambda x, y: x * y * sigmoid(1.5 * y), WIDE, FLOATS),
    "Swish": ("Swish(d, x, n, T(1.5f))", lambda x: x * sigmoid(1.5 * x), WIDE, FLOATS),
}
OTHER_FORMS = {
    "power_scalar": ("Power(d, x, T(2.0f), tmp, n)", lambda x: x**2, POSITIVE, (*FLOATS, "int32_t")),
    "scalar_power": ("Power(d, T(2.0f), x, n)", lambda x: 2.0**x, POSITIVE, FLOATS),
    "as_argument": ("Apply<T, Sigmoid<T, false>>(d, x, n)", sigmoid, WIDE, FLOATS),
}
MISUSES = {
    "small_tmp": ("Sin(d, x, tmp[3840], n)", "tmp_buffer"),
    "no_room": ("Sin(d, x, n)", "no_scratch"),
    "shared_tmp": ("Tanh(d, x, x.template ReinterpretCast<uint8_t>(), n)", "overlap"),
    "in_place": ("Sin(x, x, tmp, n)", "overlap"),
    "beyond": ("Silu(d, x, n + 4096)", "ub_out_of_range"),
    "misaligned": ("Silu(d, x[1], n - 1)", "ub_misaligned"),
}
APPLY = """
template <typename T, void (*function)(const LocalTensor<T>&, const LocalTensor<T>&, const uint32_t)>
__aicore__ inline void Apply(const LocalTensor<T>& d, const LocalTensor<T>& x, uint32_t n) { function(d, x, n); }
"""


def text(symbol, call, dtype, used=65536):
    operands = [Operand(name, dtype, ROOM) for name in ("d", "x", "y")]
    return kernel(
        symbol, operands, f"using T [[maybe_unused]] = {dtype}; const uint32_t n = {COUNT}; {call};", used=used
    )


def rows():
    return [(n, c, d) for n, c in (CASES | OTHER_FORMS).items() for d in c[3]]


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    clean = [text(f"{name}_{dtype}", case[0], dtype) for name, case, dtype in rows()]
    clean += [text(f"{n}_misplaced", misplaced(c[0]), c[3][0]) for n, c in (CASES | OTHER_FORMS).items()]
    planted = [text(n, c, "float", used=196608 - 256 if n == "no_room" else 65536) for n, (c, _) in MISUSES.items()]
    return compile_kernels(HEADER + APPLY + "".join(clean + planted))


def arrays(dtype, span, rng):
    x = rng.uniform(*span, ROOM).astype(CPP[dtype])
    y = rng.uniform(0.5, 3.0, ROOM).astype(CPP[dtype])
    return np.full(ROOM, 77, CPP[dtype]), x, y


@pytest.mark.parametrize(("name", "case", "dtype"), [pytest.param(*r, id=f"{r[0]}-{r[2]}") for r in rows()])
def test_formula(kernels, name, case, dtype):
    d, x, y = arrays(dtype, case[2], np.random.default_rng(7))
    assert_timed(kernels, f"{name}_{dtype}", case[0], {"d": d, "x": x, "y": y}, COUNT)
    wide = np.int64 if dtype.endswith("16_t") and dtype != "bfloat16_t" else np.float64
    formula = case[1]
    arity = getattr(getattr(formula, "__code__", None), "co_argcount", 1)
    expected = formula(*(x.astype(wide), y.astype(wide))[:arity])
    near = TOLERANCE.get(dtype, 0)
    np.testing.assert_allclose(d[:COUNT].astype(wide), expected[:COUNT].astype(CPP[dtype]).astype(wide), near, near)
    assert (d[COUNT:] == 77).all()


@pytest.mark.parametrize("name", CASES | OTHER_FORMS)
def test_misplaced_operand(kernels, name, record_planted):
    call, _, span, dtypes = (CASES | OTHER_FORMS)[name]
    report = kernels.launch(f"{name}_misplaced", *arrays(dtypes[0], span, np.random.default_rng(7)))
    record_planted(f"high-level function: {name}", assert_misplaced(report, call))


@pytest.mark.parametrize("name", MISUSES)
def test_misuse(kernels, name, record_planted):
    report = kernels.launch(name, *arrays("float", (-1.0, 1.0), np.random.default_rng(7)))
    assert [finding["kind"] for finding in report["findings"]] == [MISUSES[name][1]]
    record_planted(f"high-level function: {name}", report["findings"][0])
