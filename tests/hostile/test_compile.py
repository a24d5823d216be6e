"""Test harmful sources and compilers: each ends with one message, within limits."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opforge.codegen.errors import MissingToolError, UserError
from opforge.codegen.new import new_project
from opforge.codegen.process_limits import MIB, LimitError, Limits
from opforge.codegen.project import Project
from opforge.twin.compiler import limited_process
from opforge.twin.compiler import units as compiler
from opforge.twin.compiler.folder import locked
from opforge.twin.compiler.limited_process import MEMORY, OUTPUT, SECONDS, run_limited
from opforge.twin.compiler.units import CompileError, Library, Unit
from opforge.twin.lint.expansion import require_no_assembly
from opforge.twin.lint.kernel_lint import lint_files, lint_text, require_clean

OPFORGE = str(Path(sys.executable).with_name("opforge"))
HANGS = 300  # seconds after which a test is a hang
TEMPLATE_BOMB = """template <int N, int M> struct A {
    static constexpr long v = A<N - 1, M>::v + A<N - 1, M + (1 << N)>::v;
};
template <int M> struct A<0, M> { static constexpr long v = M; };
long x = A<28, 0>::v;
"""
LONG_MESSAGE = """template <int N> struct A { using type = A<N - 1>; };
#define F(x) int x = undeclared_##x;
#define G(x) F(x##0) F(x##1) F(x##2) F(x##3) F(x##4) F(x##5) F(x##6) F(x##7)
#define H(x) G(x##0) G(x##1) G(x##2) G(x##3) G(x##4) G(x##5) G(x##6) G(x##7)
#define I(x) H(x##0) H(x##1) H(x##2) H(x##3) H(x##4) H(x##5) H(x##6) H(x##7)
I(a)
"""
# text -> (limits, part of the message)
BOMBS = {
    "template bomb, time": (TEMPLATE_BOMB, {SECONDS: "1"}, f"takes more than 1 s; set {SECONDS}=2"),
    "template bomb, memory": (TEMPLATE_BOMB, {MEMORY: "100"}, f"needs more than 100 MB of memory; set {MEMORY}=200"),
    "/dev/zero": ('#include "/dev/zero"\n', {MEMORY: "300"}, f"set {MEMORY}=600"),
    "big object": ("char x[300000000] = {1};\n", {OUTPUT: "10"}, f"a file of more than 10 MB; set {OUTPUT}=20"),
    "long messages": (LONG_MESSAGE, {}, "more bytes of messages are not shown"),
    "no limit": ("int x;\n", {SECONDS: "many"}, f"{SECONDS}: got 'many', expected a number of seconds"),
    "negative limit": ("int x;\n", {MEMORY: "-1"}, f"{MEMORY}: got '-1', expected a number of MB"),
}
# Files that the preprocessor reads: rejected, because the object would depend on them.
READ = {
    "absolute path": '#include "{outside}/secret.h"\n',
    "parents": '#include "../outside/secret.h"\n',
    "link": '#include "link.h"\n',
    "device": '#include "/dev/null"\n',
    "macro": '#define NAME "{outside}/secret.h"\n#include NAME\n',
    "import": '#import "{outside}/secret.h"\n',
    "next": '#include_next "{outside}/secret.h"\n',
}


def compiled(source, folder, **unit):
    library = Library(folder / "out" / "libx.so", (Unit(source, folder / "out" / "x.o", (), source.name, **unit),))
    with locked(folder / "out") as scratch:
        return compiler.build([library], scratch)


@pytest.fixture
def place(tmp_path):
    """Create a folder with a source, next to a source outside the project."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.h").write_text("int secret;\n", encoding="utf-8")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "link.h").symlink_to(tmp_path / "outside" / "secret.h")
    return tmp_path / "project"


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_source_that_costs_too_much_is_ended(place, monkeypatch, bomb):
    text, limits, words = BOMBS[bomb]
    for variable, value in limits.items():
        monkeypatch.setenv(variable, value)
    source = place / "x.cpp"
    source.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        compiled(source, place)
    message = str(caught.value)
    assert words in message
    assert message.startswith(("x.cpp: ", *limits))
    assert len(message) < 100_000
    assert sorted(path.name for path in (place / "out").iterdir()) == [".lock"]


