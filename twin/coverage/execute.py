"""Run the jobs of a clone in parallel, here or on a dask cluster, and keep the rows for the next run."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from opforge.codegen.errors import MissingToolError, UserError
from opforge.codegen.printing import first_line, path_text, shown
from opforge.twin.build import TWIN
from opforge.twin.compiler.cache import digest
from opforge.twin.compiler.units import compiler
from opforge.twin.runtime.isolation import run_command

from .discover import Source
from .walk import Tree
from .worker import Row

_ROW = TypeAdapter(Row)
_MOST_STATE_BYTES = 256 << 20
_STEPS = 6  # compilations and programs of one job, at most, each with the time limit
_PYTHON_SECONDS = 60.0
_HEADERS = (".h", ".hpp", ".inc")
Settings = dict[str, Any]
Finished = Callable[[Row], None]


def run_one(source: Source, settings: Settings) -> Row:
    """Run one job in a process of its own, which is ended with all that it started."""
    folder = tempfile.mkdtemp(prefix="opforge-coverage-")
    job = {"source": asdict(source), "settings": settings, "folder": str(Path(folder).resolve())}
    limits = {
        "OPFORGE_COMPILE_SECONDS": str(int(settings["seconds"])),
        "OPFORGE_COMPILE_MEMORY_MB": str(settings["memory_mb"]),
    }
    command = [sys.executable, "-m", "opforge.twin.coverage.worker"]
    seconds = settings["seconds"] * _STEPS + _PYTHON_SECONDS
    try:
        status, answer = run_command(command, json.dumps(job).encode(), os.environ | limits, seconds)
        return _ROW.validate_json(answer)
    except OSError as error:
        reason = f"no process can be started: {error.strerror}"
    except ValidationError:
        reason = "its process did not end in time" if status is None else f"its process ended with {status}"
    finally:
        # A program may have made folders in folders, more than Python's functions follow.
        subprocess.run(["/bin/rm", "-rf", "--", folder], check=False, stderr=subprocess.DEVNULL)
    return Row(source.path, source.kind, reason=reason)


def run_all(sources: Sequence[Source], settings: Settings, jobs: int, executor: str, finished: Finished) -> None:
    """Run jobs; `finished` receives each row when it is there.

    Args:
        sources: The jobs.
        settings: `seconds`, `memory_mb`, `soc`, `level`, `run_scripts`.
        jobs: How many run at once here; 0: one per core.
        executor: `local`, or `dask:ADDRESS` of a scheduler whose workers see the same files.
        finished: Receives the rows in the order in which they end.

    Raises:
        UserError: There is no such executor, or it does not answer.
        MissingToolError: dask is not installed.
    """
    kind, _, address = executor.partition(":")
    if kind == "local" and not address:
        with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
            futures = [pool.submit(run_one, source, settings) for source in sources]
            try:
                for future in as_completed(futures):
                    finished(future.result())
            finally:
                pool.shutdown(cancel_futures=True)
    elif kind == "dask" and address:
        _run_on_dask(sources, settings, address, finished)
    else:
        raise UserError(
            f"--executor: got {shown(executor)}, expected 'local' or 'dask:ADDRESS', as dask:tcp://host:8786"
        )


def _run_on_dask(sources: Sequence[Source], settings: Settings, address: str, finished: Finished) -> None:
    try:
        distributed: Any = importlib.import_module("distributed")
    except ModuleNotFoundError as error:
        raise MissingToolError(
            "--executor: got dask, which is not installed; expected the package distributed; "
            "install it with `pip install 'opforge[dask]'`"
        ) from error
    try:
        client = distributed.Client(address, timeout="20s")
    except (OSError, ValueError) as error:
        raise UserError(
            f"--executor: got '{first_line(error)}' from {shown(address)}, expected the address of a dask scheduler"
        ) from error
    with client:
        futures = [client.submit(run_one, source, settings, pure=False) for source in sources]
        for _, row in distributed.as_completed(futures, with_results=True):
            finished(row)


def twin_version() -> str:
    """A digest of the sources of the CPU twin and of this package, and the compiler."""
    total = hashlib.sha256(compiler()[1].encode())
    for path in sorted(TWIN.rglob("*")):
        if path.suffix in {".h", ".cpp", ".py", ".json", ".j2"} and path.is_file():
            total.update(f"{path.relative_to(TWIN)} {digest(path)}\n".encode())
    return total.hexdigest()[:16]


class State:
    """The rows of earlier runs, one line of JSON each, by a digest of everything that they depend on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, Row] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size > _MOST_STATE_BYTES:
                raise UserError(f"{path_text(path)}: got more than {_MOST_STATE_BYTES} bytes of results; remove it")
            self._file = path.open("a+", encoding="utf-8")
            self._file.seek(0)
            for line in self._file:
                self._add(line)
        except OSError as error:
            raise UserError(
                f"{path_text(path)}: got '{error.strerror}', expected a file for results; name another one by --state"
            ) from error

    def _add(self, line: str) -> None:
        try:
            entry = json.loads(line)
            self._rows[entry["key"]] = _ROW.validate_python(entry["row"])
        except (ValueError, KeyError, TypeError):
            return  # a line that a killed run left, or of another program: the job runs again

    def get(self, key: str) -> Row | None:
        """The row of an earlier run."""
        return self._rows.get(key)

    def put(self, key: str, row: Row) -> None:
        """Keep a row at once: a run that is interrupted goes on after it."""
        self._rows[key] = row
        try:
            self._file.write(json.dumps({"key": key, "row": asdict(row)}) + "\n")
            self._file.flush()
        except OSError as error:
            raise UserError(f"{path_text(self._path)}: got '{error.strerror}', expected space for results") from error


def keys_of(tree: Tree, sources: Iterable[Source], settings: Settings, version: str) -> Iterator[str]:
    """For each source, a digest of its files, all headers of the clone, the settings and the twin."""
    headers = hashlib.sha256()
    for name in tree.names:
        if name.endswith(_HEADERS):
            headers.update(f"{name} {digest(tree.root / name)}\n".encode())
    common = json.dumps([version, headers.hexdigest(), settings], sort_keys=True)
    for source in sources:
        names = {*source.sources, *source.tests}
        if source.kind == "example":
            names |= set(tree.below(source.folder))
        total = hashlib.sha256(common.encode() + json.dumps(asdict(source), sort_keys=True).encode())
        for name in sorted(names):
            total.update(f"{name} {digest(tree.root / name)}\n".encode())
        yield total.hexdigest()
