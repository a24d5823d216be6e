"""Test signed packages: `opforge pack --sign` and `opforge verify --trusted-keys`."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
from test_verify import TREE, repacked
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.errors import MissingToolError, UserError
from opforge.package.pack import make_package
from opforge.package.signature import NAMESPACE, SIGNATURE, sign, signer
from opforge.package.verify import verify

pytestmark = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="ssh-keygen is not installed")


def new_key(path, options=""):
    """Return a new private key, and the file of trusted keys that names it."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check=True)
    trusted = path.with_suffix(".trusted")
    trusted.write_text(f"builder@example.com {options}{path.with_suffix('.pub').read_text()}")
    return path, trusted


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    return new_key(tmp_path_factory.mktemp("key") / "key")


@pytest.fixture(scope="module")
def signed(small, key, tmp_path_factory):
    return make_package(small, tmp_path_factory.mktemp("signed") / "a.run", key[0])


def test_a_signed_package_is_verified_and_installed(signed, key, run, tmp_path):
    facts, problems = verify(signed, key[1])
    assert (problems, facts["signed_by"]) == ([], "builder@example.com")
    assert run(signed, "--verify").returncode == 0
    assert run(signed, f"--install-path={tmp_path / 'opp'}", "--no-build").returncode == 0


def test_two_builds_have_the_same_bytes(small, signed, key, tmp_path):
    assert make_package(small, tmp_path / "b.run", key[0]).read_bytes() == signed.read_bytes()


@pytest.mark.parametrize(
    "options", ["", 'valid-before="20200101" ', 'namespaces="git" '], ids=["wrong", "expired", "namespace"]
)
def test_a_key_that_is_not_valid_is_refused(signed, key, tmp_path, options):
    _, trusted = new_key(tmp_path / "other", options)
    if options:
        trusted.write_text(f"builder@example.com {options}{key[0].with_suffix('.pub').read_text()}")
    facts, problems = verify(signed, trusted)
    assert facts == {}
    assert problems == [f"{SIGNATURE}: no valid signature of manifest.json by a key in --trusted-keys"]


def test_a_signature_for_another_purpose_is_refused(key, tmp_path):
    command = ["ssh-keygen", "-Y", "sign", "-f", key[0], "-n", "git"]
    found = subprocess.run(command, input=b"text", capture_output=True, check=True).stdout
    assert NAMESPACE != "git"
    assert signer(b"text", found, key[1].read_bytes()) is None
    assert signer(b"text", sign(b"text", key[0]), key[1].read_bytes()) == "builder@example.com"


def _stripped(files):
    return {name: content for name, content in files.items() if name != SIGNATURE}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_stripped, "missing; expected a package signed"),
        (lambda files: files | {TREE + "op_proto/inc/op_proto.h": b"\n"}, "op_proto.h: differs from the manifest"),
        (lambda files: files | {TREE + "manifest.json": b"{}"}, "no valid signature"),
        (lambda files: files | {"install.sh": b"exit 0\n"}, "install.sh: differs"),
        (lambda files: files | {SIGNATURE: "install.sh"}, "a link or device"),
        (lambda files: files | {"../" + SIGNATURE: b""}, "is outside of the package"),
        (lambda files: files | {"elsewhere/manifest.json": files[TREE + "manifest.json"]}, "got 2 files manifest.json"),
        (lambda files: {name.replace(TREE, "packages/x/"): data for name, data in files.items()}, "but is in"),
    ],
)
def test_an_altered_package_is_refused(signed, key, tmp_path, change, said):
    _, problems = verify(repacked(signed, tmp_path / "x.run", change), key[1])
    assert any(said in problem for problem in problems)


def test_single_bit_flips_are_refused(signed, key, tmp_path):
    """Flip sampled bits; the comment in line 2 is not signed, and changes nothing that runs."""
    data, target, draw = signed.read_bytes(), tmp_path / "x.run", np.random.default_rng(26)
    begin, end = data.index(b"\n") + 1, data.index(b"\n", data.index(b"\n") + 1)
    places = [*range(begin), *range(end, len(data))]
    for place in draw.choice(places, 300):
        changed = bytearray(data)
        changed[place] ^= 1 << int(draw.integers(8))
        target.write_bytes(changed)
        try:
            _, problems = verify(target, key[1])
        except UserError:
            continue
        assert problems, f"byte {place}"


def test_commands_name_what_is_wrong(signed, key, tmp_path, monkeypatch):
    answer = CliRunner().invoke(app, ["verify", str(signed), "--trusted-keys", str(key[1])])
    assert answer.exit_code == 0
    assert "signed_by: builder@example.com" in answer.stdout
    no_key = tmp_path / "no_key"
    no_key.write_text("no key")
    with pytest.raises(UserError, match="expected an SSH key that can sign"):
        sign(b"text", no_key)
    with pytest.raises(UserError):
        verify(signed, tmp_path / "absent")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match="ssh-keygen is missing"):
        verify(signed, key[1])
