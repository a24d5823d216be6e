"""Test misuse of opforge.twin, processes that fork, and processes with few addresses."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from opforge.codegen.errors import UserError
from opforge.twin import AclnnError, launch, run

OP = "GroupedBiasAddGrad"
ROWS = np.arange(24, dtype=np.float32).reshape(6, 4)
ENDS = np.array([2, 6])
EXPECTED = np.array([ROWS[:2].sum(0), ROWS[2:].sum(0)])


def far_apart():
    return np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (2, 4), (1 << 37, 4))


# name -> (arguments of run besides the operator, words of the message)
REFUSED = {
    "float128": ({"inputs": {"grad_y": ROWS.astype(np.longdouble)}}, "expected one of bfloat16, bool"),
    "dates": ({"inputs": {"grad_y": np.zeros((6, 4), "datetime64[s]")}}, "expected one of bfloat16, bool"),
    "structured": ({"inputs": {"grad_y": np.zeros((6, 4), [("a", "f4")])}}, "expected one of bfloat16, bool"),
    "objects": ({"inputs": {"grad_y": ROWS.astype(object)}}, "expected one of bfloat16, bool"),
    "texts": ({"inputs": {"grad_y": "abc"}}, "expected one of bfloat16, bool"),
    "bytes": ({"inputs": {"grad_y": b"abc"}}, "expected one of bfloat16, bool"),
    "big-endian": ({"inputs": {"grad_y": ROWS.astype(">f4")}}, "expected one of bfloat16, bool"),
    "float64": ({"inputs": {"grad_y": ROWS.astype(np.float64)}}, "got float64, expected float16"),
    "bool": ({"inputs": {"grad_y": ROWS.astype(bool)}}, "got bool, expected float16"),
    "a number": ({"inputs": {"grad_y": 1.0}}, "161002"),
    "32 dimensions": ({"inputs": {"grad_y": np.ones((1,) * 32, np.float32)}}, "shape [1, 1,"),
    "beyond the memory": ({"inputs": {"grad_y": far_apart()}}, "137438953488 bytes"),
    "2**58 rows": ({"inputs": {"grad_y": np.broadcast_to(np.float32(1), (1 << 58, 1))}}, "288230376151711744"),
    "an absent input": ({"inputs": {"grad_y": None}}, "161001"),
    "no inputs": ({"inputs": {}}, "161001"),
    "inputs by position": ({"inputs": [ROWS, ENDS]}, "inputs: got [array"),
    "inputs of nothing": ({"inputs": None}, "inputs: got None"),
    "a name that is a number": ({"inputs": {1: ROWS}}, "inputs: got {1"),
    "attributes by position": ({"attrs": [1]}, "attrs: got [1]"),
    "an attribute of nan": ({"attrs": {"group_idx_type": float("nan")}}, "group_idx_type: got nan"),
    "outputs by position": ({"outputs": [ROWS]}, "outputs: got [array"),
    "an output of another shape": ({"outputs": {"grad_bias": np.zeros((7, 7), np.float32)}}, "[7, 7]"),
    "an output of another dtype": ({"outputs": {"grad_bias": np.zeros((2, 4), np.int8)}}, "got int8"),
    "a read-only output": ({"outputs": {"grad_bias": np.broadcast_to(np.float32(0), (2, 4))}}, "got a read-only array"),
    "dtypes by position": ({"out_dtypes": ["f4"]}, "out_dtypes: got ['f4']"),
    "a negative seed": ({"seed": -1}, "seed: got -1"),
    "a great seed": ({"seed": 2**64}, "seed: got 18446744073709551616"),
    "a seed of text": ({"seed": "1"}, "seed: got '1'"),
    "negative threads": ({"threads": -1}, "threads: got -1"),
    "many threads": ({"threads": 2**32}, "threads: got 4294967296"),
    "half a thread": ({"threads": 1.5}, "threads: got 1.5"),
    "a negative offset": ({"storage_offset": -1}, "storage_offset: got -1"),
    "an offset that wraps": ({"storage_offset": 2**62}, "storage_offset: got"),
    "an offset beyond the memory": ({"storage_offset": 2**38}, "bytes, 68719476736 are free"),
    "half an offset": ({"storage_offset": 0.5}, "storage_offset: got 0.5"),
    "no product": ({"soc": None}, "soc: got None"),
    "a list of products": ({"soc": []}, "soc: got []"),
    "a function by number": ({"function": 3}, "got function 3"),
    "a project by name": ({"project": "x"}, "project: got 'x'"),
    "no operator": ({"op_type": None}, "op_type: got 'None'"),
    "an operator with a line break": ({"op_type": "A\nB"}, r"op_type: got 'A\nB'"),
    "a long operator": ({"op_type": "x" * 10**6}, "op_type: got 'xxx"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_misuse_of_run_is_one_line(name):
    arguments, message = REFUSED[name]
    inputs = arguments.get("inputs", {"grad_y": ROWS, "group_idx": ENDS})
    if isinstance(inputs, dict) and inputs.get("grad_y") is not None:
        inputs = {"group_idx": ENDS, **inputs}
    options = {"op_type": OP, **arguments, "inputs": inputs}
    with pytest.raises((UserError, AclnnError)) as refused:
        run(**options)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 1000
    np.testing.assert_array_equal(good(), EXPECTED)


def good(**inputs):
    return run(OP, {"grad_y": ROWS, "group_idx": ENDS, **inputs})["grad_bias"]


def read_only():
    array = ROWS.copy()
    array.setflags(write=False)
    return array


ACCEPTED = {
    "strided": lambda: np.repeat(ROWS, 3, axis=1)[:, ::3],
    "reversed": lambda: ROWS[::-1, ::-1].copy()[::-1, ::-1],
    "transposed": lambda: np.asfortranarray(ROWS),
    "read-only": read_only,
    "masked": lambda: np.ma.array(ROWS),
    "nested lists": lambda: ROWS.astype(np.float16).tolist() and ROWS,
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_unusual_arrays_that_are_accepted(name):
    np.testing.assert_array_equal(good(grad_y=ACCEPTED[name]()), EXPECTED)


def test_inputs_without_elements_give_outputs_without_elements():
    assert good(group_idx=np.zeros(0, np.int64)).shape == (0, 4)


def test_an_output_may_share_the_memory_of_an_input():
    rows = ROWS.copy()
    run(OP, {"grad_y": rows, "group_idx": ENDS}, outputs={"grad_bias": rows[:2]})
    np.testing.assert_array_equal(rows[:2], EXPECTED)
    np.testing.assert_array_equal(rows[2:], ROWS[2:])


KERNEL = """
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void adds(GM_ADDR x)
{
    AscendC::GlobalTensor<int32_t> gm;
    gm.SetGlobalBuffer((__gm__ int32_t*)x);
    gm.SetValue(0, gm.GetValue(0) + 1);
    AscendC::DataCacheCleanAndInvalid<int32_t, AscendC::CacheLine::SINGLE_CACHE_LINE,
                                      AscendC::DcciDst::CACHELINE_OUT>(gm);
}
"""


def test_threads_call_at_once():
    problems = []
    buffers = [np.zeros(16, np.int32) for _ in range(6)]

    def work(index):
        try:
            for repeat in range(4):
                np.testing.assert_array_equal(good(grad_y=ROWS * index), EXPECTED * index)
                assert launch(KERNEL, "adds", 1, [buffers[index]], isolate=repeat == 3) == []
                with pytest.raises(UserError):
                    run(OP, {"grad_y": ROWS.astype(object)})
        except Exception as error:  # noqa: BLE001  # shown by the main thread
            problems.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert [buffer[0] for buffer in buffers] == [4] * 6


PREPARED = f"""
import multiprocessing, os, resource, sys, threading
import numpy as np
from opforge.codegen.errors import UserError
from opforge.twin import launch, run
from opforge.twin.runtime.acl import one_at_a_time

