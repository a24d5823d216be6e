"""Test aclrtc: programs compile kernels at run time with `opforge cc` and launch them by handles."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from opforge.twin.coverage.broker import compiling
from opforge.twin.coverage.program_run import Place
from opforge.twin.program import compile_program

pytestmark = pytest.mark.slow

# Adds a factor of a header to each element. `values` counts from 0, so the expected result is a formula.
KERNELS = """
#include "kernel_operator.h"
#include "sub/factor.h"
namespace Kernels {
struct Part { uint32_t count; float scale; };
template <typename T>
__global__ __vector__ void shift(GM_ADDR x, GM_ADDR y, int64_t summand, Part part)
{
    AscendC::TPipe pipe;
    AscendC::TBuf<AscendC::TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 512);
    AscendC::GlobalTensor<T> from, to;
    from.SetGlobalBuffer((__gm__ T*)x + part.count * AscendC::GetBlockIdx(), part.count);
    to.SetGlobalBuffer((__gm__ T*)y + part.count * AscendC::GetBlockIdx(), part.count);
    AscendC::LocalTensor<T> a = buffer.Get<T>();
    AscendC::DataCopyPad(a, from, {1, static_cast<uint32_t>(part.count * sizeof(T)), 0, 0, 0}, {false, 0, 0, 0});
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(EVENT_ID0);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(EVENT_ID0);
    AscendC::Adds(a, a, static_cast<T>(static_cast<float>(summand) * part.scale + FACTOR), COUNT);
    AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(EVENT_ID0);
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(EVENT_ID0);
    AscendC::DataCopyPad(to, a, {1, static_cast<uint32_t>(part.count * sizeof(T)), 0, 0, 0});
}
}
extern "C" __global__ __vector__ void plain(GM_ADDR x, GM_ADDR y, int64_t summand, Kernels::Part part)
{
    Kernels::shift<float>(x, y, summand, part);
}
"""
PROGRAM = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include "acl/acl.h"
#include "acl/acl_rt_compile.h"
int mistake = -1;
#define CHECK(call)                                            \\
    if (const aclError error = call; error != ACL_SUCCESS) {   \\
        std::printf("%d %s\\n", error, aclGetRecentErrMsg()); \\
        return 9;                                              \\
    }
const char* source = R"(KERNELS)";
struct Part { uint32_t count; float scale; };
template <typename T>
int Run(aclrtFuncHandle function, aclrtStream stream, bool isArray, int* wrong)
{
    constexpr uint32_t kCount = 37, kBlocks = 3;
    std::vector<T> x(kCount * kBlocks), y(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<T>(i);
    }
    const size_t bytes = x.size() * sizeof(T);
    void *from = nullptr, *to = nullptr;
    CHECK(aclrtMalloc(&from, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc(&to, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpy(from, bytes, x.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    int64_t summand = 5;
    Part part{kCount, 2.0f};
    if (isArray) {
        void* values[] = {&from, &to, &summand, &part};
        CHECK(aclrtLaunchKernelWithArgsArray(function, kBlocks, stream, nullptr, values));
        summand = 0;  // the launch has its own copy
    } else {
        aclrtArgsHandle values = nullptr;
        aclrtParamHandle parameter = nullptr;
        CHECK(aclrtKernelArgsInit(function, &values));
        CHECK(aclrtKernelArgsAppend(values, &from, sizeof(from), &parameter));
        CHECK(aclrtKernelArgsAppend(values, &to, sizeof(to), &parameter));
        CHECK(aclrtKernelArgsAppend(values, &summand, sizeof(summand), &parameter));
        CHECK(aclrtKernelArgsAppend(values, &part, sizeof(part), &parameter));
        CHECK(aclrtKernelArgsFinalize(values));
        CHECK(aclrtLaunchKernelWithConfig(function, kBlocks, stream, nullptr, values, nullptr));
    }
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(y.data(), bytes, to, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < x.size(); ++i) {
        *wrong += y[i] != static_cast<T>(i + 5 * 2 + 3);
    }
    aclrtFree(from);
    aclrtFree(to);
    return 0;
}
int main(int count, char** words)
{
    mistake = count > 1 ? std::atoi(words[1]) : -1;
    aclrtcProg program = nullptr;
    const char* headers[] = {"constexpr float FACTOR = 3;"};
    const char* names[] = {"sub/factor.h"};
    CHECK(aclrtcCreateProg(&program, source, "shift.asc", 1, headers, names));
    const char* expressions[] = {"Kernels::shift<float>", "Kernels::shift<int32_t>"};
    for (const char* expression : expressions) {
        CHECK(aclrtcAddNameExpr(program, expression));
    }
    const char* options[] = {"--npu-arch=dav-2201", "-DCOUNT=37"};
    if (const aclError error = aclrtcCompileProg(program, 2, options); error != ACL_SUCCESS) {
        size_t size = 0;
        CHECK(aclrtcGetCompileLogSize(program, &size));
        std::vector<char> log(size);
        CHECK(aclrtcGetCompileLog(program, log.data()));
        std::printf("%d %zu %s\\n", error, size - std::strlen(log.data()), log.data());
        return 8;
    }
    size_t size = 0;
    CHECK(aclrtcGetBinDataSize(program, &size));
    std::vector<char> binary(size);
    CHECK(aclrtcGetBinData(program, binary.data()));
    CHECK(aclInit(nullptr));
    CHECK(aclrtSetDevice(0));
    aclrtStream stream = nullptr;
    CHECK(aclrtCreateStream(&stream));
    aclrtBinHandle loaded = nullptr;
    const size_t skipped = 0 /* bytes */;
    CHECK(aclrtBinaryLoadFromData(binary.data() + skipped, size - skipped, nullptr, &loaded));
    aclrtFuncHandle functions[3] = {};
    for (int i = 0; i < 2; ++i) {
        const char* name = nullptr;
        CHECK(aclrtcGetLoweredName(program, expressions[i], &name));
        CHECK(aclrtBinaryGetFunction(loaded /* by name */, name, &functions[i]));
    }
    CHECK(aclrtBinaryGetFunction(loaded, "plain", &functions[2]));
    CHECK(aclrtcDestroyProg(&program));
    int wrong = 0;
    for (const bool isArray : {true, false}) {
        if (Run<float>(functions[0], stream, isArray, &wrong) != 0 ||
            Run<int32_t>(functions[1], stream, isArray, &wrong) != 0 ||
            Run<float>(functions[2], stream, isArray, &wrong) != 0) {
            return 7;
        }
    }
    CHECK(aclrtBinaryUnLoad(loaded));
    std::printf("%d wrong\\n", wrong);
    aclrtDestroyStream(stream);
    aclFinalize();
    return 0;
}
"""


