"""Compile and run small clones with `opforge coverage`: rows, resuming, scripts, and hostile files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_runner import command_line
from coverage_clone import (
    AGAIN,
    DEVICE_KERNEL,
    ESCAPES,
    GENERATE,
    LAUNCHES,
    NAMED_HEADER,
    NAMED_KERNEL,
    NAMED_TEST,
    OWN_STRUCTURE,
    PRINTS,
    READ,
    STEPS,
    VERIFY,
    example,
    operator,
)
from typer.testing import CliRunner

from opforge.cli.app import app
from opforge.twin.coverage.cmake_text import read_programs, read_scenarios, read_steps
from opforge.twin.coverage.command import _find
from opforge.twin.coverage.discover import find_sources, included_names
from opforge.twin.coverage.execute import Row
from opforge.twin.coverage.op_sources import read_definition, tiling_header
from opforge.twin.coverage.program_text import first_error, reported_result
from opforge.twin.coverage.report import print_totals, status_of
from opforge.twin.coverage.walk import MOST_DEPTH, list_files
from opforge.twin.program.messages import missing_names, wrong_launches

pytestmark = pytest.mark.slow


def read_cmake(text):
    return read_programs(text, {})


def coverage(clone, folder, *more, code=None):
    """Return the result of a run as data, and its output."""
    answer = folder / "answer.json"
    words = ("coverage", clone, "--json", answer, "-j", "1", "--state", folder / "state.jsonl")
    done = command_line()(*words, *more)
    if code is not None:
        assert done.returncode == code, done.stdout + done.stderr
    return json.loads(answer.read_text()) if answer.exists() else {}, done.stdout + done.stderr


def rows_of(result):
    """Return the rows by file name."""
    return {Path(row["path"]).stem: row for row in result["sources"]}


@pytest.fixture(scope="module")
def clone(once):
    return once("clone", _write_clone) / "own_ops"


def _write_clone(parent):
    folder = parent / "own_ops"
    operator(folder, "right_op", before='#include "../../../op_host/right_op_tiling_def.h"')
    operator(folder, "wrong_op", factor="3.0f")
    operator(folder, "far_op", extra="+ 64")
    start = 'char text[4]; ASSERT_EQ(memcpy_s(text, 4, "abc", 4), EOK); ASSERT_NE(memcpy_s(text, 3, text, 4), EOK);'
    operator(folder, "own_op", before=OWN_STRUCTURE, start=start, kernel=AGAIN)
    operator(folder, "named_op", before=NAMED_TEST, kernel=NAMED_KERNEL)
    (folder / "math/named_op/tests/ut/op_kernel/named_op_tiling_def.h").write_text(NAMED_HEADER)
    # The header of the test has no dtypes: those of the definition replace them.
    before, kernel, header = (
        text.replace("Named", "Dtype").replace("named", "dtype") for text in (NAMED_TEST, NAMED_KERNEL, NAMED_HEADER)
    )
    operator(folder, "dtype_op", before=before, kernel=kernel)
    header = header.replace("#define DTYPE_X float\n", "")
    assert "DTYPE_X" not in header
    (folder / "math/dtype_op/tests/ut/op_kernel/dtype_op_tiling_def.h").write_text(header)
    operator(folder, "device_op", kernel=DEVICE_KERNEL)
    structures = folder / "math" / "shared" / "op_host" / "shared_tiling.h"
    structures.parent.mkdir(parents=True)
    host = folder / "math" / "device_op" / "op_host"
    (host / "device_op_tiling_def.h").rename(structures)
    (host / "device_op_tiling.cpp").write_text('#include "../../shared/op_host/shared_tiling.h"\n')
    operator(
        folder, "later_op", kernel='#include "kernel_operator.h"\n#include "arch35/later_op.h"\n__global__ void f();\n'
    )
    (folder / "math/later_op/op_host/later_op_def.cpp").write_text("OP_ADD(LaterOp);")
    (folder / "math/later_op/op_kernel/later_op_apt.cpp").unlink()
    operator(
        folder, "unknown_op", kernel='#include "kernel_operator.h"\n__global__ void f() { AscendC::NoSuchCall(1); }\n'
    )
    operator(folder, "other_op", chip="ascend310p")
    example(folder, "passes", PRINTS.replace("@", "pass"))
    example(folder, "fails", PRINTS.replace("@", "failed"))
    _write_modes(folder)
    example(folder, "reads", READ, scripts={"gen_data.py": GENERATE, "verify_result.py": VERIFY}, readme=STEPS)


MODES = """
set(MODE "1" CACHE STRING "mode")
if(NOT MODE MATCHES "^[1-4]$" OR MODE EQUAL 3 AND NOT CMAKE_ASC_ARCHITECTURES STREQUAL "dav-3510")
    message(FATAL_ERROR "no mode")
