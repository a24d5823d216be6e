"""Test the lint of kernels: each rule with a rejected line and a similar accepted line."""

import json
import subprocess
import sys

import pytest

from opforge.codegen.errors import UserError
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.twin.lint.cpp_tokens import tokens_of
from opforge.twin.lint.kernel_lint import kernel_files, lint_files, lint_text, require_clean

# rule -> [(rejected line, similar accepted line)], in the body of a kernel function
IN_FUNCTION = {
    "std": [
        ("int32_t a = std::min(b, c);", "int32_t a = AscendC::ToFloat(b) < c ? b : c;"),
        ("::std::swap(a, b);", "// std::swap(a, b);"),
        ("auto a = std::remove(b, c, 1);", "std::remove_cv_t<float> a = b;"),
        ("std::vector<int32_t> a;", "if constexpr (std::is_same_v<T, float> || std::is_integral<T>::value) { a(); }"),
        ("std::is_sorted(a, b);", "std::conditional_t<std::is_same<T, half>::value, float, std::uint8_t> a = 1;"),
        ("auto a = std :: max(b, c);", 'const char* a = "std::max";'),
    ],
    "c-function": [
        ("memcpy(a, b, 4);", "a.memcpy(b, 4);"),
        ("void* a = malloc(4);", "int32_t malloc = 4;"),
        ("::memcpy(a, b, 4);", "Pool::memcpy(a, b, 4);"),
        ("return ::free(a);", "return Pool<T>::free(a);"),
        ("abort();", "assert(a > 0);"),
        ("float a = sqrtf(b);", "float a = sqrt(b);"),
        ("__builtin_memcpy(a, b, 4);", "float a = __builtin_huge_valf();"),
    ],
    "double": [
        ("double a = b;", "float a = b;"),
        ("float a = static_cast<double>(b) + c;", "bool a = std::is_same_v<T, double>;"),
        ("float a = (double)b;", "COPY(double);"),
        ("const double* a = b;", "const double a = 3.5;"),
        ("float a = b * 1.0;", "float a = 1.0;"),
        ("float a = b * 1e3;", "float a = b * 1e3f + 0x1e3 + 1000;"),
        ("float a = .5 - b;", "float a = -.5;"),
        ("float a = 1'000.5 / b;", "int32_t a = 1'000;"),
        ("a += 0.5;", "F(a, 0.5, -0.5);"),
        ("if (a > 0.0) { F(); }", "if (a > 0.0f) { F(); }"),
        ("float a = c ? 1.0 : b;", "return 127.0;"),
        ("auto a = 0.5;", "half a = static_cast<half>(0.5);"),
        ("float a = (b) - 1.0;", "float a = (float)-1.0 / b + T(1.0) - (half)0.5;"),
        ("auto a{0.5};", "auto a{0.5f};"),
        ("const auto a(-0.5);", "const auto a = F(0.5);"),
        ("using R = double; R a = b;", "using R = double; F<R>(a);"),
        ("using R = double; float a = static_cast<R>(b) + c;", "using R = double; constexpr R pi = 3.14;"),
        ("using R = double; const R pi = 3.14; float a = b * pi;", "using R = float; R a = b;"),
        ("using R = double; float a = R(b);", "using R = double; template <typename R> R F(R a);"),
        ("const double pi = 3.14; float a = b * pi;", "const double pi = 3.14; float a = pi;"),
        ("float a = b * 0.5;", "constexpr float a = n * 0.5;"),
        ("if constexpr (n > 0) { a = b * 0.5; }", "float a = 1.0 / 6.0;"),
    ],
    "new": [("auto* a = new int32_t;", "int32_t renew = 1;")],
    "delete": [("delete a;", "int32_t deleted = 1;")],
    "throw": [("throw 1;", "int32_t throwing = 1;")],
    "try": [("try { a(); }", "int32_t tries = 1;")],
    "catch": [("catch (...) { }", "int32_t catches = 1;")],
    "typeid": [("auto a = typeid(b);", "int32_t typeids = 1;")],
    "dynamic_cast": [("auto* a = dynamic_cast<B*>(b);", "auto* a = static_cast<B*>(b);")],
    "thread_local": [("thread_local int32_t a = 1;", "int32_t a = 1;")],
    "static": [
        ("static int32_t a = 1;", "static constexpr int32_t a = 1;"),
        ("static float a[8];", "static const float a[8] = {};"),
        ("static const float* a = b;", "static const float* const a = b;"),
        ("static struct { int32_t a; } b;", "struct { int32_t a; } b;"),
    ],
    "asm": [('asm("nop");', "int32_t assembled = 1;"), ],
    "__asm__": [('__asm__ volatile("nop");', "int32_t a = 1;")],
    "function-pointer": [
        ("void (*a)(int32_t) = b;", "c = a * (*b);"),
        ("float (*a[2])(int32_t);", "float (*a)[2] = b;"),
        ("int32_t (A::*a)() = b;", "return (*a)(b);"),
        ("auto* (*a)(float*) = b;", "(*this)(a);"),
    ],
    "stack": [
        ("float a[1025];", "float a[1024];"),
        ("int64_t a[64][9];", "int64_t a[64][8];"),
        ("constexpr int32_t n = 8 * 256; half a[n + 1];", "constexpr int32_t n = 8 * 256; half a[n];"),
        ("uint8_t a[1 << 13] = {};", "const float b = a[5000];"),
    ],
    "parentheses": [
        ("if (ASCEND_IS_AIV) { a(); }", "if ASCEND_IS_AIV { a(); }"),
        ("if (!ASCEND_IS_AIC) { a(); }", "if ASCEND_IS_AIC { a(); }"),
    ],
    "tiling-key": [
        ("if (TILING_KEY_IS(1)) { a(); } else { b(); }",
         "if (TILING_KEY_IS(1)) { a(); } else if (TILING_KEY_IS(2)) { b(); }"),
        ("if (TILING_KEY_IS(1)) a(); else b();", "if (c) { if (TILING_KEY_IS(1)) { a(); } } else { b(); }"),
        ("if (TILING_KEY_IS(1)) { a(); } else if (c) { b(); }",
         "if (TILING_KEY_IS(1)) { a(); } else if (c && TILING_KEY_IS(2)) { b(); }"),
    ],
    "api": [
        ("AscendC::DataCopyy(a, b, 64);", "AscendC::Std::min(a, b);"),
        ("AscendC::DisableDmaAtomic();", "AscendC::SetAtomicNone();"),
        ("DisableDmaAtomic();", "a.DisableDmaAtomic();"),
        ("opforge::twin::kernel::BlockIndex();", "opforge::kernel::BlockIndex();"),
    ],
}  # fmt: skip
# rule -> [(rejected, accepted)] outside of functions
OUTSIDE = {
    "aicore": [
        ("inline void F() { }", "__aicore__ inline void F() { }"),
        ("template <typename T, int32_t n = (3 > 2)>\nvoid F(T a)\n{\n}",
         "template <typename T>\n__aicore__ void F(T a)\n{\n}"),
        ("FIELDS(int32_t, a); void F();", "FIELDS(int32_t, a); struct A { FIELD_OF(int32_t, a); uint64_t (*b)[8]; };"),
        ("#define HOST inline\nHOST void F() { }", "#define OWN __aicore__ inline\nOWN void F() { }"),
        ("constexpr int32_t F() { return 1; }", "__aicore__ inline constexpr int32_t F() { return 1; }"),
        ("class A { void F(); };", "class A { __aicore__ void F(); };"),
        ("struct A { A() : b_{1} { } int32_t b_; };", "struct A { __aicore__ A() : b_{1} { } int32_t b_; };"),
        ("struct A { int32_t operator()(int32_t a) { return a; } };",
         "struct A { __aicore__ int32_t operator()(int32_t a) { return a; } A() = default; A(const A&) = delete; };"),
        ('extern "C" __global__ void k(GM_ADDR x) { }', 'extern "C" __global__ __aicore__ void k(GM_ADDR x) { }'),
        ("__global__ void k(GM_ADDR x) { }", "__global__ __vector__ void k(GM_ADDR x) { }"),
        ("__global__ void k(GM_ADDR x) { }", "__global__ __mix__(1, 2) void k(GM_ADDR x) { }"),
    ],
    "static": [
        ("int32_t counter;", "constexpr int32_t kCounter = 1;"),
        ("float table[3] = {1.0f, 2.0f, 3.0f};", "constexpr float kTable[3] = {1.0f, 2.0f, 3.0f};"),
        ("namespace a { int32_t counter{0}; }", "namespace a { struct B; using C = B; enum D { kE = 1 }; }"),
        ('const char* names[] = {"a"};', 'const char* const kNames[] = {"a"};'),
        ("Box<const int32_t> box;", "const Box<int32_t*> kBox = 1;"),
        ("struct { int32_t a; } state;", "struct A { int32_t a; };"),
        ("__gm__ float* words;", "static volatile __gm__ uint32_t words[16] = {0};"),
        ("enum { kA } state;", "constexpr struct { int32_t a; } kState = {1};"),
        ("struct A { static int32_t counter; };", "struct A { static constexpr int32_t kCounter = 1; int32_t own; };"),
    ],
    "function-pointer": [
        ("using F = void (*)(int32_t);", "using F = float[2];"),
        ("typedef const A& (*F)(int32_t);", "typedef float F;"),
        ("struct A { void (*f)(int32_t); };", "template <typename T, void (T::*f)(int32_t), void (*g)()> class A { };"),
("struct A { float (*f)(int32_t); };", "__aicore__ inline void F(void (*a)(int32_t)) { }"),
    ],
    "stack": [
        ("struct A { float a[2000]; };", "struct A { float a[20]; };"),
        ("__aicore__ void F() { float a[2000]; }", "__aicore__ void F() { __ubuf__ float a[2000]; }"),
    ],
    "api": [
        ("namespace Own { class Sum; } using A = AscendC::Sumx;",
         "namespace AscendC { template <typename T> class Sumx { }; } using A = AscendC::Sumx<float>;"),
        ("namespace AscendC { class A { class Sumx; }; } using B = AscendC::Sumx;",
         "namespace AscendC::Own { enum class E { kA }; } namespace AscendC { using Own::E; } using B = AscendC::E;"),
        ("__aicore__ inline void F() { AscendC::Totall(); }",
         "namespace AscendC { namespace { __aicore__ inline void Totall() { } constexpr int32_t kN = 1; } }\n\
__aicore__ inline void F() { AscendC::Totall(); F(AscendC::kN); }"),
    ],
    "c-function": [
        ("__aicore__ inline void F() { ceil(1); }",
         "__aicore__ inline int ceil(int a, int b) { return a / b; } __aicore__ inline void F() { ceil(1, 2); }"),
    ],
    "virtual": [("struct A { virtual __aicore__ void F(); };", "struct A { __aicore__ void F(); };")],
    "include": [
        ("#include <vector>", "#include <cstdint>\n#include <type_traits>"),
        ('#include "opforge_twin/kernel/runtime.h"', '#include "kernel_operator.h"'),
        ("#  include <cstdlib> // why", "// #include <cstdlib>"),
    ],
    "std": [
        ("#define SMALLER(a, b) \\\n    std::min(a, b)", "#define STD(a) a"),
        ('const auto kRaw = R"x(")x"; using A = std::byte;', 'constexpr auto kRaw = R"x(" std::byte )" )x";'),
    ],
}  # fmt: skip


