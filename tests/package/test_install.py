"""Test the installation and the removal of the package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


def tree(folder):
    """Return the content of every file below `folder` by relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def target(tmp_path):
    return tmp_path / "a täger's folder"


@pytest.fixture
def opp(tmp_path):
    """Return an ASCEND_OPP_PATH in which two other vendors are installed."""
    folder = tmp_path / "opp"
    for vendor in ("alpha", "beta"):
        (folder / "vendors" / vendor).mkdir(parents=True)
        (folder / "vendors" / vendor / "data").write_text(vendor)
    (folder / "vendors" / "config.ini").write_text("load_priority=alpha,beta\nother=1\n")
    return folder


@pytest.mark.parametrize("separator", [(), ("--",)])
def test_install_and_uninstall_in_a_folder_with_spaces(package, run, target, separator):
    installed = run(package, *separator, f"--install-path={target}")
    assert installed.returncode == 0, installed.stderr
    assert "No CANN toolkit was found. Only the sources are installed." in installed.stdout
    vendor = target / "vendors" / "opforge"
    manifest = json.loads((vendor / "manifest.json").read_text())
    assert set(tree(vendor)) == {*manifest["files"], "manifest.json", "SHA256SUMS", "bin/set_env.bash"}
    assert not (target / "vendors" / "config.ini").exists()
    assert [path.name for path in (target / "vendors").iterdir()] == ["opforge"]

    assert run(package, "--verify", f"--install-path={target}").returncode == 0
    removed = run(package, *separator, "--uninstall", f"--install-path={target}")
    assert removed.returncode == 0, removed.stderr
    assert list(target.iterdir()) == []


def test_set_env_puts_the_vendor_first_and_once(package, run, target):
    run(package, f"--install-path={target}")
    vendor = target / "vendors" / "opforge"
    script = '. "$1"; . "$1"; printf "%s\\n" "$ASCEND_CUSTOM_OPP_PATH" "$LD_LIBRARY_PATH"'
    for shell in ("bash", "sh"):
        before = {"ASCEND_CUSTOM_OPP_PATH": "/other/vendors/x", "PATH": "/usr/bin:/bin"}
        command = [shell, "-euc", script, "-", str(vendor / "bin/set_env.bash")]
        shown = subprocess.run(command, env=before, capture_output=True, text=True, check=True).stdout
        assert shown.splitlines() == [f"{vendor}:/other/vendors/x", f"{vendor}/op_api/lib"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--instal-path=/x"], "unknown option '--instal-path=/x'"),
        (["--install-path"], "unknown option '--install-path'"),
        (["--install-path="], "expected an absolute path"),
        (["--install-path=opp"], "--install-path: got 'opp', expected an absolute path"),
        (["--install-path=/a:b"], "without a colon"),
        (["--install-path=/a", "--install-path=/b"], "got --install-path twice"),
        (["--verify", "--uninstall"], "got --verify and --uninstall"),
        (["--uninstall", "--force"], "expected an installation"),
        (["--rollback", "--upgrade"], "expected an installation"),
        (["--upgrade"], "there is nothing to upgrade"),
        (["--rollback"], "keeps no earlier version of opforge"),
        (["--extract="], "--extract: got nothing"),
        (["--extract=/"], "expected a new folder"),
        (["--install-path=/opp/vendors"], "expected the folder above 'vendors'; give --install-path=/opp"),
        (["-q"], "unknown option '-q'"),
        (["/opp/x"], "unknown option '/opp/x'"),
        ([], "no target: give --install-path=FOLDER"),
    ],
)
def test_bad_option_installs_nothing(package, run, target, options, message):
    result = run(
        package, *([f"--install-path={target}"] if options and "install-path" not in options[0] else []), *options
    )
    assert result.returncode == 2
    assert message in result.stderr
    assert not target.exists()


def test_quiet_prints_nothing(package, run, target):
    result = run(package, "--quiet", f"--install-path={target}")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_help_lists_every_option(package, run):
    result = run(package, "--help")
    assert result.returncode == 0
    options = (
        "quiet install-path= install-for-all force uninstall replace-builtin upgrade rollback extract= list verify "
        "cann= no-build"
    )
    for option in (f"--{name}" for name in options.split()):
        assert option in result.stdout