@pytest.mark.parametrize("kind", READ)
def test_included_files_must_be_in_the_project(place, kind):
    source = place / "x.cpp"
    source.write_text(READ[kind].format(outside=place.parent / "outside"), encoding="utf-8")
    with pytest.raises(CompileError, match=r"x\.cpp includes .*, which is not a file of|the compiler rejected"):
        compiled(source, place)
    assert not (place / "out" / "x.o").exists()
    if kind not in {"device", "import", "next"}:
        assert compiled(source, place, folders=(place.parent,)) == 1, "a folder that the unit names"


def ends(process):
    """Return whether a killed process ends; the system may need a moment."""
    status = Path("/proc", str(process), "stat")
    for _ in range(200):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if status.read_text().rpartition(") ")[2][0] != "Z":
                time.sleep(0.05)
                continue
        return True
    return False


def test_a_process_that_waits_is_ended_with_its_children(tmp_path, monkeypatch):
    monkeypatch.setattr(limited_process, "_WALL_PER_CPU", 1)
    script = f"echo $$ >{tmp_path}/leader; sleep 1000 & echo $! >{tmp_path}/child; cat /dev/fd/0; wait"
    with pytest.raises(LimitError, match=f"takes more than 1 s; set {SECONDS}=2"):
        run_limited(["/bin/sh", "-c", script], Limits(1, 500 * MIB, MIB))
    for name in ("leader", "child"):
        assert ends(int((tmp_path / name).read_text()))


def test_only_the_beginning_of_an_output_is_kept():
    ended = run_limited(["/bin/sh", "-c", "head -c 50000000 /dev/zero | tr '\\0' x"], Limits(60, 500 * MIB, MIB))
    assert ended.text.startswith("xxx")
    assert ended.text.endswith("more bytes of messages are not shown")
    assert len(ended.text) < 100_000


# A compiler -> part of the message.
SCRIPT = "#!/bin/sh\n"
VERSION = f'{SCRIPT}[ "$1" = --version ] && {{ echo "g++ 12"; exit 0; }}\n'
COMPILERS = {
    "prints a version only": (f"{VERSION}exit 0\n", "no object file for x.cpp"),
    "writes text": (f'{VERSION}for a; do case "$p" in -o|-MF) echo x >"$a";; esac; p=$a; done\n', "no object file for"),
    "version without an end": (f"{SCRIPT}yes\n", "set CXX to one"),
    "closes its output": (f"{VERSION}exec >&- 2>&-\n", "no object file for"),
    "is killed": (f"{SCRIPT}kill -9 $$\n", "exit code -9 from"),
}


@pytest.fixture
def cxx(monkeypatch):
    """Set CXX for the test."""

    def use(name):
        monkeypatch.setenv("CXX", str(name))
        compiler.compiler.cache_clear()

    yield use
    monkeypatch.undo()
    compiler.compiler.cache_clear()


@pytest.mark.parametrize("kind", COMPILERS)
def test_other_program_is_reported_as_missing_compiler(place, cxx, monkeypatch, kind):
    text, words = COMPILERS[kind]
    monkeypatch.setattr(compiler, "_VERSION_LIMITS", Limits(1, 500 * MIB, MIB))
    program = place / "cxx"
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    source = place / "x.cpp"
    source.write_text("int x;\n", encoding="utf-8")
    cxx(program)
    with pytest.raises(MissingToolError) as caught:
        compiled(source, place)
    assert words in str(caught.value)
    assert str(program) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("true", "no object file for x.cpp"),
        ("g++ -O0", "a program, without options"),
        ("/", "no program / on PATH"),
        ("x" * 300, "on PATH"),
        ("a/" * 3000, "on PATH"),
        ("a\nb", r"no program 'a\nb' on PATH"),
    ],
)
def test_cxx_without_a_compiler_is_a_missing_tool(place, cxx, name, words):
    source = place / "x.cpp"
    source.write_text("int x;\n", encoding="utf-8")
    cxx(name)
    with pytest.raises(MissingToolError) as caught:
        compiled(source, place)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 600


