"""Check the host symbols of a compiled kernel: functions of host libraries, and code that runs when it is loaded."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opforge.codegen.errors import UserError
from opforge.codegen.printing import escaped, shown

# Functions used by compilers and their start files: copies, stack checks, and stack unwinding for findings.
_COMPILER_FUNCTIONS = {
    "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__cxa_finalize", "__gmon_start__",
    "_Unwind_Resume", "_ZSt9terminatev", "__cxa_begin_catch", "__cxa_end_catch", "__cxa_rethrow",
    "__gxx_personality_v0", "__stack_chk_fail", "__stack_chk_guard", "bcmp", "memcmp", "memcpy", "memmove", "memset",
}  # fmt: skip
_TWIN_NAMESPACES = ("7opforge4twin", "7AscendC")
_SYMBOLS, _INIT_ARRAY, _FINI_ARRAY = 11, 14, 15  # section types of elf.h
_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_ENTRY_BYTES = 8  # the C runtime adds one entry, and a sanitizer another one
_SANITIZERS = ("__asan_", "__tsan_", "__ubsan_")


@dataclass(frozen=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int


def require_device_code(library: Path, label: str, runtime: Path) -> None:
    """Reject a kernel library that calls host functions or runs code while it is loaded.

    Args:
        library: The shared library.
        label: The kernel's name in messages.
        runtime: The runtime library of the twin. If a sanitizer was used for it, kernels may call this sanitizer.

    Raises:
        UserError: The library contains such calls or code; the message names the functions.
    """
    content = library.read_bytes()
    sections = list(_sections(content))
    names = sorted(_imported(content, sections))
    sanitizers = _sanitizers(runtime) if any(name.startswith(_SANITIZERS) for name in names) else ()
    if names := [name for name in names if not name.startswith(sanitizers)]:
        calls = ", ".join(shown(name) for name in names)
        raise UserError(
            f"{escaped(label)}: the kernel calls {calls} of the host, expected functions of AscendC only; "
            "remove the calls"
        )
    most = (1 + bool(sanitizers)) * _ENTRY_BYTES
    if any(part.kind in {_INIT_ARRAY, _FINI_ARRAY} and part.size > most for part in sections):
        raise UserError(
            f"{escaped(label)}: the kernel has code that runs when it is loaded or unloaded (a constructor of a global "
            "variable, or __attribute__((constructor))), expected none on the device; make the variable a member"
        )


def _sanitizers(runtime: Path) -> tuple[str, ...]:
    """Return the prefixes of the sanitizer functions that the runtime library calls."""
    content = runtime.read_bytes()
    names = set(_imported(content, list(_sections(content))))
    return tuple(prefix for prefix in _SANITIZERS if any(name.startswith(prefix) for name in names))


def _sections(content: bytes) -> Iterator[_Section]:
    """Yield the sections of a little-endian ELF file of 64 bits."""
    (offset,) = struct.unpack_from("<Q", content, 40)
    (count,) = struct.unpack_from("<H", content, 60)
    for index in range(count):
        _, kind, _, _, start, size, link, *_ = _SECTION.unpack_from(content, offset + index * _SECTION.size)
        yield _Section(kind, start, size, link)


def _imported(content: bytes, sections: list[_Section]) -> Iterator[str]:
    """Yield functions and variables that the library imports, except those of the twin and the compiler."""
    for table in (section for section in sections if section.kind == _SYMBOLS):
        names = sections[table.link].offset
        for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
            name, _, _, section, *_ = _SYMBOL.unpack_from(content, at)
            if section != 0 or name == 0:
                continue
            text = content[names + name : content.index(b"\0", names + name)].decode(errors="replace")
            if text not in _COMPILER_FUNCTIONS and not any(space in text for space in _TWIN_NAMESPACES):
                yield text
