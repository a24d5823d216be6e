"""Run hostile programs in the sandbox of `opforge coverage`: nothing outside of it changes."""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import select
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from errno import ENOSYS, EOPNOTSUPP, EPERM
from pathlib import Path

import pytest

from opforge.twin.coverage import confine
from opforge.twin.coverage.program_run import Place

CALLS = json.loads(Path(confine.__file__).with_name("system_calls.json").read_text())
LINE = re.compile(r"(.*) (-?\d+) (\d+)")
SOURCE = Path(__file__).with_name("hostile_calls.cpp")
MACHINE = {"x86_64": 0, "aarch64": 1}.get(platform.machine())
needs_filter = pytest.mark.skipif(MACHINE is None, reason="the numbers of system calls are not known")
needs_landlock = pytest.mark.skipif(
    MACHINE is None or confine._landlock_abi() < 1, reason="the system has no Landlock, or another machine"
)
needs_signals = pytest.mark.skipif(
    MACHINE is None or confine._landlock_abi() < 6, reason="the system has no Landlock of version 6 or later"
)
both_modes = pytest.mark.parametrize("may_start_processes", [False, True])


@pytest.fixture(scope="module")
def hostile(once):
    def build(folder):
        compiler = os.environ.get("CXX", "g++")
        subprocess.run([compiler, "-std=c++17", "-O1", "-w", SOURCE, "-o", folder / "hostile"], check=True)

    return once("hostile", build) / "hostile"


@pytest.fixture
def place(tmp_path, hostile):
    """Two folders: that of the programs, which has the victim, and the scratch folder."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "scratch").mkdir()
    shutil.copy(hostile, tmp_path / "programs")
    victim = tmp_path / "programs" / "victim"
    victim.write_text("content")
    victim.chmod(0o640)
    os.setxattr(victim, "user.kept", b"1")
    return Place(tmp_path / "scratch", tmp_path / "programs", 60.0, 1024)


def state(folder):
    """Return the files of a folder with their attributes and content."""
    found = {}
    for path in sorted([folder, *folder.iterdir()]):
        status = path.lstat()
        attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
        times = status.st_mtime_ns, status.st_ctime_ns
        facts = (status.st_mode, status.st_uid, status.st_gid, status.st_nlink, status.st_size, times, attributes)
        found[path.name] = facts, path.read_bytes() if path.is_file() else None
    return found


def answers(result):
    return [
        (found[1], int(found[2]), int(found[3])) for line in result.output.splitlines() if (found := LINE.match(line))
    ]


def test_the_program_changes_a_file_without_the_sandbox(place):
    """The other tests can fail."""
    victim = place.programs / "victim"
    command = [place.programs / "hostile", victim, place.programs]
    done = subprocess.run(command, cwd=place.scratch, capture_output=True, text=True, check=True)
    results = {found[1]: int(found[2]) for line in done.stdout.splitlines() if (found := LINE.match(line))}
    changes = [
        name for name in results if name.startswith(("chmod", "fchmod", "utime", "setxattr", "truncate", "creat"))
    ]
    assert len(changes) > 6
    assert all(results[name] >= 0 for name in changes), results
    assert not victim.exists()


@needs_landlock
@both_modes
def test_nothing_outside_changes(place, tmp_path, may_start_processes):
    victim, path = place.programs / "victim", tmp_path / "socket"
    before = state(place.programs)
    sockets = [socket.socket(socket.AF_UNIX, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]
    internet = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    other = subprocess.Popen(["sleep", "600"])
    try:
        sockets[0].bind(str(path))
        sockets[0].listen()
        sockets[1].bind(f"\0{tmp_path}")
        internet.bind(("127.0.0.1", 0))
        limits = resource.prlimit(other.pid, resource.RLIMIT_NOFILE)
        words = [victim, place.programs, other.pid, path, tmp_path, internet.getsockname()[1]]
        command = [str(place.programs / "hostile"), *map(str, words)]
        result = place.run(command, place.scratch, may_start_processes=may_start_processes)
        assert select.select([*sockets, internet], [], [], 0) == ([], [], [])
        assert other.poll() is None
        assert os.getpriority(os.PRIO_PROCESS, other.pid) == os.getpriority(os.PRIO_PROCESS, 0)
        assert os.sched_getaffinity(other.pid) == os.sched_getaffinity(0)
        assert resource.prlimit(other.pid, resource.RLIMIT_NOFILE) == limits
    finally:
        other.kill()
        other.wait()
        for connection in (*sockets, internet):
            connection.close()
    assert state(place.programs) == before
    assert {name.name for name in place.scratch.iterdir()} == {"output.txt", "errors.txt"}
    results = answers(result)
    assert len(results) > 80, result
    ignored = re.compile(r"[lf]?ch(mod|own)(at)?\(|f?utime|open -?\d|open$")
    wrong = [answer for answer in results if answer[1] >= 0 and not ignored.match(answer[0])]
    assert wrong == []
    assert result.status == 0 or results[-1][0] != "int80"


@needs_filter
@both_modes
def test_each_refused_call_fails(place, may_start_processes):
    errors = {"refused": EPERM, "missing": ENOSYS, "unsupported": EOPNOTSUPP}
    refused = {both[MACHINE]: error for kind, error in errors.items() for both in CALLS[kind].values()}
    refused |= dict.fromkeys(range(451, 600), ENOSYS)
    if platform.machine() == "x86_64":
        refused |= {0x40000000 + number: ENOSYS for number in (15, 41, 90, 322, 520)}
    refused.pop(None, None)
    (place.scratch / "numbers").write_text("\n".join(map(str, refused)))
    program = place.programs / "hostile"
    command = [
        sys.executable,
        "-c",
        f"import os; os.dup2(os.open('numbers', os.O_RDONLY), 0); os.execv('{program}', ['hostile', 'x'])",
    ]
    result = place.run(command, place.scratch, may_start_processes=may_start_processes)
    assert {int(name): (value, error) for name, value, error in answers(result)} == {
        number: (-1, error) for number, error in refused.items()
    }


@needs_signals
def test_common_tools_of_scripts_continue(place):
    """Modes and times of files are not copied, without an error."""
    text = """
