"""Define the commands of the operator author: new, generate, schema, lint, lsp."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opforge.codegen.printing import path_text, say

from .options import JSON, OP_SUFFIX, answering, file_argument, path_option

if TYPE_CHECKING:
    from opforge.codegen.generate import Generated
    from opforge.codegen.writer import Changes

app = typer.Typer()


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Operator type, for example LeakyClip.")],
    folder: Annotated[
        Path | None, file_argument("DIR", "Folder to create; default: the operator name, for example leaky_clip.")
    ] = None,
    starter: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Starter: elementwise, row_reduction, row_column_reduction, segmented_reduction, scatter or gemm.",
        ),
    ] = "elementwise",
) -> None:
    """Create a working project from one of six starters."""
    from opforge.codegen.data.names import snake_case
    from opforge.codegen.new import new_project, operator_of

    made = new_project(name, folder or Path(snake_case(name)), starter)
    say(
        f"{path_text(made)}: {name}, created from the starter {starter} ({operator_of(starter)})",
        f"next: cd {shlex.quote(str(made))} && bash build.sh -u",
    )


@app.command()
def generate(
    specs: Annotated[list[Path] | None, file_argument("SPEC", "Spec files; default: all files of op_proto/.")] = None,
    out: Annotated[
        Path | None,
        path_option("-o", "--output", "--out", metavar="DIR", text="Output folder; default: build/gen."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; print a diff and exit 1 if a file is out of date.")
    ] = False,
    list_outputs: Annotated[
        bool, typer.Option("--list-outputs", help="Print the paths of all generated files.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing; print the files that would change.")
    ] = False,
    skeleton: Annotated[
        bool,
        typer.Option(
            "--skeleton",
            help="Print a kernel of the operator SPEC (a file or an operator type) with the exact Init and an empty"
            " Process; with --output, write it to a new file.",
        ),
    ] = False,
    op_suffix: Annotated[str, OP_SUFFIX] = "",
    json_out: Annotated[Path | None, JSON] = None,
) -> None:
    """Generate the CANN source files of operators from their specs."""
    if skeleton:
        others = {"--check": check, "--list-outputs": list_outputs, "--dry-run": dry_run, "--op-suffix": op_suffix}
        others["--json"] = json_out is not None
        _write_skeleton(specs or [], out, [name for name, value in others.items() if value])
        return
    from opforge.codegen.generate import load, rendered
    from opforge.codegen.writer import compare, differences, write

    sources = load(specs or [], op_suffix)
    folder = out or sources.project.gen_dir
    generated = rendered(sources.specs, is_complete=not specs)
    with answering(json_out) as answer:
        answer.update({"folder": str(folder), "operators": len(sources.specs)})
        if list_outputs:
            answer["outputs"] = sorted(generated.tree.files)
            say(*(_shown(folder / path) for path in answer["outputs"]))
            return
        is_written = not (dry_run or check)
        if is_written and out is None:
            sources.project.claim_build_dir()
        changes = write(generated.tree, folder) if is_written else compare(generated.tree, folder)
        answer.update({"written": changes.written, "removed": changes.removed, "unchanged": changes.unchanged})
        answer["left_out"] = generated.left_out
        if not check:
            _say_changes(generated, changes, folder, is_written=is_written)
        elif not changes.any:
            say(f"{len(generated.tree.files)} files are up to date in {_shown(folder)}")
        else:
            say(*differences(generated.tree, folder, changes).splitlines())
            command = ["opforge", "generate", *(["--output", str(out)] if out else [])]
            command += [*(["--op-suffix", op_suffix] if op_suffix else []), *map(str, specs or [])]
            stale, total = len(changes.written) + len(changes.removed), len(generated.tree.files)
            say(f"{stale} of {total} files are stale in {_shown(folder)}; run: {shlex.join(command)}", err=True)
    if check and changes.any:
        raise typer.Exit(1)


def _write_skeleton(specs: list[Path], file: Path | None, others: list[str]) -> None:
    import os

    from opforge.codegen.errors import UserError
    from opforge.codegen.files import replace_file
    from opforge.codegen.generate import load_one
    from opforge.codegen.render import kernel_skeleton

    if others:
        raise UserError(f"{others[0]}: got --skeleton also, expected one of them; omit one")
    text = kernel_skeleton(load_one(specs))
    if file is None:
        say(*text.splitlines())
    elif os.path.lexists(file):
        raise UserError(f"{path_text(file)}: it exists already, expected a new file; choose another one or remove it")
    else:
        replace_file(file, text)
        say(f"{_shown(file)}: kernel skeleton")


def _say_changes(generated: Generated, changes: Changes, folder: Path, *, is_written: bool) -> None:
    if not is_written:
        say(*(f"would write {_shown(folder / path)}" for path in changes.written))
        say(*(f"would remove {_shown(folder / path)}" for path in changes.removed))
    say(*(f"not generated: {reason}" for reason in generated.left_out))
    counts = [f"{len(changes.written)} written", f"{len(changes.unchanged)} unchanged"]
    counts += [f"{len(changes.removed)} removed"] if changes.removed else []
    count = len({owner for owner in generated.tree.owners.values() if owner})
    note = "" if is_written else " (dry run: nothing was changed)"
    say(f"{count} operator{'s' if count != 1 else ''}: {', '.join(counts)} in {_shown(folder)}{note}")


def _shown(path: Path) -> str:
    """Return the path relative to the current folder if it is below it, otherwise unchanged."""
    here = Path.cwd()
    return path_text(path.relative_to(here) if path.is_relative_to(here) else path)


@app.command()
def schema() -> None:
    """Print the JSON schema of specs, for editors."""
    from opforge.codegen.spec.model import json_schema

    say(*json.dumps(json_schema(), indent=2).splitlines())


@app.command()
def lint(
    files: Annotated[
        list[Path] | None, file_argument("FILE", "Kernel sources; default: all files of op_kernel/.")
    ] = None,
    json_out: Annotated[Path | None, JSON] = None,
) -> None:
    """Find kernel code that the device compiler rejects."""
    from dataclasses import asdict

    from opforge.codegen.project import find_project
    from opforge.twin.lint.kernel_lint import kernel_files, lint_files

    findings = lint_files(files or kernel_files(find_project()))
    with answering(json_out) as answer:
        answer.update({"findings": [asdict(found) for found in findings]})
        say(*map(str, findings))
    raise typer.Exit(1 if findings else 0)


@app.command()
def lsp() -> None:
    """Run a language server for specs on standard input and output."""
    from opforge.codegen.errors import not_installed

    try:
        from .language_server import serve
    except ModuleNotFoundError as error:
        raise not_installed("lsp", "pygls", "the language server", "pip install 'opforge[lsp]'") from error
    serve()
