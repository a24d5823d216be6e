"""Kernels of chains: a public function calls several operators, and a clone has kernels of some of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from case import Array, values
from cases.batch_norm_elemt_backward import PER_CHANNEL

from opforge.codegen.data.products import soc_properties

from .kernels import SOC, Problem, PublicKernel
from .tilings import even_blocks, repeated_columns

_CHIP = soc_properties(SOC)
_CHANNELS, _POINTS, _WORKERS = 8192, 64, 8
_TIME, _BATCH, _INPUTS, _OUTPUTS, _TAPS = 64, 8, 128, 96, 3


def _problem(call: str, dtypes: Mapping[str, str], buffers: tuple[Array, ...], result: Array, **facts: Any) -> Problem:
    """Return a call of a kernel; its reference is NumPy."""
    return Problem(
        "", "", {}, {}, buffers, note=call, dtypes=dtypes, results=(result,), **{"mode": 0, "key": 0} | facts
    )


def _casts() -> Iterator[Problem]:
    data = values((_CHANNELS * _POINTS,), "fp16")
    for source, target, call in (
        ("fp16", "fp32", "grad_out and input to fp32"),
        ("fp32", "fp16", "the result to fp16"),
    ):
        buffer = data.astype(np.float32) if source == "fp32" else data
        result = buffer.astype(np.float16 if target == "fp16" else np.float32)
        # Two input and two output buffers share the unified buffer: three units of 2 bytes for each element.
        tiling = even_blocks(data.size, 2, _CHIP.ub // 32 // 6, _CHIP.aiv)
        yield _problem(
            call,
            {"x": source, "y": target},
            (buffer,),
            result,
            key=1,
            cores=_CHIP.aiv,
            tiling=tiling,
            calls=2 if source == "fp16" else 1,
        )


def _broadcasts() -> Iterator[Problem]:
    data = values((_CHANNELS, 1), "fp32")
    cores, tiling = repeated_columns(_CHIP, _CHANNELS, _POINTS)
    result = np.repeat(data, _POINTS, 1)
    call = "values of channels to the shape of input"
    yield _problem(call, {"x": "fp32", "y": "fp32"}, (data,), result, cores=cores, tiling=tiling, calls=5)


def _divisions() -> Iterator[Problem]:
    sums, counts = values((_CHANNELS,), "fp32"), np.full(_CHANNELS, _WORKERS * _POINTS, np.float32)
    cores = min(_CHIP.aiv, -(-_CHANNELS // 1024))
    tiling = even_blocks(_CHANNELS, 4, _CHIP.ub // 32 // 3, cores) | {"bufferNum": 1}
    call = "sums / counter; the counter is repeated before"
    dtypes = {"x1": "fp32", "x2": "fp32", "y": "fp32"}
    yield _problem(call, dtypes, (sums, counts), sums / counts, mode=1, key=1, cores=cores, tiling=tiling, calls=2)


def _sums() -> Iterator[Problem]:
    counts = np.full((1, _WORKERS), _POINTS, np.float32)
    tiling = even_blocks(_WORKERS, 4, _CHIP.ub // 2 // 32 // 6, 1)
    tiling |= {"dataTypeId": 0, "rows": 1, "cols": _WORKERS, "axes": 1, "keepdims": 1}
    dtypes = {"x": "fp32", "z": "fp32"}
    yield _problem("sum of the counters", dtypes, (counts,), counts.sum(1, keepdims=True), cores=1, tiling=tiling)


def _transpositions() -> Iterator[Problem]:
    for name, shape, axes in (
        ("self", (_TIME, _BATCH, _OUTPUTS), (1, 2, 0)),
        ("input", (_TIME, _BATCH, _INPUTS), (1, 2, 0)),
        ("weight", (_TAPS, _INPUTS, _OUTPUTS), (2, 1, 0)),
        ("grad_input", (_BATCH, _INPUTS, _TIME), (2, 0, 1)),
        ("grad_weight", (_OUTPUTS, _INPUTS, _TAPS), (2, 1, 0)),
    ):
        data = values(shape, "fp16")
        tiling = even_blocks(data.size, 2, (_CHIP.ub - 512) // 32 // 2 // 13, _CHIP.aiv)
        tiling |= {"dims": len(shape), "totalnumber": data.size}
        tiling |= {f"shape.{axis}": shape[axis] if axis < len(shape) else 0 for axis in range(8)}
        buffers, result = (data, np.array(axes, np.int32)), np.ascontiguousarray(data.transpose(axes))
        dtypes = {"x": "fp16", "perm": "int32", "z": "fp16"}
        yield _problem(name, dtypes, buffers, result, cores=_CHIP.aiv, tiling=tiling)


def _batch_norm() -> tuple[str, str, dict[str, Array], dict[str, Any]]:
    shape = (1, _CHANNELS, 8, _POINTS // 8)
    inputs = {name: values(shape, "fp16", seed) for seed, name in enumerate(("grad_out", "input"))}
    inputs |= {name: values((_CHANNELS,), "fp32", seed) for seed, name in enumerate(PER_CHANNEL, 2)}
    return str(list(shape)), "fp16/fp32", inputs | {"counter": np.full(_WORKERS, _POINTS, np.int32)}, {}


def _conv_tbc() -> tuple[str, str, dict[str, Array], dict[str, Any]]:
    shapes = {
        "self": (_TIME, _BATCH, _OUTPUTS),
        "input": (_TIME, _BATCH, _INPUTS),
        "weight": (_TAPS, _INPUTS, _OUTPUTS),
        "bias": (_OUTPUTS,),
    }
    inputs = {name: values(shape, "fp16", seed) for seed, (name, shape) in enumerate(shapes.items())}
    name = f"[T,B,Cin,Cout,K]=[{_TIME},{_BATCH},{_INPUTS},{_OUTPUTS},{_TAPS}]"
    return name, "fp16", inputs, {"pad": _TAPS // 2, "cube_math_type": 0}


def _link(
    operator: str,
    folder: str,
    call: Callable[[], tuple[str, str, dict[str, Array], dict[str, Any]]],
    kernels: Callable[[], Iterator[Problem]],
) -> PublicKernel:
    def problems(kernel: PublicKernel, place: Path) -> Iterator[Problem]:
        del kernel, place
        name, dtype, inputs, attrs = call()
        for problem in kernels():
            yield replace(problem, name=name, dtype=dtype, inputs=inputs, attrs=attrs)

    header = f"op_kernel/{folder.rpartition('/')[2]}_tiling_data.h"
    return PublicKernel(operator, "ops-math", f"experimental/{folder}", header, problems, task_type="AIV_ONLY")


LINKS = (
    _link("BatchNormElemtBackward", "math/cast", _batch_norm, _casts),
    _link("BatchNormElemtBackward", "math/reduce_sum_v2", _batch_norm, _sums),
    _link("BatchNormElemtBackward", "math/real_div", _batch_norm, _divisions),
    _link("BatchNormElemtBackward", "conversion/broadcast_v2", _batch_norm, _broadcasts),
    _link("ConvTbcBackward", "conversion/transposev", _conv_tbc, _transpositions),
)
