"""Test signed packages: `opforge pack --sign` and `opforge verify --trusted-keys`."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from test_verify import TREE, repacked
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.errors import MissingToolError, UserError
from opforge.package.pack import make_package
from opforge.package.provenance import PROVENANCE, SBOM
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
    assert problems == [f"{SIGNATURE}: no valid signature of SHA256SUMS by a key in --trusted-keys"]


def test_a_signature_for_another_purpose_is_refused(key, tmp_path):
    command = ["ssh-keygen", "-Y", "sign", "-f", key[0], "-n", "git"]
    found = subprocess.run(command, input=b"text", capture_output=True, check=True).stdout
    assert NAMESPACE != "git"
    assert signer(b"text", found, key[1].read_bytes()) is None
    assert signer(b"text", sign(b"text", key[0]), key[1].read_bytes()) == "builder@example.com"


def _stripped(files):
    return {name: content for name, content in files.items() if name != SIGNATURE}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_stripped, "missing; expected a package signed"),
        (lambda files: files | {TREE + "op_proto/inc/op_proto.h": b"\n"}, "op_proto.h: differs from the manifest"),
        (lambda files: files | {TREE + "manifest.json": b"{}"}, "manifest.json: differs from SHA256SUMS"),
        (lambda files: files | {TREE + "SHA256SUMS": b"\n"}, "no valid signature"),
        (lambda files: {name: data for name, data in files.items() if name != TREE + "SHA256SUMS"}, "no valid sign"),
        (lambda files: files | {"install.sh": b"exit 0\n"}, "install.sh: differs"),
        (lambda files: files | {SIGNATURE: "install.sh"}, "a link or device"),
        (lambda files: files | {"../" + SIGNATURE: b""}, "is outside of the package"),
        (lambda files: files | {"elsewhere/manifest.json": files[TREE + "manifest.json"]}, "got 2 files manifest.json"),
        (lambda files: {name.replace(TREE, "packages/x/"): data for name, data in files.items()}, "but is in"),
    ],
)
def test_an_altered_package_is_refused(signed, key, tmp_path, change, message):
    _, problems = verify(repacked(signed, tmp_path / "x.run", change), key[1])
    assert any(message in problem for problem in problems)


# Change of a signed package -> output of its installer with --trusted-keys.
INSTALLER_REFUSES = {
    "stripped": (_stripped, "the package is not signed, expected a signature by a key in"),
    "header": (lambda files: files | {TREE + "op_proto/inc/op_proto.h": b"\n"}, "the package is damaged"),
    "list": (
        lambda files: (
            files
            | {
                TREE + "op_proto/inc/op_proto.h": b"\n",
                TREE + "SHA256SUMS": _relisted(files, "op_proto/inc/op_proto.h"),
            }
        ),
        "the signature of the package is not valid, expected one by a key in",
    ),
}


def _program(package, out, change):
    """Return the package with changed members, as a program."""
    repacked(package, out, change).chmod(0o755)
    return out


def _relisted(files, path):
    """Return the list of files after a file has become one line break."""
    lines = files[TREE + "SHA256SUMS"].decode().splitlines(keepends=True)
    digest = hashlib.sha256(b"\n").hexdigest()
    return "".join(f"{digest}  {path}\n" if line[66:-1] == path else line for line in lines).encode()


@pytest.mark.parametrize("kind", INSTALLER_REFUSES)
@pytest.mark.parametrize("action", ["--install-path={}/opp", "--extract={}/opp", "--verify"])
def test_the_installer_refuses_an_altered_package(signed, key, run, tmp_path, kind, action):
    change, message = INSTALLER_REFUSES[kind]
    result = run(_program(signed, tmp_path / "x.run", change), action.format(tmp_path), f"--trusted-keys={key[1]}")
    assert result.returncode == (1 if (kind, action) == ("header", "--verify") else 2)
    assert message in result.stderr
    assert not (tmp_path / "opp").exists()


@pytest.mark.parametrize(
    "options", ["", 'valid-before="20200101" ', 'namespaces="git" '], ids=["wrong", "expired", "namespace"]
)
def test_the_installer_refuses_a_key_that_is_not_valid(signed, key, run, tmp_path, options):
    _, trusted = new_key(tmp_path / "other")
    if options:
        trusted.write_text(f"builder@example.com {options}{key[0].with_suffix('.pub').read_text()}")
    result = run(signed, f"--install-path={tmp_path / 'opp'}", f"--trusted-keys={trusted}")
    assert (result.returncode, (tmp_path / "opp").exists()) == (2, False)
    assert "the signature of the package is not valid" in result.stderr


def test_the_installer_accepts_a_trusted_key(signed, key, run, tmp_path):
    result = run(signed, f"--install-path={tmp_path / 'opp'}", "--no-build", f"--trusted-keys={key[1]}")
    assert result.returncode == 0, result.stderr
    assert "signed by builder@example.com" in result.stdout
    refused = run(signed, "--verify", f"--install-path={tmp_path / 'opp'}", f"--trusted-keys={key[1]}")
    assert (refused.returncode, refused.stderr) == (
        2,
        "--trusted-keys checks the package, not installed files; omit --install-path\n",
    )
    for option in ("--trusted-keys=", f"--trusted-keys={tmp_path / 'absent'}"):
        assert run(signed, f"--install-path={tmp_path / 'other'}", option).returncode == 2
    assert run(signed, "--list", f"--trusted-keys={key[1]}").returncode == 2


def test_the_keys_of_the_machine_demand_a_signature(small, signed, key, run, tmp_path):
    """The path in /etc is replaced by one of the test."""

    def moved(files):
        text = files["install.sh"].replace(b"/etc/opforge/trusted_keys", str(key[1]).encode())
        return files | {"install.sh": text}

    unsigned = _program(make_package(small, tmp_path / "u.run"), tmp_path / "a.run", moved)
    assert "the package is not signed" in run(unsigned, f"--install-path={tmp_path / 'opp'}").stderr
    result = run(_program(signed, tmp_path / "b.run", moved), f"--install-path={tmp_path / 'opp'}", "--no-build")
    assert result.returncode == 0, result.stderr


def test_an_older_signed_version_needs_consent(small, key, run, tmp_path):
    target = f"--install-path={tmp_path / 'opp'}"
    for version in ("2.0", "1.9"):
        make_package(dataclasses.replace(small, version=version), tmp_path / f"{version}.run", key[0])
    assert run(tmp_path / "2.0.run", target, "--no-build").returncode == 0
    refused = run(tmp_path / "1.9.run", target, "--no-build", "--force")
    assert refused.returncode == 2
    assert "--force: got version 1.9, expected one that is not older than 2.0; add --allow-downgrade" in refused.stderr
    done = run(tmp_path / "1.9.run", target, "--no-build", "--force", "--allow-downgrade")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def pgp(small, tmp_path_factory):
    """Return files of OpenPGP keys and packages that they signed: a valid key, and one that expired in 2021."""
    folder = tmp_path_factory.mktemp("pgp")
    found = {}
    # The path of a socket of gpg-agent has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="gpg-") as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GNUPGHOME", home)
        for name, options in {"valid": [], "expired": ["--faked-system-time", "20200101T000000"]}.items():
            gpg = ["gpg", "--batch", "--quiet", *options]
            create = ["--passphrase", "", "--quick-generate-key", f"{name}@example.com", "ed25519", "sign", "1y"]
            subprocess.run([*gpg, *create], check=True)
            keys, package = folder / f"{name}.asc", folder / f"{name}.run"
            subprocess.run([*gpg, "--armor", "--output", keys, "--export", f"{name}@example.com"], check=True)
            program = folder / "gpg"
            program.write_text(f'#!/bin/sh\nexec {shutil.which("gpg")} {" ".join(options)} "$@"\n')
            program.chmod(0o755)
            with pytest.MonkeyPatch.context() as past:
                past.setenv("PATH", f"{folder}:{os.environ['PATH']}")
                make_package(small, package, Path(f"openpgp:{name}@example.com"))
            found[name] = package, keys
        with pytest.raises(UserError, match="expected a key that can sign"):
            sign(b"text", Path("openpgp:absent@example.com"))
        subprocess.run(["gpgconf", "--kill", "all"], check=False)
    return found


@pytest.mark.skipif(not shutil.which("gpg"), reason="gpg is not installed")
def test_openpgp_signatures(pgp, signed, key, run, tmp_path):
    package, keys = pgp["valid"]
    facts, problems = verify(package, keys)
    assert (problems, facts["signed_by"]) == ([], "valid@example.com")
    result = run(package, "--extract=" + str(tmp_path / "out"), f"--trusted-keys={keys}")
    assert result.returncode == 0, result.stderr
    assert "signed by valid@example.com" in result.stdout
    assert not (tmp_path / "out" / "gpg").exists()
    changed = _program(package, tmp_path / "x.run", INSTALLER_REFUSES["list"][0])
    for file, trusted in [
        (package, pgp["expired"][1]),
        pgp["expired"],
        (signed, keys),
        (package, key[1]),
        (changed, keys),
    ]:
        assert verify(file, trusted)[1][0].startswith(f"{SIGNATURE}: no valid signature"), (file, trusted)
        refused = run(file, "--verify", f"--trusted-keys={trusted}")
        assert (refused.returncode, "the signature of the package is not valid" in refused.stderr) == (2, True)


def test_documents_list_every_file(small, signed, tmp_path):
    files = {}
    repacked(signed, tmp_path / "x.run", lambda found: files.update(found) or found)
    files = {name.removeprefix(TREE): data for name, data in files.items() if name.startswith(TREE)}
    others = set(files) - {"manifest.json", "SHA256SUMS", "package.info", SBOM, PROVENANCE}
    digests = {name: hashlib.sha256(files[name]).hexdigest() for name in others}
    listed = json.loads(files[SBOM])
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.6")
    assert {part["name"]: part["hashes"][0]["content"] for part in listed["components"]} == digests
    statement = json.loads(files[PROVENANCE])
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert {part["name"]: part["digest"]["sha256"] for part in statement["subject"]} == digests
    parameters = statement["predicate"]["buildDefinition"]["externalParameters"]
    assert parameters["operators"] == sorted(spec.op_type for spec in small.specs)


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.all)])
def test_single_bit_flips_are_refused(signed, key, tmp_path, count):
    """Flip sampled bits; the comment in line 2 is not signed, and changes nothing that runs."""
    data, target, draw = signed.read_bytes(), tmp_path / "x.run", np.random.default_rng(26)
    begin, end = data.index(b"\n") + 1, data.index(b"\n", data.index(b"\n") + 1)
    places = [*range(begin), *range(end, len(data))]
    for place in draw.choice(places, count):
        changed = bytearray(data)
        changed[place] ^= 1 << int(draw.integers(8))
        target.write_bytes(changed)
        try:
            _, problems = verify(target, key[1])
        except UserError:
            continue
        assert problems, f"byte {place}"


def test_commands_report_invalid_keys_and_signatures(signed, key, tmp_path, monkeypatch):
    answer = CliRunner().invoke(app, ["verify", str(signed), "--trusted-keys", str(key[1])])
    assert answer.exit_code == 0
    assert "signed_by: builder@example.com" in answer.stdout
    no_key = tmp_path / "no_key"
    no_key.write_text("no key")
    with pytest.raises(UserError, match="expected a key that can sign"):
        sign(b"text", no_key)
    with pytest.raises(UserError):
        verify(signed, tmp_path / "absent")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match="ssh-keygen is not installed"):
        verify(signed, key[1])
