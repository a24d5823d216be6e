"""Compare the page "Troubleshooting" with the commands and the sources."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import TensorProto, helper, parser, save
from shown import fences, follow, shell

from opforge.package.pack import pack

ROOT = Path(__file__).resolve().parents[2]
STEPS = fences(ROOT / "docs" / "troubleshooting.md")
QUOTES = [line for step in STEPS if step.language == "text" for line in step.text.splitlines()]


def model(path, op, domain="npu", ends=TensorProto.INT32, opset=18, shape=(10, 6)):
    inputs = [
        helper.make_tensor_value_info("dy", TensorProto.FLOAT, shape),
        helper.make_tensor_value_info("ends", ends, [3]),
    ]
    output = helper.make_tensor_value_info("db", TensorProto.FLOAT, [3, 6])
    graph = helper.make_graph(
        [helper.make_node(op, ["dy", "ends"], ["db"], "grad", domain=domain)], "g", inputs, [output]
    )
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    save(helper.make_model(graph, opset_imports=opsets), path)


@pytest.fixture
def folder(tmp_path):
    """Create the files that the commands of the page use."""
    model(tmp_path / "good.onnx", "NPUGroupedBiasAddGrad")
    model(tmp_path / "unknown.onnx", "GroupedBiasAddGradient")
    model(tmp_path / "new.onnx", "NPUGroupedBiasAddGrad", "", opset=23)
    model(tmp_path / "float.onnx", "NPUGroupedBiasAddGrad", ends=TensorProto.FLOAT)
    model(tmp_path / "shape.onnx", "NPUGroupedBiasAddGrad", shape=(10, 6, 2))
    text = "pool (float[1, 2, 4] x) => (y, i) {[pool] y, i = MaxPool <kernel_shape = [2]> (x)}"
    save(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}'), tmp_path / "pool.onnx")
    spec = (ROOT / "codegen" / "starters" / "row_reduction" / "op_proto" / "row_max.yaml").read_text()
    (tmp_path / "wrong.yaml").write_text(spec.replace("inputs:", "input:").replace("D > 0", "DD > 0"))
    skeleton = tmp_path / "skeleton" / "op_proto"
    skeleton.mkdir(parents=True)
    (skeleton / "row_max.yaml").write_text(spec)
    pack(out=tmp_path).rename(tmp_path / "custom_opp.run")
    return tmp_path


def test_commands_print_the_output_on_the_page(folder):
    variables = {key: value for key, value in os.environ.items() if not key.startswith("ASCEND")}
    variables["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def run(command, place):
        # `generate` runs in a project without a kernel, all other commands with the operators of this repository.
        place = place / "skeleton" if "opforge generate" in command and "wrong.yaml" not in command else place
        return shell(command, place, variables)

    steps = [step for step in STEPS if step.language == "console"]
    subprocess.run([sys.executable, "-m", "opforge.cli", "build"], cwd=folder, env=variables, check=True)
    assert follow(steps, folder, run) > 10


@pytest.mark.parametrize("quote", QUOTES)
def test_quoted_message_is_in_the_sources(quote):
    sources = [
        *ROOT.glob("twin/src/**/*.cpp"),
        *ROOT.glob("op_host/common/*.h"),
        *ROOT.glob("package/**/*.py"),
        *ROOT.glob("codegen/templates/*.j2"),
    ]
    text = re.sub(r'"\s*\n\s*"', "", "\n".join(path.read_text(encoding="utf-8") for path in sources))
    parts = [part for part in quote.split("...") if len(part.strip("() >")) > 5]
    assert parts
    assert [part for part in parts if part.strip() not in text] == []
