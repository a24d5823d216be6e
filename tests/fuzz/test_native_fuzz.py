"""Fuzz the C++ readers of the ONNX plugins and the acl interface of the CPU twin with libFuzzer, ASan and UBSan."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OPFORGE = (sys.executable, "-c", "from opforge.cli.main import main; main()")
RUNS = 100_000
SANITIZERS = "address,undefined"
OPTIONS = {
    # The twin keeps destroyed handles for some time, and allocates memory of any size.
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:alloc_dealloc_mismatch=0",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
}
pytestmark = [
    pytest.mark.all,
    pytest.mark.skipif(not shutil.which("clang++"), reason="clang++ is not installed: apt-get install clang"),
]


def done(command, environment):
    result = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, env=environment, cwd=ROOT
    )
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout[-2000:]}\n{result.stderr[-6000:]}"
    return result


@pytest.fixture(scope="module")
def compiled():
    """Compile the twin, the operators and the program of a target with coverage and sanitizers; objects are kept."""
    folder = ROOT / "build" / "fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    compiler = folder / "clang++"
    # The list of exceptions of the compiler would be an unknown file among the dependencies.
    options = f"-fsanitize=fuzzer-no-link,{SANITIZERS} -fno-sanitize-recover=all -fno-sanitize-ignorelist -g1 -O1"
    # Kernels may not call host functions, so they are not instrumented. Programs contain the functions of the
    # sanitizers.
    script = f'case "$*" in *-fsanitize=bounds* | *-shared*) options= ;; *) options="{options}" ;; esac'
    compiler.write_text(f'#!/bin/sh\n{script}\nexec {shutil.which("clang++")} "$@" $options\n', encoding="utf-8")
    compiler.chmod(0o755)
    environment = {**os.environ, **OPTIONS, "CXX": str(compiler), "OPFORGE_BUILD_DIR": str(folder / "build")}
    environment["XDG_CACHE_HOME"] = str(folder / "cache")
    flags = shlex.split(done([*OPFORGE, "flags"], environment).stdout)

    def compile_program(name):
        program = folder / name
        headers = [f"-I{ROOT / path}" for path in ("op_host", "op_plugin")]
        done([compiler, HERE / f"{name}.cpp", *headers, *flags, "-fsanitize=fuzzer", "-o", program], environment)
        return program, environment

    return compile_program


@pytest.mark.parametrize("name", sorted(path.stem for path in HERE.glob("*.cpp")))
def test_no_input_ends_the_process(compiled, name, tmp_path):
    program, environment = compiled(name)
    found, seeds = tmp_path / "found", HERE / "seeds" / name
    found.mkdir()
    limits = (f"-runs={RUNS}", "-seed=1", "-timeout=20", "-rss_limit_mb=2048", "-max_len=512", "-print_final_stats=1")
    printed = done([program, *limits, f"-artifact_prefix={tmp_path}/", found, seeds], environment).stderr
    executed = re.search(r"number_of_executed_units: (\d+)", printed)
    assert executed, printed[-2000:]
    assert int(executed[1]) >= RUNS
    # It found inputs beyond the seeds.
    assert list(found.iterdir())
