"""Test the .run file: reproducible, complete, and rejected if it is damaged."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.errors import MissingToolError, UserError
from opforge.codegen.new import new_project
from opforge.codegen.project import Project
from opforge.package.layout import layout
from opforge.package.pack import gather, pack, package_name
from opforge.twin.build import build_runtime, include_flags

TREE = "packages/vendors/opforge/"


def payload(package):
    """Return the archive after the head; the head contains its number of lines."""
    lines = int(package.read_bytes().split(b"header_lines=")[1].split(b"\n")[0])
    return package.read_bytes().split(b"\n", lines)[lines]


@pytest.fixture(scope="module")
def members(package):
    with tarfile.open(fileobj=io.BytesIO(payload(package))) as archive:
        entries = archive.getmembers()
        data = {entry.name.removeprefix("./"): archive.extractfile(entry).read() for entry in entries if entry.isfile()}
    return entries, data


def test_folder_date_umask_and_locale_do_not_change_the_bytes(package, project, tmp_path):
    folder = tmp_path / "a folder"
    folder.mkdir()
    time.sleep(1.1)  # gzip and tar store times in seconds
    elsewhere = tmp_path / "the project elsewhere"
    for name in ("op_proto", "op_host", "op_kernel", "op_plugin"):
        shutil.copytree(project.root / name, elsewhere / name)
    for path in elsewhere.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    program = "import sys; from pathlib import Path; from opforge.package.pack import pack; "
    program += "pack(ops=sys.argv[2:], out=Path(sys.argv[1]))"
    surroundings = {"LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo", "TMPDIR": str(folder), "GZIP": "-1", "PYTHONHASHSEED": "7"}
    subprocess.run(
        [sys.executable, "-c", program, str(folder), "GroupedBiasAddGrad"],
        cwd=elsewhere,
        env=os.environ | surroundings,
        umask=0o077,
        check=True,
    )
    again = folder / package.name
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(package.read_bytes()).digest()
    assert again.stat().st_mode & 0o777 == 0o755


def test_name_contains_system_and_architecture(package):
    assert package.name == package_name()
    assert package.name.startswith("custom_opp_")
    assert package.name.endswith(f"_{platform.machine()}.run")


def test_package_contains_no_machine_paths(package, members, project):
    _, data = members
    head = package.read_bytes().removesuffix(payload(package))
    for text in (head, *data.values()):
        for private in (str(project.root), os.environ.get("HOME", "/root") + "/", platform.node()):
            assert private.encode() not in text


def test_archive_holds_plain_files_below_its_folder(members):
    entries, data = members
    assert data
    for entry in entries:
        assert entry.isfile() or entry.isdir(), f"{entry.name} is a link or device"
        assert not entry.name.startswith("/")
        assert ".." not in entry.name.split("/")
        assert (entry.uid, entry.gid, entry.mtime) == (0, 0, 0)
    modes = {entry.name.removeprefix("./"): entry.mode for entry in entries if entry.isfile()}
    assert modes["install.sh"] & stat.S_IXUSR
    assert modes[TREE + "manifest.json"] == 0o644


def test_manifest_lists_every_file(members):
    _, data = members
    manifest = json.loads(data[TREE + "manifest.json"])
    listed = {TREE + path: digest for path, digest in manifest["files"].items()}
    assert set(data) - set(listed) == {"install.sh", TREE + "manifest.json", TREE + "SHA256SUMS"}
    assert {path: hashlib.sha256(data[path]).hexdigest() for path in listed} == listed


def test_manifest_lists_content_and_missing_parts(members):
    _, data = members
    manifest = json.loads(data[TREE + "manifest.json"])
    assert manifest["operators"] == ["GroupedBiasAddGrad"]
    assert manifest["socs"] == ["ascend910_93", "ascend910b"]
    assert manifest["release"] == "source"
    assert manifest["note"].startswith("source release: a CANN toolkit compiles the libraries and kernels")
    assert "not run with a real toolkit" in manifest["note"]
    assert manifest["cann"] == ["8.1", "9.1"]
    for missing in ("libcust_opapi.so", "kernel binaries", "upgrade.sh", "help.info", "compiler_version"):
        assert any(missing in line for line in manifest["not_included"])
    assert not any(path.endswith((".so", ".o", ".a")) for path in data)
    assert manifest["builtin_op_types"] == ["GroupedBiasAddGrad"]
    devices = ["A200I A2 Box", "Atlas A3 training", "Atlas A3 inference"]
    assert manifest["undocumented"] == {"GroupedBiasAddGrad": devices}
    assert "aclnnGroupedBiasAddGradV2GetWorkspaceSize" in manifest["builtin_aclnn"]


def test_vendor_layout_is_complete(members):
    _, data = members
    tbe = TREE + "op_impl/ai_core/tbe/"
    expected = {
        "install.sh",
        TREE + "version.info",
        TREE + "op_proto/inc/op_proto.h",
        TREE + "op_proto/inc/grouped_bias_add_grad_proto.h",
        TREE + "op_api/include/aclnn_grouped_bias_add_grad.h",
        TREE + "op_api/include/aclnn_grouped_bias_add_grad_v2.h",
        TREE + "framework/tensorflow/npu_supported_ops.json",
        tbe + "config/ascend910b/aic-ascend910b-ops-info.json",
        tbe + "config/ascend910_93/aic-ascend910_93-ops-info.json",
        tbe + "opforge_impl/dynamic/grouped_bias_add_grad.py",
        tbe + "opforge_impl/dynamic/grouped_bias_add_grad.cpp",
        tbe + "opforge_impl/dynamic/grouped_bias_add_grad.h",
        tbe + "opforge_impl/dynamic/grouped_bias_add_grad_tiling_data.h",
        TREE + "src/op_host/grouped_bias_add_grad_def.cpp",
        TREE + "src/op_host/grouped_bias_add_grad_infershape.cpp",
        TREE + "src/op_host/grouped_bias_add_grad_tiling.cpp",
        TREE + "src/op_host/grouped_bias_add_grad_tiling.h",
        TREE + "src/op_host/common/plan.h",
        TREE + "src/op_api/aclnn_grouped_bias_add_grad.cpp",
        TREE + "src/op_plugin/grouped_bias_add_grad_onnx_plugin.cpp",
        TREE + "src/op_plugin/onnx_node.h",
        TREE + "src/op_api/exports.map",
        TREE + "scripts/uninstall.sh",
        TREE + "scripts/cann/__main__.py",
        TREE + "scripts/cann/cmake/8.x/CMakeLists.txt",
        TREE + "scripts/cann/cmake/2026/CMakeLists.txt",
    }
    assert expected - set(data) == set()
    # A source release is not compiled with CANN: the value is that of the oldest supported version.
    assert data[TREE + "version.info"].splitlines()[1:] == [b"release=source", b"custom_opp_compiler_version=7.7"]


def test_packaged_sources_need_only_the_package_and_cann(members, project, tmp_path):
    build_runtime()  # writes generated headers
    _, data = members
    for path, text in data.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(text)
    vendor = tmp_path / TREE
    dynamic = "op_impl/ai_core/tbe/opforge_impl/dynamic"
    folders = [vendor / "src/op_host", vendor / dynamic, vendor / "op_api/include", vendor / "op_proto/inc"]
    includes = [*include_flags(), *(f"-I{folder}" for folder in folders)]
    dtypes = [f"-DDTYPE_{name}=half" for name in ("GRAD_Y", "GRAD_BIAS")]
    dtypes += [f"-DORIG_DTYPE_{name}=DT_FLOAT16" for name in ("GRAD_Y", "GRAD_BIAS")]
    sources = [str(path) for folder in (vendor / "src", vendor / dynamic) for path in sorted(folder.rglob("*.cpp"))]
    assert len(sources) >= 8
    command = [os.environ.get("CXX", "g++"), "-std=c++17", "-fsyntax-only", *includes, *dtypes, *sources]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("place", ["first", "middle", "last", "cut", "longer"])
def test_damaged_package_is_refused(package, run, tmp_path, place):
    data = bytearray(package.read_bytes())
    start = len(data) - len(payload(package))
    if place == "cut":
        del data[-100:]
    elif place == "longer":
        data += b"x"
    else:
        data[{"first": start, "middle": (start + len(data)) // 2, "last": len(data) - 1}[place]] ^= 1
    damaged = tmp_path / package.name
    damaged.write_bytes(data)
    damaged.chmod(0o755)
    target = tmp_path / "target"
    for option in ("--verify", f"--install-path={target}"):
        result = run(damaged, option, SETUP_NOCHECK="1")
        assert (result.returncode, "the package is damaged: got" in result.stderr) == (2, True)
    assert not target.exists()


def test_truncated_head_is_an_error(package, tmp_path):
    head = package.read_bytes().removesuffix(payload(package))
    lines = [len(b"".join(head.splitlines(keepends=True)[:count])) for count in range(2, head.count(b"\n") + 1)]
    cut = tmp_path / package.name
    for length in sorted({12, *lines, *range(20, len(head), 61)}):
        cut.write_bytes(head[:length])
        result = subprocess.run(["sh", str(cut), "--help"], capture_output=True, text=True, check=False)
        assert result.returncode == 2, f"{length} of {len(head)} bytes"
        assert result.stderr


def test_missing_makeself_is_reported_with_a_fix(project, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match="apt-get install makeself"):
        pack(out=tmp_path, project=project)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["a file", "not writable", "package is a folder"])
def test_invalid_output_folder_is_one_message_without_files(project, tmp_path, kind):
    out = Path("/proc/opforge") if kind == "not writable" else tmp_path / "out"
    if kind == "a file":
        out.write_text("mine")
    elif kind == "package is a folder":
        (out / package_name()).mkdir(parents=True)
    with pytest.raises(UserError, match=rf"--output: got '{out}' .*can be written; select another folder with --out"):
        pack(out=out, project=project)
    if kind == "package is a folder":
        assert [path.name for path in out.iterdir()] == [package_name()]


def test_unusable_temporary_folder_is_named(project, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(UserError, match=r"absent.*set TMPDIR"):
        pack(out=tmp_path / "out", project=project)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"socs": ["ascend910c"]},
            r"--product: got 'ascend910c', expected an SoC directory: ascend910b, ascend910, ascend910_93$",
        ),
        ({"socs": ["ascend910"], "ops": ["GroupedBiasAddGrad"]}, "but the operators support ascend910_93, ascend910b"),
        ({"socs": ["Ascend910B"]}, "got 'Ascend910B', expected the directory of this chip, ascend910$"),
        ({"socs": ["Ascend910B1"]}, "got 'Ascend910B1', expected the directory of this chip, ascend910b$"),
        (
            {"ops": ["GroupedBiasGrad"]},
            "--ops: got 'GroupedBiasGrad', not an operator of opforge; did you mean 'GroupedBiasAddGrad'",
        ),
        ({"vendor": "../x"}, "--vendor-name: got '../x', expected lower case letters"),
    ],
)
def test_bad_choice_is_refused(project, tmp_path, options, message):
    with pytest.raises(UserError, match=message):
        pack(out=tmp_path, project=project, **options)
    assert list(tmp_path.iterdir()) == []


def test_sources_only_and_a_toolkit_are_a_contradiction(tmp_path, monkeypatch):
    words = ["pack", "--no-build", "--ops", "GroupedBiasAddGrad", "--output", str(tmp_path)]
    refused = CliRunner().invoke(app, [*words, "--cann", str(tmp_path)])
    assert "--no-build: got --cann also, expected one of them" in str(refused.exception)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    assert CliRunner().invoke(app, words).exit_code == 0


def test_operator_without_kernel_is_refused(project, tmp_path):
    unfinished = tmp_path / "project"
    for name in ("op_proto", "op_host", "op_plugin"):
        (unfinished / name).parent.mkdir(exist_ok=True)
        (unfinished / name).symlink_to(project.root / name)
    with pytest.raises(UserError, match=r"op_kernel/grouped_bias_add_grad\.h is missing"):
        pack(out=tmp_path / "out", project=Project(unfinished), ops=["GroupedBiasAddGrad"])
    with pytest.raises(UserError, match="no operator"):
        pack(out=tmp_path / "out", project=Project(tmp_path))
    assert not (tmp_path / "out").exists()


def test_soc_directory_and_vendor_name_choose_the_folders(project, tmp_path, run):
    package = pack(socs=["ascend910b"], vendor="acme", out=tmp_path / "out", project=project)
    listing = run(package, "--list").stdout
    assert "vendor: acme" in listing
    assert "products: ascend910b\n" in listing
    assert "  op_impl/ai_core/tbe/acme_impl/dynamic/grouped_bias_add_grad.py" in listing
    assert "ascend910_93" not in listing


def test_vendor_is_the_one_that_the_project_names(tmp_path, monkeypatch):
    folder = new_project("LeakyClip", tmp_path / "clip", "elementwise")
    monkeypatch.chdir(folder)
    for options, vendor in (([], "leaky_clip"), (["--vendor-name", "acme"], "acme")):
        answer = CliRunner().invoke(app, ["pack", "--json", "--no-build", *options])
        assert json.loads(answer.stdout)["vendor"] == vendor, answer.output
    assert "--vendor-name" not in (folder / "build.sh").read_text()
    assert gather(Project(folder), None, None, None).version == "0.1.0"
    text = (folder / "pyproject.toml").read_text()
    (folder / "pyproject.toml").write_text(text.replace('"0.1.0"', '"1.10.rc1"'))
    assert gather(Project(folder), None, None, None).version == "1.10.rc1"
    (folder / "pyproject.toml").unlink()
    assert (Project(folder).vendor, Project(folder).version) == ("opforge", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.opforge]\nvendor = 'My Company'", r"vendor of .tool.opforge.: got 'My Company', expected lower case"),
        ("[tool.opforge]\nvendor = 1", "got 1, expected lower case"),
        ("[tool.opforge", "got 'Expected .*, expected TOML with vendor"),
        ("tool = 1", "expected TOML with vendor"),
        ("[tool.opforge]\nversion = '1\"'", "version of .tool.opforge.: got '1\"', expected numbers and dots"),
    ],
)
def test_unusable_vendor_of_a_project_is_named_with_its_file(tmp_path, text, message):
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(UserError, match=f"{tmp_path}/pyproject.toml: .*{message}"):
        _ = Project(tmp_path).vendor + Project(tmp_path).version


def test_suffix_renames_the_operators_and_hides_no_builtin(project, tmp_path):
    suffixed = Project(project.root, "Custom")
    contents = gather(suffixed, None, ["GroupedBiasAddGradCustom"], "opforge")
    files = layout(contents)
    manifest = json.loads(files[TREE + "manifest.json"])
    assert (manifest["operators"], manifest["builtin_op_types"], manifest["builtin_aclnn"]) == (
        ["GroupedBiasAddGradCustom"],
        [],
        [],
    )
    dynamic = TREE + "op_impl/ai_core/tbe/opforge_impl/dynamic/grouped_bias_add_grad"
    assert {f"{dynamic}_custom.py", f"{dynamic}_custom.cpp", f"{dynamic}.h"} <= set(files)
    assert f"{dynamic}.cpp" not in files
    answer = CliRunner().invoke(
        app, ["pack", "--op-suffix", "Custom", "--ops", "ConvTbcBackward", "--output", str(tmp_path)]
    )
    assert "did you mean 'ConvTbcBackwardCustom'" in str(answer.exception)
