"""Detect the kind of a source by its content, and read it as drafts."""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from opforge.codegen.data.names import snake_case
from opforge.codegen.errors import UserError
from opforge.codegen.files import read_regular
from opforge.codegen.printing import path_text, shown
from opforge.codegen.untrusted import FormError, parse_json

from . import aclnn_page, msopgen, op_def
from .aclnn_page import KIND as PAGE
from .draft import Note, OperatorDraft
from .infer_shape import KIND

MOST_BYTES, MOST_FILES = 4 << 20, 20_000
# The parser of C++ needs up to 2 KiB of memory for a byte of a deeply nested source.
_MOST_CPP_BYTES = 1 << 19
_KINDS = (
    "an msOpGen JSON file, a C++ source with OpDef, REG_OP, tiling data or InferShape, or the page of an aclnn function"
)
_JSON: TypeAdapter[Any] = TypeAdapter(Any)
_CPP = (".cpp", ".cc", ".cxx", ".h", ".hpp")
_WORDS = ("OP_ADD(", "REG_OP(", "BEGIN_TILING_DATA_DEF(", "IMPL_OP_INFERSHAPE(")
_PAGES = (".md", ".markdown", ".html", ".htm")
_DIRECTORY_SUFFIXES = ("_def.cpp", "_proto.h", "_infershape.cpp")
_TILING = re.compile(r".*tiling.*\.(?:h|hpp|cpp)")


@dataclass
class Imported:
    """The operators of some sources, and the problems of the others."""

    drafts: list[OperatorDraft] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    files: int = 0


def read_sources(paths: Sequence[Path]) -> Imported:
    """Read files and folders; merge the properties of one operator in several files.

    Raises:
        UserError: A named file cannot be read, or no operator was found.
    """
    result = Imported()
    found: dict[str, OperatorDraft] = {}
    parts: list[OperatorDraft] = []
    for path, is_named, needed in _files(paths):
        drafts: list[OperatorDraft] = []
        try:
            data = _content(path)
            if needed not in data.replace(b"\0", b""):
                continue
            drafts = _drafts(path, data)
        except UserError as error:
            if is_named:
                raise
            result.problems.append(_one_line(str(error)))
        result.files += 1
        for draft in drafts:
            if not draft.op_type:
                parts.append(draft)
            elif draft.op_type in found:
                found[draft.op_type] = _joined(found[draft.op_type], draft)
            else:
                found[draft.op_type] = draft
    result.drafts = [_with_parts(draft, parts, is_only=len(found) == 1) for draft in found.values()]
    if not result.drafts:
        reason = result.problems[0] if result.problems else f"expected {_KINDS}"
        raise UserError(f"got no operator in {result.files} files; {reason}", path_text(paths[0]))
    return result


def _one_line(problems: str) -> str:
    """Return the first problem of a file in a folder, and the number of the others."""
    first, *others = problems.splitlines()
    more = re.search(r"and (\d+) more problems$", others[-1]) if others else None
    count = len(others) - 1 + int(more[1]) if more else len(others)
    return f"{first}; and {count} more problem{'s' if count > 1 else ''}" if count else first


def _joined(first: OperatorDraft, second: OperatorDraft) -> OperatorDraft:
    """Return one draft of an operator: an OpDef has priority; a page adds its rules and summary."""
    if second.kind == "OpDef" and first.kind != "OpDef":
        first, second = second, first
    if first.kind == second.kind:
        again = f"{second.kind} at {second.place}: {first.op_type} again; the draft has the first one"
        return replace(first, notes=(*first.notes, Note(0, again)))
    own = [tensor.name for tensor in first.tensors] + [attr.name for attr in first.attrs]
    names = {snake_case(name): name for name in own}
    options = {(snake_case(tensor.name), tensor.option) for tensor in first.inputs}
    options |= {(snake_case(attr.name), "") for attr in first.attrs}
    kinds = {tensor.name: tensor.option for tensor in second.inputs}
    rules, notes = [], [_named(second, note) for note in second.notes]
    for rule in second.rules:
        if (rule.subject, kinds.get(rule.subject, "")) in options and not first.rules:
            rules.append(replace(rule, subject=names[rule.subject], text=_named(second, Note(0, rule.text)).text))
        else:
            notes.append(_named(second, Note(rule.line, rule.text)))
    notes += [_named(second, note) for _, note in second.stated]
    given = [tensor.name for tensor in second.tensors] + [attr.name for attr in second.attrs]
    others = [name for name in given if snake_case(name) not in names and second.kind != PAGE]
    notes += [Note(0, f"{second.kind} at {second.place}: {name}, which the {first.kind} lacks") for name in others]
    overwritten = {snake_case(name) for name in second.in_place} if not first.outputs else set()
    return replace(
        first,
        inputs=tuple(
            replace(tensor, is_overwritten=tensor.is_overwritten or snake_case(tensor.name) in overwritten)
            for tensor in first.inputs
        ),
        summary=first.summary or second.summary,
        products=first.products or second.products,
        rules=first.rules or tuple(rules),
        fields=first.fields or second.fields,
        notes=(*first.notes, *notes),
    )


def _named(draft: OperatorDraft, note: Note) -> Note:
    """Return a note with the name of the file of its draft."""
    return replace(note, text=f"{Path(draft.place.rpartition(':')[0]).name}: {note.text}")


