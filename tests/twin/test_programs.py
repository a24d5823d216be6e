"""Test `opforge cc`: programs with kernel launches run, and the twin finds planted mistakes in them."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from opforge.codegen.errors import UserError
from opforge.twin.build import build_runtime
from opforge.twin.compiler.npu_model import check_levels, error_range
from opforge.twin.program import ProgramError, compile_program, compiler, write_cmake_files
from opforge.twin.program.rewrite import rewrite
from opforge.twin.runtime.launch import launch

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "ascendc"
VECTOR_ADD = EXAMPLES / "vector_add" / "vector_add.asc"


def run(program, *words, **variables):
    """Run a program that was compiled for the twin."""
    environment = {**os.environ, **variables}
    return subprocess.run([program, *words], env=environment, capture_output=True, text=True, timeout=300, check=False)


def compiled(folder, text, **options):
    source = folder / "program.asc"
    source.write_text(text)
    return compile_program([source], folder / "program", **options)


def test_vector_add(tmp_path):
    """A kernel and its host code in one file give the right sums, without a finding."""
    program = compile_program([VECTOR_ADD], tmp_path / "program")
    ended = run(program.path, OPFORGE_TWIN_REPORT=str(tmp_path / "report.json"))
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", "0 of 16384 sums are wrong\n")
    assert program.kernels == ("vector_add",)
    report = json.loads((tmp_path / "report.json").read_text())
    assert [launch["blocks"] for launch in report] == [4]
    assert report[0]["error_range"] == pytest.approx(error_range(), rel=1e-4)
    assert report[0]["outside_range"] == []
    run(program.path, OPFORGE_TWIN_REPORT=str(tmp_path / "report.json"), OPFORGE_TWIN_SOC="Ascend910B3")
    (reason,) = json.loads((tmp_path / "report.json").read_text())[0]["outside_range"]
    assert reason.startswith("no evaluated published times of Ascend910B3, expected Ascend910B1,")


@pytest.mark.parametrize("variable", ["OPFORGE_TWIN_REPORT", "OPFORGE_TWIN_TRACE"])
def test_output_file_that_cannot_be_written(tmp_path, variable, once):
    """The program ends with exit code 2 before its first launch, and leaves no file."""
    program = once("vector_add", lambda folder: compile_program([VECTOR_ADD], folder / "program")) / "program"
    made = tmp_path / "made.json"
    assert run(program, **{variable: str(made)}).returncode == 0
    assert made.stat().st_size > 0
    link = tmp_path / "link.json"
    link.symlink_to(made)
    before = sorted(tmp_path.iterdir())
    for given in (tmp_path / "absent" / "made.json", tmp_path, link):
        ended = run(program, **{variable: str(given)})
        expected = f"{variable}: got '{given}', expected a new name or a regular file, in a folder that exists"
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr == f"{expected} and can be written to\n"
    assert sorted(tmp_path.iterdir()) == before


def test_report_and_trace_in_one_file(tmp_path, once):
    program = once("vector_add", lambda folder: compile_program([VECTOR_ADD], folder / "program")) / "program"
    trace = f"{tmp_path}/./made.json"
    ended = run(program, OPFORGE_TWIN_REPORT=str(tmp_path / "made.json"), OPFORGE_TWIN_TRACE=trace)
    expected = f"OPFORGE_TWIN_TRACE: got '{trace}', expected another file than that of OPFORGE_TWIN_REPORT\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", expected)
    assert not any(tmp_path.iterdir())


# The tiling data are copied as words, also a field of type float, as in public kernels.
WORDS = """#include <cstdio>
#include "acl/acl.h"
#include "basic_api/kernel_operator_scalar_intf.h"
#include "utils/log/asc_cpu_log.h"
struct Tiling {
    uint32_t count = 0;
    float factor = 0;
};
__aicore__ inline void CopyTiling(Tiling* tiling, __gm__ uint8_t* source)
{
    uint32_t* word = reinterpret_cast<uint32_t*>(tiling);
    auto words = reinterpret_cast<__gm__ uint32_t*>(source);
    for (uint32_t i = 0; i < sizeof(Tiling) / sizeof(uint32_t); i++, word++) {
        *word = *(words + i);
    }
}
__global__ __vector__ void kernel(__gm__ uint8_t* source)
{
    Tiling tiling;
    CopyTiling(&tiling, source);
    AscendC::printf("factor %f of %d\\n", tiling.factor, tiling.count);
}
int main()
{
    aclInit(nullptr);
    aclrtSetDevice(0);
    const Tiling given{3, 0.9375f};
    ASC_CPU_LOG_WARNING("%d elements", 3);
    ASC_CPU_LOG_INFO("no arguments");
    void* source = nullptr;
    aclrtMalloc(&source, sizeof(given), ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(source, sizeof(given), &given, sizeof(given), ACL_MEMCPY_HOST_TO_DEVICE);
    kernel<<<1, nullptr, nullptr>>>((uint8_t*)source);
    aclrtSynchronizeDevice();
    aclrtFree(source);
    aclFinalize();
    return 0;
}
"""


def test_fields_that_are_copied_as_words_have_their_values(tmp_path):
    log = {"ASCEND_SLOG_PRINT_TO_STDOUT": "1", "ASCEND_GLOBAL_LOG_LEVEL": "2"}
    ended = run(compiled(tmp_path, WORDS, level="device").path, **log)
    assert "factor 0.937500 of 3" in ended.stdout, ended.stdout + ended.stderr
    assert re.fullmatch(r"\[WARNING\] \[\S*program\S*:\d+\]\[main\] 3 elements\n", ended.stderr)


# The comparison of public examples: it is false for a NaN.
COMPARES = """#include <cmath>
#include <cstdio>
#include <vector>
#include "acl/acl.h"
#include "kernel_operator.h"
using namespace AscendC;
__global__ __vector__ void kernel(GM_ADDR to)
{
    STORES
}
template <typename T>
int Differing(const void* device)
{
    std::vector<T> values(64);
    aclrtMemcpy(values.data(), 64 * sizeof(T), device, 64 * sizeof(T), ACL_MEMCPY_DEVICE_TO_HOST);
    int count = 0;
    for (const T value : values) {
        const float expected = 1.5F;
        const float difference = std::fabs(static_cast<float>(value) - expected);
        count += difference > 0.001F && difference / expected > 0.001F ? 1 : 0;
    }
    return count;
}
int main()
{
    aclInit(nullptr);
    aclrtSetDevice(0);
    void* to = nullptr;
    aclrtMalloc(&to, 512, ACL_MEM_MALLOC_HUGE_FIRST);
    kernel<<<1, nullptr, nullptr>>>((uint8_t*)to);
    aclrtSynchronizeDevice();
    std::printf("%d %d %d %d\\n", Differing<half>(to), Differing<bfloat16_t>(to), Differing<float>(to),
                Differing<double>(to));
    aclrtFree(to);
    aclFinalize();
    return 0;
}
"""
# Copies a buffer that no instruction has written.
COPIES = """TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 512);
    GlobalTensor<uint32_t> out;
    out.SetGlobalBuffer((__gm__ uint32_t*)to, 128);
    DataCopy(out, buffer.Get<uint32_t>(), 128);"""


@pytest.mark.parametrize("stores", ["", COPIES])
def test_undefined_memory_differs_from_expected_outputs(tmp_path, stores):
    """A comparison that accepts a NaN finds outputs that the kernel did not compute."""
    program = compiled(tmp_path, COMPARES.replace("STORES", stores), level="fast").path
    for seed in range(1, 5):
        ended = run(program, OPFORGE_TWIN_SEED=str(seed))
        assert (ended.returncode, ended.stdout) == (0, "64 64 64 64\n"), ended.stdout + ended.stderr


HOST_TEXT = """#include <cstdio>
#include "acl/acl.h"
#include "kernel_operator.h"
using namespace AscendC;
struct Sizes { static const int kRows = 3; };
__global__ __vector__ void kernel(GM_ADDR) { printf("kernel %d\\n", 1); }
int main()
{
    aclInit(nullptr);
    aclrtSetDevice(0);
    printf("host %d %s %.1f %5.2f %*d\\n", Sizes::kRows, "text", half(0.5f), 2.25, 4, 7);
    kernel<<<1, nullptr, nullptr>>>(nullptr);
    aclrtSynchronizeDevice();
    const int length = printf("%ld %c%%\\n", 1L << 40, 'c');
    PRINTF("%d\\n", length);
    aclFinalize();
    ASSERTION
    return 0;
}
"""


def test_printf_of_host_code(tmp_path):
    """`using namespace AscendC` makes printf in host code a function of the API; it prints as printf of C."""
    ended = run(compiled(tmp_path, HOST_TEXT.replace("ASSERTION", "assert(Sizes::kRows == 3);")).path)
    text = "host 3 text 0.5  2.25    7\nkernel 1\n1099511627776 c%\n17\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, text, "")


def test_assertion_of_host_code(tmp_path):
    program = compiled(tmp_path, HOST_TEXT.replace("ASSERTION", "assert(Sizes::kRows == 4);"))
    ended = run(program.path)
    line = HOST_TEXT[: HOST_TEXT.index("ASSERTION")].count("\n") + 1
    assert ended.returncode == -signal.SIGABRT
    assert ended.stderr.startswith(f"{tmp_path / 'program.asc'}:{line}: Assertion `Sizes::kRows == 4' failed.")


BLOCK_INDEX = """#include "kernel_operator.h"
extern "C" __global__ __aicore__ void kernel(GM_ADDR x)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    if ASCEND_IS_AIV {
        AscendC::GlobalTensor<int32_t> to;
        to.SetGlobalBuffer((__gm__ int32_t*)x + AscendC::GetBlockIdx() * 16, 16);
        to.SetValue(0, static_cast<int32_t>(block_idx) + 1);
        AscendC::DataCacheCleanAndInvalid<int32_t, AscendC::CacheLine::SINGLE_CACHE_LINE,
                                          AscendC::DcciDst::CACHELINE_OUT>(to);
        AscendC::CrossCoreSetFlag<2, PIPE_MTE3>(0);
    } else {
        AscendC::CrossCoreWaitFlag(0);
    }
}
"""


def test_block_index_of_the_compiler():
    """`block_idx` is the number of the block: both vector cores of a mixed kernel have the same value."""
    x = np.zeros((4, 16), np.int32)
    assert launch(BLOCK_INDEX, "kernel", 2, [x], level="device", lint=False) == []
    assert x[:, 0].tolist() == [1, 1, 2, 2]
    early = BLOCK_INDEX.replace("CrossCoreSetFlag<2, PIPE_MTE3>", "NotifyEvent<2, PIPE_MTE3>")
    early = early.replace("CrossCoreWaitFlag", "WaitEvent")
    assert launch(early, "kernel", 2, [x], level="device", lint=False) == []
    (finding,) = launch(
        early.replace("NotifyEvent<2,", "NotifyEvent<2, PIPE_MTE2>(1); //"), "kernel", 2, [x], lint=False
    )
    assert finding.kind == "deadlock"


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("softmax", "softmax: largest relative error below 1e-5: yes\n"),
        ("layer_norm", "layer_norm: largest error below 1e-5: yes\n"),
        ("matmul", "matmul: 6 cores, largest error below 1e-4: yes\n"),
        ("matmul_bias_gelu", "matmul_bias_gelu: 8 vector cores, largest error below 1e-3: yes\n"),
        ("cube_group", "cube_group: 22 products, largest error below 1e-4: yes\n"),
    ],
)
def test_example(tmp_path, name, output):
    """An example equals the formula that its main function computes in double."""
    program = compile_program([EXAMPLES / name / f"{name}.asc"], tmp_path / "program")
    ended = run(program.path)
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", output)


@pytest.mark.parametrize(
    ("name", "old", "new", "kind"),
    [
        ("vector_add", "inX_.EnQue(x);", "", "missing_enque"),
        (
            "vector_add",
            "const AddTiling tiling{kCount / kBlocks",
            "const AddTiling tiling{2 * kCount / kBlocks",
            "gm_out_of_range",
        ),
        (
            "vector_add",
            "const uint32_t begin = static_cast<uint32_t>(AscendC::GetBlockIdx())",
            "const int64_t begin = (AscendC::GetBlockIdx() - 1)",
            "DataCopy: src reads bytes [-16384, -12288) of 'x', which has 65536 bytes",
        ),
        ("vector_add", "outZ_.template EnQue<T>(z);", "", "missing_enque"),
        ("softmax", "sums_, kTileRows * 32", "sums_, kTileRows * 4", "ub_out_of_range"),
        ("layer_norm", "AscendC::WaitFlag<AscendC::HardEvent::V_S>(event);", "", "race"),
        ("layer_norm", "y_[row * kColumns], y, Row()", "y_[row * kColumns + 8], y, Row()", "gm_out_of_range"),
        ("matmul", "REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), product, &tiling);", "", "matmul_"),
        ("matmul_bias_gelu", "results_.EnQue(results);", "", "missing_enque"),
        ("cube_group", "group.SetQuit(group.AllocMessage());", "", "queue 0 has no message: AIV block 0 posts no more"),
    ],
)
def test_planted_mistake(tmp_path, name, old, new, kind):
    """An error is reported with its file and line; the exit code is 1 although main returns another one."""
    text = (EXAMPLES / name / f"{name}.asc").read_text().replace('"../device_array.h"', f'"{EXAMPLES}/device_array.h"')
    assert old in text
    program = compiled(tmp_path, text.replace(old, new))
    ended = run(program.path)
    assert ended.returncode == 1
    place, line, rest = ended.stderr.splitlines()[0].split(":", 2)
    assert (Path(place).name, kind in rest) == ("program.asc", True)
    assert int(line) <= text.count("\n")


SECOND_INPUT = "aclrtMemcpy(device[1], kBytes, y.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE);"
RESULT = "aclrtMemcpy(z.data(), kBytes, device[2], kBytes, ACL_MEMCPY_DEVICE_TO_HOST);"
SECOND_LAUNCH = """vector_add<<<kBlocks, nullptr, stream>>>(
        (uint8_t*)device[2], (uint8_t*)device[1], (uint8_t*)device[0], tiling);
    aclrtSynchronizeStream(stream);
    """
NEVER_WRITTEN = "DataCopy at {}:48 copied it from bytes that no instruction has written, of 'y'"
NO_TAIL = "warning: uninitialised_read: aclrtMemcpy: src: bytes [49152, 65536) of an allocation of 65536 bytes"
NO_VALUE = "aclrtMemcpy: src: bytes [0, 65536) of an allocation of 65536 bytes have no value"


NEW_RESULT = f"aclrtFree(device[2]); aclrtMalloc(&device[2], kBytes, ACL_MEM_MALLOC_HUGE_FIRST); {RESULT}"
FEWER = "kCount / kBlocks - kTile"
DEVICE_COPY = "aclrtMemcpy(device[1], kBytes, device[{}], kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE);"
# Statements or expressions that others replace, and what each level then reports.
MEMORY_CHANGES = [
    (SECOND_INPUT, "", {"strict": NEVER_WRITTEN, "device": None}),
    (SECOND_INPUT, SECOND_INPUT.replace("kBytes, ACL", "kBytes / 2, ACL"), {"strict": NEVER_WRITTEN}),
    (SECOND_INPUT, SECOND_INPUT.replace("kBytes, ACL", "kBytes - 4000, ACL"), {"strict": None}),
    (SECOND_INPUT, "aclrtMemset(device[1], kBytes, 0, kBytes);", {"strict": None}),
    (SECOND_INPUT, DEVICE_COPY.format(0), {"strict": None}),
    (SECOND_INPUT, DEVICE_COPY.format(2), {"strict": NEVER_WRITTEN}),
    (RESULT, SECOND_LAUNCH + RESULT, {"strict": None}),
    (RESULT, NEW_RESULT, {"strict": NO_VALUE, "device": None}),
    ("kCount / kBlocks, kTile}", FEWER, {"strict": NO_TAIL, "device": None}),
]


def _change_memory(folder):
    """Compile vector_add; its argument is the number of a change."""
    text = VECTOR_ADD.read_text()
    for number, (old, new, _) in enumerate(MEMORY_CHANGES):
        assert old in text
        text = text.replace(
            old,
            f"(change == {number} ? {new} : kCount / kBlocks), kTile}}"
            if new == FEWER
            else f"if (change == {number}) {{ {new} }} else {{ {old} }}",
        )
    text = text.replace("int main()\n{", "int main(int, char** words)\n{\n    const int change = *words[1] - '0';")
    compiled(folder, text)


@pytest.mark.parametrize(
    ("number", "level"), [(n, level) for n, (_, _, found) in enumerate(MEMORY_CHANGES) for level in found]
)
def test_device_memory_without_a_value(once, number, level):
    """Level strict finds uses of device memory that the program did not write, except padding after written bytes."""
    folder, expected = once("memory_changes", _change_memory), MEMORY_CHANGES[number][2][level]
    ended = run(folder / "program", str(number), OPFORGE_TWIN_LEVEL=level)
    if expected is None:
        assert ended.stderr == ""
    else:
        assert expected.format(folder / "program.asc") in ended.stderr
        assert "uninitialised_read" in ended.stderr.splitlines()[0]


def test_own_exit_code(tmp_path):
    """A program without findings ends with its own exit code."""
    text = VECTOR_ADD.read_text().replace("return wrong == 0 ? 0 : 3;", "return 7;")
    assert run(compiled(tmp_path, text).path).returncode == 7


# A program that ends as its first argument selects; the second one names the last action before.
ENDS = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include "acl/acl.h"
#include "kernel_operator.h"
__global__ __aicore__ void far(GM_ADDR x, int64_t index, int ends)
{
    AscendC::GlobalTensor<int32_t> to;
    to.SetGlobalBuffer((__gm__ int32_t*)x);
    to.SetValue(index, 1);
    if (ends == 3) { return; }
    AscendC::DataCacheCleanAndInvalid<int32_t, AscendC::CacheLine::SINGLE_CACHE_LINE>(to);
    if (ends == 1) { _exit(0); }
    if (ends == 2) { std::exit(0); }
}
int main(int, char** words)
{
    aclInit(nullptr);
    aclrtSetDevice(0);
    void* device = nullptr;
    aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST);
    const char* before = words[2];
    const int64_t index = std::strchr(before, 'r') ? 3 : 999;
    const int ends = std::strchr(before, 'k') ? 1 : std::strchr(before, 'e') ? 2 : std::strchr(before, 'm') ? 3 : 0;
    for (int launch = 0; launch < (std::strchr(before, 'm') ? 4 : 1); ++launch) {
        far<<<1, nullptr, nullptr>>>((uint8_t*)device, index, ends);
    }
    if (std::strchr(before, 'w')) { aclrtSynchronizeStream(nullptr); }
    if (std::strchr(before, 'c')) {
        if (fork() == 0) { _exit(5); }
        int status = 0;
        wait(&status);
        std::printf("%d", WEXITSTATUS(status));
        std::fflush(stdout);
    }
    if (std::strchr(before, 'l') && fork() == 0) {
        aclrtResetDevice(0);
        aclrtSetDevice(0);
        aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST);
        far<<<1, nullptr, nullptr>>>((uint8_t*)device, std::atoi(words[3]), 0);
        std::printf("%d", aclrtSynchronizeStream(nullptr) == 0);
        return 5;
    }
    if (std::strchr(before, 'l')) {
        int status = 0;
        wait(&status);
        std::printf("%d", WEXITSTATUS(status));
        std::fflush(stdout);
    }
    if (std::strchr(before, 't')) {
        std::thread([] { usleep(300000); std::printf("thread"); std::fflush(stdout); }).detach();
    }
    if (std::strchr(before, 'h')) { std::printf("%d", static_cast<int>(AscendC::GetBlockIdx())); }
    switch (std::atoi(words[1])) {
        case 0: _exit(0);
        case 1: _Exit(0);
        case 2: std::quick_exit(0);
        case 3: std::exit(0);
        case 4: _exit(6);
        case 5: pthread_exit(nullptr);
        case 6: syscall(SYS_exit, 0);
        case 7: syscall(SYS_exit_group, 0);
        case 8: syscall(SYS_exit, 6);
        case 9: execl("/bin/true", "true", nullptr);
        default: return 0;
    }
}
"""


