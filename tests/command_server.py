"""Run the command line often without repeating its imports: this process has them, and forks for each command."""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
from functools import lru_cache
from importlib import import_module

import typer.main

# Modules that commands import at run time.
MODULES = (
    *("onnx.checker", "onnx.reference", "numpy", "ml_dtypes", "jinja2", "opforge.codegen.generate"),
    *("opforge.codegen.new", "opforge.codegen.writer", "opforge.twin.build", "opforge.twin.profile"),
    *("opforge.twin.lint.kernel_lint", "opforge.frontend.commands", "opforge.frontend.run.verify"),
    *("opforge.frontend.report.console", "opforge.frontend.run.ort_offload", "opforge.frontend.run.execute"),
    *("opforge.frontend.atc_commands", "opforge.package.pack", "opforge.package.verify"),
    *("opforge.twin.program.compiler", "opforge.twin.coverage.command", "opforge.twin.tune.command"),
)

# typer prepares the options of all commands for each call, which takes longer than most commands.
once_per_app = lru_cache(maxsize=None)(typer.main.get_command)


def serve(caller: socket.socket) -> None:
    """Return in a child for each command; end after the caller has ended."""
    for name in MODULES:
        import_module(name)
    typer.main.get_command = once_per_app
    once_per_app(import_module("opforge.cli.app").app)
    gc.freeze()
    while True:
        data, streams, _, _ = socket.recv_fds(caller, 1 << 20, 3)
        if not data:
            sys.exit()
        child = os.fork()
        if child == 0:
            caller.detach()  # closed with the other files
            _enter(json.loads(data), streams)
            return
        for stream in streams:
            os.close(stream)
        caller.send(str(child).encode())
        _, status = os.waitpid(child, 0)
        caller.send(str(os.waitstatus_to_exitcode(status)).encode())


def _enter(command: dict, streams: list[int]) -> None:
    """Set streams, folder, environment and arguments of a command."""
    os.setpgid(0, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 64)
    # Python's settings for the streams of this process do not apply to these.
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115  # open until the process ends
    sys.stderr = sys.__stderr__ = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115  # open until the process ends
    os.chdir(command["folder"])
    os.environ.clear()
    os.environ.update(command["variables"])
    sys.argv = ["opforge", *command["arguments"]]


if __name__ == "__main__":
    from opforge.cli.main import main

    serve(socket.socket(fileno=int(sys.argv[1])))
    main()
