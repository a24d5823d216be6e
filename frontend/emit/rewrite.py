"""Replace the matched nodes of a model, and drop the nodes and initializers without readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto, helper

from opforge.frontend.conversion import Lowered
from opforge.frontend.ir.attributes import LIST_SIZES, list_sizes, make_attribute
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.names import FreshNames
from opforge.frontend.ir.op_names import onnx_key
from opforge.frontend.ir.scope import Scope, key_text, node_name, normal_domain
from opforge.frontend.ir.tensor_type import ELEMENT_TYPES
from opforge.frontend.rules.rule import Placement, Replacement
from opforge.frontend.state import Rewritten, State

from .dead import ReadCounts
from .fold import FOLD
from .nodes import write_nodes


def rewrite(state: State) -> State:
    """Write the replacements of this round into a copy of the model."""
    context, domain, before = state.context, state.options.domain, state.rewritten
    placements, lowering = state.matched.placements, state.matched.lowering
    model = ModelProto()
    model.CopyFrom(state.view.model)
    rewriter = Rewriter(context.view.over(model), domain, context.value_names)
    if lowering:
        rewriter.apply(lowering)
        view = GraphView(model, state.view.where)
        lowered = (*before.lowered, *map(_lowered, lowering))
        made = before.made.union(node.name for entry in lowering for node in entry.extra_nodes.before)
        return replace(state, view=view, context=context.over(view), is_new=True, rewritten=Rewritten(lowered, made))
    is_new = state.is_new or any(
        p.scope.node(p.nodes[-1]).domain != onnx_key(p.call.spec, domain).domain for p in placements
    )
    names = tuple(rewriter.apply((*placements, *state.folded.replacements)))
    rewritten = replace(before, names=names, gone=rewriter.gone)
    return replace(state, view=rewriter.view.after_change(), is_new=is_new, rewritten=rewritten)


def _lowered(entry: Replacement) -> Lowered:
    node = entry.scope.node(entry.nodes[-1])
    into = [made.op_type for made in entry.extra_nodes.before if made.op_type != "Constant"]
    return Lowered(node_name(node, node.op_type), key_text(node), into)


class Rewriter:
    """Writes replacements into the model of a view; single use.

    Args:
        view: Index of the model, which is changed; the node numbers of the view do not change.
        domain: Domain of custom nodes.
        value_names: Creates names for new values.

    Attributes:
        view: The index.
        gone: (scope number, node number) of removed nodes.
    """

    def __init__(self, view: GraphView, domain: str, value_names: FreshNames) -> None:
        self.view = view
        self._domain = domain
        self._value_names = value_names
        self._inputs = {name for scope in view.scopes for name in scope.input_names}
        self._node_names = FreshNames(chain(self._inputs, self._old_names()))
        self._reads = ReadCounts(view)
        self._shared: set[str] = set()
        self._outputs: set[str] = set()
        self._declarations: dict[int, dict[str, ValueInfoProto]] = {}
        # By scope number: the replaced nodes, and the new nodes at the position of each.
        self._replaced: dict[int, set[int]] = {}
        self._new: dict[int, dict[int, list[NodeProto]]] = {}
        self.gone: set[tuple[int, int]] = set()

    def _old_names(self) -> Iterator[str]:
        return chain.from_iterable(scope.names for scope in self.view.scopes)

    def apply(self, replacements: Sequence[Replacement]) -> list[str]:
        """Replace nodes; return the names of the new custom nodes, in the same order."""
        placements = [entry for entry in replacements if isinstance(entry, Placement)]
        last = {placement.scope.names[placement.nodes[-1]] for placement in placements}
        counts = Counter(filter(last.__contains__, self._old_names()))
        self._shared = {name for name, count in counts.items() if count > 1} | self._inputs | {""}
        self._outputs = {name for placement in placements for name in placement.call.outputs}
        names = [self._replace(entry) for entry in replacements][: len(placements)]
        # A folded constant is also removed if only other folded nodes read it.
        others = [entry for entry in replacements if entry.rule != FOLD]
        dead = self._reads.dead({(entry.scope.number, number) for entry in others for number in entry.nodes})
        # Inner graphs first: the list of nodes of an outer graph is copied together with them.
        for scope in reversed(self.view.scopes):
            numbers = self._replaced.get(scope.number, set()) | dead.nodes.get(scope.number, set())
            self.gone |= {(scope.number, number) for number in numbers}
            new = self._new.get(scope.number, {})
            for made in new.values():
                made[:] = [
                    node for node in made if self._reads.is_read(scope, node.output) or node.op_type != "Constant"
                ]
            write_nodes(scope, numbers, new)
            _drop_initializers(scope.body, dead.initializers.get(scope.number, set()))
        for entry in replacements:
            _update_outputs(self.view.model.graph, entry)
        return names

    def _replace(self, entry: Replacement) -> str:
        """Replace the nodes of one match; return the name of the custom node; "" if there is none."""
        scope, extra_nodes, last = self.view.scopes[entry.scope.number], entry.extra_nodes, entry.nodes[-1]
        for number in entry.nodes:
            self._reads.change(scope, scope.node(number).input, -1)
        new = (*extra_nodes.before, *extra_nodes.after)
        self._reads.change(scope, (name for node in new for name in node.input), 1)
        node = scope.node(last)
        if not isinstance(entry, Placement) and len(new) == 1 and new[0].output == node.output:
            # In place: copies of long lists of nodes are slow.
            new[0].name = new[0].name or node.name
            node.CopyFrom(new[0])
            self._replaced.setdefault(scope.number, set()).update(entry.nodes[:-1])
            return ""
        own = [self._write_call(scope, node, entry)] if isinstance(entry, Placement) else []
        name = node.name if own else ""
        for extra in new:
            extra.name = extra.name or self._node_names.fresh(f"{node.name}_{extra.op_type}")
        if new or not own:
            self._new.setdefault(scope.number, {})[last] = [*extra_nodes.before, *own, *extra_nodes.after]
        self._replaced.setdefault(scope.number, set()).update(entry.nodes[:-1] if own else entry.nodes)
        return name

    def _write_call(self, scope: Scope, node: NodeProto, placement: Placement) -> NodeProto:
        """Change a node to the call of a custom operator."""
        call = placement.call
        key = onnx_key(call.spec, self._domain)
        self._reads.change(scope, call.inputs, 1)
        # doc_string and metadata_props are kept, because they describe the origin of the node.
        for field in ("input", "output", "attribute", "overload"):
            node.ClearField(field)
        node.domain, node.op_type = key.domain, key.op_type
        if node.name in self._shared:
            node.name = self._node_names.fresh(call.spec.op_type)
        node.input.extend(call.inputs if call.counts else _without_tail(call.inputs))
        # ATC connects empty output names to empty input names: every output gets a name.
        node.output.extend(name or self._value_names.fresh(f"{node.name}_unused") for name in call.outputs)
        node.attribute.extend(make_attribute(attr, call.attrs[attr.name]) for attr in call.spec.attrs)
        if sizes := list_sizes(call.spec, call.counts):
            node.attribute.append(helper.make_attribute(LIST_SIZES, sizes))
        self._import(scope, key.domain, key.versions.start)
        self._declare_outputs(scope, node, placement)
        return node

    def _import(self, scope: Scope, domain: str, version: int) -> None:
        if domain == "":
            return
        owners: list[ModelProto | FunctionProto] = [self.view.model]
        while scope.parent is not None:
            scope = scope.parent
        if isinstance(scope.body, FunctionProto):
            owners.append(scope.body)
        for owner in owners:
            if all(normal_domain(entry.domain) != domain for entry in owner.opset_import):
                owner.opset_import.append(helper.make_opsetid(domain, version))

    def _declare_outputs(self, scope: Scope, node: NodeProto, placement: Placement) -> None:
        if not isinstance(scope.body, GraphProto):
            return
        for output, name in zip(placement.call.output_names, node.output, strict=True):
            found = placement.output_types[output]
            if found.dtype is None or found.shape is None:
                continue
            dims = [dim if dim >= 0 else None for dim in found.shape]
            inferred = helper.make_tensor_type_proto(ELEMENT_TYPES[found.dtype], dims)
            declared = self._declared(scope.number, scope.body).get(name)
            if declared is None:
                scope.body.value_info.append(helper.make_value_info(name, inferred))
            else:
                _refine(declared.type, inferred)

    def _declared(self, number: int, body: GraphProto) -> dict[str, ValueInfoProto]:
        """Return the declared types of outputs of custom nodes in a graph, by name, computed at the first use."""
        if number not in self._declarations:
            values = chain(body.value_info, body.output)
            self._declarations[number] = {value.name: value for value in values if value.name in self._outputs}
        return self._declarations[number]


def _update_outputs(graph: GraphProto, entry: Replacement) -> None:
    """Declare the new contents of overwritten inputs as outputs, instead of the flag."""
    if not entry.extra_nodes.updates:
        return
    given = {value.name for value in graph.output}
    new = [value for value in entry.extra_nodes.updates if value.name not in given]
    places = [
        place
        for place, value in enumerate(graph.output)
        if entry.extra_nodes.flag and value.name == entry.extra_nodes.flag
    ]
    if places:
        outputs = [*graph.output[: places[0]], *new, *graph.output[places[0] + 1 :]]
    elif entry.extra_nodes.flag:
        return
    else:
        outputs = [*graph.output, *entry.extra_nodes.updates]
    leaving = {value.name for value in outputs}
    declared = [value for value in graph.value_info if value.name not in leaving]
    for target, values in ((graph.output, outputs), (graph.value_info, declared)):
        del target[:]
        target.extend(values)


def _without_tail(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names up to the last non-empty one."""
    count = max((position + 1 for position, name in enumerate(names) if name), default=0)
    return names[:count]


def _drop_initializers(body: GraphProto | FunctionProto, names: set[str]) -> None:
    if not names or isinstance(body, FunctionProto):
        return
    # In reverse order: positions of the remaining ones do not change.
    for number in reversed([number for number, tensor in enumerate(body.initializer) if tensor.name in names]):
        del body.initializer[number]


def _refine(declared: TypeProto, inferred: TypeProto) -> None:
    """Fill in the unknown parts of a declaration; names of dims are replaced by sizes."""
    tensor = declared.tensor_type
    if not tensor.elem_type:
        tensor.elem_type = inferred.tensor_type.elem_type
    if not tensor.HasField("shape"):
        tensor.shape.CopyFrom(inferred.tensor_type.shape)
        return
    for known, new in zip(tensor.shape.dim, inferred.tensor_type.shape.dim, strict=False):
        if new.HasField("dim_value") and not known.HasField("dim_value"):
            known.CopyFrom(new)
