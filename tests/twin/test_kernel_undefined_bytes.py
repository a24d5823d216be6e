"""Level device: which bytes of a result are undefined if some bytes of an element are."""

import itertools

import numpy as np
import pytest

from opforge.twin.runtime.launch import launch

# Stores `count` bytes of a result; the first `defined` bytes of each operand come from global memory.
INSTRUCTIONS = """#include "kernel_operator.h"
using namespace AscendC;

template <typename T>
__aicore__ inline void Shift(const LocalTensor<uint8_t>& to, const LocalTensor<uint8_t>& from, int32_t which, T bits)
{
    if (which == 0) {
        ShiftLeft(to.ReinterpretCast<T>(), from.ReinterpretCast<T>(), bits, 8);
    } else {
        ShiftRight(to.ReinterpretCast<T>(), from.ReinterpretCast<T>(), bits, 8);
    }
}

extern "C" __global__ __aicore__ void kernel(GM_ADDR x, GM_ADDR y, GM_ADDR parameters)
{
    GlobalTensor<int32_t> of;
    of.SetGlobalBuffer((__gm__ int32_t*)parameters);
    const int32_t which = of.GetValue(0), bits = of.GetValue(1), at = of.GetValue(3), width = of.GetValue(4);
    const uint32_t defined = of.GetValue(2);
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 256);
    LocalTensor<uint8_t> from = buffer.Get<uint8_t>(), to = from[128];
    GlobalTensor<uint8_t> source, target;
    source.SetGlobalBuffer((__gm__ uint8_t*)x);
    target.SetGlobalBuffer((__gm__ uint8_t*)y);
    DataCopyPad(from, source, DataCopyExtParams(1, defined, 0, 0, 0), DataCopyPadExtParams<uint8_t>(false, 0, 1, 0));
    SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
    if (which == 2 && width == 2) {
        Mul(to.ReinterpretCast<int16_t>(), from.ReinterpretCast<int16_t>(), from.ReinterpretCast<int16_t>(), 8);
    } else if (which == 2) {
        Mul(to.ReinterpretCast<int32_t>(), from.ReinterpretCast<int32_t>(), from.ReinterpretCast<int32_t>(), 8);
    } else if (width == 2) {
        Shift<int16_t>(to, from, which, bits);
    } else if (width == -2) {
        Shift<uint16_t>(to, from, which, bits);
    } else if (width == 4) {
        Shift<int32_t>(to, from, which, bits);
    } else {
        Shift<uint32_t>(to, from, which, bits);
    }
    PipeBarrier<PIPE_V>();
    Or(to.ReinterpretCast<uint16_t>(), to.ReinterpretCast<uint16_t>(), to.ReinterpretCast<uint16_t>(), 8);
    for (int32_t byte = 0; byte < at; byte += 2) {  // moves the byte to the start of the buffer
        PipeBarrier<PIPE_V>();
        ShiftRight(to.ReinterpretCast<uint32_t>(), to.ReinterpretCast<uint32_t>(), uint32_t(at < byte + 2 ? 8 : 16), 8);
    }
    SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
    DataCopyPad(target, to, DataCopyExtParams(1, 1, 0, 0, 0));
}
"""
LEFT, RIGHT, MUL = range(3)


def results_of(which, bits, width, defined, given):
    """The possible values of each byte of the first element of the result."""
    size = abs(width)
    dtype = np.dtype(f"<{'i' if width > 0 else 'u'}{size}")
    found = [set() for _ in range(size)]
    for free in itertools.product((0x00, 0x5A, 0xA5, 0xFF), repeat=size - min(defined, size)):
        value = int.from_bytes(bytes([*given[: min(defined, size)], *free]), "little", signed=dtype.kind == "i")
        result = value * value if which == MUL else value << bits if which == LEFT else value >> bits
        for index, byte in enumerate((result & ((1 << 8 * size) - 1)).to_bytes(size, "little")):
            found[index].add(byte)
    return found


SHIFTS = itertools.product((LEFT, RIGHT), (0, 3, 8, 12, 16), (2, -2, 4, -4))


