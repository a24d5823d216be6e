"""Test standard streams that are closed, full or without a reader: one message, exit code 2, no lost or misplaced
output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import typer

from opforge.cli.main import app
from opforge.codegen.new import new_project

OPFORGE = str(Path(sys.executable).with_name("opforge"))
COMMANDS = sorted(typer.main.get_group(app).commands)
CLOSED, FULL = "it is closed, expected an open one", "cannot be written: No space left on device"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Create a project with a model and built operators."""
    project = new_project("Clip", tmp_path_factory.mktemp("streams") / "project", "elementwise")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    opsets = [onnx.helper.make_opsetid("", 18)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), project / "m.onnx")
    return project


def run(command, streams, cwd, **variables):
    """Start a command with streams of the shell; return exit code, stdout and stderr, if they are captured."""
    done = subprocess.run(
        ["bash", "-c", f"'{OPFORGE}' {command} {streams}"],
        cwd=cwd,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    assert "Exception ignored" not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", ["", "--help", "--version", *(f"{name} --help" for name in COMMANDS)])
@pytest.mark.parametrize(
    ("streams", "message"),
    [
        (">&-", f"standard output: {CLOSED}"),
        ("2>&-", f"standard error: {CLOSED}"),
        (">/dev/full", f"standard output: {FULL}"),
    ],
)
def test_every_command(tmp_path, command, streams, message):
    code, out, err = run(command, streams, tmp_path)
    if command == "" and streams == ">/dev/full":
        message = ""  # without a command, the help may go to stderr
    assert code == 2
    assert message in (out if streams == "2>&-" else err)
    assert (out + err).count("\n") <= 1 or not message


WORK = {
    "schema": "schema",
    "list": "generate --list-outputs",
    "generate": "generate --output made",
    "json": "generate --output made2 --json",
    "check": "check m.onnx",
    "check, json": "check m.onnx --json -",
    "convert": "convert m.onnx -o o.onnx",
    "convert, json": "convert m.onnx -o o2.onnx --json -",
    "run": "run m.onnx",
    "new": "new Bar made3",
    "flags": "flags",
    "atc": "atc m.onnx",
}


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", WORK.values(), ids=WORK)
def test_a_full_output_is_one_message(opforge, folder, command, unbuffered):
    for path in folder.glob("made*"):
        subprocess.run(["rm", "-r", str(path)], check=True)
    if unbuffered:
        code, _, err = run(command, ">/dev/full", folder, PYTHONUNBUFFERED=unbuffered)
    else:
        done = opforge(*command.split(), cwd=folder, stdout="/dev/full")
        code, err = done.returncode, done.stderr
    assert code == 2
    assert err.count(f"standard output: {FULL}") == 1


@pytest.mark.parametrize("command", WORK.values(), ids=WORK)
def test_a_pipe_without_a_reader_is_one_message(opforge, folder, command):
    for path in folder.glob("made*"):
        subprocess.run(["rm", "-r", str(path)], check=True)
    read, write = os.pipe()
    os.close(read)
    done = opforge(*command.split(), cwd=folder, stdout=write)
    os.close(write)
    assert done.returncode == 2
    assert done.stderr.count("standard output: cannot be written: Broken pipe") == 1


def test_a_message_names_the_files_that_were_written(opforge, folder):
    (folder / "w.onnx").unlink(missing_ok=True)
    command = ["convert", "m.onnx", "-o", "w.onnx", "--json", "w.json"]
    done = opforge(*command, cwd=folder, stdout="/dev/full")
    assert done.returncode == 2
    assert done.stderr.endswith("; written completely before: w.onnx, w.json\n")
    onnx.checker.check_model(onnx.load(folder / "w.onnx"))


@pytest.mark.parametrize("streams", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_no_file_gets_the_number_of_a_closed_stream(folder, streams):
    """The command ends before any other operation."""
    (folder / "n.onnx").unlink(missing_ok=True)
    code, out, err = run("convert m.onnx -o n.onnx", streams, folder)
    assert code == 2
    assert not (folder / "n.onnx").exists()
    assert (out + err).count("\n") == (0 if ">&- 2>&-" in streams else 1)


def test_closed_input_is_accepted(folder):
    code, out, err = run("convert m.onnx -o i.onnx", "<&-", folder)
    assert (code, err) == (0, "")
    assert "1 before, 1 after" in out
    assert (folder / "i.onnx").read_bytes() == (folder / "m.onnx").read_bytes()


def test_message_goes_to_stdout_if_stderr_is_full(opforge, folder):
    done = opforge("check", "absent.onnx", cwd=folder, stderr="/dev/full")
    assert (done.returncode, done.stdout.count("\n")) == (2, 1)
    assert "absent.onnx: cannot read the model" in done.stdout
    done = opforge("check", "absent.onnx", cwd=folder, stdout="/dev/full", stderr="/dev/full")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_names_that_the_encoding_does_not_have_are_escaped(tmp_path, encoding):
    code, _, err = run("check 算子.onnx", "", tmp_path, PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert code == 2
    assert ("算子.onnx" if encoding == "utf-8" else r"\u7b97\u5b50.onnx") in err


@pytest.mark.parametrize("command", ["generate --output made4", "check m.onnx", "run m.onnx", "lint op_kernel/clip.h"])
def test_a_process_without_memory_is_one_message(folder, command):
    """The limit is reached while modules are imported."""
    done = subprocess.run(
        ["bash", "-c", f"ulimit -d 13000; '{OPFORGE}' {command}"],
        cwd=folder,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2
    assert "expected more memory; raise the limit of the process" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_command_that_is_ended_leaves_no_temporary_file(folder, tmp_path, number):
    """A pipe at the path of makeself shows that the package is half complete."""
    tools, work, ready = tmp_path / "tools", tmp_path / "work", tmp_path / "told"
    tools.mkdir()
    work.mkdir()
    os.mkfifo(ready)
    (tools / "makeself").write_text(f"#!/bin/sh\necho > {ready}\nexec sleep 300\n", encoding="utf-8")
    (tools / "makeself").chmod(0o755)
    # A shell in the background, or nohup, makes its children ignore some of these signals.
    command = ["env", "--default-signal", OPFORGE, "pack", "--no-build", "--output", str(tmp_path / "out")]
    variables = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "TMPDIR": str(work)}
    with subprocess.Popen(command, cwd=folder, env=variables, stderr=subprocess.PIPE, text=True) as process:
        ready.read_bytes()
        assert list(work.iterdir())
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Traceback" not in err
    assert list(work.iterdir()) == []
