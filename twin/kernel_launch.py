"""Compile one kernel source and run it on numpy arrays, without a spec."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from ctypes import c_uint64, c_void_p
from pathlib import Path

import numpy as np

from opforge.codegen.errors import UserError
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.codegen.spec.field_types import TASK_TYPES
from opforge.codegen.spec.products import DEFAULT_SOC

from .acl import Array, one_at_a_time, runtime
from .build import INCLUDE, build_runtime, soc_properties
from .compiler import DEVICE_FIELDS, KERNEL_FLAGS, WARNINGS, Library, Unit, build, locked, preprocessed
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
) -> list[Finding]:
    """Compile a kernel for the twin and run it.

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

    Returns:
        What the twin found; empty means clean.

    Raises:
        CompileError: The source does not compile.
        UserError: An argument is wrong.
    """
    properties = soc_properties(soc)
    if task_type not in TASK_TYPES:
        raise UserError(f"task_type: got {task_type!r}, expected one of {', '.join(TASK_TYPES)}")
    arrays = list(buffers.values()) if isinstance(buffers, Mapping) else list(buffers)
    for index, array in enumerate(arrays):
        if not isinstance(array, np.ndarray) or array.dtype.hasobject:
            raise UserError(f"buffers[{index}]: got {type(array).__name__}, expected a numpy array of numbers")
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise UserError(
                f"buffers[{index}]: got a strided or read-only array, expected a writeable C-contiguous one"
            )
    if not isinstance(tiling, (bytes, bytearray)):
        raise UserError(f"tiling: got {type(tiling).__name__}, expected bytes")
    for name, number, limit in (("blocks", blocks, 65535), ("tiling_key", tiling_key, 2**64 - 1)):
        least = 1 if name == "blocks" else 0
        if not isinstance(number, int) or not least <= number <= limit:
            raise UserError(f"{name}: got {number!r}, expected an integer from {least} to {limit}")
    library, text = _compile_kernel(source, int(properties["arch"]))
    parameters = _parameters(text, symbol)
    if parameters is None:  # declared by a macro, or not at all
        parameters = _parameters(preprocessed(library.units[0]), symbol)
    pass_workspace, pass_tiling = _trailing_parameters(parameters, symbol, len(arrays))
    pointers = (c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    sizes = (c_uint64 * len(arrays))(*(array.nbytes for array in arrays))
    with one_at_a_time:
        runtime().set_options(strict=int(strict), seed=seed, threads=threads)
        answer = runtime().library.opforgeTwinLaunch(
            str(library.path).encode(),
            symbol.encode(),
            task_type.encode(),
            soc.encode(),
            blocks,
            tiling_key,
            bytes(tiling),
            len(tiling),
            pointers,
            sizes,
            len(arrays),
            workspace_bytes,
            int(pass_workspace),
            int(pass_tiling),
        )
    return findings_of([json.loads(answer)])


def _compile_kernel(source: str | os.PathLike[str], arch: int) -> tuple[Library, str]:
    is_text = isinstance(source, str) and ("\n" in source or "{" in source)
    path = None if is_text else Path(source)
    if path is not None and not path.is_file():
        raise UserError(f"source: got {str(source)!r}, expected a kernel source file or the text of one")
    text = path.read_text(encoding="utf-8") if path else str(source)
    runtime_library = build_runtime()
    home = Project(BUILTIN_ROOT).build_dir / "twin" / "launch"
    name = hashlib.sha256(f"{path.resolve() if path else ''}\0{text}\0{arch}".encode()).hexdigest()[:16]
    with locked(home):
        if path is None:
            path = home / f"{name}.cpp"
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
        # A kernel may ignore its parameters; a lost address-space qualifier stays an error.
        flags = (*WARNINGS, "-Wno-unused", "-Wno-unused-parameter", *KERNEL_FLAGS, f"-I{INCLUDE}")
        unit = Unit(path.resolve(), home / f"{name}.o", flags, str(path), DEVICE_FIELDS)
        library = Library(
            home / f"{name}.so",
            (unit,),
            (f"-L{runtime_library.parent}", f"-Wl,-rpath,{runtime_library.parent}", "-lopforge_twin"),
        )
        build([library])
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
