"""Compile sources of a clone into an object file or a program for the CPU twin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opforge.codegen.errors import UserError
from opforge.codegen.process_limits import LimitError
from opforge.twin.build import include_flags
from opforge.twin.compiler.flags import COMMON, DEVICE_FIELDS, KERNEL_FLAGS
from opforge.twin.compiler.limited_process import compile_limits, run_limited
from opforge.twin.compiler.runtime_library import runtime_link
from opforge.twin.compiler.units import compiler, cpu_flags
from opforge.twin.program import ProgramError, compile_program

# They replace headers of the twin with the same names, which are for programs of `opforge cc`.
_UNIT_TEST = Path(__file__).with_name("unit_test")
_MOST_MESSAGES = 1 << 20
# Messages for text that a device compiler accepts: `volatile __gm__`, and `[aicore]` in a macro of the kernel.
_WIDE_FIELD = re.compile(r"no matching function for call to .*\bGiven(?:8|16|32)\b")
_DEVICE_TEXT = ("duplicate 'volatile'", "expected unqualified-id before '[' token")


@dataclass(frozen=True)
class Options:
    """How sources are compiled: folders of headers, macros, chip and level of checks."""

    include_dirs: tuple[Path, ...]
    defines: tuple[str, ...]
    soc: str
    level: str


def compile_kernels(sources: Sequence[Path], output: Path, options: Options, *, is_program: bool) -> None:
    """Compile kernels without launches `<<<...>>>`.

    Raises:
        UserError: The compiler rejects them or reaches a limit; the text has its messages.
    """
    flags = [
        *COMMON,
        *cpu_flags(),
        *KERNEL_FLAGS,
        "-w",
        f"-I{_UNIT_TEST}",
        *include_flags(),
        *(f"-I{folder}" for folder in options.include_dirs),
    ]
    flags += [f"-D{define}" for define in options.defines]

    is_plain, has_wide_fields = True, True
    while text := _compiled(sources, output, flags, is_plain=is_plain, is_program=is_program):
        if is_plain and any(message in text for message in _DEVICE_TEXT):
            is_plain = False
        elif has_wide_fields and _WIDE_FIELD.search(text):
            has_wide_fields = False
            flags += DEVICE_FIELDS
        else:
            raise ProgramError(text)


def _compiled(sources: Sequence[Path], output: Path, flags: Sequence[str], *, is_plain: bool, is_program: bool) -> str:
    """Compile and perhaps link sources; return the messages of the compiler, or nothing if it accepts them."""
    files = sources if is_plain else [_host_text(source, flags, output.parent) for source in sources]
    inputs = [word for file in files for word in ("-x", "c++" if is_plain else "c++-cpp-output", str(file))]
    kind = [*inputs, "-x", "none", *runtime_link()] if is_program else ["-c", *inputs]
    return _messages([*flags, *kind, "-o", str(output)])


def _messages(arguments: Sequence[str]) -> str:
    """Run the compiler; returns its messages, or nothing if it accepts its input.

    Raises:
        UserError: It reaches a limit.
    """
    try:
        ended = run_limited([compiler()[0], *arguments], compile_limits(), most_text=_MOST_MESSAGES)
    except LimitError as error:
        raise UserError(str(error)) from error
    return (ended.text or "the compiler rejected it") if ended.status else ""


def _host_text(source: Path, flags: Sequence[str], folder: Path) -> Path:
    """Preprocess a source; write `volatile __gm__` as one qualifier, as `__gm__` is `volatile`, and no `[aicore]`."""
    made = folder / f"{source.stem}.ii"
    if text := _messages([*flags, "-E", "-x", "c++", str(source), "-o", str(made)]):
        raise UserError(text)
    text = made.read_text(encoding="utf-8", errors="surrogateescape")
    text = re.sub(r"\bvolatile(?:[ \t]+volatile)+\b", "volatile", text)
    made.write_text(re.sub(r"\[aicore\]", "", text), encoding="utf-8", errors="surrogateescape")
    return made


def compile_example(sources: Sequence[Path], output: Path, options: Options, *, is_program: bool) -> None:
    """Compile sources that may launch kernels by `<<<...>>>`.

    Raises:
        UserError: The compiler rejects them or reaches a limit; the text has its messages.
    """
    compile_program(
        sources,
        output,
        include_dirs=options.include_dirs,
        defines=options.defines,
        soc=options.soc,
        level=options.level,
        compile_only=not is_program,
    )
