"""Measure the cost of a conversion, compared with onnx and other tools on the same generated models.

Usage: python benchmarks/frontend.py [--nodes N] [--megabytes N] [--repeat N] [--peers/--no-peers] [--json FILE]

Each value covers a whole process including start-up: user CPU seconds with child processes, and peak memory. Each
command and its reference command run alternately, and the ratio is the median of the pairs, because a busy machine
slows down both. Rows: a model without matches, a model in which every hundredth node matches, the same model five times
as large, a model with external weights that is saved to another folder, `--help`, and a model of ten nodes. The other
tools run with their default options. Exit code: 0 ok, 1 a limit is missed, 2 bad input.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from math import isnan
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import onnx
import typer
from onnx import ModelProto, TensorProto, helper, numpy_helper
from script import command, table

from opforge.codegen.errors import UserError
from opforge.codegen.files import replace_file

_LAYER_NODES = 10
_PEER_SECONDS = 120
LOAD = "import onnx, sys; onnx.load(sys.argv[1])"
LOAD_SAVE = "import onnx, sys; onnx.save(onnx.load(sys.argv[1]), sys.argv[2])"
OPFORGE = "import sys; from opforge.cli.main import main; sys.argv[1:] = {}; main()"
CONVERT = OPFORGE.format("['convert', sys.argv[1], '-o', sys.argv[2]]")
HELP = OPFORGE.format("['--help']")
_SLIM = "import onnx, onnxslim, sys; onnx.save(onnxslim.slim(sys.argv[1]), sys.argv[2])"
_OPTIMIZE = """import onnx_ir, onnxscript.optimizer, sys
model = onnx_ir.load(sys.argv[1])
onnxscript.optimizer.optimize(model)
onnx_ir.save(model, sys.argv[2])"""
_SURGEON = """import onnx, onnx_graphsurgeon, sys
graph = onnx_graphsurgeon.import_onnx(onnx.load(sys.argv[1]))
onnx.save(onnx_graphsurgeon.export_onnx(graph.cleanup().toposort()), sys.argv[2])"""
# Required module and the code that runs it.
PEERS = {
    "onnx_ir load + save": ("onnx_ir", "import onnx_ir, sys; onnx_ir.save(onnx_ir.load(sys.argv[1]), sys.argv[2])"),
    "onnxscript optimize": ("onnxscript", _OPTIMIZE),
    "onnxslim": ("onnxslim", _SLIM),
    "graphsurgeon": ("onnx_graphsurgeon", _SURGEON),
}


@dataclass(frozen=True)
class Cost:
    """User CPU seconds and peak memory in MB of one process; NaN for a process that was stopped."""

    cpu_s: float
    peak_mb: float


@dataclass(frozen=True)
class Row:
    """One command on one model.

    Attributes:
        what: The command.
        model: The model.
        cpu_s: Median of its user CPU seconds.
        yardstick_s: Median of the user CPU seconds of the reference command.
        ratio: Median ratio of the pairs.
        peak_mb: Peak memory.
        limited_value: Name of the value with a limit: "ratio", "cpu_s" or "peak_mb"; "" for a row without a limit.
        limit: Limit of this value.
    """

    what: str
    model: str
    cpu_s: float
    yardstick_s: float
    ratio: float
    peak_mb: float
    limited_value: str = ""
    limit: float = 0.0

    @property
    def missed(self) -> bool:
        """Return whether the limit is missed."""
        return bool(self.limited_value) and not getattr(self, self.limited_value) <= self.limit


def layered_model(nodes: int, matches: int) -> ModelProto:
    """Return layers of ten nodes with separate weights and exporter-style names; rules match `matches` nodes."""
    rng = np.random.default_rng(3)
    made: list[onnx.NodeProto] = []
    weights: list[TensorProto] = []
    layers = nodes // _LAYER_NODES
    every = layers // matches if matches else layers + 1
    last = "x"
    for layer in range(layers):
        prefix = f"/model/layers.{layer}/"

        def add(op_type: str, inputs: Sequence[str], domain: str = "", prefix: str = prefix, **attrs: Any) -> str:
            name = f"{prefix}{op_type}_{len(made)}"
            made.append(helper.make_node(op_type, inputs, [f"{name}_output_0"], name=name, domain=domain, **attrs))
            return f"{name}_output_0"

        def weight(word: str, value: np.ndarray[tuple[int, ...], np.dtype[np.generic]], prefix: str = prefix) -> str:
            weights.append(numpy_helper.from_array(value, prefix + word))
            return prefix + word

        total = add("MatMul", [last, weight("weight", rng.standard_normal((8, 8)).astype(np.float32))])
        hidden = add("Relu", [add("Add", [total, weight("bias", np.zeros(8, np.float32))])])
        gated = add("Cast", [add("Mul", [hidden, add("Sigmoid", [hidden])])], to=TensorProto.FLOAT)
        last = add("Add", [hidden, add("Tanh", [add("Reshape", [gated, weight("shape", np.array([-1, 8]))])])])
        if layer % every == every - 1:
            last = add("Expand", [add("NPUGroupedBiasAddGrad", [last, "ends"], "npu"), "rows"])
            made.pop(-3)
            made[-2].input[0] = made[-3].output[0]
        else:
            last = add("Neg", [last])
    weights.append(numpy_helper.from_array(np.array([6, 8]), "rows"))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6, 8])]
    inputs.append(helper.make_tensor_value_info("ends", TensorProto.INT64, [1]))
    outputs = [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)]
    graph = helper.make_graph(made, "layers", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("npu", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def weighty_model(path: Path, megabytes: int) -> None:
    """Write a model with a matching node and `megabytes` MB of external weights."""
    model = layered_model(1000, 10)
    with (path.parent / "weights.bin").open("wb") as file:
        for number in range(10):
            data = np.full(megabytes * 100_000 // 4, number, np.float32).tobytes()
            tensor = TensorProto(name=f"table{number}", dims=[len(data) // 4], data_type=TensorProto.FLOAT)
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "weights.bin"), ("offset", file.tell()), ("length", len(data))):
                tensor.external_data.add(key=key, value=str(value))
            model.graph.initializer.append(tensor)
            file.write(data)
    path.write_bytes(model.SerializeToString())


def write_models(paths: Mapping[str, Path], nodes: int, megabytes: int) -> None:
    """Write the models of the rows."""
    onnx.save(layered_model(nodes, 0), paths["plain"])
    onnx.save(layered_model(nodes, nodes // 100), paths["matches"])
    onnx.save(layered_model(nodes // 5, nodes // 500), paths["fifth"])
    onnx.save(layered_model(10, 1), paths["small"])
    weighty_model(paths["weights"], megabytes)


def run(code: str, *arguments: Path, seconds: float = 3600) -> Cost:
    """Run one process and return its cost.

    Raises:
        UserError: The process failed.
    """
    began = time.monotonic()
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", code, *map(str, arguments)],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    while True:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() - began > seconds:
            os.kill(child, 9)
            os.wait4(child, 0)
            return Cost(float("nan"), float("nan"))
        time.sleep(0.01)
    if status:
        raise UserError(f"{code[:60]}: got exit status {os.waitstatus_to_exitcode(status)}, expected 0")
    return Cost(usage.ru_utime, usage.ru_maxrss / 1024)


def compare(
    what: str, code: str, reference: str, model: Path, out: Path, repeat: int, limited_value: str = "", limit: float = 0
) -> Row:
    """Run a command and its reference command alternately."""
    pairs = [(run(code, model, out), run(reference, model, out)) for _ in range(repeat)]
    return _row(what, model, pairs, limited_value, limit)


def _row(what: str, model: Path, pairs: Sequence[tuple[Cost, Cost]], limited_value: str = "", limit: float = 0) -> Row:
    return Row(
        what,
        model.stem,
        round(median(ours.cpu_s for ours, _ in pairs), 3),
        round(median(other.cpu_s for _, other in pairs), 3),
        round(median(ours.cpu_s / other.cpu_s for ours, other in pairs), 2),
        round(max(ours.peak_mb for ours, _ in pairs), 1),
        limited_value,
        limit,
    )


def measured(folder: Path, nodes: int, megabytes: int, repeat: int, *, peers: bool) -> list[Row]:
    """Return all rows."""
    paths = {name: folder / f"{name}.onnx" for name in ("plain", "matches", "fifth", "small", "weights")}
    # Use another process, because child processes inherit the peak memory of this one.
    process = get_context("spawn").Process(target=write_models, args=(paths, nodes, megabytes))
    process.start()
    process.join()
    if process.exitcode != 0:
        raise UserError(
            f"models: got exit status {process.exitcode} of the process that writes them, expected 0;"
            " see its error above"
        )
    out, target_folder = folder / "out.onnx", folder / "elsewhere"
    target_folder.mkdir()
    rows = [
        compare("convert / onnx.load", CONVERT, LOAD, paths["plain"], out, repeat, "ratio", 1.8),
        compare("convert / onnx load + save", CONVERT, LOAD_SAVE, paths["matches"], out, repeat, "ratio", 2.8),
    ]
    pairs = [(run(CONVERT, paths["matches"], out), run(CONVERT, paths["fifth"], out)) for _ in range(repeat)]
    rows.append(_row("convert / convert of a fifth", paths["matches"], pairs, "ratio", 6))
    rows.append(compare("convert", CONVERT, LOAD, paths["small"], out, repeat, "cpu_s", 0.9))
    rows.append(compare("--help", HELP, LOAD, paths["small"], out, repeat, "cpu_s", 0.3))
    rows.append(compare("convert", CONVERT, LOAD, paths["weights"], target_folder / "out.onnx", 1, "peak_mb", 150))
    _require_same_weights(folder, target_folder)
    for what, (module, code) in PEERS.items() if peers else ():
        if find_spec(module) is None:
            typer.echo(f"{what}: not installed; pip install '.[peers]' brings it", err=True)
            continue
        for path in (paths["small"], paths["fifth"], paths["matches"]):
            pairs = []
            # A command that was stopped would be stopped again, also on a larger model.
            while len(pairs) < repeat and not (pairs and isnan(pairs[0][0].cpu_s)):
                pairs.append((run(code, path, out, seconds=_PEER_SECONDS), run(LOAD_SAVE, path, out)))
            rows.append(_row(f"{what} / onnx load + save", path, pairs))
            if isnan(pairs[0][0].cpu_s):
                break
    return rows


def _require_same_weights(source: Path, target: Path) -> None:
    """Raise if weights were changed or cannot be loaded from the new folder."""
    digests = set()
    for folder in (source, target):
        with (folder / "weights.bin").open("rb") as file:
            digests.add(hashlib.file_digest(file, "sha256").hexdigest())
    if len(digests) != 1:
        raise UserError("weights.bin: the copy differs from the source, expected equal bytes")
    run(LOAD, target / "out.onnx")


def main(
    nodes: Annotated[int, typer.Option(min=5000, help="Nodes of the large models.")] = 100_000,
    megabytes: Annotated[int, typer.Option(min=1, help="MB of external weights.")] = 500,
    repeat: Annotated[int, typer.Option(min=1, help="Pairs of each comparison.")] = 5,
    peers: Annotated[bool, typer.Option(help="Run the other tools too.")] = True,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the rows there.")] = None,
) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        rows = measured(Path(name), nodes, megabytes, repeat, peers=peers)
    heads = ("command", "model", "cpu_s", "yardstick_s", "ratio", "peak_mb", "limit")
    lines = [heads]
    for r in rows:
        limit = f"{r.limited_value} {r.limit:g}{' MISSED' if r.missed else ''}" if r.limited_value else ""
        lines.append(
            (r.what, r.model, f"{r.cpu_s:.2f}", f"{r.yardstick_s:.2f}", f"{r.ratio:.2f}", f"{r.peak_mb:.0f}", limit)
        )
    typer.echo(table(lines))
    if json_out is not None:
        replace_file(json_out, json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    raise typer.Exit(1 if any(row.missed for row in rows) else 0)


if __name__ == "__main__":
    command(main)
