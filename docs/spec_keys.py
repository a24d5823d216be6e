"""Write the page with every key of a spec: types and defaults from the schema, meanings from the page of the language.

The examples are the shortest ones in the specs of the repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from opforge.codegen.data.dtypes import ANY_FORMAT, DTYPES, FORMATS
from opforge.codegen.data.products import DEVICES, PRODUCTS
from opforge.codegen.spec.model import OpSpec

ROOT = Path(__file__).resolve().parent.parent
LANGUAGE = ROOT / "docs" / "reference" / "spec.md"
SPECS = ("op_proto", "codegen/starters", "examples/operators", "tests/codegen/specimens", "tests/codegen/lists")
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_HEAD = re.compile(r"^\| key(?: of (?P<owner>[^|]+?))? \|")
_ROW = re.compile(r"^\| (?P<keys>(?:`\w+`(?:, )?)+) \|(?: (?P<cells>.*) \|)$")
# Long lists of words have a name.
_WORDS = {
    frozenset(words): name
    for name, words in (
        ("dtype", DTYPES),
        ("format", (*FORMATS, ANY_FORMAT)),
        ("product", PRODUCTS),
        ("device", DEVICES),
    )
}
# Keys whose table has another name: lists of calls and of functions.
_OWNERS = {"at": "a call", "past": "a call"}
_FENCE = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)

Schema = dict[str, Any]
KeyPath = tuple[str, ...]


def page() -> str:
    """Return the page."""
    schema = OpSpec.model_json_schema()
    lines = [
        "# Keys of a spec",
        "",
        "This table lists every key of an operator spec. [Specification language](spec.md) describes them in detail.",
        "",
        "`[]` stands for each item of a list. The examples are from specs of this repository.",
        "",
        "| key | type | default | meaning | example |",
        "|---|---|---|---|---|",
    ]
    meanings, specs = _Meanings(LANGUAGE.read_text(encoding="utf-8")), _specs()
    for key in keys(schema):
        same = f". It has the keys of `{path_text(key.same_as)}`." if key.same_as else ""
        cells = [
            f"`{path_text(key.path)}`",
            _type_text(key.field, schema),
            "required" if key.is_required else _default_text(key.field),
            meanings.of(key.path).rstrip(".") + same,
            f"`{example(key.paths, specs)}`",
        ]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


@dataclass
class Key:
    """A key of a spec.

    Attributes:
        path: Its path; `[]` and `{}` are the items of a list and of a map.
        paths: All paths with the same meaning.
        same_as: The key that has the same keys inside, which are not repeated.
    """

    path: KeyPath
    field: Schema
    is_required: bool
    paths: list[KeyPath]
    same_as: KeyPath = ()


def keys(schema: Schema) -> list[Key]:
    """Return all keys; a model that several keys use is in the list once."""
    found: list[Key] = []
    places: dict[str, list[KeyPath]] = {"": [()]}
    _add_keys(found, places, schema, "")
    for key in found:
        key.paths += [path for path in _paths(key.path, places) if path != key.path]
    return found


def _add_keys(found: list[Key], places: dict[str, list[KeyPath]], schema: Schema, name: str) -> None:
    """Add the keys of a model and of the models inside."""
    model = schema["$defs"][name] if name else schema
    above = places[name][0]
    for word, field in model["properties"].items():
        path = (*above, word)
        key = Key(path, field, word in model.get("required", ()), [path])
        found.append(key)
        items = field.get("items") or field.get("additionalProperties") or field
        for part in (items, *items.get("anyOf", ())):
            inner = part.get("$ref", "").rpartition("/")[2]
            if not inner:
                continue
            between = ("[]",) if "items" in field else ("{}",) if "additionalProperties" in field else ()
            places.setdefault(inner, []).append((*path, *between))
            if len(places[inner]) == 1:
                _add_keys(found, places, schema, inner)
            else:
                key.same_as = places[inner][0]


def _paths(path: KeyPath, places: dict[str, list[KeyPath]]) -> Iterator[KeyPath]:
    for first, *others in places.values():
        if first == path[: len(first)]:
            yield from ((*other, *path[len(first) :]) for other in others)


def path_text(path: KeyPath) -> str:
    """Return a path as the table shows it."""
    return ".".join(path).replace(".[]", "[]").replace(".{}", ".*")


class _Meanings:
    """The meanings in the tables of the page of the language."""

    def __init__(self, text: str) -> None:
        parts = _HEADING.split(text)
        self._sections = dict(zip(parts[1::2], parts[2::2], strict=True))

    def of(self, path: KeyPath) -> str:
        """Return the meaning of a key.

        Raises:
            KeyError: The page has none.
        """
        names = [name for name in path if name not in {"[]", "{}"}]
        (heading,) = [heading for heading in self._sections if names[0] in heading.split(", ")]
        section = self._sections[heading]
        owner = _OWNERS.get(names[-2], f"`{names[-2]}`") if len(names) > 1 else ""
        found = _rows(section)
        for place in (owner, ""):
            if (place, names[-1]) in found:
                return found[place, names[-1]]
        if len(names) == 1:
            return re.split(r"\.\s", section.strip())[0]
        raise KeyError(path_text(path))


def _rows(section: str) -> dict[tuple[str, str], str]:
    """Return the last cells of all tables of keys in a section, by the owner in the head of the table and the key."""
    rows: dict[tuple[str, str], str] = {}
    owner: str | None = None
    for line in section.splitlines():
        if head := _HEAD.match(line):
            owner = head["owner"] or ""
        elif (row := _ROW.match(line)) and owner is not None:
            meaning = row["cells"].rpartition(" | ")[2]
            rows |= {(owner, key): meaning for key in re.findall(r"\w+", row["keys"])}
        elif not line.startswith("|"):
            owner = None
    return rows


def _specs() -> list[Any]:
    files = sorted(path for folder in SPECS for path in (ROOT / folder).rglob("*.yaml"))
    texts = [path.read_text(encoding="utf-8") for path in files]
    return [yaml.safe_load(text) for text in texts + _FENCE.findall(LANGUAGE.read_text(encoding="utf-8"))]


def example(paths: Sequence[KeyPath], specs: Sequence[Any]) -> str:
    """Return the shortest example of a key in YAML.

    Raises:
        KeyError: No spec uses the key.
    """
    values = [value for path in paths for spec in specs for value in _values(spec, path)]
    texts = [_flow({paths[0][-1]: _shortened(value)}) for value in values if value != []]
    if not texts:
        raise KeyError(path_text(paths[0]))
    return min(texts, key=lambda text: (len(text), text))


def _values(value: Any, path: KeyPath) -> Iterator[Any]:
    if not path:
        yield value
    elif path[0] in {"[]", "{}"}:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _values(item, path[1:])
    elif isinstance(value, dict) and path[0] in value:
        yield from _values(value[path[0]], path[1:])


def _shortened(value: Any) -> Any:
    """Return a value with at most one entry of lists and maps of maps, and short texts."""
    if isinstance(value, dict) and any(isinstance(item, (dict, list)) for item in value.values()):
        return {key: _shortened(item) for key, item in list(value.items())[:1]}
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [_shortened(value[0])]
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in list(value.items())[:3]}
    return value.strip().splitlines()[0] if isinstance(value, str) and value.strip() else value


def _flow(value: dict[str, Any]) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=1 << 20, sort_keys=False, allow_unicode=True)
    return text.strip()[1:-1].replace("`", "'")


def _default_text(field: Schema) -> str:
    default = field.get("default")
    if default in (None, "", [], {}) or isinstance(default, dict):
        return "none"
    return f"`{_flow({'x': default}).removeprefix('x: ')}`"


def _type_text(field: Schema, schema: Schema) -> str:
    """Return the type of a value in words."""
    if "$ref" in field:
        return "map"
    if "anyOf" in field:
        texts = [_type_text(part, schema) for part in field["anyOf"] if part.get("type") != "null"]
        return " or ".join(dict.fromkeys(texts))
    if "enum" in field:
        if frozenset(field["enum"]) in _WORDS:
            return _WORDS[frozenset(field["enum"])]
        return "one of " + ", ".join(f"`{word}`" for word in field["enum"])
    if field["type"] == "array":
        return f"list of {_type_text(field['items'], schema)}" if "items" in field else "list"
    if field["type"] == "object":
        values = field.get("additionalProperties")
        return f"map of {_type_text(values, schema)}" if isinstance(values, dict) else "map"
    return {"string": "text", "boolean": "bool"}.get(field["type"], field["type"])
