"""Test upgrade, rollback and interrupted installations."""

from __future__ import annotations

import compileall
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time

import pytest

from opforge.package.layout import layout
from opforge.package.pack import SCRIPTS, gather, pack

COMMANDS = ("mkdir", "cp", "chmod", "mv", "rm", "rmdir")


@pytest.fixture(scope="module")
def versions(project, tmp_path_factory):
    """Return two packages of one vendor: version -> .run file."""
    found = {}
    for version in ("1.9", "1.10"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("opforge.package.pack.importlib.metadata.version", lambda _, v=version: v)
            out = tmp_path_factory.mktemp(version)
            found[version] = pack(out=out, project=project, ops=["GroupedBiasAddGrad"], socs=["ascend910b"])
    return found


@pytest.fixture
def vendors(tmp_path):
    return tmp_path / "opp dir" / "vendors"


def content(vendor):
    return {str(path.relative_to(vendor)): path.read_bytes() for path in vendor.rglob("*") if path.is_file()}


def version_of(vendor):
    return json.loads((vendor / "manifest.json").read_text())["version"]


def test_upgrade_keeps_the_version_before_it(versions, run, vendors):
    place = f"--install-path={vendors.parent}"
    assert run(versions["1.9"], place).returncode == 0
    before = content(vendors / "opforge")
    upgraded = run(versions["1.10"], "--upgrade", place)
    assert upgraded.returncode == 0, upgraded.stderr
    assert version_of(vendors / "opforge") == "1.10"
    assert "nothing was done" in run(versions["1.10"], "--upgrade", place).stdout

    older = run(versions["1.9"], "--upgrade", place)
    assert older.returncode == 2
    assert "got version 1.9, expected one that is not older than 1.10" in older.stderr

    for version in ("1.9", "1.10", "1.9"):
        back = run(versions["1.10"], "--rollback", place)
        assert back.returncode == 0, back.stderr
        assert f"opforge {version} is restored" in back.stdout
        assert version_of(vendors / "opforge") == version
    assert content(vendors / "opforge") == before
    assert {path.name for path in vendors.iterdir()} == {"opforge", ".opforge.previous"}


def test_upgrade_that_would_lose_something_is_refused(versions, run, vendors):
    place = f"--install-path={vendors.parent}"
    run(versions["1.9"], place)
    info = vendors / "opforge" / "package.info"
    info.write_text(info.read_text().replace("operators=GroupedBiasAddGrad", "operators=GroupedBiasAddGrad MineGrad"))
    (vendors / "opforge/notes.txt").write_text("mine")
    before = content(vendors / "opforge")
    refused = run(versions["1.10"], "--upgrade", place)
    assert refused.returncode == 2
    assert "that are not in this package: MineGrad notes.txt; use --force" in refused.stderr
    assert content(vendors / "opforge") == before


def test_uninstall_removes_python_cache_files(versions, run, vendors):
    place = f"--install-path={vendors.parent}"
    for version in ("1.9", "1.10"):
        upgraded = run(versions[version], *(["--upgrade"] if version == "1.10" else []), place)
        assert upgraded.returncode == 0, upgraded.stderr
        assert compileall.compile_dir(vendors / "opforge/op_impl", quiet=1)
        assert list(vendors.glob("opforge/**/__pycache__/*.pyc"))
    removed = run(versions["1.10"], "--uninstall", place)
    assert (removed.returncode, "stay" in removed.stdout) == (0, False), removed.stdout
    assert list(vendors.parent.iterdir()) == []


@pytest.mark.parametrize(
    "in_order",
    [
        ("1.9", "1.10.dev1", "1.10.alpha1", "1.10.alpha2", "1.10.beta1", "1.10.rc1", "1.10.rc2", "1.10", "1.10.1"),
        ("1.9", "1.10a1", "1.10b1", "1.10RC1", "1.10", "1.10.post1"),
    ],
)
def test_a_version_before_the_release_is_older_than_it(in_order):
    for number, version in enumerate(in_order):
        for other in in_order[number:]:
            for first, second, expected in ((version, other, version != other), (other, version, False)):
                script = f'. "{SCRIPTS}/vendor_tree.sh"; is_older "$1" "$2"'
                status = subprocess.run(["sh", "-c", script, "-", first, second], check=False).returncode
                assert (status == 0) == expected, f"{first} {second}"


def test_damaged_previous_version_is_not_put_back(versions, run, vendors):
    place = f"--install-path={vendors.parent}"
    run(versions["1.9"], place)
    run(versions["1.10"], "--upgrade", place)
    info = vendors / ".opforge.previous/package.info"
    for path, text in (
        (info, info.read_text().replace("vendor=opforge", "vendor=other")),
        (vendors / ".opforge.previous/version.info", "changed"),
    ):
        whole = path.read_text()
        path.write_text(text)
        refused = run(versions["1.10"], "--rollback", place)
        assert (refused.returncode, "is damaged; nothing was done" in refused.stderr) == (2, True)
        assert version_of(vendors / "opforge") == "1.10"
        path.write_text(whole)


def test_extract_unpacks_without_installing(versions, project, run, tmp_path):
    folder = tmp_path / "unpacked here"
    result = run(versions["1.9"], f"--extract={folder}", ASCEND_OPP_PATH=str(tmp_path / "opp"))
    assert result.returncode == 0, result.stderr
    unpacked = content(folder)
    assert set(unpacked) == set(layout(gather(project, ["ascend910b"], ["GroupedBiasAddGrad"], "opforge")))
    assert [path.name for path in tmp_path.iterdir() if path.name != "tmp"] == ["unpacked here"]
    for name in ("out/", "-x"):
        command = [
            "sh",
            "-c",
            'cd "$1" && exec "$2" --quiet "--extract=$3"',
            "-",
            str(tmp_path),
            str(versions["1.9"]),
            name,
        ]
        subprocess.run(command, check=True)
        assert content(tmp_path / name) == unpacked
    again = run(versions["1.9"], f"--extract={folder}")
    assert again.returncode == 2
    assert content(folder) == unpacked


def test_two_installers_at_once(versions, run, vendors, tmp_path):
    place = f"--install-path={vendors.parent}"
    run(versions["1.9"], place)
    tools = tmp_path / "tools"
    tools.mkdir()
    reached, go = tmp_path / "reached", tmp_path / "go"
    (tools / "cp").write_text(
        f'#!/bin/sh\n: >"{reached}"\nwhile [ ! -e "{go}" ]; do sleep 0.05; done\nexec /bin/cp "$@"\n'
    )
    (tools / "cp").chmod(0o755)
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "TMPDIR": str(tools)}
    slow = subprocess.Popen([str(versions["1.10"]), "--upgrade", place], env=environment, stdout=subprocess.DEVNULL)
    while not reached.exists():
        assert slow.poll() is None
        time.sleep(0.05)
    for options in (["--force"], ["--uninstall"], ["--rollback"]):
        second = run(versions["1.9"], *options, place)
        assert second.returncode == 2
        assert "another installer is running in" in second.stderr
    removal = subprocess.run(
        ["sh", str(vendors / "opforge/scripts/uninstall.sh")], capture_output=True, text=True, check=False
    )
    assert removal.returncode == 2
    go.touch()
    assert slow.wait() == 0
    assert version_of(vendors / "opforge") == "1.10"


