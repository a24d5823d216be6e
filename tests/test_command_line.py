"""Test common behavior of all commands: JSON output, colors only on terminals, documented exit codes."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import typer
from typer.testing import CliRunner

from opforge import frontend, twin
from opforge.cli.main import app
from opforge.cli.options import with_json_values
from opforge.codegen.errors import UserError
from opforge.codegen.generate import write_project
from opforge.codegen.new import new_project
from opforge.codegen.project import Project
from opforge.codegen.spec.loader import load_project

ROOT = Path(__file__).resolve().parent.parent
OPFORGE = str(Path(sys.executable).with_name("opforge"))
# Commands without a report: they print a schema, compiler flags or a folder.
WITHOUT_REPORT = {"schema", "flags", "new", "cc", "lsp"}


@pytest.fixture(autouse=True)
def default_colours(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Create a folder with a space and non-ASCII letters in its name."""
    return new_project("Clip", tmp_path_factory.mktemp("habits") / "meine Größe 算子", "elementwise")


def test_every_command_that_reports_has_json():
    commands = typer.main.get_group(app).commands
    with_json = {
        name for name, command in commands.items() if any("--json" in option.opts for option in command.params)
    }
    assert with_json == set(commands) - WITHOUT_REPORT


def test_generate_build_and_pack_answer_in_json(opforge, project):
    def answer(*arguments, code=0):
        result = opforge(*arguments, "--json", cwd=project)
        assert result.returncode == code, result.stderr
        return json.loads(result.stdout)

    stale = answer("generate", "--check", code=1)
    assert (stale["operators"], stale["unchanged"]) == (1, [])
    assert not (project / "build" / "gen" / "op_proto").exists()
    assert answer("generate")["written"] == stale["written"]
    again = answer("generate")
    assert (again["written"], again["removed"]) == ([], [])
    assert set(stale["written"]) == set(again["unchanged"]) == set(answer("generate", "--list-outputs")["outputs"])

    first = answer("build")
    assert (first["operators"], first["without_kernel"]) == (["Clip"], [])
    assert first["compiled"] > 2
    assert answer("build")["compiled"] == 0

    package = answer("pack")
    assert package["operators"] == ["Clip"]
    assert Path(package["package"]).is_file()


WITHOUT_PROCESSES = """
import sys
from opforge.cli.main import main

def refuse(event, _):
    if event in {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"}:
        raise RuntimeError(event)

sys.addaudithook(refuse)
main()
"""


