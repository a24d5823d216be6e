"""Test models that crash, hang or use much memory: one clear line, exit code 2, and little memory."""

import gc
import os
import resource
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from opforge.codegen.errors import UserError
from opforge.codegen.process_limits import LimitError, Limits
from opforge.frontend import convert, limits
from opforge.frontend.io.load import load_model, parse_model
from opforge.frontend.ir.constants import Constants
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.names import FreshNames
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.value_types import MAX_EXPANDED_NODES, ValueTypes, expanded_nodes
from opforge.frontend.limits import in_child, limits_for

MIB = 1 << 20
SMALL = Limits(2, 64 * MIB)


def varint(number):
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


def field(number, data):
    """Return a protobuf field with a length: a message, a string, or packed numbers."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def model_with(graph):
    """Return a model of IR 8 and opset 18 with the bytes of a graph; protobuf merges repeated fields."""
    source = "g (float[6, 3] x, int64[2] i) => (float[2, 3] y) {y = npu.NPUGroupedBiasAddGrad (x, i)}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18, "npu" : 1]> {source}')
    return model.SerializeToString() + field(7, graph)


NODE, INITIALIZER = 1, 5
BOMBS = {
    "nodes without content": lambda size: field(NODE, b"") * (size // 2),
    "inputs of a node": lambda size: field(NODE, field(1, b"") * (size // 2)),
    "packed numbers": lambda size: field(INITIALIZER, field(8, b"t") + field(7, bytes(size))),
    "dims": lambda size: field(INITIALIZER, field(8, b"t") + field(1, bytes(size))),
}


def opforge(*arguments, **options):
    """Run the command line; return its exit code, its stderr, and the largest memory of its processes."""
    command = [sys.executable, "-c", "from opforge.cli.main import main; main()", *map(str, arguments)]
    measured = (
        "import resource, subprocess, sys; code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode"
    )
    measured += "; print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run(
        [sys.executable, "-c", measured, *command], capture_output=True, text=True, check=True, **options
    )
    code, kilobytes = map(int, done.stdout.split())
    return code, done.stderr, kilobytes / 1024


@pytest.mark.parametrize(
    "kind",
    [
        kind if kind in ("nodes without content", "dims") else pytest.param(kind, marks=pytest.mark.all)
        for kind in BOMBS
    ],
)
def test_a_file_of_64_mb_takes_less_than_1_gb(tmp_path, kind):
    path, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    path.write_bytes(model_with(BOMBS[kind](63 * MIB)))
    code, text, megabytes = opforge("convert", path, "-o", out)
    assert (code, text.count("\n")) == (2, 1), text
    assert "need far more memory" in text
    assert str(path) in text
    assert megabytes < 1000
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.all
def test_memory_limit_after_reading_is_one_line(tmp_path):
    path, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    one = field(NODE, field(1, b"x") + field(1, b"x") + field(4, b"NPUGroupedBiasAddGrad") + field(7, b"npu"))
    path.write_bytes(model_with(one * 300_000))
    code, text, megabytes = opforge("convert", path, "-o", out, env={**os.environ, limits.MEMORY_VARIABLE: "240"})
    assert (code, text.count("\n")) == (2, 1), text
    assert "needs more than 240 MB of memory" in text
    assert "set OPFORGE_MEMORY_MB=480 or more" in text
    assert megabytes < 400
    assert not out.exists()


@pytest.mark.all
def test_a_long_model_is_held_a_few_times_only(tmp_path):
    """Source, copy, inferred types, and an index of each: about 2.3 kB per node; no second inference, no cycles."""
    path, names = tmp_path / "m.onnx", [f"/model/layers.{number}/act/Out" for number in range(200_000)]
    nodes = [helper.make_node("Relu", [a], [b], b) for a, b in zip(["x", *names], names, strict=False)]
    nodes.append(helper.make_node("NPUGroupedBiasAddGrad", [names[-1]], ["y"], domain="npu"))
    ends = [helper.make_tensor_value_info(*entry) for entry in (("x", 1, [2, 4, 3]), ("y", 1, [2, 3]))]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("npu", 1)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    path.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    environment = {**os.environ, limits.MEMORY_VARIABLE: "720"}
    code, text, _ = opforge("convert", path, "-o", tmp_path / "o.onnx", env=environment)
    assert (code, text) == (0, "")


def test_the_bodies_of_a_model_are_in_no_cycle():
    model = typed("(bool c, float[2] x) => (float[2] y) {}")
    branch = onnx.parser.parse_graph("b () => (float[2] z) {z = Relu (x)}")
    model.graph.node.append(helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch))
    view = GraphView(model)
    gc.collect()
    assert [body.name for body in view.bodies(model)] == ["g", "b", "b"]
    assert gc.collect() == 0


@pytest.mark.parametrize(("end", "code"), [("os._exit(1)", 2), ("os._exit(0)", 2), ("sys.exit(1)", 1), ("pass", 0)])
def test_a_library_that_ends_the_process_is_a_limit(end, code):
    """OpenBLAS calls exit if an allocation fails."""
    start = "import os, sys; from opforge.frontend.limits import claimed, limits_for, supervise; supervise()"
    script = f"{start}\nwith claimed('m.onnx', limits_for(9)): {end}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, "m.onnx: needs more than 850 MB" in done.stderr) == (code, code == 2)


def test_the_variable_allows_more(monkeypatch):
    data = model_with(BOMBS["nodes without content"](8 * MIB))
    with pytest.raises(UserError, match="far more memory"):
        parse_model(data, "m.onnx")
    monkeypatch.setenv(limits.MEMORY_VARIABLE, "1000")
    assert len(parse_model(data, "m.onnx").graph.node) == 1 + 4 * MIB
    assert limits_for(10).memory == 1000 * MIB
    monkeypatch.setenv(limits.MEMORY_VARIABLE, "much")
    with pytest.raises(UserError, match="'much', expected a number of MB"):
        parse_model(data, "m.onnx")


def test_reading_restores_the_limits_of_the_process(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(UserError):
        parse_model(b"\x3a\xff\xff\xff\xff\x07", "m.onnx")
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_limits_grow_with_the_file_size():
    assert limits_for(10 * MIB) == limits_for(64 * MIB)
    assert limits_for(500 * MIB).memory > 2000 * MIB


def test_child_returns_a_result_or_a_reason():
    assert in_child(lambda: b"x" * 3_000_000, SMALL) == b"x" * 3_000_000
    with pytest.raises(LimitError, match=r"crashes \(SIGABRT\)"):
        in_child(os.abort, SMALL)
    with pytest.raises(LimitError, match="more than 64 MB"):
        in_child(lambda: bytes(len(bytearray(200 * MIB))), SMALL)
    with pytest.raises(UserError, match="bad input"):
        in_child(refuse, SMALL)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        in_child(lambda: 1 // 0, SMALL)


def test_garbage_of_the_parent_is_not_the_childs():
    """A finalizer would run twice, or wait for threads that exist only in the parent."""

    class Ending:
        def __del__(self):
            if os.getpid() != parent:
                os._exit(9)

    def work():
        gc.collect()
        return b"done"

    parent = os.getpid()
    gc.disable()
    try:
        cycle = Ending()
        cycle.itself = cycle
        del cycle
        assert in_child(work, SMALL) == b"done"
    finally:
        gc.enable()


# The function at the fork allocates enough to start the garbage collection.
GARBAGE_AT_FORK = """
import gc, os
from opforge.codegen.process_limits import Limits
from opforge.frontend.limits import in_child