@pytest.fixture(scope="module")
def ends(once):
    return once("ends", lambda folder: compiled(folder, ENDS)) / "program"


@pytest.mark.parametrize("before", ["w", "", "wc"], ids=["waits", "does not wait", "child process"])
@pytest.mark.parametrize("end", [0, 1, 2, 3, 5, 6, 7])
def test_every_end_of_a_program_reports_findings(ends, tmp_path, before, end):
    """Also an end that calls no function of on_exit, and before the launch has ended."""
    report = tmp_path / "report.json"
    ended = run(ends, str(end), before, OPFORGE_TWIN_REPORT=str(report))
    assert (ended.returncode, ended.stdout) == (1, "5" if "c" in before else "")
    assert ended.stderr.count("error: gm_out_of_range") == 1
    (launch,) = json.loads(report.read_text())
    assert [found["kind"] for found in launch["findings"]] == ["gm_out_of_range"]
    assert launch["complete"] is False


def test_the_exit_code_without_findings_remains(ends):
    ended = [run(ends, str(end), "rw").returncode for end in range(11)]
    assert ended == [0, 0, 0, 0, 6, 0, 0, 0, 6, 0, 0]


@pytest.mark.parametrize("end", ["5", "6"], ids=["pthread_exit", "SYS_exit"])
def test_threads_of_the_program_continue_after_the_main_thread(ends, end):
    ended = run(ends, end, "rt")
    assert (ended.returncode, ended.stdout) == (0, "thread")


@pytest.mark.parametrize(("index", "output", "errors"), [("3", "15", 0), ("999", "01", 1)])
def test_a_child_process_launches_kernels(ends, tmp_path, index, output, errors):
    """It begins without streams; its findings determine its exit code, and the report is that of the parent."""
    report = tmp_path / "report.json"
    ended = run(ends, "3", "rwl", index, OPFORGE_TWIN_REPORT=str(report))
    assert (ended.returncode, ended.stdout, ended.stderr.count("error: ")) == (0, output, errors)
    assert len(json.loads(report.read_text())) == 1


def test_a_program_that_replaces_itself(ends, tmp_path):
    """Its findings are printed; the exit code is that of the new program, and there is no report."""
    ended = run(ends, "9", "w", OPFORGE_TWIN_REPORT=str(tmp_path / "report.json"))
    assert (ended.returncode, ended.stderr.count("error: gm_out_of_range")) == (0, 1)
    assert not (tmp_path / "report.json").exists()


def test_a_finding_of_later_launches_is_printed_once(ends, tmp_path):
    report = tmp_path / "report.json"
    ended = run(ends, "3", "rwm", OPFORGE_TWIN_REPORT=str(report))
    assert (ended.returncode, ended.stderr.count("cache_not_flushed")) == (1, 1)
    assert "exit: later launches had 3 more findings with a printed kind and line" in ended.stderr.splitlines()
    assert [len(launch["findings"]) for launch in json.loads(report.read_text())] == [1, 1, 1, 1]


def test_the_exit_code_that_findings_replace_is_printed(ends):
    ended = run(ends, "4", "w")
    assert ended.returncode == 1
    assert "exit: the program returned 6; with findings, the exit code is 1" in ended.stderr.splitlines()


@pytest.mark.parametrize("before", ["rwk", "rwe", "rk", "re"])
def test_a_kernel_that_ends_the_process(ends, tmp_path, before):
    ended = run(ends, "3", before, OPFORGE_TWIN_REPORT=str(tmp_path / "report.json"))
    assert ended.returncode == 1
    text = "error: process_exit (block 0): far: the kernel ends the process; remove the call of exit"
    assert text in ended.stderr
    (launch,) = json.loads((tmp_path / "report.json").read_text())
    assert launch["findings"][0]["kind"] == "process_exit"


