"""Implement `opforge verify`: compare a .run file with its manifest, without running it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from opforge.codegen.errors import UserError
from opforge.codegen.files import open_regular
from opforge.codegen.printing import escaped, path_text, shown
from opforge.codegen.untrusted import MOST_JSON_BYTES, FormError, parse_json
from opforge.package.doctor.documents import PACKED_FORM, PackedManifest

from .archive import ArchiveError, Member, read_archive
from .layout import OF_ARCHIVE
from .manifest import INFO, SUMS, info_text
from .manifest import NAME as MANIFEST
from .pack import SCRIPTS, shell_scripts
from .signature import SIGNATURE, read_keys, signer

MAX_FILE_BYTES = 1 << 30
_MOST_HEAD_BYTES = 1 << 20
_MOST_PROBLEMS = 1000
_DAMAGED = "the file is damaged, copy it again"
_HEAD = re.compile(
    rb"#!/bin/sh\n\{ # [^\n]*\nheader_lines=(\d{1,6})\npayload_bytes=(\d{1,12})\npayload_sha256=([0-9a-f]{64})\n"
)
_SUM = re.compile(r"([0-9a-f]{64})  (.+)")
_KEPT = frozenset((MANIFEST, SUMS, INFO, SIGNATURE))
_FACTS = ("vendor", "version", "release", "cann", "operators", "socs")


class _Head(NamedTuple):
    """The head of a package: its text without the first five lines, and its properties of the payload."""

    text: bytes
    size: int
    payload_bytes: int
    payload_sha256: str


def verify(package: Path, trusted_keys: Path | None = None) -> tuple[dict[str, Any], list[str]]:
    """Return the properties in the manifest, and up to 1000 problems of the package.

    Args:
        package: The `.run` file.
        trusted_keys: File of trusted keys; a package without a valid signature is then a problem.

    Raises:
        UserError: A file cannot be read, or the package was not made by `opforge pack`.
        MissingToolError: The signature is to be checked, and ssh-keygen is not installed.
    """
    keys = None if trusted_keys is None else read_keys(trusted_keys)
    with open_regular(package, "package") as source:
        facts: dict[str, Any] = {}
        found = _problems(source, package, facts, keys)
        problems = list(islice(found, _MOST_PROBLEMS))
        if next(found, None) is not None:
            problems.append(f"more than {_MOST_PROBLEMS} problems; the others are not listed")
    return facts, problems


def _problems(source: BufferedReader, package: Path, facts: dict[str, Any], keys: bytes | None) -> Iterator[str]:
    """Return the problems of a package; add the properties in its manifest to `facts`."""
    head = _head(source, package)
    if head.text != _installer_head():
        yield "the head of the file differs from the head that this opforge writes"
    payload_bytes = os.fstat(source.fileno()).st_size - head.size
    if payload_bytes != head.payload_bytes:
        yield f"payload: got {payload_bytes} bytes after the head, expected {head.payload_bytes}; {_DAMAGED}"
        return
    try:
        source.seek(head.size)
        if hashlib.file_digest(source, "sha256").hexdigest() != head.payload_sha256:
            yield f"payload: differs from the SHA-256 in the head; {_DAMAGED}"
            return
        source.seek(head.size)
        members = list(read_archive(source, _KEPT, MOST_JSON_BYTES))
    except ArchiveError as error:
        raise UserError(f"{path_text(package)}: cannot be unpacked: {error}; get the file again") from error
    except OSError as error:
        raise UserError(f"{path_text(package)}: cannot be read: {error.strerror}; get the file again") from error
    yield from (member.problem for member in members if member.problem)
    try:
        yield from _content_problems({member.name: member for member in members}, facts, keys)
    except FormError as error:
        place = f"{path_text(package)}: cannot read {MANIFEST} of the package"
        raise UserError(f"{place}: {error}; get the file again") from error


def _content_problems(files: dict[str, Member], facts: dict[str, Any], keys: bytes | None) -> Iterator[str]:
    """Return the differences between the files of a package and its lists.

    Raises:
        FormError: The manifest has a wrong form.
    """
    manifests = [name for name in files if name.rpartition("/")[2] == MANIFEST]
    if len(manifests) != 1:
        yield f"got {len(manifests)} files {MANIFEST}, expected one"
        return
    root = manifests[0].removesuffix(MANIFEST)
    # The signature is checked first: nothing is read from a manifest that no trusted key signed.
    if keys is not None and (problem := _signature_problem(files, root, facts, keys)):
        yield problem
        return
    manifest: PackedManifest = parse_json(files[manifests[0]].content, PACKED_FORM)
    stated = manifest.model_dump(mode="json")
    facts |= {key: stated[key] for key in _FACTS} | {"files": len(manifest.files)}
    for path, digest in sorted(manifest.files.items()):
        if root + path not in files:
            yield f"{path}: missing"
        elif files[root + path].digest != digest:
            yield f"{path}: differs from the manifest"
    expected = {*(root + path for path in manifest.files), root + MANIFEST, root + SUMS, "install.sh", SIGNATURE}
    yield from (f"{name}: not listed in the manifest" for name in sorted(set(files) - expected))
    for name, data in shell_scripts().items():
        path = name if name in OF_ARCHIVE else f"{root}scripts/{name}"
        if name != "header.sh" and (path not in files or files[path].digest != hashlib.sha256(data).hexdigest()):
            yield f"{path.removeprefix(root)}: differs from the one of this opforge"
    if root != f"packages/vendors/{manifest.vendor}/":
        yield f"the manifest names the vendor '{manifest.vendor}', but is in {root}"
    yield from _list_problems(files, root, manifest)


def _signature_problem(files: dict[str, Member], root: str, facts: dict[str, Any], keys: bytes) -> str | None:
    """Return why no trusted key signed the manifest; add the signer to `facts` if one did."""
    signature = files.get(SIGNATURE)
    if signature is None:
        return f"{SIGNATURE}: missing; expected a package signed with `opforge pack --sign`"
    listed = files[root + SUMS].content if root + SUMS in files else b""
    name = signer(listed, signature.content, keys)
    if name is None:
        return f"{SIGNATURE}: no valid signature of {SUMS} by a key in --trusted-keys"
    if f"{files[root + MANIFEST].digest}  {MANIFEST}\n".encode() not in listed:
        return f"{MANIFEST}: differs from {SUMS}"
    facts["signed_by"] = escaped(name)
    return None


def _list_problems(files: dict[str, Member], root: str, manifest: PackedManifest) -> Iterator[str]:
    """Return the differences between the lists for the shell and the manifest."""
    stated = manifest.model_dump(mode="json", exclude={"files"})
    if root + INFO in files and files[root + INFO].content.decode("utf-8", "replace") != _info(stated):
        yield f"{INFO}: differs from the facts in the manifest"
    if root + SUMS not in files:
        yield f"{SUMS}: missing"
        return
    listed = manifest.files | {MANIFEST: files[root + MANIFEST].digest}
    # `splitlines` is not used because it splits at more line ends than sha256sum.
    lines = files[root + SUMS].content.decode("utf-8", "replace").removesuffix("\n").split("\n")
    found = [_SUM.fullmatch(line) for line in lines]
    pairs = [(match[2], match[1]) for match in found if match]
    if len(pairs) != len(lines) or sorted(pairs) != sorted(listed.items()):
        yield f"{SUMS}: differs from the files in the manifest"


def _info(facts: dict[str, Any]) -> str:
    """Return the expected text of `package.info`; empty (never a valid text) if a property is not a single line."""
    try:
        return info_text(facts)
    except UserError:
        return ""


def _head(source: BufferedReader, package: Path) -> _Head:
    size = os.fstat(source.fileno()).st_size
    if size > MAX_FILE_BYTES:
        raise UserError(
            f"{path_text(package)}: got {size} bytes, expected at most {MAX_FILE_BYTES}; get the file again"
        )
    try:
        data = source.read(_MOST_HEAD_BYTES)
    except OSError as error:
        raise UserError(f"{path_text(package)}: cannot be read: {error.strerror}; get the file again") from error
    found = _HEAD.match(data)
    if found is None:
        what = f"which begins with {shown(data[:20])}" if data else "which is empty"
        expected = "expected a .run file of `opforge pack`; name another file"
        raise UserError(f"{path_text(package)}: got a file {escaped(what)}, {expected}")
    end = 0
    for _ in range(int(found[1])):
        end = data.find(b"\n", end) + 1
        if end == 0:
            end = len(data)
            break
    return _Head(data[found.end() : end], end, int(found[2]), found[3].decode())


def _installer_head() -> bytes:
    """Return the part of the head that is the same in every package."""
    return (SCRIPTS / "header.sh").read_bytes().split(b"<<'EOF'\n")[1].partition(b"EOF\n")[0]
