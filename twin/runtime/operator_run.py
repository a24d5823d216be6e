"""Run operators on the CPU twin with numpy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opforge.codegen.data.names import unknown_operator
from opforge.codegen.data.products import DEFAULT_SOC, soc_properties
from opforge.codegen.errors import UserError
from opforge.codegen.printing import shown
from opforge.codegen.project import Project, find_project
from opforge.codegen.spec.call import with_lists
from opforge.twin.build import build_project

from .acl import (
    LARGEST_BYTES,
    LARGEST_SEED,
    MOST_THREADS,
    level_name,
    one_at_a_time,
    require_integers,
    require_trace,
    runtime,
)
from .aclnn_call import AclnnCall
from .isolation import ISOLATED_SECONDS, require_seconds
from .operator_isolation import call_isolated
from .results import Result, warn

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec


@dataclass(frozen=True)
class _Built:
    spec: OpSpec
    opapi: Path


@lru_cache
def _specs(project: Project) -> dict[str, OpSpec]:
    from opforge.codegen.spec.loader import load_project

    return {spec.op_type: spec for spec in load_project(project)}


# Built operators of this process, or of its parent before the fork, by project, SoC and operator.
_builds: dict[tuple[Project, str, str], _Built] = {}


def prepare(op_types: Iterable[str], soc: str = DEFAULT_SOC, project: Project | None = None) -> None:
    """Compile operators for `run`; operators without a kernel are skipped.

    Raises:
        UserError: A name is unknown, or a source is wrong.
        MissingToolError: There is no compiler.
    """
    project = project or find_project()
    specs = _specs(project)
    wanted = [name for name in op_types if (project, soc, name) not in _builds]
    for name in wanted:
        if name not in specs:
            raise unknown_operator("op_type", name, specs, project.root)
    if not wanted:
        return
    operators = build_project(project, [soc], wanted, plugin=False)
    _builds.update({(project, soc, name): _Built(specs[name], operators.opapi) for name in operators.op_types})


def use_built(project: Project, soc: str, spec: OpSpec, vendor_dir: Path) -> None:
    """Let `run` call an operator with files that are already built in the folder of a package."""
    opapi = vendor_dir / "op_api" / "lib" / "libcust_opapi.so"
    _builds[project, soc, spec.op_type] = _Built(spec, opapi)


def _built(project: Project, soc: str, op_type: str) -> _Built:
    """Return one operator of a project; kernels of other operators are compiled when they are run."""
    prepare([op_type], soc, project)
    if found := _builds.get((project, soc, op_type)):
        return found
    raise UserError(f"{op_type}: {project.missing(_specs(project)[op_type].own_files)} is missing; write it")


@lru_cache
def _loaded(opapi: Path) -> ctypes.CDLL:
    runtime()
    return ctypes.CDLL(str(opapi))


def run(
    op_type: str,
    inputs: Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
    *,
    soc: str = DEFAULT_SOC,
    out_dtypes: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    function: str | None = None,
    strict: bool = True,
    level: str | None = None,
    seed: int = 0,
    threads: int = 0,
    storage_offset: int = 0,
    project: Project | None = None,
    isolate: bool = False,
    timeout: float = ISOLATED_SECONDS,
) -> Result:
    """Call the two aclnn functions of an operator on the twin.

    Args:
        op_type: Operator type, as in the spec.
        inputs: Arrays by parameter name; None or a missing key is a null pointer. Strides are kept. A list of tensors
            is a list of arrays, a scalar is a number, a list of scalars is a list of numbers.
        attrs: Attributes by name; missing ones have their defaults.
        soc: SoC that the twin emulates.
        out_dtypes: dtypes of outputs that differ from the inferred ones.
        outputs: Arrays (strided ones too) to write into, instead of fresh ones; None is a null pointer. A list of
            tensors is a list of arrays.
        function: aclnn function; default: the first one that has a parameter for every given attribute.
        strict: Find uninitialised reads and races (level strict); False selects level fast.
        level: Active checks: strict, device or fast (twin/check_levels.json); default: the level of `strict`.
        seed: Seed of the order of blocks and of undefined memory; 0 selects a new seed in each call.
        threads: Number of parallel blocks; 0 means one per core.
        storage_offset: Elements before each tensor in its storage: a tensor that is a part of another one can start at
            any multiple of its element size.
        project: The project of the operator; default: that of the current folder, otherwise the built-in operators.
        isolate: Call the function in a child process, which a kernel can end or block safely.
        timeout: Time limit of an isolated call in seconds; the start of the child takes one or two.

    Warns:
        TwinWarning: The kernel has a finding that is only a warning.

    Raises:
        AclnnError: The function returned a status other than 0.
        FindingsError: The kernel has findings, or ended or blocked its child process.
        UserError: A name, dtype or SoC is unknown, or the kernel is not written.
    """
    soc_properties(soc)
    require_integers(
        seed=(seed, 0, LARGEST_SEED),
        threads=(threads, 0, MOST_THREADS),
        storage_offset=(storage_offset, 0, LARGEST_BYTES),
    )
    for name, mapping in (("inputs", inputs), ("attrs", attrs), ("outputs", outputs), ("out_dtypes", out_dtypes)):
        is_mapping = isinstance(mapping, Mapping) or (mapping is None and name != "inputs")
        if not is_mapping or not all(isinstance(key, str) for key in mapping or ()):
            raise UserError(f"{name}: got {shown(mapping)}, expected a mapping from names to values")
    if not isinstance(project, Project | None):
        raise UserError(f"project: got {shown(project)}, expected an opforge.codegen.project.Project")
    require_seconds(timeout)
    require_trace()
    with one_at_a_time():
        built = _built(project or find_project(), soc, str(op_type))
        call = AclnnCall(built.spec, dict(inputs), dict(attrs or {}), function)
        arrays = call.output_arrays(out_dtypes or {}, outputs or {})
        name = level_name(strict, level)
        options: dict[str, str | int] = {"soc": soc, "level": name, "threads": threads, "seed": seed}
        options["unread"] = ",".join(tensor.ir_name for tensor in built.spec.inputs if tensor.may_be_unread)
        options["overwritten"] = ",".join(tensor.ir_name for tensor in built.spec.overwritten)
        if not isolate:
            opapi = _loaded(built.opapi)
            runtime().call("aclrtSetDevice", 0)  # contexts are per thread
            runtime().set_options(**options)
            runtime().take_reports()
            result = Result(with_lists(call.execute(opapi, arrays, storage_offset)), runtime().take_reports())
    if isolate:
        result = call_isolated(call, built.opapi, arrays, options, storage_offset, timeout)
    warn(result.warnings)
    return result
