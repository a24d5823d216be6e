"""Compile one kernel source and run it on numpy arrays, without a spec."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from opforge.codegen.data.products import DEFAULT_SOC, soc_properties
from opforge.codegen.errors import UserError
from opforge.codegen.printing import shown
from opforge.codegen.spec.field_types import TASK_TYPES

from .acl import (
    LARGEST_BYTES,
    LARGEST_SEED,
    MOST_THREADS,
    Array,
    level_name,
    one_at_a_time,
    require_integers,
    require_trace,
    runtime,
)
from .isolation import ISOLATED_SECONDS, require_seconds, run_isolated
from .kernel_process import Job, call_launch
from .kernel_source import compile_kernel
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
    level: str | None = None,
    seed: int = 0,
    threads: int = 0,
    workspace_bytes: int = 16 << 20,
    lint: bool = True,
    isolate: bool = False,
    timeout: float = ISOLATED_SECONDS,
) -> list[Finding]:
    """Lint a kernel, compile it for the twin and run it.

    Without `isolate`, a kernel that corrupts memory or exits ends the calling process. With `isolate`, it runs in a
    child process, and each of these is a finding.

    Args:
        source: A kernel source: a file, or the text itself.
        symbol: The kernel function. Its parameters are the buffers, then, if it has them, workspace and tiling.
        blocks: Cores to launch; for a mixed task type, cube cores, each with its vector cores.
        buffers: Arrays, changed in place, in the order of the kernel's parameters.
        tiling: The tiling data.
        tiling_key: Selects the branch of TILING_KEY_IS.
        soc: SoC that the twin emulates.
        task_type: Task type of a kernel that declares none: AIV_ONLY, MIX_AIC_1_2, ...
        strict: Find uninitialised reads and races (level strict); False selects level fast.
        level: Active checks: strict, device or fast (twin/check_levels.json); default: the level of `strict`.
        seed: Seed of the order of blocks and of undefined memory; 0 selects a new seed in each call.
        threads: Number of parallel blocks; 0 means one per core.
        workspace_bytes: The size of the user part of the workspace, which begins at GetUserWorkspace.
        lint: Reject code that the device compiler would reject, including calls of host functions.
        isolate: Run the kernel in a child process. The buffers are changed only if the kernel completes.
        timeout: Time limit of an isolated kernel in seconds.

    Returns:
        The findings; an empty list means clean.

    Raises:
        CompileError: The source does not compile.
        UserError: An argument is wrong, or lint rejects the kernel.
    """
    arrays = _checked_arrays(buffers)
    _check(symbol, task_type, tiling)
    require_integers(
        blocks=(blocks, 1, 65535),
        tiling_key=(tiling_key, 0, 2**64 - 1),
        seed=(seed, 0, LARGEST_SEED),
        threads=(threads, 0, MOST_THREADS),
        workspace_bytes=(workspace_bytes, 0, LARGEST_BYTES),
    )
    require_seconds(timeout)
    require_trace()
    name = level_name(strict, level)
    kernel = compile_kernel(source, symbol, len(arrays), soc_properties(soc).arch, lint=lint)
    job: Job = {
        **kernel,
        "symbol": symbol,
        "task_type": task_type,
        "soc": soc,
        "blocks": int(blocks),
        "tiling_key": int(tiling_key),
        "tiling": bytes(tiling).hex(),
        "sizes": [array.nbytes for array in arrays],
        "workspace_bytes": int(workspace_bytes),
        "options": {"level": name, "seed": int(seed), "threads": int(threads)},
    }
    if isolate:
        return run_isolated(job, arrays, range(len(arrays)), timeout).findings
    with one_at_a_time():
        runtime().set_options(**job["options"])
        return findings_of([call_launch(runtime().library, job, [array.ctypes.data for array in arrays])])


def _check(symbol: object, task_type: object, tiling: object) -> None:
    if not isinstance(symbol, str):
        raise UserError(
            f"symbol: got {type(symbol).__name__}, expected the name of a __global__ function of the source"
        )
    if not isinstance(task_type, str) or task_type not in TASK_TYPES:
        raise UserError(f"task_type: got {shown(task_type)}, expected one of {', '.join(TASK_TYPES)}")
    if not isinstance(tiling, (bytes, bytearray)):
        raise UserError(f"tiling: got {type(tiling).__name__}, expected bytes")


def _checked_arrays(buffers: Sequence[Array] | Mapping[str, Array]) -> list[Array]:
    """Return the buffers of a kernel as arrays that it can change in place."""
    if not isinstance(buffers, Iterable):
        raise UserError(f"buffers: got {type(buffers).__name__}, expected numpy arrays")
    arrays = list(buffers.values()) if isinstance(buffers, Mapping) else list(buffers)
    for index, array in enumerate(arrays):
        if not isinstance(array, np.ndarray) or array.dtype.hasobject:
            raise UserError(f"buffers[{index}]: got {type(array).__name__}, expected a numpy array of numbers")
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise UserError(
                f"buffers[{index}]: got a strided or read-only array, expected a writeable C-contiguous one"
            )
    return arrays
