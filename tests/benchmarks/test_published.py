"""Test the comparison with published times: rows, skipped points, invalid files, and the effect of each field."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from opforge.codegen.errors import UserError

pytestmark = pytest.mark.slow

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
    assert data["median"] == pytest.approx(abs(row["error"]))
    assert data["worst"] == {"id": row["id"], "error": row["error"], "reason": data["worst"]["reason"]}
    assert data["worst"]["reason"]  # the measured time is not that of a device
    assert f"{row['error']:+.1%} ({row['id']}): {data['worst']['reason']}" in result.stdout.splitlines()[-1]
    assert data["series"] == {row["series"]: {"points": 1, "median": data["median"], "worst": data["worst"]}}
    assert [entry["id"] for entry in data["skipped"]] == ["new/1", "akl_rows_gm_to_ub/3"]
    assert all(entry["reason"] for entry in data["skipped"])


def test_every_large_error_has_its_reason(tmp_path):
    out = tmp_path / "out.json"
    result = published(tmp_path / "points.json", [copies(number, 1, 64) for number in (1, 2)], "--json", out)
    first, second = json.loads(out.read_text())["points"]
    assert first["reason"] == second["reason"] != ""
    errors = ", ".join(f"{row['id'].split('/')[1]} {row['error']:+.1%}" for row in (first, second))
    assert f"akl_rows_gm_to_ub: 2 points: {errors}: {first['reason']}" in result.stdout.splitlines()


IMPOSSIBLE = [
    ({"total_us": 10**400}, "expected a number from 0.001 to 1e+09"),
    ({"total_us": 5e-324}, "total_us: got 5e-324, expected a number"),
    ({"total_us": True}, "total_us: got True, expected a number"),
    ({"tiling": {"block_dim": 10**12}}, "tiling.block_dim: got 1000000000000, expected 1 to 1024 blocks"),
    ({"tiling": [1]}, "tiling: got [1], expected an object"),
    ({"dtypes": "flaot16"}, "dtypes: got 'flaot16', expected a dtype as float16"),
    ({"dtypes": ["float16", 7]}, "expected a dtype as float16, or a list of dtypes"),
    ({"shapes": [[2, "3"]]}, "shapes: got [[2, '3']], expected a list of shapes"),
    ({"shapes": [[2, [3]]]}, "shapes: got [[2, [3]]], expected a list of shapes"),
    ({"shapes": [[1 << 20, 1 << 20]]}, "shapes: got [[1048576, 1048576]], expected a list of shapes with at most"),
    ({"tiling": {"copies_per_batch": 1 << 30}}, "tiling.copies_per_batch: got 1073741824, expected 1 to 4096"),
    ({"operator": 3}, "operator: got 3, expected a text"),
    ({"chip": {"mhz": 0}}, "chip.mhz: got 0, expected a clock from 100 to 10000"),
    ({"chip": {"mhz": 1e-9}}, "chip.mhz: got 1e-09, expected a clock from 100 to 10000"),
    ({"device": "GPU A100"}, "device: got 'GPU A100', expected a chip as Ascend910B1, or the product A2 or A3"),
    ({"device": "Ascend910_9362"}, "device: the time model has no constants of Ascend910_9362"),
]


def reasons(path, points):
    """Return the reason of each point, none of which has an estimate."""
    result = published(path, [point | {"id": str(number)} for number, point in enumerate(points)])
    assert (result.returncode, result.stderr.count("no point has an estimate")) == (1, 1)
    lines = [line for line in result.stdout.splitlines() if line.startswith("not run: ")]
    assert result.stdout.endswith(f"0 of {len(points)} points\n")
    for number, line in enumerate(lines):
        assert line.startswith(f"not run: {number}: ")
    return lines


def test_impossible_values_are_reasons(tmp_path):
    lines = reasons(tmp_path / "points.json", [copies(1, 1, 64) | change for change, _ in IMPOSSIBLE])
    for line, (_, reason) in zip(lines, IMPOSSIBLE, strict=True):
        assert reason in line


def test_reasons_name_the_field_in_words(tmp_path):
    """No reason is the name or the text of an exception of Python."""
    fields = [("rows", 0), ("rows", "2"), ("copies_per_batch", 0), ("batches_in_flight", -1), ("block_dim", None)]
    fields.append(("data", 1))
    points = [copies(1, 1, 64) for _ in fields]
    for point, (name, value) in zip(points, fields, strict=True):
        point["tiling"][name] = value
    for line, (name, _) in zip(reasons(tmp_path / "points.json", points), fields, strict=True):
        assert "Error" not in line
        assert name in line


def test_mixed_kernels_have_their_reason(tmp_path):
    sizes = {"m": 64, "n": 64, "k": 64, "x": [64, 64], "weight": [8, 64, 64]}
    mixed = copies(1, 1, 64) | {"shapes": sizes, "tiling": {"kernel_type": "MIX 1:2"}}
    series = ("matmul_gelu", "quant_group_matmul", "devkit_doc_cases")
    lines = reasons(tmp_path / "points.json", [mixed | {"series": name} for name in series])
    assert all("mixed kernel whose vector part is not described" in line for line in lines)
    assert len(lines) == len(series)


def test_texts_of_a_file_do_not_control_the_terminal(tmp_path):
    points = [copies(1, 1, 64) | {"id": "\x1b[31m1"}, copies(1, 1, 64) | {"id": "\n2", "total_us": None}]
    result = published(tmp_path / "points.json", points)
    assert "\\x1b[31m1 " in result.stdout
    assert "not run: \\n2: " in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "file of structures: got a syntax error"),
        ("{}", r"got nothing at \['series'\]"),
        ('{"series": {"cann_bench_gelu": {"kind": "fast"}}}', r"cann_bench_gelu\.kind: got 'fast'"),
    ],
)
def test_a_damaged_file_of_structures_is_one_message(monkeypatch, tmp_path, text, message):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    evaluate = importlib.import_module("points.evaluate")
    generic = importlib.import_module("points.generic")
    monkeypatch.setattr(generic, "STRUCTURES", tmp_path / "structures.json")
    (tmp_path / "structures.json").write_text(text, encoding="utf-8")
    generic.structures.cache_clear()
    try:
        with pytest.raises(UserError, match=rf"structures\.json: .*{message}"):
            evaluate.evaluate([call([[64]], ["float16"]) | {"id": "1", "series": "cann_bench_gelu", "total_us": 1.0}])
    finally:
        generic.structures.cache_clear()


def test_a_damaged_file_of_reasons_is_one_message(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    errors = importlib.import_module("points.errors")
    monkeypatch.setattr(errors, "KERNELS", tmp_path)
    for text in (None, "{", '{"points": {}}'):
        if text is not None:
            (tmp_path / "reasons.json").write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=r"reasons\.json: .*file of reasons"):
            errors.reason_of({"id": "1", "series": "a", "error": 1.0})


def test_a_calibration_needs_a_point_with_an_estimate(tmp_path):
    (tmp_path / "points.json").write_text(json.dumps({"points": [copies(1, 1, 64) | {"total_us": None}]}))
    command = [sys.executable, str(BENCHMARKS / "calibrate.py"), "--points", str(tmp_path / "points.json")]
    for options, message in ((["--no-constants"], "got no point that can be evaluated"), ([], "got no point for dma_")):
        done = subprocess.run([*command, "--check", *options], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("Traceback")) == (2, 0)
        assert message in done.stderr


def test_only_the_first_point_with_an_id_counts(tmp_path):
    result = published(tmp_path / "points.json", [copies(1, 1, 64), copies(1, 2, 64)])
    assert "not run: akl_rows_gm_to_ub/1: id: got the id of an earlier point" in result.stdout
    assert "1 of 2 points" in result.stdout


def test_elements_have_the_size_of_the_kernel(described):
    point = {"device": "Ascend910B1", "shapes": [[64, 64]] * 2, "dtypes": "float32", "tiling": {"block_dim": 1}}
    with pytest.raises(described.NotRunError, match="dtypes: got float32, expected 2 bytes per element"):
        described.addition(point)
    product = {"variant": "", "shapes": {"m": 64, "n": 64, "k": 4096}, "tiling": {"block_dim": 1}}
    half, single = (described.product(point | product | {"dtypes": dtype}) for dtype in ("float16", "float32"))
    assert single > 1.5 * half


def test_each_chip_has_its_own_constants(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    series = importlib.import_module("points.series")
    errors = importlib.import_module("points.errors")
    for name in ("Ascend910B3", "Ascend910_9391", "Ascend910_9382", "Ascend910_9372"):
        assert series.soc_of({"device": f"{name} (two dies)"}) == name
    assert series.soc_of({"device": "Atlas A2"}) == "Ascend910B1"
    assert series.soc_of({"device": "A3 (chip not named)"}) == "Ascend910_9391"
    devices = {"a": "Ascend910_9382", "b": "Ascend910B3", "c": "A2, 20 cube cores (chip not named)"}
    points = [{"id": name, "device": device, "timing": ""} for name, device in devices.items()]
    rows = [{"id": name, "measured_us": 1.0} for name in "ac"]
    # No time of the chip B3 is evaluated, and the third source does not name its chip.
    assert errors.calibrated(points, rows)["socs"] == ["Ascend910_9382"]


ODD_ID = '{"points": [{"id": 1, "series": "a", "device": "b", "shapes": [], "tiling": {}, "total_us": 1}]}'


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"points": []}',
        '{"points": [{"id": "a"}]}',
        ODD_ID,
        "[" * 100_000,
        ODD_ID.replace("1,", '"\\ud800",', 1),
    ],
    ids=["syntax", "list", "no_points", "no_fields", "id", "deep", "surrogate"],
)
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
    whole = stream.times(point, generic.Work(20))[1]
    monkeypatch.setattr(generic, "_MOST_INSTRUCTIONS", 48 * 20 * 8)
    assert stream.times(point, generic.Work(20))[1] == pytest.approx(whole, rel=0.03)


def call(shapes, dtypes, device="Ascend910B2", **attrs):
    """A call of a vendor kernel without a described structure."""
    return {"device": device, "shapes": shapes, "dtypes": dtypes, "tiling": {"attrs": attrs}, "variant": ""}


@pytest.mark.parametrize(
    ("shape", "attrs", "structure", "rows"),
    [
        # rows, elements of a row, rows of a unit, cores
        ([6, 32, 16, 17], {"num_groups": 4}, {"rows": "channels"}, (192, 272, 8, 24)),
        ([8, 64, 100], {"dim": -1}, {"rows": "axis"}, (512, 100, 1, 48)),
        ([60, 64, 100], {"dim": 1}, {"rows": "axis"}, (3840, 100, 64, 48)),
        ([4, 64, 640], {"dim": 1}, {"rows": "axis"}, (2560, 64, 64, 40)),
        ([4, 64, 10], {"dim": 1}, {"is_sort": 1}, (40, 64, 1, 40)),
    ],
    ids=["channels", "last", "inner", "inner_in_parts", "sort"],
)
def test_rows_follow_the_attributes(monkeypatch, shape, attrs, structure, rows):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    generic = importlib.import_module("points.generic")
    stream = generic.Stream(call([shape], ["float32"], **attrs), {"kind": "rows"} | structure)
    assert (stream.rows, stream.elements, stream.unit, stream.blocks) == rows


def test_a_selection_of_integers_counts_the_steps_of_a_heap(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    generic = importlib.import_module("points.generic")
    structure = {"kind": "rows", "is_sort": 1, "heap_ns": 2.0}
    point = call([[100, 512]], ["int32"], k=16, dim=-1)
    steps = 100 * 16 * (1 + math.log(512 / 16)) * 4
    assert generic.stream(point, structure) == pytest.approx(1.5 + steps * 2e-3)
    assert generic.heap_steps(call([[100, 512]], ["float16"], k=16, dim=-1), structure) is None
    few = call([[1 << 20]], ["int32"], k=1, dim=-1)  # the heap has 15 steps; the kernel reads 4 MiB
    assert generic.stream(few, structure) > 1.5 + (4 << 20) / 1.6e6


def test_the_cores_share_a_long_row_of_a_selection(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    generic = importlib.import_module("points.generic")
    point = call([[1 << 20]], ["float16"], k=10, dim=-1)
    selection, other = (generic.Stream(point, {"kind": "rows"} | more) for more in ({"is_sort": 1}, {}))
    assert (selection.rows, selection.unit, selection.blocks) == (128, 1, 48)
    assert (other.rows, other.unit, other.blocks) == (128, 128, 1)


def test_the_rows_of_the_second_factor_follow_its_shape(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    products = importlib.import_module("points.products").Products
    assert products(call([[8, 32], [32, 48]], ["float16"] * 2)).is_row_major
    transposed = products(call([[8, 32], [48, 32]], ["float16"] * 2))
    assert (transposed.is_row_major, transposed.sizes) == (False, [(8, 48, 32)])
    groups = products(call([[10, 32], [2, 32, 32]], ["float16"] * 2, group_list=[4, 10], transpose_weight=True))
    assert (groups.is_row_major, groups.sizes) == (False, [(4, 32, 32), (6, 32, 32)])


def test_attention_reads_keys_once_and_skips_those_behind_a_query(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    attention = importlib.import_module("points.attention").Attention
    one = call([[48, 1, 4, 128], [48, 512, 4, 128], [48, 512, 4, 128]], ["float16"] * 3)
    # The same bytes in rows of 512 bytes need no requests of less than 512 bytes.
    wide = call([[48, 1, 2, 256], [48, 512, 2, 256], [48, 512, 2, 256]], ["float16"] * 3)
    model = json.loads((BENCHMARKS.parent / "twin" / "npu_model.json").read_text())["constants"]
    requests = 48 * 4 * 512 * 2 / 24 * model["dma_fragment_first_touch_cycles"]["value"] / 1800
    narrow_us, wide_us = (attention(point, {}).times(point)[2] for point in (one, wide))
    assert narrow_us - wide_us == pytest.approx(requests)
    shapes = [[1, 2048, 1, 64]] * 3
    whole = attention(call(shapes, ["float16"] * 3), {})
    causal = attention(call(shapes, ["float16"] * 3, is_causal=True), {})
    assert whole.steps(16) == 16 * 2048
    assert causal.steps(16) == 4 * (512 + 1024 + 1536 + 2048)


def test_changed_points_have_an_estimate_or_a_reason(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    evaluate = importlib.import_module("points.evaluate")
    first = {point["series"]: point for point in evaluate.load_points(evaluate.POINTS)}

    def mapped(change, sizes):
        """Return sizes, of which `change` replaces each number; a dict has the sizes of a product."""
        if isinstance(sizes, list):
            return [mapped(change, size) for size in sizes]
        if isinstance(sizes, dict):
            return {name: mapped(change, size) for name, size in sizes.items()}
        return change(sizes) if isinstance(sizes, int) and not isinstance(sizes, bool) else sizes

    def smaller(shapes):
        return mapped(lambda size: max(1, size // 8 - 1), shapes)

    def short(shapes):
        """Return shapes of a product that is simulated quickly."""
        return mapped(lambda size: min(size, 1024), shapes) if isinstance(shapes, dict) and "m" in shapes else shapes

    changes = [{"shapes": None}, {"shapes": [[0, 4]]}, {"shapes": [[]]}, {"dtypes": None}, {"tiling": {}}]
    changes += [{"dtypes": "int8"}, {"device": "Ascend310P3"}, {"device": "Ascend910B4"}]

    def changed(original):
        point = original | {"shapes": short(original["shapes"])}
        return [point, point | {"shapes": smaller(point["shapes"])}, *(point | change for change in changes)]

    points = [
        point | {"total_us": 10.0, "id": f"{series}/{number}"}
        for series, original in first.items()
        for number, point in enumerate(changed(original))
    ]
    rows, skipped = evaluate.evaluate(points)
    assert len(rows) + len(skipped) == len(points)
    assert all(0 < row["estimated_us"] < math.inf for row in rows)
    assert all(entry["reason"] for entry in skipped)
    assert len(rows) > len(first)
    times = {row["id"]: row["estimated_us"] for row in rows}
    for name in first:
        if f"{name}/0" in times and f"{name}/1" in times:
            assert times[f"{name}/1"] <= 1.03 * times[f"{name}/0"], name


def test_a_product_continues_from_its_first_rows_of_tiles(described, monkeypatch):
    point = {"device": "Ascend910B1"}
    gemm = described.Gemm(1024, 1024, 256, "Ascend910B1", blocks=4, core=(512, 512))
    whole = gemm.times(point)
    assert whole == gemm._run(point, 1 << 30, (512, 512))
    monkeypatch.setattr(described, "_MOST_STEPS", 1)
    few = gemm.times(point)
    assert few[1] == pytest.approx(whole[1], rel=0.05)
    assert few[3] == pytest.approx(whole[3], rel=0.05)


def test_more_rows_of_a_product_take_longer(monkeypatch):
    """The first tiles read B from global memory, and the others from L2: they must not count as the steady state."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    generic = importlib.import_module("points.generic")

    def us(rows, k, n, dtype):
        point = call([[rows, k], [k, n]], [dtype] * 2) | {"series": "cann_bench_quant_matmul", "total_us": 1.0}
        return generic.generic(point)

    times = [us(rows, 4096, 11008, "int8") for rows in (1024, 1280, 1536, 2048, 3072)]
    assert all(before < 1.15 * after for before, after in pairwise(times))
    assert times[3] < 2.1 * times[0]
    # One tile of 80 rows is better than several tiles of 32 rows.
    assert us(64, 7168, 1536, "float16") < us(80, 7168, 1536, "float16") < 1.1 * us(96, 7168, 1536, "float16")


