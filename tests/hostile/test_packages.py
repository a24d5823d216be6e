"""Test hostile packages for `opforge verify`: one message, exit code 1 or 2, in bounded time and memory."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.errors import UserError
from opforge.codegen.project import Project
from opforge.codegen.untrusted import FormError, parse_json
from opforge.package.archive import MOST_MEMBERS, MOST_UNPACKED_BYTES, ArchiveError, read_archive
from opforge.package.doctor.documents import BINARIES_FORM, BUILT_FORM, MANIFEST_FORM, OPS_INFO_FORM, PACKED_FORM
from opforge.package.layout import OF_ARCHIVE
from opforge.package.manifest import lists
from opforge.package.pack import pack, shell_scripts
from opforge.package.verify import verify

ROOT = Path(__file__).resolve().parents[2]
TREE = "packages/vendors/opforge/"
CALM = "all files match the manifest"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return pack(out=tmp_path_factory.mktemp("package"), project=Project(ROOT), ops=["GroupedBiasAddGrad"])


def with_payload(package, out, payload):
    """Return the package with another payload and a matching head."""
    data = package.read_bytes()
    lines = int(re.search(rb"header_lines=(\d+)", data)[1])
    head = b"\n".join(data.split(b"\n", lines)[:lines]) + b"\n"
    head = re.sub(rb"payload_bytes=\d+", b"payload_bytes=%d" % len(payload), head)
    head = re.sub(rb"payload_sha256=\w+", b"payload_sha256=" + hashlib.sha256(payload).hexdigest().encode(), head)
    out.write_bytes(head + payload)
    return out


def archive_of(files, facts=()):
    """Return a compressed archive with these files and matching lists; `facts` replace properties in them."""
    stated = {
        "vendor": "opforge",
        "version": "1.0",
        "note": "test",
        "release": "source",
        "cann": ["8.1", "9.1"],
        "operators": ["A"],
        "socs": ["ascend910b"],
        "builtin_op_types": [],
        "builtin_aclnn": [],
    }
    scripts = shell_scripts()
    tree = {f"scripts/{name}": data for name, data in scripts.items() if name not in OF_ARCHIVE} | dict(files)
    tree |= lists(stated | dict(facts), tree)
    members = {f"{TREE}{name}": data for name, data in tree.items()}
    return tar_of(members | {"install.sh": scripts["install.sh"]})


def tar_of(members, form=tarfile.GNU_FORMAT):
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=form) as archive:
        for name, content in members.items():
            member = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(target.getvalue())


def header(name="x", kind=b"0", size=0, **fields):
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    for key, value in fields.items():
        setattr(member, key, value)
    return member.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def patched(block, changes):
    """Return a header block with other bytes and the right checksum."""
    block = bytearray(block)
    for place, data in changes.items():
        block[place : place + len(data)] = data
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


END = b"\0" * 1024
SIXTY_GB = b"%011o " % (8**11 - 1)
SPARSE = patched(header("x", b"0"), {156: b"S", 386: SIXTY_GB, 398: SIXTY_GB, 483: SIXTY_GB})
PAX = b"30 GNU.sparse.size=64424509440\n"
ARCHIVES = {
    "gnu sparse": (SPARSE + END, "of type b'S', expected regular files"),
    "pax sparse": (header("x", b"x", len(PAX)) + PAX.ljust(512, b"\0") + header() + END, "of type b'x'"),
    "bad pax map": (header("x", b"x", 512) + b"9" * 512 + header() + END, "of type b'x'"),
    "pax global": (header("x", b"g") + END, "of type b'g'"),
    "long link name": (header("x", b"K", 1) + END, "of type b'K'"),
    "more volumes": (header("x", b"M") + END, "of type b'M'"),
    "name too long": (header("x", b"L", 5001) + b"a" * 5001 + END, "a path of 5001 bytes, expected at most 1000"),
    "name of a claimed size": (header("x", b"L", 8**11 - 1) + END, "expected at most 1000"),
    "part too long": (header("x", b"L", 301) + b"a" * 301 + b"\0" * 211 + header() + END, "of 301 bytes"),
    "name without member": (header("x", b"L", 3) + b"abc".ljust(512, b"\0") + END, "long name without a member"),
    "names without end": ((header("x", b"L", 3) + b"abc".ljust(512, b"\0")) * 3000 + END, "long name without"),
    "zero byte": (patched(header("abc"), {1: b"\0"}) + END, "zero byte in its name"),
    "zero byte in a long name": (header("x", b"L", 4) + b"a\0b\0".ljust(512, b"\0") + header() + END, "zero byte"),
    "negative size": (patched(header(), {124: b"\xff" * 12}) + END, "damaged size"),
    "base 256": (patched(header(), {124: b"\x80" + b"\0" * 10 + b"\1"}) + END, "damaged size"),
    "underscore": (patched(header(), {124: b"0000_000001 "}) + END, "damaged size"),
    "bad checksum": (header()[:148] + b"0" * 364 + END, "damaged header"),
    "old tar": (patched(header(), {257: b"\0" * 8}) + END, "in another format"),
    "prefix of another format": (patched(header(), {345: b"etc"}) + END, "in another format"),
    "link with content": (header("x", b"2", 5) + END, "with content"),
    "folder with content": (header("x", b"5", 5) + END, "with content"),
    "old folder with content": (patched(header("x/", b"0", 5), {156: b"\0"}) + END, "with content"),
    "claimed size": (header("x", b"0", 8**11 - 1) + END, "ends early"),
    "one zero block": (header() + b"\0" * 512 + header() + END, "one block of zeros"),
    "no end": (header(), "ends early"),
    "half a block": (header()[:100], "ends early"),
    "empty": (b"", "ends early"),
    "data behind": (header() + END + b"x", "data after the end of the archive"),
}


def problem_of(packed):
    """Return the error of an archive; empty for a valid one."""
    try:
        problems = [member.problem for member in read_archive(io.BytesIO(packed), frozenset(), 0)]
    except ArchiveError as error:
        return str(error)
    return "\n".join(filter(None, problems))


@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_archive_is_refused(package, tmp_path, name):
    data, message = ARCHIVES[name]
    path = with_payload(package, tmp_path / "x.run", gzip.compress(data))
    answer = CliRunner().invoke(app, ["verify", str(path)])
    assert isinstance(answer.exception, UserError), answer.output
    assert message in str(answer.exception)
    assert str(answer.exception).startswith(f"{path}: cannot be unpacked: got ")
    assert ", expected " in str(answer.exception)
    assert "; get the file again" in str(answer.exception)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data + data, "data after the end of the compressed data"),
        (lambda data: data + b"x", "data after the end of the compressed data"),
        (lambda data: data[:-9], "ends early"),
        (lambda data: data[:-8] + b"\0" * 8, "damaged compressed data"),
        (lambda _: b"x" * 100, "damaged compressed data"),
        (lambda _: b"", "ends early"),
    ],
)
def test_damaged_compression_is_refused(change, message):
    assert message in problem_of(change(archive_of({"a": b"x" * 3000})))


@pytest.mark.parametrize("place", ["content", "behind the end"])
def test_bombs_stop_at_the_limit(monkeypatch, place):
    monkeypatch.setattr("opforge.package.archive.MOST_UNPACKED_BYTES", 1 << 24)
    start = header("x", b"0", 1 << 30) if place == "content" else header() + END
    assert "got more than 16777216 bytes when unpacked" in problem_of(gzip.compress(start + b"\0" * (1 << 25), 1))
    assert MOST_UNPACKED_BYTES == 1 << 30


def test_too_many_members_are_refused(monkeypatch):
    monkeypatch.setattr("opforge.package.archive.MOST_MEMBERS", 1000)
    members = [header(str(number)) for number in range(1001)]
    assert problem_of(gzip.compress(b"".join(members[:1000]) + END)) == ""
    assert "more than 1000 members" in problem_of(gzip.compress(b"".join(members) + END))
    assert MOST_MEMBERS == 100_000


NAMED = [
    (header("a/../../evil"), "is outside of the package"),
    (header("/etc/evil"), "is outside of the package"),
    (header("./a//b"), "not the shortest form"),
    (header("a/./b"), "not the shortest form"),
    (header("a/../b", b"5"), "is outside of the package"),
    (header("x", b"1", linkname="/etc/passwd"), "a link or device"),
    (header("x", b"2", linkname="/etc/passwd"), "a link or device"),
    (header("x", b"3"), "a link or device"),
    (header("x", b"4"), "a link or device"),
    (header("x", b"6"), "a link or device"),
    (header("x") + header("./x"), "is in the archive twice"),
    (header("x") + header("x", b"5"), "is in the archive twice"),
]


@pytest.mark.parametrize(("data", "message"), NAMED)
def test_members_that_no_package_has_are_named(package, tmp_path, data, message):
    assert message in problem_of(gzip.compress(data + END))
    answer = CliRunner().invoke(app, ["verify", str(with_payload(package, tmp_path / "x", gzip.compress(data + END)))])
    assert (answer.exit_code, message in answer.output) == (1, True)


@pytest.mark.parametrize(
    "name",
    [
        f"a\n{CALM}",
        "\x1b[2J\x1b[1;1H" + CALM,
        "a\u202eb",
        "a\u2066b",
        "a\rb",
        "a\x9b2J",
        "\udcff",
        "a\u2028b",
        "\u200b",
    ],
)
def test_names_cannot_control_the_terminal(package, tmp_path, name):
    payload = tar_of({TREE + name: b"x", "install.sh": b"x"})
    answer = CliRunner().invoke(app, ["verify", str(with_payload(package, tmp_path / "x.run", payload))])
    assert (answer.exit_code, answer.exception.args if isinstance(answer.exception, UserError) else ()) == (1, ())
    assert all(line.isprintable() for line in answer.output.split("\n"))
    assert CALM not in answer.output.split("\n")
    as_json = CliRunner().invoke(app, ["verify", "--json", str(tmp_path / "x.run")])
    assert json.loads(as_json.stdout)["problems"]


MANIFESTS = [
    (b'{"a":' * 100_000, "recursion limit"),
    (b"[" * 300, "recursion limit"),
    (b'{"vendor": "\\ud800"}', "expected JSON"),
    (b'{"vendor": "\xff"}', "expected JSON"),
    (b"\0", "expected JSON"),
    (b"", "expected JSON"),
    (b"null", "got None"),
    (b"[1]", "got [1], expected an object"),
    (b"1" + b"0" * 5000, "got"),
    (b'{"vendor": 1}', "got 1 at ['vendor']"),
    (b'{"vendor": {}, "files": []}', "got {} at ['vendor']"),
    (b'{"files": {"a": 1}}', "got nothing at ['vendor'], expected a value"),
]


@pytest.mark.parametrize(("text", "message"), MANIFESTS)
def test_manifest_of_another_form_is_refused(package, tmp_path, text, message):
    payload = tar_of({TREE + "manifest.json": text, "../x": b""})
    with pytest.raises(UserError) as refused:
        verify(with_payload(package, tmp_path / "x.run", payload))
    assert refused.value.exit_code == 2
    assert "x.run: cannot read manifest.json of the package: got " in str(refused.value)
    assert message in str(refused.value)
    assert str(refused.value).endswith("; get the file again")
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f | {"SHA256SUMS": f["SHA256SUMS"][65:]}, "SHA256SUMS: differs from the files in the manifest"),
        (lambda f: f | {"SHA256SUMS": b"\xff" * 99}, "SHA256SUMS: differs"),
        (lambda f: f | {"SHA256SUMS": f["SHA256SUMS"].replace(b"\n", b"\r\n")}, "SHA256SUMS: differs"),
        (lambda f: f | {"SHA256SUMS": f["SHA256SUMS"] + b"0" * 64 + b"  ../x\n"}, "SHA256SUMS: differs"),
        (lambda f: {k: v for k, v in f.items() if k != "SHA256SUMS"}, "SHA256SUMS: missing"),
        (lambda f: f | {"package.info": b"vendor=other\n"}, "package.info: differs from the facts in the manifest"),
    ],
)
def test_lists_that_disagree_are_named(package, tmp_path, change, message):
    with tarfile.open(fileobj=io.BytesIO(archive_of({"a.h": b"x"}))) as archive:
        files = {m.name: archive.extractfile(m).read() for m in archive}
    own = change({name.removeprefix(TREE): data for name, data in files.items() if name.startswith(TREE)})
    members = {TREE + name: data for name, data in own.items()} | {"install.sh": files["install.sh"]}
    problems = verify(with_payload(package, tmp_path / "x.run", tar_of(members)))[1]
    assert any(message in problem for problem in problems), problems


def test_forty_thousand_files(package, tmp_path):
    files = {f"docs/d{number % 100}/f{number}": b"x" for number in range(40_000)}
    path = with_payload(package, tmp_path / "x.run", archive_of(files))
    command = [sys.executable, "-c", "import sys; from opforge.cli.main import main; main()", "verify", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (result.returncode, CALM in result.stdout) == (0, True), result.stdout[-500:] + result.stderr[-500:]


def test_many_problems_are_cut(package, tmp_path):
    payload = gzip.compress(b"".join(header(f"../{number}") for number in range(5000)) + END)
    problems = verify(with_payload(package, tmp_path / "x.run", payload))[1]
    assert (len(problems), problems[-1]) == (1001, "more than 1000 problems; the others are not listed")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x" * 300, "File name too long"),
        ("d/" * 3000, "File name too long"),
        ("", "got a directory"),
        ("pipe", "a pipe"),
    ],
)
def test_paths_without_a_package(tmp_path, name, message):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match=message) as refused:
        verify(tmp_path / name)
    assert len(str(refused.value)) < 600
    for device in ("/dev/zero", "/dev/full"):
        with pytest.raises(UserError, match="got a device, expected a regular file"):
            verify(Path(device))


def test_head_that_claims_too_much_is_refused(tmp_path):
    head = b"#!/bin/sh\n{ # x\nheader_lines=999999\npayload_bytes=0\npayload_sha256=" + b"0" * 64 + b"\n"
    (tmp_path / "x.run").write_bytes(head + b"\n" * 10)
    assert verify(tmp_path / "x.run")[1]
    with (tmp_path / "huge.run").open("wb") as file:
        file.truncate(60 << 30)
    with pytest.raises(UserError, match="expected at most 1073741824"):
        verify(tmp_path / "huge.run")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--vendor-name", "v" * 300], "--vendor-name: got 'vvv"),
        (["--output", "o" * 300], "File name too long"),
        (["--output", "d/" * 3000], "File name too long"),
        (["--ops", "O" * 300], "--ops: got 'OOO"),
        (["--product", "s" * 300], "--product: got 'sss"),
        (["--cann", "c" * 5000], "expected the folder of a CANN toolkit"),
    ],
)
def test_long_options_of_pack(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(app, ["pack", "--ops", "GroupedBiasAddGrad", *options])
    assert isinstance(answer.exception, UserError), answer.exception
    assert message in str(answer.exception)
    assert list(tmp_path.iterdir()) == []


def test_pipe_among_the_headers_of_a_project(tmp_path):
    for name in ("op_proto", "op_host", "op_kernel"):
        shutil.copytree(ROOT / name, tmp_path / name)
    os.mkfifo(tmp_path / "op_host/pipe.h")
    with pytest.raises(UserError, match=r"pipe\.h: cannot read the header: got a pipe, expected a regular file"):
        pack(out=tmp_path / "out", project=Project(tmp_path), ops=["GroupedBiasAddGrad"])
    assert not (tmp_path / "out").exists()


def mutations(seed, count, samples):
    """Return samples with changed, removed, repeated and inserted bytes."""
    dice = random.Random(seed)  # noqa: S311  # the same cases every time
    for _ in range(count):
        data = bytearray(dice.choice(samples))
        for _ in range(dice.randint(1, 4)):
            place = dice.randrange(len(data) + 1)
            length = dice.choice((1, 1, 2, 8, 64, 512))
            kind = dice.randrange(4)
            if kind == 0:
                data[place : place + length] = dice.randbytes(length)
            elif kind == 1:
                del data[place : place + length]
            elif kind == 2:
                data[place:place] = data[place : place + length]
            else:
                data[place:place] = dice.choice(
                    (b"\0", b"{", b"[", b'"', b"\\ud800", b"-1", b"1e999", b"\xff", b"null")
                )
        yield bytes(data)


FORMS: dict[str, tuple[TypeAdapter, bytes]] = {
    "manifest": (MANIFEST_FORM, b'{"operators": ["A"], "cann": ["8.1", "9.1"], "files": {"a/b": "%s"}}' % (b"0" * 64)),
    "ops-info": (OPS_INFO_FORM, b'{"A": {"opFile": {"value": "a"}, "input0": {"dtype": "float16,float32"}}}'),
    "binaries": (BINARIES_FORM, b'{"A": {"binaryList": [{"binPath": "s/a.o", "jsonPath": "s/a.json"}]}}'),
    "built": (BUILT_FORM, b'{"toolkit": "8.1", "files": {"a": "%s"}}' % (b"0" * 64)),
    "packed": (
        PACKED_FORM,
        lists({"vendor": "v", "cann": ["8.1", "9.1"], "operators": ["A"]}, {"a": b""})["manifest.json"],
    ),
}


def fuzz_json(count):
    refused = 0
    for name, (form, sample) in FORMS.items():
        for data in mutations(f"json {name}", count // len(FORMS), [sample]):
            try:
                parse_json(data, form)
            except FormError as error:
                refused += 1
                assert str(error).isprintable()  # noqa: PT017  # only some mutants fail
                assert len(str(error)) < 1000  # noqa: PT017  # only some mutants fail
    assert refused > count // 4


def fuzz_archives(count):
    """Half of the cases change the archive, the others its compressed form."""
    samples = [gzip.decompress(tar_of({"a": b"x" * 700, "b/" + "c" * 120: b"", f"d{kind}": b""})) for kind in range(2)]
    samples += [data for data, _ in ARCHIVES.values() if 0 < len(data) < 8192]
    refused = 0
    for number, data in enumerate(mutations("archives", count, samples)):
        packed = gzip.compress(data, 1)
        if number % 2:
            packed = next(mutations(number, 1, [gzip.compress(samples[0], 1)]))
        problem = problem_of(packed)
        refused += bool(problem)
        assert len(problem) < 10_000
    assert refused > count // 2


@pytest.mark.parametrize("fuzz", [fuzz_json, fuzz_archives])
def test_ten_thousand_damaged_inputs(fuzz):
    fuzz(10_000)


@pytest.mark.all
@pytest.mark.parametrize("fuzz", [fuzz_json, fuzz_archives])
def test_hundred_thousand_damaged_inputs(fuzz):
    fuzz(100_000)


def test_memory_stays_bounded_for_a_large_member(package, tmp_path):
    """A member of 300 MB is hashed in pieces."""
    packed = io.BytesIO()
    with gzip.open(packed, "wb", 1) as stream:
        stream.write(header(TREE + "big", b"0", 300 << 20))
        for _ in range(300):
            stream.write(b"\0" * (1 << 20))
        stream.write(END)
    path = with_payload(package, tmp_path / "x.run", packed.getvalue())
    script = "import sys; from opforge.cli.main import app; app(['verify', sys.argv[1]])"
    limit = 256 << 20
    result = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (result.returncode, "got 0 files manifest.json" in result.stdout) == (1, True), result.stderr[-500:]
