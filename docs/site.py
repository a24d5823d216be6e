"""`bash build.sh --docs`: the pages of this folder, of the rooms and of the operators as a static site, with search.

The texts are laid out as in the repository, so that links between them lead where they lead there. A link that leads
nowhere is an error; what is no page, such as a source, is named without a link.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import figures

from opforge.cli.main import app
from opforge.codegen.errors import UserError
from opforge.codegen.generate import rendered
from opforge.codegen.project import Project
from opforge.codegen.spec.loader import load_project
from opforge.codegen.writer import replace_file

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec

ROOT = Path(__file__).resolve().parent.parent
COMMANDS, FIGURES = "docs/commands.md", "docs/figures.md"  # made here
LEARN = ("docs/tutorial.md", "docs/messages.md", "docs/architecture.md")
ROOMS = (
    "op_proto",
    "op_host",
    "op_kernel",
    "op_plugin",
    "codegen",
    "frontend",
    "twin",
    "package",
    "tests",
    "benchmarks",
    "examples",
    "docs",
)
# With this, Sphinx's search drops what is a number, as statuses are.
NO_NUMBERS = r" || queryTerm.match(/^\d+$/)"
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]\\]|\\.)+)\]\(([^()\s]+)\)")
_FENCED = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


class DeadLinkError(Exception):
    """A link that leads to no file of the repository."""


def pages() -> dict[str, str]:
    """All pages of the site by path.

    Raises:
        DeadLinkError: A page links to what does not exist.
    """
    specs = load_project(Project(ROOT))
    operators = _operator_pages(specs)
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in _written()} | operators
    texts[COMMANDS] = _commands_page()
    texts[FIGURES] = figures.page([spec.op_type for spec in specs])
    texts["README.md"] += _contents(sorted(operators))
    # Code hosts draw these diagrams; a site without a script shows their text.
    texts = {path: text.replace("```mermaid", "```text") for path, text in texts.items()}
    return {path: _with_links(path, text, texts) for path, text in texts.items()}


def _written() -> list[str]:
    return ["README.md", "CONTRIBUTING.md", *LEARN, *(f"{room}/README.md" for room in ROOMS)]


def _operator_pages(specs: Sequence[OpSpec]) -> dict[str, str]:
    files = rendered([(spec, ROOT) for spec in specs], is_complete=True).tree.files
    names = {f"aclnn{spec.op_type}.md": spec.op_type for spec in specs}
    return {f"operators/{name}": files[f"docs/{name}"] + figures.operator_section(op) for name, op in names.items()}


def _commands_page() -> str:
    """What `--help` says of every command."""
    import typer
    from typer.testing import CliRunner

    def said(*arguments: str) -> str:
        result = CliRunner().invoke(app, [*arguments, "--help"], prog_name="opforge", env={"COLUMNS": "120"})
        return f"```text\n{result.output.strip()}\n```\n"

    commands = typer.main.get_group(app).commands  # type: ignore[attr-defined]
    parts = [f"## opforge {name}\n\n{said(name)}" for name in sorted(commands)]
    return "\n".join(["# Commands\n", said(), *parts])


def _contents(operators: list[str]) -> str:
    captions = {
        "Learn": [*LEARN, COMMANDS, FIGURES],
        "Operators": operators,
        "Rooms": ["CONTRIBUTING.md", *(f"{room}/README.md" for room in ROOMS)],
    }
    trees = []
    for caption, paths in captions.items():
        entries = "\n".join(path.removesuffix(".md") for path in paths)
        trees.append(f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n")
    return "".join(trees)


def _with_links(path: str, text: str, known: dict[str, str]) -> str:
    """The text with links to pages, and names in place of links to other files."""
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
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", str(ROOT / "docs")]
    code = subprocess.run([*command, str(source), str(out)], check=False).returncode
    if code == 0:
        script = out / "_static" / "searchtools.js"
        replace_file(script, script.read_text(encoding="utf-8").replace(NO_NUMBERS, ""))
        shutil.copyfile(out / "README.html", out / "index.html")  # where browsers and servers begin
    return code


def main() -> int:
    """Build the site where the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="folder of the site")
    out = parser.parse_args().out.resolve()
    code = build(out)
    if code == 0:
        print(out / "index.html")  # noqa: T201  # what the command is for
    return 1 if code else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (UserError, DeadLinkError) as error:
        print(error, file=sys.stderr)  # noqa: T201  # the one place that reports mistakes
        sys.exit(2 if isinstance(error, UserError) else 1)
