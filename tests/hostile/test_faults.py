"""Test faults of the machine: no space, no permission, interrupts, wrong clocks (docs/explanation/faults.md)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import onnx.parser
import pytest

from opforge.codegen.new import new_project, write_texts

OPFORGE = str(Path(sys.executable).with_name("opforge"))
HANGS = 1500  # seconds after which a command is a hang
MODEL = """<ir_version: 8, opset_import: ["" : 18, "npu" : 1]>
g (float[2, 4, 3] x) => (y) {y = npu.NPUGroupedBiasAddGrad (x)}"""
# Mounts `$1` with the options `$2`, runs the command, lists the files, mounts with more space and runs it again.
MOUNTED = """
set -u; place=$1; mount -t tmpfs -o "$2" tmpfs "$place"; shift 2
"$@"; echo "exit $?"; find "$place" ! -type d ! -name fill; echo "end"
mount -o remount,rw,size=64m "$place"; "$@"; echo "exit $?"
"""
# Sends SIGINT to the processes of this command at one of its file operations, which are the same in each run.
INTERRUPTED = """
import os, signal, sys
count, at = 0, int(sys.argv.pop(1))
def hook(event, _arguments):
    global count
    if event in {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.fork", "subprocess.Popen"}:
        count += 1
        if count == at:
            os.killpg(0, signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
from opforge.cli.main import main
sys.addaudithook(hook)
main()
"""


@pytest.fixture
def project(tmp_path):
    folder = new_project("Clip", tmp_path / "clip", "elementwise")
    onnx.save(onnx.parser.parse_model(MODEL), folder / "m.onnx")
    return folder


def namespace():
    """Return the command that starts a program which may mount folders."""
    command = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    if not shutil.which("unshare") or subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs unshare --mount")
    return command


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def temporary(folder):
    return [path for path in folder.rglob("*") if path.name.startswith((".opforge-tmp-", "build-", "tmp"))]


# Command, with {} for the mounted folder -> its size, variables.
FULL = {
    "generate --output {}/out": ("64k", {}),
    "convert m.onnx -o {}/o.onnx --html {}/r.html": ("4k", {}),
    "pack --no-build --output {}/out": ("32k", {}),
    "pack --no-build": ("100k", {"TMPDIR": "{}"}),
    "build": ("64k", {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("command", FULL)
def test_a_full_disk_is_one_message_and_space_repairs_it(project, tmp_path, command):
    size, variables = FULL[command]
    # ccache shares objects between projects if their build folders have the same name.
    place = project / "build" if command == "build" else tmp_path / "small"
    place.mkdir()
    words = [OPFORGE, *command.format(*[place] * 2).split()]
    environment = os.environ | {name: value.format(place) for name, value in variables.items()}
    done = subprocess.run(
        [*namespace(), "bash", "-c", MOUNTED, "sh", str(place), f"size={size}", *words],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    first, _, second = done.stdout.partition("end\n")
    assert "exit 2" in first, done.stderr
    assert "exit 0" in second, done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    left = [line for line in first.splitlines() if line.startswith(str(place))]
    assert [path for path in left if not path.endswith((".inc", ".lock", ".opforge-project"))] == []


# Command -> variables; {} is the folder that cannot be written.
READ_ONLY = {
    "generate --output {}/out": {},
    "convert m.onnx -o {}/o.onnx": {},
    "pack --no-build --output {}": {},
    "build": {"OPFORGE_BUILD_DIR": "{}/out"},
    "flags": {"OPFORGE_BUILD_DIR": "{}/out"},
}


@pytest.mark.parametrize("command", READ_ONLY)
def test_a_read_only_folder_is_one_message(project, tmp_path, command):
    place = tmp_path / "fixed"
    place.mkdir()
    words = [OPFORGE, *command.format(place).split()]
    environment = os.environ | {name: value.format(place) for name, value in READ_ONLY[command].items()}
    done = subprocess.run(
        [*namespace(), "bash", "-c", 'mount -t tmpfs -o ro tmpfs "$1"; shift; "$@"', "sh", str(place), *words],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "Read-only file system" in done.stderr


def test_a_read_only_cache_costs_only_time(tmp_path):
    """The library of the CPU twin is not cached, and the one in build/ is used."""
    script = (
        "from pathlib import Path; import sys\nfrom opforge.twin.compiler.runtime_library import _keep\n"
        "made = Path(sys.argv[1]); made.write_bytes(b'x'); _keep(made, ['a'])"
    )
    words = [sys.executable, "-c", script, str(tmp_path / "made.so")]
    (tmp_path / "cache").mkdir()
    done = subprocess.run(
        [*namespace(), "bash", "-c", 'mount -t tmpfs -o ro tmpfs "$XDG_CACHE_HOME"; "$@"', "sh", *words],
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", ["generate", "build", "pack --no-build", "convert m.onnx -o o.onnx"])
def test_a_user_without_rights_gets_one_message(project, command):
    """Without its capabilities, root is such a user."""
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    if drop and not shutil.which("setpriv"):
        pytest.skip("needs setpriv")
    project.chmod(0o555)
    done = subprocess.run(
        [*drop, OPFORGE, *command.split()], cwd=project, capture_output=True, text=True, check=False, timeout=HANGS
    )
    project.chmod(0o755)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "Permission denied" in done.stderr
    assert not temporary(project)


def interrupted(project, command, at):
    """Return the exit code and the output of a command that gets SIGINT at its `at`-th file operation."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(at), *command.split()],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
        start_new_session=True,
    )
    return done.returncode, done.stderr


# Stage -> the file operations at which it is interrupted.
STAGES = {
    "generate": (1, 40, 200, 400, 600, 640, 660, 680),
    "convert m.onnx -o o.onnx --html r.html": (1, 40, 200, 400, 600, 700, 800, 900),
    "pack --no-build": (1, 200, 500, 600, 700, 800, 900),
    "build": (1, 200, 500, 600, 700, 760, 800, 850, 900, 1000),
}


@pytest.mark.all
@pytest.mark.parametrize("stage", STAGES)
def test_interrupted_command_leaves_no_files(project, stage):
    before = files(project)
    codes = []
    for at in STAGES[stage]:
        code, output = interrupted(project, stage, at)
        codes.append(code)
        assert (code, output) in {(130, "interrupted by SIGINT\n"), (0, "")}, f"operation {at}: {output}"
        assert temporary(project) == []
        if code and stage.startswith("convert"):
            assert files(project).keys() - before.keys() <= {"r.html"}
    assert codes.count(130) >= 3
    assert interrupted(project, stage, 0)[0] == 0
    for path, content in before.items():
        assert (project / path).read_bytes() == content
    made = {path: content for path, content in files(project).items() if path.startswith(("build/gen", "o.onnx"))}
    for path in ("build", "o.onnx", "r.html"):
        shutil.rmtree(project / path) if (project / path).is_dir() else (project / path).unlink(missing_ok=True)
    assert interrupted(project, stage, 0)[0] == 0
    assert {path: files(project)[path] for path in made} == made


@pytest.mark.parametrize("at", [1, 300])
def test_an_interrupt_of_generate_is_one_message(project, at):
    assert interrupted(project, "generate", at) == (130, "interrupted by SIGINT\n")
    assert temporary(project) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("place", "name", "left"), [(tempfile, "mkdtemp", set()), (tempfile.TemporaryDirectory, "cleanup", {"made"})]
)
def test_a_signal_beside_a_temporary_folder_leaves_no_folder(monkeypatch, tmp_path, place, name, left, number):
    called = getattr(place, name)

    def interrupted_call(*arguments, **options):
        if left:
            signal.raise_signal(number)
        found = called(*arguments, **options)
        signal.raise_signal(number)
        return found

    def end(_number, _frame):
        raise KeyboardInterrupt

    monkeypatch.setattr(place, name, interrupted_call)
    before = signal.signal(number, end)
    try:
        with pytest.raises(KeyboardInterrupt):
            write_texts({"build.sh": "", "a.txt": ""}, tmp_path / "made")
    finally:
        assert signal.signal(number, before) is end
    assert {path.name for path in tmp_path.iterdir()} == left


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, pytest.param(64, marks=pytest.mark.all)])
def test_parallel_builds_of_a_project_compile_once(project, count):
    builds = [
        subprocess.Popen([OPFORGE, "build"], cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    ends = [(*process.communicate(timeout=HANGS), process.returncode) for process in builds]
    assert [code for _, _, code in ends] == [0] * count, ends
    compiled = [out.splitlines()[-1].split(":")[0] for out, _, _ in ends]
    assert sorted(compiled) == ["1 operator, 0 object files compiled"] * (count - 1) + [
        "1 operator, 6 object files compiled"
    ]
    assert temporary(project) == []


@pytest.mark.parametrize("year", [1902, 1970, 2100])
def test_file_times_do_not_change_the_package(opforge, project, tmp_path, year):
    stamp = int(time.mktime((year, 1, 2, 0, 0, 0, 0, 0, 0)))
    assert opforge("pack", "--no-build", "--output", tmp_path / "now", cwd=project).returncode == 0
    for path in project.rglob("*"):
        os.utime(path, (stamp, stamp))
    done = opforge("pack", "--no-build", "--output", tmp_path / "then", cwd=project)
    assert (done.returncode, done.stderr) == (0, "")
    assert files(tmp_path / "then") == files(tmp_path / "now")


@pytest.mark.parametrize("name", ["numpy.py", "numpy/__init__.py", "yaml.py", "difflib.py"])
def test_a_module_on_pythonpath_that_replaces_another_is_named(opforge, project, tmp_path, name):
    path = tmp_path / "mine" / name
    path.parent.mkdir(parents=True)
    path.write_text("raise RuntimeError('not for you')\n", encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "mine")}
    command = [OPFORGE, "convert", "m.onnx", "-o", "o.onnx"] if "numpy" in name else [OPFORGE, "generate"]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    first, *_ = done.stderr.splitlines()
    assert first.startswith(f"PYTHONPATH: got {path}, which replaces a module of the environment of opforge")
    assert "Traceback" not in done.stderr
    assert not (project / "build").exists()
    assert not (project / "o.onnx").exists()


def test_other_modules_on_pythonpath_are_accepted(project, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "tbe.py").touch()
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}/absent::{tmp_path}/mine"}
    done = subprocess.run(
        [OPFORGE, "generate"], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
