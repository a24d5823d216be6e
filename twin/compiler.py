"""g++ jobs with a content-keyed cache: what has the same source, headers, flags and compiler is not compiled again."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from opforge.codegen.errors import MissingToolError, UserError

WARNINGS = ("-Wall", "-Wextra", "-Werror")
PARTIAL = ".partial-"
# Kernels check their own arrays and frames (overruns.h); big frames are probed page by page.
KERNEL_FLAGS = ("-Wcast-qual", "-fsanitize=bounds", "-fstack-protector-strong", "-fstack-clash-protection")
# They must compile with the types of the device's parameter structures too (params.h).
DEVICE_FIELDS = ("-DOPFORGE_TWIN_DEVICE_FIELDS",)
COMMON = ("-std=c++17", "-O2", "-fPIC", "-ffp-contract=off", "-pthread")
Progress = Callable[[str], None]


class CompileError(UserError):
    """The compiler refused a source; the text holds its messages."""


@dataclass(frozen=True)
class Unit:
    """One source file and the object it becomes; it must compile with the flags `also` too."""

    source: Path
    object: Path
    flags: tuple[str, ...]
    label: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Library:
    """A shared library linked from objects; `version_script` says what it exports."""

    path: Path
    units: tuple[Unit, ...]
    link_flags: tuple[str, ...] = ()
    version_script: Path | None = None


@lru_cache(maxsize=1)
def compiler() -> tuple[str, str]:
    """The C++ compiler (`$CXX`, default g++), and what tells it from others under whatever name it was started.

    CMake calls the same compiler c++ and sets CXX for what it starts; that is no reason to compile anything again.

    Raises:
        MissingToolError: There is none, or it does not work.
    """
    name = os.environ.get("CXX") or "g++"
    path = shutil.which(name)
    if path is None:
        raise _no_compiler(f"no {name!r} on PATH")
    result = _start([path, "--version"])
    if result.returncode or not result.stdout.strip():
        raise _no_compiler(f"exit code {result.returncode} and no version from `{path} --version`")
    version = result.stdout.strip().splitlines()[0].partition(" ")[2]
    return path, f"{Path(path).resolve()} {version}"


def _no_compiler(got: str) -> MissingToolError:
    return MissingToolError(
        f"C++ compiler: got {got}, expected g++ >= 11 or clang++; set CXX to one, "
        "or install it with `apt-get install g++` or `bash build.sh --install-deps`"
    )


def _start(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run the compiler and wait for it.

    Raises:
        MissingToolError: It cannot be started.
    """
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise _no_compiler(f"'{error.strerror}' when starting {command[0]!r}") from error


@lru_cache(maxsize=1)
def _ccache() -> tuple[str, ...]:
    """What compilers are called through, if it is there; the object is the same with and without it."""
    return (found,) if (found := shutil.which("ccache")) else ()


@lru_cache(maxsize=1)
def cpu_flags() -> tuple[str, ...]:
    """Instruction-set flags that this CPU supports; they change speed, never results."""
    cpuinfo = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not cpuinfo.is_file():
        return ()
    words = set(cpuinfo.read_text(encoding="utf-8").split())
    return tuple(f"-m{name}" for name in ("avx2", "f16c") if name in words)


_hashes: dict[tuple[str, int, int], str] = {}


def _content_hash(path: str) -> str | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    key = (path, status.st_mtime_ns, status.st_size)
    if key not in _hashes:
        with open(path, "rb") as stream:
            _hashes[key] = hashlib.sha256(stream.read()).hexdigest()
    return _hashes[key]


def _signature(command: Sequence[str], inputs: Iterable[str]) -> str | None:
    digest = hashlib.sha256(json.dumps([compiler()[1], *command[1:]]).encode())
    for path in sorted(inputs):
        content = _content_hash(path)
        if content is None:
            return None
        digest.update(f"{path}\0{content}\0".encode())
    return digest.hexdigest()