endif()
target_compile_definitions(demo PRIVATE MODE=${MODE})
"""


def _write_modes(folder):
    """Write an example with two scenarios: the second one is wrong. It refuses two other values."""
    refused = 'static_assert(MODE < 4, "no mode");\n'
    example(folder, "modes", PRINTS.replace('"test @!"', 'MODE == 1 ? "test pass!" : "test failed!"') + refused)
    with (folder / "examples" / "modes" / "CMakeLists.txt").open("a") as file:
        file.write(MODES)


@pytest.fixture(scope="module")
def first(clone, once):
    def run(folder):
        _, text = coverage(clone, folder, "--html", str(folder / "page.html"), code=1)
        (folder / "text").write_text(text)

    folder = once("coverage", run)
    return folder, json.loads((folder / "answer.json").read_text()), (folder / "text").read_text()


def facts(row):
    return row["compiled"], row["ran"], row["right"]


def test_rows_state_compile_run_and_result_status(first):
    _, result, _ = first
    rows = rows_of(result)
    assert facts(rows["right_op"]) == (True, True, True)
    assert facts(rows["wrong_op"]) == (True, True, False)
    assert facts(rows["own_op"]) == (True, True, True), rows["own_op"]
    assert facts(rows["named_op"]) == (True, True, True), rows["named_op"]
    assert facts(rows["dtype_op"]) == (True, True, True), rows["dtype_op"]
    assert facts(rows["device_op"]) == (True, True, True), rows["device_op"]
    assert facts(rows["unknown_op"]) == (False, False, None)
    assert facts(rows["passes"]) == (True, True, True)
    assert facts(rows["fails"]) == (True, True, False)
    assert facts(rows["reads"]) == (True, False, None)
    assert "--run-scripts" in rows["reads"]["reason"]
    assert rows["right_op"]["findings"] == rows["wrong_op"]["findings"] == []


def test_all_scenarios_of_an_example_run(first):
    folder, result, text = first
    row = rows_of(result)["modes"]
    assert [(part["path"], facts(part)) for part in row["scenarios"]] == [
        ("MODE=1", (True, True, True)),
        ("MODE=2", (True, True, False)),
    ]
    assert (facts(row), row["launches"]) == ((True, True, False), 2)
    assert row["reason"] == "MODE=2: the program reports: test failed!"
    assert "(1 of 2 scenarios are right) - MODE=2: " in text
    assert "<div>MODE=2 <span" in (folder / "page.html").read_text()


def test_findings_have_a_kind_and_a_line(first):
    found = {entry["kind"]: entry["where"] for entry in rows_of(first[1])["far_op"]["findings"]}
    assert found["gm_out_of_range"].rpartition(":")[0].endswith("far_op.cpp")


def test_unknown_names_are_counted(first):
    _, result, text = first
    assert rows_of(result)["unknown_op"]["missing"] == ["NoSuchCall"]
    assert result["names"] == {"NoSuchCall": 1}
    assert "NoSuchCall" in text


def test_declared_names_are_counted(first):
    _, result, text = first
    (names,) = result["api_names"].values()
    assert names["missing"] == ["NoSuchCall"]
    reasons = {"MicroAPI": "Ascend 950 only", "OwnHalf": "the sources define it", "tiling": "a namespace"}
    assert names["not_counted"] == reasons
    assert {"DataCopy", "GlobalTensor", "TQue"} <= set(names["used"])
    assert names["declared"] == names["counted"] - 1 == len(names["used"]) - 4
    assert f"{names['declared']} of {names['counted']} names of the API are declared, 3 not counted" in text


def test_sources_of_other_chips_are_listed_with_a_reason(first):
    reasons = {Path(entry["path"]).stem: entry["reason"] for entry in first[1]["excluded"]}
    assert "ascend310p" in reasons["other_op"]
    assert "ascend950" in reasons["right_op_apt"]
    assert "arch35/later_op.h" in reasons["later_op"]


def test_page_has_every_row_and_loads_no_files(first):
    page = (first[0] / "page.html").read_text().replace("<wbr>", "")
    assert all(row["path"] in page for row in first[1]["sources"])
    assert "<script" not in page


def test_a_second_run_repeats_only_changed_sources(first, clone, tmp_path):
    folder, result, _ = first
    state = Path(shutil.copy(folder / "state.jsonl", tmp_path))
    before = state.read_text().splitlines()
    (clone / "examples" / "fails" / "fails.asc").write_text(PRINTS.replace("@", "passed"))
    again, _ = coverage(clone, tmp_path, code=1)
    assert len(state.read_text().splitlines()) == len(before) + 1
    rows = rows_of(again)
    assert rows["fails"]["right"] is True
    del rows["fails"]
    assert rows.items() <= rows_of(result).items()


def test_scripts_make_inputs_and_compare(clone, tmp_path):
    result, _ = coverage(clone, tmp_path, "--run-scripts", "--only", "reads", code=0)
    assert facts(rows_of(result)["reads"]) == (True, True, True)


ENDS = (
    LAUNCHES
    + """
