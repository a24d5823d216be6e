"""Test shared plans: their starters on the twin, and the guarantees of every plan."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from opforge.codegen.project import Project
from opforge.codegen.render import TABLES_HEADER, render, tables_header
from opforge.codegen.spec.loader import SpecError, load_specs
from opforge.twin import run
from opforge.twin.build import build_project
from opforge.twin.compiler.flags import WARNINGS
from opforge.twin.compiler.units import compiler

HERE = Path(__file__).parent
STARTERS = HERE.parent.parent / "codegen" / "starters"
SCALED_ADD = STARTERS / "elementwise" / "op_proto" / "scaled_add.yaml"


def _with_starters(root, names):
    """Create a folder with starters and the files of `opforge new`."""
    for name in ("project", *names):
        shutil.copytree(STARTERS / name, root, dirs_exist_ok=True)
    return Project(root)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Create a project with two of the starters; tests/test_wheel.py has a third one."""
    return _with_starters(tmp_path_factory.mktemp("two"), ("elementwise", "row_reduction"))


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """Create a project with the other starters, which compile for half a minute."""
    names = {path.parent.name for path in STARTERS.glob("*/op_proto")} - {"elementwise", "row_reduction"}
    return _with_starters(tmp_path_factory.mktemp("others"), sorted(names))


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


# --- on the twin -----------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("starters", ["project", "others"])
def test_every_starter_passes_its_own_tests(starters, request):
    root = request.getfixturevalue(starters).root
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_one_changed_kernel_is_all_that_is_compiled(project):
    first = build_project(project)
    assert len(first.op_types) == 2
    assert build_project(project).compiled == 0
    kernel = project.root / "op_kernel" / "row_max.h"
    kernel.write_text(kernel.read_text(encoding="utf-8").replace("namespace opforge {", "\nnamespace opforge {", 1))
    lines = []
    assert build_project(project, report=lines.append).compiled == 1
    assert lines == ["[1/1] kernel RowMax float32_float32"]


def test_operator_without_its_kernel_does_not_run(project):
    compiled = {path.name for path in build_project(project).vendor_dir.rglob("kernel/*/*/*.so")}
    kernel = project.root / "op_kernel" / "row_max.h"
    text = kernel.read_text(encoding="utf-8")
    kernel.unlink()
    try:
        command = [sys.executable, "-m", "opforge.cli", "profile", "RowMax", "--shape", "x=4x8"]
        result = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False)
        built = build_project(project)
    finally:
        kernel.write_text(text, encoding="utf-8")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "RowMax: op_kernel/row_max.h is missing; write it\n"
    assert built.missing == {"RowMax": "op_kernel/row_max.h"}
    left = {path.name for path in built.vendor_dir.rglob("kernel/*/*/*.so")}
    assert compiled - left == {"RowMax_float32_float32.so"}


def test_elementwise_starter_keeps_all_cores_busy(project):
    report = run("ScaledAdd", {"x": numbers(1_000_000)}, project=project).report
    assert report.blocks == 48
    assert report.traffic_balance < 1.05
    assert report.gm_bytes_read + report.gm_bytes_written == 8_000_000


def test_row_and_column_starter_reads_its_inputs_once(others):
    report = run("L2NormGrad", {"grad_y": numbers(960, 2048), "x": numbers(960, 2048)}, project=others).report
    assert report.blocks == 48
    assert report.traffic_balance < 1.05
    assert report.first_touch_bytes < 1.05 * report.minimal_bytes


def test_segmented_starter_splits_one_long_segment(others):
    report = run("SegmentMax", {"x": numbers(20_000, 64), "ends": np.array([20_000], np.int32)}, project=others).report
    assert report.blocks == 48
    assert report.traffic_balance < 1.2, "the core that merges reads 48 rows more"


def test_scatter_starter_shares_rows_and_zeros(others):
    few = {"x": numbers(2, 64), "indices": np.array([1, 3], np.int32)}
    assert run("ScatterSum", few, {"count": 10_000}, project=others).report.blocks == 48
    many = {"x": numbers(10_000, 64), "indices": np.zeros(10_000, np.int32)}
    assert run("ScatterSum", many, {"count": 1}, project=others).report.blocks == 48


