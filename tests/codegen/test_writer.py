"""Writing: only changes, in one step, only below the output folder; and what a run no longer makes goes away."""

import multiprocessing
import os
import shutil
import signal
from pathlib import Path

import pytest

from opforge.codegen import writer
from opforge.codegen.errors import UserError
from opforge.codegen.files import TEMPORARY_PREFIX, NewFile
from opforge.codegen.writer import MANIFEST, Tree, compare, differences, write


def tree(files, *, is_complete=True):
    return Tree(files, {path: path.split("_")[0] for path in files}, is_complete)


def snapshot(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_only_changes_are_written(tmp_path):
    first = write(tree({"a_1.h": "one\n", "d/b_1.h": "two\n"}), tmp_path)
    assert first.written == ("a_1.h", "d/b_1.h")
    os.utime(tmp_path / "a_1.h", (1, 1))
    second = write(tree({"a_1.h": "one\n", "d/b_1.h": "new\n"}), tmp_path)
    assert (second.written, second.unchanged) == (("d/b_1.h",), ("a_1.h",))
    assert (tmp_path / "a_1.h").stat().st_mtime == 1, "an unchanged file is not touched"
    assert (tmp_path / "d" / "b_1.h").read_text() == "new\n"


def test_a_run_without_change_touches_nothing(tmp_path):
    files = tree({"a_1.h": "one\n"})
    write(files, tmp_path)
    for path in tmp_path.iterdir():
        os.utime(path, (1, 1))
    assert not write(files, tmp_path).any
    assert all(path.stat().st_mtime == 1 for path in tmp_path.iterdir())


def test_what_is_no_longer_generated_goes_away(tmp_path):
    write(tree({"a_1.h": "1\n", "a_2.h": "2\n", "b_1.h": "3\n"}), tmp_path)
    (tmp_path / "mine.h").write_text("hand-written\n")
    changes = write(tree({"a_1.h": "1\n"}, is_complete=False), tmp_path)
    assert changes.removed == ("a_2.h",), "of the operator that was generated, not of others"
    assert (tmp_path / "b_1.h").is_file()
    assert write(tree({"a_1.h": "1\n"}), tmp_path).removed == ("b_1.h",)
    assert {path.name for path in tmp_path.iterdir()} == {"a_1.h", "mine.h", MANIFEST}


def test_check_compares_and_writes_nothing(tmp_path):
    write(tree({"a_1.h": "one\n", "a_2.h": "old\n"}), tmp_path)
    before = snapshot(tmp_path)
    now = tree({"a_1.h": "two\n", "b_1.h": "new\n"})
    assert compare(now, tmp_path).written == ("a_1.h", "b_1.h")
    assert compare(now, tmp_path).removed == ("a_2.h",)
    diff = differences(now, tmp_path)
    for line in ("--- a/a_1.h", "+++ b/a_1.h", "-one", "+two", "+new", "-old"):
        assert f"{line}\n" in diff
    assert snapshot(tmp_path) == before


def test_an_edited_file_is_stale_and_repaired(tmp_path):
    files = tree({"a_1.h": "one\n"})
    write(files, tmp_path)
    (tmp_path / "a_1.h").write_bytes(b"\xff edited")
    assert compare(files, tmp_path).written == ("a_1.h",)
    write(files, tmp_path)
    assert (tmp_path / "a_1.h").read_text() == "one\n"


@pytest.mark.parametrize(
    "path", ["../x.h", "/etc/x.h", "a/../../x.h", "a//b.h", "", ".", "a/./b", "-rf", "a\nb", "a b"]
)
def test_paths_stay_inside(tmp_path, path):
    out = tmp_path / "out"
    with pytest.raises(UserError, match="may leave"):
        write(Tree({path: "x"}, {path: "x"}, is_complete=True), out)
    assert not list(tmp_path.rglob("x.h"))


def test_links_do_not_lead_outside(tmp_path):
    out, outside = tmp_path / "out", tmp_path / "outside"
    out.mkdir()
    outside.mkdir()
    (out / "d").symlink_to(outside)
    (outside / "target.h").write_text("keep\n")
    (out / "a_1.h").symlink_to(outside / "target.h")
    for path in ("d/x.h", "a_1.h"):
        with pytest.raises(UserError, match="link out of"):
            write(tree({path: "x\n"}), out)
    assert snapshot(outside) == {"target.h": b"keep\n"}


def test_a_hostile_manifest_removes_nothing_outside(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "victim.h").write_text("keep\n")
    (out / MANIFEST).write_text('{"../victim.h": "a"}')
    with pytest.raises(UserError, match="may leave"):
        write(tree({"a_1.h": "1\n"}), out)
    assert (tmp_path / "victim.h").is_file()


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', "\xff"])
def test_a_damaged_manifest_is_named(tmp_path, text):
    (tmp_path / MANIFEST).write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match="delete it and run again"):
        write(tree({"a_1.h": "1\n"}), tmp_path)


