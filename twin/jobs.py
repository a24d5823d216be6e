"""Run jobs in parallel, here or on a dask cluster, and keep their rows for the next run."""

from __future__ import annotations

import hashlib
import importlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from opforge.codegen.errors import UserError, not_installed
from opforge.codegen.files import make_folder, require_writable
from opforge.codegen.printing import first_line, path_text, shown
from opforge.twin.compiler.cache import digest
from opforge.twin.compiler.npu_model import TWIN
from opforge.twin.compiler.units import compiler
from opforge.twin.runtime.isolation import end_commands, run_command

_MOST_STATE_BYTES = 256 << 20
_ENTRY = '{"key": "'  # start of a line of results
Job = TypeVar("Job")
Row = TypeVar("Row")


def require_executor(executor: str) -> None:
    """Check an executor without jobs.

    Raises:
        UserError: The executor does not exist, or it does not answer.
        MissingToolError: dask is not installed.
    """
    if address := _dask_address(executor):
        _client(address)[1].close()


def _dask_address(executor: str) -> str:
    """Return the address of a dask scheduler; empty for local jobs."""
    kind, _, address = executor.partition(":")
    if (kind, bool(address)) not in {("local", False), ("dask", True)}:
        raise UserError(
            f"--executor: got {shown(executor)}, expected 'local' or 'dask:ADDRESS', as in dask:tcp://host:8786"
        )
    return address


