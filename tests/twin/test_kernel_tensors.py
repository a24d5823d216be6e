"""Operators on whole tensors, saturation, flags of two pipes and untyped buffers, against NumPy; planted errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from charged import DIV, TWO_OPERANDS, repeats, vector
from planted import Planted, kernels_of

HEAD = '#include "kernel_operator.h"\nusing namespace AscendC;\n'
# Loads two tensors, runs a statement on a, b and d, and stores d.
WHOLE = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR, GM_ADDR)
{
    TPipe pipe;
    TBuf<> aBuffer, bBuffer, dBuffer;
    pipe.InitBuffer(aBuffer, COUNT * sizeof(S));
    pipe.InitBuffer(bBuffer, COUNT * sizeof(S));
    pipe.InitBuffer(dBuffer, RESULTS * sizeof(D));
    GlobalTensor<S> xGm, yGm;
    GlobalTensor<D> zGm;
    xGm.SetGlobalBuffer((__gm__ S*)x, COUNT);
    yGm.SetGlobalBuffer((__gm__ S*)y, COUNT);
    zGm.SetGlobalBuffer((__gm__ D*)z, RESULTS);
    LocalTensor<S> a = aBuffer.Get<S>(), b = bBuffer.Get<S>();
    LocalTensor<D> d = dBuffer.Get<D>();
    DataCopyPadExtParams<S> none;
    DataCopyPad(a, xGm, DataCopyExtParams(1, COUNT * sizeof(S), 0, 0, 0), none);
    DataCopyPad(b, yGm, DataCopyExtParams(1, COUNT * sizeof(S), 0, 0, 0), none);
    SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
    STATEMENT
    SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
    DataCopyPad(zGm, d, DataCopyExtParams(1, RESULTS * sizeof(D), 0, 0, 0));
}
"""
DTYPES = {"half": np.float16, "float": np.float32, "int16_t": np.int16, "int32_t": np.int32, "uint16_t": np.uint16}
DTYPES["uint32_t"] = np.uint32
OPERATORS = {
    "+": (np.add, ("half", "float", "int16_t", "int32_t")),
    "-": (np.subtract, ("half", "float", "int16_t", "int32_t")),
    "*": (np.multiply, ("half", "float", "int16_t", "int32_t")),
    "/": (np.divide, ("half", "float")),
    "&": (np.bitwise_and, ("int16_t", "uint16_t", "int32_t", "uint32_t")),
    "|": (np.bitwise_or, ("int16_t", "uint16_t", "int32_t", "uint32_t")),
}
COMPARISONS = {
    "<": (np.less, ("half", "float")),
    ">": (np.greater, ("half", "float")),
    "<=": (np.less_equal, ("half", "float")),
    ">=": (np.greater_equal, ("half", "float")),
    "==": (np.equal, ("half", "float", "int32_t")),
    "!=": (np.not_equal, ("half", "float")),
}
COUNTS = (16, 80, 1024)


def _kernel(name, statement, source, count, result=None, results=None):
    text = WHOLE.replace("NAME", name).replace("STATEMENT", statement).replace("RESULTS", str(results or count))
    text = text.replace("COUNT", str(count)).replace("sizeof(S)", f"sizeof({source})").replace("<S>", f"<{source}>")
    text = text.replace("(__gm__ S*)", f"(__gm__ {source}*)")
    for before, after in (("sizeof(D)", "sizeof({})"), ("<D>", "<{}>"), ("(__gm__ D*)", "(__gm__ {}*)")):
        text = text.replace(before, after.format(result or source))
    return text


def _name(kind, index, dtype, count):
    return f"{kind}{index}_{dtype}_{count}"


