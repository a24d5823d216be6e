"""Compare ConvTbcBackward on the twin with the formulas."""

from __future__ import annotations

import ctypes
from contextlib import ExitStack

import numpy as np
import pytest
from golden import DTYPES, ROOT, assert_within, load_reference, rounded, values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opforge.codegen.project import find_project
from opforge.codegen.spec.loader import load_specs
from opforge.codegen.spec.semantics import Call, check
from opforge.twin import AclnnError, run
from opforge.twin.build import build_project
from opforge.twin.runtime.acl import runtime

SPEC = load_specs([ROOT / "op_proto" / "conv_tbc_backward.yaml"])[0]
COUNTERPARTS = {"grad_input": "input", "grad_weight": "weight", "grad_bias": "bias"}
CUBE_CORES = 24
KEEP, DOWN, FP16, HF32 = range(4)
F16, BF16, F32 = DTYPES.values()

reference = load_reference(SPEC.name)


def problem(time, batch, channels, taps=3, pad=1, *, kind=KEEP, dtype=np.float16, draw=values):
    """Return inputs and attributes of a call."""
    c_in, c_out = channels
    inputs = {
        "self": draw((time + 2 * pad + 1 - taps, batch, c_out), dtype, 1),
        "input": draw((time, batch, c_in), dtype, 2),
        "weight": draw((taps, c_in, c_out), dtype, 3),
        "bias": draw((c_out,), dtype, 4),
    }
    return inputs, {"pad": pad, "cube_math_type": kind}


def error_bounds(inputs, attrs):
    """Return, for each output, the formula in float64 and the maximum error of float32 sums and one rounding."""
    wide = {name: array.astype(np.float64) for name, array in inputs.items()}
    exact = reference(wide, attrs)
    magnitude = reference({name: np.abs(array) for name, array in wide.items()}, attrs)
    rows = inputs["self"].shape[0] * inputs["self"].shape[1]
    taps, _, c_out = inputs["weight"].shape
    # Each product and each partial sum is rounded, in any order of the cube.
    terms = {"grad_input": taps * c_out, "grad_weight": rows, "grad_bias": rows}
    return {
        name: (
            exact[name],
            rounded(exact[name], (terms[name] + 1) * 2.0**-24 * magnitude[name], inputs[COUNTERPARTS[name]].dtype),
        )
        for name in terms
    }


def agree(inputs, attrs, **options):
    """Run, compare every element with the formulas, and return the result."""
    result = run("ConvTbcBackward", inputs, attrs, **options)
    for name, (exact, bound) in error_bounds(inputs, attrs).items():
        assert result[name].dtype == inputs[COUNTERPARTS[name]].dtype
        assert_within(result[name], exact, bound)
    return result


def positive(shape, dtype, seed):
    return np.abs(values(shape, dtype, seed))