@pytest.mark.parametrize("umask", [0o077, 0o000])
def test_modes_do_not_depend_on_umask(package, target, umask, tmp_path):
    for options, file_mode, folder_mode in (([], 0o640, 0o750), (["--install-for-all"], 0o644, 0o755)):
        place = target / oct(file_mode)
        command = [str(package), f"--install-path={place}", "--quiet", *options]
        subprocess.run(command, umask=umask, check=True, env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)})
        vendor = place / "vendors" / "opforge"
        assert {path.stat().st_mode & 0o777 for path in vendor.rglob("*") if path.is_dir()} == {folder_mode}
        runnable = {path.name for path in vendor.rglob("*") if path.is_file() and path.stat().st_mode & 0o111}
        assert runnable == {"uninstall.sh"}
        assert (vendor / "manifest.json").stat().st_mode & 0o777 == file_mode


def test_install_for_all_adds_permissions_to_existing_files(package, run, opp):
    vendors = opp / "vendors"
    script = vendors / "opforge/scripts/uninstall.sh"
    vendors.chmod(0o750)
    (vendors / "config.ini").chmod(0o640)
    place = {"ASCEND_OPP_PATH": str(opp)}
    assert run(package, "--replace-builtin", **place).returncode == 0
    assert (vendors / "opforge/version.info").stat().st_mode & 0o007 == 0
    for again in range(2):
        opened = run(package, "--replace-builtin", "--install-for-all", *(["--force"] * again), **place)
        assert (opened.returncode, opened.stderr) == (0, "")
        assert "nothing was done" not in opened.stdout
        for path in (vendors, vendors / "config.ini", *(vendors / "opforge").rglob("*")):
            assert path.stat().st_mode & 0o005 == (0o005 if path.is_dir() or path == script else 0o004)
        vendors.chmod(0o750)
        (vendors / "config.ini").chmod(0o640)


def test_the_same_package_again_changes_nothing(package, run, target):
    run(package, f"--install-path={target}")
    before = tree(target)
    again = run(package, f"--install-path={target}")
    assert again.returncode == 0
    assert "nothing was done" in again.stdout
    assert tree(target) == before


def test_other_package_of_the_vendor_is_kept_without_force(package, run, target):
    run(package, f"--install-path={target}")
    vendor = target / "vendors" / "opforge"
    info = vendor / "package.info"
    info.write_text(
        info.read_text().replace("operators=GroupedBiasAddGrad", "operators=GroupedBiasAddGrad OtherGrad *")
    )
    (vendor / "notes.txt").write_text("mine")
    before = tree(target)
    refused = run(package, f"--install-path={target}")
    assert refused.returncode == 2
    assert "removes: * OtherGrad notes.txt" in refused.stderr
    assert "give --force to replace it" in refused.stderr
    assert tree(target) == before

    forced = run(package, "--force", f"--install-path={target}")
    assert forced.returncode == 0, forced.stderr
    assert "* OtherGrad notes.txt" in forced.stdout
    assert "operators=GroupedBiasAddGrad\n" in info.read_text()
    assert {path.name for path in (target / "vendors").iterdir()} == {"opforge", ".opforge.previous"}
    assert run(package, "--uninstall", f"--install-path={target}").returncode == 0
    assert list(target.iterdir()) == []


