"""Implement `opforge new`: create a project with a working operator from one of the starters."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from opforge.codegen.data.names import op_type_problem, snake_case, suggest

from .errors import UserError
from .files import temporary_folder
from .printing import path_text, shown

_STARTERS = Path(__file__).resolve().parent / "starters"
_COMMON = "project"  # the common files of projects, for an operator called OpName
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def starters() -> list[str]:
    """Return the names of the starters."""
    return sorted(path.name for path in _STARTERS.iterdir() if path.name != _COMMON)


def new_project(name: str, folder: Path, starter: str) -> Path:
    """Write a project folder completely or not at all; return it.

    Args:
        name: Operator type.
        folder: The new folder; its parent exists.
        starter: One of `starters()`.

    Raises:
        UserError: The name or starter cannot be used, the folder exists or cannot be written.
    """
    texts = project_texts(name, starter)
    write_texts(texts, folder)
    return folder


def write_texts(texts: Mapping[str, str], folder: Path) -> None:
    """Write the files of a project by path into a new folder, completely or not at all.

    Raises:
        UserError: The folder exists or cannot be written.
    """
    if os.path.lexists(folder):
        raise UserError(
            f"{path_text(folder)}: it exists already, expected a new folder; choose another one or remove it"
        )
    try:
        with temporary_folder(folder.parent) as scratch:
            made = scratch / "project"
            for path, text in texts.items():
                file = made / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            (made / "build.sh").chmod(0o755)
            made.rename(folder)
    except OSError as error:
        raise UserError(
            f"{path_text(folder)}: got '{error.strerror}', expected a new folder in one that can be written to;"
            " choose another one"
        ) from error


def project_texts(name: str, starter: str) -> dict[str, str]:
    """Return the files of a project by path: those of the starter, renamed to operator `name`, and common files.

    Raises:
        UserError: The name or starter cannot be used.
    """
    if starter not in starters():
        raise UserError(f"--starter: got {shown(starter)}; {suggest(starter, starters())}")
    if refusal := op_type_problem(name):
        raise UserError(f"NAME: {refusal}")
    own = _texts(_STARTERS / starter)
    original = operator_of(starter)
    if name != original and name in {word for text in own.values() for word in _IDENTIFIER.findall(text)}:
        raise UserError(
            f"NAME: got {shown(name)}, which the files of {starter} use; expected another name, as in 'My{name}'"
        )
    return _renamed(own | _texts(_STARTERS / _COMMON), {original: name, "OpName": name})


def common_texts(name: str) -> dict[str, str]:
    """Return the common files of all projects by path, for a project named after the operator `name`."""
    return _renamed(_texts(_STARTERS / _COMMON), {"OpName": name})


def _renamed(texts: Mapping[str, str], spelt: dict[str, str]) -> dict[str, str]:
    """Return the files with other names of operators, in all spellings."""
    spelt |= {snake_case(old): snake_case(new) for old, new in spelt.items()}
    spelt |= {old.upper(): new.upper() for old, new in spelt.items() if old.islower()}
    old = re.compile("|".join(spelt))
    return {
        old.sub(lambda found: spelt[found[0]], path): old.sub(lambda found: spelt[found[0]], text)
        for path, text in texts.items()
    }


def operator_of(starter: str) -> str:
    """Return the operator type of a starter, from the name of its spec."""
    (spec,) = (_STARTERS / starter / "op_proto").glob("*.yaml")
    return "".join(word.capitalize() for word in spec.stem.split("_"))


def _texts(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }
