"""Gradients of embeddings that exporters write as a scatter that adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, NodeProto, TensorProto, numpy_helper

from opforge.codegen.printing import shown
from opforge.frontend.io.external import is_external
from opforge.frontend.io.tensor_data import data_problem
from opforge.frontend.ir.constants import NotConstant, int_attribute
from opforge.frontend.ir.graph import INITIALIZER, Scope, normal_domain
from opforge.frontend.ir.onnx_nodes import constant
from opforge.frontend.ir.value_types import ValueType

from .rule import Around, Context, Match, NoMatchError, Refusal, Rule


class FuseScatterAdd(Rule):
    """`ScatterND` or `ScatterElements` that adds rows onto zeros -> `EmbeddingDenseBackward`.

    Around it may stand what PyTorch's decomposition writes: a mask of the rows that exist and are no padding, and a
    division by the number of equal indices. On request only: negative indices count from the end in a bare scatter.
    """

    name = "FuseScatterAdd"
    operator = "EmbeddingDenseBackward"
    group = "patterns"
    pattern = (("", "ScatterND"), ("", "ScatterElements"))

    def check(self, context: Context, scope: Scope, number: int) -> Match | Refusal:
        """Match a zero table, one index per row, reduction add, and a mask whose terms are all understood."""
        try:
            found = read_scatter(context, scope, number)
        except NoMatchError as reason:
            return Refusal(str(reason))
        return Match(
            (number,),
            {"grad": found.grad, "indices": found.indices, "grad_weight": scope.node(number).output[0]},
            {"num_weights": found.rows, "padding_idx": found.padding, "scale_grad_by_freq": found.is_scaled},
            found.seen,
            found.around,
        )


# Nodes that are read have these inputs at least, the others one.
_LEAST_INPUTS = {
    "Div": 2,
    "Equal": 2,
    "Expand": 2,
    "GatherND": 2,
    "GreaterOrEqual": 2,
    "Less": 2,
    "ScatterND": 3,
    "Where": 3,
}


# What is left where a condition is negated.
_OPPOSITES = {"GreaterOrEqual": "Less", "Less": "GreaterOrEqual"}
# Element types that hold a number of rows.
_COUNTING = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.BFLOAT16,
    TensorProto.DOUBLE,
    TensorProto.INT32,
    TensorProto.INT64,
)


@dataclass(frozen=True)
class Scatter:
    """A scatter that adds rows onto a table of zeros.

    Attributes:
        grad: What is added.
        indices: The row for each.
        rows: Rows of the table.
        padding: Row that is left out; -1 for none.
        is_scaled: Whether each row is divided by how often its index occurs.
        seen: Numbers of the nodes in front that were understood.
        around: Makes the indices where the scatter has them in another form.
        values: The indices, where they are constant.
    """

    grad: str
    indices: str
    rows: int
    padding: int
    is_scaled: bool
    seen: tuple[int, ...]
    around: Around
    values: NDArray[np.generic] | None


def read_scatter(context: Context, scope: Scope, number: int) -> Scatter:
    """What a `ScatterND` or `ScatterElements` node adds to which rows.

    Raises:
        NoMatchError: It does anything else.
    """
    return _Reader(context, scope).read(number)


@dataclass
class _Mask:
    """A conjunction of conditions on one index.

    Attributes:
        index: The index; "" for no mask.
        padding: Row that is left out; -1 for none.
        from_zero: Whether indices below 0 are left out.
        limit: Whether indices from this on are left out; None when not.
    """

    index: str = ""
    padding: int = -1
    from_zero: bool = False
    limit: int | None = None

    def is_within(self, most: _Mask) -> bool:
        """Whether another mask leaves out all that this one does."""
        return (
            self.index in ("", most.index)
            and self.padding in (-1, most.padding)
            and self.limit in (None, most.limit)
            and self.from_zero <= most.from_zero
        )


@dataclass
class _Reader:
    """Reads the nodes in front of one scatter.

    Attributes:
        context: The model.
        scope: Graph of the scatter.
        seen: Numbers of the nodes that were understood.
    """

    context: Context
    scope: Scope
    seen: list[int] = field(default_factory=list)

    def read(self, number: int) -> Scatter:
        node = self.scope.node(number)
        self._require_add(node)
        base, position, updates = node.input
        type_ = self.context.types.of(self.scope, updates)
        (grad, *_) = self.context.specs[FuseScatterAdd.operator].inputs
        if type_.dtype not in grad.dtypes:
            raise NoMatchError(f"adds {shown(updates)}, which is {type_}; expected {', '.join(grad.dtypes)}")
        table = self._zeros(base)
        if len(table) != 2:
            raise NoMatchError(f"adds onto a table of {len(table)} dims {list(table)}, expected rows and columns")
        rows, columns = table
        if node.op_type == "ScatterElements" and (type_.shape or ())[1:] != (columns,):
            raise NoMatchError(f"adds {shown(updates)}, which is {type_}; expected {columns} columns as the table has")
        fixed = self._fixed_index(node, position, type_.shape)
        source, is_clipped = (
            (position, False) if fixed is not None else self._unclipped(self._index(node, position, updates), rows)
        )
        data, mask = self._unmasked(updates, 0)
        if data != updates:
            self._require_column(updates, data)
        if mask.index and mask.index != source:
            raise NoMatchError(f"masks by {shown(mask.index)}, but adds by {shown(source)}")
        is_whole = mask.from_zero and mask.limit == rows
        if mask.limit not in (None, rows) or (is_clipped and not is_whole):
            raise NoMatchError(f"leaves out indices from {mask.limit} on, expected {rows}, the rows of the table")
        scaled = self._scaled(data, position, _Mask(source, mask.padding, from_zero=True, limit=rows))
        values = fixed if fixed is not None else self._values(source)
        if not is_whole and values is not None:
            _require_rows(values, rows)
        around = Around()
        if fixed is not None:
            source = self.context.value_names.fresh("indices")
            known = ValueType(fixed.dtype.name, fixed.shape)
            around = Around(before=(constant(source, fixed),), types={source: known})
        seen = tuple(dict.fromkeys(self.seen))
        return Scatter(scaled or data, source, rows, mask.padding, bool(scaled), seen, around, values)

    def _fixed_index(
        self, node: NodeProto, position: str, updates: tuple[int | None, ...] | None
    ) -> NDArray[np.generic] | None:
        """Constant indices, without the axis or the copies that the scatter needs; None when there are none."""
        values = self._values(position)
        if values is None or values.ndim == 0 or not values.size:
            return None
        if node.op_type == "ScatterND":
            return values[..., 0] if values.shape[-1] == 1 else None
        is_rows = values.ndim == 2 and values.shape == updates and bool(np.all(values == values[:, :1]))
        return values[:, 0] if is_rows else None

    def _values(self, name: str) -> NDArray[np.generic] | None:
        try:
            return self.context.constants.value(self.scope, name)
        except NotConstant:
            return None

    def _require_add(self, node: NodeProto) -> None:
        if len(node.input) != 3 or not all(node.input) or len(node.output) != 1:
            raise NoMatchError(f"has {len(node.input)} inputs, expected data, indices and updates")
        reduction = next((a.s.decode(errors="replace") for a in node.attribute if a.name == "reduction"), "none")
        if reduction != "add":
            raise NoMatchError(f"has reduction {shown(reduction)}, expected add: equal indices overwrite each other")
        if node.op_type == "ScatterElements" and (int_attribute(node, "axis") or 0) != 0:
            raise NoMatchError(f"scatters along axis {int_attribute(node, 'axis')}, expected 0")

    def _maker(self, name: str, *op_types: str) -> NodeProto | None:
        """The node here that makes a value, when it is one of these standard operators."""
        number = self.scope.makers.get(name, -1)
        if number < 0:
            return None
        node = self.scope.node(number)
        if normal_domain(node.domain) != "" or node.op_type not in op_types or len(node.output) != 1:
            return None
        if len(node.input) < _LEAST_INPUTS.get(node.op_type, 1):
            return None
        self.seen.append(number)
        return node

    def _number(self, name: str) -> float:
        try:
            value = self.context.constants.value(self.scope, name)
        except NotConstant as reason:
            raise NoMatchError(f"needs a constant; {shown(name)} {reason}") from reason
        if value.size != 1:
            raise NoMatchError(f"needs one number; {shown(name)} has {value.size}")
        return float(value.item())

    def _zeros(self, name: str) -> tuple[int, ...]:
        """The shape of a value that is all zeros."""
        node = self._maker(name, "ConstantOfShape")
        if node is not None:
            fill = [a.t for a in node.attribute if a.type == AttributeProto.TENSOR]
            if not all(_is_zero(value) for value in fill):
                raise NoMatchError(f"adds onto {shown(name)}, which is not zero")
            try:
                dims = self.context.constants.value(self.scope, node.input[0])
            except NotConstant as reason:
                raise NoMatchError(
                    f"the shape of the table must be constant; {shown(node.input[0])} {reason}"
                ) from reason
            return tuple(int(dim) for dim in np.ravel(dims))
        values = self._values(name)
        if values is not None and not values.any():
            return values.shape
        found = self.scope.find(name)
        tensor = found[0].initializer(name) if found and found[1] == INITIALIZER else None
        if tensor is None or is_external(tensor) or not _is_zero(tensor):
            raise NoMatchError(f"adds onto {shown(name)}, which is not known to be zero")
        return tuple(tensor.dims)

    def _index(self, node: NodeProto, position: str, updates: str) -> str:
        """The index of each row, before it was given the form that a scatter takes."""
        shape = self.context.types.of(self.scope, position).shape
        if node.op_type == "ScatterElements":
            given = self.context.types.of(self.scope, updates).shape
            expand = self._maker(position, "Expand")
            if expand is None or shape is None or shape != given or None in shape:
                raise NoMatchError(
                    f"needs one index per row; {shown(position)} is no Expand to the shape of the updates"
                )
            position, axes = expand.input[0], ([1], [-1])
        elif shape is not None and shape[-1:] != (1,):
            raise NoMatchError(f"has index depth {shape[-1] if shape else 0}, expected 1")
        else:
            axes = ([-1], [len(shape) - 1] if shape is not None else [-1])
        column = self._maker(position, "Unsqueeze")
        try:
            given_axes = None if column is None else self.context.constants.numbers(self.scope, column, "axes", 1)
        except NotConstant:
            given_axes = None
        if column is None or given_axes not in axes:
            raise NoMatchError(f"needs one index per row; {shown(position)} is no Unsqueeze of the last axis")
        return column.input[0]

    def _unclipped(self, name: str, rows: int) -> tuple[str, bool]:
        """An index before it was clipped, which may change no row of the table into another one."""
        clip = self._maker(name, "Clip")
        if clip is None:
            return name, False
        low, high = (
            self._number(clip.input[place]) if clip.input[place : place + 1] not in ([], [""]) else default
            for place, default in ((1, -np.inf), (2, np.inf))
        )
        if clip.attribute or low > 0 or high < rows - 1:
            raise NoMatchError(
                f"clips indices to {low:g} to {high:g}, expected all rows from 0 to {rows - 1} in between"
            )
        return clip.input[0], True

    def _unmasked(self, name: str, fill: float) -> tuple[str, _Mask]:
        """What a `Where` lets through, and where; without one the value itself."""
        where = self._maker(name, "Where")
        if where is None:
            return name, _Mask()
        condition, kept, dropped = where.input[:3]
        if negated := not self._is_number(dropped, fill):
            kept, dropped = dropped, kept
        if not self._is_number(dropped, fill):
            raise NoMatchError(f"masks with {shown(dropped)} or {shown(kept)}, expected {fill:g}")
        while (step := self._maker(condition, "Unsqueeze", "Not")) is not None:
            negated ^= step.op_type == "Not"
            condition = step.input[0]
        mask = _Mask()
        self._conditions(condition, mask, negated=negated)
        return kept, mask

    def _require_column(self, masked: str, data: str) -> None:
        """Require that a mask tells rows apart, not columns, and that it repeats no row."""
        where = self.scope.node(self.scope.makers[masked])
        condition, before, after = (self.context.types.of(self.scope, name) for name in (where.input[0], data, masked))
        shape = condition.shape or ()
        if before.shape is None or before != after or len(shape) != len(before.shape) or shape[-1:] != (1,):
            raise NoMatchError(
                f"masks {shown(data)}, which is {before}, by {shown(where.input[0])}, which is {condition};"
                " expected one condition for each row"
            )

    def _is_number(self, name: str, expected: float) -> bool:
        try:
            return self._number(name) == expected
        except NoMatchError:
            return False

    def _conditions(self, name: str, mask: _Mask, *, negated: bool) -> None:
        """Enter the terms of a conjunction, each value once: few nodes can make very many paths."""
        waiting = [(name, negated)]
        known = set(waiting)
        while waiting:
            new = [part for part in self._condition(*waiting.pop(), mask) if part not in known]
            waiting += reversed(new)
            known.update(new)

    def _condition(self, name: str, negated: bool, mask: _Mask) -> Sequence[tuple[str, bool]]:
        """Enter one term; return those of which it is the conjunction, each with whether it is negated."""
        node = self._maker(name, "And", "Or", "Not", "Equal", "GreaterOrEqual", "Less")
        kind = None if node is None else node.op_type
        if node is not None and kind == "Not":
            return [(node.input[0], not negated)]
        if node is not None and kind == ("Or" if negated else "And"):
            return [(part, negated) for part in node.input]
        if negated and kind in _OPPOSITES:
            kind, negated = _OPPOSITES[kind], False
        if node is None or negated != (kind == "Equal") or kind in ("And", "Or"):
            raise NoMatchError(
                f"has a mask {shown(name)} of another form than index >= 0, index < rows, index != padding"
            )
        index, number = node.input[0], self._number(node.input[1])
        if mask.index not in ("", index):
            raise NoMatchError(f"masks by {shown(index)} and by {shown(mask.index)}")
        mask.index = index
        if not number.is_integer():
            raise NoMatchError(f"has a mask with {kind} {number:g}, expected a whole number")
        if kind == "Equal" and mask.padding == -1:
            mask.padding = int(number)
        elif kind == "GreaterOrEqual" and number == 0:
            mask.from_zero = True
        elif kind == "Less" and mask.limit is None:
            mask.limit = int(number)
        else:
            raise NoMatchError(f"has a mask with {kind} {number:g}, which is not understood")
        return ()

    def _scaled(self, name: str, position: str, most: _Mask) -> str:
        """The gradient before it was divided by how often its index occurs; "" when it was not.

        Args:
            name: The gradient.
            position: The index in the form that a scatter takes.
            most: What masks of the counting may leave out, because the operator leaves it out as well.
        """
        seen = list(self.seen)
        try:
            divided = self._divided(name, position, most)
        except NoMatchError:
            divided = ""
        if not divided:
            self.seen = seen
        return divided

    def _divided(self, name: str, position: str, most: _Mask) -> str:
        division = self._maker(name, "Div")
        if division is None:
            return ""
        data, counts = division.input[:2]
        per_row, shape = (self.context.types.of(self.scope, value).shape for value in (counts, data))
        if not per_row or shape is None or len(per_row) != len(shape) or per_row[-1] != 1:
            return ""
        while (step := self._maker(counts, "Cast", "Unsqueeze")) is not None:
            if step.op_type == "Cast" and int_attribute(step, "to") not in _COUNTING:
                return ""
            counts = step.input[0]
        picked_by, picked_mask = self._unmasked(counts, 1)
        picked = self._maker(picked_by, "GatherND")
        if picked is None or int_attribute(picked, "batch_dims"):
            return ""
        place = self._maker(picked.input[1], "Unsqueeze")
        added = self._maker(picked.input[0], "ScatterND")
        rows = most.limit or 0
        if place is None or added is None or self._unclipped(place.input[0], rows)[0] != most.index:
            return ""
        self._require_add(added)
        ones, added_mask = self._unmasked(added.input[2], 0)
        if not (picked_mask.is_within(most) and added_mask.is_within(most)):
            return ""
        try:
            value = self.context.constants.value(self.scope, ones)
        except NotConstant:
            return ""
        is_count = self._zeros(added.input[0]) == (rows,) and added.input[1] == position and bool(np.all(value == 1))
        return data if is_count else ""


def _require_rows(indices: NDArray[np.generic], rows: int) -> None:
    """Constant indices outside of the table mean something else in a scatter."""
    if indices.size and not 0 <= indices.min() <= indices.max() < rows:
        raise NoMatchError(f"has indices from {indices.min()} to {indices.max()}, expected 0 to {rows - 1}")


def _is_zero(tensor: TensorProto) -> bool:
    if tensor.HasField("raw_data"):
        return not tensor.raw_data.strip(b"\0")
    return not data_problem(tensor) and not np.any(numpy_helper.to_array(tensor))
