"""Test the wheel outside the repository: an empty environment, another folder."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from coverage_clone import PRINTS, example
from onnx import TensorProto, helper

from opforge.codegen.new import starters
from opforge.twin.compiler.runtime_library import prebuild

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.long
def test_conversion_and_run_outside_the_repository(installed, tmp_path):
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

    def opforge(*arguments):
        return installed.run("opforge", *arguments, cwd=tmp_path)

    converted = opforge("convert", "in.onnx", "-o", "out.onnx", "--json", "report.json")
    assert converted.returncode == 0, converted.stdout + converted.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert [entry["op"] for entry in report["mapped"]] == ["GroupedBiasAddGrad"]

    ran = opforge("run", "out.onnx", "--inputs", "in.npz", "--outputs", "out.npz")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    expected = np.stack([dy[:4].sum(axis=0), np.zeros(6), dy[4:].sum(axis=0)])
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["db"], expected, rtol=1e-6, atol=1e-6)
    kernels = list((installed.folder / "cache").rglob("tbe/kernel/*/*/*.so"))
    assert {path.parent.name for path in kernels} == {"grouped_bias_add_grad"}, "what is not run is not compiled"
    assert not list((installed.folder / "cache").rglob("twin/obj/src")), "the library of the clone is taken"


def test_coverage_runs_programs_with_the_library_of_another_folder(installed, tmp_path):
    example(tmp_path / "clone", "passes", PRINTS.replace("@", "pass"))
    result = installed.run("opforge", "coverage", "clone", "--json", "rows.json", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    (row,) = json.loads((tmp_path / "rows.json").read_text())["sources"]
    assert (row["compiled"], row["ran"], row["right"]) == (True, True, True)


def test_wheel_holds_only_files_of_the_repository(installed):
    everything = zipfile.ZipFile(installed.wheel).namelist()
    assert [name for name in everything if name.endswith(".data/data/share/cmake/ASC/ASCConfig.cmake")]
    names = [name for name in everything if name.startswith("opforge/")]
    assert names
    sources = [name.removeprefix("opforge/").replace("torch/", "op_plugin/torch/", 1) for name in names]
    assert [name for name in sources if not (ROOT / name).is_file()] == []
    assert "op_plugin/torch/operators/grouped_bias_add_grad.py" in sources


@pytest.mark.all
def test_wheel_of_a_platform_holds_the_compiled_library(tmp_path):
    prebuild(tmp_path / "prebuilt")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, env=os.environ | {"OPFORGE_PREBUILT": str(tmp_path / "prebuilt")}, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith(f"-py3-none-linux_{platform.machine()}.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"opforge/twin/prebuilt/libopforge_twin.so{suffix}" for suffix in ("", ".json")} <= names
    assert not [name for name in names if name.endswith(".lock")]


def test_wheel_contains_the_sources_for_projects(installed, tmp_path):
    listing = "from opforge.codegen.project import BUILTIN_ROOT as r; print(*[p.relative_to(r) for p in r.rglob('*')])"
    found = installed.run("python", "-c", listing, cwd=tmp_path).stdout.split()
    for needed in (
        "op_proto/grouped_bias_add_grad.yaml",
        "op_host/grouped_bias_add_grad_tiling.h",
        "op_kernel/grouped_bias_add_grad.h",
        "op_plugin/onnx_node.h",
        "package/install/install.sh",
        "twin/include/kernel_operator.h",
        "twin/npu_model.json",
        "codegen/py.typed",
        "codegen/starters/project/.gitignore",
    ):
        assert needed in found
    assert any(path.startswith("codegen/templates/") for path in found)


# Inputs of a node of each starter.
INPUTS = {
    "elementwise": {"x": (TensorProto.FLOAT, [4, 3]), "y": (TensorProto.FLOAT, [4, 3])},
    "row_reduction": {"x": (TensorProto.FLOAT, [4, 3])},
    "row_column_reduction": {"grad_y": (TensorProto.FLOAT, [4, 3]), "x": (TensorProto.FLOAT, [4, 3])},
    "segmented_reduction": {"x": (TensorProto.FLOAT, [4, 3]), "ends": (TensorProto.INT64, [2])},
    "scatter": {"x": (TensorProto.FLOAT, [4, 3]), "indices": (TensorProto.INT32, [4])},
    "gemm": {"x": (TensorProto.FLOAT, [4, 3]), "weight": (TensorProto.FLOAT, [5, 3])},
}


def test_every_starter_has_a_node():
    assert sorted(INPUTS) == starters()


@pytest.mark.parametrize(
    "starter", ["scatter", *(pytest.param(s, marks=pytest.mark.all) for s in INPUTS if s != "scatter")]
)
def test_new_project_is_tested_packed_and_mapped_at_once(starter, installed, tmp_path):
    project = tmp_path / "leaky clip"

    def done(*command, cwd=project):
        result = installed.run(*command, cwd=cwd)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    done("opforge", "new", "LeakyClip", project.name, "--starter", starter, cwd=tmp_path)
    assert " passed" in done("bash", "build.sh", "-u")
    package = done("bash", "build.sh", "--pkg").splitlines()[0]
    assert "vendor: leaky_clip\n" in done("opforge", "verify", package)

    given = [helper.make_tensor_value_info(name, *kind) for name, kind in INPUTS[starter].items()]
    attributes = {"count": 2} if starter == "scatter" else {}
    names = ["out", "sums"] if starter == "row_column_reduction" else ["out"]
    node = helper.make_node("NPULeakyClip", list(INPUTS[starter]), names, domain="npu", **attributes)
    graph = helper.make_graph([node], "model", given, [onnx.ValueInfoProto(name=name) for name in names])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("npu", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), project / "model.onnx")
    done("opforge", "convert", "model.onnx", "-o", "converted.onnx", "--json", "report.json")
    assert [entry["op"] for entry in json.loads((project / "report.json").read_text())["mapped"]] == ["LeakyClip"]
    assert [(node.domain, node.op_type) for node in onnx.load(project / "converted.onnx").graph.node] == [
        ("opforge", "LeakyClip")
    ]
