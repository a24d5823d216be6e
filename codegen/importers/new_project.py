"""Write drafts as a project: spec, reference stub and tests of each operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from opforge.codegen.data.names import op_type_problem, snake_case
from opforge.codegen.errors import UserError
from opforge.codegen.new import common_texts, write_texts
from opforge.codegen.printing import shown
from opforge.codegen.spec.loader import read_text
from opforge.codegen.spec.yaml_nodes import dotted

from .draft import OperatorDraft
from .spec_text import SpecDraft, spec_of

_MOST_TENSORS = 64
_TEST_OF_SPECS = "tests/test_specs.py"
_REFERENCE = '''"""Compute the expected result of {op_type}; written by you from its formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def reference(inputs: Mapping[str, Array], attrs: Mapping[str, Any]) -> dict[str, Array]:
    """Return {outputs} by name, computed from {inputs}."""
    raise NotImplementedError(
        "got no formula of {op_type}, expected the outputs {outputs}; write the function"
    )
'''
_TEST_SPEC = '''"""Test the spec of {op_type}, which declares the operator only."""

from pathlib import Path

from opforge.codegen.spec.loader import load_specs

ROOT = Path(__file__).resolve().parent.parent


def test_spec_is_valid():
    (spec,) = load_specs([ROOT / "op_proto" / "{name}.yaml"])
    assert spec.op_type == "{op_type}"
'''
_TEST = '''"""Test {op_type}: its spec, and its kernel against the reference on the test shapes of the spec."""

from pathlib import Path

import pytest

from opforge.codegen.spec.loader import load_specs
from opforge.frontend.run.agreement import spec_calls

ROOT = Path(__file__).resolve().parent.parent
KERNEL = ROOT / "op_kernel" / "{name}.h"


def test_spec_is_valid():
    (spec,) = load_specs([ROOT / "op_proto" / "{name}.yaml"])
    assert spec.op_type == "{op_type}"


@pytest.mark.skipif(not KERNEL.exists(), reason="op_kernel/{name}.h is not written")
@pytest.mark.parametrize("call", [call for call in spec_calls() if call.op_type == "{op_type}"], ids=str)
def test_kernel_computes_the_reference(call, agree):
    agree(call.op_type, call.inputs(), call.attrs{level})
'''


def project_files(
    drafts: Sequence[OperatorDraft], rejected: list[str] | None = None
) -> tuple[dict[str, str], dict[str, SpecDraft]]:
    """Return the files of a project by path, and the specs by operator.

    Args:
        drafts: The operators.
        rejected: Gets one message for each operator that no spec can describe.

    Raises:
        UserError: No spec can describe an operator; with `rejected`, all operators.
    """
    files: dict[str, str] = {}
    specs: dict[str, SpecDraft] = {}
    taken: dict[str, tuple[str, str]] = {}
    for draft in drafts:
        try:
            _require_new_names(draft, taken)
            specs[draft.op_type] = _add(draft, files)
        except UserError as error:
            if rejected is None or len(drafts) == 1:
                raise
            rejected.append(str(error))
    if not specs:
        raise UserError(f"got {len(drafts)} operators that no spec can describe; {(rejected or [''])[0]}")
    return _common_files(next(iter(specs))) | files, specs


def _common_files(op_type: str) -> dict[str, str]:
    """Return the common files of projects; the test of each imported operator replaces the test of all specs."""
    texts = common_texts(op_type)
    del texts[_TEST_OF_SPECS]
    lines = texts["README.md"].splitlines(keepends=True)
    return texts | {"README.md": "".join(line for line in lines if _TEST_OF_SPECS not in line)}


def _require_new_names(draft: OperatorDraft, taken: dict[str, tuple[str, str]]) -> None:
    """Add the names of an operator, with its place, by their lower case, which is that of names of files.

    Raises:
        UserError: Another operator has one of the names.
    """
    names = {name.lower(): (name, draft.place) for name in (draft.op_type, draft.function or f"aclnn{draft.op_type}")}
    for lower, (name, place) in names.items():
        if lower in taken:
            other, first = taken[lower]
            got = f"got {shown(name)}, and {shown(other)} in {first}"
            raise UserError(f"{got}, expected names that differ in lower case; import it alone", place)
    taken |= names


def _add(draft: OperatorDraft, files: dict[str, str]) -> SpecDraft:
    """Add the files of an operator; return its spec.

    Raises:
        UserError: No spec can describe the operator.
    """
    if refusal := op_type_problem(draft.op_type):
        raise UserError(f"{refusal}; choose one with --as", draft.place)
    for what, group in (("input", draft.inputs), ("output", draft.outputs)):
        if len(group) > _MOST_TENSORS:
            got = f"{draft.op_type}: got {len(group)} {what}s, expected at most {_MOST_TENSORS}"
            raise UserError(f"{got}; a spec cannot describe this operator", draft.place)
    name = snake_case(draft.op_type)
    spec = spec_of(draft)
    if problems := read_text(spec.text)[1].problems:
        first = f"{dotted(problems[0].path)}: {problems[0].message}"
        raise UserError(f"{draft.op_type}: no spec can describe this operator; {first}", draft.place)
    prefix = "output " if draft.outputs else ""
    results = [spec.names[f"{prefix}{tensor.name}"] for tensor in draft.results]
    words = {
        "op_type": draft.op_type,
        "name": name,
        "inputs": ", ".join(spec.names[tensor.name] for tensor in draft.inputs),
        # Public kernels leave some synchronization to the compiler (--cce-auto-sync).
        "level": ', level="device"' if draft.tiling else "",
        "outputs": ", ".join(results) or "none",
    }
    files[f"op_proto/{name}.yaml"] = spec.text
    if not draft.is_declared:
        files[f"tests/reference/{name}.py"] = _filled(_REFERENCE, words)
    files[f"tests/test_{name}.py"] = _filled(_TEST_SPEC if draft.is_declared else _TEST, words)
    return spec


def write_project(
    drafts: Sequence[OperatorDraft],
    folder: Path,
    kernel: Mapping[str, str] = MappingProxyType({}),
    rejected: list[str] | None = None,
) -> dict[str, SpecDraft]:
    """Write a project completely or not at all; return the specs by operator.

    Args:
        drafts: The operators.
        folder: The new folder.
        kernel: Further files by path.
        rejected: As for `project_files`.

    Raises:
        UserError: As `project_files`, or the folder exists or cannot be written.
    """
    files, specs = project_files(drafts, rejected)
    write_texts({**files, **kernel}, folder)
    return specs


def _filled(template: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        template = template.replace(f"{{{word}}}", value)
    return template
