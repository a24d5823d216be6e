"""Compare loads of fractals from global memory and of the windows of images with NumPy; planted mistakes; cycles."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from charged import MODEL
from planted import Planted, kernels_of

pytestmark = pytest.mark.slow

FRACTAL = 512
LOAD, L0A = MODEL["l1_load_issue_cycles"], MODEL["l1_to_l0a_bytes_per_cycle"]
PORT = MODEL["port_first_touch_bytes_per_cycle_per_core"]
FIELDS = [
    "height",
    "width",
    "channels",
    "left",
    "right",
    "top",
    "bottom",
    "filterW",
    "filterH",
    "strideW",
    "strideH",
    "dilationW",
    "dilationH",
    "firstRow",
    "rows",
    "firstColumn",
    "columns",
    "turned",
    "wide",
    "pad",
    "repeatStride",
    "repeats",
    "repeatMode",
    "form",
    "m",
    "n",
    "k",
    "imageFractals",
    "otherFractals",
]
# c = A B. One factor is a part of the matrix of an image, the other one comes from global memory in fractals.
KERNEL = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR image, GM_ADDR other, GM_ADDR c, GM_ADDR, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    GET_TILING_DATA_WITH_STRUCT(ImageTiling, t, tiling);
    using T = TYPE;
    using U = SUM;
    using L = std::conditional_t<std::is_same_v<T, int4b_t>, int8_t, T>;  // of loads from global memory
    using P = std::conditional_t<std::is_same_v<U, float>, float, int>;
    constexpr TPosition kMatrix = TPosition::MATRIX, kOther = TPosition::OTHER;
    TPipe pipe;
    TBuf<TPosition::A1> l1Buffer;
    TBuf<kMatrix> matrixBuffer;
    TBuf<kOther> otherBuffer;
    TBuf<TPosition::CO1> sumBuffer;
    pipe.InitBuffer(l1Buffer, 65536);
    pipe.InitBuffer(matrixBuffer, 32768);
    pipe.InitBuffer(otherBuffer, 32768);
    pipe.InitBuffer(sumBuffer, 16384);
    GlobalTensor<T> imageGm;
    GlobalTensor<L> otherGm;
    GlobalTensor<U> cGm;
    imageGm.SetGlobalBuffer((__gm__ T*)image);
    otherGm.SetGlobalBuffer((__gm__ L*)other);
    cGm.SetGlobalBuffer((__gm__ U*)c);
    LocalTensor<T> l1 = l1Buffer.Get<T>(), matrix = matrixBuffer.Get<T>(), factor = otherBuffer.Get<T>();
    LocalTensor<U> sums = sumBuffer.Get<U>();
    // Global memory has the fractals of the image in reverse order.
    LoadData(l1.ReinterpretCast<L>(), imageGm.ReinterpretCast<L>(),
             LoadData2DParams(t.imageFractals - 1, t.imageFractals, 1, 0, 0, false, 1));
    SetFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    LoadData(otherBuffer.Get<L>(), otherGm, LoadData2DParams(0, t.otherFractals, 1, 0, 0, false, 0));
    SetFlag<HardEvent::MTE2_M>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_M>(EVENT_ID0);
    const uint8_t pads[4] = {static_cast<uint8_t>(t.left), static_cast<uint8_t>(t.right), static_cast<uint8_t>(t.top),
                             static_cast<uint8_t>(t.bottom)};
    SetLoadDataRepeat(LoadDataRepeatParam(t.repeatStride, t.repeats, t.repeatMode));
    const LoadData3DParamsV2<T> load(pads, t.height, t.width, t.channels, t.columns, t.rows, t.firstColumn, t.firstRow,
                                     t.strideW, t.strideH, t.filterW, t.filterH, t.dilationW, t.dilationH, t.turned,
                                     false, T(static_cast<P>(t.pad)), t.wide, false, false);
    if (t.form == 0) {
        LoadData(matrix, l1, load);
    } else {
        SetFmatrix(t.height, t.width, pads, FmatrixMode::FMATRIX_LEFT);
        SetLoadDataPaddingValue(T(static_cast<P>(t.pad)));
        if (t.form == 1) {
            LoadData<T, IMAGE_OF_SET>(matrix, l1, load);
        } else {
            const auto join = [](uint64_t a, uint64_t b, uint64_t c, uint64_t d, int width) {
                return a | b << width | c << 2 * width | d << 3 * width;
            };
            const uint64_t filter = join(t.strideW, t.strideH, t.filterW, t.filterH, 8);
            LoadData(matrix, l1,
                     LoadData3DParamsV2Pro(t.channels, t.turned, false, false, false, false,
                                           join(t.columns, t.rows, t.firstColumn, t.firstRow, 16),
                                           filter | join(t.dilationW, t.dilationH, 0, 0, 8) << 32));
        }
    }
    SetFlag<HardEvent::MTE1_M>(EVENT_ID0);
    WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);
    if constexpr (kMatrix == TPosition::A2) {
        Mmad(sums, matrix, factor, MmadParams(t.m, t.n, t.k, 0, false, true));
    } else {
        Mmad(sums, factor, matrix, MmadParams(t.m, t.n, t.k, 0, false, true));
    }
    SetFlag<HardEvent::M_FIX>(EVENT_ID0);
    WaitFlag<HardEvent::M_FIX>(EVENT_ID0);
    Fixpipe<U, U, CFG_ROW_MAJOR>(cGm, sums, FixpipeParamsV220(t.n, t.m, (t.m + 15) / 16 * 16, t.n, false));
}
"""


