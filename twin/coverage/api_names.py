"""Count the names of the Ascend C API in the sources of a clone, and those that the headers of the twin declare."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath

from opforge.codegen.errors import UserError
from opforge.codegen.importers.cpp_text import without_comments
from opforge.codegen.process_limits import LimitError
from opforge.twin.build import include_flags
from opforge.twin.compiler.flags import COMMON
from opforge.twin.compiler.limited_process import compile_limits, run_limited
from opforge.twin.compiler.units import compiler
from opforge.twin.cpp_text import printed
from opforge.twin.lint.cann_api import api

from .discover import Source, is_for_others
from .walk import Tree

_USED = re.compile(r"\bAscendC::([A-Za-z_]\w*)")
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_OPEN = re.compile(r"\busing\s+namespace\s+AscendC\b")
_UNDECLARED = re.compile(r"'(\w+)' has not been declared|no member named '(\w+)' in namespace 'AscendC'")
_NAMESPACE = re.compile(r"using-declaration may not name namespace 'AscendC::(\w+)'")
_DEFINED = re.compile(r"\b(?:class|struct|union|enum|using|namespace|void|inline)\b((?:\s+\w+)+)")
_MOST_NAMES, _MOST_LENGTH = 5000, 80  # real clones have a few hundred
_HEADERS = ("kernel_operator.h", "lib/matmul_intf.h", "tiling/tiling_api.h", "tikicpulib.h")
_SUFFIXES = (".asc", ".cpp", ".h", ".hpp")


@dataclass
class Names:
    """The names of one clone.

    Attributes:
        used: Number of files by name.
        missing: Names that the headers of the twin do not declare.
        not_counted: The reason why a name is not an API of the architecture, by name.
    """

    used: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    not_counted: dict[str, str] = field(default_factory=dict)

    @property
    def counted(self) -> int:
        """The number of used names that are APIs of the architecture."""
        return len(self.used) - len(self.not_counted)

    @property
    def declared(self) -> int:
        """The number of counted names that the headers of the twin declare."""
        return self.counted - len(self.missing)


def count_names(tree: Tree, sources: Iterable[Source]) -> Names:
    """Count the names in the files of the sources of a clone.

    A name is used if it follows `AscendC::`, or if cann_api.json has it and the file has `using namespace AscendC`.
    Only the most frequent names are counted, and no very long names.
    """
    texts = [without_comments(tree.text(path)) for path in sorted(_files(tree, sources))]
    known = {name.removeprefix("AscendC::") for entry in api()["kernel"] if (name := entry["name"]).count("::") == 1}
    found = Counter(name for text in texts for name in _names(text, known) if len(name) <= _MOST_LENGTH)
    counts = dict(found.most_common(_MOST_NAMES))
    undeclared, namespaces = _undeclared(counts)
    own = _own_names(undeclared, texts)
    others = {name: reason for name, reason in _other_names().items() if name in counts}
    reasons = dict.fromkeys(own, "the sources define it") | dict.fromkeys(namespaces, "a namespace") | others
    return Names(dict(sorted(counts.items())), sorted(undeclared - reasons.keys()), dict(sorted(reasons.items())))


def _names(text: str, known: set[str]) -> set[str]:
    return set(_USED.findall(text)) | (set(_WORD.findall(text)) & known if _OPEN.search(text) else set())


def _files(tree: Tree, sources: Iterable[Source]) -> set[str]:
    """Return the sources and the headers next to them, without those of other architectures."""
    found: set[str] = set()
    for source in sources:
        found |= set(source.sources)
        folders = {str(PurePosixPath(path).parent) for path in source.sources}
        found |= {path for folder in folders for path in tree.below(folder) if path.endswith(_SUFFIXES)}
    return {path for path in found if path in tree.files and not is_for_others(path)}


def _own_names(names: Iterable[str], texts: Iterable[str]) -> set[str]:
    """Return the names that a source defines in namespace AscendC."""
    code = "\n".join(text for text in texts if re.search(r"\bnamespace\s+AscendC\b\s*\{", text))
    return set(names) & {word for words in _DEFINED.findall(code) for word in words.split()}


def _undeclared(names: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the names that the headers of the twin do not declare, and those that are namespaces."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "names.cpp")
        source.write_text(printed("names.cpp.j2", headers=_HEADERS, names=sorted(names)), encoding="utf-8")
        flags = (*COMMON, *include_flags(), "-fsyntax-only", "-w", "-fmax-errors=0")
        command = [compiler()[0], *flags, str(source)]
        try:
            ended = run_limited(command, compile_limits(), environment={"LC_ALL": "C"}, most_text=4 << 20)
        except LimitError as error:
            raise UserError(f"names of the API: {error}") from error
    missing = {first or second for first, second in _UNDECLARED.findall(ended.text)}
    return missing & set(names), set(_NAMESPACE.findall(ended.text))


@lru_cache(maxsize=1)
def _other_names() -> dict[str, str]:
    """Return the reason of each name that is not an API of the architecture."""
    groups = json.loads(Path(__file__).with_name("other_names.json").read_text(encoding="utf-8"))
    return {name: reason for reason, names in groups.items() if reason != "about" for name in names}
