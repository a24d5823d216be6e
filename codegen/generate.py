"""`opforge generate`: from specs to files."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opforge.codegen.spec.loader import load_specs, with_suffix
from opforge.codegen.spec.model import OpSpec

from .errors import UserError
from .files import is_file
from .printing import path_text, say
from .project import Project, find_project
from .render import render, render_project
from .stamp import current, leave, sources_digest
from .writer import Changes, Tree, compare, differences, write


@dataclass(frozen=True)
class Generated:
    """The rendering of some operators and, in words, what had to be left out."""

    tree: Tree
    left_out: tuple[str, ...]


def generate_files(
    specs: Sequence[Path],
    *,
    out: Path | None,
    check: bool,
    list_outputs: bool,
    dry_run: bool,
    op_suffix: str,
    as_json: bool = False,
) -> int:
    """Generate the files of some specs, or of all specs of the project if none are named.

    Args:
        specs: Spec files.
        out: Folder to write to; None is `build/gen` of the project.
        check: Write nothing; print a diff and return 1 if a file is not what it would be.
        list_outputs: Only print the paths of all files.
        dry_run: Only print what would be written or removed.
        op_suffix: What the types, functions and files of the operators end with besides.
        as_json: Print the list of all files, or of those that changed or would, as JSON.

    Raises:
        UserError: A spec has problems or the folder cannot be written.
    """
    project = Project(find_project().root, op_suffix)
    paths = list(specs) or project.spec_paths()
    if not paths:
        raise UserError(
            f"{path_text(project.root / 'op_proto')}: got no spec, expected files *.yaml, as in op_proto/add.yaml"
        )
    folder = out or project.gen_dir
    sources = sources_digest(paths, project.root) + op_suffix if not specs else ""
    if not (specs or check or list_outputs) and (stamp := current(folder, sources)):
        if as_json:
            nothing = Changes(written=(), removed=(), unchanged=tuple(stamp.files))
            return _print_json(folder, stamp.operators, nothing, stamp.left_out)
        say(*(f"left out: {reason}" for reason in stamp.left_out))
        say(f"{_counted(stamp.operators)}: 0 written, {len(stamp.files)} unchanged in {_shown(folder)}")
        return 0
    loaded = with_suffix(load_specs(paths), op_suffix)
    roots = [
        path.resolve().parent.parent if path.resolve().parent.name == "op_proto" else project.root for path in paths
    ]
    generated = rendered(list(zip(loaded, roots, strict=True)), is_complete=not specs)
    if list_outputs:
        outputs = sorted(generated.tree.files)
        if as_json:
            data = {"folder": str(folder), "operators": len(loaded), "outputs": outputs}
            say(*json.dumps(data, indent=2).splitlines())
        else:
            say(*(_shown(folder / path) for path in outputs))
        return 0
    if check and not as_json:
        return _check(generated.tree, folder, specs, out, op_suffix)
    changes = compare(generated.tree, folder) if dry_run or check else write(generated.tree, folder)
    if not (specs or dry_run or check):
        leave(folder, generated.tree, sources, len(loaded), generated.left_out)
    if as_json:
        _print_json(folder, len(loaded), changes, generated.left_out)
        return 1 if check and changes.any else 0
    if dry_run:
        say(*(f"would write {_shown(folder / path)}" for path in changes.written))
        say(*(f"would remove {_shown(folder / path)}" for path in changes.removed))
    say(*(f"left out: {reason}" for reason in generated.left_out))
    say(_summary(loaded, changes, folder, dry_run=dry_run))
    return 0


def write_project(project: Project, specs: Sequence[OpSpec]) -> Changes:
    """Bring `build/gen` of a project up to date; `specs` are all specs of the project."""
    return write(rendered([(spec, project.root) for spec in specs], is_complete=True).tree, project.gen_dir)


def rendered(specs: Sequence[tuple[OpSpec, Path]], *, is_complete: bool) -> Generated:
    """Render specs, each with the folder that holds its plan and kernel.

    Args:
        specs: Spec and project folder.
        is_complete: Whether these are all specs of the project; then the lists of all files are rendered too.

    Raises:
        UserError: Two operators generate one file.
    """
    files: dict[str, str] = {}
    owners: dict[str, str] = {}
    makers: dict[str, str] = {}
    left_out = []
    for spec, root in specs:
        has_plan = spec.own_plan is None or is_file(root / spec.own_plan)
        has_kernel = is_file(root / spec.kernel)
        if not has_plan:
            left_out.append(f"{spec.op_type}: tiling and kernel entry, there is no plan {spec.own_plan}")
        elif not has_kernel:
            left_out.append(f"{spec.op_type}: kernel entry, there is no kernel {spec.kernel}")
        for path, text in render(spec, has_plan=has_plan, has_kernel=has_kernel):
            if (other := makers.setdefault(path.lower(), spec.op_type)) != spec.op_type:
                raise UserError(f"{path}: {other} and {spec.op_type} both generate it; rename one of the operators")
            files[path] = text
            owners[path] = spec.name
    if is_complete:
        for path, text in render_project([spec for spec, _ in specs], list(files)):
            files[path] = text
            owners[path] = ""
    return Generated(Tree(files, owners, is_complete), tuple(left_out))


def _check(tree: Tree, folder: Path, specs: Sequence[Path], out: Path | None, op_suffix: str) -> int:
    changes = compare(tree, folder)
    if not changes.any:
        say(f"{len(tree.files)} files are up to date in {_shown(folder)}")
        return 0
    say(*differences(tree, folder).splitlines())
    command = ["opforge", "generate", *(["--out", str(out)] if out else [])]
    command += [*(["--op-suffix", op_suffix] if op_suffix else []), *map(str, specs)]
    stale = len(changes.written) + len(changes.removed)
    say(f"{stale} of {len(tree.files)} files are stale in {_shown(folder)}; run: {shlex.join(command)}", err=True)
    return 1


def _print_json(folder: Path, operators: int, changes: Changes, left_out: Sequence[str]) -> int:
    files = {"written": changes.written, "removed": changes.removed, "unchanged": changes.unchanged}
    data = {"folder": str(folder), "operators": operators, **files, "left_out": left_out}
    say(*json.dumps(data, indent=2).splitlines())
    return 0


def _summary(specs: Sequence[OpSpec], changes: Changes, folder: Path, *, dry_run: bool) -> str:
    operators = _counted(len(specs))
    counts = [f"{len(changes.written)} written", f"{len(changes.unchanged)} unchanged"]
    counts += [f"{len(changes.removed)} removed"] if changes.removed else []
    return f"{operators}: {', '.join(counts)} in {_shown(folder)}{' (dry run: nothing was changed)' if dry_run else ''}"


def _counted(operators: int) -> str:
    return f"{operators} operator{'s' if operators != 1 else ''}"


def _shown(path: Path) -> str:
    """The path as a user would type it: relative if it lies below the current folder."""
    here = Path.cwd()
    return path_text(path.relative_to(here) if path.is_relative_to(here) else path)
