"""Compare the seven types of Transpose with NumPy, and test planted mistakes."""

from __future__ import annotations

import numpy as np
import pytest

from .high_level import CPP, HEADER, Operand, kernel

pytestmark = pytest.mark.slow

# type -> shapes [B, N, S, H / N], or [H, W] for the last one
SHAPES = {
    "NZ2ND_0213": [(1, 2, 64, 32), (2, 3, 16, 16)],
    "NZ2NZ_0213": [(1, 16, 16, 32), (1, 16, 32, 16)],
    "NZ2NZ_012_WITH_N": [(2, 3, 32, 16), (1, 2, 16, 48)],
    "NZ2ND_012_WITH_N": [(2, 3, 32, 16), (1, 2, 16, 48)],
    "NZ2ND_012_WITHOUT_N": [(2, 3, 32, 16), (1, 2, 16, 48)],
    "NZ2NZ_012_WITHOUT_N": [(2, 3, 32, 16), (1, 2, 16, 48)],
    "ND2ND_ONLY": [(32, 80), (16, 16)],
}
DTYPES = ["half", "float", "int16_t", "uint16_t", "int32_t", "uint32_t"]
CASES = [(name, shape, DTYPES[index % 6]) for name in SHAPES for index, shape in enumerate(SHAPES[name] * 3)]
PLANTED = {
    "odd_rows": ("NZ2ND_0213", (1, 2, 24, 16), "d, w", "multiples of 16 for the last two"),
    "odd_width": ("NZ2ND_012_WITH_N", (1, 2, 16, 8), "d, w", "multiples of 16 for the last two"),
    "few_heads": ("NZ2NZ_0213", (1, 2, 16, 16), "d, w", "N is 2, expected a multiple of 16"),
    "odd_matrix": ("ND2ND_ONLY", (16, 24), "d, w", "the shape is [16, 24]"),
    "other_type": ("GRAD_ND_UB_GM", (16, 16), "d, w", "transposeType is 9, expected 1 to 7"),
    "in_place": ("NZ2ND_0213", (1, 2, 16, 16), "d, d", "overlap"),
}


def _text(symbol, name, shape, dtype, operands="d, w"):
    fields = "".join(f" tiling.param{index} = {size};" for index, size in enumerate(shape))
    code = (
        f"ConfusionTransposeTiling tiling;{fields} Transpose({operands}, tmp, TransposeType::TRANSPOSE_{name}, tiling);"
    )
    count = int(np.prod(shape))
    return kernel(symbol, [Operand("d", dtype, count), Operand("w", dtype, count)], code, used=131072)


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    clean = [_text(f"case{number}", *case) for number, case in enumerate(CASES)]
    planted = [_text(symbol, name, shape, "half", used) for symbol, (name, shape, used, _) in PLANTED.items()]
    return compile_kernels(HEADER + "".join(clean + planted))


def in_fractals(matrices):
    """[.., rows, columns] as [.., columns / 16, rows, 16]: fractals of 16 x 16, one below the other."""
    *outer, rows, columns = matrices.shape
    return matrices.reshape(*outer, rows, columns // 16, 16).swapaxes(-3, -2)


def moved(name, heads):
    """Return the source and the result for values [B, N, S, H / N]."""
    b, n, s, d = heads.shape
    merged = heads.swapaxes(1, 2).reshape(b, s, n * d)
    source = in_fractals(merged) if name.endswith("WITH_N") else in_fractals(heads)
    results = {"0213": heads.swapaxes(1, 2), "012_WITH_N": heads, "012_WITHOUT_N": merged}
    result = results[name.partition("_")[2]]
    return source, in_fractals(result) if name.startswith("NZ2NZ") else result


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{n}-{s}-{d}" for n, s, d in CASES])
def test_a_type_moves_the_elements(kernels, number):
    name, shape, dtype = CASES[number]
    values = np.arange(np.prod(shape)).astype(CPP[dtype]).reshape(shape)
    source, expected = (values, values.T) if name == "ND2ND_ONLY" else moved(name, values)
    d, w = np.zeros(values.size, CPP[dtype]), np.ascontiguousarray(source).ravel()
    report = kernels.run(f"case{number}", d, w)
    np.testing.assert_array_equal(d, np.ascontiguousarray(expected).ravel())
    assert report["pipes"]["V"]["critical_us"] > 0


@pytest.mark.parametrize("symbol", PLANTED)
def test_a_planted_mistake_is_found(kernels, symbol, record_planted):
    _, shape, _, message = PLANTED[symbol]
    d, w = np.zeros(np.prod(shape), np.float16), np.zeros(np.prod(shape), np.float16)
    (finding,) = kernels.launch(symbol, d, w)["findings"]
    assert finding["kind"] == ("overlap" if symbol == "in_place" else "api_contract")
    assert message in finding["message"]
    record_planted(symbol, finding)