def _cases(table):
    return [
        pytest.param(rule, *pair, id=f"{rule}-{n}") for rule, pairs in table.items() for n, pair in enumerate(pairs)
    ]


def _rules(text):
    return {found.rule for found in lint_text(text, "k.h")}


def _in_function(line):
    return '#include "kernel_operator.h"\n__aicore__ inline void F(int32_t b)\n{\n    ' + line + "\n}\n"


@pytest.mark.parametrize(("rule", "bad", "good"), _cases(IN_FUNCTION))
def test_a_line_of_a_function(rule, bad, good):
    found = lint_text(_in_function(bad), "k.h")
    assert {entry.rule for entry in found} == {rule}, found
    assert [entry.line for entry in found] == [4] * len(found)
    assert str(found[0]).startswith(f"k.h:4: {rule}: ")
    assert lint_text(_in_function(good), "k.h") == []


@pytest.mark.parametrize(("rule", "bad", "good"), _cases(OUTSIDE))
def test_a_line_outside_of_functions(rule, bad, good):
    assert _rules(bad) == {rule}
    assert _rules(good) == set()


@pytest.mark.parametrize("path", kernel_files(Project(BUILTIN_ROOT)), ids=lambda path: path.name)
def test_the_kernels_of_the_repository_are_clean(path):
    assert lint_files([path]) == []


