"""Build the twin's runtime library."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from opforge.codegen.errors import UserError
from opforge.codegen.files import replace_file
from opforge.codegen.printing import say
from opforge.codegen.project import BUILTIN_ROOT, Project, user_cache

from .cache import digest, is_current, publish, record_path
from .flags import DEVICE_FIELDS, HOST_FLAGS, KERNEL_FLAGS, WARNINGS
from .folder import locked
from .npu_model import TWIN, tables
from .units import Library, Progress, Unit, build, compiler, is_gnu, no_space, precompile

INCLUDE = TWIN / "include"
_SOURCES = (INCLUDE, TWIN / "src")
# Only in the wheel of a platform, see setup.py.
PREBUILT = TWIN / "prebuilt"
_LINK_FLAGS = ("-ldl", "-Wl,-Bsymbolic-functions")
# Functions of the library call each other directly, and the compiler may inline them.
_FLAGS = ("-fno-semantic-interposition",)
_WHAT = "compiling the CPU twin, once"
_KERNEL_HEADER = "kernel_operator.h"
LINK_NAMES = ("ascendcl", "nnopbase", "opapi", "acl_rtc")


def twin_dir(project: Project) -> Path:
    """Return the folder of all files that are built for the twin."""
    return project.build_dir / "twin"


def header_folders() -> tuple[Path, Path]:
    """Return the folders of the twin's headers; `build_runtime` writes the second one."""
    return INCLUDE, twin_dir(Project(BUILTIN_ROOT)) / "gen" / "include"


def include_flags() -> tuple[str, ...]:
    """Return the compiler flags for `header_folders`."""
    return tuple(f"-I{folder}" for folder in header_folders())


def kernel_flags() -> tuple[str, ...]:
    """Return the compiler flags of a kernel, for units with `prepare=precompile_kernel_header`."""
    return (*WARNINGS, *KERNEL_FLAGS, "-fvisibility=hidden", f"-I{_precompiled()}", *include_flags())


def precompile_kernel_header() -> None:
    """Compile kernel_operator.h for the flags of kernels: it takes half of the compile time of a small kernel."""
    if is_gnu():
        with locked(_precompiled()) as scratch:
            header = _precompiled() / _KERNEL_HEADER
            if header.is_symlink() and header.readlink() != INCLUDE / _KERNEL_HEADER:
                header.unlink()  # the clone was moved or copied
            if not header.is_symlink():
                header.symlink_to(INCLUDE / _KERNEL_HEADER)
            for name, fields in (("twin", ()), ("device", DEVICE_FIELDS)):
                output = header.with_suffix(".h.gch") / name
                output.parent.mkdir(exist_ok=True)
                precompile(header, output, (*kernel_flags(), *fields), scratch)


def _precompiled() -> Path:
    return twin_dir(Project(BUILTIN_ROOT)) / "precompiled"


def runtime_dir() -> Path:
    """Return the folder of the runtime library."""
    return twin_dir(Project(BUILTIN_ROOT)) / "lib"


def build_runtime(jobs: int = 0, report: Progress | None = None) -> Path:
    """Provide the runtime library of the twin, also under the link names of CANN; return its path.

    The wheel of a platform contains it for g++ (`prebuilt`). The cache of the user has a copy of a compiled library:
    another clone or an installed opforge with the same sources uses it.
    """
    home = twin_dir(Project(BUILTIN_ROOT))
    with locked(home) as scratch:
        for name, text in (*tables().items(), *_other_headers()):
            replace_file(home / "gen" / name, text)
        library = runtime_dir() / "libopforge_twin.so"
        units = runtime_units(home)
        command = _content(home, units)
        if not is_current(library, compiler()[1], command):
            library.parent.mkdir(exist_ok=True)
            made = _copied(library.name, scratch, command)
            if made is None:
                compiled = Library(home / "obj" / library.name, units, (*_LINK_FLAGS, f"-Wl,-soname,{library.name}"))
                if report is None and not sys.stderr.isatty():
                    say(f"{_WHAT}; this can take some minutes", err=True)
                build([compiled], scratch, jobs, report, _WHAT)
                made = scratch / library.name
                shutil.copyfile(compiled.path, made)
                _keep(made, command)
            publish(made, library, compiler()[1], command, [], 0)
        for name in LINK_NAMES:
            link = library.with_name(f"lib{name}.so")
            if not link.is_symlink():
                link.symlink_to(library.name)
    return library


