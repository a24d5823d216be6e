"""Test kernels that block, end the process, or start others: rejected before they run, or findings of an isolated
launch."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import ml_dtypes
import numpy as np
import pytest

from opforge.codegen.errors import UserError
from opforge.codegen.new import new_project
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.twin import AclnnError, FindingsError, launch, run
from opforge.twin.lint.kernel_lint import lint_text
from opforge.twin.runtime import kernel_source, operator_run

START = """
#include "kernel_operator.h"
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
using namespace AscendC;
"""
KERNEL = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    GlobalTensor<int32_t> yGm;
    yGm.SetGlobalBuffer((__gm__ int32_t*)y);
    const int32_t zero = yGm.GetValue(0);
    int32_t result = zero + 7;
    BODY
    yGm.SetValue(0, result);
    DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(yGm);
}
"""
# name -> (body, kinds of findings, words of the first message)
DEATHS = {
    "returns": ("", [], ""),
    "exits": ("if (zero == 0) { exit(0); }", ["process_exit"], "ended the process with exit(0)"),
    "exits_at_once": ("if (zero == 0) { _exit(0); }", ["process_exit"], "ended the process with exit(0)"),
    "exits_with_3": ("if (zero == 0) { exit(3); }", ["process_exit"], "ended the process with exit(3)"),
    "kills_itself": ("kill(getpid(), SIGKILL);", ["process_killed"], "killed by SIGKILL"),
    "raises": ("raise(SIGTERM);", ["process_killed"], "killed by SIGTERM"),
    "sends_an_unnamed_signal": ("raise(SIGRTMIN + 3);", ["process_killed"], "killed by signal 37"),
    "kills_its_supervisor": ("kill(getppid(), SIGKILL); pause();", ["process_killed"], "supervises it"),
    "frees_twice": ("char* volatile p = (char*)malloc(24); free(p); free(p);", ["abort"], "the kernel aborted"),
    "forks": ("if ((result = fork()) == 0) { for (;;) { pause(); } }", ["process_left"], "left 1 child process;"),
    "forks_and_ends": ("if (fork() == 0) { _exit(0); }", ["process_left"], "left 1 child process;"),
    "forks_a_daemon": (
        "if (fork() == 0) { setsid(); if (fork() == 0) { setsid(); } for (;;) { pause(); } }",
        ["process_left"],
        "the kernel left ",
    ),
    "forks_and_exits": (
        "if (fork() == 0) { for (;;) { pause(); } } exit(0);",
        ["process_exit", "process_left"],
        "with exit(0)",
    ),
    "sleeps": ("sleep(100000);", ["endless_loop"], "a call that blocks"),
    "locks_twice": ("pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; pthread_mutex_lock(&m); pthread_mutex_lock(&m);",
                    ["endless_loop"], "a call that blocks"),
    "sleeps_deaf": (
        "sigset_t all; sigfillset(&all); pthread_sigmask(SIG_BLOCK, &all, nullptr); for (;;) { sleep(1000); }",
        ["time_limit"],
        "did not end within 3 s",
    ),
    "ends_its_thread": ("syscall(SYS_exit, 0);", ["time_limit"], "did not end within 3 s"),
    "closes_all": ("for (int fd = 0; fd < 256; ++fd) { close(fd); }", ["process_exit"], "ended the process with exit("),
    "writes_everywhere": ('for (int fd = 3; fd < 64; ++fd) { (void)!write(fd, "{}", 2); }', [], ""),
    "writes_and_exits": (
        'for (int fd = 3; fd < 64; ++fd) { (void)!write(fd, "{}", 2); } exit(0);', ["process_exit"], "exit(0)"
    ),
}  # fmt: skip
SOURCE = START + "".join(KERNEL.replace("NAME", name).replace("BODY", body) for name, (body, _, _) in DEATHS.items())
ENDLESS_START = "struct Spins { Spins() { for (volatile int i = 0;; ) { i = 1; } } } spins;"
IN_PROCESS = ["returns", *(name for name, (_, kinds, _) in DEATHS.items() if kinds == ["endless_loop"])]