def slowed(tools, name, script):
    """Return variables under which a program of the system runs `script` before its work."""
    tools.mkdir()
    (tools / name).write_text(f'#!/bin/sh\n{script}\nexec /usr/bin/{name} "$@"\n')
    (tools / name).chmod(0o755)
    return {"PATH": f"{tools}:/usr/bin:/bin", "TMPDIR": str(tools)}


def test_concurrent_first_installers_do_not_interfere(versions, vendors, tmp_path):
    reached, go = tmp_path / "reached", tmp_path / "go"
    # The script waits after the search for the folder and before the comparison with the manifest; another installer
    # runs then.
    script = f'[ $# = 0 ] || {{ : >"{reached}"; while [ ! -e "{go}" ]; do sleep 0.05; done; }}'
    environment = slowed(tmp_path / "tools", "sha256sum", script)
    command = [str(versions["1.10"]), f"--install-path={vendors.parent}"]
    second = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    while not reached.exists():
        assert second.poll() is None
        time.sleep(0.05)
    stage = vendors / ".opforge.work"
    stage.mkdir(parents=True)
    with subprocess.Popen(["flock", str(vendors), "cat"], stdin=subprocess.PIPE) as first:
        while subprocess.run(["flock", "-n", str(vendors), "true"], check=False).returncode == 0:
            time.sleep(0.05)
        go.touch()
        assert "another installer is running in" in second.communicate()[1]
        first.stdin.close()
    assert second.returncode == 2
    assert list(vendors.iterdir()) == [stage]


