"""Define the commands of the CPU twin: build, flags, profile, tune, coverage."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from opforge.codegen.data.products import DEFAULT_SOC
from opforge.codegen.errors import UserError
from opforge.codegen.printing import path_text, say, shown

from .options import (
    ATTR,
    CASE,
    DTYPE,
    EXECUTOR,
    JOBS,
    JSON,
    LEVEL,
    OP_SUFFIX,
    OPS,
    SHAPE,
    SOC,
    STATE,
    ReadsModel,
    answer_file,
    answering,
    file_argument,
    listed,
    path_argument,
    path_option,
    seconds,
)

app = typer.Typer()


@app.command()
def build(
    soc: Annotated[str, typer.Option(metavar="CHIP,...", help="Chips, separated by commas.")] = DEFAULT_SOC,
    ops: Annotated[str | None, OPS] = None,
    jobs: Annotated[int, JOBS] = 0,
    op_suffix: Annotated[str, OP_SUFFIX] = "",
    json_out: Annotated[Path | None, JSON] = None,
) -> None:
    """Compile operators for the CPU twin and run test shapes.

    The command compiles host code and kernels. It generates the source files first. When a library or a spec has
    changed, it runs the test shapes of the specs with all checks of the twin, and prints findings and warnings. It does
    not compare results with a reference; the tests of the project do that.
    """
    from opforge.codegen.project import Project, find_project
    from opforge.twin.build import build_project
    from opforge.twin.test_shapes import check

    project = Project(find_project().root, op_suffix)
    with answering(json_out) as answer:
        built = build_project(project, soc.split(","), listed(ops), jobs, report=say)
        facts = {"folder": str(built.vendor_dir), "operators": built.op_types, "without_kernel": list(built.missing)}
        findings, warned = check(project, built, soc.split(",")[0])
        answer.update(facts | {"compiled": built.compiled, "findings": findings, "warnings": warned})
        count, compiled = len(built.op_types), built.compiled
        files = f"{compiled} object file{'s' * (compiled != 1)} compiled"
        say(f"{count} operator{'s' * (count != 1)}, {files}: {built.vendor_dir}")
        say(*(f"{op_type}: {file} is missing; the operator cannot run" for op_type, file in built.missing.items()))
        say(*findings, *warned)
    raise typer.Exit(1 if findings else 0)


@app.command()
def flags() -> None:
    """Build operators; print compiler flags for C++ programs."""
    from opforge.codegen.project import find_project
    from opforge.twin.build import application_flags, build_project

    project = find_project()
    build_project(project)
    say(shlex.join(application_flags(project)))


@app.command()
def cc(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Sources (.asc, .cpp), object files and libraries; options of the C++ compiler after `--`.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        path_option("-o", "--output", metavar="PROGRAM", text="Output; default: the name of the first source."),
    ] = None,
    soc: Annotated[str, SOC] = DEFAULT_SOC,
    level: Annotated[str, LEVEL] = "strict",
    include: Annotated[list[Path] | None, path_option("-I", metavar="DIR", text="Folder of headers.")] = None,
    define: Annotated[list[str] | None, typer.Option("-D", metavar="NAME[=VALUE]", help="Define a macro.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("-X", metavar="OPTION", help="Pass an option to the C++ compiler.")
    ] = None,
    npu_arch: Annotated[
        str | None, typer.Option("--npu-arch", metavar="ARCH", help="As for the device compiler; only dav-2201.")
    ] = None,
    compile_only: Annotated[bool, typer.Option("-c", help="Compile one source to an object file.")] = False,
    cmake: Annotated[
        bool, typer.Option("--cmake", help="Print the path of a CMake toolchain file; compile nothing.")
    ] = False,
    headers: Annotated[
        Path | None, path_option("--headers", metavar="DIR", text="Write aclrtlaunch_<kernel>.h of each kernel to DIR.")
    ] = None,
) -> None:
    """Compile an Ascend C program for the CPU twin.

    The result is a normal program. It prints findings of the twin to standard error, and exits with 1 after a finding.
    """
    from opforge.twin.program import compile_program, write_cmake_files

    words = sources or []
    if cmake:
        if words:
            raise UserError(f"--cmake: got the source {shown(words[0])}, expected no source; remove it")
        others = {"-o": output, "-I": include, "-D": define, "-X": option, "--npu-arch": npu_arch, "-c": compile_only}
        if given := [name for name, value in (others | {"--headers": headers}).items() if value]:
            raise UserError(f"--cmake: got {given[0]} also, expected only --soc and --level; remove it")
        say(str(write_cmake_files(soc, level)))
        return
    files = [path_argument(word) for word in words if not word.startswith("-")]
    flags = [f"--npu-arch={npu_arch}"] if npu_arch is not None else []
    flags += [*(option or []), *(word for word in words if word.startswith("-"))]
    compile_only |= "-c" in flags
    flags = [flag for flag in flags if flag != "-c"]
    # Build systems pass folders that do not exist with -c.
    for folder in (include or []) if not compile_only else ():
        if not folder.is_dir():
            raise UserError(f"-I {path_text(folder)}: got no folder, expected a folder of headers; correct the path")
    target = output or Path((files[0].stem if files else "program") + (".o" if compile_only else ""))
    compile_program(
        files,
        target,
        include_dirs=include or [],
        defines=define or [],
        options=flags,
        soc=soc,
        level=level,
        compile_only=compile_only,
        header_dir=headers,
    )


@app.command("ort-library")
def ort_library(
    output: Annotated[
        Path | None, path_option("-o", "--output", metavar="LIB", text="Output; default: libopforge_ort.so.")
    ] = None,
    level: Annotated[str, LEVEL] = "fast",
    json_out: Annotated[Path | None, JSON] = None,
) -> None:
    """Build a library of custom operators for onnxruntime.

    The library contains the operators of the project. Register it with SessionOptions.register_custom_ops_library. The
    kernels run on the CPU twin. The library needs the build folder of the project at run time.
    """
    from opforge.codegen.project import find_project
    from opforge.twin.build import build_ort_library

    target = output or Path("libopforge_ort.so")
    with answering(json_out) as answer:
        made = build_ort_library(find_project(), target, level)
        answer.update({"library": str(target), "operators": made.op_types, "left_out": made.left_out})
        for line in made.left_out:
            say(f"not in the library: {line}; call it with opforge.twin.run, or its aclnn function")
        say(f"{len(made.op_types)} operator{'s' if len(made.op_types) != 1 else ''}: {path_text(target)}")


@app.command(cls=ReadsModel)
def profile(
    op_type: Annotated[str, typer.Argument(metavar="OP", help="Operator type.")],
    shape: Annotated[list[str] | None, SHAPE] = None,
    case: Annotated[list[str] | None, CASE] = None,
    attr: Annotated[list[str] | None, ATTR] = None,
    dtype: Annotated[str | None, DTYPE] = None,
    soc: Annotated[str, SOC] = DEFAULT_SOC,
    level: Annotated[str, LEVEL] = "fast",
    inputs: Annotated[
        Path | None,
        path_option(metavar="IN.npz", text="Arrays by input name, instead of --shape and generated values."),
    ] = None,
    compare: Annotated[
        Path | None,
        path_option(metavar="OLD.json", text="Compare with the JSON file of an earlier run (same operator and chip)."),
    ] = None,
    trace: Annotated[Path | None, path_option(metavar="T.json", text="Write a trace for Chrome or Perfetto.")] = None,
    html: Annotated[Path | None, path_option(metavar="P.html", text="Write an HTML page with charts.")] = None,
    details: Annotated[
        bool,
        typer.Option("--details", help="Also print the times of phases and pipes, and all steps of the critical path."),
    ] = False,
    json_out: Annotated[Path | None, JSON] = None,
) -> None:
    """Estimate the time of an operator and of its lines."""
    from opforge.frontend.io.arrays import load_within
    from opforge.twin.profile import profile_command

    with answer_file(json_out) as answer:
        code = profile_command(
            op_type,
            shape or [],
            attr or [],
            cases=case or [],
            dtype=dtype,
            soc=soc,
            level=level,
            given=inputs,
            load=load_within,
            old=compare,
            trace=trace,
            html=html,
            details=details,
            json_out=answer,
        )
    raise typer.Exit(code)


@app.command()
def tune(
    op_type: Annotated[str, typer.Argument(metavar="OP", help="Operator type.")],
    shape: Annotated[list[str] | None, SHAPE] = None,
    case: Annotated[list[str] | None, CASE] = None,
    attr: Annotated[list[str] | None, ATTR] = None,
    dtype: Annotated[str | None, DTYPE] = None,
    soc: Annotated[str, SOC] = DEFAULT_SOC,
    level: Annotated[str, LEVEL] = "strict",
    timeout: Annotated[
        float,
        typer.Option(min=1, max=86400, metavar="SECONDS", callback=seconds, help="Time limit of each setting."),
    ] = 600,
    jobs: Annotated[
        int, typer.Option("-j", "--jobs", metavar="N", min=0, help="Number of parallel settings; 0: one per core.")
    ] = 0,
    executor: Annotated[str, EXECUTOR] = "local",
    state: Annotated[Path | None, STATE] = None,
    json_out: Annotated[Path | None, JSON] = None,
) -> None:
    """Find the plan constants with the shortest estimated time.

    The command tries the choices of tiling.constants of the spec. It accepts a setting only if all cases and all test
    shapes run without findings and give the same bits. With several cases, it compares the sums of their times.

    Exit code 1: the operator does not run with the values of its spec.
    """
    from opforge.twin.tune.command import Options, tune_command

    with answer_file(json_out) as answer:
        code = tune_command(
            op_type,
            shape or [],
            attr or [],
            cases=case or [],
            dtype=dtype,
            soc=soc,
            level=level,
            options=Options(jobs, executor, timeout, state),
            json_out=answer,
        )
    raise typer.Exit(code)


@app.command()
def coverage(
    folders: Annotated[list[Path], file_argument("DIR", "Folders of cloned repositories with Ascend C sources.")],
    soc: Annotated[str, SOC] = DEFAULT_SOC,
    level: Annotated[str, LEVEL] = "device",
    only: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Select sources whose path contains TEXT; may be repeated.")
    ] = None,
    run_scripts: Annotated[
        bool,
        typer.Option(
            "--run-scripts", help="Also run the Python scripts of the examples, which create and compare data."
        ),
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(
            min=1, max=86400, metavar="SECONDS", callback=seconds, help="Time limit of each compilation and program."
        ),
    ] = 120,
    memory: Annotated[
        int, typer.Option(min=64, metavar="MB", help="Memory limit of each compiler and program.")
    ] = 4096,
    jobs: Annotated[
        int, typer.Option("-j", "--jobs", metavar="N", min=0, help="Number of parallel sources; 0: one per core.")
    ] = 0,
    executor: Annotated[str, EXECUTOR] = "local",
    state: Annotated[Path | None, STATE] = None,
    html: Annotated[Path | None, path_option(metavar="P.html", text="Write an HTML page with filters.")] = None,
    json_out: Annotated[Path | None, JSON] = None,
) -> None:
    """Run the kernels of cloned repositories on the CPU twin.

    Exit code 1: a source has findings or wrong results.
    """
    from opforge.twin.coverage.command import coverage_command

    settings = {
        "soc": soc,
        "level": level,
        "seconds": timeout,
        "memory_mb": memory,
        "run_scripts": run_scripts,
    }
    with answer_file(json_out) as answer:
        code = coverage_command(
            folders,
            settings=settings,
            jobs=jobs,
            executor=executor,
            state=state,
            only=only or [],
            html=html,
            json_out=answer,
        )
    raise typer.Exit(code)
