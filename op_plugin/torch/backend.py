"""Define the backend `opforge` of torch.compile: rewrite the joint graph and pass it to another backend."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import fx

from opforge.codegen.errors import UserError
from opforge.codegen.files import json_file, write_files
from opforge.codegen.printing import shown
from opforge.codegen.spec.model import OpSpec
from opforge.frontend.rules.names.torch_forms import TorchForm

from .graph_rewrite import Rewritten, rewrite
from .register import SPECS, operator_call, torch_functions

LOG = logging.getLogger("opforge.torch")
_OPTIONS = ("rest", "patterns", "report")
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
# The reports of the graphs since the start of the process or the last call of `take_reports`.
_reports: list[Rewritten] = []


def take_reports() -> list[Rewritten]:
    """Return the reports of the graphs that were compiled since the last call."""
    taken = list(_reports)
    _reports.clear()
    return taken


def opforge(graph_module: fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Any:
    """Compile a graph: replace functions of PyTorch by operators, and compile the result with another backend.

    Args:
        graph_module: The graph of Dynamo.
        inputs: Its inputs.
        options: `rest`: "inductor" (default), "eager", "npugraph_ex" or "torchair"; `patterns`: also match sums over
            dims and scatters that add; `report`: a JSON file for the report of each graph.

    Raises:
        UserError: An option is wrong.
    """
    options = dict(options or {})
    if unknown := sorted(set(options) - set(_OPTIONS)):
        raise UserError(f"backend opforge: got option {shown(unknown[0])}, expected {', '.join(_OPTIONS)}; correct it")
    rest, patterns, report = options.get("rest", "inductor"), options.get("patterns", False), options.get("report")
    if not isinstance(rest, str) or rest not in _RESTS:
        raise UserError(f"backend opforge: rest: got {shown(rest)}, expected {', '.join(_RESTS)}; correct it")
    if not isinstance(patterns, bool):
        raise UserError(f"backend opforge: patterns: got {shown(patterns)}, expected True or False; correct it")
    if report is not None and not (isinstance(report, (str, Path)) and str(report)):
        raise UserError(f"backend opforge: report: got {shown(report)}, expected the path of a JSON file; correct it")
    with _whole_gradients():
        return _RESTS[rest](graph_module, inputs, _Pass(patterns=patterns, path=Path(report) if report else None))


class _Pass:
    """Rewrites a graph and keeps the report."""

    def __init__(self, *, patterns: bool, path: Path | None) -> None:
        self._patterns = patterns
        self._path = path
        self._reports: list[dict[str, Any]] = []

    def __call__(self, graph: Any) -> None:
        done = rewrite(graph, patterns=self._patterns)
        _reports.append(done)
        self._reports.append(done.report())
        for entry in done.mapped:
            LOG.info("%s: mapped to %s by %s", entry.node, entry.op, entry.rule)
        for left in done.left:
            LOG.info("%s: not mapped to %s: %s", left.node, left.candidate, left.reason)
        if self._path:
            write_files([json_file(self._path, {"graphs": self._reports})])

    @property
    def key(self) -> str:
        """The part of cache keys that identifies this pass."""
        specs = json.dumps([spec.model_dump(mode="json") for spec in SPECS.values()], sort_keys=True)
        return f"opforge-{self._patterns}-{hashlib.sha256(specs.encode()).hexdigest()}"


def _targets() -> Iterator[tuple[OpSpec, Any, TorchForm]]:
    """Yield the functions of PyTorch that specs name."""
    return ((spec, target, form) for spec in SPECS.values() for target, form in torch_functions(spec))


@contextmanager
def _whole_gradients() -> Iterator[None]:
    """Trace composite functions that specs name as one operator; by default, PyTorch splits them."""
    changed = []
    for spec, target, form in _targets():
        key = "CompositeImplicitAutograd"
        if torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), key) and _COMPOSITE not in target.py_kernels:
            target.py_impl(_COMPOSITE)(_operator_or_parts(spec, target, form))
            changed.append(target)
    try:
        yield
    finally:
        for target in changed:
            target.py_kernels.pop(_COMPOSITE)
            target._dispatch_cache.clear()


def _operator_or_parts(spec: OpSpec, target: Any, form: TorchForm) -> Callable[..., Any]:
    operator = operator_call(spec, form)

    def call(*given: Any, **named: Any) -> Any:
        try:
            return operator(*given, **named)
        except RuntimeError as error:
            LOG.info("%s: not mapped to %s: %s", target, spec.op_type, error)
            return target._op_dk(_COMPOSITE, *given, **named)

    return call


def _without_targets(table: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return decompositions without those of functions that specs name."""
    ours = {target for _, target, _ in _targets()}
    return {key: value for key, value in table.items() if key not in ours}


def _inductor(graph_module: fx.GraphModule, inputs: Sequence[Any], change: _Pass) -> Any:
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.custom_graph_pass import CustomGraphPass
    from torch._inductor.decomposition import select_decomp_table

    class JointPass(CustomGraphPass):  # type: ignore[misc]  # PyTorch is not analyzed
        def __call__(self, graph: Any) -> None:
            change(graph)

        def uuid(self) -> Any:
            return change.key

    patches = {"joint_custom_pre_pass": JointPass()}
    return compile_fx(
        graph_module, inputs, decompositions=_without_targets(select_decomp_table()), config_patches=patches
    )


def _eager(graph_module: fx.GraphModule, inputs: Sequence[Any], change: _Pass) -> Any:
    return _aot(graph_module, inputs, change, lambda inner, _inputs: inner.forward)


def _torchair(graph_module: fx.GraphModule, inputs: Sequence[Any], change: _Pass) -> Any:
    """Compile the rest with torchair; not run without an NPU."""
    try:
        import torchair
    except ImportError as error:
        raise UserError(f"rest: got 'torchair', expected an installed torchair ({error}); install torch_npu") from error
    return _aot(graph_module, inputs, change, torchair.get_compiler(torchair.CompilerConfig()))


def _npugraph_ex(graph_module: fx.GraphModule, inputs: Sequence[Any], change: _Pass) -> Any:
    """Compile the rest with npugraph_ex; not run without an NPU."""
    module = getattr(getattr(torch, "npu", None), "npugraph_ex", None)
    if module is None:
        raise UserError("rest: got 'npugraph_ex', expected torch_npu with npugraph_ex; install it")
    return _aot(graph_module, inputs, change, lambda inner, given: module.compile_fx(inner, given, {}))


def _aot(
    graph_module: fx.GraphModule, inputs: Sequence[Any], change: _Pass, compiler: Callable[[Any, Any], Any]
) -> Any:
    """Compile with AOTAutograd and a compiler of forward and backward graphs."""
    from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd

    def partition(joint: Any, *arguments: Any, **options: Any) -> Any:
        change(joint)
        return min_cut_rematerialization_partition(joint, *arguments, **options)

    def compiled(inner: Any, given: Any) -> Any:
        return make_boxed_func(compiler(inner, given))

    def inference(inner: Any, given: Any) -> Any:
        change(inner)
        return compiled(inner, given)

    backend = aot_autograd(
        fw_compiler=compiled,
        bw_compiler=compiled,
        inference_compiler=inference,
        partition_fn=partition,
        decompositions={},
    )
    return backend(graph_module, inputs)


_RESTS: Mapping[str, Callable[[fx.GraphModule, Sequence[Any], _Pass], Any]] = {
    "inductor": _inductor,
    "eager": _eager,
    "npugraph_ex": _npugraph_ex,
    "torchair": _torchair,
}
