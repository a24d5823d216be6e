"""The package `frontend/training` can be deleted: nothing else imports it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import importlib, pkgutil, sys
# Otherwise an editable installation finds what was deleted.
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder)]
import onnx
from opforge import frontend
names = [module.name for module in pkgutil.walk_packages(frontend.__path__, "opforge.frontend.")]
for name in names:
    importlib.import_module(name)
text = "g (float[4, 3] x, int64[2] i) => (float[2, 3] y, float[4, 3] z) {y = npu.NPUGroupedBiasAddGrad (x, i)"
text += " z = com.microsoft.ReluGrad (x, x)}"
model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18, "npu" : 1, "com.microsoft" : 1]> {text}')
conversion = frontend.convert(model, lower_training=True)
print(len(names) > 40, frontend.__path__[0], *(entry.op for entry in conversion.mapped), sep="\\n")
print(conversion.left[0].reason)
"""


def test_training_can_be_deleted(tmp_path):
    package = tmp_path / "opforge"
    package.mkdir()
    shutil.copytree(ROOT / "frontend", package / "frontend", ignore=shutil.ignore_patterns("training", "__pycache__"))
    for folder in ROOT.iterdir():
        if folder.is_dir() and (folder / "__init__.py").is_file() and folder.name != "frontend":
            (package / folder.name).symlink_to(folder)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    reason = "no formula is known for com.microsoft::ReluGrad"
    expected = ["True", f"{package}/frontend", "GroupedBiasAddGrad", reason]
    assert process.stdout.splitlines() == expected, process.stderr
