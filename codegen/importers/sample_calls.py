"""Choose small sizes and values of attributes for the test call of a draft."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from .draft import AttrDraft, RuleDraft, TensorDraft

TOLERANCES = {"float16": "1.0e-3", "bfloat16": "8.0e-3", "float32": "1.0e-6"}
_EXAMPLES = {
    "int": "1", "float": "1.0", "bool": "true", "string": '"text"', "list_int": "[1]", "list_float": "[1.0]",
    "list_bool": "[true]",
}  # fmt: skip
_LIMITS = re.compile(r"\{\} >= (-?\d+) and \{\} <= (-?\d+)")
_USUAL_RANK = 2


def sizes(tensor: TensorDraft, first: int) -> str:
    """Return the sizes of the dimensions after the first ones, so that the rank is one that the tensor can have."""
    low, high = tensor.ranks or (_USUAL_RANK, _USUAL_RANK + first)
    count = max(low, min(high, _USUAL_RANK + first)) - first
    return f"[{', '.join(map(str, itertools.islice(itertools.cycle((4, 8)), max(0, count))))}]"


def example(attr: AttrDraft, rules: Sequence[RuleDraft]) -> str:
    """Return a value of an attribute that its range of values contains."""
    checks = (_LIMITS.fullmatch(rule.check) for rule in rules if rule.subject == attr.name)
    found = next(filter(None, checks), None)
    return str(max(int(found[1]), min(1, int(found[2])))) if found else _EXAMPLES[attr.type]
