"""Convert a model to another opset: rewrite nodes whose form changed, reject nodes whose meaning changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx.defs
from onnx import ModelProto, NodeProto, helper
from onnx.defs import OpSchema

from opforge.codegen.printing import shown
from opforge.frontend.ir.attributes import int_attribute, text_attribute
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.names import FreshNames
from opforge.frontend.ir.onnx_nodes import constant
from opforge.frontend.ir.op_names import OPFORGE_DOMAIN
from opforge.frontend.ir.reason import Reason, Unmatched
from opforge.frontend.ir.scope import Scope, key_text, node_name, normal_domain
from opforge.frontend.ir.tensor_type import ValueType
from opforge.frontend.ir.value_types import ValueTypes

from .nodes import write_nodes

# ATC supports the standard operators of these versions, and only a few of newer ones.
ATC_OPSETS = range(8, 19)
NEWEST = ATC_OPSETS.stop - 1


@dataclass(frozen=True)
class _Moved:
    """An attribute that became an input.

    Attributes:
        since: Version with the input.
        position: Its position.
        is_number: Whether it is one number of the type of the first input, not a list of integers.
    """

    since: int
    position: int = 1
    is_number: bool = False


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
_MOVED: Mapping[str, Mapping[str, _Moved]] = {
    **{name: {"axes": _Moved(13)} for name in ("ReduceSum", "Squeeze", "Unsqueeze")},
    **{f"Reduce{name}": {"axes": _Moved(18)} for name in _REDUCTIONS},
    "Clip": {"min": _Moved(11, 1, is_number=True), "max": _Moved(11, 2, is_number=True)},
    "Pad": {"pads": _Moved(11), "value": _Moved(11, 2, is_number=True)},
    "Slice": {"starts": _Moved(10, 1), "ends": _Moved(10, 2), "axes": _Moved(10, 3)},
    "Split": {"split": _Moved(13)},
    "TopK": {"k": _Moved(10)},
}
# With these versions, the semantics changed, or more of the form than this module converts.
_CHANGED: Mapping[str, tuple[int, ...]] = {"DFT": (20,), "GroupNormalization": (21,), "Resize": (11,), "Scan": (9,)}
_Rejects = Callable[[Scope, NodeProto], Reason | None]
# Values that exist only in these versions.
_RESIZE_ONLY = {"tf_half_pixel_for_nn": range(11, 13), "half_pixel_symmetric": range(19, 1000)}


def current_opset(model: ModelProto) -> int | None:
    """Return the version of ai.onnx that a model imports."""
    return next((entry.version for entry in model.opset_import if normal_domain(entry.domain) == ""), None)


@dataclass(frozen=True)
class Respelled:
    """The changes that write a model in another opset.

    Attributes:
        view: Index of the model.
        target: The version.
        nodes: The new nodes by scope number, at the positions of old ones. Nodes with subgraphs do not change.
    """

    view: GraphView
    target: int
    nodes: Mapping[int, Mapping[int, list[NodeProto]]]

    def write(self, model: ModelProto) -> None:
        """Change the model or a copy of it."""
        # Inner graphs first: the list of nodes of an outer graph is copied together with them.
        for scope in reversed(self.view.over(model).scopes):
            write_nodes(scope, (), self.nodes.get(scope.number, {}))
        for entry in model.opset_import:
            if normal_domain(entry.domain) == "":
                entry.version = self.target


def respelled(
    view: GraphView, types: ValueTypes, target: int, names: FreshNames, rejects: _Rejects | None = None
) -> Respelled | Reason:
    """Return the changes that write the graphs of a model in another opset, without its local functions.

    Args:
        view: Index of the model.
        types: Types of its values.
        target: The version.
        names: Creates names for new values.
        rejects: Returns another reason against a standard node.
    """
    step = _Step(current_opset(view.model) or target, target, types, names)
    nodes: dict[int, dict[int, list[NodeProto]]] = {}
    for scope in view.scopes if step.current != target else ():
        for number, node in enumerate(scope.body.node) if scope.function is None else ():
            if normal_domain(node.domain) != "":
                continue
            try:
                new = step.respell(scope, node)
            except Unmatched as problem:
                return Reason(f"node {shown(node_name(node))} ({key_text(node)}) {problem}", (number,))
            if rejects and (reason := rejects(scope, node)):
                return reason
            if new:
                nodes.setdefault(scope.number, {})[number] = new
    return Respelled(view, target, nodes)


def kept_function(view: GraphView) -> Reason | None:
    """Return the reason against another opset if a local function could not be inlined."""
    for function in view.model.functions:
        if function.domain != OPFORGE_DOMAIN:
            return Reason(f"the local function {shown(f'{function.domain}::{function.name}')} cannot be inlined")
    return None


def _schema(op_type: str, version: int) -> OpSchema | None:
    if not onnx.defs.has(op_type, max_inclusive_version=version, domain=""):
        return None
    return onnx.defs.get_schema(op_type, max_inclusive_version=version, domain="")


@dataclass(frozen=True)
class _Step:
    """The conversion from one version to another.

    Attributes:
        current: The version of the model.
        target: The version of the result.
        types: Types of its values.
        names: Creates names for constants.
    """

    current: int
    target: int
    types: ValueTypes
    names: FreshNames

    def respell(self, scope: Scope, given: NodeProto) -> list[NodeProto]:
        """Return a standard node in the other version, after the constants that it needs; nothing if it is equal.

        Raises:
            Unmatched: It cannot be written in the other version.
        """
        old = _schema(given.op_type, self.current)
        op_type = "ScatterElements" if given.op_type == "Scatter" and self._rises_over(11) else given.op_type
        new = _schema(op_type, self.target)
        if old is None or (new is not None and old.since_version == new.since_version and old.name == new.name):
            # An operator that the model's opset does not have is from another tool; no version defines it.
            return []
        if new is None or new.deprecated:
            raise Unmatched(f"does not exist in opset {self.target}")
        node = NodeProto()
        node.CopyFrom(given)
        node.op_type = op_type
        if len(node.input) < old.min_input or not node.output:
            raise Unmatched(f"has {len(node.input)} inputs and {len(node.output)} outputs, fewer than any opset allows")
        if any(self._crosses(version) for version in _CHANGED.get(node.op_type, ())):
            raise Unmatched(f"has another meaning in opset {self.target}")
        if special := _SPECIAL.get(node.op_type):
            special(self, scope, node)
        made = self._moved(scope, node)
        self._drop_defaults(node, old, new)
        self._require(node, old, new)
        return [*made, node] if node != given else []

    def _crosses(self, version: int) -> bool:
        return (self.current < version) != (self.target < version)

    def _rises_over(self, version: int) -> bool:
        return self.current < version <= self.target

    def _moved(self, scope: Scope, node: NodeProto) -> list[NodeProto]:
        """Turn attributes into inputs."""
        moved = _MOVED.get(node.op_type, {})
        made = []
        for attribute in list(node.attribute):
            place = moved.get(attribute.name)
            if place is None or not self._rises_over(place.since):
                continue
            if place.is_number:
                known = self.types.of(scope, node.input[0])
                if known.dtype not in ("float16", "float32", "float64"):
                    raise Unmatched(
                        f"has the attribute {shown(attribute.name)}, which becomes an input with the type of"
                        f" {shown(node.input[0])}, and that is {known}"
                    )
                value = np.array(attribute.f, known.dtype)
            else:
                numbers = [attribute.i] if attribute.type == attribute.INT else list(attribute.ints)
                value = np.array(numbers, np.int64)
            name = self.names.fresh(f"{node.output[0]}_{attribute.name}")
            made.append(constant(name, value))
            made[-1].name = f"{name}_constant"
            node.input.extend([""] * (place.position + 1 - len(node.input)))
            node.input[place.position] = name
            node.attribute.remove(attribute)
        return made

    def _drop_defaults(self, node: NodeProto, old: OpSchema, new: OpSchema) -> None:
        """Drop attributes that do not exist in the other version and equal its behavior."""
        for attribute in list(node.attribute):
            known = old.attributes.get(attribute.name)
            if attribute.name in new.attributes or known is None or attribute.type != known.default_value.type:
                continue
            if helper.get_attribute_value(attribute) == helper.get_attribute_value(known.default_value):
                node.attribute.remove(attribute)

    def _require(self, node: NodeProto, old: OpSchema, new: OpSchema) -> None:
        if not new.min_input <= len(node.input) <= new.max_input:
            raise Unmatched(
                f"has {len(node.input)} inputs, expected {new.min_input} to {new.max_input} in opset {self.target}"
            )
        given = {attribute.name for attribute in node.attribute}
        for name in given:
            if name not in new.attributes:
                raise Unmatched(f"has the attribute {shown(name)}, which opset {self.target} does not have")
        for name in set(old.attributes) & set(new.attributes) - given:
            if old.attributes[name].default_value != new.attributes[name].default_value:
                raise Unmatched(f"uses the default of {shown(name)}, which differs in opset {self.target}")
        if required := [n for n, attribute in new.attributes.items() if attribute.required and n not in given]:
            raise Unmatched(f"has no attribute {shown(required[0])}, which opset {self.target} requires")

    def batch_normalization(self, scope: Scope, node: NodeProto) -> None:
        """Inference is the same in all versions; training got other outputs."""
        del scope
        if self._crosses(14) and len([name for name in node.output if name]) > 1:
            raise Unmatched(f"is in training mode, which has another meaning in opset {self.target}")

    def dropout(self, scope: Scope, node: NodeProto) -> None:
        """Without training mode the ratio has no effect."""
        del scope
        if self._rises_over(12):
            _remove(node, "ratio")

    def softmax(self, scope: Scope, node: NodeProto) -> None:
        """Until opset 12, all axes from `axis` on are one; this is equivalent if it is the last one."""
        if not self._crosses(13):
            return
        known = self.types.of(scope, node.input[0])
        given = int_attribute(node, "axis")
        axis = given if given is not None else 1 if self.current < 13 else -1
        if known.shape is None or axis % max(len(known.shape), 1) != len(known.shape) - 1:
            raise Unmatched(
                f"uses axis {axis} of {shown(node.input[0])}, which is {known};"
                f" opset {self.target} has the same meaning only for the last axis"
            )
        _set(node, "axis", len(known.shape) - 1 if self.target < 13 else -1)

    def roi_align(self, scope: Scope, node: NodeProto) -> None:
        """Reject shifted coordinates, which the old form does not have."""
        del scope
        if self._rises_over(16):
            _set(node, "coordinate_transformation_mode", "output_half_pixel")
        elif self._crosses(16):
            if text_attribute(node, "coordinate_transformation_mode") != "output_half_pixel":
                raise Unmatched(f"shifts coordinates, which opset {self.target} does not have")
            _remove(node, "coordinate_transformation_mode")

    def grid_sample(self, scope: Scope, node: NodeProto) -> None:
        """Rename the modes; grids of other ranks are not supported."""
        if not self._crosses(20):
            return
        known: ValueType = self.types.of(scope, node.input[0])
        if known.shape is None or len(known.shape) != 4:
            raise Unmatched(
                f"samples {shown(node.input[0])}, which is {known}; opset {self.target} supports only rank 4"
            )
        newer = {"bilinear": "linear", "bicubic": "cubic", "": "linear"}
        older = {"linear": "bilinear", "cubic": "bicubic", "": "bilinear"}
        mode = text_attribute(node, "mode")
        _set(node, "mode", (newer if self.current < 20 else older).get(mode, mode))

    def resize(self, scope: Scope, node: NodeProto) -> None:
        """Reject transformations of coordinates that exist only in some versions."""
        del scope
        mode = text_attribute(node, "coordinate_transformation_mode")
        if mode in _RESIZE_ONLY and self.target not in _RESIZE_ONLY[mode]:
            raise Unmatched(
                f"uses the coordinate transformation {shown(mode)}, which opset {self.target} does not have"
            )

    def split(self, scope: Scope, node: NodeProto) -> None:
        """Add `num_outputs` for equal parts, which is required since opset 18."""
        del scope
        sizes = len(node.input) > 1 or any(attribute.name == "split" for attribute in node.attribute)
        if self._rises_over(18) and not sizes:
            _set(node, "num_outputs", len(node.output))

    def pad(self, scope: Scope, node: NodeProto) -> None:
        """Reject the new mode "wrap"."""
        del scope
        if text_attribute(node, "mode") == "wrap" and self.target < 19:
            raise Unmatched(f"has the mode 'wrap', which opset {self.target} does not have")


_SPECIAL: Mapping[str, Callable[[_Step, Scope, NodeProto], None]] = {
    "BatchNormalization": _Step.batch_normalization,
    "Dropout": _Step.dropout,
    "GridSample": _Step.grid_sample,
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), _Step.softmax),
    "Pad": _Step.pad,
    "Resize": _Step.resize,
    "RoiAlign": _Step.roi_align,
    "Split": _Step.split,
}


def _remove(node: NodeProto, name: str) -> None:
    for attribute in [attribute for attribute in node.attribute if attribute.name == name]:
        node.attribute.remove(attribute)


def _set(node: NodeProto, name: str, value: int | str) -> None:
    _remove(node, name)
    node.attribute.append(helper.make_attribute(name, value))