def isolated(source, symbol, **options):
    y = np.zeros(16, np.int32)
    return launch(source, symbol, 1, [y], lint=False, isolate=True, **{"timeout": 60, **options}), y


@pytest.fixture(autouse=True)
def _short_limit(monkeypatch):
    monkeypatch.setenv("OPFORGE_TWIN_TIMEOUT", "1")


@pytest.mark.parametrize("name", DEATHS)
def test_a_dying_kernel_is_a_finding_of_its_launch(name):
    _, kinds, words = DEATHS[name]
    findings, y = isolated(SOURCE, name, timeout=3 if kinds == ["time_limit"] else 60)
    assert [finding.kind for finding in findings] == kinds, findings
    assert not kinds or words in findings[0].message
    assert not kinds or findings[0].message.startswith(name)
    assert (y[0] != 0) == (kinds in ([], ["process_left"]))


# Actions of the child process of a call -> (kinds of findings, words of the first message)
CHILDREN = {
    "os._exit(0)": (["process_exit"], "GroupedBiasAddGrad: the kernel ended the process with exit(0)"),
    "os.kill(os.getpid(), 9)": (["process_killed"], "killed by SIGKILL"),
    "os.kill(os.getppid(), 9) or time.sleep(99)": (["process_killed"], "supervises it"),
    "os.fork() or time.sleep(1000)": (["process_left"], "left 1 child process;"),
    "threading.Thread(target=lambda: LIBC.syscall(60, 0)).run()": (["time_limit"], "did not end within 5 s"),
    "[signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64)), time.sleep(1000)]": (["time_limit"], "within 5 s"),
}
OTHER_CALL = """
import ctypes, os, signal, threading, time
from opforge.twin.runtime.aclnn_call import AclnnCall
LIBC = ctypes.CDLL(None)
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()

class OtherCall(AclnnCall):
    def execute(self, *given):
        WORK
        return super().execute(*given)
"""
ROWS = np.arange(24, dtype=np.float32).reshape(6, 4)


def grouped(rows=ROWS, **options):
    inputs = {"grad_y": rows, "group_idx": np.array([2, 6])}
    return run("GroupedBiasAddGrad", inputs, isolate=True, **{"timeout": 60, **options})


@pytest.mark.parametrize("work", CHILDREN)
def test_a_dying_child_of_a_call_is_an_error(work, tmp_path, monkeypatch):
    kinds, words = CHILDREN[work]
    name = f"other_call_{len(work)}"
    (tmp_path / f"{name}.py").write_text(OTHER_CALL.replace("WORK", work), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(operator_run, "AclnnCall", importlib.import_module(name).OtherCall)
    out = np.full((2, 4), 7, np.float32)
    with pytest.raises(FindingsError) as caught:
        grouped(outputs={"grad_bias": out}, timeout=5 if kinds == ["time_limit"] else 60)
    assert [finding.kind for finding in caught.value.findings] == kinds
    assert words in str(caught.value)
    assert (out == 7).all() == (kinds != ["process_left"])


def test_isolated_call_equals_an_in_process_call():
    rows = ROWS.copy()
    wide = np.zeros((2, 9), np.float32)
    outputs = [{"grad_bias": rows[:2]}, {"grad_bias": wide[:, ::-2][:, :4]}, {}]
    for given in (rows, rows[::-1], np.repeat(ROWS, 3, axis=1)[:, ::3]):
        for output in outputs:
            expected = np.array([given[:2].sum(0), given[2:].sum(0)])
            found = grouped(given, outputs=output)
            np.testing.assert_array_equal(found["grad_bias"], expected)
            assert not output or found["grad_bias"] is output["grad_bias"]
            assert found.report == run("GroupedBiasAddGrad", {"grad_y": given, "group_idx": np.array([2, 6])}).report


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"rows": ROWS.astype(np.float64)}, AclnnError, "got float64, expected float16"),
        ({"rows": ROWS[0]}, AclnnError, "161002"),
        ({"rows": np.broadcast_to(np.float32(1), (1 << 58, 1))}, AclnnError, "288230376151711744"),
        ({"rows": np.lib.stride_tricks.as_strided(ROWS, (2, 4), (1 << 37, 4))}, UserError, "expected memory and a "),
        ({"storage_offset": 1 << 38}, UserError, "68719476736 are free"),
        ({"timeout": 0}, UserError, "timeout: got 0, expected a positive number of seconds"),
        ({"timeout": "1"}, UserError, "timeout: got '1', expected"),
    ],
)
def test_isolated_call_is_rejected_like_an_in_process_call(options, error, words):
    with pytest.raises(error, match=re.escape(words)):
        grouped(**options)


