"""Open the libraries of a vendor folder in separate processes, as a CANN program does, because this runs their code.

pyelftools cannot replace this. It does not detect a library whose initialization ends the program. It would need a
second implementation of the loader's library search.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from opforge.codegen.untrusted import FormError, parse_json

# A library whose loading does not end within this time is also faulty.
SECONDS = 60
_ANSWERS: TypeAdapter[Any] = TypeAdapter(list[list[Any]])
# Maximum bytes of the result for one library: the names of its functions.
_MOST_ANSWER_BYTES = 16 << 20
# Each library is opened in a separate process, so that no library uses symbols of another. The processes are forked
# from one process that has started Python. A library may start processes that keep the pipe open, so the script waits
# only for the end of the library's own process, or for the time limit.
_SCRIPT = """
import ctypes, json, os, select, signal, sys, time
seconds, most, place = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
for number in (1, 2):
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)
with open(place["buffers"], "rb") as stream:
    stream.seek(0)
    wanted = json.load(stream)
answers = []
for path, names in wanted:
    made = os.memfd_create("answer")
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.close(place["answer"])
        try:
            library = ctypes.CDLL(path, os.RTLD_NOW | os.RTLD_LOCAL)
        except OSError as error:
            answer = ["load", str(error)]
        else:
            answer = ["lacks", *[name for name in names if not hasattr(library, name)]]
        os.ftruncate(made, 0)  # a library may write into every file that is open
        os.pwrite(made, json.dumps(answer).encode(), 0)
        os._exit(0)
    poller = select.poll()
    poller.register(os.pidfd_open(child), select.POLLIN)
    is_late = not poller.poll(seconds * 1000)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    try:
        os.killpg(child, signal.SIGKILL)
    except OSError:
        pass  # nothing is left of it
    answer = os.pread(made, most, 0)
    os.close(made)
    try:
        answers.append(["late"] if is_late else json.loads(answer))
    except ValueError:
        answers.append(["ends", -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)])
os.ftruncate(place["answer"], 0)
os.pwrite(place["answer"], json.dumps(answers).encode(), 0)
"""


class Failure(NamedTuple):
    """The reason why a library cannot be opened, or its missing functions.

    Attributes:
        message: The message of the loader, or how the process ended; empty if the library was opened.
        lacks: Functions that it does not export.
    """

    message: str = ""
    lacks: tuple[str, ...] = ()

    @property
    def undefined(self) -> str:
        """Return the undefined symbol; empty if the failure has another reason."""
        return self.message.partition("undefined symbol: ")[2]


def load(wanted: Mapping[Path, Sequence[str]], environment: Mapping[str, str]) -> Iterator[tuple[Path, Failure]]:
    """Open libraries as CANN does and resolve all symbols; yield the libraries that fail.

    Args:
        wanted: Library -> functions that it must export.
        environment: Variables of the program that opens them.
    """
    for path, (kind, *texts) in zip(wanted, _answers(wanted, environment), strict=True):
        if kind == "load":
            yield path, Failure(texts[0].removeprefix(f"{path}: "))
        elif kind == "late":
            yield path, Failure(f"was not loaded after {SECONDS} s")
        elif kind == "ends":
            yield path, Failure(f"ends the program that loads it (exit code {texts[0]})")
        elif texts:
            yield path, Failure(lacks=tuple(texts))


def _answers(wanted: Mapping[Path, Sequence[str]], environment: Mapping[str, str]) -> list[list[Any]]:
    from opforge.twin.runtime.isolation import run_command

    command = [sys.executable, "-I", "-c", _SCRIPT, str(SECONDS), str(_MOST_ANSWER_BYTES)]
    data = json.dumps([[str(path), list(names)] for path, names in wanted.items()]).encode()
    status, text = run_command(command, data, environment, (SECONDS + 1) * len(wanted))
    try:
        if status == 0:
            answers: list[list[Any]] = parse_json(text, _ANSWERS)
            return answers
        failure: list[Any] = ["late"] if status is None else ["ends", status]
    except FormError as error:
        failure = ["load", f"changes the answer of its loader ({error})"]
    # One of the libraries ended the process that opens all of them.
    if len(wanted) == 1:
        return [failure]
    return [answer for path, names in wanted.items() for answer in _answers({path: names}, environment)]
