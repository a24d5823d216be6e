"""Rewrite models so that they use custom operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opforge.frontend.importers.fx import from_fx

    from .conversion import Conversion
    from .pipeline import convert

__all__ = ["Conversion", "convert", "from_fx"]


def __getattr__(name: str) -> Any:
    # onnx is loaded at the first conversion, not when the package is imported.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import pipeline
    from .importers import fx

    return getattr(fx if name == "from_fx" else pipeline, name)
