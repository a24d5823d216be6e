"""Sign the list of files of a package with an SSH key, and check the signature; `ssh-keygen` does the cryptography."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from opforge.codegen.errors import MissingToolError, UserError
from opforge.codegen.files import read_regular
from opforge.codegen.printing import path_text, shown

SIGNATURE = "SHA256SUMS.sig"
# A signature is valid only for this purpose: a signature of a mail or of a commit is refused.
NAMESPACE = "opforge-package"
_MOST_KEYS_BYTES = 1 << 20


def sign(listed: bytes, key: Path) -> bytes:
    """Return the armored signature of a list of files.

    Args:
        listed: Content of SHA256SUMS, which has the digests of all files, the manifest included.
        key: Private SSH key, or the public key of a private key in the running ssh-agent.

    Raises:
        UserError: The key cannot be used.
        MissingToolError: ssh-keygen is not installed.
    """
    read_regular(key, "key of --sign", _MOST_KEYS_BYTES, "give an SSH key")
    result = _ssh_keygen("sign", "-n", NAMESPACE, "-f", str(key.absolute()), content=listed)
    if result.returncode != 0 or not result.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise UserError(
            f"--sign: got {shown(path_text(key))} ({_reason(result)}), expected an SSH key that can sign; "
            "create one with: ssh-keygen -t ed25519 -f KEY"
        )
    return result.stdout


def read_keys(path: Path) -> bytes:
    """Return the content of a file of trusted keys, in the format `ALLOWED SIGNERS` of ssh-keygen.

    Raises:
        UserError: The file cannot be read.
    """
    return read_regular(path, "file of --trusted-keys", _MOST_KEYS_BYTES, "remove keys that are not needed")


def signer(listed: bytes, signature: bytes, keys: bytes) -> str | None:
    """Return the name in `keys` of the signer; None if no trusted and valid key signed exactly this list.

    Raises:
        UserError: The temporary folder cannot be written.
        MissingToolError: ssh-keygen is not installed.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="opforge-verify-") as work:
            signature_file, keys_file = Path(work) / "signature", Path(work) / "keys"
            signature_file.write_bytes(signature)
            keys_file.write_bytes(keys)
            files = ("-s", str(signature_file), "-f", str(keys_file))
            found = _ssh_keygen("find-principals", *files)
            if found.returncode != 0:
                return None
            for name in found.stdout.decode("utf-8", "replace").replace(",", "\n").splitlines():
                check = _ssh_keygen("verify", "-n", NAMESPACE, "-I", name, *files, content=listed)
                if name and check.returncode == 0:
                    return name
    except OSError as error:
        raise UserError(
            f"{error.filename or tempfile.gettempdir()}: got '{error.strerror}', expected a folder for temporary files "
            "with free space; set TMPDIR to one"
        ) from error
    return None


def _ssh_keygen(action: str, *options: str, content: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise MissingToolError("ssh-keygen is missing; install it with: apt-get install openssh-client")
    return subprocess.run(
        [program, "-Y", action, *options],
        input=content,
        env=os.environ | {"LC_ALL": "C"},
        capture_output=True,
        check=False,
    )


def _reason(result: subprocess.CompletedProcess[bytes]) -> str:
    lines = result.stderr.decode("utf-8", "replace").strip().splitlines()
    return shown(lines[-1][:200]) if lines else f"exit code {result.returncode}"