FAULTS = """
#include <cstdio>
#include <cstdlib>
#include "acl/acl.h"
#include "kernel_operator.h"
#include "c_api/asc_simd.h"
__global__ __vector__ void fault(GM_ADDR x, int which)
{
    if (which == 0) { AscendC::printf("%s", (const char*)8); }
    if (which == 1) { ::printf("%s", (const char*)8); }
    if (which == 2) { exit(0); }
}
__global__ __vector__ void pointers(GM_ADDR x, int which)
{
    __ubuf__ float a[64];
    __ubuf__ float b[64];
    asc_duplicate(a, 1.0f, 64);
    asc_sync();
    asc_add_scalar(b, a, 1.0f, 64);
    if (which == 4) { asc_sync(); }
    asc_mul(b, b, a, 64);
}
__global__ __vector__ void tensors(GM_ADDR x, int which)
{
    AscendC::InitSocState();
    AscendC::LocalMemAllocator<AscendC::Hardware::UB> memory;
    auto a = memory.Alloc<float>(64);
    AscendC::Duplicate(a, 1.0f, 64);
    AscendC::Muls(a, a, 3.0f, 64);
}
__global__ __vector__ void padding(GM_ADDR x)
{
    AscendC::InitSocState();
    AscendC::LocalMemAllocator<AscendC::Hardware::UB> memory;
    auto a = memory.Alloc<float>(64);
    auto sum = memory.Alloc<float>(8);
    AscendC::GlobalTensor<float> to;
    to.SetGlobalBuffer((__gm__ float*)x);
    AscendC::Duplicate(a, 1.0f, 64);
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::WholeReduceSum(sum, a, 64, 1, 1, 1, 8);
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::DataCopy(to, sum, 8);
}
void Pad(int which)
{
    float *x, sums[8];
    aclrtMalloc((void**)&x, 32, ACL_MEM_MALLOC_HUGE_FIRST);
    padding<<<1, nullptr, nullptr>>>((GM_ADDR)x);
    aclrtSynchronizeStream(nullptr);
    const int first = which == 8 ? 1 : 0, count = which == 6 ? 1 : 7;
    aclrtMemcpy(sums, 32, x + first, count * 4, ACL_MEMCPY_DEVICE_TO_HOST);
    std::printf("%g", sums[0]);
    aclrtFree(x);
}
int main(int, char** words)
{
    const int which = std::atoi(words[1]);
    void (*const table[])(GM_ADDR, int) = {fault};
    aclInit(nullptr);
    aclrtSetDevice(0);
    if (which < 3) { table[0]<<<1, nullptr, nullptr>>>(nullptr, which); }
    else if (which < 5) { pointers<<<1, nullptr, nullptr>>>(nullptr, which); }
    else if (which > 5) { Pad(which); }
    else { tensors<<<1, nullptr, nullptr>>>(nullptr, which); }
    aclrtSynchronizeStream(nullptr);
    std::printf("end");
    return 0;
}
"""


def _kinds(program, number, report):
    ended = run(program, str(number), OPFORGE_TWIN_REPORT=str(report))
    (launch,) = json.loads(report.read_text())
    assert ended.returncode == (1 if launch["findings"] else 0)
    return ended, [(found["kind"], found["where"].rpartition(":")[2]) for found in launch["findings"]]


@pytest.mark.parametrize(("number", "kind"), [(6, ""), (7, "warning"), (8, "error")])
def test_stored_padding(once, number, kind):
    """Level device accepts undefined elements after a sum in global memory, until the host or a kernel uses them."""
    program = once("faults", _compile_faults) / "program"
    place = "bytes [4, 28)" if number == 7 else "bytes [4, 32)"
    lines = [line for line in run(program, str(number)).stderr.splitlines() if "uninitialised_read" in line]
    assert [line[: len(kind)] for line in lines] == [kind] * bool(kind)
    assert all(f"aclrtMemcpy: src: {place} of an allocation of 32 bytes have no value" in line for line in lines)
    strict = run(program, str(number), OPFORGE_TWIN_LEVEL="strict").stderr.splitlines()
    (strict,) = [line for line in strict if "error" in line]
    assert "WholeReduceSum at" in strict


def _compile_faults(folder):
    (folder / "off").mkdir()
    compiled(folder, FAULTS, level="device")
    compiled(folder / "off", FAULTS, level="device", options=["--cce-auto-sync=off"])


@pytest.mark.parametrize(
    ("number", "kind", "part"),
    [(0, "wild_pointer", "AscendC::printf"), (1, "wild_pointer", "::printf"), (2, "process_exit", "exit(0)")],
)
def test_a_fault_in_a_function_of_the_c_library(once, tmp_path, number, kind, part):
    """The program ends with the finding, also if the function holds the lock of stdout."""
    ended, found = _kinds(once("faults", _compile_faults) / "program", number, tmp_path / "report.json")
    assert ": fault" in ended.stderr  # the name of the kernel, not of the pointer to it
    lines = [n for n, line in enumerate(FAULTS.splitlines(), 1) if f"which == {number}) {{ {part}" in line]
    assert [name for name, _ in found] == [kind]
    assert number == 1 or found[0][1] == str(lines[0])


@pytest.mark.parametrize(
    ("option", "number", "kinds"), [("", 3, ["race"]), ("", 4, []), ("", 5, []), ("off", 5, ["race"])]
)
def test_order_by_the_compiler(once, tmp_path, option, number, kinds):
    """In level device, it applies to tensors, not to the C API, and not with --cce-auto-sync=off."""
    ended, found = _kinds(once("faults", _compile_faults) / option / "program", number, tmp_path / "report.json")
    assert ([name for name, _ in found], ended.stdout) == (kinds, "end")


def test_host_code_that_calls_a_device_function(ends):
    ended = run(ends, "3", "rwh")
    line = 1 + ENDS.splitlines().index(next(line for line in ENDS.splitlines() if "GetBlockIdx" in line))
    assert ended.returncode == 2
    place, _, message = ended.stderr.splitlines()[0].partition(": ")
    assert place.endswith(f"program.asc:{line}")
    assert message == (
        "GetBlockIdx: called outside of a launch, expected a call in a kernel; remove it from the host code"
    )


def test_an_endless_block_ends_the_launch(tmp_path):
    """The other blocks do not start, or stop without a finding; the stream keeps the failure."""
    text = (
        '#include <cstdio>\n#include "acl/acl.h"\n#include "kernel_operator.h"\n'
        "__global__ __aicore__ void endless(GM_ADDR x) { for (volatile int i = 0;; i = i + 1) { } }\n"
        "int main() { aclInit(nullptr); aclrtSetDevice(0); endless<<<2000, nullptr, nullptr>>>(nullptr);"
        ' std::puts(aclrtSynchronizeStream(nullptr) == 0 ? "test pass" : "no result"); return 0; }\n'
    )
    ended = run(compiled(tmp_path, text).path, OPFORGE_TWIN_TIMEOUT="0.5")
    assert (ended.returncode, ended.stdout) == (1, "no result\n")
    assert ended.stderr.count("error: endless_loop") == 1


def test_missing_names(tmp_path):
    """The error lists names that the twin does not declare, each one once."""
    text = '#include "kernel_operator.h"\n__global__ __aicore__ void f(GM_ADDR x) { AscendC::NoSuchName(x); }\n'
    with pytest.raises(ProgramError) as caught:
        compiled(tmp_path, text + "void g() { AscendC::NoSuchName(1); }")
    assert caught.value.missing == ("NoSuchName",)
    assert "program.asc:2:" in str(caught.value)


