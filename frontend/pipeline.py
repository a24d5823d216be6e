"""Convert a model: run the passes in their order and measure each.

Reading and writing files are no passes: `commands.py` measures them as load and save, and leaves out this module if the
prefilter says that no rule applies.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from onnx import ModelProto

from opforge.codegen.spec.model import OpSpec
from opforge.frontend.emit.atc_compat import adapt
from opforge.frontend.emit.bodies import emit
from opforge.frontend.emit.fold import fold_constants
from opforge.frontend.emit.inline import inline
from opforge.frontend.emit.rewrite import rewrite
from opforge.frontend.emit.sparse import dense
from opforge.frontend.emit.target_opset import check_opset, newest, requested
from opforge.frontend.io.load import SourceModel, check_versions, load_model
from opforge.frontend.ir.graph import GraphView, node_count
from opforge.frontend.ir.op_names import OPFORGE_DOMAIN, onnx_key
from opforge.frontend.rules.context import Context

from .conversion import Conversion, Mapped, PassTimes
from .infer_types import types
from .match import match
from .operators import project_specs
from .state import Options, State

Pass = tuple[str, Callable[[State], State]]
TYPES: Pass = ("types", types)
PREPARE: tuple[Pass, ...] = (("sparse", dense), ("inline", inline), TYPES, ("opset-before", requested))
SEARCH: tuple[Pass, ...] = (TYPES, ("match", match))
REWRITE: Pass = ("rewrite", rewrite)
# Constants are folded before the rewrite, which writes both in one go, and bodies are emitted in the final opset.
FINISH: tuple[Pass, ...] = (
    ("fold", fold_constants),
    REWRITE,
    ("opset-after", newest),
    ("atc-compat", adapt),
    ("emit", emit),
)


def convert(
    model: ModelProto | SourceModel | str | os.PathLike[str],
    *,
    patterns: bool = False,
    lower_training: bool = False,
    opset: int | None = None,
    domain: str = OPFORGE_DOMAIN,
    specs: Sequence[OpSpec] | None = None,
) -> Conversion:
    """Rewrite nodes of a model as custom operators.

    Args:
        model: A model, which is not changed, or the path of a model.
        patterns: Also match patterns of standard nodes that compute a custom operator.
        lower_training: Also rewrite training nodes of onnxruntime as custom operators and standard operators. The new
            value of an overwritten input becomes an output of the graph and replaces the flag of the node.
        opset: Version of ai.onnx for the result. None selects 18, the newest version in ATC, if a node is rewritten
            and all nodes exist in it; otherwise, a warning names a node that does not.
        domain: Domain of custom nodes in the result: "opforge", with function bodies, "npu" or "ai.onnx".
        specs: The operators; default: those of the project.

    Raises:
        UserError: The model, the domain or the opset is wrong.
    """
    specs = project_specs() if specs is None else specs
    for spec in specs:
        onnx_key(spec, domain)
    check_opset(opset)
    options = Options(patterns, lower_training, opset, domain, {spec.op_type: spec for spec in specs})
    times = PassTimes()
    with times.measure("load"):
        state = _loaded(model, options)

    def run(state: State, *steps: Pass) -> State:
        for name, step in steps:
            with times.measure(name):
                state = step(state)
        return state

    state = run(state, *PREPARE, *SEARCH)
    while state.matched.lowering:
        # A rule may need a shape that is known only once the nodes before it are standard nodes.
        state = run(state, REWRITE, *SEARCH)
    if state.matched.placements or state.is_new:
        state = run(state, *FINISH)
    return _conversion(state, times)


def _loaded(model: ModelProto | SourceModel | str | os.PathLike[str], options: Options) -> State:
    """Read and index a model."""
    if isinstance(model, ModelProto):
        check_versions(model, "model")
        view, folder = GraphView(model), None
    else:
        loaded = model if isinstance(model, SourceModel) else load_model(Path(model))
        view, folder = loaded.view, loaded.path.parent
    return State(options, view, view, Context(view, options.specs, folder))


def _conversion(state: State, times: PassTimes) -> Conversion:
    """Return the result of all passes."""
    source, result, names = state.source.model, state.view.model, state.rewritten.names
    mapped = [
        Mapped(
            name,
            placement.call.spec.op_type,
            placement.rule,
            [output for output in placement.call.outputs if output],
            dict(placement.call.attrs),
            [value or None for value in placement.call.inputs],
        )
        for name, placement in zip(names, state.matched.placements, strict=True)
    ]
    # A comparison of large models is slow, and only needed if all nodes were custom nodes before.
    changed = state.is_new or (bool(mapped) and result != source)
    is_rewritten = bool(mapped) or state.is_new
    return Conversion(
        result if changed else source,
        mapped,
        list(state.matched.left),
        node_count(state.source),
        node_count(state.view if is_rewritten else state.source),
        changed,
        list(state.without_body),
        list(state.warnings) if is_rewritten else [],
        list(state.rewritten.lowered),
        times.entries(),
    )