class Ending:
    def __del__(self):
        if os.getpid() != parent:
            os._exit(9)

parent = os.getpid()
os.register_at_fork(after_in_child=lambda: [[] for _ in range(100_000)])
cycle = Ending()
cycle.itself = cycle
del cycle
print(in_child(lambda: b"done", Limits(1, 64 << 20)).decode(), gc.isenabled())
"""


def test_no_garbage_is_collected_while_a_child_starts():
    done = subprocess.run([sys.executable, "-c", GARBAGE_AT_FORK], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done True\n"), done.stderr


def refuse():
    raise UserError("bad input")


def test_a_child_that_never_ends_is_ended():
    def work():
        while True:
            pass

    began = time.process_time()
    with pytest.raises(LimitError, match="more than 1 s of CPU time"):
        in_child(work, Limits(1, 64 * MIB))
    assert time.process_time() - began < 1


def typed(body, **initializers):
    source = f'<ir_version: 8, opset_import: ["" : 18, "npu" : 1]> g {body}'
    model = onnx.parser.parse_model(source)
    model.graph.initializer.extend(
        numpy_helper.from_array(np.array(value), name) for name, value in initializers.items()
    )
    return model


def test_a_model_that_crashes_shape_inference_is_still_converted():
    model = typed(
        "(float[6, 3] x, int64[2] i, float[2, 3] z) => (float[2, 3] y, s)"
        " {r = Relu (x) y = npu.NPUGroupedBiasAddGrad (r, i)"
        " s = LayerNormalization <axis = 4611686018427387904> (z, z)}"
    )
    assert [entry.op for entry in convert(model).mapped] == ["GroupedBiasAddGrad"]


def test_constants_are_not_computed_without_end():
    count = 2000
    body = "".join(f" c{number} = ConstantOfShape (n)" for number in range(count))
    model = typed(f"(float[6, 3] x) => (float[6, 3] y) {{y = Relu (x){body}}}", n=[60000])
    view = GraphView(model)
    constants = Constants(ValueTypes(view))
    sizes = [value_size(constants, view.main, f"c{number}") for number in range(count)]
    assert sizes[0] == 240_000
    assert sum(sizes) <= 32 * MIB
    with pytest.raises(Unmatched, match="too many constants"):
        constants.value(view.main, f"c{count - 1}")


def value_size(constants, scope, name):
    try:
        return constants.value(scope, name).nbytes
    except Unmatched:
        return 0


def test_cached_reason_has_constant_traceback_depth():
    view = GraphView(typed("(float[6, 3] x) => (float[6, 3] y) {y = Relu (x)}"))
    constants = Constants(ValueTypes(view))
    depths = set()
    for _ in range(5):
        with pytest.raises(Unmatched) as caught:
            constants.value(view.main, "y")
        depths.add(len(caught.traceback))
    assert len(depths - {max(depths)}) <= 1


def test_many_equal_names_take_linear_time():
    names = FreshNames(["n"])
    began = time.process_time()
    found = [names.fresh("n") for _ in range(100_000)]
    assert time.process_time() - began < 5
    assert len({*found, "n"}) == 100_001


def function(name, *calls):
    nodes = [helper.make_node(call, ["a"], [f"t{number}"], domain="d") for number, call in enumerate(calls)]
    nodes.append(helper.make_node("Identity", ["a"], ["b"]))
    return helper.make_function(
        "d", name, ["a"], ["b"], nodes, [helper.make_opsetid("", 18), helper.make_opsetid("d", 1)]
    )


def test_the_size_of_functions_is_found_in_linear_time():
    model = typed("(float[6, 3] x) => (float[6, 3] y) {y = Relu (x)}")
    model.graph.node.append(helper.make_node("F0", ["x"], ["z"], domain="d"))
    model.functions.extend(function(f"F{level}", *[f"F{level + 1}"] * 2) for level in range(2000))
    model.functions.append(function("F2000"))
    assert expanded_nodes(model) > MAX_EXPANDED_NODES
    del model.functions[:]
    model.functions.extend([function("F0", *["F1"] * 20_000), function("F1", *["F2"] * 20_000), function("F2")])
    began = time.process_time()
    assert expanded_nodes(model) > MAX_EXPANDED_NODES
    assert time.process_time() - began < 5


@pytest.mark.parametrize("name", ["/proc/self/mem", "/proc/kmsg"])
def test_files_of_the_system_are_one_line(name, tmp_path):
    from pathlib import Path

    with pytest.raises(UserError) as caught:
        load_model(Path(name))
    assert "\n" not in str(caught.value)
