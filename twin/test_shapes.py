"""Run the test shapes of operators after a build, at the level `strict`.

`python -m opforge.twin.test_shapes` is the process that runs them. `check` starts it, because a new kernel can end or
block its process.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from opforge.codegen.data.products import soc_properties
from opforge.codegen.errors import UserError
from opforge.codegen.files import replace_file
from opforge.codegen.printing import first_line
from opforge.codegen.project import Project
from opforge.twin.compiler.cache import digest
from opforge.twin.compiler.operators import Operators
from opforge.twin.runtime.isolation import run_command
from opforge.twin.runtime.kernel_process import end_at_exit, finish
from opforge.twin.runtime.results import AclnnError, FindingsError

SECONDS = 300.0
_MOST_LINES = 20
_MOST_LETTERS = 2000


def check(project: Project, built: Operators, soc: str, seconds: float = SECONDS) -> tuple[list[str], list[str]]:
    """Run the test shapes of built operators, unless they ran without findings since the last change.

    Args:
        project: The project.
        built: Its operators.
        soc: The SoC that the twin emulates.
        seconds: The time limit for all of them.

    Returns:
        The findings and the warnings, one line each; at most 20 of each. A build without changes has none.

    Raises:
        UserError: The inputs of a test shape are too large.
    """
    record = project.build_dir / "twin" / "test_shapes.json"
    job = {"root": str(project.root), "suffix": project.op_suffix, "operators": sorted(built.op_types), "soc": soc}
    key = json.dumps([job, _digests(project, built)])
    if not built.op_types or (record.is_file() and record.read_text(encoding="utf-8", errors="replace") == key):
        return [], []
    command = [sys.executable, "-m", "opforge.twin.test_shapes"]
    status, answer = run_command(command, json.dumps(job).encode(), os.environ, seconds)
    if status is None:
        return [f"test shapes: the kernels did not end within {seconds:g} s; remove endless loops and waits"], []
    if not answer:
        return [f"test shapes: a kernel ended its process (status {status})"], []
    found = json.loads(answer)
    if "refusal" in found:
        raise UserError(found["refusal"])
    lines, warned = found["lines"]
    if not lines:
        replace_file(record, key)
    return lines[:_MOST_LINES], warned[:_MOST_LINES]


def _digests(project: Project, built: Operators) -> list[str]:
    files = [*built.vendor_dir.rglob("*.so"), *(project.root / "op_proto").glob("*.yaml")]
    return [digest(file) or "" for file in sorted(files)]


def _findings(project: Project, op_types: Sequence[str], soc: str) -> tuple[list[str], list[str]]:
    """Run all test shapes; return one line for each finding and for each warning, without repetitions."""
    from opforge.codegen.spec.loader import load_project
    from opforge.twin.runtime.operator_run import prepare, run

    from .samples import calls_of

    prepare(op_types, soc, project)
    lines: dict[str, str] = {}
    product = soc_properties(soc).dir
    specs = [spec for spec in load_project(project) if spec.op_type in op_types]
    warned = {
        spec.op_type: f"{spec.op_type}: test shapes: not run, because {product} is no product of the spec"
        for spec in specs
        if product not in spec.built_products
    }
    for call in (call for spec in specs if spec.op_type not in warned for call in calls_of(spec)):
        try:
            result = run(call.op_type, call.inputs(), call.attrs, soc=soc, project=project)
            for finding in result.warnings:
                warned.setdefault(f"{finding.kind} {finding.where} {finding.message}", f"{call}: {finding}")
        except FindingsError as error:
            for finding in error.findings:
                lines.setdefault(f"{finding.kind} {finding.where}", f"{call}: {finding}")
        except AclnnError as error:
            lines.setdefault(f"{call.op_type} {error.status}", f"{call}: {first_line(error, _MOST_LETTERS)}")
    return list(lines.values()), list(warned.values())


def main() -> NoReturn:
    """Read a job from `buffers`, run it, and write the lines to `answer`; the last argument names these files."""
    end_at_exit()
    place: dict[str, Any] = json.loads(sys.argv[-1])
    with open(place["buffers"], "rb") as stream:
        stream.seek(0)
        job = json.load(stream)
    warnings.simplefilter("ignore")
    try:
        answer: dict[str, Any] = {
            "lines": _findings(Project(Path(job["root"]), job["suffix"]), job["operators"], job["soc"])
        }
    except UserError as error:
        answer = {"refusal": str(error)}
    finish(place["answer"], answer)


if __name__ == "__main__":
    main()
