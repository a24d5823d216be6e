"""Puts our nodes into a model: names, opset imports, function bodies and output types included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper

from opforge.codegen.spec.semantics import TensorType
from opforge.frontend.ir.attributes import make_attribute
from opforge.frontend.ir.graph import INITIALIZER, GraphView, Scope, normal_domain
from opforge.frontend.ir.names import FreshNames
from opforge.frontend.ir.op_names import OPFORGE_DOMAIN, onnx_key
from opforge.frontend.ir.value_types import ELEMENT_TYPES
from opforge.frontend.rules.rule import Around, OperatorCall

from .dead import ReadCounts
from .functions import body_by_rank, body_needs_dtypes, function_body

# Local functions exist since IR 8, several functions of one name since IR 10.
_FUNCTION_IR = 8
_OVERLOAD_IR = 10
# Version of ai.onnx for the bodies of a model that does not import ai.onnx itself.
_DEFAULT_OPSET = 18


@dataclass(frozen=True)
class Placement:
    """One call of ours and where it goes.

    Attributes:
        scope: Graph of the replaced nodes.
        nodes: Numbers of the replaced nodes; the new one takes the place of the last.
        absorbed: Numbers of further nodes, which go unless somebody else reads what they make.
        call: The operator.
        case: Name of the spec's case that the call falls into.
        input_dtypes: Element types of the inputs by parameter name, where known.
        output_types: Inferred types of the outputs by parameter name.
    """

    scope: Scope
    nodes: tuple[int, ...]
    absorbed: tuple[int, ...]
    call: OperatorCall
    case: str
    input_dtypes: Mapping[str, str]
    output_types: Mapping[str, TensorType]


class Emitter:
    """Writes placements into the model of a view; use once, the view is stale afterwards.

    Args:
        view: Index of the model, which is changed.
        domain: One of `keys.DOMAINS`.
        value_names: Gives names to new values.

    Attributes:
        without_body: Names of nodes of ours that carry no function body.
        gone: (scope number, node number) of nodes that are no longer there.
    """

    def __init__(self, view: GraphView, domain: str, value_names: FreshNames) -> None:
        self._view = view
        self._model = view.model
        self._domain = domain
        self._reads = ReadCounts(view)
        self._removed: dict[int, set[int]] = {}
        self._outputs: set[str] = set()
        self._declarations: dict[int, dict[str, ValueInfoProto]] = {}
        self._inputs = {name for scope in view.scopes for name in scope.input_names}
        self._shared: set[str] = set()
        self._node_names = FreshNames(chain(self._inputs, self._old_names()))
        self._value_names = value_names
        self._around: dict[int, dict[int, Around]] = {}
        self._calls: dict[str, list[tuple[Placement, NodeProto]]] = {}
        self.without_body: list[str] = []
        self.gone: set[tuple[int, int]] = set()

    def fold(self, scope: Scope, number: int, tensors: Mapping[str, TensorProto]) -> None:
        """Write a node that depends on nothing as a `Constant`, or as initializers; to be called before `emit`."""
        node = scope.node(number)
        self._reads.change(scope, node.input, -1)
        if len(tensors) == 1:
            ((name, tensor),) = tensors.items()
            node.CopyFrom(helper.make_node("Constant", [], [name], node.name, value=tensor))
            return
        self._removed.setdefault(scope.number, set()).add(number)
        for name, tensor in tensors.items():
            scope.body.initializer.append(tensor)  # type: ignore[union-attr]  # functions are not folded
            scope.makers[name] = INITIALIZER

    def _old_names(self) -> Iterator[str]:
        return chain.from_iterable(scope.names for scope in self._view.scopes)

    def emit(self, placements: Sequence[Placement]) -> list[str]:
        """Replace nodes; return the names of the new ones, in the same order."""
        replaced = {placement.scope.names[placement.nodes[-1]] for placement in placements}
        counts = Counter(filter(replaced.__contains__, self._old_names()))
        self._shared = {name for name, count in counts.items() if count > 1} | self._inputs | {""}
        self._outputs = {name for placement in placements for name in placement.call.outputs}
        names = [self._place(placement) for placement in placements]
        if self._domain == OPFORGE_DOMAIN:
            self._embed()
        else:
            self._drop_bodies()
        dead = self._reads.dead(
            {(p.scope.number, number) for p in placements for number in p.absorbed},
            {(p.scope.number, number) for p in placements for number in p.nodes},
        )
        for scope in self._view.scopes:
            gone = self._removed.get(scope.number, set()) | dead.nodes.get(scope.number, set())
            self.gone |= {(scope.number, number) for number in gone}
            self._drop(scope, gone)
            _drop_initializers(scope.body, dead.initializers.get(scope.number, set()))
        return names

    def _place(self, placement: Placement) -> str:
        scope, call = placement.scope, placement.call
        key = onnx_key(call.spec, self._domain)
        for number in placement.nodes:
            self._reads.change(scope, scope.node(number).input, -1)
        new = (*call.around.before, *call.around.after)
        self._reads.change(scope, [*call.inputs, *(name for node in new for name in node.input)], 1)
        if new:
            self._around.setdefault(scope.number, {})[placement.nodes[-1]] = call.around
        self._removed.setdefault(scope.number, set()).update(placement.nodes[:-1])
        node = scope.node(placement.nodes[-1])
        # doc_string and metadata_props stay: they say where the node came from.
        for field in ("input", "output", "attribute", "overload"):
            node.ClearField(field)
        node.domain, node.op_type = key.domain, key.op_type
        if node.name in self._shared:
            node.name = self._node_names.fresh(call.spec.op_type)
        node.input.extend(_without_tail(call.inputs))
        # ATC joins empty output names to empty input names: every output gets a name.
        node.output.extend(name or self._value_names.fresh(f"{node.name}_unused") for name in call.outputs)
        node.attribute.extend(make_attribute(attr, call.attrs[attr.name]) for attr in call.spec.attrs)
        self._import(scope, key.domain, key.versions.start)
        self._calls.setdefault(call.spec.op_type, []).append((placement, node))
        self._declare_outputs(scope, node, placement)
        return node.name

    def _import(self, scope: Scope, domain: str, version: int) -> None:
        if domain == "":
            return
        owners: list[ModelProto | FunctionProto] = [self._model]
        while scope.parent is not None:
            scope = scope.parent
        if isinstance(scope.body, FunctionProto):
            owners.append(scope.body)
        for owner in owners:
            if all(normal_domain(entry.domain) != domain for entry in owner.opset_import):
                owner.opset_import.append(helper.make_opsetid(domain, version))

    def _embed(self) -> None:
        """Give the model the bodies of its new nodes; old ones go, unless a node that stays calls them."""
        opset = self._view.main.opsets.get("", _DEFAULT_OPSET)
        for op_type, calls in self._calls.items():
            reserved = self._called_elsewhere(op_type, calls)
            kept = [
                function
                for function in self._model.functions
                if (function.domain, function.name) != (OPFORGE_DOMAIN, op_type) or function.overload in reserved
            ]
            bodies = _bodies(calls, opset, reserved)
            self.without_body += [node.name for _, node in calls if not bodies]
            # onnx's reference evaluator wants functions before those that call them.
            del self._model.functions[:]
            self._model.functions.extend([*bodies, *kept])
            if bodies:
                least = _OVERLOAD_IR if any(body.overload for body in bodies) else _FUNCTION_IR
                self._model.ir_version = max(self._model.ir_version, least)

    def _called_elsewhere(self, op_type: str, calls: Sequence[tuple[Placement, NodeProto]]) -> set[str]:
        """Overloads that nodes of this operator call which stay as they are."""
        placed = {(placement.scope.number, placement.nodes[-1]) for placement, _ in calls}
        return {
            node.overload
            for scope in self._view.scopes
            for number in scope.keys.get((OPFORGE_DOMAIN, op_type), ())
            for node in [scope.node(number)]
            if node.op_type == op_type and (scope.number, number) not in placed
        }

    def _drop_bodies(self) -> None:
        """Remove the bodies that an earlier conversion left and that no node calls any more."""
        called = {
            node.op_type for scope in self._view.scopes for node in scope.body.node if node.domain == OPFORGE_DOMAIN
        }
        gone = self._calls.keys() - called
        kept = [f for f in self._model.functions if f.domain != OPFORGE_DOMAIN or f.name not in gone]
        if len(kept) < len(self._model.functions):
            del self._model.functions[:]
            self._model.functions.extend(kept)

    def _declare_outputs(self, scope: Scope, node: NodeProto, placement: Placement) -> None:
        if not isinstance(scope.body, GraphProto):
            return
        for tensor, name in zip(placement.call.spec.outputs, node.output, strict=True):
            found = placement.output_types[tensor.name]
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
        """The declarations of a graph by name, of outputs of ours only, looked up when first needed."""
        if number not in self._declarations:
            values = chain(body.value_info, body.output)
            self._declarations[number] = {value.name: value for value in values if value.name in self._outputs}
        return self._declarations[number]

    def _drop(self, scope: Scope, numbers: set[int]) -> None:
        """Remove nodes, and the declarations of what they made; put in what stands around the new ones."""
        around = self._around.get(scope.number, {})
        if not numbers and not around:
            return
        kept: list[NodeProto] = []
        for number, node in enumerate(scope.body.node):
            if number in around:
                new = around[number]
                kept += [self._named(before, node) for before in new.before]
                kept.append(node)
                kept += [self._named(after, node) for after in new.after]
            elif number not in numbers:
                kept.append(node)
        made = {name for node in kept for name in node.output}
        gone = {name for number in numbers for name in scope.node(number).output} - made
        del scope.body.node[:]
        scope.body.node.extend(kept)
        declared = [value for value in scope.body.value_info if value.name not in gone]
        if len(declared) < len(scope.body.value_info):
            del scope.body.value_info[:]
            scope.body.value_info.extend(declared)

    def _named(self, node: NodeProto, beside: NodeProto) -> NodeProto:
        node.name = self._node_names.fresh(f"{beside.name}_{node.op_type}")
        return node


# Case, and the element types that the body of an old opset has written into it.
_Variant = tuple[str, tuple[tuple[str, str], ...]]


def _variant(placement: Placement, opset: int) -> _Variant:
    return placement.case, tuple(placement.input_dtypes.items()) if body_needs_dtypes(opset) else ()


def _bodies(calls: Sequence[tuple[Placement, NodeProto]], opset: int, reserved: set[str]) -> list[FunctionProto]:
    """The functions that nodes of one operator call; empty when the opset cannot express one of them.

    Nodes of different cases need different bodies, which have one name and differ in `overload`.
    """
    spec = calls[0][0].call.spec
    arity = max(len(node.input) for _, node in calls)
    overloads = FreshNames(reserved)
    variants: dict[_Variant, FunctionProto] = {}
    for placement, _ in calls:
        variant = _variant(placement, opset)
        if variant in variants:
            continue
        case, dtypes = variant
        body = function_body(spec, case, arity, opset, dict(dtypes))
        if body is None:
            return []
        if variants or "" in reserved:
            body.overload = overloads.fresh("_".join([case, *(word for _, word in dtypes)]))
        variants[variant] = body
    for placement, node in calls:
        if overload := variants[_variant(placement, opset)].overload:
            node.overload = overload
        # onnx's reference evaluator wants as many inputs as the function has, absent ones too.
        node.input.extend([""] * (arity - len(node.input)))
    by_case = {case: body for (case, _), body in variants.items()}
    fallback = None
    if 1 < len(variants) == len(by_case) and not reserved:
        # onnx's reference evaluator knows no overloads: it takes the last function of a name, which must do for all.
        fallback = body_by_rank(spec, by_case)
    if fallback:
        fallback.overload = overloads.fresh("any")
    return [*variants.values(), *filter(None, [fallback])]


def _without_tail(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names up to the last one that is given."""
    count = max((position + 1 for position, name in enumerate(names) if name), default=0)
    return names[:count]


def _drop_initializers(body: GraphProto | FunctionProto, names: set[str]) -> None:
    if not names or isinstance(body, FunctionProto):
        return
    # Back to front: the positions of those still to go stay as they are.
    for number in reversed([number for number, tensor in enumerate(body.initializer) if tensor.name in names]):
        del body.initializer[number]


def _refine(declared: TypeProto, inferred: TypeProto) -> None:
    """Fill in what a declaration leaves open; names of dims give way to sizes."""
    tensor = declared.tensor_type
    if not tensor.elem_type:
        tensor.elem_type = inferred.tensor_type.elem_type
    if not tensor.HasField("shape"):
        tensor.shape.CopyFrom(inferred.tensor_type.shape)
        return
    for known, new in zip(tensor.shape.dim, inferred.tensor_type.shape.dim, strict=False):
        if new.HasField("dim_value") and not known.HasField("dim_value"):
            known.CopyFrom(new)
