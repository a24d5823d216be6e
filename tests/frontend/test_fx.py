"""Test graphs of torch.fx: mock graphs with the attributes of PyTorch's nodes, and real graphs if PyTorch is
installed."""

import operator
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from opforge.codegen.errors import UserError
from opforge.frontend import from_fx
from opforge.frontend.run.execute import execute


class Graph:
    """Nodes with the attributes of `torch.fx.Node` that identify them."""

    def __init__(self):
        self.nodes = []

    def add(self, op, name, target, *args, val=None, **kwargs):
        meta = {} if val is None else {"val": val}
        node = SimpleNamespace(op=op, name=name, target=target, args=args, kwargs=kwargs, users={}, meta=meta)
        # PyTorch's nodes are hashable, SimpleNamespace is not: users are a list here.
        node.users = []
        for value in (*args, *kwargs.values()):
            for read in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(read, SimpleNamespace) and hasattr(read, "users"):
                    read.users.append(node)
        self.nodes.append(node)
        return node

    def inputs(self, **types):
        return [self.add("placeholder", name, name, val=val) for name, val in types.items()]


def tensor(dtype, *shape):
    return SimpleNamespace(dtype=f"torch.{dtype}", shape=shape)


def symbol(number=None):
    """Return a symbolic size with a known or unknown number."""
    return SimpleNamespace(node=SimpleNamespace(maybe_as_int=lambda: number))


EMBEDDING = "aten.embedding_dense_backward.default"


def embedding(*scalars, target=EMBEDDING, by_name=False):
    graph = Graph()
    grad, indices = graph.inputs(g=tensor("float32", 4, 3, 5), i=tensor("int64", 4, 3))
    names = ("grad_output", "indices", "num_weights", "padding_idx", "scale_grad_by_freq")
    arguments = (grad, indices, *scalars)
    if by_name:
        node = graph.add("call_function", "e", target, **dict(zip(names, arguments, strict=True)))
    else:
        node = graph.add("call_function", "e", target, *arguments)
    graph.add("output", "output", "output", node)
    return SimpleNamespace(graph=graph)


@pytest.mark.parametrize("target", [EMBEDDING, "aten.embedding_dense_backward"])
@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("rows", [7, symbol(7)])
def test_an_overload_and_a_packet_with_positions_and_names(target, by_name, rows, rng):
    conversion = from_fx(embedding(rows, -1, False, target=target, by_name=by_name))
    (entry,) = conversion.mapped
    assert (entry.node, entry.op, entry.outputs) == ("e", "EmbeddingDenseBackward", ["e"])
    assert entry["inputs"] == ["g", "i"]
    assert entry["attrs"] == {"num_weights": 7, "padding_idx": -1, "scale_grad_by_freq": False}
    onnx.checker.check_model(conversion.model, full_check=True)
    g, i = rng.normal(size=(4, 3, 5)).astype(np.float32), rng.integers(0, 7, (4, 3))
    expected = np.zeros((7, 5))
    np.add.at(expected, i.ravel(), g.reshape(12, 5))
    got = execute(conversion.model, {"g": g, "i": i}, operators="function")
    np.testing.assert_allclose(got["e"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (embedding(symbol(), -1, False), ["num_weights must be constant"]),
        (embedding(7, -1), ["(..., ..., ..., ...)", "scale_grad_by_freq"]),
        (embedding(7, -1, False, False), ["expected (grad_output, indices"]),
    ],
)
def test_unproven_values_are_not_mapped(module, words):
    conversion = from_fx(module)
    (left,) = conversion.left
    assert (left.node, left.candidate, conversion.mapped) == ("e", "EmbeddingDenseBackward", [])
    assert all(word in left.reason for word in words), left.reason
    assert not conversion.model.graph.node


def test_a_size_that_another_node_reads_is_known_only_at_run_time():
    graph = Graph()
    grad, indices, table = graph.inputs(
        g=tensor("float32", 4, 5), i=tensor("int64", 4), w=tensor("float32", symbol(), 5)
    )
    rows = graph.add("call_function", "sym_size_int", "aten.sym_size.int", table, 0, val=symbol())
    graph.add("call_function", "e", EMBEDDING, grad, indices, rows, -1, False)
    (left,) = from_fx(graph).left
    assert left.reason == "num_weights must be constant; 'sym_size_int' is an input"