BITS = "uint8_t"
WIDE_BITS = ("int8_t", "uint16_t", "uint32_t", "uint64_t")
SATURATED = {
    "to_half": ("float", "half", "Cast(d, a, RoundMode::CAST_RINT, COUNT);", np.float16),
    "to_bfloat16": ("float", "bfloat16_t", "Cast(d, a, RoundMode::CAST_RINT, COUNT);", ml_dtypes.bfloat16),
    "product": ("half", "half", "Mul(d, a, b, COUNT);", np.float16),
    "masked": (
        "half",
        "half",
        "Duplicate(d, half(0), COUNT); PipeBarrier<PIPE_V>(); Mul(d, a, b, 12, 3, {1, 1, 1, 1, 1, 1});",
        np.float16,
    ),
}
FLAGS = """
    TQueSync<PIPE_V, PIPE_MTE3> flag;
    Adds(d, a, 1.0f, 64);
    flag.SetFlag(EVENT_ID1);
    flag.WaitFlag(EVENT_ID1);
"""
UNTYPED = """
    TQueBind<TPosition::VECCALC, TPosition::VECCALC, 1> queue;
    pipe.InitBuffer(queue, 1, 256);
    LocalTensor<float> copy = queue.AllocTensor<float>();
    Adds(copy, a, 2.0f, 64);
    queue.EnQue(copy);
    TBufHandle handle = queue.DeQue();
    PipeBarrier<PIPE_V>();
    Muls(d, copy, 2.0f, 64);
    queue.FreeBuffer(handle);
"""
# A table in the global memory of the program.
TABLE = "constexpr __gm__ float TABLE[64] = {3.0f, 5.0f};\n"
CONSTANTS = """
    GlobalTensor<float> table;
    table.SetGlobalBuffer(const_cast<__gm__ float*>(TABLE), 64);
    PipeBarrier<PIPE_MTE2>();
    DataCopy(b, table, 64);
    SetFlag<HardEvent::MTE2_V>(EVENT_ID1);
    WaitFlag<HardEvent::MTE2_V>(EVENT_ID1);
    Add(d, a, b, 64);
"""
STORE = "GlobalTensor<float> table; table.SetGlobalBuffer(const_cast<__gm__ float*>(TABLE)); DataCopy(table, a, 64);"
PLANTED = [
    Planted("stored_constant", "d = a + b;", f"d = a + b; {STORE}", "input_written", "constants of the kernel"),
    Planted("short_operand", "d = a + b;", "d = a + b[8];", "ub_out_of_range", "256 bytes"),
    Planted("odd_operand", "d = a + b;", "d.SetSize(56); d = a + b[1];", "ub_misaligned", "multiple of 32"),
    Planted("no_barrier", "d = a + b;", "d = a + b; d = d + b;", "race", "PipeBarrier<PIPE_V>"),
    Planted("wide_value", "d = a + b;", "SetCtrlSpr<48, 48>(2); d = a + b;", "field_range", "0..1"),
    Planted(
        "casts_do_not_saturate",
        "d = a + b;",
        "SetSaturationFlag<SaturationMode::CAST>(false); d = a + b;",
        "field_range",
        "SetSaturationFlag: ",
    ),
    Planted("no_wait", "d = a + b;", "TQueSync<PIPE_V, PIPE_S> s; s.SetFlag(3); d = a + b;", "flag_left_set", "V_S"),
    Planted("other_pipe", "d = a + b;", "TPipe second, third; third = second; d = a + b;", "two_pipes", "second TPipe"),
    Planted("no_image", "d = a + b;", "SetLoadDataBoundary(1024); d = a + b;", "field_range", "boundaryValue"),
]


def _source():
    parts = [HEAD, TABLE]
    for index, (symbol, (_, dtypes)) in enumerate(OPERATORS.items()):
        for dtype in dtypes:
            parts += [_kernel(_name("op", index, dtype, n), f"d = a {symbol} b;", dtype, n) for n in COUNTS]
        parts.append(_kernel(f"short_op{index}", f"d = a {symbol} b[1008];", dtypes[0], 1024))
    for index, (symbol, (_, dtypes)) in enumerate(COMPARISONS.items()):
        parts += [_kernel(_name("cmp", index, d, 256), f"d = a {symbol} b;", d, 256, BITS, 32) for d in dtypes]
        parts.append(_kernel(f"short_cmp{index}", f"d = a {symbol} b[128];", dtypes[0], 256, BITS, 32))
    for bits in WIDE_BITS:
        count = 32 // np.dtype(bits.removesuffix("_t")).itemsize
        parts.append(_kernel(f"bits_{bits}", "d = a < b;", "float", 256, bits, count))
    for name, (source, result, call, _) in SATURATED.items():
        for mode in (0, 1):
            on = f"SetCtrlSpr<48, 48>({mode}); {call} [[maybe_unused]] bool is = GetCtrlSpr<48, 48>() == {mode};"
            other = f"SetSaturationFlag<SaturationMode::FLOAT>({1 - mode}); {call}"
            parts.append(_kernel(f"sat_{name}_{mode}", on, source, 48, result))
            parts.append(_kernel(f"flag_{name}_{mode}", other, source, 48, result))
    parts.append(_kernel("flags", FLAGS, "float", 64))
    parts.append(_kernel("untyped", UNTYPED, "float", 64))
    parts.append(_kernel("constants", CONSTANTS, "float", 64))
    parts += kernels_of(_kernel("NAME", "d = a + b;", "float", 64), "clean", PLANTED)
    return "".join(parts)


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(_source())


def _values(dtype, count, seed):
    random = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.floating):
        return random.choice(np.array([-3.5, -1.0, 0.25, 1.0, 2.0, 7.75]), count).astype(dtype)
    return random.integers(0, 120, count).astype(dtype)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(("index", "symbol"), list(enumerate(OPERATORS)))
