"""Test applications that misuse the C API: they get statuses and messages and do not crash."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from opforge.twin.build import build_runtime, include_flags
from opforge.twin.compiler.flags import WARNINGS
from opforge.twin.compiler.units import compiler

WAYS = ("destroyed", "foreign", "in flight", "nulls", "pageable", "sizes", "threads", "workspaces")


@pytest.fixture(scope="module")
def hostile(vendor, tmp_path_factory):
    """Build the application and link it in the same way as for CANN."""
    here = Path(__file__).parent
    program = tmp_path_factory.mktemp("hostile") / "hostile"
    home, api = build_runtime().parent, vendor / "op_api" / "lib"
    command = [compiler()[0], "-std=c++17", "-O0", *WARNINGS, "-pthread", *include_flags(), f"-I{here / 'scaled_add'}"]
    command += [str(here / "hostile.cpp"), "-o", str(program)]
    command += [word for folder in (api, home) for word in (f"-L{folder}", f"-Wl,-rpath,{folder}")]
    subprocess.run([*command, "-lcust_opapi", "-lascendcl", "-lnnopbase"], check=True)
    return program


def test_all_ways_are_tried(hostile):
    assert subprocess.run([hostile], capture_output=True, text=True, check=False).stdout.split("\n")[:-1] == list(WAYS)


@pytest.mark.parametrize("way", WAYS)
def test_wrong_calls_get_a_status_and_a_message(hostile, way):
    done = subprocess.run([hostile, way], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