@pytest.mark.parametrize(
    ("words", "code", "end"),
    [
        ("--help", 0, ""),
        ("convert --help", 0, ""),
        ("generate", 0, ""),
        ("generate --check", 0, ""),
        ("convert model.onnx", 2, "--output: got no value, expected one; `opforge convert -h` lists the arguments\n"),
        ("run model.onnx --oops", 2, "expected --outputs; `opforge run -h` lists the arguments\n"),
        ("run model.onnx", 1, "RuntimeError: os.fork\n"),
    ],
)
def test_only_commands_that_read_a_model_start_a_process(project, words, code, end):
    if words == "generate --check":
        write_project(Project(project), load_project(Project(project)))
    command = [sys.executable, "-c", WITHOUT_PROCESSES, *words.split()]
    result = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr[-len(end) :] if end else result.stderr) == (code, end)


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("lint --json kernel.h", "-"),
        ("lint --json r.json kernel.h", "r.json"),
        ("lint kernel.h --json other.h", "-"),
        ("verify --json p.run", "-"),
        ("verify p.run --json out", "out"),
        ("convert --json m.onnx -o y.onnx", "-"),
        ("convert m.onnx -o y.onnx --json out", "out"),
        ("doctor --json out", "out"),
        ("doctor --json --soc Ascend910B1", "-"),
        ("doctor --json", "-"),
    ],
)
def test_the_value_of_json(words, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("kernel.h", "other.h", "p.run", "m.onnx"):
        Path(name).touch()
    command, *rest = words.split()
    parameters = typer.main.get_command(app).commands[command].params
    found = with_json_values([command, *rest], parameters)
    assert found[found.index("--json") + 1] == value
    assert len(found) == len(rest) + 1 + (value not in words.split())


@pytest.mark.parametrize(
    ("words", "name", "argument"),
    [
        ("generate --json out.txt", "out.txt", "SPEC"),
        ("lint --json out", "out", "FILE"),
        ("verify --json out.txt p.run", "out.txt", "PKG"),
        ("convert --json model.onx -o y.onnx", "model.onx", "MODEL"),
    ],
)
def test_a_json_file_needs_its_suffix_or_an_equals_sign(words, name, argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, words.split())
    assert str(result.exception) == (
        f"--json: got '{name}', expected a name that ends in .json, or an existing {argument};"
        f" write '--json={name}' for a file with this name"
    )


def test_a_source_is_no_folder_of_coverage(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("v.asc").touch()
    result = CliRunner().invoke(app, ["coverage", ".", "--json", "v.asc"])
    assert str(result.exception).startswith(
        "--json: got 'v.asc', expected a name that ends in .json, or an existing DIR"
    )


def test_the_type_of_an_operator_after_json_is_the_argument():
    assert with_json_values(["profile", "--json", "Clip"], typer.main.get_command(app).commands["profile"].params) == [
        *("profile", "--json", "-", "Clip")
    ]


COLOUR = re.compile(rb"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}])
def test_a_terminal_gets_styles_and_no_colours_if_they_are_off(variables, tmp_path):
    command = f"{OPFORGE} profile GroupedBiasAddGrad --shape grad_y=2x3x8"
    main, end = pty.openpty()
    running = subprocess.Popen(
        command.split(), stdout=end, cwd=tmp_path, env=os.environ | {"TERM": "xterm-256color"} | variables
    )
    os.close(end)
    shown = b""
    try:
        while part := os.read(main, 65536):
            shown += part
    except OSError:  # the other end is closed
        pass
    os.close(main)
    assert running.wait() == 0
    assert b"estimate" in shown
    assert b"\x1b[" in shown
    assert not (variables and COLOUR.search(shown))


def test_a_pipe_gets_no_colours(opforge, tmp_path):
    result = opforge("profile", "GroupedBiasAddGrad", "--shape", "grad_y=2x3x8", cwd=tmp_path, TERM="xterm-256color")
    assert result.returncode == 0, result.stderr
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("text", ["docs/troubleshooting.md", "build.sh", "codegen/starters/project/build.sh"])
def test_exit_codes_are_documented(text):
    assert "0 ok, 1 a difference or a finding, 2 bad input, 3 a tool" in (ROOT / text).read_text()


def test_help_has_the_exit_codes(opforge, tmp_path):
    shown = " ".join(opforge("--help", cwd=tmp_path).stdout.split())
    assert "0 ok, 1 a difference or a finding, 2 bad input, 3 a tool or toolkit is missing" in shown


def test_help_has_a_short_option():
    for command in ([], *([name] for name in typer.main.get_group(app).commands)):
        short, long = (CliRunner().invoke(app, [*command, option]) for option in ("-h", "--help"))
        assert (short.exit_code, short.output) == (0, long.output), command
        assert "-h, --help" in short.output, command


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("build -j x", "--jobs: got 'x', expected a whole number; `opforge build -h` lists the arguments"),
        ("convert m.onnx -o y.onnx --opset 1.5", "--opset: got '1.5', expected a whole number; "),
        ("coverage . --timeout x", "--timeout: got 'x', expected a number; "),
        ("--oops", "opforge: got the unknown option '--oops', expected one of its options; `opforge -h` lists "),
        ("convert m.onnx --opst 3", "opforge convert: got the unknown option '--opst', expected --opset; "),
        ("frob", "opforge: got 'frob', expected a command: new, generate, "),
        ("verify a b", "opforge verify: got 'b' after its arguments, expected no more; "),
        ("convert", "MODEL: got no value, expected one; `opforge convert -h` lists the arguments"),
        ("profile Op --shape", "--shape: got no value, expected one; `opforge profile -h` lists the arguments"),
        ("build --lint=x", "opforge build: got the unknown option '--lint', expected one of its options; "),
        ("generate --check=x", "--check: got a value, expected none; `opforge generate -h` lists the arguments"),
    ],
)
def test_wrong_arguments_are_one_message(words, message):
    result = CliRunner().invoke(app, words.split())
    assert isinstance(result.exception, UserError)
    assert str(result.exception).startswith(message)


def test_help_has_whole_summaries(opforge, tmp_path):
    commands = opforge("--help", cwd=tmp_path).stdout.partition("Commands:")[2]
    assert "convert" in commands
    assert "..." not in commands


@pytest.mark.parametrize(
    ("command", "usage"),
    [("lint", "[FILE]..."), ("import", "SOURCE..."), ("new", "NAME [DIR]"), ("check", "MODEL")],
)
def test_usage_shows_arguments_that_may_be_repeated(opforge, command, usage, tmp_path):
    shown = opforge(command, "--help", cwd=tmp_path).stdout.splitlines()[0]
    assert shown == f"Usage: opforge {command} [OPTIONS] {usage}"


def test_version(opforge, tmp_path):
    shown = opforge("--version", cwd=tmp_path).stdout
    assert re.fullmatch(r"opforge \d+\.\d+\.\d+( \(commit [0-9a-f]{12}\))?\n", shown)


@pytest.mark.parametrize(
    ("words", "key"),
    [(["check", "m.onnx"], "findings"), (["convert", "m.onnx", "-o", "o.onnx"], "mapped"), (["run", "m.onnx"], "step")],
)
def test_json_goes_to_stdout_alone(opforge, words, key, tmp_path):
    node = onnx.helper.make_node("NPUGroupedBiasAddGrad", ["x"], ["y"], "node", domain="npu")
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3, 4])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 4])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("npu", 1)]
    graph = onnx.helper.make_graph([node], "graph", [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    result = opforge(*words, "--json", "-", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert key in json.loads(result.stdout)
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("rows", [10**10, 2**62, 10**20])
def test_shapes_beyond_memory_are_rejected(opforge, rows, tmp_path):
    result = opforge("profile", "GroupedBiasAddGrad", "--shape", f"grad_y={rows}x8,group_idx=3", cwd=tmp_path)
    assert result.returncode == 2
    assert re.fullmatch(
        r"--shape: got inputs of [\d,]+ bytes, expected at most [\d,]+ on this machine; use smaller sizes\n",
        result.stderr,
    )


@pytest.mark.parametrize("package", ["codegen", "frontend", "package", "twin"])
def test_types_are_published(package):
    assert (ROOT / package / "py.typed").is_file()


@pytest.mark.parametrize("package", [frontend, twin])
def test_public_names_are_documented(package):
    """Functions: every parameter, and raised errors. Classes: their attributes."""
    for name in package.__all__:
        published = getattr(package, name)
        text = inspect.getdoc(published) or ""
        assert text, name
        words = []
        if inspect.isfunction(published):
            words = [*inspect.signature(published).parameters]
            assert "Raises:" in text, name
        elif dataclasses.is_dataclass(published):
            words = [field.name for field in dataclasses.fields(published)]
        assert [word for word in words if not re.search(rf"^    {word}: ", text, re.MULTILINE)] == [], name
        members = [vars(published)[word] for word in vars(published) if inspect.isclass(published) and word[0] != "_"]
        assert all(inspect.getdoc(member) for member in members if isinstance(member, property)), name
