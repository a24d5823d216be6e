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
    process = Program(["sh", "-c", "sleep 300 & echo; wait"], process_group=0, stdout=subprocess.PIPE)
    pipe, process.stdout = process.stdout, None
    assert pipe.read(1) == b"\n"
    with pytest.raises(LookupError), process:
        raise LookupError
    with pipe:
        assert pipe.read() == b""


def test_a_program_that_ends_keeps_its_exit_code():
    with Program(["sh", "-c", "exit 3"]) as process:
        pass
    assert process.returncode == 3
