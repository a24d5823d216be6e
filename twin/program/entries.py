"""Write the functions `aclrtlaunch_<kernel>` and their headers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from .rewrite import Kernel

_NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$")
_GM_POINTER = re.compile(r"\bvolatile\b[^*]*\*|\b\w[\w:]*\s+volatile\s*\*")
_HEADER = """\
#ifndef OPFORGE_TWIN_ACLRTLAUNCH_{name}
#define OPFORGE_TWIN_ACLRTLAUNCH_{name}
#include <stdint.h>
#include "acl/acl_base.h"
#ifndef ACLRT_LAUNCH_KERNEL
#define ACLRT_LAUNCH_KERNEL(kernel) aclrtlaunch_##kernel
#endif
extern "C" uint32_t aclrtlaunch_{name}({parameters});
#endif
"""


def write_headers(kernels: Sequence[Kernel], folder: Path) -> None:
    """Write the header of each kernel that is no template."""
    for kernel in _callable(kernels):
        parameters = ["uint32_t blockDim", "aclrtStream stream"]
        parameters += [_GM_POINTER.sub("void*", parameter) for parameter in kernel.parameters]
        text = _HEADER.format(name=kernel.name, parameters=", ".join(parameters))
        (folder / f"aclrtlaunch_{kernel.name}.h").write_text(text, encoding="utf-8")


def entry_definitions(kernels: Sequence[Kernel]) -> str:
    """Return the definitions of the functions `aclrtlaunch_<kernel>` of a source."""
    lines = ["", '# 1 "aclrtlaunch"']
    for kernel in _callable(kernels):
        names = [_parameter_name(parameter) for parameter in kernel.parameters]
        shown = "\\n".join(names)
        parameters = "".join(f", {parameter}" for parameter in kernel.parameters)
        lines.append(
            f'extern "C" __attribute__((weak, visibility("default"))) uint32_t aclrtlaunch_{kernel.name}'
            f"(uint32_t opforgeBlocks, void* opforgeStream{parameters}) {{ "
            f'::opforge::twin::program::Prepare("{kernel.name}", "{shown}", '
            "::opforge::twin::program::Grid(opforgeBlocks, nullptr, opforgeStream), "
            f"[](auto... each) {{ {kernel.name}(each...); }})({', '.join(names)}); return 0; }}"
        )
    return "\n".join([*lines, ""]) if len(lines) > 2 else ""


def _callable(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Return the kernels that have an entry: C functions with named parameters."""
    found = {kernel.name: kernel for kernel in kernels}
    return [
        kernel
        for kernel in found.values()
        if kernel.is_c_function and all(_NAME.search(parameter) for parameter in kernel.parameters)
    ]


def _parameter_name(parameter: str) -> str:
    match = _NAME.search(parameter)
    if match is None:
        raise ValueError("unreachable: kernels without parameter names have no entry")
    return match[1]
