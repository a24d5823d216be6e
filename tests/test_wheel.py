"""The wheel works where the repository is not: an empty environment, another folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment that holds nothing but the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("wheel")
    built = shutil.ignore_patterns(".*", "build", "build_out", "*.egg-info", "__pycache__")
    sources = shutil.copytree(ROOT, folder / "sources", ignore=built)
    # As an earlier `pip wheel` leaves it, of a module that is no more.
    stale = sources / "build" / "lib" / "opforge" / "codegen" / "removed.py"
    stale.parent.mkdir(parents=True)
    stale.write_text("")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(sources)], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    (wheel,) = folder.glob("opforge-*.whl")
    python = folder / "venv" / "bin" / "python"
    subprocess.run(
        [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install", str(wheel)], check=True
    )
    return folder / "venv" / "bin"


def test_conversion_and_run_outside_the_repository(environment, tmp_path):
    node = helper.make_node("NPUGroupedBiasAddGrad", ["dy", "ends"], ["db"], domain="npu", name="bias_grad")
    graph = helper.make_graph(
        [node],
        "outside",
        [
            helper.make_tensor_value_info("dy", TensorProto.FLOAT, [10, 6]),
            helper.make_tensor_value_info("ends", TensorProto.INT32, [3]),
        ],
        [helper.make_tensor_value_info("db", TensorProto.FLOAT, [3, 6])],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("npu", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), tmp_path / "in.onnx")
    dy = np.random.default_rng(0).normal(size=(10, 6)).astype(np.float32)
    np.savez(tmp_path / "in.npz", dy=dy, ends=np.array([4, 4, 10], np.int32))

    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "OPFORGE", "ASCEND"))}
    clean |= {"XDG_CACHE_HOME": str(tmp_path / "cache")}

    def opforge(*arguments):
        return subprocess.run(
            [str(environment / "opforge"), *arguments],
            cwd=tmp_path,
            env=clean,
            capture_output=True,
            text=True,
            check=False,
        )

    converted = opforge("convert", "in.onnx", "-o", "out.onnx", "--json", "report.json")
    assert converted.returncode == 0, converted.stdout + converted.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert [entry["op"] for entry in report["mapped"]] == ["GroupedBiasAddGrad"]

    ran = opforge("run", "out.onnx", "--inputs", "in.npz", "--outputs", "out.npz")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    expected = np.stack([dy[:4].sum(axis=0), np.zeros(6), dy[4:].sum(axis=0)])
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["db"], expected, rtol=1e-6, atol=1e-6)


def test_wheel_holds_only_files_of_the_repository(environment):
    (wheel,) = environment.parent.parent.glob("opforge-*.whl")
    names = [name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("opforge/")]
    assert names
    assert [name for name in names if not (ROOT / name.removeprefix("opforge/")).is_file()] == []


def test_wheel_brings_what_projects_build_from(environment):
    listing = "from opforge.codegen.project import BUILTIN_ROOT as r; print(*[p.relative_to(r) for p in r.rglob('*')])"
    found = subprocess.run(
        [str(environment / "python"), "-c", listing], capture_output=True, text=True, check=True
    ).stdout.split()
    for needed in (
        "op_proto/grouped_bias_add_grad.yaml",
        "op_host/grouped_bias_add_grad_tiling.h",
        "op_kernel/grouped_bias_add_grad.h",
        "op_plugin/onnx_node.h",
        "package/scripts/install.sh",
        "twin/include/kernel_operator.h",
        "twin/npu_model.json",
        "codegen/py.typed",
    ):
        assert needed in found
    assert any(path.startswith("codegen/templates/") for path in found)
