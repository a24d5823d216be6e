"""Build the twin's runtime library."""

from __future__ import annotations

from pathlib import Path

from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.codegen.writer import replace_file

from .folder import locked
from .npu_model import TWIN, tables
from .units import HOST_FLAGS, WARNINGS, Library, Progress, Unit, build

INCLUDE = TWIN / "include"
# Folders of sources that run a few times for each call, or once for each process.
_SELDOM = {"host", "host/ge", "host/gert"}
LINK_NAMES = ("ascendcl", "nnopbase", "opapi")


def twin_dir(project: Project) -> Path:
    """The folder of all files that are built for the twin."""
    return project.build_dir / "twin"


def build_runtime(jobs: int = 0, progress: Progress | None = None) -> Path:
    """Compile the twin's runtime library, under CANN's link names too; returns its path."""
    home = twin_dir(Project(BUILTIN_ROOT))
    with locked(home) as scratch:
        for name, text in tables().items():
            replace_file(home / "gen" / name, text)
        library = home / "lib" / "libopforge_twin.so"
        build([Library(library, runtime_units(home), ("-ldl", f"-Wl,-soname,{library.name}"))], scratch, jobs, progress)
        for name in LINK_NAMES:
            link = library.with_name(f"lib{name}.so")
            if not link.is_symlink():
                link.symlink_to(library.name)
    return library


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