# A line of a kernel header that lint rejects -> part of the message.
REFUSED_LINES = {
    '#include "/dev/zero"': "'/dev/zero' is an absolute path",
    "#include </dev/zero>": "'/dev/zero' is an absolute path",
    '#  include /* c */ "/dev/zero"': "is an absolute path",
    '/* c */ #include "/dev/zero"': "is an absolute path",
    '/* c\n*/ #include "/dev/zero"': "is an absolute path",
    '%:include "/dev/zero"': "is an absolute path",
    '#inc\\\nlude "/dev/zero"': "is an absolute path",
    '#include "/dev\\\n/zero"': "is an absolute path",
    "#include HEADER": "got #include 'HEADER', expected the name of a header in quotes",
    "#include": "expected the name of a header in quotes",
    '#include_next "a.h"': "#include_next does not exist on the device",
    '#import "a.h"': "#import does not exist on the device",
    '#embed "a.h"': "#embed does not exist on the device",
    '#if __has_include("a.h")\n#endif': "__has_include depends on the files of this machine",
    "#define F __has_embed": "__has_embed depends on",
    "#if defined(__has_include_next)\n#endif": "__has_include_next depends on",
    '#pragma GCC dependency "/dev/zero"': "pragma dependency reads a file",
    '_Pragma("GCC dependency \\"/dev/zero\\"")': "pragma dependency reads a file",
    '__asm__(".incbin \\"/dev/zero\\"");': "__asm__",
    '/* c */ #include "a.h"': "alone on one line",
    '#inc\\\nlude "a.h"': "alone on one line",
    '#include /* c */ "a.h"': "alone on one line",
    '#line 1 "/usr/include/stdio.h"': "directive: '#line 1",
    '#li\\\nne 1 "/usr/include/stdio.h"': "directive: '#line 1",
    '# 1 "/usr/include/stdio.h" 1 3 4': "directive: '# 1",
    '%: 1 "/usr/include/stdio.h" 1 3 4': "directive: '%: 1",
    '#ident "a"': "directive: '#ident",
    "#sccs": "directive: '#sccs",
    "#unassert a": "directive: '#unassert",
}


@pytest.mark.parametrize("line", REFUSED_LINES)
def test_lint_refuses_lines_that_read_other_files(line):
    assert [found for found in lint_text(f"{line}\n", "k.h") if REFUSED_LINES[line] in f"{found.rule}: {found.message}"]


