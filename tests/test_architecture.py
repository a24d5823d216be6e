"""Check the structure of the Python packages: order, cycles, form of imports, sizes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# A package may import itself and the packages after it in its row.
MAY_IMPORT = {
    "cli": {"codegen", "frontend", "package", "torch", "twin"},
    "torch": {"codegen", "frontend", "package", "twin"},
    "frontend": {"codegen", "package", "twin"},
    "package": {"codegen", "twin"},
    "twin": {"codegen"},
    "codegen": set(),
}
# Packages that are not in a top-level folder of their name. The files in op_plugin/torch/operators/, each about one
# operator, are no modules: they are loaded by the name of the spec.
FOLDERS = {"torch": ROOT / "op_plugin" / "torch"}
MOST_LINES, MOST_FUNCTION_LINES, MOST_MODULES = 400, 80, 15


@cache
def modules() -> dict[str, Path]:
    """Return the modules of all packages by name; starters are separate projects."""
    found = {}
    for package in MAY_IMPORT:
        folder = FOLDERS.get(package, ROOT / package)
        for path in folder.rglob("*.py"):
            parts = (package, *path.relative_to(folder).with_suffix("").parts)
            if not {"starters", "operators"} & {*path.relative_to(folder).parts[:1]}:
                found[".".join(("opforge", *parts)).removesuffix(".__init__")] = path
    return found


def imports(name: str) -> Iterator[tuple[int, str]]:
    """Yield level and module of every import, also in functions, `TYPE_CHECKING` blocks and `import_module`."""
    path = modules()[name]
    folder = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and _is_dynamic(node) and isinstance(node.args[0], ast.Constant):
            yield 0, str(node.args[0].value)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = folder.rsplit(".", node.level - 1)[0] if node.level > 1 else folder
                base = f"{above}.{base}".rstrip(".")
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield node.level, whole if whole in modules() else base


def _is_dynamic(node: ast.Call) -> bool:
    """Return whether a call is `import_module(NAME)`, in any module."""
    return ast.unparse(node.func).rpartition(".")[2] in {"import_module", "__import__"} and bool(node.args)


@cache
def graph() -> dict[str, set[str]]:
    """Return the project modules that each module imports."""
    return {name: {other for _, other in imports(name) if other in modules()} - {name} for name in modules()}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_in_one_order(package):
    others = {
        (name, other)
        for name, targets in graph().items()
        for other in targets
        if name.split(".")[1] == package and other.split(".")[1] not in {package, *MAY_IMPORT[package]}
    }
    assert others == set()


def test_package_imports_only_the_supervision_of_processes_from_the_twin():
    """`opforge doctor` runs untrusted programs; a second supervisor would repeat the code of the twin."""
    found = {other for name, targets in graph().items() if name.startswith("opforge.package.") for other in targets}
    allowed = {"opforge.twin.compiler.limited_process", "opforge.twin.runtime.isolation"}
    assert {name for name in found if name.startswith("opforge.twin")} == allowed


def circles(arrows: dict[str, set[str]]) -> dict[str, list[str]]:
    """Return the modules in a cycle or with a path to one, with their targets."""
    waiting = dict(arrows)
    while ready := {name for name, targets in waiting.items() if not targets & waiting.keys()}:
        for name in ready:
            del waiting[name]
    return {name: sorted(targets & waiting.keys()) for name, targets in waiting.items()}


def test_no_modules_import_each_other_in_a_circle():
    assert circles(graph()) == {}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_no_folders_import_each_other_in_a_circle(package):
    arrows: dict[str, set[str]] = {}
    for one, other in boxes(package):
        arrows.setdefault(one, set()).add(other)
    assert circles(arrows) == {}


def test_imports_are_relative_in_a_folder_and_absolute_elsewhere():
    wrong = []
    for name, path in modules().items():
        folder = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for level, other in imports(name):
            is_near = other in modules() and modules()[other].parent == path.parent and other != folder
            if level > 1 or (level == 0 and is_near):
                wrong.append((name, other))
    assert wrong == []


def test_modules_functions_and_folders_are_small():
    large = []
    for name, path in modules().items():
        text = path.read_text(encoding="utf-8")
        large += [name] if text.count("\n") > MOST_LINES else []
        large += [
            f"{name}.{node.name}"
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (node.end_lineno or 0) - node.lineno >= MOST_FUNCTION_LINES
        ]
    folders = {path.parent for path in modules().values()}
    folders = {folder for folder in folders if len(list(folder.glob("[!_]*.py"))) > MOST_MODULES}
    assert [*large, *(str(folder.relative_to(ROOT)) for folder in folders)] == []


def drawn() -> dict[str, set[tuple[str, str]]]:
    """Return the arrows of each diagram in docs/architecture.md, by the title above it."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## `(\w+)`.*?```mermaid\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    return {name: set(re.findall(r"^ +(\w+) --> (\w+)$", diagram, re.MULTILINE)) for name, diagram in sections}


def part(name: str) -> str:
    """Return the box of a module in the diagram of its package: its sub-package, or the module itself."""
    words = name.split(".")
    return words[2] if len(words) > 2 else words[1]


def boxes(package: str) -> set[tuple[str, str]]:
    """Return the arrows of a diagram, from the imports."""
    arrows = {
        (part(name), part(other))
        for name, targets in graph().items()
        for other in targets
        if name.split(".")[1] == other.split(".")[1] == package and name != f"opforge.{package}"
    }
    return {(one, other) for one, other in arrows if other not in (one, package)}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_diagrams_show_the_imports(package):
    found = boxes(package)
    assert drawn()[package] == found, "\n".join(f"    {one} --> {other}" for one, other in sorted(found))
