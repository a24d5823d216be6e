"""Compare NsaCompressGrad on the twin with the formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from golden import DTYPES, ROOT, assert_within, load_reference, rounded, values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opforge.codegen.spec.loader import load_specs
from opforge.twin import AclnnError, run

SPEC = load_specs([ROOT / "op_proto" / "nsa_compress_grad.yaml"])[0]
OWN_DTYPES = {name: DTYPES[name] for name in ("float16", "bfloat16")}
CORES = 48

reference = load_reference(SPEC.name)


def windows_of(lengths, block, stride):
    """Return the number of windows of sequences with these lengths."""
    return sum((length - block) // stride + 1 for length in lengths if length >= block)


def problem(lengths, heads=3, head_size=40, window=(32, 16), *, listed="ends", dtype=np.float16, draw=values):
    """Return inputs and attributes of a call; `listed`: content of act_seq_len: "ends", "lengths", or None for no
    list."""
    block, stride = window
    rows, windows = sum(lengths), windows_of(lengths, block, stride)
    inputs = {
        "output_grad": draw((windows, heads, head_size), dtype, 1),
        "input": draw((rows, heads, head_size), dtype, 2),
        "weight": draw((block, heads), dtype, 3),
    }
    if listed:
        inputs["act_seq_len"] = np.array(lengths if listed == "lengths" else np.cumsum(lengths), np.int64)
    kind = int(listed == "lengths")
    return inputs, {"compress_block_size": block, "compress_stride": stride, "act_seq_len_type": kind}


def wide(inputs, change=lambda array: array):
    """Return the inputs in float64, and the list unchanged."""
    return {
        name: array if name == "act_seq_len" else change(array.astype(np.float64)) for name, array in inputs.items()
    }


def error_bounds(inputs, attrs):
    """Return, for each output, the formula in float64 and the maximum error of float32 arithmetic and one rounding."""
    exact, magnitude = reference(wide(inputs), attrs), reference(wide(inputs, np.abs), attrs)
    windows, _, head_size = inputs["output_grad"].shape
    overlap = math.ceil(attrs["compress_block_size"] / attrs["compress_stride"])
    # Each product and each partial sum is rounded: of the windows with a common row; of all windows, of the columns of
    # a head in groups of 64, of these 64 in pairs, of the cores.
    roundings = {"input_grad": 1 + overlap, "weight_grad": 1 + windows + math.ceil(head_size / 64) + 6 + CORES}
    return {
        name: (exact[name], rounded(exact[name], count * 2.0**-24 * magnitude[name], inputs["input"].dtype))
        for name, count in roundings.items()
    }


def agree(inputs, attrs, **options):
    """Run, compare every element with the formulas, and return the result."""
    result = run("NsaCompressGrad", inputs, attrs, **options)
    for name, (exact, bound) in error_bounds(inputs, attrs).items():
        assert result[name].dtype == inputs["input"].dtype
        assert_within(result[name], exact, bound)
    return result


def positive(shape, dtype, seed):
    return np.abs(values(shape, dtype, seed))


@pytest.mark.parametrize("dtype", OWN_DTYPES.values(), ids=OWN_DTYPES)
@pytest.mark.parametrize("shape", SPEC.tests.shapes, ids=lambda shape: shape.note.replace(" ", "_"))
def test_shapes_of_the_spec(shape, dtype):
    symbols, attrs = dict(shape.symbols), dict(shape.attrs)
    rows = (symbols["N"], symbols["D"])
    inputs = {
        "output_grad": values((symbols["O"], *rows), dtype, 1),
        "input": values((symbols["T"], *rows), dtype, 2),
        "weight": values((attrs["compress_block_size"], symbols["N"]), dtype, 3),
    }
    if shape.case != "equal":
        inputs["act_seq_len"] = np.array(shape.values["act_seq_len"])
    agree(inputs, attrs)


@pytest.mark.parametrize("dtype", OWN_DTYPES)
def test_documented_tolerance_holds_without_cancellation(dtype):
    tolerance = SPEC.tests.tolerance[dtype]
    inputs, attrs = problem([700, 1300], 4, 64, dtype=OWN_DTYPES[dtype], draw=positive)
    result, expected = run("NsaCompressGrad", inputs, attrs), reference(inputs, attrs)
    for name in expected:
        got, right = result[name].astype(np.float64), expected[name].astype(np.float64)
        np.testing.assert_allclose(got, right, rtol=tolerance.rtol, atol=tolerance.atol)


# Padded heads, a weight in one block and in several, heads that fill vector instructions and heads in parts.
@pytest.mark.parametrize("head_size", [1, 2, 7, 15, 16, 17, 24, 48, 63, 64, 65, 96, 128, 192, 200, 256, 300])
def test_every_head_size(head_size):
    agree(*problem([150, 90], 5, head_size))


@pytest.mark.parametrize("head_size", [2040, 2041, 5000])
def test_a_head_wider_than_a_tile(head_size):
    agree(*problem([150], 1, head_size, (48, 32)))
    agree(*problem([70], 3, head_size, dtype=OWN_DTYPES["bfloat16"]))


@pytest.mark.parametrize("heads", [1, 2, 5, 7, 8, 9, 16, 17, 31, 33, 128, 257])
def test_every_number_of_heads(heads):
    agree(*problem([130], heads, 16))
    agree(*problem([40, 90], heads, 64, (64, 16)))


@pytest.mark.parametrize(
    "window",
    [(32, 16), (48, 16), (64, 16), (48, 32), (64, 48), (128, 16), (128, 112), (256, 16), (272, 32), (1024, 496)],
)
def test_every_window(window):
    block, stride = window
    agree(*problem([block + 5 * stride + 3, block - 1, block], 2, 64, window))
    agree(*problem([3 * block], 3, 24, window, listed="lengths"))


SEQUENCES = {
    "windows_end_with_their_sequence": [32, 48, 64, 80],
    "one_row_too_few_and_one_too_many": [31, 32, 33, 47, 48, 49],
    "empty_ones": [0, 0, 100, 0, 64, 0],
    "single_rows": [1] * 40 + [50] + [1] * 30,
    "no_windows_but_in_the_first": [32] + [31] * 20,
    "no_windows_but_in_the_last": [5] * 30 + [32],
    "one_short_in_front_of_a_long_one": [7, 2000],
    "skewed": [1500, 400, 150, 70, 40, 30, 20, 10, 5],
}


@pytest.mark.parametrize("listed", ["ends", "lengths"])
@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences(name, listed):
    agree(*problem(SEQUENCES[name], 2, 64, listed=listed))


@pytest.mark.parametrize("listed", ["ends", "lengths"])
@pytest.mark.parametrize("count", [255, 256, 257, 2000])
def test_more_sequences_than_fit_into_a_piece_of_the_list(count, listed):
    lengths = np.random.default_rng(count).choice([0, 0, 0, 1, 2, 40], count)
    agree(*problem([*lengths, 64], 2, 16, listed=listed))


@pytest.mark.parametrize("listed", ["ends", "lengths"])
@pytest.mark.parametrize("window", [(32, 16), (64, 48), (128, 112)])
def test_windows_of_many_sequences_are_counted_exactly(window, listed):
    block, stride = window
    borders = block + stride * np.arange(8)
    lengths = np.r_[borders - 1, borders, borders + 1, np.random.default_rng(0).integers(0, 200, 140)]
    result = agree(*problem([int(length) for length in lengths], 1, 8, window, listed=listed))
    assert result.report.blocks > 8


def test_no_list_an_empty_one_and_one_sequence_are_the_same():
    inputs, attrs = problem([500], 4, 64)
    expected = agree(inputs, attrs)
    without = {name: array for name, array in inputs.items() if name != "act_seq_len"}
    for other in (
        without,
        {**inputs, "act_seq_len": np.zeros(0, np.int64)},
        {**inputs, "act_seq_len": np.array([0, 500])},
    ):
        result = run("NsaCompressGrad", other, attrs)
        for name in ("input_grad", "weight_grad"):
            np.testing.assert_array_equal(result[name], expected[name])


@pytest.mark.parametrize(
    ("length", "count", "window"),
    [(160, 2, (32, 16)), (101, 3, (64, 16)), (40, 64, (32, 16)), (337, 7, (48, 16)), (2000, 5, (64, 48))],
)
def test_equal_sequences_need_no_list(length, count, window):
    inputs, attrs = problem([length] * count, 4, 64, window)
    expected = agree(inputs, attrs)
    assert expected.report.blocks > 1
    for other in ({**inputs, "act_seq_len": None}, {**inputs, "act_seq_len": np.zeros(0, np.int64)}):
        result = run("NsaCompressGrad", other, attrs)
        for name in ("input_grad", "weight_grad"):
            np.testing.assert_array_equal(result[name], expected[name])


@pytest.mark.parametrize(("rows", "windows", "counts"), [(320, 17, "[]"), (320, 20, "[]"), (144, 6, "[2, 3]")])
def test_window_counts_without_a_unique_number_of_sequences(rows, windows, counts):
    inputs, attrs = problem([rows], 2, 16, listed=None)
    inputs["output_grad"] = values((windows, 2, 16), np.float16, 1)
    with pytest.raises(AclnnError, match=r"C16") as caught:
        run("NsaCompressGrad", inputs, attrs)
    assert caught.value.status == 161002
    one = windows_of([rows], 32, 16)
    assert f"1 sequence has {one} windows, the fitting numbers are {counts} [C16]" in caught.value.message
    if counts != "[]":
        agree({**inputs, "act_seq_len": np.array([72, 144])}, attrs)
        agree({**inputs, "act_seq_len": np.array([48, 96, 144])}, attrs)


def test_rows_outside_all_windows_have_zero_gradient_and_no_effect():
    inputs, attrs = problem([100, 20, 45], 3, 64)
    outside = np.r_[96:100, 100:120, 152:165]
    inputs["input"][outside] = np.nan
    result = run("NsaCompressGrad", inputs, attrs)
    assert not result["input_grad"][outside].any()
    assert np.isfinite(result["weight_grad"]).all()
    inputs["input"][outside] = 0
    expected = agree(inputs, attrs)
    for name in ("input_grad", "weight_grad"):
        np.testing.assert_array_equal(result[name], expected[name])


@pytest.mark.parametrize("dtype", OWN_DTYPES.values(), ids=OWN_DTYPES)
@pytest.mark.parametrize("head_size", [20, 64])
def test_inf_and_nan_stay_in_their_windows_and_heads(head_size, dtype):
    inputs, attrs = problem([80, 64], 2, head_size, dtype=dtype, draw=positive)
    inputs["output_grad"][3, 1, 5] = np.nan  # the last of 4 windows, rows 48 to 79
    inputs["output_grad"][5, 0, 7] = np.inf  # rows 96 to 127
    inputs["input"][130, 0, 3] = -np.inf  # in the last window, rows 112 to 143
    result = run("NsaCompressGrad", inputs, attrs)
    expected = np.zeros((144, 2, head_size))
    expected[48:80, 1, 5], expected[96:128, 0, 7] = np.nan, np.inf
    got = np.where(np.isfinite(result["input_grad"].astype(np.float64)), 0, result["input_grad"].astype(np.float64))
    np.testing.assert_array_equal(got, expected)
    weight_grad = result["weight_grad"].astype(np.float64)
    assert np.isnan(weight_grad[:, 1]).all()
    assert np.isnan(weight_grad[18, 0])  # inf - inf
    assert np.all(np.delete(weight_grad[:, 0], 18) == np.inf)


def test_sums_are_accumulated_in_fp32_and_rounded_to_even():
    inputs, attrs = problem([48, 32], 1, 16, draw=lambda shape, dtype, _: np.zeros(shape, dtype))
    inputs["weight"][:, 0] = 1
    inputs["output_grad"][0, 0], inputs["output_grad"][1, 0] = 2048, 1  # 2049: halfway between 2048 and 2050
    inputs["output_grad"][0, 0, 1] = 2050  # 2051: halfway between 2050 and 2052
    inputs["input"][0, 0] = 1  # 15 * 2048 + 2050 = 32770
    inputs["input"][48, 0, 0], inputs["output_grad"][2, 0, 0] = 1, 14  # 32784: halfway between 32768 and 32800
    result = run("NsaCompressGrad", inputs, attrs)
    np.testing.assert_array_equal(result["input_grad"][16:32, 0, :3], np.full((16, 3), [2048, 2052, 2048]))
    assert result["weight_grad"][0, 0] == 32768


def test_strided_inputs():
    inputs, attrs = problem([90, 70], 4, 48)
    doubled = {
        "output_grad": np.repeat(inputs["output_grad"], 2, axis=0)[::2],
        "input": np.ascontiguousarray(inputs["input"].transpose(1, 2, 0)).transpose(2, 0, 1),
        "weight": np.repeat(inputs["weight"], 3, axis=1)[:, ::3],
        "act_seq_len": inputs["act_seq_len"],
    }
    assert not any(doubled[name].flags["C_CONTIGUOUS"] for name in ("output_grad", "input", "weight"))
    agree(doubled, attrs)


def test_strided_outputs_keep_other_elements():
    inputs, attrs = problem([90, 70], 4, 48)
    buffers = {"input_grad": np.full((161, 5, 100), 9, np.float16), "weight_grad": np.full((33, 12), 9, np.float16)}
    views = {"input_grad": buffers["input_grad"][1:, :4, 1:97:2], "weight_grad": buffers["weight_grad"][:32, ::3]}
    agree(inputs, attrs, outputs=views)
    for name, view in views.items():
        view[...] = 9
        assert np.all(buffers[name] == 9)


@pytest.mark.parametrize(("lengths", "heads", "head_size"), [([3000], 3, 64), ([100] * 9, 20, 32)])
def test_bits_do_not_depend_on_the_order_of_the_blocks(lengths, heads, head_size):
    call = problem(lengths, heads, head_size)
    results = [
        run("NsaCompressGrad", *call, seed=seed, threads=threads) for seed, threads in [(1, 1), (2, 1), (3, 2), (4, 7)]
    ]
    assert results[0].report.blocks > 8
    for name in ("input_grad", "weight_grad"):
        assert len({result[name].tobytes() for result in results}) == 1


def test_bits_of_input_grad_do_not_depend_on_the_number_of_cores():
    call = problem([1500, 700], 6, 64, (64, 16))
    results = [agree(*call, soc=soc) for soc in ("Ascend910B1", "Ascend910B4", "Ascend910_9391", "Ascend910_9372")]
    assert len({result.report.blocks for result in results}) > 1
    assert len({result["input_grad"].tobytes() for result in results}) == 1


def test_traffic_is_one_pass_and_evenly_shared():
    for heads, head_size in [(8, 64), (7, 96)]:
        report = agree(*problem([2000, 5000, 1192], heads, head_size), strict=False).report
        assert report.first_touch_bytes <= 1.02 * report.minimal_bytes
        assert report.blocks == CORES
        assert report.traffic_balance <= 1.1


def test_block_count_of_tiny_problems_and_few_rows():
    assert agree(*problem([64], 2, 16)).report.blocks == 1
    many_heads = agree(*problem([64], 64, 128)).report
    assert many_heads.blocks >= 16


@pytest.mark.parametrize(
    ("window", "limit"),
    [((131072, 16), "rows of a window: got 131072"), ((4096, 16), "bytes of the unified buffer: got")],
)
def test_a_window_beyond_the_capacity_is_refused(window, limit, capfd):
    with pytest.raises(AclnnError) as caught:
        run("NsaCompressGrad", *problem([window[0]], 1, 16, window))
    assert caught.value.status == 561002
    assert limit in capfd.readouterr().err


def changed(inputs=None, attrs=None, **shape):
    """Return a small call, by default with sequences of 48 and 32 rows, with some arguments changed."""
    right_inputs, right_attrs = problem(**{"lengths": [48, 32], "heads": 2, "head_size": 8} | shape)
    return right_inputs | (inputs or {}), right_attrs | (attrs or {})


def zeros(*shape):
    return np.zeros(shape, np.float16)


# For every constraint: a call that violates only this one, and a similar valid call.
RULES = [
    ("C1", 161001, changed({"weight": None}), changed({"act_seq_len": None, "output_grad": zeros(4, 2, 8)})),
    ("C2", 161002, changed({"weight": np.zeros((32, 2), np.float32)}), changed(dtype=OWN_DTYPES["bfloat16"])),
    ("C3", 161002, changed({"weight": zeros(32)}), changed()),
    ("C4", 161002, changed({"weight": zeros(32, 1)}), changed(heads=1)),
    ("C5", 161002, changed(head_size=0), changed(head_size=1)),
    ("C6", 161002, changed({"input": zeros(0, 2, 8)}), changed(lengths=[32])),
    ("C7", 161002, changed({"weight": zeros(40, 2)}, {"compress_block_size": 40}), changed(window=(48, 16))),
    ("C8", 161002, changed({}, {"compress_stride": 8}), changed(window=(48, 32))),
    ("C8", 161002, changed({}, {"compress_stride": -16}), changed(window=(48, 32))),
    ("C9", 161002, changed({}, {"compress_stride": 32}), changed(window=(48, 32))),
    ("C10", 161002, changed({}, {"act_seq_len_type": -1}), changed(listed="lengths")),
    ("C11", 161002, changed({}, {"layout": "BSH"}), changed({}, {"layout": "TND"})),
    ("C12", 161002, changed({"act_seq_len": np.array([50, 48, 80])}), changed(lengths=[0, 48, 0, 32])),
    ("C12", 161002, changed({"act_seq_len": np.array([-1, 48, 80])}), changed(lengths=[0, 48, 32])),
    (
        "C13",
        161002,
        changed({"act_seq_len": np.array([96, -16])}, listed="lengths"),
        changed(lengths=[48, 0, 32], listed="lengths"),
    ),
    ("C14", 161002, changed({"act_seq_len": np.array([48, 81])}), changed(lengths=[48, 33])),
    ("C15", 161002, changed({"act_seq_len": np.array([48, 31])}, listed="lengths"), changed(listed="lengths")),
    ("C16", 161002, changed(listed=None), changed(lengths=[80], listed=None)),
    ("C17", 161002, changed({"act_seq_len": np.array([40, 80])}), changed(lengths=[49, 32])),
    ("C18", 161002, changed({"act_seq_len": np.array([49, 31])}, listed="lengths"), changed(listed="lengths")),
]


@pytest.mark.parametrize(("label", "status", "broken", "accepted"), RULES, ids=[rule[0] for rule in RULES])
def test_every_rule_has_its_status_and_an_accepted_neighbour(label, status, broken, accepted):
    with pytest.raises(AclnnError) as caught:
        run("NsaCompressGrad", *broken)
    assert caught.value.status == status
    assert caught.value.message.endswith(f"[{label}]")
    agree(*accepted)


def test_every_rule_of_the_spec_is_broken_above():
    # Arrays have no storage format; tests/test_document.py has calls with formats.
    assert {rule.label for rule in SPEC.constraints if rule.rule != "formats"} == {label for label, *_ in RULES}


def test_gradients_are_those_of_autograd():
    torch = pytest.importorskip("torch")
    lengths, (block, stride) = [100, 20, 64], (32, 16)
    inputs, attrs = problem(lengths, 3, 24)
    x, weight, grad = (
        torch.tensor(inputs[name].astype(np.float64), requires_grad=name != "output_grad")
        for name in ("input", "weight", "output_grad")
    )
    # unfold gives [windows, N, D, block] for a sequence.
    compressed = [
        (part.unfold(0, block, stride) * weight.T[None, :, None, :]).sum(-1)
        for part in torch.split(x, lengths)
        if len(part) >= block
    ]
    torch.cat(compressed).backward(grad)
    result = agree(inputs, attrs)
    for name, expected in (("input_grad", x.grad), ("weight_grad", weight.grad)):
        np.testing.assert_allclose(result[name].astype(np.float64), expected.numpy(), rtol=2e-3, atol=2e-2)


@st.composite
def problems(draw):
    stride = 16 * draw(st.integers(1, 4))
    block = stride + 16 * draw(st.integers(1, 5))
    lengths = [*draw(st.lists(st.integers(0, 3 * block), max_size=8)), block + draw(st.integers(0, 40))]
    heads = draw(st.sampled_from([1, 2, 3, 6, 11, 20]))
    head_size = draw(st.sampled_from([1, 8, 16, 33, 64, 80, 128]))
    listed = draw(st.sampled_from(["ends", "lengths"]))
    dtype = draw(st.sampled_from(list(OWN_DTYPES.values())))
    return problem(draw(st.permutations(lengths)), heads, head_size, (block, stride), listed=listed, dtype=dtype)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(call=problems())
def test_any_problem(call):
    agree(*call)
