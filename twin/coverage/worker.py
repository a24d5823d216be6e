"""Compile and run one source of a clone in a separate process, which may read the clone and write a scratch folder.

`python -m opforge.twin.coverage.worker PLACE` is the process: it reads the job and writes the row of the result.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from opforge.codegen.errors import UserError
from opforge.codegen.importers.cpp_text import without_comments
from opforge.codegen.printing import first_line
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.twin.cpp_text import printed

from .broker import compiling
from .compile import Options, compile_example, compile_kernels
from .confine import restrict_files
from .discover import Source, structures
from .execute import MOST_FINDINGS, Row
from .op_sources import format_header, number_header
from .program_run import Place, Result, copy_folder
from .program_text import first_error, printed_findings, reported_result

_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/proc", "/sys", "/dev")
_INCLUDE = Path(__file__).with_name("include")
# Limits of compilations by environment variable, and the options that set them.
_LIMITS = {"SECONDS": "--timeout", "MEMORY_MB": "--memory"}
_LIMIT = re.compile(r"set OPFORGE_COMPILE_(\w+)=(\d+)")
_UNIT_TESTS = re.compile(r"opforge unit tests: (\d+) tests, (\d+) comparisons, (\d+) failed")
_UNIT_TEST = re.compile(r"^opforge unit test\t(.*)$", re.MULTILINE)
_READ_TILING = re.compile(r"#define\s+GET_TILING_DATA\(\s*(\w+)\s*,\s*\w+\s*\)[\s\\]*(\w+)\s+\1\s*[;{]")
_HOST_HEADER, _KERNEL_HEADER = (
    re.compile(rf'^[ \t]*#[ \t]*include[ \t]*"(?=[^"\n]*\b{folder}/)([^"\n]*+)"', re.MULTILINE)
    for folder in ("op_host", "op_kernel")
)
# Types of half in macros of unit tests, and parts of names that only structures of unit tests have.
_TYPE_NAMES = {"float16": "half"}
_OF_TESTS = re.compile(r"(?<=[a-z0-9])(?:Test|Def|Ut|UT)(?=[A-Z]|$)")


def work(source: Source, settings: dict[str, Any], folder: Path) -> Row:
    """Compile and run a source in an empty folder; every failure is a reason in the row."""
    if source.reason:
        return Row(source.path, source.kind, reason=source.reason)
    # The program may write to the scratch folder, but not to the built files.
    made, scratch = folder / "made", folder / "scratch"
    made.mkdir()
    scratch.mkdir()
    _confine(source, made, scratch)
    if not source.scenarios:
        return _work(source, settings, made, scratch)
    row = Row(source.path, source.kind)
    for name, fields in source.scenarios.items():
        places = made / name, scratch / name
        for place in places:
            place.mkdir()
        row.scenarios.append(_work(Source(**{**asdict(source), **fields, "path": name}), settings, *places))
        for place in places:
            shutil.rmtree(place, ignore_errors=True)
    files = {Path(name).name for name in source.sources}
    row.scenarios = [part for part in row.scenarios if not _is_refused(part, files)] or row.scenarios
    row.join_scenarios()
    return row


def _is_refused(part: Row, files: Collection[str]) -> bool:
    """Return whether a `static_assert` in the files of an example refuses a scenario."""
    place, _, message = part.reason.partition(": error: static assertion failed")
    return bool(message) and not part.compiled and place.partition(":")[0] in files


def _work(source: Source, settings: dict[str, Any], made: Path, scratch: Path) -> Row:
    """Compile and run one scenario of a source."""
    row = Row(source.path, source.kind)
    started = time.monotonic()
    place = Place(scratch, made, settings["seconds"], settings["memory_mb"])
    try:
        run = {"operator": _operator, "example": _example}.get(source.kind, _kernel)
        run(source, made, place, settings, row)
    except UserError as error:
        row.reason = row.reason or _LIMIT.sub(_option_of_limit, first_line(error))
    except OSError as error:
        row.reason = row.reason or f"the operating system reports: {error.strerror}"
    row.seconds = max(round(time.monotonic() - started, 1), 0.1)
    return row


def _option_of_limit(found: re.Match[str]) -> str:
    """Return the option of this command that sets a limit of the compiler."""
    return f"set {_LIMITS[found[1]]} {found[2]}" if found[1] in _LIMITS else found[0]


def _confine(source: Source, made: Path, scratch: Path) -> None:
    os.environ["CCACHE_DISABLE"] = "1"
    tempfile.tempdir = os.environ["TMPDIR"] = str(made)
    readable = [*_SYSTEM[:4], "/etc/alternatives", "/etc/ld.so.cache", *_SYSTEM[5:]]
    readable += [source.root, str(BUILTIN_ROOT), sys.prefix, sys.base_prefix]
    build_dir = Project(BUILTIN_ROOT).build_dir
    restrict_files(readable, [str(made), str(scratch), str(build_dir), os.devnull])


def _compile(
    source: Source, files: list[Path], output: Path, settings: dict[str, Any], row: Row, *, only: bool = False
) -> bool:
    """Compile files; on failure, the row has the reason and the missing names."""
    folders = [Path(source.root, name) for name in source.include_dirs]
    if source.links:
        folders += _link_kernels(source, output.parent / "kernels")
    defines = (*source.defines, *_test_defines(source, settings))
    options = Options((*folders, _INCLUDE), defines, settings["soc"], settings["level"])
    build = compile_kernels if source.kind == "operator" else compile_example
    try:
        build(files, output, options, is_program=not only)
    except UserError as error:
        text = str(error)
        row.missing = list(getattr(error, "missing", ()))
        row.reason = _LIMIT.sub(_option_of_limit, first_error(text))
        return False
    return True


def _link_kernels(source: Source, folder: Path) -> list[Path]:
    """Link folders of kernels next to each other, for includes as "../other_operator/file.h"; return the folders."""
    nested = folder / "here" / "there"  # for "../other/file.h" and "../../other/file.h"
    if not nested.is_dir():
        nested.mkdir(parents=True)
        for name, path in source.links.items():
            (folder / name).symlink_to(Path(source.root, path))
    return [nested.parent, nested, folder]


def _test_defines(source: Source, settings: dict[str, Any]) -> tuple[str, ...]:
    """Macros of tikicpulib.h."""
    levels = {"strict": "kStrict", "device": "kDevice", "fast": "kFast"}
    soc, level = settings["soc"], levels[settings["level"]]
    lists = ("OPFORGE_COVERAGE_LISTS",) if source.has_lists else ()
    sync = f"OPFORGE_COVERAGE_AUTO_SYNC={int(source.has_auto_sync)}"
    return f'OPFORGE_COVERAGE_SOC="{soc}"', f"OPFORGE_COVERAGE_LEVEL={level}", sync, "KERNELUT=1", *lists


def _kernel(source: Source, made: Path, place: Place, settings: dict[str, Any], row: Row) -> None:
    del place
    files = [Path(source.root, name) for name in source.sources]
    row.compiled = all(_compile(source, [file], made / "kernel.o", settings, row, only=True) for file in files)
    if row.compiled:
        row.reason = "it has no main function"


def _example(source: Source, made: Path, place: Place, settings: dict[str, Any], row: Row) -> None:
    files = [Path(source.root, name) for name in source.sources]
    row.compiled = _compile(source, files, made / "program", settings, row)
    if not row.compiled:
        return
    copy_folder(Path(source.root, source.folder), place.scratch / "copy")
    folder = place.scratch / "copy" / "build"
    folder.mkdir(exist_ok=True)
    if source.before and not settings["run_scripts"]:
        row.reason = f"{Path(source.before[0][0]).name} creates its inputs; run the command with --run-scripts"
        return
    for words in source.before:
        result = place.run([sys.executable, *words], folder, may_start_processes=True)
        if result.status != 0:
            row.reason = result.failure(words[0], place.seconds)
            return
    has_compiler = any("aclrtcCompileProg" in file.read_text(encoding="utf-8", errors="replace") for file in files)
    served = replace(place, answers=made / "answers") if has_compiler else place
    with compiling(place.scratch, made / "answers", settings) if has_compiler else nullcontext():
        result = _run_program(made / "program", source.arguments, folder, served, row)
    if not row.ran:
        return
    row.launches = len(result.launches or ())
    if result.launches == []:
        row.ran, row.reason = False, result.failure("the program", place.seconds) or "the program launches no kernel"
        return
    row.right, row.reason = _compared(result, place)
    if row.right is not False and settings["run_scripts"] and source.after:
        results = [place.run([sys.executable, *words], folder, may_start_processes=True) for words in source.after]
        row.right = all(after.status == 0 for after in results)
        row.reason = next(filter(None, (result.failure("verification", place.seconds) for result in results)), "")


def _compared(result: Result, place: Place) -> tuple[bool | None, str]:
    """Return whether a program that ended reports a right result; and why it is not right."""
    if result.has_own_failure():
        return False, result.failure("the program", place.seconds)
    if result.launches is None:
        return False, "no report: the program ended without a report of at most 64 MB"
    if stopped := [launch for launch in result.launches if launch.get("complete") is not True]:
        return False, f"the launch of {stopped[0].get('op_type')} did not complete"
    right, line = reported_result(result.output)
    if right is None:
        return None, "the program reports no comparison"
    if right and not any(launch.get("read_back") for launch in result.launches):
        return None, "the program reports success, but it copies no results of a launch to the host"
    return right, "" if right else f"the program reports: {line}"


def _operator(source: Source, made: Path, place: Place, settings: dict[str, Any], row: Row) -> None:
    trial = Row(row.path, row.kind)
    # A unit test contains the kernel: without errors, the kernel is not compiled again.
    if not source.tests or not _compile_test(source, made, settings, trial):
        kernel = Path(source.root, source.sources[0])
        wrapper = made / f"{kernel.stem}_kernel.cpp"
        wrapper.write_text(_kernel_text(kernel, source.tiling + source.dtypes), encoding="utf-8")
        row.compiled = _compile(source, [wrapper], made / "kernel.o", settings, row, only=True)
        if not source.tests:
            row.reason = row.reason or "its folder has no unit test of the kernel"
        elif row.compiled:
            row.reason, row.missing = f"its unit test: {trial.reason}", trial.missing
        return
    row.compiled = True
    folder = place.scratch / "copy"
    copy_folder(Path(source.root, source.tests[0]).parent, folder)
    scripts = settings["run_scripts"]  # unit tests start them by `system`
    result = _run_program(made / "program", [], folder, place, row, may_start_processes=scripts)
    ended = _UNIT_TEST.findall(result.output)
    row.tests, row.clean_tests = len(ended), ended.count("clean")
    if row.ran and not ended and not row.findings:
        row.ran, row.reason = False, "its unit test runs no kernel"
        return
    if not row.ran:
        return
    if (found := _UNIT_TESTS.search(result.output)) is None:
        row.ran, row.reason = False, result.failure("the program", place.seconds) or "its unit test ends the program"
    elif not int(found[2]):
        row.reason = "its unit test compares no outputs"
    else:
        failed = f"{found[3]} of {found[1]} unit tests failed" if int(found[3]) else ""
        row.reason = failed or result.failure("the program", place.seconds)
        row.right = not row.reason


def _compile_test(source: Source, made: Path, settings: dict[str, Any], row: Row) -> bool:
    """Compile the unit test of a kernel; with the dtypes of the definition only if the kernel needs them."""
    if _compile(source, _test_sources(source, made), made / "program", settings, row):
        return True
    if not any(name.startswith(("DT_", "DTYPE_", "ORIG_DTYPE_")) for name in row.missing):
        return False
    again = Row(row.path, row.kind)
    return _compile(source, _test_sources(source, made, source.dtypes), made / "program", settings, again)


def _test_sources(source: Source, made: Path, numbers: str | None = None) -> list[Path]:
    """Return the sources of a unit test: kernel and test, each after the header of the tiling data, and main."""
    kernel = Path(source.root, source.sources[0])
    given = [define.partition("=") for define in source.test_defines]
    macros = [(name, _TYPE_NAMES.get(value, value or "1")) for name, _, value in given]
    tiling, dtypes = source.tiling, source.dtypes
    before = _numbers(source) if numbers is None else numbers
    if source.test_header:
        tiling, dtypes = _test_tiling(source), ""
    elif source.has_lists:
        tiling += printed("test_tiling.h.j2", header="")
    dtypes += printed("macros.h.j2", macros=macros, replaces=True)
    texts = {"tested": _kernel_text(kernel, before + tiling + dtypes, is_unit_test=True)}
    for index, test in enumerate(source.tests):
        path = Path(source.root, test)
        texts[f"test{index}"] = printed(
            "unit_test.cpp.j2",
            # A unit test may include the kernel.
            macros=numbers or number_header(["DT_INT4"] if "DT_INT4" in _header_text(source) else ()),
            tiling=tiling,
            has_tiling=source.test_has_tiling,
            path=path,
            text=_without_host_headers(source, path),
        )
    for name, text in texts.items():
        (made / f"{name}.cpp").write_text(text, encoding="utf-8")
    return [*(made / f"{name}.cpp" for name in texts), *_helpers(source)]


def _numbers(source: Source) -> str:
    """Return the macros of formats, and those of dtypes if a unit test sets the dtypes of its kernel.

    Without those of dtypes, all preprocessor conditions on dtypes are true, as in other builds of such tests.
    """
    has_dtypes = "ORIG_DTYPE" in _header_text(source) + " ".join(source.test_defines)
    return number_header() if has_dtypes else format_header()


def _header_text(source: Source) -> str:
    path = Path(source.root, source.test_header)
    return path.read_text(encoding="utf-8", errors="replace") if source.test_header else ""


def _kernel_text(kernel: Path, before: str, *, is_unit_test: bool = False) -> str:
    """Include a kernel without its launches `<<<...>>>`, which it has for other builds than those of operators."""
    has_launches = "<<<" in without_comments(kernel.read_text(encoding="utf-8", errors="replace"))
    values = {"before": before, "has_launches": has_launches, "is_unit_test": is_unit_test}
    return printed("operator_kernel.cpp.j2", kernel=kernel, **values)


def _test_tiling(source: Source) -> str:
    """Return an include of the header of a unit test, with its macros for lists and those of the twin otherwise.

    The kernel may use the structures under the names without the affixes that this header adds. With lists, the macros
    of the header read tiling data in memory that is not protected.
    """
    text = _header_text(source)
    plain = _READ_TILING.search(text)
    wanted, given = structures(source.tiling), structures(text)
    names = {_OF_TESTS.sub("", name): name for name in given}
    return printed(
        "test_tiling.h.j2",
        header=Path(source.root, source.test_header),
        macros=dict.fromkeys(re.findall(r"#define\s+(GET_TILING_DATA\w*)", text)),
        keeps_macros=not source.has_lists,
        structure=plain[2] if plain else "",
        aliases=[(name, names[name]) for name in sorted((wanted - given) & set(names))],
    )


def _without_host_headers(source: Source, path: Path) -> str:
    """Return a unit test without host headers that only define structures of tiling data; empty if it has none."""

    def replaced(found: re.Match[str]) -> str:
        header = Path(os.path.normpath(path.parent / found[1]))
        inner = header.read_text(encoding="utf-8", errors="replace") if header.is_file() else ""
        names = [Path(os.path.normpath(header.parent / name)) for name in _KERNEL_HEADER.findall(inner)]
        if not names and not source.tiling:
            return found[0]
        return printed("macros.h.j2", includes=names, macros=()).rstrip("\n")

    text = path.read_text(encoding="utf-8", errors="replace")
    shorter = _HOST_HEADER.sub(replaced, text)
    return "" if shorter == text else shorter


def _helpers(source: Source) -> list[Path]:
    """Return sources of functions that unit tests of a repository share."""
    text = "".join(Path(source.root, test).read_text(encoding="utf-8", errors="replace") for test in source.tests)
    shared = ["data_utils"]
    if "kernel_ut_data_" in text:
        shared += ["kernel_ut_data_helper", "kernel_ut_data_executor"]
    paths = [f"tests/ut/op_kernel/{name}.cpp" for name in shared]
    return [path for name in paths if (path := Path(source.root, name)).is_file() and not path.is_symlink()]


def _run_program(
    program: Path, arguments: list[str], folder: Path, place: Place, row: Row, *, may_start_processes: bool = False
) -> Result:
    result = place.run([str(program), *arguments], folder, may_start_processes=may_start_processes)
    row.findings = (result.findings or printed_findings(result.output))[:MOST_FINDINGS]
    row.reason = result.reason("the program", place.seconds)
    row.ran = not row.reason
    return result


def main() -> None:
    """Read the job, do it and write the row."""
    place = json.loads(sys.argv[1])
    with open(place["buffers"], "rb") as file:
        file.seek(0)  # the caller wrote it through the same open file
        job = json.loads(file.read())
    row = work(Source(**job["source"]), job["settings"], Path(job["folder"]))
    with open(place["answer"], "wb") as answer:
        answer.write(json.dumps(asdict(row)).encode())


if __name__ == "__main__":
    main()