def test_outputs_are_selected_by_getitem_and_unused_ones_get_a_name():
    graph = Graph()
    types = {"g": (6, 2, 4), "x": (6, 2, 3), "w": (3, 3, 4), "b": (4,)}
    values = graph.inputs(**{name: tensor("float16", *shape) for name, shape in types.items()})
    node = graph.add("call_function", "conv", "aten.conv_tbc_backward.default", *values, 1)
    picked = [
        graph.add("call_function", f"getitem_{n}", operator.getitem, node, index) for n, index in enumerate((0, 2, 2))
    ]
    graph.add("output", "output", "output", picked)
    conversion = from_fx(graph)
    (entry,) = conversion.mapped
    assert entry.outputs == ["getitem_0", "getitem_1"]
    assert [value.name for value in conversion.model.graph.output] == ["getitem_0", "getitem_1"]
    (made,) = conversion.model.graph.node
    assert len({*made.output, ""}) == 4


def test_a_tuple_that_is_passed_on_has_all_its_outputs():
    graph = Graph()
    values = graph.inputs(g=tensor("float16", 6, 2, 4), x=None, w=None, b=None)
    node = graph.add("call_function", "conv", "aten.conv_tbc_backward", *values, 1)
    graph.add("output", "output", "output", node)
    conversion = from_fx(graph)
    assert [value.name for value in conversion.model.graph.output] == ["conv.0", "conv.1", "conv.2"]


@pytest.mark.parametrize("weight", [True, False])
@pytest.mark.parametrize("count", [True, False])
def test_batch_norm_with_and_without_weight_and_count(weight, count):
    graph = Graph()
    types = {name: tensor("float32", 3, 5, 2) for name in "gx"} | {name: tensor("float32", 5) for name in "mswab"}
    g, x, m, s, w, a, b = graph.inputs(**types)
    arguments = [g, x, m, s, w if weight else None, a, b]
    if count:
        arguments += graph.inputs(c=tensor("int32", 2, 1))
    graph.add("call_function", "bn", "aten.batch_norm_backward_elemt.default", *arguments)
    (entry,) = from_fx(graph).mapped
    assert entry.inputs == ["g", "x", "m", "s", "w" if weight else None, "a", "b", "c" if count else None]


def test_the_lengths_of_nsa_are_a_list_and_a_keyword():
    graph = Graph()
    values = graph.inputs(g=tensor("float16", 8, 2, 16), x=tensor("float16", 300, 2, 16), w=tensor("float16", 64, 2))
    graph.add(
        "call_function", "nsa", "npu.npu_nsa_compress_grad.default", *values, 64, 16, actual_seq_len=[100, 160, 300]
    )
    conversion = from_fx(graph)
    assert not conversion.left
    (entry,) = conversion.mapped
    assert (entry.op, entry.inputs) == ("NsaCompressGrad", ["g", "x", "w", None])
    assert conversion.model.graph.node[-1].input[3]


def test_lengths_that_violate_a_constraint_are_not_mapped():
    graph = Graph()
    values = graph.inputs(g=tensor("float16", 8, 2, 16), x=tensor("float16", 300, 2, 16), w=tensor("float16", 64, 2))
    graph.add("call_function", "nsa", "npu.npu_nsa_compress_grad.default", *values, 64, 16, actual_seq_len=[100, 299])
    (left,) = from_fx(graph).left
    assert "[C14]" in left.reason


def test_mapped_node_may_read_a_mapped_node():
    graph = Graph()
    g, i, j = graph.inputs(g=tensor("float32", 4, 5), i=tensor("int64", 4), j=tensor("int64", 7))
    first = graph.add("call_function", "first", EMBEDDING, g, i, 7, -1, False)
    graph.add("call_function", "second", EMBEDDING, first, j, 3, -1, False)
    conversion = from_fx(graph)
    assert [entry.inputs for entry in conversion.mapped] == [["g", "i"], ["first", "j"]]
    assert [value.name for value in conversion.model.graph.output] == ["second"]


