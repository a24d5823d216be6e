"""Write the functions `aclrtlaunch_<kernel>` and their headers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from opforge.twin.cpp_text import printed

from .rewrite import Kernel

_GM_POINTER = re.compile(r"\bvolatile\b[^*]*\*|\b\w[\w:]*\s+volatile\s*\*")


def write_headers(kernels: Sequence[Kernel], folder: Path) -> None:
    """Write the header of each kernel that is no template."""
    for kernel in _callable(kernels):
        parameters = [_GM_POINTER.sub("void*", parameter) for parameter in _parameters(kernel)]
        declared = [name for name in kernel.classes.values() if "::" not in name]
        text = printed("aclrtlaunch.h.j2", name=kernel.name, parameters=parameters, classes=declared)
        (folder / f"aclrtlaunch_{kernel.name}.h").write_text(text, encoding="utf-8")


def entry_definitions(kernels: Sequence[Kernel], *, has_handles: bool) -> str:
    """Return the definitions of the functions `aclrtlaunch_<kernel>` of a source.

    With `has_handles`, host code can also launch the kernels by handles (aclrtBinaryGetFunction).
    """
    rows = [(kernel, _names(kernel), _parameters(kernel)) for kernel in _callable(kernels)]
    return printed("aclrtlaunch.cpp.j2", kernels=rows, has_handles=has_handles) if rows else ""


def _callable(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Return the kernels that have an entry: C functions."""
    found = {kernel.name: kernel for kernel in kernels}
    return [kernel for kernel in found.values() if kernel.is_c_function]


def _names(kernel: Kernel) -> list[str]:
    return [name or f"opforgeParameter{index}" for index, name in enumerate(kernel.names)]


def _parameters(kernel: Kernel) -> list[str]:
    """Return the parameters of the entry: an object is a pointer, as in the headers that CANN generates."""
    return [
        f"{kernel.classes[old]}* {name}" if old in kernel.classes else parameter if old else f"{parameter} {name}"
        for parameter, old, name in zip(kernel.parameters, kernel.names, _names(kernel), strict=True)
    ]