def good(_=None):
    rows = np.arange(24, dtype=np.float32).reshape(6, 4)
    return run({OP!r}, {{"grad_y": rows, "group_idx": np.array([2, 6])}})["grad_bias"].sum().item()

def adds(**options):
    x = np.zeros(16, np.int32)
    return [str(found) for found in launch({KERNEL!r}, "adds", 1, [x], **options)] + [int(x[0])]

def refused(function):
    try:
        return function()
    except UserError as error:
        return f"UserError: {{error}}"

good()
adds()
"""


def script(text):
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PREPARED + text]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.stderr == ""
    assert ended.returncode == 0
    return ended.stdout


def test_processes_that_fork_after_a_run_can_run():
    out = script(
        """
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(good, range(6)))
child = os.fork()
print(good(), adds())
if child == 0:
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
"""
    )
    assert out.splitlines()[0] == str([276.0] * 6)


BUSY = """
held, done = threading.Event(), threading.Event()

def work():
    with one_at_a_time():
        held.set()
        done.wait()

thread = threading.Thread(target=work)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    print(refused(good), flush=True)
    print(refused(adds), flush=True)
    print(adds(isolate=True), flush=True)
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
done.set()
thread.join()
print(good())
"""


def test_a_process_that_forks_during_a_run_is_refused_in_the_child():
    lines = script(BUSY).splitlines()
    for line in lines[:2]:
        assert line.startswith("UserError: process ")
        assert "forked while another thread used the twin" in line
        assert 'get_context("spawn")' in line
    assert lines[2:] == ["[1]", "3", "276.0"]


def test_a_build_lock_does_not_stay_with_a_forked_process(tmp_path):
    """A child that was forked while another thread builds has the lock file open; it must not keep the lock."""
    out = script(
        f"""
from pathlib import Path
from opforge.twin.compiler.folder import locked
folder = Path({str(tmp_path)!r})
read, write = os.pipe()
with locked(folder):
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)  # until the parent ends
        os._exit(0)
with locked(folder):
    print("locked again")
os.close(write)
os.waitpid(child, 0)
"""
    )
    assert out == "locked again\n"


@pytest.mark.parametrize("limit", [200 << 20, 400 << 20, 1 << 30, 8 << 30, 64 << 30])
def test_few_addresses_are_one_message(limit):
    """The process has used the twin, and then gets no more addresses."""
    limited = f"""
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = size + {limit} - (200 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
print(refused(good))
print(refused(adds))
"""
    for line, result in zip(script(limited).splitlines(), ("276.0", "[1]"), strict=True):
        assert line == result or (line.startswith("UserError: ") and "ulimit -v" in line)


@pytest.mark.parametrize("limit", [2 << 30, 16 << 30, 100 << 30])
def test_few_addresses_from_the_start_are_one_message(limit):
    text = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))\n"
    ended = subprocess.run(
        [sys.executable, "-c", text + PREPARED.rpartition("good()")[0] + "print(refused(good))\nprint(refused(adds))"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert (ended.stderr, ended.returncode) == ("", 0)
    first, second = ended.stdout.splitlines()
    assert first.startswith("UserError: aclrtMalloc: got a request for")
    assert "raise its limit (ulimit -v)" in first
    assert second == "[1]" or (second.startswith("UserError: ") and "ulimit -v" in second)
