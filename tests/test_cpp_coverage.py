"""Line coverage of the twin's C++ sources, measured with gcov while its tests run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "twin" / "src"
# Kernels are not instrumented, because they may not call host functions. Each object has separate notes and counts.
COMPILER = """#!/bin/sh
case "$*" in
    *"-c {sources}/"* | *-soname,libopforge_twin*) ;;
    *) exec {compiler} "$@" ;;
esac
name=$(printf '%s' "$*" | sed 's/build-[a-z0-9_]*//; s/tmp[a-z0-9_]*//g' | md5sum | cut -c1-16)
exec {compiler} "$@" --coverage -dumpdir {folder}/ -dumpbase "$name"
"""
# Measured: 85.4 %. Most of the rest is error handling of the host API.
LEAST_PERCENT = 80


def line_counts(folder):
    """Return how often each line ran: by file, by line number."""
    counts = defaultdict(lambda: defaultdict(int))
    for data in sorted(folder.glob("*.gcda")):
        command = ["gcov", "--json-format", "--stdout", str(data)]
        text = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
        for line in text.splitlines():
            for file in json.loads(line)["files"]:
                if Path(file["file"]).is_relative_to(SOURCES):
                    of_file = counts[file["file"]]
                    for entry in file["lines"]:
                        of_file[entry["line_number"]] += entry["count"]
    return counts


@pytest.mark.all
def test_most_lines_of_the_twin_run(capsys):
    folder = ROOT / "build" / "coverage"
    folder.mkdir(parents=True, exist_ok=True)
    for data in folder.glob("*.gcda"):
        data.unlink()
    compiler = folder / "g++"
    compiler.write_text(COMPILER.format(compiler=shutil.which("g++"), folder=folder, sources=SOURCES), encoding="utf-8")
    compiler.chmod(0o755)
    variables = {"CXX": compiler, "OPFORGE_BUILD_DIR": folder / "build", "XDG_CACHE_HOME": folder / "cache"}
    environment = os.environ | {key: str(value) for key, value in variables.items()} | {"CCACHE_DISABLE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/twin"]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-6000:]
    counts = [count for lines in line_counts(folder).values() for count in lines.values()]
    percent = 100 * sum(count > 0 for count in counts) / len(counts)
    with capsys.disabled():
        print(f"\nC++ lines of twin/src that tests/twin runs: {percent:.1f} % of {len(counts)}")  # noqa: T201  # the result
    assert percent > LEAST_PERCENT
