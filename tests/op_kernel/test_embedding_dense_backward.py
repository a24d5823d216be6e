"""Compare EmbeddingDenseBackward on the twin with the formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from golden import DTYPES, ROOT, assert_within, load_reference, rounded
from golden import values as values_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opforge.codegen.spec.loader import load_specs
from opforge.twin import run

SPEC = load_specs([ROOT / "op_proto" / "embedding_dense_backward.yaml"])[0]
INDEX_DTYPES = [np.int32, np.int64]
# A batch of rows that is not the last one of a share has at least as many elements, and rows, up to the limit.
BATCH_ELEMENTS, BATCH_ROWS = 4096, 256

reference = load_reference(SPEC.name)


def error_bound(inputs, attrs, out_dtype):
    """Return the rows that may differ from zero, their sums, and the maximum error of the sums.

    The error is that of float32 sums in any fixed order, a division and one rounding to the output dtype.
    """
    grad = inputs["grad"].astype(np.float64)
    both = reference({**inputs, "grad": np.concatenate([grad, np.abs(grad)], axis=-1)}, attrs)["grad_weight"]
    exact, magnitude = np.split(both, 2, axis=-1)
    is_summed = np.zeros(len(both), bool)
    is_summed[np.nonzero(magnitude)[0]] = True
    rows = np.flatnonzero(is_summed)
    # Halving a batch and merging the cores have at most 24 levels, batches are added in order; two more for scaling.
    batch = min(max(BATCH_ELEMENTS // max(grad.shape[-1], 1), 2), BATCH_ROWS)
    additions = 26 + math.ceil(inputs["indices"].size / batch)
    return rows, exact[rows], rounded(exact[rows], additions * 2.0**-24 * magnitude[rows], out_dtype)


def agree(grad, indices, num_weights, padding_idx=-1, scale=False, **options):
    """Run, compare every element with the formula, and return the result."""
    inputs = {"grad": grad, "indices": indices}
    attrs = {"num_weights": num_weights, "padding_idx": padding_idx, "scale_grad_by_freq": scale}
    result = run("EmbeddingDenseBackward", inputs, attrs, **options)
    got = result["grad_weight"]
    rows, exact, bound = error_bound(inputs, attrs, got.dtype)
    assert got.shape == (num_weights, grad.shape[-1])
    assert got.dtype == options.get("out_dtypes", {}).get("grad_weight", grad.dtype)
    assert_within(got[rows], exact, bound)
    assert np.count_nonzero(got) == np.count_nonzero(got[rows])
    return result


def values(shape, dtype=np.float32, seed=0):
    return values_of(shape, dtype, seed)


def uniform(rows, weights, dtype=np.int32, seed=0):
    return np.random.default_rng(seed).integers(0, weights, rows).astype(dtype)


def zipf(rows, weights, dtype=np.int32, seed=0):
    """Return indices of which a few occur in most rows, distributed over the table."""
    ranks = np.minimum(np.random.default_rng(seed).zipf(1.1, rows), weights) - 1
    return np.random.default_rng(1).permutation(weights)[ranks].astype(dtype)


@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("shape", SPEC.tests.shapes, ids=lambda shape: shape.note.replace(" ", "_"))
def test_shapes_of_the_spec(shape, dtype, index_dtype):
    symbols, attrs = dict(shape.symbols), dict(shape.attrs)
    indices = uniform(math.prod(symbols["I"]), attrs["num_weights"], index_dtype).reshape(symbols["I"])
    scale = attrs.pop("scale_grad_by_freq", False)
    agree(values((*symbols["M"], symbols["E"]), dtype), indices, scale=scale, **attrs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_documented_tolerance_holds_without_cancellation(dtype):
    tolerance = SPEC.tests.tolerance[dtype]
    inputs = {"grad": np.abs(values((3000, 70), DTYPES[dtype])), "indices": uniform(3000, 50)}
    got = run("EmbeddingDenseBackward", inputs, {"num_weights": 60})["grad_weight"]
    expected = reference(inputs, {"num_weights": 60})["grad_weight"]
    np.testing.assert_allclose(
        got.astype(np.float64), expected.astype(np.float64), rtol=tolerance.rtol, atol=tolerance.atol
    )


INDEX_CASTS = [np.float32, np.float16, np.float64, np.int8, np.uint8, np.int16, np.int32, np.int64, np.bool_]


@pytest.mark.parametrize("index_dtype", INDEX_CASTS, ids=lambda dtype: np.dtype(dtype).name)
def test_every_index_dtype(index_dtype):
    weights = 2 if index_dtype is np.bool_ else 100
    agree(values((500, 24)), uniform(500, weights).astype(index_dtype), weights)


def test_fractions_of_indices_are_cut_off():
    agree(values((6, 8)), np.array([0.9, 1.0, 1.999, 2.5, -0.5, 2.0], np.float32), 3)


LIMITS = [-1, -(2**31), 2**31 - 1, 40, 41, -40]
LIMITS_INT64 = [2**32, 2**32 + 3, -(2**32) + 3, 2**31, 2**63 - 1, -(2**63), 2**40 - 1]

# Narrow rows and all cores: the sums of a range of rows are in UB.
NARROW = [(np.float16, 64, 10000), (np.float16, 16, 33000), (np.float32, 48, 9000), (DTYPES["bfloat16"], 80, 9000)]


def evenly_often(rows, weights, dtype=np.int32, seed=0):
    """Each core has a row with many indices, which keeps one of its sums busy."""
    random = np.random.default_rng(seed)
    return np.where(random.random(rows) < 0.5, random.integers(0, 48, rows) * weights // 48 + 1, uniform(rows, weights))


TABLE_SPREADS = {
    "uniform": uniform,
    "zipf": zipf,
    "all_equal": lambda rows, weights: np.full(rows, weights // 3),
    "ascending": lambda rows, weights: np.arange(rows) * weights // rows,
    "in_a_tenth": lambda rows, weights: uniform(rows, weights // 10),
    "one_of_two": lambda rows, weights: np.where(np.arange(rows) % 2, 5, uniform(rows, weights)),
    "late": lambda rows, weights: np.where(np.arange(rows) < rows // 2, uniform(rows, weights), weights - 7),
    "two_of_a_core": lambda rows, weights: np.where(np.arange(rows) % 5, uniform(rows, weights), np.arange(rows) % 2),
    "only_one_of_a_core": lambda rows, weights: np.where(
        np.arange(rows) % 20, uniform(rows, weights - 200) + 200, np.int32(3)
    ),
    "evenly_often": evenly_often,
}


# Each spread and each problem has both dtypes of indices.
@pytest.mark.parametrize("problem", range(len(NARROW)))
@pytest.mark.parametrize("spread", TABLE_SPREADS)
def test_narrow_rows(spread, problem):
    weights, (dtype, columns, rows) = 5000, NARROW[problem]
    index_dtype = INDEX_DTYPES[(problem + list(TABLE_SPREADS).index(spread)) % 2]
    indices = TABLE_SPREADS[spread](rows, weights).astype(index_dtype)
    numbers = [*LIMITS, *(LIMITS_INT64 if index_dtype is np.int64 else []), weights, weights + 3, -7]
    indices[:: rows // 40][: len(numbers)] = numbers
    agree(values((rows, columns), dtype), indices, weights, padding_idx=11)


@pytest.mark.parametrize("padding", [0, 103, 104, 4999])
def test_narrow_rows_with_many_padding_indices(padding):
    indices = np.where(np.arange(10000) % 3 == 0, padding, uniform(10000, 5000))
    result = agree(values((10000, 64), np.float16), indices, 5000, padding)
    assert not result["grad_weight"][padding].any()


@pytest.mark.parametrize("rows", [8191, 8192, 8193, 16384 + 4097, 12288 + 7])
def test_narrow_rows_with_every_kind_of_last_chunk(rows):
    for dtype in INDEX_DTYPES:
        agree(values((rows, 64), np.float32), uniform(rows, 500, dtype), 500)


def test_narrow_rows_that_are_equally_frequent_need_few_barriers():
    report = agree(values((12000, 64), np.float16), evenly_often(12000, 5000), 5000).report
    assert report.blocks == 48
    assert report.traffic_balance <= 1.3


@pytest.mark.parametrize("spread", ["zipf", "one_of_two"])
def test_narrow_rows_with_a_long_search_for_frequent_rows(spread):
    agree(values((60000, 64), np.float16), TABLE_SPREADS[spread](60000, 32000).astype(np.int32), 32000)


@pytest.mark.parametrize("spread", ["uniform", "zipf", "one_of_two"])
def test_narrow_rows_are_read_once(spread):
    report = agree(values((12000, 64), np.float16), TABLE_SPREADS[spread](12000, 5000), 5000).report
    assert report.first_touch_bytes <= 1.1 * report.minimal_bytes
    assert report.gm_bytes_read <= report.minimal_bytes + 2 * 48 * 12000 * 4


# Tails, exact fits, several tiles of columns.
@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
@pytest.mark.parametrize("part", [4, 8])
def test_concentrated_narrow_rows_are_sorted_without_a_search(part, index_dtype):
    indices = uniform(12000, 5000 // part, index_dtype) + 5000 // 2
    report = agree(values((12000, 64), np.float16), indices, 5000).report
    # A search reads all indices with each core.
    assert report.gm_bytes_read < 48 * indices.nbytes + report.minimal_bytes


@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
@pytest.mark.parametrize("spread", ["uniform", "zipf", "all_equal", "ascending", "two_of_a_core"])
def test_other_narrow_rows_are_not_sorted(spread, index_dtype):
    indices = TABLE_SPREADS[spread](12000, 5000).astype(index_dtype)
    report = agree(values((12000, 64), np.float16), indices, 5000).report
    # The sort writes lists and gaps to the workspace.
    assert report.gm_bytes_written < 1.1 * 5000 * 64 * 2 + 48 * 3 * 256 * 4


@pytest.mark.parametrize("columns", [1, 2, 7, 8, 15, 16, 17, 31, 64, 100, 257, 1024, 4096, 4097, 8191])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_every_width(columns, dtype):
    rows = max(5, 20000 // columns)
    agree(values((rows, columns), dtype), uniform(rows, rows // 2 + 1), rows // 2 + 1, scale=columns % 2 == 0)


# Around the sizes of chunks: one core sorts alone, pairs of lists, lists without a partner, a shorter last list.
@pytest.mark.parametrize("rows", [2, 31, 32, 33, 127, 128, 129, 1000, 3000, 5000, 12289, 20000, 40001])
def test_every_length_of_the_list(rows):
    agree(values((rows, 8)), uniform(rows, rows, np.int64), rows)


SPREADS = {
    "uniform": uniform,
    "zipf": zipf,
    "all_equal": lambda rows, weights: np.full(rows, weights // 3, np.int32),
    "ascending": lambda rows, weights: (np.arange(rows, dtype=np.int64) * weights // rows).astype(np.int32),
    "descending": lambda rows, weights: (np.arange(rows, dtype=np.int64)[::-1] * weights // rows).astype(np.int32),
    "two_hot_rows": lambda rows, weights: np.where(np.arange(rows) % 3 == 0, 0, weights - 1).astype(np.int32),
    "every_other_row": lambda rows, weights: uniform(rows, weights // 2) * 2,
}


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("spread", SPREADS)
def test_spreads_of_indices(spread, scale):
    agree(values((12000, 48), np.float16), SPREADS[spread](12000, 5000), 5000, padding_idx=11, scale=scale)


@pytest.mark.parametrize("spread", ["zipf", "all_equal", "two_hot_rows"])
def test_hot_rows_are_shared_out(spread):
    report = agree(values((24000, 512), np.float16), SPREADS[spread](24000, 500), 500).report
    assert report.blocks == 48
    assert report.traffic_balance <= 1.15
    assert report.first_touch_bytes <= 1.35 * report.minimal_bytes


def test_runs_that_begin_and_end_at_each_border_of_the_shares():
    rows = 48 * 20
    for shift in (0, 1, 19):
        agree(values((rows, 512)), ((np.arange(rows) + shift) // 20).astype(np.int32), 60, scale=True)


def test_runs_that_span_several_shares():
    rows = 48 * 20
    for length in (39, 40, 41, 400, 959):
        agree(values((rows, 300)), (np.arange(rows) // length).astype(np.int32), 30, scale=True)


@pytest.mark.parametrize("length", [4, 6, 12, 144])
def test_runs_longer_than_a_batch(length):
    agree(values((576, 4096), np.float16), (np.arange(576) // length).astype(np.int32), 150, scale=True)


@pytest.mark.parametrize("padding", [-1, 0, 39])
@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
def test_out_of_range_indices_are_skipped(index_dtype, padding):
    numbers = [0, 3, 39, 39, *LIMITS, *(LIMITS_INT64 if index_dtype is np.int64 else [])]
    indices = np.random.default_rng(0).choice(np.array(numbers, np.int64), 3000).astype(index_dtype)
    agree(values((3000, 33)), indices, 40, padding_idx=padding, scale=True)


@pytest.mark.parametrize("rows", [5, 7000])
@pytest.mark.parametrize(("index", "padding"), [(7, 7), (-3, -1), (20, -1), (0, 0)])
def test_table_without_any_index_is_zeroed(rows, index, padding):
    output = np.full((20, 40), 7, np.float16)
    outputs = {"grad_weight": output}
    result = agree(values((rows, 40), np.float16), np.full(rows, index), 20, padding, outputs=outputs)
    assert not result["grad_weight"].any()
    assert result.report.gm_bytes_read < 24 * 7000 + rows * 40 * 2 * 0.5 + 100_000


@pytest.mark.parametrize("padding", [-2, -1819776, 76, 392092, 2**63 - 1, -(2**63)])
def test_padding_index_out_of_range_is_no_padding(padding):
    agree(values((300, 16)), uniform(300, 76), 76, padding_idx=padding)


@pytest.mark.parametrize("weights", [2**24 - 1, 2**24, 2**24 + 1])
def test_indices_around_the_exact_floats(weights):
    indices = weights - 1 - uniform(200, 4, np.int64)
    agree(values((200, 1), np.float16), indices, weights)


def test_large_table_with_few_rows():
    output = np.full((300_000, 8), 7, np.float32)
    result = agree(values((100, 8)), uniform(100, 300_000), 300_000, outputs={"grad_weight": output})
    assert result.report.traffic_balance <= 1.15


@pytest.mark.parametrize(("shape", "indices", "weights"), [((0, 5), 0, 3), ((0, 5), 0, 900), ((6, 0), 4, 3)])
def test_empty_inputs(shape, indices, weights):
    output = np.full((weights, shape[-1]), 7, np.float32)
    result = agree(values(shape), np.zeros(indices, np.int64), weights, outputs={"grad_weight": output})
    assert not result["grad_weight"].any()


def test_table_without_rows():
    assert run(
        "EmbeddingDenseBackward", {"grad": values((4, 3)), "indices": np.zeros(4, np.int32)}, {"num_weights": 0}
    )["grad_weight"].shape == (0, 3)


def test_shapes_of_grad_and_indices_need_not_correspond():
    agree(values((21, 11, 12)), uniform(231, 9).reshape(7, 33), 9)


def test_strided_inputs():
    indices = np.repeat(uniform(150, 20), 2)
    agree(values((300, 300))[::2, 5:290:3], indices[::2], 20)
    agree(values((6, 40, 50), np.float16).transpose(2, 1, 0), uniform(2000, 30).reshape(40, 50).T, 30)


@pytest.mark.parametrize("storage_offset", [1, 24])
def test_tensors_in_the_middle_of_a_storage(storage_offset):
    agree(values((300, 37), np.float16), zipf(300, 90, np.int64), 90, storage_offset=storage_offset)


def test_strided_output_keeps_other_elements():
    surroundings = np.full((2 * 9 + 1, 2 * 40 + 3), 9.0, np.float32)
    output = surroundings[1::2, 1:81:2]
    agree(values((90, 40)), uniform(90, 9), 9, outputs={"grad_weight": output})
    untouched = surroundings.copy()
    untouched[1::2, 1:81:2] = 9.0
    assert np.all(untouched == 9.0)


@pytest.mark.parametrize(("dtype", "out_dtype"), [("float16", "float32"), ("float32", "bfloat16")])
def test_output_of_another_dtype(dtype, out_dtype):
    out_dtypes = {"grad_weight": np.dtype(DTYPES[out_dtype])}
    inputs = {"grad": np.abs(values((400, 40), DTYPES[dtype])), "indices": uniform(400, 30)}
    got = run("EmbeddingDenseBackward", inputs, {"num_weights": 30}, out_dtypes=out_dtypes)["grad_weight"]
    assert got.dtype == DTYPES[out_dtype]
    exact = reference({**inputs, "grad": inputs["grad"].astype(np.float64)}, {"num_weights": 30})["grad_weight"]
    worst = max(SPEC.tests.tolerance[name].rtol for name in (dtype, out_dtype))
    np.testing.assert_allclose(got.astype(np.float64), exact, rtol=worst)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_inf_and_nan_stay_in_their_row_and_column(dtype):
    grad = np.zeros((100, 37), dtype)
    grad[10, 3] = np.inf
    grad[60, 5] = np.nan
    grad[61, 7], grad[62, 7] = np.inf, -np.inf
    grad[99, :] = np.nan  # of an index that is skipped
    indices = np.repeat(np.array([4, 0, 2, 9]), 25)
    indices[99] = 17
    inputs = {"grad": grad, "indices": indices}
    got = run("EmbeddingDenseBackward", inputs, {"num_weights": 10})["grad_weight"]
    expected = np.zeros((10, 37))
    expected[4, 3], expected[2, 5], expected[2, 7] = np.inf, np.nan, np.nan
    np.testing.assert_array_equal(got.astype(np.float64), expected)


def test_half_sums_are_accumulated_in_fp32_and_rounded_to_even():
    grad = np.zeros((4096, 3), np.float16)
    grad[[0, 4095], 0] = [2048, 1]  # halfway between 2048 and 2050
    grad[[0, 4095], 1] = [2050, 1]  # halfway between 2050 and 2052
    grad[:, 2] = 0.25
    grad[0, 2] = 2048  # in half precision 2048 + 0.25 stays 2048
    inputs = {"grad": grad, "indices": np.ones(4096, np.int32)}
    got = run("EmbeddingDenseBackward", inputs, {"num_weights": 2})["grad_weight"]
    np.testing.assert_array_equal(got[1], [2048, 2052, np.float16(2048 + 4095 / 4)])


@pytest.mark.parametrize(("rows", "columns"), [(9000, 30), (700, 2500), (300, 20)])
def test_bits_do_not_depend_on_the_order_of_the_blocks(rows, columns):
    inputs = {"grad": values((rows, columns)), "indices": zipf(rows, 90)}
    results = {
        run("EmbeddingDenseBackward", inputs, {"num_weights": 90}, seed=seed, threads=threads)["grad_weight"].tobytes()
        for seed, threads in [(1, 1), (2, 1), (3, 2), (4, 0), (5, 7)]
    }
    assert len(results) == 1


def test_bits_of_rows_with_two_indices_at_most_do_not_depend_on_the_cores():
    indices = np.random.default_rng(0).permutation(np.repeat(np.arange(3000), 2)).astype(np.int32)
    inputs = {"grad": values((6000, 64)), "indices": indices}
    results = {
        run("EmbeddingDenseBackward", inputs, {"num_weights": 3000}, soc=soc)["grad_weight"].tobytes()
        for soc in ("Ascend910B1", "Ascend910B4")
    }
    assert len(results) == 1


@pytest.mark.parametrize("soc", ["Ascend910B4", "Ascend910_9391"])
def test_other_socs(soc):
    agree(values((5000, 90), np.float16), zipf(5000, 700, np.int64), 700, scale=True, soc=soc)


def test_few_blocks_for_a_tiny_problem_many_for_a_wide_row():
    assert agree(values((10, 30)), uniform(10, 5), 5).report.blocks == 1
    assert agree(values((1, 300000), np.float16), np.array([0]), 1).report.blocks >= 30


def test_torch_agrees():
    torch = pytest.importorskip("torch")
    grad, indices = values((2000, 24)), zipf(2000, 90, np.int64)
    for padding, scale in [(-1, False), (3, True)]:
        got = agree(grad, indices, 90, padding_idx=padding, scale=scale)["grad_weight"]
        expected = torch.ops.aten.embedding_dense_backward(
            torch.from_numpy(grad), torch.from_numpy(indices), 90, padding, scale
        )
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-4, atol=1e-4)


@st.composite
def problems(draw):
    dtype = draw(st.sampled_from(list(DTYPES.values())))
    index_dtype = draw(st.sampled_from(INDEX_DTYPES))
    columns = draw(st.sampled_from([1, 2, 5, 8, 16, 29, 64, 130, 515, 2100]))
    rows = draw(st.integers(0, min(6000, 60000 // columns)))
    weights = draw(st.sampled_from([1, 2, 7, 60, 1000, 5000]))
    seed = draw(st.integers(0, 1000))
    numbers = draw(st.sampled_from([uniform, zipf]))(rows, weights, index_dtype, seed)
    limits = np.iinfo(index_dtype)
    bad = draw(st.lists(st.integers(int(limits.min), int(limits.max)), max_size=min(rows, 5)))
    numbers[: len(bad)] = bad
    padding = draw(st.integers(-2, weights))
    return values((rows, columns), dtype, seed), numbers, weights, padding, draw(st.booleans())


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(problem=problems())
def test_any_problem(problem):
    agree(*problem)
