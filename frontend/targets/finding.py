"""Define a finding of `opforge check`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from onnx import NodeProto

from opforge.frontend.ir.scope import key_text, node_name

CONVERT = "run opforge convert"
OPFORGE = "opforge check"


@dataclass(frozen=True)
class Finding:
    """One fault.

    Attributes:
        node: The node, input or output.
        code: Error code of ATC, "silent" if ATC drops or changes something without an error, or `OPFORGE` if ATC's
            parser accepts the node and only opforge rejects it.
        cause: The problem.
        fix: The fix.
        level: "error", or "warning" for a problem of some versions or options of ATC.
    """

    node: str
    code: str
    cause: str
    fix: str
    level: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        level = "" if self.level == "error" else "warning: "
        return f"{self.node}: {level}{self.code}: {self.cause}; {self.fix}"


def label(node: NodeProto, number: int) -> str:
    """Return the name of a node in findings."""
    return f"{node_name(node, f'#{number}')} ({key_text(node)})"
