"""Compare the page of the specification language with the models of a spec."""

from __future__ import annotations

import importlib
import json
import re
import typing
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter

from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.parts import SpecData

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
EXAMPLES = [
    (path.name, text)
    for path in (REFERENCE / "spec.md", REFERENCE / "shared-plans.md")
    for text in re.findall(r"^```yaml\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
]


@pytest.mark.parametrize(("page", "text"), EXAMPLES)
def test_yaml_examples_are_valid(page, text):
    for key, value in yaml.safe_load(text).items():
        TypeAdapter(SpecData.model_fields[key].annotation).validate_json(json.dumps(value))


def test_page_has_every_key():
    page = (REFERENCE / "spec.md").read_text(encoding="utf-8")
    keys = {field.alias or key for model in _models(SpecData) for key, field in model.model_fields.items()}
    assert len(keys) > 50
    assert [
        key for key in sorted(keys) if not re.search(rf"`{key}`|^## .*\b{key}\b|\b{key}:", page, re.MULTILINE)
    ] == []


def test_table_has_every_key_of_the_schema(monkeypatch):
    monkeypatch.syspath_prepend(str(REFERENCE.parent))
    spec_keys = importlib.import_module("spec_keys")
    rows = re.findall(r"^\| `([^`]+)` \|(?: (.+) \|){1}$", spec_keys.page(), re.MULTILINE)
    shown = [path for path, _ in rows]
    assert len(shown) == len(set(shown))
    words = [re.sub(r"\[\]|\.\*", "", path).split(".") for path in shown]
    names = [(field.alias or key) for model in set(_models(OpSpec)) for key, field in model.model_fields.items()]
    assert sorted(path[-1] for path in words) == sorted(names)
    for path, cells in rows:
        kind, default, meaning, example = re.split(r" (?<!\\)\| ", cells)
        assert all((kind, default, meaning, example.strip("`"))), path


@pytest.mark.parametrize(
    "path", [("inputs",), ("aclnn", "[]"), ("tiling", "data", "[]"), ("document", "[]", "at", "[]")]
)
def test_examples_of_the_table_are_valid(path, monkeypatch):
    monkeypatch.syspath_prepend(str(REFERENCE.parent))
    spec_keys = importlib.import_module("spec_keys")
    specs = spec_keys._specs()
    found = spec_keys.keys(OpSpec.model_json_schema())
    inside = [key for key in found if key.path[: len(path)] == path]
    assert inside
    for key in inside:
        (value,) = yaml.safe_load(f"{{{spec_keys.example(key.paths, specs)}}}")
        assert value == key.path[-1]


def test_unknown_key_stops_the_build(monkeypatch):
    monkeypatch.syspath_prepend(str(REFERENCE.parent))
    spec_keys = importlib.import_module("spec_keys")
    text = spec_keys.LANGUAGE.read_text(encoding="utf-8").replace("| `ends_of` |", "| `end_of` |")
    with pytest.raises(KeyError, match=r"inputs\[\]\.values\.ends_of"):
        spec_keys._Meanings(text).of(("inputs", "[]", "values", "ends_of"))


def _models(model):
    yield model
    for field in model.model_fields.values():
        parts = [field.annotation]
        while parts:
            part = parts.pop()
            parts += typing.get_args(part)
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from _models(part)
