"""Measure the generator on one core: many synthetic specs, a run without changes, and `opforge --help`.

Usage: python benchmarks/generate.py [--specs N] [--json FILE]

Columns: CPU seconds (user and system) of the command, elapsed seconds, the limit of the CPU seconds, files written. The
limits apply to CPU seconds, because a busy machine increases elapsed time. They are for 1,000 specs and are
proportional to the number of specs, but at least one second. Exit code: 0 ok, 1 a limit is missed, 2 bad input.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from script import command, table

from opforge.codegen.data.names import lower_camel, snake_case
from opforge.codegen.data.products import BUILT_PRODUCTS
from opforge.codegen.errors import UserError
from opforge.codegen.files import replace_file

DTYPES = ("float16", "bfloat16", "float32")
# Limits of CPU seconds for 1,000 specs, and for the command that reads no spec.
GENERATE_LIMIT, AGAIN_LIMIT, HELP_LIMIT = 30.0, 20.0, 0.3
COMMAND = (sys.executable, "-c", "from opforge.cli.main import main; main()")


@dataclass(frozen=True)
class Row:
    """One command: CPU and elapsed seconds, the limit of the CPU seconds, and the number of written files."""

    what: str
    cpu_s: float
    elapsed_s: float
    limit_s: float
    files: int


def synthetic_spec(number: int) -> dict[str, Any]:
    """Return a valid spec with inputs, attributes, cases and constraints that depend on `number`."""
    rng = random.Random(number)  # noqa: S311  # the same specs in every run
    inputs = [f"in_{i}" for i in range(rng.randint(1, 4))]
    attrs = [f"size_{i}" for i in range(rng.randint(1, 4))]
    dims = ["N", "C", "H", "W"][: rng.randint(1, 4)]
    shapes = dict.fromkeys([*inputs, "out"], dims)
    rules = ("required", "dtypes", "ranks", "shapes")
    constraints = [{"rule": rule, "status": 161001 if rule == "required" else 161002} for rule in rules]
    constraints += [
        {
            "check": f"{name} % 16 == 0 or N * {name} <= {rng.randint(1, 9999)}",
            "subject": name,
            "status": 161002,
            "expected": "a multiple of 16",
        }
        for name in attrs
    ]
    params = {lower_camel(name): name for name in (*inputs, "mask", *attrs, "out")}
    return {
        "op_type": op_type(number),
        "summary": f"Operator {number} of the benchmark.",
        "formula": f"out = {' + '.join(inputs)}",
        "products": list(BUILT_PRODUCTS),
        "inputs": [
            {"name": inputs[0], "dtypes": list(DTYPES[: rng.randint(1, 3)])},
            *({"name": name, "dtype": inputs[0]} for name in inputs[1:]),
            {"name": "mask", "optional": True, "dtypes": ["int32", "int64"]},
        ],
        "attrs": [{"name": name, "type": "int", "default": rng.randint(1, 64)} for name in attrs],
        "outputs": [{"name": "out", "dtype": inputs[0]}],
        "cases": [
            {"name": "masked", "when": "present(mask)", "shapes": {**shapes, "mask": ["N"]}},
            {"name": "plain", "when": "not present(mask)", "shapes": shapes},
        ],
        "constraints": [{"label": f"C{i}", **constraint} for i, constraint in enumerate(constraints, 1)],
        "aclnn": [{"function": f"aclnn{op_type(number)}", "params": params}],
        "tiling": {
            "data": [{"name": f"field_{i}", "type": "int64"} for i in range(rng.randint(1, 12))],
            "keys": [{"name": "Plain", "key": 1, "template": [inputs[0]]}],
        },
        "tests": {"shapes": [{"case": "plain", "symbols": dict.fromkeys(dims, 16)}]},
    }


def op_type(number: int) -> str:
    """Return a name such as `SyntheticAaabc`: an op type has no `_`, and digits would split its name."""
    return "Synthetic" + "".join(chr(ord("a") + int(digit)) for digit in f"{number:05d}").capitalize()


def project_of(folder: Path, specs: int) -> None:
    """Create a project with `specs` synthetic specs, each with an empty plan and kernel.

    All files are generated because the plans and kernels exist.
    """
    for name in ("op_proto", "op_host", "op_kernel"):
        (folder / name).mkdir()
    for number in range(specs):
        name = snake_case(op_type(number))
        text = json.dumps(synthetic_spec(number), indent=1)  # JSON is valid YAML
        (folder / "op_proto" / f"{name}.yaml").write_text(text, encoding="utf-8")
        (folder / "op_host" / f"{name}_tiling.h").touch()
        (folder / "op_kernel" / f"{name}.h").touch()


def timed(what: str, folder: Path, limit_s: float, *arguments: str) -> Row:
    """Run a command of opforge in a folder, on one core."""
    generated = folder / "build" / "gen"
    before = {path: path.stat().st_mtime_ns for path in generated.rglob("*.*")}
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    core = min(os.sched_getaffinity(0))
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "OPFORGE_BUILD_DIR"},
        check=False,
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),  # this process has only one thread
    )
    elapsed = time.perf_counter() - began
    if done.returncode != 0:
        raise UserError(
            f"opforge {' '.join(arguments)}: got exit code {done.returncode}, expected 0: {done.stderr[:500]}"
        )
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    files = sum(before.get(path) != path.stat().st_mtime_ns for path in generated.rglob("*.*") if path.is_file())
    return Row(what, round(cpu, 3), round(elapsed, 3), limit_s, files)


def measured(specs: int) -> list[Row]:
    """Return the rows of the three commands."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project_of(folder, specs)
        first, again = (max(limit * specs / 1000, 1.0) for limit in (GENERATE_LIMIT, AGAIN_LIMIT))
        return [
            timed(f"generate {specs} specs", folder, first, "generate"),
            timed("generate again, no change", folder, again, "generate"),
            timed("--help", folder, HELP_LIMIT, "--help"),
        ]


def main(
    specs: Annotated[int, typer.Option(min=1, max=100_000, help="How many synthetic specs.")] = 1000,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the rows there.")] = None,
) -> None:
    """Print the table."""
    rows = measured(specs)
    heads = ("command", "cpu_s", "elapsed_s", "limit_s", "files")
    lines = [heads, *((r.what, f"{r.cpu_s:.2f}", f"{r.elapsed_s:.2f}", f"{r.limit_s:.1f}", str(r.files)) for r in rows)]
    typer.echo(table(lines))
    if json_out is not None:
        replace_file(json_out, json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    raise typer.Exit(1 if any(row.cpu_s > row.limit_s for row in rows) else 0)


if __name__ == "__main__":
    command(main)
