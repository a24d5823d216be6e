"""Lint and compile the source of one kernel, and read the parameters of its function."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from opforge.codegen.errors import UserError
from opforge.codegen.files import is_file
from opforge.codegen.printing import shown
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.twin.build import build_runtime
from opforge.twin.compiler.cache import digest, replace_output
from opforge.twin.compiler.flags import DEVICE_FIELDS, arch_flags
from opforge.twin.compiler.folder import locked
from opforge.twin.compiler.kernel_objects import require_device_code
from opforge.twin.compiler.runtime_library import kernel_flags, kernel_link, precompile_kernel_header
from opforge.twin.compiler.units import Library, Unit, build, preprocessed
from opforge.twin.lint.expansion import require_no_assembly
from opforge.twin.lint.includes import reachable, read_source
from opforge.twin.lint.kernel_lint import lint_files, roots_of

from .kernel_process import Job

# Strings, which may contain comment markers, and comments.
_NO_CODE = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)


def compile_kernel(source: str | os.PathLike[str], symbol: str, buffers: int, arch: int, *, lint: bool) -> Job:
    """Compile a kernel into a separate library.

    Args:
        source: A file, or the text itself.
        symbol: The kernel function.
        buffers: Number of arrays of the launch.
        arch: Architecture that the library is for.
        lint: Reject code that the device compiler would reject.

    Returns:
        `library`, `runtime`, `pass_workspace` and `pass_tiling` of a launch.

    Raises:
        CompileError: The source does not compile.
        UserError: The source or function does not exist, or lint rejects the kernel.
    """
    path, text = _read(source)
    runtime_library = build_runtime()
    library = _build(path, text, arch, lint=lint)
    if lint:
        require_device_code(library.path, str(path or symbol), runtime_library)
    parameters = _parameters(text, symbol)
    if parameters is None:  # declared by a macro, or not declared
        parameters = _parameters(preprocessed(library.units[0]), symbol)
    pass_workspace, pass_tiling = _trailing_parameters(parameters, symbol, buffers)
    return {
        "library": str(library.path),
        "runtime": str(runtime_library),
        "pass_workspace": pass_workspace,
        "pass_tiling": pass_tiling,
    }


def _read(source: str | os.PathLike[str]) -> tuple[Path | None, str]:
    """Return the file of a source, if it is one, and its text."""
    is_text = isinstance(source, str) and ("\n" in source or "{" in source)
    path = None if is_text or not isinstance(source, (str, os.PathLike)) else Path(source)
    if not is_text and (path is None or not is_file(path)):
        raise UserError(f"source: got {shown(str(source))}, expected a kernel source file or the text of one")
    text = read_source(path) if path else str(source)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"source: got {error}, expected text that UTF-8 can encode; correct it") from error
    return path, text


def _build(path: Path | None, text: str, arch: int, *, lint: bool) -> Library:
    home = Project(BUILTIN_ROOT).build_dir / "twin" / "launch"
    name = hashlib.sha256(f"{path.resolve() if path else ''}\0{text}\0{arch}".encode()).hexdigest()[:16]
    with locked(home) as scratch:
        if path is None:
            path = home / f"{name}.cpp"
            _keep(text.encode(), path, scratch)
        if lint and (findings := lint_files(reachable(path, (), roots_of(path)))):
            raise UserError("\n".join(map(str, findings)))
        # A kernel may ignore its parameters; a lost address-space qualifier is still an error. The file may have any
        # name.
        quiet = ("-Wno-unused", "-Wno-unused-parameter")
        flags = ("-x", "c++", *arch_flags(arch), *kernel_flags(), *quiet)
        unit = Unit(
            path.resolve(),
            home / f"{name}.o",
            flags,
            str(path),
            DEVICE_FIELDS,
            roots_of(path.resolve()),
            require_no_assembly if lint else None,
            prepare=precompile_kernel_header,
        )
        library = Library(
            home / f"{name}.so",
            (unit,),
            kernel_link(),
        )
        build([library], scratch)
    return library


def _keep(data: bytes, path: Path, scratch: Path) -> None:
    """Write a source in the build folder; a folder, link or device with its name is replaced."""
    if path.is_symlink() or digest(path) != hashlib.sha256(data).hexdigest():
        made = scratch / path.name
        made.write_bytes(data)
        replace_output(made, path)


def _parameters(text: str, symbol: str) -> str | None:
    """Return the parameter list of a kernel function, in a source or in preprocessed text; in linear time."""
    code = _NO_CODE.sub(lambda found: " " if found[0][0] == "/" else found[0], text)
    is_global = False
    for found in re.finditer(
        rf'__global__|visibility\("default"\)|[;{{}}]|\b{re.escape(symbol)}\s*\(([^)]*)(\)?)', code
    ):
        if found[1] is None:
            is_global = found[0] not in {";", "{", "}"}
        elif is_global and found[2]:
            return found[1]
    return None


def _trailing_parameters(parameters: str | None, symbol: str, buffers: int) -> tuple[bool, bool]:
    """Return whether the kernel has parameters for workspace and tiling after its buffers."""
    if parameters is None:
        raise UserError(f"symbol: got {symbol!r}, expected the name of a __global__ function of the source")
    names = [parameter.split()[-1].lstrip("*&").lower() for parameter in parameters.split(",") if parameter.strip()]
    extra = names[buffers:]
    if len(extra) == 2 and buffers > 0:
        return True, True
    has_workspace = bool(extra) and "workspace" in extra[0]
    has_tiling = len(extra) > has_workspace and "tiling" in extra[-1]
    if len(names) < buffers or len(extra) != has_workspace + has_tiling:
        raise UserError(
            f"buffers: got {buffers}, expected one for each parameter of {symbol} but a last `workspace` and `tiling`: "
            f"{', '.join(names)}"
        )
    return has_workspace, has_tiling
