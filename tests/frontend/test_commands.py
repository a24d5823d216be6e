"""Test `opforge convert` and `opforge run` on files."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from opforge import twin
from opforge.cli.main import app
from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.io import save
from opforge.frontend.run import verify
from opforge.frontend.run.execute import execute

INDEXED = "g (float[T, 3] x, int64[G] i) => (float[G, 3] y) {y = npu.NPUGroupedBiasAddGrad (x, i)}"


def parse(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18, "npu" : 1]> {text}')


def opforge(*arguments, code=0):
    """Run the command line in this process."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, UserError):
        assert result.exception.exit_code == code
        return str(result.exception)
    assert result.exit_code == code, result.output
    return result.output


def test_run_prints_outputs_and_moved_bytes(tmp_path, calls, feed):
    onnx.save(parse(INDEXED), tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", **feed)
    text = opforge("run", tmp_path / "m.onnx", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert all(word in text for word in ("float32", "[3, 3]", "72", "36", "1.00"))
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_array_equal(outputs["y"], np.ones((3, 3)))


def test_run_with_wrong_arrays_writes_nothing(tmp_path, calls, feed):
    onnx.save(parse(INDEXED), tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", x=feed["x"])
    out = tmp_path / "out.npz"
    assert "'i' is missing" in opforge(
        "run", tmp_path / "m.onnx", "--inputs", tmp_path / "in.npz", "--outputs", out, code=2
    )
    assert not out.exists()
    assert calls == []


def test_findings_are_exit_code_1(tmp_path, monkeypatch, feed):
    def find(*args, **kwargs):
        raise twin.FindingsError([twin.Finding("alignment", 0, "MTE2", "k.h:3", "text")])

    monkeypatch.setattr(twin, "run", find)
    onnx.save(parse(INDEXED), tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", **feed)
    out = tmp_path / "out.npz"
    opforge("run", tmp_path / "m.onnx", "--inputs", tmp_path / "in.npz", "--outputs", out, code=1)
    assert not out.exists()


def test_external_data_is_read_to_run(tmp_path):
    weights = onnx.numpy_helper.from_array(np.full(2, 5, np.float32), "w")
    model = parse("g (float[2] x) => (float[2] y) {y = Add (x, w)}")
    model.graph.initializer.append(weights)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    np.savez(tmp_path / "in.npz", x=np.ones(2, np.float32))
    opforge("run", tmp_path / "m.onnx", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_array_equal(outputs["y"], [6, 6])
    with pytest.raises(UserError, match="pass the path of its file"):
        execute(onnx.load(tmp_path / "m.onnx", load_external_data=False), {"x": np.ones(2, np.float32)})


# Conversion to files.


@pytest.fixture
def plain(tmp_path):
    """Create a model without custom nodes, with external data, and with protobuf fields in an unusual order."""
    path = tmp_path / "in" / "m.onnx"
    path.parent.mkdir()
    model = parse("g (float[2] x) => (float[2] y) {y = Add (x, w)}")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.full(2, 5, np.float32), "w"))
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    opset = model.opset_import[0].SerializeToString()
    path.write_bytes(bytes([8 << 3 | 2, len(opset)]) + opset + path.read_bytes())
    return path


def test_unmapped_model_is_byte_identical(plain):
    out = plain.parent / "out.onnx"
    assert "unchanged" in opforge("convert", plain, "-o", out, "--patterns")
    assert out.read_bytes() == plain.read_bytes()
    assert onnx.ModelProto.FromString(out.read_bytes()).SerializeToString() != out.read_bytes()


def test_external_data_is_copied_to_another_folder(plain):
    out = plain.parent.parent / "other" / "out.onnx"
    out.parent.mkdir()
    for _ in range(2):
        opforge("convert", plain, "-o", out)
        assert out.read_bytes() == plain.read_bytes()
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(onnx.load(out).graph.initializer[0]), [5, 5])
    assert sorted(path.name for path in out.parent.iterdir()) == ["out.onnx", "w.bin"]


@pytest.mark.parametrize(("ends", "mapped"), [([2, 6], 1), ([2, 5], 0)])
def test_constants_are_read_from_external_data(tmp_path, ends, mapped):
    model = parse("g (float[6, 3] x) => (float[2, 3] y) {y = npu.NPUGroupedBiasAddGrad (x, i)}")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(ends), "i"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    conversion = convert(tmp_path / "m.onnx")
    assert len(conversion.mapped) == mapped
    assert conversion.model.graph.initializer[0].data_location == onnx.TensorProto.EXTERNAL


def test_other_data_in_the_target_folder_is_not_overwritten(plain):
    out = plain.parent.parent / "other" / "out.onnx"
    out.parent.mkdir()
    (out.parent / "w.bin").write_bytes(b"precious")
    assert "other data" in opforge("convert", plain, "-o", out, code=2)
    assert [(path.name, path.read_bytes()) for path in out.parent.iterdir()] == [("w.bin", b"precious")]


TARGETS = ["m.onnx", "../in/m.onnx", "hard.onnx", "link.onnx", "w.bin", "pipe", "sub", "missing/out.onnx"]


@pytest.mark.parametrize("target", TARGETS)
def test_output_never_replaces_another_file(plain, target):
    folder = plain.parent
    os.link(plain, folder / "hard.onnx")
    (folder / "link.onnx").symlink_to(plain)
    os.mkfifo(folder / "pipe")
    (folder / "sub").mkdir()
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert "cannot write the model" in opforge("convert", plain, "-o", folder / target, code=2)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_the_report_may_not_replace_the_model(plain):
    assert "report" in opforge("convert", plain, "-o", plain.parent / "o.onnx", "--json", plain, code=2)


def contents(*folders):
    return {path: path.read_bytes() for folder in folders for path in folder.iterdir()}


@pytest.mark.parametrize("target", ["in/w.bin", "dst/w.bin", "dst/o.onnx"])
@pytest.mark.parametrize("exists", [False, True])
def test_the_report_replaces_neither_weights_nor_the_result(plain, target, exists):
    root = plain.parent.parent
    (root / "dst").mkdir()
    if exists:
        opforge("convert", plain, "-o", root / "dst" / "o.onnx")
    before = contents(plain.parent, root / "dst")
    text = opforge("convert", plain, "-o", root / "dst" / "o.onnx", "--json", root / "dst" / ".." / target, code=2)
    assert "cannot write the report: the command also uses" in text
    assert contents(plain.parent, root / "dst") == before


@pytest.mark.parametrize("option", ["--outputs", "--json"])
def test_results_of_a_run_do_not_replace_weights(plain, option):
    folder = plain.parent
    np.savez(folder / "in.npz", x=np.ones(2, np.float32))
    before = contents(folder)
    text = opforge("run", plain, "--inputs", folder / "in.npz", option, folder / "w.bin", code=2)
    assert "the command also uses" in text
    assert contents(folder) == before


def test_results_of_a_run_are_two_files(plain):
    folder = plain.parent
    np.savez(folder / "in.npz", x=np.ones(2, np.float32))
    new = folder / "new"
    text = opforge("run", plain, "--inputs", folder / "in.npz", "--outputs", new, "--json", new, code=2)
    assert "cannot write the report: the command also uses" in text
    assert not new.exists()


def test_check_replaces_neither_the_model_nor_its_weights(plain):
    before = contents(plain.parent)
    for target in ("m.onnx", "w.bin"):
        text = opforge("check", plain, "--json", plain.parent / target, code=2)
        assert "the command also uses" in text
    assert contents(plain.parent) == before


def test_the_reports_of_a_conversion_are_two_files(plain):
    new = plain.parent.parent / "new"
    before = contents(plain.parent)
    text = opforge("convert", plain, "-o", plain.parent / "o.onnx", "--json", new, "--html", new, code=2)
    assert "cannot write the page: the command also uses" in text
    assert contents(plain.parent) == before
    assert not new.exists()


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_unwritable_report_is_rejected_before_the_model_runs(plain, monkeypatch, option):
    monkeypatch.setattr(verify, "verify", lambda *_: pytest.fail("the model ran"))
    target = plain.parent / "missing" / "r"
    text = opforge("convert", plain, "-o", plain.parent / "o.onnx", "--verify", option, target, code=2)
    assert "does not exist" in text


def test_a_disk_that_is_too_small_is_one_line(plain, monkeypatch):
    out = plain.parent.parent / "other" / "out.onnx"
    out.parent.mkdir()
    monkeypatch.setattr(save, "disk_usage", lambda _: SimpleNamespace(free=7))
    assert "needs 8 bytes for the model's external data, 7 are free" in opforge("convert", plain, "-o", out, code=2)
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize("name", ["out.onnx", "out.air"])
def test_file_size_limit_leaves_no_file(tmp_path, name):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    model = parse(INDEXED)
    model.graph.node[0].name = "n" * 5000
    onnx.save(model, tmp_path / "in" / "m.onnx")

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    code, text = command("convert", tmp_path / "in" / "m.onnx", "-o", tmp_path / "out" / name, preexec_fn=limit)
    assert (code, text.count("\n")) == (2, 1)
    assert "File too large" in text
    assert list((tmp_path / "out").iterdir()) == []


def test_an_air_file_holds_external_data_of_the_models_folder_only(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    (tmp_path / "here").mkdir()
    model = parse("g (float[2] x) => (float[2] y) {y = Add (x, w)}")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.full(2, 5, np.float32), "w"))
    onnx.save(model, tmp_path / "in" / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "here" / "w.bin").write_bytes(b"elsewher")
    monkeypatch.chdir(tmp_path / "here")
    opforge("convert", tmp_path / "in" / "m.onnx", "-o", "o.air")
    data = (tmp_path / "here" / "o.air").read_bytes()
    assert np.full(2, 5, np.float32).tobytes() in data
    assert b"elsewher" not in data
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == ["o.air", "w.bin"]


def test_the_end_of_a_command_is_that_of_its_child(plain):
    code, text = command("convert", plain, "-o", plain.parent / "o.onnx", "--opset", "99")
    assert (code, text.count("\n")) == (2, 1)
    assert command("convert", plain, "-o", plain.parent / "o.onnx") == (0, "")


def test_command_stops_on_sigterm(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    script = "import os, sys; from opforge.frontend.limits import supervise; supervise(); open(sys.argv[1], 'w')"
    process = subprocess.Popen([sys.executable, "-c", script, tmp_path / "pipe"])
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    process.terminate()
    assert process.wait(30) in (128 + signal.SIGTERM, -signal.SIGTERM, 0)
    os.close(reader)


def test_long_reports_are_cut_on_the_terminal(tmp_path):
    names = [f"y{number}" for number in range(300)]
    nodes = " ".join(f"{name} = npu.NPUGroupedBiasAddGrad (x, x)" for name in names)
    onnx.save(parse(f"g (float[6, 3] x) => ({', '.join(names)}) {{{nodes}}}"), tmp_path / "m.onnx")
    text = opforge("convert", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--json", tmp_path / "r.json")
    assert "y19 " in text
    assert "y20 " not in text
    assert "and 280 more; --json" in text
    assert len(json.loads((tmp_path / "r.json").read_text())["left"]) == 300


def test_run_writes_types_and_bytes_as_json(tmp_path, calls, feed):
    model = parse(INDEXED)
    model.graph.node[0].name = "n"
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", **feed)
    opforge("run", tmp_path / "m.onnx", "--inputs", tmp_path / "in.npz", "--json", tmp_path / "r.json")
    answer = json.loads((tmp_path / "r.json").read_text())
    low, high = answer["step"].pop("error_range")
    assert answer["step"].pop("ours_error_range") == [low, high]
    assert -1 < low < 0 < high
    assert answer["step"].pop("outside_range") == ["short"]
    assert answer == {
        "outputs": [{"name": "y", "dtype": "float32", "shape": [3, 3]}],
        "step": {
            "estimate_us": 7.5,
            "ours_us": 7.5,
            "others_us": 0,
            "others": 0,
            "others_launches_us": 0.0,
            "free": 0,
        },
        "nodes": [
            {
                "node": "n",
                "op": "GroupedBiasAddGrad",
                "calls": 1,
                "estimate_us": 7.5,
                "share": 1.0,
                "gm_bytes_read": 72,
                "gm_bytes_written": 36,
                "first_touch_bytes": 256,
                "minimal_bytes": 108,
                "blocks": 2,
            }
        ],
        "types": [
            {
                "type": "GroupedBiasAddGrad",
                "is_roofline": False,
                "nodes": 1,
                "estimate_us": 7.5,
                "moved_bytes": 108,
                "share": 1.0,
            }
        ],
    }


@pytest.mark.parametrize("step", ["open", "write"])
def test_without_its_report_no_model_is_written(plain, monkeypatch, step):
    out, report = plain.parent / "out.onnx", plain.parent.parent / "r" / "j.json"
    report.parent.mkdir()
    real_open, real_fsync = Path.open, os.fsync

    def open_(self, *args, **options):
        if report.parent in self.parents:
            raise PermissionError(13, "Permission denied")
        return real_open(self, *args, **options)

    def fsync(descriptor):
        if Path(f"/proc/self/fd/{descriptor}").readlink().parents[1] == report.parent:
            raise OSError(28, "No space left on device")
        real_fsync(descriptor)

    monkeypatch.setattr(Path, "open", open_ if step == "open" else real_open)
    monkeypatch.setattr(os, "fsync", fsync if step == "write" else real_fsync)
    before = contents(plain.parent)
    assert "nothing was changed" in opforge("convert", plain, "-o", out, "--json", report, code=2)
    assert contents(plain.parent) == before
    assert contents(report.parent) == {}


def test_convert_writes_the_report(tmp_path):
    onnx.save(parse(INDEXED), tmp_path / "m.onnx")
    text = opforge("convert", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--json", tmp_path / "r.json")
    assert "1 mapped, 0 not mapped; nodes: 1 before, 1 after" in text
    report = json.loads((tmp_path / "r.json").read_text())
    keys = {"mapped", "lowered", "left", "nodes_before", "nodes_after", "without_body", "warnings", "passes"}
    assert set(report) == keys
    times = {entry["name"]: entry["seconds"] for entry in report["passes"]}
    assert min(times[name] for name in ("load", "prefilter", "match", "rewrite", "emit", "save")) > 0
    assert set(report["mapped"][0]) == {"node", "op", "rule", "outputs", "attrs", "inputs"}
    assert onnx.load(tmp_path / "o.onnx").graph.node[0].domain == "opforge"


def test_external_data_does_not_leave_the_target_folder(plain):
    model = onnx.load(plain, load_external_data=False)
    (plain.parent / "sub").mkdir()
    (plain.parent / "w.bin").rename(plain.parent / "sub" / "w.bin")
    model.graph.initializer[0].external_data[0].value = "sub/w.bin"
    plain.write_bytes(model.SerializeToString())
    target, elsewhere = plain.parent.parent / "target", plain.parent.parent / "elsewhere"
    target.mkdir()
    elsewhere.mkdir()
    (target / "sub").symlink_to(elsewhere)
    assert "behind a link" in opforge("convert", plain, "-o", target / "o.onnx", code=2)
    assert list(elsewhere.iterdir()) == []
    (target / "sub").unlink()
    opforge("convert", plain, "-o", target / "o.onnx")
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(onnx.load(target / "o.onnx").graph.initializer[0]), [5, 5])


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_failed_write_leaves_no_file(plain, monkeypatch, step):
    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    out = plain.parent.parent / "other" / "out.onnx"
    out.parent.mkdir()
    if step == "write":
        monkeypatch.setattr(os, "copy_file_range", fail)
        monkeypatch.setattr(os, "sendfile", fail)
    elif step == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        real = Path.replace
        monkeypatch.setattr(Path, "replace", lambda self, to: fail() if to.name == "out.onnx" else real(self, to))
    assert "No space left" in opforge("convert", plain, "-o", out, code=2)
    assert list(out.parent.iterdir()) == []


def test_names_from_models_cannot_style_the_terminal(tmp_path):
    model = parse(INDEXED)
    model.graph.node[0].name = "[red]\x1b[31mn"
    onnx.save(model, tmp_path / "m.onnx")
    text = opforge("convert", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx")
    assert "\x1b[31m" not in text
    assert "[red]" in text


def command(*arguments, **options):
    """Run the command line in a separate process; return its exit code and its stderr."""
    script = "from opforge.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], stderr=subprocess.PIPE, text=True, check=False, **options
    )
    return done.returncode, done.stderr


def test_a_full_standard_output_is_one_line(plain):
    with Path("/dev/full").open("w") as full:
        code, text = command("convert", plain, "-o", plain.parent / "o.onnx", stdout=full)
    assert (code, text.count("\n")) == (2, 1)
    assert "standard output: cannot be written: No space left on device" in text


def test_a_removed_current_folder_is_one_line(tmp_path):
    gone, model = tmp_path / "gone", tmp_path / "m.onnx"
    gone.mkdir()
    onnx.save(parse(INDEXED), model)
    code, text = command("convert", model, "-o", tmp_path / "o.onnx", cwd=gone, preexec_fn=gone.rmdir)
    assert (code, text.count("\n")) == (2, 1)
    assert "the current folder no longer exists" in text


@pytest.mark.parametrize("name", ["a\nb.onnx", "a\x1b[31m.onnx", "x" * 300])
def test_names_of_files_are_escaped_and_cut(plain, name):
    for arguments in ((plain.parent / name, "-o", "o.onnx"), (plain, "-o", plain.parent / name / "o.onnx")):
        code, text = command("convert", *arguments)
        assert (code, text.count("\n")) == (2, 1)
        assert "\x1b" not in text
        assert len(text) < 500
