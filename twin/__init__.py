"""The CPU twin: compile operators with g++, run them on numpy arrays, check them like a sanitizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .runtime.launch import launch
    from .runtime.operator_run import run
    from .runtime.results import AclnnError, Finding, FindingsError, Report, Result, TwinWarning

__all__ = ["AclnnError", "Finding", "FindingsError", "Report", "Result", "TwinWarning", "launch", "run"]


def __getattr__(name: str) -> Any:
    # NumPy and the runtime are loaded when a name is used, not when the package is imported.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .runtime import operator_run, results
    from .runtime.launch import launch

    return launch if name == "launch" else getattr(operator_run if name == "run" else results, name)
