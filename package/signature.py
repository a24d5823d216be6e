"""Sign the list of files of a package, and check the signature; `ssh-keygen` or `gpg` does the cryptography."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from opforge.codegen.errors import UserError, not_installed
from opforge.codegen.files import read_regular
from opforge.codegen.printing import path_text, shown

SIGNATURE = "SHA256SUMS.sig"
# A signature is valid only for this purpose: a signature of a mail or of a commit is rejected.
NAMESPACE = "opforge-package"
# `--sign openpgp:ID` selects a key of gpg; other values are the file of an SSH key.
OPENPGP = "openpgp:"
_MOST_KEYS_BYTES = 1 << 20
_SSH_SIGNATURE, _PGP_SIGNATURE = b"-----BEGIN SSH SIGNATURE-----", b"-----BEGIN PGP SIGNATURE-----"
_PGP_KEYS = b"-----BEGIN PGP PUBLIC KEY BLOCK-----"
_PACKAGES = {"ssh-keygen": "openssh-client", "gpg": "gnupg"}


def sign(listed: bytes, key: Path) -> bytes:
    """Return the armored signature of a list of files.

    Args:
        listed: Content of SHA256SUMS, which has the digests of all files, including the manifest.
        key: Private SSH key, or the public key of a private key in the running ssh-agent; or `openpgp:` and the
            fingerprint or user of a private key of gpg.

    Raises:
        UserError: The key cannot be used.
        MissingToolError: ssh-keygen or gpg is not installed.
    """
    if str(key).startswith(OPENPGP):
        user = str(key).removeprefix(OPENPGP)
        result = _run("gpg", "--batch", "--armor", "--detach-sign", "--local-user", user, content=listed)
        start, create = _PGP_SIGNATURE, "gpg --quick-generate-key USER"
    else:
        read_regular(key, "key of --sign", _MOST_KEYS_BYTES, "give an SSH key")
        options = ("-n", NAMESPACE, "-f", str(key.absolute()))
        result = _run("ssh-keygen", "-Y", "sign", *options, content=listed)
        start, create = _SSH_SIGNATURE, "ssh-keygen -t ed25519 -f KEY"
    if result.returncode != 0 or not result.stdout.startswith(start):
        raise UserError(
            f"--sign: got {shown(path_text(key))} ({_reason(result)}), expected a key that can sign; "
            f"create one with: {create}"
        )
    return result.stdout


def read_keys(path: Path) -> bytes:
    """Return the content of a file of trusted keys: the format `ALLOWED SIGNERS` of ssh-keygen, or OpenPGP public keys.

    Raises:
        UserError: The file cannot be read.
    """
    return read_regular(path, "file of --trusted-keys", _MOST_KEYS_BYTES, "remove keys that are not needed")


def signer(listed: bytes, signature: bytes, keys: bytes) -> str | None:
    """Return the name in `keys` of the signer; None if no trusted and valid key signed exactly this list.

    Raises:
        UserError: The temporary folder cannot be written.
        MissingToolError: ssh-keygen or gpg is not installed.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="opforge-verify-") as work:
            signature_file, keys_file = Path(work) / "signature", Path(work) / "keys"
            signature_file.write_bytes(signature)
            keys_file.write_bytes(keys)
            find = _pgp_signer if _PGP_KEYS in keys else _ssh_signer
            return find(listed, str(signature_file), str(keys_file))
    except OSError as error:
        raise UserError(
            f"{error.filename or tempfile.gettempdir()}: got '{error.strerror}', expected a folder for temporary files "
            "with free space; set TMPDIR to one"
        ) from error


def _ssh_signer(listed: bytes, signature: str, keys: str) -> str | None:
    files = ("-s", signature, "-f", keys)
    found = _run("ssh-keygen", "-Y", "find-principals", *files)
    names = found.stdout.decode("utf-8", "replace").replace(",", "\n").splitlines() if found.returncode == 0 else []
    for name in names:
        check = _run("ssh-keygen", "-Y", "verify", "-n", NAMESPACE, "-I", name, *files, content=listed)
        if name and check.returncode == 0:
            return name
    return None


def _pgp_signer(listed: bytes, signature: str, keys: str) -> str | None:
    # A separate folder, so that keys of the user are not trusted.
    home = ("--homedir", str(Path(keys).parent), "--batch", "--no-autostart")
    _run("gpg", *home, "--import", keys)
    result = _run(
        "gpg", *home, "--status-fd", "1", "--trust-model", "always", "--verify", signature, "-", content=listed
    )
    # gpg also exits with 0 for the signature of an expired key, which is no GOODSIG.
    good = [line.split(" ", 3) for line in result.stdout.decode("utf-8", "replace").splitlines() if " GOODSIG " in line]
    return good[0][3] if result.returncode == 0 and len(good) == 1 and good[0][0] == "[GNUPG:]" else None


def _run(tool: str, *options: str, content: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = shutil.which(tool)
    if program is None:
        raise not_installed("signature", tool, "keys and signatures", f"apt-get install {_PACKAGES[tool]}")
    environment = os.environ | {"LC_ALL": "C"}
    return subprocess.run([program, *options], input=content, env=environment, capture_output=True, check=False)


def _reason(result: subprocess.CompletedProcess[bytes]) -> str:
    lines = result.stderr.decode("utf-8", "replace").strip().splitlines()
    return shown(lines[-1][:200]) if lines else f"exit code {result.returncode}"
