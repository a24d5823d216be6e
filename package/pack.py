"""Implement `opforge pack`: write a reproducible self-extracting `custom_opp_<os>_<arch>.run`."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from opforge.codegen.data.names import unknown_operator
from opforge.codegen.errors import UserError, not_installed
from opforge.codegen.files import NewFile, read_regular, write_files
from opforge.codegen.printing import path_text, say
from opforge.codegen.process_limits import Program
from opforge.codegen.project import BUILTIN_ROOT, Project, check_vendor, find_project

from . import cann
from .layout import Contents, layout, write_tree
from .manifest import SUMS
from .places import walk
from .signature import SIGNATURE, sign
from .socs import choose_socs, opc_chips

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec

_MOST_HEADER_BYTES = 64 << 20
SCRIPTS = Path(__file__).resolve().parent / "install"
CHIPS_FILE = "cann/chips.json"
BUILDER = Path(cann.__file__).resolve().parent


def pack_command(
    socs: Sequence[str] | None,
    ops: Sequence[str] | None,
    vendor: str | None,
    out: Path | None,
    *,
    op_suffix: str,
    toolkit: Path | None,
    jobs: int,
    key: Path | None = None,
) -> dict[str, Any]:
    """Write the package and print its path and content; return them as JSON data."""
    project = Project(find_project().root, op_suffix)
    contents = gather(project, socs, ops, vendor)
    if toolkit is not None:
        from .built import built

        project.claim_build_dir()
        contents = built(
            contents,
            toolkit,
            project.build_dir / "cann" / contents.vendor,
            jobs or os.cpu_count() or 1,
            say,
        )
    path = make_package(contents, (out or _default_out(project)) / package_name(), key)
    left_out = [] if ops else incomplete(project)
    say(str(path), contents.note, *left_out)
    operators = [spec.op_type for spec in contents.specs]
    facts = {"package": str(path), "vendor": contents.vendor, "operators": operators, "socs": list(contents.socs)}
    return facts | {"note": contents.note, "left_out": left_out}


def incomplete(project: Project) -> list[str]:
    """Return one line for each operator that is not packed: without plan or kernel, or declared only."""
    from opforge.codegen.spec.loader import load_project

    specs = load_project(project, declared=True)
    reasons = {
        spec.op_type: "its spec has 'declared_only: true'" if spec.declared_only else f"{missing} is missing"
        for spec in specs
        if (missing := project.missing(spec.own_files)) or spec.declared_only
    }
    return [f"not packed: {op_type}; {reason}" for op_type, reason in reasons.items()]


def pack(
    socs: Sequence[str] | None = None,
    ops: Sequence[str] | None = None,
    vendor: str | None = None,
    out: Path | None = None,
    project: Project | None = None,
) -> Path:
    """Write the package and return its path.

    Equal input gives equal bytes, independent of folder, date, umask and locale.

    Args:
        socs: SoC directories or chip names; None selects all SoCs of the specs.
        ops: Operator types; None selects all operators of the project that have a plan and a kernel.
        vendor: Vendor folder; two packages of one vendor replace each other. None selects the vendor of the project.
        out: Folder of the package; None is `build_out/` of the project.
        project: None is the project of the current folder. Its suffix, if any, is added to the operator names.

    Raises:
        UserError: An operator, SoC or vendor name cannot be used, or the package cannot be written.
        MissingToolError: makeself is not installed.
    """
    project = project or find_project()
    return make_package(gather(project, socs, ops, vendor), (out or _default_out(project)) / package_name())


def make_package(contents: Contents, path: Path, key: Path | None = None) -> Path:
    """Write a package of `contents` to `path`, signed with `key` if one is given; raises as `pack` and `sign`."""
    tree = layout(contents)
    if key is not None:
        tree[SIGNATURE] = sign(tree[f"packages/vendors/{contents.vendor}/{SUMS}"], key)
    try:
        with tempfile.TemporaryDirectory(prefix="opforge-pack-") as work:
            stage = Path(work) / "custom_opp"
            write_tree(stage, tree)
            built = _make_self_extracting(stage, f"{contents.vendor} {contents.version} ({contents.note})", Path(work))
            _place(built, path)
    except OSError as error:  # error of the temporary folder
        raise UserError(
            f"{error.filename or tempfile.gettempdir()}: got '{error.strerror}', expected a folder for temporary files "
            "with free space; set TMPDIR to one"
        ) from error
    return path


def _place(built: Path, path: Path) -> None:
    """Rename the package to its final path, so that readers see the old or the complete new file."""

    def fill(target: BinaryIO) -> None:
        with built.open("rb") as source:
            shutil.copyfileobj(source, target)

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_files([NewFile(path, fill, "package", 0o755)])
    except (OSError, UserError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        raise UserError(
            f"--output: got '{path_text(path.parent)}' ({getattr(cause, 'strerror', None) or error}), expected a "
            f"folder in which {path.name} can be written; select another folder with --output"
        ) from error


def package_name() -> str:
    """Return `custom_opp_<os-id>_<arch>.run`, the naming convention of CANN projects."""
    try:
        os_id = platform.freedesktop_os_release().get("ID", "linux")
    except OSError:  # the system has no os-release
        os_id = "linux"
    return f"custom_opp_{os_id}_{platform.machine()}.run"


def gather(project: Project, socs: Sequence[str] | None, ops: Sequence[str] | None, vendor: str | None) -> Contents:
    """Read and render the content of a package; files of an earlier `opforge generate` are not used.

    Raises:
        UserError: As `pack`.
    """
    from opforge.codegen.render import TABLES_HEADER, render, render_project
    from opforge.codegen.spec.loader import load_project

    vendor = project.vendor if vendor is None else check_vendor(vendor, "--vendor-name")
    every = load_project(project)
    complete = [spec for spec in every if not project.missing(spec.own_files)]
    specs = _choose(complete if complete and not ops else every, ops, project.root)
    generated: dict[str, str] = {}
    for spec in specs:
        if needed := project.missing(spec.own_files):
            raise UserError(f"{spec.op_type}: {needed} is missing; write it, or exclude the operator with --ops")
        generated |= dict(render(spec))
    shared = dict(render_project(specs, []))
    generated |= {path: shared[path] for path in ("op_api/exports.map", TABLES_HEADER)}
    return Contents(
        specs=specs,
        generated=generated,
        sources=_sources(project, {spec.source_name for spec in every} - {spec.source_name for spec in specs}),
        scripts=shell_scripts() | _builder(),
        vendor=vendor,
        version=project.version or importlib.metadata.version("opforge"),
        socs=choose_socs(specs, socs),
    )


def shell_scripts() -> dict[str, bytes]:
    """Return the scripts of the installer by path below its folder."""
    return {path.relative_to(SCRIPTS).as_posix(): path.read_bytes() for path in sorted(SCRIPTS.rglob("*.sh"))}


def _builder() -> dict[str, bytes]:
    """Return the program that builds the package on the target."""
    paths = sorted([*BUILDER.glob("*.py"), *BUILDER.glob("cmake/**/*.*")])
    files = {f"cann/{path.relative_to(BUILDER).as_posix()}": path.read_bytes() for path in paths if path.is_file()}
    return files | {CHIPS_FILE: json.dumps(opc_chips(), indent=1).encode()}


def _choose(specs: Sequence[OpSpec], ops: Sequence[str] | None, root: Path) -> tuple[OpSpec, ...]:
    by_type = {spec.op_type: spec for spec in specs}
    if not by_type:
        raise UserError("no operator: got no op_proto/*.yaml here, expected at least one; go to the project's folder")
    for op_type in ops or ():
        if op_type not in by_type:
            raise unknown_operator("--ops", op_type, by_type, root)
    return tuple(spec for spec in specs if ops is None or spec.op_type in ops)


def _sources(project: Project, left_out: set[str]) -> dict[str, bytes]:
    """Return the hand-written headers, without those of operators that are not packed."""
    sources = {}
    shared = [(BUILTIN_ROOT, folder) for folder in ("op_host/common", "op_kernel/common", "op_plugin")]
    for root, folder in (*shared, *((project.root, folder) for folder in ("op_host", "op_kernel", "op_plugin"))):
        tree = walk(root / folder)
        if tree.excess:
            raise UserError(f"{path_text(root / folder)}: {tree.excess}; move other files out of the project")
        for path in sorted(tree.files):
            if path.suffix == ".h" and path.stem.removesuffix("_tiling") not in left_out:
                content = read_regular(path, "header", _MOST_HEADER_BYTES, "make it smaller")
                sources[path.relative_to(root).as_posix()] = content
    return sources


def _default_out(project: Project) -> Path:
    return (Path.cwd() if project.is_installed else project.root) / "build_out"


def _make_self_extracting(stage: Path, label: str, work: Path) -> Path:
    """Run makeself on the folder `stage`; the options make the bytes independent of machine and time."""
    makeself = shutil.which("makeself")
    if makeself is None:
        raise not_installed("pack", "makeself", "the package", "apt-get install makeself")
    built = work / "package.run"
    # With -n, gzip does not store the time of its input; makeself passes -n as part of the level.
    command = [makeself, "--gzip", "--complevel", "9n", "--nomd5", "--nocrc", "--sha256", "--quiet", "--tar-quietly"]
    command += ["--tar-format", "gnu"]
    command += ["--tar-extra", "--sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner"]
    command += ["--packaging-date", "1970-01-01", "--header", str(SCRIPTS / "header.sh")]
    command += [str(stage), str(built), label, "./install.sh"]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC", "TMPDIR": str(work)}
    with Program(
        command, cwd=work, env=environment, umask=0o022, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        out, err = process.communicate()
    if process.returncode != 0 or not built.is_file():
        output = (err or out).strip()[-500:]
        raise UserError(
            f"makeself: got exit code {process.returncode}, expected 0; correct the error that it prints: {output}"
        )
    return built