def _other_headers() -> Iterator[tuple[str, str]]:
    """Yield the headers of twin/header_names.json: other public names of a header of the twin."""
    rows = json.loads((TWIN / "header_names.json").read_text(encoding="utf-8"))
    for header, names in rows.items():
        for name in names:
            yield f"include/{name}", f'// Another public name of {header}.\n#include "{header}"\n'


def _content(home: Path, units: Sequence[Unit]) -> list[str]:
    """Return the inputs of the library, independent of folders: commands, sources, headers, generated tables."""
    # The compiler is the first word; its name is part of the key.
    words = [word.replace(str(TWIN), "twin").replace(str(home), "home") for unit in units for word in unit.recorded[1:]]
    # Text instead of paths: this runs before each launch.
    found = (f"{folder}/{name}" for top in _SOURCES for folder, _, names in os.walk(top) for name in names)
    files = sorted(found, key=lambda path: path.split("/"))
    digests = [f"{path.removeprefix(f'{TWIN}/')} {digest(path)}" for path in files]
    return ["runtime library", *_LINK_FLAGS, *words, *digests, *tables().values()]


def _copied(name: str, scratch: Path, command: Sequence[str]) -> Path | None:
    """Copy the library of the wheel or of the user's cache to `scratch`; None if neither matches this compiler.

    Raises:
        CompileError: There is no space for the copy.
    """
    for folder, key in _stores():
        try:
            if is_current(folder / name, key, command):
                for path in (folder / name, record_path(folder / name)):
                    shutil.copyfile(path, scratch / path.name)
                if is_current(scratch / name, key, command):
                    return scratch / name
        except OSError as error:  # without a copy, the library is compiled, for which a full disk has no space either
            if error.errno == errno.ENOSPC:
                raise no_space(_WHAT, scratch, "") from error
    return None


def _stores() -> Iterator[tuple[Path, str]]:
    """Yield the folders that can contain the library, and the name of the compiler in its record."""
    yield PREBUILT, _abi()
    with suppress(UserError):  # no home folder
        yield user_cache() / "twin", compiler()[1]


def _abi() -> str:
    """Return the name of the compilers that can link a prebuilt library: every g++ from 11 on has the same C++ ABI."""
    return "g++" if is_gnu() else compiler()[1]


def prebuild(folder: Path) -> None:
    """Write the library to a folder for a wheel of this platform.

    Raises:
        UserError: The folder cannot be written, or a source does not compile.
        MissingToolError: There is no compiler.
    """
    library, home = build_runtime(report=say), twin_dir(Project(BUILTIN_ROOT))
    with locked(folder) as scratch:
        shutil.copyfile(library, scratch / library.name)
        publish(scratch / library.name, folder / library.name, _abi(), _content(home, runtime_units(home)), [], 0)


def _keep(made: Path, command: Sequence[str]) -> None:
    """Copy a library to the cache of the user."""
    with suppress(UserError, OSError):  # a cache that cannot be written only costs time
        kept = user_cache() / "twin" / made.name
        with locked(kept.parent) as scratch:
            shutil.copyfile(made, scratch / made.name)
            publish(scratch / made.name, kept, compiler()[1], command, [], 0)


def runtime_units(home: Path) -> tuple[Unit, ...]:
    """Return the sources of the runtime library by folder: common headers dominate their compile time."""
    flags = (*WARNINGS, *_FLAGS, *include_flags(), f"-I{TWIN / 'src'}", f"-I{home / 'gen'}")
    folders: dict[Path, list[Path]] = {}
    for source in sorted((TWIN / "src").rglob("*.cpp")):
        folders.setdefault(source.parent, []).append(source)
    units = []
    for folder, (*before, last) in sorted(folders.items()):
        name = str(folder.relative_to(TWIN / "src"))
        made = home / "obj" / "src" / f"{name}.o"
        own = (*flags, *HOST_FLAGS) if name.startswith("host") else flags
        units.append(Unit(last, made, own, f"CPU twin, part {name}", before=tuple(before)))
    return tuple(units)


def link_flags(folder: Path, *names: str) -> tuple[str, ...]:
    """Return linker flags for libraries in a folder, with the folder as run-time search path."""
    return (f"-L{folder}", f"-Wl,-rpath,{folder}", *(f"-l{name}" for name in names))


def runtime_link(*names: str) -> tuple[str, ...]:
    """Return linker flags for a library or program that uses the runtime library, under its name or under `names`."""
    return link_flags(runtime_dir(), *(names or ("opforge_twin",)))


def kernel_link() -> tuple[str, ...]:
    """Return linker flags for a kernel: the C and C++ libraries come with the twin, and take half of the link time."""
    own = ("-nodefaultlibs", "-lgcc") if is_gnu() else ()
    return (*runtime_link(), *own)