@dataclass(frozen=True)
class Case:
    """An image of height x width points, and the part of its matrix that a kernel loads.

    Attributes:
        dtype: The type in C++.
        image: Height, width and channels.
        pads: Left, right, top, bottom.
        filter: Width and height; stride and dilation are also in this order.
        part: First row, rows, first column, columns; 0 rows or columns are all.
        repeats: Stride, times and mode.
        is_right: The matrix is the right factor.
        form: Parameters (0), parameters with registers (1), or LoadData3DParamsV2Pro (2).
    """

    dtype: str
    image: tuple[int, int, int]
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    filter: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    part: tuple[int, int, int, int] = (0, 0, 0, 0)
    repeats: tuple[int, int, int] = (0, 1, 0)
    is_right: bool = False
    form: int = 0
    pad: int = 3


# dtype: elements in 32 bytes, type of the sums, NumPy dtype
DTYPES = {
    "half": (16, "float", np.float16),
    "bfloat16_t": (16, "float", ml_dtypes.bfloat16),
    "float": (8, "float", np.float32),
    "int8_t": (32, "int32_t", np.int8),
    "int4b_t": (64, "int32_t", np.int8),
}
CASES = {
    "half_3x2": Case("half", (5, 4, 16), (1, 2, 1, 0), (3, 2), (2, 1), (1, 2)),
    "half_set": Case("half", (5, 4, 32), (1, 2, 1, 0), (3, 2), (2, 1), (1, 2), form=1),
    "half_pro": Case("half", (5, 4, 32), (1, 2, 1, 0), (3, 2), (2, 1), (1, 2), form=2),
    "half_part": Case("half", (8, 9, 32), (1, 1, 1, 1), (3, 3), part=(32, 20, 144, 64)),
    "half_4_channels": Case("half", (6, 6, 4), (1, 1, 1, 1), (3, 3)),
    "half_8_channels": Case("half", (4, 7, 8), (0, 1, 2, 0), (2, 3), (1, 2)),
    "half_rows": Case("half", (8, 8, 16), filter=(2, 2), part=(0, 16, 0, 0), repeats=(2, 2, 0)),
    "half_columns": Case("half", (6, 6, 16), filter=(3, 3), part=(0, 0, 16, 16), repeats=(2, 3, 1)),
    "half_257": Case("half", (1, 262, 16), part=(0, 0, 4096, 16)),
    "half_right": Case("half", (4, 5, 16), (1, 0, 0, 1), (2, 2), is_right=True),
    "half_right_rows": Case("half", (8, 8, 16), filter=(2, 2), part=(0, 16, 0, 32), repeats=(1, 3, 0), is_right=True),
    "bfloat16_2x2": Case("bfloat16_t", (4, 4, 32), (0, 1, 1, 0), (2, 2), (1, 2)),
    "bfloat16_right": Case("bfloat16_t", (4, 4, 16), (1, 1, 1, 1), (2, 2), is_right=True),
    "float_3x3": Case("float", (5, 5, 16), (1, 1, 1, 1), (3, 3), (2, 2)),
    "float_4_channels": Case("float", (4, 5, 4), (1, 0, 1, 0), (2, 2)),
    "float_right": Case("float", (5, 4, 8), (1, 1, 0, 0), (2, 2), part=(0, 16, 0, 0), is_right=True),
    "int8_3x3": Case("int8_t", (5, 6, 64), (1, 1, 1, 1), (3, 3), (2, 1), pad=-5),
    "int8_16_channels": Case("int8_t", (5, 5, 16), (1, 1, 1, 1), (2, 2), dilation=(2, 3)),
    "int4_2x2": Case("int4b_t", (4, 5, 128), (1, 0, 0, 1), (2, 2), pad=-3),
}
ORDER = "    SetFlag<HardEvent::MTE2_M>(EVENT_ID0);\n    WaitFlag<HardEvent::MTE2_M>(EVENT_ID0);\n"
FROM_IMAGE = "LoadData2DParams(t.imageFractals - 1, t.imageFractals, 1, 0, 0, false, 1)"
FROM_OTHER = "LoadData(otherBuffer.Get<L>(), otherGm, LoadData2DParams(0, t.otherFractals, 1, 0, 0, false, 0));"
PADDING = "SetLoadDataPaddingValue(T(static_cast<P>(t.pad)));"
PART = "t.channels, t.columns, t.rows, t.firstColumn"
REPEATS = "LoadDataRepeatParam(t.repeatStride, t.repeats, t.repeatMode)"
PLANTED = [
    Planted("image_too_far", FROM_IMAGE, FROM_IMAGE.replace("- 1", "+ 9"), "gm_out_of_range", "src reads"),
    Planted("image_before", FROM_IMAGE, FROM_IMAGE.replace("- 1", "- 2"), "gm_out_of_range", "src reads"),
    Planted("factor_unordered", ORDER, "", "race", "put SetFlag<HardEvent::MTE2_M>"),
    Planted("to_sums", "LoadData(otherBuffer.Get<L>(),", "LoadData(sumBuffer.Get<L>(),", "position", "expected L1"),
    Planted("factor_turned", FROM_OTHER, FROM_OTHER.replace("false", "true"), "field_range", "from L1 only"),
    Planted("factor_down", FROM_OTHER, FROM_OTHER.replace("false, 0", "false, 1"), "field_range", "addrMode is 1"),
    Planted("factor_offset", FROM_OTHER, FROM_OTHER.replace("L>(),", "L>()[16],"), "cube_misaligned", "of 512"),
    Planted("factor_too_long", FROM_OTHER, FROM_OTHER.replace("0, t.o", "0, 64 + t.o"), "cube_out_of_range", "dst"),
    Planted("no_padding_value", PADDING, "", "window", "call SetLoadDataPaddingValue"),
    Planted("large_filter", "t.filterW, t.filterH", "9, t.filterH", "window", "a matrix of 0 rows"),
    Planted("too_many_rows", PART, PART.replace("t.rows", "t.rows + 16"), "window", "reduce mExtension"),
    Planted("part_of_block", PART, PART.replace("t.columns", "t.columns - 24"), "window", "whole fractals of 16"),
    Planted("odd_channels", PART, PART.replace("t.channels", "12"), "window", "channelSize is 12"),
    Planted(
        "wide_stride", "t.strideW, t.strideH, t.filterW", "64, t.strideH, t.filterW", "field_range", "strideW is 64"
    ),
    Planted("repeated_tail", REPEATS, REPEATS.replace("t.repeats,", "2,"), "window", "whole fractals of 16"),
    Planted("repeats_too_far", REPEATS, "LoadDataRepeatParam(1, 20, 1)", "window", "reduce mExtension"),
]
HEAD = """
#include "basic_api/kernel_operator_mm_intf.h"
#include "basic_api/kernel_struct_fixpipe.h"
using namespace AscendC;
static constexpr IsResetLoad3dConfig IMAGE_OF_SET{false, false};
"""


