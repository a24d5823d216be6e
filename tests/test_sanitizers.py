"""Run the twin and the host code of all operators with sanitizers; expect no report."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OPFORGE = (sys.executable, "-c", "from opforge.cli.main import main; main()")
# A report ends the program with a separate exit code. Memory that is never freed is not a fault of a call.
OPTIONS = {
    "ASAN_OPTIONS": "halt_on_error=1:exitcode=66:detect_leaks=0",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1:exitcode=66",
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66",
    "OPENBLAS_NUM_THREADS": "1",
}
CAPTURES = "tests/twin/host/test_captures.py"
LIBRARIES = {"address,undefined": ("asan", "ubsan"), "thread": ("tsan",)}


def done(command, environment):
    result = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, env=environment, cwd=ROOT
    )
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout[-3000:]}\n{result.stderr[-6000:]}"
    return result.stdout


@pytest.fixture(scope="module", params=LIBRARIES)
def sanitized(request):
    """Return compiler, environment and flags of a build with a set of sanitizers; objects are kept from run to run."""
    folder = ROOT / "build" / "sanitized" / request.param.replace(",", "_")
    folder.mkdir(parents=True, exist_ok=True)
    compiler = folder / "g++"
    # With sanitizers, g++ reports initialized variables as uninitialized.
    options = f"-fsanitize={request.param} -fno-omit-frame-pointer -g1 -O1 -Wno-maybe-uninitialized"
    # A shell would crash if it is started with TSan preloaded; and the compiler is not tested here.
    interpreter = "#!/usr/bin/env -S -u LD_PRELOAD /bin/sh"
    compiler.write_text(f'{interpreter}\nexec {shutil.which("g++")} "$@" {options}\n', encoding="utf-8")
    compiler.chmod(0o755)
    environment = {**os.environ, **OPTIONS, "CXX": str(compiler), "OPFORGE_BUILD_DIR": str(folder / "build")}
    environment["XDG_CACHE_HOME"] = str(folder / "cache")
    return request.param, compiler, environment, shlex.split(done([*OPFORGE, "flags"], environment))


@pytest.mark.all
@pytest.mark.parametrize("example", sorted(path.stem for path in (ROOT / "examples").glob("*.cpp")))
def test_applications_run_clean(sanitized, tmp_path, example):
    _, compiler, environment, flags = sanitized
    program = tmp_path / example
    done([compiler, ROOT / "examples" / f"{example}.cpp", *flags, "-o", program], environment)
    assert done([program], environment)


@pytest.mark.all
def test_kernels_run_clean(sanitized):
    sanitizers, compiler, environment, _ = sanitized
    libraries = [
        done([compiler, f"-print-file-name=lib{name}.so"], environment).strip() for name in LIBRARIES[sanitizers]
    ]
    preloaded = {**environment, "LD_PRELOAD": " ".join(libraries)}
    # Every operator has this test, and its kernels are already compiled.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/op_kernel", CAPTURES]
    assert " passed" in done([*command, "-k", "test_shapes_of_the_spec or test_captures"], preloaded)


@pytest.mark.all
def test_a_planted_overrun_is_noticed(sanitized, tmp_path):
    """Shows that the sanitizers are active in the other tests."""
    sanitizers, compiler, environment, _ = sanitized
    bugs = {
        "address,undefined": "int* p = new int[2]; p[argc + 1] = 1; int r = p[argc + 1]; delete[] p; return r - 1;",
        "thread": "int n = 0; std::thread t([&] { ++n; }); ++n; t.join(); return n - 1 - argc;",
    }
    source = tmp_path / "bug.cpp"
    source.write_text(f"#include <thread>\nint main(int argc, char**) {{ {bugs[sanitizers]} }}\n", encoding="utf-8")
    done([compiler, "-pthread", source, "-o", tmp_path / "bug"], environment)
    assert subprocess.run([tmp_path / "bug"], capture_output=True, check=False, env=environment).returncode == 66