def test_other_vendors_and_foreign_files_survive_an_uninstall(package, run, target):
    run(package, f"--install-path={target}")
    neighbour = target / "vendors" / "other"
    neighbour.mkdir()
    (neighbour / "file").write_text("theirs")
    notes = target / "vendors" / "opforge" / "op_api" / "notes.txt"
    notes.write_text("mine")
    script = target / "vendors" / "opforge" / "scripts" / "uninstall.sh"
    result = subprocess.run(["sh", str(script)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert str(notes) in result.stdout
    assert set(tree(target)) == {"vendors/other/file", "vendors/opforge/op_api/notes.txt"}


def test_uninstall_follows_no_link_out_of_the_package(package, run, target, tmp_path):
    run(package, f"--install-path={target}")
    include = target / "vendors" / "opforge" / "op_api" / "include"
    outside = tmp_path / "outside"
    include.rename(outside)
    include.symlink_to(outside)
    before = tree(outside)
    result = run(package, "--uninstall", f"--install-path={target}")
    assert "a link leads out of the package" in result.stderr
    assert before
    assert tree(outside) == before


@pytest.mark.parametrize("kind", ["cut off", "cut between lines", "no text", "another line", "empty", "path outside"])
def test_damaged_list_removes_nothing(package, run, target, kind):
    run(package, f"--install-path={target}")
    vendor = target / "vendors" / "opforge"
    sums = vendor / "SHA256SUMS"
    text = sums.read_bytes()
    lines = text.splitlines(keepends=True)
    outside = b"0" * 64 + b"  x/../../../treasure\n"
    damaged = {
        "cut off": text[: len(text) // 2],
        "cut between lines": b"".join(lines[:-1]),
        "no text": b"\0\xff",
        "another line": b"".join([*lines[:-5], b"    ?\n", *lines[-5:]]),
        "empty": b"",
        "path outside": outside + text,
    }
    sums.write_bytes(damaged[kind])
    (target / "treasure").write_text("mine")
    before = tree(target)
    script = ["sh", str(vendor / "scripts" / "uninstall.sh")]
    own = subprocess.run(script, capture_output=True, text=True, check=False)
    for result in (own, run(package, "--uninstall", f"--install-path={target}")):
        assert (result.returncode, len(result.stderr.splitlines())) == (2, 1), result.stderr
        assert "is damaged; nothing was removed; replace the package with --force" in result.stderr
        assert tree(target) == before
    if kind == "cut off":
        assert run(package, "--force", f"--install-path={target}").returncode == 0
        assert run(package, "--uninstall", f"--install-path={target}").returncode == 0
        assert tree(target) == {"treasure": b"mine"}


@pytest.mark.parametrize("link", ["vendors", "vendors/opforge", "vendors/.opforge.previous"])
def test_link_in_the_target_is_refused(package, run, target, tmp_path, link):
    outside = tmp_path / "outside"
    outside.mkdir()
    (target / link).parent.mkdir(parents=True)
    (target / link).symlink_to(outside)
    result = run(package, "--force", f"--install-path={target}")
    assert result.returncode == 2
    assert "is a link" in result.stderr
    assert list(outside.iterdir()) == []


def test_verify_names_changed_files(package, run, target):
    run(package, f"--install-path={target}")
    vendor = target / "vendors" / "opforge"
    (vendor / "version.info").write_text("changed")
    (vendor / "op_proto" / "inc" / "op_proto.h").unlink()
    result = run(package, "--verify", f"--install-path={target}")
    assert result.returncode == 1
    assert "version.info" in result.stdout
    assert "op_proto/inc/op_proto.h" in result.stdout
    assert "op_api" not in result.stdout


def test_failed_copy_leaves_the_old_package(package, run, target, tmp_path):
    run(package, f"--install-path={target}")
    before = tree(target)
    (target / "vendors" / "opforge" / "extra").write_text("x")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "cp").write_text('#!/bin/sh\n/bin/cp "$@"\nexit 1\n')
    (tools / "cp").chmod(0o755)
    result = run(package, "--force", f"--install-path={target}", PATH=f"{tools}:/usr/bin:/bin")
    assert result.returncode == 2
    assert "nothing was installed" in result.stderr
    assert set(tree(target)) == {*before, "vendors/opforge/extra"}


def under_way(vendors):
    """Return the work folder of a killed installer."""
    work = vendors / ".opforge.work"
    work.mkdir()
    (work / str(work.stat().st_ino)).mkdir()
    return work


def test_killed_installation_is_recovered(package, run, target):
    run(package, f"--install-path={target}")
    vendors = target / "vendors"
    before = tree(vendors / "opforge")
    kept = {".opforge.new.4711", ".opforge.old.4711", ".opforge.gone.4711", ".other.work", "config.ini.new"}
    for name in kept:
        (vendors / name).mkdir()
    work = under_way(vendors)
    (work / "new").mkdir()
    (vendors / "opforge").rename(work / "old")

    restored = run(package, f"--install-path={target}")
    assert restored.returncode == 0, restored.stderr
    assert "opforge is restored" in restored.stdout
    assert "nothing was done" in restored.stdout
    assert tree(vendors / "opforge") == before
    assert {path.name for path in vendors.iterdir()} == {"opforge", *kept}

    (under_way(vendors) / "old").mkdir()
    assert run(package, "--uninstall", f"--install-path={target}").returncode == 0
    assert {path.name for path in vendors.iterdir()} == kept


def test_folder_without_manifest_is_unchanged(package, run, target):
    vendor = target / "vendors" / "opforge"
    vendor.mkdir(parents=True)
    (vendor / "data").write_text("mine")
    removed = run(package, "--uninstall", f"--install-path={target}")
    assert removed.returncode == 2
    assert "has no SHA256SUMS" in removed.stderr
    refused = run(package, f"--install-path={target}")
    assert refused.returncode == 2
    assert "--force" in refused.stderr
    assert "--uninstall" not in refused.stderr
    assert run(package, "--force", f"--install-path={target}").returncode == 0


@pytest.mark.parametrize("option", ["--verify", "--uninstall", "--quiet"])
def test_folder_of_another_user_is_called_unreadable(package, target, option):
    with tempfile.TemporaryDirectory() as shared:
        Path(shared).chmod(0o777)
        file = shutil.copy(package, shared)
        (Path(shared) / "opp" / "vendors").mkdir(parents=True)
        (Path(shared) / "opp" / "vendors").chmod(0)
        result = subprocess.run(
            [file, option, f"--install-path={shared}/opp"],
            user=65534 if os.getuid() == 0 else None,
            env={"PATH": "/usr/bin:/bin", "TMPDIR": shared},
            capture_output=True,
            text=True,
            check=False,
        )
        (Path(shared) / "opp" / "vendors").chmod(0o700)
    assert result.returncode == 2
    assert f"{shared}/opp/vendors cannot be read by" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("option", ["--uninstall", "--rollback", "uninstall.sh"])
def test_package_of_another_user_is_kept(package, option):
    with tempfile.TemporaryDirectory() as shared:
        Path(shared).chmod(0o755)
        file = shutil.copy(package, shared)
        opp = Path(shared) / "opp"
        for force in ([], ["--force"]):
            subprocess.run([file, "--quiet", "--install-for-all", *force, f"--install-path={opp}"], check=True)
        folders = [opp / "vendors", *(path for path in opp.rglob("*") if path.is_dir())]
        for folder in folders:
            folder.chmod(0o555)
        before = tree(opp)
        script = opp / "vendors/opforge/scripts/uninstall.sh"
        result = subprocess.run(
            ["sh", script] if option == "uninstall.sh" else [file, option, f"--install-path={opp}"],
            user=65534 if os.getuid() == 0 else None,
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert tree(opp) == before
        for folder in folders:
            folder.chmod(0o755)
    assert result.returncode == 2
    assert f"{opp}/vendors cannot be changed by" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("lost", ["find", "cmp", "flock", "gzip"])
def test_missing_system_program_is_reported_before_any_change(package, run, target, tmp_path, lost):
    tools = tmp_path / "tools"
    tools.mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name != lost:
            (tools / program.name).symlink_to(program)
    result = run(package, f"--install-path={target}", PATH=str(tools))
    assert result.returncode == 3
    assert f"{lost} is not installed, expected it for the installer; install" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (target / "vendors").exists()


def test_no_space_to_unpack_is_one_line(package, target, tmp_path):
    result = subprocess.run(
        ["bash", "-c", f'ulimit -f 4; exec "{package}" --install-path="{target}"'],
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 3
    assert "set TMPDIR to a folder with free space" in result.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stdout", [">/dev/full", ">&-"])
def test_unused_output_changes_no_result(package, target, stdout):
    def call(*options):
        command = ["sh", "-c", f'exec "$@" {stdout}', "-", str(package), *options]
        return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)

    place = f"--install-path={target}"
    for action in (["--force"], ["--verify"], ["--uninstall"]):
        result = call(*action, place)
        assert (result.returncode, result.stderr) == (0, "")
    for action in ("--list", "--help"):
        result = call(action)
        full = (2, "stdout cannot be written\n")
        assert (result.returncode, result.stderr) == (full if "full" in stdout else (0, ""))


def test_full_disk_is_one_line(package, run, target, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "cp").write_text('#!/bin/sh\nfor file in a b c; do echo "cp: $file: No space left" >&2; done\nexit 1\n')
    (tools / "cp").chmod(0o755)
    result = run(package, f"--install-path={target}", PATH=f"{tools}:/usr/bin:/bin")
    assert result.returncode == 2
    assert result.stderr == f"copying to {target}/vendors failed; nothing was installed: cp: a: No space left\n"


def test_custom_path_must_be_one_folder_above_the_vendors(package, run, target):
    two = run(package, ASCEND_CUSTOM_OPP_PATH=f"{target}:/other")
    assert two.returncode == 2
    assert "without a colon" in two.stderr
    assert run(package, ASCEND_CUSTOM_OPP_PATH=str(target)).returncode == 0
    vendor = target / "vendors" / "opforge"
    inside = run(package, "--force", ASCEND_CUSTOM_OPP_PATH=str(vendor))
    assert inside.returncode == 2
    assert f"give --install-path={target}" in inside.stderr
    assert not (vendor / "vendors").exists()


@pytest.mark.parametrize("by_option", [False, True])
def test_toolkit_folder_needs_consent_to_hide_builtin_operators(package, run, opp, by_option):
    options = [f"--install-path={opp}/../opp"] if by_option else []
    before = tree(opp)
    refused = run(package, *options, ASCEND_OPP_PATH=str(opp))
    assert refused.returncode == 2
    for hidden in (
        "op type GroupedBiasAddGrad",
        "aclnnGroupedBiasAddGrad\n",
        "aclnnGroupedBiasAddGradV2GetWorkspaceSize",
    ):
        assert hidden in refused.stderr
    assert "--replace-builtin" in refused.stderr
    assert tree(opp) == before


def test_folder_of_a_toolkit_is_recognized_by_its_content(package, run, opp, tmp_path):
    (opp / "built-in").mkdir()
    before = tree(opp)
    for elsewhere in ({}, {"ASCEND_OPP_PATH": str(tmp_path)}):
        refused = run(package, f"--install-path={opp}", **elsewhere)
        assert (refused.returncode, "op type GroupedBiasAddGrad" in refused.stderr) == (2, True)
    assert tree(opp) == before
    assert run(package, "--replace-builtin", f"--install-path={opp}").returncode == 0
    assert (opp / "vendors/config.ini").read_text() == "load_priority=opforge,alpha,beta\nother=1\n"


def test_toolkit_folder_keeps_the_order_of_other_vendors(package, run, opp):
    before = tree(opp)
    assert run(package, "--replace-builtin", ASCEND_OPP_PATH=str(opp)).returncode == 0
    config = opp / "vendors" / "config.ini"
    assert config.read_text() == "load_priority=opforge,alpha,beta\nother=1\n"
    assert not (opp / "vendors" / "opforge" / "bin").exists()
    assert run(package, "--uninstall", ASCEND_OPP_PATH=str(opp)).returncode == 0
    assert tree(opp) == before


def test_toolkit_folder_is_rejected_as_target(package, run, opp):
    (opp / "built-in").mkdir()
    refused = run(package, "--replace-builtin", ASCEND_OPP_PATH=str(opp.parent))
    assert (refused.returncode, f"expected its folder opp; give --install-path={opp}" in refused.stderr) == (2, True)
    assert not (opp.parent / "vendors").exists()


def test_byte_order_mark_hides_no_vendor(package, run, opp):
    (opp / "vendors/config.ini").write_bytes(b"\xef\xbb\xbfload_priority=alpha,beta\n")
    assert run(package, "--replace-builtin", ASCEND_OPP_PATH=str(opp)).returncode == 0
    assert (opp / "vendors/config.ini").read_text() == "load_priority=opforge,alpha,beta\n"


def test_lost_list_of_vendors_is_repaired(package, run, opp):
    run(package, "--replace-builtin", ASCEND_OPP_PATH=str(opp))
    config = opp / "vendors" / "config.ini"
    for found, repaired in ((None, "opforge"), ("load_priority=beta\nx=1\n", "opforge,beta\nx=1")):
        config.unlink()
        if found:
            config.write_text(found)
        again = run(package, "--replace-builtin", ASCEND_OPP_PATH=str(opp))
        assert again.returncode == 0
        assert "config.ini did not name it and does now" in again.stdout
        assert config.read_text() == f"load_priority={repaired}\n"
    config.write_bytes(b"load_priority=beta,opforge\r\n")
    assert "nothing was done" in run(package, "--replace-builtin", ASCEND_OPP_PATH=str(opp)).stdout
    assert config.read_bytes() == b"load_priority=beta,opforge\r\n"


def test_writing_the_list_follows_no_link(package, run, opp, tmp_path):
    treasure = tmp_path / "treasure"
    treasure.write_text("mine")
    under_way(opp / "vendors").joinpath("config.ini").symlink_to(treasure)
    assert run(package, "--replace-builtin", ASCEND_OPP_PATH=str(opp)).returncode == 0
    assert treasure.read_text() == "mine"
    assert (opp / "vendors/config.ini").read_text() == "load_priority=opforge,alpha,beta\nother=1\n"


def test_vendor_list_must_be_a_regular_file(package, run, opp):
    (opp / "vendors/config.ini").unlink()
    (opp / "vendors/config.ini").mkdir()
    refused = run(package, "--replace-builtin", ASCEND_OPP_PATH=str(opp))
    assert refused.returncode == 2
    assert "config.ini is not a file that" in refused.stderr
    assert not (opp / "vendors/opforge").exists()


def test_toolkit_folder_that_does_not_exist_is_refused(package, run, tmp_path):
    refused = run(package, ASCEND_OPP_PATH=str(tmp_path / "nowhere"))
    assert refused.returncode == 2
    assert "which is not a folder; source the set_env.sh" in refused.stderr
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("text", ["# ours\n", "other=1\n", "\n"])
def test_other_lines_of_the_list_survive_an_uninstall(package, run, opp, text):
    config = opp / "vendors" / "config.ini"
    config.write_text(text)
    assert run(package, "--replace-builtin", ASCEND_OPP_PATH=str(opp)).returncode == 0
    assert config.read_text() == f"load_priority=opforge\n{text}"
    assert run(package, "--uninstall", ASCEND_OPP_PATH=str(opp)).returncode == 0
    assert config.read_text() == text


def test_first_vendor_of_a_toolkit_folder_makes_and_removes_the_list(package, run, tmp_path):
    opp = tmp_path / "fresh opp"
    opp.mkdir()
    assert run(package, "--replace-builtin", ASCEND_OPP_PATH=str(opp)).returncode == 0
    config = opp / "vendors" / "config.ini"
    assert config.read_text() == "load_priority=opforge\n"
    assert config.stat().st_mode & 0o777 == 0o640
    script = opp / "vendors" / "opforge" / "scripts" / "uninstall.sh"
    subprocess.run(["sh", str(script)], check=True, capture_output=True)
    assert list(opp.iterdir()) == []


def test_uninstall_without_installation_is_rejected(package, run, target):
    result = run(package, "--uninstall", f"--install-path={target}")
    assert result.returncode == 2
    assert "opforge is not installed" in result.stderr


def test_unreadable_target_is_one_clear_message(package, run, tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    result = run(package, f"--install-path={blocker}/opp")
    assert result.returncode == 2
    assert "cannot be made; choose a folder that you may write" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert Path(blocker).read_text() == "in the way"
