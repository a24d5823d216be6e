"""Test the aclnn functions of all operators up to the kernel: each constraint, its status, and a similar valid call.

Without a kernel, a valid call ends with 561003 and a message; with a kernel, it succeeds.
"""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from opforge.codegen.project import find_project
from opforge.twin import AclnnError, run

ROOT = Path(__file__).resolve().parent.parent
F16, F32, BF16 = np.float16, np.float32, ml_dtypes.bfloat16


def zeros(*shape, dtype=F16):
    return np.zeros(shape, dtype)


def batch_norm(dtype=F16):
    inputs = {"grad_out": zeros(2, 3, 4, dtype=dtype), "input": zeros(2, 3, 4, dtype=dtype)}
    inputs |= {name: zeros(3, dtype=F32) for name in ("mean", "invstd", "weight", "sum_dy", "sum_dy_xmu")}
    return inputs | {"counter": np.array([[8]], np.int32)}, {}


def conv_tbc(dtype=F16):
    inputs = {"self": zeros(7, 2, 5, dtype=dtype), "input": zeros(6, 2, 4, dtype=dtype)}
    inputs |= {"weight": zeros(2, 4, 5, dtype=dtype), "bias": zeros(5, dtype=dtype)}
    return inputs, {"pad": 1, "cube_math_type": 0}


def embedding(dtype=F16):
    inputs = {"grad": zeros(2, 3, 4, dtype=dtype), "indices": np.zeros((6,), np.int32)}
    return inputs, {"num_weights": 9, "padding_idx": -1, "scale_grad_by_freq": False}


def nsa(dtype=F16):
    inputs = {"output_grad": zeros(3, 2, 8, dtype=dtype), "input": zeros(80, 2, 8, dtype=dtype)}
    inputs |= {"weight": zeros(32, 2, dtype=dtype), "act_seq_len": [48, 80]}
    return inputs, {"compress_block_size": 32, "compress_stride": 16, "act_seq_len_type": 0, "layout": "TND"}


CALLS = {
    "BatchNormElemtBackward": batch_norm,
    "ConvTbcBackward": conv_tbc,
    "EmbeddingDenseBackward": embedding,
    "NsaCompressGrad": nsa,
}


def call(op_type, inputs=(), attrs=(), outputs=None, soc="Ascend910B1", **options):
    good_inputs, good_attrs = CALLS[op_type]()
    project = find_project(ROOT)
    everything = {**good_inputs, **dict(inputs)}
    return run(op_type, everything, {**good_attrs, **dict(attrs)}, outputs=outputs, soc=soc, project=project, **options)


def accepted(op_type, *args, **options):
    """Return whether the checks accept a call."""
    if (ROOT / "op_kernel" / f"{find_name(op_type)}.h").is_file():
        call(op_type, *args, **options)
        return True
    with pytest.raises(AclnnError) as caught:
        call(op_type, *args, **options)
    assert caught.value.status == 561003, caught.value
    assert "no kernel" in str(caught.value)
    return True


def find_name(op_type):
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in op_type).lstrip("_")


def refused(op_type, *args, **options):
    with pytest.raises(AclnnError) as caught:
        call(op_type, *args, **options)
    return caught.value.status, str(caught.value)


@pytest.mark.parametrize("op_type", CALLS)
@pytest.mark.parametrize("dtype", [F16, BF16, F32])
def test_good_calls_pass_the_checks(op_type, dtype):
    if dtype is F32 and op_type == "NsaCompressGrad":
        pytest.skip("the operator takes half types alone")
    assert accepted(op_type, CALLS[op_type](dtype)[0])