# Expressions of the program that the mistake of a number replaces, and what the program then reports.
MISTAKES = [
    ('"-DCOUNT=37"', '"-DCOUNT=137"', 1, "shift.asc:19: error: ub_out_of_range"),
    ('"-DCOUNT=37"', '"-DOTHER=37"', 8, "176003 1 "),
    ('"--npu-arch=dav-2201"', '"--npu-arch=dav-3510"', 8, "176003 1 --npu-arch: got 'dav-3510'"),
    ('"Kernels::shift<int32_t>"', '"Kernels::move<int32_t>"', 8, "error: "),
    ('"plain"', '"shift"', 9, "aclrtBinaryGetFunction: got 'shift', expected a kernel that is declared"),
    ("loaded /* by name */", "stream", 9, "binHandle is no live handle"),
    ("0 /* bytes */", "8", 9, "expected a result of aclrtcGetBinData"),
    ('"sub/factor.h"', '"../factor.h"', 9, "header 0 is '../factor.h', expected a text and a relative path"),
    ("sizeof(summand)", "4", 7, "paramSize of parameter 2 of expression0_Kernels"),
    ("aclrtKernelArgsFinalize(values)", "ACL_SUCCESS", 7, "without aclrtKernelArgsFinalize, expected all 4"),
    ("aclrtcAddNameExpr(program, expression)", "ACL_SUCCESS", 9, "expected an expression of aclrtcAddNameExpr"),
]


@pytest.fixture(scope="session")
def program(once):
    """Return the program; its argument is the number of a mistake."""

    def compiled(folder):
        text = PROGRAM
        for number, (old, new, _, _) in enumerate(MISTAKES):
            assert old in text
            text = text.replace(old, f"(mistake == {number} ? {new} : {old})")
        (folder / "program.cpp").write_text(text.replace("KERNELS", KERNELS, 1))
        compile_program([folder / "program.cpp"], folder / "program")

    return once("runtime_compile", compiled) / "program"


def _run(*words, path=""):
    environment = {**os.environ, "PATH": path or f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_kernels_of_strings(program):
    """Templates, structures and headers compile at run time; both forms of launches give the right results."""
    ended = _run(program)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "0 wrong\n", "")


@pytest.mark.parametrize("number", range(len(MISTAKES)), ids=[new for _, new, _, _ in MISTAKES])
def test_planted_mistakes(program, number):
    _, _, code, message = MISTAKES[number]
    ended = _run(program, str(number))
    assert message in ended.stdout + ended.stderr
    assert ended.returncode == code


