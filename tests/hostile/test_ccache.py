"""Test damaged caches of ccache: the build is right, and one line reports the damage."""

from __future__ import annotations

import ctypes
import shutil
import time

import pytest

from opforge.twin.compiler import units as compiler
from opforge.twin.compiler.folder import locked
from opforge.twin.compiler.units import Library, Unit

pytestmark = pytest.mark.skipif(not shutil.which("ccache"), reason="needs ccache")
VALUES = {"one": 1, "two": 2}
YEAR_NS = 365 * 86400 * 10**9


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Build two libraries in a new folder each time; return their results."""
    monkeypatch.setenv("CCACHE_DIR", str(tmp_path / "ccache"))
    monkeypatch.setenv("PATH", ":".join(["/usr/bin", "/bin"]))
    compiler.compiler.cache_clear()
    compiler.ccache.cache_clear()
    for name, value in VALUES.items():
        (tmp_path / f"{name}.cpp").write_text(f'extern "C" int answer() {{ return {value}; }}\n', encoding="utf-8")

    def run(folder):
        out = tmp_path / folder
        libraries = [
            Library(out / f"{name}.so", (Unit(tmp_path / f"{name}.cpp", out / f"{name}.o", (), name),))
            for name in VALUES
        ]
        with locked(out) as scratch:
            assert compiler.build(libraries, scratch) == len(VALUES)
            assert compiler.build(libraries, scratch) == 0
        return {library.path.stem: ctypes.CDLL(str(library.path)).answer() for library in libraries}

    yield run
    monkeypatch.undo()
    compiler.compiler.cache_clear()
    compiler.ccache.cache_clear()


def results(tmp_path):
    found = sorted(path for path in (tmp_path / "ccache").rglob("*R") if path.is_file())
    assert len(found) == len(VALUES)
    return found


def test_an_object_of_another_source_is_replaced(build, tmp_path, capfd):
    assert build("first") == VALUES
    one, two = results(tmp_path)
    contents = one.read_bytes(), two.read_bytes()
    assert capfd.readouterr().err == ""
    one.write_bytes(contents[1])
    two.write_bytes(contents[0])
    assert build("second") == VALUES
    output = capfd.readouterr().err.splitlines()
    assert sorted(output) == [
        f"ccache: got an object of another source, expected that of {name}; it was compiled again and replaced"
        for name in VALUES
    ]
    assert build("third") == VALUES
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_object_is_compiled_again(build, tmp_path, damage):
    build("first")
    for path in results(tmp_path):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0xFF
        path.write_bytes({"flip": content, "cut": content[: len(content) // 2], "empty": b""}[damage])
    assert build("second") == VALUES


@pytest.mark.parametrize("kind", ["file", "system"])
def test_unwritable_cache_is_reported(build, tmp_path, monkeypatch, capfd, kind):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CCACHE_DIR", {"file": str(tmp_path / "file"), "system": "/proc/ccache"}[kind])
    assert build("first") == VALUES
    output = capfd.readouterr().err.splitlines()
    assert len(output) == len(VALUES)
    assert all(line.startswith("ccache: got ") and "was compiled without it; set CCACHE_DIR" in line for line in output)


@pytest.mark.parametrize("years", [-30, 30])
def test_wrong_clock_causes_no_second_compilation(build, tmp_path, monkeypatch, years):
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + years * YEAR_NS)
    assert build("first") == VALUES


@pytest.mark.skipif(not shutil.which("clang++"), reason="needs clang++")
def test_a_compiler_that_cannot_mark_objects_is_called_without_ccache(build, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "clang++")
    compiler.compiler.cache_clear()
    assert build("first") == VALUES
    assert not list((tmp_path / "ccache").rglob("*R"))
