"""Import an Ascend C kernel: its source files, unchanged, and the properties of its entry function for the spec."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from opforge.codegen.data.names import snake_case
from opforge.codegen.errors import UserError
from opforge.codegen.files import open_inside, read_regular
from opforge.codegen.printing import path_text, shown
from opforge.codegen.spec.field_types import TASK_TYPES

from .draft import OperatorDraft
from .sources import MOST_BYTES, decoded

MOST_KERNEL_FILES = 200
_NO_CODE = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_ENTRY = re.compile(r'extern\s+"C"\s+__global__\s+__aicore__\s+void\s+(\w+)\s*\(([^)]*)\)')
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"\n]+)"', re.MULTILINE)
_KEY = re.compile(r"\bTILING_KEY_IS\s*\(\s*(\d{1,18})U?L*\s*\)")
_TASK = re.compile(r"\bKERNEL_TASK_TYPE(?:_DEFAULT)?\s*\((?:[^,()]*,)?\s*KERNEL_TYPE_(\w+)\s*\)")
_STRUCTURE = re.compile(r"\b(?:GET_TILING_DATA_WITH_STRUCT\s*\(\s*(\w+)|([A-Z]\w*TilingData)\b)")
_HEADER = """// Entry function of {op_type}: the sources in op_kernel/{name}/ are copies of the imported files.
#ifndef OP_KERNEL_{guard}_H
#define OP_KERNEL_{guard}_H

#pragma GCC system_header  // no warnings in code that is not of this project

{aliases}#include "{name}/{source}"

#endif  // OP_KERNEL_{guard}_H
"""
_PLAN = """// Plan of {op_type}: to be written from the tiling function of the imported operator.
#ifndef OP_HOST_{guard}_TILING_H
#define OP_HOST_{guard}_TILING_H

#include "common/plan.h"
#include "{name}_problem.h"
#include "{name}_tiling_data.h"

namespace opforge {{

constexpr Plan<{op_type}TilingData> Plan{op_type}(const {op_type}Problem&, const Platform&)
{{
    Plan<{op_type}TilingData> plan;
    // Fill plan.data, plan.tilingKey, plan.blockNum and plan.workspaceBytes; then remove this line.
    plan.refusal = {{"calls without a plan; write op_host/{name}_tiling.h", 1, 0}};
    return plan;
}}

}}  // namespace opforge

#endif  // OP_HOST_{guard}_TILING_H
"""


@dataclass(frozen=True)
class ImportedKernel:
    """A kernel of another project.

    Attributes:
        draft: The operator, with the tiling keys and the task type of the kernel.
        files: The files of the project by path: copies, the header of the kernel, and a plan that rejects all calls.
        problems: Parts that were not imported.
    """

    draft: OperatorDraft
    files: Mapping[str, str]
    problems: list[str]


def read_kernel(path: Path, draft: OperatorDraft) -> ImportedKernel:
    """Read the source with the entry function of an operator, and the files of its folder that it includes.

    Args:
        path: The source.
        draft: The operator.

    Raises:
        UserError: A file cannot be read, or the entry function is missing or has other parameters.
    """
    op_type, parameters = draft.op_type, len(draft.tensors)
    name, place = snake_case(op_type), path_text(path)
    sources, problems = _with_includes(path)
    code = "\n".join(map(_code, sources.values()))
    entries = dict(_ENTRY.findall(_code(next(iter(sources.values())), keep_text=True)))
    if name not in entries:
        got = ", ".join(entries) or 'no function with extern "C" __global__ __aicore__'
        raise UserError(f"got {shown(got)}, expected the entry function {name}; rename it", place)
    count = len([part for part in entries[name].split(",") if part.strip()])
    if count != parameters + 2:
        expected = f"{parameters} inputs and outputs, workspace and tiling"
        raise UserError(f"{name}: got {count} parameters, expected {parameters + 2}: {expected}", place)
    tasks = [task for task in dict.fromkeys(_TASK.findall(code)) if task in TASK_TYPES]
    if len(tasks) > 1:
        problems.append(f"{place}: got the task types {', '.join(tasks)}, expected one; set tiling.task_type")
    own = f"{op_type}TilingData"
    named = {first or second for first, second in _STRUCTURE.findall(code)} - {own}
    aliases = sorted(word for word in named if not re.search(rf"\b(?:struct|class|using)\s+{word}\b", code))
    if len(aliases) > 1:
        problems.append(f"{place}: got the tiling data {', '.join(aliases)}, expected one; all names mean {own}")
    words = {"op_type": op_type, "name": name, "guard": name.upper(), "source": next(iter(sources))}
    lines = "".join(f"using {alias} = {own};\n" for alias in aliases)
    files = {f"op_kernel/{name}/{location}": text for location, text in sources.items()}
    files[f"op_kernel/{name}.h"] = _HEADER.format(aliases=f"{lines}\n" if lines else "", **words)
    files[f"op_host/{name}_tiling.h"] = _PLAN.format(**words)
    problems.append(f"{place}: tiling function: not taken over; write op_host/{name}_tiling.h")
    keys = sorted({int(key) for key in _KEY.findall(code)}) or [0]
    tiling = [f"  task_type: {task}" for task in tasks[:1]]
    tiling += ["  own_entry: true", "  keys:", *(f"    - {{name: Key{key}, key: {key}}}" for key in keys)]
    return ImportedKernel(replace(draft, tiling=tuple(tiling)), files, problems)


def _with_includes(path: Path) -> tuple[dict[str, str], list[str]]:
    """Return the text of a source and of the files below its folder that it includes, by relative path."""
    text = decoded(read_regular(path, "kernel", MOST_BYTES, "name a smaller file"), path)
    # A package contains files with this suffix only.
    first = f"{path.stem}_entry.h"
    sources, problems = {first: text}, []
    waiting = [first]
    while waiting:
        including = waiting.pop()
        for written in _INCLUDE.findall(_code(sources[including], keep_text=True)):
            for folder in (PurePosixPath(including).parent, PurePosixPath()):
                location = _normal(folder / written)
                found = None if location is None or location in sources else _read_below(path.parent, location)
                if found is not None and location is not None:
                    if len(sources) == MOST_KERNEL_FILES:
                        raise UserError(f"includes more than {MOST_KERNEL_FILES} files", path_text(path))
                    sources[location] = found
                    waiting.append(location)
                    if not location.endswith(".h"):
                        problems.append(f"{path_text(path.parent / location)}: a package has no file of this suffix")
                if location in sources:
                    break
            else:
                if written != "kernel_operator.h" and ".." in PurePosixPath(written).parts:
                    problems.append(f"{path_text(path)}: {shown(written)}: not copied, it is outside of the folder")
    return sources, problems


def _normal(path: PurePosixPath) -> str | None:
    """Return a relative path without `..`; None if it is outside the folder."""
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part == "/":
            return None
        else:
            parts.append(part)
    return "/".join(parts) or None


def _read_below(folder: Path, location: str) -> str | None:
    try:
        file = open_inside(folder, location)
    except OSError:
        return None
    if file is None:
        return None
    with file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise UserError(f"got more than {MOST_BYTES} bytes; name a smaller kernel", path_text(folder / location))
    return decoded(data, folder / location)


def _code(text: str, *, keep_text: bool = False) -> str:
    """Return a source without comments, and without string literals unless `keep_text`."""
    return _NO_CODE.sub(lambda found: found[0] if keep_text and found[0][0] == '"' else " ", text)
