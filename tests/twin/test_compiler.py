"""Test which files are compiled again."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from opforge.codegen.errors import UserError
from opforge.twin.compiler import runtime_library
from opforge.twin.compiler import units as compiler
from opforge.twin.compiler.folder import locked
from opforge.twin.compiler.kernel_objects import require_device_code
from opforge.twin.compiler.runtime_library import _copied, _keep
from opforge.twin.compiler.units import CompileError, Library, Unit


def build(libraries):
    with locked(libraries[0].path.parent) as scratch:
        return compiler.build(libraries, scratch)


@pytest.fixture
def library(tmp_path):
    source = tmp_path / "answer.cpp"
    (tmp_path / "answer.h").write_text("inline int Answer() { return 1; }\n")
    source.write_text('#include "answer.h"\nextern "C" int answer() { return Answer(); }\n')
    for file in tmp_path.iterdir():
        os.utime(file, (1_600_000_000, 1_600_000_000))
    return Library(tmp_path / "out" / "libanswer.so", (Unit(source, tmp_path / "out" / "answer.o", (), "answer"),))


def test_unchanged_sources_are_not_compiled(library):
    assert build([library]) == 1
    assert build([library]) == 0


def test_a_changed_header_is_noticed(library, tmp_path):
    build([library])
    (tmp_path / "answer.h").write_text("inline int Answer() { return 2; }\n")
    assert build([library]) == 1
    assert ctypes.CDLL(str(library.path)).answer() == 2


@pytest.fixture
def precompiled(library, tmp_path):
    """Return a function that precompiles the header, and the output."""
    folder = tmp_path / "precompiled"
    (folder / "answer.h.gch").mkdir(parents=True)
    (folder / "answer.h").symlink_to(tmp_path / "answer.h")
    output = folder / "answer.h.gch" / "one"

    def precompile():
        with locked(folder) as scratch:
            compiler.precompile(folder / "answer.h", output, (f"-I{folder}",), scratch)

    return precompile, output


@pytest.mark.skipif(not compiler.is_gnu(), reason="needs g++")
def test_a_precompiled_header_is_used_and_renewed(library, precompiled, tmp_path):
    precompile, output = precompiled
    source = tmp_path / "src" / "answer.cpp"
    source.parent.mkdir()
    library.units[0].source.rename(source)
    flags = (f"-I{output.parent.parent}", f"-I{tmp_path}")
    used = dataclasses.replace(library.units[0], source=source, flags=flags, prepare=precompile)
    library = dataclasses.replace(library, units=(used,))
    assert build([library]) == 1
    command = compiler._compile_command(used)
    headers = subprocess.run([*command, "-H", "-o", os.devnull], capture_output=True, text=True, check=True).stderr
    assert f"! {output}\n" in headers  # the order of a folder depends on the file system
    assert build([library]) == 0
    made = output.stat().st_mtime_ns
    precompile()
    assert output.stat().st_mtime_ns == made
    (tmp_path / "answer.h").write_text("inline int Answer() { return 2; }\n")
    assert build([library]) == 1
    assert output.stat().st_mtime_ns > made
    assert ctypes.CDLL(str(library.path)).answer() == 2


@pytest.mark.skipif(not compiler.is_gnu(), reason="needs g++")
def test_the_precompiled_header_of_a_moved_clone_is_made_again(tmp_path, monkeypatch):
    folder = tmp_path / "precompiled"
    folder.mkdir()
    (folder / "kernel_operator.h").symlink_to(tmp_path / "old" / "kernel_operator.h")
    monkeypatch.setattr(runtime_library, "_precompiled", lambda: folder)
    monkeypatch.setattr(runtime_library, "precompile", lambda *_: None)
    runtime_library.precompile_kernel_header()
    assert (folder / "kernel_operator.h").readlink() == runtime_library.INCLUDE / "kernel_operator.h"


@pytest.mark.skipif(not compiler.is_gnu(), reason="needs g++")
def test_no_header_is_kept_that_the_compiler_cannot_load(precompiled, tmp_path, monkeypatch):
    precompile, output = precompiled
    precompile()
    assert output.is_file()
    (tmp_path / "answer.h").write_text("inline int Answer() { return 2; }\n")
    run = compiler.run_limited
    failed = compiler.Ended(1, "had to relocate PCH")
    monkeypatch.setattr(
        compiler, "run_limited", lambda words, *a, **b: failed if "-include" in words else run(words, *a, **b)
    )
    precompile()
    assert not output.exists()


def test_other_name_of_the_same_compiler_causes_no_compilation(library, tmp_path, monkeypatch):
    """CMake starts programs with CXX=/usr/bin/c++."""
    build([library])
    name = tmp_path / "cxx"
    name.symlink_to(Path(compiler.compiler()[0]).resolve())
    monkeypatch.setenv("CXX", str(name))
    compiler.compiler.cache_clear()
    try:
        assert compiler.compiler()[0] == str(name)
        assert build([library]) == 0
    finally:
        monkeypatch.undo()
        compiler.compiler.cache_clear()


def test_compilers_are_called_through_ccache_if_it_is_there(library, tmp_path, monkeypatch):
    log = tmp_path / "log"
    ccache = tmp_path / "bin" / "ccache"
    ccache.parent.mkdir()
    ccache.write_text(f'#!/bin/sh\necho "$1" >>"{log}"\nexec "$@"\n')
    ccache.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ccache.parent}:{os.environ['PATH']}")
    compiler.ccache.cache_clear()
    try:
        assert build([library]) == 1
    finally:
        monkeypatch.undo()
        compiler.ccache.cache_clear()
    assert log.read_text().splitlines() == [compiler.compiler()[0]]
    assert build([library]) == 0, "nothing is stale when ccache goes"


@pytest.mark.skipif(not shutil.which("ccache"), reason="needs ccache")
@pytest.mark.parametrize(("folder", "expected"), [("in", [0, 1]), ("with a space", [0, 0]), ("$x#1", [0, 0])])
def test_projects_in_other_folders_share_host_objects(tmp_path, monkeypatch, folder, expected):
    monkeypatch.setenv("CCACHE_DIR", str(tmp_path / "ccache"))
    monkeypatch.setenv("CPATH", "headers")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "answer.h").write_text("inline int Answer() { return 1; }\n")
    hits = []
    for name in ("a", "b"):
        project = tmp_path / name / folder
        project.mkdir(parents=True)
        (project / "answer.cpp").write_text('#include <answer.h>\nextern "C" int answer() { return Answer(); }\n')
        unit = Unit(project / "answer.cpp", project / "answer.o", (f"-I{project}",), "answer", folders=(project,))
        with locked(project / "build") as scratch:
            compiler.build([Library(project / "libanswer.so", (unit,))], scratch)
        assert ctypes.CDLL(str(project / "libanswer.so")).answer() == 1
        assert compiler.build([Library(project / "libanswer.so", (unit,))], project) == 0
        printed = subprocess.run(["ccache", "--print-stats"], capture_output=True, text=True, check=True).stdout
        counts = dict(line.split("\t") for line in printed.splitlines())
        hits.append(int(counts["direct_cache_hit"]) + int(counts["preprocessed_cache_hit"]))
    assert hits == expected


def test_changed_flags_are_noticed(library):
    build([library])
    unit = library.units[0]
    assert build([Library(library.path, (Unit(unit.source, unit.object, ("-DX",), unit.label),))]) == 1


@pytest.mark.parametrize("name", ["libanswer.so", "answer.o"])
def test_a_damaged_output_is_made_again(library, name):
    build([library])
    (library.path.parent / name).write_bytes(b"")
    build([library])
    assert ctypes.CDLL(str(library.path)).answer() == 1


def test_record_of_an_older_version_is_not_used(library):
    build([library])
    for stamp in library.path.parent.glob("*.json"):
        recorded = json.loads(stamp.read_text())
        del recorded["digest"]
        stamp.write_text(json.dumps(recorded))
    assert build([library]) > 0


def test_a_source_that_changes_while_it_compiles_is_compiled_again(library, tmp_path, monkeypatch):
    wrapper = tmp_path / "slow-g++"
    header = tmp_path / "answer.h"
    change = f'echo "inline int Answer() {{ return 3; }}" > {header}'
    wrapper.write_text(f'#!/bin/sh\ng++ "$@" || exit 1\ncase " $* " in *" -c "*) {change};; esac\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(wrapper))
    compiler.compiler.cache_clear()
    try:
        build([library])
    finally:
        monkeypatch.undo()
        compiler.compiler.cache_clear()
    assert not library.units[0].object.with_name("answer.o.json").exists()
    build([library])
    assert ctypes.CDLL(str(library.path)).answer() == 3


def test_a_source_must_compile_with_other_flags_too(library):
    unit = library.units[0]
    for flags, refused in [(("-DOTHER",), False), (("-DAnswer=Question",), True)]:
        unit.source.write_text('#include "answer.h"\n#ifdef Answer\n#error refused\n#endif\n', encoding="utf-8")
        units = (dataclasses.replace(unit, also=flags),)
        if refused:
            with pytest.raises(CompileError, match="refused"):
                build([dataclasses.replace(library, units=units)])
        else:
            assert build([dataclasses.replace(library, units=units)]) == 1


def test_cached_library_is_used_only_with_equal_bytes_and_sources(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made, scratch, kept = (
        tmp_path / "twin.so",
        tmp_path / "scratch",
        tmp_path / "cache" / "opforge" / "twin" / "twin.so",
    )
    scratch.mkdir()
    made.write_bytes(b"the bytes")
    assert _copied(made.name, scratch, ["twin", "sources"]) is None
    _keep(made, ["twin", "sources"])
    assert _copied(made.name, scratch, ["twin", "sources"]).read_bytes() == b"the bytes"
    assert _copied(made.name, scratch, ["twin", "other sources"]) is None
    kept.write_bytes(b"THE bytes")
    assert _copied(made.name, scratch, ["twin", "sources"]) is None
    kept.unlink()
    os.mkfifo(kept)
    assert _copied(made.name, scratch, ["twin", "sources"]) is None


def test_prebuilt_library_is_used_by_gnu_compilers_only(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(runtime_library, "PREBUILT", tmp_path / "prebuilt")
    runtime_library.prebuild(tmp_path / "prebuilt")
    made = (tmp_path / "prebuilt" / "libopforge_twin.so").read_bytes()

    # A clone, or an installed wheel, with an empty build folder and an empty cache.
    monkeypatch.setenv("OPFORGE_BUILD_DIR", str(tmp_path / "fresh"))
    monkeypatch.setattr(runtime_library, "build", lambda *_: pytest.fail("compiles the library"))
    assert runtime_library.build_runtime().read_bytes() == made

    monkeypatch.setenv("OPFORGE_BUILD_DIR", str(tmp_path / "other"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other cache"))
    monkeypatch.setattr(runtime_library, "is_gnu", lambda: False)
    with pytest.raises(pytest.fail.Exception, match="compiles"):
        runtime_library.build_runtime()
    monkeypatch.undo()


def test_a_compilation_without_a_terminal_is_announced(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("OPFORGE_BUILD_DIR", str(tmp_path / "fresh"))
    monkeypatch.setattr(runtime_library, "build", lambda *_: pytest.fail("compiles the library"))
    with pytest.raises(pytest.fail.Exception):
        runtime_library.build_runtime()
    assert capsys.readouterr().err == "compiling the CPU twin, once; this can take some minutes\n"


@pytest.mark.parametrize(
    ("sanitizer", "call"), [("address", "__asan_"), ("undefined", "__ubsan_"), ("thread", "__tsan_")]
)
def test_kernels_call_the_sanitizer_of_the_build_only(tmp_path, sanitizer, call):
    source = tmp_path / "add.cpp"
    source.write_text('int values[4];\nextern "C" int add(int* a, int b) { values[b & 3] = *a + b; return *a + b; }\n')
    made = {}
    for name in ("none", "address", "undefined", "thread"):
        made[name] = tmp_path / f"{name}.so"
        flags = [] if name == "none" else [f"-fsanitize={name}"]
        command = [compiler.compiler()[0], "-shared", "-fPIC", *flags, str(source), "-o", str(made[name])]
        subprocess.run(command, check=True)
    require_device_code(made[sanitizer], "add", made[sanitizer])
    require_device_code(made["none"], "add", made[sanitizer])
    for other in set(made) - {sanitizer}:
        with pytest.raises(UserError, match=call):
            require_device_code(made[sanitizer], "add", made[other])
