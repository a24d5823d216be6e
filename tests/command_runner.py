"""Run the command line in forks of one process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

import pytest

HANGS = 300  # seconds after which a command is a hang


class CommandLine:
    """Runs `opforge` in a separate process for each call, forked from a process with the imports."""

    def __init__(self) -> None:
        self._caller, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._caller.settimeout(HANGS)
        with server_end:
            self._server = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("command_server.py")), str(server_end.fileno())],
                pass_fds=[server_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def __call__(
        self,
        *arguments: object,
        cwd: Path | None = None,
        stdout: int | str | None = None,
        stderr: int | str | None = None,
        **variables: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command; fail on a traceback or a hang.

        Args:
            arguments: Command, options and arguments.
            cwd: Folder to run in; default: the current one.
            stdout: File or descriptor for standard output, which is captured otherwise.
            stderr: As `stdout`, for standard error.
            variables: Environment variables besides those of this process.
        """
        words = [str(argument) for argument in arguments]
        request = {"arguments": words, "folder": str(cwd or Path.cwd()), "variables": os.environ | variables}
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(os.devnull, "rb") as null:
            captured = (null.fileno(), out.fileno(), err.fileno())
            given = [file if to is None else to for file, to in zip(captured, (None, stdout, stderr), strict=True)]
            streams = [os.open(to, os.O_WRONLY) if isinstance(to, str) else os.dup(to) for to in given]
            socket.send_fds(self._caller, [json.dumps(request).encode()], streams)
            for stream in streams:
                os.close(stream)
            code = self._wait(words)
            out.seek(0)
            err.seek(0)
            texts = [file.read().decode(errors="backslashreplace") for file in (out, err)]
        assert "Traceback" not in "".join(texts), texts
        assert "Exception ignored" not in "".join(texts), texts
        return subprocess.CompletedProcess(words, code, *texts)

    def _wait(self, words: list[str]) -> int:
        process = int(self._caller.recv(64))
        try:
            return int(self._caller.recv(64))
        except TimeoutError:
            os.killpg(process, signal.SIGKILL)
            self._caller.recv(64)
            pytest.fail(f"opforge {words} did not end within {HANGS} s")

    def close(self) -> None:
        """End the server."""
        self._caller.close()
        self._server.wait()


@lru_cache(maxsize=1)
def command_line() -> CommandLine:
    """Return the command line of this process, which closes it at its end."""
    return CommandLine()
