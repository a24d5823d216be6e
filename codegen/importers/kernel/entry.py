"""Import an Ascend C kernel: its source files, unchanged, and the properties of its entry function for the spec."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from opforge.codegen.data.names import snake_case
from opforge.codegen.errors import UserError
from opforge.codegen.escape import Code, commas
from opforge.codegen.importers.cpp_text import STRING, without_strings
from opforge.codegen.importers.draft import OperatorDraft
from opforge.codegen.importers.tiling.constants import Names, UnknownTemplateError
from opforge.codegen.importers.tiling.structures import Field, code_of, header_of, plain_structure
from opforge.codegen.importers.tiling.template import MOST_KEYS, TemplateKey, template_keys
from opforge.codegen.printing import path_text, shown
from opforge.codegen.render import printed
from opforge.codegen.spec.field_types import TASK_TYPES

from .includes import INCLUDE, KernelSources

_NO_ENTRY = "no function with __global__ __aicore__"
_ENTRY = re.compile(r"__global__\s+__aicore__\s+void\s+(\w+)\s*\(([^();]{0,10000})\)")
# A macro that defines an entry function has parameters of the macro instead of names.
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define\b(?:\\\n|[^\n])*", re.MULTILINE)
_POINTER = re.compile(r"\bGM_ADDR\b|\*")
_LINKAGE = re.compile(r'(extern\s+"C"|>)\s*$')
_SCOPE = re.compile(STRING.pattern + r"|\bnamespace\s+([\w:]+)\s*\{|[{}]")
_KEY = re.compile(r"\bTILING_KEY_IS\s*\(\s*([^()]{1,200})\)")
_TASK = re.compile(r"\bKERNEL_TASK_TYPE(?:_DEFAULT)?\s*\((?:[^,()]*,)?\s*KERNEL_TYPE_(\w+)\s*\)")
_STRUCTURES = (
    re.compile(r"\bREGISTER_TILING_DEFAULT\s*\(\s*([\w:]+)\s*\)"),
    re.compile(r"\bGET_TILING_DATA(?:_PTR)?_WITH_STRUCT\s*\(\s*([\w:]+)\s*,"),
)


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


def read_kernel(
    path: Path,
    draft: OperatorDraft,
    root: Path | None = None,
    is_provided: Callable[[str], bool] = lambda name: name.startswith("kernel_operator"),
) -> ImportedKernel:
    """Read the source with the entry function of an operator, and the files that it includes.

    Args:
        path: The source.
        draft: The operator.
        root: A folder above the source with further files that are copied; None: the folder of the source.
        is_provided: Whether CANN has a header of this name.

    Raises:
        UserError: A file cannot be read, or the entry function is missing or has other parameters.
    """
    op_type = draft.op_type
    name, place = snake_case(op_type), path_text(path)
    read = KernelSources(path, root, is_provided)
    sources, problems = read.files, read.problems
    code = "\n".join(without_strings(code_of(text)) for text in sources.values())
    entries = _entries(code_of(next(iter(sources.values()))))
    if name not in entries and len(entries) != 1:
        got, repair = (shown(", ".join(entries)), "rename it") if entries else (_NO_ENTRY, "name the file that has it")
        raise UserError(f"got {got}, expected the entry function {name}; {repair}", place)
    entry = entries.get(name) or next(iter(entries.values()))
    arguments = [part.strip() for part in entry.parameters.split(",") if part.strip()]
    given = _names(arguments, draft, place, problems)
    words = {"op_type": op_type, "name": name, "guard": Code(name.upper())}
    tasks = [task for task in _TASK.findall(code) if task in TASK_TYPES]
    templates: list[TemplateKey] = []
    if entry.linkage == ">":
        dtypes = [f"DTYPE_{tensor.name.upper()}" for tensor in draft.inputs]
        try:
            templates, selected = template_keys(code, op_type, dtypes)
        except UnknownTemplateError as error:
            got = f"got a template whose tiling keys are not read: {error}"
            raise UserError(f'{name}: {got}; write an entry function with extern "C"', place) from error
        keys, tasks = [one.key for one in templates], tasks + selected
    else:
        keys = _plain_keys(code, place, problems)
    tasks = list(dict.fromkeys(tasks))
    if len(tasks) > 1:
        problems.append(f"{place}: got the task types {', '.join(tasks)}, expected one; set tiling.task_type")
    files = {f"op_kernel/{name}/{location}": text for location, text in sources.items()}
    structure = _structure(draft, sources, code, place, problems)
    if structure and structure.text:
        files[f"op_kernel/{structure.header}"] = structure.text
    files[f"op_kernel/{name}.h"] = printed(
        "imported_kernel.h.j2",
        source=Code(next(iter(sources))),
        parameters=Code(", ".join(arguments)),
        given=commas(given),
        entry=Code(entry.name if entry.name != name else ""),
        namespace=Code(entry.namespace),
        is_linked=bool(entry.linkage),
        templates=[{"key": one.key, "arguments": Code(", ".join(one.arguments))} for one in templates],
        **words,
    )
    lines, fields = (structure.lines, structure.fields) if structure else ((), ())
    plan = printed("imported_plan.h.j2", lines=map(Code, lines), fields=fields, **words)
    files[f"op_host/{name}_tiling.h"] = plan
    problems.append(f"{place}: tiling function: not copied; write op_host/{name}_tiling.h")
    tiling = [f"  task_type: {task}" for task in tasks[:1]]
    if structure:
        tiling.append(f"  structure: {{header: {structure.header}, name: '{structure.name}'}}")
    tiling += ["  own_entry: true", "  keys:", *(f"    - {{name: Key{key}, key: {key}}}" for key in keys)]
    return ImportedKernel(replace(draft, fields=(), tiling=tuple(tiling)), files, problems)


def _names(arguments: Sequence[str], draft: OperatorDraft, place: str, problems: list[str]) -> list[str]:
    """Return the names of the parameters of an entry function.

    Raises:
        UserError: The function has other parameters than a call passes.
    """
    name, tensors = snake_case(draft.op_type), draft.tensors
    if len(arguments) != len(tensors) + 2:
        expected = f"expected {len(tensors) + 2}: {len(tensors)} inputs and outputs, workspace and tiling"
        raise UserError(f"{name}: got {len(arguments)} parameters, {expected}", place)
    if other := next((argument for argument in arguments if not _POINTER.search(argument)), None):
        raise UserError(f"{name}: got the parameter {shown(other)}, expected GM_ADDR or a pointer; change it", place)
    given = [re.findall(r"\w+", argument)[-1] for argument in arguments]
    usual = [*(tensor.name for tensor in tensors), "workspace", "tiling"]
    if given != usual and sorted(given) == sorted(usual):
        got = f"got the parameters {', '.join(given)}, but a call passes {', '.join(usual)}"
        problems.append(f"{place}: {name}: {got}, by position; change the order or the names")
    return given


@dataclass(frozen=True)
class _Entry:
    """An entry function: `linkage` is `extern "C"` or the end of a template head."""

    name: str
    parameters: str
    linkage: str
    namespace: str


def _entries(code: str) -> dict[str, _Entry]:
    """Return the entry functions by name."""
    found: dict[str, _Entry] = {}
    scopes: list[str] = []
    code, position = _DEFINE.sub("", code), 0
    for entry in _ENTRY.finditer(code):
        linkage = _LINKAGE.search(code[max(entry.start() - 100, 0) : entry.start()])
        for scope in _SCOPE.finditer(code, position, entry.start()):
            if scope[0] == "}":
                del scopes[-1:]
            elif scope[0].endswith("{"):
                scopes.append(scope[1] or "")
        position = entry.end()
        found[entry[1]] = _Entry(entry[1], entry[2], linkage[1] if linkage else "", "::".join(filter(None, scopes)))
    return found


def _plain_keys(code: str, place: str, problems: list[str]) -> list[int]:
    """Return the tiling keys that an entry function tests."""
    names = Names(code)
    keys = set()
    for text in dict.fromkeys(_KEY.findall(code)):
        number = names.number(text)
        if number is not None and 0 <= number < 2**63:
            keys.add(number)
        else:
            got = f"{place}: TILING_KEY_IS: got {shown(text.strip())}"
            problems.append(f"{got}, expected a number of 63 bits; add it to tiling.keys")
    return sorted(keys)[:MOST_KEYS] or [0]


@dataclass(frozen=True)
class _Structure:
    """The tiling data: the header below op_kernel/ that defines it, and its content.

    The content is lines of an imported header, or fields of a header with `text`.
    """

    header: str
    name: str
    lines: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    text: str = ""


def _structure(
    draft: OperatorDraft, sources: Mapping[str, str], code: str, place: str, problems: list[str]
) -> _Structure | None:
    """Return the structure that the kernel reads; None if its definition is not in the sources."""
    folder = snake_case(draft.op_type)
    described = dict(draft.structures)
    read = [name.rpartition("::")[2] for pattern in _STRUCTURES for name in pattern.findall(code)]
    used = list(dict.fromkeys(filter(None, (*read[:1], draft.structure, *read))))
    if len(used) > 1 and read:
        problems.append(f"{place}: got the tiling data {', '.join(used)}; the plan fills {used[0]} only")
    if not used:
        if "GET_TILING_DATA" in code:
            problems.append(f"{place}: got GET_TILING_DATA, but no source registers tiling data; name its header too")
        return None
    name = used[0]
    for location, text in sources.items():
        plain = plain_structure(text, location, name)
        if plain is not None:
            if _has_kernel_code(location, sources):
                problems.append(
                    f"{place}: {shown(location)}: got the structure {name} beside kernel code; move it to a header that"
                    " the host can include, and set tiling.structure"
                )
                return None
            return _Structure(f"{folder}/{location}", plain.name, plain.fields)
    if name not in described:
        problems.append(f"{place}: got no definition of the tiling data {name}; name its header as a source too")
        return None
    text = header_of(described, f"OP_KERNEL_{folder.upper()}_IMPORTED_TILING_DATA_H")
    return _Structure(f"{folder}/imported_tiling_data.h", name, fields=described[name], text=text)


def _has_kernel_code(location: str, sources: Mapping[str, str]) -> bool:
    """Return whether a header includes the header of kernels, also by other headers."""
    waiting, seen = [location], {location}
    while waiting:
        including = waiting.pop()
        if "__aicore__" in sources[including]:
            return True
        for _, written in INCLUDE.findall(code_of(sources[including])):
            if written.startswith(("kernel_operator", "kernel_basic", "basic_api/", "adv_api/")):
                return True
            found = os.path.normpath(PurePosixPath(including).parent / written)
            if found in sources and found not in seen:
                seen.add(found)
                waiting.append(found)
    return False
