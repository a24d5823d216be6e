"""Delete, misspell, retype and duplicate every key of every spec: the spec is rejected, or the files are unchanged."""

import random
from pathlib import Path

import pytest
import yaml

from opforge.codegen.render import render
from opforge.codegen.spec.loader import SpecError, load_specs

ROOT = Path(__file__).resolve().parent.parent.parent
SPECS = sorted((ROOT / "op_proto").glob("*.yaml"))


def keys_of(node):
    """Yield every key node of a document, with the path of its key names."""
    todo = [((), node)]
    while todo:
        path, here = todo.pop()
        if isinstance(here, yaml.MappingNode):
            for key, value in here.value:
                yield (*path, key.value), key, value
                todo.append(((*path, key.value), value))
        elif isinstance(here, yaml.SequenceNode):
            todo += [(path, item) for item in here.value]


def cut(text, start, end, new):
    return text[:start] + new + text[end:]


def mutants(text):
    """Yield (kind, path of keys, changed text) for every key."""
    for path, key, value in keys_of(yaml.compose(text)):
        start, end = key.start_mark.index, value.end_mark.index
        yield "misspelt", path, cut(text, start, key.end_mark.index, f"{key.value}q")
        retyped = "[[]]" if isinstance(value, yaml.ScalarNode) else "7"
        if isinstance(value, yaml.ScalarNode) or "\n" not in text[value.start_mark.index : end]:
            yield "retyped", path, cut(text, value.start_mark.index, end, retyped)
            if text[key.start_mark.index - 1] in "{ " and "{" in text[text.rfind("\n", 0, start) + 1 : start]:
                yield "doubled", path, cut(text, end, end, f", {text[start:end]}")
                trailing = len(text[end:]) - len(text[end:].lstrip(", "))
                yield "deleted", path, cut(text, start, end + trailing, "")


def count_rejected(spec, folder, changes):
    """Load mutants: each is rejected with a position, or it can be rendered; return the number of rejected mutants."""
    path = folder / spec.name
    refused = 0
    for kind, keys, changed in changes:
        path.write_text(changed, encoding="utf-8")
        try:
            loaded = load_specs([path])[0]
        except SpecError as error:
            refused += 1
            for line in str(error).splitlines():
                assert line.startswith(f"{path}:"), f"{kind} {keys}: {line}"
            continue
        assert kind not in {"misspelt", "doubled"} or is_free(keys), f"{kind} {keys} was accepted"
        assert render(loaded), f"{kind} {keys} cannot be rendered"
    return refused


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_changed_key_is_rejected_or_valid(spec, tmp_path):
    every = list(mutants(spec.read_text(encoding="utf-8")))
    chosen = random.Random(3).sample(every, 40)  # noqa: S311  # the same mutants in every run
    assert count_rejected(spec, tmp_path, chosen) > 20


@pytest.mark.all
@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_every_changed_key_is_rejected_or_valid(spec, tmp_path):
    every = list(mutants(spec.read_text(encoding="utf-8")))
    assert count_rejected(spec, tmp_path, every) > len(every) // 2


def is_free(keys):
    """Return whether a key is a name that the spec chooses."""
    return len(keys) > 1 and keys[-2] in {"params", "types", "args", "attrs", "bodies", "symbols", "casts", "shapes"}
