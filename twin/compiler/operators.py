"""Build operators into a vendor tree, which the twin searches in the same way as CANN."""

from __future__ import annotations

import collections
import itertools
import platform
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opforge.codegen.data.dtypes import DTYPES
from opforge.codegen.data.names import unknown_operator
from opforge.codegen.data.products import DEFAULT_SOC, soc_properties
from opforge.codegen.errors import UserError
from opforge.codegen.files import replace_file
from opforge.codegen.printing import path_text
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.twin.lint.expansion import require_no_assembly

from .cache import record_path
from .flags import DEVICE_FIELDS, GLUE_FLAGS, PLAN_FLAGS, WARNINGS, arch_flags, arch_prefix
from .folder import locked
from .runtime_library import (
    build_runtime,
    header_folders,
    kernel_flags,
    kernel_link,
    link_flags,
    precompile_kernel_header,
    runtime_link,
    twin_dir,
)
from .units import Library, Progress, Unit, build

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec

VENDOR = "opforge"
TILING_LIBRARY = "libcust_opmaster_rt2.0.so"
PLUGIN_LIBRARY = "libcust_onnx_parsers.so"


@dataclass(frozen=True)
class Operators:
    """Operators built for the twin.

    Attributes:
        vendor_dir: The folder of their package.
        compiled: Number of compiled files.
        op_types: The operators that can run.
        missing: For each operator without a kernel, the missing file.
    """

    vendor_dir: Path
    compiled: int
    op_types: tuple[str, ...]
    missing: Mapping[str, str]

    @property
    def opapi(self) -> Path:
        """The library with the aclnn functions."""
        return self.vendor_dir / "op_api" / "lib" / "libcust_opapi.so"


def _kernel_units(project: Project, spec: OpSpec, socs: Sequence[str]) -> list[Library]:
    source = project.gen_dir / "op_kernel" / f"{spec.name}.cpp"
    archs = {soc_properties(soc).dir: soc_properties(soc).arch for soc in socs}
    libraries = []
    for folder, column in _kernels(spec, sorted(set(archs) & set(spec.built_products))):
        key = "_".join(dtype for _, dtype in column)
        defines = list(arch_flags(archs[folder]))
        for parameter, dtype in dict(column).items():
            # The same options that the op compiler passes to a kernel.
            facts = DTYPES[dtype]
            defines += [f"-DDTYPE_{parameter.upper()}={facts.kernel}", f"-DORIG_DTYPE_{parameter.upper()}={facts.ge}"]
        includes = _include_flags((project.root / "op_kernel", BUILTIN_ROOT / "op_kernel", source.parent))
        flags = (*kernel_flags(), *includes, *defines)
        unit = Unit(
            source,
            twin_dir(project) / "obj" / "kernel" / spec.name / f"{arch_prefix(archs[folder])}{key}.o",
            flags,
            f"kernel {spec.op_type} {key}",
            DEVICE_FIELDS,
            (project.root, BUILTIN_ROOT),
            require_no_assembly,
            prepare=precompile_kernel_header,
        )
        path = _tbe(project) / "kernel" / folder / spec.name / f"{spec.op_type}_{key}.so"
        libraries.append(Library(path, (unit,), kernel_link()))
    return libraries


