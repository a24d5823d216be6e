"""Whether a program could open a library: tried in a process of its own, since opening runs the library's code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

OTHER_MACHINE = "other-machine"
# A library that does not come to an end of its loading is faulty too.
SECONDS = 60
_SCRIPT = """
import ctypes, os, sys
path, *names = sys.argv[1:]
try:
    library = ctypes.CDLL(path, os.RTLD_NOW | os.RTLD_LOCAL)
except OSError as error:
    print("load", error)
else:
    for name in names:
        if not hasattr(library, name):
            print("lacks", name)
"""


def load(path: Path, symbols: Sequence[str], environment: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Open a library as CANN does, every symbol at once; yields (check, cause, repair) for what is wrong.

    Args:
        path: The library.
        symbols: Functions that it must export.
        environment: Variables of the program that would open it.
    """
    command = [sys.executable, "-I", "-c", _SCRIPT, str(path), *symbols]
    try:
        result = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        yield "cannot-load", f"was not loaded after {SECONDS} s", "build the package again"
        return
    if result.returncode:
        yield "cannot-load", f"ends the program that loads it (exit code {result.returncode})", "build it again"
    for line in result.stdout.splitlines():
        kind, _, text = line.partition(" ")
        if kind == "load":
            yield _explain(text.removeprefix(f"{path}: "))
        else:
            yield "symbol-missing", f"does not export {text}", _repair_symbol(text)


def _repair_symbol(name: str) -> str:
    if name.startswith("aclnn"):
        return "build the package again with this operator"
    return "link it with the whole archive librt2_registry.a; without it nothing is registered"


def _explain(message: str) -> tuple[str, str, str]:
    """What the loader said -> check, cause, repair."""
    if "undefined symbol" in message:
        symbol = message.rpartition("undefined symbol: ")[2]
        if "__cxx11" in symbol:
            cause = f"needs {symbol}, a symbol of the new C++ ABI, which CANN's libraries do not have"
            return "abi-mismatch", cause, "build it with -D_GLIBCXX_USE_CXX11_ABI=0"
        repair = "build the package with this toolkit"
        if "google" in symbol or "Message" in symbol:
            repair = "build the plugin with -Dgoogle=ascend_private"
        return "cannot-load", f"needs {symbol}, which no library has", repair
    # The loader calls an existing library of another processor absent.
    if message.startswith("cannot open shared object file") or "wrong ELF class" in message:
        return OTHER_MACHINE, "was built for another processor", "install the package for this machine"
    if "cannot open shared object file" in message:
        needed = message.partition(":")[0]
        return "cannot-load", f"needs {needed}, which is not found", "source the set_env.sh of the toolkit"
    return "cannot-load", message, "build the package again"
