"""Test hostile environments and vendor folders for `opforge doctor`: named faults, in bounded time, no other file
opened."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from opforge.package.doctor import device, libraries
from opforge.package.doctor.cann_environment import CannEnvironment, priorities
from opforge.package.doctor.command import _print, diagnosis
from opforge.package.doctor.device import directory_of, find_device
from opforge.package.doctor.faults import find_faults
from opforge.package.layout import TBE
from opforge.package.places import children, first_text, real, walk, why_unusable

SOC = "ascend910b"
VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH", "LD_LIBRARY_PATH")


class Place:
    """A toolkit, a vendor folder without libraries, and the variables that refer to them."""

    def __init__(self, root: Path) -> None:
        self.root, self.toolkit, self.vendor = root, root / "toolkit", root / "vendors/acme"
        self.write("toolkit/compiler/version.info", "Version=8.1\nversion_dir=8.1.RC1\n")
        self.write("toolkit/opp/scene.info", "os=linux\narch=x86_64\n")
        (self.toolkit / "opp/built-in").mkdir()
        self.write("vendors/acme/op_proto/inc/x.h", "")
        self.environment = {
            "ASCEND_HOME_PATH": str(self.toolkit),
            "ASCEND_OPP_PATH": str(self.toolkit / "opp"),
            "ASCEND_CUSTOM_OPP_PATH": str(self.vendor),
        }

    def write(self, path: str, text: str | bytes) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode() if isinstance(text, str) else text)
        return target

    def faults(self, soc=SOC):
        environment = CannEnvironment(self.environment, ())
        found = find_faults(environment, soc)
        answer = diagnosis(environment, soc, found) | {"device": None}
        json.dumps(answer)
        _print(answer, found)
        return found


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def fault_text(faults):
    return "\n".join(map(str, faults))


VALUES = [
    ("/" + "x" * 300, "the path is too long"),
    ("/x" * 3000, "the path is too long"),
    ("/a\0b", "it contains a character that is not allowed in a path"),
    ("/\ud800", "it contains a character that is not allowed in a path"),
]


@pytest.mark.parametrize(("value", "words"), VALUES)
@pytest.mark.parametrize("variable", VARIABLES)
def test_unusable_values_of_variables(place, capsys, variable, value, words):
    place.environment[variable] = value
    found = fault_text(place.faults())
    assert variable == "LD_LIBRARY_PATH" or f"{variable}: got " in found
    assert variable == "LD_LIBRARY_PATH" or f"but {words}" in found
    assert max(map(len, found.splitlines()), default=0) < 1000
    assert all(line.isprintable() for line in capsys.readouterr().out.split("\n"))


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize("value", ["/a\nno fault found", "/\x1b[2J", "/\u202ex", "/\udcff", "/a\rb", "~", ".", " "])
def test_values_cannot_control_the_terminal(place, capsys, variable, value):
    place.environment[variable] = value
    found = place.faults()
    lines = capsys.readouterr().out.split("\n")
    assert all(line.isprintable() for line in lines)
    assert ("no fault found" in lines) == (not found)


def test_cycles_of_links(place):
    loop = place.root / "loop"
    loop.symlink_to("loop")
    (place.root / "chain0").mkdir()
    for number in range(2000):
        (place.root / f"chain{number + 1}").symlink_to(f"chain{number}")
    environment = place.environment
    for target in (loop, loop / "x", place.root / "chain2000", place.root / "chain2000/x"):
        for variable in VARIABLES:
            place.environment = environment | {variable: str(target)}
            found = fault_text(place.faults())
            assert variable == "LD_LIBRARY_PATH" or f"{variable}: got " in found, found
        assert real(target) == target
    for name in ("manifest.json", "version.info", "op_api", "op_proto/lib", TBE, "built.json"):
        inner = Place(place.root / f"inner {name.replace('/', ' ')}")
        (inner.vendor / name).parent.mkdir(parents=True, exist_ok=True)
        (inner.vendor / name).symlink_to(inner.vendor / name)
        inner.faults()


def deep_folder(start, levels):
    """Create a folder whose path is too long for a single system call."""
    here = os.open(start, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def remove_deep_folder(start):
    subprocess.run(["rm", "-rf", str(start)], check=True)


def test_vendor_folder_of_three_thousand_levels(place):
    deep_folder(place.vendor, 3000)
    try:
        (fault,) = [fault for fault in place.faults() if fault.check == "vendor-too-large"]
        assert "got folders more than 64 levels deep" in str(fault)
        assert walk(place.vendor).excess
        script = "import sys; from opforge.cli.main import main; main()"
        command = [sys.executable, "-c", script, "doctor"]
        environment = os.environ | place.environment
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert (result.returncode, "vendor-too-large" in result.stdout, result.stderr) == (1, True, "")
    finally:
        remove_deep_folder(place.vendor / "d")


def test_vendor_folder_of_too_many_files(place, monkeypatch):
    monkeypatch.setattr("opforge.package.places.MOST_ENTRIES", 50)
    for number in range(60):
        place.write(f"vendors/acme/docs/{number}", "")
    assert "got more than 50 files and folders" in fault_text(place.faults())


PIPES = [
    "toolkit/opp/vendors/config.ini",
    "toolkit/opp/scene.info",
    "toolkit/compiler/version.info",
    "vendors/acme/version.info",
    "vendors/acme/manifest.json",
    "vendors/acme/built.json",
    f"vendors/acme/{TBE}/config/{SOC}/aic-{SOC}-ops-info.json",
    f"vendors/acme/{TBE}/kernel/config/{SOC}/binary_info_config.json",
    "vendors/acme/op_api/include/aclnn_x.h",
    "vendors/acme/op_api/lib/libcust_opapi.so",
    "vendors/acme/SHA256SUMS",
]


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "huge", "socket"])
@pytest.mark.parametrize("file", PIPES)
def test_special_files_do_not_block(place, file, kind):
    path = place.root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "socket":
        os.mknod(path, 0o140644)
    else:
        with path.open("wb") as stream:
            stream.truncate(60 << 30)
    found = fault_text(place.faults())
    assert not file.endswith(".json") or f"{file}: " in found


MANIFEST_FILES = [
    ("/etc/passwd", "String should match pattern"),
    ("../../x", "String should match pattern"),
    ("a/../../x", "String should match pattern"),
    ("a\n", "String should match pattern"),
    ("a" * 5000, "at most 1000 characters"),
    ("-rf", "String should match pattern"),
    ("\x1b[2J", "String should match pattern"),
]


@pytest.mark.parametrize(("name", "words"), MANIFEST_FILES)
def test_manifest_opens_no_files_outside(place, capsys, name, words):
    place.write("vendors/acme/manifest.json", json.dumps({"operators": [], "files": {name: "0" * 64}}))
    found = fault_text(place.faults())
    assert words in found
    assert "[malformed]" in found
    assert all(line.isprintable() for line in capsys.readouterr().out.split("\n"))


def test_descriptions_open_no_files_outside(place):
    place.write(f"vendors/acme/{TBE}/acme_impl/dynamic/x.py", "")
    for value in ("/etc/passwd", "../../../x", "f" * 5000, "a\0b", "\n"):
        described = {"A": {"opFile": {"value": value}}}
        place.write(f"vendors/acme/{TBE}/config/{SOC}/aic-{SOC}-ops-info.json", json.dumps(described))
        binaries = {"A": {"binaryList": [{"binPath": value, "jsonPath": "x"}]}}
        place.write(f"vendors/acme/{TBE}/kernel/config/{SOC}/binary_info_config.json", json.dumps(binaries))
        found = fault_text(place.faults())
        assert "impl-missing" in found
        assert "[malformed]" in found


def test_names_of_operators_cannot_control_the_terminal(place, capsys):
    names = ["A\nno fault found", "\x1b[2J", "\u202e", "B" * 100_000, ""]
    described = {name: {"opFile": {"value": name}} for name in names}
    place.write(f"vendors/acme/{TBE}/config/{SOC}/aic-{SOC}-ops-info.json", json.dumps(described))
    place.faults()
    lines = capsys.readouterr().out.split("\n")
    assert all(line.isprintable() for line in lines)
    assert "no fault found" not in [line.strip() for line in lines]


def test_files_that_are_too_large_are_not_compared(place):
    listed = {"operators": [], "files": {"big": "0" * 64}}
    place.write("vendors/acme/manifest.json", json.dumps(listed))
    with (place.vendor / "big").open("wb") as stream:
        stream.truncate(60 << 30)
    assert "got 64424509440 bytes in the files that the manifest lists, expected at most" in fault_text(place.faults())


def test_forty_thousand_files_are_compared(place):
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    for folder in range(40):
        (place.vendor / f"docs/{folder}").mkdir(parents=True)
    files = {f"docs/{number % 40}/f{number}": empty for number in range(40_000)}
    for name in list(files)[:20_000]:
        (place.vendor / name).touch()
    changed = next(iter(files))
    (place.vendor / changed).write_text("x")
    place.write("vendors/acme/manifest.json", json.dumps({"operators": [], "files": files}))
    script = "import sys; from opforge.cli.main import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", script, "doctor", "--json"],
        env=os.environ | place.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    causes = {fault["check"]: fault["cause"] for fault in json.loads(result.stdout)["faults"]}
    assert causes["file-missing"] == "does not exist, but the manifest lists it; 19999 more are missing"
    assert causes["file-changed"] == "differs from the installed file"


def test_ten_thousand_operators(place):
    described = {f"Op{number}": {"opFile": {"value": f"op{number}"}} for number in range(10_000)}
    place.write(f"vendors/acme/{TBE}/config/{SOC}/aic-{SOC}-ops-info.json", json.dumps(described))
    place.write(f"vendors/acme/{TBE}/acme_impl/dynamic/x.py", "")
    script = "import sys; from opforge.cli.main import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", script, "doctor", "--product", SOC],
        env=os.environ | place.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (result.returncode, "9000 more operators; --json lists all" in result.stdout) == (1, True), result.stderr


def test_header_without_end_of_its_comments(place):
    place.write("vendors/acme/op_api/include/aclnn_x.h", "/*" * 500_000)
    place.write("vendors/acme/op_api/include/aclnn_y.h", "aclnnStatus" + " " * 900_000)
    place.write("vendors/acme/op_api/include/aclnn_z.h", "aclnnStatus aclnnX" + " " * 900_000)
    place.faults()


@pytest.mark.parametrize(
    "line",
    [
        "load_priority=" + "x" * 300,
        "load_priority=" + "a," * 100_000,
        "load_priority=../../../etc,/etc,.",
        "load_priority=a\x1b[2J",
        "load_priority=\u202e",
        "load_priority=" + "x" * (60 << 10),
    ],
)
def test_hostile_list_of_vendors(place, capsys, line):
    config = place.write("toolkit/opp/vendors/config.ini", f"{line}\n")
    assert "/config.ini: " in fault_text(place.faults())
    assert all(name.isprintable() for name in priorities(config) or ())
    assert all(text.isprintable() for text in capsys.readouterr().out.split("\n"))
    assert all(vendor.path == place.vendor for vendor in CannEnvironment(place.environment, ()).vendors)


def test_many_entries_of_one_variable(place):
    place.environment["ASCEND_CUSTOM_OPP_PATH"] = ":".join([str(place.vendor)] * 20_000)
    place.environment["LD_LIBRARY_PATH"] = ":".join(f"/x{number}" for number in range(20_000))
    assert len(CannEnvironment(place.environment, ()).vendors) == 1
    place.faults()


@pytest.mark.parametrize("chip", ["**/x", "/etc/passwd", "../" * 50, "x" * 5000, "[", "a\0b", "\x1b[2J", "*"])
def test_hostile_names_of_chips(place, chip):
    assert directory_of(chip, [place.toolkit]) == ""
    assert find_device({"SOC_VERSION": chip}, [place.toolkit]).directory == ""


def test_output_of_the_driver_may_be_anything(tmp_path):
    program = tmp_path / "npu-smi"
    program.write_bytes(b"#!/bin/sh\nprintf '\\377\\0\\033[2J| 3  910B3 | OK'\n")
    program.chmod(0o755)
    assert find_device({"PATH": f"{tmp_path}:/usr/bin:/bin"}, []) is None


@pytest.mark.parametrize("ending", ["sleep 300 &", "yes 910B3", "trap '' TERM; sleep 300"])
def test_a_driver_without_an_end_is_ended_with_its_children(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(device, "SECONDS", 1)
    program = tmp_path / "npu-smi"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/group\n{ending}\n", encoding="utf-8")
    program.chmod(0o755)
    assert find_device({"PATH": f"{tmp_path}:/usr/bin:/bin"}, []) is None
    group = int((tmp_path / "group").read_text(encoding="utf-8"))
    time.sleep(0.5)  # a killed process may still be ending
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended
            state, _, its_group, *_ = place.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            assert state == "Z" or int(its_group) != group


CONSTRUCTORS = {
    "leaves a process": ("if (!fork()) { for (;;) sleep(9); }", "does not export x"),
    "leaves a session": ("if (!fork()) { setsid(); for (;;) sleep(9); }", "does not export x"),
    "ignores signals": ("for (int n = 1; n < 64; n++) signal(n, SIG_IGN); for (;;) sleep(9);", "not loaded after 1 s"),
    "writes everywhere": ("for (int n = 0; n < 9000; n++) { if (write(n % 9, text, 65536)) {} }", "does not export x"),
    "ends": ("_exit(0);", "ends the program that loads it (exit code 0)"),
    "kills its parent": ("kill(getppid(), 9); for (;;) sleep(9);", ""),
}


@pytest.mark.parametrize("kind", CONSTRUCTORS)
def test_library_with_a_constructor(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(libraries, "SECONDS", 1)
    code, words = CONSTRUCTORS[kind]
    head = "#include <signal.h>\n#include <unistd.h>\nstatic char text[65536];\n"
    source = tmp_path / "a.c"
    source.write_text(f"{head}__attribute__((constructor)) static void begin(void) {{ {code} }}\n", encoding="utf-8")
    library = tmp_path / f"lib{os.getpid()}.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    started = time.monotonic()
    ((path, failure),) = libraries.load({library: ("x",)}, dict(os.environ))
    assert (path, time.monotonic() - started < 20) == (library, True)
    assert words in failure.message or (words == "does not export x" and failure.lacks == ("x",))
    for place in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):  # of another user, or it ended
            assert str(library) not in place.read_text(encoding="utf-8", errors="replace")


def test_queries_at_any_position_return_a_result(tmp_path):
    assert why_unusable("") == why_unusable("/nowhere") == ""
    assert children(tmp_path / "x" / ("y" * 300)) == []
    assert children(Path("a\0b")) == []
    assert first_text(Path("/dev/zero")) == ""
    (tmp_path / "long").write_bytes(b"\xff" * 100)
    assert first_text(tmp_path / "long", 10) == "\ufffd" * 10


def test_mutated_vendor_folders(place):
    """Damage bytes in every text that doctor reads, in one process."""
    texts = {
        "manifest.json": json.dumps({"operators": ["A"], "cann": ["8.1", "9.1"], "files": {"version.info": "0" * 64}}),
        "built.json": json.dumps({"toolkit": "8.1.RC1", "files": {"version.info": "0" * 64}}),
        "version.info": "compiler_version=8.1\npackage_version=1.0\n",
        f"{TBE}/config/{SOC}/aic-{SOC}-ops-info.json": json.dumps({"A": {"opFile": {"value": "a"}}}),
        f"{TBE}/kernel/config/{SOC}/binary_info_config.json": json.dumps({"A": {"binaryList": [{"binPath": "x/a.o"}]}}),
        "op_api/include/aclnn_a.h": "aclnnStatus aclnnA(void); /* x */ // y",
    }
    dice = random.Random("doctor")  # noqa: S311  # the same cases every time
    environment = {"ASCEND_CUSTOM_OPP_PATH": str(place.vendor)}
    for _ in range(300):
        for name, text in texts.items():
            data = bytearray(text.encode())
            for _ in range(dice.randint(0, 3)):
                at = dice.randrange(len(data))
                data[at : at + dice.choice((0, 1, 9))] = dice.choice(
                    (b"\0", b"[", b"{", b"..", b"/", b"\xff", b"1", b"")
                )
            place.write(f"vendors/acme/{name}", bytes(data))
        found = find_faults(CannEnvironment(environment, ()), SOC)
        assert found
        assert len(fault_text(found)) < 20_000
