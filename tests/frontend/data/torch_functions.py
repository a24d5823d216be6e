"""Functions of PyTorch in NumPy, from their definitions, so that a wrong mapping shows as a difference."""

from itertools import pairwise

import numpy as np

from opforge.frontend.run.reference_ops import make_operator


def as_float64(array):
    """Return the numbers in the type in which everything here is computed."""
    return array.astype(np.float64)


def _embedding(grad, indices, rows, padding, scaled, _sparse=None):
    """Gradient of the table of `torch.nn.functional.embedding`; rows outside of the table are skipped."""
    count, width = int(rows.item()), grad.shape[-1]
    table = np.zeros((count, width))
    flat = indices.reshape(-1).astype(np.int64)
    kept = (flat >= 0) & (flat < count) & (flat != int(padding.item()))
    np.add.at(table, flat[kept], as_float64(grad).reshape(-1, width)[kept])
    if scaled.item():
        table /= np.maximum(np.bincount(flat[kept], minlength=count), 1)[:, None]
    return (table.astype(grad.dtype),)


def _batch_norm(
    dy,
    x,
    mean,
    invstd,
    weight,
    sum_dy,
    sum_dy_xmu,
    count=None,
):
    """`batch_norm_backward_elemt`; without `count` the old schema, whose sums are means already."""
    total = 1.0 if count is None else float(as_float64(count).sum())
    inner = [1] * (x.ndim - 2)
    m, s, a, b = (as_float64(v).reshape(-1, *inner) for v in (mean, invstd, sum_dy, sum_dy_xmu))
    scale = 1.0 if weight is None else as_float64(weight).reshape(-1, *inner)
    with np.errstate(divide="ignore", invalid="ignore"):
        result = (as_float64(dy) - a / total - (as_float64(x) - m) * s**2 * b / total) * s * scale
    return (result.astype(dy.dtype),)


def _conv_tbc(g, x, w, bias, pad):
    """Gradients of `torch.conv_tbc`, one tap at a time."""
    border, time, out_time = int(pad.item()), x.shape[0], g.shape[0]
    wide = np.pad(as_float64(x), ((border, border), (0, 0), (0, 0)))
    dx, dw, dy = np.zeros(wide.shape), np.zeros(w.shape), as_float64(g)
    for tap in range(w.shape[0]):
        dx[tap : tap + out_time] += dy @ as_float64(w[tap]).T
        dw[tap] = np.tensordot(wide[tap : tap + out_time], dy, ((0, 1), (0, 1)))
    return dx[border : border + time].astype(x.dtype), dw.astype(w.dtype), dy.sum((0, 1)).astype(bias.dtype)


def _nsa(g, x, w, block, stride, ends=None):
    """Gradients of the weighted sums over windows of `npu_nsa_compress`."""
    width, step = int(block.item()), int(stride.item())
    limits = [0, *(np.reshape(ends, -1).tolist() if ends is not None else [])]
    if len(limits) == 1:
        # Without ends, the sequences have equal lengths.
        divisors = [count for count in range(1, len(x) + 1) if len(x) % count == 0]
        fits = [count for count in divisors if count * (max(len(x) // count - width + step, 0) // step) == len(g)]
        limits = list(range(0, len(x) + 1, len(x) // fits[0])) if fits else [0, len(x)]
    begins = [begin for start, end in pairwise(limits) for begin in range(start, end - width + 1, step)]
    dx, dw = np.zeros(x.shape), np.zeros(w.shape)
    for begin, row in zip(begins, as_float64(g), strict=True):
        dx[begin : begin + width] += as_float64(w)[:, :, None] * row
        dw += (as_float64(x[begin : begin + width]) * row).sum(-1)
    return dx.astype(x.dtype), dw.astype(w.dtype)


TORCH = {
    "embedding_dense_backward": _embedding,
    "embedding_backward": _embedding,
    "batch_norm_backward_elemt": _batch_norm,
    "conv_tbc_backward": _conv_tbc,
}


def operators(_specs, _run_body):
    """What `torch_operators` of `run/reference_ops.py` gives, from the definitions."""
    aten = "org.pytorch.aten"
    for name, function in TORCH.items():
        yield make_operator(aten, name, lambda _node, values, _given, function=function: function(*values))
    yield make_operator(aten, "ATen", lambda _node, values, given: TORCH[given["operator"]](*values))
    yield make_operator("npu", "npu_nsa_compress_grad", lambda _node, values, _given: _nsa(*values))
