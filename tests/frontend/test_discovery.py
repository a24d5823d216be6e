"""A rule is one file in `frontend/rules`, and the folder `frontend/training` can be deleted: no list names either."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START = """
import importlib, pkgutil, sys
# Otherwise an editable installation finds what was deleted.
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder)]
import onnx
from opforge import frontend
names = [module.name for module in pkgutil.walk_packages(frontend.__path__, "opforge.frontend.")]
for name in names:
    importlib.import_module(name)
print(len(names) > 40, frontend.__path__[0], sep="\\n")
def convert(text, **options):
    domains = ", ".join(f'"{domain}" : 1' for domain in ("npu", "com.microsoft"))
    head = f'<ir_version: 8, opset_import: ["" : 18, {domains}]>'
    return frontend.convert(onnx.parser.parse_model(f"{head} {text}"), **options)
"""
DELETED = """
text = "g (float[4, 3] x, int64[2] i) => (float[2, 3] y, float[4, 3] z) {y = npu.NPUGroupedBiasAddGrad (x, i)"
conversion = convert(text + " z = com.microsoft.ReluGrad (x, x)}", lower_training=True)
print(*(entry.op for entry in conversion.mapped), *(entry.reason for entry in conversion.left), sep="\\n")
"""
RULE = '''
from opforge.frontend.rules.node_builder import NodeBuilder, Value
from opforge.frontend.ir.reason import Reason, Unmatched
from opforge.frontend.rules.rule import ExtraNodes, Match, Rule


class DropNegations(Rule):
    """`Neg(Neg(x))` -> `Identity(x)`."""

    name = "DropNegations"
    pattern = (("", "Neg"),)

    @classmethod
    def instances(cls, specs):
        return [cls()]

    def check(self, context, scope, number):
        node = scope.node(number)
        builder = NodeBuilder(context, scope, node)
        inner = builder.maker(Value(builder, node.input[0]))
        if inner is None or inner.op_type != "Neg":
            raise Unmatched("negates no negation")
        builder.op("Identity", Value(builder, inner.input[0]))
        builder.nodes[0].output[0] = node.output[0]
        return Match((number,), around=ExtraNodes(before=tuple(builder.nodes)))
'''
ADDED = """
conversion = convert("g (float[4] x) => (float[4] z) {[a] y = Neg (x) [b] z = Neg (y)}")
print(*(node.op_type for node in conversion.model.graph.node), *(entry.node for entry in conversion.lowered), sep="\\n")
"""


def run(folder, program):
    package = folder / "opforge"
    for other in ROOT.iterdir():
        if other.is_dir() and (other / "__init__.py").is_file() and other.name != "frontend":
            (package / other.name).symlink_to(other)
    environment = os.environ | {"PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", START + program]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = process.stdout.splitlines()
    assert lines[:2] == ["True", f"{package}/frontend"], process.stderr
    return lines[2:]


def test_training_can_be_deleted(tmp_path):
    ignored = shutil.ignore_patterns("training", "__pycache__")
    shutil.copytree(ROOT / "frontend", tmp_path / "opforge" / "frontend", ignore=ignored)
    reason = "no formula exists for com.microsoft::ReluGrad"
    assert run(tmp_path, DELETED) == ["GroupedBiasAddGrad", reason]


def test_a_rule_is_one_file(tmp_path):
    target = tmp_path / "opforge" / "frontend"
    shutil.copytree(ROOT / "frontend", target, ignore=shutil.ignore_patterns("__pycache__"))
    (target / "rules" / "drop_negations.py").write_text(RULE)
    assert run(tmp_path, ADDED) == ["Identity", "b"]
