"""Decide by node types whether a rule can match a model, without an import of rules and specs."""

from __future__ import annotations

import ast
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cache
from pathlib import Path

from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.op_names import NPU_PREFIX
from opforge.frontend.ir.scope import normal_domain

from .state import Loaded

# Importing rules and specs takes longer than copying a model of 100,000 nodes: 2.3 times onnx.load instead of 1.5.
# Training rules need another domain or an option; rules of `names` are tried in other domains, or at the prefix.
_RULES = Path(__file__).parent / "rules"
_NAMES = _RULES / "names"


@cache
def tried_types(*, patterns: bool) -> AbstractSet[str]:
    """Return types of nodes at which rules are tried; `patterns` adds rules that this option enables.

    Raises:
        TypeError: A rule has a pattern that can be read only by an import.
    """
    paths = [path for path in _RULES.rglob("*.py") if path.parent not in (_RULES, _NAMES)]
    return {
        op_type
        for path in paths
        for node in ast.parse(path.read_text(encoding="utf-8"), str(path)).body
        if isinstance(node, ast.ClassDef)
        for op_type in _rule_types(node, f"{path.name}:{node.lineno}: {node.name}", patterns=patterns)
    }


def _rule_types(node: ast.ClassDef, label: str, *, patterns: bool) -> AbstractSet[str]:
    """Return the types of one class; none if it is not a rule, or needs another option."""
    fields = {ast.unparse(each.targets[0]): each.value for each in node.body if isinstance(each, ast.Assign)}
    others = {ast.unparse(each.target): each.value for each in node.body if isinstance(each, ast.AnnAssign)}
    methods = {each.name: None for each in node.body if isinstance(each, ast.FunctionDef)}
    names = fields | others | methods
    if "pattern" not in names and not any(ast.unparse(base).endswith("Rule") for base in node.bases):
        return set()
    is_hinted = "is_hinted" not in fields or ast.unparse(fields["is_hinted"]) != "False"
    return _types(names.get("pattern"), label) if is_hinted or patterns or "group" not in fields else set()


def _types(expression: ast.expr | None, label: str) -> AbstractSet[str]:
    match expression:
        case ast.BinOp(left, ast.BitOr(), right):
            return _types(left, label) | _types(right, label)
        case ast.Call(ast.Attribute(_, op_type)) if op_type[:1].isupper():
            return {op_type}
    raise TypeError(f"{label}: the types of its nodes are not known; write `pattern = op.Type(...) | op.Other(...)`")


def prefilter(loaded: Loaded) -> Loaded:
    """Find out whether no rule applies; options that change other models too leave this open."""
    options = loaded.options
    is_open = options.lower_training or options.opset is not None
    return replace(loaded, is_plain=not is_open and is_plain(loaded.view, patterns=options.patterns))


def is_plain(view: GraphView, *, patterns: bool) -> bool:
    """Return whether no rule applies: all nodes are of ai.onnx, and no rule or spec has their types."""
    tried = tried_types(patterns=patterns)
    return not any(
        normal_domain(domain) or op_type in tried or op_type.startswith(NPU_PREFIX)
        for scope in view.scopes
        for domain, op_type in scope.keys
    )
