"""Damage the files of a build: the next build creates them again, and its results are right."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from opforge.codegen.errors import UserError
from opforge.twin.compiler import cache as build_cache
from opforge.twin.compiler import units as compiler
from opforge.twin.compiler.cache import digest, read_depfile
from opforge.twin.compiler.folder import locked
from opforge.twin.compiler.units import Library, Unit

HANGS = 120  # seconds after which a test is a hang


@pytest.fixture
def library(tmp_path):
    """Build a library whose source includes a header."""
    (tmp_path / "answer.h").write_text("inline int Answer() { return 1; }\n", encoding="utf-8")
    source = tmp_path / "answer.cpp"
    source.write_text('#include "answer.h"\nextern "C" int answer() { return Answer(); }\n', encoding="utf-8")
    made = Library(tmp_path / "out" / "libanswer.so", (Unit(source, tmp_path / "out" / "answer.o", (), "answer"),))
    assert build(made) == 1
    assert build(made) == 0
    return made


def build(library):
    with locked(library.path.parent) as scratch:
        return compiler.build([library], scratch)


def answer(library):
    """Return the result of the library in a process that has not loaded it before."""
    program = f"import ctypes; print(ctypes.CDLL({str(library.path)!r}).answer())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=HANGS)
    return int(done.stdout)


def _replaced(path, make):
    path.unlink()
    make(path)


DEEP = "[" * 100_000
# Damaged contents of a record.
RECORDS = {
    "nothing": "",
    "list": "[]",
    "number": "3",
    "text": '"x"',
    "null": "null",
    "no values": "{}",
    "deep": DEEP,
    "deep value": f'{{"signature": {DEEP}',
    "numbers": '{"signature": 1, "inputs": 2, "digest": 3}',
    "numbers as inputs": '{"signature": "", "inputs": [1, null, {}], "digest": ""}',
    "text as inputs": '{"signature": "", "inputs": "abc", "digest": ""}',
    "nulls": '{"signature": null, "inputs": [], "digest": null}',
    "strange inputs": json.dumps({"signature": "", "inputs": ["/dev/zero", "", "a\0b", "x" * 5000], "digest": ""}),
    "surrogate": '{"signature": "\\ud800", "inputs": ["\\udfff"], "digest": ""}',
    "no UTF-8": b"\xff\xfe{}",
    "NUL": b"\0" * 100,
    "cut": '{"signature": "abc", "inp',
    "twice": "{}{}",
    "infinite": "Infinity",
    "huge": b"[" + b"0," * (4 << 20) + b"0]",
    "old version": '{"signature": "", "inputs": [], "bytes": 100}',
}
# Other entries at the path of a file.
PLACES = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "full folder": lambda path: (path / "mine").mkdir(parents=True),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to nothing": lambda path: path.symlink_to("nothing"),
    "ring": lambda path: path.symlink_to(path.name),
    "empty file": Path.touch,
    "sparse file": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
}
FILES = ("answer.o", "libanswer.so", "answer.o.json", "libanswer.so.json")


@pytest.mark.parametrize("file", ["answer.o.json", "libanswer.so.json"])
@pytest.mark.parametrize("kind", RECORDS)
def test_a_damaged_record_is_made_again(library, capfd, kind, file):
    content = RECORDS[kind]
    (library.path.parent / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert build(library) == (file == "answer.o.json")
    assert build(library) == 0
    assert answer(library) == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("kind", PLACES)
def test_other_entry_at_the_path_of_a_file_is_replaced(library, capfd, kind, file):
    place = library.path.parent / file
    _replaced(place, PLACES[kind])
    assert build(library) == file.startswith("answer.o")
    assert build(library) == 0
    assert answer(library) == 1
    written = capfd.readouterr()
    assert written.out == ""
    assert written.err.count("\n") == ("folder" in kind)
    if kind == "full folder":
        (aside,) = library.path.parent.glob(f"{file}.*/mine")
        assert str(aside.parent) in written.err


@pytest.mark.parametrize("file", ["answer.o", "libanswer.so"])
def test_other_bytes_of_the_same_size_are_noticed(library, file):
    """Also if size and modification time are unchanged."""
    path = library.path.parent / file
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    with path.open("r+b") as stream:
        stream.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)
    assert build(library) == (file == "answer.o")
    assert path.read_bytes() != content
    assert answer(library) == 1


def test_a_header_of_the_same_size_and_time_is_noticed(library, tmp_path):
    header = tmp_path / "answer.h"
    before = header.stat()
    header.write_text("inline int Answer() { return 2; }\n", encoding="utf-8")
    os.utime(header, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert build(library) == 1
    assert answer(library) == 2


def test_a_digest_is_remembered_of_settled_files_only(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_text("1", encoding="utf-8")
    first = digest(path)
    assert not [key for key in build_cache._digests if key[0] == str(path)]
    monkeypatch.setattr(build_cache, "_SETTLED_NS", -(10**18))
    assert digest(path) == first
    assert [key for key in build_cache._digests if key[0] == str(path)]
    path.write_text("2", encoding="utf-8")
    os.utime(path, (1, 1))
    assert digest(path) != first


@pytest.mark.parametrize("kind", ["pipe", "ring", "link to a device", "folder"])
def test_special_file_as_former_input_does_not_block(library, tmp_path, kind):
    """The object was built from a header that the source no longer includes."""
    library.units[0].source.write_text('extern "C" int answer() { return 4; }\n', encoding="utf-8")
    _replaced(tmp_path / "answer.h", PLACES[kind])
    assert build(library) == 1
    assert answer(library) == 4


def test_objects_of_another_source_are_not_reused(library, tmp_path):
    """Object and record are complete, but from two builds."""
    other = tmp_path / "answer.o"
    shutil.copy(library.units[0].object, other)
    (tmp_path / "answer.h").write_text("inline int Answer() { return 2; }\n", encoding="utf-8")
    build(library)
    shutil.copy(other, library.units[0].object)
    assert build(library) == 1
    assert answer(library) == 2


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder", "link to a device"])
def test_lock_must_be_a_regular_file(library, tmp_path, kind):
    mine = tmp_path / "mine.txt"
    mine.write_text("mine", encoding="utf-8")
    lock = library.path.parent / ".lock"
    makes = PLACES | {"link": lambda path: path.symlink_to(mine), "hard link": lambda path: path.hardlink_to(mine)}
    _replaced(lock, makes[kind])
    with pytest.raises(UserError) as caught:
        build(library)
    assert str(lock) in str(caught.value)
    assert "got a link or not a regular file, expected a lock file; remove it" in str(caught.value)
    assert mine.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    "text",
    [b"mine", b"../mine", b"mine/..", b"build-../abcd", b"/", b"build-abcdefgh\n", b"\xff" * 100, b"build-" * 9999],
)
def test_only_recorded_files_of_a_build_are_removed(library, text):
    folder = library.path.parent
    names = [text.decode(errors="replace")[:50].strip().replace("/", "_"), "build-mine1234", ".partial-x.o"]
    for name in names:
        (folder / name).mkdir()
        (folder / name / "kept").touch()
    (folder / ".lock").write_bytes(text)
    library.units[0].object.unlink()
    assert build(library) == 1
    assert all((folder / name / "kept").is_file() for name in names)
    assert (folder / ".lock").read_bytes() == text


def test_the_files_of_a_killed_build_are_removed_by_the_next(library, tmp_path):
    """The compiler kills the build, as a user may."""
    program = tmp_path / "cxx"
    program.write_text(
        '#!/bin/sh\ncase "$*" in *--version*|*-dumpmachine*|*-E*) exec g++ "$@";; esac\nkill -9 $PPID\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    script = (
        "from pathlib import Path\nfrom opforge.twin.compiler import units as compiler\n"
        "from opforge.twin.compiler.folder import locked\n"
        "compiler.ccache = lambda: ()\n"  # otherwise ccache would be the killed parent
        f"out = Path({str(library.path.parent)!r})\nwith locked(out) as scratch:\n"
        f"    unit = compiler.Unit(Path({str(library.units[0].source)!r}), out / 'b.o', (), 'b')\n"
        "    compiler.build([compiler.Library(out / 'b.so', (unit,))], scratch)\n"
    )
    # ccache would be the parent of the compiler.
    environment = os.environ | {"CXX": str(program), "CCACHE_DISABLE": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, check=False, timeout=HANGS)
    assert done.returncode == -9
    assert list(library.path.parent.glob("build-*/*"))
    assert build(library) == 0
    assert not list(library.path.parent.glob("build-*"))


# The text of a depfile -> its names; None for a rejected one.
DEPFILES = {
    "x.o: /a/b.cpp /a/c.h \\\n /d\n": ["/a/b.cpp", "/a/c.h", "/d"],
    "x.o: /a\\ b $$c\\#d\n": ["/a b", "$c#d"],
    "x.o: /d\\\\\\ e/h.h\n": ["/d\\ e/h.h"],
    "x.o: a\\b": ["a\\b"],
    "x.o: ": [],
    "": None,
    "x.o": None,
    ": a": None,
}


@pytest.mark.parametrize("text", DEPFILES)
def test_input_lists_are_parsed_like_make(tmp_path, text):
    path = tmp_path / "x.d"
    path.write_text(text, encoding="utf-8")
    if DEPFILES[text] is None:
        with pytest.raises(UserError, match="expected a rule of make"):
            read_depfile(path)
    else:
        assert read_depfile(path) == DEPFILES[text]


@pytest.mark.parametrize("name", ["a b", "a$b", "a#b", "a\\ b", "a:b", "ä", "a'b", 'a"b', "a&b;c", "(a)", "%s", "a\tb"])
def test_folders_with_strange_names_work(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "answer.h").write_text("inline int Answer() { return 1; }\n", encoding="utf-8")
    source = folder / "answer.cpp"
    source.write_text('#include "answer.h"\nextern "C" int answer() { return Answer(); }\n', encoding="utf-8")
    made = Library(folder / "out" / "libanswer.so", (Unit(source, folder / "out" / "answer.o", (), "answer"),))
    assert build(made) == 1
    assert build(made) == 0
    assert ctypes.CDLL(str(made.path)).answer() == 1
