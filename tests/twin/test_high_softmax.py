"""Compare the softmax family with its formulas in float64."""

from __future__ import annotations

import numpy as np
import pytest

from .high_level import CPP, HEADER, TOLERANCE, Operand, assert_misplaced, assert_timed, cycles_of, kernel, misplaced

pytestmark = pytest.mark.slow

M, K, VALID = 5, 64, 56
FLASH = "d, s, m, x, e, s0, m0, tmp, tiling"


def softmax(x):
    m = x.max(-1, keepdims=True)
    e = np.exp(x - m)
    return m, e, e.sum(-1, keepdims=True)


def plain(x, **_):
    m, e, s = softmax(x)
    return {"d": e / s, "s": s, "m": m}


def log(x, **_):
    m, e, s = softmax(x)
    return {"d": np.log10(e / s), "s": s, "m": m}


def simple(x, s0, m0, **_):
    return {"d": np.exp(x - m0) / s0}


def flash(x, **_):
    m, e, s = softmax(x)
    return {"d": e, "s": s, "m": m}


def flash_update(x, s0, m0, **_):
    m = np.maximum(m0, x.max(-1, keepdims=True))
    e, scale = np.exp(x - m), np.exp(m0 - m)
    return {"d": e, "s": scale * s0 + e.sum(-1, keepdims=True), "m": m, "e": scale}


def first_flash_update(x, s0, m0, **_):
    parts = flash_update(x, s0, m0)
    return parts | {"d": parts["d"] / parts["s"], "e": parts["e"] * s0 / parts["s"]}


def flash_with_max(x, s0, m0, **_):
    return flash_update(x, s0, m0) | {"r": x.max(-1, keepdims=True)}


