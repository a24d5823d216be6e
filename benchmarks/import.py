"""Import the operator definitions and pages of public clones, and count errors, differences and notes.

Usage: python benchmarks/import.py --ops-nn DIR --ops-math DIR --ops-transformer DIR [-v]

A definition is equal if the OpDef that is generated from its draft has the same inputs, outputs, attributes, dtype
combinations and configurations. Operators with the names of C functions get the suffix Custom. A page is complete if
its signature has tensors, and each of them has dtypes.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from script import command

from opforge.codegen.data.names import op_type_problem
from opforge.codegen.errors import UserError
from opforge.codegen.importers.compare import differences
from opforge.codegen.importers.draft import OperatorDraft
from opforge.codegen.importers.infer_shape import KIND as SHAPES
from opforge.codegen.importers.new_project import project_files
from opforge.codegen.importers.op_def import drafts as op_def_drafts
from opforge.codegen.importers.sources import read_file
from opforge.codegen.render import render
from opforge.codegen.spec.loader import load_specs


def _kind(text: str) -> str:
    """Return a message without the names and numbers of one source."""
    text = re.sub(
        r"\b(tensor|attribute|input|output|configuration|dtype of|dtypes) [^:]*:", r"\1:", text.splitlines()[0]
    )
    text = re.sub(r"^\S+(:\d+)*: ", "", text)
    return re.sub(r"\b\d+\b", "N", re.sub(r"'[^']*'|\(.*\)|: .*(?=: )", "", text))[:70]


def _generated(draft: OperatorDraft, scratch: Path) -> OperatorDraft:
    """Return the OpDef that is generated from the draft of a source and read again."""
    if op_type_problem(draft.op_type):  # a built-in operator; a project has a copy with another name
        draft = replace(draft, op_type=f"{draft.op_type}Custom")
    _, specs = project_files([draft])
    file = scratch / "op.yaml"
    file.write_text(specs[draft.op_type].text, encoding="utf-8")
    (spec,) = load_specs([file])
    files = dict(render(spec, has_plan=False, has_kernel=False))
    text = files[f"op_host/{spec.name}_def.cpp"]
    (ours,) = op_def_drafts(text, "generated")
    return ours


def _definitions(files: Iterable[Path], scratch: Path, *, is_verbose: bool) -> None:
    counts: Counter[str] = Counter()
    kinds: dict[str, Counter[str]] = {"errors": Counter(), "differences": Counter(), "notes": Counter()}
    read = 0.0
    for path in files:
        counts["files"] += 1
        started = time.perf_counter()
        try:
            found = [draft for draft in read_file(path) if draft.op_type]
        except UserError as error:
            counts["not read"] += 1
            kinds["errors"][_kind(str(error))] += 1
            if is_verbose:
                typer.echo(f"not read {error}")
            continue
        finally:
            read += time.perf_counter() - started
        for draft in found:
            counts["OpDefs"] += 1
            counts["without notes"] += not draft.notes
            kinds["notes"].update({_kind(note.text) for note in draft.notes})
            try:
                different = differences(_generated(draft, scratch), draft)
            except UserError as error:
                counts["invalid drafts"] += 1
                kinds["errors"][_kind(str(error))] += 1
                if is_verbose:
                    typer.echo(f"invalid {draft.place}: {error}")
                continue
            counts["equal"] += not different
            counts["equal but for configurations"] += all(one.startswith("configuration") for one in different)
            kinds["differences"].update({_kind(one) for one in different})
            if is_verbose and different:
                typer.echo(f"different {draft.place}: {different[:3]}")
    typer.echo(f"definitions: {dict(counts)}, read in {read:.1f} s")
    for name, kind in kinds.items():
        for text, count in kind.most_common(12):
            typer.echo(f"  {name}: {count} {text}")


def _shapes(files: Iterable[Path]) -> None:
    """Print the number of operators whose shape inference is read: all outputs, or some of them."""
    counts: Counter[str] = Counter()
    for path in files:
        with suppress(UserError):
            for rules in read_file(path):
                if rules.kind == SHAPES:
                    counts["operators"] += 1
                    counts["read"] += bool(rules.shapes)
    typer.echo(f"shape inference: {dict(counts)}")


def _pages(files: Iterable[Path], *, is_verbose: bool) -> None:
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    started = time.perf_counter()
    for path in files:
        counts["files"] += 1
        try:
            (draft, *_) = read_file(path)
        except UserError as error:
            counts["not read"] += 1
            kinds[_kind(str(error))] += 1
            if is_verbose:
                typer.echo(f"not read {error}")
            continue
        is_complete = all(tensor.dtypes for tensor in draft.tensors) and bool(draft.tensors)
        counts["full signature and parameter table"] += is_complete
        counts["with products"] += bool(draft.products)
        counts["constraints"] += len(draft.rules)
        counts["notes"] += len(draft.notes)
        if is_verbose and not is_complete:
            typer.echo(f"incomplete {draft.place}: {[t.name for t in draft.tensors if not t.dtypes]}")
    typer.echo(f"pages: {dict(counts)}, read in {time.perf_counter() - started:.1f} s")
    for text, count in kinds.most_common(12):
        typer.echo(f"  errors: {count} {text}")


def main(
    ops_nn: Annotated[Path | None, typer.Option(help="Clone of ops-nn.")] = None,
    ops_math: Annotated[Path | None, typer.Option(help="Clone of ops-math.")] = None,
    ops_transformer: Annotated[Path | None, typer.Option(help="Clone of ops-transformer.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print each error and difference.")] = False,
) -> None:
    """Import the definitions and pages of public clones, and print the counts."""
    folders = [folder for folder in (ops_nn, ops_math, ops_transformer) if folder]
    if not folders or not all(folder.is_dir() for folder in folders):
        raise UserError("--ops-nn, --ops-math, --ops-transformer: expected one folder at least; clone a repository")
    with TemporaryDirectory() as scratch:
        definitions = sorted(path for folder in folders for path in folder.rglob("*_def.cpp"))
        _definitions(definitions, Path(scratch), is_verbose=verbose)
    _shapes(sorted(path for folder in folders for path in folder.rglob("*_infershape.cpp")))
    _pages(sorted(path for folder in folders for path in folder.rglob("aclnn*.md")), is_verbose=verbose)


if __name__ == "__main__":
    command(main)