def test_operators_compute_whole_tensors(kernels, index, symbol, count):
    function, dtypes = OPERATORS[symbol]
    for dtype in dtypes:
        a, b = (_values(DTYPES[dtype], count, seed) for seed in (1, 2))
        d = np.zeros(count, DTYPES[dtype])
        cycles = kernels.cycles(_name("op", index, dtype, count), a, b, d)
        del cycles["DataCopyPad"]
        if count == COUNTS[-1]:  # the operands begin in one bank group
            each = DIV if symbol == "/" else TWO_OPERANDS
            assert list(cycles.values()) == pytest.approx([vector(repeats(count, d.itemsize), each)])
        np.testing.assert_array_equal(d, function(a, b))


@pytest.mark.parametrize(("index", "symbol"), list(enumerate(COMPARISONS)))
def test_comparisons_give_bits(kernels, index, symbol):
    function, dtypes = COMPARISONS[symbol]
    for dtype in dtypes:
        a, b = (_values(DTYPES[dtype], 256, seed) for seed in (1, 2))
        d = np.zeros(32, np.uint8)
        cycles = kernels.cycles(_name("cmp", index, dtype, 256), a, b, d)
        assert cycles["Compare"] == pytest.approx(vector(repeats(256, a.itemsize)))
        np.testing.assert_array_equal(np.unpackbits(d, bitorder="little"), function(a, b))


@pytest.mark.parametrize(
    "name", [f"op{i}" for i in range(len(OPERATORS))] + [f"cmp{i}" for i in range(len(COMPARISONS))]
)
def test_an_operator_needs_enough_elements(kernels, record_planted, name):
    kind, index = name.rstrip("0123456789"), int(name.lstrip("opcm"))
    _, dtypes = list((OPERATORS if kind == "op" else COMPARISONS).values())[index]
    count = 1024 if kind == "op" else 256
    a, b = (_values(DTYPES[dtypes[0]], count, seed) for seed in (1, 2))
    d = np.zeros(count, a.dtype) if kind == "op" else np.zeros(32, np.uint8)
    (finding,) = kernels.launch(f"short_{name}", a, b, d)["findings"]
    assert finding["kind"] == "ub_out_of_range"
    record_planted(f"operator {list(OPERATORS if kind == 'op' else COMPARISONS)[index]}", finding)


@pytest.mark.parametrize("bits", WIDE_BITS)
def test_bits_of_a_comparison_fit_any_unsigned_type(kernels, bits):
    a, b = (_values(np.float32, 256, seed) for seed in (1, 2))
    d = np.zeros(32, np.uint8)
    kernels.run(f"bits_{bits}", a, b, d)
    np.testing.assert_array_equal(np.unpackbits(d, bitorder="little"), a < b)


@pytest.mark.parametrize("prefix", ["sat", "flag"])
@pytest.mark.parametrize("name", SATURATED)
@pytest.mark.parametrize("mode", [0, 1])
def test_saturation_replaces_infinities_and_nan(kernels, name, mode, prefix):
    source, _, _, dtype = SATURATED[name]
    a = np.resize(np.array([1.5, np.inf, -np.inf, np.nan, 3e4, -2.0]), 48).astype(DTYPES[source])
    b = np.full(48, 4, DTYPES[source])
    d = np.zeros(48, dtype)
    kernels.run(f"{prefix}_{name}_{mode}", a, b, d)
    with np.errstate(over="ignore"):
        expected = (a.astype(np.float32) * (1 if name.startswith("to") else 4)).astype(dtype)
    if not mode:
        most = ml_dtypes.finfo(dtype).max
        wide = expected.astype(np.float32)
        wide = np.where(np.isnan(wide), 0, np.clip(wide, -np.float32(most), np.float32(most)))
        expected = wide.astype(dtype)
    if name == "masked":  # the first 12 elements of each 16
        expected.reshape(3, 16)[:, 12:] = 0
    np.testing.assert_array_equal(d.view(np.uint16), expected.view(np.uint16))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("flags", lambda a: a + 1),
        ("untyped", lambda a: (a + 2) * 2),
        ("constants", lambda a: a + np.array([3.0, 5.0] + [0.0] * 62, np.float32)),
    ],
)
def test_flags_and_buffers_without_types(kernels, name, expected):
    a, b, d = _values(np.float32, 64, 1), np.zeros(64, np.float32), np.zeros(64, np.float32)
    kernels.run(name, a, b, d)
    np.testing.assert_array_equal(d, expected(a))


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_error_is_found(kernels, planted, record_planted):
    a, b, d = (np.ones(64, np.float32) for _ in range(3))
    found = kernels.launch(planted.name, a, b, d)["findings"]
    assert found
    record_planted(planted.name, found[0])
    assert (found[0]["kind"], planted.message in found[0]["message"]) == (planted.kind, True), found