def _read_depfile(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    return [name.replace("\0", " ") for name in text.split(":", 1)[1].replace("\\ ", "\0").split()]


def _is_current(output: Path, command: Sequence[str]) -> bool:
    stamp = output.with_name(output.name + ".json")
    try:
        recorded = json.loads(stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return (
        output.is_file()
        and output.stat().st_size == recorded.get("bytes")
        and recorded["signature"] == _signature(command, recorded["inputs"])
    )


def _record(output: Path, command: Sequence[str], inputs: list[str], started: int) -> None:
    """Remember what `output` was made of, unless an input changed since `started` (ns): nobody knows what was read."""
    stamp = output.with_name(output.name + ".json")
    stamp.unlink(missing_ok=True)
    if max(Path(path).stat().st_mtime_ns for path in inputs) >= started:
        return
    known = {"signature": _signature(command, inputs), "inputs": inputs, "bytes": output.stat().st_size}
    stamp.write_text(json.dumps(known), encoding="utf-8")


def _execute(command: Sequence[str], output: Path, label: str) -> None:
    result = _start([*command, "-o", str(output)])
    if result.returncode:
        output.unlink(missing_ok=True)
        raise CompileError(f"{label}: the compiler refused it\n{result.stderr.strip()}")


def _compile_command(unit: Unit) -> list[str]:
    return [compiler()[0], *COMMON, *cpu_flags(), *unit.flags, "-c", str(unit.source)]


def _compile(unit: Unit) -> Unit:
    unit.object.parent.mkdir(parents=True, exist_ok=True)
    started = time.time_ns()
    command = _compile_command(unit)
    handle, name = tempfile.mkstemp(dir=unit.object.parent, prefix=PARTIAL, suffix=".o")
    os.close(handle)
    partial, dependencies = Path(name), Path(name + ".d")
    try:
        # ccache would take the target of the list, which is the temporary name else, for a difference.
        listing = ("-MMD", "-MF", str(dependencies), "-MT", unit.object.name)
        _execute([*_ccache(), *command, *listing], partial, unit.label)
        inputs = _read_depfile(dependencies)
        if unit.also:
            _execute([*command, *unit.also, "-fsyntax-only"], partial, unit.label)
        partial.replace(unit.object)
    finally:
        partial.unlink(missing_ok=True)
        dependencies.unlink(missing_ok=True)
    _record(unit.object, [*command, *unit.also], inputs, started)
    return unit


def preprocessed(unit: Unit) -> str:
    """The source of a unit with its macros expanded."""
    return _start([*_compile_command(unit), "-E", "-P"]).stdout


def _link(library: Library) -> None:
    started = time.time_ns()
    objects = [str(unit.object) for unit in library.units]
    scripts = [str(library.version_script)] if library.version_script else []
    command = [
        compiler()[0],
        "-shared",
        *objects,
        *library.link_flags,
        *(f"-Wl,--version-script={script}" for script in scripts),
        "-pthread",
    ]
    if _is_current(library.path, command):
        return
    library.path.parent.mkdir(parents=True, exist_ok=True)
    partial = library.path.with_name(f".{library.path.name}.{os.getpid()}")
    _execute(command, partial, library.path.name)
    partial.replace(library.path)
    _record(library.path, command, [*objects, *scripts], started)


def build(libraries: Sequence[Library], jobs: int = 0, progress: Progress | None = None) -> int:
    """Compile and link what is out of date.

    Args:
        libraries: What to build; libraries may share units.
        jobs: Compilers at once; 0 means one per core.
        progress: Called with one line per compiled file.

    Returns:
        The number of files that were compiled.

    Raises:
        CompileError: A source does not compile; the first failing one is named.
        MissingToolError: There is no compiler.
    """
    units = {unit.object: unit for library in libraries for unit in library.units}
    stale = [unit for unit in units.values() if not _is_current(unit.object, [*_compile_command(unit), *unit.also])]
    for folder in {unit.object.parent for unit in stale}:
        for left_behind in folder.glob(f"{PARTIAL}*"):  # by a build that was killed; only one builds at a time
            left_behind.unlink(missing_ok=True)
    with ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool:
        for count, unit in enumerate(pool.map(_compile, stale), start=1):
            if progress:
                progress(f"[{count}/{len(stale)}] {unit.label}")
    for library in libraries:
        _link(library)
    return len(stale)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time build in `folder`.

    Raises:
        UserError: The folder, or a file that is built in it, cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(stream, fcntl.LOCK_UN)  # a process that was forked meanwhile has the file open too
    except OSError as error:
        place = f" at {error.filename}" if error.filename and Path(error.filename) != folder else ""
        raise UserError(
            f"{folder}: got '{error.strerror}'{place}, expected a folder in which opforge can build; "
            "set OPFORGE_BUILD_DIR to another one, or XDG_CACHE_HOME for an installed opforge"
        ) from error