def small_integers(shape, dtype, seed):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("shape", SPEC.tests.shapes, ids=lambda shape: shape.note.replace(" ", "_"))
def test_shapes_of_the_spec(shape, dtype):
    symbols, attrs = dict(shape.symbols), dict(shape.attrs)
    channels = (symbols["Cin"], symbols["Cout"])
    agree(
        *problem(
            symbols["T"], symbols["B"], channels, symbols["K"], attrs["pad"], kind=attrs["cube_math_type"], dtype=dtype
        )
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_documented_tolerance_holds_without_cancellation(dtype):
    tolerance = SPEC.tests.tolerance[dtype]
    inputs, attrs = problem(40, 8, (64, 48), 5, 2, dtype=DTYPES[dtype], draw=positive)
    result, expected = run("ConvTbcBackward", inputs, attrs), reference(inputs, attrs)
    for name in expected:
        got, right = result[name].astype(np.float64), expected[name].astype(np.float64)
        np.testing.assert_allclose(got, right, rtol=tolerance.rtol, atol=tolerance.atol)


# Small integers: every product and sum is exact, so a missing or repeated element is detected.
@pytest.mark.parametrize("dtype", [F16, F32], ids=["float16", "float32"])
@pytest.mark.parametrize("channels", [(1, 1), (2, 1), (1, 97), (7, 8), (15, 17), (16, 33), (97, 2), (130, 200)])
def test_every_number_of_channels(channels, dtype):
    agree(*problem(9, 5, channels, dtype=dtype, draw=small_integers))


@pytest.mark.parametrize("dtype", [F16, F32], ids=["float16", "float32"])
@pytest.mark.parametrize(
    ("time", "batch", "taps", "pad"),
    [
        (1, 1, 1, 0),
        (1, 1, 3, 1),  # a single row, one tap
        (1, 40, 9, 4),
        (5, 3, 5, 0),  # a single step of self
        (2, 4, 9, 5),  # a kernel longer than the input
        (4, 7, 1, 3),  # more padding than kernel: self has rows that no tap uses
        (17, 1, 4, 3),
        (33, 1, 2, 0),
        (300, 1, 7, 3),
        (6, 300, 3, 1),
    ],
)
def test_every_shape_of_time(time, batch, taps, pad, dtype):
    agree(*problem(time, batch, (24, 20), taps, pad, dtype=dtype, draw=small_integers))


@pytest.mark.parametrize("pad", [0, 100, 127, 255])
def test_the_longest_kernel(pad):
    agree(*problem(260, 2, (16, 9), 255, pad))


# The document ends at 255. A tap and the padding are offsets of rows, which no field of an instruction contains.
@pytest.mark.parametrize(
    ("time", "taps", "pad"), [(260, 256, 3), (1, 300, 150), (3, 2, 255), (3, 2, 256), (2, 1, 1000)]
)
def test_kernel_and_padding_beyond_the_document(time, taps, pad):
    agree(*problem(time, 2, (16, 9), taps, pad, draw=small_integers))


@pytest.mark.parametrize(("name", "axis"), [(name, axis) for name in ("self", "input", "weight") for axis in range(3)])
@pytest.mark.parametrize("size", [2147483646, 2147483647])
def test_dimensions_up_to_the_limit_of_the_document(name, axis, size):
    sizes = {"T": 1, "B": 1, "Cin": 1, "Cout": 1, "K": 1}
    symbol = {"self": ("T", "B", "Cout"), "input": ("T", "B", "Cin"), "weight": ("K", "Cin", "Cout")}[name][axis]
    sizes[symbol] = size
    pad = size // 2 if symbol == "K" else 0
    shapes = {
        "self": (sizes["T"] + 2 * pad + 1 - sizes["K"], sizes["B"], sizes["Cout"]),
        "input": (sizes["T"], sizes["B"], sizes["Cin"]),
        "weight": (sizes["K"], sizes["Cin"], sizes["Cout"]),
        "bias": (sizes["Cout"],),
    }
    found = check(SPEC, Call(shapes, attrs={"pad": pad, "cube_math_type": 0}), with_outputs=False)
    if size == 2147483646:
        assert found is None
    else:
        label = "C19" if symbol == "K" else "C18" if symbol == "Cin" else "C17"
        assert found is not None
        assert (found.label, found.status, found.expected) == (label, 161002, "dimensions of at most 2147483646")


@pytest.mark.parametrize(("size", "status"), [(2147483646, 0), (2147483647, 161002)])
def test_the_first_phase_has_the_limit_too(size, status):
    element = np.zeros((1, 1, 1), np.float16)
    rows, one = np.broadcast_to(element, (size, 1, 1)), element[0, 0]
    acl = runtime()
    library = ctypes.CDLL(str(build_project(find_project(ROOT)).opapi))
    plan = library.aclnnConvTbcBackwardGetWorkspaceSize
    workspace, executor = ctypes.c_uint64(), ctypes.c_void_p()
    with ExitStack() as stack:
        tensors = [stack.enter_context(acl.tensor(array))[0] for array in (rows, rows, element, one, element, one)]
        # grad_input has less memory than needed: only the second phase would write to it.
        dims, dense = (ctypes.c_int64 * 3)(size, 1, 1), (ctypes.c_int64 * 3)(1, 1, 1)
        memory = stack.enter_context(acl.memory(2))
        grad_input = ctypes.c_void_p(acl.library.aclCreateTensor(dims, 3, 1, dense, 0, 2, dims, 3, memory))
        stack.callback(acl.library.aclDestroyTensor, grad_input)
        tensors.insert(4, grad_input)
        attributes = [ctypes.c_int64(0), ctypes.c_int8(0)]
        got = plan(*tensors[:4], *attributes, *tensors[4:], ctypes.byref(workspace), ctypes.byref(executor))
        message = acl.message()
        assert got == status, message
        if executor.value:
            acl.library.aclDestroyAclOpExecutor(executor)
    assert ("at most 2147483646 [C17]" in message) == (status != 0)


@pytest.mark.parametrize("time", [1, 4])
def test_a_kernel_without_taps(time):
    result = agree(*problem(time, 2, (8, 5), 0, 1))
    assert not result["grad_input"].any()
    assert result["grad_weight"].shape == (0, 8, 5)
    assert result["grad_bias"].any()


def test_a_large_batch():
    agree(*problem(3, 4096, (16, 16), 2, 1))


@pytest.mark.parametrize("time", [0, 3])
def test_empty_inputs(time):
    inputs, attrs = problem(time, 2, (8, 5) if time == 0 else (0, 5), 2, 3)
    result = agree(inputs, attrs)
    assert not result["grad_weight"].any()
    assert result["grad_bias"].any()


def test_no_taps():
    result = agree(*problem(4, 3, (20, 10), 0, 1))
    assert not result["grad_input"].any()


@pytest.mark.parametrize("channels", [(3, 70000), (70000, 3)])
def test_rows_further_apart_than_one_copy_can_say(channels):
    agree(*problem(2, 2, channels, 2, 1))


# float32 0, 1, 2, 3; bfloat16 and float16 for all four: from the table of the document.
@pytest.mark.parametrize("kind", [KEEP, DOWN, FP16, HF32])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_every_cube_math_type(dtype, kind):
    agree(*problem(30, 4, (40, 50), 3, 1, kind=kind, dtype=dtype))


def test_cube_math_types_differ_like_their_operands():
    inputs, attrs = problem(1, 1, (1, 1), 1, 0, dtype=F32)
    for name, bits in (("self", 0x3F800800), ("input", 0x3F801800), ("weight", 0x3F800FFF)):
        inputs[name][...] = np.uint32(bits).view(np.float32)
    got = {kind: run("ConvTbcBackward", inputs, attrs | {"cube_math_type": kind}) for kind in range(4)}
    # 11 bits: 1 + 2^-12 is halfway and goes down to the even 1, 1 + 3 * 2^-12 up to the even 1 + 2^-10.
    assert got[HF32]["grad_weight"] == np.float32(1 + 2.0**-10)
    assert got[HF32]["grad_input"] == np.float32(1 + 2.0**-11)
    assert got[DOWN]["grad_weight"] == got[HF32]["grad_weight"]
    assert got[FP16]["grad_weight"] == np.float32(1 + 2.0**-10)
    assert got[FP16]["grad_input"] == np.float32(1)
    assert got[KEEP]["grad_weight"] == inputs["self"][0, 0] * inputs["input"][0, 0]


@pytest.mark.parametrize("dtype", [BF16, F32], ids=["bfloat16", "float32"])
def test_float16_operands_overflow_to_infinity_and_results_do_not(dtype):
    inputs, attrs = problem(4, 2, (8, 8), 1, 0, kind=FP16, dtype=dtype, draw=positive)
    inputs["self"][0, 0, 0] = 70000
    inputs["weight"][:] = 60000
    result = run("ConvTbcBackward", inputs, attrs)
    assert np.all(result["grad_input"][0, 0].astype(np.float32) == np.inf)
    assert np.all(result["grad_input"][1:].astype(np.float32) > 65504)
    assert np.isfinite(result["grad_input"][1:].astype(np.float32)).all()
    assert np.isfinite(result["grad_bias"].astype(np.float32)).all()  # a sum, not a product


def test_nan_affects_only_rows_and_channels_of_its_element():
    inputs, attrs = problem(12, 2, (6, 5), 3, 1, draw=positive)
    inputs["self"][4, 1, 2] = np.nan
    inputs["input"][9, 0, 3] = np.inf
    result = run("ConvTbcBackward", inputs, attrs)
    hit = np.zeros((12, 2, 6), bool)
    hit[3:6, 1] = True  # rows 4 + k - pad
    np.testing.assert_array_equal(np.isnan(result["grad_input"]), hit)
    expected = np.zeros((3, 6, 5))
    expected[:, 3] = np.inf
    expected[:, :, 2] = np.nan
    got = result["grad_weight"].astype(np.float64)
    np.testing.assert_array_equal(np.where(np.isfinite(got), 0, got), expected)
    np.testing.assert_array_equal(np.isnan(result["grad_bias"]), np.arange(5) == 2)


def test_values_of_bias_do_not_matter():
    inputs, attrs = problem(5, 2, (4, 4))
    inputs["bias"][:] = np.nan
    agree({**inputs, "bias": np.zeros(4, np.float16)}, attrs)
    result = run("ConvTbcBackward", inputs, attrs)
    assert all(np.isfinite(result[name]).all() for name in COUNTERPARTS)


def test_sums_are_accumulated_in_fp32_and_rounded_to_even():
    inputs, attrs = problem(5, 1, (1, 2), 1, 0, draw=lambda shape, dtype, _: np.zeros(shape, dtype))
    inputs["weight"][...] = 1
    inputs["self"][0, 0], inputs["self"][1, 0] = [2048, 1], [2050, 1]  # 2049 and 2051 are halfway
    inputs["input"][:2, 0, 0] = 1
    inputs["self"][2:, 0, 1] = 2048
    result = run("ConvTbcBackward", inputs, attrs)
    np.testing.assert_array_equal(result["grad_input"][:2, 0, 0], [2048, 2052])
    np.testing.assert_array_equal(result["grad_weight"][0, 0], [4096, 2])  # 4098 is halfway
    np.testing.assert_array_equal(result["grad_bias"], [4096, 6144])  # 6146 is halfway


# A long sum with few results, and few long sums: partial sums of tiles are stored and merged.
@pytest.mark.parametrize(
    ("time", "batch", "channels", "taps"), [(2000, 8, (16, 16), 1), (40, 1, (30, 4000), 2), (700, 3, (50, 33), 4)]
)
@pytest.mark.parametrize("dtype", [F16, F32], ids=["float16", "float32"])
def test_sums_that_several_cores_share(time, batch, channels, taps, dtype):
    assert agree(*problem(time, batch, channels, taps, dtype=dtype)).report.blocks > 1


# grad_weight loads a packed copy of input; both products use the same slots in L1, or swap them; cells of a tile are
# next to each other; tiles have different numbers of channels.
@pytest.mark.parametrize(
    ("time", "batch", "channels", "taps", "dtype"),
    [
        (8, 16, (400, 256), 3, F16),
        (8, 16, (403, 1024), 1, F16),
        (16, 16, (304, 2048), 1, BF16),
        (16, 16, (608, 256), 1, F32),
    ],
)
def test_packed_rows_of_input(time, batch, channels, taps, dtype):
    result = agree(*problem(time, batch, channels, taps, taps // 2, dtype=dtype, draw=small_integers))
    # Without the copy, vector cores only write sums.
    assert (
        result.report.gm_bytes_written > sum(result[name].nbytes for name in COUNTERPARTS) + time * batch * channels[0]
    )


def test_loads_of_whole_requests():
    # The tiles have 64 columns. A load covers 128 columns: 512 bytes.
    agree(*problem(16, 8, (256, 384), 3, dtype=F32))


def test_right_operands_of_several_steps():
    # Operands of different steps use the same buffer of L1.
    agree(*problem(200, 16, (64, 64), 9, 4))


def test_slots_of_l0c_with_several_cells_are_used_again():
    # A core has many tiles of several cells, and two slots.
    agree(*problem(20, 4, (96, 96), 255, 127))


def test_products_with_other_slots_in_l1():
    agree(*problem(100, 4, (100, 500), 5, 2, dtype=F32))


def test_strided_inputs():
    inputs, attrs = problem(20, 3, (12, 10))
    doubled = {
        "self": np.repeat(inputs["self"], 2, axis=0)[::2],
        "input": np.ascontiguousarray(inputs["input"].transpose(1, 2, 0)).transpose(2, 0, 1),
        "weight": np.repeat(inputs["weight"], 3, axis=1)[:, ::3],
        "bias": np.repeat(inputs["bias"], 2)[::2],
    }
    assert not any(array.flags["C_CONTIGUOUS"] for array in doubled.values())
    agree(doubled, attrs)


def test_strided_outputs_keep_other_elements():
    inputs, attrs = problem(20, 3, (12, 10))
    buffers = {
        "grad_input": np.full((21, 4, 25), 9, np.float16),
        "grad_weight": np.full((3, 36, 11), 9, np.float16),
        "grad_bias": np.full(31, 9, np.float16),
    }
    views = {
        "grad_input": buffers["grad_input"][1:, :3, 1::2],
        "grad_weight": buffers["grad_weight"][:, ::3, :10],
        "grad_bias": buffers["grad_bias"][1::3],
    }
    agree(inputs, attrs, outputs=views)
    for name, view in views.items():
        view[...] = 9
        assert np.all(buffers[name] == 9)


def test_mixed_dtypes_are_promoted_and_results_cast():
    inputs, attrs = problem(20, 3, (12, 10), dtype=F32)
    mixed = {"self": F16, "input": F32, "weight": BF16, "bias": F16}
    own = {name: mixed[counterpart] for name, counterpart in COUNTERPARTS.items()}
    agree({name: inputs[name].astype(dtype) for name, dtype in mixed.items()}, attrs, out_dtypes=own)
    result = run("ConvTbcBackward", inputs, attrs, out_dtypes={"grad_input": F16, "grad_bias": BF16})
    assert result["grad_input"].dtype == F16
    assert result["grad_bias"].dtype == BF16
    assert result["grad_weight"].dtype == F32


@pytest.mark.parametrize("call", [problem(400, 6, (40, 50), 5, 2), problem(90, 40, (24, 16), kind=FP16, dtype=F32)])
def test_bits_do_not_depend_on_the_order_of_the_blocks(call):
    results = [
        run("ConvTbcBackward", *call, seed=seed, threads=threads) for seed, threads in [(1, 1), (2, 1), (3, 2), (4, 7)]
    ]
    assert results[0].report.blocks > 8
    for name in COUNTERPARTS:
        assert len({result[name].tobytes() for result in results}) == 1


def test_every_cube_core_of_a_product_is_used():
    for soc, cores in (("Ascend910B1", CUBE_CORES), ("Ascend910B4", 20), ("Ascend910_9372", 20)):
        assert agree(*problem(800, 6, (40, 50), 5, 2), soc=soc).report.blocks == cores
    assert agree(*problem(2, 2, (8, 8))).report.blocks == 1


@pytest.mark.parametrize(("channels", "is_noted"), [((128, 96), False), ((97, 97), True)])
def test_estimates_with_unaligned_rows_have_a_note(channels, is_noted):
    inputs, attrs = problem(64, 8, channels)
    reasons = run(SPEC.op_type, inputs, attrs, strict=False).report.outside_range
    assert any("rows that are not multiples of 32 bytes" in reason for reason in reasons) == is_noted


def test_traffic_is_little_more_than_one_pass():
    report = agree(*problem(64, 32, (256, 192), 3, 1), strict=False).report
    assert report.first_touch_bytes <= 2 * report.minimal_bytes


def changed(inputs=None, attrs=None, **shape):
    """Return a small call with some arguments changed."""
    arguments = {"time": 6, "batch": 2, "channels": (4, 5), "taps": 2, "pad": 0} | shape
    right_inputs, right_attrs = problem(**arguments)
    return right_inputs | (inputs or {}), right_attrs | (attrs or {})


def zeros(*shape):
    return np.zeros(shape, np.float16)


# For every constraint of ascend910b: a call that violates only this one, and a similar valid call.
RULES = [
    ("C1", 161001, changed({"bias": None}), changed()),
    ("C2", 161002, changed({"weight": np.zeros((2, 4, 5))}), changed(dtype=BF16)),
    ("C11", 161002, changed({"self": zeros(0, 2, 5)}), changed(time=2)),
    ("C12", 161002, changed({"bias": zeros(1, 5)}), changed()),
    ("C13", 161002, changed({}, {"pad": -1}), changed(pad=1)),
    ("C14", 161002, changed({"self": zeros(6, 2, 5)}), changed(time=7)),
    ("C14", 161002, changed({"weight": zeros(2, 3, 5)}), changed(channels=(3, 5))),
    ("C15", 161002, changed({}, {"cube_math_type": 4}), changed({}, {"cube_math_type": 3})),
    ("C15", 161002, changed({}, {"cube_math_type": -1}), changed({}, {"cube_math_type": 0})),
]


@pytest.mark.parametrize(("label", "status", "broken", "accepted"), RULES, ids=[rule[0] for rule in RULES])
def test_every_rule_has_its_status_and_an_accepted_neighbour(label, status, broken, accepted):
    with pytest.raises(AclnnError) as caught:
        run("ConvTbcBackward", *broken)
    assert caught.value.status == status
    assert caught.value.message.endswith(f"[{label}]")
    agree(*accepted)


def test_gradients_are_those_of_autograd():
    torch = pytest.importorskip("torch")
    inputs, attrs = problem(20, 3, (12, 10), 4, 2)
    x, weight, bias = (
        torch.tensor(inputs[name].astype(np.float64), requires_grad=True) for name in ("input", "weight", "bias")
    )
    torch.conv_tbc(x, weight, bias, attrs["pad"]).backward(torch.tensor(inputs["self"].astype(np.float64)))
    result = agree(inputs, attrs)
    for name, expected in (("grad_input", x.grad), ("grad_weight", weight.grad), ("grad_bias", bias.grad)):
        np.testing.assert_allclose(result[name].astype(np.float64), expected.numpy(), rtol=2e-3, atol=2e-2)


@st.composite
def problems(draw):
    pad = draw(st.integers(0, 6))
    taps = draw(st.integers(1, 12))
    time = max(1, taps - 2 * pad) + draw(st.sampled_from([0, 1, 5, 30, 200]))
    batch = draw(st.sampled_from([1, 2, 3, 8, 17, 64]))
    channels = (draw(st.sampled_from([1, 3, 16, 40, 97, 144])), draw(st.sampled_from([1, 2, 8, 33, 64, 150])))
    kind = draw(st.integers(0, 3))
    return problem(time, batch, channels, taps, pad, kind=kind, dtype=draw(st.sampled_from(list(DTYPES.values()))))


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(call=problems())
def test_any_problem(call):
    agree(*call)