@pytest.mark.parametrize("failing", range(1, 6))
def test_an_interruption_leaves_whole_files(tmp_path, monkeypatch, failing):
    """Whichever rename a run dies at, each file is old or new, and the next run repairs everything."""
    old = tree({"a_1.h": "old 1\n", "a_2.h": "old 2\n", "a_3.h": "gone\n"})
    new = tree({"a_1.h": "new 1\n", "a_2.h": "new 2\n", "a_4.h": "new 4\n"})
    write(old, tmp_path)
    calls = 0
    replace = Path.replace

    def dying(self, target):
        nonlocal calls
        calls += 1
        if calls == failing:
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", dying)
    with pytest.raises(KeyboardInterrupt):
        write(new, tmp_path)
    monkeypatch.undo()
    for name, text in {**old.files, **new.files}.items():
        path = tmp_path / name
        assert not path.is_file() or path.read_text() in {text, old.files.get(name)}
    assert not [path for path in tmp_path.iterdir() if path.name not in {*old.files, *new.files, MANIFEST}]
    write(new, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*new.files, MANIFEST}


def write_until_killed(files, folder, moment, number):
    """Write as a process that gets SIGKILL at a moment of the write with this number."""
    replace, new_file = Path.replace, writer._new_file
    counts = {"texts": 0, "renames": 0}

    def dying_file(target, text):
        counts["texts"] += 1
        if counts["texts"] != number or moment != "half written":
            return new_file(target, text)

        def fill(file):
            file.write(text[: len(text) // 2].encode())
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)

        return NewFile(target, fill, "generated file")

    def dying_replace(self, target):
        counts["renames"] += 1
        if counts["renames"] == number and moment == "before the rename":
            os.kill(os.getpid(), signal.SIGKILL)
        replace(self, target)
        if counts["renames"] == number and moment == "after the rename":
            os.kill(os.getpid(), signal.SIGKILL)

    Path.replace, writer._new_file = dying_replace, dying_file
    write(files, folder)


@pytest.mark.parametrize("number", range(1, 5))
@pytest.mark.parametrize("moment", ["half written", "before the rename", "after the rename"])
def test_a_killed_process_leaves_whole_files(tmp_path, moment, number):
    old = tree({f"a_{i}.h": f"old {i}\n" * 50 for i in (1, 2, 3)})
    new = tree({f"a_{i}.h": f"new {i}\n" * 50 for i in (1, 2, 4)})
    write(old, tmp_path)
    process = multiprocessing.get_context("fork").Process(
        target=write_until_killed, args=(new, tmp_path, moment, number)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    seen = {path.name: path.read_text() for path in tmp_path.glob("a_*.h")}
    assert {"a_1.h", "a_2.h"} <= set(seen)
    for name, text in seen.items():
        assert text in {old.files.get(name), new.files.get(name)}
    (left,) = tmp_path.glob(f"{TEMPORARY_PREFIX}*")
    before = snapshot(left)
    write(new, tmp_path)
    assert snapshot(left) == before, "only its own process removes a temporary folder"
    shutil.rmtree(left)
    assert snapshot(tmp_path) == {
        MANIFEST: (tmp_path / MANIFEST).read_bytes(),
        **{name: text.encode() for name, text in new.files.items()},
    }


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "out").write_text("a file\n")
    with pytest.raises(UserError, match="choose another folder with --out"):
        write(tree({"a_1.h": "1\n"}), tmp_path / "out")
    (tmp_path / "a_1.h").mkdir()
    with pytest.raises(UserError, match=r"a_1\.h"):
        write(tree({"a_1.h": "1\n"}), tmp_path)