def test_other_nodes_are_not_mapped():
    graph = Graph()
    (x,) = graph.inputs(x=tensor("float32", 4))
    graph.add("call_function", "a", "aten.embedding_dense_backward.out", x)
    graph.add("call_function", "r", "aten.relu.default", x)
    graph.add("call_module", "m", EMBEDDING, x)
    conversion = from_fx(graph)
    assert (conversion.mapped, conversion.left, conversion.nodes_before) == ([], [], 3)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_gradient_of_an_embedding_that_may_be_sparse(sparse):
    conversion = from_fx(embedding_backward(sparse))
    assert [entry.attrs for entry in conversion.mapped] == (
        [] if sparse else [{"num_weights": 7, "padding_idx": 2, "scale_grad_by_freq": True}]
    )
    assert [entry.reason for entry in conversion.left] == (["sparse is True, expected False"] if sparse else [])


def embedding_backward(sparse):
    graph = Graph()
    grad, indices = graph.inputs(g=tensor("float32", 4, 5), i=tensor("int64", 4))
    graph.add("call_function", "e", "aten.embedding_backward.default", grad, indices, 7, 2, True, sparse)
    return graph


def test_non_graph_input_is_rejected():
    with pytest.raises(UserError, match="got int, expected a GraphModule"):
        from_fx(3)


# Functions that are mapped with extra nodes.


def index_add(zeros="aten.zeros.default", ids="aten.repeat_interleave.Tensor", dim=0):
    graph = Graph()
    g, counts = graph.inputs(g=tensor("float32", 6, 5), c=tensor("int64", 3 if ids else 6))
    base = graph.add("call_function", "zeros", zeros, [3, 5], val=tensor("float32", 3, 5))
    if ids:
        counts = graph.add("call_function", "ids", ids, counts, val=tensor("int64", symbol()))
    node = graph.add("call_function", "sums", "aten.index_add.default", base, dim, counts, g)
    graph.add("output", "output", "output", node)
    return graph


def test_rows_added_by_repeated_ids(rng):
    conversion = from_fx(index_add(), patterns=True)
    (entry,) = conversion.mapped
    assert (entry.op, entry.inputs, entry.outputs) == ("GroupedBiasAddGrad", ["g", "c"], ["sums"])
    assert entry.attrs == {"group_idx_type": 1}
    g = rng.normal(size=(6, 5)).astype(np.float32)
    got = execute(conversion.model, {"g": g, "c": np.array([2, 0, 4])}, operators="function")
    np.testing.assert_allclose(got["sums"], [g[:2].sum(0), 0 * g[0], g[2:].sum(0)], rtol=1e-5, atol=1e-6)
    assert not from_fx(index_add()).mapped


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"zeros": "aten.ones.default"}, "not known to be zero"), ({"dim": 1}, "along dim 1")],
)
def test_other_additions_of_rows_are_not_mapped(changes, words):
    conversion = from_fx(index_add(**changes), patterns=True)
    (left,) = conversion.left
    assert (left.node, conversion.mapped) == ("sums", [])
    assert words in left.reason


def test_ids_in_any_order_go_to_the_operator_for_any_order():
    (entry,) = from_fx(index_add(ids=""), patterns=True).mapped
    assert entry.op == "EmbeddingDenseBackward"


@pytest.mark.parametrize(("rows", "mapped"), [(6, 1), (1, 0)])
def test_values_repeated_by_index_put_are_not_mapped(rows, mapped):
    graph = Graph()
    g, ids = graph.inputs(g=tensor("float32", rows, 5), i=tensor("int64", 6))
    base = graph.add("call_function", "zeros", "aten.zeros.default", [3, 5], val=tensor("float32", 3, 5))
    node = graph.add("call_function", "sums", "aten.index_put.default", base, [ids], g, True)
    graph.add("output", "output", "output", node)
    conversion = from_fx(graph, patterns=True)
    assert (len(conversion.mapped), len(conversion.left)) == (mapped, 1 - mapped)


