"""Test hostile arguments of all commands with one table: exit code 2 or 3, a message, no traceback, no new file."""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path

import onnx
import pytest
import typer
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.errors import UserError
from opforge.codegen.new import new_project

COMMANDS = typer.main.get_group(app).commands
# Arguments with which each command reads its options.
NEEDED = {
    "new": ["Bar"],
    "convert": ["m.onnx", "-o", "o.onnx"],
    "check": ["m.onnx"],
    "atc": ["m.onnx"],
    "profile": ["Clip"],
    "run": ["m.onnx"],
    "verify": ["p.run"],
    "import": ["m.onnx"],
}
PATHS = ("Path", "Path | None", "list[Path] | None")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    project = new_project("Clip", tmp_path_factory.mktemp("cli") / "project", "elementwise")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    opsets = [onnx.helper.make_opsetid("", 18)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), project / "m.onnx")
    os.mkfifo(project / "pipe")
    (project / "folder").mkdir()
    (project / "bytes").write_bytes(bytes(range(256)) * 16)
    (project / "empty").write_bytes(b"")
    return project


def listing(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if "build" not in path.parts)


@pytest.fixture
def refused(opforge, folder):
    """Run a command that must be rejected; return its message."""

    def run(arguments):
        before = listing(folder)
        done = opforge(*arguments, cwd=folder)
        assert done.returncode in {2, 3}, done.stdout + done.stderr
        assert done.stderr.strip()
        assert done.stderr.replace("\n", "").isprintable()
        assert listing(folder) == before
        return done.stderr

    return run


def path_parameters():
    """Return every path parameter of a command, as (command, option or None for an argument)."""
    found = []
    for info in [info for group in app.registered_groups for info in group.typer_instance.registered_commands]:
        signature = inspect.signature(info.callback)
        command = info.name or info.callback.__name__.replace("_", "-")
        parameters = {parameter.name: parameter for parameter in COMMANDS[command].params}
        for name, parameter in signature.parameters.items():
            if getattr(parameter.annotation, "__args__", [""])[0] in PATHS or any(
                f"Annotated[{kind}," in " ".join(str(parameter.annotation).split()).replace("[ ", "[") for kind in PATHS
            ):
                option = parameters[name].opts[-1]
                found.append((command, option if option.startswith("-") else None))
    return found


def with_path(command, option, path):
    needed = NEEDED.get(command, [])
    if option == "--output":
        return [command, *needed[:1], option, path]
    if option is not None:
        return [command, *needed, option, path]
    return [command, *(needed if command == "new" else []), path, *(needed[1:] if command != "new" else [])]


def test_every_path_is_found():
    assert {command for command, _ in path_parameters()} == {
        "new", "generate", "lint", "build", "pack", "convert", "check", "atc", "profile", "run", "verify", "doctor",
        "cc", "coverage", "import", "ort-library", "tune",
    }  # fmt: skip
    assert len(path_parameters()) > 20


@pytest.mark.parametrize(("command", "option"), path_parameters())
def test_an_empty_path_is_refused(command, option):
    result = CliRunner().invoke(app, with_path(command, option, ""))
    assert isinstance(result.exception, UserError)
    assert "got an empty path, expected the name of a file or folder" in str(result.exception)


@pytest.mark.parametrize(("command", "option"), [pair for pair in path_parameters() if pair[1] != "--json"])
def test_dash_is_not_accepted_as_a_path(command, option):
    result = CliRunner().invoke(app, with_path(command, option, "-"))
    assert isinstance(result.exception, UserError)
    assert "got '-', expected a path; write './-' for a" in str(result.exception)


def test_a_file_may_have_the_name_of_a_stream(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for words in (["--json", "./-"], ["--json=./-"]):
        result = CliRunner().invoke(app, ["check", "m.onnx", *words])
        assert (result.exit_code, '"findings"' in result.stdout) == (0, False)
        assert "findings" in json.loads(Path("./-").read_text(encoding="utf-8"))
        Path("./-").unlink()
    assert json.loads(CliRunner().invoke(app, ["check", "m.onnx", "--json", "-"]).stdout)


FILES = [
    "absent",
    "pipe",
    "folder",
    "/dev/zero",
    "bytes",
    "empty",
    "x" * 300,
    "x/" * 3000,
    "a\nb",
    "\x1b[31m",
    "\udcff",
]
READERS = [["convert", "{}", "-o", "o.onnx"], ["check", "{}"], ["run", "{}"], ["generate", "{}"], ["verify", "{}"]]
READERS += [["run", "m.onnx", "--inputs", "{}"], ["profile", "Clip", "--inputs", "{}"], ["atc", "{}"]]


@pytest.mark.parametrize("file", FILES, ids=ascii)
@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_paths_that_are_not_files_are_rejected(refused, words, file):
    if file == "empty" and words[:2] == ["generate", "{}"]:
        assert "got an empty file" in refused(["generate", "empty"])
        return
    refused([word.replace("{}", file) for word in words])


ARGUMENTS = [
    ["nothing"],
    [""],
    ["--nothing"],
    ["generate", "--op-suffix", "custom"],
    ["generate", "--op-suffix", "../X"],
    ["new", ""],
    ["new", "../Bar"],
    ["new", "Bar\n"],
    ["new", "B" * 5000],
    ["new", "Bar", "folder"],
    ["new", "Bar", "absent/bar"],
    ["new", "Bar", "--starter", "\x1b[31m"],
    ["build", "--soc", ""],
    ["build", "--soc", "\x1b[31m"],
    ["build", "--ops", "Absent"],
    ["build", "-j", "-1"],
    ["pack", "--vendor-name", "../x", "--no-build"],
    ["pack", "--product", "ascend1", "--no-build"],
    ["pack", "--no-build", "--cann", "folder"],
    ["convert", "m.onnx", "-o", "m.onnx"],
    ["convert", "m.onnx", "-o", "pipe"],
    ["convert", "m.onnx", "-o", "/dev/null"],
    ["convert", "m.onnx", "-o", "folder"],
    ["convert", "m.onnx", "-o", "o.onnx", "--json", "o.onnx"],
    ["convert", "m.onnx", "-o", "o.onnx", "--html", "m.onnx"],
    ["convert", "m.onnx", "-o", "o.onnx", "--opset", "99"],
    ["convert", "m.onnx", "-o", "o.onnx", "--domain", "\x1b"],
    ["run", "m.onnx", "--soc", "Ascend1"],
    ["profile", "\x1b[31m"],
    ["profile", "Clip", "--shape", "x="],
    ["profile", "Clip", "--shape", "x=4", "--attr", "alpha"],
    ["lint", "absent.h"],
    ["lint", "folder"],
    ["lint", "bytes"],
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=ascii)
def test_arguments_are_refused(refused, arguments):
    refused(arguments)


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\nb mapped", "\u202egnp", "\x9b2J"])
@pytest.mark.parametrize(
    ("command", "code"),
    [(["convert", "-o", "o.onnx"], 0), (["run"], 0), (["check"], {0, 1})],
    ids=str,
)
def test_names_in_models_are_escaped(opforge, tmp_path, name, command, code):
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3, 4])
    y = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 4])
    node = onnx.helper.make_node("NPUGroupedBiasAddGrad", ["x"], [name], name, domain="npu")
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("npu", 1)]
    graph = onnx.helper.make_graph([node], name, [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    done = opforge(command[0], "m.onnx", *command[1:], cwd=tmp_path)
    assert done.returncode in ({code} if isinstance(code, int) else code), done.stdout + done.stderr
    text = done.stdout + done.stderr
    assert text.replace("\n", "").isprintable()
    assert "\nb mapped" not in text
