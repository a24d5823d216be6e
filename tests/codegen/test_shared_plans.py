"""Shared plans: from a spec without a plan file to numbers on the twin, and what every plan promises."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from opforge.codegen.loader import SpecError, load_spec
from opforge.codegen.project import Project
from opforge.codegen.render import render
from opforge.twin import run
from opforge.twin.compiler import WARNINGS, compiler

HERE = Path(__file__).parent
SPECIMENS = HERE / "specimens" / "shared_plans"
COUNT = 200_000


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("shared_plans")
    shutil.copytree(SPECIMENS, root, dirs_exist_ok=True)
    return Project(root)


def numbers(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# --- on the twin -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1,), (0, 3), (5, 1000), (2049,), (3, 7, 41_000)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_elementwise_specimen_gives_what_numpy_gives(shape, dtype, project):
    x, y = numbers(*shape, dtype=dtype), numbers(*shape, seed=1, dtype=dtype)
    alpha = dtype(-2.5)
    result = run("ScaledAdd", {"x": x, "y": y}, {"alpha": float(alpha)}, project=project)
    np.testing.assert_array_equal(result["z"], alpha * x + y)
    np.testing.assert_array_equal(run("ScaledAdd", {"x": x}, {"alpha": float(alpha)}, project=project)["z"], alpha * x)


def test_elementwise_specimen_keeps_all_cores_busy(project):
    report = run("ScaledAdd", {"x": numbers(1_000_000)}, project=project).report
    assert report.blocks == 48
    assert report.traffic_balance < 1.05
    assert report.gm_bytes_read + report.gm_bytes_written == 8_000_000


@pytest.mark.parametrize("shape", [(1, 1), (0, 5), (3, 7), (100, 33), (1, 200_000), (5000, 8), (97, 1000), (2, 30_001)])
def test_row_reduction_specimen_gives_what_numpy_gives(shape, project):
    x = numbers(*shape)
    np.testing.assert_array_equal(run("RowMax", {"x": x}, project=project)["y"], x.max(axis=1, initial=-np.inf))


def segment_max(x, ends):
    starts = [0, *ends[:-1]]
    empty = np.full(x.shape[1:], -np.inf, x.dtype)
    return np.stack(
        [x[start:end].max(axis=0) if end > start else empty for start, end in zip(starts, ends, strict=True)]
    )


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("rows", "columns", "ends"),
    [
        (1, 1, [1]),
        (0, 9, [0, 0]),
        (100, 30, [0, 40, 40, 99]),
        (3000, 70, [3000]),
        (3000, 65, [1, 2, 1499, 1500, 1500, 2999, 3000]),
        (2, 20_000, [1, 2]),
        (2000, 16, [*range(1, 2001)]),
    ],
)
def test_segmented_specimen_gives_what_numpy_gives(rows, columns, ends, dtype, project):
    x = numbers(rows, columns)
    got = run("SegmentMax", {"x": x, "ends": np.array(ends, dtype)}, project=project)["y"]
    np.testing.assert_array_equal(got, segment_max(x, ends))


def test_segmented_specimen_splits_one_long_segment(project):
    x = numbers(20_000, 64)
    report = run("SegmentMax", {"x": x, "ends": np.array([20_000], np.int32)}, project=project).report
    assert report.blocks == 48
    assert report.traffic_balance < 1.2, "the core that merges reads 48 rows more"


# --- promises of every plan ------------------------------------------------------------------------------------------


def test_every_shared_plan_keeps_its_promises(root, tmp_path):
    program = tmp_path / "plans"
    sanitizer = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
    source = HERE / "shared_plans.cpp"
    flags = [compiler()[0], "-std=c++17", "-O2", *WARNINGS, *sanitizer, f"-I{root / 'op_host'}"]
    subprocess.run([*flags, str(source), "-o", str(program)], check=True)
    result = subprocess.run([str(program), str(COUNT), "1"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{COUNT} problems, 0 broken promises" in result.stdout


# --- the spec --------------------------------------------------------------------------------------------------------

TEXT = (SPECIMENS / "op_proto" / "scaled_add.yaml").read_text(encoding="utf-8")


def test_the_struct_has_the_fields_of_the_plan_then_those_of_the_spec():
    files = dict(render(load_spec(SPECIMENS / "op_proto" / "scaled_add.yaml")))
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
        ("elements: prod(x), ", "", "'work: elements' is missing, expected elements of the whole problem"),
        ("elements: prod(x)", "elements: present(x)", "which is a condition; expected an integer"),
        ("elements: prod(x)", "elements: N", "unknown name 'N'"),
        ("value: alpha, ", "", "'value' is missing, a shared plan fills its own fields only"),
        ("type: float32, value", "type: int32, value", "which is a decimal number; expected an integer or a condition"),
        ("name: alpha, type: float32", "name: tile, type: float32", "got the field 'tile' again"),
        ("when: present(y), template", "template", "'when' is missing, or the keys behind it are never chosen"),
        ("key: 2, template", "key: 2, when: present(y), template", "got a condition on the last key"),
        ("plan: elementwise", "plan: segmented_rows", "cores meet in segmented_rows"),
        ("  plan: elementwise\n", "", "stands only beside a shared plan"),
    ],
)
def test_mistakes_around_a_shared_plan_are_refused(old, new, expected, tmp_path):
    path = tmp_path / "scaled_add.yaml"
    assert old in TEXT
    path.write_text(TEXT.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert expected in str(caught.value)


def test_a_plan_of_any_name_can_be_shared_by_operators(tmp_path):
    own = (
        TEXT[: TEXT.index("tiling:")]
        + "tiling: {plan: sums_tiling.h, keys: [{name: Plain, key: 1, template: [x, true]}]}\n"
    )
    path = tmp_path / "scaled_add.yaml"
    path.write_text(own, encoding="utf-8")
    spec = load_spec(path)
    assert spec.own_plan == "op_host/sums_tiling.h"
    assert '#include "sums_tiling.h"' in dict(render(spec))["op_host/scaled_add_tiling.cpp"]