def test_kernels_copy_and_multiply_whole_blocks(described):
    tiling = {"block_dim": 8, "tile_elements": 4000, "buffers": "single buffer", "l2_hint": "default", "ub_offsets": ""}
    point = {"device": "Ascend910B1", "variant": "", "dtypes": "float16", "tiling": tiling}
    odd, whole = (described.addition(point | {"shapes": [[512, size]] * 2}) for size in (1023, 1024))
    assert odd == pytest.approx(whole, rel=0.02)
    odd, whole = (described.Gemm(256, 256, 64, "Ascend910B1", base=(size, 128, 64)) for size in (91, 96))
    assert odd.times(point) == whole.times(point)


def test_rows_longer_than_a_field_of_the_copy(described):
    point = {"device": "Ascend910B1"}
    for sizes, options in ((lambda wide: (40, 48, wide), {}), (lambda wide: (32, wide, 64), {"is_row_major": True})):
        # The same position of the rows in requests of 512 bytes.
        gemms = [described.Gemm(*sizes(wide), "Ascend910B1", **options) for wide in (65552 - 256, 65552)]
        short, long = (gemm.times(point)[1] for gemm in gemms)
        assert short < long < 1.1 * short


def test_the_error_range_is_that_of_the_committed_errors():
    from opforge.twin.compiler.npu_model import error_range, npu_model
    from opforge.twin.runtime.results import Result

    errors = npu_model()["errors"]
    low, high = error_range()
    assert low < 0 < high
    apart = errors["left_out"]["all"]
    assert math.isclose((1 + low) * (1 + apart["high"]), 1)
    assert math.isclose((1 + high) * (1 + apart["low"]), 1)
    assert apart["points"] == errors["all"]["points"]
    report = Result({}, []).report
    assert report.error_range == (low, high)
    assert f"error_range={(low, high)}" in str(report)