#include <sys/stat.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
int main()
{
    LAUNCH;
    std::puts("test pass");
    std::fflush(stdout);
    END;
}
"""
)
FAR = {"to.SetValue(0, 7);": "to.SetValue(999, 8);"}
KEPT = {"AscendC::DataCacheCleanAndInvalid": "// "}
ENDLESS = {"to.SetValue(0, 7);": "for (volatile int i = 0;; i = i + 1) { }"}
REPORT = 'std::getenv("OPFORGE_TWIN_REPORT")'
OUT_OF_RANGE, NOT_FLUSHED, STOPPED = ["gm_out_of_range"], ["cache_not_flushed"], "the launch of fill did not complete"


PROGRAMS = [
    ({}, (True, True, True), [], 1, ""),
    ({"END": "return 3"}, (True, True, False), [], 1, "the program: exit code 3: test pass"),
    ({"LAUNCH;": ""}, (True, False, None), [], 0, "the program launches no kernel"),
    ({"pass": "failed!"}, (True, True, False), [], 1, "the program reports: test failed!"),
    ({"pass": "at its end"}, (True, True, None), [], 1, "the program reports no comparison"),
    (
        {"END": 'execl("/bin/true", "true", nullptr)'},
        (True, True, False),
        [],
        0,
        "no report: the program ended without",
    ),
    (
        {"aclrtMemcpy(&value": "// aclrtMemcpy(&value"},
        (True, True, None),
        [],
        1,
        "the program reports success, but it copies no results of a launch to the host",
    ),
    (KEPT, (True, True, True), NOT_FLUSHED, 1, ""),
    (KEPT | {"END": "return 1"}, (True, True, False), NOT_FLUSHED, 1, "the program: exit code 1: "),
    (
        {"END": f"std::remove({REPORT}); mkdir({REPORT}, 0700)"},
        *((True, True, False), [], 0, "the program: exit code 2: OPFORGE_TWIN_REPORT: cannot write"),
    ),
    (FAR, (True, True, False), OUT_OF_RANGE, 1, STOPPED),
    (FAR | {"END": "_exit(0)"}, (True, True, False), OUT_OF_RANGE, 1, STOPPED),
    (FAR | {"END": "std::quick_exit(0)"}, (True, True, False), OUT_OF_RANGE, 1, STOPPED),
    (FAR | {"END": "_Exit(9)"}, (True, True, False), OUT_OF_RANGE, 1, "the program: exit code 1: "),
]
LOOPS = (ENDLESS, (True, True, False), ["endless_loop"], 1, STOPPED)


def _run_programs(folder, programs=PROGRAMS):
    for number, (changes, *_) in enumerate(programs):
        text = ENDS
        for old, new in ({"LAUNCH;": "Launched();", "END": "return 0"} | changes).items():
            assert old in text
            text = text.replace(old, new)
        example(folder / "clone", f"ends{number}", text)
    return coverage(folder / "clone", folder)[0]


@pytest.fixture(scope="module")
def ends(once):
    return rows_of(json.loads((once("coverage_ends", _run_programs) / "answer.json").read_text()))


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_right_program_launches_kernels_and_succeeds(ends, number):
    _require(ends[f"ends{number}"], *PROGRAMS[number][1:])


@pytest.mark.all
def test_a_program_with_an_endless_kernel_is_not_right(tmp_path):
    (row,) = _run_programs(tmp_path, [LOOPS])["sources"]
    _require(row, *LOOPS[1:])


def _require(row, expected, kinds, launches, reason):
    assert (facts(row), [found["kind"] for found in row["findings"]]) == (expected, kinds), row
    assert row["launches"] == launches
    assert row["reason"].startswith(reason), row
    assert bool(row["reason"]) == bool(reason)


def test_hostile_files_become_rows(tmp_path):
    clone, outside = tmp_path / "clone", tmp_path / "outside.asc"
    outside.write_text(PRINTS)
    victim = tmp_path / "victim.txt"
    example(clone, "escapes", ESCAPES.replace("@", str(victim)))
    example(clone, "endless", "int main() { for (volatile int i = 0;; i = i + 1) { } }\n")
    example(clone, "included", '#include "/etc/passwd"\nint main() { return 0; }\n')
    example(clone, "self", "#include __FILE__\nint main() { return 0; }\n")
    example(
        clone,
        "slow",
        "template <int n> struct S { S<n - 1> a; S<n - 2> b; static constexpr int v = S<n-1>::v + S<n-2>::v; };\n"
        "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; ++i) { s += i % 7; } return s; }\n"
        "static_assert(f(1L << 40) > 0); int main() { return 0; }\n",
    )
    names = "\n".join(f"AscendC::Name{number};" for number in range(6000))
    example(clone, "names", f"#ifdef UNUSED\n{names}\nAscendC::{'A' * 1000};\n#endif\nint main() {{ return 0; }}\n")
    (clone / "linked.asc").symlink_to(outside)
    (clone / "huge.asc").write_text("//" + "x" * (3 << 20))
    deep = clone / "/".join(["d"] * (MOST_DEPTH + 3))
    deep.mkdir(parents=True)
    (deep / "deep.asc").write_text(PRINTS)
    os.mkfifo(clone / "pipe.asc")
    (clone / os.fsdecode(b"name\xff.asc")).write_text(PRINTS)
    result, text = coverage(clone, tmp_path, "--timeout", "6")
    rows = rows_of(result)
    assert facts(rows["escapes"]) == (True, True, True)
    assert not victim.exists()
    assert facts(rows["endless"]) == (True, False, None)
    assert "6 s" in rows["endless"]["reason"] or "CPU time" in rows["endless"]["reason"]
    for name in ("included", "self", "slow"):
        assert rows[name]["compiled"] is False
        assert rows[name]["reason"]
    assert "root:" not in json.dumps(result) + text
    assert "symbolic link" in rows["linked"]["reason"]
    assert "bytes" in rows["huge"]["reason"]
    assert "regular" in rows["pipe"]["reason"]
    assert rows["name\ufffd"]["reason"] == "its name is not UTF-8"
    assert any("deeper" in row["reason"] for row in result["sources"])
    assert result["api_names"]["clone"]["counted"] == 5000
    assert max(map(len, text.splitlines())) < 1000


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--level", "none"], "--level"),
        (["--soc", "Ascend910A"], "--soc"),
        (["--executor", "threads"], "--executor"),
        (["--timeout", "0"], "--timeout"),
    ],
)
def test_wrong_options_are_one_message(tmp_path, options, word):
    (tmp_path / "clone").mkdir()
    _, text = coverage(tmp_path / "clone", tmp_path, *options, code=2)
    assert word in text
    assert "Traceback" not in text


@pytest.mark.parametrize("page", ["answer.json", "./answer.json", "link/answer.json"])
def test_a_page_with_the_name_of_the_json_file_is_refused(tmp_path, page):
    """The file of the JSON result would be lost."""
    example(tmp_path / "clone", "passes", PRINTS.replace("@", "pass"))
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    before = sorted(tmp_path.iterdir())
    _, text = coverage(tmp_path / "clone", tmp_path, "--html", f"{tmp_path}/{page}", code=2)
    assert text.startswith(f"{tmp_path}/answer.json: cannot write the answer: the command also uses ")
    assert "Traceback" not in text
    assert sorted(tmp_path.iterdir()) == before


def test_each_source_is_found_once(clone):
    """Also in a folder that the command has twice, and in a folder below it. `--only` selects one of several texts."""
    found = _find([clone, clone.parent / "own_ops" / "." / "", clone / "examples"], ["passes", "right_op.cpp", "reads"])
    paths = sorted(source.path for _, sources in found.values() for source in sources)
    assert [Path(path).stem for path in paths] == ["passes", "reads", "right_op"]
    assert list(found) == ["own_ops", "examples"]


@pytest.mark.parametrize("option", ["--html", "--json"])
def test_files_of_the_clone_are_not_replaced(tmp_path, option):
    example(tmp_path / "clone", "passes", PRINTS)
    source = tmp_path / "clone" / "examples" / "passes" / "passes.asc"
    words = ["coverage", str(tmp_path / "clone"), "--state", str(tmp_path / "state.jsonl"), f"{option}={source}"]
    result = CliRunner().invoke(app, words)
    assert "the command also uses this file; choose another name" in str(result.exception)
    assert source.read_text() == PRINTS


def test_files_are_written_without_a_reader_of_the_output(tmp_path):
    for name in ("first", "second"):
        example(tmp_path / "clone", name, PRINTS.replace("@", "pass"))
    answer = tmp_path / "answer.json"
    command = [sys.executable, "-m", "opforge.cli", "coverage", tmp_path / "clone", "--state", tmp_path / "state"]
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as output:
        words = [*command, "--json", answer]
        done = subprocess.run(words, stdout=output, stderr=subprocess.PIPE, text=True, check=False, timeout=600)
    assert done.returncode == 2
    message = done.stderr.splitlines()[-1]  # the first run also reports that it compiles the twin
    assert message.startswith("standard output: cannot be written: Broken pipe; ")
    assert f"written completely before: {answer}" in message
    assert [row["right"] for row in json.loads(answer.read_text())["sources"]] == [True, True]


def test_reason_of_a_script_is_its_exit_code_and_error(tmp_path):
    text = "import sys\nprint('a note')\nprint('no space left', file=sys.stderr)\nsys.exit(3)\n"
    example(tmp_path / "clone", "makes", PRINTS, scripts={"gen_data.py": text, "verify_result.py": ""}, readme=STEPS)
    text = "import warnings\nwarnings.warn('a warning')\nprint('largest: 3')\nraise SystemExit(4)\n"
    scripts = {"gen_data.py": GENERATE, "verify_result.py": text}
    example(tmp_path / "clone", "checks", PRINTS, scripts=scripts, readme=STEPS)
    result, _ = coverage(tmp_path / "clone", tmp_path, "--run-scripts", code=1)
    reasons = {name: row["reason"] for name, row in rows_of(result).items()}
    assert reasons["makes"].endswith("gen_data.py: exit code 3: no space left")
    assert reasons["checks"] == "verification: exit code 4: largest: 3"


def test_message_about_a_limit_names_its_option(tmp_path):
    """The limits of the compiler come from options of this command."""
    text = "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; ++i) s += i; return s; }\n"

    names = "".join(f"struct T{i} {{ static constexpr long v = f(250000 + {i}); }};\n" for i in range(2000))
    example(tmp_path / "clone", "slow", text + names + PRINTS)
    result, _ = coverage(tmp_path / "clone", tmp_path, "--timeout", "2", code=0)
    assert (
        rows_of(result)["slow"]["reason"] == "slow.asc: the compiler takes more than 2 s; set --timeout 4 to allow more"
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0 of 16384 sums are wrong", True),
        ("3 of 16384 sums are wrong", False),
        ("10 of 16384 sums are wrong", False),
        ("largest error below 1e-5: yes", True),
        ("softmax: largest relative error below 1e-5: no", False),
        ("max error: 1e-7", None),
        ("test pass, max error 1e-7", True),
        ("test failed, max error 1e-7", False),
        ("5 passed, 0 failed", True),
        ("5 passed, 1 failed", False),
        ("error count: 0", True),
        ("error count: 0.5", False),
        ("error ratio: 0.0%", True),
        ("errors = 12", False),
        ("no errors", True),
        ("no input file, error", False),
        ("case 0 failed", False),
        ("[ERROR] result error", False),
        ("error: 0x10", False),
        ("a value", None),
        ("not correct", False),
        ("precision is not passed", False),
        ("success: false", False),
        ("all passed: no", False),
        ("0 passed", False),
        ("10 passed", True),
        ("passed 7/8", False),
        ("7 of 8 tests passed", False),
        ("8 of 8 tests passed", True),
        ("success rate: 99.5%", False),
        ("success rate: 100%", True),
        ("NG", False),
    ],
)
def test_result_in_a_line_of_output(line, expected):
    assert reported_result(line) == (expected, "" if expected is None else line)


def test_a_very_long_number_of_successes():
    assert reported_result(f"passed 1/{'2' * 5000}")[0] is False


@pytest.mark.parametrize(("only", "place"), [([], ""), (["--only", "op/"], ", --only 'op/'")])
def test_a_folder_without_sources_is_one_message(tmp_path, only, place):
    result = CliRunner().invoke(app, ["coverage", str(tmp_path), "--state", str(tmp_path / "state.jsonl"), *only])
    assert str(result.exception) == (
        f"{tmp_path}{place}: got no source, expected a clone with .asc files or op_kernel/*.cpp;"
        " correct the folder or --only"
    )


def test_excluded_sources_alone_are_reported(capsys):
    print_totals([], [], {})
    assert capsys.readouterr().out.startswith("no source was compiled; name the folder of a clone")


def test_a_missing_folder_is_one_message(tmp_path):
    file = tmp_path / "kernel.asc"
    file.write_text("")
    for given, got, fix in ((tmp_path / "none", "no folder", "correct the path"), (file, "a file", "pass its folder")):
        _, text = coverage(given, tmp_path, code=2)
        assert text.startswith(f"{given}: got {got}, expected the folder of a clone with Ascend C sources; {fix}")


def test_dask_gives_the_same_rows(clone, tmp_path):
    distributed = pytest.importorskip("distributed")
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        result, _ = coverage(clone, there, "--only", "op/", "--executor", f"dask:{cluster.scheduler_address}", code=1)
    local, _ = coverage(clone, here, "--only", "op/", code=1)
    for row in (*result["sources"], *local["sources"]):
        del row["seconds"]
    assert result["sources"] == local["sources"]
    assert len(local["sources"]) > 4
    assert {status_of(Row(**row)) for row in local["sources"]} >= {"right", "wrong", "failed"}


def test_cmake_conditions_and_variables_are_read():
    text = """
    set(KIND "a" CACHE STRING "x")  # set(KIND c)
    if(KIND STREQUAL "b")
      add_executable(demo b.asc)
    elseif(NOT FAST)
      add_executable(demo ${KIND}.asc "with space.asc")
    else()
      add_executable(demo none.asc)
    endif()
    target_compile_definitions(demo PRIVATE A=1 B C="${KIND}" "D=2")
    """
    (program,) = read_programs(text, {})
    assert (program.sources, program.defines) == (["a.asc", "with", "space.asc"], ["A=1", "B", 'C="a"', "D=2"])
    (program,) = read_programs(text, {"KIND": "b"})
    assert program.sources == ["b.asc"]


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_cmake, "a" * 200_000),
        (read_cmake, 'set(A "xxxxxxxxxx")\n' + 'set(A "${A}${A}")\n' * 60 + "add_executable(demo ${A})"),
        (read_cmake, "if(" + "NOT " * 40_000 + "x)\nendif()"),
        (read_cmake, "if(" + "x OR " * 20_000 + "x AND " * 20_000 + "x)\nendif()"),
        (read_cmake, f'if("{"a" * 199}" MATCHES "{"a*" * 9}b")\nendif()'),
        (read_cmake, f'if("{"a" * 199}" MATCHES "{"a?" * 90}b")\nendif()'),
        (read_definition, "OP_ADD(x)\nx" + ".a(b)" * 60),
        (read_definition, "OP_ADD(x)\nx={" + "DT_a" * 60),
        (read_definition, "OP_ADD(x)\n" + "a" * 500_000),
        (read_definition, "OP_ADD(x)\n" + 'this->Input("x")' * 30_000),
        (included_names, "\n" * 500_000),
        (wrong_launches, "a:1:2: error: b\n" + "a:1" * 60_000),
        (wrong_launches, "a:1:2: error: no matching function for call to '" + "program::Grid::Grid(" * 10_000),
        (lambda code: read_scenarios('set(A 1 CACHE STRING "(1-99)")', {}, "", code), "#if ==3510\n" * 18_000),
        (
            lambda text: read_scenarios(text, {}, "", ""),
            "if(1)\n" * 8_000 + 'set(A 1 CACHE STRING "(1-9)")\n' + "a()\n" * 15_000,
        ),
        (
            lambda text: read_scenarios(text, {"M": "1"}, "-DM=1", ""),
            f"set(L {'1 2 3 4 5 6 7 8 9 ' * 2_000})\n"
            + "if(M MATCHES 100)\nif(M IN_LIST L)\nm(${M})\nm(${M})\n" * 3_000,
        ),
        (
            lambda text: read_scenarios(text, {}, text, text),
            "|" * 99 + "\n" * 99_999 + 'set(A 1 CACHE STRING "(1-99)")\n' * 3_000,
        ),
    ],
    ids=[
        "words",
        "doubling",
        "not",
        "joints",
        "repeats",
        "options",
        "calls",
        "dtypes",
        "name",
        "inputs",
        "lines",
        "places",
        "lambdas",
        "branches",
        "nested",
        "conditions",
        "scenarios",
    ],
)
def test_reading_of_hostile_text_ends(read, text):
    """The time is about linear in the length of the text."""
    began = time.process_time()
    read(text)
    assert time.process_time() - began < 5


ERROR = 'message(FATAL_ERROR "x")\nendif()\n'
STRINGS = 'set(M "{}" CACHE STRING "")\nset_property(CACHE M PROPERTY STRINGS {})'
# CMakeLists.txt, README and code of an example -> the values of the scenario
SCENARIOS = {
    "strings": ('set(M A CACHE STRING "")\nset_property(CACHE M PROPERTY STRINGS A B)', "", "", ["A", "B"]),
    "pattern": ('set(M 1 CACHE STRING "")\nif(NOT M MATCHES "^([1-9]|1[0-1])$")\nendif()', "M=99", "", range(1, 12)),
    "numbers": ('set(M "2" CACHE STRING "")\nif(M STREQUAL "2")\nelseif(M EQUAL 7)\nendif()', "", "", [2, 7]),
    "list": ("set(VALID_M 4 5 6)\nif(NOT M IN_LIST VALID_M OR M EQUAL 6)\n${M}" + ERROR, "cmake -DM=4", "", [4, 5]),
    "help": ('set(M 0 CACHE STRING "case (0-3)")', "", "", range(4)),
    "table": ('set(M 1 CACHE STRING "")', "| `M` | `1` (default), `3` | mode 9 |\n| `N` | 2 |", "", [1, 3]),
    "text": ('set(M 1 CACHE STRING "")', "M=1: a\n**M=4**: b; MM=5, M=N", "if (M == 6) {}", [1, 4, 6]),
    "refused": ('set(M 1 CACHE STRING "(1-3)")\nif(M EQUAL 2)\n' + ERROR, "", "", [1, 3]),
    "other": ('set(M 1 CACHE STRING "(1-3)")', "", "M == 1\n#if A && (ARCH == 3510)\nM == 2\n#endif\nM == 3", [1, 3]),
    "single": ('set(M 1 CACHE STRING "")', "-DM=1", "M == 1", []),
    "chip": ('set(SOC_VERSION "A" CACHE STRING "")\nset(CMAKE_X 1 CACHE STRING "(1-2)")', "SOC_VERSION=B", "", []),
    "words": (STRINGS.format("fast", "fast slow 128"), "", "", [128, "fast", "slow"]),
    "unreadable": (STRINGS.format("1", '"1" "(1+1)" "1 + 2" "$(id)" "a;b" "../x"'), "", "", []),
    "endless": ('set(M "1" CACHE STRING "(1-99999999)")', "", "", range(1, 33)),
    "default": ("message(${M})\nif (M EQUAL 1)\nendif()", "cmake -DM=0 ..", "", [0, 1]),
    "option": ('option(M "mode" OFF)\nif(M)\nendif()', "cmake -DM=ON ..", "", ["ON", "OFF"]),
    "not passed": ('option(M "mode" OFF)\nset(N ON CACHE BOOL "")', "", "", []),
    "of another": ('set(CHIPS 8 9)\nif(CHIP IN_LIST CHIPS)\nendif()\nset(M 1 CACHE STRING "(1-2)")', "", "", [1, 2]),
}  # fmt: skip
LEFT_OUT = {
    "unreadable": ["M=a;b", "M=../x", "M=$(id)", "M=(1+1)", "M=1 + 2"],
    "endless": ["M=33 to 99999999"],
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_values_of_scenarios_are_read(name):
    text, manual, code, values = SCENARIOS[name]
    options = read_steps(manual, "dav-2201").options
    found = read_scenarios(text, options, manual, code)
    assert found.pairs == [("M", str(value)) for value in values]
    assert found.left_out == LEFT_OUT.get(name, [])


def test_only_scripts_of_an_example_are_steps():
    steps = read_steps("python3 gen.py 1\n./demo\npython3 -m pip install x\npython3 check.py 2", "dav-2201")
    assert (steps.before, steps.after) == ([["gen.py", "1"]], [["check.py", "2"]])


def test_an_example_has_at_most_32_scenarios():
    text = "".join(f'set(M{number} 1 CACHE STRING "(1-10)")\n' for number in range(5))
    found = read_scenarios(text, {}, "", "")
    assert found.pairs == [(f"M{number}", str(value)) for number in range(4) for value in range(1, 11)][:32]
    assert found.left_out == [*(f"M3={value}" for value in range(3, 11)), "10 more"]


@pytest.mark.parametrize(
    ("right", "names", "result"), [(True, ["M=2"], None), (False, ["M=2"], False), (True, [], True)]
)
def test_an_example_with_left_out_scenarios_is_not_right(right, names, result):
    row = Row("a", "example", compiled=True, ran=True, right=right)
    row.leave_out(names)
    assert row.right is result
    assert row.left_out == names
    assert (result is None) == (row.reason == "stated scenarios did not run: M=2")


def test_options_have_their_default_value():
    text = 'option(FAST "mode" ON)\nif(FAST)\nadd_executable(demo fast.asc)\nendif()'
    assert [program.sources for program in read_programs(text, {})] == [["fast.asc"]]
    assert not read_programs(text, {"FAST": "OFF"})


def test_scenarios_have_their_own_macros_and_commands(tmp_path):
    readme = "MODE=1\n" + STEPS.replace("LIMIT=4", "MODE=$MODE").replace("gen_data.py", "gen_data.py -m=${MODE}")
    _write_modes(tmp_path)
    (tmp_path / "examples" / "modes" / "README.md").write_text(readme)
    (source,) = find_sources(list_files(tmp_path))
    assert list(source.scenarios) == ["MODE=1", "MODE=2", "MODE=4"]
    second = source.scenarios["MODE=2"]
    assert second["defines"] == ["LIMIT=3", "MODE=2"]
    assert second["before"] == [["../scripts/gen_data.py", "-m=2"]]
    assert second["after"] == source.after
    assert "MODE=1" in source.defines


def test_cmake_finds_numbers():
    text = (
        'string(REGEX MATCH "([0-9]+)" NUMBER "${CHIP}")\nadd_definitions(-DCHIP=${NUMBER})\nadd_executable(demo a.asc)'
    )
    (program,) = read_programs(text, {"CHIP": "dav-2201"})
    assert program.defines == ["CHIP=2201"]


def test_the_first_mode_of_a_readme_is_read():
    other = STEPS.replace("LIMIT=4", "LIMIT=5 -DFAST=ON").replace("gen_data.py", "gen_data.py --fast")
    first = read_steps(STEPS, "dav-2201")
    assert read_steps(STEPS + other, "dav-2201") == first
    assert read_steps("./install.run\n" + STEPS, "dav-2201").options == first.options


def test_commands_have_the_values_of_a_scenario():
    first = STEPS.replace("gen_data.py", "gen_data.py -m=4 -n=1")
    fast = STEPS.replace("LIMIT=4", "FAST=ON").replace("gen_data.py", "gen_data.py --fast")
    unfinished = "cmake -DLIMIT=6 -DCMAKE_ASC_RUN_MODE=sim ..\n"
    cases = {
        ("LIMIT", "4"): ["-m=4", "-n=1"],
        ("LIMIT", "6"): ["-m=6", "-n=1"],
        ("FAST", "ON"): ["--fast"],
        ("FAST", "OFF"): ["-m=4", "-n=1"],
    }
    for (name, value), words in cases.items():
        steps = read_steps(first + fast + unfinished, "dav-2201", {name: value})
        assert steps.options[name] == value
        assert steps.before == [["../scripts/gen_data.py", *words]]


def test_readme_commands_are_read():
    steps = read_steps("M=1 N=2  # numbers\n" + STEPS.replace("gen_data.py", "gen_data.py -n=$N"), "dav-2201")
    assert steps.options == {"LIMIT": "4"}
    other = read_steps("cmake -DCMAKE_ASC_ARCHITECTURES=dav-3510 -DLIMIT=5 ..  # or dav-2201", "dav-2201")
    assert other.options == {"LIMIT": "5"}
    assert steps.before == [["../scripts/gen_data.py", "-n=2"]]
    assert steps.after == [["../scripts/verify_result.py", "output/y.bin"]]


def test_tiling_structures_become_cpp_structures():
    text = (
        "constexpr int32_t MOST = 8;\nBEGIN_TILING_DATA_DEF(Inner)\nTILING_DATA_FIELD_DEF_ARR(float, MOST, values);\n"
    )
    text += "END_TILING_DATA_DEF;\nBEGIN_TILING_DATA_DEF(Outer)\nTILING_DATA_FIELD_DEF_STRUCT(Inner, inner);\n"
    text += "END_TILING_DATA_DEF;\nREGISTER_TILING_DATA_CLASS(MyOp, Outer)\n"
    header = tiling_header([text], "MyOp")
    assert "struct Inner {\n    float values[8];\n};" in header
    assert header.index("struct Inner") < header.index("struct Outer")
    assert "using OpforgeDefaultTiling = Outer;" in header


def test_definitions_without_a_class_are_ignored():
    assert read_definition("// OP_ADD(Nothing)\n") is None


def test_missing_names_are_read_from_compiler_messages():
    text = (
        "a.cpp:1:10: fatal error: lib/x.h: No such file or directory\n"
        "/home/me/a.cpp:2:3: error: 'AscendC::Foo' has not been declared\n"
        "/home/me/a.cpp:3:3: error: 'class AscendC::LocalTensor<half>' has no member named 'Bar'\n"
    )
    assert missing_names(text) == ["lib/x.h", "Foo", "Bar"]
    assert first_error(text.splitlines()[1]) == "a.cpp:2:3: error: 'AscendC::Foo' has not been declared"


def test_a_clone_may_be_any_folder(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text("add_executable(demo ../outside.cpp /etc/passwd ${X})\nif(\n")
    (tmp_path / "README.md").write_bytes(b"\xff\xfe```\n./demo 'unclosed\n")
    assert find_sources(list_files(tmp_path)) == []
