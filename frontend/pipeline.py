"""Convert a model: run the passes in their order and measure each.

A pass is a function from one dataclass of `state.py` to another. The command runs `load` before this module, because a
file selects the limits of the process, and `save` after it, because `--verify` comes between.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from onnx import ModelProto

from .conversion import Conversion, Mapped, PassTimes
from .io.load import SourceModel
from .ir.graph import node_count
from .ir.op_names import OPFORGE_DOMAIN, check_domain
from .prefilter import prefilter
from .sources import load
from .state import Loaded, Options, Request, State

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec

_Steps = tuple[tuple[str, Callable[[State], State]], ...]


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
    check_domain(domain)
    times = PassTimes()
    request = Request(model, Options(patterns, lower_training, opset, domain, specs))
    loaded = times.run("prefilter", prefilter, times.run("load", load, request))
    if loaded.is_plain:
        count = node_count(loaded.view)
        return Conversion(loaded.view.model, [], [], count, count, changed=False, passes=times.entries())
    return _rewritten(loaded, times)


def _rewritten(loaded: Loaded, times: PassTimes) -> Conversion:
    """Run the passes after the prefilter. Their imports take longer than copying a model of 100,000 nodes."""
    from .emit.atc_compat import adapt
    from .emit.bodies import emit
    from .emit.fold import fold_constants
    from .emit.inline import inline
    from .emit.requested_opset import requested
    from .emit.rewrite import rewrite
    from .emit.sparse import dense
    from .emit.target_opset import newest
    from .infer_types import types
    from .match import match
    from .operators import operators

    def run(state: State, steps: _Steps) -> State:
        for name, step in steps:
            state = times.run(name, step, state)
        return state

    search: _Steps = (("types", types), ("match", match))
    # Constants are folded before the rewrite, which writes both at once, and bodies are emitted in the final opset.
    finish: _Steps = (
        ("fold", fold_constants),
        ("rewrite", rewrite),
        ("opset-after", newest),
        ("atc-compat", adapt),
        ("emit", emit),
    )
    state = times.run("operators", operators, loaded)
    state = run(state, (("sparse", dense), ("inline", inline), ("types", types), ("opset-before", requested), *search))
    while state.matched.lowering:
        # A rule may need a shape that is known only after earlier nodes are standard nodes.
        state = run(state, (("rewrite", rewrite), *search))
    if state.matched.placements or state.is_new:
        state = run(state, finish)
    return _conversion(state, times)


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