def test_launches_that_the_parameters_accept(tmp_path):
    """Default arguments, overloads and packs accept several numbers of arguments; a file name may begin with a dash."""
    source = tmp_path / "-program.asc"
    source.write_text(
        '#include "acl/acl.h"\n#include "kernel_operator.h"\n'
        "__global__ void k(int a, int b = 2) {}\n__global__ void k(int a, int b, int c) {}\n"
        "template <typename... T> __global__ void p(T... values) {}\n"
        "int main() { aclrtSetDevice(0); k<<<1, nullptr, nullptr>>>(1, 2, 3); k<<<1, nullptr, nullptr>>>(1, 2);"
        " p<<<1, nullptr, nullptr>>>(1, 2, 3); p<int><<<1, nullptr, nullptr>>>(1); return 4; }\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "opforge.cli", "cc", "./-program.asc", "-o", "program", "--level", "device"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert run(tmp_path / "program").returncode == 4


LAUNCH_ARGUMENTS = """#include "acl/acl.h"
#include "kernel_operator.h"
struct Pair { int a; int b; };
template <int a, int b> int sum(int c) { return a + b + c; }
int nested();
__global__ __vector__ void k(GM_ADDR x, int64_t, Pair pair = {5, 6}, int last = 7)
{
    AscendC::printf("%d %d %d %d\\n", x == nullptr, pair.a, pair.b, last++);
}
template <typename T> __global__ __vector__ void only(T x) noexcept { AscendC::printf("%s\\n", __func__); }
template <> __global__ __vector__ void only<int>(int x) noexcept { AscendC::printf("int %d\\n", x); }
using Only = void (*)(double);
Only chosen(int) { return only<double>; }
int nested() { Only table[] = {chosen(0)}; table[0]<<<1, nullptr, nullptr>>>(2.0); return 3; }
void no_kernel(int x) {}
int main(int count, char**)
{
    aclInit(nullptr); aclrtSetDevice(0);
    int a = 1, b = 2, v[3] = {4, 5, 6};
    int* host = v;
    k<<<1, nullptr, nullptr>>>(NULL, a << 2, {a < b, b > a}, v[1] < v[2]);
    k<<<2, nullptr, nullptr>>>(0, sizeof(int) << 2);
    only<<<1, nullptr, nullptr>>>(sum<1, 2>(nested()));
    if (a) chosen(1)<<<1, nullptr, nullptr>>>(2.0);
    chosen(2)<<<1, nullptr, nullptr>>>(2.0);
    aclrtSynchronizeStream(nullptr);
    if (count > 1) {
        only<<<1, nullptr, nullptr>>>(host);
        no_kernel<<<1, nullptr, nullptr>>>(1);
    }
    aclrtResetDevice(0); aclFinalize();
}
"""


def test_arguments_of_launches(tmp_path):
    """Arguments convert as in a call, and each block has copies; host memory and other functions are findings."""
    program = compiled(tmp_path, LAUNCH_ARGUMENTS).path
    ended = run(program)
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ["1 1 1 1", "1 5 6 7", "1 5 6 7", "only", "int 6", "only", "only"]
    assert ended.stdout.splitlines() == lines
    ended = run(program, "wrong")
    assert (ended.returncode, ended.stdout.splitlines()) == (1, lines)
    host = "error: launch: only: x: got an address of host memory, expected one of aclrtMalloc; copy the values to "
    function = "error: launch: no_kernel: got a function without __global__, expected a kernel; add __global__ to its "
    assert ended.stderr.splitlines() == [f"{host}memory of the device with aclrtMemcpy", f"{function}definition"]


WORKSPACE = """#include <cstdlib>
#include "acl/acl.h"
#include "kernel_operator.h"
__global__ __mix__(1, 2) void k(GM_ADDR workspace)
{
    AscendC::SetSysWorkspace(workspace);
    AscendC::printf("%d\\n", static_cast<int>(AscendC::GetUserWorkspace(workspace) - workspace));
}
int main(int, char** words)
{
    aclInit(nullptr); aclrtSetDevice(0);
    void* memory = nullptr;
    aclrtMalloc(&memory, std::atoi(words[1]), ACL_MEM_MALLOC_HUGE_FIRST);
    k<<<1, nullptr, nullptr>>>(static_cast<uint8_t*>(memory));
    aclrtSynchronizeStream(nullptr);
    aclrtFree(memory); aclrtResetDevice(0); aclFinalize();
}
"""


def test_system_workspace_of_a_program(tmp_path):
    """A program may give its own memory to the system: at least 16 MiB."""
    program = compiled(tmp_path, WORKSPACE).path
    ended = run(program, str(20 << 20))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{16 << 20}\n" * 3, "")
    ended = run(program, str((16 << 20) - 32))
    assert ended.returncode == 1
    assert "workspace_argument" in ended.stderr
    assert f"SetSysWorkspace: the memory behind the pointer has {(16 << 20) - 32} bytes, expected at" in ended.stderr


def test_architecture_of_the_device_compiler(tmp_path):
    """The option of the device compiler selects the only architecture of programs; others are one message."""
    command = [sys.executable, "-m", "opforge.cli", "cc", VECTOR_ADD, "-o", tmp_path / "program"]
    for words in (["--npu-arch=dav-3510"], ["--", "--npu-arch=dav-3510"]):
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        expected = "--npu-arch: got 'dav-3510', expected dav-2201: programs of the twin are for this architecture; "
        assert done.stderr.startswith(expected)
    done = subprocess.run([*command, "--npu-arch=dav-2201"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert run(tmp_path / "program").returncode == 0


def test_text_of_the_device_compiler(tmp_path):
    """A source may define `__aicore__` as the attribute of the device compiler."""
    text = VECTOR_ADD.read_text().replace(
        "__global__", "\n#undef __aicore__\n#define __aicore__ [aicore]\n__global__", 1
    )
    assert "[aicore]" in text
    assert run(compiled(tmp_path, text).path).returncode == 0


FLUSH = """\
#include "kernel_operator.h"
#define FLUSH(T) \\
    AscendC::DataCacheCleanAndInvalid<T, AscendC::CacheLine::SINGLE_CACHE_LINE, AscendC::DcciDst::CACHELINE_OUT>(out)
"""
LAUNCHES = f"""{FLUSH}\
#include <cstdio>
#include "acl/acl.h"
"""
LAUNCHES += """\
#define LAUNCH(kernel, blocks) kernel<<<(blocks), nullptr, stream>>>
#define NAME(x) fill_##x
struct Pair { __gm__ volatile int32_t* to; int32_t value; };
namespace inner {
template <typename T, int add>
__global__ __aicore__ void fill(GM_ADDR to, T value)
{
    AscendC::GlobalTensor<T> out;
    out.SetGlobalBuffer((__gm__ T*)to, 1);
    out.SetValue(0, value + static_cast<T>(add));
    FLUSH(T);
}
}  // namespace inner
__global__ __vector__ void NAME(pair)(Pair pair)
{
    AscendC::GlobalTensor<int32_t> out;
    out.SetGlobalBuffer(pair.to, 1);
    out.SetValue(0, pair.value);
    FLUSH(int32_t);
}
__global__ __mix__(1, 2) void fill_mixed(GM_ADDR to, volatile __gm__ int32_t volatile* from)
{
    if ASCEND_IS_AIC {
        return;
    }
    if (AscendC::GetSubBlockIdx() != 0) {
        return;
    }
    AscendC::GlobalTensor<int32_t> out;
    out.SetGlobalBuffer((__gm__ int32_t*)to, 1);
    out.SetValue(0, from[0] + 1);
    FLUSH(int32_t);
}
int main()
{
    aclrtSetDevice(0);
    aclrtStream stream = nullptr;
    aclrtCreateStream(&stream);
    const char* text = R"(x<<<1, nullptr, stream>>>(y))";  // x<<<1, nullptr, stream>>>(y)
    void* device[4];
    for (void*& one : device) {
        aclrtMalloc(&one, 32, ACL_MEM_MALLOC_HUGE_FIRST);
    }
    inner::fill<int32_t, (3 > 2 ? 5 : 6)><<<1, nullptr, stream>>>((uint8_t*)device[0], 4);
    LAUNCH((inner::fill<float
               , 1>), 1)((uint8_t*)device[1], 0.5F);
    NAME(pair)<<<1, 0,
        stream>>>(Pair{static_cast<int32_t*>(device[2]), 1 << 3});
    fill_mixed<<<1, nullptr, stream>>>((uint8_t*)device[3], (int32_t*)device[2]);
    aclrtSynchronizeStream(stream);
    int32_t first = 0, third = 0, fourth = 0;
    float second = 0;
    aclrtMemcpy(&first, 4, device[0], 4, ACL_MEMCPY_DEVICE_TO_HOST);
    aclrtMemcpy(&second, 4, device[1], 4, ACL_MEMCPY_DEVICE_TO_HOST);
    aclrtMemcpy(&third, 4, device[2], 4, ACL_MEMCPY_DEVICE_TO_HOST);
    aclrtMemcpy(&fourth, 4, device[3], 4, ACL_MEMCPY_DEVICE_TO_HOST);
    std::printf("%d %g %d %d %d %s\\n", first, second, third, fourth, __LINE__, text);
    for (void* one : device) {
        aclrtFree(one);
    }
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    return 0;
}
"""


def test_forms_of_launches(tmp_path):
    """Templates, macros, namespaces, struct arguments and mixed kernels launch; strings stay as they are."""
    program = compiled(tmp_path, LAUNCHES)
    ended = run(program.path)
    line = LAUNCHES[: LAUNCHES.index("__LINE__")].count("\n") + 1
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert ended.stdout == f"9 1.5 8 9 {line} x<<<1, nullptr, stream>>>(y)\n"
    assert program.launches == 4
    assert set(program.kernels) == {"fill", "fill_pair", "fill_mixed"}


ENTRY_KERNEL = (
    FLUSH
    + """\
namespace outer {
inline namespace inner {
extern "C" __global__ __aicore__ void store(GM_ADDR to, int32_t value, float)
{
    AscendC::GlobalTensor<int32_t> out;
    out.SetGlobalBuffer((__gm__ int32_t*)to, 1);
    out.SetValue(0, value);
    FLUSH(int32_t);
}
}
}
#include "factors.h"
extern "C" {
__global__ __aicore__ void scale(GM_ADDR to, const Factors factors, Sign sign)
{
    AscendC::GlobalTensor<int32_t> out;
    out.SetGlobalBuffer((__gm__ int32_t*)to, 1);
    out.SetValue(0, out.GetValue(0) * factors.first * factors.second * (sign == Sign::kMinus ? -1 : 1));
    FLUSH(int32_t);
}
}
"""
)
FACTORS = "struct Factors { int first, second; };\nenum class Sign { kPlus, kMinus };\n"
ENTRY_HOST = """\
#include <cstdio>
#include "acl/acl.h"
#include "factors.h"
#include "aclrtlaunch_scale.h"
#include "aclrtlaunch_store.h"
int main()
{
    aclInit(nullptr);
    aclrtSetDevice(0);
    void* device = nullptr;
    aclrtMalloc(&device, 32, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtStream stream = nullptr;
    aclrtCreateStream(&stream);
    int32_t value = 0;
    ACLRT_LAUNCH_KERNEL(store)(1, stream, device, 20, 0.5f);
    aclrtlaunch_store(1, stream, device, 21, 0.5f);
    Factors factors{3, 2};
    ACLRT_LAUNCH_KERNEL(scale)(1, stream, device, &factors, Sign::kMinus);
    factors.first = 0;  // the launch copied it
    aclrtSynchronizeStream(stream);
    aclrtMemcpy(&value, 4, device, 4, ACL_MEMCPY_DEVICE_TO_HOST);
    std::printf("%d\\n", value);
    aclrtFree(device);
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    return 0;
}
"""


SUPER_KERNEL = """
struct AddArguments { GM_ADDR x; GM_ADDR y; GM_ADDR z; AddTiling tiling; };
template <uint32_t part>
__sk__ __vector__ void add_part(const AddArguments* given, sk::SkSystemArgs* system)
{
    vector_add(given->x, given->y, given->z, {given->tiling.perBlock / system->SkGetNumBlocks(), part});
}
__sk__ __vector__ void add_whole(const AddArguments* given) { vector_add(given->x, given->y, given->z, given->tiling); }
SK_BIND(vector_add, 4, add_part<1>, add_part<2>, add_whole);
"""


def test_super_kernel(tmp_path):
    """SK_BIND checks its functions; the launch of the kernel is the same."""
    text = VECTOR_ADD.read_text().replace("int main()", SUPER_KERNEL + "int main()")
    ended = run(compiled(tmp_path, text).path)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("0 of 16384 sums are wrong\n", "", 0)
    for old, new, message in (
        ("add_whole);", "add_whole, add_whole, add_part<3>);", "a kernel has 1 to 4 functions"),
        (", add_part<1>, add_part<2>, add_whole);", ");", "a kernel has 1 to 4 functions"),
        (
            "SK_BIND(vector_add, 4, add_part<1>",
            "SK_BIND(vector_add, 4, vector_add",
            "the functions have the parameters",
        ),
    ):
        assert old in text
        with pytest.raises(ProgramError, match=message):
            compiled(tmp_path, text.replace(old, new))


def test_constants_from_bytes(tmp_path):
    """convert_from_bytes returns a structure as a constant of the compilation."""
    constants = """constexpr uint8_t kGiven[] = {0, 16, 0, 0, 0, 4, 0, 0};
template <const uint8_t* bytes>
struct Held { static constexpr AddTiling value = convert_from_bytes<AddTiling>(bytes); };
static_assert(Held<kGiven>::value.perBlock == 4096 && Held<kGiven>::value.tile == 1024);
int main()"""
    text = VECTOR_ADD.read_text().replace("int main()", constants)
    text = text.replace("tiling{kCount / kBlocks, kTile}", "tiling = Held<kGiven>::value")
    ended = run(compiled(tmp_path, text).path)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("0 of 16384 sums are wrong\n", "", 0)


def test_entries(tmp_path):
    """Host code in another file launches by `aclrtlaunch_<kernel>`; objects of classes are passed by pointer."""
    host, kernel = tmp_path / "main.cpp", tmp_path / "store.cpp"
    host.write_text(ENTRY_HOST)
    kernel.write_text(ENTRY_KERNEL)
    (tmp_path / "factors.h").write_text("#pragma once\n" + FACTORS)
    program = compile_program([host, kernel], tmp_path / "program")
    ended = run(program.path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "-126\n", "")


USER_WORKSPACE = """#include "kernel_operator.h"
#include "acl/acl.h"
#include <cstdio>
extern "C" __global__ __vector__ void keep(GM_ADDR workspace, GM_ADDR tiling)
{
    AscendC::TPipe pipe;
    AscendC::TBuf<> buffer;
    pipe.InitBuffer(buffer, 32);
    auto row = buffer.Get<float>();
    AscendC::GlobalTensor<float> to;
    to.SetGlobalBuffer((__gm__ float*)workspace, 8);
    AscendC::Duplicate(row, 5.0f, 8);
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::DataCopy(to, row, 8);
}
int main(int count, char**)
{
    constexpr size_t kSystem = 16 << 20;
    float result = 0;
    char* workspace = nullptr;
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtMalloc((void**)&workspace, count == 1 ? kSystem + 32 : 32, ACL_MEM_MALLOC_HUGE_FIRST);
    keep<<<1, nullptr, nullptr>>>((GM_ADDR)workspace, nullptr);
    if (aclrtSynchronizeStream(nullptr) == 0) {
        aclrtMemcpy(&result, 4, workspace + kSystem, 4, ACL_MEMCPY_DEVICE_TO_HOST);
    }
    std::printf("%g", result);
    aclrtFree(workspace);
    aclrtResetDevice(0);
    return aclFinalize();
}
"""


def test_macros_for_a_workspace(tmp_path):
    """HAVE_WORKSPACE: the kernel receives the part after the system workspace; HAVE_TILING: it is not the last one."""
    (tmp_path / "program.asc").write_text(USER_WORKSPACE)
    defines = ["HAVE_WORKSPACE", "HAVE_TILING=1"]
    program = compile_program([tmp_path / "program.asc"], tmp_path / "program", defines=defines).path
    ended = run(program)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "5", "")
    ended = run(program, "small")
    assert (ended.returncode, ended.stdout) == (1, "0")
    assert "SetSysWorkspaceForce: the memory behind the pointer has 32 bytes, expected at least" in ended.stderr


def test_output_path_without_a_new_program(tmp_path):
    source = tmp_path / "program.asc"
    source.write_text("int main() {}\n")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(source)
    for name in (source.name, "pipe", "link", "."):
        with pytest.raises(UserError, match="cannot write the program"):
            compile_program([source], tmp_path / name)
    assert source.read_text() == "int main() {}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe", "program.asc"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("void f() { k<<<1, nullptr, 0>>; }", "has no `>>>`"),
        ("void f() { k<<<1, nullptr, 0>>>; }", "no argument list"),
        ("void f() { <<<1, nullptr, 0>>>(); }", "no kernel before"),
        ("void f() { k<<<(1, nullptr, 0>>>(); }", "not closed"),
        ("__global__ __mix__(3, 4) void f() {}", "__mix__(3, 4)"),
        ('#include "no_such_header.h"', "no_such_header.h"),
        ("\0\0\0", "got binary data, expected a C++ source, or a file *.o, *.a, *.so; rename it"),
        ("// " + "x" * (17 << 20), "bytes, expected at most"),
        ("template <int n> struct A { A<n + 1> a; }; A<0> a;", "the compiler"),
        ('#include "program.asc"', "program.asc"),
        ("", "no source has a function main"),
        (
            "__global__ void k(int a, float b) {}\nint main() {\nk<<<1, nullptr, 0>>>(1); }",
            "program.asc:3:21: error: too few arguments to function 'void k(int, float)'",
        ),
        ("template <int n> __global__ void k(void) {} void f() { k<2><<<1, nullptr, 0>>>(1); }", "provided"),
        ("void f() {\n  vec_ad\n  <<<1, nullptr, 0>>>(1); }", "program.asc:2:3: error: 'vec_ad' was not declared in"),
        ("__global__ void k(int a) {} void f() {\nk<<<b, nullptr, 0>>>(1); }", "program.asc:2:5: error: 'b' was not"),
        (
            "\n__global__ __vector__ int k(void* x) { return 1; }",
            "program.asc:2: kernel k: got a return value",
        ),
        ("template <typename T> void* __global__ k(T x) { return x; }", "kernel k: got a return value, expected the"),
        (
            "\n__vector__ __global__ __cube__ void k(int n) {}",
            "program.asc:2: kernel k: got attributes of the types AIV_ONLY and AIC_ONLY, expected one; remove the",
        ),
        ("__cube__ __mix__(1, 2) __global__ void k() {}", "kernel k: got attributes of the types MIX_AIC_1_2 and AIC_"),
        ("__global__ void k(int n,\nint& s) {}", "program.asc:2: kernel k: parameter int& s: got a reference"),
        ("#include <string>\n__global__ void k(std::string) {}", "program.asc:2: kernel k: parameter std::string: got"),
        ("struct V { virtual int f(); };__global__ void k(V v) {}", "program.asc:1: kernel k: parameter V v: got a"),
    ],
)
def test_hostile_source(tmp_path, text, expected):
    """A source that cannot compile causes one message, and leaves no file."""
    with pytest.raises(UserError) as caught:
        compiled(tmp_path, text)
    assert expected in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["program.asc"]