def _text(dtype: str, *, is_right: bool) -> str:
    text = KERNEL.replace("= TYPE;", f"= {dtype};").replace("= SUM;", f"= {DTYPES[dtype][1]};")
    matrix, other = ("B2", "A2") if is_right else ("A2", "B2")
    return text.replace("::MATRIX", f"::{matrix}").replace("::OTHER", f"::{other}")


def _symbol(dtype: str, *, is_right: bool) -> str:
    return f"image_{dtype}{'_right' if is_right else ''}"


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    kinds = {(case.dtype, case.is_right) for case in CASES.values()} | {("int8_t", True)}
    fields = "".join(f"    int32_t {field};\n" for field in FIELDS)
    clean = [
        _text(dtype, is_right=is_right).replace("NAME", _symbol(dtype, is_right=is_right))
        for dtype, is_right in sorted(kinds - {("half", False)})
    ]
    half = kernels_of(_text("half", is_right=False), "image_half", PLANTED)
    return compile_kernels("".join([HEAD, f"struct ImageTiling {{\n{fields}}};\n", *clean, *half]))


def _unroll(image, case, unit):
    """Return the matrix of an image: a row for each position of the filter."""
    left, right, top, bottom = case.pads
    padded = np.pad(image, ((top, bottom), (left, right), (0, 0)), constant_values=case.pad)
    (width, height), (step_x, step_y), (dilation_x, dilation_y) = case.filter, case.stride, case.dilation
    if case is CASES["half_257"]:
        width += 256
    span_x, span_y = (width - 1) * dilation_x + 1, (height - 1) * dilation_y + 1
    rows = []
    for y in range(0, padded.shape[0] - span_y + 1, step_y):
        for x in range(0, padded.shape[1] - span_x + 1, step_x):
            window = padded[y : y + span_y : dilation_y, x : x + span_x : dilation_x]
            rows.append(window.reshape(height, width, -1, unit).transpose(2, 0, 1, 3).ravel())
    return np.array(rows)


