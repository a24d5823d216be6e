"""Test `opforge profile --case` and `--compare`."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner
from web_page import WebPage

from opforge.cli.main import app
from opforge.codegen.errors import UserError
from opforge.codegen.project import BUILTIN_ROOT, find_project
from opforge.codegen.spec.loader import load_specs
from opforge.twin.profile.cases import parse_cases
from opforge.twin.profile.compare import compare, read_old

OP = "GroupedBiasAddGrad"
SPECS = {spec.op_type: spec for spec in load_specs(find_project(BUILTIN_ROOT).spec_paths())}


def invoke(*command):
    return CliRunner().invoke(app, ["profile", *map(str, command)])


def refused(*command):
    result = invoke(*command)
    assert isinstance(result.exception, UserError), (result.exception, result.output)
    assert result.exception.exit_code == 2
    assert str(result.exception).isprintable()
    return str(result.exception)


def profile(out, *command):
    result = invoke(*command, "--json", out)
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(out.read_text(encoding="utf-8")), result.output


@pytest.mark.parametrize(
    ("operator", "text", "attrs", "shapes"),
    [
        (OP, "a T=8,H=16,G=2", {}, {"grad_y": (8, 16), "group_idx": (2,)}),
        (OP, "a G=2,C=4,H=16", {}, {"grad_y": (2, 4, 16)}),
        # The names of attributes in a shape are sizes, too.
        (
            "ConvTbcBackward",
            "a T=10,B=2,Cin=3,Cout=4,K=5,pad=1",
            {},
            {"self": (10 + 2 + 1 - 5, 2, 4), "input": (10, 2, 3), "weight": (5, 3, 4), "bias": (4,)},
        ),
        ("EmbeddingDenseBackward", "a M=2x3,E=8,I=6", {"num_weights": 9}, {"grad": (2, 3, 8), "indices": (6,)}),
        (
            "BatchNormElemtBackward",
            "plain N=2,C=3,S=,R=1",
            {},
            {
                "grad_out": (2, 3),
                "input": (2, 3),
                "mean": (3,),
                "invstd": (3,),
                "sum_dy": (3,),
                "sum_dy_xmu": (3,),
                "counter": (1,),
            },
        ),
    ],
)
def test_sizes_become_shapes_through_the_spec(operator, text, attrs, shapes):
    (case,) = parse_cases(SPECS[operator], [text], attrs)
    assert case.shapes == shapes


def test_a_case_may_name_a_case_of_the_spec():
    sizes = "N=2,C=3,S=4,R=1"
    weighted, plain = parse_cases(SPECS["BatchNormElemtBackward"], [f"any {sizes}", f"plain {sizes}"], {})
    assert weighted.shapes["weight"] == (3,)
    assert "weight" not in plain.shapes


def test_an_integer_attribute_of_a_case_reaches_the_call():
    (case,) = parse_cases(SPECS["ConvTbcBackward"], ["a T=10,B=2,Cin=3,Cout=4,K=5,pad=2"], {"cube_math_type": 1})
    assert case.attrs == {"pad": 2, "cube_math_type": 1}


def test_each_case_is_a_row(tmp_path):
    out = tmp_path / "cases.json"
    cases = ["--case", "small", "T=64,H=32,G=2", "--case", "equal", "G=4,C=8,H=32"]
    data, output = profile(out, OP, *cases, "--html", tmp_path / "page.html")
    assert [case["name"] for case in data["cases"]] == ["small", "equal"]
    assert data["cases"][0]["shapes"] == {"grad_y": [64, 32], "group_idx": [2]}
    assert data["cases"][1]["shapes"] == {"grad_y": [4, 8, 32]}
    assert (data["schema"], data["operator"], data["soc"]) == (1, OP, "Ascend910B1")
    alone, _ = profile(out, OP, "--shape", "grad_y=4x8x32")
    assert alone["estimate_us"] == data["cases"][1]["estimate_us"]
    for name in ("small", "equal"):
        assert f"{name}: critical path by line" in output
    assert "Busy, us" not in output
    full = invoke(OP, *cases, "--details").output
    for title in (
        ": phases, us",
        "Busy, us",
        "Lines by busy time",
        "Lines by waiting time",
        "Critical path of phase 1",
    ):
        assert full.count(title) == len(data["cases"]), title
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = WebPage(text)
    assert page.loaded == page.open == []
    for case in data["cases"]:
        (launch,) = case["launches"]
        for row in launch["path"][:3]:
            assert row["where"] in page.text
            assert row["text"] in page.text
            assert f"{row['us']:.3f}" in page.text
        assert f"{case['estimate_us']:.3f}" in page.text


NAMES = ("work", "bandwidth", "latency", "drain", "flags")


@pytest.mark.parametrize("details", [[], ["--details"]])
def test_tables_have_complete_numbers_in_80_columns(details, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    data, output = profile(tmp_path / "a.json", OP, "--case", "large", "T=4096,H=512,G=16", *details)
    assert max(map(len, output.splitlines())) <= 80
    assert "…" not in output
    (case,) = data["cases"]
    figures = (f"{case[key]:.2f}" for key in ("estimate_us", "launch_us", "bound_us", "eff", "bal", "bytes"))
    assert "│".join(f" {text} " for text in ("large", *figures)) in re.sub(" +", " ", output)
    path = output[output.index("critical path by line") :]
    heads, *rows = [
        [cell.strip() for cell in re.split("[│┃]", line)[1:-1]] for line in path.splitlines() if line[0] in "│┃"
    ]
    (launch,) = case["launches"]
    first = launch["path"][0]
    assert rows[0][heads.index("us")] == f"{first['us']:.2f}"
    if details:
        shown = [name for name in NAMES if any(row[f"{name}_us"] for row in launch["path"])]
        assert [head for head in heads if head in NAMES] == shown
        times = {name: f"{first[f'{name}_us']:.2f}" if first[f"{name}_us"] else "" for name in shown}
        assert {name: rows[0][heads.index(name)] for name in shown} == times
    else:
        assert heads == ["line", "us", "cause", "source"]
        assert rows[0][2] == max(NAMES, key=lambda name: first[f"{name}_us"])
        assert [row[2] for row in rows[-2:]] == ["", ""]  # launch overhead and the sum
    assert rows[-1][:2] == ["sum", f"{case['estimate_us']:.2f}"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            ["--case", "a", "Q=4"],
            "--case a: got 'Q', expected the symbols of GroupedBiasAddGrad: T, H, G (case indexed)",
        ),
        (["--case", "a", "T=4,H=3"], "--case a: got sizes of T, H, expected all symbols of one case"),
        (["--case", "a", "H=3"], "GroupedBiasAddGrad also needs T (case indexed)"),
        (["--case", "a"], "--case: got 'a', expected a name"),
        (["--case", "T=4"], "--case: got 'T=4', expected a name"),
        (["--case", "a", "T"], "--case a: got 'T', expected name=4x8"),
        (["--case", "a", "T=x,H=1,G=1"], "--case a: got 'T=x', expected name=4x8"),
        (["--case", "a", "T=4x4,H=1,G=1"], "--case a: T: got '4x4', expected one number"),
        (["--case", "a", "T=4,H=1,G=1", "--case", "a", "T=4,H=1,G=1"], "--case: got a twice"),
        (["--case", "a", "T=4,H=1,G=1", "--shape", "grad_y=4x1"], "--case: got also --shape"),
        (
            ["--case", "a", "T=4,H=1,G=1,group_idx_type=1", "--attr", "group_idx_type=1"],
            "got group_idx_type also in --attr",
        ),
        (["--shape", "grad_y=4x1", "--attr", "group_idx_type=x"], "group_idx_type: got 'x', expected an integer"),
        (["--case", "a", "T=4,H=1,G=3000"], "--case a: aclnnGroupedBiasAddGradGetWorkspaceSize returned 161002"),
        (["--case", "a\x1b[2J", "T=4,H=1,G=1"], "expected a name (at most 60 letters)"),
        (["--case", "a", f"T={10**18},H=1,G=1"], "expected at most"),
        (["--case", "a", f"T={'9' * 80},H=1,G=1"], ""),
    ],
)
def test_a_wrong_case_is_one_message(command, message):
    assert message in refused(OP, *command)


def test_a_trace_is_of_one_case(tmp_path):
    cases = ["--case", "a", "T=4,H=1,G=1", "--case", "b", "T=4,H=1,G=1"]
    assert "--trace: got 2 cases, expected one" in refused(OP, *cases, "--trace", tmp_path / "t.json")
    assert list(tmp_path.iterdir()) == []


SHAPE = ("--shape", "grad_y=64x4x32")


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """Return a profile as data."""
    return profile(tmp_path_factory.mktemp("old") / "old.json", OP, *SHAPE)[0]


def write(folder, data):
    path = folder / "old.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def test_a_profile_equals_itself(tmp_path, old):
    data, output = profile(tmp_path / "new.json", OP, *SHAPE, "--compare", write(tmp_path, old))
    (case,) = data["compare"]
    assert case["estimate_us"] == [old["estimate_us"]] * 2
    assert all(before == after for before, after in (*case["pipes"].values(), *case["bytes"].values()))
    assert all(row["us"][0] == row["us"][1] for key in ("path", "lines") for row in case[key])
    assert "no change" in output


def test_a_line_that_moved_is_recognised_by_its_text(tmp_path, old):
    changed = json.loads(json.dumps(old))
    (launch,) = changed["launches"]
    slow = max(launch["path"], key=lambda row: row["us"] if row["where"] else 0.0)
    before = slow["us"]
    slow["us"] = 3 * before
    for row in (*launch["path"], *launch["lines"]):
        if row["where"]:
            file, _, number = row["where"].rpartition(":")
            row["where"] = f"{file}:{int(number) + 1000}"
    changed["estimate_us"] += 2 * before
    page = tmp_path / "page.html"
    command = [OP, *SHAPE, "--compare", write(tmp_path, changed), "--html", page]
    data, output = profile(tmp_path / "new.json", *command)
    (case,) = data["compare"]
    row = case["path"][0]
    assert row["us"] == [3 * before, before]
    assert row["old_where"].rpartition(":")[0] == row["where"].rpartition(":")[0]
    assert int(row["old_where"].rpartition(":")[2]) == int(row["where"].rpartition(":")[2]) + 1000
    assert all(other["us"][0] == other["us"][1] for other in case["path"][1:])
    differences = sum(after - before for before, after in (row["us"] for row in case["path"]))
    assert differences == pytest.approx(case["estimate_us"][1] - case["estimate_us"][0])
    assert "-66.7 %" in output
    text = WebPage(page.read_text(encoding="utf-8")).text
    assert "Compared with the earlier profile" in text
    assert "-66.7 %" in text


def figures(path):
    """Return a profile with these lines on the critical path: location, text, time."""
    rows = [{"where": where, "text": text, "us": us} for where, text, us in path]
    sizes = dict.fromkeys(("gm_bytes_read", "gm_bytes_written", "first_touch_bytes", "minimal_bytes"), 1)
    launch = {"pipes": {}, "path": rows, "lines": []}
    return {"": {"shapes": {}, "dtypes": {}, "attrs": {}, "estimate_us": 1.0, "launches": [launch], **sizes}}


def test_lines_of_one_text_match_in_order():
    old = figures([("a.h:10", "wait();", 1.0), ("a.h:20", "wait();", 2.0), ("a.h:30", "gone();", 4.0)])
    new = figures([("a.h:12", "wait();", 1.5), ("a.h:25", "wait();", 2.5), ("b.h:1", "added();", 3.0)])
    (case,) = compare(old, new)
    rows = {(row["old_where"], row["where"]): row for row in case["path"]}
    assert rows["a.h:10", "a.h:12"]["us"] == [1.0, 1.5]
    assert rows["a.h:20", "a.h:25"]["us"] == [2.0, 2.5]
    assert rows["a.h:30", "a.h:30"]["is_gone"]
    assert rows[None, "b.h:1"]["is_new"]


def without(data, *keys):
    return {key: value for key, value in data.items() if key not in keys}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: "", "got a syntax error (EOF while parsing a value at line 1 column 0), expected JSON"),
        (lambda _: "{", "got a syntax error (EOF while parsing an object at line 1 column 1), expected JSON"),
        (lambda _: "[" * 100_000, "expected JSON"),
        (lambda _: "[]", "got [], expected an object"),
        (lambda data: without(data, "schema"), "got nothing at ['schema'], expected a value"),
        (lambda data: {**data, "schema": 2}, "'schema'"),
        (lambda data: {**data, "operator": "Other\x1b[2J"}, r"got a profile of operator 'Other\x1b[2J', expected"),
        (lambda data: {**data, "soc": "Ascend910B4"}, "got a profile of soc 'Ascend910B4', expected Ascend910B1"),
        (lambda data: {**data, "shapes": {"grad_y": [1, 2, 3]}}, "--compare: shapes: got"),
        (lambda data: {**data, "dtypes": {"grad_y": "float32"}}, "--compare: dtypes: got"),
        (lambda data: {**data, "attrs": {"group_idx_type": 1}}, "--compare: attrs: got"),
        (lambda data: {**data, "estimate_us": "1"}, "estimate_us"),
        (lambda data: {**data, "estimate_us": -1}, "estimate_us"),
        (lambda data: {**data, "gm_bytes_read": 1.5}, "gm_bytes_read"),
        (
            lambda data: json.dumps(data).replace(f'"estimate_us": {data["estimate_us"]}', '"estimate_us": NaN'),
            "expected",
        ),
        (
            lambda data: {**data, "estimate_us": 2 * data["estimate_us"]},
            "expected launch_us plus the steps of the critical path",
        ),
        (lambda data: {**data, "cases": 2 * [{**data, "name": ""}]}, "two cases have the same name"),
        (lambda data: {**data, "launches": [{}]}, "pipes"),
        (lambda data: {**data, "cases": []}, "cases"),
        (
            lambda data: {**data, "cases": [{**data, "name": "a"}]},
            "--compare: got a profile of --case 'a', expected a profile without --case; use the names",
        ),
    ],
)
def test_another_file_is_refused(tmp_path, old, change, message):
    path = write(tmp_path, change(old))
    out = tmp_path / "new.json"
    assert message in refused(OP, *SHAPE, "--compare", path, "--json", out)
    assert not out.exists()


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "missing.json"):
        assert str(path) in refused(OP, *SHAPE, "--compare", path)
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(UserError, match="expected at most 67108864"):
        read_old(large, OP, "Ascend910B1")


def test_the_old_file_is_not_overwritten(tmp_path, old):
    path = write(tmp_path, old)
    before = path.read_bytes()
    assert "the command also uses this file" in refused(OP, *SHAPE, "--compare", path, "--json", path)
    assert path.read_bytes() == before
