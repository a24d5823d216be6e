"""Match gradients of embeddings: a scatter that adds."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from opforge.codegen.printing import shown
from opforge.frontend.ir.external import is_external
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.scope import INITIALIZER, Scope
from opforge.frontend.ir.tensor_data import data_problem
from opforge.frontend.rules.context import Context
from opforge.frontend.rules.pattern import (
    Constant,
    Found,
    Like,
    Operators,
    Pattern,
    Through,
    require_rows,
    require_type,
)
from opforge.frontend.rules.rule import Match, Rule

op = Operators()
# The negated comparison of each comparison.
_OPPOSITES = {"Equal": "NotEqual", "GreaterOrEqual": "Less", "Less": "GreaterOrEqual"}
# Element types for a number of rows.
_COUNTING = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.BFLOAT16,
    TensorProto.DOUBLE,
    TensorProto.INT32,
    TensorProto.INT64,
)


class FuseScatterAdd(Rule):
    """`ScatterND` or `ScatterElements` that adds rows onto zeros -> `EmbeddingDenseBackward`.

    PyTorch's decomposition adds a mask of the rows that exist and are no padding, and a division by the number of equal
    indices. On request only: negative indices count from the end in a bare scatter.
    """

    name = "FuseScatterAdd"
    operator = "EmbeddingDenseBackward"
    group = "patterns"
    pattern = op.ScatterND(...) | op.ScatterElements(...)

    def check(self, found: Found) -> Match:
        """Match a zero table, one index per row, reduction add, and a mask of known conditions."""
        scatter = read_scatter(found)
        indices = scatter.indices if scatter.new_indices is None else scatter.new_indices
        return Match(
            {"grad": scatter.grad, "indices": indices, "grad_weight": found.node.output[0]},
            {"num_weights": scatter.rows, "padding_idx": scatter.padding, "scale_grad_by_freq": scatter.is_scaled},
            absorbed=scatter.seen,
        )


@dataclass(frozen=True)
class _Zeros(Pattern):
    """A table of zeros of some rank; its shape is captured as a constant."""

    rank: int

    def read(self, found: Found, name: str) -> None:
        shape = self._shape(found, name)
        if len(shape) != self.rank:
            raise Unmatched(f"adds onto a table of {len(shape)} dims {list(shape)}, expected {self.rank}")
        found.constants["table"] = np.array(shape, np.int64)

    def _shape(self, found: Found, name: str) -> tuple[int, ...]:
        node, constants = found.maker(name), found.context.constants
        if found.kind(name) == ("", "ConstantOfShape") and node.input:
            if not all(_is_zero(attribute.t) for attribute in node.attribute if attribute.name == "value"):
                raise Unmatched(f"adds onto {shown(name)}, which is not zero")
            found.nodes.append(found.scope.makers[name])
            dims = constants.required(found.scope, node.input[0], "the shape of the table")
            return tuple(int(dim) for dim in np.ravel(dims))
        value = constants.find(found.scope, name)
        if value is not None and not value.any():
            return value.shape
        # Tables are larger than the limit for evaluation.
        owner, maker = found.scope.find(name) or (found.scope, 0)
        tensor = owner.initializer(name) if maker == INITIALIZER else None
        if tensor is None or is_external(tensor) or not _is_zero(tensor):
            raise Unmatched(f"adds onto {shown(name)}, which is not known to be zero")
        return tuple(tensor.dims)


@dataclass(frozen=True)
class _Mask(Pattern):
    """A conjunction of index >= 0, index < rows and index != padding; the numbers are captured by comparison.

    Attributes:
        is_negated: Whether rows are kept if the condition is false.
    """

    is_negated: bool

    def read(self, found: Found, name: str) -> None:
        waiting = [(name, self.is_negated)]
        # Each condition is matched once, because few nodes can have very many paths.
        known = set(waiting)
        while waiting:
            condition, is_negated = waiting.pop()
            (domain, op_type), inputs = found.kind(condition), found.maker(condition).input[:]
            if domain != "" or not inputs or not all(inputs):
                raise Unmatched(f"has a mask {shown(condition)}, expected comparisons of the index")
            found.nodes.append(found.scope.makers[condition])
            if op_type in ("Not", "Unsqueeze", "Or" if is_negated else "And"):
                parts = inputs if op_type in ("And", "Or") else inputs[:1]
                new = [(part, is_negated != (op_type == "Not")) for part in parts]
                waiting += reversed([part for part in new if part not in known])
                known.update(new)
                continue
            comparison = _OPPOSITES.get(op_type, "") if is_negated else op_type
            if comparison not in _OPPOSITES.values() or len(inputs) != 2:
                raise Unmatched(f"has a mask {shown(condition)}, expected index >= 0, index < rows or index != padding")
            index, limit = inputs
            if found.names.setdefault("index", index) != index:
                raise Unmatched(f"masks by {shown(index)} and by {shown(found.names['index'])}")
            value = found.context.constants.required(found.scope, limit, "the limit of a mask")
            if value.size != 1 or value.dtype.kind not in "iuf" or not float(value.item()).is_integer():
                raise Unmatched(f"has a mask with {op_type} {shown(value.tolist())}, expected a whole number")
            number = np.array(int(value.item()))
            if found.constants.setdefault(comparison, number) != number or (comparison == "GreaterOrEqual" and number):
                raise Unmatched(f"has a mask with {op_type} {number}, which is not supported")


def _masked(value: Like, fill: float) -> Pattern:
    """Return a value with another number in the rows that a mask excludes, or the value itself."""
    where = op.Where(_Mask(is_negated=True).named("mask"), fill, value)
    return where | op.Where(_Mask(is_negated=False).named("mask"), value, fill) | value


_INDEX = op.Clip("index", Constant("low"), Constant("high"), _least=1, min=None, max=None) | "index"
_COLUMN = op.Unsqueeze(_INDEX, axes=[-1])
_FIXED = Constant().named("index")
_UPDATES = _masked("data", 0).named("updates")
_SCATTER_ND = op.ScatterND(_Zeros(2), (_COLUMN | _FIXED).named("position"), _UPDATES, reduction="add")
_SCATTER = _SCATTER_ND | op.ScatterElements(
    _Zeros(2), (op.Expand(_COLUMN, "") | _FIXED).named("position"), _UPDATES, reduction="add", axis=0
)
# The number of occurrences of each index is a scatter of ones.
_ADDED = op.ScatterND(_Zeros(1), "position", _masked("ones", 0), reduction="add")
_COUNTS = Through(
    _masked(op.GatherND(_ADDED, _COLUMN, batch_dims=0), 1), op.Cast("", to=_COUNTING), op.Unsqueeze("", ...)
)
_SCALED = op.Div("gradient", _COUNTS.named("counts"))


@dataclass(frozen=True)
class Scatter:
    """A scatter that adds rows onto a table of zeros.

    Attributes:
        grad: The rows.
        indices: The index of each row.
        new_indices: The same as a new constant, if the model has them in another form.
        rows: Rows of the table.
        padding: The excluded index; -1 for none.
        is_scaled: Whether each row is divided by the number of equal indices.
        seen: Numbers of the matched nodes before the scatter.
        values: The indices if they are constant.
    """

    grad: str
    indices: str
    new_indices: NDArray[np.generic] | None
    rows: int
    padding: int
    is_scaled: bool
    seen: tuple[int, ...]
    values: NDArray[np.generic] | None


# Several rules analyze the same scatter.
_READ: WeakKeyDictionary[Context, dict[tuple[int, int], Scatter]] = WeakKeyDictionary()


def read_scatter(root: Found) -> Scatter:
    """Return the rows that a `ScatterND` or `ScatterElements` node adds.

    Raises:
        Unmatched: It computes something else.
    """
    key, known = (root.scope.number, root.nodes[0]), _READ.setdefault(root.context, {})
    if key not in known:
        known[key] = _read(root.context, root.scope, root.nodes[0])
    return known[key]


def _read(context: Context, scope: Scope, number: int) -> Scatter:
    node = scope.node(number)
    updates = require_type(context, scope, next(iter(node.input[2:]), ""), FuseScatterAdd.operator)
    found = _SCATTER.match(context, scope, number)
    names, table = found.names, found.constants["table"].tolist()
    rows, columns = table
    if node.op_type == "ScatterElements" and (
        None in (shape := updates.shape or ()) or shape[1:] != (columns,) or found.type("position").shape != shape
    ):
        raise Unmatched(
            f"adds {shown(names['updates'])}, which is {updates}, at {shown(names['position'])}, which is"
            f" {found.type('position')}; expected {columns} columns as the table has, and one index per row"
        )
    is_fixed = names["index"] == names["position"]
    values = context.constants.find(scope, names["index"])
    if is_fixed and values is not None:
        values = _row_indices(values, None if node.op_type == "ScatterND" else updates.shape)
    low, high = _clip_limits(found)
    if not (low <= 0 and rows - 1 <= high):
        raise Unmatched(f"clips indices to {low:g} to {high:g}, expected all rows from 0 to {rows - 1} in between")
    limit = found.constants.get("Less")
    is_whole = "GreaterOrEqual" in found.constants and limit == rows
    if not is_whole and values is not None:
        require_rows(values, rows)
    if limit not in (None, rows) or not (is_whole or values is not None or np.isinf([low, high]).all()):
        raise Unmatched(f"skips indices from {limit} on, expected {rows}, the number of rows")
    if names["data"] != names["updates"]:
        _require_column(found)
    padding = int(found.constants.get("NotEqual", -1))
    scaled = _scaled(found, rows, padding)
    grad = scaled.names["gradient"] if scaled else names["data"]
    seen = dict.fromkeys([*found.nodes[1:], *(scaled.nodes if scaled else ())])
    new_indices = values if is_fixed else None
    return Scatter(grad, names["index"], new_indices, rows, padding, bool(scaled), tuple(seen), values)


def _row_indices(values: NDArray[np.generic], updates: tuple[int | None, ...] | None) -> NDArray[np.generic]:
    """Return one index per row from constant indices of `ScatterND`, or of `ScatterElements`."""
    if updates is None and values.shape[-1:] == (1,):
        return values[..., 0]
    if updates is not None and values.size and values.shape == updates and np.all(values == values[:, :1]):
        return values[:, 0]
    raise Unmatched(f"has indices of shape {list(values.shape)}, expected one index per row")


def _clip_limits(found: Found) -> tuple[float, float]:
    low, high = (found.constants.get(name, np.array(end)) for name, end in (("low", -np.inf), ("high", np.inf)))
    if not low.size == high.size == 1:
        return np.nan, np.nan
    return float(np.real(low).item()), float(np.real(high).item())


def _require_column(found: Found) -> None:
    """Require a mask with one condition per row."""
    condition, before, after = (found.type(name) for name in ("mask", "data", "updates"))
    shape = condition.shape or ()
    if before.shape is None or before != after or len(shape) != len(before.shape) or shape[-1:] != (1,):
        raise Unmatched(
            f"masks {shown(found.names['data'])}, which is {before}, by {shown(found.names['mask'])}, which is"
            f" {condition}; expected one condition for each row"
        )


def _scaled(found: Found, rows: int, padding: int) -> Found | None:
    """Return the division of the rows by the number of equal indices; None if there is none."""
    same = {name: found.names[name] for name in ("index", "position")}
    count = _SCALED.find(found.context, found.scope, found.names["data"], **same)
    if count is None:
        return None
    per_row, shape = count.type("counts").shape, count.type("gradient").shape
    ones = found.context.constants.find(found.scope, count.names["ones"])
    low, high = _clip_limits(count)
    conditions = (
        per_row and shape is not None and len(per_row) == len(shape) and per_row[-1] == 1,
        low <= 0 and rows - 1 <= high,
        # Rows that the operator excludes need not be counted.
        count.constants.get("Less", rows) == rows and count.constants.get("NotEqual", padding) == padding,
        count.constants["table"].tolist() == [rows] and ones is not None and np.all(ones == 1),
    )
    return count if all(conditions) else None


def _is_zero(tensor: TensorProto) -> bool:
    if tensor.HasField("raw_data"):
        return not tensor.raw_data.strip(b"\0")
    return not data_problem(tensor) and not np.any(numpy_helper.to_array(tensor))
