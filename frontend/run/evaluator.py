"""Correct onnx's reference evaluator: errors name the node, and random nodes are reproducible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
from onnx import NodeProto
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_conv_transpose import ConvTranspose as ReferenceConvTranspose
from onnx.reference.ops.op_cum_sum import CumSum as ReferenceCumSum
from onnx.reference.ops.op_loop import Loop as ReferenceLoop
from onnx.reference.ops.op_max_pool import MaxPool as ReferenceMaxPool

from opforge.codegen.printing import first_line, shown
from opforge.frontend.io.arrays import Array
from opforge.frontend.ir.scope import key_text, node_name
from opforge.frontend.limits import failed_allocation

# An iteration takes at least some microseconds; a model with more iterations is not meant for this evaluator.
_MAX_TURNS = 1_000_000
# Errors of the evaluator for a wrong model or wrong inputs.
MODEL_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)


class NodeError(RuntimeError):
    """The reason why a model cannot be executed, in one line with the node."""


def node_label(node: NodeProto) -> str:
    """Return a node in messages, by its name or that of its first output."""
    return f"node {shown(node_name(node))} ({key_text(node)})"


def evaluator(implementations: Sequence[type[OpRun]]) -> type[ReferenceEvaluator]:
    """Return an evaluator with additional operators, also in subgraphs and in bodies of local functions.

    It raises NodeError, and errors of the implementations that are not built-in ones.
    """

    class Evaluator(ReferenceEvaluator):
        def __init__(self, proto: Any, **options: Any) -> None:
            known = [*implementations, ConvTranspose, CumSum, Loop, MaxPool]
            super().__init__(proto, **{**options, "new_ops": known})
            for node in self.rt_nodes_:
                if getattr(node, "seed", 0) is None:
                    # Random nodes give the same values in every run, and before and after a conversion.
                    node.seed = crc32(node.onnx_node.output[0].encode())
                node.run = partial(_named, node.onnx_node, node.run)

        def _load_impl(self, node: NodeProto, *arguments: Any) -> Any:
            return _named(node, super()._load_impl, node, *arguments)

    return Evaluator


def follow(nodes: Sequence[OpRun], done: Callable[[int], object]) -> None:
    """Call `done` with the number of finished nodes after each node."""

    def then(run: Callable[..., Any], number: int, *values: Any, **options: Any) -> Any:
        results = run(*values, **options)
        done(number)
        return results

    for number, node in enumerate(nodes, 1):
        node.run = partial(then, node.run, number)  # type: ignore[method-assign]


def _named(node: NodeProto, run: Callable[..., Any], *values: Any, **options: Any) -> Any:
    """Run a part of the evaluator; add the node to its errors."""
    try:
        return run(*values, **options)
    except NodeError:
        raise
    except MODEL_ERRORS as error:
        # The evaluator replaces the text of type errors.
        first = error.__cause__ if isinstance(error.__cause__, (AttributeError, TypeError, ValueError)) else error
        raise NodeError(f"{node_label(node)}: {failure_text(first)}") from error


def failure_text(error: Exception) -> str:
    """Return the error of the evaluator in one line."""
    if isinstance(error, MemoryError):
        return failed_allocation(error)
    return str(error) if isinstance(error, NodeError) else f"{type(error).__name__}: {first_line(error)}"


class Loop(ReferenceLoop):
    """onnx's `Loop` with the standard's default for an absent condition: true."""

    op_domain = ""

    def _run(self, M: Array | None, cond: Array | None = None, *args: Any, **options: Any) -> tuple[Array, ...]:  # noqa: N803  # the evaluator's name
        """Run the body until the condition is false or `M` iterations are done."""
        if M is not None and (turns := int(np.max(M))) > _MAX_TURNS:
            raise ValueError(f"a Loop of {turns} turns, expected at most {_MAX_TURNS}")
        start = np.array(True) if cond is None else cond
        results: tuple[Array, ...] = super()._run(M, start, *args, **options)  # type: ignore[no-untyped-call]
        return results


class CumSum(ReferenceCumSum):
    """onnx's `CumSum` with the axis as a tensor of one dim, as written by exporters."""

    op_domain = ""

    def _run(self, x: Array, *axis: Array, **options: Any) -> tuple[Array, ...]:
        """Add up along an axis."""
        flat = (value.reshape(()) for value in axis)
        results: tuple[Array, ...] = super()._run(x, *flat, **options)  # type: ignore[no-untyped-call]
        return results


class ConvTranspose(ReferenceConvTranspose):
    """onnx's `ConvTranspose`, group by group; onnx mixes up groups, and fails for an empty result."""

    op_domain = ""

    def _run(self, X: Array, W: Array, B: Array | None = None, *args: Any, **options: Any) -> tuple[Array, ...]:  # noqa: N803  # the evaluator's names
        """Spread each element over its window."""
        if not (len(X) and W.shape[1]):
            first = np.zeros((max(len(X), 1), *X.shape[1:]), X.dtype)
            second = np.zeros((len(W), max(W.shape[1], 1), *W.shape[2:]), W.dtype)
            (result,) = self._run(first, second, None, *args, **options)
            return (result[: len(X), : W.shape[1] * options["group"]],)
        parts = zip(*(np.split(value, options["group"], axis) for value, axis in ((X, 1), (W, 0))), strict=True)
        run: Any = super()._run
        joined = np.concatenate([run(*part, None, *args, **{**options, "group": 1})[0] for part in parts], 1)
        return (joined if B is None else joined + B.reshape(-1, *[1] * (X.ndim - 2)),)


class MaxPool(ReferenceMaxPool):
    """onnx's `MaxPool` with the general algorithm; the special one for strides of 1 gives wrong sizes and indices."""

    op_domain = ""

    def _run(self, *args: Any, **options: Any) -> tuple[Array, ...]:
        """Return the largest element of each window, and its index."""
        results: tuple[Array, ...] = self._max_pool(*args, **options)  # type: ignore[no-untyped-call]
        return results
