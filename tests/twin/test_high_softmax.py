"""Compare the softmax family with its formulas in float64."""

from __future__ import annotations

import numpy as np
import pytest

from .high_level import CPP, HEADER, TOLERANCE, Operand, kernel

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
    parts = x.reshape(M, 8, -1)
    mean = x.mean(-1, keepdims=True)
    factor = 0.9375 / (1 - 0.9375)
    return mean, (parts - (mean[:, :, None] - parts.mean(-1, keepdims=True)) * factor).reshape(x.shape), factor


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
    "flash3": (
        f"SoftmaxFlashV3<T, U, true>(d, r, s, m, x, e, a0, s0, m0, tmp, tiling, {PARAMS})",
        flash_v3,
        K,
        (("half", "float"),),
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
    planted = [text(name, call, "float", "float") for name, (call, _) in MISUSES.items()]
    others = [text("nz", NZ, "half", "half", 16), text("adjust", ADJUST, "float", "float")]
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
    kernels.run(f"{name}_{data}_{row}", *tensors.values())
    formula = case[1]
    names = ("x", "y") if "grad" in name or name == "front" else ("x", "s0", "m0", "a0")
    for output, expected in formula(**{n: wide[n] for n in names}).items():
        got = tensors[output].reshape(M, -1).astype(np.float64)
        got = got[:, : case[2]] if output == "d" else got
        near = TOLERANCE["half" if "half" in (data, row) else "float"]
        np.testing.assert_allclose(got, np.broadcast_to(expected, got.shape), near, near)


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
    kernels.run("adjust", *tensors.values())
    np.testing.assert_array_equal(tensors["d"].reshape(M, K), expected)
    assert (tensors["s"][:8] == 1).all()


@pytest.mark.parametrize("name", MISUSES)
def test_misuse(kernels, name, record_planted):
    report = kernels.launch(name, *arrays("float", "float").values())
    assert [finding["kind"] for finding in report["findings"]] == [MISUSES[name][1]]
    record_planted(f"softmax: {name}", report["findings"][0])