def test_tokens_keep_their_lines():
    text = 'a /* 1\n2 */ b\n#define C(x) x \\\n    + "\\"//" // end\nR"(\n)" d\n#\n"unclosed\n\'e\' 0x1p-3f 1\'000u'
    assert [(token.kind, token.text, token.line) for token in tokens_of(text)] == [
        ("name", "a", 1),
        ("name", "b", 2),
        ("directive", '#define C(x) x + "\\"//"', 3),
        ("text", 'R"(\n)"', 5),
        ("name", "d", 6),
        ("directive", "#", 7),
        ("punctuation", '"', 8),
        ("name", "unclosed", 8),
        ("text", "'e'", 9),
        ("number", "0x1p-3f", 9),
        ("number", "1'000u", 9),
    ]


def test_any_text_is_read_to_its_end():
    for text in ("}}}} ] ) ;", "template <", "if (", "{ [ (", "#define", "/* no end", "operator", "if (TILING_KEY_IS("):
        assert isinstance(lint_text(text, "k.h"), list)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int a; /* b\n", "the comment has no end; add `*/`"),
        ("#define A /*/", "the comment has no end; add `*/`"),
        ("/* c */ /*\n/* d", "the comment has no end; add `*/`"),
        ('auto* a = R"x(b;\n)y";', 'the raw string has no end; add `)x"`'),
        ("int a; // /*\n", ""),
        ('auto* a = "/*";', ""),
        ('auto* a = R"(/*)";', ""),
        ('/* R"( */ //', ""),
    ],
)
def test_a_comment_or_raw_string_without_an_end(text, message):
    """It is the only finding of a source, in the line where it begins."""
    found = [str(entry) for entry in lint_text(f"\n\n{text}", "k.h")]
    assert [line for line in found if "unclosed" in line] == ([f"k.h:3: unclosed: {message}"] if message else [])
    assert len(found) == 1 or not message