ARGUMENTS = """#include "acl/acl.h"
#include "kernel_operator.h"
enum class E { a };
struct T { int v[2] = {3, 4}; half h{}; };
template <typename... A>
__cube__ __cube__ __global__ void pack(A... values) { AscendC::printf("%d\\n", (0 + ... + static_cast<int>(values))); }
template <typename A>
__global__ __vector__ void mixed(const A t, E, half, bool less = (3 <= 4),
                                 const volatile __gm__ int* __restrict__ = nullptr)
{
    AscendC::printf("%d %d\\n", t.v[1], less);
}
int main()
{
    aclInit(nullptr);
    aclrtSetDevice(0);
    pack<<<1, nullptr, nullptr>>>(3, 4.0f, bfloat16_t(2.0f), uint8_t(1));
    mixed<<<1, nullptr, nullptr>>>(T{}, E::a, half(1.0f), true, nullptr);
    aclrtSynchronizeDevice();
    aclFinalize();
    return 0;
}
"""


def test_types_of_kernel_parameters(tmp_path):
    """A launch copies scalars, enumerators, structs and pointers, also of templates and without a name."""
    ended = run(compiled(tmp_path, ARGUMENTS).path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "10\n4 1\n", "")


WRONG_ARGUMENTS = """#include "kernel_operator.h"
template <typename T> __global__ __vector__ void k(GM_ADDR x, T n, float f) {}
struct Pair { int a; float b; };
__global__ __vector__ void s(float* x, Pair pair) {}
template <typename T> __global__ __vector__ void both(T a, T b) {}
template <typename T> void launch(T value) {
    k<int><<<1, nullptr, nullptr>>>(nullptr, value, 1.f); }
int main() {
    float* x = nullptr;
    k<int><<<1, nullptr, nullptr>>>(x, 1, 1.f);
    launch("abc");
    s<<<1, nullptr, nullptr>>>(x, 1);
    both<<<1, nullptr, nullptr>>>(1, 2.f);
"""
WRONG_VALUES = """
    Pair pair;
    s<<<"a">>>(nullptr, pair);
    s<<<pair, nullptr>>>(nullptr, pair);
    s<<<uint32_t(1), size_t(0), 5>>>(nullptr, pair);
}
"""


def test_wrong_types_of_launches(tmp_path):
    """A launch has the error messages of a call, with the line and column of the source; wrong grids are one line."""
    with pytest.raises(ProgramError) as caught:
        compiled(tmp_path, WRONG_ARGUMENTS + "}\n")
    text = str(caught.value)
    assert re.findall(r"program\.asc:(\d+:\d+): error: (\w+ \w+)", text) == [
        ("10:37", "cannot convert"),
        ("12:35", "could not"),
        ("13:34", "no matching"),
        ("7:46", "invalid conversion"),
    ]
    assert "opforge" not in text.replace(str(tmp_path), "")
    with pytest.raises(ProgramError) as caught:
        compiled(tmp_path, WRONG_ARGUMENTS.partition("    k<int><<<1, nullptr, nullptr>>>(x")[0] + WRONG_VALUES)
    lines = {line.removeprefix(f"{tmp_path}/program.asc:") for line in str(caught.value).splitlines()}
    assert lines == {
        f"{line}: launch: value {number} between <<< and >>>: got the type {got}, expected {wanted}; correct the value"
        for line, number, got, wanted in (
            (12, 1, "const char*", "int64_t"),
            (13, 1, "Pair", "int64_t"),
            (14, 3, "int", "void*"),
        )
    }


@pytest.mark.parametrize(
    "text",
    [
        "opforgeGlobal " * 50_000,
        "k<<<1,0,0>>>" + "(" * 50_000,
        "(" * 200_000 + ")" * 200_000,
        "opforgeGlobal void f() {" + "k<<<1,0,0>>>(" * 3000 + ")" * 3000 + ";}",
        "; opforgeUbuf float a[1], " * 50_000,
    ],
    ids=["attributes", "open", "nested", "launches", "arrays"],
)
def test_rewriting_of_hostile_text_ends(text):
    """The time is about linear in the length of the text."""
    began = time.process_time()
    with contextlib.suppress(UserError):
        rewrite(f'# 1 "program.asc"\n{text}', lambda _: True)
    assert time.process_time() - began < 20


QUEUE_FLAGS = (
    FLUSH
    + """\
extern "C" __global__ __aicore__ void kernel(GM_ADDR x, GM_ADDR y)
{
    AscendC::GlobalTensor<float> from, to;
    from.SetGlobalBuffer((__gm__ float*)x, 64);
    to.SetGlobalBuffer((__gm__ float*)y, 64);
    AscendC::TPipe pipe;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> queue;
    pipe.InitBuffer(queue, 1, 256);
    AscendC::LocalTensor<float> tensor = queue.AllocTensor<float>();
    AscendC::DataCopy(tensor, from, 64);
    SYNC
    AscendC::DataCopy(to, tensor, 64);
    queue.FreeTensor(tensor);
}
"""
)
FLAGS = "AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE3>(0); AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE3>(0);"


@pytest.mark.parametrize(
    ("level", "sync", "kinds"),
    [
        ("strict", FLAGS, {"position", "queue_order"}),
        ("fast", FLAGS, {"position", "queue_order"}),
        ("device", FLAGS, set()),
        ("device", "", {"race"}),
    ],
)
def test_levels(level, sync, kinds):
    """Level device accepts a tensor of a queue that other pipes use with flags, and still finds the missing flag."""
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    findings = launch(QUEUE_FLAGS.replace("SYNC", sync), "kernel", 1, [x, y], level=level, lint=False)
    assert {finding.kind for finding in findings} == kinds
    if not kinds:
        assert np.array_equal(x, y)


def test_a_position_finding_does_not_hide_a_fault():
    """It names the level that accepts the kernel, and the kernel continues."""
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    text = QUEUE_FLAGS.replace("SYNC", FLAGS).replace("DataCopy(to, tensor, 64)", "DataCopy(to[8], tensor, 64)")
    position, fault = launch(text, "kernel", 1, [x, y], lint=False)
    assert (position.kind, fault.kind) == ("position", "gm_out_of_range")
    assert position.message.endswith(". Level device accepts a kernel that orders these pipes with its own flags")


FORGIVEN = """#include "kernel_operator.h"
extern "C" __global__ __aicore__ void kernel(GM_ADDR x, GM_ADDR y)
{
    AscendC::GlobalTensor<float> from, to;
    from.SetGlobalBuffer((__gm__ float*)x, 64);
    to.SetGlobalBuffer((__gm__ float*)y, 64);
    AscendC::TPipe pipe;
    AscendC::TQueBind<AscendC::TPosition::VECIN, AscendC::TPosition::VECOUT, 1> queue;
    AscendC::TBuf<> buffer;
    pipe.InitBuffer(queue, 1, 256);
    pipe.InitBuffer(buffer, BYTES);
    AscendC::LocalTensor<float> tensor = queue.AllocTensor<float>();
    AscendC::DataCopy(tensor, from, 64);
    queue.EnQue(tensor);
    tensor = queue.DeQue<float>();
    AGAIN
    AscendC::DataCopy(to, tensor, 64);
    queue.FreeTensor(tensor);
    SYNC
}
"""


@cache
def _one_source(fields):
    """Return one source with a kernel for each set of fields of FORGIVEN."""
    head, kernel = FORGIVEN.split("extern", 1)
    text = head
    for number, values in enumerate(fields):
        changed = kernel.replace(" kernel(", f" kernel{number}(")
        for word, code in zip(("AGAIN", "BYTES", "SYNC"), values, strict=True):
            changed = changed.replace(word, code)
        text += f"extern{changed}"
    return text


def launch_one(fields, chosen, *arrays, level):
    """Launch the kernel with the chosen fields of the source with all fields; return its findings."""
    return launch(_one_source(fields), f"kernel{fields.index(chosen)}", 1, list(arrays), level=level, lint=False)


def with_sync(codes, space):
    """Return the fields of kernels with the codes at the end."""
    return tuple(dict.fromkeys(("", space, code) for code in codes))


AIV_ONLY_FLAGS = (
    "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);"
    "AscendC::CrossCoreSetFlag<0, PIPE_MTE3>(14); AscendC::CrossCoreWaitFlag(14);"
)
SECOND = """
    AscendC::TPipe second;
    second = pipe;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> more;
    USED.InitBuffer(more, 1, 256);
    AscendC::LocalTensor<float> copy = more.AllocTensor<float>();
    AscendC::Duplicate(copy, 1.0f, 64);
    more.FreeTensor(copy);
"""


STRICTER = [
    ({"AGAIN": "queue.EnQue(tensor); tensor = queue.DeQue<float>();"}, "queue_order"),
    ({"BYTES": "0"}, "field_range"),
    ({"SYNC": "AscendC::SyncAll();"}, "sync_task_type"),
    ({"SYNC": "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_VECTOR_CORE);"}, "task_type"),
    (
        {"SYNC": "from.SetGlobalBuffer((__gm__ float*)x, 1); [[maybe_unused]] float last = from.GetValue(63);"},
        "gm_out_of_range",
    ),
    ({"BYTES": "196352"}, "ub_budget"),
    ({"SYNC": SECOND.replace("USED", "second")}, "two_pipes"),
    ({"SYNC": AIV_ONLY_FLAGS}, "field_range"),
    (
        {
            "SYNC": "AscendC::LocalTensor<float> b = buffer.Get<float>(); AscendC::Duplicate(b, 1.0f, 64);"
            "AscendC::PipeBarrier<PIPE_V>(); uint64_t kept = 0;"
            "AscendC::GatherMask(b, b, 1, false, 0, {1, 1, 8, 0}, kept);"
        },
        "overlap",
    ),
    (
        {
            "SYNC": "AscendC::LocalTensor<float> b = buffer.Get<float>(); AscendC::Duplicate(b, 1.0f, 64);"
            "AscendC::PipeBarrier<PIPE_V>(); AscendC::DataCopy(b, b[8], 32);"
        },
        "overlap",
    ),
]


@pytest.mark.parametrize(("changes", "kind"), STRICTER)
def test_only_stricter_levels_report(changes, kind):
    """Code that works on the device is reported in the other levels only."""
    fields = tuple(tuple(({"AGAIN": "", "BYTES": "256", "SYNC": ""} | case).values()) for case, _ in STRICTER)
    chosen = fields[STRICTER.index((changes, kind))]
    for level, kinds in (("strict", {kind}), ("fast", {kind}), ("device", set())):
        x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        findings = launch_one(fields, chosen, x, y, level=level)
        assert {finding.kind for finding in findings} == kinds
    assert np.array_equal(x, y)


PLANTED_ON_DEVICE = [
    (SECOND.replace("second = pipe;", "").replace("USED", "second"), "two_pipes"),
    ("AscendC::TPipe second, third; third = second;", "two_pipes"),
    (AIV_ONLY_FLAGS.replace("14", "16"), "field_range"),
    ("KERNEL_TASK_TYPE_DEFAULT(static_cast<KernelMetaType>(99));", "task_type"),
    ("KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);", "core_kind"),
]