import multiprocessing, os, shutil, signal, socket, subprocess, tarfile, tempfile
shutil.copytree("from", "to")
shutil.copy2("from/a", "b")
os.chmod("b", 0o600)
subprocess.run(["cp", "-p", "b", "c"], check=True)
subprocess.run("chmod -R 755 to; touch d; tar cf x.tar from; mkdir e; tar xf x.tar -C e", shell=True, check=True)
with tempfile.TemporaryDirectory() as folder:
    open(folder + "/f", "w").close()
first, second = socket.socketpair()
first.sendall(b"x")
assert second.recv(1) == b"x"
child = subprocess.Popen(["sleep", "60"])
child.terminate()
assert child.wait() == -signal.SIGTERM
process = multiprocessing.get_context("fork").Process(target=open, args=("g", "w"))
process.start()
process.join()
print(process.exitcode, *sorted(os.listdir()), *os.listdir("e/from"))
"""
    (place.scratch / "from").mkdir()
    (place.scratch / "from" / "a").write_text("a")
    result = place.run([sys.executable, "-c", text], place.scratch, may_start_processes=True)
    assert result.output.split() == [
        "0",
        "b",
        "c",
        "d",
        "e",
        "errors.txt",
        "from",
        "g",
        "output.txt",
        "to",
        "x.tar",
        "a",
    ], result


@needs_filter
@both_modes
def test_the_filter_allows_signals_to_the_own_process(place, may_start_processes):
    result = place.run(
        [sys.executable, "-c", "import os; os.abort()"], place.scratch, may_start_processes=may_start_processes
    )
    assert result.reason("it", 1) == "it was ended by SIGABRT"


PROCESSES = """
import os, subprocess, sys, time
kept = bytearray(int(sys.argv[2]) << 20)
children = [subprocess.Popen([sys.executable, "-c", sys.argv[3]]) for _ in range(int(sys.argv[1]))]
for _ in range(int(sys.argv[4])):
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
while children or int(sys.argv[4]):
    try:
        os.wait()
    except ChildProcessError:
        break
"""
SLEEPS, ALLOCATES = "import time; time.sleep(60)", "import time; x = bytearray(120 << 20); time.sleep(60)"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((6, 0, SLEEPS, 0), "it started more than 5 processes"),
        ((3, 0, "pass", 0), ""),
        ((3, 0, ALLOCATES, 0), "it used more than 256 MB of memory in all its processes"),
        ((0, 150, "", 3), ""),
    ],
    ids=["processes", "few processes", "memory", "shared memory"],
)
def test_limits_of_all_processes_of_a_script(place, words, reason):
    place = replace(place, memory_mb=256, most_processes=5)
    result = place.run([sys.executable, "-c", PROCESSES, *map(str, words)], place.scratch, may_start_processes=True)
    assert result.failure("it", 60) == reason, result
