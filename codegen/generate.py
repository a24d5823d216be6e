"""Render specs, and update generated files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opforge.codegen.data.names import op_type_problem, unknown_operator
from opforge.codegen.spec.loader import load_specs, with_suffix
from opforge.codegen.spec.model import OpSpec

from .errors import UserError
from .files import is_file
from .printing import path_text
from .project import Project, find_project
from .render import render, render_project
from .writer import Changes, Tree, write


@dataclass(frozen=True)
class Generated:
    """The rendered files of some operators, and a text about missing parts."""

    tree: Tree
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Sources:
    """Specs with the folders of their plans and kernels, and the project for which they are generated."""

    project: Project
    specs: tuple[tuple[OpSpec, Path], ...]


def load(paths: Sequence[Path], op_suffix: str) -> Sources:
    """Read specs; all specs of the project if no file is given.

    Args:
        paths: Spec files.
        op_suffix: Suffix of the types, functions and files of the operators.

    Raises:
        UserError: A spec has problems, or there is no spec.
    """
    project = Project(find_project().root, op_suffix)
    chosen = list(paths) or project.spec_paths()
    if not chosen:
        raise UserError(
            f"{path_text(project.root / 'op_proto')}: got no spec, expected files *.yaml, as in op_proto/add.yaml"
        )
    loaded = with_suffix(load_specs(chosen), op_suffix)
    folders = [path.resolve().parent for path in chosen]
    roots = [folder.parent if folder.name == "op_proto" else project.root for folder in folders]
    return Sources(project, tuple(zip(loaded, roots, strict=True)))


def load_one(names: Sequence[Path]) -> OpSpec:
    """Read the spec of one operator: a file, an operator type of the project, or the only operator of the project.

    Raises:
        UserError: A spec has problems, or the operator is ambiguous.
    """
    if len(names) > 1:
        raise UserError(f"SPEC: got {len(names)} specs, expected one")
    name = str(names[0]) if names else ""
    is_type = op_type_problem(name) is None and not is_file(Path(name))
    specs = [spec for spec, _ in load([] if is_type else names, "").specs]
    if is_type:
        types = {spec.op_type: spec for spec in specs}
        if name not in types:
            raise unknown_operator("SPEC", name, types, find_project().root)
        return types[name]
    if len(specs) != 1:
        raise UserError(f"SPEC: got {len(specs)} operators, expected one; name it, as in '{specs[0].op_type}'")
    return specs[0]


def write_project(project: Project, specs: Sequence[OpSpec]) -> Changes:
    """Update `build/gen` of a project; `specs` are all specs of the project."""
    project.claim_build_dir()
    return write(rendered([(spec, project.root) for spec in specs], is_complete=True).tree, project.gen_dir)


def rendered(specs: Sequence[tuple[OpSpec, Path]], *, is_complete: bool) -> Generated:
    """Render specs, each with the folder of its plan and kernel.

    Args:
        specs: Spec and project folder.
        is_complete: Whether these are all specs of the project; then also render the lists of all files.

    Raises:
        UserError: Two operators generate the same file.
    """
    files: dict[str, str] = {}
    owners: dict[str, str] = {}
    makers: dict[str, str] = {}
    left_out = []
    for spec, root in specs:
        has_plan = spec.own_plan is None or is_file(root / spec.own_plan)
        has_kernel = is_file(root / spec.kernel)
        if spec.declared_only:
            declared = "OpDef and REG_OP" if spec.has_op_def else "REG_OP (OpDef has no lists of strings)"
            left_out.append(f"{spec.op_type}: everything but {declared}; the spec has 'declared_only: true'")
        elif not has_plan:
            left_out.append(f"{spec.op_type}: tiling and kernel entry; {spec.own_plan} is missing")
        elif not has_kernel:
            left_out.append(f"{spec.op_type}: kernel entry; {spec.kernel} is missing")
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