@pytest.mark.parametrize(("code", "kind"), PLANTED_ON_DEVICE)
def test_level_device_finds_planted_errors(code, kind):
    """Level device accepts other forms of these lines, but not these."""
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    fields = with_sync((case for case, _ in PLANTED_ON_DEVICE), "256")
    findings = launch_one(fields, ("", "256", code), x, y, level="device")
    assert [finding.kind for finding in findings] == [kind]


ORDER = "AscendC::SetFlag<AscendC::HardEvent::{0}>(EVENT_ID3); AscendC::WaitFlag<AscendC::HardEvent::{0}>(EVENT_ID3);"
AFTER = (
    "AscendC::PipeBarrier<PIPE_ALL>(); AscendC::LocalTensor<float> b = buffer.Get<float>();"
    "[[maybe_unused]] AscendC::LocalTensor<half> h = b.ReinterpretCast<half>();"
    "[[maybe_unused]] AscendC::LocalTensor<int32_t> n = b[32].ReinterpretCast<int32_t>();"
)
HALF_TO_FLOAT = "AscendC::PipeBarrier<PIPE_V>(); AscendC::Cast(b, {}, AscendC::RoundMode::CAST_NONE, {});"
PADDED = (
    "AscendC::DataCopyPad(b, from, AscendC::DataCopyExtParams(1, 12, 0, 0, 0), AscendC::DataCopyPadExtParams<float>());"
)
SELECT = (  # into elements from 144 on; the last 16 are undefined if 48 of the elements are defined
    "AscendC::PipeBarrier<PIPE_V>(); AscendC::LocalTensor<uint8_t> m = b[128].ReinterpretCast<uint8_t>();"
    "AscendC::CompareScalar(m, b, 0.0f, AscendC::CMPMODE::GT, 64); AscendC::PipeBarrier<PIPE_V>();"
    "AscendC::Duplicate(b[64], 2.0f, 64); AscendC::PipeBarrier<PIPE_V>();"
    "AscendC::Select(b[144], m, b[64], 0.0f, AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);" + ORDER.format("V_MTE3")
)
BITWISE = (  # bits of 64 elements, of which 40 are defined: the third word of 16 bits is defined in part
    "AscendC::Duplicate(b, 1.0f, 40); AscendC::PipeBarrier<PIPE_V>();"
    "AscendC::LocalTensor<uint8_t> m = b[128].ReinterpretCast<uint8_t>();"
    "AscendC::LocalTensor<uint16_t> w = m.ReinterpretCast<uint16_t>();"
    "AscendC::CompareScalar(m, b, 0.0f, AscendC::CMPMODE::GT, 64); AscendC::PipeBarrier<PIPE_V>();"
    "AscendC::{}; AscendC::PipeBarrier<PIPE_V>(); AscendC::Duplicate(b[64], 2.0f, 64); AscendC::PipeBarrier<PIPE_V>();"
    "AscendC::Select(b[144], m, b[64], 0.0f, AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);" + ORDER.format("V_MTE3")
)
SORT = (  # 32 pairs of value and index from element 64 on
    "AscendC::PipeBarrier<PIPE_V>(); AscendC::Sort32(b[64], b, n.ReinterpretCast<uint32_t>(), 1);"
    + ORDER.format("V_MTE3")
)
OFFSETS = (
    "AscendC::LocalTensor<uint32_t> u = b.ReinterpretCast<uint32_t>(); AscendC::Duplicate(u, 0U, 8);"
    "AscendC::PipeBarrier<PIPE_V>();"
)
LEFT = "AscendC::DataCopy(to, {}, 8);"
AFTER_STORE = f"{ORDER.format('MTE3_V')} AscendC::Duplicate(b, 1.0f, 64); {ORDER.format('V_MTE3')}"
STORE = (
    f"{ORDER.format('S_MTE3')} AscendC::Duplicate(b, 1.0f, 64); {ORDER.format('V_MTE3')} AscendC::DataCopy(to, b, 64);"
    f"{ORDER.format('MTE3_S')}"
)
REDUCE = "AscendC::WholeReduceMax({}, b, 64, {}, 1, 1, 1, AscendC::ReduceOrder::ORDER_ONLY_VALUE);"


STRICT = [
    (f"{PADDED} {ORDER.format('MTE2_V')} AscendC::Adds(b[32], b, 1.0f, 8);", "uninitialised_read"),
    ("AscendC::Duplicate(b, 1.0f, 64); AscendC::Adds(b, b, 1.0f, 64);", "race"),
    ("AscendC::Duplicate(b, 1.0f, 64); b.SetValue(1, b.GetValue(0)); AscendC::Adds(b, b, 1.0f, 64);", "race"),
    (f"AscendC::DataCopy(b, from, 64); b.SetValue(1, b.GetValue(0)); {ORDER.format('S_MTE3')}", "race"),
    (f"AscendC::Duplicate(h[64], half(1), 64); {HALF_TO_FLOAT.format('h[64]', 64)}", "overlap"),
    ("AscendC::Adds(b[8], b, 1.0f, 8);", "uninitialised_read"),
    ("AscendC::Adds(b, b, 1.0f, 16, 1, {2, 2, 8, 8});", "uninitialised_read"),
    ("AscendC::DataCopy(b[32], b, 32);", "uninitialised_read"),
    ("AscendC::Transpose(h[256], h);", "uninitialised_read"),
    (f"{OFFSETS} AscendC::Gather(b[64], b[96], u, 0, 8);", "uninitialised_read"),
    ("uint64_t kept; AscendC::GatherMask(b[64], b, 1, false, 0, {1, 1, 8, 0}, kept);", "uninitialised_read"),
    ("AscendC::Brcb(b[64], b, 1, {1, 8});", "uninitialised_read"),
    (f"AscendC::Duplicate(b, 1.0f, 60); {SELECT}", "uninitialised_read"),
    (f"{BITWISE.format('And(w, w, w, 4)')} {LEFT.format('b[176]')}", "uninitialised_read"),
    (f"{BITWISE.format('Not(w, w, 4)')} {LEFT.format('b[176]')}", "uninitialised_read"),
    (f"AscendC::Duplicate(n, int32_t(1), 24); AscendC::Duplicate(b, 1.0f, 32); {SORT}", "uninitialised_read"),
    (f"{LEFT.format('b')} {AFTER_STORE} AscendC::DataCopy(to, b, 64);", "uninitialised_read"),
    ("AscendC::Duplicate(b, 1.0f, 64); AscendC::PipeBarrier<PIPE_V>(); " + REDUCE.format("b", 1), "overlap"),
    (f"[[maybe_unused]] float first = 0; {STORE} first = to.GetValue(0);", "stale_cache"),
]


@pytest.mark.parametrize(("code", "kind"), STRICT)
def test_only_strict_reports(code, kind):
    """Code that works on the device is reported in level strict; level fast has no such checks."""
    fields = with_sync((AFTER + case for case, _ in STRICT), "2048")
    for level, kinds in (("strict", {kind}), ("device", set()), ("fast", set())):
        x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        findings = launch_one(fields, ("", "2048", AFTER + code), x, y, level=level)
        assert {finding.kind for finding in findings} == kinds, level


ON_DEVICE = [
    (
        "from.SetGlobalBuffer((__gm__ float*)x, 65); [[maybe_unused]] float last = from.GetValue(64);",
        "gm_out_of_range",
    ),
    ("AscendC::DataCopy(b, from, 64); AscendC::Adds(b, b, 1.0f, 64);", "race"),
    ("AscendC::Duplicate(b, 1.0f, 64); AscendC::DataCopy(to, b, 64);", "race"),
    (f"AscendC::Adds(b, b, 1.0f, 8); {ORDER.format('V_MTE3')} {LEFT.format('b')}", "uninitialised_read"),
    (f"AscendC::DataCopy(b[32], b, 32); {ORDER.format('V_MTE3')} {LEFT.format('b[32]')}", "uninitialised_read"),
    (f"AscendC::Transpose(h[256], h); {ORDER.format('V_MTE3')} {LEFT.format('b[128]')}", "uninitialised_read"),
    (
        f"{OFFSETS} AscendC::Gather(b[64], b[96], u, 0, 8); {ORDER.format('V_MTE3')} {LEFT.format('b[64]')}",
        "uninitialised_read",
    ),
    (f"AscendC::Duplicate(b, 1.0f, 48); {SELECT} {LEFT.format('b[192]')}", "uninitialised_read"),
    (f"{BITWISE.format('Or(w, w, w, 4)')} {LEFT.format('b[184]')}", "uninitialised_read"),
    (
        f"AscendC::Duplicate(n, int32_t(1), 24); AscendC::Duplicate(b, 1.0f, 32); {SORT} {LEFT.format('b[112]')}",
        "uninitialised_read",
    ),
    (
        f"AscendC::Duplicate(n, int32_t(1), 32); AscendC::Duplicate(b, 1.0f, 24); {SORT}",
        "uninitialised_read",
    ),
    ("AscendC::Gather(b[64], b[96], b.ReinterpretCast<uint32_t>(), 0, 8);", "uninitialised_read"),
    (
        f"AscendC::Brcb(b[64], b, 1, {{1, 8}}); {ORDER.format('V_MTE3')} {LEFT.format('b[64]')}",
        "uninitialised_read",
    ),
    (f"AscendC::SetAtomicAdd<float>(); {LEFT.format('b')} AscendC::SetAtomicNone();", "uninitialised_read"),
    (f"[[maybe_unused]] float first = to.GetValue(8); {STORE} first = to.GetValue(0);", "stale_cache"),
    ("AscendC::Duplicate(b, 1.0f, 128); AscendC::PipeBarrier<PIPE_V>(); " + REDUCE.format("b[64]", 2), "overlap"),
    (
        (
            "AscendC::Duplicate(b[8], 1.0f, 8); AscendC::Add(b[16], b[4], b[8], 8);"
            f"{ORDER.format('V_MTE3')} AscendC::DataCopy(to, b[16], 8);"
        ),
        "ub_misaligned",
    ),
    (
        (
            "AscendC::Duplicate(b[8], 1.0f, 8); AscendC::Add(b[16], b, b[8], 8);"
            f"{ORDER.format('V_S')} to.SetValue(0, b.GetValue(20));"
        ),
        "uninitialised_read",
    ),
    ("AscendC::Duplicate(b, 1.0f, 64); AscendC::DataCopy(b[8], b, 32);", "overlap"),
    (f"AscendC::Duplicate(h, half(1), 128); {HALF_TO_FLOAT.format('h', 128)}", "overlap"),
]


@pytest.mark.parametrize(("code", "kind"), ON_DEVICE)
def test_device_still_reports(code, kind):
    """Level device reports an order that the compiler does not make, and a use of undefined results."""
    fields = with_sync((AFTER + case for case, _ in ON_DEVICE), "2048")
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    findings = launch_one(fields, ("", "2048", AFTER + code), x, y, level="device")
    assert kind in {finding.kind for finding in findings}


FORMULA = "AscendC::Duplicate(b, 3.0f, 24); AscendC::PipeBarrier<PIPE_V>(); AscendC::{};"
POWER = FORMULA.format("Power(b[64], b, 2.0f, 64)")
CHOSEN = (  # 2 rows of 32 bytes at a distance of 64: zeros and ones in turn, 8 ones, undefined bytes
    "AscendC::Duplicate(b, 3.0f, 24); AscendC::Duplicate(b[48], 3.0f, 8);"
    "AscendC::LocalTensor<int32_t> w = b[256].ReinterpretCast<int32_t>();"
    "AscendC::Duplicate(w, int32_t(0x01000100), 8); AscendC::Duplicate(w[16], int32_t(0x01010101), 2);"
    "AscendC::PipeBarrier<PIPE_V>(); AscendC::LocalTensor<uint8_t> m = w.ReinterpretCast<uint8_t>();"
    "AscendC::LocalTensor<uint8_t> spare = b[320].ReinterpretCast<uint8_t>();"
)
BY_BYTES = (
    f"{CHOSEN} AscendC::SelectWithBytesMaskShapeInfo info; info.firstAxis = 2; info.srcLastAxis = 32;"
    "info.maskLastAxis = 64; AscendC::SelectWithBytesMask(b[64], b, 9.0f, m, spare, info);"
)
DROPPED = (
    f"{CHOSEN} AscendC::DropOutShapeInfo info; info.firstAxis = 2; info.srcLastAxis = 32;"
    "info.maskLastAxis = 64; AscendC::DropOut(b[64], b, m, spare, 0.5f, info);"
)


