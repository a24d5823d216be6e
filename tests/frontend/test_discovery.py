"""Test that the folder `frontend/training` can be deleted: no list names its rules."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from opforge.frontend.rules.discovery import RULES, modules

ROOT = Path(__file__).resolve().parents[2]
DELETED = """
import importlib, pkgutil, sys
import onnx
from opforge import frontend
names = [
    module.name
    for folder in ("cli", "codegen", "frontend", "package", "twin")
    for module in pkgutil.walk_packages([f"opforge/{folder}"], f"opforge.{folder}.")
    if ".starters." not in module.name and not module.name.endswith("__main__")
]
for name in names:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Extras may be missing.
        if error.name.split(".")[0] not in ("torch", "torchair", "pygls", "lsprotocol", "onnxscript"):
            raise
print(len(names) > 250, frontend.__path__[0], sep="\\n")
domains = ", ".join(f'"{domain}" : 1' for domain in ("npu", "com.microsoft"))
text = f'''<ir_version: 8, opset_import: ["" : 18, {domains}]>
    g (float[4, 3] x, int64[2] i) => (float[2, 3] y, float[4, 3] z)
    {{y = npu.NPUGroupedBiasAddGrad (x, i) z = com.microsoft.ReluGrad (x, x)}}'''
conversion = frontend.convert(onnx.parser.parse_model(text), lower_training=True)
print(*(entry.op for entry in conversion.mapped), *(entry.reason for entry in conversion.left), sep="\\n")
"""
FOLDERS = ("cli", "codegen", "frontend", "package", "twin", "op_host", "op_kernel", "op_plugin", "op_proto")


def test_training_can_be_deleted(tmp_path):
    package = tmp_path / "opforge"
    ignored = shutil.ignore_patterns("training", "__pycache__", "torch")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, package / folder, ignore=ignored)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", DELETED]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    reason = "no formula exists for com.microsoft::ReluGrad"
    expected = ["True", f"{package}/frontend", "GroupedBiasAddGrad", reason]
    assert process.stdout.splitlines() == expected, process.stderr


def test_a_folder_of_rules_that_is_no_package_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "subject" / "inner").mkdir(parents=True)
    (tmp_path / "subject" / "__init__.py").touch()
    (tmp_path / "subject" / "inner" / "rule.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"subject/inner: got no __init__\.py, expected one beside rule\.py"):
        modules("subject")
    (tmp_path / "subject" / "inner" / "__init__.py").touch()
    assert [module.__name__ for module in modules("subject")] == ["subject.inner", "subject.inner.rule"]


def test_only_modules_of_rules_are_imported():
    """The modules that find and apply rules contain no rules, and are not searched for them."""
    engine = {path.stem for path in (ROOT / "frontend" / "rules").glob("*.py")}
    found = [module.__name__.split(".") for module in modules(RULES)]
    assert found
    assert [parts for parts in found if len(parts) == 4 and parts[-1] in engine] == []
    own = (ROOT / "frontend" / "rules").glob("*.py")
    assert [path.name for path in own if "(Rule)" in path.read_text(encoding="utf-8")] == []