@pytest.mark.all
def test_a_kernel_that_ends_its_thread_ends_by_the_time_limit(tmp_path, monkeypatch):
    """Lint, which rejects such a kernel, is off."""
    folder = new_project("Clip", tmp_path / "clip", "elementwise")
    kernel = folder / "op_kernel" / "clip.h"
    text = kernel.read_text(encoding="utf-8").replace(
        "void Process()\n    {", "void Process()\n    {\n        STOP;", 1
    )
    assert "STOP" in text
    kernel.write_text(f"#include <unistd.h>\n{text.replace('STOP', 'syscall(60, 0)')}", encoding="utf-8")
    for module, name in (("lint.kernel_lint", "require_clean"), ("compiler.kernel_objects", "require_device_code")):
        monkeypatch.setattr(f"opforge.twin.{module}.{name}", lambda *_: None)
    with pytest.raises(FindingsError) as caught:
        run("Clip", {"x": np.zeros(64, np.float32)}, project=Project(folder), isolate=True, timeout=5)
    assert [finding.kind for finding in caught.value.findings] == ["time_limit"]


def test_a_child_of_a_kernel_is_ended():
    findings, y = isolated(SOURCE, "forks")
    assert [finding.kind for finding in findings] == ["process_left"]
    with pytest.raises(ProcessLookupError):
        os.kill(int(y[0]), 0)


def test_a_constructor_without_end_is_ended():
    findings, _ = isolated(START + ENDLESS_START + KERNEL.replace("NAME", "k").replace("BODY", ""), "k", timeout=2)
    assert [finding.kind for finding in findings] == ["time_limit"]


@pytest.mark.parametrize("name", IN_PROCESS)
def test_a_blocked_kernel_is_ended_without_isolation_too(name):
    _, kinds, words = DEATHS[name]
    findings = launch(SOURCE, name, 2, [np.zeros(16, np.int32)], lint=False, strict=False)
    assert [finding.kind for finding in findings if finding.kind == "endless_loop"] == kinds
    assert not kinds or words in findings[0].message


@pytest.mark.parametrize("ending", ["SIGKILL", "SIGINT"])
def test_a_kernel_ends_with_its_caller(ending):
    """Every process has stdout open: it is closed when all processes have ended."""
    body = 'printf("runs\\n"); fflush(stdout); for (;;) { sleep(1000); }'
    source = START + KERNEL.replace("NAME", "k").replace("BODY", body)
    script = (
        f"import numpy as np; from opforge.twin import launch; launch({source!r}, 'k', 1, [np.zeros(8, np.int32)], "
    )
    script += "lint=False, isolate=True)"
    caller = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OPFORGE_TWIN_TIMEOUT": "600"},
    )
    with caller:
        assert caller.stdout.readline() == b"runs\n"
        caller.send_signal(signal.Signals[ending])
        caller.communicate(timeout=60)