# A kernel that includes headers with inline assembly, but contains none.
PLAIN = """#include <cstdio>
#include <cstdint>
#define NAME(part) section_##part
#define STRING(x) #x
#pragma GCC optimize("O3")
[[nodiscard]] int NAME(asm_)(int alias) { return alias / 1'000; }  // asm
const char text[] = "asm(\\"nop\\")" R"(asm)" STRING(asm);
int section(int x) { return x; }
int y = section(section_asm_(1));
"""
PASTE = "#define P(a, b) a##b\n"
TEXT = '".text\\n.incbin \\"/dev/zero\\"#"'
# Text hidden from lint by macros -> part of the message, which starts with the location.
ASSEMBLY = {
    "statement": (PASTE + 'void f() { P(__as, m__) volatile("syscall"); }', "2: asm: "),
    "keyword": (PASTE + 'void f() { P(a, sm)("nop"); }', "2: asm: "),
    "other keyword": (PASTE + 'void f() { P(__a, sm) goto("" :::: end); end:; }', "2: asm: "),
    "in a macro": (PASTE + '#define A P(a, sm)\n\n\n\nvoid f() { A("nop"); }', "6: asm: "),
    "top level": (PASTE + 'P(a, sm)(".incbin \\"/dev/zero\\"");', "2: asm: "),
    "label": (PASTE + f'extern "C" int f() P(__as, m__)({TEXT}); int x = f();', "2: asm: "),
    "label of a system macro": ("#include <cstdio>\nextern int __REDIRECT(f, (), getpid); int x = f();", "2: asm: "),
    "word on two lines": ('void f() { as\\\nm("nop"); }', "1: asm: "),
    "digraphs": ('%:define P(a, b) a%:%:b\nvoid f() <% P(a, sm)("nop"); %>', "2: asm: "),
    "behind a lone apostrophe": (PASTE + "#pragma x '\nvoid f() { P(a, sm)(\"nop'\"); }", "3: asm: "),
    "behind a raw string": (PASTE + 'auto t = R"(")"; void f() { P(a, sm)("nop"); }', "2: asm: "),
    "behind a number": (PASTE + "int n = 1'0; void f() { P(a, sm)(\"'\"); }", "2: asm: "),
    "renamed by #line": (PASTE + '#line 7 "/usr/include/stdio.h"\nvoid f() { P(a, sm)("nop"); }', "7: asm: "),
    "forged marker": (PASTE + 'auto t = R"(\n# 1 "/usr/include/x.h" 1 3 4\n)"; P(a, sm)("nop");', "2: string: "),
    "second forged marker": ('auto t = R"()" R"a(\n# 1 "/usr/include/x.h" 1 3 4\n)a";', "1: string: "),
    "section": (f"__attribute__((section({TEXT}))) void f() {{}}", "1: attribute: section"),
    "parentheses": (f"__attribute__((section(({TEXT})))) void f() {{}}", "1: attribute: section"),
    "scoped attribute": (f"[[gnu::section({TEXT})]] void f() {{}}", "1: attribute: section"),
    "pasted attribute": (PASTE + f"__attribute__((P(__sec, tion__)({TEXT}))) void f() {{}}", "2: attribute: "),
    "far attribute": ("__attribute__((section" + "\n" * 30 + f"({TEXT}))) void f() {{}}", "1: attribute: section"),
    "alias": (f"static void f() __attribute__((weakref({TEXT})));", "1: attribute: weakref"),
    "ident": ('#ident "a\\"\\n.incbin \\"/dev/zero"', "1: directive: "),
    "pragma": ('#define D(x) _Pragma(x)\nD("GCC pch_preprocess \\"/dev/zero\\"")', "include: pragma pch_preprocess"),
    "header without extension": ('#include "hidden"', "hidden:1: asm: "),
}


@pytest.mark.parametrize("kind", ASSEMBLY)
def test_assembly_that_macros_hide_is_refused(place, kind):
    text, words = ASSEMBLY[kind]
    (place / "hidden").write_text('void f() { as\\\nm("nop"); }', encoding="utf-8")
    source = place / "x.cpp"
    source.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        compiled(source, place, check=require_no_assembly)
    assert words in str(caught.value)
    assert str(caught.value).startswith(("x.cpp", "/")) or kind == "ident"
    assert not (place / "out" / "x.o").exists()


def test_a_source_that_was_not_checked_is_compiled_again(place):
    source = place / "x.cpp"
    source.write_text(PLAIN, encoding="utf-8")
    assert compiled(source, place) == 1
    assert compiled(source, place, check=require_no_assembly) == 1
    assert compiled(source, place, check=require_no_assembly) == 0


