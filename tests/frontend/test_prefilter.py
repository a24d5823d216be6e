"""Test models that are copied because of the types of their nodes."""

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from opforge.frontend import prefilter
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.operators import project_specs
from opforge.frontend.pipeline import convert
from opforge.frontend.rules.context import Context
from opforge.frontend.rules.search import Search

PLAIN = "g (float[N] x) => (float[N] y) {t = Relu (x) y = Neg (t)}"
LOADED = """
import sys
from pathlib import Path
from opforge.frontend.commands import ConvertOptions, convert_command
convert_command(Path(sys.argv[1]), Path(sys.argv[2]), ConvertOptions())
print({"pydantic", "opforge.frontend.rules.context"} & sys.modules.keys())
"""


def parse(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18, "npu" : 1]> {text}')


@pytest.mark.parametrize("options", [set(), {"patterns"}])
def test_the_types_are_those_of_the_rules(options):
    context = Context(GraphView(parse(PLAIN)), {spec.op_type: spec for spec in project_specs()}, None)
    keys = Search(context, options, "opforge")._rules.keys()
    custom_types = {op_type for domain, op_type in keys if domain == ""}
    expected = prefilter.tried_types(patterns=bool(options))
    assert (
        {op_type for op_type in custom_types if not op_type.startswith("NPU")} <= expected <= {name for _, name in keys}
    )
    assert any(op_type.startswith("NPU") for op_type in custom_types)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("    pattern = op.Exp('x')", {"Exp"}),
        ("    pattern = op.Exp('x') | Operators().Log(\n        op.Neg('x')\n    )", {"Exp", "Log"}),
        ("    is_hinted = False\n    pattern = op.Exp('x')", {"Exp"}),
        ("    group = 'patterns'\n    is_hinted = False\n    pattern = op.Exp('x')", set()),
        ("    pattern = tuple(('', name) for name in ('Exp',))", None),
        ("    pattern = _PATTERN", None),
        ("    pattern = op.Exp('x').named('y')", None),
        ("    pattern: Pattern = op.Exp('x')", {"Exp"}),
        ("    @property\n    def pattern(self): return op.Exp('x')", None),
        ("    name = 'None'", None),
    ],
)
def test_a_pattern_that_cannot_be_read_is_an_error(body, expected, tmp_path, monkeypatch):
    (tmp_path / "subject").mkdir()
    (tmp_path / "subject" / "rule.py").write_text(f"class New(Rule):\n{body}\n")
    monkeypatch.setattr(prefilter, "_RULES", tmp_path)
    if expected is None:
        with pytest.raises(TypeError, match=r"rule\.py:1: New: .* op\.Type"):
            prefilter.tried_types.__wrapped__(patterns=False)
    else:
        assert prefilter.tried_types.__wrapped__(patterns=False) == expected


@pytest.mark.parametrize("patterns", [False, True])
@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("Exp (x)", True),
        ("Mul (x, x)", None),
        ("Concat <axis = 0> (x, x)", False),
        ("NPUGroupedBiasAddGrad (x, x)", False),
        ("npu.Exp (x)", False),
        (
            "If (c) <then_branch = t () => (z) {z = Concat <axis = 0> (x)}, else_branch = e () => (z) {z = Exp (x)}>",
            False,
        ),
    ],
)
def test_models_with_candidate_nodes_are_not_plain(node, expected, patterns):
    model = parse(f"g (float[N] x, bool c) => (y) {{y = {node}}}")
    found = prefilter.is_plain(GraphView(model), patterns=patterns)
    assert found is (not patterns if expected is None else expected)
    if found:
        conversion = convert(model, patterns=patterns)
        assert (conversion.changed, conversion.mapped, conversion.left) == (False, [], [])


def test_a_copy_loads_neither_rules_nor_specs(tmp_path):
    source, target = tmp_path / "m.onnx", tmp_path / "o.onnx"
    onnx.save(parse(PLAIN), source)
    process = subprocess.run(
        [sys.executable, "-c", LOADED, source, target], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    assert process.stdout.splitlines() == [
        "0 mapped, 0 not mapped; nodes: 2 before, 2 after; the model is unchanged",
        "set()",
    ]
    assert target.read_bytes() == source.read_bytes()
