"""Test the contexts of operator host functions: IR indices, attributes, values, unknown shapes."""

from __future__ import annotations

import struct

import numpy as np
import pytest

FIELDS = (
    "rows",
    "width",
    "input_instances",
    "second_instance_rank",
    "has_bias",
    "bias_dtype",
    "limit_count",
    "limit_sum",
    "axes_sum",
    "mode_length",
    "vector_cores",
    "factor",
    "is_overrun",
)
FLOAT, FLOAT16, INT64 = 0, 1, 9


def tiling_of(answer):
    return dict(zip(FIELDS, struct.unpack("=11qfI", bytes.fromhex(answer["data"])), strict=True))


def test_all_inputs(host_call):
    limit = np.array([3, 4], np.int64)
    call = host_call().input([5, 8]).input([8], FLOAT16).input([2], INT64, limit).output([5, 8])
    answer = call.attributes(0.5, "plain", [10, 20, 30]).tile()
    assert (answer["tiling_key"], answer["block_dim"], answer["schedule_mode"]) == (7, 5, 0)
    assert answer["workspaces"] == [(16 << 20) + 1000]
    assert tiling_of(answer) == {
        "rows": 5,
        "width": 8,
        "input_instances": 3,
        "second_instance_rank": 1,
        "has_bias": 1,
        "bias_dtype": FLOAT16,
        "limit_count": 2,
        "limit_sum": 7,
        "axes_sum": 60,
        "mode_length": 5,
        "vector_cores": 48,
        "factor": 0.5,
        "is_overrun": 0,
    }


def test_absent_optional_input_shifts_instances_but_no_ir_index(host_call):
    limit = np.array([[5]], np.int64)
    call = host_call().input([5, 8]).input(None).input([1, 1], INT64, limit).output([5, 8])
    seen = tiling_of(call.attributes().tile())
    assert (seen["input_instances"], seen["has_bias"], seen["limit_count"], seen["limit_sum"]) == (2, 0, 1, 5)
    assert seen["second_instance_rank"] == 2  # the next instance after x is `limit`


def test_absent_inputs_at_the_end(host_call):
    call = host_call().input([2, 8]).input(None).input(None).output([2, 8])
    seen = tiling_of(call.attributes().tile())
    assert (seen["input_instances"], seen["second_instance_rank"], seen["limit_count"]) == (1, -1, -2)


def test_values_on_the_device_are_not_readable(host_call):
    call = host_call().input([2, 8]).input(None).input([1], INT64).output([2, 8])
    assert tiling_of(call.attributes().tile())["limit_count"] == -1


def test_missing_attributes_have_their_defaults(host_call):
    call = host_call().input([2, 8]).input(None).input(None).output([2, 8])
    seen = tiling_of(call.attributes(1.0, "").tile())
    assert (seen["axes_sum"], seen["mode_length"]) == (3, 0)


def test_cores_are_those_of_the_soc(host_call, acl):
    acl.set_option("soc", "Ascend910B4")
    call = host_call().input([100, 8]).input(None).input(None).output([100, 8])
    answer = call.attributes().tile()
    assert answer["block_dim"] == 40
    assert tiling_of(answer)["vector_cores"] == 40


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([[2, 8], None], "got 2 inputs and 1 outputs, expected 3 and 1"),
        ([None, None, None], "x: got nothing, expected a tensor"),
    ],
)
def test_calls_that_do_not_fit_the_definition(host_call, inputs, message):
    call = host_call()
    for dims in inputs:
        call.input(dims)
    assert message in call.output([2, 8]).attributes().tile()["error"]


def test_attribute_of_another_type(host_call, acl):
    call = host_call().input([2, 8]).input(None).input(None).output([2, 8])
    acl.library.opforgeTwinAddInt(call.call, 3)
    assert "attribute factor: got an int, expected a float" in call.tile()["error"]


def test_required_attribute(host_call, acl):
    call = host_call().input([2, 8]).input(None).input(None).output([2, 8])
    acl.library.opforgeTwinAddDefault(call.call)
    assert "attribute factor is required" in call.tile()["error"]


@pytest.mark.parametrize("dims", [[3, 4], [-1, 4], [-1, -1], [-2], []])
def test_inferred_shapes_keep_unknown_dims(host_call, dims):
    call = host_call().input(dims, FLOAT16).input(None).input(None)
    assert call.attributes().infer() == {"outputs": [{"dims": dims, "dtype": FLOAT16}]}


def test_inference_that_refuses(host_call):
    call = host_call().input([3, 4]).input([5]).input(None)
    assert "shape inference function refused" in call.attributes().infer()["error"]


@pytest.mark.parametrize(
    ("dims", "ends", "expected"),
    [
        ([5, 8], None, {"lowest": [4, 8], "highest": [5, 8]}),
        ([-1, 8], None, {"lowest": [-1, 8], "highest": [-1, 8]}),
        ([-1, 8], ([3, 8], [7, 8]), {"lowest": [2, 8], "highest": [7, 8]}),
    ],
)
def test_inferred_ranges_of_shapes(host_call, dims, ends, expected):
    call = host_call().input(dims)
    if ends is not None:
        call.between(*ends)
    assert call.input(None).input(None).attributes().infer_range() == {"outputs": [expected]}


def test_range_inference_that_refuses(host_call):
    call = host_call().input([5, 8]).input([8]).input(None).attributes()
    assert "shape range inference function refused" in call.infer_range()["error"]


def test_unregistered_operator(host_call):
    assert host_call("NoSuchOperator").infer() == {"error": "NoSuchOperator: nothing is registered"}


def test_folder_without_a_package(acl, tmp_path):
    assert acl.library.opforgeTwinLoadPackage(str(tmp_path / "missing").encode()) == 2
    assert "expected a vendor directory" in acl.message()
