"""Test `opforge verify`: it checks a package without running it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile

import pytest
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.errors import UserError
from opforge.package.cann.listing import listing
from opforge.package.verify import verify

TREE = "packages/vendors/opforge/"
ACTION = TREE + "scripts/actions/payload.sh"


def test_package_agrees_with_its_manifest(package):
    facts, problems = verify(package)
    assert problems == []
    assert facts["operators"] == ["GroupedBiasAddGrad"]
    assert (facts["release"], facts["cann"]) == ("source", ["8.1", "9.1"])
    answer = CliRunner().invoke(app, ["verify", str(package), "--json"])
    assert answer.exit_code == 0
    assert json.loads(answer.stdout)["problems"] == []


def repacked(package, out, change):
    """Return the package with changed members and a matching head."""
    data = package.read_bytes()
    lines = int(re.search(rb"header_lines=(\d+)", data)[1])
    *head, payload = data.split(b"\n", lines)
    with tarfile.open(fileobj=io.BytesIO(payload)) as archive:
        files = {m.name.removeprefix("./"): archive.extractfile(m).read() for m in archive if m.isreg()}
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in change(files).items():
            member = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            elif content is None:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(member)
            else:
                member.type, member.linkname = tarfile.SYMTYPE, content
                archive.addfile(member)
    payload = gzip.compress(target.getvalue())
    text = b"\n".join(head) + b"\n"
    text = re.sub(rb"payload_bytes=\d+", b"payload_bytes=%d" % len(payload), text)
    digest = hashlib.sha256(payload).hexdigest().encode()
    out.write_bytes(re.sub(rb"payload_sha256=\w+", b"payload_sha256=" + digest, text) + payload)
    return out


def _with_a_list_of_a_build(files):
    """Change a script, and add its SHA-256 to a list that only an installation writes."""
    script = files[TREE + "scripts/uninstall.sh"] + b"# changed\n"
    digests = {"scripts/uninstall.sh": hashlib.sha256(script).hexdigest()}
    own = {TREE + "scripts/uninstall.sh": script, TREE + "built.json": listing({"toolkit": "8.1"}, digests).encode()}
    return files | own


def _behind_a_link(files):
    """Replace the vendor folder by a link to a folder with the same content."""
    moved = {name.replace(TREE, "elsewhere/"): content for name, content in files.items()}
    return {TREE.removesuffix("/"): "../../elsewhere"} | moved


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_with_a_list_of_a_build, "built.json"),
        (_behind_a_link, "a link or no file: packages/vendors/opforge\n"),
        (
            lambda files: files | {TREE + "bin/set_env.bash": b""},
            "not listed: packages/vendors/opforge/bin/set_env.bash",
        ),
        (lambda files: files | {"notes.txt": b""}, "not listed: notes.txt"),
        (lambda files: files | {TREE + "op_api/more": None}, "not listed: packages/vendors/opforge/op_api/more"),
        (
            lambda files: files | {TREE + "op_api/link.h": "../version.info"},
            "a link or no file: packages/vendors/opforge/op",
        ),
        (lambda files: files | {TREE + "version.info": b"changed"}, "version.info"),
    ],
)
def test_payload_contains_exactly_the_files_of_the_manifest(package, run, tmp_path, change, words):
    changed = repacked(package, tmp_path / "changed.run", change)
    changed.chmod(0o755)
    for option in ("--verify", f"--install-path={tmp_path / 'opp'}", f"--extract={tmp_path / 'x'}"):
        result = run(changed, option)
        code = 1 if option == "--verify" else 2
        assert (result.returncode, "the package is damaged; get it again" in result.stderr) == (code, True)
        assert words in result.stdout
    assert [path.name for path in tmp_path.iterdir() if path.name != "tmp"] == ["changed.run"]


def _of_vendor(name):
    """Return a function that changes the vendor name in the lists."""
    changes = {
        TREE + "manifest.json": (b'"vendor": "opforge"', f'"vendor": "{name}"'.encode()),
        TREE + "package.info": (b"vendor=opforge", f"vendor={name}".encode()),
    }
    return lambda files: files | {path: files[path].replace(*change) for path, change in changes.items()}


@pytest.mark.parametrize("content", [b"touch ran\n", None])
def test_installer_rejects_a_changed_or_missing_script(package, run, tmp_path, content):
    def change(files):
        return {name: content if name == ACTION else data for name, data in files.items() if content or name != ACTION}

    changed = repacked(package, tmp_path / "changed.run", change)
    changed.chmod(0o755)
    refused = run(changed, f"--install-path={tmp_path / 'opp'}")
    message = "the package is damaged: scripts/actions/payload.sh is missing or differs from SHA256SUMS; get it again\n"
    assert (refused.returncode, refused.stderr) == (2, message)
    assert not (tmp_path / "opp").exists()


def test_installer_rejects_a_vendor_name_with_a_path(package, run, tmp_path):
    changed = repacked(package, tmp_path / "changed.run", _of_vendor("../../x"))
    changed.chmod(0o755)
    refused = run(changed, f"--install-path={tmp_path / 'opp'}")
    assert (refused.returncode, "its package.info names the vendor '../../x'" in refused.stderr) == (2, True)
    assert not (tmp_path / "opp").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f | {TREE + "version.info": b"x"}, "version.info: differs from the manifest"),
        (lambda f: f | {TREE + "more": b"x"}, f"{TREE}more: not listed in the manifest"),
        (lambda f: f | {"../evil": b"x"}, "../evil: is outside of the package"),
        (lambda f: f | {"/etc/evil": b"x"}, "/etc/evil: is outside of the package"),
        (lambda f: f | {TREE + "version.info": "/etc/passwd"}, "a link or device"),
        (lambda f: f | {"install.sh": b"rm -rf /"}, "install.sh: differs from the one of this opforge"),
        (lambda f: f | {ACTION: b"x"}, "scripts/actions/payload.sh: differs from the one of this opforge"),
        (lambda f: {k: v for k, v in f.items() if not k.endswith("version.info")}, "version.info: missing"),
        (lambda f: {k: v for k, v in f.items() if not k.endswith("manifest.json")}, "got 0 files manifest.json"),
        (_of_vendor("../../x"), "the manifest names the vendor '../../x', but is in packages/vendors/opforge/"),
    ],
)
def test_changed_files_are_named(package, tmp_path, change, message):
    assert verify(repacked(package, tmp_path / "same.run", lambda files: files))[1] == []
    problems = verify(repacked(package, tmp_path / "changed.run", change))[1]
    assert any(message in problem for problem in problems), problems
    assert CliRunner().invoke(app, ["verify", str(tmp_path / "changed.run")]).exit_code == 1


def test_changed_head_and_payload_are_named(package, tmp_path):
    changed = tmp_path / "changed.run"
    changed.write_bytes(package.read_bytes().replace(b"set -eu\n", b"rm -r x\n", 1))
    assert "the head of the file" in verify(changed)[1][0]
    data = bytearray(package.read_bytes())
    data[-9] ^= 1
    changed.write_bytes(data)
    assert "payload: differs" in verify(changed)[1][0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"", "got a file which is empty, expected a .run file of `opforge pack`; name another file"),
        (b"#!/bin/sh\necho", "got a file which"),
    ],
)
def test_other_files_are_rejected(tmp_path, content, message):
    path = tmp_path / "file.run"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        verify(path)


@pytest.mark.parametrize("change", [lambda data: data[:-100], lambda data: data + b"x"])
def test_a_file_of_another_length_is_damaged(package, tmp_path, change):
    other = tmp_path / "other.run"
    other.write_bytes(change(package.read_bytes()))
    result = CliRunner().invoke(app, ["verify", str(other)])
    assert (result.exit_code, "bytes after the head, expected" in result.stdout) == (1, True)
