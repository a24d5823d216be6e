"""List the operators for which CANN has parsers."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files

from opforge.frontend.ir.scope import normal_domain


def is_registered(domain: str, op_type: str, version: int) -> bool:
    """Return whether a parser for this version of an operator is known; "" is ai.onnx."""
    return version in _registered().get((domain, op_type), ())


@lru_cache(maxsize=1)
def _registered() -> dict[tuple[str, str], set[int]]:
    """Return versions by domain and type."""
    found: dict[tuple[str, str], set[int]] = {}
    table: dict[str, dict[str, str]] = json.loads(
        files("opforge.frontend.parsers").joinpath("atc_types.json").read_text()
    )
    for domain, spans in table.items():
        for text, names in spans.items():
            for name in names.split():
                found[normal_domain(domain), name] = opset_versions(text)
    return found


def opset_versions(text: str) -> set[int]:
    """Return the versions of a text such as `1,8-18`."""
    versions: set[int] = set()
    for span in text.split(","):
        first, _, last = span.partition("-")
        versions.update(range(int(first), int(last or first) + 1))
    return versions
