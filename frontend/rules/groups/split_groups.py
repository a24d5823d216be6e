"""Match sums over groups of constant size: a split, one sum for each slice, and a concatenation."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from onnx import NodeProto

from opforge.codegen.printing import shown
from opforge.frontend.ir.attributes import int_attribute
from opforge.frontend.ir.reason import Unmatched, Unrelated
from opforge.frontend.rules.pattern import Each, Found, Operators, Through
from opforge.frontend.rules.rule import Match, Rule

op, microsoft = Operators(), Operators("com.microsoft")


_STEPS = (op.ReduceSum("", ...), op.Reshape("", ...), op.Squeeze("", ...), op.Unsqueeze("", ...))
_SPLIT = op.Split("", ..., _any_output=True) | microsoft.SplitTraining("", ..., _any_output=True)


class FuseSplitGroups(Rule):
    """`Split` of rows, a `ReduceSum` over the rows of each part, and their `Concat` -> `GroupedBiasAddGrad`.

    The parts may also be slices, and may be reshaped before and after they are summed.
    """

    name = "FuseSplitGroups"
    operator = "GroupedBiasAddGrad"
    group = "patterns"
    is_common = True
    pattern = op.Concat(Each(Through((_SPLIT | op.Slice("", ...)).named("part"), *_STEPS)))

    def check(self, found: Found) -> Match:
        """Match parts that are all rows of one matrix in order, each summed to one row; every value has one reader."""
        node = found.node
        if len(found.parts) < 2 or not any(_sums(part) for part in found.parts):
            raise Unrelated
        shape = _shape(found, node.output[0])
        if int_attribute(node, "axis") not in (0, -2) or len(shape) != 2:
            raise Unmatched(
                f"joins sums along axis {int_attribute(node, 'axis')} to {list(shape)}, expected one row for each group"
            )
        for name, part in zip(node.input, found.parts, strict=False):
            _require_row(part, name, (1, *shape[-1:]))
        source, ends = _rows(found)
        known = found.context.types.of(found.scope, source)
        if known.shape is None or len(known.shape) != 2 or known.shape[0] != ends[-1]:
            raise Unmatched(f"needs all rows of a matrix; {shown(source)} is {known}, the parts end at {ends[-1]}")
        return Match(
            {"grad_y": source, "group_idx": np.array(ends, np.int64), "grad_bias": node.output[0]},
            {"group_idx_type": 0},
            (*dict.fromkeys(each for part in found.parts for each in part.nodes), found.nodes[0]),
        )


def _sums(part: Found) -> list[NodeProto]:
    return [node for node in map(part.scope.node, part.nodes) if node.op_type == "ReduceSum"]


def _shape(found: Found, name: str) -> tuple[int | None, ...]:
    shape = found.context.types.of(found.scope, name).shape
    if shape is None:
        raise Unmatched(f"the shape of {shown(name)} is not known")
    return shape


def _require_row(part: Found, name: str, row: tuple[int | None, ...]) -> None:
    """Require a value to be the sum of the rows of a part; for a part of one row, the part itself."""
    if _shape(part, name) != row:
        raise Unmatched(f"{shown(name)} is {list(_shape(part, name))}, expected one row {list(row)}")
    if None in row and any(part.scope.node(number).op_type == "Reshape" for number in part.nodes):
        raise Unmatched(f"{shown(name)} is reshaped and has {list(row)}; its width must be known")
    sums, source = _sums(part), part.names["part"]
    for value in (*(part.scope.node(number).output[0] for number in part.nodes[:-1]), source):
        if part.context.view.only_reader(part.scope, value) is None:
            raise Unmatched(f"{shown(value)} has other readers")
    if len(sums) > 1 or (not sums and _shape(part, source) != row):
        raise Unmatched(f"{shown(source)} is {list(_shape(part, source))} and is summed {len(sums)} times")
    for node in sums:
        shape = _shape(part, node.input[0])
        axes = part.context.constants.axes(part.scope, node)
        summed = {axis % len(shape) for axis in axes or ()} if shape else set()
        others = {axis for axis, dim in enumerate(shape[:-1]) if dim != 1}
        if shape[-1:] != row[1:] or len(shape) - 1 in summed or not others <= summed:
            raise Unmatched(f"sums axes {axes} of {shown(node.input[0])} {list(shape)}, expected all except the last")


def _rows(found: Found) -> tuple[str, list[int]]:
    """Return the matrix that consists of the parts, and the end of each part."""
    nodes = [part.scope.node(part.nodes[-1]) for part in found.parts]
    if len({part.nodes[-1] for part in found.parts}) == 1 and nodes[0].op_type != "Slice":
        return nodes[0].input[0], _split_ends(found, nodes[0])
    if all(node.op_type == "Slice" for node in nodes):
        return nodes[0].input[0], _slice_ends(found, nodes)
    raise Unmatched("sums the parts of several values, expected those of one Split, or slices")


def _split_ends(found: Found, node: NodeProto) -> list[int]:
    parts = [part.names["part"] for part in found.parts]
    if list(node.output) != parts:
        raise Unmatched("does not join the sums of all parts in their order")
    if (int_attribute(node, "axis") or 0) not in (0, -2):
        raise Unmatched(f"splits axis {int_attribute(node, 'axis')}, expected the rows, axis 0")
    try:
        sizes = found.context.constants.numbers(found.scope, node, "split", 1)
    except Unmatched:
        # onnxruntime computes the sizes at run time; they are in the types of the parts.
        sizes = None
    rows: list[int | None] = [*sizes] if sizes else [_shape(part, part.names["part"])[0] for part in found.parts]
    known = [size for size in rows if size is not None]
    if len(known) < len(parts):
        raise Unmatched(f"the sizes of the parts of {shown(node.input[0])} are not known")
    return list(accumulate(known))


def _slice_ends(found: Found, nodes: list[NodeProto]) -> list[int]:
    source = nodes[0].input[0]
    rows = _shape(found, source)[0]
    ends = [0]
    for node in nodes:
        starts, stops, axes, steps = found.context.constants.slice_limits(found.scope, node)
        is_rows = axes in (None, [0], [-2]) and steps in (None, [1]) and len(starts or ()) == len(stops or ()) == 1
        if not is_rows or rows is None or not starts or not stops:
            raise Unmatched(f"slices axes {axes} from {starts} to {stops} by {steps}, expected rows alone, by 1")
        start, stop, _ = slice(starts[0], stops[0]).indices(rows)
        if node.input[0] != source or start != ends[-1] or stop < start:
            raise Unmatched(f"takes rows {start} to {stop} of {shown(node.input[0])}, expected them from {ends[-1]} on")
        ends.append(stop)
    return ends[1:]
