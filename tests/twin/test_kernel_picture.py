"""Compare loads of images with padding and conversions with NumPy; planted mistakes; cycles."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import pytest
from charged import COPY
from planted import Planted, kernels_of

FIELDS = (
    "format mode swapRB swapUV swapAX oneLine mean least factor fourChannels fill width height left top srcWidth "
    "topPad bottomPad leftPad rightPad bytes colors "
    "m00 m01 m02 m10 m11 m12 m20 m21 m22 in0 in1 in2 out0 out1 out2"
)
MATRIX = ", ".join(
    f"static_cast<{'int16_t' if name[0] == 'm' else 'uint8_t'}>(t.{name})" for name in FIELDS.split()[-15:]
)
KERNEL = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR colors, GM_ADDR y, GM_ADDR, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    using T = TYPE;
    GET_TILING_DATA_WITH_STRUCT(PictureTiling, t, tiling);
    TPipe pipe;
    TBuf<TPosition::A1> buffer;
    TBuf<TPosition::A2> other;
    pipe.InitBuffer(buffer, 65536);
    pipe.InitBuffer(other, 32768);
    LocalTensor<T> l1 = buffer.Get<T>();
    GlobalTensor<uint8_t> xGm, colorsGm;
    GlobalTensor<T> yGm;
    xGm.SetGlobalBuffer((__gm__ uint8_t*)x);
    colorsGm.SetGlobalBuffer((__gm__ uint8_t*)colors);
    yGm.SetGlobalBuffer((__gm__ T*)y);
    AippParams<T> params;
    params.paddingParams = {static_cast<uint32_t>(t.mode), T(1), T(2), T(3), T(4)};
    params.swapParams = {t.swapRB != 0, t.swapUV != 0, t.swapAX != 0};
    params.singleLineParams.isSingleLineCopy = t.oneLine;
    params.dtcParams.dtcMeanCh0 = t.mean;
    params.dtcParams.dtcMeanCh1 = t.mean + 1;
    params.dtcParams.dtcMeanCh2 = t.mean + 2;
    params.dtcParams.dtcMinCh0 = half(static_cast<float>(t.least));
    params.dtcParams.dtcMinCh2 = half(static_cast<float>(t.least));
    params.dtcParams.dtcVarCh0 = half(1.0f / static_cast<float>(t.factor));
    params.cPaddingParams = {static_cast<uint32_t>(t.fourChannels), T(t.fill)};
    params.cscParams = {t.colors != 0, MATRIX};
    const auto format = static_cast<AippInputFormat>(t.format);
    if (format == AippInputFormat::YUV420SP_U8) {
        SetAippFunctions(xGm, colorsGm, format, params);
    } else {
        SetAippFunctions(xGm, format, params);
    }
    LoadImageToLocal(l1, LoadImageToLocalParams(t.width, t.height, t.left, t.top, t.srcWidth, t.topPad, t.bottomPad,
                                                t.leftPad, t.rightPad));
    SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    DataCopy(yGm, l1, t.bytes / sizeof(T));
    (void)other;
}
"""
FORMATS = {"YUV420SP": 0, "XRGB8888": 1, "RGB888": 4, "YUV400": 9}


@dataclass(frozen=True)
class Case:
    """An image, and the part of it that a kernel loads: width, height, left, top.

    Attributes:
        pads: Top, bottom, left, right.
        swaps: R and B, U and V, X to the end.
        colors: The rows of the matrix, the biases of YUV to RGB, and those of RGB to YUV.
    """

    dtype: str
    format: str
    image: tuple[int, int]
    part: tuple[int, int, int, int]
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    mode: int = 0
    swaps: tuple[int, int, int] = (0, 0, 0)
    one_line: int = 0
    mean: int = 0
    least: int = 0
    factor: int = 1
    four_channels: int = 0
    fill: int = 0
    colors: tuple[int, ...] = ()


