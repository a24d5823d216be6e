"""Fixtures of all tests."""

from __future__ import annotations

import fcntl
import gc
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer.testing
from command_runner import command_line
from command_server import once_per_app
from shown import commands, fences

from opforge.twin.build import build_runtime

ROOT = Path(__file__).resolve().parent.parent
# Entries of a checkout that are not in the repository.
MADE = (".git", ".venv", ".*_cache", ".hypothesis", "build", "build_out", "*.egg-info", "__pycache__")


def pytest_configure():
    """Let NumPy compute with one thread: each worker has one core, and waiting threads use the others.

    Garbage collection is rarer: most tests make no cycles. The commands are prepared once.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(50_000, 20, 100)
    typer.testing._get_command = once_per_app


def pytest_collection_finish():
    """Exclude the collected tests from garbage collection, which would visit them again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    if command_line.cache_info().currsize:
        command_line().close()


def pytest_collection_modifyitems(items):
    """Start the longest tests first, so that no worker is idle at the end of a run."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@dataclass(frozen=True)
class Installed:
    """A virtual environment with only the wheel and its dependencies, and with a separate cache."""

    folder: Path

    @property
    def wheel(self) -> Path:
        """The installed wheel."""
        (wheel,) = (self.folder / "sources" / "build_out").glob("opforge-*.whl")
        return wheel

    @property
    def bin(self) -> Path:
        """The folder of its programs."""
        return self.folder / "opforge-env" / "bin"

    def run(self, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a command in the activated environment."""
        # pytest-xdist sets COLUMNS, which changes the width of tables.
        removed = ("PY", "OPFORGE", "ASCEND", "COLUMNS")
        variables = {key: value for key, value in os.environ.items() if not key.startswith(removed)}
        variables |= {"XDG_CACHE_HOME": str(self.folder / "cache"), "PATH": f"{self.bin}:{os.environ['PATH']}"}
        return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Return `once(name, make)`, which returns a folder that `make` fills in the first worker of a run."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def made(name, make):
        folder = shared / name
        with open(f"{folder}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "done").exists():
                folder.mkdir()
                make(folder)
                (folder / "done").touch()
        return folder

    return made


@pytest.fixture(scope="session")
def opforge():
    """Return the command line; it runs in forks of one process for each worker."""
    return command_line()


@pytest.fixture(scope="session")
def installed(once):
    """Build and install the wheel in the same way as the tutorial, which takes a minute."""
    return Installed(once("wheel", _install))


@pytest.fixture(scope="session")
def types(once):
    """Return the exit code and the messages of mypy, whose cache is used by later runs."""

    def check(folder):
        result = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True, check=False)
        (folder / "result.json").write_text(json.dumps([result.returncode, result.stdout + result.stderr]))

    return json.loads((once("mypy", check) / "result.json").read_text())


def _install(folder: Path) -> None:
    sources = shutil.copytree(ROOT, folder / "sources", ignore=shutil.ignore_patterns(*MADE))
    # An earlier `pip wheel` leaves this file of a removed module.
    stale = sources / "build" / "lib" / "opforge" / "codegen" / "removed.py"
    stale.parent.mkdir(parents=True)
    stale.write_text("")
    install = fences(ROOT / "docs" / "tutorials" / "first-operator.md")[0]
    script = "\n".join(["set -e", *(command.text for command in commands(install))])
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    # The cache entry of a clone with the same sources.
    kept = folder / "cache" / "opforge" / "twin"
    kept.mkdir(parents=True)
    for file in build_runtime().parent.glob("libopforge_twin.so*"):
        shutil.copy(file, kept)
    # For pip, "0" means --no-compile: Python compiles the modules that are used.
    pip = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_COMPILE": "0"}
    variables = os.environ | {"HOME": str(folder), "PATH": path} | pip
    subprocess.run(["bash", "-c", script], cwd=sources, env=variables, check=True)
