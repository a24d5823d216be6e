"""Call the NumPy reference of an operator, `tests/reference/<op>.py` of the project."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from opforge.codegen.errors import UserError
from opforge.codegen.expr.attr_kinds import AttrValue
from opforge.codegen.printing import first_line, path_text, shown
from opforge.codegen.project import find_project
from opforge.codegen.spec.call import named_members, with_lists
from opforge.codegen.spec.model import OpSpec
from opforge.frontend.io.arrays import Array
from opforge.frontend.ir.attributes import default_attributes

_EXPECTED = "expected a function reference(inputs, attrs) that returns an array for each output, by name; correct it"


def reference_path(spec: OpSpec) -> Path:
    """Return the path of an operator's file, which need not exist."""
    return find_project().root / "tests" / "reference" / f"{spec.name}.py"


def numpy_reference(
    spec: OpSpec, inputs: Mapping[str, Array], attrs: Mapping[str, AttrValue]
) -> dict[str, Array] | None:
    """Return the expected outputs of a call; None if the project has no reference of the operator.

    The tensors of a list have the names `x[0]`, `x[1]` and so on; the reference receives and returns lists.

    Args:
        spec: The operator.
        inputs: Arrays of the given inputs by name.
        attrs: Attributes by name; missing ones have their defaults.

    Raises:
        UserError: The reference fails or returns an invalid result.
    """
    path = reference_path(spec)
    if not path.is_file():
        return None
    try:
        results = _function(path, path.stat().st_mtime_ns)(with_lists(inputs), default_attributes(spec) | dict(attrs))
        arrays = {
            name: np.asarray(array)
            for tensor in spec.results
            for name, array in named_members(spec, tensor.name, results[tensor.name]).items()
        }
    except NotImplementedError as error:  # the reference of an imported operator
        raise UserError(first_line(error), path_text(path)) from error
    except Exception as error:
        raise UserError(
            f"{path_text(path)}: got {shown(f'{type(error).__name__}: {first_line(error)}')}, {_EXPECTED}"
        ) from error
    return arrays


@lru_cache(maxsize=64)
def _function(path: Path, _changed: int) -> Callable[..., Mapping[str, Any]]:
    """Import a reference; tests of the project also import it from the folder `tests`."""
    loader = SourceFileLoader(f"opforge_reference_{path.stem}", str(path))
    module = ModuleType(loader.name)
    module.__file__ = loader.path
    folder = str(path.parent.parent)
    sys.path.append(folder)
    try:
        loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    function: Callable[..., Mapping[str, Any]] = module.reference
    return function
