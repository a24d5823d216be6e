"""Compare normalizations, reductions, layouts, quantization and selection with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from charged import repeats, vector

from .high_level import CPP, HEADER, TOLERANCE, Operand, assert_misplaced, assert_timed, kernel, misplaced

pytestmark = pytest.mark.slow

R, H, V = 6, 32, 24  # rows, row pitch, valid columns
EPS = 1e-3
NORM_TILING = f"tiling.bLength = 2; tiling.sLength = 3; tiling.hLength = {H}; tiling.originalHLength = {V};"


def moments(x, axis=-1):
    return x.mean(axis, keepdims=True), x.var(axis, keepdims=True)


def normalized(x, g, b, axis=-1):
    mean, variance = moments(x, axis)
    return (x - mean) / np.sqrt(variance + EPS) * g + b


def rows(x, pitch=H, valid=V):
    return x.reshape(-1, pitch)[:, :valid]


def layer_norm(a, b, g, **_):
    mean, variance = moments(rows(a))
    return {"d": normalized(rows(a), g[:V], b[:V]), "m": mean.ravel(), "s": variance.ravel()}


def layer_norm_rstd(a, b, g, **_):
    mean, variance = moments(rows(a))
    return {"d": normalized(rows(a), g[:V], b[:V]), "fm": mean.ravel(), "fs": 1 / np.sqrt(variance + EPS).ravel()}


def layer_norm_grad(a, c, g, x0, x1, **_):
    dy, x = rows(a), rows(c)
    rstd = 1 / np.sqrt(x0[:R, None] + EPS)
    distance, weighted = x - x1[:R, None], dy * g[:V]
    of_variance = (-0.5 * weighted * distance * rstd**3).sum(-1, keepdims=True)
    of_mean = (-weighted * rstd).sum(-1, keepdims=True) - of_variance * 2 / V * distance.sum(-1, keepdims=True)
    return {"d": weighted * rstd + of_variance * 2 / V * distance + of_mean / V, "e": distance * rstd}


def deep_norm(a, b, c, g, **_):
    x = 0.5 * rows(a) + rows(c)
    mean, variance = moments(x)
    return {"d": normalized(x, g[:V], b[:V]), "m": mean.ravel(), "s": 1 / np.sqrt(variance + EPS).ravel()}


def batch_norm(a, b, g, **_):
    x = a.reshape(R, H)
    mean, variance = moments(x, 0)
    return {"d": normalized(x, g[:R, None], b[:R, None], 0), "e": [mean.ravel(), variance.ravel()]}


def group_norm(a, b, g, **_):
    """Return two images, one group of three channels each, 16 positions with a pitch of 32."""
    x = a.reshape(2, 3, H)[:, :, :16]
    result = normalized(x.reshape(2, -1), 1, 0).reshape(x.shape) * g[:3, None] + b[:3, None]
    return {"d": result, "m": x.reshape(2, -1).mean(-1), "s": x.reshape(2, -1).var(-1)}


def welford(fa, fb, a, **_):
    mean = fa + (a - fa) / 3
    return {"fd": mean, "fe": fb + (a - fa) * (a - mean)}


def welford_end(fa, fb, **_):
    counts = np.where(np.arange(H) < 8, 3, 2)
    total = counts.sum()
    mean = (fa[:H] * counts).sum() / total
    return {"fm": mean, "fs": (fb[:H].sum() + (counts * (fa[:H] - mean) ** 2).sum()) / total}


def quantized(a, scale, offset):
    product = (a.astype(np.float16) * np.float16(scale)).astype(np.float16)
    return np.clip(np.rint(product + np.float16(offset)), -128, 127)


def top(a, k, sign):
    order = np.argsort(-sign * rows(a), axis=-1, kind="stable")[:, :k]
    return np.take_along_axis(rows(a), order, -1), order


def top_largest(a, **_):
    values, indices = top(a, 10, 1)
    return {"d": values, "i": indices}


def top_smallest(a, **_):
    values, indices = top(a, 10, -1)
    return {"d": values, "i": indices}


def channel_parts(x, points):
    """Return [N, C, points] as [N, C1, points, 16]."""
    padded = np.pad(x, ((0, 0), (0, -x.shape[1] % 16), (0, 0)))
    return padded.reshape(len(x), -1, 16, points).transpose(0, 1, 3, 2)


def to_channel_parts(w, **_):
    """Return N = 1, C = 18, D = 1, H = 2, W = 3: rows of 6 points and 10 others."""
    return {"d": [channel_parts(w[:288].reshape(1, 18, 16)[:, :, :6], 6).ravel()]}


def of_channel_parts(w, d, **_):
    """Return the values, and the earlier ones after each row."""
    result = d[:288].reshape(1, 18, 16).copy()
    result[:, :, :6] = w[:192].reshape(1, 2, 6, 16).transpose(0, 1, 3, 2).reshape(1, 32, 6)[:, :18]
    return {"d": [result.ravel()]}


def to_fractals(w, **_):
    """Return N = 2, C = 7, D = 2, H = 1, W = 1: [D, C1 = 1, point, N1 = 1, N0 = 16, C0 = 16]."""
    result = np.zeros((2, 16, 16))
    result[:, :2, :7] = w[:448].reshape(2, 7, 2, 16)[..., 0].transpose(2, 0, 1)
    return {"d": [result.ravel()]}


def of_fractals(w, d, **_):
    result = d[:448].reshape(2, 7, 2, 16).copy()
    result[..., 0] = w.reshape(2, 16, 16)[:, :2, :7].transpose(1, 2, 0)
    return {"d": [result.ravel()]}


def trans_data(source, target, whole, parts):
    """Return a call of TransData; `whole` are the axes of NCDHW."""
    shapes = {"NCDHW": whole, target if source == "NCDHW" else source: parts}
    layouts = [f"MakeLayout(MakeShape({shapes[name]}), MakeStride())" for name in (source, target)]
    return (
        f"static constexpr TransDataConfig config{{DataFormat::{source}, DataFormat::{target}}};"
        f"const auto from = {layouts[0]}; const auto to = {layouts[1]};"
        "const TransDataParams<std::decay_t<decltype(from)>, std::decay_t<decltype(to)>> params{from, to};"
        "TransData<config>(d, w, tmp, params);"
    )


MOVED = ("half", "bfloat16_t", "int16_t", "uint16_t")


def bits(mask, width):
    return np.unpackbits(mask.reshape(R, -1), axis=-1, bitorder="little")[:, :width]


AXES = {"AR": -1, "RA": 0}
FLOATS = ("half", "float")
REDUCTIONS = {
    "ReduceSum": (np.sum, ("float",)),
    "ReduceMean": (np.mean, ("float",)),
    "ReduceProd": (np.prod, ("float",)),
    "ReduceMax": (np.max, FLOATS),
    "ReduceMin": (np.min, FLOATS),
}
SHAPE = f"const uint32_t shape[] = {{{R}, {H}}};"


def reduction(name, axis, function):
    call = f"{SHAPE} {name}<T, Pattern::Reduce::{axis}>(d, a, tmp, shape, true);"
    return call, lambda a, **_: {"d": function(a.reshape(R, H), axis=AXES[axis])}


# name: dtypes, code, formula. Tensors: see operands().
CASES = {
    "layer_norm": (
        FLOATS,
        f"LayerNormTiling tiling; {NORM_TILING} LayerNorm<T>(d, m, s, a, g, b, tmp, T({EPS}f), tiling);",
        layer_norm,
    ),
    "layer_norm_rstd": (
        FLOATS,
        (
            f"LayerNormSeparateTiling tiling; LayerNorm<T, T>(d, fm, fs, a, g, b, {EPS}f, tmp, "
            f"LayerNormPara{{{R}, {V}, {H}}}, tiling);"
        ),
        layer_norm_rstd,
    ),
    "layer_norm_grad": (
        FLOATS,
        f"LayerNormGradTiling tiling; {NORM_TILING} LayerNormGrad<T>(d, e, a, c, x0, x1, g, tmp, T({EPS}f), tiling);",
        layer_norm_grad,
    ),
    "layer_norm_grad_beta": (
        FLOATS,
        f"LayerNormGradBetaTiling tiling; {NORM_TILING} LayerNormGradBeta<T>(d, e, a, c, tmp, tiling);",
        lambda a, c, **_: {"d": [(rows(a) * rows(c)).sum(0)], "e": [rows(c).sum(0)]},
    ),
    "rms_norm": (
        FLOATS,
        f"RmsNormTiling tiling; {NORM_TILING} RmsNorm<T>(d, a, g, tmp, T({EPS}f), tiling);",
        lambda a, g, **_: {"d": rows(a) / np.sqrt((rows(a) ** 2).mean(-1, keepdims=True) + EPS) * g[:V]},
    ),
    "deep_norm": (
        FLOATS,
        f"DeepNormTiling tiling; {NORM_TILING} DeepNorm<T>(d, m, s, a, c, b, g, tmp, T(0.5f), T({EPS}f), tiling);",
        deep_norm,
    ),
    "batch_norm": (
        FLOATS,
        (
            f"BatchNormTiling tiling; tiling.originalBLength = {R}; tiling.meanVarSize = {H}; "
            f"BatchNorm<T>(d, e, e[{H}], a, g, b, tmp, T({EPS}f), tiling);"
        ),
        batch_norm,
    ),
    "group_norm": (
        FLOATS,
        (
            "GroupNormTiling tiling; tiling.n = 2; tiling.g = 1; tiling.d = 3; tiling.hw = 16; "
            "tiling.hwAlignSize = 32; "
            f"GroupNorm<T>(d, m, s, a, g, b, tmp, T({EPS}f), tiling);"
        ),
        group_norm,
    ),
    "normalize": (
        FLOATS,
        f"Normalize<T, T>(d, fs, f0, f1, a, g, b, tmp, {EPS}f, NormalizePara{{{R}, {V}, {H}}});",
        lambda a, f0, f1, g, b, **_: {
            "d": (rows(a) - f0[:R, None]) / np.sqrt(f1[:R, None] + EPS) * g[:V] + b[:V],
            "fs": 1 / np.sqrt(f1[:R] + EPS),
        },
    ),
    "welford": (
        FLOATS,
        f"WelfordUpdate<T, float>(fd, fe, fa, fb, a, tmp, WelfordUpdateParam{{1, {R * H}, {R * H}, 1.0f / 3}});",
        welford,
    ),
    "welford_end": (
        ("float",),
        (
            f"WelfordFinalizePara para{{3, {H}, 3, 8, 2, 24, 1.0f / {H}, 1.0f / 72, 0}}; "
            "WelfordFinalize<>(fm, fs, fa, fb, tmp, para);"
        ),
        welford_end,
    ),
    **{
        f"{name}_{axis}": (dtypes, *reduction(name, axis, function))
        for name, (function, dtypes) in REDUCTIONS.items()
        for axis in AXES
    },
    "reduce_any": (
        ("uint8_t",),
        f"{SHAPE} ReduceAny<T, Pattern::Reduce::AR>(d, z, tmp, shape, true);",
        lambda z, **_: {"d": z.reshape(R, H).any(-1)},
    ),
    "reduce_all": (
        ("uint8_t",),
        f"{SHAPE} ReduceAll<T, Pattern::Reduce::RA>(d, z, tmp, shape, true);",
        lambda z, **_: {"d": z.reshape(R, H).all(0)},
    ),
    "sum": (
        FLOATS,
        f"Sum(d, a, tmp, SumParams{{{R}, {H}, 25}});",
        lambda a, **_: {"d": a.reshape(R, H)[:, :25].sum(-1)},
    ),
    "mean": (
        FLOATS,
        f"Mean<T>(d, a, MeanParams{{{R}, {H}, 25}});",
        lambda a, **_: {"d": a.reshape(R, H)[:, :25].mean(-1)},
    ),
    "xor_sum": (
        ("int16_t",),
        f"ReduceXorSum(d, a, c, tmp, {R * H});",
        lambda a, c, **_: {"d": np.clip((a.astype(int) ^ c.astype(int)).sum(), -32768, 32767)},
    ),
    "cum_sum": (
        FLOATS,
        f"CumSum<T>(d, e, a, tmp, CumSumInfo{{{R}, {H}}});",
        lambda a, **_: {"d": a.reshape(R, H).cumsum(-1)},
    ),
    "cum_sum_rows": (
        FLOATS,
        f"CumSum<T, ROWS>(d, e, a, tmp, CumSumInfo{{{R}, {H}}});",
        lambda a, **_: {"d": a.reshape(R, H).cumsum(0), "e": [a.reshape(R, H).sum(0)]},
    ),
    "cum_sum_of_template": (
        ("float",),
        "in_template::CumSum<false>(d, e, a, tmp);",
        lambda a, **_: {"d": a.reshape(R, H).cumsum(0), "e": [a.reshape(R, H).sum(0)]},
    ),
    "broadcast_columns": (
        (*FLOATS, "int8_t", "uint8_t"),
        (
            f"const uint32_t to[] = {{{R}, {H}}}; const uint32_t from[] = {{{R}, 1}}; "
            "BroadCast<T, 2, 1>(d, a, to, from, tmp);"
        ),
        lambda a, **_: {"d": np.repeat(a[:R, None], H, 1)},
    ),
    "broadcast_rows": (
        FLOATS,
        f"const uint32_t to[] = {{{R}, {H}}}; const uint32_t from[] = {{1, {H}}}; Broadcast<T, 2, 0>(d, a, to, from);",
        lambda a, **_: {"d": np.repeat(a[None, :H], R, 0)},
    ),
    "broadcast_after_src": (
        FLOATS,
        (
            f"const uint32_t to[] = {{{R}, {H}}}; const uint32_t from[] = {{{R}, 1}}; auto all = d; d = all[32]; "
            "BroadCast<T, 2, 1>(d, all, to, from, tmp); d = all;"
        ),
        lambda d, **_: {"d": [d[:32], np.repeat(d[:R], H)]},
    ),
    "pad": (
        (*FLOATS, "int32_t"),
        (
            "PadTiling tiling; tiling.srcHeight = 16; tiling.srcWidth = 7; tiling.srcOriWidth = 7; "
            "PadParams pads{0, 1, 5}; Pad(d, a, pads, tmp, tiling);"
        ),
        lambda a, **_: {"d": [np.pad(a[:112].reshape(16, 7), ((0, 0), (0, 1)), constant_values=5).ravel()]},
    ),
    "unpad": (
        FLOATS,
        (
            f"UnPadTiling tiling; tiling.srcHeight = {R}; tiling.srcWidth = {H}; "
            "UnPadParams pads{0, 3}; UnPad(d, a, pads, tmp, tiling);"
        ),
        lambda a, **_: {"d": [rows(a, H, H - 3).ravel()]},
    ),
    "channel_parts": (
        MOVED,
        trans_data("NCDHW", "NDC1HWC0", "1, 18, 1, 2, 3", "1, 1, 2, 2, 3, 16"),
        to_channel_parts,
    ),
    "whole_channels": (
        MOVED,
        trans_data("NDC1HWC0", "NCDHW", "1, 18, 1, 2, 3", "1, 1, 2, 2, 3, 16"),
        of_channel_parts,
    ),
    "fractals": (
        MOVED,
        trans_data("NCDHW", "FRACTAL_Z_3D", "2, 7, 2, 1, 1", "2, 1, 1, 1, 1, 16, 16"),
        to_fractals,
    ),
    "whole_images": (
        MOVED,
        trans_data("FRACTAL_Z_3D", "NCDHW", "2, 7, 2, 1, 1", "2, 1, 1, 1, 1, 16, 16"),
        of_fractals,
    ),
    "transpose": (
        (*FLOATS, "int32_t"),
        (
            "ConfusionTransposeTiling tiling; tiling.param0 = 32; tiling.param1 = 16; "
            "Transpose(d, w, tmp, TransposeType::TRANSPOSE_ND2ND_ONLY, tiling);"
        ),
        lambda w, **_: {"d": w.reshape(32, 16).T},
    ),
    "confusion_transpose": (
        ("half",),
        (
            "ConfusionTransposeTiling tiling; tiling.param0 = 32; tiling.param1 = 16; "
            "ConfusionTranspose(d, w, tmp, TransposeType::TRANSPOSE_ND2ND_ONLY, tiling);"
        ),
        lambda w, **_: {"d": w.reshape(32, 16).T},
    ),
    "arange": (
        (*FLOATS, "int16_t", "int32_t"),
        "ORDER(MTE2_S); Arange(d, T(3), T(2), 100);",
        lambda **_: {"d": 3 + 2 * np.arange(100)},
    ),
    "quant": (
        FLOATS,
        f"AscendQuant(q, a, tmp, 20.0f, 3.0f, {R * H});",
        lambda a, **_: {"q": quantized(a, 20, 3)},
    ),
    "quant_channels": (
        FLOATS,
        f"AscendQuant(q, a, tmp, g, b, {H}, {H}, {R * H});",
        lambda a, g, b, **_: {"q": quantized(a.reshape(R, H), g[:H], b[:H])},
    ),
    "dequant": (
        (*FLOATS, "bfloat16_t"),
        f"AscendDequant(d, n, fa, tmp, DequantParams{{{R}, {H}, {V}}});",
        lambda n, fa, **_: {"d": rows(n) * fa[:V]},
    ),
    "dequant_number": (
        (*FLOATS, "bfloat16_t"),
        f"AscendDequant(d, n, 0.25f, tmp, DequantParams{{{R}, {H}, {V}}});",
        lambda n, **_: {"d": rows(n) * 0.25},
    ),
    "antiquant": (
        ("half",),
        f"AscendAntiQuant<int8_t, T, false>(d, p, b, g, tmp, {R}, AntiQuantShapeInfo{{1, {H}, 1, {H}}});",
        lambda p, g, b, **_: {"d": (p.reshape(R, H) + b[:H]).astype(np.float16) * g[:H]},
    ),
    "drop_bytes": (
        FLOATS,
        (
            f"DropOutShapeInfo info; info.firstAxis = {R}; info.srcLastAxis = {H}; info.maskLastAxis = {H}; "
            "DropOut(d, a, z, tmp, 0.5f, info);"
        ),
        lambda a, z, **_: {"d": a * z * 2},
    ),
    "drop_bits": (
        FLOATS,
        (
            f"DropOutShapeInfo info; info.firstAxis = {R}; info.srcLastAxis = {H}; info.maskLastAxis = {H // 8}; "
            "DropOut(d, a, u, tmp, 0.5f, info);"
        ),
        lambda a, u, **_: {"d": a.reshape(R, H) * bits(u.astype(np.uint8)[: R * H // 8], H) * 2},
    ),
    **{
        f"select_bytes_{name}": (
            FLOATS,
            (
                f"SelectWithBytesMaskShapeInfo info; info.firstAxis = {R}; "
                f"info.srcLastAxis = {H}; info.maskLastAxis = {H}; "
                f"{function}(d, a, T(9.0f), z, tmp, info);"
            ),
            lambda a, z, **_: {"d": np.where(z == 0, a, 9)},
        )
        for name, function in (("short", "Select"), ("long", "SelectWithBytesMask"))
    },
    "top_largest": (
        FLOATS,
        (
            f"TopkTiling tiling; TopKInfo info; info.outter = {R}; "
            f"info.inner = {H}; info.n = {V}; LocalTensor<bool> none; "
            "TopK<T>(d, i, a, j, none, tmp, 10, tiling, info);"
        ),
        top_largest,
    ),
    "top_smallest": (
        FLOATS,
        (
            f"TopkTiling tiling; TopKInfo info; info.outter = {R}; "
            f"info.inner = {H}; info.n = {V}; LocalTensor<bool> none; "
            "TopK<T>(d, i, a, j, none, tmp, 10, tiling, info, false);"
        ),
        top_smallest,
    ),
}
# Elements that a function computes, if they are not those of R rows of H elements.
ELEMENTS = {
    "welford_end": H,
    "pad": 16 * 7,
    "fractals": 512,
    "whole_images": 512,
    "transpose": 512,
    "confusion_transpose": 512,
}
MISUSES = {
    "welford_rows": (
        f"WelfordUpdate<T, float>(fd, fe, fa, fb, a, tmp, WelfordUpdateParam{{2, {H}, {H}, 1.0f}});",
        "api_contract",
    ),
    "welford_part": (
        "WelfordUpdate<T, float>(fd, fe, fa, fb, a, tmp, WelfordUpdateParam{1, 60, 60, 1.0f});",
        "api_contract",
    ),
    "welford_in_place": (
        f"WelfordUpdate<T, float>(fa, fb, fa, fb, a, tmp, WelfordUpdateParam{{1, {H}, {H}, 1.0f}});",
        "overlap",
    ),
    "unaligned_row": ("Sum(d, a, tmp, SumParams{2, 31, 31});", "api_contract"),
    "wide_row": ("Sum(d, a, tmp, SumParams{2, 64, 32});", "api_contract"),
    "falling_progression": ("Arange(d, T(3), T(-2), 100);", "api_contract"),
    "empty_tiling": ("RmsNormTiling tiling; RmsNorm<T>(d, a, g, tmp, T(0.1f), tiling);", "api_contract"),
    "small_row_tmp": (
        f"LayerNormTiling tiling; {NORM_TILING} LayerNorm<T>(d, m, s, a, g, b, tmp[3968], T(0.1f), tiling);",
        "tmp_buffer",
    ),
    "large_k": (
        (
            "TopkTiling tiling; TopKInfo info; info.inner = 32; info.n = 8; LocalTensor<bool> none; "
            "TopK<T>(d, i, a, j, none, tmp, 9, tiling, info);"
        ),
        "api_contract",
    ),
    "negative_rows": (
        (
            "TopkTiling tiling; TopKInfo info; info.outter = -1; info.inner = 32; info.n = 8; LocalTensor<bool> none; "
            "TopK<T>(d, i, a, j, none, tmp, 8, tiling, info);"
        ),
        "api_contract",
    ),
    "long_channel": (
        (
            "GroupNormTiling tiling; tiling.n = tiling.g = tiling.d = 1; tiling.hw = 5000; tiling.hwAlignSize = 32; "
            "GroupNorm<T>(d, m, s, a, g, b, tmp, T(0.1f), tiling);"
        ),
        "api_contract",
    ),
    "all_columns": (
        (
            "UnPadTiling tiling; tiling.srcHeight = 2; tiling.srcWidth = 8; "
            "UnPadParams pads{0, 9}; UnPad(d, a, pads, tmp, tiling);"
        ),
        "api_contract",
    ),
    "tmp_in_operand": (f"Sign(d, a, a[64].ReinterpretCast<uint8_t>(), {R * H});", "overlap"),
    "unneeded_tmp_is_result": (f"Frac(d, a, d.ReinterpretCast<uint8_t>(), {R * H});", "overlap"),
    "same_memory": (f"{SHAPE} ReduceSum<T, Pattern::Reduce::AR>(a, a, tmp, shape, true);", "overlap"),
    "short_dst": (f"AscendQuant(q[{R * H - 32}], a, tmp, 20.0f, 3.0f, {R * H});", "ub_out_of_range"),
    "few_parts": (
        trans_data("NCDHW", "NDC1HWC0", "1, 18, 1, 2, 3", "1, 1, 1, 2, 3, 16").replace(
            "(d, w", "(d.ReinterpretCast<half>(), w.ReinterpretCast<half>()"
        ),
        "api_contract",
    ),
    "odd_transpose": (
        (
            "ConfusionTransposeTiling tiling; tiling.param0 = 8; tiling.param1 = 8; "
            "Transpose(d, a, tmp, TransposeType::TRANSPOSE_ND2ND_ONLY, tiling);"
        ),
        "api_contract",
    ),
    "wrong_axis": (
        "const uint32_t to[] = {4, 8}; const uint32_t from[] = {2, 8}; Broadcast<T, 2, 0>(d, a, to, from, tmp);",
        "api_contract",
    ),
    "keep_all": (
        (
            f"DropOutShapeInfo info; info.firstAxis = {R}; info.srcLastAxis = {H}; info.maskLastAxis = {H}; "
            "DropOut(d, a, z, tmp, 1.0f, info);"
        ),
        "api_contract",
    ),
}


def operands(dtype):
    whole = R * H
    sizes = {
        "d": 512,
        "e": whole,
        "a": whole,
        "c": whole,
        "m": 32,
        "s": 32,
        "g": H,
        "b": H,
        "x0": 32,
        "x1": 32,
        "w": 512,
    }
    typed = [Operand(name, dtype, count) for name, count in sizes.items()]
    floats = {"fd": whole, "fe": whole, "fa": whole, "fb": whole, "fm": 8, "fs": 8, "f0": 8, "f1": 8}
    others = {
        "z": "uint8_t",
        "u": "uint8_t",
        "q": "int8_t",
        "p": "int8_t",
        "n": "int32_t",
        "i": "int32_t",
        "j": "int32_t",
    }
    return [
        *typed,
        *(Operand(name, "float", count) for name, count in floats.items()),
        *(Operand(name, kind, whole) for name, kind in others.items()),
    ]


def text(symbol, code, dtype):
    return kernel(symbol, operands(dtype), f"using T [[maybe_unused]] = {dtype}; {code}")


def table():
    return [(name, dtype, *case[1:]) for name, case in CASES.items() for dtype in case[0]]


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    rows_config = f"""
    constexpr CumSumConfig ROWS{{false, false, true}};
    namespace in_template {{
    template <bool isLastAxis>
    __aicore__ inline void CumSum(LocalTensor<float>& d, LocalTensor<float>& e, LocalTensor<float>& a,
                                  LocalTensor<uint8_t>& tmp)
    {{
        static constexpr CumSumConfig columns{{isLastAxis, false, true}};
        static constexpr CumSumConfig rows{{false, false, true}};
        if constexpr (isLastAxis) {{
            AscendC::CumSum<float, columns>(d, e, a, CumSumInfo{{{R}, {H}}});
        }} else {{
            AscendC::CumSum<float, rows>(d, e, a, tmp, CumSumInfo{{{R}, {H}}});
        }}
    }}
    }}
    """
    clean = [text(f"{name}_{dtype}", code, dtype) for name, dtype, code, _ in table()]
    clean += [text(f"{n}_misplaced", misplaced(c[1]), c[0][0]) for n, c in CASES.items()]
    return compile_kernels(
        HEADER + rows_config + "".join(clean + [text(n, c, "float") for n, (c, _) in MISUSES.items()])
    )


def arrays(dtype, seed=5):
    rng = np.random.default_rng(seed)
    tensors = {}
    for operand in operands(dtype):
        kind = np.dtype(CPP[operand.dtype])
        low, high = (0.5, 1.5) if operand.name in ("x0", "f1", "fb") else (-2, 2)
        if kind.kind in "iu":
            tensors[operand.name] = rng.integers(0, 100, operand.count).astype(kind)
        else:
            tensors[operand.name] = rng.uniform(low, high, operand.count).astype(kind)
    tensors["z"] = rng.integers(0, 2, len(tensors["z"])).astype(np.uint8)
    return tensors


@pytest.mark.parametrize(("name", "dtype", "code", "formula"), [pytest.param(*r, id=f"{r[0]}-{r[1]}") for r in table()])
def test_formula(kernels, name, dtype, code, formula):
    tensors = arrays(dtype)
    integers = name == "xor_sum"
    wide = {n: t.copy() if integers else t.astype(np.float64) for n, t in tensors.items()}
    if name == "arange":  # one instruction of the basic API
        cycles = kernels.cycles(f"arange_{dtype}", *tensors.values())
        assert cycles["Arange"] == pytest.approx(vector(repeats(100, tensors["d"].itemsize)))
    else:
        assert_timed(kernels, f"{name}_{dtype}", code, tensors, ELEMENTS.get(name, R * H))
    near = TOLERANCE.get(dtype, 0) * 4
    for output, expected in formula(**wide).items():
        got = tensors[output].astype(np.float64)
        if isinstance(expected, list):  # one after the other
            got = got[: sum(map(np.size, expected))]
        elif np.ndim(expected) == 2 and not name.endswith("transpose"):
            pitch = 16 if name.startswith("top") else H  # 10 elements, rounded up to 32 bytes
            got = got[: len(expected) * pitch].reshape(-1, pitch)[:, : expected.shape[1]]
        elif np.ndim(expected) == 3:
            got = got[: R * H].reshape(2, 3, H)[:, :, :16]
        else:
            got = got[: np.size(expected)].reshape(np.shape(expected))
        whole = np.concatenate(expected) if isinstance(expected, list) else expected
        np.testing.assert_allclose(got, whole, near, near)


@pytest.mark.parametrize("name", CASES)
def test_misplaced_operand(kernels, name, record_planted):
    report = kernels.launch(f"{name}_misplaced", *arrays(CASES[name][0][0]).values())
    record_planted(f"high-level function: {name}", assert_misplaced(report, CASES[name][1]))


@pytest.mark.parametrize("name", MISUSES)
def test_misuse(kernels, name, record_planted):
    report = kernels.launch(name, *arrays("float").values())
    assert [finding["kind"] for finding in report["findings"]] == [MISUSES[name][1]]
    record_planted(f"high-level function: {name}", report["findings"][0])
