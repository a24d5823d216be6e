"""Test checks and shape inference against the documented rules."""

import pytest

from opforge.codegen.spec.semantics import Call, ShapeInferenceError, TensorType, check, infer

INDEXED = {"grad_y": (8, 6), "group_idx": (3,), "grad_bias": (3, 6)}
EQUAL = {"grad_y": (3, 4, 6), "grad_bias": (3, 6)}
DTYPES_OF_CALL = {"grad_y": "float16", "group_idx": "int32", "grad_bias": "float16"}


def changed(base, **changes):
    merged = {**base, **changes}
    return {name: value for name, value in merged.items() if value != "absent"}


def test_valid_calls_violate_no_constraint(grouped):
    for shapes in (INDEXED, EQUAL, changed(EQUAL, grad_y=(3, 0, 6)), changed(INDEXED, grad_y=(0, 6))):
        assert check(grouped, Call(shapes, DTYPES_OF_CALL)) is None
    assert check(grouped, Call(changed(EQUAL, grad_y=(4000, 2, 6), grad_bias=(4000, 6)))) is None, (
        "no limit without idx"
    )
    assert check(grouped, Call(INDEXED, DTYPES_OF_CALL, {"group_idx_type": 1})) is None


# One row per condition in the constraint table of the operator.
@pytest.mark.parametrize(
    ("shapes", "dtypes", "attrs", "status", "message"),
    [
        ({"grad_y": "absent"}, {}, {}, 161001, "grad_y: got null, expected a tensor [C1]"),
        ({"grad_bias": "absent"}, {}, {}, 161001, "grad_bias: got null, expected a tensor [C1]"),
        ({}, {"grad_y": "int8"}, {}, 161002, "grad_y: got int8, expected float16, bfloat16 or float32 [C2]"),
        ({}, {"group_idx": "uint8"}, {}, 161002, "group_idx: got uint8, expected int32 or int64 [C2]"),
        (
            {},
            {"grad_bias": "float32"},
            {},
            161002,
            "grad_bias: got float32, expected float16, the dtype of grad_y [C2]",
        ),
        (
            {"grad_y": (8,)},
            {},
            {},
            161002,
            "grad_y: got shape [8], expected 2 dimensions [T, H] if present(group_idx) [C3]",
        ),
        (
            {"group_idx": "absent"},
            {},
            {},
            161002,
            "grad_y: got shape [8, 6], expected 3 dimensions [G, C, H] if not present(group_idx) [C3]",
        ),
        ({"group_idx": (1, 3)}, {}, {}, 161002, "group_idx: got shape [1, 3], expected 1 dimension [G] [C3]"),
        ({"grad_bias": (18,)}, {}, {}, 161002, "grad_bias: got shape [18], expected 2 dimensions [G, H] [C3]"),
        (
            {"group_idx": (2049,), "grad_bias": (2049, 6)},
            {},
            {},
            161002,
            "group_idx: got shape [2049], expected at most 2048 values [C4]",
        ),
        ({"grad_bias": (3, 7)}, {}, {}, 161002, "grad_bias: got shape [3, 7], expected [G, H] = [3, 6] [C5]"),
        ({}, {}, {"group_idx_type": 2}, 161002, "group_idx_type: got 2, expected 0 or 1 [C6]"),
        ({}, {}, {"group_idx_type": -1}, 161002, "group_idx_type: got -1, expected 0 or 1 [C6]"),
    ],
)
def test_each_constraint_has_its_status_and_message(grouped, shapes, dtypes, attrs, status, message):
    violation = check(grouped, Call(changed(INDEXED, **shapes), {**DTYPES_OF_CALL, **dtypes}, attrs))
    assert violation is not None
    assert violation.message == f"GroupedBiasAddGrad: {message}"
    assert violation.status == status


