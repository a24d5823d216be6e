"""Build the documentation site: `bash build.sh --docs` writes static pages with search to build/site/.

The pages keep their paths in the repository, so that relative links work on code hosts and on the site. A link to a
missing file is an error. A link to a source file becomes plain text.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import figures
import spec_keys
import typer
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.cli.options import path_option
from opforge.codegen.errors import UserError
from opforge.codegen.files import replace_file
from opforge.codegen.generate import rendered
from opforge.codegen.project import Project
from opforge.codegen.spec.loader import load_project

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build" / "site"
HOME = "docs/index.md"
# Generated here.
COMMANDS, FIGURES = "docs/reference/commands.md", "docs/reference/figures.md"
ERRORS = "docs/explanation/model-error.md"
SPEC_KEYS = "docs/reference/spec-keys.md"
CONTENTS = {
    "Start": ["docs/quick-start.md"],
    "Tutorials": [
        "docs/tutorials/first-operator.md",
        "docs/tutorials/sum-across-cores.md",
        "docs/tutorials/convert-a-model.md",
    ],
    "How-to guides": [
        "docs/how-to/use-your-own-project.md",
        "docs/how-to/import-an-operator.md",
        "docs/how-to/edit-specs.md",
        "docs/how-to/run-a-kernel.md",
        "docs/how-to/run-ascend-c-programs.md",
        "docs/how-to/run-public-kernels.md",
        "docs/how-to/find-the-slow-line.md",
        "docs/how-to/tune-a-plan.md",
        "docs/how-to/call-an-operator.md",
        "docs/how-to/use-from-pytorch.md",
        "docs/how-to/use-from-onnxruntime.md",
        "docs/how-to/convert-models.md",
        "docs/how-to/install-into-cann.md",
        "docs/how-to/build-with-cann.md",
        "docs/how-to/build-in-a-container.md",
    ],
    # The pages of the operators follow, generated from the specs.
    "Operators": [],
    "Example operators": ["docs/explanation/example-operators.md"],
    "Reference": [
        COMMANDS,
        "docs/reference/exit-codes.md",
        "docs/reference/spec.md",
        SPEC_KEYS,
        "docs/reference/shared-plans.md",
        "docs/reference/python-api.md",
        "docs/reference/rewrite-rules.md",
        "docs/reference/ascend-c.md",
        "docs/reference/ascend-c-high-level.md",
        "docs/reference/matmul.md",
        "docs/reference/twin-checks.md",
        "docs/reference/package.md",
        "docs/reference/glossary.md",
        FIGURES,
    ],
    "Explanation": [
        "docs/architecture.md",
        "docs/explanation/cpu-twin.md",
        "docs/explanation/findings-in-public-kernels.md",
        "docs/explanation/time-model.md",
        "docs/explanation/vendor-comparison.md",
        ERRORS,
        "docs/explanation/operators.md",
        "docs/explanation/products.md",
        "docs/explanation/limits.md",
        "docs/explanation/faults.md",
    ],
    "Help": ["docs/troubleshooting.md", "CONTRIBUTING.md"],
}
# Sphinx's search ignores numbers because of this condition. Users search for status codes.
NO_NUMBERS = r" || queryTerm.match(/^\d+$/)"
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]\\]|\\.)+)\]\(([^()\s]+)\)")
_MERMAID = re.compile(r"^```mermaid\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


class DeadLinkError(Exception):
    """A link target is not a file of the repository."""


def pages() -> dict[str, str]:
    """Return all pages of the site by path.

    Raises:
        DeadLinkError: A page links to a file that does not exist.
    """
    specs = load_project(Project(ROOT))
    projects = {"Operators": ROOT, "Example operators": ROOT / "examples" / "operators"}
    operators = {caption: _operator_pages(root) for caption, root in projects.items()}
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in _written()}
    for made in operators.values():
        texts |= made
    texts[COMMANDS] = _commands_page()
    texts[SPEC_KEYS] = spec_keys.page()
    texts[FIGURES] = figures.page([spec.op_type for spec in specs])
    texts[ERRORS] += figures.error_table()
    texts[HOME] += _contents({caption: sorted(made) for caption, made in operators.items()})
    return {path: _with_links(path, _MERMAID.sub(_arrow_table, text), texts) for path, text in texts.items()}


def _written() -> list[str]:
    generated = {COMMANDS, FIGURES, SPEC_KEYS}
    return [HOME, *(path for paths in CONTENTS.values() for path in paths if path not in generated)]


def _arrow_table(diagram: re.Match[str]) -> str:
    """Replace a Mermaid diagram of imports by a table: the site loads no script to draw it."""
    targets: dict[str, list[str]] = {}
    for source, target in re.findall(r"^\s+(\S+) --> (\S+)$", diagram[1], re.MULTILINE):
        targets.setdefault(source, []).append(target)
    rows = "".join(
        f"| `{source}` | {', '.join(f'`{name}`' for name in names)} |\n" for source, names in targets.items()
    )
    return f"| module | imports |\n|---|---|\n{rows}"


def _operator_pages(root: Path) -> dict[str, str]:
    specs = load_project(Project(root))
    files = rendered([(spec, root) for spec in specs], is_complete=True).tree.files
    names = {f"aclnn{spec.op_type}.md": spec.op_type for spec in specs}
    return {f"operators/{name}": files[f"docs/{name}"] + figures.operator_section(op) for name, op in names.items()}


def _commands_page() -> str:
    """Collect the help texts of all commands."""

    def help_text(*arguments: str) -> str:
        result = CliRunner().invoke(app, [*arguments, "--help"], prog_name="opforge", env={"COLUMNS": "120"})
        return f"```text\n{result.output.strip()}\n```\n"

    commands = typer.main.get_group(app).commands  # type: ignore[attr-defined]
    parts = [f"## opforge {name}\n\n{help_text(name)}" for name in sorted(commands)]
    return "\n".join(["# Commands\n", "This page shows the help text of every command.\n", help_text(), *parts])


def _contents(operators: Mapping[str, Sequence[str]]) -> str:
    trees = []
    for caption, paths in CONTENTS.items():
        entries = "\n".join("/" + path.removesuffix(".md") for path in (*paths, *operators.get(caption, ())))
        trees.append(f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n")
    return "".join(trees)


def _with_links(path: str, text: str, known: dict[str, str]) -> str:
    """Keep links to pages and external addresses, and replace links to other files by their names."""
    code = [found.span() for found in _FENCED.finditer(text)]

    def checked(link: re.Match[str]) -> str:
        label, target = link[1], link[2]
        if "://" in target or target.startswith("#") or any(start < link.start() < end for start, end in code):
            return link[0]
        place = os.path.normpath(Path(path).parent / target.partition("#")[0])
        if place in known:
            return link[0]
        if not (ROOT / place).exists():
            raise DeadLinkError(f"{path}: got a link to {target}, expected a file of the repository")
        return label if label.strip("`") == place else f"{label} (`{place}`)"

    return _LINK.sub(checked, text)


def build(out: Path) -> int:
    """Write the site; returns the exit code."""
    source = out.parent / f"{out.name}-source"
    shutil.rmtree(source, ignore_errors=True)
    for path, text in pages().items():
        replace_file(source / path, text)
    shutil.copytree(ROOT / "docs" / "static", source / "docs" / "static")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", str(ROOT / "docs")]
    code = subprocess.run([*command, str(source), str(out)], check=False).returncode
    if code == 0:
        script = out / "_static" / "searchtools.js"
        replace_file(script, script.read_text(encoding="utf-8").replace(NO_NUMBERS, ""))
        replace_file(out / "index.html", '<meta http-equiv="refresh" content="0; url=docs/index.html">\n')
    return code


def main(
    out: Annotated[Path, path_option("-o", "--output", metavar="DIR", text="Folder of the site.")] = SITE,
) -> None:
    """Build the documentation site: static pages with search."""
    if build(out.resolve()):
        raise typer.Exit(1)
    print(out.resolve() / "index.html")  # noqa: T201 - the result of the command


if __name__ == "__main__":
    try:
        typer.run(main)
    except (UserError, DeadLinkError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - the one place that reports errors
        sys.exit(2 if isinstance(error, UserError) else 1)