# name -> arrays of a launch whose kernel adds 1 to the first int32 of x, then of y
OVERLAPPING = np.zeros(96, np.uint8)
ARRAYS = {
    "apart": (np.zeros(16, np.int32), np.zeros((4, 4), np.int32)),
    "same": (OVERLAPPING, OVERLAPPING),
    "overlapping": (OVERLAPPING[:64], OVERLAPPING[32:]),
    "bfloat16": (np.zeros(32, ml_dtypes.bfloat16), np.zeros((), np.int32)),
    "complex and bool": (np.zeros(8, np.complex64), np.zeros(64, bool)),
}
ADDS = (
    START.replace("#include <pthread.h>", "")
    + """
extern "C" __global__ __aicore__ void adds(GM_ADDR x, GM_ADDR y)
{
    GlobalTensor<int32_t> gm;
    for (GM_ADDR at : {x, y}) {
        gm.SetGlobalBuffer((__gm__ int32_t*)at);
        gm.SetValue(0, gm.GetValue(0) + 1);
        DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(gm);
    }
}
"""
)


@pytest.mark.parametrize("name", ARRAYS)
def test_isolated_results_equal_those_of_an_in_process_launch(name):
    results = []
    for isolate in (False, True):
        for array in ARRAYS[name]:
            array[...] = 0
        findings = launch(ADDS, "adds", 1, ARRAYS[name], isolate=isolate, lint=False)
        results.append(([finding.kind for finding in findings], [array.tobytes() for array in ARRAYS[name]]))
    assert results[0] == results[1]
    assert any(any(content) for content in results[0][1])


def test_an_isolated_kernel_may_have_no_elements():
    kernel = 'extern "C" __global__ __aicore__ void nothing(GM_ADDR x) {}'
    assert launch(f'#include "kernel_operator.h"\n{kernel}', "nothing", 1, [np.zeros(0)], isolate=True) == []


# A call in the text of a kernel -> the rule that rejects it
REFUSED = {
    "exit(0);": "c-function",
    "::exit(0);": "c-function",
    "_exit(0);": "c-function",
    "_Exit(0);": "c-function",
    "quick_exit(0);": "c-function",
    "abort();": "c-function",
    "sleep(1);": "c-function",
    "usleep(1);": "c-function",
    "pthread_mutex_lock(nullptr);": "c-function",
    "fork();": "c-function",
    "vfork();": "c-function",
    'system("ls");': "c-function",
    "raise(9);": "c-function",
    "kill(1, 9);": "c-function",
    "signal(9, nullptr);": "c-function",
    "syscall(60, 0);": "c-function",
    "std::mutex m;": "std",
    "static int32_t count = 0;": "static",
    'asm("syscall");': "asm",
}


@pytest.mark.parametrize("text", REFUSED)
def test_lint_refuses_calls_of_the_host(text):
    found = lint_text(KERNEL.replace("BODY", text), "k.h")
    assert [finding.rule for finding in found] == [REFUSED[text]]


@pytest.mark.parametrize("attribute", ["constructor", "__constructor__", "destructor", "constructor(101)"])
def test_lint_refuses_functions_that_run_when_the_library_is_loaded(attribute):
    found = lint_text(f"__attribute__(({attribute})) __aicore__ inline void F() {{}}", "k.h")
    assert [finding.rule for finding in found] == ["static"]


# Text hidden from lint -> the finding in the compiled kernel.
HIDDEN = {
    "#define JOIN(a, b) a##b\nextern \"C\" __aicore__ void JOIN(ex, it)(int32_t);|JOIN(ex, it)(0);":
        "calls 'exit' of the host",
    "#define JOIN(a, b) a##b\nextern \"C\" __aicore__ int32_t JOIN(fo, rk)();|result = JOIN(fo, rk)();":
        "calls 'fork' of the host",
    "extern \"C\" __aicore__ int32_t getpid() __attribute__((weak));|result = getpid();": "calls 'getpid' of the host",
    "__aicore__ int32_t rest() __asm__(\"sleep\");|result = rest();": "asm",
    "#define JOIN(a, b) a##b|JOIN(__as, m__)(\"syscall\" : : \"a\"(60), \"D\"(0));": "asm: instructions of the host",
    "#define GLOBAL S s;\nstruct S { __aicore__ S() : i(GetBlockIdx()) {} int64_t i; };\nGLOBAL|":
        "code that runs when it is loaded",
}  # fmt: skip


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize("hidden", HIDDEN)
def test_hidden_host_calls_are_found_in_the_compiled_kernel(hidden, isolate):
    before, body = hidden.split("|")
    source = f'#include "kernel_operator.h"\nusing namespace AscendC;\n{before}\n' + KERNEL.replace("NAME", "k")
    with pytest.raises(UserError) as refused:
        launch(source.replace("BODY", body), "k", 1, [np.zeros(16, np.int32)], isolate=isolate)
    assert HIDDEN[hidden] in str(refused.value)


