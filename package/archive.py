"""Read the compressed archive of a package. No other module opens an untrusted archive.

The archive is a `tar` file inside one gzip stream. It is read once, in pieces of limited size; nothing is written.
Regular files and folders are read. Links and devices are reported, but not followed. All other `tar` features (sparse
files, PAX headers, multiple volumes) are rejected, because a small file can declare any size with them.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from opforge.codegen.printing import escaped, shown

# A package contains only texts, libraries and kernels.
MOST_UNPACKED_BYTES = 1 << 30
MOST_MEMBERS = 100_000
MOST_PATH_BYTES = 1000
MOST_NAME_BYTES = 255
_PIECE = 1 << 14
_BLOCK = tarfile.BLOCKSIZE
_FILE_TYPES = (tarfile.REGTYPE, tarfile.AREGTYPE)
_NAMED_TYPES = (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
_SIZE = re.compile(rb"[0-7]{1,11}[ \0]{0,11}")


class ArchiveError(Exception):
    """The archive is damaged, exceeds a limit, or has unsupported content; the text is `got ..., expected ...`."""


@dataclass(frozen=True)
class Member:
    """A file of an archive.

    Attributes:
        name: Its path, without a leading `./`; any text within the length limit.
        problem: The reason why it cannot be part of a package; empty for a regular file below the top folder.
        digest: SHA-256 of its content.
        content: The content if its name is in `kept`; otherwise empty.
    """

    name: str
    problem: str
    digest: str
    content: bytes


def read_archive(source: BinaryIO, kept: frozenset[str], most_kept: int) -> Iterator[Member]:
    """Read the files of an archive, in their order; folders are skipped.

    Args:
        source: The compressed archive, up to the end of the file.
        kept: Last path parts of the files whose content is returned.
        most_kept: Maximum bytes of each of these files.

    Raises:
        ArchiveError: The archive is invalid.
        OSError: The file cannot be read.
    """
    unpacked = _Unpacked(source)
    seen: set[str] = set()
    for _ in range(MOST_MEMBERS + 1):
        header = _next_header(unpacked)
        if header is None:
            return
        name = _name(header)
        problem = _problem(name, header) or (f"{name}: is in the archive twice" if name in seen else "")
        seen.add(name)
        wanted = name.rpartition("/")[2] in kept
        if wanted and header.size > most_kept:
            raise ArchiveError(f"got {shown(name)} of {header.size} bytes, expected at most {most_kept}")
        digest, pieces = hashlib.sha256(), []
        for piece in unpacked.pieces(header.size):
            digest.update(piece)
            if wanted:
                pieces.append(piece)
        unpacked.read(-header.size % _BLOCK)
        if header.type != tarfile.DIRTYPE or problem:
            yield Member(name, problem, digest.hexdigest(), b"".join(pieces))
    raise ArchiveError(f"got more than {MOST_MEMBERS} members, expected at most this number")


class _Unpacked:
    """The bytes of one gzip stream. The file must not contain anything else."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._stream = zlib.decompressobj(wbits=31)
        self._ready = b""
        self._total = 0

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the next bytes in pieces."""
        while size:
            if not self._ready:
                self._fill()
            if not self._ready:
                raise ArchiveError("got an archive that ends early, expected a whole one")
            piece, self._ready = self._ready[:size], self._ready[size:]
            size -= len(piece)
            yield piece

    def read(self, size: int) -> bytes:
        """Return the next bytes; they may be fewer than `size`."""
        return b"".join(self.pieces(size))

    def finish(self) -> None:
        """Check that only zeros follow, up to the end of the file."""
        while True:
            if self._ready.strip(b"\0"):
                raise ArchiveError("got data after the end of the archive, expected nothing there")
            self._ready = b""
            self._fill()
            if not self._ready:
                return

    def _fill(self) -> None:
        """Unpack at most one piece; do nothing at the end of the stream."""
        while not self._ready and not self._stream.eof:
            packed = self._stream.unconsumed_tail or self._source.read(_PIECE)
            if not packed:
                raise ArchiveError("got compressed data that ends early, expected a whole archive")
            try:
                self._ready = self._stream.decompress(packed, _PIECE)
            except zlib.error as error:
                raise ArchiveError(f"got damaged compressed data ({escaped(str(error))}), expected gzip") from error
        self._total += len(self._ready)
        if self._total > MOST_UNPACKED_BYTES:
            raise ArchiveError(f"got more than {MOST_UNPACKED_BYTES} bytes when unpacked, expected at most this number")
        if self._stream.eof and (self._stream.unused_data or self._source.read(1)):
            raise ArchiveError("got data after the end of the compressed data, expected one gzip stream")


def _next_header(unpacked: _Unpacked) -> tarfile.TarInfo | None:
    """Return the header of the next member. At the end of the archive, read the rest and return None."""
    header = _header(unpacked)
    if header is None or header.type != tarfile.GNUTYPE_LONGNAME:
        return header
    if header.size > MOST_PATH_BYTES + 1:
        raise ArchiveError(f"got a path of {header.size} bytes, expected at most {MOST_PATH_BYTES}")
    name = unpacked.read(header.size)
    unpacked.read(-header.size % _BLOCK)
    header = _header(unpacked)
    if header is None or header.type == tarfile.GNUTYPE_LONGNAME:
        raise ArchiveError("got a long name without a member, expected a member after the name")
    header.name = name.removesuffix(b"\0").decode("utf-8", "surrogateescape")
    return header


def _header(unpacked: _Unpacked) -> tarfile.TarInfo | None:
    """Return one block of a header, without the data after it."""
    block = unpacked.read(_BLOCK)
    if not block.strip(b"\0"):
        if unpacked.read(_BLOCK).strip(b"\0"):
            raise ArchiveError("got one block of zeros between members, expected two at the end")
        unpacked.finish()
        return None
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError) as error:
        raise ArchiveError(f"got a damaged header ({escaped(str(error))}), expected the header of a member") from error
    kind, name, prefix, magic = block[156:157], block[:100], block[345:500], block[257:265]
    if kind not in (*_FILE_TYPES, *_NAMED_TYPES, tarfile.DIRTYPE, tarfile.GNUTYPE_LONGNAME):
        raise ArchiveError(f"got {shown(header.name)} of type {kind!r}, expected regular files and folders")
    if not _SIZE.fullmatch(block[124:136]):
        raise ArchiveError(f"got {shown(header.name)} with a damaged size, expected an octal number")
    # Another reader could use the bytes after a NUL as a different name or size.
    if b"\0" in name.rstrip(b"\0") or b"\0" in prefix.rstrip(b"\0"):
        raise ArchiveError(f"got {shown(header.name)} with a zero byte in its name, expected a path")
    is_posix = magic == tarfile.POSIX_MAGIC
    if not is_posix and (magic != tarfile.GNU_MAGIC or prefix.strip(b"\0")):
        raise ArchiveError(f"got {shown(header.name)} in another format, expected GNU or POSIX tar")
    if header.size and header.type not in (*_FILE_TYPES, tarfile.GNUTYPE_LONGNAME):
        raise ArchiveError(f"got {shown(header.name)}, not a regular file, with content, expected no content")
    return header


def _name(header: tarfile.TarInfo) -> str:
    name = header.name.removeprefix("./")
    if header.type == tarfile.DIRTYPE or header.name == "./":
        name = name.removesuffix("/")
    if "\0" in name:
        raise ArchiveError(f"got {shown(name)} with a zero byte in its name, expected a path")
    size, parts = len(name.encode("utf-8", "surrogateescape")), name.encode("utf-8", "surrogateescape").split(b"/")
    if size > MOST_PATH_BYTES or max(map(len, parts)) > MOST_NAME_BYTES:
        raise ArchiveError(
            f"got the path {shown(name)} of {size} bytes, expected at most {MOST_PATH_BYTES}, "
            f"{MOST_NAME_BYTES} between two '/'"
        )
    return name


def _problem(name: str, header: tarfile.TarInfo) -> str:
    """Return the reason why a member cannot be part of a package."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts:
        return f"{name}: is outside of the package"
    if header.type in _NAMED_TYPES:
        return f"{name}: a link or device"
    is_top = header.type == tarfile.DIRTYPE and name in {"", "."}
    return "" if is_top or not {"", "."} & set(parts) else f"{name}: not the shortest form of its path"
