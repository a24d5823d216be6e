"""Test the generated ONNX plugin on nodes in the format of CANN's parser."""

from __future__ import annotations

import json
import subprocess

import pytest

from opforge.codegen.project import BUILTIN_ROOT
from opforge.codegen.render import render, tables_header
from opforge.codegen.spec.loader import load_specs

INT, FLOAT = 2, 1


@pytest.fixture(scope="module")
def parse(build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated")
    (folder / "opforge_tables.h").write_text(tables_header())
    for name, text in render(load_specs([BUILTIN_ROOT / "op_proto/grouped_bias_add_grad.yaml"])[0]):
        if name.startswith("op_plugin/") or name.endswith(("_check.h", "_problem.h")):
            (folder / name.rpartition("/")[2]).write_text(text)
    program = build("parse_node", folder)

    def run(attributes, *inputs):
        text = json.dumps({"attribute": attributes}) if isinstance(attributes, list) else attributes
        return subprocess.run([str(program), text, *inputs], capture_output=True, text=True, check=True)

    return run


@pytest.mark.parametrize(
    ("attributes", "inputs", "kind"),
    [
        ([{"name": "group_idx_type", "type": INT, "i": 1}], ("dy", "ends"), 1),
        ([{"name": "group_idx_type", "type": INT}], ("dy", "ends"), 0),
        ([], ("dy", "ends"), 0),
        ("", ("dy",), 0),
        ([], ("dy", ""), 0),
    ],
)
def test_node_is_parsed(parse, attributes, inputs, kind):
    result = parse(attributes, *inputs)
    assert (result.stdout, result.stderr) == (f"ok {kind}", "")


@pytest.mark.parametrize(
    ("attributes", "inputs", "message"),
    [
        ([{"name": "group_idx_type", "type": FLOAT, "f": "1"}], ("dy",), "attribute 'group_idx_type': got a float"),
        ([{"name": "axis", "type": INT, "i": 1}], ("dy",), "attribute 'axis' is unknown"),
        (
            [{"name": "group_idx_type", "type": INT, "i": 2}],
            ("dy", "ends"),
            "group_idx_type: got 2, expected 0 or 1 [C",
        ),
        ([{"name": "group_idx_type", "type": INT, "i": -1}], ("dy",), "group_idx_type: got -1, expected 0 or 1 [C"),
        ("{", ("dy",), "its attributes are no JSON text"),
        ([], (), "got no input 0, expected 'grad_y'"),
        ([], ("", "ends"), "got no input 0, expected 'grad_y'"),
        ([], ("a", "b", "c"), "got 3 inputs, expected at most 2"),
    ],
)
def test_failure_is_explained_by_the_plugin(parse, attributes, inputs, message):
    result = parse(attributes, *inputs)
    assert result.stdout == "failed"
    assert "node 'grad' (npu::1::NPUGroupedBiasAddGrad): " in result.stderr
    assert message in result.stderr
