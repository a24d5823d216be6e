"""Compile single-source Ascend C programs and acl applications into programs that run on the CPU twin."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from opforge.codegen.errors import UserError
from opforge.codegen.files import require_writable
from opforge.codegen.printing import path_text, shown
from opforge.codegen.spec.products import DEFAULT_SOC, soc_properties
from opforge.twin.compiler.limited_process import LimitError, compile_limits, run_limited
from opforge.twin.compiler.runtime_library import INCLUDE, build_runtime, runtime_link
from opforge.twin.compiler.units import COMMON, LINE_FLAGS, CompileError, compiler, cpu_flags

from .launches import Kernel, inferred_type, kernels_of, launch_header, rewritten, tokens_of

LEVELS = ("strict", "device", "fast")
_MOST_SOURCE = 16 << 20
_LAUNCH_HEADER = re.compile(r'#\s*include\s*["<]aclrtlaunch_\w+\.h[">]')
_MISSING = re.compile(
    r"(?:'(?:AscendC::)?(\w+)(?:<[^']*)?' (?:was not declared|has not been declared|is not a member of|does not name a)"
    r"|has no member named '(\w+)'|fatal error: ([\w./]+): No such file)"
)
_ERROR = re.compile(r"\berror: ")


class ProgramError(CompileError):
    """A program does not compile.

    Attributes:
        missing: Names and headers that the compiler does not find, in the order of its messages.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        errors = (line for line in text.splitlines() if _ERROR.search(line))
        found = (match for line in errors if (match := _MISSING.search(line)))
        self.missing = tuple(dict.fromkeys(next(filter(None, match.groups())) for match in found))


@dataclass(frozen=True)
class CompiledProgram:
    """The result of a compilation.

    Attributes:
        path: The program, or the object file.
        kernels: Names of the kernel functions.
    """

    path: Path
    kernels: tuple[str, ...]


@dataclass(frozen=True)
class _Compiler:
    """The folder of temporary files, and the flags of all sources."""

    scratch: Path
    flags: tuple[str, ...]

    def run(self, *arguments: str | Path, label: str) -> None:
        command = [compiler()[0], *COMMON, *cpu_flags(), *self.flags, *map(str, arguments)]
        try:
            ended = run_limited(command, compile_limits(), environment={"TMPDIR": str(self.scratch)})
        except LimitError as error:
            raise ProgramError(f"{label}: {error}") from error
        if ended.status:
            raise ProgramError(f"{label}: got errors of the compiler, expected C++17; correct the source\n{ended.text}")


def compile_program(
    sources: Sequence[Path],
    output: Path,
    *,
    include_dirs: Sequence[Path] = (),
    defines: Sequence[str] = (),
    options: Sequence[str] = (),
    soc: str = DEFAULT_SOC,
    level: str = "strict",
    compile_only: bool = False,
) -> CompiledProgram:
    """Compile and link sources into a program that runs kernels on the CPU twin.

    Args:
        sources: `.asc` and C++ files; object files and libraries go to the linker.
        output: The program; one object file if `compile_only`.
        include_dirs: Folders of headers.
        defines: Macros, as `NAME` or `NAME=VALUE`.
        options: More options of the compiler.
        soc: Chip that the twin emulates.
        level: Checks of the twin: strict, device or fast.
        compile_only: Whether to stop in front of the linker.

    Raises:
        ProgramError: A source does not compile, or the program does not link.
        UserError: A source cannot be read, or a value is wrong.
        MissingToolError: There is no compiler.
    """
    soc_properties(soc)
    if level not in LEVELS:
        raise UserError(f"--level: got {shown(level)}, expected {', '.join(LEVELS[:-1])} or {LEVELS[-1]}")
    linked = [path for path in sources if path.suffix in {".o", ".a", ".so"}]
    compiled = [path for path in sources if path not in linked]
    texts = {path: _read(path) for path in compiled}
    if compile_only and (len(compiled) != 1 or linked):
        raise UserError(f"-c: got {len(sources)} files, expected one source; call the command once for each")
    require_writable(output, sources, "program")
    build_runtime()
    with tempfile.TemporaryDirectory(prefix="opforge-cc-") as folder:
        scratch = Path(folder)
        flags = (*options, *(f"-I{path}" for path in include_dirs), *(f"-D{name}" for name in defines))
        own = ("-include", str(INCLUDE / "opforge_twin" / "program.h"), f"-I{scratch}", "-isystem", str(INCLUDE))
        run = _Compiler(scratch, (*flags, *own, *LINE_FLAGS, "-fstack-protector-strong", "-fstack-clash-protection"))
        # Sources that include launch headers come last: the headers are made of the other sources.
        compiled.sort(key=lambda path: _LAUNCH_HEADER.search(texts[path]) is not None)
        kernels: dict[str, Kernel] = {}
        objects = [_object(run, path, number, kernels) for number, path in enumerate(compiled)]
        made = objects[0] if compile_only else _linked(run, [*objects, *linked], soc, level)
        _publish(made, output)
    return CompiledProgram(output, tuple(kernels))


def _read(path: Path) -> str:
    """Return the text of a source."""
    try:
        if not path.is_file():
            raise UserError(f"{path_text(path)}: got no regular file, expected a source; correct the name")
        if path.stat().st_size > _MOST_SOURCE:
            raise UserError(f"{path_text(path)}: got {path.stat().st_size} bytes, expected at most {_MOST_SOURCE}")
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path_text(path)}: got '{error.strerror}', expected a readable source") from error
    if b"\0" in data:
        raise UserError(f"{path_text(path)}: got a binary file, expected C++ text; name the source")
    return data.decode("utf-8", errors="surrogateescape")


def _object(run: _Compiler, source: Path, number: int, kernels: dict[str, Kernel]) -> Path:
    """Compile one source; add its kernels to `kernels`, and their launch headers to the temporary folder."""
    expanded, made = run.scratch / f"{number}.ii", run.scratch / f"{number}.o"
    language = ("-x", "c++")
    run.run(*language, "-E", source.resolve(), "-o", expanded, label=path_text(source))
    text = expanded.read_text(encoding="utf-8", errors="surrogateescape")
    tokens = tokens_of(text)
    default = inferred_type(tokens)
    own = {
        name: replace(kernel, task_type=kernel.task_type or default)
        for name, kernel in kernels_of(text, tokens).items()
    }
    kernels.update(own)
    for kernel in own.values():
        header = run.scratch / f"aclrtlaunch_{kernel.name}.h"
        header.write_text(launch_header(kernel), encoding="utf-8")
    expanded.write_text(rewritten(text, tokens, kernels, default), encoding="utf-8", errors="surrogateescape")
    plain = _Compiler(
        run.scratch, tuple(flag for flag in run.flags if flag.startswith(("-f", "-O", "-g", "-W", "-std")))
    )
    plain.run("-x", "c++-cpp-output", "-c", expanded, "-o", made, label=path_text(source))
    return made


def _linked(run: _Compiler, objects: Sequence[Path], soc: str, level: str) -> Path:
    start, program = run.scratch / "start.cpp", run.scratch / "program"
    start.write_text(
        f'static const ::opforge::twin::program::Defaults defaults("{soc}", "{level}");\n', encoding="utf-8"
    )
    run.run("-x", "c++", start, "-x", "none", *objects, *runtime_link(), "-o", program, label="link")
    return program


def _publish(made: Path, output: Path) -> None:
    """Give the output its name; a file of that name stays until the new one is complete."""
    beside = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        shutil.copy(made, beside)
        beside.replace(output)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise UserError(f"{path_text(output)}: got '{error.strerror}', expected a file that can be written") from error
