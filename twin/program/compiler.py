"""Compile programs with Ascend C kernels: preprocess, rewrite launches, compile and link with the CPU twin."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from opforge.codegen.data.products import ARCHITECTURES, DEFAULT_ARCH, DEFAULT_SOC, soc_properties
from opforge.codegen.errors import UserError
from opforge.codegen.files import NewFile, make_folder, read_regular, require_writable, write_files
from opforge.codegen.printing import path_text, shown
from opforge.codegen.process_limits import LimitError
from opforge.twin.build import INCLUDE, build_runtime, header_folders
from opforge.twin.compiler.cache import read_depfile
from opforge.twin.compiler.flags import COMMON, LINE_FLAGS
from opforge.twin.compiler.limited_process import compile_limits, run_limited
from opforge.twin.compiler.npu_model import require_level
from opforge.twin.compiler.runtime_library import runtime_link
from opforge.twin.compiler.units import CompileError, compiler, cpu_flags, known_flags

from .entries import entry_definitions, write_headers
from .messages import missing_names, wrong_launches
from .rewrite import Kernel, Rewritten, rewrite

OBJECTS = (".o", ".a", ".so")
_MOST_BYTES = 16 << 20
_MOST_TEXT = 4 << 20
# Kernels check their arrays and stack frames (overruns.h).
_PROTECTION = ("-fsanitize=bounds", "-fstack-protector-strong", "-fstack-clash-protection")
# Public kernels copy structures of tiling data as words of 32 bits. The first byte of an on-chip memory has address 0.
_KERNEL_FLAGS = (*_PROTECTION, "-fno-strict-aliasing", "-fno-delete-null-pointer-checks", *LINE_FLAGS)
_LINKS = ("opforge_twin", "ascendcl", "nnopbase")
_DEVICE_OPTIONS = ("--npu-arch", "--cce-", "--enable-simt", "--gcc-toolchain", "--run-mode")
_LINK_OPTIONS = ("-shared", "-l", "-L", "-Wl,", "-fsanitize", "-g", "-O")
_CHECK = "-fsyntax-only"
# Options with which a compiler makes no object file.
_NO_OBJECT = re.compile(r"-(?:[ES]|MM?|###|dump.*|print-.*|-version|-help.*|-target-help)")
_OUTPUT = re.compile(r"-o|--output|-Wl,(?:.*,)?(?:-o|--output)")
_DEFINE = re.compile(r"[A-Za-z_]\w*(?:[=(]|\Z)")
_ENTRY = re.compile(rb"\baclrtlaunch_(\w+)\.h\b|\bACLRT_LAUNCH_KERNEL\s*\(\s*(\w+)\s*\)")


class ProgramError(CompileError):
    """A program does not compile or link.

    Attributes:
        missing: Names and headers that the sources use and the twin does not have.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.missing = tuple(missing_names(text))


@dataclass(frozen=True)
class CompiledProgram:
    """A program, or an object file, that `compile_program` wrote.

    Attributes:
        path: The file.
        kernels: Names of the kernels that the sources define.
        launches: Number of launch expressions in the sources.
    """

    path: Path
    kernels: tuple[str, ...]
    launches: int


