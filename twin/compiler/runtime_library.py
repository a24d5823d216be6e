"""Build the twin's runtime library."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from opforge.codegen.errors import UserError
from opforge.codegen.files import replace_file
from opforge.codegen.project import BUILTIN_ROOT, Project, user_cache

from .cache import digest, is_current, publish, record_path
from .folder import locked
from .npu_model import TWIN, tables
from .units import HOST_FLAGS, WARNINGS, Library, Progress, Unit, build, compiler

INCLUDE = TWIN / "include"
# Folders of sources that run a few times for each call, or once for each process.
_SELDOM = {"host", "host/ge", "host/gert"}
_LINK_FLAGS = ("-ldl",)
LINK_NAMES = ("ascendcl", "nnopbase", "opapi")


def twin_dir(project: Project) -> Path:
    """The folder of all files that are built for the twin."""
    return project.build_dir / "twin"


def build_runtime(jobs: int = 0, progress: Progress | None = None) -> Path:
    """Compile the twin's runtime library, under CANN's link names too; returns its path.

    The cache of the user keeps a copy: another clone or an installed opforge with the same sources takes it.
    """
    home = twin_dir(Project(BUILTIN_ROOT))
    with locked(home) as scratch:
        for name, text in tables().items():
            replace_file(home / "gen" / name, text)
        library = home / "lib" / "libopforge_twin.so"
        units = runtime_units(home)
        command = _content(home, units)
        if not is_current(library, compiler()[1], command):
            library.parent.mkdir(exist_ok=True)
            made = _cached(library.name, scratch, command)
            if made is None:
                compiled = Library(home / "obj" / library.name, units, (*_LINK_FLAGS, f"-Wl,-soname,{library.name}"))
                build([compiled], scratch, jobs, progress)
                made = scratch / library.name
                shutil.copyfile(compiled.path, made)
                _keep(made, command)
            publish(made, library, compiler()[1], command, [], 0)
        for name in LINK_NAMES:
            link = library.with_name(f"lib{name}.so")
            if not link.is_symlink():
                link.symlink_to(library.name)
    return library


def _content(home: Path, units: Sequence[Unit]) -> list[str]:
    """What the library is made of, wherever the files are: commands, sources, headers and generated tables."""
    words = [word.replace(str(TWIN), "twin").replace(str(home), "home") for unit in units for word in unit.recorded]
    files = sorted(path for folder in (INCLUDE, TWIN / "src") for path in folder.rglob("*") if path.is_file())
    digests = [f"{path.relative_to(TWIN)} {digest(path)}" for path in files]
    return ["runtime library", *_LINK_FLAGS, *words, *digests, *tables().values()]


def _cached(name: str, scratch: Path, command: Sequence[str]) -> Path | None:
    """Copy the library from the cache of the user to `scratch`; None if the cache has another one or none."""
    with suppress(UserError, OSError):  # without the cache, the library is compiled
        kept = user_cache() / "twin" / name
        if is_current(kept, compiler()[1], command):
            for path in (kept, record_path(kept)):
                shutil.copyfile(path, scratch / path.name)
            return scratch / name if is_current(scratch / name, compiler()[1], command) else None
    return None


def _keep(made: Path, command: Sequence[str]) -> None:
    """Copy a library to the cache of the user."""
    with suppress(UserError, OSError):  # a cache that cannot be written only costs time
        kept = user_cache() / "twin" / made.name
        with locked(kept.parent) as scratch:
            shutil.copyfile(made, scratch / made.name)
            publish(scratch / made.name, kept, compiler()[1], command, [], 0)


def runtime_units(home: Path) -> tuple[Unit, ...]:
    """The sources of the runtime library, by folder: they include the same headers, which take longer than they do."""
    flags = (*WARNINGS, f"-I{INCLUDE}", f"-I{TWIN / 'src'}", f"-I{home / 'gen'}")
    sources = sorted((TWIN / "src").rglob("*.cpp"))
    units = []
    for folder in sorted({source.parent for source in sources}):
        name = str(folder.relative_to(TWIN / "src"))
        *before, last = (path for path in sources if path.parent == folder)
        made = home / "obj" / "src" / f"{name}.o"
        own = (*flags, *HOST_FLAGS) if name in _SELDOM else flags
        units.append(Unit(last, made, own, f"twin: {name}", before=tuple(before)))
    return tuple(units)


def link_flags(folder: Path, *names: str) -> tuple[str, ...]:
    """Linker flags for libraries in a folder, which programs find there when they run."""
    return (f"-L{folder}", f"-Wl,-rpath,{folder}", *(f"-l{name}" for name in names))


def runtime_link(*names: str) -> tuple[str, ...]:
    """Linker flags for a library or program that uses the runtime library, under its own name or under `names`."""
    return link_flags(twin_dir(Project(BUILTIN_ROOT)) / "lib", *(names or ("opforge_twin",)))
