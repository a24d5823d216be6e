"""Compile kernels for programs in the sandbox, which can start no compiler: aclrtcCompileProg."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from threading import Event, Thread
from typing import Any

from opforge.codegen.errors import UserError
from opforge.codegen.files import open_inside
from opforge.codegen.printing import shown
from opforge.twin.program import compile_program

_MOST_REQUESTS, _MOST_BYTES, _MOST_HEADERS = 16, 4 << 20, 64
_REQUEST = re.compile(r"opforge-rtc-\w{6}")
_NAME = re.compile(r"[\w.-]{1,80}\.asc")
# Options that neither name a file to write nor start a program.
_OPTION = re.compile(
    r"-(?:[DUI].+|std=[\w+]+|O[0-3]?|g|w|W[\w-]+|fPIC|shared)|--(?:npu-arch|cce-aicore-arch|cce-auto-sync)=.*"
)


@contextmanager
def compiling(scratch: Path, answers: Path, settings: dict[str, Any]) -> Iterator[None]:
    """Answer the requests of a program in the block.

    Args:
        scratch: The folder that the program can write: `opforge-rtc-??????/request`.
        answers: A folder that the program can only read: `opforge-rtc-??????` with `kernels.so`, `log` and `status`.
        settings: `soc` and `level`.
    """
    answers.mkdir()
    stop = Event()
    thread = Thread(target=_serve, args=(scratch, answers, settings, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _serve(scratch: Path, answers: Path, settings: dict[str, Any], stop: Event) -> None:
    answered: set[str] = set()
    while not stop.wait(0.02) and len(answered) < _MOST_REQUESTS:
        for folder in scratch.glob("opforge-rtc-*"):
            is_wanted = folder.name not in answered and len(answered) < _MOST_REQUESTS and not stop.is_set()
            if is_wanted and _REQUEST.fullmatch(folder.name):
                with suppress(OSError):  # the request is not complete
                    if (file := open_inside(scratch, f"{folder.name}/request")) is not None:
                        with file:
                            data = file.read(_MOST_BYTES)
                        answered.add(folder.name)
                        _answer(data, answers / folder.name, settings)


def _answer(request: bytes, answer: Path, settings: dict[str, Any]) -> None:
    """Compile the sources of a request: pairs of a key and a value, each with a zero byte at its end."""
    sources = answer / "sources"
    sources.mkdir(parents=True)
    log = ""
    try:
        main, options = _write_sources(request, sources)
        compile_program(
            [main],
            answer / "kernels.so",
            include_dirs=[sources],
            options=["-shared", "-fPIC", *options],
            soc=settings["soc"],
            level=settings["level"],
        )
    except (UserError, OSError) as error:
        log = str(error) or type(error).__name__
    (answer / "log").write_text(log, encoding="utf-8", errors="replace")
    (answer / "draft").write_text("2" if log else "0", encoding="ascii")
    (answer / "draft").rename(answer / "status")


def _write_sources(request: bytes, folder: Path) -> tuple[Path, list[str]]:
    """Write the source and the headers of a request; return the source and the options.

    Raises:
        UserError: The request is wrong.
    """
    texts = request.decode(errors="replace").split("\0")
    main, options, headers = folder / "program.asc", [], 0
    for key, value in zip(texts[::2], texts[1::2], strict=False):
        kind, _, name = key.partition("/")
        if kind == "option":
            if not _OPTION.fullmatch(value):
                expected = "expected -D, -U, -I, -O, -std or a warning in the sandbox; run the program without it"
                raise UserError(f"options: got {shown(value)}, {expected}")
            options.append(value)
            continue
        path = PurePosixPath(name)
        headers += 1
        if path.is_absolute() or ".." in path.parts or not path.parts or headers > _MOST_HEADERS:
            expected = f"expected at most {_MOST_HEADERS} relative paths without '..'"
            raise UserError(f"name of a source: got {shown(name)}, {expected}; correct it")
        target = folder / path
        if kind == "source" and _NAME.fullmatch(name):
            main = target
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(value, encoding="utf-8", errors="replace")
    return main, options
