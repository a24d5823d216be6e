"""Draw rewritten parts of a model: nodes, their inputs and outputs, and the edges between them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opforge.frontend.ir.constants import Constants
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.scope import Scope, key_text, normal_domain
from opforge.frontend.ir.tensor_type import ValueType
from opforge.frontend.ir.value_types import ValueTypes

from .graph_layout import layers_of, layout
from .rewrite_diff import Side, is_constant

# Equal boxes of one layer that are drawn separately.
_ALIKE = 6
_LETTERS, _TIP_LETTERS = 26, 300
# Pixels per letter, including wide letters, for the two sizes of text.
_LETTER_WIDTH, _SMALL_WIDTH = 7.9, 6.2
_LINE, _PADDING = 15.0, 12.0


@dataclass
class Box:
    """A node or a value.

    Attributes:
        kind: "node", "ours" for an operator of the project, "input", "constant" or "output".
        title: First line.
        lines: Further lines, smaller.
        tip: Tooltip.
    """

    kind: str
    title: str
    lines: list[str] = field(default_factory=list)
    tip: str = ""

    @property
    def size(self) -> tuple[float, float]:
        """Return width and height."""
        texts = [len(self.title) * _LETTER_WIDTH, *(len(line) * _SMALL_WIDTH for line in self.lines)]
        return round(max(texts) + 2 * _PADDING, 1), (1 + len(self.lines)) * _LINE + _PADDING


@dataclass
class Picture:
    """One side of a rewritten part.

    Attributes:
        boxes: The boxes.
        edges: (maker, reader) by number of the box.
        is_cut: Whether some nodes are not drawn.
    """

    boxes: list[Box]
    edges: list[tuple[int, int]]
    is_cut: bool

    @property
    def form(self) -> object:
        """A value that is equal for pictures that differ only in names and sizes."""
        return tuple((box.kind, box.title if box.kind in ("node", "ours") else "") for box in self.boxes), tuple(
            self.edges
        )

    @property
    def late(self) -> list[int]:
        """Return the boxes of input values, which are placed near their readers."""
        return [number for number, box in enumerate(self.boxes) if box.kind in ("input", "constant")]

    def drawn(self) -> dict[str, Any]:
        """Return boxes with corners, curves, width and height."""
        found = layout([box.size for box in self.boxes], self.edges, self.late)
        boxes = [
            {"box": box, "x": x, "y": y, "width": box.size[0], "height": box.size[1], "middle": x + box.size[0] / 2}
            for box, (x, y) in zip(self.boxes, found.corners, strict=True)
        ]
        return {"boxes": boxes, "curves": list(found.curves.values()), "width": found.width, "height": found.height}


def plain(text: str, letters: int) -> str:
    """Return a text of a model for a page: no control characters; of a long one the end, which distinguishes names."""
    if not text.isprintable():
        text = repr(text)[1:-1]
    return text if len(text) <= letters else f"\N{HORIZONTAL ELLIPSIS}{text[1 - letters :]}"


class Painter:
    """Creates pictures of the nodes of one model.

    Args:
        types: Types of its values.
        ours: (domain, op type) of nodes to highlight.
    """

    def __init__(self, types: ValueTypes, ours: Iterable[tuple[str, str]]) -> None:
        self._types = types
        self._constants = Constants(types)
        self._ours = frozenset(ours)

    def picture(self, side: Side) -> Picture:
        """Return the picture of one side."""
        scope = side.scope
        boxes = [self._node(scope, number) for number in side.nodes]
        place = {number: index for index, number in enumerate(side.nodes)}
        edges: dict[tuple[int, int], None] = {}
        inputs: dict[str, int] = {}
        for number, index in place.items():
            node = scope.node(number)
            for name in dict.fromkeys((*node.input, *sorted(scope.captures.get(number, ())))):
                if not name:
                    continue
                maker = place.get(scope.makers.get(name, -1))
                if maker is None and (constant := self._constant(scope, name)):
                    # Each reader has a separate box, because lines from one constant to all its readers would hide the
                    # others.
                    boxes.append(constant)
                    maker = len(boxes) - 1
                elif maker is None:
                    if name not in inputs:
                        inputs[name] = len(boxes)
                        boxes.append(self._input(scope, name))
                    maker = inputs[name]
                edges[maker, index] = None
        for number, index in place.items():
            for name in filter(None, scope.node(number).output):
                readers = {use.node if use.scope is scope else -1 for use in side.view.uses(scope, name)}
                outside = sorted(readers - place.keys())
                if outside or name in scope.output_names:
                    edges[index, len(boxes)] = None
                    boxes.append(self._output(scope, name, outside))
        return _condensed(Picture(boxes, list(edges), side.is_cut))

    def _node(self, scope: Scope, number: int) -> Box:
        node = scope.node(number)
        kind = "ours" if (normal_domain(node.domain), node.op_type) in self._ours else "node"
        lines = [plain(node.name, _LETTERS)] if node.name else []
        return Box(kind, plain(key_text(node), 2 * _LETTERS), lines, plain(node.name, _TIP_LETTERS))

    def _input(self, scope: Scope, name: str) -> Box:
        box = self._value("input", scope, name)
        found = scope.find(name)
        if found is not None and found[1] >= 0:
            box.lines.append(f"from {plain(key_text(found[0].node(found[1])), _LETTERS)}")
        return box

    def _output(self, scope: Scope, name: str, readers: Sequence[int]) -> Box:
        box = self._value("output", scope, name)
        keys = Counter("a subgraph" if number < 0 else key_text(scope.node(number)) for number in readers)
        words = [key if count == 1 else f"{count} {key}" for key, count in keys.items()]
        words += ["the outside"] if name in scope.output_names else []
        box.lines.append(plain(f"to {', '.join(words[:3])}{', ...' if len(words) > 3 else ''}", 2 * _LETTERS))
        return box

    def _value(self, kind: str, scope: Scope, name: str) -> Box:
        known = self._types.of(scope, name)
        lines = [] if known == ValueType() else [plain(str(known), _LETTERS + 6)]
        return Box(kind, plain(name, _LETTERS), lines, plain(name, _TIP_LETTERS))

    def _constant(self, scope: Scope, name: str) -> Box | None:
        """Return a box for a small constant, with its numbers."""
        found = scope.find(name)
        if found is None or (found[1] >= 0 and not is_constant(*found)):
            return None
        try:
            value = self._constants.value(scope, name)
        except Unmatched:
            return None
        dims = "x".join(map(str, value.shape))
        numbers = ", ".join(map(str, value.flat)) if value.size <= 4 else f"{value.dtype} {dims}"
        text = numbers if value.ndim == 0 else f"[{numbers}]"
        return Box("constant", plain(text, _LETTERS), [], plain(f"{name}: {value.dtype} [{dims}]", _TIP_LETTERS))


def _condensed(picture: Picture) -> Picture:
    """Return the picture with one box for many equal ones: of one layer, and of the same kind and type."""
    layer = layers_of(len(picture.boxes), picture.edges, picture.late)
    alike: Mapping[object, list[int]] = defaultdict(list)
    for number, box in enumerate(picture.boxes):
        alike[layer[number], box.kind, box.title if box.kind in ("node", "ours") else ""].append(number)
    joined = {number: number for number in range(len(picture.boxes))}
    boxes = list(picture.boxes)
    for members in alike.values():
        if len(members) > _ALIKE:
            first, *rest = members[_ALIKE - 1 :]
            joined.update(dict.fromkeys(rest, first))
            what = boxes[first].title if boxes[first].kind in ("node", "ours") else f"{boxes[first].kind}s"
            names = ", ".join(boxes[number].tip for number in (first, *rest))
            boxes[first] = Box(boxes[first].kind, f"{len(rest) + 1} more {what}", [], plain(names, _TIP_LETTERS))
    kept = sorted(set(joined.values()))
    number_of = {old: new for new, old in enumerate(kept)}
    edges = dict.fromkeys((number_of[joined[maker]], number_of[joined[reader]]) for maker, reader in picture.edges)
    return Picture([boxes[number] for number in kept], list(edges), picture.is_cut)