def _part(whole, case, c0):
    """Return the rows and columns that the repeats of a load select."""
    first_row, rows, first_column, columns = case.part
    rows, columns = rows or len(whole), columns or whole.shape[1]
    stride, times, along_columns = case.repeats
    parts = []
    for number in range(max(times, 1)):
        row = first_row + (0 if along_columns else number * stride * 16)
        column = first_column + (number * stride * c0 if along_columns else 0)
        parts.append(whole[row : row + rows, column : column + columns])
    return np.concatenate(parts, axis=1 if along_columns else 0), rows, columns


def _fractals(factor, c0, *, is_right):
    """Return a factor, whose inner dimension is the last one, in the fractals of L0A or L0B."""
    outer, inner = (-(-length // unit) for length, unit in zip(factor.shape, (16, c0), strict=True))
    padded = np.zeros((outer * 16, inner * c0), factor.dtype)
    padded[: factor.shape[0], : factor.shape[1]] = factor
    order = (2, 0, 1, 3) if is_right else (0, 2, 1, 3)
    return padded.reshape(outer, 16, inner, c0).transpose(order)


def _bytes(values, dtype):
    if dtype == "int4b_t":
        bits = values.astype(np.uint8).reshape(-1, 2) & 15
        return bits[:, 0] | bits[:, 1] << 4
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _launch(kernels, case, symbol="", run="launch"):
    """Run the kernel of a case; return the result of `run`, C, and the expected product."""
    c0, sum_type, numpy_dtype = DTYPES[case.dtype]
    random = np.random.default_rng(7)
    height, width, channels = case.image
    image = random.integers(-7, 8, case.image).astype(numpy_dtype)
    unit = min(c0, channels)
    part, rows, columns = _part(_unroll(image, case, unit), case, c0)
    matrix = part.T if case.is_right else part  # outer x inner
    other = random.integers(-7, 8, (20, matrix.shape[1])).astype(numpy_dtype)
    stored = image.reshape(height * width, -1, unit).transpose(1, 0, 2)
    image_bytes = _bytes(stored, case.dtype)
    image_bytes = np.pad(image_bytes, (0, -image_bytes.size % FRACTAL)).reshape(-1, FRACTAL)
    other_bytes = _bytes(_fractals(other, c0, is_right=not case.is_right), case.dtype)
    left, right = (other, matrix) if case.is_right else (matrix, other)
    expected = left.astype(np.float64) @ right.astype(np.float64).T
    c = np.zeros(expected.shape, sum_type.removesuffix("_t") + ("32" if sum_type == "float" else ""))
    values = (*case.image, *case.pads, *case.filter, *case.stride, *case.dilation)
    values += (case.part[0], rows, case.part[2], columns, 0, case is CASES["half_257"], case.pad, *case.repeats)
    values += (case.form, *expected.shape, matrix.shape[1], len(image_bytes), other_bytes.size // FRACTAL)
    done = getattr(kernels, run)(
        symbol or _symbol(case.dtype, is_right=case.is_right),
        np.ascontiguousarray(image_bytes[::-1]),
        other_bytes,
        c,
        tiling=struct.pack(f"{len(FIELDS)}i", *values),
        task_type="AIC_ONLY",
    )
    return done, c, expected


@pytest.mark.parametrize("name", CASES)
def test_products_of_images(kernels, name):
    report, c, expected = _launch(kernels, CASES[name])
    assert report["findings"] == []
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_mistake_of_an_image_is_found(kernels, record_planted, planted):
    case = CASES["half_set" if planted.line == PADDING else "half_3x2"]
    findings = _launch(kernels, case, planted.name)[0]["findings"]
    assert [(found["kind"], planted.message in found["message"]) for found in findings[:1]] == [(planted.kind, True)]
    record_planted(planted.name, findings[0])


def test_l0b_has_no_images_of_1_byte(kernels):
    case = Case("int8_t", (4, 4, 32), is_right=True)
    (found,) = _launch(kernels, case)[0]["findings"]
    assert (found["kind"], "types of 2 and 4 bytes only" in found["message"]) == ("field_range", True)


def test_an_empty_load_is_a_warning(kernels):
    case = Case("half", (4, 4, 16), repeats=(0, 0, 0))
    findings = _launch(kernels, case)[0]["findings"]
    (warning,) = [found["message"] for found in findings if found["warning"]]
    assert "repeatTime is 0: the instruction does nothing" in warning


def test_cycles_of_loads(kernels):
    cycles = _launch(kernels, CASES["half_set"], run="cycles")[0]
    copied = 3 + 24  # fractals of the image and of the other factor
    expected = copied * FRACTAL / PORT + LOAD + 12 * FRACTAL / L0A
    assert cycles["LoadData"] == pytest.approx(expected)
    assert not {"SetFmatrix", "SetLoadDataPaddingValue", "SetLoadDataRepeat"} & cycles.keys()
