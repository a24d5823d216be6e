"""Test kernels that would end the process: each becomes a finding, and the process continues."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

START = """
#include "kernel_operator.h"
#include <cstdlib>
#include <exception>
using namespace AscendC;
"""
KERNEL = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    (void)workspace;
    (void)tiling;
    GlobalTensor<int32_t> yGm;
    yGm.SetGlobalBuffer((__gm__ int32_t*)y);
    const int32_t zero = yGm.GetValue(0);
    (void)zero;
    BODY
}
"""
HELPERS = """
__aicore__ inline int32_t Deep(int32_t level)
{
    volatile int32_t filler[64];
    filler[level % 64] = level;
    return level < 0 ? 0 : Deep(level + 1) + filler[level % 64];
}
__aicore__ inline int32_t DeepCalls(int32_t level)
{
    volatile int32_t filler[64];
    filler[level % 64] = level;
    return GetBlockIdx() < 0 ? 0 : DeepCalls(level + 1) + filler[level % 64];
}
__aicore__ __attribute__((noinline)) void Count(volatile int32_t* to, int32_t count)
{
    for (int32_t i = 0; i < count; ++i) {
        to[i] = i;
    }
}
__aicore__ __attribute__((noinline)) int32_t Overruns(int32_t count)
{
    volatile int32_t a[8];
    Count(a, count);
    return a[3];
}
struct Holds {
    int32_t first = 0;
    int32_t last[3] = {};
};
__aicore__ __attribute__((noinline)) void Throws(int32_t zero)
{
    if (zero == 0) {
        throw 1;
    }
}
__aicore__ inline void ThrowsThrough(int32_t zero) noexcept
{
    Throws(zero);
}
__aicore__ inline void Fails(GlobalTensor<int32_t>& gm) noexcept
{
    gm.SetValue(1000, 0);
}
struct Quits {
    GlobalTensor<int32_t>& gm;
    __aicore__ ~Quits() { gm.SetValue(1000, 0); }
};
struct Unexpected : std::exception {
    const char* what() const noexcept override { return "an unexpected value"; }
};
"""
# name -> (body, kind, part of the message)
CRASHES = {
    "divides": (
        "yGm.SetValue(0, 7 / zero);",
        "division_by_zero",
        "the smallest integer by -1, after GlobalTensor::GetValue",
    ),
    "takes_remainder": ("yGm.SetValue(0, static_cast<int64_t>(7) % zero);", "division_by_zero", "divided by zero"),
    "least_by_minus_one": (
        "yGm.SetValue(0, (zero - 2147483647 - 1) / (zero - 1));",
        "division_by_zero",
        "or the smallest integer by -1",
    ),
    "null": ("*(volatile int32_t*)(uintptr_t)zero = 1;", "wild_pointer", "a null pointer"),
    "far": ("*(volatile int32_t*)(uintptr_t)(0x123456789000 + zero) = 1;", "wild_pointer", "address 20015998341120"),
    "not_an_address": (
        "*(volatile int32_t*)(uintptr_t)(0xFEFEFEFEFEFEFEFEULL + zero) = 1;",
        "wild_pointer",
        "not an address",
    ),
    "jumps": ("((void (*)())(uintptr_t)zero)();", "wild_pointer", "a null pointer"),
    "raw": ("y[zero] = 1;", "raw_gm_access", "'0' was dereferenced"),
    "recursion": ("yGm.SetValue(0, Deep(zero));", "stack_overflow", "32768 bytes"),
    "recursion_with_calls": ("yGm.SetValue(0, DeepCalls(zero));", "stack_size", "remove recursion"),
    "big_array": (
        "volatile float table[16384]; table[zero] = 1.0f; yGm.SetValue(0, static_cast<int32_t>(table[zero]));",
        "stack_size",
        "or use a TBuf",
    ),
    "array": (
        "int32_t a[8]; for (int32_t i = zero; i <= 8; ++i) { a[i] = i; } yGm.SetValue(0, a[zero]);",
        "array_bounds",
        "element 8 of an array of type 'int [8]'",
    ),
    "array_before": ("int32_t a[4][2] = {}; yGm.SetValue(0, a[zero - 1][1]);", "array_bounds", "element -1 of"),
    "array_in_class": ("Holds h; h.last[zero + 3] = 1; yGm.SetValue(0, h.last[zero]);", "array_bounds", "element 3 of"),
    "frame": ("yGm.SetValue(0, Overruns(zero + 12));", "stack_overrun", "end of its stack frame"),
    "frames": ("yGm.SetValue(0, Overruns(zero + 100000));", "stack_overrun", "beyond its own stack frames"),
    "tensors": (
        "LocalTensor<float> t[2], a; for (int64_t i = zero; i < 500; ++i) { t[i] = a; }",
        "array_bounds",
        "of an array of type 'LocalTensor [2]'",
    ),
    "megabytes": ("volatile char z[9000000]; z[zero] = 1; yGm.SetValue(0, z[zero]);", "stack_overflow", "32768 bytes"),
    "throws": (
        "if (zero == 0) { throw Unexpected(); }",
        "exception",
        "left the kernel after GlobalTensor::GetValue at ",
    ),
    "throws_a_number": ("if (zero == 0) { throw 3; }", "exception", "no exceptions"),
    "noexcept_throws": ("ThrowsThrough(zero);", "abort", "noexcept"),
    "aborts": ("if (zero == 0) { std::abort(); }", "abort", "abort()"),
    "traps": ("if (zero == 0) { __builtin_trap(); }", "trap", "__builtin_trap"),
    # A finding that leaves a noexcept function or a destructor is reported unchanged.
    "fails_in_noexcept": ("Fails(yGm);", "gm_out_of_range", "writes"),
    "fails_in_destructor": ("Quits quits{yGm};", "gm_out_of_range", "writes"),
}
SOURCE = (
    START
    + HELPERS
    + "".join(
        KERNEL.replace("NAME", name).replace("BODY", body)
        for name, (body, _, _) in {**CRASHES, "good": ("", "", "")}.items()
    )
)