def shifted(x):
    """Subtract the mean shifts of 8 parts, with the sums of BlockReduceSum of the document's pseudocode."""
    sums = x[:, :512].reshape(len(x), 64, 8).sum(-1) + x[:, 512:].reshape(len(x), -1, 64).sum(1)
    parts = sums.reshape(len(x), 8, 8).sum(-1) / (x.shape[1] // 8)
    mean = x.mean(-1, keepdims=True)
    factor = 0.9375 / (1 - 0.9375)
    return mean, x - np.repeat((mean - parts) * factor, x.shape[1] // 8, 1), factor


def flash_v3(x, s0, m0, a0):
    mean, x, factor = shifted(x)
    loops = 3
    total = (mean + a0 * (loops - 1)) / loops
    now, before = (mean - total) * factor, (a0 - total) * factor
    m = np.maximum(x.max(-1, keepdims=True) + now, m0 + before)
    e, scale = np.exp(x - (m - now)), np.exp(m0 - m + before)
    return {"d": e, "s": scale * s0 + e.sum(-1, keepdims=True), "m": m, "e": scale, "r": total}


def gradient(x, y, **_):
    return {"d": (x - (x * y).sum(-1, keepdims=True)) * y}


def gradient_front(x, y, **_):
    return {"s": (x * y).sum(-1, keepdims=True)}


SHAPE = f"{{{M}, {K}, {M}, {VALID}}}"
ALIGNED = f"{{{M}, {K}, {M}, {K}}}"
PARAMS = f"SoftMaxParams{{{M}, {K}, {M}, {K}, 3, 8, 0.9375f}}"
BOTH = (("half", "half"), ("float", "float"))
MIXED = (*BOTH, ("half", "float"))
# name: call, formula, valid columns, types of the data and of the row results
CASES = {
    "softmax": (f"SoftMax<T>(d, s, m, x, tmp, tiling, {SHAPE})", plain, VALID, MIXED),
    "softmax_free": (f"SoftMax<T>(d, s, m, x, tiling, {ALIGNED})", plain, K, MIXED),
    "softmax_alone": ("SoftMax<T>(d, x, tmp, tiling)", lambda x, **_: {"d": plain(x)["d"]}, K, BOTH),
    "simple": (f"SimpleSoftMax<T>(d, s0, m0, x, tmp, tiling, {SHAPE})", simple, VALID, MIXED),
    "log": (f"LogSoftMax<T>(d, s, m, x, tmp, logTiling, {SHAPE})", log, VALID, BOTH),
    "flash": (f"SoftmaxFlash<T>({FLASH}, false, {SHAPE})", plain, VALID, MIXED),
    "flash_update": (f"SoftmaxFlash<T>({FLASH}, true, {SHAPE})", first_flash_update, VALID, MIXED),
    "flash2": (f"SoftmaxFlashV2<T>({FLASH}, {SHAPE})", flash, VALID, MIXED),
    "flash2_constant": (
        (
            f"constexpr SoftMaxTiling known = SoftMaxFlashV2TilingFunc(SoftMaxShapeInfo{ALIGNED}, 4, 4, 4096); "
            "SoftmaxFlashV2<T>(d, s, m, x, e, s0, m0, tmp, known)"
        ),
        flash,
        K,
        BOTH,
    ),
    "flash2_update": (f"SoftmaxFlashV2<T, true>({FLASH}, {SHAPE})", flash_update, VALID, MIXED),
    "flash2_max": (
        f"SoftmaxFlashV2<T, true>(d, r, s, m, x, e, s0, m0, tmp, tiling, {SHAPE})",
        flash_with_max,
        VALID,
        BOTH,
    ),
    "grad": (f"SoftmaxGrad<T>(d, x, y, tmp, tiling, false, {SHAPE})", gradient, VALID, BOTH),
    "front": (f"SoftmaxGradFront<T>(s, x, y, tmp, tiling, {SHAPE})", gradient_front, VALID, BOTH),
}
MISUSES = {
    "few_bytes": (f"SoftMax<T>(d, s, m, x, tmp[3968], tiling, {SHAPE})", "tmp_buffer"),
    "odd_row": ("SoftMax<T>(d, s, m, x, tmp, tiling, {2, 63, 2, 63})", "api_contract"),
    "no_shape": (f"SoftMax<T>(d, s, m, x, tmp, tiling, {{{M}, {K}, 0, 0}})", "api_contract"),
}
NZ = """SoftMax<T, false, false, true>(d, s, m, x, tmp, tiling, {16, 64, 16, 64})"""


def operands(data, row, rows=M):
    block = 32 // np.dtype(CPP[row]).itemsize
    wide = 32 // np.dtype(CPP[data]).itemsize
    sizes = dict.fromkeys(("s", "m", "r", "s0", "m0", "a0"), (row, rows * block)) | {"e": (data, rows * wide)}
    return [Operand(n, data, rows * K) for n in ("d", "x", "y")] + [Operand(n, *s) for n, s in sizes.items()]


def text(symbol, call, data, row, rows=M):
    code = (
        f"using T [[maybe_unused]] = {data}; using U [[maybe_unused]] = {row};\n"
        "    SoftMaxTiling tiling; LogSoftMaxTiling logTiling; (void)logTiling;\n"
        f"    tiling.srcM = {M}; tiling.srcK = {K};\n    {call};"
    )
    return kernel(symbol, operands(data, row, rows), code)


def flash_v3_text(symbol, columns, rows):
    halves, each = rows * columns, rows * 8
    tensors = [
        Operand(n, "half", halves) if n in "dx" else Operand(n, "float", each) for n in ("d", "r", "s", "m", "x")
    ]
    tensors += [Operand("e", "half", 2 * each), *(Operand(n, "float", each) for n in ("a0", "s0", "m0"))]
    params = f"{{{rows}, {columns}, {rows}, {columns}, 3, 8, 0.9375f}}"
    call = f"SoftmaxFlashV3<half, float, true>(d, r, s, m, x, e, a0, s0, m0, tmp, tiling, {params})"
    code = f"SoftMaxTiling tiling; tiling.srcM = {rows}; tiling.srcK = {columns};\n    {call};"
    return kernel(symbol, tensors, code, tmp_bytes=8192, used=131072)


def rows_of_table():
    return [(name, case, *types) for name, case in CASES.items() for types in case[3]]


ADJUST = """
    SoftMaxShapeInfo shape{5, 64, 5, 64};
    const bool changed = AdjustSoftMaxRes<float, float>(d, m0, 0xFF7FFFFF, 0.5f, shape);
    if (changed) { Duplicate(s, 1.0f, 8); }
"""


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    clean = [text(f"{name}_{data}_{row}", case[0], data, row) for name, case, data, row in rows_of_table()]
    clean += [text(f"{n}_misplaced", misplaced(c[0]), *c[3][0]) for n, c in CASES.items()]
    planted = [text(name, call, "float", "float") for name, (call, _) in MISUSES.items()]
    planted += [flash_v3_text("few_columns", 64, 8), flash_v3_text("odd_rows", 512, 4)]
    clean += [flash_v3_text(f"flash3_{columns}", columns, 8) for columns in (512, 1024, 2048)]
    others = [text("nz", NZ, "half", "half", 16), text("adjust", ADJUST, "float", "float")]
    others += [text("adjust_misplaced", ADJUST.replace("(d, m0,", "(d[1], m0,"), "float", "float")]
    return compile_kernels(HEADER + "".join(clean + planted + others))


def arrays(data, row, rows=M, seed=3):
    rng = np.random.default_rng(seed)
    tensors = {o.name: rng.uniform(-2, 2, o.count).astype(CPP[o.dtype]) for o in operands(data, row, rows)}
    for name in ("s0", "m0", "a0"):
        each = rng.uniform(0.5, 3, (rows, 1)).astype(CPP[row])
        tensors[name] = np.repeat(each, len(tensors[name]) // rows, 1).ravel()
    return tensors


@pytest.mark.parametrize(
    ("name", "case", "data", "row"), [pytest.param(*r, id="-".join((r[0], *r[2:]))) for r in rows_of_table()]
)
def test_formula(kernels, name, case, data, row):
    tensors = arrays(data, row)
    wide = {n: t.reshape(M, -1)[:, : case[2] if n in "dxy" else 1].astype(np.float64) for n, t in tensors.items()}
    assert_timed(kernels, f"{name}_{data}_{row}", case[0], tensors, M * K)
    formula = case[1]
    names = ("x", "y") if "grad" in name or name == "front" else ("x", "s0", "m0", "a0")
    for output, expected in formula(**{n: wide[n] for n in names}).items():
        got = tensors[output].reshape(M, -1).astype(np.float64)
        got = got[:, : case[2]] if output == "d" else got
        near = TOLERANCE["half" if "half" in (data, row) else "float"]
        np.testing.assert_allclose(got, np.broadcast_to(expected, got.shape), near, near)


@pytest.mark.parametrize("columns", [512, 1024, 2048])
def test_flash_v3(kernels, columns):
    rng = np.random.default_rng(columns)
    x = rng.uniform(-2, 2, (8, columns)).astype(np.float16)
    s0, m0, a0 = (np.repeat(rng.uniform(0.5, 3, (8, 1)).astype(np.float32), 8, 1) for _ in range(3))
    d, e = np.zeros_like(x), np.zeros((8, 16), np.float16)
    s, m, r = (np.zeros((8, 8), np.float32) for _ in range(3))
    cycles = kernels.cycles(f"flash3_{columns}", d, r, s, m, x, e, a0, s0, m0)
    assert cycles["SoftmaxFlashV3"] == pytest.approx(cycles_of("SoftmaxFlashV3", d, 8 * columns))
    given = {"x": x, "s0": s0[:, :1], "m0": m0[:, :1], "a0": a0[:, :1]}
    expected = flash_v3(**{name: array.astype(np.float64) for name, array in given.items()})
    for name, got in (("d", d), ("s", s), ("m", m), ("e", e), ("r", r)):
        near = 2e-3 if got.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(got, np.broadcast_to(expected[name], got.shape), near, near)


def test_fractals(kernels):
    tensors = arrays("half", "half", 16)
    x = tensors["x"].reshape(4, 16, 16).transpose(1, 0, 2).reshape(16, 64).astype(np.float64)
    kernels.run("nz", *tensors.values())
    expected = plain(x)
    got = tensors["d"].reshape(4, 16, 16).transpose(1, 0, 2).reshape(16, 64)
    np.testing.assert_allclose(got, expected["d"], 2e-3, 2e-3)
    np.testing.assert_allclose(tensors["s"].reshape(16, 16), np.repeat(expected["s"], 16, 1), 2e-3)


def test_adjusted_rows(kernels):
    tensors = arrays("float", "float")
    tensors["m0"].reshape(M, 8)[2] = np.finfo(np.float32).min
    expected = tensors["d"].reshape(M, K).copy()
    expected[2] = 0.5
    cycles = kernels.cycles("adjust", *tensors.values())
    assert cycles["AdjustSoftMaxRes"] == pytest.approx(cycles_of("AdjustSoftMaxRes", tensors["d"], M * K))
    np.testing.assert_array_equal(tensors["d"].reshape(M, K), expected)
    assert (tensors["s"][:8] == 1).all()


def test_adjusted_rows_are_aligned(kernels, record_planted):
    report = kernels.launch("adjust_misplaced", *arrays("float", "float").values())
    record_planted("softmax: adjust", assert_misplaced(report, ADJUST))


@pytest.mark.parametrize(("name", "columns", "rows"), [("few_columns", 64, 8), ("odd_rows", 512, 4)])
def test_shapes_of_flash_v3(kernels, name, columns, rows, record_planted):
    halves = [np.zeros(rows * columns, np.float16) for _ in range(2)]
    d, x = halves
    r, s, m, a0, s0, m0 = (np.zeros(rows * 8, np.float32) for _ in range(6))
    report = kernels.launch(name, d, r, s, m, x, np.zeros(rows * 16, np.float16), a0, s0, m0)
    assert [finding["kind"] for finding in report["findings"]] == ["api_contract"]
    record_planted(f"softmax: {name}", report["findings"][0])


@pytest.mark.parametrize("name", CASES)
def test_misplaced_operand(kernels, name, record_planted):
    report = kernels.launch(f"{name}_misplaced", *arrays(*CASES[name][3][0]).values())
    record_planted(f"softmax: {name}", assert_misplaced(report, CASES[name][0]))


@pytest.mark.parametrize("name", MISUSES)
def test_misuse(kernels, name, record_planted):
    report = kernels.launch(name, *arrays("float", "float").values())
    assert [finding["kind"] for finding in report["findings"]] == [MISUSES[name][1]]
    record_planted(f"softmax: {name}", report["findings"][0])
