"""One graph for each form of onnxruntime's training nodes that `--lower-training` supports, and arrays for it."""

import numpy as np
import onnx
from onnx import helper

_SHAPE = "s = Constant <value = int64[3] {4, 5, 3}> ()"
_X = "(float[3, 4, 5] dy, float[3, 4, 5] x) => (float[3, 4, 5] r)"
_LOSS = "(float{dims} dy, float[4, 3, 2] p, int64[4, 2] labels{more}) => (float[4, 3, 2] r)"

# Inputs and outputs, then the nodes; `m` means com.microsoft.
NODES = {
    **{
        name: f"{_X} {{r = m.{name} (dy, x)}}"
        for name in ("ReluGrad", "SigmoidGrad", "TanhGrad", "GeluGrad", "FastGeluGrad", "QuickGeluGrad")
    },
    "QuickGeluGrad alpha": f"{_X} {{r = m.QuickGeluGrad <alpha = 1.3> (dy, x)}}",
    **{name: f"(float[3, 4] x) => (float[3, 4] r) {{r = m.{name} (x)}}" for name in ("Gelu", "FastGelu", "QuickGelu")},
    "FastGelu bias": "(float[3, 4] x, float[4] b) => (float[3, 4] r) {r = m.FastGelu (x, b)}",
    "BiasGelu": "(float[3, 4] x, float[4] b) => (float[3, 4] r) {r = m.BiasGelu (x, b)}",
    **{
        name: f"(float[3, 4] dy, float[3, 4] x, float[4] b) => (float[3, 4] r) {{r = m.{name} (dy, x, b)}}"
        for name in ("BiasGeluGrad_dX", "BiasFastGeluGrad_dX")
    },
    **{
        f"{name} {axis}": f"{_X} {{r = m.{name} <axis = {axis}> (dy, x)}}"
        for name, axes in (
            ("SoftmaxGrad_13", (-1, 1)),
            ("LogSoftmaxGrad_13", (2, 0)),
            ("SoftmaxGrad", (1, 2)),
            ("LogSoftmaxGrad", (1, 0)),
        )
        for axis in axes
    },
    **{
        f"{name} of none": f"(float[3, 0] dy, float[3, 0] x) => (float[3, 0] r) {{r = m.{name} (dy, x)}}"
        for name in ("SoftmaxGrad_13", "LogSoftmaxGrad")
    },
    "LayerNormalizationGrad": """(float[3, 4, 5] dy, float[3, 4, 5] x, float[5] w, float[3, 4, 1] u, float[3, 4, 1] v)
        => (float[3, 4, 5] dx, float[5] dw, float[5] db) {dx, dw, db = m.LayerNormalizationGrad (dy, x, w, u, v)}""",
    "LayerNormalizationGrad axis": """
        (float[3, 4, 5] dy, float[3, 4, 5] x, float[4, 5] w, float[3, 1, 1] u, float[3, 1, 1] v)
        => (float[3, 4, 5] dx, float[4, 5] dw, float[4, 5] db)
        {dx, dw, db = m.LayerNormalizationGrad <axis = 1> (dy, x, w, u, v)}""",
    "BatchNormInternal": """(float[4, 3, 2, 2] x, float[3] w, float[3] b)
        => (float[4, 3, 2, 2] y, float[3] nu, float[3] nv, float[3] mean, float[3] root)
        {u = Constant <value = float[3] {1, 2, 3}> () v = Constant <value = float[3] {4, 5, 6}> ()
        y, nu, nv, mean, root = m.BatchNormInternal <momentum = 0.7, epsilon = 0.01, training_mode = 1>
            (x, w, b, u, v)}""",
    **{
        f"FusedMatMul {left} {right}": f"""(float{left} a, float{right} b) => (float{result} r)
            {{r = m.FusedMatMul <alpha = {alpha}, {options}> (a, b)}}"""
        for left, right, result, alpha, options in (
            ([2, 4, 3], [2, 4, 5], [2, 3, 5], 0.5, "transA = 1"),
            ([4, 3], [5, 3], [4, 5], 1.0, "transB = 1"),
            ([3, 2, 4], [5, 2, 4], [2, 3, 5], 2.0, "transBatchA = 1, transBatchB = 1, transB = 1"),
            ([4, 2, 3], [2, 4, 5], [2, 3, 5], 1.0, "transBatchA = 1, transA = 1"),
        )
    },
    **{
        f"DivGrad {name}": f"""(float[2, 3, 4] dy, float{a or ""} a, float{b} v) => ({results})
            {{{outputs} = m.DivGrad (dy, a, v)}}"""
        for name, a, b, results, outputs in (
            ("whole", [2, 3, 4], [2, 3, 4], "float[2, 3, 4] da, float[2, 3, 4] db", "da, db"),
            ("spread", [2, 1, 4], [3, 1], "float[2, 1, 4] da, float[3, 1] db", "da, db"),
            ("row", [2, 3, 4], [4], "float[4] db", '"", db'),
            ("number", [], [2, 3, 4], "float da", "da"),
            ("one", [1, 1, 1], [2, 3, 4], "float[1, 1, 1] da, float[2, 3, 4] db", "da, db"),
        )
    },
    "DivGrad of none": "(float[0, 4] dy, float[1, 4] a, float[0, 4] v) => (float[1, 4] r) {r = m.DivGrad (dy, a, v)}",
    "LeakyReluGrad": f"{_X} {{r = m.LeakyReluGrad (dy, x)}}",
    "LeakyReluGrad negative": f"{_X} {{r = m.LeakyReluGrad <alpha = -0.5> (dy, x)}}",
    "Trilu": "(float[3, 4] x) => (float[3, 4] r) {r = m.Trilu (x)}",
    **{
        f"Trilu {k} {upper}": f"""(float[2, 3, 4] x) => (float[2, 3, 4] r)
            {{k = Constant <value = int64 {{{k}}}> () r = m.Trilu <upper = {upper}> (x, k)}}"""
        for k, upper in ((-1, 0), (1, 1), (9, 1), (-9, 0))
    },
    **{
        f"{name.removeprefix('m.')} {attributes}": f"""(float[3, 4, 5] {given}) => ({results})
            {{{outputs} = {name} <{attributes}> ({inputs})}}"""
        for attributes, inner, outer in (
            ("axis = -1", "[5]", "[3, 4, 1]"),
            ("axis = -2, epsilon = 0.5", "[4, 5]", "[3, 1, 1]"),
            ("axis = 0", "[3, 4, 5]", "[1, 1, 1]"),
        )
        for name, given, results, outputs, inputs in (
            (
                "SimplifiedLayerNormalization",
                f"x, float{inner} w",
                f"float[3, 4, 5] y, float{outer} root",
                "y, root",
                "x, w",
            ),
            (
                "m.SimplifiedLayerNormalizationGrad",
                f"dy, float[3, 4, 5] x, float{inner} w, float{outer} v",
                f"float[3, 4, 5] dx, float{inner} dw",
                "dx, dw",
                "dy, x, w, v",
            ),
        )
    },
    "Scale": "(float[3, 4] x, float[1] k) => (float[3, 4] r) {r = m.Scale (x, k)}",
    "Scale by an integer": """(float x) => (float r)
        {k = Constant <value = int64[1] {3}> () r = m.Scale <scale_down = 1> (x, k)}""",
    "Scale down": "(float[3, 4] x, float[1] k) => (float[3, 4] r) {r = m.Scale <scale_down = 1> (x, k)}",
    **{
        f"SoftmaxCrossEntropyLossGrad {name}": _LOSS.format(dims=dims, more=more)
        + f"{{r = m.SoftmaxCrossEntropyLossGrad <{attributes}> (dy, p, labels{inputs})}}"
        for name, dims, attributes, more, inputs in (
            ("mean", "", 'reduction = "mean"', "", ""),
            ("sum", "", 'reduction = "sum"', "", ""),
            ("none", "[4, 2]", 'reduction = "none"', "", ""),
            ("none of one", "", 'reduction = "none"', "", ""),
            ("weight", "", 'reduction = "mean"', ", float[3] v", ", v"),
            ("ignored", "", 'reduction = "mean", ignore_index = 1', "", ""),
            ("both", "", 'reduction = "sum", ignore_index = 1', ", float[3] v", ", v"),
        )
    },
    **{
        f"SoftmaxCrossEntropyLossGrad int32 {attributes}": _LOSS.format(dims="", more="").replace("int64", "int32")
        + f"{{r = m.SoftmaxCrossEntropyLossGrad <{attributes}> (dy, p, labels)}}"
        for attributes in ('reduction = "mean"', 'reduction = "sum", ignore_index = 1')
    },
    "SoftmaxCrossEntropyLossGrad all ignored": """(float dy, float[4, 3, 2] p) => (float[4, 3, 2] r)
        {k = Constant <value = int64[4, 2] {2, 2, 2, 2, 2, 2, 2, 2}> ()
        r = m.SoftmaxCrossEntropyLossGrad <reduction = "mean", ignore_index = 2> (dy, p, k)}""",
    "SoftmaxCrossEntropyLossInternalGrad": _LOSS.format(dims="", more="")
    + """{k = Constant <value = int64 {2}> ()
        r = m.SoftmaxCrossEntropyLossInternalGrad <reduction = "mean"> (dy, p, labels, "", k)}""",
    "SoftmaxCrossEntropyLossInternal": """(float[4, 3] x, int64[4] labels, float[3] v) => (float r, float[4, 3] p)
        {k = Constant <value = int64 {2}> ()
        r, p = m.SoftmaxCrossEntropyLossInternal <reduction = "mean"> (x, labels, v, k)}""",
    "DropoutGrad": """(float[3, 4] dy, bool[3, 4] mask) => (float[3, 4] r)
        {k = Constant <value = float {0.2}> () t = Constant <value = bool {1}> ()
        r = m.DropoutGrad (dy, mask, k, t)}""",
    "DropoutGrad off": """(float[3, 4] dy, bool[3, 4] mask) => (float[3, 4] r)
        {k = Constant <value = float {0.2}> () t = Constant <value = bool {0}> ()
        r = m.DropoutGrad (dy, mask, k, t)}""",
    "GatherGrad": f"""(float[4, 2, 2, 3] dy, int64[2, 2] labels) => (float[4, 5, 3] r)
        {{{_SHAPE} r = m.GatherGrad <axis = 1> (s, labels, dy)}}""",
    "GatherGrad one": f"""(float[4, 3] dy) => (float[4, 5, 3] r)
        {{{_SHAPE} i = Constant <value = int64 {{-1}}> () r = m.GatherGrad <axis = 1> (s, i, dy)}}""",
    **{
        f"GatherGrad of none {dims} {axis}": f"""(float{dy} dy, int64{dims} labels) => (float[4, 5, 3] r)
            {{{_SHAPE} r = m.GatherGrad <axis = {axis}> (s, labels, dy)}}"""
        for dims, axis, dy in (([0], 0, [0, 5, 3]), ([0], -1, [4, 5, 0]), ([2, 0], 1, [4, 2, 0, 3]))
    },
    "GatherElementsGrad": f"""(float[4, 2, 3] dy, int64[4, 2, 3] labels) => (float[4, 5, 3] r)
        {{{_SHAPE} r = m.GatherElementsGrad <axis = 1> (dy, s, labels)}}""",
    "GatherNDGrad": f"""(float[6, 3] dy, int64[6, 2] labels) => (float[4, 5, 3] r)
        {{{_SHAPE} r = m.GatherNDGrad (s, labels, dy)}}""",
    "SliceGrad": f"""(float[4, 2, 3] dy) => (float[4, 5, 3] r)
        {{{_SHAPE} a = Constant <value = int64[1] {{1}}> () b = Constant <value = int64[1] {{-2}}> ()
        r = m.SliceGrad (dy, s, a, b, a)}}""",
    **{
        f"SliceGrad {name}": f"""(float[2, 5, 2] dy) => (float[4, 5, 3] r)
            {{{_SHAPE} a = Constant <value = int64[2] {{{starts}}}> () b = Constant <value = int64[2] {{{ends}}}> ()
            k = Constant <value = int64[2] {{0, 2}}> () t = Constant <value = int64[2] {{{steps}}}> ()
            r = m.SliceGrad (dy, s, a, b, k, t)}}"""
        for name, starts, ends, steps in (("steps", "0, -3", "9, 3", "2, 2"), ("back", "0, 2", "9, -9", "2, -2"))
    },
    "ConcatTraining": """(float[3, 2] a, float[3, 4] b) => (float[3, 6] r, int64[2] n)
        {r, n = m.ConcatTraining <axis = 1> (a, b)}""",
    "SplitTraining": """(float[3, 6] x) => (float[3, 2] a, float[3, 4] b)
        {k = Constant <value = int64[2] {2, 4}> () a, b = m.SplitTraining <axis = 1> (x, k)}""",
    "ReduceSumTraining": """(float[3, 4, 5] x) => (float[3, 5] r)
        {k = Constant <value = int64[1] {1}> () r = m.ReduceSumTraining <keepdims = 0> (x, k)}""",
    **{
        f"ConvGrad {x} {w} {attributes}": f"""(float{dy} dy, float{x} x, float{w} w)
            => (float{x} dx, float{w} dw, float[{w[0]}] db)
            {{dx, dw, db = m.ConvGrad <kernel_shape = {w[2:]}, {attributes}> (dy, x, w)}}"""
        for dy, x, w, attributes in (
            ([2, 4, 5, 5], [2, 3, 5, 5], [4, 3, 3, 3], "pads = [1, 1, 1, 1]"),
            ([2, 4, 3, 2], [2, 3, 7, 6], [4, 3, 3, 3], "strides = [2, 3], pads = [0, 1, 0, 0]"),
            ([2, 6, 3, 3], [2, 4, 6, 6], [6, 2, 2, 2], "strides = [2, 2], group = 2, pads = [0, 0, 1, 1]"),
            ([2, 4, 3], [2, 4, 8], [4, 1, 3], "strides = [2], dilations = [2], group = 4, pads = [1, 0]"),
        )
    },
    **{
        f"ConvTransposeGrad {x} {w} {attributes}": f"""(float{dy} dy, float{x} x, float{w} w)
            => (float{x} dx, float{w} dw, float[{dy[1]}] db)
            {{dx, dw, db = m.ConvTransposeGrad <{attributes}> (dy, x, w)}}"""
        for dy, x, w, attributes in (
            ([2, 4, 7, 6], [2, 3, 5, 4], [3, 4, 3, 3], "kernel_shape = [3, 3]"),
            (
                [2, 4, 10, 6],
                [2, 3, 5, 4],
                [3, 4, 3, 3],
                "strides = [2, 1], pads = [1, 0, 1, 0], output_padding = [1, 0]",
            ),
            ([2, 6, 9], [2, 4, 3], [4, 3, 2], "strides = [3], group = 2, output_padding = [1]"),
            ([2, 4, 10], [2, 4, 4], [4, 1, 3], "strides = [2], dilations = [2], group = 4, pads = [1, 0]"),
        )
    },
    **{
        f"AveragePoolGrad {x} {attributes}": f"""(float{dy} dy) => (float{x} r)
            {{r = AveragePoolGrad <{attributes}> (dy)}}"""
        for dy, x, attributes in (
            ([2, 3, 3], [2, 3, 7], "kernel_shape = [2], strides = [2]"),
            ([2, 3, 2], [2, 3, 6], 'kernel_shape = [3], strides = [2], auto_pad = "VALID"'),
            ([2, 3, 4, 3], [2, 3, 8, 5], "kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 1]"),
            (
                [2, 3, 4, 5],
                [2, 3, 8, 5],
                "kernel_shape = [3, 3], strides = [2, 1], pads = [1, 1, 1, 1], count_include_pad = 1",
            ),
            ([2, 3, 3, 4], [2, 3, 6, 6], "kernel_shape = [3, 3], strides = [2, 2], pads = [0, 1, 0, 1], ceil_mode = 1"),
            ([1, 2, 2, 1, 3], [1, 2, 4, 3, 3], "kernel_shape = [2, 3, 1], strides = [2, 1, 1], count_include_pad = 1"),
        )
    },
}
# onnxruntime fails for these, or has no CPU implementation; its average over three axes is wrong.
FAILING = {
    name
    for name in NODES
    if name.startswith(
        (
            "AveragePoolGrad [1, 2, 4",
            "ConvTransposeGrad",
            "DivGrad of none",
            "SliceGrad back",
            "SoftmaxCrossEntropyLossGrad none of one",
        )
    )
}
# Nodes that write over their inputs.
UPDATES = {
    "InPlaceAccumulatorV2": """(float[3, 4] buffer, float[3, 4] x) => (bool[1] r)
        {r = m.InPlaceAccumulatorV2 (buffer, x)}""",
    **{
        f"InPlaceAccumulatorV2 {flag}": f"""(float[3, 4] buffer, float[3, 4] x) => (bool[1] r)
            {{k = Constant <value = bool[1] {{{flag}}}> () r = m.InPlaceAccumulatorV2 (buffer, x, k)}}"""
        for flag in (0, 1)
    },
}
_ADAM = """(float[1] rate, int64[1] step, float[3, 4] w, float[5] x, float[3, 4] g, float[5] h,
    float[3, 4] m, float[5] n, float[3, 4] v, float[5] u) => (bool[1] r)
    {{p = SequenceConstruct (w, x) q = SequenceConstruct (g, h)
    s = SequenceConstruct (m, n) t = SequenceConstruct (v, u)
    r = m.AdamWOptimizer <alpha = 0.8, beta = 0.95, epsilon = 0.01, weight_decay = 0.1, {}>
        (rate, step, p, q, s, t)}}"""
