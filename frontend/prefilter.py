"""Tells by the types of its nodes alone that a model holds nothing for us; no rule and no spec is loaded for that."""

from __future__ import annotations

from opforge.frontend.ir.graph import GraphView, normal_domain
from opforge.frontend.ir.op_names import NPU_PREFIX

# Types of ai.onnx at which rules are tried: in every conversion, and with `patterns`.
ALWAYS = frozenset({"Concat", "ReduceSum", "ScatterElements", "ScatterND"})
WITH_PATTERNS = ALWAYS | {"Add", "Div", "Mul", "Sub"}


def is_untouched(view: GraphView, *, patterns: bool) -> bool:
    """Whether no rule would be tried at any node: all are of ai.onnx, and of no type that a rule or a spec names."""
    tried = WITH_PATTERNS if patterns else ALWAYS
    return not any(
        normal_domain(domain) or op_type in tried or op_type.startswith(NPU_PREFIX)
        for scope in view.scopes
        for domain, op_type in scope.keys
    )
