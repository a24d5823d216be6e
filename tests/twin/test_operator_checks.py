"""Plant mistakes in plans, kernels and specs of projects: the operator builds, and the twin reports them."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from opforge.codegen.data.products import DEFAULT_SOC
from opforge.codegen.errors import UserError
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.codegen.spec.call import shapes_of_test
from opforge.codegen.spec.loader import load_project
from opforge.twin import AclnnError, FindingsError, TwinWarning, run
from opforge.twin.build import build_project
from opforge.twin.test_shapes import check

pytestmark = pytest.mark.slow

STARTERS = BUILTIN_ROOT / "codegen" / "starters"
X = np.arange(9 * 100, dtype=np.float32).reshape(9, 100)
INDICES = np.arange(9, dtype=np.int32)


@pytest.fixture
def plant(tmp_path):
    """Return a function that creates a project from a starter with one kernel and one replaced text."""

    def planted(starter, path, line, mistake):
        shutil.copytree(STARTERS / starter, tmp_path, dirs_exist_ok=True)
        (spec,) = (tmp_path / "op_proto").iterdir()
        full = spec.read_text()
        spec.write_text(full.replace("[float16, float32]", "[float32]").replace("[int32, int64]", "[int32]"))
        text = (tmp_path / path).read_text(encoding="utf-8")
        assert line in text
        (tmp_path / path).write_text(text.replace(line, mistake, 1), encoding="utf-8")
        return Project(tmp_path)

    return planted


def test_a_row_that_is_not_written_is_named(plant):
    project = plant("row_reduction", "op_kernel/row_max.h", "PartOf(tiling_.rows,", "PartOf(tiling_.rows - 2,")
    with pytest.raises(FindingsError) as caught:
        run("RowMax", {"x": X}, project=project)
    (finding,) = caught.value.findings
    assert finding.kind == "output_not_written"
    assert "output 'y': no core has written 8 of 36 bytes, the first of them in [28, 36) from y[7] on" in str(finding)
    assert "1 of 1 cores wrote to it" in str(finding)


def test_an_unread_input_is_a_warning_unless_the_spec_allows_it(plant):
    inputs = {"x": X, "indices": np.full(9, -1, np.int32)}
    project = plant("scatter", "op_proto/scatter_sum.yaml", ", may_be_unread: true", "")
    with pytest.warns(TwinWarning, match="input_not_read: ScatterSum .*: input 'x': the call gives it"):
        result = run("ScatterSum", inputs, {"count": 4}, project=project)
    assert [warning.kind for warning in result.warnings] == ["input_not_read"]
    assert not result["y"].any()


def test_a_build_runs_the_test_shapes_until_they_are_clean(plant, capfd):
    right, wrong = "bytes_per_element: 9,", "bytes_per_element: 5,"
    project = plant("row_reduction", "op_proto/row_max.yaml", right, wrong)
    spec = project.root / "op_proto" / "row_max.yaml"
    for _ in range(2):
        (line,), _ = check(project, build_project(project), DEFAULT_SOC)
        assert all(part in line for part in ("RowMax-rows", "ub_plan", "planned_ub_bytes"))
    spec.write_text(spec.read_text(encoding="utf-8").replace(wrong, right), encoding="utf-8")
    assert check(project, build_project(project), DEFAULT_SOC) == ([], [])
    # Nothing has changed: no process is started, so the time limit cannot be exceeded.
    assert check(project, build_project(project), DEFAULT_SOC, seconds=1e-9) == ([], [])


def test_a_build_prints_the_warnings_of_the_test_shapes(plant):
    load = "AscendC::LocalTensor<T> y = Loaded(ys_, y_, offset, count);"
    project = plant("elementwise", "op_kernel/scaled_add.h", load, "")
    kernel = project.root / "op_kernel" / "scaled_add.h"
    text = kernel.read_text(encoding="utf-8").replace("            ys_.FreeTensor(y);\n", "")
    kernel.write_text(text.replace("AscendC::Add(z, z, y,", "AscendC::Add(z, z, z,"), encoding="utf-8")
    findings, (line, *others) = check(project, build_project(project), DEFAULT_SOC)
    assert findings == []
    assert "ScaledAdd-with_y" in line
    assert "warning: input_not_read: ScaledAdd (tiling key 1): input 'y'" in line
    assert all("-float32-" in other for other in others)


def test_test_shapes_of_an_operator_for_other_products_do_not_run(plant):
    project = plant("row_reduction", "op_proto/row_max.yaml", "products: [ascend910b]", "products: [ascend310p]")
    line = "RowMax: test shapes: not run, because ascend910b is no product of the spec"
    assert check(project, build_project(project), DEFAULT_SOC) == ([], [line])


def test_test_shapes_beyond_the_memory_are_refused(plant):
    project = plant("elementwise", "op_proto/scaled_add.yaml", "S: [2049]", "S: [4000000000, 4000000000]")
    with pytest.raises(
        UserError, match=r"ScaledAdd: tests.shapes \(no y\): got inputs of 64,000,000,000,000,000,000 bytes"
    ):
        check(project, build_project(project), DEFAULT_SOC)


def test_the_size_of_an_output_may_be_the_elements_of_an_input(plant):
    shapes = "{x: ['*S'], z: ['*S']}"
    project = plant("elementwise", "op_proto/scaled_add.yaml", shapes, "{z: [prod(x)], x: ['*S']}")
    (spec,) = load_project(project)
    assert shapes_of_test(spec.program, spec.tests.shapes[1], {}) == {"x": (2049,), "z": (2049,)}
    result = run("ScaledAdd", {"x": X}, {"alpha": 2.0}, project=project)
    assert result["z"].tolist() == (2 * X).ravel().tolist()


def test_endless_kernel_is_reported_by_the_build(plant):
    line = "        const kernel::Span rows"
    loop = "        while (AscendC::GetBlockIdx() >= 0) {}"
    project = plant("row_reduction", "op_kernel/row_max.h", line, f"{loop}\n{line}")
    (line,), _ = check(project, build_project(project), DEFAULT_SOC, seconds=2)
    assert "did not end within 2 s" in line


def test_plan_with_too_few_bytes_is_reported(plant):
    project = plant("row_reduction", "op_proto/row_max.yaml", "bytes_per_element: 9,", "bytes_per_element: 5,")
    with pytest.raises(FindingsError) as caught:
        run("RowMax", {"x": X}, project=project)
    (finding,) = caught.value.findings
    assert finding.kind == "ub_plan"
    # 9 rows of 100 elements, padded to 104 in the kernel and to 128 in the plan; one core.
    assert "expected at most planned_ub_bytes = " in finding.message
    for buffer in ("tiles_ VECIN 2 x 3744 bytes", "results_ VECOUT 2 x 288 bytes", "workBuffer_ VECCALC 1 x 64 bytes"):
        assert buffer in finding.message
    assert finding.message.endswith("; plan: op_proto/row_max.yaml (tiling.work of the shared plan row_reduction)")


def test_buffers_that_do_not_fit_have_the_file_of_the_plan(plant):
    line = "constexpr int64_t kBuffers = 3;"
    project = plant("scatter", "op_host/scatter_sum_tiling.h", line, line.replace("3", "1"))
    with pytest.raises(FindingsError) as caught:
        run("ScatterSum", {"x": np.ones((2, 16384), np.float32), "indices": INDICES[:2]}, {"count": 3}, project=project)
    assert caught.value.findings[0].kind == "ub_budget"
    assert str(caught.value).endswith("; plan: op_host/scatter_sum_tiling.h")


def test_a_tiling_key_that_contradicts_the_spec_is_refused(plant):
    line = "- {name: Plain, key: 1, template: [x, indices]}"
    conditions = (
        line.replace("key: 1,", "key: 1, when: count > 3,") + "\n    " + line.replace("Plain, key: 1", "Few, key: 2")
    )
    project = plant("scatter", "op_proto/scatter_sum.yaml", line, conditions)
    inputs = {"x": X, "indices": INDICES}
    run("ScatterSum", inputs, {"count": 4}, project=project)
    with pytest.raises(AclnnError) as caught:
        run("ScatterSum", inputs, {"count": 3}, project=project)
    assert caught.value.status == 561002
    words = "ScatterSum: tiling key of the plan: got 1, expected 2 by the conditions of tiling.keys; correct op_host/"
    assert words + "scatter_sum_tiling.h" in caught.value.message