@pytest.mark.parametrize(("which", "bits", "width"), [(MUL, 0, 2), (MUL, 0, 4), *SHIFTS])
def test_bytes_of_results(which, bits, width):
    """A byte of a result is undefined if, and only if, undefined bytes of the operands change it."""
    given = np.array([0x6B, 0x95, 0x37, 0xC9], np.uint8)
    for defined in range(1, abs(width) + 1):
        for at, values in enumerate(results_of(which, bits, width, defined, given.tolist())):
            y = np.full(1, 0xEE, np.uint8)
            parameters = np.array([which, bits, defined, at, width], np.int32)
            findings = launch(INSTRUCTIONS, "kernel", 1, [given.copy(), y, parameters], level="device", lint=False)
            case = (defined, at, [str(finding) for finding in findings])
            assert {finding.kind for finding in findings} == ({"uninitialised_read"} if len(values) > 1 else set()), (
                case
            )
            if len(values) == 1:
                assert {int(y[0])} == values, case


# The product of `count` numbers of 8 bits, computed in pairs.
PACKED = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void kernel(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR size)
{
    GlobalTensor<uint32_t> counts;
    counts.SetGlobalBuffer((__gm__ uint32_t*)size);
    const uint32_t count = counts.GetValue(0), pairs = (count + 1) / 2;
    GlobalTensor<int8_t> xGm, yGm, zGm;
    xGm.SetGlobalBuffer((__gm__ int8_t*)x);
    yGm.SetGlobalBuffer((__gm__ int8_t*)y);
    zGm.SetGlobalBuffer((__gm__ int8_t*)z);
    TPipe pipe;
    TQue<TPosition::VECIN, 1> xQueue, yQueue;
    TQue<TPosition::VECOUT, 1> zQueue;
    pipe.InitBuffer(xQueue, 1, 256);
    pipe.InitBuffer(yQueue, 1, 256);
    pipe.InitBuffer(zQueue, 1, 256);
    LocalTensor<int8_t> a = xQueue.AllocTensor<int8_t>(), b = yQueue.AllocTensor<int8_t>();
    const DataCopyPadExtParams<int8_t> padding(false, 0, count % 32 == 0 ? 0 : 1, 0);
    DataCopyPad(a, xGm, DataCopyExtParams(1, count, 0, 0, 0), padding);
    DataCopyPad(b, yGm, DataCopyExtParams(1, count, 0, 0, 0), padding);
    xQueue.EnQue(a);
    yQueue.EnQue(b);
    LocalTensor<int16_t> even = xQueue.DeQue<int16_t>(), odd = yQueue.DeQue<int16_t>();
    LocalTensor<int16_t> product = zQueue.AllocTensor<int16_t>();
    LocalTensor<uint16_t> low = product.ReinterpretCast<uint16_t>();
    Mul(product, even, odd, pairs);
    PipeBarrier<PIPE_V>();
    ShiftLeft(low, low, uint16_t(8), pairs);
    PipeBarrier<PIPE_V>();
    ShiftRight(low, low, uint16_t(8), pairs);
    ShiftRight(even, even, int16_t(8), pairs);
    ShiftRight(odd, odd, int16_t(8), pairs);
    PipeBarrier<PIPE_V>();
    Mul(even, even, odd, pairs);
    PipeBarrier<PIPE_V>();
    ShiftLeft(even, even, int16_t(8), pairs);
    PipeBarrier<PIPE_V>();
    Or(product, product, even, pairs);
    zQueue.EnQue(product);
    LocalTensor<int8_t> result = zQueue.DeQue<int8_t>();
    DataCopyPad(zGm, result, DataCopyExtParams(1, count, 0, 0, 0));
    xQueue.FreeTensor(a);
    yQueue.FreeTensor(b);
    zQueue.FreeTensor(result);
}
"""


def packed(text, count, level):
    random = np.random.default_rng(count)
    x, y = (random.integers(-128, 128, count).astype(np.int8) for _ in range(2))
    z = np.zeros(64, np.int8)
    findings = launch(text, "kernel", 1, [x, y, z, np.array([count], np.uint32)], level=level, lint=False)
    return {finding.kind for finding in findings}, z, x * y


@pytest.mark.parametrize("count", [1, 2, 7, 33, 64])
def test_pairs_of_bytes(count):
    """The last byte of an odd number of bytes is defined, although its pair is not."""
    kinds, z, product = packed(PACKED, count, "device")
    assert kinds == set()
    assert np.array_equal(z[:count], product)
    assert not z[count:].any()
    assert packed(PACKED, count, "strict")[0] == ({"uninitialised_read"} if count % 2 else set())


def test_masks_with_gaps():
    """The elements of one instruction are not adjacent."""
    product = "Mul(product, even, odd, {}, 1, {{1, 1, 1, 8, 8, 8}});"
    masked = "uint64_t first[2] = {0x15555, 0}, second[2] = {0x0AAAA, 0};" + "".join(
        map(product.format, ("first", "second"))
    )
    kinds, z, expected = packed(PACKED.replace("Mul(product, even, odd, pairs);", masked), 33, "device")
    assert kinds == set()
    assert np.array_equal(z[:33], expected)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("DataCopyExtParams(1, count, 0, 0, 0));\n    xQ", "DataCopyExtParams(1, count + 1, 0, 0, 0));\n    xQ"),
        ("ShiftLeft(even, even, int16_t(8), pairs);", ""),
        ("ShiftLeft(even, even, int16_t(8), pairs);", "ShiftLeft(even, even, int16_t(7), pairs);"),
        ("ShiftLeft(low, low, uint16_t(8), pairs);", ""),
        ("Mul(product, even, odd, pairs);", "ShiftRight(product, even, int16_t(1), pairs);"),
    ],
    ids=["stored", "not_moved", "moved_too_little", "high_byte_of_a_product", "bits_of_the_next_byte"],
)
def test_undefined_bytes_are_found(right, wrong):
    """A use of the undefined half of the last pair is a finding."""
    text = PACKED.replace(right, wrong)
    assert text != PACKED
    assert packed(text, 33, "device")[0] == {"uninitialised_read"}


# Two rows of five elements with padding. Stores the complete blocks.
ROWS = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void kernel(GM_ADDR x, GM_ADDR y, GM_ADDR parameters)
{
    GlobalTensor<int32_t> of;
    of.SetGlobalBuffer((__gm__ int32_t*)parameters);
    GlobalTensor<int16_t> from, to;
    from.SetGlobalBuffer((__gm__ int16_t*)x);
    to.SetGlobalBuffer((__gm__ int16_t*)y);
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 64);
    LocalTensor<int16_t> rows = buffer.Get<int16_t>();
    const DataCopyPadExtParams<int16_t> padding(of.GetValue(0), of.GetValue(1), of.GetValue(2), 77);
    DataCopyPad(rows, from, DataCopyExtParams(2, 10, 0, 0, 0), padding);
    SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    DataCopy(to, rows, 32);
}
"""


@pytest.mark.parametrize(
    ("is_pad", "left", "right"), [(1, 0, 0), (0, 0, 0), (1, 3, 0), (1, 0, 2), (1, 2, 9), (0, 3, 0), (0, 0, 2)]
)
def test_bytes_after_rows(is_pad, left, right):
    x, y = np.arange(1, 11, dtype=np.int16), np.zeros((2, 16), np.int16)
    arguments = [x, y, np.array([is_pad, left, right], np.int32)]
    kinds = {finding.kind for finding in launch(ROWS, "kernel", 1, arguments, level="device", lint=False)}
    if not is_pad and left + right:
        assert kinds == {"uninitialised_read"}
        return
    assert kinds == set()
    rows = x.reshape(2, 5)
    fill = np.full((2, 16), 77) if left + right else np.repeat(rows[:, :1], 16, axis=1)
    assert np.array_equal(y, np.hstack([fill[:, :left], rows, fill[:, left + 5 :]]))
    found = {finding.kind for finding in launch(ROWS, "kernel", 1, arguments, level="strict", lint=False)}
    assert found == (set() if left + 5 + right == 16 else {"uninitialised_read"})
