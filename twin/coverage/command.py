"""`opforge coverage`: compile and run the kernels of clones on the CPU twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from opforge.codegen.data.products import DEFAULT_SOC, soc_properties
from opforge.codegen.errors import UserError
from opforge.codegen.files import NewFile, json_file, require_writable, write_files
from opforge.codegen.printing import path_text, shown
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.codegen.streams import OutputError
from opforge.twin.build import build_runtime
from opforge.twin.compiler.npu_model import require_level
from opforge.twin.jobs import State, require_executor, run_all, twin_version

from .api_names import Names, count_names
from .discover import ARCH, Source, find_sources
from .execute import Row, keys_of, run_one
from .report import as_json, page_of, print_row, print_totals
from .walk import Tree, list_files


def coverage_command(
    folders: Sequence[Path],
    *,
    settings: dict[str, Any],
    jobs: int,
    executor: str,
    state: Path | None,
    only: Sequence[str],
    html: Path | None,
    json_out: Path | None,
) -> int:
    """Find, compile and run the sources of clones; print and write the result.

    Args:
        folders: The clones.
        settings: `soc`, `level`, `seconds`, `memory_mb` and `run_scripts`.
        jobs: How many run at once; 0: one per core.
        executor: `local` or `dask:ADDRESS`.
        state: File with the rows of earlier runs; default: in the build folder.
        only: Parts of the paths to select; none: all sources.
        html: Page to write.
        json_out: JSON file to write.

    Returns:
        1 if a source is wrong or has findings.

    Raises:
        UserError: An option or a folder is wrong.
    """
    _check(settings)
    outputs = [(path, what) for path, what in ((html, "page"), (json_out, "answer")) if path is not None]
    used = [state] if state is not None else []
    for path, what in outputs:
        require_writable(path, used, what)
        used.append(path)
    require_executor(executor)
    found = _find(folders, only)
    for path, what in outputs:
        require_writable(path, _files_named(path.name, found), what)
    kept = State(state, Project(BUILTIN_ROOT).build_dir / "twin" / "coverage" / "state.jsonl", Row)
    build_runtime()
    version = twin_version()
    pending: list[tuple[str, Source]] = []
    excluded: list[Source] = []
    names: dict[str, Names] = {}
    for label, (tree, sources) in found.items():
        excluded += [source for source in sources if source.is_other]
        tried = [source for source in sources if not source.is_other]
        names[label] = count_names(tree, tried)
        pending += zip(keys_of(tree, tried, settings, version), tried, strict=True)
    has_files = bool(json_out or html)
    rows = _rows(pending, kept, settings, jobs, executor, needs_output=not has_files)
    files: list[NewFile] = []
    if json_out is not None:
        files.append(json_file(json_out, as_json(rows, excluded, names, settings, version), "answer"))
    if html is not None:
        titles = [tree.root.name for tree, _ in found.values()]
        page = page_of(rows, excluded, settings, titles).encode()
        files.append(NewFile(html, lambda stream: stream.write(page), "page"))
    write_files(files)
    print_totals(rows, excluded, names)
    return int(any(row.findings or row.right is False for row in rows))


def _files_named(name: str, found: Mapping[str, tuple[Tree, list[Source]]]) -> list[Path]:
    """Return the files of clones with a name."""
    return [tree.root / path for tree, _ in found.values() for path in tree.names if path.rpartition("/")[2] == name]


def _find(folders: Sequence[Path], only: Sequence[str]) -> dict[str, tuple[Tree, list[Source]]]:
    """Return the files and the selected sources of each clone, by its label; each source once.

    Raises:
        UserError: No folder has a selected source.
    """
    found: dict[str, tuple[Tree, list[Source]]] = {}
    seen: set[Path] = set()
    for folder in folders:
        tree = list_files(folder)
        if any(tree.root == other.root for other, _ in found.values()):
            continue
        sources = [source for source in find_sources(tree) if tree.root / source.path not in seen]
        seen |= {tree.root / source.path for source in sources}
        label = tree.root.name if tree.root.name not in found else str(tree.root)
        for source in sources:
            source.path = f"{label}/{source.path}"
        found[label] = tree, [source for source in sources if not only or any(text in source.path for text in only)]
    if not any(sources for _, sources in found.values()):
        place = ", ".join(map(path_text, folders)) + "".join(f", --only {shown(text)}" for text in only)
        raise UserError(
            f"{place}: got no source, expected a clone with .asc files or op_kernel/*.cpp; correct the folder or --only"
        )
    return found


def _rows(
    pending: Sequence[tuple[str, Source]],
    kept: State[Row],
    settings: dict[str, Any],
    jobs: int,
    executor: str,
    *,
    needs_output: bool,
) -> list[Row]:
    """Return the rows of all sources in their order: those of earlier runs, and new ones.

    Raises:
        OutputError: A row cannot be printed. Without `needs_output`, the run continues, and the next output fails.
    """
    keys = {source.path: key for key, source in pending}
    rows = {source.path: row for key, source in pending if (row := kept.get(key)) is not None}
    total = len(keys)

    def show(row: Row, number: int) -> None:
        with nullcontext() if needs_output else suppress(OutputError):
            print_row(row, number, total)

    for number, row in enumerate(rows.values(), start=1):
        show(row, number)

    def finished(row: Row) -> None:
        rows[row.path] = row
        if row.seconds:  # a job whose process failed runs again
            kept.put(keys[row.path], row)
        show(row, len(rows))

    left = [(source, settings) for _, source in pending if source.path not in rows]
    run_all(run_one, left, jobs, executor, finished)
    return [rows[path] for path in sorted(rows)]


def _check(settings: dict[str, Any]) -> None:
    soc = soc_properties(settings["soc"], "--soc")
    if soc.arch != ARCH:
        raise UserError(f"--soc: got {soc.name}, expected a chip of architecture {ARCH}, as in {DEFAULT_SOC}")
    require_level(settings["level"], "--level")