def run_all(
    work: Callable[[Job], Row], jobs: Sequence[Job], count: int, executor: str, finished: Callable[[Row], None]
) -> None:
    """Run jobs; `finished` receives each row after it is complete.

    Args:
        work: The function that runs a job; it must be in a module, so that other processes can import it.
        jobs: Its arguments.
        count: Number of parallel local jobs; 0: one per core.
        executor: `local`, or `dask:ADDRESS` of a scheduler whose workers see the same files.
        finished: Receives the rows in the order of completion.

    Raises:
        UserError: The executor does not exist, it does not answer, or it ends before the jobs.
        MissingToolError: dask is not installed.
    """
    if address := _dask_address(executor):
        _run_on_dask(work, jobs, address, finished)
        return
    with ThreadPoolExecutor(count or os.cpu_count() or 1) as pool:
        futures = [pool.submit(work, job) for job in jobs]
        try:
            for future in as_completed(futures):
                finished(future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            while not all(future.done() for future in futures):
                end_commands()
                time.sleep(0.05)
            raise


def _client(address: str) -> tuple[Any, Any]:
    """Return the module `distributed` and a client of a scheduler."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ModuleNotFoundError as error:
        raise not_installed("--executor", "distributed", "dask", "pip install 'opforge[dask]'") from error
    for name in ("distributed", "distributed.client"):  # the errors of this module are enough
        logging.getLogger(name).handlers[:] = [logging.NullHandler()]
    try:
        return distributed, distributed.Client(address, timeout="20s")
    except (OSError, ValueError, MemoryError) as error:  # a server of another protocol may cause MemoryError
        raise UserError(
            f"--executor: got '{first_line(error)}' from {shown(address)}, expected the address of a dask scheduler"
        ) from error


def _run_on_dask(
    work: Callable[[Job], Row], jobs: Sequence[Job], address: str, finished: Callable[[Row], None]
) -> None:
    distributed, client = _client(address)
    with client:
        futures = [client.submit(work, job, pure=False) for job in jobs]
        for _, row in distributed.as_completed(futures, with_results=True, raise_errors=False):
            error = row[1] if isinstance(row, tuple) else row  # type, error and traceback of a job, or a row
            if isinstance(error, BaseException):
                reason = f"{type(error).__name__}: {first_line(error)}"
                raise UserError(
                    f"--executor: got '{reason}' from {shown(address)}, expected a scheduler and workers that run until"
                    " the end; start them and repeat the command, which continues after the finished jobs"
                ) from error
            finished(row)


def run_module(
    module: str, job: Mapping[str, Any], kind: TypeAdapter[Row], seconds: float, limits: Mapping[str, str] | None = None
) -> Row | str:
    """Run a job in a separate process; end all processes that it started.

    Args:
        module: `python -m module PLACE` reads the job, to which an empty folder is added, and writes the row.
        job: JSON data.
        kind: The type of the row.
        seconds: The time limit.
        limits: Environment variables of the process in addition to those of this one.

    Returns:
        The row, or the reason why it is missing.
    """
    folder = tempfile.mkdtemp(prefix="opforge-job-")
    data = json.dumps({**job, "folder": str(Path(folder).resolve())}).encode()
    try:
        status, answer = run_command([sys.executable, "-m", module], data, {**os.environ, **(limits or {})}, seconds)
        return kind.validate_json(answer)
    except OSError as error:
        return f"no process can be started: {error.strerror}"
    except ValidationError:
        end = f"did not end within {seconds:g} s" if status is None else f"ended with {status}"
        return f"its process {end}"
    finally:
        # A program may have nested folders deeper than Python's functions support.
        subprocess.run(["/bin/rm", "-rf", "--", folder], check=False, stderr=subprocess.DEVNULL)


def twin_version() -> str:
    """Return a digest of the sources of the CPU twin and of this package, and the compiler."""
    total = hashlib.sha256(compiler()[1].encode())
    for path in sorted(TWIN.rglob("*")):
        if path.suffix in {".h", ".cpp", ".py", ".json", ".j2"} and path.is_file():
            total.update(f"{path.relative_to(TWIN)} {digest(path)}\n".encode())
    return total.hexdigest()[:16]


class State(Generic[Row]):
    """The rows of earlier runs, one line of JSON each, by a digest of all their inputs.

    Args:
        given: The file, in an existing folder; None: `default`, whose folder is created.
        default: A file in the build folder.
        kind: The type of a row.

    Raises:
        UserError: The file cannot be written, or has other content.
    """

    def __init__(self, given: Path | None, default: Path, kind: type[Row]) -> None:
        if given is None:
            make_folder(default.parent)
        self._path = path = given or default
        require_writable(path, (), "results for --state")
        self._kind: TypeAdapter[Row] = TypeAdapter(kind)
        self._rows: dict[str, Row] = {}
        try:
            if path.exists() and path.stat().st_size > _MOST_STATE_BYTES:
                raise UserError(f"{path_text(path)}: got more than {_MOST_STATE_BYTES} bytes of results; remove it")
            self._file = path.open("a+", encoding="utf-8", errors="replace")
            self._file.seek(0)
            lines = list(self._file)
        except OSError as error:
            raise self._unwritable(error) from error
        if lines and not any(line.startswith(_ENTRY) for line in lines):
            expected = "expected results of earlier runs or no file; select another one with --state"
            raise UserError(f"{path_text(path)}: got a file without results, {expected}")
        if lines and not lines[-1].endswith("\n"):
            self._file.write("\n")  # an incomplete line of a killed run; the next row begins a new one
        for line in lines:
            self._add(line)

    def _unwritable(self, error: OSError) -> UserError:
        expected = "expected a writable file; select another one with --state"
        return UserError(f"{path_text(self._path)}: cannot write: '{error.strerror}', {expected}")

    def _add(self, line: str) -> None:
        try:
            entry = json.loads(line)
            if entry["digest"] == _entry_digest(entry["key"], entry["row"]):
                self._rows[entry["key"]] = self._kind.validate_python(entry["row"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return  # an incomplete line of a killed run, or of another program: the job runs again

    def get(self, key: str) -> Row | None:
        """Return the row of an earlier run."""
        return self._rows.get(key)

    def put(self, key: str, row: Row) -> None:
        """Store a row immediately: an interrupted run continues after it."""
        self._rows[key] = row
        data = self._kind.dump_python(row, mode="json")
        try:
            self._file.write(json.dumps({"key": key, "row": data, "digest": _entry_digest(key, data)}) + "\n")
            self._file.flush()
        except OSError as error:
            raise self._unwritable(error) from error


def _entry_digest(key: str, row: object) -> str:
    """Return the digest of a line: the row of a changed line is not used."""
    return hashlib.sha256(json.dumps([key, row], sort_keys=True).encode()).hexdigest()[:16]