def test_lock_on_a_removed_folder_is_not_held(versions, vendors, tmp_path):
    vendors.mkdir(parents=True)
    environment = slowed(tmp_path / "tools", "flock", f'rmdir "{vendors}" && mkdir "{vendors}"')
    command = [str(versions["1.10"]), f"--install-path={vendors.parent}"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, "was just removed by another installer" in result.stderr) == (2, True)
    assert list(vendors.iterdir()) == []


def everything(vendors):
    """Return mode and content of every file and folder; the inode numbers in the work folder are replaced by N."""
    return {
        re.sub(r"^(\.opforge\.work/(next\.)?)\d+", r"\1N", str(path.relative_to(vendors))): (
            path.stat().st_mode,
            path.read_bytes() if path.is_file() else None,
        )
        for path in vendors.rglob("*")
    }


def below(tree, name):
    return {path.removeprefix(f"{name}/"): found for path, found in tree.items() if path.startswith(f"{name}/")}


class Recorder:
    """Runs a package once and copies the vendor folder before and after each command that changes it.

    A run that is killed there leaves exactly this state. Consecutive equal states are copied once.
    """

    def __init__(self, vendors, folder, *, can_exchange=True):
        self.vendors, self.tools, self.states = vendors, folder / "tools", folder / "states"
        self.tools.mkdir()
        self.states.mkdir()
        if not can_exchange:  # simulates a system without python3
            (self.tools / "python3").write_text("#!/bin/sh\nexit 1\n")
            (self.tools / "python3").chmod(0o755)

    def _run(self, package, options, kill):
        """Run the package; if `kill` is not empty, kill it in that state instead of copying states."""
        (self.states / "count").write_text("0")
        (self.states / "last").write_text("")
        for name in COMMANDS:
            # Only commands that change the target are recorded; the payload is unpacked elsewhere.
            (self.tools / name).write_text(
                f"""#!/bin/sh
keep() {{
    cd "{self.states}"
    find "{self.vendors}" -printf '%i %M %s %T@ %P\\n' >now
    ! cmp -s now last || return 0
    number="$(cat count)"
    [ "$number" != "{kill}" ] || kill -KILL 0
    [ "{kill}" ] || {{ /bin/cp -a "{self.vendors}" "$number" && cat now >"$number.list"; }}
    cat now >last
    echo $((number + 1)) >count
}}
case "$PWD $*" in *"{self.vendors}"*) ;; *) exec /bin/{name} "$@" ;; esac
(keep)
/bin/{name} "$@" && status=0 || status=$?
(keep)
exit $status
"""
            )
            (self.tools / name).chmod(0o755)
        variables = {"TMPDIR": str(self.tools), "ASCEND_OPP_PATH": str(self.vendors.parent)}
        environment = {"PATH": f"{self.tools}:/usr/bin:/bin"} | variables
        command = [str(package), *options]
        return subprocess.run(command, env=environment, start_new_session=True, capture_output=True, check=False)

    def record(self, package, *options):
        """Run the package and return the states in their order; check that a run killed in one leaves it."""
        recorded = self._run(package, options, "")
        assert recorded.returncode == 0, recorded.stderr
        end = everything(self.vendors)
        states = [self.states / str(number) for number in range(int((self.states / "count").read_text()))]
        middle = len(states) // 2
        self.restore(states[0])
        assert self._run(package, options, middle).returncode == -9
        assert everything(self.vendors) == everything(states[middle])
        return states, end

    def restore(self, state):
        """Make the vendor folder equal to a state; names that are inode numbers become those of the copies."""
        shutil.rmtree(self.vendors)
        subprocess.run(["cp", "-a", state, self.vendors], check=True)
        lines = state.with_name(f"{state.name}.list").read_text().splitlines()
        paths = {line.split(" ", 1)[0]: line.split(" ", 4)[4] for line in lines}
        work = self.vendors / ".opforge.work"
        for path in list(work.iterdir()) if work.is_dir() else []:
            start, number = re.fullmatch(r"(.*?)(\d*)", path.name).groups()
            if number:
                path.rename(work / f"{start}{(self.vendors / paths[number]).stat().st_ino}")