def test_gemm_starter_keeps_the_cube_cores_busy(others):
    report = run("MatrixProduct", {"x": numbers(512, 200), "weight": numbers(768, 200)}, project=others).report
    assert report.blocks == 24
    assert report.traffic_balance < 1.1
    assert report.first_touch_bytes < 1.05 * report.minimal_bytes


# --- guarantees of every plan ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [50_000, pytest.param(200_000, marks=pytest.mark.all)])
def test_every_shared_plan_satisfies_its_guarantees(count, root, tmp_path):
    program = tmp_path / "plans"
    sanitizer = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
    source = HERE / "shared_plans.cpp"
    (tmp_path / Path(TABLES_HEADER).name).write_text(tables_header(), encoding="utf-8")
    flags = [compiler()[0], "-std=c++17", "-O2", *WARNINGS, *sanitizer, f"-I{root / 'op_host'}", f"-I{tmp_path}"]
    subprocess.run([*flags, str(source), "-o", str(program)], check=True)
    result = subprocess.run([str(program), str(count), "1"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{count} problems, 0 violated guarantees" in result.stdout


# --- the spec --------------------------------------------------------------------------------------------------------

TEXT = SCALED_ADD.read_text(encoding="utf-8")


def test_the_struct_has_the_fields_of_the_plan_then_those_of_the_spec():
    files = dict(render(load_specs([SCALED_ADD])[0]))
    struct = files["op_kernel/scaled_add_tiling_data.h"]
    order = [struct.index(f" {member} = 0;") for member in ("elements", "share", "tile", "alpha")]
    assert order == sorted(order)
    assert '#include "common/elementwise.h"' in files["op_host/scaled_add_tiling.cpp"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "plan: elementwise",
            "plan: elementwize",
            "tiling.plan: unknown plan 'elementwize'; did you mean 'elementwise'?",
        ),
        ("plan: elementwise", "plan: ../../x", "tiling.plan: unknown plan '../../x'; expected one of elementwise"),
        ("elements: prod(x)", "element: prod(x)", "unknown size 'element'; did you mean 'elements'?"),
        ("elements: prod(x), ", "", "work.elements is missing, expected elements of the whole problem"),
        ("elements: prod(x)", "elements: present(x)", "which is a condition; expected an integer"),
        ("elements: prod(x)", "elements: 0", "got 0, expected at least 1: elements of the whole problem"),
        ("elements: prod(x)", "elements: N", "unknown name 'N'"),
        ("value: alpha, ", "", "'value' is missing, a shared plan fills its own fields only"),
        ("type: float32, value", "type: int32, value", "which is a decimal number; expected an integer or a condition"),
        ("name: alpha, type: float32", "name: tile, type: float32", "got the field 'tile' again"),
        (
            "when: present(y), template",
            "template",
            "'when' is missing, expected the condition that selects this key; only the last key has none",
        ),
        ("key: 2, template", "key: 2, when: present(y), template", "got a condition on the last key"),
        ("plan: elementwise", "plan: segmented_rows", "for the barrier of segmented_rows"),
        ("  plan: elementwise\n", "", "is allowed only with a shared plan"),
    ],
)
def test_errors_in_a_shared_plan_are_rejected(old, new, expected, tmp_path):
    path = tmp_path / "scaled_add.yaml"
    assert old in TEXT
    path.write_text(TEXT.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load_specs([path])[0]
    assert expected in str(caught.value)


def test_a_plan_of_any_name_can_be_shared_by_operators(tmp_path):
    own = (
        TEXT[: TEXT.index("tiling:")]
        + "tiling: {plan: sums_tiling.h, keys: [{name: Plain, key: 1, template: [x, true]}]}\n"
    )
    path = tmp_path / "scaled_add.yaml"
    path.write_text(own, encoding="utf-8")
    spec = load_specs([path])[0]
    assert spec.own_plan == "op_host/sums_tiling.h"
    assert '#include "sums_tiling.h"' in dict(render(spec))["op_host/scaled_add_tiling.cpp"]
