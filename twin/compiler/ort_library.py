"""Build the library of custom operators for onnxruntime."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opforge.codegen.data.products import DEFAULT_SOC
from opforge.codegen.errors import UserError
from opforge.codegen.files import replace_file, require_writable
from opforge.codegen.project import BUILTIN_ROOT, Project

from .flags import PLAN_FLAGS, WARNINGS
from .folder import locked
from .npu_model import require_level
from .operators import build_project
from .runtime_library import header_folders, link_flags, runtime_link, twin_dir
from .units import Library, Unit, build

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec


@dataclass(frozen=True)
class OrtLibrary:
    """The operator types in a library, and the others with the reason."""

    op_types: list[str]
    left_out: list[str]


def build_ort_library(project: Project, output: Path, level: str = "fast") -> OrtLibrary:
    """Build the custom operators of a project for onnxruntime.

    Args:
        project: The project.
        output: The library.
        level: Active checks of the CPU twin: strict, device or fast.

    Raises:
        UserError: An argument is wrong, a source does not compile, or the library cannot be written.
        MissingToolError: There is no compiler.
    """
    from opforge.codegen.render import ort_library
    from opforge.codegen.spec.loader import load_project

    require_level(level, "--level")
    require_writable(output, (), "library")
    built = build_project(project)
    every = load_project(project, declared=True)
    left_out = [f"{spec.op_type}: {reason}" for spec in every if (reason := _obstacle(spec, built.op_types))]
    specs = [spec for spec in every if not _obstacle(spec, built.op_types)]
    if not specs:
        got = "; ".join(left_out) or "no operators"
        raise UserError(
            f"operators: got {got}; expected at least one with a kernel, an aclnn function and no lists of tensors,"
            " scalars or optional outputs; write one"
        )
    home = twin_dir(project)
    gen = project.gen_dir
    folders = (
        *(*header_folders(), gen / "op_host", gen / "op_api", project.root / "op_host"),
        *(BUILTIN_ROOT / "op_host", BUILTIN_ROOT / "op_plugin"),
    )
    flags = (
        *(*WARNINGS, "-fvisibility=hidden", *PLAN_FLAGS, *(f"-I{folder}" for folder in dict.fromkeys(folders))),
        *(f'-DOPFORGE_ORT_LEVEL="{level}"', f'-DOPFORGE_ORT_SOC="{DEFAULT_SOC}"'),
    )
    # onnxruntime unloads the library with the session options, but uses the operators longer.
    links = (
        "-Wl,-z,nodelete",
        *link_flags(built.opapi.parent, "cust_opapi"),
        *runtime_link("opforge_twin", "ascendcl", "nnopbase"),
    )
    with locked(home) as scratch:
        source = home / "ort" / "ort_library.cpp"
        replace_file(source, ort_library(specs))
        roots = (project.root, BUILTIN_ROOT)
        unit = Unit(source, home / "ort" / f"ort_library_{level}.o", flags, "onnxruntime operators", folders=roots)
        library = Library(home / "ort" / f"libopforge_ort_{level}.so", (unit,), links)
        build([library], scratch)
        with tempfile.TemporaryDirectory(prefix=".opforge-ort-", dir=output.parent) as folder:
            copy = Path(folder, output.name)
            shutil.copyfile(library.path, copy)
            copy.replace(output)
    return OrtLibrary([spec.op_type for spec in specs], left_out)


def _obstacle(spec: OpSpec, built: Collection[str]) -> str:
    """Return why an operator cannot be in the library; empty: it can."""
    if spec.declared_only:
        return "its spec has 'declared_only: true'"
    if spec.op_type not in built:
        return "it has no kernel"
    return spec.extended_tensors if spec.aclnn else "it has no aclnn function"
