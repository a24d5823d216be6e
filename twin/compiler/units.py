"""Run g++ jobs with a content-keyed cache: equal source, headers, flags and compiler are not compiled again."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Event

from opforge.codegen.errors import MissingToolError, UserError
from opforge.codegen.printing import first_line, path_text
from opforge.codegen.process_limits import MIB, LimitError, Limits
from opforge.codegen.progress import progress

from .cache import is_current, publish, read_depfile
from .cached_objects import CCACHE_SETTINGS, ccache, is_object, make_object
from .flags import COMMON, GNU_FLAGS, LIST_FLAGS
from .limited_process import Ended, compile_limits, run_limited

Progress = Callable[[str], None]

# Time limit of a version query.
_VERSION_LIMITS = Limits(seconds=10, memory=2048 * MIB, output=MIB)
_MOST_PREPROCESSED = 64 << 20
_NO_SPACE = "No space left on device"
# Folders of headers for compilers, such as g++ and clang.
_INCLUDE_VARIABLES = ("CPATH", "CPLUS_INCLUDE_PATH")


class CompileError(UserError):
    """The compiler rejected a source; the text contains its messages."""


@dataclass(frozen=True)
class Unit:
    """One source file and its object.

    Attributes:
        source: The file.
        object: The object file.
        flags: Flags of the compiler.
        label: Name in messages.
        also: Flags with which it must also compile.
        folders: Further folders for includes, besides its own folder, the `-I` folders and the compiler's folders.
        check: Called with the source after macro expansion and the compiler's folders; raises an error for invalid
            sources.
        before: Files that are compiled before the source, into the same object.
        prepare: Called once before outdated units with this function are compiled.
    """

    source: Path
    object: Path
    flags: tuple[str, ...]
    label: str
    also: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()
    check: Callable[[str, Sequence[str]], None] | None = None
    before: tuple[Path, ...] = ()
    prepare: Callable[[], None] | None = None

    @property
    def recorded(self) -> list[str]:
        """Return the inputs of the object that are not files: command, more flags, whether the source was checked."""
        return [*_compile_command(self), *self.also, *(["checked"] if self.check else [])]


@dataclass(frozen=True)
class Library:
    """A shared library linked from objects; `version_script` defines its exports."""

    path: Path
    units: tuple[Unit, ...]
    link_flags: tuple[str, ...] = ()
    version_script: Path | None = None


@lru_cache(maxsize=1)
def compiler() -> tuple[str, str]:
    """Return the C++ compiler (`$CXX`, default g++), and text that identifies it independent of its name.

    CMake calls the same compiler c++ and sets CXX for its processes; this must not cause a second compilation.

    Raises:
        MissingToolError: It does not exist, or it does not work.
    """
    name = os.environ.get("CXX") or "g++"
    path = shutil.which(name)
    if path is None:
        hint = "; CXX holds a program, without options" if len(name.split()) > 1 else ""
        raise _no_compiler(f"no program {path_text(Path(name))} on PATH{hint}")
    ended = _ask(path, "--version")
    if not ended.text:
        raise _no_compiler(f"no version from `{path} --version`")
    version = ended.text.splitlines()[0].partition(" ")[2]
    return str(Path(path).absolute()), f"{Path(path).resolve()} {version}"


def is_gnu() -> bool:
    """Return whether the C++ compiler is g++, under any name."""
    return _is_gnu(compiler()[0])


def known_flags(flags: Sequence[str]) -> list[str]:
    """Return the flags that the compiler supports: some flags exist only in g++."""
    return [flag for flag in flags if is_gnu() or flag not in GNU_FLAGS]


@lru_cache(maxsize=1)
def _is_gnu(path: str) -> bool:
    return "Free Software Foundation" in _ask(path, "--version").text


def _ask(path: str, *question: str) -> Ended:
    """Return the version text of the compiler, without additions by environment variables.

    Raises:
        MissingToolError: It does not work.
    """
    command = [path, *question]
    try:
        ended = run_limited(command, _VERSION_LIMITS, environment=dict.fromkeys(_INCLUDE_VARIABLES, ""))
    except (LimitError, OSError) as error:
        raise _no_compiler(f"'{first_line(error)}' from `{' '.join(command)}`") from error
    if ended.status:
        raise _no_compiler(f"exit code {ended.status} from `{' '.join(command)}`")
    return ended


def no_space(label: str, scratch: Path, output: str) -> CompileError:
    """Return the error for a full disk: what was written to a temporary folder, and the output of the compiler."""
    problem = f"got '{_NO_SPACE}', expected free space in {path_text(scratch.parent)}"
    text = f"{label}: {problem}; free some, or set OPFORGE_BUILD_DIR to another disk"
    return CompileError(f"{text}\n{output}" if output else text)


def _no_compiler(got: str) -> MissingToolError:
    return MissingToolError(
        f"C++ compiler: got {got}, expected g++ >= 11 or clang++; set CXX to one, "
        "or install it with `apt-get install g++` or `bash build.sh --install-deps`"
    )


def cpu_flags() -> tuple[str, ...]:
    """Return the instruction-set flags of this CPU; they change only the speed. A cross-compiler gets none."""
    return _cpu_flags(compiler()[0])


@lru_cache(maxsize=1)
def _cpu_flags(path: str) -> tuple[str, ...]:
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.is_file() or not _ask(path, "-dumpmachine").text.startswith("x86_64"):
        return ()
    words = set(cpuinfo.read_text(encoding="utf-8").split())
    return tuple(f"-m{name}" for name in ("avx2", "f16c") if name in words)


@dataclass(frozen=True)
class _Run:
    """Common state of the compilers of one build: a temporary folder, limits, and whether to stop early."""

    scratch: Path
    limits: Limits
    stop: Event

    def execute(
        self, command: Sequence[str], folder: Path, label: str, base: Path | None = None, **settings: str
    ) -> None:
        """Run a compiler. Its temporary files are in `folder`. ccache uses paths relative to `base`.

        Raises:
            CompileError: It rejected its input, or reached a limit.
            MissingToolError: It cannot be started.
        """
        variables = {"TMPDIR": str(folder), **CCACHE_SETTINGS, **settings}
        if base:
            variables |= {"CCACHE_BASEDIR": str(base), "CCACHE_ABSSTDERR": "1"}
            for name, paths in _include_folders().items():
                variables[name] = ":".join(str(Path(path).absolute()) for path in paths)
        try:
            ended = run_limited(command, self.limits, environment=variables, folder=base, stop=self.stop)
        except LimitError as error:
            raise CompileError(f"{label}: {error}") from error
        except OSError as error:
            raise _no_compiler(f"'{error.strerror}' when starting {command[0]!r}") from error
        if _NO_SPACE in ended.text:
            raise no_space(label, self.scratch, ended.text)
        if ended.status:
            raise CompileError(f"{label}: the compiler rejected it\n{ended.text}")

    def folder(self) -> tempfile.TemporaryDirectory[str]:
        """Return a folder for the files of one compiler."""
        return tempfile.TemporaryDirectory(dir=self.scratch)


def _require_binary(made: Path, label: str, mark: str = "") -> None:
    """Reject the output of a program that is not a compiler.

    Raises:
        MissingToolError: It is not an ELF file, or it is from another source.
    """
    if not is_object(made, mark):
        raise _no_compiler(f"no object file for {label} from {compiler()[0]!r}, though its exit code is 0")


def _compile_command(unit: Unit) -> list[str]:
    before = (word for path in unit.before for word in ("-include", str(path)))
    return [compiler()[0], *COMMON, *cpu_flags(), *known_flags(unit.flags), *before, "-c", str(unit.source)]


def _source_bytes(unit: Unit) -> int:
    return sum(path.stat().st_size for path in (*unit.before, unit.source) if path.is_file())


def _compile(unit: Unit, run: _Run) -> Unit:
    unit.object.parent.mkdir(parents=True, exist_ok=True)
    started = time.time_ns()
    command, base = _compile_command(unit), _base(unit)
    with run.folder() as folder:
        made, dependencies = Path(folder, "made.o"), Path(folder, "made.d")
        if unit.check:
            expanded = Path(folder, "made.ii")
            run.execute([*command, "-E", "-o", str(expanded)], Path(folder), unit.label)
            unit.check(expanded.read_text(encoding="utf-8", errors="surrogateescape"), _own_folders())
        sources = [path.read_bytes() for path in (*unit.before, unit.source) if path.is_file()]
        text = b"\0".join([*map(os.fsencode, command), *sources])
        # ccache would treat the target of the dependency list, by default a temporary name, as a difference.
        listing = (*known_flags(LIST_FLAGS), str(dependencies), "-MT", unit.object.name)
        mark = make_object(
            lambda *flags, **settings: run.execute(
                [*ccache(), *command, *flags, *listing, "-o", str(made)], Path(folder), unit.label, base, **settings
            ),
            made,
            text.replace(os.fsencode(base), b"") if base else text,
            unit.label,
            can_mark=is_gnu(),
        )
        _require_binary(made, unit.label, mark)
        inputs = _checked_inputs(unit, [str(Path(base or "", path)) for path in read_depfile(dependencies)])
        if unit.also:
            run.execute([*command, *unit.also, "-fsyntax-only"], Path(folder), unit.label)
        publish(made, unit.object, compiler()[1], unit.recorded, inputs, started)
    return unit


def precompile(header: Path, output: Path, flags: Sequence[str], scratch: Path) -> None:
    """Compile a header, if it is outdated, for sources that include it first and have the same flags.

    Some compilers cannot load what they wrote. The sources then read the header itself.

    Args:
        header: The header.
        output: A file in the folder `<name of the header>.gch`.
        flags: Flags of the compiler.
        scratch: Folder for temporary files, on the file system of the output.

    Raises:
        CompileError: The compiler rejects the header, or reaches a limit.
        MissingToolError: There is no compiler.
    """
    words = [compiler()[0], *COMMON, *cpu_flags(), *known_flags(flags), "-x"]
    command = [*words, "c++-header", str(header)]
    if is_current(output, compiler()[1], command):
        return
    output.unlink(missing_ok=True)
    started, run = time.time_ns(), _Run(scratch, compile_limits(), Event())
    made, dependencies = scratch / f"{header.name}.gch", scratch / "made.d"
    run.execute([*command, *LIST_FLAGS, str(dependencies), "-o", str(made)], scratch, header.name)
    user = [*words, "c++", "-include", str(scratch / header.name), "-fsyntax-only", os.devnull]
    if run_limited(user, run.limits, folder=scratch).status == 0:
        publish(made, output, compiler()[1], command, read_depfile(dependencies), started)


def _include_folders() -> dict[str, list[str]]:
    """Return the folders of headers in environment variables."""
    return {name: paths.split(":") for name in _INCLUDE_VARIABLES if (paths := os.environ.get(name))}


def _base(unit: Unit) -> Path | None:
    """Return the project folder if the object does not contain it: ccache then shares it between projects."""
    if not unit.folders or {"-g", "-g1"} & {*unit.flags}:
        return None
    # ccache does not find the folder in the list of included files if the list has its name with escapes.
    return unit.folders[0] if re.fullmatch(r"[\w./+-]+", str(unit.folders[0]), re.ASCII) else None


def _checked_inputs(unit: Unit, read: Sequence[str]) -> list[str]:
    """Return the files that a source includes, without headers of the compiler, which belong to its version.

    Raises:
        CompileError: One of them is not a regular file, or not in a folder of the source.
    """
    allowed = [str(unit.source.parent), *map(str, unit.folders)]
    allowed += [flag.removeprefix("-I") for flag in unit.flags if flag.startswith("-I")]
    allowed += [folder for folders in _include_folders().values() for folder in folders]
    folders = tuple(f"{os.path.realpath(folder)}/" for folder in allowed)
    inputs = []
    for path in read:
        real = os.path.realpath(path)
        if real.startswith(_own_folders()):
            continue
        if not real.startswith(folders) or not Path(real).is_file():
            raise CompileError(
                f"{unit.label}: {unit.source.name} includes {path_text(Path(path))}, which is not a"
                " file of the project, the twin or the compiler; copy the header into the project"
            )
        inputs.append(path)
    return inputs


@lru_cache(maxsize=1)
def _own_folders() -> tuple[str, ...]:
    """Return the folders in which the compiler looks for `<...>`, each with a slash at its end."""
    text = _ask(compiler()[0], "-E", "-v", "-x", "c++", os.devnull).text
    listed = re.search(r"search starts here:\n((?: .*\n|#include <.*\n)+)End of search list", text)
    lines = listed[1].splitlines() if listed else []
    return tuple(f"{os.path.realpath(line.strip())}/" for line in lines if line.startswith(" "))


def preprocessed(unit: Unit) -> str:
    """Return the source of a unit with its macros expanded.

    Raises:
        CompileError: The compiler rejects it, or reaches a limit.
    """
    try:
        ended = run_limited([*_compile_command(unit), "-E", "-P"], compile_limits(), most_text=_MOST_PREPROCESSED)
    except LimitError as error:
        raise CompileError(f"{unit.label}: {error}") from error
    return ended.text


def _link_command(library: Library) -> list[str]:
    command = [compiler()[0], "-shared", *(str(unit.object) for unit in library.units), *library.link_flags]
    script = [f"-Wl,--version-script={library.version_script}"] if library.version_script else []
    return [*command, *script, "-pthread"]


def _link(library: Library, run: _Run) -> None:
    command = _link_command(library)
    if is_current(library.path, compiler()[1], command):
        return
    started = time.time_ns()
    library.path.parent.mkdir(parents=True, exist_ok=True)
    inputs = [str(unit.object) for unit in library.units]
    inputs += [str(library.version_script)] if library.version_script else []
    with run.folder() as folder:
        made = Path(folder, "made.so")
        run.execute([*command, "-o", str(made)], Path(folder), library.path.name)
        _require_binary(made, library.path.name)
        publish(made, library.path, compiler()[1], command, inputs, started)


def build(
    libraries: Sequence[Library],
    scratch: Path,
    jobs: int = 0,
    report: Progress | None = None,
    what: str = "compiling",
) -> int:
    """Compile and link outdated files; return the number of compiled files.

    Args:
        libraries: The libraries; they may share units.
        scratch: Folder for temporary files, on the file system of the outputs.
        jobs: Number of parallel compilers; 0 means one per core.
        report: Called with one line per compiled file; without it, a terminal shows how many are compiled.
        what: Name of the work on the terminal.

    Raises:
        CompileError: A source does not compile; the first failing one is named.
        MissingToolError: There is no compiler.
    """
    units = {unit.object: unit for library in libraries for unit in library.units}
    name = compiler()[1]
    stale = [unit for unit in units.values() if not is_current(unit.object, name, unit.recorded)]
    stale.sort(key=_source_bytes, reverse=True)  # the largest first, so that no long one starts at the end
    for prepare in dict.fromkeys(unit.prepare for unit in stale if unit.prepare):
        prepare()
    run = _Run(scratch, compile_limits(), Event())
    shown = progress(what, len(stale)) if stale and not report else nullcontext(lambda _count: None)
    with ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool, shown as advance:
        try:
            for count, unit in enumerate(pool.map(lambda unit: _compile(unit, run), stale), start=1):
                advance(count)
                if report:
                    report(f"[{count}/{len(stale)}] {unit.label}")
        finally:
            # After an interrupt or an error, running compilers are ended. After success, none is running.
            run.stop.set()
    for library in libraries:
        _link(library, _Run(scratch, run.limits, Event()))
    return len(stale)
