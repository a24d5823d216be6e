"""Test the comparison with published times: rows, skipped points, invalid files, and the effect of each field."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
COUNTER = {"timing": "counter", "shapes": None, "dtypes": None}


def copies(number, rows, row_bytes, gap=0, blocks=1, **tiling):
    """Return a loop of copies; the time is not that of a device."""
    own = {"block_dim": blocks, "rows": rows, "row_bytes": row_bytes, "gm_gap_bytes": gap, "data": "small buffer"}
    point = {"id": f"akl_rows_gm_to_ub/{number}", "series": "akl_rows_gm_to_ub", "device": "Ascend910B1"}
    return point | COUNTER | {"operator": "DataCopy GM to UB", "tiling": own | tiling, "total_us": 1.0}


def published(path, points, *options):
    path.write_text(json.dumps({"points": points}), encoding="utf-8")
    command = [sys.executable, str(BENCHMARKS / "published.py"), "--points", str(path), *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def described(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("points.described")


def test_a_file_of_points_gives_rows_and_reasons(tmp_path):
    unknown = copies(2, 1, 64) | {"id": "new/1", "series": "new"}
    untimed = copies(3, 1, 64) | {"total_us": None}
    out = tmp_path / "out.json"
    result = published(tmp_path / "points.json", [copies(1, 1, 64), unknown, untimed], "--json", out)
    assert result.returncode == 0, result.stderr
    data = json.loads(out.read_text())
    (row,) = data["points"]
    assert row["error"] == pytest.approx(row["estimated_us"] / row["measured_us"] - 1)
    assert data["median"] == data["worst"] == pytest.approx(abs(row["error"]))
    assert [entry["id"] for entry in data["skipped"]] == ["new/1", "akl_rows_gm_to_ub/3"]
    assert all(entry["reason"] for entry in data["skipped"])


@pytest.mark.parametrize("text", ["{", "[]", '{"points": [{"id": "a"}]}'], ids=["syntax", "list", "no_fields"])
def test_a_bad_file_is_one_message(tmp_path, text):
    path = tmp_path / "points.json"
    path.write_text(text, encoding="utf-8")
    command = [sys.executable, str(BENCHMARKS / "published.py"), "--points", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "points.json" in result.stderr
    assert "Traceback" not in result.stderr


def test_rows_of_a_copy_count_by_their_bytes_and_gaps(described):
    model = json.loads((BENCHMARKS.parent / "twin" / "npu_model.json").read_text())["constants"]
    mhz = 1850
    whole = described.dma_loop(copies(1, 1, 8192)) * mhz
    longer = described.dma_loop(copies(2, 1, 16384)) * mhz
    assert longer - whole == pytest.approx(8192 / model["port_l2_read_bytes_per_cycle_per_core"]["value"], rel=1e-3)
    # 480 bytes from a multiple of 512 on are requests of 256, 128, 64 and 32 bytes.
    cut = described.dma_loop(copies(3, 16, 480, gap=32)) * mhz
    assert cut - whole == pytest.approx(64 * model["dma_fragment_read_cycles"]["value"], rel=1e-3)
    assert described.dma_loop(copies(4, 16, 512)) * mhz == pytest.approx(whole, rel=1e-6)


def test_time_of_all_tiles_is_estimated_from_some(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    generic = importlib.import_module("points.generic")
    point = {"series": "x", "device": "Ascend910B1", "shapes": [[1 << 22]], "dtypes": "float16", "tiling": {}}
    stream = generic.Stream(point, {"kind": "elements"})
    whole = stream.times(point, 20, 0)[1]
    monkeypatch.setattr(generic, "_MOST_INSTRUCTIONS", 48 * 20 * 8)
    assert stream.times(point, 20, 0)[1] == pytest.approx(whole, rel=0.03)


def test_a_product_continues_from_its_first_rows_of_tiles(described, monkeypatch):
    point = {"device": "Ascend910B1"}
    gemm = described.Gemm(1024, 1024, 256, "Ascend910B1", blocks=4, core=(512, 512))
    few = gemm.times(point)
    whole = gemm._run(point, 1 << 30, (512, 512))
    assert few[1] == pytest.approx(whole[1], rel=0.05)
    assert few[3] == pytest.approx(whole[3], rel=0.05)


def test_the_error_range_is_that_of_the_committed_errors():
    from opforge.twin.compiler.npu_model import error_range, npu_model, outside_range

    errors = npu_model()["errors"]
    low, high = error_range()
    assert low < 0 < high
    assert math.isclose((1 + low) * (1 + errors["all"]["high"]), 1)
    assert math.isclose((1 + high) * (1 + errors["all"]["low"]), 1)
    shortest, longest = errors["calibrated"]["us"]
    soc = errors["calibrated"]["socs"][0]
    assert outside_range((shortest + longest) / 2, soc) == []
    assert len(outside_range(longest * 2, "Ascend310P", is_mixed=True)) == 3


def test_constants_are_fitted_if_and_only_if_the_script_fits_them(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    calibrate = importlib.import_module("calibrate")
    constants = json.loads(calibrate.MODEL.read_text(encoding="utf-8"))["constants"]
    fits = {(name, bool(soc)) for name, soc, *_ in calibrate.FITS}
    for name, entry in constants.items():
        for is_own, facts in [(False, entry), *((True, own) for own in entry.get("soc", {}).values())]:
            if facts["status"] == "inferred":  # a chip without published times
                assert is_own
                continue
            is_fitted = (name, is_own) in fits
            assert (facts["status"] == "fitted") == is_fitted, name
            if is_fitted:
                low, high = facts["spread"]
                assert low <= facts["value"] <= high, name
            assert "source" in facts or facts["status"] not in {"fitted", "derived"}, name