@pytest.mark.long
@pytest.mark.parametrize(
    ("can_exchange", "following"),
    [(True, "--upgrade"), (False, "--rollback"), pytest.param(True, "--rollback", marks=pytest.mark.all)],
)
def test_killed_at_every_step(versions, run, vendors, tmp_path, can_exchange, following):
    vendors.mkdir(parents=True)
    (vendors / "config.ini").write_text("load_priority=other\n")
    opp = {"ASCEND_OPP_PATH": str(vendors.parent)}
    complete, ends = {}, {}
    for version in ("1.9", "1.10"):
        assert run(versions[version], "--replace-builtin", "--force", **opp).returncode == 0
        complete[version] = below(everything(vendors), "opforge")
        assert version_of(vendors / "opforge") == version

    def rolled_back(version, kept):
        back = run(versions["1.10"], "--rollback", **opp)
        assert back.returncode == 0, back.stderr
        ends[version] = everything(vendors)
        assert below(ends[version], "opforge") == complete[version]
        assert below(ends[version], ".opforge.previous") == complete[kept]
        assert {path.name for path in vendors.iterdir()} == {"opforge", ".opforge.previous", "config.ini"}
        assert (vendors / "config.ini").read_text() == "load_priority=opforge,other\n"

    for version, kept in (("1.9", "1.10"), ("1.10", "1.9"), ("1.9", "1.10")):
        rolled_back(version, kept)
    recorder = Recorder(vendors, tmp_path, can_exchange=can_exchange)
    states, end = recorder.record(versions["1.10"], "--replace-builtin", "--force")
    assert end == ends["1.10"]
    steps = []
    for number, state in enumerate(states):
        recorder.restore(state)
        found = everything(vendors)
        installed = below(found, "opforge")
        if installed:
            assert installed in complete.values(), f"state {number}: a mix"
            steps.append(version_of(vendors / "opforge"))
        else:
            assert not can_exchange, f"state {number}: neither the old version nor the new"
        assert found["config.ini"] == end["config.ini"]
        # Any later run recovers from this state, and its end is one from which a rollback was tested above.
        options = ["--rollback"] if following == "--rollback" else ["--replace-builtin", "--upgrade"]
        after = run(versions["1.10"], *options, **opp)
        assert after.returncode == 0, f"state {number}: {after.stderr}"
        expected = "1.9" if following == "--rollback" and installed == complete["1.10"] else "1.10"
        assert everything(vendors) == ends[expected], f"state {number}"
    print("\nversion that is installed in each state:", *steps)  # noqa: T201  # for -s
    assert steps == sorted(steps, reverse=True), "once the new version is there, it stays"
    assert {"1.9", "1.10"} == set(steps)
    assert len(states) > 10


