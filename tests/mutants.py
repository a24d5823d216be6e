"""Plant one-line mistakes into a copy of the project, and show the test that detects each.

Usage: python tests/mutants.py [OPERATOR ...]. The tables are tests/mutants/<operator>.toml.
Exit code: 0 every mutant is killed, 1 one survives, does not compile or cannot be planted, 2 no such operator.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

import typer

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "tests" / "mutants"
COPIED = ("op_proto", "op_host", "op_kernel", "op_plugin", "tests/reference", "tests/op_host", "tests/op_kernel")


@dataclass(frozen=True)
class Mutant:
    """A mistake: in `file`, `new` replaces the only occurrence of `old`; the test `killed_by` must fail."""

    mistake: str
    file: str
    old: str
    new: str
    killed_by: str


def load(table: Path) -> list[Mutant]:
    """Return the mutants of a table."""
    return [Mutant(**row) for row in tomllib.loads(table.read_text(encoding="utf-8"))["mutant"]]


class Copy:
    """A copy of the operators and their tests for mutants."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name)
        shutil.copy(ROOT / "pyproject.toml", folder)

    def test(self, *tests: str) -> subprocess.CompletedProcess[str]:
        """Run tests of the copy."""
        # The copy has a separate build folder; the runtime of the twin comes from the cache of the original.
        environment = {name: value for name, value in os.environ.items() if name != "OPFORGE_BUILD_DIR"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        return subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, check=False)

    def outcome(self, mutant: Mutant) -> str:
        """Plant the mutant, run its test, and remove the mutant."""
        path = self.root / mutant.file
        text = path.read_text(encoding="utf-8")
        if text.count(mutant.old) != 1:
            return f"cannot be planted: {mutant.file} has {text.count(mutant.old)} times {mutant.old!r}, expected once"
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        try:
            result = self.test(mutant.killed_by)
        finally:
            path.write_text(text, encoding="utf-8")
        if "CompileError" in result.stdout or "CalledProcessError" in result.stdout:
            return f"does not compile:\n{result.stdout}{result.stderr}"
        if result.returncode == 1 and "\nFAILED " in result.stdout and "\nERROR " not in result.stdout:
            return "killed"
        return "SURVIVED" if result.returncode == 0 else f"cannot be tested:\n{result.stdout}"


def main(operators: list[str]) -> int:
    """Print the outcome of every mutant of some operators, or of all."""
    known = {table.stem: table for table in sorted(TABLES.glob("*.toml"))}
    if unknown := sorted(set(operators) - set(known)):
        typer.echo(f"got {', '.join(unknown)}, expected some of {', '.join(known)}", err=True)
        return 2
    tables = [known[name] for name in operators] or list(known.values())
    mutants = [mutant for table in tables for mutant in load(table)]
    with tempfile.TemporaryDirectory(prefix="opforge-mutants-") as folder:
        copy = Copy(Path(folder) / "project")
        clean = copy.test(*sorted({mutant.killed_by for mutant in mutants}))
        if clean.returncode != 0:
            typer.echo(f"the tests fail without any mutant:\n{clean.stdout}{clean.stderr}")
            return 1
        outcomes = []
        for mutant in mutants:
            outcomes.append(copy.outcome(mutant))
            typer.echo(f"{outcomes[-1]}: {mutant.file}: {mutant.mistake} [{mutant.killed_by.rpartition('::')[2]}]")
    typer.echo(f"{outcomes.count('killed')} of {len(mutants)} mutants killed")
    return 0 if all(outcome == "killed" for outcome in outcomes) else 1


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv):
        typer.echo(__doc__)
        sys.exit(0)
    sys.exit(main(sys.argv[1:]))