@dataclass(frozen=True)
class _Build:
    """The options of one compilation, and its temporary folder."""

    folder: Path
    includes: tuple[Path, ...]
    defines: tuple[str, ...]
    flags: tuple[str, ...]
    soc: str
    level: str
    has_auto_sync: bool

    def run(self, command: Sequence[str], label: str) -> None:
        try:
            ended = run_limited(
                command, compile_limits(), environment={"TMPDIR": str(self.folder)}, most_text=_MOST_TEXT
            )
        except LimitError as error:
            raise ProgramError(f"{label}: {error}") from error
        if "undefined reference to `main'" in ended.text:
            raise ProgramError(f"{label}: no source has a function main; add it, or write an object file with -c")
        if ended.status:
            problems = wrong_launches(ended.text) or [f"{label}: the compiler rejected it", ended.text]
            raise ProgramError("\n".join(problems))

    @property
    def listed(self) -> Path:
        return self.folder / "headers.d"

    def preprocess(self, source: Path, headers: Path) -> str:
        made = self.folder / f"{abs(hash(source))}.ii"
        flags = [flag for flag in self.flags if flag != _CHECK]
        command = [
            *(compiler()[0], *COMMON, *flags, "-E", "-x", "c++", "-DOPFORGE_TWIN_PROGRAM"),
            *(f'-DOPFORGE_TWIN_PROGRAM_SOC="{self.soc}"', f'-DOPFORGE_TWIN_PROGRAM_LEVEL="{self.level}"'),
            *(() if self.has_auto_sync else ("-DOPFORGE_TWIN_PROGRAM_NO_AUTO_SYNC",)),
            *(f"-D{define}" for define in self.defines),
            *("-MD", "-MF", str(self.listed), "-include", str(INCLUDE / "opforge_twin" / "program.h")),
            *(f"-I{folder}" for folder in (headers, *self.includes, *header_folders())),
            *(str(source.absolute()) if str(source).startswith("-") else str(source), "-o", str(made)),
        ]
        self.run(command, path_text(source))
        return made.read_text(encoding="utf-8", errors="surrogateescape")

    def compile(self, text: str, source: Path, is_kernel: bool, target: Path) -> None:
        kernel_flags = known_flags(_KERNEL_FLAGS)
        rewritten = target.with_suffix(".cpp")
        rewritten.write_text(text, encoding="utf-8", errors="surrogateescape")
        command = [
            *(compiler()[0], *COMMON, *cpu_flags(), *(kernel_flags if is_kernel else ()), "-w", *self.flags),
            *("-fpreprocessed", "-x", "c++", "-c", str(rewritten), "-o", str(target)),
        ]
        self.run(command, path_text(source))


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
    header_dir: Path | None = None,
) -> CompiledProgram:
    """Compile Ascend C and host sources, and link them with the CPU twin.

    Args:
        sources: `.asc` and C++ files; object files and libraries are linked too.
        output: The program, or the object file with `compile_only`.
        include_dirs: Folders of headers.
        defines: Macros, `NAME` or `NAME=VALUE`.
        options: More options of the C++ compiler. With `-fsyntax-only`, no file is written.
        soc: Chip that the program emulates.
        level: Active checks: `strict`, `device` or `fast`.
        compile_only: Write an object file of one source, and do not link.
        header_dir: Write the headers `aclrtlaunch_<kernel>.h` of all kernels to this folder; its parent exists.

    Raises:
        ProgramError: A source does not compile, or the program does not link.
        UserError: An argument is wrong, or a source cannot be read.
        MissingToolError: There is no compiler.
    """
    files = [Path(source) for source in sources]
    options, depfile = _split_depfile(options)
    host_options = _host_options(options)
    _check(files, output, level, compile_only, header_dir)
    if depfile is not None:
        require_writable(depfile[0], [*files, output], "list of headers")
    _check_defines(defines)
    soc_properties(soc, "--soc")
    build_runtime()
    code = [file for file in files if file.suffix not in OBJECTS]
    with tempfile.TemporaryDirectory(prefix="opforge-cc-") as name:
        folder = Path(name)
        build = _Build(folder, tuple(include_dirs), tuple(defines), host_options, soc, level, _has_auto_sync(options))
        rewritten = _rewrite_all(build, code, header_dir)
        objects = _compile_all(build, rewritten)
        if _CHECK not in host_options:
            made = objects[0] if compile_only else folder / "program"
            if not compile_only:
                others = [file for file in files if file not in code]
                build.run(_link_command(build, [*objects, *others], made), path_text(output))
            _copy(made, output)
            if depfile is not None:
                _write_depfile(build, depfile)
    kernels = tuple(dict.fromkeys(kernel.name for file in code for kernel in rewritten[file].kernels))
    return CompiledProgram(output, kernels, sum(rewritten[file].launches for file in code))


def _copy(made: Path, output: Path) -> None:
    """Copy a file of the temporary folder, which may be on another disk; the output is complete or unchanged."""
    with made.open("rb") as file:
        mode = stat.S_IMODE(made.stat().st_mode)
        write_files([NewFile(output, lambda to: shutil.copyfileobj(file, to), "program", mode)], is_durable=False)


def _write_depfile(build: _Build, depfile: tuple[Path, str]) -> None:
    """Write the files of the last source as a rule of make, without those of the temporary folder."""
    path, target = depfile
    used = [name for name in read_depfile(build.listed) if build.folder not in Path(name).parents]
    escaped = [re.sub(r"([ #])", r"\\\1", name.replace("$", "$$")) for name in (target, *used)]
    text = f"{escaped[0]}: {' '.join(escaped[1:])}\n"
    write_files([NewFile(path, lambda file: file.write(text.encode("utf-8", "surrogateescape")), "list of headers")])


def _compile_all(build: _Build, rewritten: Mapping[Path, Rewritten]) -> list[Path]:
    def compiled(number: int, file: Path, source: Rewritten) -> Path:
        made = build.folder / f"{number}.o"
        entries = entry_definitions(source.kernels, has_handles="-shared" in build.flags)
        build.compile(source.text + entries, file, bool(source.kernels), made)
        return made

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        return list(pool.map(compiled, range(len(rewritten)), rewritten.keys(), rewritten.values()))


def _link_command(build: _Build, objects: Sequence[Path], made: Path) -> list[str]:
    flags = [flag for flag in build.flags if flag.startswith(_LINK_OPTIONS)]
    files = map(str, objects)
    return [compiler()[0], "-pthread", *files, *flags, *runtime_link(*_LINKS), "-ldl", "-o", str(made)]


def _split_depfile(options: Sequence[str]) -> tuple[list[str], tuple[Path, str] | None]:
    """Return the other options, and the file and target of `-MD -MFfile -MTtarget`."""
    others = [option for option in options if not option.startswith(("-MD", "-MF", "-MT"))]
    values = {option[:3]: option[3:] for option in options if option not in others}
    if values and not (values.keys() == {"-MD", "-MF", "-MT"} and values["-MF"] and not values["-MD"]):
        given = " ".join(option for option in options if option not in others)
        raise UserError(
            f"options: got {shown(given)}, expected -MD -MFfile -MTtarget for a list of headers; correct them"
        )
    return others, (Path(values["-MF"]), values["-MT"]) if values else None


