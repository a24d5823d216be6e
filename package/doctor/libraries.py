"""Open the libraries of a vendor folder as a program does, in separate processes, because this runs their code.

pyelftools cannot replace this: it finds no library whose initialization ends the program, it would need the loader's
search for other libraries a second time, and it reads 11,000 symbols in 0.84 s (the loader opens that file in 0.2 s).
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from opforge.codegen.untrusted import FormError, parse_json

# A library that does not come to an end of its loading is faulty too.
SECONDS = 60
_ANSWERS: TypeAdapter[Any] = TypeAdapter(list[list[Any]])
# One process for each library, none of which finds what another one brought; they come of one that has Python ready.
_SCRIPT = """
import ctypes, json, os, signal, sys
out = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
answers = []
for path, names in json.load(sys.stdin):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        signal.alarm(int(sys.argv[1]))
        try:
            library = ctypes.CDLL(path, os.RTLD_NOW | os.RTLD_LOCAL)
        except OSError as error:
            answer = ["load", str(error)]
        else:
            answer = ["lacks", *[name for name in names if not hasattr(library, name)]]
        os.write(write, b"\\n" + json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        answer = stream.read().rpartition(b"\\n")[2]  # a library may write into every stream that is open
    status = os.waitpid(child, 0)[1]
    try:
        answers.append(json.loads(answer))
    except ValueError:
        answers.append(["ends", -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)])
os.write(out, json.dumps(answers).encode())
"""


class Failure(NamedTuple):
    """Why a library cannot be opened, or which functions it lacks.

    Attributes:
        message: What the loader said, or how the process ended; empty if it is opened.
        lacks: Functions that it does not export.
    """

    message: str = ""
    lacks: tuple[str, ...] = ()

    @property
    def undefined(self) -> str:
        """Return the symbol that no library has; empty if this is not the failure."""
        return self.message.partition("undefined symbol: ")[2]


def load(wanted: Mapping[Path, Sequence[str]], environment: Mapping[str, str]) -> Iterator[tuple[Path, Failure]]:
    """Open libraries as CANN does, every symbol at once; yields those that fail.

    Args:
        wanted: Library -> functions that it must export.
        environment: Variables of the program that would open them.
    """
    for path, (kind, *texts) in zip(wanted, _answers(wanted, environment), strict=True):
        if kind == "load":
            yield path, Failure(texts[0].removeprefix(f"{path}: "))
        elif kind == "ends" and texts[0] == -signal.SIGALRM:
            yield path, Failure(f"was not loaded after {SECONDS} s")
        elif kind == "ends":
            yield path, Failure(f"ends the program that loads it (exit code {texts[0]})")
        elif texts:
            yield path, Failure(lacks=tuple(texts))


def _answers(wanted: Mapping[Path, Sequence[str]], environment: Mapping[str, str]) -> list[list[Any]]:
    result = subprocess.run(
        [sys.executable, "-I", "-c", _SCRIPT, str(SECONDS)],
        input=json.dumps([[str(path), list(names)] for path, names in wanted.items()]),
        env=dict(environment),
        capture_output=True,
        errors="replace",
        check=False,
    )
    try:
        if result.returncode == 0:
            answers: list[list[Any]] = parse_json(result.stdout, _ANSWERS)
            return answers
        failure: list[Any] = ["ends", result.returncode]
    except FormError as error:
        failure = ["load", f"changes the answer of its loader ({error})"]
    # One of them ended the process that opens all.
    if len(wanted) == 1:
        return [failure]
    return [answer for path, names in wanted.items() for answer in _answers({path: names}, environment)]