# Operator, inputs, attributes, outputs, SoC.
NEIGHBOURS = [
    ("BatchNormElemtBackward", {"weight": None}, {}),
    ("BatchNormElemtBackward", {"input": zeros(2, 3, 4, dtype=F32), "mean": zeros(3)}, {}),
    ("BatchNormElemtBackward", {"counter": zeros(2, 2)}, {}),
    ("ConvTbcBackward", {"input": zeros(6, 2, 4, dtype=F32), "bias": zeros(5, dtype=BF16)}, {"cube_math_type": 3}),
    ("EmbeddingDenseBackward", {"indices": np.zeros((3, 2), bool)}, {"padding_idx": 2**40}),
    ("EmbeddingDenseBackward", {"indices": np.zeros((3, 2), np.float64)}, {"scale_grad_by_freq": True}),
    ("EmbeddingDenseBackward", {"grad": zeros(5, 0), "indices": np.zeros(2, np.int64)}, {}),
    ("NsaCompressGrad", {"act_seq_len": [0, 48, 48, 80]}, {}),
    ("NsaCompressGrad", {"act_seq_len": [48, 32]}, {"act_seq_len_type": 1}),
    ("NsaCompressGrad", {"act_seq_len": None, "output_grad": zeros(4, 2, 8)}, {}),
    ("NsaCompressGrad", {"act_seq_len": [], "output_grad": zeros(4, 2, 8)}, {}),
]


@pytest.mark.parametrize(("op_type", "inputs", "attrs"), NEIGHBOURS)
def test_documented_freedom_is_accepted(op_type, inputs, attrs):
    if op_type == "EmbeddingDenseBackward" and inputs.get("grad") is not None:
        assert call(op_type, inputs, attrs)["grad_weight"].shape == (9, 0), "an empty output needs no kernel"
    else:
        assert accepted(op_type, inputs, attrs)


@pytest.mark.parametrize("op_type", ["BatchNormElemtBackward", "ConvTbcBackward", "EmbeddingDenseBackward"])
def test_outputs_may_have_another_float_dtype(op_type):
    outputs = {"BatchNormElemtBackward": "grad_input", "ConvTbcBackward": "grad_bias"}
    assert accepted(op_type, out_dtypes={outputs.get(op_type, "grad_weight"): np.float32})
    status, message = refused(op_type, out_dtypes={outputs.get(op_type, "grad_weight"): np.int32})
    assert status == 161002, message


