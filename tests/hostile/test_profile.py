"""Test hostile options, arrays and paths of `opforge profile`: one clear line, exit code 2, and no file changed."""

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.errors import UserError

OP = "GroupedBiasAddGrad"
SHAPE = ("--shape", "grad_y=4x3x8")


def invoke(*command):
    return CliRunner().invoke(app, ["profile", *map(str, command)])


def refused(*command):
    result = invoke(*command)
    assert isinstance(result.exception, UserError), (result.exception, result.output)
    assert result.exception.exit_code == 2
    text = str(result.exception)
    assert text.isprintable(), text
    assert len(text) < 2000
    return text


def contents(folder):
    found = sorted(folder.rglob("*"))
    return {path: path.read_bytes() if path.is_file() and not path.is_symlink() else None for path in found}


OPTIONS = {
    "an unknown operator": (["Nothing", *SHAPE], "OP: got 'Nothing'"),
    "an operator of 300 letters": (["N" * 300, *SHAPE], "OP: got 'NNN"),
    "an operator that controls the terminal": (["\x1b[2J", *SHAPE], r"OP: got '\x1b[2J'"),
    "a path as operator": (["../" * 2000, *SHAPE], "OP: got '../"),
    "no shape": ([OP], "got no shape of grad_y"),
    "an empty shape": ([OP, "--shape", ""], "expected name=4x8"),
    "a shape of letters": ([OP, "--shape", "grad_y=axb"], "expected name=4x8"),
    "a negative size": ([OP, "--shape", "grad_y=4x-3x8"], "expected name=4x8"),
    "digits of another script": ([OP, "--shape", "grad_y=\u0664x3x8"], "expected name=4x8"),
    "a size of 5,000 digits": ([OP, "--shape", "grad_y=4x3x" + "9" * 5000], "expected name=4x8"),
    "a thousand sizes": ([OP, "--shape", "grad_y=" + "x".join("1" * 1000)], "expected name=4x8 (at most 8 sizes"),
    "2^59 sizes": ([OP, "--shape", f"grad_y={1 << 59}x3x8"], "expected at most"),
    "nothing times too much": ([OP, "--shape", f"grad_y=0x{10**18 - 1}x{10**18 - 1}"], "grad_y"),
    "nothing times 100 digits": ([OP, "--shape", f"grad_y=0x{'9' * 100}x8"], "grad_y"),
    "an input that is none": ([OP, "--shape", "grad_y=4x3x8," + "n" * 300 + "=4"], "--shape: got 'nnn"),
    "an unknown dtype": ([OP, *SHAPE, "--dtype", "d" * 300], "--dtype: got 'ddd"),
    "an unknown chip": ([OP, *SHAPE, "--soc", "\x1b[2J"], r"\x1b[2J"),
    "a chip of 5,000 letters": ([OP, *SHAPE, "--soc", "../" * 2000], "soc"),
    "an attribute without a value": ([OP, *SHAPE, "--attr", "n" * 300], "--attr: got 'nnn"),
    "an unknown attribute": ([OP, *SHAPE, "--attr", "n" * 300 + "=1"], "nnn"),
    "an attribute nested 5,000 deep": ([OP, *SHAPE, "--attr", "group_idx_type=" + "[" * 5000], "group_idx_type"),
    "an attribute of 5,000 signs": ([OP, *SHAPE, "--attr", "group_idx_type=" + "-" * 5000 + "1"], "group_idx_type"),
    "an attribute of 5,000 digits": ([OP, *SHAPE, "--attr", "group_idx_type=" + "9" * 5000], "group_idx_type"),
    "an attribute of 2^70": ([OP, *SHAPE, "--attr", f"group_idx_type={1 << 70}"], "group_idx_type"),
    "an attribute that is a set": ([OP, *SHAPE, "--attr", "group_idx_type={1}"], "group_idx_type"),
    "an attribute that cannot be": ([OP, *SHAPE, "--attr", "group_idx_type={[]: 1}"], "group_idx_type"),
    "an attribute that is complex": ([OP, *SHAPE, "--attr", "group_idx_type=1j"], "group_idx_type"),
    "an attribute that is bytes": ([OP, *SHAPE, "--attr", "group_idx_type=b'1'"], "group_idx_type"),
    "an attribute that is None": ([OP, *SHAPE, "--attr", "group_idx_type=None"], "group_idx_type"),
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_an_odd_option_is_one_line(kind):
    command, words = OPTIONS[kind]
    assert words in refused(*command)


ARRAYS = {
    "texts": (np.array(["a", "b"]), "got <U1, expected numbers"),
    "bytes": (np.array([b"a", b"b"]), "got |S1, expected numbers"),
    "complex numbers": (np.array([1j, 2j]), "got complex128, expected numbers"),
    "two bytes without a type": (np.zeros(2, "V2"), "got |V2, expected numbers"),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_non_numeric_arrays_are_one_line(tmp_path, kind):
    array, words = ARRAYS[kind]
    np.savez(tmp_path / "in.npz", group_idx=array)
    assert f"--inputs: group_idx: {words}" in refused(OP, *SHAPE, "--inputs", tmp_path / "in.npz")


def test_numbers_without_a_counterpart_are_cast(tmp_path):
    np.savez(tmp_path / "in.npz", grad_y=np.full((4, 3, 8), np.nan), group_idx=np.array([np.inf, 1e300]))
    result = invoke(OP, "--inputs", tmp_path / "in.npz")
    assert result.exception is None or isinstance(result.exception, (UserError, SystemExit)), result.exception


@pytest.fixture
def folder(tmp_path):
    """Create a folder with entries that a report must not replace."""
    inner = tmp_path / "reports"
    (inner / "sub").mkdir(parents=True)
    (tmp_path / "other.txt").write_text("precious")
    (inner / "link").symlink_to(tmp_path / "other.txt")
    (inner / "loop").symlink_to("loop")
    os.mkfifo(inner / "pipe")
    np.savez(inner / "in.npz", grad_y=np.ones((4, 3, 8), np.float32))
    return inner


TARGETS = (
    *("pipe", "sub", "link", "loop", "/dev/full", "/dev/null", "none/out", "in.npz", "sub/../in.npz", "in.npz/out"),
    *("n" * 300, "d/" * 2500 + "out"),
)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target[:20])
def test_invalid_output_path_changes_no_file(folder, monkeypatch, target):
    before = contents(folder.parent)
    for option, what in (("--html", "page"), ("--trace", "trace"), ("--json", "report")):
        text = refused(OP, "--inputs", folder / "in.npz", option, folder / target)
        assert f"cannot write the {what}" in text
        assert contents(folder.parent) == before


@pytest.mark.parametrize(("first", "second"), [*itertools.permutations(["--html", "--trace", "--json"], 2)])
def test_two_outputs_are_two_files(folder, first, second):
    before = contents(folder.parent)
    text = refused(OP, *SHAPE, first, folder / "new", second, folder / "sub" / ".." / "new")
    assert "the command also uses" in text
    assert contents(folder.parent) == before


def test_a_spec_is_not_overwritten(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["new", "LeakyClip", "project"]).exit_code == 0
    monkeypatch.chdir(tmp_path / "project")
    spec = Path("op_proto/leaky_clip.yaml")
    before = spec.read_bytes()
    assert "the command also uses" in refused("LeakyClip", "--shape", "x=4x8", "--json", spec)
    assert spec.read_bytes() == before


def test_a_call_that_is_refused_writes_nothing(folder):
    before = contents(folder.parent)
    outputs = ["--html", folder / "p.html", "--trace", folder / "t.json", "--json", folder / "f.json"]
    refused(OP, "--shape", "grad_y=6x4", *outputs)
    assert contents(folder.parent) == before


def test_all_outputs_are_written_together(folder):
    page, trace, figures = (folder / name for name in ("p.html", "t.json", "f.json"))
    trace.write_text("before")
    result = invoke(OP, "--inputs", folder / "in.npz", "--html", page, "--trace", trace, "--json", figures)
    assert result.exit_code == 0, result.output
    assert json.loads(trace.read_text())["traceEvents"]
    assert json.loads(figures.read_text())["operator"] == OP
    assert page.read_text().startswith("<!")
    assert len(list(folder.iterdir())) == 8


def test_a_trace_is_not_written_into_a_pipe(folder):
    result = invoke(OP, "--shape", "grad_y=4x3x8", "--trace", folder / "pipe")
    assert isinstance(result.exception, UserError)
    assert "cannot write the trace" in str(result.exception)


def test_a_call_without_a_launch_has_a_trace_without_events(folder):
    trace = folder / "t.json"
    result = invoke(OP, "--shape", "grad_y=0x3x8", "--trace", trace)
    assert result.exit_code == 0, result.output
    assert json.loads(trace.read_text()) == {"traceEvents": []}
