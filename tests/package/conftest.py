"""Provide one package of this repository, and functions that run it like a user."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
from pathlib import Path

import pytest

from opforge.codegen.project import Project
from opforge.package.pack import gather, pack

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def project():
    return Project(ROOT)


@pytest.fixture(scope="session")
def contents(project):
    return gather(project, None, None, "opforge")


@pytest.fixture(scope="session")
def package(project, tmp_path_factory):
    """Create a .run file with one operator."""
    return pack(out=tmp_path_factory.mktemp("package"), project=project, ops=["GroupedBiasAddGrad"])


@pytest.fixture(scope="session")
def small(project):
    """One operator with sources that compile quickly: each source has only the functions in its name."""
    found = gather(project, ["ascend910b"], ["GroupedBiasAddGrad"], "opforge")
    paths = [path for path in found.generated if path.endswith(".cpp")]
    return dataclasses.replace(found, generated={**found.generated, **{path: _one_function(path) for path in paths}})


def _one_function(path):
    stem = Path(path).stem
    if stem.startswith("aclnn_"):
        stem = "aclnn" + "".join(word.capitalize() for word in stem.split("_")[1:])
    ends = ("", "GetWorkspaceSize") if stem.startswith("aclnn") else ("",)
    visible = 'extern "C" __attribute__((visibility("default")))'
    return "".join(f"{visible} int {stem}{end}() {{ return 0; }}\n" for end in ends)


@pytest.fixture
def run(tmp_path):
    """Return `run(file, *options, **environment)`, which runs a package with only the given CANN variables."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()

    def call(file, *options, **environment):
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("ASCEND", "LD_LIBRARY"))}
        result = subprocess.run(
            [str(file), *options],
            env=clean | {"TMPDIR": str(temporary)} | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert list(temporary.iterdir()) == [], "the package left files behind"
        return result

    return call


def _restore_signals():
    """Restore signals: a test run in the background can inherit ignored signals."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def begin():
    """Return `begin(environment, *command)`, which starts a package in a separate session without ignored signals."""
    begun = []

    def call(environment, *command):
        begun.append(
            subprocess.Popen(
                [str(word) for word in command],
                env={"PATH": "/usr/bin:/bin"} | environment,
                start_new_session=True,
                preexec_fn=_restore_signals,  # noqa: PLW1509  # no threads here
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return begun[-1]

    yield call
    for process in begun:
        process.kill()
        process.communicate()
