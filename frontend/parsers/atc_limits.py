"""Compare nodes with the limits of CANN's ONNX parsers that are narrower than the ONNX standard."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from math import isclose
from typing import Any

from onnx import AttributeProto, NodeProto, helper

from opforge.codegen.printing import shown

from .atc_types import opset_versions

_VALUES = (AttributeProto.FLOAT, AttributeProto.INT, AttributeProto.STRING, AttributeProto.INTS)


@dataclass(frozen=True)
class Limit:
    """A row of `atc_limits.json`; fields without a value have no limit.

    Attributes:
        ops: Types of the domain ai.onnx, separated by spaces.
        opsets: Versions of ai.onnx.
        source: The public repository with the parser.
        inputs: Maximum number of connected inputs.
        outputs: Maximum number of connected outputs.
        is_exact: Whether the parser also counts outputs without a reader.
        any_input: Positions, one of which must be connected.
        any_attribute: Attributes, one of which must exist.
        attribute: The attribute of the next three fields.
        values: Its values.
        lengths: Lengths of its list.
        least: Its smallest value.
    """

    ops: str
    opsets: str
    source: str
    inputs: int | None = None
    outputs: int | None = None
    is_exact: bool = False
    any_input: tuple[int, ...] = ()
    any_attribute: tuple[str, ...] = ()
    attribute: str = ""
    values: tuple[int | float | str, ...] = ()
    lengths: tuple[int, ...] = ()
    least: int | None = None

    def problem(self, node: NodeProto, is_read: Callable[[str], bool]) -> str:
        """Return the reason why the parser rejects a node; "" if the node is within this limit."""
        connected = {position for position, name in enumerate(node.input) if name}
        given = {attribute.name: attribute for attribute in node.attribute}
        used = [position for position, name in enumerate(node.output) if is_read(name)]
        if self.inputs is not None and max(connected, default=-1) >= self.inputs:
            return f"has an input {max(connected)}, expected at most {_count(self.inputs, 'input')}"
        if self.outputs is not None and self.is_exact and len(node.output) != self.outputs:
            return f"has {_count(len(node.output), 'output')}, expected {self.outputs}"
        if self.outputs is not None and used and used[-1] >= self.outputs:
            return f"has an output {used[-1]} with a reader, expected at most {_count(self.outputs, 'output')}"
        if self.any_input and not connected.intersection(self.any_input):
            return f"has no input {_either(self.any_input)}, expected one of them"
        if self.any_attribute and not given.keys() & set(self.any_attribute):
            return f"has no attribute {_either(self.any_attribute)}" + (
                ", expected one of them" if len(self.any_attribute) > 1 else ""
            )
        return self._attribute_problem(given[self.attribute]) if self.attribute in given else ""

    def _attribute_problem(self, attribute: AttributeProto) -> str:
        if attribute.ref_attr_name or attribute.type not in _VALUES:
            return ""
        value: Any = helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        got = f"has {self.attribute} {shown(value) if isinstance(value, str) else value}, expected"
        if self.values and not any(_equal(value, known) for known in self.values):
            return f"{got} {_either(self.values)}"
        if self.lengths and isinstance(value, Sequence) and len(value) not in self.lengths:
            return f"{got} a list of {_either(self.lengths)}"
        is_small = self.least is not None and isinstance(value, int) and value < self.least
        return f"{got} at least {self.least}" if is_small else ""


def output_counts(version: int) -> dict[str, int]:
    """Return the maximum number of connected outputs, by type of ai.onnx; types without a limit are absent."""
    found = {
        op_type: [limit.outputs for limit in limits if limit.outputs is not None]
        for (op_type, other), limits in _table().items()
        if other == version
    }
    return {op_type: min(counts) for op_type, counts in found.items() if counts}


def limit_problems(node: NodeProto, version: int, is_read: Callable[[str], bool]) -> Iterator[str]:
    """Yield the reasons why the parser of a standard node rejects it.

    Args:
        node: The node.
        version: Version of ai.onnx.
        is_read: Whether the value of a name has a reader or is an output of the model.
    """
    for limit in _table().get((node.op_type, version), []):
        if problem := limit.problem(node, is_read):
            yield problem


@lru_cache(maxsize=1)
def _table() -> Mapping[tuple[str, int], list[Limit]]:
    text = files("opforge.frontend.parsers").joinpath("atc_limits.json").read_text()
    found: dict[tuple[str, int], list[Limit]] = {}
    for row in json.loads(text)["rows"]:
        values: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in row.items()}
        limit = Limit(**values)
        for op_type in limit.ops.split():
            for version in opset_versions(limit.opsets):
                found.setdefault((op_type, version), []).append(limit)
    return found


def _equal(value: Any, known: float | str) -> bool:
    if isinstance(known, float) and isinstance(value, float):
        return isclose(value, known, abs_tol=1e-5)
    return bool(value == known)


def _either(words: tuple[Any, ...]) -> str:
    return " or ".join(filter(None, [", ".join(map(str, words[:-1])), str(words[-1])]))


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