def test_killed_removal_is_atomic(versions, run, vendors, tmp_path):
    vendors.mkdir(parents=True)
    place = {"ASCEND_OPP_PATH": str(vendors.parent)}
    (vendors / "config.ini").write_text("load_priority=other\n")
    for version in ("1.9", "1.10"):
        assert run(versions[version], "--replace-builtin", "--force", **place).returncode == 0
    complete = below(everything(vendors), "opforge")
    recorder = Recorder(vendors, tmp_path)
    states, end = recorder.record(versions["1.10"], "--uninstall")
    assert {path: text for path, (_, text) in end.items()} == {"config.ini": b"load_priority=other\n"}
    outcomes = []
    for number, state in enumerate(states):
        recorder.restore(state)
        outcomes.append((vendors / "opforge").exists())
        assert not outcomes[-1] or below(everything(vendors), "opforge") == complete, f"state {number}"
        is_done = [path.name for path in vendors.iterdir()] == ["config.ini"]
        after = run(versions["1.10"], "--uninstall", **place)
        assert after.returncode == (2 if is_done else 0), f"state {number}: {after.stderr}"
        assert everything(vendors) == end, f"state {number}"
    assert outcomes == sorted(outcomes, reverse=True)
    assert set(outcomes) == {True, False}
    assert len(states) > 10


def test_installation_finishes_a_removal_that_was_cut_off(versions, run, vendors):
    place = f"--install-path={vendors.parent}"
    run(versions["1.9"], place)
    gone = vendors / ".opforge.work/gone"
    gone.parent.mkdir()
    (gone.parent / str(gone.parent.stat().st_ino)).mkdir()
    (vendors / "opforge").rename(gone)
    (gone / "version.info").unlink()
    installed = run(versions["1.10"], place)
    assert (installed.returncode, "the interrupted removal of opforge" in installed.stdout) == (0, True)
    assert [path.name for path in vendors.iterdir()] == ["opforge"]


@pytest.mark.parametrize("tell", [os.kill, os.killpg])
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_switch_changes_nothing(versions, run, begin, vendors, tmp_path, number, tell):
    """Send the signal only to the .run file, as a supervisor does, or to all of its processes, as a terminal does."""
    place = f"--install-path={vendors.parent}"
    run(versions["1.9"], place)
    before = content(vendors / "opforge")
    reached = tmp_path / "reached"
    environment = slowed(tmp_path / "tools", "cp", f': >"{reached}"; sleep 0.3')
    installer = begin(environment, versions["1.10"], "--upgrade", place)
    while not reached.exists():
        assert installer.poll() is None
        time.sleep(0.02)
    tell(installer.pid, number)
    output = installer.communicate(timeout=30)[1]
    assert installer.returncode == 128 + number
    if tell is os.kill:  # for two simultaneous signals, a shell may report only one
        assert output == "stopped by a signal; nothing was installed or removed\n"
    assert content(vendors / "opforge") == before
    assert [path.name for path in vendors.iterdir()] == ["opforge"]
    assert [path.name for path in (tmp_path / "tools").iterdir()] == ["cp"]
    assert run(versions["1.10"], "--upgrade", place).returncode == 0


@pytest.mark.parametrize("tell", [os.kill, os.killpg])
def test_signal_after_the_switch_has_no_effect(versions, run, begin, vendors, tmp_path, tell):
    place = f"--install-path={vendors.parent}"
    run(versions["1.9"], place)
    reached = tmp_path / "reached"
    script = f'case "$*" in *.opforge.work/new*.opforge.work/next*) : >"{reached}"; sleep 0.3 ;; esac'
    environment = slowed(tmp_path / "tools", "mv", script)
    installer = begin(environment, versions["1.10"], "--upgrade", place)
    while not reached.exists():
        assert installer.poll() is None
        time.sleep(0.02)
    tell(installer.pid, signal.SIGTERM)
    output = installer.communicate(timeout=30)[0]
    assert (installer.returncode, "is installed in" in output) == (0, True)
    assert version_of(vendors / "opforge") == "1.10"
    assert version_of(vendors / ".opforge.previous") == "1.9"


def test_no_space_leaves_the_old_version(versions, run, vendors, tmp_path):
    place = f"--install-path={vendors.parent}"
    run(versions["1.9"], place)
    before = content(vendors / "opforge")
    for kilobytes in (1, 4, 10):
        limit = kilobytes * 1024
        result = subprocess.run(
            [str(versions["1.10"]), "--upgrade", place],
            env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)},
            preexec_fn=lambda size=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode in {2, 3}, result.stderr
        assert content(vendors / "opforge") == before
    assert {path.name for path in vendors.iterdir()} == {"opforge"}