ELEMENT_WISE = [
    (POWER, 0, 24, [9]),
    (POWER, 24, 8, None),
    (FORMULA.format("Axpy(b[64], b, 2.0f, 64)"), 0, 8, None),  # an undefined dst
    (BY_BYTES, 0, 24, [3, 9]),
    (BY_BYTES, 32, 8, [9]),  # selected instead of undefined elements
    (BY_BYTES, 24, 8, None),  # undefined elements
    (BY_BYTES, 48, 8, None),  # an undefined mask
    (DROPPED, 0, 24, [0, 6]),
    (DROPPED, 24, 8, None),
    (DROPPED, 48, 8, None),
]


@pytest.mark.parametrize(("code", "first", "count", "values"), ELEMENT_WISE)
def test_element_wise_functions_pass_undefined_elements(code, first, count, values):
    """Level device computes the other elements, and reports a store of undefined results; strict reports the read."""

    def stored(code, first, count):
        return f"{AFTER}{code}{ORDER.format('V_MTE3')} AscendC::DataCopy(to, b[{64 + first}], {count});"

    fields = with_sync((stored(*case[:3]) for case in ELEMENT_WISE), "8192")
    chosen = ("", "8192", stored(code, first, count))
    for level, is_found in (("strict", True), ("device", values is None), ("fast", False)):
        x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        findings = launch_one(fields, chosen, x, y, level=level)
        assert {finding.kind for finding in findings} == ({"uninitialised_read"} if is_found else set()), level
        assert all((": DataCopy: src reads" in finding.message) == (level == "device") for finding in findings)
    if values:
        assert np.array_equal(y[:count], np.tile(values, count // len(values)))
        assert np.array_equal(y[count:], x[count:])


def test_wider_dtype_in_place():
    """In level device, a Cast reads the second half of its result before it writes there."""
    copy = "AscendC::DataCopy(b[64], from, 64);"
    code = f"{copy} {ORDER.format('MTE2_V')} {HALF_TO_FLOAT.format('h[128]', 128)} {ORDER.format('V_MTE3')}"
    text = FORGIVEN.replace("AGAIN", "").replace("BYTES", "512")
    text = text.replace("SYNC", AFTER + code + "AscendC::DataCopy(to, b, 64); AscendC::DataCopy(z, b[64], 64);")
    text = text.replace("GM_ADDR y)", "GM_ADDR y, GM_ADDR last)")
    text = text.replace("from, to;", "from, to, z; z.SetGlobalBuffer((__gm__ float*)last, 64);")
    halves = np.arange(128, dtype=np.float16)
    y, z = np.zeros(64, np.float32), np.zeros(64, np.float32)
    assert not launch(text, "kernel", 1, [halves.view(np.float32), y, z], level="device", lint=False)
    assert np.array_equal(np.concatenate([y, z]), halves.astype(np.float32))


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        *(
            (option, "an option for a program or an object")
            for option in ("-E", "-S", "-MM", "-dumpversion", "--version")
        ),
        *(
            (option, "no option that names the output; use -o")
            for option in ("-o", "-o/tmp/x", "--output=x", "-Wl,-o,x", "-Wl,-s,--output=x")
        ),
        ("", "an option of the C"),
        ("-MFx.d", "-MD -MFfile -MTtarget for"),
        ("-MDx", "-MD -MFfile -MTtarget for"),
    ],
)
def test_options_that_change_the_output(tmp_path, option, expected):
    source = tmp_path / "program.asc"
    source.write_text("int main() {}\n")
    with pytest.raises(
        UserError, match=rf"^options: got {repr(option) if option else 'an empty text'}, expected {expected}"
    ):
        compile_program([source], tmp_path / "program", options=[option])


def test_a_missing_folder_of_headers(opforge, tmp_path):
    """Build systems pass folders that do not exist; they also pass -c."""
    source = tmp_path / "program.asc"
    source.write_text("int main() {}\n")
    for given in (tmp_path / "none", source):
        result = opforge("cc", source, "-I", given, "-o", tmp_path / "program")
        assert result.returncode == 2
        assert result.stderr == f"-I {given}: got no folder, expected a folder of headers; correct the path\n"
    assert opforge("cc", "-c", source, "-I", tmp_path / "none", "-o", tmp_path / "program.o").returncode == 0


def test_a_source_twice_and_a_missing_parent_folder(opforge, tmp_path):
    source = tmp_path / "program.asc"
    source.write_text("int main() {}\n")
    (tmp_path / "link.asc").symlink_to(source)
    for other in (source, tmp_path / "link.asc"):
        result = opforge("cc", source, other, "-o", tmp_path / "program")
        assert result.returncode == 2
        assert result.stderr == f"{other}: got this source twice, expected each source once; remove it\n"
    headers = tmp_path / "none" / "headers"
    result = opforge("cc", source, "--headers", headers, "-o", tmp_path / "program")
    assert result.returncode == 2
    assert result.stderr == f"--headers {headers}: the folder {headers.parent} does not exist; create it\n"
    assert {path.name for path in tmp_path.iterdir()} == {"program.asc", "link.asc"}


def test_options_that_make_no_program(opforge, tmp_path):
    """`-fsyntax-only` reports errors and writes nothing; `-c` after `--` is the option of the command."""
    for name, text in (("good", "int main() {}\n"), ("bad", "int main() { return missing; }\n")):
        (tmp_path / f"{name}.asc").write_text(text)
    results = [
        opforge("cc", tmp_path / f"{name}.asc", "-o", tmp_path / f"{name}{option}", "--", option)
        for name in ("good", "bad")
        for option in ("-fsyntax-only", "-c")
    ]
    assert [result.returncode for result in results] == [0, 0, 2, 2]
    assert all("'missing' was not declared" in result.stderr for result in results[2:])
    assert {path.name for path in tmp_path.iterdir()} == {"good.asc", "bad.asc", "good-c"}
    assert (tmp_path / "good-c").read_bytes()[16:18] == b"\1\0"  # the type of the ELF file: an object file


def test_a_killed_compilation_leaves_nothing(tmp_path, monkeypatch):
    """The folder of the program has no other files during the compilation."""
    seen = []

    def run(build, command, label, original=compiler._Build.run):
        original(build, command, label)
        seen.append({path.name for path in tmp_path.iterdir()})

    monkeypatch.setattr(compiler._Build, "run", run)
    compiled(tmp_path, "int main() {}\n")
    assert seen == [{"program.asc"}] * 3
    assert {path.name for path in tmp_path.iterdir()} == {"program.asc", "program"}


@pytest.mark.parametrize("define", ["", "A B=1", "1=2", "=1"])
def test_macro_without_a_name(tmp_path, define):
    source = tmp_path / "program.asc"
    source.write_text("int main() {}\n")
    with pytest.raises(UserError, match=r"^-D: got .*, expected NAME or NAME=VALUE"):
        compile_program([source], tmp_path / "program", defines=[define])


def test_unknown_level():
    """A level that does not exist is one message."""
    with pytest.raises(UserError, match=r"level: got 'hard', expected one of strict, device, fast"):
        launch(QUEUE_FLAGS, "kernel", 1, [np.zeros(1)], level="hard", lint=False)


OTHER_CORES = """#include "kernel_operator.h"
extern "C" __global__ __aicore__ void kernel(GM_ADDR x)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_1);
    AscendC::TPipe pipe;
    AscendC::GlobalTensor<float> to;
    to.SetGlobalBuffer((__gm__ float*)x, 64);
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> out;
    AscendC::TBuf<AscendC::TPosition::A1> left;
    pipe.InitBuffer(out, 1, 256);
    pipe.InitBuffer(left, 512);
    AscendC::InitOutput<float>(to, 64, 3.0f);
    AscendC::SetHF32Mode(true);
    AscendC::SetHF32Mode(false);
    AscendC::LocalTensor<float> l1(AscendC::TPosition::A1, 0, 128);
    AscendC::InitConstValue(l1, {1, 16, 0, 0.0f});
    USE
}
"""


def test_level_device_ignores_buffers_of_other_cores():
    """The buffers of the other cores of a mixed kernel have no memory: a use of them is a finding in all levels."""
    use = "if ASCEND_IS_AIC { AscendC::LocalTensor<float> t = out.AllocTensor<float>(); t.SetValue(0, 1.0f); }"
    for level, kinds in (("strict", {"core_kind"}), ("fast", {"core_kind"}), ("device", set())):
        x = np.zeros(64, np.float32)
        findings = launch(OTHER_CORES.replace("USE", ""), "kernel", 1, [x], level=level, lint=False)
        assert {finding.kind for finding in findings} == kinds
    assert np.array_equal(x, np.full(64, 3, np.float32))
    findings = launch(
        OTHER_CORES.replace("USE", use), "kernel", 1, [np.zeros(64, np.float32)], level="device", lint=False
    )
    assert [finding.kind for finding in findings] == ["core_kind"]


OTHER_TENSORS = """#include "kernel_operator.h"
extern "C" __global__ __aicore__ void kernel(GM_ADDR x)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_1);
    AscendC::LocalTensor<float> rows(AscendC::TPosition::VECCALC, 0, 64), left(AscendC::TPosition::A1, 0, 64);
    (void)x;
    USE
}
"""


def test_level_device_ignores_tensors_of_other_cores():
    """A tensor at an address in a memory of the other cores is only an error if an instruction uses it."""
    x = np.zeros(64, np.float32)
    for level, kinds in (("strict", {"core_kind"}), ("fast", {"core_kind"}), ("device", set())):
        findings = launch(OTHER_TENSORS.replace("USE", ""), "kernel", 1, [x], level=level, lint=False)
        assert {finding.kind for finding in findings} == kinds
    use = "if ASCEND_IS_AIC { rows.SetValue(0, 1.0f); }"
    findings = launch(OTHER_TENSORS.replace("USE", use), "kernel", 1, [x], level="device", lint=False)
    assert findings, "the use of a tensor without memory is not found"


PIPE_FLAGS = """#include "kernel_operator.h"
extern "C" __global__ __aicore__ void kernel(GM_ADDR x)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    PIPE
    AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(ID);
    AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(ID);
    MORE
    (void)x;
}
"""


@pytest.mark.parametrize(
    ("level", "fields", "kinds"),
    [
        ("device", {}, set()),
        ("strict", {}, {"flag_not_set"}),
        ("fast", {}, {"flag_not_set"}),
        ("device", {"ID": "3"}, {"flag_not_set"}),
        ("device", {"PIPE": ""}, {"flag_not_set"}),
        ("device", {"M_MTE1": "MTE1_M"}, {"flag_not_set"}),
        ("device", {"MORE": 2 * "AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(ID);"}, {"flag_not_set"}),
    ],
)
def test_level_device_has_the_flags_of_a_pipe(level, fields, kinds):
    """TPipe of the device sets M_MTE1 with the ids 0 to 2 once; other flags are not set."""
    text = PIPE_FLAGS
    for name, value in {"MORE": "", **fields, "PIPE": fields.get("PIPE", "AscendC::TPipe pipe;"), "ID": "2"}.items():
        text = text.replace(name, fields.get(name, value))
    findings = launch(text, "kernel", 1, [np.zeros(64, np.float32)], level=level, lint=False)
    assert {finding.kind for finding in findings} == kinds


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("KERNEL_TASK_TYPE_DEFAULT(static_cast<KernelMetaType>(99));", "an unknown type"),
        (
            (
                "if (AscendC::GetBlockIdx() == 0) { KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY); }"
                "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);"
            ),
            "declare one type",
        ),
    ],
)
def test_level_device_reports_wrong_task_types(code, word):
    """Level device accepts types of other products. A type that no product has, or two types, are errors."""
    text = FORGIVEN.replace("AGAIN", "").replace("BYTES", "256")
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    accepted = text.replace("SYNC", "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_VECTOR_CORE);")
    assert launch(accepted, "kernel", 1, [x, y], level="device", lint=False) == []
    for level in ("strict", "device", "fast"):
        findings = launch(text.replace("SYNC", code), "kernel", 1, [x, y], level=level, lint=False)
        assert any(finding.kind == "task_type" and word in finding.message for finding in findings), findings


def test_documented_levels():
    """The page of checks has the table of twin/check_levels.json, and each kind is one of its findings."""
    text = (ROOT / "docs" / "reference" / "twin-checks.md").read_text()
    for check in check_levels():
        levels = ", ".join(check["levels"])
        assert f"| `{check['name']}` | {check['what']} | {levels} | `{check['kind']}` |" in text
        assert f"\n| `{check['kind']}` | " in text


needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="CMake is not installed")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x.cpp"], "--cmake: got the source 'x.cpp', expected no source; remove it"),
        (["-o", "x"], "--cmake: got -o also, expected only --soc and --level; remove it"),
        (["--soc", "a/../b"], "--soc: got 'a/../b', expected one of"),
        (["--level", "x"], "--level: got 'x', expected one of strict, device, fast"),
    ],
)
def test_cmake_takes_only_chip_and_level(opforge, words, message):
    result = opforge("cc", "--cmake", *words)
    assert result.returncode == 2
    assert result.stderr.startswith(message)
    assert not result.stdout


def cmake(*words, **variables):
    """Run CMake with opforge in PATH and without a toolkit."""
    removed = ("ASC", "CMAKE_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(removed)}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    return subprocess.run(
        ["cmake", *words], env=environment | variables, capture_output=True, text=True, timeout=600, check=False
    )


@needs_cmake
@pytest.mark.parametrize(
    ("name", "kernel", "generator"),
    [("vector_add", "vector_add.asc", "Unix Makefiles"), ("kernel_library", "scale.cpp", "Ninja")],
)
def test_cmake_project(tmp_path, name, kernel, generator):
    """Projects with the language ASC, and with ascendc_library, build for the twin, also in a path with spaces.

    A changed header compiles the kernel again.
    """
    if generator == "Ninja" and shutil.which("ninja") is None:
        generator = "Unix Makefiles"
    build, project = tmp_path / "a folder", tmp_path / "a project"
    shutil.copytree(EXAMPLES / name, project)
    shutil.copy(EXAMPLES / "device_array.h", tmp_path)
    lists = (project / "CMakeLists.txt").read_text()
    lists = lists.replace(
        "compile_definitions(kernels PRIVATE SCALE", "compile_options(kernels PRIVATE -mllvm -x -DSCALE"
    )
    (project / "CMakeLists.txt").write_text(lists.replace("kernels ascendcl", "kernels ascendcl host_intf_pub"))
    source, header = project / kernel, project / "own.h"
    source.write_text(f'#include "own.h"\n{source.read_text()}')
    header.write_text("")
    configure = ("-G", generator, "-S", project, "-B", build)
    toolchain = write_cmake_files()
    for done in (
        cmake(*configure, f"-DCMAKE_TOOLCHAIN_FILE={toolchain}"),
        cmake(build),
        cmake("--build", build),
    ):
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Warning" not in done.stderr
    ended = run(build / Path(kernel).stem)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("0 of ")
    assert "Compiling" not in cmake("--build", build).stdout
    header.write_text("#error the header is changed\n")
    done = cmake("--build", build)
    assert done.returncode != 0
    assert "the header is changed" in done.stdout + done.stderr


FATBIN = """cmake_minimum_required(VERSION 3.16)
project(fatbin LANGUAGES CXX)
include(${ASCEND_CANN_PACKAGE_PATH}/tools/tikcpp/ascendc_kernel_cmake/ascendc.cmake)
ascendc_fatbin_library(kernels store.cpp)
add_executable(load main.cpp)
target_link_libraries(load PRIVATE ascendcl)
"""
FATBIN_HOST = """#include <cstdio>
#include "acl/acl.h"
int main(int, char** words)
{
    aclInit(nullptr);
    aclrtSetDevice(0);
    void *device = nullptr, *loaded = nullptr, *kernel = nullptr;
    int32_t value = 30;
    std::printf("%d ", aclrtBinaryLoadFromFile(words[1], nullptr, &loaded));
    std::printf("%d ", aclrtBinaryGetFunction(loaded, "store", &kernel));
    if (kernel != nullptr) {
        aclrtMalloc(&device, 32, ACL_MEM_MALLOC_HUGE_FIRST);
        float unused = 0;
        void* values[] = {&device, &value, &unused};
        aclrtLaunchKernelWithArgsArray(kernel, 1, nullptr, nullptr, values);
        aclrtSynchronizeStream(nullptr);
        value = 0;
        aclrtMemcpy(&value, 4, device, 4, ACL_MEMCPY_DEVICE_TO_HOST);
        std::printf("%d", value);
        aclrtFree(device);
        aclrtBinaryUnLoad(loaded);
    }
    aclrtResetDevice(0);
    return aclFinalize();
}
"""


@needs_cmake
def test_kernels_from_a_file(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(FATBIN)
    (tmp_path / "main.cpp").write_text(FATBIN_HOST)
    (tmp_path / "store.cpp").write_text(ENTRY_KERNEL)
    (tmp_path / "factors.h").write_text(FACTORS)
    build, installed = tmp_path / "build", tmp_path / "installed"
    for command in (
        ("-S", tmp_path, "-B", build, f"-DCMAKE_TOOLCHAIN_FILE={write_cmake_files()}"),
        ("--build", build),
        ("--install", build, "--prefix", installed),
    ):
        done = cmake(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    binary = installed / "fatbin" / "kernels" / "kernels.o"
    ended = run(build / "load", binary)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "0 0 30", "")
    assert run(build / "load", binary.relative_to(tmp_path)).stdout == "100000 100000 "
    assert run(build / "load", tmp_path / "main.cpp").stdout == "100000 100000 "


@needs_cmake
@pytest.mark.parametrize("form", ["variable", "cache", "path"])
def test_cmake_finds_the_twin_before_project(tmp_path, form):
    """find_package(ASC) precedes project(), which reads the toolchain file."""
    toolchain = write_cmake_files(level="device")
    configure = ("-S", EXAMPLES / "vector_add", "-B", tmp_path)
    if form == "variable":
        done = cmake(*configure, CMAKE_TOOLCHAIN_FILE=str(toolchain))
    else:
        done = cmake(*configure, *(["-C", str(toolchain)] if form == "cache" else []))
    assert done.returncode == 0, done.stdout + done.stderr
    expected = toolchain.parent if form != "path" else write_cmake_files().parent
    assert f"ASC_DIR:PATH={expected}\n" in (tmp_path / "CMakeCache.txt").read_text()


@needs_cmake
def test_cmake_rejects_a_toolkit_and_a_missing_library(tmp_path):
    toolchain = write_cmake_files()
    (tmp_path / "lib" / "cmake" / "ASC").mkdir(parents=True)
    (tmp_path / "lib" / "cmake" / "ASC" / "asc-config.cmake").write_text("")
    configure = ("-S", EXAMPLES / "vector_add", "-B")
    done = cmake(*configure, tmp_path / "a", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", CMAKE_PREFIX_PATH=str(tmp_path))
    assert done.returncode == 1
    assert f"ASC_DIR: got {tmp_path}/lib/cmake/ASC, expected the CPU twin;" in " ".join(done.stderr.split())

    library = str(build_runtime())
    copy = tmp_path / "opforge-twin.cmake"
    copy.write_text(toolchain.read_text().replace(library, f"{tmp_path}/none.so"))
    done = cmake(*configure, tmp_path / "b", "-C", copy)
    assert done.returncode == 1
    assert f"{tmp_path}/none.so: got no file, expected the library" in " ".join(done.stderr.split())


DEBUG_MODE = """#include "kernel_operator.h"
#ifdef ASCENDC_CPU_DEBUG
#include <cstdio>
#include "tikicpulib.h"
#endif
extern "C" __global__ __aicore__ void scale(GM_ADDR x, GM_ADDR y)
{
    AscendC::TPipe pipe;
    AscendC::TBuf<AscendC::TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    AscendC::GlobalTensor<float> from, to;
    from.SetGlobalBuffer((__gm__ float*)x + 64 * AscendC::GetBlockIdx(), 64);
    to.SetGlobalBuffer((__gm__ float*)y + 64 * AscendC::GetBlockIdx(), 64);
    AscendC::LocalTensor<float> a = buffer.Get<float>();
    AscendC::DataCopy(a, from, 64);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(EVENT_ID0);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(EVENT_ID0);
    AscendC::Muls(a, a, TILING_KEY_IS(7) ? 2.0f : TILING_KEY_IS(8) ? 3.0f : 0.0f, 64);
    AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(EVENT_ID0);
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(EVENT_ID0);
    AscendC::DataCopy(to, a, 64);
}
#ifdef ASCENDC_CPU_DEBUG
int32_t main()
{
    float* x = (float*)AscendC::GmAlloc(1024);
    float* y = (float*)AscendC::GmAlloc(1024);
    AscendC::SetKernelMode(KernelMode::AIV_MODE);
    int wrong = 0;
    for (int key = 7; key < 9; ++key) {
        for (int i = 0; i < 256; ++i) {
            x[i] = i;
        }
        ICPU_SET_TILING_KEY(key);
        ICPU_RUN_KF(scale, 4, (uint8_t*)x, (uint8_t*)y);
        for (int i = 0; i < 256; ++i) {
            wrong += y[i] != i * (key == 7 ? 2 : 3);
        }
    }
    std::printf("%d wrong\\n", wrong);
    AscendC::GmFree(x);
    AscendC::GmFree(y);
    return 0;
}
#endif
"""


def test_debug_mode(tmp_path):
    """A main function for CANN's CPU debug mode runs: host code and kernel use the same memory."""
    program = compiled(tmp_path, DEBUG_MODE, defines=["ASCENDC_CPU_DEBUG"])
    report = tmp_path / "report.json"
    ended = run(program.path, OPFORGE_TWIN_REPORT=str(report))
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", "0 wrong\n")
    launches = json.loads(report.read_text())
    assert [(launch["blocks"], launch["tiling_key"]) for launch in launches] == [(4, 7), (4, 8)]
    assert all(launch["estimate_us"] > 0 for launch in launches)


DEBUG_PROJECT = """cmake_minimum_required(VERSION 3.21)
project(scaled CXX)
find_package(tikicpulib REQUIRED)
add_library(kernels SHARED kernel.cpp)
target_link_libraries(kernels PUBLIC tikicpulib::Ascend910B1)
target_compile_options(kernels PRIVATE -g -O0 -std=c++17)
add_executable(scaled main.cpp)
target_link_libraries(scaled PRIVATE kernels)
"""


@needs_cmake
def test_cmake_project_of_the_debug_mode(tmp_path):
    """find_package(tikicpulib) builds kernels and their host code from C++ sources."""
    kernel, host = DEBUG_MODE.split("#ifdef ASCENDC_CPU_DEBUG\nint32_t main")
    declaration = 'extern "C" __global__ __aicore__ void scale(GM_ADDR x, GM_ADDR y);\n'
    heads = DEBUG_MODE.split('extern "C"', maxsplit=1)[0]
    (tmp_path / "kernel.cpp").write_text(kernel)
    (tmp_path / "main.cpp").write_text(f"{heads}{declaration}#ifdef ASCENDC_CPU_DEBUG\nint32_t main{host}")
    (tmp_path / "CMakeLists.txt").write_text(DEBUG_PROJECT)
    build = tmp_path / "build"
    toolchain = write_cmake_files()
    for words in (("-S", tmp_path, "-B", build, f"-DCMAKE_TOOLCHAIN_FILE={toolchain}"), ("--build", build)):
        done = cmake(*words)
        assert done.returncode == 0, done.stdout + done.stderr
    ended = run(build / "scaled")
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", "0 wrong\n")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("AscendC::GmAlloc(1024);\n    AscendC::Set", "AscendC::GmAlloc(1008);\n    AscendC::Set", "gm_out_of_range"),
        ("AscendC::GmFree(y);", "AscendC::GmFree(y + 1);", "GmFree: "),
        ("AscendC::GmFree(y);", "AscendC::GmFree(x);", "GmFree: "),
        ("AIV_MODE", "AIC_MODE", "core_kind"),
    ],
)
def test_planted_mistake_in_debug_mode(tmp_path, old, new, message):
    assert old in DEBUG_MODE
    ended = run(compiled(tmp_path, DEBUG_MODE.replace(old, new), defines=["ASCENDC_CPU_DEBUG"]).path)
    assert (ended.returncode, message in ended.stderr) == (1, True), ended.stderr


def test_cc_creates_no_folder_for_the_program(tmp_path):
    source = tmp_path / "empty.asc"
    source.write_text("int main() { return 0; }\n")
    command = [sys.executable, "-m", "opforge.cli", "cc", source, "-o", tmp_path / "new" / "program"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, "does not exist; create it" in result.stderr) == (2, True)
    assert not (tmp_path / "new").exists()
