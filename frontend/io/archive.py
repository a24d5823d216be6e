"""Check the archive of an exported program of PyTorch before PyTorch reads it: size, names, and Python objects."""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path, PurePosixPath

from opforge.codegen.errors import UserError
from opforge.codegen.files import open_regular
from opforge.codegen.printing import path_text, shown

MOST_MEMBERS = 200_000
# Prefixes of members that PyTorch reads with pickle, whatever its options are.
_OBJECTS = ("opaque_obj", "custom_obj")
_REPAIR = "write it with torch.export.save"


def check_program_archive(path: Path) -> None:
    """Check that a file has the form of `torch.export.save`: a zip archive of uncompressed members.

    Raises:
        UserError: It has another form, is compressed, or contains objects whose loading executes code.
    """
    place = path_text(path)
    with open_regular(path, "program") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error) as error:
            raise UserError(f"got no zip archive, expected an exported program; {_REPAIR}", place) from error
    if len(members) > MOST_MEMBERS:
        raise UserError(f"got {len(members)} members, expected at most {MOST_MEMBERS}; {_REPAIR}", place)
    if len({member.filename for member in members}) < len(members):
        raise UserError(f"got two members with one name, expected different names; {_REPAIR}", place)
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            got = f"got the compressed or encrypted member {shown(member.filename)}"
            raise UserError(f"{got}, expected members without compression; {_REPAIR}", place)
        parts = PurePosixPath(member.filename).parts
        if not parts or parts[0] == "/" or ".." in parts or "\\" in member.filename:
            got = f"got the member {shown(member.filename)}, which is outside of the archive"
            raise UserError(f"{got}, expected a relative path; {_REPAIR}", place)
        if parts[-1].startswith(_OBJECTS):
            got = f"got the Python object {shown(member.filename)}, whose loading can execute code"
            raise UserError(f"{got}, expected a program with tensors only; export it without the object", place)
    if (total := sum(member.file_size for member in members)) > size:
        raise UserError(
            f"got members of {total} bytes in a file of {size} bytes, expected at most these; {_REPAIR}", place
        )