@pytest.mark.parametrize("written", ["zeros", "ids"])
def test_value_overwritten_through_a_view_is_not_recomputed(written):
    graph = index_add()
    view = graph.add("call_method", "row", "select", next(n for n in graph.nodes if n.name == written), 0, 0)
    graph.add("call_method", "fill", "fill_", view, 1)
    (left,) = from_fx(graph, patterns=True).left
    assert "which row may overwrite" in left.reason


@pytest.mark.parametrize(("dims", "mapped"), [([1], 1), ([-2], 1), ([0], 0), ([0, 1], 0)])
def test_sums_over_the_middle_dim(dims, mapped):
    graph = Graph()
    (x,) = graph.inputs(x=tensor("float16", 3, 4, 5))
    graph.add("call_function", "s", "aten.sum.dim_IntList", x, dims)
    conversion = from_fx(graph, patterns=True)
    assert [entry.outputs for entry in conversion.mapped] == [["s"]] * mapped
    assert len(conversion.left) == 1 - mapped


# The same functions after `symbolic_trace`: functions of `torch` and methods.


def sums(target, *positions, by_name=(), sizes=True, base=None, written=False):
    graph = Graph()
    types = (tensor("float32", 6, 5), tensor("int64", 6), tensor("float32", 3, 5)) if sizes else (None,) * 3
    g, ids = graph.inputs(g=types[0], i=types[1])
    zeros = graph.add("get_attr", "zeros", "_tensor_constant0", val=types[2])
    if written:
        view = graph.add("call_method", "view", "view", zeros, -1)
        graph.add("call_method", "fill", "fill_", view, 1)
    values = {"g": g, "i": ids, "zeros": zeros}
    arguments = [values.get(position, position) for position in positions]
    named = {name: values.get(value, value) for name, value in dict(by_name).items()}
    op = "call_method" if isinstance(target, str) and "." not in target else "call_function"
    graph.add("output", "output", "output", graph.add(op, "sums", target, *arguments, **named))
    constant = np.zeros((3, 5), np.float32) if base is None else base
    held = SimpleNamespace(dtype=f"torch.{constant.dtype}", numel=lambda: constant.size, numpy=lambda: constant)
    held.detach = held.cpu = lambda: held
    return SimpleNamespace(graph=graph, _tensor_constant0=held)


def function(name):
    return SimpleNamespace(__name__=name, __module__="torch")


@pytest.mark.parametrize(
    "calls",
    [
        (function("index_add"), "zeros", 0, "i", "g"),
        (function("index_add"), "zeros", 0, {"index": "i", "source": "g"}),
        (function("index_add"), {"input": "zeros", "dim": 0, "index": "i", "source": "g"}),
        ("index_add", "zeros", 0, "i", "g"),
        ("aten.index_add", "zeros", 0, "i", "g"),
    ],
)
def test_functions_of_torch_and_methods(calls, rng):
    target, *positions = calls
    named = positions.pop() if isinstance(positions[-1], dict) else {}
    module = sums(target, *positions, by_name=named)
    conversion = from_fx(module, patterns=True)
    (entry,) = conversion.mapped
    assert (entry.op, entry.inputs) == ("EmbeddingDenseBackward", ["g", "i"])
    g, i = rng.normal(size=(6, 5)).astype(np.float32), rng.integers(0, 3, 6)
    expected = np.zeros((3, 5))
    np.add.at(expected, i, g)
    got = execute(conversion.model, {"g": g, "i": i}, operators="function")
    np.testing.assert_allclose(got["sums"], expected, rtol=1e-5, atol=1e-6)
    assert not from_fx(module).mapped


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ("index_add", {"sizes": False}, "unknown type of unknown rank"),
        ("index_add", {"base": np.ones((3, 5), np.float32)}, "not known to be zero"),
        ("index_add", {"written": True}, "which view may overwrite"),
        ("index_add_", {}, "overwrites its input"),
    ],
)
def test_reason_of_an_unmapped_method(target, options, words):
    conversion = from_fx(sums(target, "zeros", 0, "i", "g", **options), patterns=True)
    (left,) = conversion.left
    assert (left.node, conversion.mapped) == ("sums", [])
    assert words in left.reason


