"""Test a source release that the installer builds with a toolkit (`mock_toolkit.py`)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from mock_toolkit import MockToolkit

from opforge.package.cann.__main__ import main
from opforge.package.layout import layout, write_tree
from opforge.package.pack import make_package


@pytest.fixture(scope="module")
def small_package(small, tmp_path_factory):
    return make_package(small, tmp_path_factory.mktemp("small") / "package.run")


@pytest.fixture
def toolkit(tmp_path):
    return MockToolkit(tmp_path / "cann täger")


@pytest.fixture
def vendors(tmp_path):
    return tmp_path / "opp dir" / "vendors"


def content(vendor):
    return {path.relative_to(vendor).as_posix() for path in vendor.rglob("*") if path.is_file()}


def names(folder):
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def test_a_toolkit_builds_the_package_before_it_is_installed(small_package, run, toolkit, vendors):
    place = f"--install-path={vendors.parent}"
    sources = run(small_package, place)
    assert sources.returncode == 0, sources.stderr
    assert "Only the sources are installed. aclnn calls, ATC and torch_npu cannot" in sources.stdout
    assert "install the package again with --cann=FOLDER" in sources.stdout

    built = run(small_package, place, ASCEND_HOME_PATH=str(toolkit.root))
    assert built.returncode == 0, built.stderr
    assert (
        f"building opforge with CANN 8.1.RC1 in {toolkit.root} (this was not run with a real toolkit)" in built.stdout
    )
    assert "[1/8] configure" in built.stdout
    assert "CANN: 8.1 to 9.1\n" in run(small_package, "--list").stdout
    vendor = vendors / "opforge"
    assert {"op_api/lib/libcust_opapi.so", "build.log", "built.json"} <= content(vendor)
    tiling = vendor / "op_impl/ai_core/tbe/op_tiling"
    assert (tiling / "liboptiling.so").samefile(tiling / "lib/linux/x86_64/libcust_opmaster_rt2.0.so")
    assert "compiler_version=7.7.0.1.238" in (vendor / "version.info").read_text()
    assert names(vendors) == {"opforge", ".opforge.previous"}
    assert run(small_package, "--verify", place).returncode == 0

    again = run(small_package, f"--cann={toolkit.root}", place)
    assert "nothing was done" in again.stdout
    info, manifest = (vendor / "package.info").read_text(), (vendor / "manifest.json").read_text()
    (vendor / "package.info").write_text(info.replace("\nversion=", "\nversion=0."))
    (vendor / "manifest.json").write_text(manifest + "\n")
    sources = run(small_package, "--upgrade", place)
    assert (sources.returncode, "package: libraries and kernels that CANN built;" in sources.stderr) == (2, True)
    (vendor / "manifest.json").write_text(manifest)
    (vendor / "package.info").write_text(info)
    (vendor / "op_api/lib/libcust_opapi.so").write_bytes(b"changed")
    damaged = run(small_package, "--verify", place)
    assert (damaged.returncode, "libcust_opapi.so" in damaged.stdout) == (1, True)
    assert run(small_package, "--rollback", place).returncode == 0
    assert "op_api/lib/libcust_opapi.so" not in content(vendor)
    assert run(small_package, "--uninstall", place).returncode == 0
    assert not vendors.exists()


def test_newer_generation_and_uninstall_of_built_files(small_package, run, tmp_path, vendors):
    """Variables of other builds are set; they have no effect."""
    toolkit, other = MockToolkit(tmp_path / "new", "9.1"), tmp_path / "elsewhere"
    place, variables = f"--install-path={vendors.parent}", {"DESTDIR": str(other), "CXX": "g++ -m64"}
    built = run(small_package, "--quiet", f"--cann={toolkit.root}", place, **variables)
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    assert {"framework/onnx/libcust_onnx_parsers.so", "built.json"} <= content(vendors / "opforge")
    assert not other.exists()
    assert run(small_package, "--uninstall", place).returncode == 0
    assert not vendors.exists()


@pytest.mark.parametrize("name", ["a;b", 'a"b'])
def test_folder_in_which_cmake_cannot_build_is_refused(small_package, run, toolkit, tmp_path, name):
    refused = run(small_package, f"--cann={toolkit.root}", f"--install-path={tmp_path}/{name}")
    assert (refused.returncode, "where CMake can build; nothing was done" in refused.stderr) == (2, True)
    assert not (tmp_path / name).exists()


def test_no_build_installs_the_sources(small_package, run, toolkit, vendors):
    result = run(small_package, "--no-build", f"--install-path={vendors.parent}", ASCEND_HOME_PATH=str(toolkit.root))
    assert result.returncode == 0, result.stderr
    assert "aclnn calls, ATC and torch_npu cannot use the operators yet" in result.stdout
    assert "install the package again without --no-build" in result.stdout
    assert not (toolkit.root / "calls").exists()
    assert "built.json" not in content(vendors / "opforge")


def test_failed_build_leaves_the_old_state_and_names_the_log(small_package, run, toolkit, vendors):
    place = f"--install-path={vendors.parent}"
    run(small_package, place)
    before = content(vendors / "opforge")
    toolkit.write("opc-fails", "bfloat16")
    toolkit.write("opc-exits", "5")
    failed = run(small_package, f"--cann={toolkit.root}", place)
    assert failed.returncode == 1
    assert "dtype column (grad_y bfloat16, group_idx int32, grad_bias bfloat16)" in failed.stderr
    assert "failed: exit code 5; " in failed.stderr
    assert "error: made to fail" in failed.stderr
    assert f"nothing was installed; the finished steps stay in {vendors}/.opforge.build" in failed.stderr
    (log,) = (path for path in (vendors / ".opforge.build/logs").iterdir() if "made to fail" in path.read_text())
    assert str(log) in failed.stderr
    assert content(vendors / "opforge") == before

    (toolkit.root / "opc-fails").unlink()
    resumed = run(small_package, f"--cann={toolkit.root}", place)
    assert resumed.returncode == 0, resumed.stderr
    assert "[1/8] configure: already done" in resumed.stdout
    assert "libcust_opapi.so: already done" in resumed.stdout
    assert names(vendors) == {"opforge", ".opforge.previous"}


def test_uninstall_removes_files_of_an_unfinished_build(small_package, run, toolkit, vendors):
    toolkit.write("opc-fails", "float32")
    place = f"--install-path={vendors.parent}"
    assert run(small_package, f"--cann={toolkit.root}", place).returncode == 1
    assert names(vendors) == {".opforge.build"}
    removed = run(small_package, "--uninstall", place)
    assert (removed.returncode, "the files of an unfinished build are removed" in removed.stdout) == (0, True)
    assert not vendors.exists()


@pytest.mark.parametrize("options", [[], ["--no-build"]])
def test_a_toolkit_that_is_too_old_is_refused(small_package, run, tmp_path, vendors, options):
    toolkit = MockToolkit(tmp_path / "cann", version_dir="8.0.RC3")
    place = f"--install-path={vendors.parent}"
    refused = run(small_package, place, *options, ASCEND_HOME_PATH=str(toolkit.root))
    assert refused.returncode == 2
    assert "is 8.0.RC3, expected 8.1 to 9.1, the range of this package; nothing was done" in refused.stderr
    assert "--force" in refused.stderr
    assert not vendors.exists()
    forced = run(small_package, place, "--no-build", "--force", ASCEND_HOME_PATH=str(toolkit.root))
    assert forced.returncode == 0, forced.stderr


def test_a_build_that_cannot_write_is_one_message(small, tmp_path, capfd, toolkit, monkeypatch):
    write_tree(tmp_path / "unpacked", layout(small))
    (tmp_path / "file").write_text("in the way")
    vendor = tmp_path / "unpacked/packages/vendors/opforge"
    words = ["--package", str(vendor), "--work", str(tmp_path / "file/work"), "--toolkit", str(toolkit.root)]
    monkeypatch.setattr("sys.argv", ["cann", *words])
    assert main() == 1
    message = capfd.readouterr().err
    assert message.startswith("the build stopped: ")
    assert len(message.splitlines()) == 1


def test_missing_program_is_reported_before_any_change(small_package, run, toolkit, vendors):
    (toolkit.root / "bin/opc").unlink()
    place = f"--install-path={vendors.parent}"
    missing = run(small_package, f"--cann={toolkit.root}", place, PATH="/usr/bin:/bin")
    assert missing.returncode == 3
    assert (
        "'opc' is missing, expected it for the build of the package; install it\nnothing was installed; --no-build"
        in missing.stderr
    )
    assert not vendors.exists()
    run(small_package, place)
    before = content(vendors / "opforge")
    again = run(small_package, f"--cann={toolkit.root}", place, PATH="/usr/bin:/bin")
    assert (again.returncode, again.stderr) == (3, missing.stderr)
    assert content(vendors / "opforge") == before


def test_variable_without_a_toolkit_is_rejected_if_it_is_used(small_package, run, tmp_path, vendors):
    place = f"--install-path={vendors.parent}"
    wrong = f"ASCEND_HOME_PATH: got '{tmp_path}', expected the folder of a CANN toolkit"
    refused = run(small_package, place, ASCEND_HOME_PATH=str(tmp_path))
    assert refused.returncode == 2
    assert refused.stderr.startswith(wrong)
    assert "source the set_env.sh of the toolkit, or give --cann=FOLDER or --no-build" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert not vendors.exists()
    noted = run(small_package, place, "--no-build", ASCEND_HOME_PATH=str(tmp_path))
    assert (noted.returncode, noted.stdout.startswith(wrong)) == (0, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cann=/nowhere"], "--cann: got '/nowhere', expected the folder of a CANN toolkit"),
        (["--no-build", "--cann=/"], "expected the folder of a CANN toolkit"),
        (["--uninstall", "--no-build"], "expected an installation"),
    ],
)
def test_options_of_the_build_are_checked(small_package, run, vendors, options, message):
    result = run(small_package, *options, f"--install-path={vendors.parent}")
    assert result.returncode == 2
    assert message in result.stderr


def is_running(process):
    """Return false also for a process that has ended but was not waited for."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes() != b""
    except FileNotFoundError:
        return False


