"""The public kernels that are compared, and their problems: inputs, tiling data, tiling key, cores and workspace."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from case import Array, values
from cases.embedding_dense_backward import uniform, zipf
from cases.nsa_compress_grad import equal, skewed

from opforge.codegen.data.products import soc_properties
from opforge.codegen.errors import UserError
from opforge.codegen.printing import path_text

from .tilings import Tiling, embedding_dense_grad, fields_of, nsa_compress_grad, text_of

# The cases of the unit tests of the clones are for chips with 40 vector cores.
SOC = "Ascend910B3"
MEBIBYTE = 1 << 20
_MOST_ELEMENTS, _CORES = 1 << 28, soc_properties(SOC).aiv


@dataclass(frozen=True)
class Problem:
    """One call of the operator of this project and the launch of the public kernel that computes the same.

    Attributes:
        name: Shapes and situation.
        dtype: Short name of the dtype.
        inputs: Inputs of the operator of this project.
        attrs: Its attributes.
        buffers: Inputs of the public kernel, in order.
        key: Tiling key.
        cores: Cores of the launch.
        tiling: Tiling data by field.
        workspace: Bytes of the workspace.
        note: What the public function does in addition and the launch does not contain; for a kernel of a chain, its
            inputs.
        dtypes: Dtypes of the parameters of a kernel of a chain.
        results: Expected outputs of a kernel of a chain; otherwise those of the operator of this project.
        mode: The argument of a kernel that is a template.
        calls: How often a public function calls a kernel of a chain.
    """

    name: str
    dtype: str
    inputs: Mapping[str, Array]
    attrs: Mapping[str, Any]
    buffers: tuple[Array, ...]
    key: int
    cores: int
    tiling: Tiling
    workspace: int = 64 * MEBIBYTE
    note: str = ""
    dtypes: Mapping[str, str] = field(default_factory=dict)
    results: tuple[Array, ...] = ()
    mode: int | None = None
    calls: int = 1


@dataclass(frozen=True)
class PublicKernel:
    """A public kernel and the operator of this project that computes the same.

    Attributes:
        operator: The operator of this project.
        clone: The option of the clone.
        folder: The operator in the clone.
        header: The file with the fields of the tiling data.
        problems: Yields the problems of a clone; None: the kernel does not run.
        typed: Inputs and outputs of the dtype of a problem, in the definition of the public operator.
        task_type: Cores of the launch.
        reason: Why it does not run.
        outputs: Outputs of the operator of this project, in the order of the outputs of the public kernel.
    """

    operator: str
    clone: str
    folder: str
    header: str = ""
    problems: Callable[[PublicKernel, Path], Iterator[Problem]] | None = None
    typed: tuple[str, ...] = ()
    task_type: str = "MIX_AIV_1_0"
    reason: str = ""
    outputs: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        """Return the name of the kernel function and its file."""
        return self.folder.rpartition("/")[2]


UNIT_TESTS = "tests/ut/op_kernel/grouped_bias_add_grad_data/gen_tiling.py"


def listed_tiling(kernel: PublicKernel, case: str, folder: Path, path: str = UNIT_TESTS) -> Tiling:
    """Return the tiling data of a case of a unit test by name; the file is parsed, not executed."""
    found = re.search(rf"^{case}\s*=\s*(\[[^\]]*\])", text_of(folder / path), re.MULTILINE)
    try:
        numbers = ast.literal_eval(found[1]) if found else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        numbers = None
    names = [name for _, name in fields_of(folder / kernel.header)]
    if not isinstance(numbers, list) or len(numbers) != len(names) or not all(isinstance(n, int) for n in numbers):
        raise UserError(f"{path_text(folder / path)}: {case}: got no list of {len(names)} integers; use another commit")
    return dict(zip(names, numbers, strict=True))


def grouped_bias_problems(kernel: PublicKernel, folder: Path) -> Iterator[Problem]:
    """Yield cases of the unit test of GroupedBiasAddGrad, with equal groups."""
    source = text_of(folder / "op_kernel" / f"{kernel.name}.cpp")
    for case, macro, dtype in (
        ("case5_params", "TWO_DIMS_HALF", "fp16"),
        ("case7_params", "TWO_DIMS_FLOAT", "fp32"),
        ("case14_params", "TWO_DIMS_HALF_PERF", "fp16"),
        ("case15_params", "TWO_DIMS_BFLOAT16_PERF", "bf16"),
    ):
        key = re.search(rf"^#define\s+{macro}\s+(\d+)\s*$", source, re.MULTILINE)
        if key is None:
            raise UserError(f"{kernel.name}: got no tiling key {macro} in the kernel of the clone; use another commit")
        tiling = listed_tiling(kernel, case, folder)
        sizes = rows, groups, columns = tiling["dimGB"], tiling["dimG"], tiling["dimH"]
        if (
            min(sizes) < 1
            or groups > rows
            or rows * columns > _MOST_ELEMENTS
            or not 1 <= tiling["usedCoreNum"] <= _CORES
        ):
            raise UserError(
                f"{path_text(folder / UNIT_TESTS)}: {case}: got {tiling}, expected a problem of at most"
                f" {_MOST_ELEMENTS} elements on 1 to {_CORES} cores; use another commit"
            )
        ends = (np.arange(1, groups + 1) * rows // groups).astype(np.int32)
        inputs = {"grad_y": values((rows, columns), dtype), "group_idx": ends}
        name = f"[{rows}, {columns}], {groups} groups"
        yield Problem(name, dtype, inputs, {}, tuple(inputs.values()), int(key[1]), tiling["usedCoreNum"], tiling)


def embedding_problems(kernel: PublicKernel, folder: Path) -> Iterator[Problem]:
    """Yield problems of EmbeddingDenseGradV2; without the small key, the kernel receives sorted indices."""
    del kernel, folder
    soc = soc_properties(SOC)
    for rows, width, table, dtype, draw, is_scaled in (
        (16384, 64, 8000, "fp32", uniform, False),
        (16384, 64, 8000, "fp16", uniform, False),
        (16384, 64, 8000, "fp16", zipf, False),
        (16384, 256, 8000, "fp16", uniform, False),
        (8192, 256, 4000, "fp32", uniform, True),
        (8192, 1024, 4000, "fp32", uniform, False),
        (8192, 1024, 4000, "fp16", zipf, False),
    ):
        grad, indices = values((rows, width), dtype), draw(rows, table).astype(np.int32)
        key, cores, tiling = embedding_dense_grad(soc, rows, width, table, grad.itemsize, is_scaled=is_scaled)
        is_sorted = key < 100
        order = np.argsort(indices, kind="stable").astype(np.int32) if is_sorted else indices
        yield Problem(
            f"[{rows}, {width}] to {table}, {'Zipf' if draw is zipf else 'uniform'}{', scaled' if is_scaled else ''}",
            dtype,
            {"grad": grad, "indices": indices},
            {"num_weights": table, "scale_grad_by_freq": is_scaled},
            (grad, indices[order] if is_sorted else indices, order),
            key,
            cores,
            tiling,
            16 * MEBIBYTE + 4 * (table * width + 2 * cores * width + table + 4096),
            "without sorting the indices" if is_sorted else "",
        )


def nsa_problems(kernel: PublicKernel, folder: Path) -> Iterator[Problem]:
    """Yield problems of NsaCompressGrad: overlaps of windows, widths, and lengths of sequences."""
    del kernel, folder
    soc = soc_properties(SOC)
    for rows, heads, width, window, count, dtype in (
        (2048, 64, 128, (32, 16), 1, "fp16"),
        (2048, 64, 128, (32, 16), 64, "bf16"),
        (2048, 32, 192, (64, 16), 1, "bf16"),
        (2048, 32, 256, (64, 16), 1, "fp16"),
        (4096, 8, 128, (32, 16), 1, "fp16"),
    ):
        ends = (equal if count == 1 else skewed)(rows, count)
        lengths = np.diff(ends, prepend=0)
        windows = int(np.maximum((lengths - window[0] + window[1]) // window[1], 0).sum())
        inputs = {
            "output_grad": values((windows, heads, width), dtype, 1),
            "input": values((rows, heads, width), dtype),
            "weight": values((window[0], heads), dtype, 2),
            "act_seq_len": ends,
        }
        key, cores, tiling = nsa_compress_grad(soc, (windows, heads, width), rows, count, window)
        yield Problem(
            f"T={rows} N={heads} D={width} W/S={window[0]}/{window[1]}, {count} sequence{'s' if count > 1 else ''}",
            dtype,
            inputs,
            {"compress_block_size": window[0], "compress_stride": window[1], "act_seq_len_type": 0},
            tuple(inputs.values()),
            key,
            cores,
            tiling,
            17 * MEBIBYTE + 4 * heads * (window[0] * cores + rows * width),
        )


KERNELS = (
    PublicKernel(
        "GroupedBiasAddGrad",
        "ops-math",
        "math/grouped_bias_add_grad",
        "op_host/arch32/grouped_bias_add_grad_tiling_def.h",
        grouped_bias_problems,
        outputs=("grad_bias",),
    ),
    PublicKernel(
        "EmbeddingDenseBackward",
        "ops-nn",
        "index/embedding_dense_grad_v2",
        "op_host/embedding_dense_grad_v2_tiling.h",
        embedding_problems,
        ("grad",),
        "AIV_ONLY",
        outputs=("grad_weight",),
    ),
    PublicKernel(
        "NsaCompressGrad",
        "ops-transformer",
        "attention/nsa_compress_grad",
        "op_host/nsa_compress_grad_tiling.h",
        nsa_problems,
        ("outputGrad",),
        outputs=("input_grad", "weight_grad"),
    ),
    PublicKernel(
        "BatchNormElemtBackward",
        "ops-nn",
        "norm/sync_batch_norm_backward_elemt",
        reason="its OpDef has only the configuration ascend950, and its kernel includes headers of atvoss, which are "
        "not in the clones; the table has the other kernels of its function",
    ),
    PublicKernel(
        "ConvTbcBackward",
        "ops-nn",
        "conv/convolution_backward",
        reason="its function calls Conv2DBackpropInput and Conv2DBackpropFilter, whose kernels are not in the clones; "
        "the table has the transpositions of its function",
    ),
)