@pytest.mark.all
def test_build_refuses_a_call_of_the_host_that_a_macro_hides(tmp_path):
    def opforge(*arguments, folder):
        command = [sys.executable, "-c", "from opforge.cli.main import main; main()", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)

    assert opforge("new", "LeakyClip", "--starter", "elementwise", folder=tmp_path).returncode == 0
    kernel = tmp_path / "leaky_clip" / "op_kernel" / "leaky_clip.h"
    declared = '#define JOIN(a, b) a##b\nextern "C" __aicore__ int32_t JOIN(fo, rk)();\n'
    text = kernel.read_text(encoding="utf-8").replace("namespace ", f"{declared}namespace ", 1)
    assert "void Process()\n" in text
    head, _, body = text.partition("void Process()\n")
    kernel.write_text(head + "void Process()\n" + body.replace("{", "{ JOIN(fo, rk)();", 1), encoding="utf-8")
    built = opforge("build", folder=tmp_path / "leaky_clip")
    assert built.returncode == 2
    assert "calls 'fork' of the host" in built.stderr
    assert "Traceback" not in built.stderr


FORGED = """
#include "kernel_operator.h"
#include <signal.h>
#include <unistd.h>
extern "C" __global__ __aicore__ void forged(GM_ADDR y) {
    const char form[] = "{\\"findings\\": 5}";
    static char deep[9999];
    for (char& c : deep) c = '[';
    for (int f = 3; f < 64; ++f) (void)!CALL;
    (void)form;
    _exit(0);
}
"""


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("pwrite(f, form, sizeof form - 1, 0)", "process_exit"),
        ("pwrite(f, deep, sizeof deep, 0)", "process_exit"),
        ("ftruncate(f, 3LL << 30)", "process_exit"),
        ("(kill(getppid(), SIGSTOP) + sleep(1000))", "process_killed"),
    ],
    ids=["another form", "deep", "long", "stopped supervisor"],
)
def test_a_kernel_that_forges_its_report_or_stops_its_supervisor_is_found(call, kind):
    findings, y = isolated(FORGED.replace("CALL", call), "forged", timeout=2)
    assert [finding.kind for finding in findings] == [kind]
    assert not y.any()