@pytest.fixture(autouse=True)
def _short_limit(monkeypatch):
    monkeypatch.setenv("OPFORGE_TWIN_TIMEOUT", "5")


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(SOURCE)


@pytest.mark.parametrize("name", CRASHES)
@pytest.mark.parametrize("strict", [True, False])
def test_a_crash_becomes_a_finding(kernels, name, strict, record_planted):
    _, kind, message = CRASHES[name]
    found = kernels.launch(name, np.zeros(8, np.int32), blocks=3, strict=strict)["findings"]
    if strict:
        record_planted(name, found[0])
    assert found[0]["kind"] == kind, found
    assert message in found[0]["message"]
    assert found[0]["message"].startswith(f"{name} (tiling key 0): ")
    assert [found[0]["block"], found[0]["pipe"]] == [0, "S"]
    if name == "megabytes":  # no frame, no instruction, no location
        assert "before the first instruction" in found[0]["message"]
        return
    file, line = found[0]["where"].rsplit(":", 1)
    assert file.endswith(".cpp")
    assert SOURCE.splitlines()[int(line) - 1].strip()


def test_process_survives_many_crashes_on_many_threads(kernels):
    kinds: list[set[str]] = []

    def crash():
        kinds.append(
            {
                kernels.launch(name, np.zeros(8, np.int32), blocks=4, threads=4)["findings"][0]["kind"]
                for name in CRASHES
                for _ in range(3)
            }
        )

    threads = [threading.Thread(target=crash) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kinds == [{kind for _, kind, _ in CRASHES.values()}] * 4
    assert kernels.run("good", np.zeros(8, np.int32), blocks=4)["findings"] == []


@pytest.mark.parametrize("signal", ["SIGSEGV", "SIGABRT", "SIGFPE"])
def test_faults_of_others_still_end_the_process(kernels, signal):
    """The handlers stay installed, and pass other faults on."""
    script = f"""
import ctypes, os, signal
library = ctypes.CDLL({str(kernels.launcher._name)!r})
library.LaunchKernel.restype = ctypes.c_char_p
data = (ctypes.c_int32 * 8)()
pointers = (ctypes.c_void_p * 1)(ctypes.addressof(data))
answer = library.LaunchKernel({str(kernels.library)!r}.encode(), b"good", b"AIV_ONLY", b"Ascend910B1", 1,
    ctypes.c_uint64(0), b"", ctypes.c_uint64(0), pointers, (ctypes.c_uint64 * 1)(32), (ctypes.c_int32 * 1)(3),
    ctypes.c_uint64(1), None, ctypes.c_uint64(0), 1, 1, ctypes.c_uint64(0), ctypes.c_uint64(0))
assert b'"findings": []' in answer, answer
os.kill(os.getpid(), signal.{signal})
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, timeout=60)
    assert ended.stderr == b""
    assert ended.returncode == -getattr(__import__("signal"), signal)