def _with_parts(draft: OperatorDraft, parts: Sequence[OperatorDraft], *, is_only: bool) -> OperatorDraft:
    """Return the draft with its shape inference, and with the tiling data registered for it, or the only one."""
    shapes = [part for part in parts if part.kind == KIND and part.function == draft.op_type]
    if len({part.shapes for part in shapes}) > 1:
        again = Note(0, f"shape inference: {len(shapes)} files register different functions; none of them is read")
        draft, shapes = replace(draft, notes=(*draft.notes, again)), []
    fields = [part for part in parts if part.kind != KIND]
    own = [part for part in fields if draft.op_type in {part.function, part.function.removesuffix("TilingData")}]
    own = own or (fields if is_only and len(fields) == 1 else [])
    defined = [part for part in fields if own and not own[0].fields and part.structure == own[0].structure]
    own = [part for part in defined if part.fields] + own
    others = [part for part in fields if re.fullmatch(rf"{draft.op_type}_\w+", part.function)]
    others += [part for part in own[1:] if part.structure != own[0].structure]
    draft = replace(draft, notes=draft.notes + tuple(_unused(part) for part in others))
    structures = dict(one for part in fields for one in part.structures)
    draft = replace(draft, structures=tuple(structures.items()), structure=own[0].structure if own else "")
    for part in (*shapes[:1], *(() if draft.fields else own[:1])):
        notes = tuple(_named(part, note) for note in part.notes)
        draft = replace(
            draft,
            fields=draft.fields or part.fields,
            shapes=draft.shapes or part.shapes,
            notes=draft.notes + notes,
        )
    return draft


def _unused(part: OperatorDraft) -> Note:
    return Note(0, f"tiling data {part.structure} is registered for {part.function}; the draft has one structure")


def _files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool, bytes]]:
    """Yield the files, whether the caller named them, and the bytes that a file needs to be a source.

    Of folders, the files are those with usual names for operators.
    """
    for path in paths:
        if not path.is_dir():
            yield path, True, b""
            continue
        count = 0
        for folder, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                is_page = name.startswith("aclnn") and name.endswith(_PAGES)
                # Toolkits have a `<op>_binary.json` for each product, without a definition.
                is_json = name.endswith(".json") and not name.endswith("_binary.json")
                is_usual = name.endswith(_DIRECTORY_SUFFIXES) or is_page or is_json
                if is_usual or _TILING.fullmatch(name):
                    count += 1
                    if count > MOST_FILES:
                        raise UserError(f"got more than {MOST_FILES} files; name a smaller folder", path_text(path))
                    yield Path(folder, name), False, b"" if is_usual else b"TILING_DATA"


def _content(path: Path) -> bytes:
    return read_regular(path, "source", MOST_BYTES, "name a smaller file")


def read_file(path: Path) -> list[OperatorDraft]:
    """Return the operators of one file; a draft without a type has tiling data or shape inference.

    Raises:
        UserError: It cannot be read, is not a source, or has errors.
    """
    return _drafts(path, _content(path))


def _drafts(path: Path, data: bytes) -> list[OperatorDraft]:
    text = decoded(data, path)
    start = text.lstrip()[:1]
    place = path_text(path)
    if not start:
        raise UserError(f"got an empty file, expected {_KINDS}", place)
    if path.suffix == ".json" or (start in ("{", "[") and path.suffix not in (*_CPP, *_PAGES)):
        try:
            value = parse_json(text, _JSON)
            json.loads(text, object_pairs_hook=_unique)
        except FormError as error:
            raise UserError(f"{error}; correct the JSON text", place) from error
        return msopgen.drafts(value, text, place)
    is_page = path.suffix in _PAGES and "GetWorkspaceSize" in text  # also with an example in C++
    if not is_page and (path.suffix in _CPP or any(word in text for word in _WORDS)):
        if len(data) > _MOST_CPP_BYTES:
            expected = f"expected at most {_MOST_CPP_BYTES} of a C++ source; name a smaller file"
            raise UserError(f"the source has {len(data)} bytes, {expected}", place)
        return op_def.drafts(text, place)
    if path.suffix in _PAGES or "GetWorkspaceSize" in text:
        return aclnn_page.drafts(text, place)
    raise UserError(f"got a file of another kind, expected {_KINDS}", place)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of JSON.

    Raises:
        FormError: A key is repeated.
    """
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise FormError(f"got the key {shown(key)} again in one object, expected each key once")
        found[key] = value
    return found


def _wide_encoding(data: bytes) -> str:
    """Return the encoding of text in UTF-32, or of text like ASCII in UTF-16 without a mark; else ""."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "UTF-32"
    sample = data[:4096]
    for name, size, first in (("UTF-16 LE", 2, 0), ("UTF-16 BE", 2, 1), ("UTF-32", 4, 0), ("UTF-32", 4, 3)):
        letters = sample[first::size]
        if 0 not in letters and sample.count(0) > 0.9 * (len(sample) - len(letters)):
            return f"{name} without a byte order mark"
    return ""


def decoded(data: bytes, path: Path, expected: str = f": {_KINDS}; an ONNX model needs --node") -> str:
    """Return the text of a file in UTF-8, UTF-16 with a mark, or GB 18030.

    Args:
        data: The content of the file.
        path: Its path.
        expected: The end of the message about a binary file.

    Raises:
        UserError: It is binary.
    """
    encodings = ["utf-8-sig", "gb18030"]
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not data.startswith(codecs.BOM_UTF32_LE):
        encodings = ["utf-16"]
    elif b"\0" in data:
        encodings = []
        if wide := _wide_encoding(data):
            got = f"got {wide}, expected UTF-8, GBK, or UTF-16 with a byte order mark"
            raise UserError(f"{got}; save the file as UTF-8", path_text(path))
    for encoding in encodings:
        try:
            return data.decode(encoding).replace("\r\n", "\n")
        except UnicodeDecodeError:
            continue
    raise UserError(f"got binary data, expected text in UTF-8 or GBK{expected}", path_text(path))
