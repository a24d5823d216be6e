"""Test that the folder `frontend/training` can be deleted: no list names its rules."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from opforge.frontend.rules.discovery import RULES, modules

ROOT = Path(__file__).resolve().parents[2]
START = """
import importlib, pkgutil
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


def test_only_modules_of_rules_are_imported():
    """The modules that find and apply rules contain no rules, and are not searched for them."""
    engine = {path.stem for path in (ROOT / "frontend" / "rules").glob("*.py")}
    found = [module.__name__.split(".") for module in modules(RULES)]
    assert found
    assert [parts for parts in found if len(parts) == 4 and parts[-1] in engine] == []
    own = (ROOT / "frontend" / "rules").glob("*.py")
    assert [path.name for path in own if "(Rule)" in path.read_text(encoding="utf-8")] == []
