"""Test hostile packages, folders and signals for the installer of a .run file."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from opforge.codegen.project import Project
from opforge.package.manifest import lists
from opforge.package.pack import SCRIPTS, pack

ROOT = Path(__file__).resolve().parents[2]
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u061c]")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return pack(out=tmp_path_factory.mktemp("package"), project=Project(ROOT), ops=["GroupedBiasAddGrad"])


@pytest.fixture
def target(tmp_path):
    return tmp_path / "opp"


@pytest.fixture
def temporary(tmp_path):
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


@pytest.fixture
def run(temporary):
    def call(file, *options, **environment):
        clean = {"PATH": "/usr/bin:/bin", "TMPDIR": str(temporary)}
        result = subprocess.run(
            ["sh", str(file), *map(str, options)],
            env=clean | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=120,
        )
        result.stdout, result.stderr = (
            text.decode("utf-8", "surrogateescape") for text in (result.stdout, result.stderr)
        )
        assert list(temporary.iterdir()) == [], "the package left files behind"
        assert not CONTROLS.search(result.stdout + result.stderr)
        return result

    return call


def payload_start(data):
    lines = int(re.search(rb"header_lines=(\d+)", data)[1])
    return len(data) - len(data.split(b"\n", lines)[lines])


def with_payload(package, out, payload):
    data = package.read_bytes()
    head = data[: payload_start(data)]
    head = re.sub(rb"payload_bytes=\d+", b"payload_bytes=%d" % len(payload), head)
    head = re.sub(rb"payload_sha256=\w+", b"payload_sha256=" + hashlib.sha256(payload).hexdigest().encode(), head)
    out.write_bytes(head + payload)
    return out


def flipped(data):
    data = bytearray(data)
    data[(payload_start(data) + len(data)) // 2] ^= 1
    return bytes(data)


def other_sum(data):
    return re.sub(rb"payload_sha256=\w+", b"payload_sha256=" + b"0" * 64, data)


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-1], lambda data: data[: payload_start(data)], lambda data: data + b"\0", flipped, other_sum],
    ids=["truncated", "no payload", "longer", "flipped bit", "wrong checksum"],
)
@pytest.mark.parametrize("option", ["--verify", "--list", "--extract=x", "--install-path=x"])
def test_damaged_payload_is_one_message_and_exit_code_2(package, run, tmp_path, damage, option):
    (tmp_path / "x.run").write_bytes(damage(package.read_bytes()))
    result = run(tmp_path / "x.run", option)
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert "x.run: the package is damaged: got " in result.stderr
    assert result.stderr.endswith("; get it again\n")


@pytest.mark.parametrize("payload", [b"", b"no gzip", b"\x1f\x8b\x08\0damaged"])
def test_payload_without_an_archive(package, run, tmp_path, payload):
    result = run(with_payload(package, tmp_path / "x.run", payload), "--verify")
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)
    assert "the payload is no archive" in result.stderr


def test_name_of_the_file_cannot_control_the_terminal(package, run, tmp_path):
    path = tmp_path / "a\x1b[2J\nfiles match SHA256SUMS\u202e.run"
    path.write_bytes(package.read_bytes()[:-1])
    result = run(path, "--verify")
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)


HOSTILE_NAMES = [
    "a\n73 files match SHA256SUMS",
    "\x1b[2Jx",
    "a\u202eb",
    "a\u2066",
    "\x9b2J",
    "a\rb",
    "\u200b",
]


def test_names_in_an_installed_folder(package, run, target):
    place = f"--install-path={target}"
    assert run(package, place).returncode == 0
    vendor = target / "vendors/opforge"
    calm = run(package, "--verify", place).stdout
    for name in HOSTILE_NAMES:
        (vendor / "op_api" / name).symlink_to("/")
    result = run(package, "--verify", place)
    assert result.returncode == 1
    assert calm.strip() not in result.stdout.splitlines()
    assert result.stdout.count("  missing, changed or a link: ./op_api/") == len(HOSTILE_NAMES)
    refused = run(package, "--upgrade", place)
    assert refused.returncode == 2
    removed = run(package, "--uninstall", place)
    assert removed.returncode == 0
    assert "These files were not part of the package and stay:" in removed.stdout
    assert {path.name for path in (vendor / "op_api").iterdir()} == set(HOSTILE_NAMES)


def test_names_in_a_package(package, run, tmp_path):
    folder = tmp_path / "unpacked"
    assert run(package, f"--extract={folder}").returncode == 0
    for name in HOSTILE_NAMES:
        (folder / name).write_text("x")
    payload = subprocess.run(["tar", "-czf", "-", "."], cwd=folder, capture_output=True, check=True).stdout
    changed = with_payload(package, tmp_path / "x.run", payload)
    result = run(changed, "--verify")
    assert result.returncode == 1
    assert result.stdout.count("  missing or not listed: ") == len(HOSTILE_NAMES) == len(result.stdout.splitlines())
    assert run(changed, f"--install-path={tmp_path / 'opp'}").returncode == 2
    assert not (tmp_path / "opp").exists()


@pytest.mark.parametrize(
    ("line", "option"),
    [
        (b"note=\x1b[2J", "--list"),
        (b"operators=\xe2\x80\xae", "--list"),
        (b"vendor=../../x", "--verify"),
        (b"version=\x9b", "--list"),
    ],
)
def test_facts_of_a_package(package, run, tmp_path, line, option):
    folder = tmp_path / "unpacked"
    assert run(package, f"--extract={folder}").returncode == 0
    info = folder / "packages/vendors/opforge/package.info"
    key = line.split(b"=")[0]
    info.write_bytes(re.sub(rb"(?m)^%s=.*$" % key, lambda _: line, info.read_bytes()))
    payload = subprocess.run(["tar", "-czf", "-", "."], cwd=folder, capture_output=True, check=True).stdout
    run(with_payload(package, tmp_path / "x.run", payload), option)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--install-path=FOLDER/" + "x" * 300], "expected at most 3000, 255 between two '/'"),
        (["--install-path=FOLDER" + "/x" * 3000], "expected at most 3000"),
        (["--verify", "--install-path=FOLDER" + "/x" * 3000], "expected at most 3000"),
        (["--uninstall", "--install-path=FOLDER" + "/x" * 3000], "expected at most 3000"),
        (["--rollback", "--install-path=FOLDER/" + "x" * 300], "expected at most 3000"),
        (["--extract=FOLDER/" + "x" * 300], "cannot be written"),
        (["--extract=FOLDER/" + "x/" * 3000], "cannot be written"),
        (["--cann=" + "c" * 5000], "expected the folder of a CANN toolkit"),
        (["--" + "o" * 5000], "unknown option"),
        (["--x\x1b[2J\nok"], "unknown option"),
        (["--install-path=FOLDER/a\nb"], "without a colon or line break"),
    ],
)
def test_hostile_options(package, run, tmp_path, options, message):
    result = run(package, *(option.replace("FOLDER", str(tmp_path)) for option in options))
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]
    assert (result.returncode, len(result.stderr.splitlines()), message in result.stderr) == (2, 1, True), result.stderr


def gone(path):
    """Wait until a path is gone; False if it stays."""
    for _ in range(600):
        if not path.exists():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("end", ["head", "group", "installer"])
def test_killed_installer_leaves_no_temporary_folder(package, target, temporary, tmp_path, end):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "cp").write_text(
        f'#!/bin/sh\n: >"{tmp_path}/reached"\nwhile [ ! -e "{tmp_path}/go" ]; do sleep 0.05; done\n'
    )
    (tools / "cp").chmod(0o755)
    mine = temporary / "custom_opp.mine"
    mine.mkdir()
    process = subprocess.Popen(
        ["sh", str(package), f"--install-path={target}"],
        env={"PATH": f"{tools}:/usr/bin:/bin", "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not (tmp_path / "reached").exists():
        assert process.poll() is None
        time.sleep(0.02)
    (folder,) = (path for path in temporary.iterdir() if path != mine)
    if end == "head":
        process.kill()
    elif end == "group":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        commands = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
        os.kill(next(int(child) for child, command in commands.items() if b"install.sh" in command), signal.SIGKILL)
    (tmp_path / "go").touch()
    process.wait(timeout=60)
    assert gone(folder)
    assert mine.is_dir()


def test_next_run_removes_only_files_of_an_installer(package, run, target):
    place = f"--install-path={target}"
    vendors = target / "vendors"
    names = [".opforge.new.1", ".opforge.old.2", ".opforge.next.3", ".opforge.gone.4", "config.ini.new", ".opforge.tmp"]
    for name in names:
        (vendors / name).mkdir(parents=True)
        (vendors / name / "mine").write_text("mine")
    for options in ([], ["--force"], ["--rollback"], ["--uninstall"]):
        if options != ["--rollback"]:
            assert run(package, *options, place).returncode == 0
        assert all((vendors / name / "mine").read_text() == "mine" for name in names)
    assert sorted(path.name for path in vendors.iterdir()) == sorted(names)


@pytest.mark.parametrize("kind", ["folder", "link", "file", "copy", "build"])
def test_work_folder_of_another_program_is_kept(package, run, target, kind):
    vendors = target / "vendors"
    vendors.mkdir(parents=True)
    work = vendors / (".opforge.build" if kind == "build" else ".opforge.work")
    if kind == "link":
        (target / "elsewhere").mkdir()
        work.symlink_to(target / "elsewhere")
    elif kind == "file":
        work.write_text("mine")
    else:
        work.mkdir()
        (work / "new").mkdir()
        (work / "new/mine").write_text("mine")
        if kind == "copy":  # the mark of another folder
            (work / str((work / "new").stat().st_ino)).mkdir()
    results = [run(package, *options, f"--install-path={target}") for options in ([], ["--uninstall"])]
    if kind == "build":
        assert [result.returncode for result in results] == [0, 0]
        assert (work / "new/mine").read_text() == "mine"
        return
    assert [result.returncode for result in results] == [2, 2]
    assert all(len(result.stderr.splitlines()) == 1 and str(work) in result.stderr for result in results)
    assert work.is_symlink() or work.is_file() or (work / "new/mine").read_text() == "mine"
    assert [path.name for path in vendors.iterdir()] == [work.name]


def test_pipes_in_an_installed_folder_do_not_block(package, run, target):
    place = f"--install-path={target}"
    vendor = target / "vendors/opforge"
    for name in ("version.info", "SHA256SUMS", "package.info", "manifest.json"):
        assert run(package, "--force", place).returncode == 0
        (vendor / name).unlink()
        os.mkfifo(vendor / name)
        for options in (["--verify"], [], ["--upgrade"]):
            assert run(package, *options, place).returncode in {0, 1, 2}
    assert run(package, "--force", place).returncode == 0
    assert run(package, "--uninstall", place).returncode == 0


@pytest.mark.parametrize("count", [10_000, pytest.param(40_000, marks=pytest.mark.all)])
def test_many_files(package, run, tmp_path, target, count):
    """Verify, install and remove them; each step was quadratic, or started one process per file."""
    folder = tmp_path / "unpacked"
    assert run(package, f"--extract={folder}").returncode == 0
    vendor = folder / "packages/vendors/opforge"
    tree = {path.relative_to(vendor).as_posix(): path.read_bytes() for path in vendor.rglob("*") if path.is_file()}
    facts = dict(line.split("=", 1) for line in tree["package.info"].decode().splitlines())
    files = {name: data for name, data in tree.items() if name not in {"package.info", "manifest.json", "SHA256SUMS"}}
    files |= {f"docs/d{number % 100}/f{number}": b"x" for number in range(count)}
    for name, data in (files | lists(facts, files)).items():
        (vendor / name).parent.mkdir(parents=True, exist_ok=True)
        (vendor / name).write_bytes(data)
    shutil.copy(SCRIPTS / "install.sh", folder)
    place = f"--install-path={target}"
    for options in (["--verify"], [place], ["--verify", place], ["--uninstall", place]):
        command = ["sh", str(folder / "install.sh"), *options]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
        assert (result.returncode, result.stderr) == (0, "")
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("variable", ["TAR_OPTIONS", "GZIP"])
def test_variables_of_tar_and_gzip_change_nothing(package, run, target, tmp_path, variable):
    value = f"--to-command=touch {tmp_path}/ran" if variable == "TAR_OPTIONS" else "--best --keep"
    done = run(package, f"--install-path={target}", **{variable: value})
    assert (done.returncode, (tmp_path / "ran").exists()) == (0, False), done.stderr
    assert (target / "vendors").is_dir()
