"""Compile kernels from text and launch them on the twin."""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opforge.codegen.data.products import SOCS
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.twin.build import TWIN, build_runtime, include_flags
from opforge.twin.compiler.flags import WARNINGS
from opforge.twin.compiler.folder import locked
from opforge.twin.compiler.runtime_library import kernel_flags, precompile_kernel_header
from opforge.twin.compiler.units import Library, Unit, build

Array = np.ndarray[Any, Any]
CACHE = Project(BUILTIN_ROOT).build_dir / "twin" / "tests"
WORKSPACE_BYTES = (16 << 20) + 65536
INPUT, OUTPUT = 1, 2
PLANTED = "planted mistake"
RULE = "rule of the device"


def compile_library(
    name: str, source: Path, flags: Sequence[str] = (), prepare: Callable[[], None] | None = None
) -> Path:
    """Compile one source with the twin; cached by content."""
    runtime = build_runtime()
    links = (f"-L{runtime.parent}", f"-Wl,-rpath,{runtime.parent}", "-lopforge_twin", "-ldl")
    unit = Unit(source, CACHE / f"{name}.o", (*flags, *WARNINGS, *include_flags()), name, prepare=prepare)
    library = Library(CACHE / f"{name}.so", (unit,), links)
    with locked(CACHE) as scratch:
        build([library], scratch)
    return library.path


@cache
def _poisoned_file() -> int:
    file = os.memfd_create("workspace")
    os.write(file, bytes([0xFE]) * WORKSPACE_BYTES)
    return file


def poisoned_workspace() -> Array:
    """Return undefined bytes; only pages that a kernel changes are copied."""
    return np.frombuffer(mmap.mmap(_poisoned_file(), WORKSPACE_BYTES, mmap.MAP_PRIVATE), np.uint8)


@dataclass(frozen=True)
class Kernels:
    """Kernels compiled from one text."""

    library: Path
    launcher: Any

    def launch(
        self,
        symbol: str,
        *arrays: Array | None,
        roles: tuple[int, ...] = (),
        blocks: int = 1,
        tiling: bytes = b"",
        tiling_key: int = 0,
        task_type: str = "MIX_AIV_1_0",
        soc: str = "Ascend910B1",
        strict: int = 1,
        threads: int = 0,
        seed: int = 0,
        misalignment: int = 0,
    ) -> dict[str, Any]:
        """Run a kernel on arrays in place; return the report. `strict`: 0 is level fast, 1 is strict, 2 is device."""
        pointers = (ctypes.c_void_p * len(arrays))(*(None if a is None else a.ctypes.data for a in arrays))
        sizes = (ctypes.c_uint64 * len(arrays))(*(0 if a is None else a.nbytes for a in arrays))
        kinds = (ctypes.c_int32 * len(arrays))(*(roles or [INPUT | OUTPUT] * len(arrays)))
        workspace = poisoned_workspace()
        answer = self.launcher.LaunchKernel(
            str(self.library).encode(),
            symbol.encode(),
            task_type.encode(),
            soc.encode(),
            ctypes.c_uint32(blocks),
            ctypes.c_uint64(tiling_key),
            tiling,
            ctypes.c_uint64(len(tiling)),
            pointers,
            sizes,
            kinds,
            ctypes.c_uint64(len(arrays)),
            ctypes.c_void_p(workspace.ctypes.data),
            ctypes.c_uint64(workspace.nbytes),
            int(strict),
            ctypes.c_uint32(threads),
            ctypes.c_uint64(seed),
            ctypes.c_uint64(misalignment),
        )
        report: dict[str, Any] = json.loads(answer)
        return report

    def run(self, symbol: str, *arrays: Array | None, **options: Any) -> dict[str, Any]:
        """Launch a kernel that must have no findings."""
        report = self.launch(symbol, *arrays, **options)
        assert report["findings"] == [], report["findings"]
        return report

    def cycles(self, symbol: str, *arrays: Array | None, **options: Any) -> dict[str, float]:
        """Launch a kernel that must have no findings; return the cycles of each API function on all cores."""
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as environment:
            trace = Path(folder, "trace.json")
            environment.setenv("OPFORGE_TWIN_TRACE", str(trace))
            self.run(symbol, *arrays, **options)
            events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
        mhz = SOCS[options.get("soc", "Ascend910B1")].mhz
        cycles: dict[str, float] = {}
        for event in events:
            if event["ph"] == "X":
                cycles[event["name"]] = cycles.get(event["name"], 0.0) + event["dur"] * mhz
        return cycles


@pytest.fixture(scope="session")
def compile_kernels() -> Callable[[str], Kernels]:
    """Return a function from the text of kernels to the kernels."""
    source = Path(__file__).with_name("kernel_launcher.cpp")
    launcher = ctypes.CDLL(str(compile_library("kernel_launcher", source, [f"-I{TWIN / 'src'}"])))
    launcher.LaunchKernel.restype = ctypes.c_char_p

    def compiled(text: str) -> Kernels:
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        source = CACHE / f"{name}.cpp"
        with locked(CACHE):
            if not source.is_file() or source.read_text(encoding="utf-8") != text:
                source.write_text(text, encoding="utf-8")
        return Kernels(compile_library(name, source, kernel_flags(), precompile_kernel_header), launcher)

    return compiled


@pytest.fixture
def record_planted(record_property: Callable[[str, object], None]) -> Callable[[str, dict[str, Any]], None]:
    """Return a function that adds a planted mistake and its finding to the table of the test run."""

    def record(name: str, finding: dict[str, Any]) -> None:
        record_property(PLANTED, [name, finding["kind"], finding["message"]])

    return record


@pytest.fixture
def record_rule(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Return a function that adds a rule, its check and the proof of the check to the table of the test run."""

    def record(rule: str, check: str, proof: str) -> None:
        record_property(RULE, [rule, check, proof])

    return record


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the rules with their checks, and the planted mistakes: the error, the check that found it, its message."""
    passed = terminalreporter.stats.get("passed", [])
    if terminalreporter.verbosity < 0:
        return
    proofs: dict[tuple[str, str], list[str]] = {}
    for rule, check, proof in (v for report in passed for key, v in report.user_properties if key == RULE):
        proofs.setdefault((rule, check), []).append(proof)
    if proofs:
        terminalreporter.section(f"{len({rule for rule, _ in proofs})} rules of the device, their checks and proofs")
    for (rule, check), names in proofs.items():
        terminalreporter.write_line(f"{rule}: {check}: {'; '.join(names)}")
    rows = [value for report in passed for key, value in report.user_properties if key == PLANTED]
    if not rows:
        return
    terminalreporter.section(f"{len(rows)} planted mistakes, each named by its check")
    for name, kind, message in rows:
        text = message.removeprefix(f"{name} ")
        terminalreporter.write_line(f"{name:34} {kind:20} {text if terminalreporter.verbosity else text[:120]}")