def _has_auto_sync(options: Sequence[str]) -> bool:
    """Return whether the device compiler inserts synchronization; the last option has priority."""
    given = [option for option in options if option.startswith("--cce-auto-sync=")]
    return given[-1:] != ["--cce-auto-sync=off"]


def _host_options(options: Sequence[str]) -> tuple[str, ...]:
    """Return the options without those of the device compiler.

    Raises:
        UserError: They select another architecture.
    """
    kept = []
    for option in options:
        if not option:
            raise UserError("options: got an empty text, expected an option of the C++ compiler; remove it")
        name, _, value = option.partition("=")
        known = {str(DEFAULT_ARCH), ARCHITECTURES[DEFAULT_ARCH].device}
        if name in {"--npu-arch", "--cce-aicore-arch"} and value.removeprefix("dav-") not in known:
            expected = f"expected dav-{DEFAULT_ARCH}: programs of the twin are for this architecture"
            fix = "compile a program for another one with CANN (docs/how-to/run-ascend-c-programs.md)"
            raise UserError(f"{name}: got {value!r}, {expected}; {fix}")
        if _OUTPUT.match(option):
            raise UserError(
                f"options: got {shown(option)}, expected no option that names the output; use -o of opforge cc"
            )
        if name in {"-fplugin", "-wrapper", "-B", "-specs"} or option.startswith(("@", "-fplugin", "-B")):
            raise UserError(f"options: got {option!r}, expected an option of compilation; remove it")
        if _NO_OBJECT.fullmatch(option):
            raise UserError(f"options: got {option!r}, expected an option for a program or an object file; remove it")
        if not name.startswith(_DEVICE_OPTIONS):
            kept.append(option)
    return tuple(kept)


def _check(files: Sequence[Path], output: Path, level: str, compile_only: bool, header_dir: Path | None) -> None:
    if not files:
        raise UserError("FILE: got no source, expected at least one .asc or C++ file; add it")
    require_level(level, "--level")
    if compile_only and len(files) != 1:
        raise UserError(f"FILE: got {len(files)} files with -c, expected one; compile each file separately")
    seen: set[Path] = set()
    for file in files:
        is_source = file.suffix not in OBJECTS
        data = read_regular(file, "source", _MOST_BYTES * (1 if is_source else 64), "split it")
        if is_source and b"\0" in data:
            raise UserError(
                f"got binary data, expected a C++ source, or a file *{', *'.join(OBJECTS)}; rename it", path_text(file)
            )
        if is_source and file.resolve() in seen:
            raise UserError("got this source twice, expected each source once; remove it", path_text(file))
        seen.add(file.resolve())
    require_writable(output, files, "program")
    if header_dir is not None and not header_dir.parent.is_dir():
        missing = path_text(header_dir.parent)
        raise UserError(f"--headers {path_text(header_dir)}: the folder {missing} does not exist; create it")


def _check_defines(defines: Sequence[str]) -> None:
    for define in defines:
        if not _DEFINE.match(define):
            raise UserError(f"-D: got {shown(define)}, expected NAME or NAME=VALUE, as in COUNT=64")


def _rewrite_all(build: _Build, code: Sequence[Path], header_dir: Path | None) -> dict[Path, Rewritten]:
    """Rewrite the sources; again with the headers of all kernels if a source calls `aclrtlaunch_` functions."""
    headers = build.folder / "headers"
    headers.mkdir()
    named = {file: _named_entries(file) for file in code}
    known_to_others = {name for names in named.values() for name in names}
    for name in known_to_others:
        if not any((folder / f"aclrtlaunch_{name}.h").is_file() for folder in build.includes):
            (headers / f"aclrtlaunch_{name}.h").write_text("")
    rewritten = {file: _rewritten(build, file, headers) for file in code}
    kernels: list[Kernel] = [kernel for made in rewritten.values() for kernel in made.kernels]
    write_headers(kernels, headers)
    if header_dir is not None:
        make_folder(header_dir)
        write_headers(kernels, header_dir)
    for file in code:
        if named[file]:
            rewritten[file] = _rewritten(build, file, headers)
    return rewritten


def _named_entries(file: Path) -> set[str]:
    """Return the kernels whose `aclrtlaunch_` functions a source names."""
    return {(found[1] or found[2]).decode() for found in _ENTRY.finditer(file.read_bytes())}


def _rewritten(build: _Build, file: Path, headers: Path) -> Rewritten:
    not_rewritten = ("<", *(f"{folder}{os.sep}" for folder in header_folders()))
    defined = {define.partition("=")[0] for define in build.defines}
    # Macros for kernels whose last parameter is a workspace, or tiling data after a workspace.
    workspace = ("HAVE_WORKSPACE" in defined) * (2 if "HAVE_TILING" in defined else 1)
    return rewrite(build.preprocess(file, headers), lambda name: not name.startswith(not_rewritten), workspace)
