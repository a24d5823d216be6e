"""Tests of programs that end with their `with` block."""

from __future__ import annotations

import subprocess

import pytest

from opforge.codegen.process_limits import Program


@pytest.mark.parametrize("group", [None, 0])
def test_an_error_in_the_block_kills_the_program(group):
    with pytest.raises(LookupError), Program(["sleep", "300"], process_group=group) as process:
        raise LookupError
    assert process.returncode == -9


def test_the_processes_of_its_group_are_also_killed():
    command = ["sh", "-c", "sleep 300 & echo; wait"]
    with pytest.raises(LookupError), Program(command, process_group=0, stdout=subprocess.PIPE) as process:
        assert process.stdout.read(1) == b"\n"
        pipe = process.stdout
        process.stdout = None
        raise LookupError
    with pipe:
        assert pipe.read() == b""


def test_a_program_that_ends_keeps_its_exit_code():
    with Program(["sh", "-c", "exit 3"]) as process:
        pass
    assert process.returncode == 3
