"""Compile one kernel source and run it on numpy arrays, without a spec."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from opforge.codegen.errors import UserError
from opforge.codegen.files import is_file
from opforge.codegen.printing import shown
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.codegen.spec.field_types import TASK_TYPES
from opforge.codegen.spec.products import DEFAULT_SOC

from .acl import LARGEST_BYTES, LARGEST_SEED, MOST_THREADS, Array, one_at_a_time, require_integers, runtime
from .build import INCLUDE, build_runtime, soc_properties
from .build_folder import locked
from .compiler import DEVICE_FIELDS, KERNEL_FLAGS, WARNINGS, Library, Unit, build, preprocessed
from .isolation import ISOLATED_SECONDS, require_seconds, run_isolated
from .kernel_expansion import require_no_assembly
from .kernel_includes import reachable, read_source
from .kernel_lint import lint_files, roots_of
from .kernel_objects import require_device_code
from .kernel_process import Job, call_launch
from .results import Finding, findings_of


def launch(
    source: str | os.PathLike[str],
    symbol: str,
    blocks: int,
    buffers: Sequence[Array] | Mapping[str, Array],
    tiling: bytes = b"",
    tiling_key: int = 0,
    soc: str = DEFAULT_SOC,
    task_type: str = "AIV_ONLY",
    *,
    strict: bool = True,
    seed: int = 0,
    threads: int = 0,
    workspace_bytes: int = 16 << 20,
    lint: bool = True,
    isolate: bool = False,
    timeout: float = ISOLATED_SECONDS,
) -> list[Finding]:
    """Lint a kernel, compile it for the twin and run it.

    A kernel that smashes the memory of the process or ends it, as far as lint lets it, does so to the caller. With
    `isolate` it runs in a child process, and each of these is a finding.

    Args:
        source: A kernel source: a file, or the text itself.
        symbol: The kernel function. Its parameters are the buffers, then, if it has them, workspace and tiling.
        blocks: Cores to launch; with a task type of both kinds, cube cores, each with its vector cores.
        buffers: Arrays, changed in place, in the order of the kernel's parameters.
        tiling: The tiling data.
        tiling_key: Selects the branch of TILING_KEY_IS.
        soc: SoC that the twin plays.
        task_type: Task type of a kernel that declares none: AIV_ONLY, MIX_AIC_1_2, ...
        strict: Keep the shadow state that finds uninitialised reads and races; False is faster.
        seed: Order of the blocks and poison; 0 differs from call to call.
        threads: Blocks that run at once; 0 means one per core.
        workspace_bytes: The kernel's own part of the workspace, which begins at GetUserWorkspace.
        lint: Refuse what the device's compiler would refuse, calls of host functions among it.
        isolate: Run the kernel in a child process. The buffers are changed only if the kernel comes to its end.
        timeout: Seconds after which an isolated kernel is ended.

    Returns:
        What the twin found; empty means clean.

    Raises:
        CompileError: The source does not compile.
        UserError: An argument is wrong, or lint refuses the kernel.
    """
    arrays = _checked_arrays(buffers)
    properties = soc_properties(soc)
    if task_type not in TASK_TYPES:
        raise UserError(f"task_type: got {task_type!r}, expected one of {', '.join(TASK_TYPES)}")
    if not isinstance(tiling, (bytes, bytearray)):
        raise UserError(f"tiling: got {type(tiling).__name__}, expected bytes")
    require_integers(
        blocks=(blocks, 1, 65535),
        tiling_key=(tiling_key, 0, 2**64 - 1),
        seed=(seed, 0, LARGEST_SEED),
        threads=(threads, 0, MOST_THREADS),
        workspace_bytes=(workspace_bytes, 0, LARGEST_BYTES),
    )
    require_seconds(timeout)
    runtime_library = build_runtime()
    library, text = _compile_kernel(source, int(properties["arch"]), lint, runtime_library)
    parameters = _parameters(text, symbol)
    if parameters is None:  # declared by a macro, or not at all
        parameters = _parameters(preprocessed(library.units[0]), symbol)
    pass_workspace, pass_tiling = _trailing_parameters(parameters, symbol, len(arrays))
    options = {"strict": int(bool(strict)), "seed": int(seed), "threads": int(threads)}
    job: Job = {
        "library": str(library.path),
        "symbol": symbol,
        "task_type": task_type,
        "soc": soc,
        "blocks": int(blocks),
        "tiling_key": int(tiling_key),
        "tiling": bytes(tiling).hex(),
        "sizes": [array.nbytes for array in arrays],
        "workspace_bytes": int(workspace_bytes),
        "pass_workspace": pass_workspace,
        "pass_tiling": pass_tiling,
    }
    if isolate:
        job |= {"runtime": str(runtime_library), "options": options}
        return run_isolated(job, arrays, range(len(arrays)), timeout).findings
    with one_at_a_time():
        runtime().set_options(**options)
        return findings_of([call_launch(runtime().library, job, [array.ctypes.data for array in arrays])])


def _checked_arrays(buffers: Sequence[Array] | Mapping[str, Array]) -> list[Array]:
    """The buffers of a kernel as arrays that it can change in place."""
    arrays = list(buffers.values()) if isinstance(buffers, Mapping) else list(buffers)
    for index, array in enumerate(arrays):
        if not isinstance(array, np.ndarray) or array.dtype.hasobject:
            raise UserError(f"buffers[{index}]: got {type(array).__name__}, expected a numpy array of numbers")
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise UserError(
                f"buffers[{index}]: got a strided or read-only array, expected a writeable C-contiguous one"
            )
    return arrays


def _compile_kernel(
    source: str | os.PathLike[str], arch: int, lint: bool, runtime_library: Path
) -> tuple[Library, str]:
    is_text = isinstance(source, str) and ("\n" in source or "{" in source)
    path = None if is_text else Path(source)
    if path is not None and not is_file(path):
        raise UserError(f"source: got {shown(str(source))}, expected a kernel source file or the text of one")
    text = read_source(path) if path else str(source)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"source: got {error}, expected a text in UTF-8") from error
    home = Project(BUILTIN_ROOT).build_dir / "twin" / "launch"
    name = hashlib.sha256(f"{path.resolve() if path else ''}\0{text}\0{arch}".encode()).hexdigest()[:16]
    with locked(home) as scratch:
        if path is None:
            path = home / f"{name}.cpp"
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
        if lint and (findings := lint_files(reachable(path, (), roots_of(path)))):
            raise UserError("\n".join(map(str, findings)))
        # A kernel may ignore its parameters; a lost address-space qualifier stays an error.
        flags = (*WARNINGS, "-Wno-unused", "-Wno-unused-parameter", *KERNEL_FLAGS, f"-I{INCLUDE}")
        unit = Unit(
            path.resolve(),
            home / f"{name}.o",
            flags,
            str(path),
            DEVICE_FIELDS,
            roots_of(path.resolve()),
            require_no_assembly if lint else None,
        )
        library = Library(
            home / f"{name}.so",
            (unit,),
            (f"-L{runtime_library.parent}", f"-Wl,-rpath,{runtime_library.parent}", "-lopforge_twin"),
        )
        build([library], scratch)
    if lint:
        require_device_code(library.path, str(path))
    return library, text


def _parameters(text: str, symbol: str) -> str | None:
    """The parameter list of a kernel function, in a source or in what the preprocessor made of it."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    is_global = r'(?:__global__|__attribute__\(\(visibility\("default"\)\)\))'
    found = re.search(rf"{is_global}[^;{{}}()]*\b{re.escape(symbol)}\s*\(([^)]*)\)", code)
    return found and found[1]


def _trailing_parameters(parameters: str | None, symbol: str, buffers: int) -> tuple[bool, bool]:
    """Whether the kernel takes workspace and tiling behind its buffers."""
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
