"""Compare the page of the specification language with the models of a spec."""

from __future__ import annotations

import json
import re
import typing
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter

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


def _models(model):
    yield model
    for field in model.model_fields.values():
        parts = [field.annotation]
        while parts:
            part = parts.pop()
            parts += typing.get_args(part)
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from _models(part)
