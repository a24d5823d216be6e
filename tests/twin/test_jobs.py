"""Test interrupted jobs, and jobs on a dask cluster that ends before them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from coverage_clone import PRINTS, example

from opforge.codegen.errors import UserError
from opforge.twin.jobs import run_all
from opforge.twin.runtime.isolation import run_command

SECONDS = 120


@contextmanager
def dask(folder):
    """Start a scheduler with one worker; yield the process of the scheduler and its address."""
    pytest.importorskip("distributed")
    file = folder / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    command += ["--no-dashboard", "--scheduler-file", str(file)]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file), "--nthreads", "1"]
    worker += ["--no-nanny", "--no-dashboard", "--local-directory", str(folder)]
    with (folder / "log").open("w") as log:
        started = [subprocess.Popen(words, stdout=log, stderr=log) for words in (command, worker)]
    try:
        end = time.monotonic() + SECONDS
        while "Registered to" not in (folder / "log").read_text():
            assert time.monotonic() < end, (folder / "log").read_text()
            time.sleep(0.1)
        (address,) = {line.split()[-1] for line in (folder / "log").read_text().splitlines() if "Scheduler at:" in line}
        yield started[0], address
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


@pytest.fixture
def short_waits(monkeypatch):
    """Let a client end soon after its scheduler."""
    pytest.importorskip("distributed")  # its defaults are complete after the import
    config = pytest.importorskip("dask.config")
    with config.set({"distributed.comm.timeouts.connect": "2s"}):
        yield


def _sleep(seconds):
    return run_command(["/bin/sleep", str(seconds)], b"", dict(os.environ), 900.0)


def test_an_interrupt_ends_running_jobs():
    """Without the end of its process, the other jobs would take 10 minutes."""

    def finished(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all(_sleep, [0, 600, 600, 600], 2, "local", finished)


@pytest.mark.usefixtures("short_waits")
def test_scheduler_that_ends_is_one_message(tmp_path):
    """The rows that are complete before are kept."""
    rows = []
    with dask(tmp_path) as (scheduler, address):

        def finished(row):
            rows.append(row)
            scheduler.kill()

        with pytest.raises(UserError) as caught:
            run_all(time.sleep, [0, SECONDS], 0, f"dask:{address}", finished)
    assert rows == [None]
    assert str(caught.value).startswith("--executor: got 'FutureCancelledError: ")
    assert f"from '{address}', expected a scheduler and workers that run until the end; start them" in str(caught.value)


def test_job_that_fails_is_one_message(tmp_path):
    """For example, a worker has another environment."""
    with dask(tmp_path) as (_, address), pytest.raises(UserError) as caught:
        run_all(time.sleep, [-1], 0, f"dask:{address}", list)
    assert str(caught.value).startswith("--executor: got 'ValueError: sleep length must be non-negative' from ")


def test_coverage_keeps_the_rows_of_a_scheduler_that_ends(tmp_path):
    clone, state = tmp_path / "clone", tmp_path / "state"
    example(clone, "first", PRINTS.replace("@", "pass"))
    example(clone, "second", "#include <unistd.h>\n" + PRINTS.replace("return", "sleep(100); return"))
    command = [sys.executable, "-m", "opforge.cli", "coverage", clone, "--state", state, "--json", tmp_path / "x.json"]
    environment = os.environ | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "2s"}
    with dask(tmp_path) as (scheduler, address):
        process = subprocess.Popen(
            [*command, "--executor", f"dask:{address}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
        while process.poll() is None and not (state.exists() and state.stat().st_size):
            time.sleep(0.1)
        scheduler.kill()
        _, text = process.communicate(timeout=SECONDS)
    assert process.returncode == 2, text
    lines = [line for line in text.splitlines() if not line.startswith("compiling the CPU twin")]
    (message,) = lines
    assert message.startswith("--executor: got 'FutureCancelledError: ")
    assert [json.loads(line)["row"]["right"] for line in state.read_text().splitlines()] == [True]
    assert not (tmp_path / "x.json").exists()
