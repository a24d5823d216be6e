"""Test harmful `.pt2` archives: each gives one message before PyTorch reads them, and no code in them is executed."""

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from opforge.codegen.errors import UserError
from opforge.frontend.io.archive import check_program_archive

pytestmark = pytest.mark.slow


def archive(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


def test_archive_without_compression_is_accepted(tmp_path):
    check_program_archive(archive(tmp_path / "m.pt2", {"m/models/model.json": b"{}", "m/data/weights/weight_0": b"1"}))


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"m/../../a": b""}, "got the member 'm/../../a', which is outside of the archive"),
        ({"/etc/a": b""}, "got the member '/etc/a', which is outside of the archive"),
        ({"m\\..\\a": b""}, "which is outside of the archive"),
        ({"m/data/constants/opaque_obj_0": b""}, "got the Python object 'm/data/constants/opaque_obj_0'"),
        ({"m/data/constants/custom_obj_0": b""}, "whose loading can execute code"),
    ],
)
def test_wrong_members_are_rejected(tmp_path, members, words):
    with pytest.raises(UserError) as caught:
        check_program_archive(archive(tmp_path / "m.pt2", members))
    assert words in str(caught.value)


def test_bomb_is_rejected(tmp_path):
    path = archive(tmp_path / "m.pt2", {"m/data/weights/weight_0": bytes(50_000_000)}, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 100_000
    with pytest.raises(UserError, match="got the compressed or encrypted member 'm/data/weights/weight_0'"):
        check_program_archive(path)


def test_members_with_one_content_are_rejected(tmp_path):
    """Entries of the directory that share their bytes have together more bytes than the file."""
    path = archive(tmp_path / "m.pt2", {f"m/weight_{number}": bytes(100 * (number == 0)) for number in range(3)})
    data = bytearray(path.read_bytes())
    start = 0
    while (start := data.find(b"PK\x01\x02", start)) >= 0:
        data[start + 20 : start + 28] = (10_000).to_bytes(4, "little") * 2
        start += 4
    path.write_bytes(data)
    with pytest.raises(UserError, match="got members of 30000 bytes in a file of"):
        check_program_archive(path)


def test_two_members_with_one_name_are_rejected(tmp_path):
    path = tmp_path / "m.pt2"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("m/models/model.json", "{}")
        with pytest.warns(UserWarning, match="Duplicate name"):
            file.writestr("m/models/model.json", "[]")
    with pytest.raises(UserError, match="got two members with one name"):
        check_program_archive(path)


@pytest.mark.parametrize("kind", ["empty", "random", "cut", "pipe", "folder", "absent", "loop"])
def test_file_of_another_kind_is_rejected(tmp_path, kind):
    path = tmp_path / "m.pt2"
    if kind in {"empty", "random", "cut"}:
        good = archive(tmp_path / "good.pt2", {"m/models/model.json": b"{}" * 100}).read_bytes()
        path.write_bytes({"empty": b"", "random": bytes(range(256)), "cut": good[: len(good) // 2]}[kind])
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    words = {"pipe": "got a pipe", "folder": "got a directory", "absent": "No such file", "loop": "Too many levels"}
    with pytest.raises(UserError) as caught:
        check_program_archive(path)
    assert words.get(kind, "got no zip archive, expected an exported program") in str(caught.value)


EXPORT = """
import sys, torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
torch.export.save(torch.export.export(Model(), (torch.ones(2, 4),)), sys.argv[1])
"""


class Harm:
    """An object whose loading creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'opforge[torch]'")
    path = tmp_path_factory.mktemp("pt2") / "good.pt2"
    subprocess.run([sys.executable, "-c", EXPORT, str(path)], check=True, capture_output=True)
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.mark.parametrize("kind", ["code", "sample", "depth", "utf8", "sizes", "json"])
def test_wrong_program_is_rejected_and_executes_nothing(program, kind, tmp_path):
    import torch

    from opforge.torch.program import program_source

    members = dict(program)
    model = next(name for name in members if b'"graph_module"' in members[name])
    sample = next(name for name in members if "_inputs" in name)
    harm = tmp_path / "harm"
    if kind in {"code", "sample"}:
        buffer = io.BytesIO()
        torch.save((Harm(str(harm)),) if kind == "code" else (1, 2, 3), buffer)
        members[sample] = buffer.getvalue()
    changed = {
        "depth": b"[" * 500_000,
        "utf8": members[model].replace(b'"x"', b'"\xff\xfe"'),
        "sizes": members[model].replace(b'"as_int": 4', b'"as_int": 4611686018427387904'),
        "json": b"{}",
    }
    members[model] = changed.get(kind, members[model])
    path = archive(tmp_path / "m.pt2", members)
    with pytest.raises(UserError) as caught:
        program_source(Path(path))
    assert str(caught.value).startswith(f"{path}: got ")
    assert len(str(caught.value).splitlines()) == 1
    assert not harm.exists()
