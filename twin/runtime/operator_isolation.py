"""Call an operator in a supervised child process, on arrays in memory that both processes share."""

from __future__ import annotations

import copy
import ctypes
import json
import mmap
import os
import pickle
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from opforge.codegen.errors import UserError
from opforge.codegen.spec.call import with_lists

from .acl import Array, Extent, RuntimeCallError, extent_of, runtime
from .aclnn_call import AclnnCall
from .isolation import run_isolated
from .kernel_process import end_at_exit, finish
from .results import AclnnError, FindingsError, Result


@dataclass(frozen=True)
class _View:
    """An array: the number of its buffer, and the positions of its elements in it; strides in bytes."""

    buffer: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class _Request:
    """The job of the child process: a call without its arrays, and the arrays."""

    call: AclnnCall
    inputs: Mapping[str, _View]
    outputs: Mapping[str, _View | None]
    opapi: Path
    options: Mapping[str, str | int]
    lead: int


def call_isolated(
    call: AclnnCall,
    opapi: Path,
    outputs: dict[str, Array | None],
    options: Mapping[str, str | int],
    lead: int,
    timeout: float,
) -> Result:
    """Execute a call in a child process, as `AclnnCall.execute`.

    Args:
        call: The call.
        opapi: The library of the function.
        outputs: Arrays to write to, which change only if the call completes.
        options: Of the runtime.
        lead: Elements before each tensor in its storage.
        timeout: Time limit in seconds.

    Raises:
        AclnnError: The function rejected the call.
        FindingsError: The kernel has findings, or ended or blocked the child.
        UserError: The child cannot run the call.
    """
    extents: list[Extent] = []

    def view(array: Array) -> _View:
        extents.append(extent_of(array))
        strides = tuple(stride * array.itemsize for stride in extents[-1].strides)
        return _View(len(extents) - 1, array.dtype, array.shape, strides)

    inputs = {name: view(array) for name, array in call.inputs.items()}
    first = len(extents)
    written = {name: array for name, array in outputs.items() if array is not None}
    views = {name: None if array is None else view(array) for name, array in outputs.items()}
    plain = copy.copy(call)
    plain.inputs = {}
    request = pickle.dumps(_Request(plain, inputs, views, opapi, options, lead))
    arrays = [*(extent.data for extent in extents), np.frombuffer(request, np.uint8)]
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; main()"
    job = {"symbol": call.spec.op_type, "command": [sys.executable, "-c", code]}
    ended = run_isolated(job, arrays, range(first, len(extents)), timeout)
    report = ended.report or {}
    if "refused" in report:
        raise AclnnError(*report["refused"])
    if "invalid" in report:
        raise UserError(report["invalid"])
    if ended.findings:
        raise FindingsError(ended.findings)
    for array, extent in zip(written.values(), extents[first:], strict=True):
        extent.write_back(array)
    return Result(with_lists(written), report["launches"])


def main() -> NoReturn:
    """Run the child: execute the request after the arrays, and report."""
    place = json.loads(sys.argv[-1])
    shared = mmap.mmap(place["buffers"], 0)
    *offsets, start = place["offsets"]
    request: _Request = pickle.loads(memoryview(shared)[start:])  # noqa: S301  # the parent wrote it

    def array_of(view: _View) -> Array:
        data = np.frombuffer(shared, np.uint8)[offsets[view.buffer] :]
        data = data[: data.size // view.dtype.itemsize * view.dtype.itemsize].view(view.dtype)
        return np.lib.stride_tricks.as_strided(data, view.shape, view.strides)

    end_at_exit()
    request.call.inputs = {name: array_of(view) for name, view in request.inputs.items()}
    outputs = {name: None if view is None else array_of(view) for name, view in request.outputs.items()}
    finish(place["answer"], _report(request, outputs))


def _report(request: _Request, outputs: dict[str, Array | None]) -> dict[str, Any]:
    try:
        runtime().set_options(**request.options)
        request.call.execute(ctypes.CDLL(os.fspath(request.opapi)), outputs, request.lead)
        return {"findings": [], "launches": runtime().take_reports()}
    except AclnnError as error:
        return {"findings": [], "refused": [error.function, error.status, error.message]}
    except FindingsError as error:
        return {"findings": [asdict(finding) for finding in error.findings]}
    except UserError as error:
        return {"findings": [], "invalid": str(error)}
    except (RuntimeCallError, MemoryError) as error:
        return {"error": str(error) or type(error).__name__}