OPTIMIZERS = {
    f"AdamWOptimizer {mode} {corrected}": _ADAM.format(f"adam_mode = {mode}, correct_bias = {corrected}")
    for mode in (0, 1)
    for corrected in (0, 1)
} | {
    "SGDOptimizerV2": """(float[1] rate, float[3, 4] w, float[5] x, float[3, 4] g, float[5] h) => (bool[1] r)
        {p = SequenceConstruct (w, x) q = SequenceConstruct (g, h) r = m.SGDOptimizerV2 (rate, p, q)}"""
}


def node_model(text):
    """Return the model of a text above."""
    written = text.replace("= m.", "= com.microsoft.")
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]> g {written}')


def node_feed(model, generator):
    """Return arrays for it: labels are 0 to 2, `u` and `v` are positive, `p` contains logarithms of probabilities."""
    arrays = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value for dim in tensor.shape.dim]
        numbers = generator.normal(size=shape)
        if value.name == "labels":
            numbers = generator.integers(0, 3, shape)
        elif value.name in ("u", "v", "rate"):
            numbers = np.abs(numbers) + 0.1
        elif value.name == "p":
            numbers -= np.log(np.exp(numbers).sum(1, keepdims=True))
        elif value.name == "step":
            numbers = np.full(shape, 3)
        elif value.name == "mask":
            numbers = numbers > 0
        arrays[value.name] = np.asarray(numbers).astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return arrays