def _project(tmp_path, header):
    kernels = tmp_path / "op_kernel"
    (kernels / "common").mkdir(parents=True)
    (kernels / "a.h").write_text('#include "common/b.h"\n', encoding="utf-8")
    (kernels / "common" / "b.h").write_text(header, encoding="utf-8")
    return Project(tmp_path)


def test_build_rejects_findings_in_included_headers(tmp_path):
    project = _project(tmp_path, "double a;\n")
    with pytest.raises(UserError, match=r"b\.h:1: double: .*; use float") as caught:
        require_clean(project, ["a"], tmp_path)
    assert str(caught.value).count("\n") == 1  # a global variable, too
    (tmp_path / "op_kernel" / "common" / "b.h").write_text("constexpr float kA = 1.0f;\n", encoding="utf-8")
    require_clean(project, ["a"], tmp_path)
    require_clean(project, ["a"], tmp_path)


@pytest.mark.parametrize(
    ("condition", "is_checked"),
    [
        ("#if __CCE_AICORE__ == 310", False),
        ("#if defined(__NPU_ARCH__) && (__NPU_ARCH__ == 3510)", False),
        ("#if !(defined(__NPU_ARCH__) && (__NPU_ARCH__ == 1001 || __NPU_ARCH__ == 2201))", False),
        ("#if __CCE_AICORE__ == 220 or __CCE_AICORE__ == 100\n#else", False),
        ("#ifndef __CCE_AICORE__", False),
        ("#if 0 < __CCE_AICORE__\n#elif X", False),
        ("#if __CCE_AICORE__ == 310\n#else", True),
        ("#if __CCE_AICORE__ >= 220", True),
        ("#if __CCE_AICORE__ == 100", True),
        ("#if __CCE_AICORE__ == 310 || X", True),
        ("#if X\n#elif !Y && __CCE_AICORE__ == 310\n#else", True),
        ("#if !__CCE_AICORE__ == 0", True),
        ("#if __CCE_AICORE__ == 310\n#endif\n#if 1", True),
        ("#define __CCE_AICORE__ 310\n#if __CCE_AICORE__ == 310", True),
        ("#if " + "(" * 5000, True),
        ("#endif\n#else", True),
    ],
)
def test_parts_for_other_architectures_are_not_checked(condition, is_checked):
    text = f"{condition}\nusing A = AscendC::Registerx;\n#define B std::string\n#include <vector>\n#endif\n"
    assert _rules(text) == ({"include", "api", "std"} if is_checked else {"include"})


def test_names_of_included_headers_are_known(tmp_path):
    """A header is also found in another operator of the same clone."""
    (tmp_path / ".git").mkdir()
    header = tmp_path / "sum" / "op_kernel" / "sum.h"
    source = tmp_path / "mean" / "op_kernel" / "mean.cpp"
    for path in (header, source):
        path.parent.mkdir(parents=True)
    header.write_text("namespace AscendC { class Sumx { }; }\n")
    source.write_text('#include "../../sum/op_kernel/sum.h"\nusing A = AscendC::Sumx;\nusing B = AscendC::Meanx;\n')
    assert [(found.line, found.rule) for found in lint_files([source])] == [(3, "api")]


@pytest.mark.parametrize("as_json", [True, False])
def test_command_lists_findings_as_text_and_json(tmp_path, as_json):
    source = _project(tmp_path, "inline void F() { }\n").root / "op_kernel" / "common" / "b.h"
    command = [
        sys.executable,
        "-c",
        "from opforge.cli.main import main; main()",
        "lint",
        str(source),
        *(["--json"] if as_json else []),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    finding = f"{source}:1: aicore: F() is a function of the host; write `__aicore__ inline` before it\n"
    assert done.returncode == 1
    if as_json:
        assert done.stderr == finding
        assert [found["rule"] for found in json.loads(done.stdout)["findings"]] == ["aicore"]
    else:
        assert [done.stdout, done.stderr] == [finding, ""]
    missing = subprocess.run([*command[:4], str(tmp_path / "none.h")], capture_output=True, text=True, check=False)
    assert [missing.returncode, missing.stdout] == [2, ""]
