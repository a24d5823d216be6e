"""Replace functions of PyTorch by operators in torch.fx graphs."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from onnx import NodeProto, numpy_helper
from torch import fx
from torch._guards import detect_fake_mode
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import unset_fake_temporarily

from opforge.codegen.spec.model import OpSpec
from opforge.frontend.conversion import Conversion, Mapped, Unmapped
from opforge.frontend.importers.fx import from_fx
from opforge.frontend.ir.reason import Unmatched

from .register import SPECS
from .schema import NAMESPACE, bind, operator_arguments

# Nodes after a custom node that change only its shape or dtype.
_RESHAPING = {"Cast", "CastLike", "Identity", "Reshape", "Squeeze", "Unsqueeze"}


@dataclass(frozen=True)
class Rewritten:
    """The report of a rewritten graph.

    Attributes:
        mapped: The calls that were replaced by operators.
        left: Candidate calls that were not replaced, with reasons.
    """

    mapped: list[Mapped]
    left: list[Unmapped]

    def report(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        return {"mapped": [asdict(entry) for entry in self.mapped], "left": [asdict(entry) for entry in self.left]}


def rewrite(graph_module: Any, *, patterns: bool = False) -> Rewritten:
    """Replace functions of PyTorch by operators.

    Args:
        graph_module: A GraphModule, Graph or ExportedProgram with traced shapes; it is changed in place.
        patterns: Also match sums over dims, and scatters that add.

    Returns:
        The report. Calls whose inputs the graph does not have are not replaced.

    Raises:
        UserError: The argument has no graph.
    """
    with unset_fake_temporarily():  # it reads the constants of the graph
        conversion = from_fx(graph_module, patterns=patterns, specs=list(SPECS.values()))
    module = getattr(graph_module, "graph_module", graph_module)
    graph: fx.Graph = getattr(module, "graph", module)
    mapped, left = list(_present(graph)), list(conversion.left)
    writer = _Writer(graph, conversion)
    for entry in conversion.mapped:
        try:
            writer.replace(entry)
        except Unmatched as reason:
            left.append(Unmapped(entry.node, entry.op, str(reason)))
        else:
            mapped.append(entry)
    graph.eliminate_dead_code()
    graph.lint()
    if isinstance(module, fx.GraphModule):
        module.recompile()
    return Rewritten(mapped, left)


def _present(graph: fx.Graph) -> Iterator[Mapped]:
    """Yield the operator calls that a graph already contains."""
    for node in graph.nodes:
        namespace, _, name = str(node.target).removesuffix(".default").partition(".")
        if node.op != "call_function" or namespace != NAMESPACE or name not in SPECS:
            continue
        arguments = operator_arguments(SPECS[name])
        values = bind(arguments, node.args, dict(node.kwargs))
        plain = [a for a in arguments if a.is_attribute and not isinstance(values[a.name], fx.Node)]
        attrs = {argument.parameter: values[argument.name] for argument in plain}
        read = [values[a.name] for a in arguments if not a.is_attribute]
        inputs = [value.name if isinstance(value, fx.Node) else None for value in read]
        yield Mapped(node.name, SPECS[name].op_type, f"{namespace}::{name}", [node.name], attrs, inputs)


class _Writer:
    """Replaces the calls of a conversion in its graph."""

    def __init__(self, graph: fx.Graph, conversion: Conversion) -> None:
        self._graph = graph
        self._nodes = {node.name: node for node in graph.nodes}
        self._specs = {spec.op_type: spec for spec in SPECS.values()}
        self._model = conversion.model.graph
        self._custom = {node.name: node for node in conversion.model.graph.node}
        self._constants = {
            node.output[0]: numpy_helper.to_array(attribute.t)
            for node in conversion.model.graph.node
            for attribute in node.attribute
            if node.op_type == "Constant" and attribute.name == "value"
        }
        self._constants |= {t.name: numpy_helper.to_array(t) for t in conversion.model.graph.initializer}

    def replace(self, entry: Mapped) -> None:
        """Replace one call.

        Raises:
            Unmatched: The graph does not have its inputs or outputs.
        """
        spec, made = self._specs[entry.op], self._custom[entry.node]
        old = self._replaced(entry, made)
        with self._graph.inserting_before(old):
            given = self._arguments(spec, entry, made, old)
            target = getattr(getattr(torch.ops, NAMESPACE), spec.name).default
            new = self._graph.call_function(target, tuple(given))
            new.meta = dict(old.meta)
            results = self._results(spec, new, made, old)
        for name, result in results.items():
            self._replace_node(self._nodes[name], result)
        if old.name not in results:
            self._graph.erase_node(old)

    def _replaced(self, entry: Mapped, made: NodeProto) -> fx.Node:
        """Return the call; its results must be values of the graph."""
        if entry.node not in self._nodes:
            raise Unmatched(f"needs the extra result {entry.node}, which has no node in the graph")
        name = made.output[0]
        while len(made.output) == 1 and name != entry.node:
            readers = [node for node in self._model.node if name in node.input]
            if len(readers) != 1 or readers[0].op_type not in _RESHAPING:
                types = ", ".join(node.op_type for node in readers) or "nothing"
                raise Unmatched(f"needs {types} behind it, expected at most a new shape or dtype")
            name = readers[0].output[0]
        return self._nodes[entry.node]

    def _arguments(self, spec: OpSpec, entry: Mapped, made: NodeProto, old: fx.Node) -> list[Any]:
        inputs = dict(zip((tensor.name for tensor in spec.inputs), made.input, strict=False))
        given: list[Any] = []
        for argument in operator_arguments(spec):
            if argument.is_attribute:
                given.append(entry.attrs.get(argument.parameter, argument.default))
            else:
                name = inputs.get(argument.parameter, "")
                given.append(self._input(name, old, is_list=not argument.is_tensor) if name else None)
        if old.target is torch.ops.aten.index_put.default and old.args[2:] and old.args[2] in given:
            given = [self._from_start(value, old) if value is old.args[1][0] else value for value in given]
        return given

    def _from_start(self, index: fx.Node, put: fx.Node) -> fx.Node:
        """Return indices without negative values; index_put accepts negative ones."""
        rows = put.meta["val"].shape[0]
        aten = torch.ops.aten
        made = [self._graph.call_function(aten.lt.Scalar, (index, 0))]
        made += [self._graph.call_function(aten.add.Tensor, (index, rows))]
        made += [self._graph.call_function(aten.where.self, (*made, index))]
        for node in made:
            node.meta["val"] = _computed(node)
        return made[-1]

    def _input(self, name: str, old: fx.Node, *, is_list: bool) -> Any:
        if name in self._nodes and not is_list:
            return self._nodes[name]
        value = self._constants.get(name)
        if value is not None and is_list:
            return [int(number) for number in value.reshape(-1)]
        if value is None or value.size == 0 or np.ptp(value.astype(np.float64)):
            raise Unmatched(f"needs the extra input {name}, which has no node in the graph")
        options = {"dtype": getattr(torch, str(value.dtype)), "device": old.meta["val"].device}
        element = value.reshape(-1)[0].item()
        made = self._graph.call_function(torch.ops.aten.full.default, (list(value.shape), element), options)
        made.meta["val"] = _computed(made)
        return made

    def _results(self, spec: OpSpec, new: fx.Node, made: NodeProto, old: fx.Node) -> Mapping[str, fx.Node]:
        """Return the new value for each node of the graph that is replaced.

        Raises:
            Unmatched: The operator rejects the call, or the graph reads its results in another form.
        """
        try:
            value = _computed(new)
        except RuntimeError as error:
            raise Unmatched(str(error)) from error
        new.meta["val"] = value
        if len(spec.outputs) == 1:
            return {old.name: self._in_shape_of(new, old)}
        results = {}
        for number, name in enumerate(made.output):
            if name in self._nodes:
                item = self._graph.call_function(operator.getitem, (new, number))
                item.meta["val"] = value[number]
                results[name] = self._in_shape_of(item, self._nodes[name])
        for user in [user for user in old.users if user.name not in results]:
            index: Any = user.args[1] if user.target is operator.getitem else None
            same = made.output[index] if isinstance(index, int) else ""
            if same not in results:
                raise Unmatched(f"{user.name} reads all results together, expected reads of single results")
            user.replace_all_uses_with(results[same])
            self._graph.erase_node(user)
        return results

    def _in_shape_of(self, new: fx.Node, old: fx.Node) -> fx.Node:
        """Return a value with the shape and dtype of the replaced one.

        Raises:
            Unmatched: The numbers of elements differ.
        """
        value, wanted = new.meta["val"], old.meta["val"]
        if tuple(value.shape) != tuple(wanted.shape):
            if not all(isinstance(size, int) for size in (*value.shape, *wanted.shape)):
                raise Unmatched("has a new shape of symbolic sizes, expected fixed sizes")
            if value.numel() != wanted.numel():
                raise Unmatched(f"has shape {list(wanted.shape)}, expected {list(value.shape)}")
            new = self._graph.call_function(torch.ops.aten.view.default, (new, list(wanted.shape)))
            new.meta["val"] = _computed(new)
        if value.dtype == wanted.dtype:
            return new
        cast = self._graph.call_function(torch.ops.prims.convert_element_type.default, (new, wanted.dtype))
        cast.meta["val"] = _computed(cast)
        return cast

    def _replace_node(self, old: fx.Node, new: fx.Node) -> None:
        """Replace a node and keep its name, which the signature of an exported program contains."""
        old.replace_all_uses_with(new)
        name = old.name
        self._graph.erase_node(old)
        # Node._rename would add a number, because the graph keeps the names of erased nodes.
        new.name = name
        self._nodes[name] = new


def _computed(node: fx.Node) -> Any:
    """Compute the traced value of a call."""
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda read: read.meta["val"])
    mode = detect_fake_mode([value for value in args if isinstance(value, torch.Tensor)]) or FakeTensorMode()
    with mode, torch.no_grad():
        return node.target(*args, **kwargs)
