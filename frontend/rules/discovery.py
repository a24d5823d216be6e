"""Find all rules in the folders of `rules` and in `training`, without a list."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from functools import cache
from inspect import isabstract
from itertools import chain
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

from .context import Specs
from .rule import Rule

RULES = "opforge.frontend.rules"
TRAINING = "opforge.frontend.training"


@cache
def modules(folder: str) -> tuple[ModuleType, ...]:
    """Return the modules of a package and its subpackages, by name; none if the package is not installed.

    For `rules`, only those in the subpackages: modules of the package itself find and try the rules.

    Raises:
        ImportError: A folder with modules is no package.
    """
    found = importlib.util.find_spec(folder)
    places = (found.submodule_search_locations if found else None) or []
    for path in chain.from_iterable(Path(place).rglob("*.py") for place in places):
        if not (path.parent / "__init__.py").is_file():
            # Neither walk_packages nor a wheel contains its modules.
            raise ImportError(f"{path.parent}: got no __init__.py, expected one beside {path.name}; create it")
    names = [module.name for module in walk_packages(places, f"{folder}.")]
    return tuple(importlib.import_module(name) for name in names if name.rpartition(".")[0] != RULES)


def facts(name: str) -> dict[Any, Any]:
    """Return one table: the union of all tables with this name, such as `REFERENCE`, in the modules of the rules."""
    found = (module for folder in (RULES, TRAINING) for module in modules(folder))
    return {key: value for module in found for key, value in getattr(module, name, {}).items()}


@cache
def _classes(training: bool) -> Sequence[type[Rule]]:
    folders = (RULES, TRAINING) if training else (RULES,)
    # All modules first: a class may collect registrations of later modules.
    members = [(module, member) for folder in folders for module in modules(folder) for member in vars(module).values()]
    return [
        member
        for module, member in members
        if isinstance(member, type) and issubclass(member, Rule) and member.__module__ == module.__name__
        if not isabstract(member)
    ]


def rules(specs: Specs, *, training: bool = True) -> Sequence[Rule]:
    """Return the rules for a set of operators, lowest priority number first; `training` includes that package.

    Importing the modules of `training` takes 5 % of the time for converting a small model.
    """
    made = (rule for found in _classes(training) for rule in found.instances(specs))
    return sorted(made, key=lambda rule: rule.priority)