@pytest.mark.parametrize(
    "source", ["a" * 5000 + ".cpp", '#include "x" {\udc80}', "latin.cpp"], ids=["long path", "surrogate", "latin"]
)
def test_a_source_that_cannot_be_read_is_a_user_error(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin.cpp").write_bytes(b"\xff{")
    with pytest.raises(
        UserError,
        match=r"File name too long|expected text that UTF-8 can encode|expected a kernel source \(.h, .cpp\) in UTF-8",
    ):
        launch(source, "k", 1, [np.zeros(4, np.float32)])


NOTHING = """#include "kernel_operator.h"
extern "C" __global__ __aicore__ void nothing(GM_ADDR x /* in ) */) { AscendC::TPipe pipe; }
"""
PLACES = {
    "other bytes": lambda path, _: path.write_bytes(b"\xff\xfe"),
    "pipe": lambda path, _: os.mkfifo(path),
    "folder": lambda path, _: path.mkdir(),
    "ring": lambda path, _: path.symlink_to(path.name),
    "device": lambda path, _: path.symlink_to("/dev/zero"),
    "link to a file of the user": lambda path, mine: path.symlink_to(mine),
}


@pytest.mark.parametrize("kind", PLACES)
def test_other_entry_at_the_path_of_a_kept_source_is_replaced(tmp_path, kind):
    source, mine = f"// {kind}\n{NOTHING}", tmp_path / "mine"
    mine.write_text("mine", encoding="utf-8")
    home = Project(BUILTIN_ROOT).build_dir / "twin" / "launch"
    name = hashlib.sha256(f"\0{source}\0{2201}".encode()).hexdigest()[:16]
    for path in home.glob(f"{name}*"):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    home.mkdir(parents=True, exist_ok=True)
    PLACES[kind](home / f"{name}.cpp", mine)
    assert launch(source, "nothing", 1, [np.zeros(8, np.float32)]) == []
    assert (home / f"{name}.cpp").read_text(encoding="utf-8") == source
    assert mine.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("name", ["kernel", "kernel.txt", "kernel.h", "kernel.o", "kernel.ii", "-kernel.cpp"])
def test_a_source_may_have_any_name(tmp_path, name):
    (tmp_path / name).write_text(NOTHING, encoding="utf-8")
    assert launch(tmp_path / name, "nothing", 1, [np.zeros(8, np.float32)]) == []


@pytest.mark.parametrize(
    "options",
    [
        *({"source": value} for value in (None, 5, b"x", [], {})),
        *({"symbol": value} for value in (None, 5, b"x", [], "absent")),
        *({"buffers": value} for value in (None, 5, 1.5)),
        *({"task_type": value} for value in (None, [], np.zeros(2))),
        *({"timeout": value, "isolate": True} for value in (1e300, float("inf"), float("nan"), None)),
    ],
    ids=str,
)
def test_arguments_of_another_type_are_user_errors(options):
    call = {"source": NOTHING, "symbol": "nothing", "blocks": 1, "buffers": [np.zeros(8, np.float32)], **options}
    with pytest.raises(UserError, match=f"^{next(iter(options))}: got "):
        launch(**call)


@pytest.mark.parametrize("repeated", ["/*,", "__global__ ", "__global__ k(", "k(", "k ", '"', "//\n"])
def test_parameters_are_found_in_linear_time(repeated):
    started = time.monotonic()
    for text in (f'"{repeated * 40_000}"', repeated * 40_000):
        kernel_source._parameters(text, "k")
    assert kernel_source._parameters(f'"/*" {NOTHING}', "nothing") == "GM_ADDR x  "
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "ring", "no folder", "long"])
def test_a_trace_replaces_regular_files_only(tmp_path, monkeypatch, kind):
    """A rename would also replace a device; the test uses none, since it may run as root."""
    mine, trace = tmp_path / "mine", tmp_path / "trace.json"
    mine.write_text("mine", encoding="utf-8")
    makers = {"pipe": os.mkfifo, "folder": os.mkdir, "link": lambda path: path.symlink_to(mine)}
    makers |= {"ring": lambda path: path.symlink_to(path.name), "no folder": lambda _: None, "long": lambda _: None}
    makers[kind](trace)
    names = {"no folder": tmp_path / "absent" / "t.json", "long": tmp_path / ("x" * 300)}
    before = {path: path.lstat().st_ino for path in tmp_path.iterdir()}
    monkeypatch.setenv("OPFORGE_TWIN_TRACE", str(names.get(kind, trace)))
    with pytest.raises(UserError, match="cannot write the trace of OPFORGE_TWIN_TRACE"):
        launch(NOTHING, "nothing", 1, [np.zeros(8, np.float32)])
    assert {path: path.lstat().st_ino for path in tmp_path.iterdir()} == before
    assert mine.read_text(encoding="utf-8") == "mine"


def test_temporary_file_of_a_trace_is_unique(tmp_path, monkeypatch):
    mine, trace = tmp_path / "mine", tmp_path / "trace.json"
    mine.write_text("mine", encoding="utf-8")
    (tmp_path / "trace.json.partial").symlink_to(mine)
    monkeypatch.setenv("OPFORGE_TWIN_TRACE", str(trace))
    assert launch(NOTHING, "nothing", 1, [np.zeros(8, np.float32)]) == []
    assert "traceEvents" in trace.read_text(encoding="utf-8")
    assert mine.read_text(encoding="utf-8") == "mine"