def _kernels(spec: OpSpec, folders: Sequence[str]) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Yield each SoC directory with each dtype combination of its kernels."""
    from opforge.codegen.views.facts import kernel_columns

    for folder in folders:
        for column in kernel_columns(spec, folder):
            yield folder, column


def _include_flags(folders: Iterable[Path]) -> list[str]:
    """Return one flag for each folder; the folders of built-in operators are those of opforge."""
    return [f"-I{folder}" for folder in dict.fromkeys(folders)]


def _vendor(project: Project) -> Path:
    return twin_dir(project) / "vendors" / VENDOR


def _tbe(project: Project) -> Path:
    return _vendor(project) / "op_impl" / "ai_core" / "tbe"


def host_libraries(project: Project, names: Collection[str], generated: Sequence[str]) -> list[Library]:
    """Return the libraries with the host code of a project.

    Args:
        project: The project.
        names: Its operators.
        generated: The files of `build/gen`. Other files there are not opened.
    """
    gen = project.gen_dir
    includes = [*header_folders(), gen / "op_proto", gen / "op_host", gen / "op_kernel", gen / "op_api"]
    includes += [
        project.root / "op_host",
        project.root / "op_plugin",
        project.root / "op_kernel",
        BUILTIN_ROOT / "op_host",
        BUILTIN_ROOT / "op_plugin",
    ]
    flags = (*WARNINGS, "-fvisibility=hidden", *_include_flags(includes))

    def units(part: str, patterns: Sequence[str], *more: str) -> tuple[Unit, ...]:
        """Return one unit for each operator: its files include the same headers, which dominate the compile time."""

        def owner(path: Path) -> str:
            return max((name for name in names if name in path.stem), key=len, default=path.stem)

        found = {path for path in generated for pattern in patterns if Path(path).match(pattern)}
        sources = sorted((gen / path for path in found), key=lambda path: (owner(path), path))
        made = []
        for name, group in itertools.groupby(sources, owner):
            *before, last = group
            built = twin_dir(project) / "obj" / part / f"{name}.o"
            label = f"host {part} {name}"
            roots = (project.root, BUILTIN_ROOT)
            made.append(Unit(last, built, (*flags, *more), label, folders=roots, before=tuple(before)))
        return tuple(made)

    link = runtime_link()
    exports = gen / "op_api" / "exports.map"
    linux = Path("lib") / "linux" / platform.machine()
    vendor = _vendor(project)
    proto = units("op_proto", ["op_proto/*.cpp", "op_host/*_infershape.cpp"], "-DOP_PROTO_LIB", *GLUE_FLAGS)
    master = units("op_host", ["op_host/*_tiling.cpp", "op_host/*_def.cpp"], "-DOP_TILING_LIB", *PLAN_FLAGS)
    plugins = units("op_plugin", ["op_plugin/*.cpp"], *GLUE_FLAGS)
    return [
        Library(vendor / "op_proto" / linux / "libcust_opsproto_rt2.0.so", proto, link),
        Library(_tbe(project) / "op_tiling" / linux / TILING_LIBRARY, master, link),
        Library(
            vendor / "op_api" / "lib" / "libcust_opapi.so",
            units("op_api", ["op_api/*.cpp"], *GLUE_FLAGS),
            link,
            exports,
        ),
        Library(vendor / "framework" / "onnx" / PLUGIN_LIBRARY, plugins, link),
    ]


def build_project(
    project: Project,
    socs: Sequence[str] = (DEFAULT_SOC,),
    ops: Sequence[str] | None = None,
    jobs: int = 0,
    report: Progress | None = None,
    *,
    plugin: bool = True,
) -> Operators:
    """Generate and compile the operators of a project for the twin.

    Args:
        project: The project folder.
        socs: Chips of codegen/data/tables.json. Each dtype combination has one kernel per SoC directory.
        ops: Operator types whose kernels are compiled; default: all. Host code is always compiled for all operators.
        jobs: Number of parallel compilers; 0 means one per core.
        report: Called with one line per compiled file.
        plugin: Whether to compile also the ONNX plugin, which calls of operators do not use.

    Raises:
        UserError: A spec or an argument is wrong, a source does not compile, or the build folder cannot be written.
        MissingToolError: There is no compiler, or it does not work.
    """
    from opforge.codegen.generate import write_project
    from opforge.codegen.spec.loader import load_project
    from opforge.twin.lint.kernel_lint import require_clean

    from .kernel_objects import require_device_code

    for soc in socs:
        soc_properties(soc, "--soc")
    _check_paths(project)
    every = load_project(project, declared=True)
    specs = [spec for spec in every if not spec.declared_only]
    known = {spec.op_type for spec in specs}
    if unknown := sorted(set(ops or ()) - known):
        raise unknown_operator("--ops", unknown[0], known, project.root)
    project.claim_build_dir()
    runtime = build_runtime(jobs, report)
    with locked(twin_dir(project)) as scratch:
        generated = write_project(project, every).present
        chosen = [spec for spec in specs if not ops or spec.op_type in ops]
        complete = [spec for spec in chosen if not project.missing(spec.own_files)]
        names: dict[bool, list[str]] = {False: [], True: []}
        for spec in complete:
            names[spec.tiling.own_entry].append(spec.source_name)
        require_clean(project, names[False], twin_dir(project), names[True])
        _remove_old_kernels(project, {spec.name for spec in specs if not project.missing(spec.own_files)})
        kernels = [library for spec in complete for library in _kernel_units(project, spec, socs)]
        host = host_libraries(project, [spec.name for spec in every], generated)
        used = [library for library in host if plugin or library.path.name != PLUGIN_LIBRARY]
        compiled = build([*used, *kernels], scratch, jobs, report)
        for library in kernels:
            require_device_code(library.path, library.units[0].label, runtime)
        _publish_headers(project, generated)
    missing = {spec.op_type: file for spec in chosen if (file := project.missing(spec.own_files))}
    return Operators(_vendor(project), compiled, tuple(spec.op_type for spec in complete), missing)


def _check_paths(project: Project) -> None:
    """Reject special files as sources, and folders whose files compilers cannot list."""
    from opforge.twin.lint.includes import sources_below

    for folder in ("op_host", "op_kernel", "op_plugin"):
        collections.deque(sources_below(project.root / folder), maxlen=0)
    for place in (project.root, project.build_dir):
        if "\n" in str(place):
            raise UserError(
                f"{path_text(place)}: got a path with line breaks, expected a path without line breaks; "
                "rename the folder, or set OPFORGE_BUILD_DIR to another one"
            )


def _remove_old_kernels(project: Project, names: Collection[str]) -> None:
    """Remove compiled kernels without sources, so that no call runs them; keep other files."""
    for folder in (_tbe(project) / "kernel").glob("*/*"):
        if folder.name in names or folder.is_symlink():
            continue
        for library in folder.glob("*.so"):
            if record_path(library).is_file() and not library.is_dir():
                library.unlink()
                record_path(library).unlink()
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _publish_headers(project: Project, generated: Sequence[str]) -> None:
    for header in (project.gen_dir / path for path in generated if Path(path).match("op_api/aclnn_*.h")):
        text = header.read_text(encoding="utf-8")
        replace_file(_vendor(project) / "op_api" / "include" / header.name, text)
        replace_file(twin_dir(project) / "include" / "aclnnop" / header.name, text)


def application_flags(project: Project) -> list[str]:
    """Return the compiler and linker flags for an application that includes acl/acl.h and aclnnop/aclnn_<op>.h."""
    vendor = _vendor(project)
    includes = [*header_folders(), vendor / "op_api" / "include", twin_dir(project) / "include"]
    links = (*link_flags(vendor / "op_api" / "lib", "cust_opapi"), *runtime_link("ascendcl", "nnopbase"))
    return ["-std=c++17", "-pthread", *(f"-I{folder}" for folder in includes), *links]