REFUSED = [
    ("BatchNormElemtBackward", {"counter": None}, {}, 161001, "counter: got null"),
    ("BatchNormElemtBackward", {"mean": np.zeros(3)}, {}, 161002, "mean: got float64, expected float32, float16 or"),
    ("BatchNormElemtBackward", {"input": zeros(2)}, {}, 161002, "input: got shape [2], expected 2 to 8 dimensions"),
    ("BatchNormElemtBackward", {"input": zeros(2, 3)}, {}, 161002, "expected [N, C, *S] = [2, 3, 4]"),
    ("BatchNormElemtBackward", {"weight": zeros(4)}, {}, 161002, "weight: got shape [4], expected [C] = [3]"),
    (
        "BatchNormElemtBackward",
        {"grad_out": zeros(2, 0), "input": zeros(2, 0), "mean": zeros(0)},
        {},
        161002,
        "expected at least one channel",
    ),
    ("ConvTbcBackward", {"bias": None}, {}, 161001, "bias: got null"),
    ("ConvTbcBackward", {"weight": np.zeros((2, 4, 5))}, {}, 161002, "weight: got float64"),
    (
        "ConvTbcBackward",
        {"self": zeros(0, 2, 5)},
        {},
        161002,
        "self: got shape [0, 2, 5], expected at least one element",
    ),
    ("ConvTbcBackward", {"bias": zeros(1, 5)}, {}, 161002, "bias: got shape [1, 5], expected 1 dimension [Cout]"),
    ("ConvTbcBackward", {}, {"pad": -1}, 161002, "pad: got -1, expected at least 0"),
    ("ConvTbcBackward", {}, {"pad": 2}, 161002, "[T + 2*pad + 1 - K, B, Cout] = [9, 2, 5]"),
    ("ConvTbcBackward", {"weight": zeros(20, 4, 5)}, {}, 161002, "T + 2*pad + 1 - K = -11"),
    ("ConvTbcBackward", {}, {"cube_math_type": 4}, 161002, "cube_math_type: got 4, expected 0, 1, 2 or 3"),
    ("EmbeddingDenseBackward", {"grad": None}, {}, 161001, "grad: got null"),
    ("EmbeddingDenseBackward", {"indices": zeros(6, dtype=BF16)}, {}, 161002, "indices: got bfloat16"),
    ("EmbeddingDenseBackward", {"indices": np.zeros(5, np.int32)}, {}, 161002, "as many indices as grad has rows"),
    ("NsaCompressGrad", {"input": None}, {}, 161001, "input: got null"),
    ("NsaCompressGrad", {"input": zeros(80, 2, 8, dtype=F32)}, {}, 161002, "input: got float32, expected float16"),
    ("NsaCompressGrad", {"weight": zeros(32)}, {}, 161002, "expected 2 dimensions [compress_block_size, N]"),
    ("NsaCompressGrad", {"weight": zeros(16, 2)}, {}, 161002, "weight: got shape [16, 2]"),
    ("NsaCompressGrad", {"weight": zeros(40, 2)}, {"compress_block_size": 40}, 161002, "expected a multiple of 16"),
    (
        "NsaCompressGrad",
        {},
        {"compress_stride": 8},
        161002,
        "compress_stride: got 8, expected a positive multiple of 16",
    ),
    ("NsaCompressGrad", {}, {"compress_stride": 0}, 161002, "compress_stride: got 0"),
    ("NsaCompressGrad", {}, {"compress_stride": 32}, 161002, "compress_block_size: got 32, expected more than"),
    ("NsaCompressGrad", {}, {"act_seq_len_type": 2}, 161002, "act_seq_len_type: got 2, expected 0 or 1"),
    ("NsaCompressGrad", {}, {"layout": "BSH"}, 161002, "layout: got BSH, expected TND"),
    (
        "NsaCompressGrad",
        {"act_seq_len": [50, 48, 80]},
        {},
        161002,
        "act_seq_len: got [50, 48, 80], expected non-decreasing ends",
    ),
    ("NsaCompressGrad", {"act_seq_len": [48, 79]}, {}, 161002, "expected the rows of input as last end"),
    ("NsaCompressGrad", {"act_seq_len": [-48, 128]}, {"act_seq_len_type": 1}, 161002, "lengths of at least 0"),
    ("NsaCompressGrad", {"act_seq_len": [48, 31]}, {"act_seq_len_type": 1}, 161002, "as sum"),
    (
        "NsaCompressGrad",
        {"act_seq_len": [40, 80]},
        {},
        161002,
        "output_grad: got shape [3, 2, 8], expected one row for",
    ),
    ("NsaCompressGrad", {"act_seq_len": None}, {}, 161002, "expected one row for each window"),
    ("NsaCompressGrad", {"act_seq_len": [10] * 8}, {"act_seq_len_type": 1}, 161002, "output_grad: got shape [3, 2, 8]"),
]


@pytest.mark.parametrize(("op_type", "inputs", "attrs", "status", "text"), REFUSED)
def test_each_condition_has_its_status_and_message(op_type, inputs, attrs, status, text):
    got, message = refused(op_type, inputs, attrs)
    assert got == status, message
    assert text in message


@pytest.mark.parametrize("op_type", ["BatchNormElemtBackward", "ConvTbcBackward", "EmbeddingDenseBackward"])
def test_ascend910_has_no_bfloat16(op_type):
    status, message = refused(op_type, CALLS[op_type](BF16)[0], soc="Ascend910A")
    assert status == 161002, message
    assert "got bfloat16, expected no bfloat16" in message


def test_constraints_of_ascend910_only():
    single = conv_tbc(F32)[0]
    for kind in (0, 3):
        status, message = refused("ConvTbcBackward", single, {"cube_math_type": kind}, soc="Ascend910A")
        assert status == 161002, message
        assert "expected 1 or 2 for float32" in message
    # 30522 rows on 32 cores: counts of 953 + 26 rows. Wide indices, and those that are cast to them, need wide counts.
    for dtype, columns in ((np.int32, 4896), (np.float32, 4896), (np.int64, 8617), (np.float64, 8617)):
        width = columns + 1
        inputs = {"grad": zeros(1, width), "indices": np.zeros(1, dtype)}
        attrs = {"num_weights": 30522, "scale_grad_by_freq": True}
        status, message = refused("EmbeddingDenseBackward", inputs, attrs, soc="Ascend910A")
        assert status == 561002
        # Messages of the host functions of the package reach the application, not only stderr.
        reason = f"got shape [1, {width}], expected a last dimension of at most {columns} [C"
        assert reason in message.split("refused the call")[0]
