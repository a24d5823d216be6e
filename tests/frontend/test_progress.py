"""The bar for what takes long."""

import io
import os
import re
import select
import subprocess
import sys
import time

import pytest

from opforge.frontend import progress as module
from opforge.frontend.files import stream
from opforge.frontend.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("patience", "terminal", "shown"), [(-1, True, True), (-1, False, False), (60, True, False)])
def test_a_bar_appears_on_a_terminal_when_it_takes_long(monkeypatch, patience, terminal, shown):
    stderr = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", patience)
    with progress("weights.bin", 100) as advance:
        advance(50)
    assert ("weights.bin" in stderr.getvalue()) is shown


def written_on(terminal):
    """What a terminal got; it comes a moment after it was written."""
    text = b""
    while select.select([terminal], [], [], 0.5)[0]:
        text += os.read(terminal, 1000)
    return text.decode()


@pytest.mark.parametrize(("patience", "shown"), [(-1, True), (60, False)])
def test_a_line_says_what_takes_long(monkeypatch, patience, shown):
    terminal, inside = os.openpty()
    with os.fdopen(inside, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        monkeypatch.setattr(module, "_began", time.monotonic())
        monkeypatch.setattr(module, "_PATIENCE_SECONDS", patience)
        with module.waiting("converting m.onnx"):
            time.sleep(0.1)
        text = written_on(terminal)
    os.close(terminal)
    assert (re.search(r"converting m.onnx \.\.\. \d+ s", text) is not None) is shown
    assert text.endswith("\r\x1b[K")


def test_no_line_outside_a_terminal(monkeypatch, capfd):
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", -1)
    with module.waiting("converting m.onnx"):
        time.sleep(0.1)
    assert capfd.readouterr().err == ""


def test_a_command_that_takes_long_says_so(tmp_path):
    """The model is small; the patience is less."""
    import onnx

    text = '<ir_version: 8, opset_import: ["" : 18, "npu" : 1]> g (float[2, 4, 3] x) => (y)'
    onnx.save(onnx.parser.parse_model(f"{text} {{y = npu.NPUGroupedBiasAddGrad (x)}}"), tmp_path / "m.onnx")
    start = "import sys; from opforge.codegen.cli import main; from opforge.frontend import progress"
    terminal, inside = os.openpty()
    for command, signs in (
        (["convert", "m.onnx", "-o", "o.onnx"], ("reading m.onnx ... ", "converting m.onnx ... ")),
        (["check", "o.onnx"], ("reading o.onnx ... ", "checking o.onnx ... ")),
    ):
        script = f"{start}; progress._PATIENCE_SECONDS = -1; sys.argv = {['opforge', *command]}; main()"
        arguments = [sys.executable, "-c", script]
        subprocess.run(arguments, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=inside, check=True)
        said = written_on(terminal)
        assert all(sign in said for sign in signs)
        assert said.endswith("\x1b[K")
    os.close(terminal)
    os.close(inside)


def test_copying_tells_how_much_is_done(tmp_path, monkeypatch):
    from opforge.frontend import files

    monkeypatch.setattr(files, "_STEP_BYTES", 4)
    (tmp_path / "a").write_bytes(b"0123456789")
    done = []
    with (tmp_path / "a").open("rb") as source, (tmp_path / "b").open("wb") as target:
        stream(source.fileno(), target.fileno(), done.append)
    assert done == [4, 8, 10]
    assert (tmp_path / "b").read_bytes() == b"0123456789"
