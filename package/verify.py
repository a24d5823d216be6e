"""`opforge verify`: whether a .run file is whole and holds what its manifest says. Nothing in it is run."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from opforge.codegen.errors import UserError

from .manifest import NAME as MANIFEST
from .pack import SCRIPTS

# A package holds texts, libraries and kernels; what unpacks to more is none.
MAX_FILE_BYTES, MAX_UNPACKED_BYTES = 1 << 30, 1 << 30
_HEAD = re.compile(
    rb"#!/bin/sh\n\{ # [^\n]*\nheader_lines=(\d{1,6})\npayload_bytes=(\d{1,12})\npayload_sha256=([0-9a-f]{64})\n"
)


def verify_command(package: Path, *, as_json: bool) -> int:
    """Print what a package is and every difference from its manifest; returns 1 when there is one, else 0."""
    facts, problems = verify(package)
    if as_json:
        print(json.dumps(facts | {"problems": problems}, indent=2))  # noqa: T201  # the answer
    else:
        lines = [f"{key}: {', '.join(value) if isinstance(value, list) else value}" for key, value in facts.items()]
        print("\n".join([*lines, *problems, *([] if problems else ["every file is as the manifest says"])]))  # noqa: T201
    return 1 if problems else 0


def verify(package: Path) -> tuple[dict[str, Any], list[str]]:
    """What the manifest says of the package, and what is not as it should be.

    Raises:
        UserError: The file cannot be read, or is no package of `opforge pack`.
    """
    head, payload, payload_bytes, digest = _split(package)
    problems = []
    if head != _installer_head():
        problems.append("the head of the file, which runs before the installer, is not that of this opforge")
    if len(payload) != payload_bytes:
        problems.append(f"got {len(payload)} bytes behind the head, expected {payload_bytes}: the file is damaged")
        return {}, problems
    if hashlib.sha256(payload).hexdigest() != digest:
        problems.append("the payload differs from the SHA-256 in the head: the file is damaged")
        return {}, problems
    files: dict[str, bytes] = {}
    for name, data, problem in _members(payload, package):
        problems += [problem] if problem else []
        files[name] = data
    manifests = [name for name in files if PurePosixPath(name).name == MANIFEST]
    if len(manifests) != 1:
        return {}, [*problems, f"got {len(manifests)} files {MANIFEST}, expected one"]
    root = manifests[0].removesuffix(MANIFEST)
    try:
        manifest = json.loads(files[manifests[0]])
        listed = {str(path): str(digest) for path, digest in manifest["files"].items()}
        facts = {key: manifest[key] for key in ("vendor", "version", "release", "cann", "operators", "socs")}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}, [*problems, f"{manifests[0]} is no manifest of a package"]
    for path in sorted(listed):
        if root + path not in files:
            problems.append(f"{path}: missing")
        elif hashlib.sha256(files[root + path]).hexdigest() != listed[path]:
            problems.append(f"{path}: differs from the manifest")
    expected = {*(root + path for path in listed), manifests[0], "install.sh"}
    problems += [f"{name}: not listed in the manifest" for name in sorted(set(files) - expected)]
    if files.get("install.sh") != (SCRIPTS / "install.sh").read_bytes():
        problems.append("install.sh: not that of this opforge")
    if root != f"packages/vendors/{facts['vendor']}/":
        problems.append(f"the manifest names the vendor '{facts['vendor']}', but lies in {root}")
    return facts | {"files": len(listed)}, problems


def _split(package: Path) -> tuple[bytes, bytes, int, str]:
    """The head without its first five lines, the payload, and the size and SHA-256 that the head gives for it."""
    if not package.is_file():
        raise UserError(f"{package}: no such file; give a .run file of `opforge pack`")
    try:
        if package.stat().st_size > MAX_FILE_BYTES:
            raise UserError(f"{package}: got {package.stat().st_size} bytes, expected at most {MAX_FILE_BYTES}")
        data = package.read_bytes()
    except OSError as error:
        raise UserError(f"{package}: cannot be read: {error.strerror}") from error
    found = _HEAD.match(data)
    if found is None:
        raise UserError(f"{package}: got another kind of file, expected a .run file of `opforge pack`")
    lines = data.split(b"\n", int(found[1]))
    payload = lines[-1] if len(lines) > int(found[1]) else b""
    return data[found.end() : len(data) - len(payload)], payload, int(found[2]), found[3].decode()


def _installer_head() -> bytes:
    """The part of the head that is the same in every package."""
    return (SCRIPTS / "header.sh").read_bytes().split(b"<<'EOF'\n")[1].partition(b"EOF\n")[0]


def _members(payload: bytes, package: Path) -> Iterator[tuple[str, bytes, str]]:
    """Name, content and what is wrong with each file; folders are passed over."""
    try:
        with gzip.open(io.BytesIO(payload)) as packed:
            unpacked = packed.read(MAX_UNPACKED_BYTES + 1)
        if len(unpacked) > MAX_UNPACKED_BYTES:
            raise UserError(f"{package}: unpacks to more than {MAX_UNPACKED_BYTES} bytes; it is no package")
        with tarfile.open(fileobj=io.BytesIO(unpacked)) as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if member.isdir():
                    continue
                path = PurePosixPath(name)
                if path.is_absolute() or ".." in path.parts:
                    yield name, b"", f"{name}: leads out of the package"
                elif not member.isreg():
                    yield name, b"", f"{name}: a link or device"
                else:
                    content = archive.extractfile(member)
                    yield name, content.read() if content else b"", ""
    except (OSError, EOFError, tarfile.TarError) as error:
        raise UserError(f"{package}: cannot be unpacked: {error}; get the file again") from error
