"""Test the progress display of long operations."""

import os
import re
import select
import subprocess
import sys
import time

import pytest

from opforge.codegen import progress as module
from opforge.codegen.files import stream
from opforge.codegen.progress import progress
from opforge.frontend.limits import in_child, limits_for


def written_on(terminal):
    """Return the text that a terminal received; it arrives shortly after it was written."""
    text = b""
    while select.select([terminal], [], [], 0.5)[0]:
        text += os.read(terminal, 1000)
    return text.decode()


@pytest.fixture
def terminal_text(monkeypatch):
    """Run a function with a terminal as standard error; return the text on the terminal."""

    def run(work, patience=-1):
        terminal, inside = os.openpty()
        with os.fdopen(inside, "w") as stderr:
            monkeypatch.setattr(sys, "stderr", stderr)
            monkeypatch.setattr(module, "_began", time.monotonic())
            monkeypatch.setattr(module, "_PATIENCE_SECONDS", patience)
            monkeypatch.setattr(module, "_FRAME_SECONDS", 0.03)
            work()
            text = written_on(terminal)
        os.close(terminal)
        return text

    return run


@pytest.mark.parametrize(("patience", "shown"), [(-1, True), (60, False)])
def test_progress_bar_shows_percentage(terminal_text, patience, shown):
    def work():
        with progress("weights.bin", 200) as advance:
            advance(50)
            time.sleep(0.2)

    text = terminal_text(work, patience)
    assert (re.search(r"weights.bin \[#{6}\.{18}\]  25 % \d+ s", text) is not None) is shown
    assert text.endswith("\r\x1b[K")


def test_progress_moves_if_the_total_is_unknown(terminal_text):
    def work():
        with progress("reading"):
            time.sleep(0.2)

    assert len(set(re.findall(r"reading \[\.*#\.*\]", terminal_text(work)))) > 2


def test_stages_show_in_the_line_around_them_and_from_other_processes(terminal_text):
    def child():
        with progress("before", 4) as advance:
            advance(2)
            time.sleep(0.2)
        return b""

    def work():
        with progress("verifying m.onnx"):
            in_child(child, limits_for(0))
            time.sleep(0.1)

    text = terminal_text(work)
    assert re.search(r"verifying m.onnx: before \[#{12}\.{12}\] 2 of 4 ", text)
    assert re.search(r"verifying m.onnx \[\.*#\.*\] \d+ s[^#]*$", text)


def test_no_line_outside_a_terminal(monkeypatch, capfd):
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", -1)
    with progress("converting m.onnx", 5) as advance:
        advance(1)
        time.sleep(0.1)
    assert capfd.readouterr().err == ""


def test_slow_command_shows_progress(tmp_path):
    """The model is small, so the delay before the display is set to a short time."""
    import onnx

    text = '<ir_version: 8, opset_import: ["" : 18, "npu" : 1]> g (float[2, 4, 3] x) => (y)'
    onnx.save(onnx.parser.parse_model(f"{text} {{y = npu.NPUGroupedBiasAddGrad (x)}}"), tmp_path / "m.onnx")
    start = """
import sys, time
from opforge.cli.main import main
from opforge.codegen import progress
progress._PATIENCE_SECONDS, progress._FRAME_SECONDS = -1, 0.02
write = progress._Sign.write
progress._Sign.write = lambda *values: write(*values) or time.sleep(0.05)
"""
    terminal, inside = os.openpty()
    for command, signs in (
        (
            ["convert", "m.onnx", "-o", "o.onnx", "--verify"],
            (
                "reading m.onnx [",
                "converting m.onnx: looking for operators [",
                "verifying m.onnx: before [",
                "writing o.onnx [",
            ),
        ),
        (["check", "o.onnx"], ("reading o.onnx [", "checking o.onnx [")),
    ):
        script = f"{start}sys.argv = {['opforge', *command]}; main()"
        arguments = [sys.executable, "-c", script]
        process = subprocess.Popen(arguments, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=inside)
        terminal_text = ""
        while process.poll() is None:
            # A terminal without a reader blocks the programs that write to it.
            terminal_text += written_on(terminal)
        terminal_text += written_on(terminal)
        assert process.returncode == 0
        assert all(sign in terminal_text for sign in signs)
        assert terminal_text.endswith("\x1b[K")
    os.close(terminal)
    os.close(inside)


def test_copying_tells_how_much_is_done(tmp_path, monkeypatch):
    from opforge.codegen import files

    monkeypatch.setattr(files, "_STEP_BYTES", 4)
    (tmp_path / "a").write_bytes(b"0123456789")
    done = []
    with (tmp_path / "a").open("rb") as source, (tmp_path / "b").open("wb") as target:
        stream(source.fileno(), target.fileno(), done.append)
    assert done == [4, 8, 10]
    assert (tmp_path / "b").read_bytes() == b"0123456789"