def test_errors_of_the_range_come_from_fits_without_the_point(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    left_out = importlib.import_module("points.left_out")
    names = ["add_8192"] * 5 + ["matmul_8192"] * 4 + ["vector"] * 7 + ["host"] * 6 + ["none"]
    points = [{"id": f"{name}/{index}", "series": name} for index, name in enumerate(names)]
    kinds = {"vector": {"kind": "rows"}, "host": {"kind": "rows"}, "none": {"skip": "no structure"}}
    seen = {"structures": [], "constants": []}

    def fit(given, table):
        seen["structures"] = [point["id"] for point in given]
        return dict(table)

    def refit(series, given):
        seen["constants"] = [point["id"] for point in given]
        # Only a part of the series itself may be in the fit, if no other series shows a constant.
        assert any(point["series"] == series for point in given) == (series in {"matmul_8192", "host"})
        return {}

    def evaluated(given):
        for point in given:
            is_generic = point["series"] in {"vector", "host"}
            assert not is_generic or point["id"] not in seen["structures"]
            assert point["series"] == "vector" or point["id"] not in seen["constants"]
        return [{"id": point["id"], "series": point["series"]} for point in given], []

    monkeypatch.setattr(left_out.fit_structures, "fit", fit)
    monkeypatch.setattr(left_out, "evaluate", evaluated)
    monkeypatch.setattr(left_out, "structures", lambda: kinds)
    shown = {"add_8192": False, "matmul_8192": True, "host": True}
    rows = left_out.rows(points, dict(kinds), shown, refit)
    assert sorted(row["id"] for row in rows) == sorted(point["id"] for point in points[:-1])


def test_constants_are_fitted_if_and_only_if_the_script_fits_them(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    calibrate = importlib.import_module("calibrate")
    constants = json.loads(calibrate.MODEL.read_text(encoding="utf-8"))["constants"]
    fits = {(name, bool(soc)) for name, soc, *_ in calibrate.FITS}
    for name, entry in constants.items():
        for is_own, facts in [(False, entry), *((True, own) for own in entry.get("soc", {}).values())]:
            assert facts["source"], name
            ranges = facts["spread"].values() if isinstance(facts["spread"], dict) else [facts["spread"]]
            values = facts["value"].values() if isinstance(facts["value"], dict) else [facts["value"]]
            assert all(low <= value <= high for value, (low, high) in zip(values, ranges, strict=True)), name
            assert "border" not in facts, name
            if facts["status"] in {"inferred", "shared"}:  # a chip without published times
                assert is_own
                continue
            is_fitted = (name, is_own) in fits or name in calibrate.PIPES
            assert (facts["status"] == "fitted") == is_fitted, name


def test_a_window_grows_and_a_value_at_its_border_is_reported(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    calibrate = importlib.import_module("calibrate")
    model = {"constants": {"c": {"value": 0.0}}}
    monkeypatch.setattr(calibrate, "replacing", lambda _: {})

    def search(best, slope):
        monkeypatch.setattr(calibrate, "mean_error", lambda _: slope * abs(model["constants"]["c"]["value"] - best))
        return calibrate.fit_constant(model, "c", "", 10.0, [])

    assert search(20.0, 1.0)["value"] == pytest.approx(20, rel=0.05)  # beyond the first window
    assert "border" not in search(20.0, 1.0)
    steep = search(10.0, 0.08)  # the error of each neighbor in the window is too large
    assert steep["value"] == 10
    assert 9.8 < steep["spread"][0] < steep["spread"][1] < 10.2
    flat = search(10.0, 1e-6)
    assert flat["border"] == flat["spread"]
    assert search(1000.0, 1.0)["border"][1] < 1000
    calibrate._report("c", flat)
    assert "at the border of the window" in capsys.readouterr().out


def test_instructions_of_the_cube_core_have_the_cycles_of_busy_pipes(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    pipes = importlib.import_module("points.pipes")
    steps = 2 * 2 * 4 / 2
    point = {
        "series": "matmul_basic_8192",
        "device": "Ascend910B1",
        "chip": {"mhz": 1000},
        "shapes": {"m": 256, "n": 512, "k": 256},
        "tiling": {"base_mnk": [128, 256, 64], "block_dim": 2},
        "pipes_us": {"mac": steps * 0.522, "mte1": steps * (0.320 + 0.110)},
    }
    found = pipes.instruction_costs([point, point | {"series": "other", "pipes_us": {"mac": steps * 0.6, "mte1": 4}}])
    assert found["mmad_issue_cycles"]["value"] == 10
    assert found["mmad_issue_cycles"]["spread"] == [10, 88]
    assert found["l1_load_issue_cycles"]["value"] == 22