# Texts on which a non-linear lint takes minutes.
LONG_TEXTS = {
    name: start + piece * (200_000 // len(piece))
    for name, start, piece in [
        ("comments", "", "/* /"),
        ("conditions", "TILING_KEY_IS(1)", "if ("),
        ("branches", "if (TILING_KEY_IS(1))", "if (TILING_KEY_IS(1)) {"),
        ("initializers", "int a = ", "{"),
        ("colons", "int a = ", "b ? c : "),
        ("sums", "constexpr int a = 1", " + 1"),
        ("signs", "constexpr int a = ", "- "),
        ("products", "constexpr int a = 99", " * 99"),
        ("brackets", "int a", "[2]"),
        ("templates", "template <", "a<"),
        ("many templates", "", "template <int> "),
        ("spaces", "#define a", " "),
        ("splices", "#", "\\\n"),
        ("quotes", "", '"'),
        ("apostrophes", "0", "'a"),
        ("stars", "", "a (*"),
        ("qualified", "", "a::"),
        ("namespaces", "", "namespace a {"),
        ("classes", "", "class a {"),
        ("directives", "", "#\n"),
        ("arrays", "", "int a[2][2][2];\n"),
    ]
}


LONG_TEXTS["raw strings"] = 'R"(' * 300_000
LONG_TEXTS["raw strings with fences"] = 'R"a(' * 250_000


@pytest.mark.parametrize("name", LONG_TEXTS)
def test_lint_ends(opforge, tmp_path, name):
    source = tmp_path / "k.h"
    source.write_text(LONG_TEXTS[name], encoding="utf-8")
    done = opforge("lint", source, cwd=tmp_path)
    assert done.returncode in {0, 1}
    assert done.stderr == ""


def test_lint_rejects_a_program(opforge, tmp_path):
    (tmp_path / "k.asc").write_text("// int main()\nint main() {}\n")
    done = opforge("lint", tmp_path / "k.asc", cwd=tmp_path)
    assert done.returncode == 2
    assert "k.asc: got a program with main(), expected a kernel source without host code" in done.stderr


def _pipe(path):
    os.mkfifo(path)


# Other contents of a kernel source -> part of the message.
NO_SOURCES = {
    "pipe": (_pipe, "got a pipe"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "got a device"),
    "folder": (Path.mkdir, "got a directory"),
    "long": (lambda path: path.write_bytes(b" " * (2 << 20)), "expected at most 1048576"),
    "no text": (
        lambda path: path.write_bytes(b"\xff\xfe"),
        ":1: got byte 0xff, expected a kernel source (.h, .cpp) in UTF-8; save",
    ),
    "absent": (lambda _path: None, "No such file or directory"),
    "ring": (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
}


@pytest.mark.parametrize("kind", NO_SOURCES)
def test_lint_reads_regular_files_only(tmp_path, kind):
    make, words = NO_SOURCES[kind]
    make(tmp_path / "k.h")
    with pytest.raises(UserError) as caught:
        lint_files([tmp_path / "k.h"])
    assert words in str(caught.value)


def test_lint_names_long_paths_and_nuls():
    for path in ("x" * 300, "x/" * 3000, "a\0b"):
        with pytest.raises(UserError, match="cannot read the kernel source"):
            lint_files([Path(path)])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../../outside.h", "outside of the project"),
        ("link.h", "outside of the project"),
        ("pipe.h", "got a pipe"),
        ("device.h", "outside of the project"),
        ("latin.h", "UTF-8"),
    ],
)
def test_headers_of_kernels_are_files_of_the_project(tmp_path, name, words):
    kernels = tmp_path / "project" / "op_kernel"
    kernels.mkdir(parents=True)
    (tmp_path / "outside.h").write_text("\n", encoding="utf-8")
    (kernels / "link.h").symlink_to(tmp_path / "outside.h")
    (kernels / "device.h").symlink_to("/dev/zero")
    (kernels / "latin.h").write_bytes(b"// \xe9\n")
    os.mkfifo(kernels / "pipe.h")
    (kernels / "b.h").write_text(f'#include "{name}"\n', encoding="utf-8")
    (kernels / "a.h").write_text('#include "b.h"\n', encoding="utf-8")
    for check in (
        lambda: require_clean(Project(tmp_path / "project"), ["a"], tmp_path / "home"),
        lambda: lint_files([kernels / "a.h"]),
    ):
        with pytest.raises(UserError) as caught:
            check()
        assert words in str(caught.value)


# A pipe in place of a file of a project -> part of the message of `opforge build`.
PIPES = ("op_host/x.h", "op_host/sub/x.cpp", "op_kernel/x.h", "op_kernel/common/x.hpp", "op_plugin/x.h")


@pytest.mark.parametrize("name", PIPES)
def test_build_refuses_pipes_before_it_compiles(tmp_path, name):
    project = tmp_path / "clip"
    new_project("Clip", project, "elementwise")
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(project / name)
    done = subprocess.run(
        [OPFORGE, "build"],
        cwd=project,
        env=os.environ | {"CXX": "false"},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines() == [
        f"{project / name}: got a pipe, device or socket, expected a regular file; remove it"
    ]
    assert not (project / "build").exists()
