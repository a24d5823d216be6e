"""Define the command `import`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opforge.codegen.printing import path_text, say

from .options import JSON, ReadsModel, answering, file_argument, path_option

if TYPE_CHECKING:
    from opforge.codegen.importers.draft import OperatorDraft
    from opforge.codegen.importers.kernel.entry import ImportedKernel
    from opforge.codegen.importers.sources import Imported

app = typer.Typer()


@app.command("import", cls=ReadsModel)
def import_(
    sources: Annotated[
        list[Path],
        file_argument(
            "SOURCE",
            "msOpGen JSON files, C++ sources of CANN operators, documentation pages of aclnn functions (.md or .html),"
            " folders of them, or a model.",
        ),
    ],
    out: Annotated[
        Path | None, path_option("-o", "--output", metavar="DIR", text="New project; default: the operator name.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Operator type of the draft, for a source with one operator."),
    ] = None,
    node: Annotated[
        str | None, typer.Option(metavar="NAME", help="Import a node of the model SOURCE, by its name or type.")
    ] = None,
    kernel: Annotated[
        Path | None,
        path_option(
            metavar="FILE.cpp",
            text="Copy this Ascend C kernel and the included files of its folder, for a source with one operator.",
        ),
    ] = None,
    kernel_root: Annotated[
        Path | None,
        path_option(
            metavar="DIR",
            text="Folder with all kernels. Also copy the included files below it. Use with --kernel.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Write nothing; print the differences between specs and sources. Compares the YAML files in SOURCE,"
            " or else the specs of this project.",
        ),
    ] = False,
    json_out: Annotated[Path | None, JSON] = None,
) -> None:
    """Create a project with draft specs from operator sources."""
    from opforge.codegen.errors import UserError
    from opforge.codegen.importers.sources import read_sources
    from opforge.frontend.limits import claimed, limits_for

    for option, value in (("--output", out), ("--kernel", kernel)):
        if check and value is not None:
            raise UserError(f"{option}: got --check also, expected one of them; omit one")
    if kernel_root is not None and kernel is None:
        raise UserError("--kernel-root: got no --kernel, expected both; add --kernel")
    specs = [path for path in sources if check and path.suffix in {".yaml", ".yml"}]
    sources = [path for path in sources if path not in specs]
    if not sources:
        raise UserError("SOURCE: got specs only, expected a source to compare them with")
    place = path_text(sources[0])
    # The reader of models has limits, and PyTorch needs more memory than sources.
    limits = claimed(place, limits_for(0)) if node is None else nullcontext()
    with limits, answering(json_out) as answer:
        found = read_sources(sources) if node is None else _node(sources, node)
        drafts = found.drafts
        _report(found.problems)
        answer["problems"] = found.problems
        if check:
            _compare(specs, drafts, name, answer)
            return
        if name is not None:
            if len(drafts) != 1:
                raise UserError(f"--as: got {len(drafts)} operators in the source, expected one; name the file of one")
            from dataclasses import replace

            from opforge.codegen.data.names import op_type_problem

            if refusal := op_type_problem(name):
                raise UserError(f"--as: {refusal}")
            drafts = [replace(drafts[0], op_type=name, function="")]
        answer["problems"] = [*found.problems, *_write(drafts, out, (kernel, kernel_root), answer)]


def _report(problems: list[str]) -> None:
    for problem in problems:
        say(f"not imported: {problem}", err=True)


def _node(sources: list[Path], name: str) -> Imported:
    from opforge.codegen.errors import UserError
    from opforge.codegen.importers.sources import Imported
    from opforge.frontend.node_draft import node_draft

    from .model import read_program

    if len(sources) != 1:
        raise UserError(f"--node: got {len(sources)} sources, expected one model")
    return Imported([node_draft(read_program(sources[0], "import"), name)])


def _write(
    drafts: list[OperatorDraft], out: Path | None, source: tuple[Path | None, Path | None], answer: dict[str, object]
) -> list[str]:
    """Write the project; return the problems of the operators that it does not contain.

    Args:
        drafts: The operators.
        out: The folder of the project.
        source: The kernel, and the folder with files that it includes.
        answer: Gets the result for --json.
    """
    from opforge.codegen.data.names import snake_case
    from opforge.codegen.errors import UserError
    from opforge.codegen.importers.new_project import write_project

    kernel, root = source
    if out is None and len(drafts) > 1:
        raise UserError(f"--output: missing, expected a folder for the {len(drafts)} operators of the source")
    folder = out or Path(snake_case(drafts[0].op_type))
    files: Mapping[str, str] = {}
    if kernel is not None:
        found = _read_kernel(kernel, root, drafts)
        drafts, files = [found.draft], found.files
        answer["not_taken_over"] = found.problems
    rejected: list[str] = []
    specs = write_project(drafts, folder, files, rejected)
    _report(rejected)
    drafts = [draft for draft in drafts if draft.op_type in specs]
    answer["folder"] = str(folder)
    answer["operators"] = [
        {
            "op_type": draft.op_type,
            "kind": draft.kind,
            "place": draft.place,
            "notes": [{"line": note.line, "text": note.text} for note in specs[draft.op_type].notes],
        }
        for draft in drafts
    ]
    for draft in drafts:
        notes = len(specs[draft.op_type].notes)
        spec = folder / "op_proto" / f"{snake_case(draft.op_type)}.yaml"
        say(
            f"{path_text(spec)}: {draft.op_type} from {draft.place}"
            f" ({draft.kind}), {notes} statement{'s' if notes != 1 else ''} not in the spec"
        )
    if kernel is not None:
        count = len(files) - 2
        say(f"{path_text(kernel)}: {count} file{'s' if count != 1 else ''} copied to {path_text(folder / 'op_kernel')}")
        say(*found.problems)
    say(f"next: complete the specs, then: cd {shlex.quote(str(folder))} && opforge generate")
    return rejected


def _read_kernel(kernel: Path, root: Path | None, drafts: list[OperatorDraft]) -> ImportedKernel:
    from opforge.codegen.errors import UserError
    from opforge.codegen.files import is_file
    from opforge.codegen.importers.kernel.entry import read_kernel
    from opforge.twin.build import header_folders

    if len(drafts) != 1:
        raise UserError(f"--kernel: got {len(drafts)} operators in the source, expected one; name the file of one")
    if reason := drafts[0].declared_reason:
        got = f"got {drafts[0].op_type}, which a spec can only declare: {reason}"
        raise UserError(f"--kernel: {got}; import it without a kernel")
    headers = header_folders()
    return read_kernel(kernel, drafts[0], root, lambda name: any(is_file(folder / name) for folder in headers))


def _compare(files: list[Path], drafts: list[OperatorDraft], name: str | None, answer: dict[str, object]) -> None:
    from opforge.codegen.data.names import suggest
    from opforge.codegen.errors import UserError
    from opforge.codegen.importers.compare import differences, draft_of, not_compared
    from opforge.codegen.importers.compare_shapes import shape_differences
    from opforge.codegen.project import find_project
    from opforge.codegen.spec.loader import load_specs

    types = {draft.op_type: draft for draft in drafts}
    specs = [(path, load_specs([path])[0]) for path in files or find_project(Path.cwd()).spec_paths()]
    if not files:
        specs = [(path, spec) for path, spec in specs if spec.op_type in types]
        if not specs:
            raise UserError(f"--check: got no spec of {', '.join(types)} in the project; name the spec beside SOURCE")
    every: list[str] = []
    rest: list[str] = []
    answer |= {"differences": every, "not_compared": rest}
    for path, spec in specs:
        wanted = name or (next(iter(types)) if len(types) == len(specs) == 1 else spec.op_type)
        if wanted not in types:
            raise UserError(f"SOURCE: got no operator {wanted!r}; {suggest(wanted, types)}")
        ours = draft_of(spec, spec.configured_products)
        found = [*differences(ours, types[wanted]), *shape_differences(spec, types[wanted])]
        every += found
        say(*found)
        missing = not_compared(ours, types[wanted])
        rest += missing
        say(*(f"not compared: {line}" for line in missing))
        say(f"{path_text(path)}: {len(found)} difference{'s' if len(found) != 1 else ''} from {types[wanted].place}")
    if every:
        raise typer.Exit(1)
