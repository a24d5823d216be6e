"""Compare BatchNormElemtBackward on the twin with the formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from golden import DTYPES, ROOT, assert_within, load_reference, rounded, values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opforge.codegen.spec.loader import load_specs
from opforge.twin import run

SPEC = load_specs([ROOT / "op_proto" / "batch_norm_elemt_backward.yaml"])[0]
PER_CHANNEL = ("mean", "invstd", "weight", "sum_dy", "sum_dy_xmu")
COUNTER_DTYPES = [np.int32, np.float32, np.float16]
# Roundings of an element: 2 of the quotients of the count, 3 of the slope, 2 of the scale, 4 of the formula; each is at
# most 2^-24 of the sum of absolute terms. The rest is for products of these errors.
ROUNDINGS = 12 * 2.0**-24

reference = load_reference(SPEC.name)


def problem(shape, dtype=np.float32, channel_dtype=np.float32, counts=(10,), counter_dtype=np.int32, seed=0):
    """Return the inputs of a call; `counts` is counter."""
    inputs = {name: values(shape, dtype, seed + 7 * index) for index, name in enumerate(("grad_out", "input"))}
    for index, name in enumerate(PER_CHANNEL):
        inputs[name] = values(shape[1], channel_dtype, seed + index + 100)
    inputs["invstd"] = np.abs(inputs["invstd"]) + channel_dtype(0.125)
    return inputs | {"counter": np.asarray(counts, counter_dtype)}


def without_weight(inputs):
    return {name: value for name, value in inputs.items() if name != "weight"}


def error_bound(inputs, dtype):
    """Return the formula in float64, and the maximum error of float32 arithmetic and one rounding to the dtype."""
    wide = {name: value.astype(np.float64) for name, value in inputs.items()}
    exact = reference(wide, {})["grad_input"]
    # With absolute terms, and sums instead of differences, the formula adds the magnitudes of all terms.
    terms = {name: np.abs(value) for name, value in wide.items()}
    terms |= {"mean": -terms["mean"], "sum_dy": -terms["sum_dy"], "sum_dy_xmu": -terms["sum_dy_xmu"]}
    magnitude = reference(terms, {})["grad_input"]
    return exact, rounded(exact, ROUNDINGS * magnitude, dtype)


def agree(inputs, out_dtype=None, **options):
    """Run, compare every element with the formula, and return the result."""
    dtype = out_dtype or inputs["grad_out"].dtype
    out_dtypes = None if out_dtype is None else {"grad_input": out_dtype}
    result = run("BatchNormElemtBackward", inputs, out_dtypes=out_dtypes, **options)
    assert result["grad_input"].dtype == dtype
    assert_within(result["grad_input"], *error_bound(inputs, dtype))
    return result


@pytest.mark.parametrize("counter_dtype", COUNTER_DTYPES)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("shape", SPEC.tests.shapes, ids=lambda shape: shape.note.replace(" ", "_"))
def test_shapes_of_the_spec(shape, dtype, counter_dtype):
    symbols = dict(shape.symbols)
    counts = np.arange(1, math.prod(symbols["R"]) + 1).reshape(symbols["R"])
    inputs = problem((symbols["N"], symbols["C"], *symbols["S"]), dtype, np.float32, counts, counter_dtype)
    agree(inputs if shape.case == "weighted" else without_weight(inputs))


@pytest.mark.parametrize("dtype", DTYPES)
def test_documented_tolerance_holds_without_cancellation(dtype):
    tolerance = SPEC.tests.tolerance[dtype]
    inputs = problem((6, 70, 5, 7), DTYPES[dtype])
    inputs["sum_dy"], inputs["sum_dy_xmu"] = -np.abs(inputs["sum_dy"]), -np.abs(inputs["sum_dy_xmu"])
    inputs["grad_out"], inputs["input"] = np.abs(inputs["grad_out"]), np.abs(inputs["input"])
    inputs["mean"] = -np.abs(inputs["mean"])
    got = run("BatchNormElemtBackward", inputs)["grad_input"]
    expected = reference(inputs, {})["grad_input"]
    np.testing.assert_allclose(
        got.astype(np.float64), expected.astype(np.float64), rtol=tolerance.rtol, atol=tolerance.atol
    )


INNER_SIZES = [1, 2, 3, 7, 8, 9, 16, 49, 255, 256, 510, 511, 512, 513, 8191, 8192, 8193, 20001]
CHANNELS = [1, 2, 7, 8, 24, 33]


# Every storage of factors: unchanged, copied for several batches, widened, without padding, row by row. Each inner size
# and each number of channels has both dtypes.
@pytest.mark.parametrize("inner", INNER_SIZES)
@pytest.mark.parametrize("channels", CHANNELS)
def test_every_inner_size(inner, channels):
    dtype = (np.float16, np.float32)[(INNER_SIZES.index(inner) + CHANNELS.index(channels)) % 2]
    batches = 3 if inner > 1000 else 5
    agree(problem((batches, channels, inner), dtype, seed=inner))


@pytest.mark.parametrize("shape", [(3, 10001), (2, 3000, 3), (9, 517, 49), (2, 130, 200), (1, 100000), (1, 1003, 49)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_more_channels_than_a_tile_holds(shape, dtype):
    report = agree(problem(shape, dtype)).report
    assert report.first_touch_bytes <= 1.03 * report.minimal_bytes


def test_more_rows_than_the_factors_of_one_load():
    agree(problem((1, 25000, 300), np.float16), threads=1, strict=False)


@pytest.mark.parametrize("data", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("channel", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("out", DTYPES.values(), ids=DTYPES)
def test_any_mix_of_float_types(data, channel, out):
    inputs = problem((4, 9, 11), data, channel)
    others = iter(2 * list(DTYPES.values()))
    agree(inputs, out)
    agree(
        {
            name: value if name in ("grad_out", "counter") else value.astype(next(others))
            for name, value in inputs.items()
        },
        out,
    )


@pytest.mark.parametrize("shape", [(), (1,), (8,), (3, 5), (2, 1, 3), (70, 90)])
def test_counter_of_any_shape_is_summed(shape):
    size = math.prod(shape)
    for dtype in COUNTER_DTYPES:
        inputs = problem((3, 6, 10), counts=(np.arange(size) % 5 + 1).reshape(shape), counter_dtype=dtype)
        agree(inputs)


def test_counts_below_2_to_the_24_are_exact():
    inputs = problem((1, 8, 3), counts=[2**23, 2**23 - 1])
    inputs |= {name: np.zeros_like(inputs[name]) for name in ("grad_out", "sum_dy_xmu")}
    inputs["weight"] = inputs["invstd"] = np.ones(8, np.float32)
    inputs["sum_dy"] = np.float32(2**24 - 1) * np.arange(8, dtype=np.float32)
    got = run("BatchNormElemtBackward", inputs)["grad_input"]
    np.testing.assert_array_equal(got, np.broadcast_to(-np.arange(8)[:, None], (1, 8, 3)))


@pytest.mark.parametrize("counts", [[0], [5, -5], np.zeros((0, 3))])
def test_a_count_of_zero_divides_by_zero(counts):
    inputs = problem((2, 3, 4), counts=counts)
    inputs["sum_dy"][:], inputs["sum_dy_xmu"][:] = [1, 0, -1], 0
    inputs["weight"][:] = 1
    got = run("BatchNormElemtBackward", inputs)["grad_input"]
    assert np.isnan(got).all()  # 0 / 0 is in every slope


SPECIAL = [np.inf, -np.inf, np.nan, 0.0, -0.0, 3.0e38, -3.0e38, 1e-40, 1.0, -2.5]


def in_steps(inputs):
    """Return the formula step by step in float32: IEEE 754 determines every rounding, inf, nan and sign of zero."""
    channels = (-1, *(1,) * (inputs["input"].ndim - 2))
    row = {name: inputs[name].reshape(channels) for name in PER_CHANNEL}
    total = inputs["counter"].astype(np.float32).sum()
    with np.errstate(all="ignore"):
        slope = row["invstd"] * row["invstd"] * (row["sum_dy_xmu"] / total)
        difference = (inputs["grad_out"] - row["sum_dy"] / total) - (inputs["input"] - row["mean"]) * slope
        return difference * (row["invstd"] * row["weight"])


@pytest.mark.parametrize("inner", [1, 7, 600])
@pytest.mark.parametrize("name", ["grad_out", "input", *PER_CHANNEL])
def test_special_values_propagate_bit_by_bit(name, inner):
    inputs = problem((3, 10, inner), counts=[4])
    flat = inputs[name].reshape(-1)
    flat[:: max(1, flat.size // 30)] = np.resize(SPECIAL, flat[:: max(1, flat.size // 30)].shape)
    got, expected = run("BatchNormElemtBackward", inputs)["grad_input"], in_steps(inputs)
    np.testing.assert_array_equal(got, expected)
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[is_number]), np.signbit(expected[is_number]))


@pytest.mark.parametrize("inner", [1, 5, 700])
def test_negative_zero_survives(inner):
    inputs = problem((2, 4, inner))
    inputs |= {name: np.zeros_like(inputs[name]) for name in ("input", "mean", "sum_dy", "sum_dy_xmu")}
    inputs["grad_out"][:] = -0.0
    inputs["weight"][:] = 1
    got = run("BatchNormElemtBackward", inputs)["grad_input"]
    np.testing.assert_array_equal(np.signbit(got), np.ones_like(got, bool))


@pytest.mark.parametrize("inner", [1, 25, 900])
def test_a_mean_far_above_the_deviation_does_not_cancel(inner):
    inputs = problem((16, 4, inner))
    inputs["mean"][:] = 4096
    inputs["input"] = (inputs["input"] * 2.0**-6 + 4096).astype(np.float32)
    inputs["invstd"][:] = 64
    got = run("BatchNormElemtBackward", inputs)["grad_input"]
    exact = reference({name: value.astype(np.float64) for name, value in inputs.items()}, {})["grad_input"]
    # input - mean is exact here; folded to a * dy + b * x + c, terms 2^12 times as large would cancel.
    scale = np.abs(inputs["grad_out"]) + 64 * 64 * np.abs(inputs["sum_dy_xmu"].reshape(1, 4, 1)) / 10 * 0.1 + 1
    assert np.all(np.abs(got - exact) <= 16 * 2.0**-24 * scale * 64 * np.abs(inputs["weight"].reshape(1, 4, 1)) + 1e-30)


def test_float16_is_rounded_once_to_even():
    inputs = problem((1, 1, 4), np.float16)
    inputs |= {name: np.zeros(1, np.float32) for name in ("mean", "sum_dy", "sum_dy_xmu")}
    inputs["invstd"], inputs["weight"] = np.ones(1, np.float32), np.array([1 + 2.0**-11], np.float32)
    inputs["grad_out"] = np.array([[[1, 3, 2, 5]]], np.float16)
    got = run("BatchNormElemtBackward", inputs)["grad_input"]
    exact = np.array([1, 3, 2, 5]) * (1 + 2.0**-11)  # 1 + 2^-11 is halfway between two halves
    np.testing.assert_array_equal(got[0, 0], exact.astype(np.float16))


@pytest.mark.parametrize("shape", [(0, 4), (3, 4, 0), (0, 1, 5), (2, 4, 3, 0, 2)])
def test_empty_data(shape):
    assert agree(problem(shape)).report.blocks == 0


def test_strided_inputs_and_output():
    inputs = problem((12, 10, 9))
    inputs["grad_out"] = values((24, 20, 30), np.float32, 1)[::2, 1::2, 3:30:3]
    inputs["input"] = values((9, 10, 12), np.float32, 2).transpose(2, 1, 0)
    inputs["mean"] = values(30, np.float32, 3)[::3]
    inputs["counter"] = np.arange(1, 13, dtype=np.int32)[::4]
    surroundings = np.full((25, 10, 20), 9.0, np.float32)
    output = surroundings[1::2, :, 1:19:2]
    agree(inputs, outputs={"grad_input": output})
    untouched = surroundings.copy()
    untouched[1::2, :, 1:19:2] = 9.0
    assert np.all(untouched == 9.0)


@pytest.mark.parametrize("shape", [(40, 700), (60, 90, 49), (8, 50, 600)])
def test_bits_do_not_depend_on_order_threads_or_cores(shape):
    inputs = problem(shape, np.float16)
    options = [{"seed": seed, "threads": threads} for seed, threads in [(1, 1), (2, 2), (3, 7)]]
    options += [{"soc": soc} for soc in ("Ascend910B4", "Ascend910_9391", "Ascend910_9372")]
    results = [agree(inputs)] + [run("BatchNormElemtBackward", inputs, **option) for option in options]
    assert len({result["grad_input"].tobytes() for result in results}) == 1
    assert max(result.report.blocks for result in results) > 5


def test_small_problems_use_few_cores_and_large_ones_all():
    assert agree(problem((17, 33))).report.blocks == 1
    for shape in [(4096, 100), (1, 64, 3136), (33, 700, 9)]:
        report = agree(problem(shape)).report
        assert report.blocks == 48
        assert report.traffic_balance <= 1.1


def by_formula(x, dy, weight):
    """Return the gradient of the input of batch normalization, from the chain rule through mean and variance."""
    axes = (0, *range(2, x.ndim))
    centred = x - x.mean(axis=axes, keepdims=True)
    invstd = 1 / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + 1e-5)
    slope = dy * weight.reshape(-1, *(1,) * (x.ndim - 2))
    of_variance = -0.5 * invstd**3 * (slope * centred).sum(axis=axes, keepdims=True)
    of_mean = -invstd * slope.sum(axis=axes, keepdims=True)
    count = x.size // x.shape[1]
    return slope * invstd + of_variance * 2 * centred / count + of_mean / count


def by_torch(x, dy, weight):
    torch = pytest.importorskip("torch")
    wide = torch.tensor(x, requires_grad=True)
    layer = torch.nn.functional.batch_norm(wide, None, None, torch.tensor(weight), None, training=True, eps=1e-5)
    layer.backward(torch.tensor(dy))
    return wide.grad.numpy()


@pytest.mark.parametrize("batch_norm_backward", [by_formula, by_torch])
@pytest.mark.parametrize("shape", [(12, 6), (9, 5, 7, 3), (6, 3, 30, 20)])
def test_ranks_put_together_are_ordinary_batch_norm_backward(shape, batch_norm_backward):
    x, dy = values(shape, np.float64, 1) * 2 + 0.5, values(shape, np.float64, 2)
    weight = values(shape[1], np.float64, 3)
    axes = (0, *range(2, len(shape)))
    mean = x.mean(axis=axes, keepdims=True)
    per_channel = {
        "mean": mean.reshape(-1),
        "invstd": 1 / np.sqrt(x.var(axis=axes) + 1e-5),
        "weight": weight,
        "sum_dy": dy.sum(axis=axes),
        "sum_dy_xmu": (dy * (x - mean)).sum(axis=axes),
    }
    ranks = np.split(np.arange(shape[0]), [shape[0] // 3])
    counter = np.array([[rank.size * math.prod(shape[2:])] for rank in ranks], np.int32)
    shared = {name: value.astype(np.float32) for name, value in per_channel.items()} | {"counter": counter}
    parts = [
        run(
            "BatchNormElemtBackward",
            {"grad_out": dy[rank].astype(np.float32), "input": x[rank].astype(np.float32), **shared},
        )["grad_input"]
        for rank in ranks
    ]
    np.testing.assert_allclose(np.concatenate(parts), batch_norm_backward(x, dy, weight), rtol=1e-4, atol=1e-5)


@st.composite
def problems(draw):
    inner = draw(st.sampled_from([(), (1,), (3,), (2, 4), (5, 5), (7, 7), (19, 20), (600,), (1, 2, 3)]))
    channels = draw(st.integers(1, 70))
    batches = draw(st.integers(0, max(1, 20000 // (channels * math.prod(inner)))))
    dtypes = [draw(st.sampled_from(list(DTYPES.values()))) for _ in range(2)]
    counts = draw(st.lists(st.integers(1, 2000), min_size=1, max_size=9))
    shape = (batches, channels, *inner)
    inputs = problem(shape, *dtypes, counts, draw(st.sampled_from(COUNTER_DTYPES)), draw(st.integers(0, 1000)))
    return inputs if draw(st.booleans()) else without_weight(inputs)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(inputs=problems())
def test_any_problem(inputs):
    agree(inputs)
