"""Compare GroupedBiasAddGrad on the twin with the formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from golden import DTYPES, ROOT, assert_within, load_reference, rounded, values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opforge.codegen.spec.loader import load_specs
from opforge.twin import run

SPEC = load_specs([ROOT / "op_proto" / "grouped_bias_add_grad.yaml"])[0]
INDEX_DTYPES = [np.int32, np.int64]
TILE_BYTES = 16384
MAX_INT64 = 2**63 - 1


reference = load_reference(SPEC.name)


def error_bound(inputs, attrs):
    """Return the maximum error of float32 sums in any fixed order and one rounding to the output dtype."""
    grad_y = inputs["grad_y"]
    exact = reference({**inputs, "grad_y": grad_y.astype(np.float64)}, attrs)["grad_bias"]
    magnitude = reference({**inputs, "grad_y": np.abs(grad_y.astype(np.float64))}, attrs)["grad_bias"]
    # Halving a tile and merging the cores have at most 24 levels; tiles are added in order.
    additions = 24 + math.ceil(grad_y.nbytes / TILE_BYTES)
    return exact, rounded(exact, additions * 2.0**-24 * magnitude, grad_y.dtype)


def agree(grad_y, group_idx=None, group_idx_type=0, **options):
    """Run, compare every element with the formula, and return the result."""
    inputs = {"grad_y": grad_y} if group_idx is None else {"grad_y": grad_y, "group_idx": group_idx}
    attrs = {"group_idx_type": group_idx_type} if group_idx_type else {}
    result = run("GroupedBiasAddGrad", inputs, attrs, **options)
    exact, bound = error_bound(inputs, attrs)
    got = result["grad_bias"]
    assert got.dtype == grad_y.dtype
    assert_within(got, exact, bound)
    return result


def ends_list(rows, groups, dtype=np.int64, seed=0):
    """Return random ascending ends, the last one `rows`; some groups are empty."""
    ends = np.sort(np.random.default_rng(seed).integers(0, rows + 1, groups))
    ends[-1:] = rows
    return ends.astype(dtype)


def case_of(shape, dtype, index_dtype):
    """Return inputs for a test shape of the spec."""
    symbols = dict(shape.symbols)
    if shape.case == "equal":
        return values((symbols["G"], symbols["C"], symbols["H"]), dtype), None, 0
    ends = ends_list(symbols["T"], symbols["G"], index_dtype)
    kind = int(shape.attrs.get("group_idx_type", 0))
    return (
        values((symbols["T"], symbols["H"]), dtype),
        np.diff(ends, prepend=0).astype(index_dtype) if kind else ends,
        kind,
    )


@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("shape", SPEC.tests.shapes, ids=lambda shape: shape.note.replace(" ", "_"))
def test_shapes_of_the_spec(shape, dtype, index_dtype):
    agree(*case_of(shape, dtype, index_dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_documented_tolerance_holds_without_cancellation(dtype):
    tolerance = SPEC.tests.tolerance[dtype]
    grad_y = np.abs(values((3000, 70), DTYPES[dtype]))
    group_idx = ends_list(3000, 5)
    got = run("GroupedBiasAddGrad", {"grad_y": grad_y, "group_idx": group_idx})["grad_bias"]
    expected = reference({"grad_y": grad_y, "group_idx": group_idx}, {})["grad_bias"]
    np.testing.assert_allclose(
        got.astype(np.float64), expected.astype(np.float64), rtol=tolerance.rtol, atol=tolerance.atol
    )


# Tails, exact fits and both layouts of rows in UB: packed (narrow) and padded (sliced, wide).
@pytest.mark.parametrize(
    "columns", [1, 2, 3, 7, 8, 12, 15, 16, 17, 31, 33, 100, 255, 256, 257, 513, 2047, 4096, 4097, 8191]
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_every_width(columns, dtype):
    rows = max(3, 30000 // columns)
    agree(values((rows, columns), dtype), ends_list(rows, 7))


@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
def test_one_group_has_almost_all_rows(index_dtype):
    ends = np.r_[np.arange(1, 41), 40000].astype(index_dtype)
    result = agree(values((40000, 256), np.float16), ends)
    assert result.report.traffic_balance <= 1.1
    assert result.report.blocks == 48


def test_many_groups_on_few_rows():
    """Groups cost time in addition to rows: cores with many groups get fewer rows."""
    ends = np.r_[np.arange(10, 2000, 10), 40000]
    assert agree(values((40000, 256), np.float16), ends).report.balance <= 1.1


@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
@pytest.mark.parametrize("kind", [0, 1])
def test_2048_groups(index_dtype, kind):
    ends = ends_list(9000, 2048, index_dtype)
    group_idx = np.diff(ends, prepend=0).astype(index_dtype) if kind else ends
    agree(values((9000, 40), np.float32), group_idx, kind)


def test_every_core_can_begin_and_end_inside_a_group():
    rows = 48 * 10
    for shift in (1, 5, 9):
        agree(values((rows, 512), np.float32), np.arange(shift, rows + shift, 10).clip(0, rows))


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
def test_cores_sum_whole_groups_if_all_groups_are_small(index_dtype, kind):
    """Without groups of several cores, no core waits at a barrier: the launch has one phase."""
    ends = ends_list(20000, 1500, index_dtype)

    def phases(ends):
        result = agree(
            values((20000, 30), np.float16), np.diff(ends, prepend=0).astype(index_dtype) if kind else ends, kind
        )
        return len(result.launches[0]["phases"])

    assert phases(ends) == 1
    ends[100:200] = ends[200]  # one group has the rows of a hundred
    assert phases(ends) == 2


def test_group_that_spans_all_cores_and_group_of_one_row_at_each_border():
    rows = 48 * 20
    borders = np.arange(20, rows, 20)
    agree(values((rows, 400), np.float16), np.array([rows]))
    agree(values((rows, 400), np.float16), np.sort(np.r_[borders - 1, borders, borders + 1, rows]))


def test_rows_past_the_last_end_are_ignored_and_not_read():
    grad_y = values((4096, 128), np.float32)
    grad_y[1000:] = np.nan
    result = agree_on_prefix(grad_y, np.array([0, 300, 1000]), used=1000)
    assert result.report.gm_bytes_read < 2 * grad_y[:1000].nbytes


def agree_on_prefix(grad_y, group_idx, used):
    result = run("GroupedBiasAddGrad", {"grad_y": grad_y, "group_idx": group_idx})
    exact, bound = error_bound({"grad_y": grad_y[:used], "group_idx": group_idx}, {})
    assert_within(result["grad_bias"], exact, bound)
    return result


BAD_LISTS = {
    "negative": [-1, -5, 3, 40],
    "above_all_rows": [3, 41, 1000, 2**31 - 1],
    "decreasing": [30, 10, 20, 5],
    "first_decreasing_then_rising": [40, 0, 40, 0, 40],
    "decreasing_at_the_very_end": [10, 20, 40, 39],
    "lowest_and_highest_int32": [-(2**31), 2**31 - 1, 0, 20],
}
BAD_LISTS_INT64 = {
    "low_word_looks_small": [2**32 + 3, 2**33, 40],
    "low_word_looks_negative": [5, 2**31, 2**32 - 1],
    "negative_with_positive_low_word": [-(2**32) + 7, -(2**40) + 20, 30],
    "negative_with_negative_low_word": [-(2**31) - 1, -1, 30],
    "lowest_and_highest_int64": [-(2**63), MAX_INT64, 11, 40],
}


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("name", BAD_LISTS)
@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
def test_bad_lists_are_clamped(name, index_dtype, kind):
    agree(values((40, 33), np.float32), np.array(BAD_LISTS[name], index_dtype), kind)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("name", BAD_LISTS_INT64)
def test_values_beyond_int32_are_clamped(name, kind):
    agree(values((40, 33), np.float32), np.array(BAD_LISTS_INT64[name], np.int64), kind)


@pytest.mark.parametrize("lengths", [[MAX_INT64] * 4, [10, MAX_INT64, MAX_INT64], [-(2**63), -(2**63), MAX_INT64, 5]])
def test_running_sums_beyond_int64_are_clamped(lengths):
    agree(values((40, 16), np.float32), np.array(lengths, np.int64), 1)


def test_running_sum_saturates_before_it_overflows_int32():
    agree(values((40, 16), np.float32), np.full(2048, 2**31 - 1, np.int32), 1)


@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
def test_decreasing_list_on_many_cores(index_dtype):
    rows, columns = 3000, 128
    group_idx = np.random.default_rng(3).integers(-10, rows + 10, 200).astype(index_dtype)
    result = agree(values((rows, columns), np.float16), group_idx)
    assert result.report.blocks > 8
    # Only one core reads each group; each core reads the list twice.
    ends = np.clip(group_idx, 0, rows).astype(np.int64)
    summed = np.maximum(ends - np.concatenate([[0], ends[:-1]]), 0).sum() * columns * 2
    assert result.report.gm_bytes_read <= summed + 2 * result.report.blocks * (group_idx.nbytes + 32)


# Each number of columns and of rows has all dtypes.
@pytest.mark.parametrize("columns", range(6))
@pytest.mark.parametrize("rows", range(5))
def test_many_small_equal_groups(rows, columns):
    groups, dtype = 3001, list(DTYPES.values())[(rows + columns) % 3]
    grad_y = values((groups, [1, 2, 3, 5, 9][rows], [1, 8, 24, 33, 64, 100][columns]), dtype)
    result = agree(grad_y)
    assert result.report.dma_count < groups


@pytest.mark.parametrize("rows", [255, 256])
def test_equal_groups_at_the_limit_of_a_batch(rows):
    agree(values((900, rows, 8), np.float16))


def test_equal_groups_that_straddle_cores():
    agree(values((5, 777, 96), np.float32))


@pytest.mark.parametrize(
    ("shape", "groups"),
    [((0, 5), 3), ((0, 5000), 2048), ((3, 0, 40), None), ((600, 0, 40), None), ((4, 5), 4)],
    ids=["no_rows", "no_rows_many_groups", "groups_without_rows", "many_groups_without_rows", "all_groups_empty"],
)
def test_empty_groups_give_zeros(shape, groups):
    group_idx = None if groups is None else np.zeros(groups, np.int64)
    output = np.full((groups or shape[0], shape[-1]), 7, np.float16)
    result = agree(values(shape, np.float16), group_idx, outputs={"grad_bias": output})
    assert not result["grad_bias"].any()


@pytest.mark.parametrize(("shape", "groups"), [((5, 0), 3), ((5, 4), 0), ((0, 3, 4), None)])
def test_empty_output(shape, groups):
    agree(values(shape, np.float32), None if groups is None else np.zeros(groups, np.int64))


def test_strided_inputs():
    grad_y = values((600, 300), np.float32)
    ends = np.repeat(ends_list(150, 6), 2)
    agree(grad_y[::2, 5:290:3], ends[::2])
    agree(grad_y.T, ends_list(300, 6, np.int32))
    agree(values((6, 40, 50), np.float16).transpose(2, 1, 0))


def test_strided_output_keeps_other_elements():
    surroundings = np.full((2 * 5 + 1, 2 * 40 + 3), 9.0, np.float32)
    output = surroundings[1::2, 1:81:2]
    agree(values((90, 40), np.float32), ends_list(90, 5), outputs={"grad_bias": output})
    untouched = surroundings.copy()
    untouched[1::2, 1:81:2] = 9.0
    assert np.all(untouched == 9.0)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_inf_and_nan_stay_in_their_group_and_column(dtype):
    grad_y = np.zeros((100, 37), dtype)
    grad_y[10, 3] = np.inf
    grad_y[60, 5] = np.nan
    grad_y[61, 7], grad_y[62, 7] = np.inf, -np.inf
    grad_y[99, 36] = -np.inf
    got = run("GroupedBiasAddGrad", {"grad_y": grad_y, "group_idx": np.array([50, 99, 100])})["grad_bias"]
    expected = np.zeros((3, 37))
    expected[0, 3], expected[1, 5], expected[1, 7], expected[2, 36] = np.inf, np.nan, np.nan, -np.inf
    np.testing.assert_array_equal(got.astype(np.float64), expected)


def test_half_sums_are_accumulated_in_fp32_and_rounded_to_even():
    grad_y = np.zeros((4096, 3), np.float16)
    grad_y[[0, 4095], 0] = [2048, 1]  # halfway between 2048 and 2050
    grad_y[[0, 4095], 1] = [2050, 1]  # halfway between 2050 and 2052
    grad_y[:, 2] = 0.25
    grad_y[0, 2] = 2048  # in half precision 2048 + 0.25 stays 2048
    got = run("GroupedBiasAddGrad", {"grad_y": grad_y, "group_idx": np.array([4096])})["grad_bias"]
    np.testing.assert_array_equal(got[0], [2048, 2052, np.float16(2048 + 4095 / 4)])


@pytest.mark.parametrize(("rows", "columns"), [(5000, 30), (300, 2500)])
def test_bits_do_not_depend_on_the_order_of_the_blocks(rows, columns):
    inputs = {"grad_y": values((rows, columns), np.float32), "group_idx": ends_list(rows, 17)}
    results = {
        run("GroupedBiasAddGrad", inputs, seed=seed, threads=threads)["grad_bias"].tobytes()
        for seed, threads in [(1, 1), (2, 1), (3, 2), (4, 0), (5, 7)]
    }
    assert len(results) == 1


@pytest.mark.parametrize("soc", ["Ascend910B4", "Ascend910_9391", "Ascend910_9372"])
def test_other_socs(soc):
    agree(values((3000, 90), np.float16), ends_list(3000, 11), soc=soc)


def test_traffic_is_close_to_one_pass():
    report = agree(values((8192, 512), np.float32), ends_list(8192, 60)).report
    assert report.first_touch_bytes <= 1.03 * report.minimal_bytes
    assert report.balance <= 1.1


def test_few_blocks_for_a_tiny_problem_many_for_a_wide_row():
    assert agree(values((10, 30), np.float32), np.array([10])).report.blocks == 1
    assert agree(values((1, 300000), np.float16), np.array([1])).report.blocks >= 30
    assert agree(values((64, 8192), np.float16), np.array([20, 64])).report.blocks >= 30


@st.composite
def problems(draw):
    dtype = draw(st.sampled_from(list(DTYPES.values())))
    columns = draw(st.sampled_from([1, 2, 5, 8, 16, 29, 64, 130, 515, 2100]))
    rows = draw(st.integers(0, min(1500, 60000 // columns)))
    seed = draw(st.integers(0, 1000))
    if draw(st.booleans()):
        groups = draw(st.integers(0, 40))
        return values((groups, rows // (groups + 1), columns), dtype, seed), None, 0
    groups = draw(st.integers(1, 130))
    index_dtype = draw(st.sampled_from(INDEX_DTYPES))
    limits = np.iinfo(index_dtype)
    number = st.one_of(st.integers(0, rows), st.integers(-3, rows + 3), st.integers(int(limits.min), int(limits.max)))
    group_idx = draw(st.lists(number, min_size=groups, max_size=groups))
    if draw(st.integers(0, 3)):
        group_idx = sorted(abs(value) % (rows + 1) for value in group_idx)
    return values((rows, columns), dtype, seed), np.array(group_idx, index_dtype), draw(st.sampled_from([0, 1]))


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(problem=problems())
def test_any_problem(problem):
    agree(*problem)
