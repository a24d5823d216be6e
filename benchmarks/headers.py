"""Compare the compile time of kernels with the headers of the CPU twin, and with those of an earlier commit.

Usage: python benchmarks/headers.py --against COMMIT [--json FILE]

Columns: kernel, CPU seconds of the compiler with the earlier and with the current headers (the least of three runs),
and their ratio. Each kernel is compiled without a precompiled header. Run `opforge build` before. Exit code: 0 ok, 1 a
ratio is above the limit, 2 bad input.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from script import command, table

from opforge.codegen.errors import UserError
from opforge.codegen.files import replace_file
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.twin.build import include_flags
from opforge.twin.compiler.flags import COMMON, KERNEL_FLAGS
from opforge.twin.compiler.units import compiler, cpu_flags

LIMIT = 1.3
RUNS = 3
REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Row:
    """A kernel: CPU seconds with the earlier and the current headers."""

    kernel: str
    before_s: float
    now_s: float
    ratio: float


def earlier_headers(commit: str, folder: Path) -> tuple[str, ...]:
    """Write the headers of a commit; return the flags of their folder and of the current generated headers."""
    words = ["git", "-C", str(REPOSITORY), "archive", commit, "twin/include"]
    done = subprocess.run(words, capture_output=True, check=False)
    if done.returncode != 0:
        raise UserError(f"--against: got {commit!r}, expected a commit with twin/include")
    folder.mkdir(exist_ok=True)
    unpack = ["tar", "-x", "-C", str(folder)]
    subprocess.run(unpack, input=done.stdout, check=True)
    return (f"-I{folder / 'twin' / 'include'}", *include_flags()[1:])


def seconds(source: Path, includes: tuple[str, ...]) -> float:
    """Return the CPU seconds of one compilation."""
    names = sorted(set(re.findall(r"\b(?:ORIG_)?DTYPE_\w+", source.read_text(encoding="utf-8"))))
    types = {name: "int32_t" if "IND" in name or "COUNT" in name else "float" for name in names}
    values = {name: f"DT_{types[name].removesuffix('_t').upper()}" if name[0] == "O" else types[name] for name in names}
    defines = [f"-D{name}={value}" for name, value in values.items()]
    folders = (f"-I{source.parent}", f"-I{BUILTIN_ROOT / 'op_kernel'}")
    began = os.times()
    done = subprocess.run(
        [
            *(compiler()[0], *COMMON, *cpu_flags(), *KERNEL_FLAGS, "-w", *includes, *folders, *defines),
            *("-c", str(source), "-o", os.devnull),
        ],
        env={**os.environ, "CCACHE_DISABLE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise UserError(f"{source.name}: the compiler rejected it: {done.stderr[:500]}")
    ended = os.times()
    return ended.children_user + ended.children_system - began.children_user - began.children_system


def measured(source: Path, before: tuple[str, ...]) -> Row:
    """Compile a kernel alternately with both headers."""
    pairs = [(seconds(source, before), seconds(source, tuple(include_flags()))) for _ in range(RUNS)]
    least = [min(times) for times in zip(*pairs, strict=True)]
    return Row(source.stem, round(least[0], 2), round(least[1], 2), round(least[1] / least[0], 2))


def main(
    against: Annotated[str, typer.Option(help="The commit with the earlier headers.")],
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the rows to this file.")] = None,
) -> None:
    """Compare the compile time of kernels with two versions of the headers."""
    sources = sorted((Project(BUILTIN_ROOT).build_dir / "gen" / "op_kernel").glob("*.cpp"))
    if not sources:
        raise UserError("build/gen/op_kernel: got no kernels, expected generated sources; run `opforge build`")
    with tempfile.TemporaryDirectory() as name:
        before = earlier_headers(against, Path(name))
        rows = [measured(source, before) for source in sources]
    lines = [(row.kernel, f"{row.before_s:.2f}", f"{row.now_s:.2f}", f"{row.ratio:.2f}") for row in rows]
    typer.echo(table([("kernel", "before s", "now s", "ratio"), *lines]))
    if json_out is not None:
        replace_file(json_out, json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if any(row.ratio > LIMIT for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    command(main)