@pytest.mark.parametrize(("dims", "mapped", "left"), [((1,), 1, 0), (((1,), True), 1, 0), ((0,), 0, 1), ((), 0, 0)])
def test_sums_by_a_method(dims, mapped, left):
    graph = Graph()
    (x,) = graph.inputs(x=tensor("float16", 3, 4, 5))
    graph.add("call_method", "s", "sum", x, *dims)
    conversion = from_fx(graph, patterns=True)
    assert (len(conversion.mapped), len(conversion.left)) == (mapped, left)


# PyTorch's own graphs.


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_make_fx_and_symbolic_trace(torch):
    from torch.fx.experimental.proxy_tensor import make_fx

    def gradient(g, i):
        return torch.ops.aten.embedding_dense_backward(
            g, indices=i, num_weights=7, padding_idx=2, scale_grad_by_freq=True
        )

    arrays = torch.randn(4, 3, 5), torch.randint(0, 7, (4, 3))
    for module in (make_fx(gradient)(*arrays), torch.fx.symbolic_trace(gradient)):
        conversion = from_fx(module)
        assert conversion.mapped[0].attrs == {"num_weights": 7, "padding_idx": 2, "scale_grad_by_freq": True}
        feed = {v.name: array.numpy() for v, array in zip(conversion.model.graph.input, arrays, strict=True)}
        (got,) = execute(conversion.model, feed, operators="function").values()
        np.testing.assert_allclose(got, gradient(*arrays).numpy(), rtol=1e-5, atol=1e-6)


def test_rows_added_in_the_form_of_symbolic_trace(torch):
    from torch.fx.passes.shape_prop import ShapeProp

    def add(g, ids):
        return torch.index_add(torch.zeros(3, 5), 0, ids, g) + g.new_zeros(3, 5).index_add(0, ids, g)

    module = torch.fx.symbolic_trace(add)
    assert [entry.node for entry in from_fx(module, patterns=True).left] == ["index_add", "index_add_1"]
    ShapeProp(module).propagate(torch.randn(6, 5), torch.tensor([0, 2, 1, 1, 0, 0]))
    assert [entry.node for entry in from_fx(module, patterns=True).mapped] == ["index_add", "index_add_1"]


def test_the_backward_graph_of_aot_autograd(torch):
    from torch._functorch.aot_autograd import aot_module, make_boxed_func

    graphs = []

    def keep(module, _inputs):
        graphs.append(module)
        return make_boxed_func(module.forward)

    table = torch.nn.Embedding(20, 8, padding_idx=3)
    aot_module(table, fw_compiler=keep, bw_compiler=keep)(torch.randint(0, 20, (4, 6))).sum().backward()
    forward, backward = graphs
    assert not from_fx(forward).mapped
    assert from_fx(backward).mapped[0].attrs["padding_idx"] == 3


def test_export_keeps_the_convolution(torch):
    class Gradient(torch.nn.Module):
        def forward(self, g, x, w, b):
            return torch.ops.aten.conv_tbc_backward(g, x, w, b, 1)

    arrays = [torch.randn(*shape) for shape in ((6, 2, 4), (6, 2, 3), (3, 3, 4), (4,))]
    conversion = from_fx(torch.export.export(Gradient(), tuple(arrays)))
    assert conversion.mapped[0].inputs == ["g", "x", "w", "b"]
    feed = {name: array.numpy() for name, array in zip("gxwb", arrays, strict=True)}
    got = execute(conversion.model, feed, operators="function").values()
    for result_array, torch_result in zip(got, Gradient()(*arrays), strict=True):
        np.testing.assert_allclose(result_array, torch_result.numpy(), rtol=1e-4, atol=1e-5)


def test_rows_that_a_symbol_counts(torch):
    from torch.fx.experimental.proxy_tensor import make_fx

    def gradient(g, i, w):
        return torch.ops.aten.embedding_dense_backward(g, i, w.shape[0], -1, False)

    module = make_fx(gradient, tracing_mode="symbolic")(torch.randn(4, 5), torch.randint(0, 7, (4,)), torch.randn(7, 5))
    (left,) = from_fx(module).left
    assert "num_weights must be constant" in left.reason
