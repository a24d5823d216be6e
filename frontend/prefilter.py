"""Decide from the node types that no rule can match a model, without an import of rules and specs."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path

from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.op_names import NPU_PREFIX
from opforge.frontend.ir.scope import normal_domain

_FOLDERS = ("rules", "training")
# A rule writes its pattern as a constant of its class, which is read from the source: importing all rules takes longer
# than converting a small model.
_PATTERN = re.compile(r"^    pattern = (.+?)\n\n", re.MULTILINE | re.DOTALL)
_TYPE = re.compile(r'\("", "(\w+)"\)')
_UNHINTED = "    is_hinted = False\n"


@cache
def tried_types(*, patterns: bool) -> AbstractSet[str]:
    """Return types of ai.onnx at which rules are tried; `patterns` adds rules that do nothing without this option."""
    found: set[str] = set()
    for folder in _FOLDERS:
        for path in (Path(__file__).parent / folder).rglob("*.py"):
            for text in path.read_text(encoding="utf-8").split("\nclass ")[1:]:
                pattern = _PATTERN.search(text)
                if pattern and (patterns or _UNHINTED not in text):
                    found.update(_TYPE.findall(pattern[1]))
    return found


def is_plain(view: GraphView, *, patterns: bool) -> bool:
    """Return whether no rule applies: all nodes are of ai.onnx, and no rule or spec names their types."""
    tried = tried_types(patterns=patterns)
    return not any(
        normal_domain(domain) or op_type in tried or op_type.startswith(NPU_PREFIX)
        for scope in view.scopes
        for domain, op_type in scope.keys
    )
