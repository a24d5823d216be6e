"""Find code in kernels that the host compiler accepts and the device compiler rejects."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from opforge.codegen.errors import UserError
from opforge.codegen.printing import path_text
from opforge.codegen.project import BUILTIN_ROOT, Project

from .architectures import compiled
from .cpp_tokens import Token, tokens_of, unclosed
from .declared import Declared, declared
from .doubles import check_doubles
from .includes import check_directive, included, reachable, read_source, sources_below
from .structure import Structure
from .tiling_keys import check_key_chains
from .words import check_words

# The files that determine the findings.
_OWN_FILES = (*sorted(Path(__file__).parent.glob("*.py")), Path(__file__).parent.parent / "cann_api.json")


@dataclass(frozen=True)
class LintFinding:
    """A location in a kernel that the device compiler rejects, or that is wrong on the device."""

    file: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.message}"


def lint_text(text: str, file: str, own: Declared | None = None) -> list[LintFinding]:
    """Return the findings in one source, by line.

    Args:
        text: The source.
        file: Its name.
        own: The names that it and its headers declare; default: its own.
    """
    return list(_findings(text, file, own or _declared((text,))))


@lru_cache(maxsize=8)
def _declared(texts: tuple[str, ...]) -> Declared:
    return declared(map(tokens_of, texts))


# A kernel is checked before each launch.
@lru_cache(maxsize=8)
def _findings(text: str, file: str, own: Declared) -> tuple[LintFinding, ...]:
    if open_part := unclosed(text):
        line, kind, end = open_part
        return (LintFinding(file, line, "unclosed", f"the {kind} has no end; add `{end}`"),)
    findings: list[LintFinding] = []

    def report(line: int, rule: str, message: str) -> None:
        findings.append(LintFinding(file, line, rule, message))

    everything, followed = tokens_of(text), included(text)
    for directive in (token for token in everything if token.kind == "directive"):
        check_directive(directive, followed, report)
    code = everything if own.has_architecture else compiled(everything)
    tokens = [token for token in code if token.kind != "directive"]
    for directive in (token for token in code if token.kind == "directive"):
        if body := _macro_body(directive):
            check_words(body, own, report)
            check_doubles(body, report)
    check_words(tokens, own, report)
    check_doubles(tokens, report)
    check_key_chains(tokens, report)
    Structure(tokens, own.markers, report).check()
    return tuple(sorted(set(findings), key=lambda found: (found.line, found.rule)))


def _macro_body(directive: Token) -> list[Token]:
    found = re.match(r"#\s*define\s+\w+(?:\([^)]*\))?\s", directive.text)
    return tokens_of(directive.text[found.end() :], directive.line) if found else []


def lint_files(paths: Iterable[Path]) -> list[LintFinding]:
    """Return the findings in kernel sources.

    Raises:
        UserError: A file cannot be read, or is a program with host code.
    """
    texts = {path: read_source(path) for path in paths}
    for path, text in texts.items():
        words = [token.text for token in tokens_of(text)] if "main" in text else []
        if any(words[at : at + 3] == ["int", "main", "("] for at in range(len(words))):
            problem = "got a program with main(), expected a kernel source without host code"
            raise UserError(f"{problem}; compile the program with `opforge cc`", path_text(path))
    headers = {header: None for path in texts for header in reachable(path, (), roots_of(path))}
    own = _declared(tuple(read_source(header) for header in headers))
    return [finding for path, text in texts.items() for finding in lint_text(text, path_text(path), own)]


def roots_of(path: Path) -> tuple[Path, ...]:
    """Return the folders that contain all headers of a kernel source: its clone or project, and opforge."""
    source_folder = path.absolute().parent
    folders = (source_folder, *source_folder.parents)
    project = next((folder.parent for folder in folders if folder.name == "op_kernel"), source_folder)
    clone = next((folder for folder in (project, *project.parents) if (folder / ".git").exists()), project)
    return clone, BUILTIN_ROOT


def kernel_files(project: Project) -> list[Path]:
    """Return all kernel sources of a project.

    Raises:
        UserError: One of them is a pipe or a device.
    """
    return sorted(sources_below(project.root / "op_kernel"))


def require_clean(project: Project, op_names: Sequence[str], home: Path, imported: Sequence[str] = ()) -> None:
    """Reject kernels that the device compiler would reject; `home` has a record of clean kernels.

    Args:
        project: The project.
        op_names: Names of the kernels.
        home: Folder of the record.
        imported: Names of further kernels, of which only the included files are checked.

    Raises:
        UserError: There are findings; the message lists all of them.
    """
    folders = (project.root / "op_kernel", BUILTIN_ROOT / "op_kernel")
    roots = (project.root, BUILTIN_ROOT)
    included = {name: reachable(folders[0] / f"{name}.h", folders, roots) for name in (*op_names, *imported)}
    files = {path: None for name in op_names for path in included[name]}
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in (*_OWN_FILES, *sorted(files)))).hexdigest()
    note = home / "clean_kernels" / digest
    if note.is_file():
        return
    if findings := lint_files(files):
        raise UserError("\n".join(map(str, findings)))
    note.parent.mkdir(parents=True, exist_ok=True)
    note.touch()
