"""Test the toolkits of five generations: their versions, and the build and search with each.

Not run with a real toolkit: `mock_toolkit.py` has their files. Every form of `compiler/version.info` here is from a
public toolkit, except the newest, which no toolkit has yet, and the malformed ones.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from types import SimpleNamespace

import pytest
from mock_toolkit import GENERATIONS, MockToolkit
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.package.built import built
from opforge.package.cann.toolkit import ToolkitError, check_version, read_toolkit, release, toolkit_version
from opforge.package.doctor.cann_environment import CannEnvironment
from opforge.package.doctor.faults import find_faults
from opforge.package.layout import layout
from opforge.package.pack import SCRIPTS, make_package

VERSIONS = {name: (generation.version_info.encode(), generation.version) for name, generation in GENERATIONS.items()}
OTHER_FORMS = {
    "quotes and carriage returns": (b'Version="9.1.0"\r\nversion_dir="cann"\r\n', "9.1.0"),
    "version_dir first": (b"Version=7.7.0.1.238\nversion_dir=8.2.RC1\n", "8.2.RC1"),
    "only Version": (b"Version=9.0.0\n", "9.0.0"),
    "text after the version": (b"Version=9.1.0 (beta); rm -rf /\n", "9.1.0"),
    "the first of two": (b"Version=9.1.0\nVersion=9.3.0\n", "9.1.0"),
    "other bytes after the version": (b"Version=9.1.0\xff\n", "9.1.0"),
    "another key ends like it": (b"required_package_Version=9.9\nopp_version_dir=9.9\nVersion=8.5.0\n", "8.5.0"),
}
BROKEN = {
    "empty": (b"", ""),
    "no digits": (b"Version=latest\nversion_dir=cann\n", ""),
    "only keys": (b"Version=\nversion_dir=\nversion_dir\n", ""),
    "one number": (b"Version=9\nversion_dir=cann-9\n", ""),
    "too many digits": (b"Version=" + b"9" * 5000 + b".1\n", ""),
    "binary": (bytes(range(256)) * 20, ""),
    "behind the first MiB": (b"\n" * (1 << 20) + b"Version=9.1.0\n", ""),
}


def in_shell(command, *words):
    """Return the output of a function of the installer; its exit code if there is no output."""
    script = f'. "{SCRIPTS}/vendor_tree.sh"; {command} "$@"'
    result = subprocess.run(["sh", "-c", script, "-", *map(str, words)], capture_output=True, text=True, check=False)
    assert result.stderr == ""
    return result.stdout.removesuffix("\n") or result.returncode == 0


@pytest.fixture
def folder(tmp_path):
    """Return a toolkit folder with this version.info."""

    def make(content):
        (tmp_path / "compiler").mkdir()
        (tmp_path / "compiler/version.info").write_bytes(content)
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("content", "version"), (VERSIONS | OTHER_FORMS | BROKEN).values(), ids=VERSIONS | OTHER_FORMS | BROKEN
)
def test_python_and_shell_read_the_same_version(folder, content, version):
    root = folder(content)
    assert toolkit_version(root) == version
    assert in_shell("toolkit_version", root) == (version or True)


@pytest.mark.parametrize("content", [content for content, _ in BROKEN.values()], ids=BROKEN)
def test_a_broken_version_file_is_refused_with_one_message(folder, content):
    root = folder(content)
    with pytest.raises(ToolkitError) as refused:
        read_toolkit(root)
    message = str(refused.value)
    assert message.startswith(
        f"got '{root}', whose compiler/version.info cannot be read or names no version, expected "
    )
    assert message.endswith("; install the toolkit again, or name another one")
    assert in_shell("no_toolkit", root) == message


def test_folder_without_version_file_gives_the_same_message_everywhere(tmp_path):
    with pytest.raises(ToolkitError, match="expected the folder of a CANN toolkit, in which") as refused:
        read_toolkit(tmp_path)
    assert in_shell("no_toolkit", tmp_path) == str(refused.value)


@pytest.mark.parametrize(
    ("name", "compiler_version"),
    [("8.1", "7.7.0.1.238"), ("8.5", "8.5.0.2.220"), ("9.1", "9.1.0"), ("9.2", "9.2.0-beta.2"), ("unknown", "12.0.1")],
)
def test_compiler_version_is_the_version_compared_by_ge(folder, name, compiler_version):
    assert read_toolkit(folder(VERSIONS[name][0])).compiler_version == compiler_version


@pytest.mark.parametrize("arch", ["", "../../x", "x86 64"])
def test_a_processor_that_names_no_folder_is_that_of_this_machine(folder, arch):
    root = folder(VERSIONS["8.1"][0])
    (root / "opp").mkdir()
    (root / "opp/scene.info").write_text(f"os=linux\narch={arch}\n")
    assert read_toolkit(root).machine == platform.machine()


OLD, SUPPORTED, NEWER = (
    ("7.0", "8.0.RC3", "8.0.9"),
    ("8.1.RC1", "8.5.0", "9.0.0", "9.1.0-beta.1"),
    ("9.2.0-beta.2", "9.10", "12.0.1"),
)


@pytest.mark.parametrize("version", OLD)
def test_an_old_toolkit_is_refused(version):
    with pytest.raises(ToolkitError, match=f"got CANN {version}, expected 8.1 to 9.1; use a newer toolkit"):
        check_version(version, ["8.1", "9.1"])


@pytest.mark.parametrize("version", SUPPORTED)
def test_a_supported_toolkit_is_accepted(version):
    assert check_version(version, ["8.1", "9.1"]) == ""


@pytest.mark.parametrize("version", NEWER)
def test_a_newer_toolkit_is_a_warning_with_the_supported_range(version):
    assert check_version(version, ["8.1", "9.1"]) == f"CANN {version} is newer than the supported range 8.1 to 9.1"


def test_python_and_shell_order_releases_the_same():
    versions = (*OLD, *SUPPORTED, *NEWER)
    loop = (
        'all() { for a in "$@"; do for b in "$@"; do ! is_earlier_release "$a" "$b" || echo "$a $b"; done; done; }; all'
    )
    earlier = {f"{version} {other}" for version in versions for other in versions if release(version) < release(other)}
    assert set(in_shell(loop, *versions).splitlines()) == earlier


@pytest.fixture(scope="module", params=GENERATIONS)
def used(request, small, tmp_path_factory):
    """Return a toolkit that built one operator twice: for `pack --cann`, and for the installation of the source
    release.
    """
    root = tmp_path_factory.mktemp("used")
    toolkit, vendors, lines = MockToolkit(root / "cann", request.param), root / "opp/vendors", []
    # The installer continues with the results of `pack --cann` in the same work folder.
    packed = built(small, toolkit.root, vendors / ".opforge.build", 2, lines.append)
    package = make_package(small, root / "package.run")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("ASCEND", "LD_LIBRARY"))}
    command = [str(package), f"--cann={toolkit.root}", f"--install-path={root}/opp"]
    installed = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    return SimpleNamespace(toolkit=toolkit, packed=packed, lines=lines, installed=installed, vendor=vendors / "opforge")


def warning(used):
    """Return the warning about the version of the toolkit; empty if it is in the supported range."""
    version = used.toolkit.generation.version
    return f"{version}, newer than the supported range 8.1 to 9.1" if version in NEWER else ""


def test_a_package_is_built_with_each_generation(used):
    warnings = [line for line in used.lines if line.startswith("warning: ")]
    assert warnings == ([f"warning: CANN {warning(used).replace(',', ' is')}"] if warning(used) else [])
    manifest = json.loads(layout(used.packed)["packages/vendors/opforge/manifest.json"])
    assert manifest["cann"] == [used.toolkit.generation.version] * 2
    library, tiling = (used.packed.products[f"op_impl/ai_core/tbe/op_tiling/{name}"] for name in TILING)
    assert library == tiling


TILING = ("lib/linux/x86_64/libcust_opmaster_rt2.0.so", "liboptiling.so")


def test_a_source_release_is_built_and_installed_with_each_generation(used):
    assert used.installed.returncode == 0, used.installed.stderr
    newer = f"warning: the CANN in {used.toolkit.root} is {warning(used)}\n"
    assert used.installed.stderr == (newer if warning(used) else "")
    assert json.loads((used.vendor / "built.json").read_text())["toolkit"] == used.toolkit.generation.version
    library, tiling = (used.vendor / "op_impl/ai_core/tbe/op_tiling" / name for name in TILING)
    assert library.samefile(tiling)
    assert bool(used.toolkit.calls("opc")) != used.toolkit.generation.has_asc


def test_doctor_finds_the_operator_with_each_generation(used, monkeypatch):
    root, vendor = used.toolkit.root, used.vendor
    environment = {
        "ASCEND_HOME_PATH": str(root),
        "ASCEND_OPP_PATH": f"{root}/opp",
        "ASCEND_CUSTOM_OPP_PATH": str(vendor),
        "LD_LIBRARY_PATH": f"{vendor}/op_api/lib:{root}/lib64",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    answer = CliRunner().invoke(app, ["doctor", "--soc", "Ascend910B1"])
    assert answer.exit_code == 0, answer.output
    repair = "use a supported version if the operators do not work"
    newer = f"warning  {root}: is CANN {warning(used)}; {repair} [cann-untested]"
    rows = [line for line in answer.output.splitlines() if line.startswith(("warning", "fault"))]
    assert rows == ([newer] if warning(used) else [])
    assert "no fault found" in answer.output


def test_doctor_misses_the_tiling_library_of_the_python_code(used, tmp_path):
    shutil.copytree(used.vendor, tmp_path / "opforge")
    (tmp_path / "opforge/op_impl/ai_core/tbe/op_tiling/liboptiling.so").unlink()
    faults = find_faults(CannEnvironment({"ASCEND_CUSTOM_OPP_PATH": str(tmp_path / "opforge")}, ()))
    (missing,) = (fault for fault in faults if fault.check == "library-missing")
    assert missing.place.endswith("/op_tiling/liboptiling.so")
    assert missing.cause == "does not exist; tiling for static shapes (E90003) is not available"