def test_no_space_for_a_build_leaves_the_old_version(small_package, run, toolkit, vendors, tmp_path):
    place = f"--install-path={vendors.parent}"
    run(small_package, place)
    before = content(vendors / "opforge")
    tools = tmp_path / "tools"
    tools.mkdir()
    # The limits stop the unpacked package, then the first files of CMake, then its last ones.
    limits = [("setsid", 1), ("setsid", 12), ("cmake", 1), ("cmake", 12), ("", 0)]
    for program, kilobytes in limits:
        for other in tools.glob("*"):
            if other.name in {"setsid", "cmake"}:
                other.unlink()
        if program:
            (tools / program).write_text(f'#!/bin/bash\nulimit -f {kilobytes}\nexec {shutil.which(program)} "$@"\n')
            (tools / program).chmod(0o755)
        result = subprocess.run(
            [str(small_package), f"--cann={toolkit.root}", place],
            env={"PATH": f"{tools}:/usr/bin:/bin", "TMPDIR": str(tools)},
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode == 0:
            break
        assert result.returncode == 1
        assert "nothing was installed; the finished steps stay in" in result.stderr
        assert content(vendors / "opforge") == before
        if program == "setsid":
            assert result.stderr.startswith("the build stopped: [Errno 27] File too large: ")
        else:
            assert "the step 'configure' failed: ended by SIGXFSZ" in result.stderr
            assert (vendors / ".opforge.build/logs/configure.log").read_text().endswith("ended by SIGXFSZ\n")
        cut_off = vendors / ".opforge.build/tree/op_api/lib/.libcust_opapi.so.1.2"
        cut_off.parent.mkdir(parents=True, exist_ok=True)
        cut_off.write_text("half")
    assert (program, result.returncode) == ("", 0), result.stderr
    listed = [json.loads((vendors / "opforge" / name).read_text())["files"] for name in ("manifest.json", "built.json")]
    others = {"manifest.json", "SHA256SUMS", "built.json", "bin/set_env.bash"}
    assert content(vendors / "opforge") == {*listed[0], *listed[1], *others}


@pytest.mark.parametrize("tell", [os.kill, os.killpg])
def test_a_signal_ends_the_build_with_its_compilers(small_package, run, begin, toolkit, vendors, tmp_path, tell):
    place = f"--install-path={vendors.parent}"
    real = toolkit.root / "bin/opc-real"
    (toolkit.root / "bin/opc").rename(real)
    toolkit.write(
        "bin/opc", f'#!/bin/sh\necho $$ >>"{tmp_path}/started"\nsleep 60\nexec "{real}" "$@"\n', executable=True
    )
    temporary = tmp_path / "installer"
    temporary.mkdir()
    installer = begin({"TMPDIR": str(temporary)}, small_package, "--quiet", f"--cann={toolkit.root}", place)
    while not (tmp_path / "started").exists():
        assert installer.poll() is None
        time.sleep(0.05)
    tell(installer.pid, signal.SIGINT)
    message = installer.communicate(timeout=30)[1]
    assert installer.returncode == 130
    assert message.endswith("stopped by a signal; nothing was installed or removed\n")
    assert list(temporary.iterdir()) == []
    assert names(vendors) == {".opforge.build"}
    for process in (tmp_path / "started").read_text().split():
        until = time.monotonic() + 5
        while is_running(process):
            assert time.monotonic() < until
    real.rename(toolkit.root / "bin/opc")
    resumed = run(small_package, f"--cann={toolkit.root}", place)
    assert resumed.returncode == 0, resumed.stderr
    assert "libcust_opapi.so: already done" in resumed.stdout


def test_killed_build_continues(small_package, run, toolkit, vendors, tmp_path):
    """Kill installer and build at every step of the build; the next run continues after the finished steps."""
    place = f"--install-path={vendors.parent}"
    run(small_package, place)
    before = content(vendors / "opforge")
    tools = tmp_path / "tools"
    tools.mkdir()
    real = toolkit.root / "bin/opc-real"
    (toolkit.root / "bin/opc").rename(real)
    stamps = vendors / ".opforge.build/stamps"
    table = []
    for steps in range(1, 9):
        # The first command that starts after the given number of finished steps kills all processes.
        for wrapper, program in ((tools / "cmake", shutil.which("cmake")), (toolkit.root / "bin/opc", real)):
            check = f'[ "$(ls "{stamps}" | wc -l)" -lt {steps} ] || kill -s KILL -- "-$INSTALLER" 0'
            wrapper.write_text(f'#!/bin/sh\n{check}\nexec "{program}" "$@"\n')
            wrapper.chmod(0o755)
        killed = subprocess.run(
            ["sh", "-c", 'export INSTALLER=$$; exec "$@"', "-", str(small_package), f"--cann={toolkit.root}", place],
            env={"PATH": f"{tools}:/usr/bin:/bin", "TMPDIR": str(tools)},
            start_new_session=True,
            capture_output=True,
            text=True,
            check=False,
        )
        table.append((steps, killed.returncode, sum(not name.startswith(".") for name in names(stamps))))
        if killed.returncode == 0:
            break
        assert killed.returncode == -9, killed.stderr
        assert content(vendors / "opforge") == before, "nothing goes live before all is built"
    print("\nkilled when so many steps were done, exit code, steps kept:", *table, sep="\n")  # noqa: T201  # for -s
    kept = [finished for _, _, finished in table[:-1]]
    assert kept[:5] == [1, 2, 3, 4, 5]
    assert kept == sorted(kept)
    assert all(finished >= steps for steps, _, finished in table[:-1])
    assert table[-1][1] == 0
    assert killed.stdout.count(": already done") == kept[-1]
    assert {"built.json", "op_api/lib/libcust_opapi.so"} <= content(vendors / "opforge")
