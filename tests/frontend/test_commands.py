"""`opforge convert` and `opforge run` on files."""

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from opforge import twin
from opforge.codegen.cli import app
from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.execute import execute

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


def test_run_prints_outputs_and_what_was_moved(tmp_path, calls, feed):
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
    with pytest.raises(UserError, match="in which folder"):
        execute(onnx.load(tmp_path / "m.onnx", load_external_data=False), {"x": np.ones(2, np.float32)})


# Conversion to files.


@pytest.fixture
def plain(tmp_path):
    """A model with nothing of ours and data of its own in another file, and unusual bytes: fields out of order."""
    path = tmp_path / "in" / "m.onnx"
    path.parent.mkdir()
    model = parse("g (float[2] x) => (float[2] y) {y = Add (x, w)}")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.full(2, 5, np.float32), "w"))
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    opset = model.opset_import[0].SerializeToString()
    path.write_bytes(bytes([8 << 3 | 2, len(opset)]) + opset + path.read_bytes())
    return path


def test_a_model_with_nothing_to_map_comes_out_byte_identical(plain):
    out = plain.parent / "out.onnx"
    assert "unchanged" in opforge("convert", plain, "-o", out, "--patterns")
    assert out.read_bytes() == plain.read_bytes()
    assert onnx.ModelProto.FromString(out.read_bytes()).SerializeToString() != out.read_bytes()


def test_external_data_goes_along_to_another_folder(plain):
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
def test_the_output_never_lands_on_something_else(plain, target):
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


def test_convert_writes_the_report(tmp_path):
    onnx.save(parse(INDEXED), tmp_path / "m.onnx")
    text = opforge("convert", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--json", tmp_path / "r.json")
    assert "1 mapped, 0 left, nodes: 1 before, 1 after" in text
    report = json.loads((tmp_path / "r.json").read_text())
    assert set(report) == {"mapped", "left", "nodes_before", "nodes_after"}
    assert set(report["mapped"][0]) == {"node", "op", "rule", "outputs", "attrs"}
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
def test_a_failure_while_writing_leaves_nothing(plain, monkeypatch, step):
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