@pytest.mark.parametrize(("dtype", "limit", "label"), [("int32", 4896, "C9"), ("int64", 8617, "C10")])
def test_a_message_names_the_limit(operators, dtype, limit, label):
    """30522 rows on 32 cores: a table of 953 + 26 counts, and 36 (20) bytes per column in the rest of 180191 bytes."""
    spec = operators["embedding_dense_backward"]
    attrs = {"num_weights": 30522, "scale_grad_by_freq": True}
    for width, expected in ((limit, None), (limit + 1, f"a last dimension of at most {limit}")):
        shapes = {"grad": (5, width), "indices": (5,)}
        dtypes = {"grad": "float16", "indices": dtype}
        violation = check(spec, Call(shapes, dtypes, attrs, product="ascend910", cores=32), with_outputs=False)
        assert (violation and (violation.expected, violation.label)) == (expected and (expected, label))


def test_first_of_two_violated_constraints_is_reported(grouped):
    shapes = changed(INDEXED, group_idx=(2049,), grad_bias=(3, 7))
    assert check(grouped, Call(shapes, {**DTYPES_OF_CALL, "grad_y": "int8"}, {"group_idx_type": 7})).label == "C2"
    assert check(grouped, Call(shapes, DTYPES_OF_CALL, {"group_idx_type": 7})).label == "C4"
    assert check(grouped, Call(changed(INDEXED, grad_bias=(3, 7)), DTYPES_OF_CALL, {"group_idx_type": 7})).label == "C5"


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ({"grad_y": (8, 6), "group_idx": (3,)}, (3, 6)),
        ({"grad_y": (-1, 6), "group_idx": (None,)}, (-1, 6)),
        ({"grad_y": None, "group_idx": (3,)}, (3, -1)),
        ({"grad_y": (8, -1), "group_idx": None}, (-1, -1)),
        ({"grad_y": (5, -1, 7)}, (5, 7)),
        ({"grad_y": None}, (-1, -1)),
        ({"grad_y": (0, 6), "group_idx": (0,)}, (0, 6)),
    ],
)
def test_inference(grouped, shapes, expected):
    assert infer(grouped, Call(shapes, {"grad_y": "bfloat16"})) == {"grad_bias": TensorType(expected, "bfloat16")}


def test_inference_rejects_known_violations(grouped):
    with pytest.raises(ShapeInferenceError) as caught:
        infer(grouped, Call({"grad_y": (8, 6, 4), "group_idx": None}))
    assert caught.value.label == "C3"
    with pytest.raises(ShapeInferenceError, match="at most 2048 values"):
        infer(grouped, Call({"grad_y": (-1, 6), "group_idx": (4096,)}))


def test_an_attribute_beyond_64_bits_is_refused(grouped):
    shapes, dtypes = {"grad_y": (3, 4, 6), "grad_bias": (3, 6)}, {"grad_y": "float16", "grad_bias": "float16"}
    for value in (2**63, -(2**63) - 1):
        call = Call(shapes, dtypes, {"group_idx_type": value})
        message = f"GroupedBiasAddGrad: group_idx_type: got {value}, expected an integer of 64 bits [C2]"
        violation = check(grouped, call)
        assert violation is not None
        assert (violation.message, violation.status) == (message, 161002)
        with pytest.raises(ShapeInferenceError) as caught:
            infer(grouped, call, with_checks=False)
        assert str(caught.value) == message


def test_computed_dimensions(specimen):
    shapes = {"x": (10, 32), "scale": (10,), "index": (3, 2)}
    types = infer(specimen, Call(shapes, {"x": "float32"}, {"pad": 2}))
    assert types == {"y": TensorType((12, 32), "float32"), "count": TensorType((16,), "int64")}
    for pad, text in ((0, "result of D // pad,"), (2**62, r"result of N \+ 2\*pad \+ 1 - K,")):
        with pytest.raises(ShapeInferenceError, match=text):
            infer(specimen, Call(shapes, {}, {"pad": pad}))
    with pytest.raises(ShapeInferenceError, match="= -85, expected a dimension of at least 0"):
        infer(specimen, Call({**shapes, "index": (100, 2)}, {}, {"pad": 2}))


def test_a_missing_required_attribute_is_unknown(specimen):
    shapes = {"x": (10, 32), "scale": (10,), "index": (3, 2)}
    with pytest.raises(ShapeInferenceError, match="none of the cases"):
        infer(specimen, Call(shapes))
    assert infer(specimen, Call({"x": (4,), "index": (4, 4)}))["y"].shape == (64,)