# BT.601 with narrow range.
TO_RGB = (298, 0, 409, 298, -100, -208, 298, 516, 0, 16, 128, 128, 0, 0, 0)
TO_YUV = (66, 129, 25, -38, -74, 112, 112, -94, -18, 0, 0, 0, 16, 128, 128)
CASES = {
    "rgb": Case("int8_t", "RGB888", (9, 12), (8, 6, 2, 1), mean=110, fill=-3),
    "rgb_swapped": Case("half", "RGB888", (9, 12), (7, 5, 4, 3), (0, 0, 2, 3), swaps=(1, 0, 0), mean=3, fill=9),
    "xrgb": Case("half", "XRGB8888", (6, 8), (8, 6, 0, 0), mean=100, least=-7, factor=3, four_channels=1),
    "xrgb_moved": Case("int8_t", "XRGB8888", (6, 8), (4, 4, 2, 2), swaps=(1, 0, 1), four_channels=1, mean=128),
    "grey_nearest": Case("half", "YUV400", (6, 8), (5, 4, 2, 1), (2, 3, 4, 1), mode=1),
    "grey_copy": Case("half", "YUV400", (6, 8), (5, 4, 2, 1), (2, 4, 5, 1), mode=2),
    "grey_mirror": Case("int8_t", "YUV400", (6, 8), (5, 4, 2, 1), (4, 1, 3, 5), mode=3, four_channels=1),
    "yuv": Case("int8_t", "YUV420SP", (6, 8), (6, 4, 2, 2), (0, 0, 1, 0), mean=90),
    "yuv_odd": Case("half", "YUV420SP", (6, 8), (5, 3, 2, 0), (1, 1, 1, 1), mode=1, swaps=(0, 1, 0), fill=1),
    "yuv_to_rgb": Case("half", "YUV420SP", (6, 8), (6, 4, 2, 2), colors=TO_RGB, fill=1),
    "yvu_to_rgb": Case("int8_t", "YUV420SP", (6, 8), (5, 3, 2, 0), swaps=(0, 1, 0), mean=128, colors=TO_RGB),
    "rgb_to_yuv": Case("int8_t", "RGB888", (9, 12), (8, 6, 2, 1), (0, 0, 1, 2), mean=100, colors=TO_YUV),
    "xrgb_to_yuv": Case("half", "XRGB8888", (6, 8), (4, 4, 2, 2), swaps=(1, 0, 1), colors=TO_YUV),
    "line": Case("half", "RGB888", (6, 8), (8, 6, 0, 3), one_line=1),
}
LOAD, SET = "LoadImageToLocal(l1,", "SetAippFunctions(xGm, format, params);"
COLORS_ON = "params.cscParams.isEnableCsc = true;"
PLANTED = [
    Planted("no_source", SET, "", "window", "call SetAippFunctions"),
    Planted("odd_start", "t.left, t.top,", "t.left + 1, t.top,", "window", "expected an even horizStartPos"),
    Planted("too_wide", "(t.width, t.height", "(t.width + 8, t.height", "window", "reduce horizSize"),
    Planted("too_high", "(t.width, t.height", "(t.width, t.height + 90", "gm_out_of_range", "src reads"),
    Planted("constant_rows", "t.srcWidth, t.topPad", "t.srcWidth, 2", "window", "topPadSize or botPadSize"),
    Planted("in_l0a", LOAD, "LoadImageToLocal(other.Get<T>(),", "position", "dst is not in L1"),
    Planted("other_type", LOAD, "LoadImageToLocal(buffer.Get<half>(),", "window", "another type than AippParams"),
    Planted("two_sources", SET, "SetAippFunctions(xGm, xGm, format, params);", "field_range", "one source"),
    Planted("bias", SET, f"{COLORS_ON} params.cscParams.cscBiasIn1 = 9; {SET}", "field_range", "cscBiasOut) is 9"),
    Planted(
        "grey_colors",
        SET,
        f"{COLORS_ON} SetAippFunctions(xGm, AippInputFormat::YUV400_U8, params);",
        "field_range",
        "YUV400_U8 has no colors",
    ),
    Planted(
        "unaligned", SET, "SetAippFunctions(xGm[1], AippInputFormat::XRGB8888_U8, params);", "cube_misaligned", "4"
    ),
    Planted("wide_padding", "t.leftPad, t.rightPad", "33, t.rightPad", "field_range", "leftPadSize is 33"),
    Planted("after_l1", LOAD, "LoadImageToLocal(l1[65024],", "cube_out_of_range", "dst writes"),
]
HEAD = """
#include "basic_api/kernel_operator_mm_intf.h"
using namespace AscendC;
"""


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    text = KERNEL.replace("MATRIX", MATRIX)
    fields = "".join(f"    int32_t {field};\n" for field in FIELDS.split())
    clean = [text.replace("NAME", f"picture_{dtype}").replace("TYPE;", f"{dtype};") for dtype in ("half", "int8_t")]
    planted = kernels_of(text.replace("TYPE;", "int8_t;"), "planted_clean", PLANTED)
    return compile_kernels("".join([HEAD, f"struct PictureTiling {{\n{fields}}};\n", *clean, *planted]))