# Two instructions of the vector unit without a barrier between them.
UNORDERED = """
#include <vector>
#include "acl/acl.h"
#include "acl/acl_rt_compile.h"
int main(int count, char** words)
{
    const char* source = R"(#include "kernel_operator.h"
        extern "C" __global__ __vector__ void kernel(GM_ADDR x)
        {
            AscendC::TPipe pipe;
            AscendC::TBuf<> buffer;
            pipe.InitBuffer(buffer, 256);
            AscendC::LocalTensor<float> a = buffer.Get<float>();
            AscendC::Duplicate(a, 1.0f, 64);
            AscendC::Muls(a, a, 3.0f, 64);
        })";
    aclrtcProg program = nullptr;
    size_t size = 0;
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtcCreateProg(&program, source, "kernel.asc", 0, nullptr, nullptr);
    aclrtcCompileProg(program, count - 1, const_cast<const char**>(words + 1));
    aclrtcGetBinDataSize(program, &size);
    std::vector<char> binary(size);
    aclrtcGetBinData(program, binary.data());
    aclrtcDestroyProg(&program);
    aclrtBinHandle loaded = nullptr;
    aclrtFuncHandle function = nullptr;
    void* x = nullptr;
    void* values[] = {&x};
    aclrtBinaryLoadFromData(binary.data(), size, nullptr, &loaded);
    aclrtBinaryGetFunction(loaded, "kernel", &function);
    const int status = aclrtLaunchKernelWithArgsArray(function, 1, nullptr, nullptr, values);
    aclrtSynchronizeStream(nullptr);
    aclrtBinaryUnLoad(loaded);
    aclFinalize();
    return status;
}
"""


def test_order_by_the_compiler(tmp_path, place):
    """In level device, it applies if the options of the compilation do not disable it, also in the sandbox."""
    (tmp_path / "program.cpp").write_text(UNORDERED)
    program = compile_program([tmp_path / "program.cpp"], tmp_path / "program", level="device").path
    clean = _run(program, "--cce-auto-sync=on")
    assert (clean.returncode, clean.stderr) == (0, "")
    disabled = _run(program, "--cce-auto-sync=off")
    assert (disabled.returncode, "kernel.asc:9: error: race (block 0, pipe V)" in disabled.stderr) == (1, True)
    shutil.copy(program, place.programs)
    with compiling(place.scratch, place.answers, SETTINGS):
        result = place.run([str(place.programs / "program"), "--cce-auto-sync=off"], place.scratch)
    assert "kernel.asc:9: error: race (block 0, pipe V)" in result.output


def test_without_opforge_in_path(program, tmp_path):
    ended = _run(program, path=str(tmp_path))
    assert (ended.returncode, "expected the command in PATH" in ended.stdout) == (8, True)


SETTINGS = {"soc": "Ascend910B1", "level": "device"}


@pytest.fixture
def place(tmp_path):
    """The folders of a program in the sandbox of `opforge coverage`."""
    scratch, made = tmp_path / "scratch", tmp_path / "made"
    scratch.mkdir()
    made.mkdir()
    return Place(scratch, made, 120.0, 4096, answers=made / "answers")


def test_kernels_of_strings_in_the_sandbox(program, place):
    """The program starts no process: opforge compiles for it."""
    shutil.copy(program, place.programs)
    with compiling(place.scratch, place.answers, SETTINGS):
        right, wrong = (place.run([str(place.programs / "program"), word], place.scratch) for word in ("-1", "2"))
    assert (right.status, right.output.strip()) == (0, "0 wrong")
    assert wrong.output.startswith("176003 1 --npu-arch: got 'dav-3510'")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"option": "-MF/tmp/x"}, "options: got '-MF/tmp/x', expected -D, -U, -I, -O, -std or a warning"),
        ({"option": "-Wl,-o,x"}, "options: got '-Wl,-o,x', expected"),
        ({"option": "-fplugin=x.so"}, "options: got '-fplugin=x.so', expected"),
        ({"header/../x": "text"}, "name of a source: got '../x', expected"),
        ({"header//etc/x": "text"}, "name of a source: got '/etc/x', expected"),
        ({f"header/{number}": "" for number in range(70)}, "name of a source: got '64', expected at most 64"),
        ({"source/program.asc": "int x = y;"}, "'y' was not declared"),
        ({"unknown/x": ""}, "program.asc: cannot read the source"),
    ],
)
def test_wrong_requests(place, request_, message):
    """A program in the sandbox can write any request: no file outside of the folder of the answer changes."""
    folder = place.scratch / "opforge-rtc-abcdef"
    folder.mkdir()
    (place.scratch / "opforge-rtc-linked").symlink_to("/etc")
    (folder / "request").write_text("".join(f"{key}\0{value}\0" for key, value in request_.items()))
    answer = place.answers / folder.name
    with compiling(place.scratch, place.answers, SETTINGS):
        while not (answer / "status").exists():
            pass
    assert (answer / "status").read_text() == "2"
    assert message in (answer / "log").read_text()
    assert list(place.answers.iterdir()) == [answer]
    assert {path.name for path in answer.iterdir()} == {"log", "status", "sources"}