def _points(case, given, colors):
    """Return the channels of the part of an image."""
    width, height, left, top = case.part
    rows, columns = slice(top, top + (1 if case.one_line else height)), slice(left, left + width)
    if case.format == "YUV400":
        return given[rows, columns]
    if case.format == "YUV420SP":
        pairs = colors[:, :, ::-1] if case.swaps[1] else colors
        wide = pairs.repeat(2, axis=0).repeat(2, axis=1)
        return np.concatenate([given, wide], axis=2)[rows, columns]
    points = given[rows, columns]
    points = points[..., 1:] if case.swaps[2] else points[..., :3]
    return points[..., ::-1] if case.swaps[0] else points


def _converted(case, points):
    """Return the points in the other color space: the sums have 8 bits after the binary point."""
    matrix, bias_in, bias_out = np.split(np.array(case.colors), [9, 12])
    sums = (points - bias_in) @ matrix.reshape(3, 3).T
    return np.clip(np.floor(sums / 256).astype(np.int32) + bias_out, 0, 255)


def _expected(case, given, colors):
    points = _points(case, given, colors).astype(np.int32)
    points = _converted(case, points) if case.colors else points
    count = points.shape[2]
    means = case.mean + np.arange(count)
    if case.dtype == "int8_t":
        points = np.clip(points - means, -128, 127).astype(np.int8)
    else:
        least = np.array([case.least, 0, case.least])[:count]
        factor = np.array([np.float16(1 / np.float32(case.factor)), 1, 1], np.float32)[:count]
        points = ((points - means - least).astype(np.float16) * factor).astype(np.float16)
    top, bottom, left, right = case.pads
    pads = ((top, bottom), (left, right), (0, 0))
    if case.mode == 0:
        constants = np.broadcast_to(np.arange(1, count + 1), (len(points), 1, count)).astype(points.dtype)
        points = np.concatenate([constants.repeat(left, axis=1), points, constants.repeat(right, axis=1)], axis=1)
    else:
        points = np.pad(points, pads, mode={1: "edge", 2: "wrap", 3: "symmetric"}[case.mode])
    channels = 4 if case.four_channels else 32 // points.itemsize
    filled = np.full((*points.shape[:2], channels), case.fill, points.dtype)
    filled[..., :count] = points
    return filled


def _launch(kernels, case, symbol="", run="launch"):
    random = np.random.default_rng(4)
    height, width = case.image
    depth = {"RGB888": 3, "XRGB8888": 4}.get(case.format, 1)
    given = random.integers(0, 256, (height, width, depth)).astype(np.uint8)
    colors = random.integers(0, 256, (height // 2, width // 2, 2)).astype(np.uint8)
    expected = _expected(case, given, colors)
    size = expected.nbytes // 32 * 32
    y = np.zeros(expected.size, expected.dtype)
    values = (FORMATS[case.format], case.mode, *case.swaps, case.one_line, case.mean, case.least, case.factor)
    values += (case.four_channels, case.fill, *case.part, width, *case.pads, size, bool(case.colors))
    values += case.colors or (0,) * 15
    tiling = struct.pack(f"{len(values)}i", *values)
    name = symbol or f"picture_{case.dtype}"
    done = getattr(kernels, run)(name, given, colors, y, tiling=tiling, task_type="AIC_ONLY")
    stored = size // y.itemsize
    return done, y[:stored], expected.ravel()[:stored]


@pytest.mark.parametrize("name", CASES)
def test_points_of_images(kernels, name):
    report, y, expected = _launch(kernels, CASES[name])
    assert report["findings"] == []
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_mistake_of_an_image_is_found(kernels, record_planted, planted):
    findings = _launch(kernels, CASES["rgb"], planted.name)[0]["findings"]
    assert findings, planted.name
    assert findings[0]["kind"] == planted.kind, findings
    assert planted.message in findings[0]["message"], findings
    record_planted(planted.name, findings[0])


def test_padding_is_not_larger_than_the_image(kernels):
    case = Case("half", "YUV400", (6, 8), (4, 4, 0, 0), (0, 0, 5, 0), mode=2)
    symbol = "picture_half"
    given = np.zeros((6, 8), np.uint8)
    values = (FORMATS[case.format], case.mode, 0, 0, 0, 0, 0, 0, 1, 0, 0, *case.part, 8, *case.pads, 32, 0, *([0] * 15))
    tiling = struct.pack(f"{len(values)}i", *values)
    (found,) = kernels.launch(symbol, given, given, given, tiling=tiling, task_type="AIC_ONLY")["findings"]
    assert "the padding repeats the image, and is larger than it" in found["message"]


def test_cycles_of_images(kernels):
    """A row of 24 bytes is one small copy."""
    cycles = _launch(kernels, CASES["line"], run="cycles")[0]
    assert cycles["LoadImageToLocal"] == pytest.approx(COPY)
    assert "SetAippFunctions" not in cycles
